"""Jobs: what takes longer than a look (check, fit, compare, validate, profile, plan), as its command does it, and what is shown
of its answer."""

from __future__ import annotations

import dataclasses
import math
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.estimate.estimate import Estimate, Validation
from dynident.io.problem_file.read import ProblemFile, problem_from_text
from dynident.problem.problem import given_std
from dynident.report.result_table import (
    convergence,
    extent,
    fits,
    interval_heading,
    interval_meaning,
    method_name,
    noise_levels,
    result_rows,
)
from dynident.report.sections.residuals import MOST_LAGS_DRAWN
from dynident.report.terminal import effort
from dynident.solvers.solver_result import Iteration
from dynident.statistics.residual_tests import autocorrelation, cross_correlation, residual_tests
from dynident.statistics.uncertainty import LEVEL
from dynident.statistics.verdict import Verdict
from dynident.workbench.wire import Message, Notify

if TYPE_CHECKING:
    from dynident.design.plan import Plan
    from dynident.problem.experiment import Experiment
    from dynident.statistics.profile_likelihood import Profile

MAX_DRAWN_POINTS = 2000  # of a planned signal that is drawn; more are taken at even distances
BETWEEN_TOLD = 0.05  # s; the page is told at most so often where the search is
Trust = bool | Sequence[str]  # which code may be run: all, none, or that of these SHA-256 sums


def fit(text: str, file: str, folder: str, allow_outside: bool, allow_code: Trust, tell: Notify) -> Message:
    """Fit and keep the result in the folder, by the same function as `dynident fit`."""
    from dynident.io.results.fit_folder import fit_to_folder

    said = _said(text, file, allow_outside, allow_code)
    tell({"event": "began", "names": list(said.problem.names)})
    estimate, interrupted = fit_to_folder(said, _method(said), Path(folder), text.encode(), Iterations(tell), Path(file).name)
    return {"details": details(estimate, interrupted)}, b""


def check_problem(text: str, file: str, allow_outside: bool, allow_code: Trust, tell: Notify) -> Message:
    """What `dynident check` finds, a finding at a time."""
    from dynident.design.design_input import check_table
    from dynident.methods.presets import plain_method
    from dynident.verbs.check import check

    said = _said(text, file, allow_outside, allow_code)
    found = check(said.problem)
    (_method(said) or plain_method(said.problem)).check_supports(said.problem)
    if said.design:
        check_table(said.problem, said.design)
    findings = [{"severity": f.severity, "subject": f.subject, "says": f.sentence, "advice": f.advice} for f in found.findings]
    return {"check": {"ok": found.ok, "findings": findings, "says": str(found).splitlines()[0]}}, b""


def compare_methods(text: str, file: str, methods: list[str], allow_outside: bool, allow_code: Trust, tell: Notify) -> Message:
    """The table that `dynident compare` prints."""
    from dynident.verbs.compare import compare

    said = _said(text, file, allow_outside, allow_code)
    tell({"event": "began", "names": list(said.problem.names)})
    found = compare(said.problem, methods, progress=Iterations(tell))
    return {"comparison": str(found)}, b""


def validate_result(text: str, file: str, folder: str, allow_outside: bool, allow_code: Trust, tell: Notify) -> Message:
    """A saved result on the [[validation]] records that the problem has now; added to the result and its report."""
    from dynident.io.results.fit_folder import validated
    from dynident.io.results.result_folder import AS_GIVEN, load, reserve_folder, write

    records = _said(text, file, allow_outside, allow_code).validation
    estimate = load(folder, allow_code=allow_code)
    names = {record.label for record in records}
    kept = tuple(v for v in estimate.validations if v.experiment not in names)
    estimate = validated(dataclasses.replace(estimate, validations=kept), records)
    given = Path(folder) / AS_GIVEN
    with reserve_folder(folder):
        write(estimate, folder, as_given=given.read_bytes() if given.is_file() else None)
    return {"details": details(estimate)}, b""


def profile_result(folder: str, names: list[str], allow_code: Trust, tell: Notify) -> Message:
    """Profile likelihoods of a saved result."""
    from dynident.io.results.result_folder import load
    from dynident.verbs.profile import profile

    return {"profile": profile_details(profile(load(folder, allow_code=allow_code), names or None))}, b""


def design_next(text: str, file: str, folder: str, out: str, allow_outside: bool, allow_code: Trust, tell: Notify) -> Message:
    """The input to run next, from a saved result or, without one, from the start values; written as CSV."""
    from dynident.design.design_input import plan_from_table
    from dynident.design.optimize import progress_line
    from dynident.io.results.result_folder import load

    said = _said(text, file, allow_outside, allow_code)
    known = load(folder, allow_code=allow_code) if folder else said.problem
    began = clock.monotonic()
    plan = plan_from_table(known, said.design, lambda it: tell({"event": "note", "says": progress_line(
        it, clock.monotonic() - began)}))
    path = Path(out)
    paths = [path] if len(plan.records) == 1 else [path.with_name(f"{path.stem}-{k}{path.suffix}")
                                                   for k in range(1, len(plan.records) + 1)]
    for record, one in zip(plan.records, paths, strict=True):
        record.to_csv(one)
    return {"plan": plan_details(plan) | {"files": [one.name for one in paths], "from_result": bool(folder)}}, b""


def result(folder: str, allow_code: Trust, tell: Notify) -> Message:
    """A saved result, as the page shows it."""
    from dynident.io.results.result_folder import load

    return {"details": details(load(folder, allow_code=allow_code))}, b""


class Iterations:
    """Tells the page where the search is, not more often than anybody can look."""

    def __init__(self, tell: Notify):
        self.tell, self.last, self.count = tell, 0.0, 0

    def __call__(self, iteration: Iteration) -> None:
        now = clock.monotonic()
        self.count += 1
        if now - self.last >= BETWEEN_TOLD:
            self.last = now
            self.tell({"event": "iteration", "iteration": iteration.number, "count": self.count, "cost": iteration.cost,
                       "step": iteration.step, "values": list(iteration.values), "stage": iteration.stage})


def _said(text: str, file: str, allow_outside: bool, allow_code: Trust) -> ProblemFile:
    return problem_from_text(text, Path(file), allow_outside, allow_code)


def _method(said: ProblemFile) -> Any:
    """As the command line chooses: that of the file, or the default."""
    from dynident.methods.presets import method_from

    return method_from(said.method) if said.method else None


def details(estimate: Estimate, interrupted: bool = False) -> dict[str, Any]:
    """What the steps Fit and Trust show."""
    word, sentence = convergence(estimate)
    bounds = {u.name: (u.lower, u.upper) for u in estimate.problem.unknowns}
    rows = [{"name": r.name, "value": r.value, "interval": r.interval, "unit": r.unit, "remark": r.remark, "held": r.held,
             "number": r.number, "low": r.low, "high": r.high, "bounds": bounds.get(r.name)} for r in result_rows(estimate)]
    matrix = estimate.uncertainty.correlation()
    return {
        "verdict": _verdict(estimate.verdict), "rows": rows, "heading": interval_heading(estimate),
        "meaning": interval_meaning(estimate), "converged": estimate.converged, "believed": estimate.believed,
        "interrupted": interrupted, "ended": f"{word} {sentence}".strip(), "asked": extent(estimate), "cost": estimate.cost,
        "method": method_name(estimate), "effort": effort(estimate), "notes": list(estimate.notes),
        "fit": fits(estimate), "noise": {name: str(level) for name, level in noise_levels(estimate).items()},
        "values": {name: float(value) for name, value in estimate.values.items()},
        "names": list(estimate.problem.names), "correlation": None if matrix is None else matrix,
        "history": [{"iteration": i.number, "cost": i.cost, "stage": i.stage, "values": list(i.values)}
                    for i in estimate.history],
        "residuals": [part for e, r in zip(estimate.problem.experiments, estimate.residuals, strict=True)
                      for part in _residuals(e, r)],
        "validations": [_validation(v) for v in estimate.validations]}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"grade": str(verdict.grade), "colour": verdict.colour, "says": verdict.sentence, "subject": verdict.subject,
            "withholds": verdict.withholds_intervals, "parts": [_verdict(part) for part in verdict.parts]}


def _validation(validation: Validation) -> dict[str, Any]:
    return {"record": validation.experiment, "fit": dict(validation.fit), "attainable": dict(validation.attainable),
            "rmse": dict(validation.rmse), "notes": list(validation.notes),
            "verdict": None if validation.verdict is None else _verdict(validation.verdict),
            "tests": [{"passed": t.passed, "says": t.sentence} for t in validation.tests]}


def _residuals(experiment: Experiment, residuals: Any) -> list[dict[str, Any]]:
    """Per output: tests, correlation with itself and with each input, and the bands that noise keeps."""
    found = []
    inputs = {name: np.asarray(u, float) for name, u in experiment.inputs.items()}
    for name, residual in residuals.items():
        residual = np.asarray(residual, float)
        lags = min(MOST_LAGS_DRAWN, int(np.sum(np.isfinite(residual))) // 4)
        if lags < 1:
            continue
        own, band = autocorrelation(residual, lags)
        across = {u: cross_correlation(residual, values, lags) for u, values in inputs.items() if np.ptp(values) > 0}
        found.append({"record": experiment.label, "output": name, "own": own, "band": band,
                      "inputs": {u: {"correlation": c, "band": bound} for u, (c, bound) in across.items()},
                      "tests": [{"passed": t.passed, "says": t.sentence} for t in residual_tests(
                          residual, name, given_std(experiment, name), inputs)]})
    return found


def profile_details(profile: Profile) -> dict[str, Any]:
    """Each curve with its interval and what it says."""
    curves = {}
    for name, curve in profile.curves.items():
        low, high = profile.interval(name, LEVEL)
        curves[name] = {"values": curve.values, "rise": curve.rise, "low": low, "high": high,
                        "linearised": profile.base.interval(name, LEVEL), "says": profile.identifiability(name),
                        "partners": list(profile.partners(name))}
    return {"curves": curves, "text": str(profile), "level": LEVEL}


def plan_details(plan: Plan) -> dict[str, Any]:
    """Predicted intervals before and after, how the limits are used, and the signals."""
    rows = [{"name": name, "value": plan.values[name], "before": plan.std_before[name], "after": after,
             "unit": plan.units.get(name, ""), "sharper": plan.std_before[name] / after if after > 0 and math.isfinite(
                 plan.std_before[name]) else None} for name, after in plan.std_after.items()]
    limits = [{"says": use.text, "least": use.least, "most": use.most, "holds": use.holds} for use in plan.constraints]
    records = []
    for record in plan.records:
        every = max(1, math.ceil(len(record.time) / MAX_DRAWN_POINTS))
        records.append({"name": record.name, "time": record.time[::every],
                        "inputs": {n: np.asarray(v)[::every] for n, v in record.inputs.items()},
                        "outputs": {n: np.asarray(v)[::every] for n, v in record.outputs.items()}})
    return {"rows": rows, "limits": limits, "records": records, "converged": plan.converged, "says": plan.status,
            "notes": list(plan.notes), "criterion": plan.criterion, "text": str(plan)}
