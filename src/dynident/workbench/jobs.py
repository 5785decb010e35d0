"""Jobs: what takes longer than a look: check, fit, compare, validate, profile and plan, each as its command does it."""

from __future__ import annotations

import dataclasses
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynident.io.problem_file.read import ProblemFile, problem_from_text
from dynident.solvers.solver_result import Iteration
from dynident.workbench.details import details, plan_details, profile_details

BETWEEN_TOLD = 0.05  # s; the page is told at most so often where the search is
Answer = tuple[dict[str, Any], bytes]
Tell = Callable[[dict[str, Any]], object]


def fit(text: str, file: str, folder: str, allow_outside: bool, allow_code: bool, tell: Tell) -> Answer:
    """Fit and keep the result in the folder, by the same function as `dynident fit`."""
    from dynident.io.results.fit_folder import fit_to_folder

    said = _said(text, file, allow_outside, allow_code)
    tell({"event": "began", "names": list(said.problem.names)})
    estimate, interrupted = fit_to_folder(said, _method(said), Path(folder), text.encode(), Iterations(tell))
    return {"details": details(estimate, interrupted)}, b""


def check_problem(text: str, file: str, allow_outside: bool, allow_code: bool, tell: Tell) -> Answer:
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


def compare_methods(text: str, file: str, methods: list[str], allow_outside: bool, allow_code: bool, tell: Tell) -> Answer:
    """The table that `dynident compare` prints."""
    from dynident.verbs.compare import compare

    said = _said(text, file, allow_outside, allow_code)
    tell({"event": "began", "names": list(said.problem.names)})
    found = compare(said.problem, methods, progress=Iterations(tell))
    return {"comparison": str(found)}, b""


def validate_result(text: str, file: str, folder: str, allow_outside: bool, allow_code: bool, tell: Tell) -> Answer:
    """A saved result on the [[validation]] records that the problem has now; added to the result and its report."""
    from dynident.io.results.fit_folder import validated
    from dynident.io.results.result_folder import AS_GIVEN, load, reserved, write

    records = _said(text, file, allow_outside, allow_code).validation
    estimate = load(folder, allow_code=allow_code)
    names = {record.label for record in records}
    kept = tuple(v for v in estimate.validations if v.experiment not in names)
    estimate = validated(dataclasses.replace(estimate, validations=kept), records)
    given = Path(folder) / AS_GIVEN
    with reserved(folder):
        write(estimate, folder, as_given=given.read_bytes() if given.is_file() else None)
    return {"details": details(estimate)}, b""


def profile_result(folder: str, names: list[str], allow_code: bool, tell: Tell) -> Answer:
    """Profile likelihoods of a saved result."""
    from dynident.io.results.result_folder import load
    from dynident.verbs.profile import profile

    return {"profile": profile_details(profile(load(folder, allow_code=allow_code), names or None))}, b""


def design_next(text: str, file: str, folder: str, out: str, allow_outside: bool, allow_code: bool, tell: Tell) -> Answer:
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


def result(folder: str, allow_code: bool, tell: Tell) -> Answer:
    """A saved result, as the page shows it."""
    from dynident.io.results.result_folder import load

    return {"details": details(load(folder, allow_code=allow_code))}, b""


class Iterations:
    """Tells the page where the search is, not more often than anybody can look."""

    def __init__(self, tell: Tell):
        self.tell, self.last, self.count = tell, 0.0, 0

    def __call__(self, iteration: Iteration) -> None:
        now = clock.monotonic()
        self.count += 1
        if now - self.last >= BETWEEN_TOLD:
            self.last = now
            self.tell({"event": "iteration", "iteration": iteration.number, "count": self.count, "cost": iteration.cost,
                       "step": iteration.step, "values": list(iteration.values), "stage": iteration.stage})


def _said(text: str, file: str, allow_outside: bool, allow_code: bool) -> ProblemFile:
    return problem_from_text(text, Path(file), allow_outside, allow_code)


def _method(said: ProblemFile) -> Any:
    """As the command line chooses: that of the file, or the default."""
    from dynident.methods.presets import method_from

    return method_from(said.method) if said.method else None
