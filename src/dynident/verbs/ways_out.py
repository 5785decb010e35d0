"""Ways out: what to do about a fit, or a prediction, that leaves more than noise?

Each is offered where the numbers allow it: a bound is named where an unknown lies on it, records are doubted where there are
several, a smoother is offered where a model has rates that may err. A test follows each of them to a better grade.
"""

from __future__ import annotations

from dataclasses import replace

from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.statistics.verdict import GO_ON, Cause, Grade, Verdict

REMAINS = (Grade.SMALL_REMAINDER, Grade.ROUGH, Grade.NOT)
MISSED = (Cause.STRUCTURE, Cause.STRUCTURE_OR_MINIMUM)
MOST_NAMES = 3  # of unknowns on bounds; more are counted


def suspects(estimate: Estimate) -> list[str]:
    """What beside the equations may keep a model from its records: bounds that hold, and one value for several records."""
    held = bounds_that_hold(estimate)
    found = [f"the bound{'s' if len(held) > 1 else ''} of {_listed(held)}"] if held else []
    return found + (["a value that differs between the records"] if shares_values(estimate) else [])


def bounds_that_hold(estimate: Estimate) -> list[str]:
    """Unknowns on their bounds."""
    linearized = estimate.uncertainty.linearized
    return [] if linearized is None else [name for name in linearized.active if name in estimate.problem.names]


def shares_values(estimate: Estimate) -> bool:
    """Whether several records have unknowns in common."""
    return len(estimate.problem.experiments) > 1 and any(len(unknown.experiments) > 1 for unknown in estimate.problem.unknowns)


def with_way_out(estimate: Estimate, verdict: Verdict) -> Verdict:
    """The verdict on a fit, with what to try about a remainder that is no noise."""
    if verdict.grade not in REMAINS or verdict.cause not in MISSED:
        return verdict
    said, held, model = [], bounds_that_hold(estimate), estimate.problem.model
    if held:
        said.append(f"widen the bound{'s' if len(held) > 1 else ''} of {_listed(held)}, if values beyond are possible")
    if shares_values(estimate):
        said.append("fit each record alone: where that is to the noise, a value differs between them (shared=False)")
    if isinstance(model, EquationModel) and model.states and not model.hybrid and estimate.smoothed is None:
        said.append("boundary_value() shows which rate errs, and when")
    return replace(verdict, sentence=f"{verdict.sentence} {GO_ON}{'; '.join(said)}.") if said else verdict


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def with_way_out_of_validation(verdict: Verdict, fit: Verdict) -> Verdict:
    """The verdict on a record that was not fitted, with what to do next where it is not predicted to the noise."""
    if verdict.grade not in REMAINS or verdict.cause is Cause.DIVERGES:
        return verdict
    if fit.grade in (Grade.ROUGH, Grade.NOT):
        said = f"The fit itself was graded {fit.grade}: mend that first."
    else:
        said = "Fit both records together: a right model follows both with the same values."
    return replace(verdict, sentence=f"{verdict.sentence} {said}")
