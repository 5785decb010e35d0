"""Status: why did a run end, as a code that a program branches on and as words that a person reads?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class StatusCode(StrEnum):
    """How a fit, a filter, a proof or the solution of a boundary value problem ended."""

    # an optimum, or all that there is to find
    CONVERGED = "converged"
    CONVERGED_IDENTIFIABLE = "converged_identifiable_directions"  # the data say nothing about the others
    CONVERGED_NO_PROGRESS = "converged_no_progress"  # no step helps, and none is needed
    CONVERGED_ROUTES_AGREE = "converged_routes_agree"  # no solver came to its own end, but several stopped at the same place
    CONVERGED_PERTURBED_START = "converged_from_perturbed_start"  # zero sensitivity at the start that was given
    CONVERGED_BESIDE_SADDLE = "converged_beside_a_saddle"  # the first end was one: the cost falls beside it
    CONVERGED_LIMIT_CASE = "converged_limit_case"  # the minimum lies at infinity, and the limit follows the data
    FILTERED = "filtered"
    FILTERED_INCONSISTENT = "filtered_inconsistent"  # the innovations are not as predicted
    FILTERED_UNJUDGED = "filtered_unjudged"  # too few samples for a test
    ENCLOSED = "enclosed"
    ENCLOSED_BOX_LIMIT = "enclosed_box_limit"  # more boxes may exclude more
    REFUTED = "refuted"  # proved: no values explain the data
    # either
    SIMULATION_NOISE = "simulation_noise"  # the simulation's own noise hides whether a step helps
    # no optimum
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    SIMULATOR_LOST = "simulator_lost"
    DIVERGED = "diverged"  # simulations leave the finite numbers
    START_DIVERGED = "start_diverged"  # one of several starts, at which the model is not finite
    START_REFUSED = "start_refused"  # one of several starts, from which the method does not search, for the reason it says
    NO_PROGRESS = "no_progress"  # no step helps, although the gradient is not zero
    UNSTABLE_RECORD = "unstable_record"  # differences grow along it beyond what numbers of 16 digits can follow
    WANDERING = "wandering"  # directions that the data do not determine
    INFEASIBLE_CONSTRAINTS = "infeasible_constraints"
    PIECEWISE_CONSTANT = "piecewise_constant"  # zero derivative, but an effect
    UNBOUNDED_MINIMUM = "unbounded_minimum"
    NOISE_NOT_CONVERGED = "noise_not_converged"
    INTEGRATOR_WRONG = "integrator_wrong"  # an independent integrator gives another trajectory
    SOLVER_FAILED = "solver_failed"  # in the words of an external solver
    NOT_A_MINIMUM = "not_a_minimum"  # a root of the necessary conditions
    OUTSIDE_BOUNDS = "outside_bounds"
    SINGULAR = "singular"  # a Jacobian that cannot be solved
    MESH_LIMIT = "mesh_limit"
    INNER_LOOP_FAILED = "inner_loop_failed"
    FILTER_DIVERGED = "filter_diverged"
    FILTER_STOPPED = "filter_stopped"
    UNKNOWN = "unknown"  # of results that say it in words only


# The clause of each code, as it goes on after "Converged" or "stopped".
CLAUSES: Mapping[StatusCode, str] = {
    StatusCode.CONVERGED: "after {spent}",
    StatusCode.CONVERGED_IDENTIFIABLE: "after {spent}, in all identifiable directions",
    StatusCode.CONVERGED_NO_PROGRESS: "where no step {helps} any more",
    StatusCode.CONVERGED_ROUTES_AGREE: ("to {room:.2g} in chi-square, within which {count} fits stopped without coming to an "
                                        "end of their own"),
    StatusCode.CONVERGED_PERTURBED_START: "{reason} (restarted from a perturbed {names}: zero sensitivity at the given start)",
    StatusCode.CONVERGED_BESIDE_SADDLE: "{reason} (restarted beside a saddle, along {names})",
    StatusCode.CONVERGED_LIMIT_CASE: "{reason}, limit case: {names} unbounded",
    StatusCode.SIMULATION_NOISE: ("after {spent} at the limit of the simulation's own noise, which hides steps of {hidden:.1g} "
                                  "standard errors"),
    StatusCode.ITERATION_LIMIT: "at the limit of {spent}",
    StatusCode.INTERRUPTED: "by the user",
    StatusCode.SIMULATOR_LOST: "because {why}",
    StatusCode.DIVERGED: "{reason}; where it stopped {why}, so that the values below are those of the start",
    StatusCode.NO_PROGRESS: "where no step {helps}{beyond}",
    StatusCode.UNSTABLE_RECORD: ("{reason}; the model is unstable along '{record}': a difference between two states grows "
                                 "{growth:.0e}-fold from its first sample to its last, which numbers of 16 digits cannot "
                                 "follow. Cut it by Experiment.window into records of {seconds:.2g} s, which begin with "
                                 "states of their own"),
    StatusCode.SINGULAR: "where the linearised problem cannot be solved: its entries are too large or too small",
    StatusCode.WANDERING: "where the data do not hold all unknowns",
    StatusCode.INFEASIBLE_CONSTRAINTS: "because no point was found that meets all constraints{why}",
    StatusCode.PIECEWISE_CONSTANT: ("because {names} has a piecewise constant effect: its derivative is zero, so no step "
                                    "can tell where it belongs. {ways_out}"),
    StatusCode.UNBOUNDED_MINIMUM: ("because the minimum lies at infinity in {names}: ten times as far from the start the model "
                                   "fits as well, so there is no optimum this way. Start nearer or with other signs, or give "
                                   "bounds"),
    StatusCode.NOISE_NOT_CONVERGED: "because the estimated noise standard deviations did not converge{why}",
    StatusCode.INTEGRATOR_WRONG: ("{reason}, but {integrator} left the solution of the model: {other}, which controls its "
                                  "error, gives outputs that differ by {moved:.2g} standard errors at these values. Use "
                                  'integrator="{other}"'),
    StatusCode.SOLVER_FAILED: "after {spent} ({said}){beyond}",
    # whole sentences, of a filter
    StatusCode.FILTERED: "Filtered {samples} samples to the end; the innovations are as the filter foresaw them.",
    StatusCode.FILTERED_INCONSISTENT: ("Filtered {samples} samples to the end; the innovations are NOT as the filter "
                                       "foresaw them."),
    StatusCode.FILTERED_UNJUDGED: "Filtered {samples} samples to the end; they are too few to judge the filter.",
    StatusCode.FILTER_DIVERGED: ("Filtered {samples} samples, but the filter diverged: it no longer follows the record. Look "
                                 "at the notes on the discretization, give more process noise, start closer, or leave "
                                 "outliers out (gate)."),
    StatusCode.FILTER_STOPPED: "The filter stopped. {why}",
}
SPENT_SAID = (StatusCode.CONVERGED, StatusCode.CONVERGED_IDENTIFIABLE, StatusCode.SIMULATION_NOISE)  # clauses with the effort


class Status(str):
    """A clause or a sentence that says how a run ended; `code` says the same to a program."""

    code: StatusCode

    def __new__(cls, words: str, code: StatusCode | str = StatusCode.UNKNOWN) -> Status:
        made = super().__new__(cls, words)
        made.code = StatusCode(code)
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # for copies and other processes
        return str(self), self.code.value

    @classmethod
    def from_text(cls, words: str) -> Status:
        """The same words, with a code in any case."""
        return words if isinstance(words, Status) else cls(words)

    @classmethod
    def of(cls, code: StatusCode, **facts: Any) -> Status:
        """The clause of a code, filled in."""
        return cls(CLAUSES[code].format(**facts), code)


def fit_status(reason: Status, converged: bool, solver: str) -> Status:
    """The sentence of a fit from one start, out of the clause that says why it ended."""
    by = f" ({solver})" if solver else ""
    if converged:
        return Status(f"Converged {reason} from one start{by}.", reason.code)
    return Status(f"Did not converge: stopped {reason}{by}. The best point so far is kept.", reason.code)
