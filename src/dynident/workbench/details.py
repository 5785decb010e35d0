"""Details: an estimate, a profile and a plan as plain data for the page, in the sentences that are printed elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.estimate.estimate import Estimate, Validation
from dynident.problem.problem import given_std
from dynident.report.result_table import convergence, extent, fits, interval_heading, method_name, noise_levels, result_rows
from dynident.report.terminal import effort
from dynident.statistics.residual_tests import autocorrelation, cross_correlation, residual_tests
from dynident.statistics.uncertainty import LEVEL
from dynident.statistics.verdict import Verdict

if TYPE_CHECKING:
    from dynident.design.plan import Plan
    from dynident.problem.experiment import Experiment
    from dynident.statistics.profile_likelihood import Profile

LAGS = 40  # at most, and never more than a quarter of the record
MOST_POINTS = 2000  # of a planned signal that is drawn; more are taken at even distances


def details(estimate: Estimate, interrupted: bool = False) -> dict[str, Any]:
    """What the steps Fit and Trust show."""
    word, sentence = convergence(estimate)
    bounds = {u.name: (u.lower, u.upper) for u in estimate.problem.unknowns}
    rows = [{"name": r.name, "value": r.value, "interval": r.interval, "unit": r.unit, "remark": r.remark, "held": r.held,
             "number": r.number, "low": r.low, "high": r.high, "bounds": bounds.get(r.name)} for r in result_rows(estimate)]
    matrix = estimate.uncertainty.correlation()
    return {
        "verdict": _verdict(estimate.verdict), "rows": rows, "heading": interval_heading(estimate),
        "meaning": estimate.uncertainty.meaning, "converged": estimate.converged, "believed": estimate.believed,
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
        lags = min(LAGS, int(np.sum(np.isfinite(residual))) // 4)
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
        every = max(1, math.ceil(len(record.time) / MOST_POINTS))
        records.append({"name": record.name, "time": record.time[::every],
                        "inputs": {n: np.asarray(v)[::every] for n, v in record.inputs.items()},
                        "outputs": {n: np.asarray(v)[::every] for n, v in record.outputs.items()}})
    return {"rows": rows, "limits": limits, "records": records, "converged": plan.converged, "says": plan.status,
            "notes": list(plan.notes), "criterion": plan.criterion, "text": str(plan)}
