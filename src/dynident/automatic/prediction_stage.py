"""Prediction stage: where no simulation leaves white residuals, does noise in the model or in its inputs explain them?

Output error is tried first and is kept where nothing speaks against it. Else `prediction_error` looks for noise on the states
and behind the inputs, from the best end and from the smoother's. Where it is found, a simulation is fitted once more from the
values that belong to it: if that leaves noise alone, it was only another way to the minimum, and output error is kept. If it
leaves more, but much less than all ends before, these were no minimum that noise in the model could be told from: the ladder
goes on, and asks again at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.automatic.stages import last_fits, refit
from dynident.automatic.state import AutomaticSetup, AutomaticState, RouteEnd, StopReason
from dynident.automatic.stopping import largest_stage
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.methods.presets import method_from
from dynident.methods.start_trajectory import StartTrajectory
from dynident.tolerances import BETTER_MISFIT

OUTPUT_ERROR = "output error"
NOT_ASKED = ("Whether noise in the inputs or in the model explains what is left over was not asked: with {rows:,} samples "
             "times sub-steps that takes long. Fit a part of the record, or use prediction_error() on all of it.")
MOST_ROWS = 50_000  # samples times sub-steps; with more a search would take far longer than the ladder
ASKED_PART, LONG_RECORDS = 2500, 2  # samples of a part that is asked first; records that are as many times as long as it
PASSES, LEAST_PASSES = 3, 400  # of the filter with derivatives: times the larger of the first stages, and the least


def prediction_stage(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """With the verdict of prediction error, where the best end leaves more than noise, and no bent function of an input."""
    before, best = state, state.best
    if best is None or best.is_noise or best.belief.bent:
        return state
    if best.estimate is None:
        state = refit(setup, state, best.stage, best.begin)
    made = [end for end in state.ends if end.estimate is not None]
    first = min(made, key=lambda end: end.misfit.value, default=best).estimate
    if first is None or not _supported(setup):
        return state
    found = _found(setup, state, first)
    if isinstance(found, int):
        return replace(state, unasked_rows=found)
    if found is None:
        return state
    state = state.with_cost({key: found.counts[key] - first.counts[key] for key in ("simulations", "jacobians")})
    if found.criterion == OUTPUT_ERROR:
        return replace(state, predicted=found).with_row("prediction", before, found.notes[0])
    state = refit(setup, state, "prediction", StartTrajectory.of(found))  # along the filter's states, which follow the record
    state = state.with_row("prediction", before, str(found.status))
    if state.best is not None and (state.best.is_noise or (state.stopped is None and _far_better(state.best, best))):
        return state
    return replace(state, predicted=found, stopped=StopReason.PREDICTED)


def _far_better(end: RouteEnd, before: RouteEnd) -> bool:
    return end.misfit.better_than(before.misfit, BETTER_MISFIT)


def prediction_again(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """At the end of the ladder, where the stage was asked at ends that were no minimum."""
    asked = "prediction" in setup.stages and state.predicted is None
    if not asked or state.stopped not in (StopReason.AGREED, StopReason.EXHAUSTED, StopReason.BUDGET):
        return state
    return prediction_stage(setup, state)


def _supported(setup: AutomaticSetup) -> bool:
    """Whether it can be asked, by its own capabilities."""
    if setup.loss != "squared" or not setup.problem.model.states:  # a curve has no memory that would tell noise from misfit
        return False
    try:
        method_from("prediction_error").check_supports(setup.problem)
    except DynidentError:
        return False
    return True


def _found(setup: AutomaticSetup, state: AutomaticState, first: Estimate) -> Estimate | int | None:
    """What prediction error says, with its criterion; None where its search breaks down, and how many rows are too many."""
    from dynident.kalman.prediction_error.method import PredictionError  # a family that a plain fit does without
    from dynident.kalman.prediction_error.run import SearchLimits, TooManyRows, after_output_error

    names, starts = setup.problem.names, []
    if state.smoothed is not None:
        values = state.smoothed.course.values
        starts = [np.array([values.get(name, first.values[name]) for name in names], float)]
    method = method_from("prediction_error")
    assert isinstance(method, PredictionError)
    try:
        limits = SearchLimits(MOST_ROWS, max(LEAST_PASSES, PASSES * largest_stage(state)))
        if (part := _refused_by_a_part(setup, first, starts, limits)) is not None:
            return part
        return after_output_error(method, setup.problem, first, setup.telling("prediction error"), starts, limits)
    except TooManyRows as limited:
        return limited.rows
    except (DynidentError, np.linalg.LinAlgError):
        return None


def _refused_by_a_part(setup: AutomaticSetup, first: Estimate, starts: Sequence[np.ndarray], limits: Any
                       ) -> Estimate | None:
    """Output error's estimate, with the reason, where the begin of a long record shows that noise is not what it lacks."""
    from dynident.automatic.smoothing_route import first_parts  # loads the smoother, of which a plain fit does without
    from dynident.kalman.prediction_error.method import PredictionError
    from dynident.kalman.prediction_error.run import what_noise_does_not_explain

    problem = setup.problem
    if not LONG_RECORDS * ASKED_PART < sum(e.samples for e in problem.experiments) <= MOST_ROWS:
        return None
    part = problem.replace(experiments=first_parts(problem, ASKED_PART))
    method, tell = method_from("prediction_error"), setup.telling("prediction error of a part")
    assert isinstance(method, PredictionError)
    try:
        fit = last_fits(replace(setup, problem=part), StartTrajectory.of(first))[0](tell)
        why, passes = what_noise_does_not_explain(method, part, fit, tell, starts, limits)
    except (DynidentError, np.linalg.LinAlgError):
        return None
    if not why:
        return None
    rows = sum(e.samples for e in part.experiments)
    note = ("Criterion: output error, because noise of states or inputs does not explain what is left over: asked of the first "
            f"{rows:,} samples, it {why}.")
    counts = {key: sum(each.get(key, 0) for each in (first.counts, fit.counts, passes)) for key in ("simulations", "jacobians")}
    return replace(first, criterion=OUTPUT_ERROR, notes=(note, *first.notes), counts={**first.counts, **counts})


def predicted_estimate(state: AutomaticState) -> Estimate:
    """The estimate by prediction error, with the way that led there; noise is not told from a lack of the model."""
    found = state.predicted
    assert found is not None
    why = found.notes[0].partition("because ")[2]
    reason = (f"For prediction from sample to sample, not for simulation: {why} Only another record tells noise from what the "
              "model lacks.")
    return replace(found, belief_reason=reason, stages=state.trail, arrived_by="prediction",
                   counts={**found.counts, **state.spent})
