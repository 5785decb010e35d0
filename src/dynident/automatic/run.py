"""Run: climb the ladder until an end is believed, and make the estimate of the best one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynident.automatic.belief import BeliefLevel, believe
from dynident.automatic.prediction_stage import (
    NOT_ASKED,
    OUTPUT_ERROR,
    predicted_estimate,
    prediction_again,
    prediction_stage,
)
from dynident.automatic.simulation_route import start_of, with_start
from dynident.automatic.stages import plain, refit
from dynident.automatic.state import AutomaticSetup, AutomaticState, RouteEnd, StopReason, best_of
from dynident.automatic.stopping import (
    CURVE_ROUNDS_AGREE,
    ROUTES_AGREE,
    believe_best,
    noise_suffices,
    routes_differ,
    set_limit,
    stop,
)
from dynident.errors import DynidentError, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.methods.outer_loop import OuterLoop
from dynident.solvers.solver_result import Iteration
from dynident.status import Status, StatusCode, fit_status
from dynident.tolerances import LEAST_OF_NOISE, SETTLED_MISFIT, SMOOTHED_LIMIT

LadderStep = Callable[[AutomaticSetup, AutomaticState], AutomaticState]
IN_WORDS = {"smooth": "smoothing", "prediction": "is it noise in the model or its inputs?",
            "climb": "climbing from a weak model to a strong one", "rounds": "restarts, round {round}"}


def stage_named(name: str) -> LadderStep:
    """The stage; those that need a smoother are loaded when first asked for."""
    if name == "plain":
        return plain
    if name == "prediction":
        return prediction_stage
    from dynident.automatic.smoothing_stages import climb, rounds, smooth_stage

    return {"smooth": smooth_stage, "climb": climb, "rounds": rounds}[name]


def unless_stopped(name: str) -> LadderStep:
    """A stage that was asked for, where nothing has stopped the ladder before it."""
    def step(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
        agreed = name == "prediction" and state.stopped is StopReason.AGREED  # on what is not noise: then it is asked, too
        if name not in setup.stages or (state.stopped is not None and not agreed):
            return state
        announce(setup, state, name)
        return believe_best(setup, stage_named(name)(setup, state))

    return step


def announce(setup: AutomaticSetup, state: AutomaticState, name: str) -> None:
    """Say which stage begins, with the cost of the best end so far: a smoother and restarts tell nothing of themselves."""
    cost = float("nan") if state.best is None else state.best.misfit.value
    if name != "plain":  # which begins at once
        setup.telling(IN_WORDS[name].format(round=state.rounds + 1))(Iteration(0, cost, 0.0))


def finished(setup: AutomaticSetup, state: AutomaticState) -> bool:
    return state.stopped is not None or "rounds" not in setup.stages


LADDER: OuterLoop[AutomaticSetup, AutomaticState] = OuterLoop(
    prepare=(unless_stopped("plain"), unless_stopped("smooth"), unless_stopped("prediction"), unless_stopped("climb"),
             set_limit, stop),
    round=(unless_stopped("rounds"), stop), conclude=(prediction_again,), finished=finished)


def climb_ladder(setup: AutomaticSetup) -> AutomaticState:
    """The last state."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far starts; what overflows is judged as no end
        state = LADDER.run(setup, AutomaticState())
    return state if state.stopped is not None else replace(state, stopped=StopReason.STAGES)


def estimate_of(setup: AutomaticSetup, state: AutomaticState) -> Estimate:
    """The best end as an estimate of the user's problem, with the way that led there.

    An interrupt stops what is still fitted for it; what has its estimate already is returned.
    """
    try:
        return _estimate_of(setup, state)
    except KeyboardInterrupt:
        made = tuple(end for end in state.ends if end.estimate is not None)
        if not made:
            raise
        return _estimate_of(setup, replace(state, ends=made, stopped=StopReason.INTERRUPTED))


def _estimate_of(setup: AutomaticSetup, state: AutomaticState) -> Estimate:
    best = state.best
    if state.stopped is StopReason.PREDICTED:
        return predicted_estimate(state)
    simulated = best is not None and belief_in(setup, state, best)[0]
    if not simulated and (kept := smoothed_estimate(setup, state)) is not None:
        return kept
    if best is not None and best.estimate is None:
        state = refit(setup, state, best.stage, best.begin)
    made = [end for end in state.ends if end.estimate is not None]
    if not made:
        raise state.refused or ProblemError("No start led to an end at which the model can be simulated. Choose other start "
                                            "values, or give bounds.")
    end = best_of(made)
    assert end is not None
    assert end.estimate is not None
    believed, reason = belief_in(setup, state, end)
    estimate = settled_estimate(state, end)
    notes = estimate.notes if believed else (reason, *estimate.notes)
    if state.predicted is not None:
        notes = (state.predicted.notes[0], *notes)
    elif state.unasked_rows and not end.is_noise:
        notes = (*notes, NOT_ASKED.format(rows=state.unasked_rows))
    counts = {**estimate.counts, **(dict(state.spent) if len(state.trail) > 1 else {})}
    if state.stopped is StopReason.INTERRUPTED:
        counts["interrupted"] = 1
    return replace(estimate, notes=notes, believed=believed, belief_reason=reason, stages=state.trail, counts=counts,
                   arrived_by=end.stage, criterion=OUTPUT_ERROR,
                   statistics={**estimate.statistics, **evidence_of(setup, state)})


def evidence_of(setup: AutomaticSetup, state: AutomaticState) -> dict[str, float]:
    """What the ladder found out about the end, beyond its residuals: for the verdict, where more than a plain fit was tried."""
    if len(state.trail) < 2:
        return {}
    found = {"routes": float(len(state.routes_to_best()))}
    if state.unasked_rows:
        found["unasked_rows"] = float(state.unasked_rows)
    if state.smoothed is not None:
        found["smoothed_chi_square"] = state.smoothed.cost / max(setup.problem.measured_values, 1)
    return found


def settled_estimate(state: AutomaticState, end: RouteEnd) -> Estimate:
    """The end's estimate; converged also where what is left is noise and another fit stopped at the same place.

    Where rounding is amplified, as in chaos, no solver comes to an end of its own.
    """
    estimate = end.estimate
    assert estimate is not None
    apart = [abs(other.misfit.value - end.misfit.value) for other in state.ends if other is not end]
    near = [each for each in apart if each <= SETTLED_MISFIT]
    if estimate.converged or not end.is_noise or not near or state.stopped is StopReason.INTERRUPTED:
        return estimate
    reason = Status.of(StatusCode.CONVERGED_ROUTES_AGREE, room=max(near), count=len(near) + 1)
    return replace(estimate, converged=True, status=fit_status(reason, True, ""))


def smoothed_estimate(setup: AutomaticSetup, state: AutomaticState) -> Estimate | None:
    """The smoother's own estimate, where no simulation of a whole record comes near it although it follows to the noise.

    That is the sign of noise in the model or in its inputs, or of chaos: the criterion is then prediction, not simulation.
    """
    found, route = state.smoothed, setup.route
    if state.stopped is StopReason.INTERRUPTED or found is None or route is None or setup.problem.constraints:
        return None
    if route.shortened or found.cost > SMOOTHED_LIMIT * setup.problem.measured_values:
        return None
    begun = with_start(setup.problem, replace(start_of(setup.problem, found.course.values), first_states={}), logarithms=False)
    try:
        estimate = route.setup.method.identify(begun, None, setup.telling("smoother"))
    except DynidentError:
        return None
    belief = believe(setup.problem, estimate.residuals)
    followed = any(estimate.noise_std[name] < LEAST_OF_NOISE * std for name, std in route.noise_std.items())  # noise and all
    if not estimate.converged or followed or belief.level is not BeliefLevel.NOISE:
        return None
    reason = (f"Believed for prediction from sample to sample, not for simulation: {belief.reason} No simulation of a whole "
              "record describes it: there is noise in the model or in its inputs, or chaos.")
    notes = (reason, *estimate.notes, *([NOT_ASKED.format(rows=state.unasked_rows)] if state.unasked_rows else []))
    return replace(estimate, notes=notes, believed=True, belief_reason=reason, stages=state.trail,
                   counts={**estimate.counts, **state.spent}, arrived_by="smoother")


def belief_in(setup: AutomaticSetup, state: AutomaticState, end: RouteEnd) -> tuple[bool, str]:
    """Whether an end is believed, and the sentence that says why."""
    routes, words = state.routes_to_best(), end.belief.reason
    agreed = f"{len(routes)} independent routes ended there ({', '.join(routes[:4])}{', ...' if len(routes) > 4 else ''})"
    if end.is_noise and end.left_open and len(routes) < ROUTES_AGREE:
        return False, (f"Not believed: {words} But it leaves {', '.join(end.left_open)} open, and no second route ended there: "
                       "it may be a plateau.")
    if end.is_noise and not noise_suffices(setup, state, end):
        return False, (f"Not believed: {words} But curves without states leave noise at worse minima, too, and restarts of "
                       f"fewer than {CURVE_ROUNDS_AGREE} rounds ended here.")
    if end.is_noise:
        return True, f"Believed: {words}"
    if state.stopped is StopReason.AGREED and (end.belief.level is BeliefLevel.UNJUDGED or (
            end.belief.level is BeliefLevel.SMALL and routes_differ(setup, state))):
        return True, f"Believed, because {agreed}; {words}"
    why = {StopReason.AGREED: f"{agreed}, so that a wrong minimum is unlikely",
           StopReason.EXHAUSTED: f"{len(state.restart_ends())} restarts and all other routes ended at one place, which is "
                                 "no better: a wrong minimum is unlikely",
           StopReason.BUDGET: f"the budget was spent at the best of {len(state.ends)} ends: " + (
               "whether another is better stays open" if end.belief.level < BeliefLevel.NONE else
               "a wrong local minimum, or a wrong model"),
           StopReason.INTERRUPTED: "it was interrupted",
           StopReason.LOST: "the model could not be simulated any more",
           StopReason.STAGES: f"it is the best of {len(state.ends)} ends of the stages that were asked for"}
    return False, f"Not believed: {words} And {why.get(state.stopped or StopReason.STAGES, '')}."
