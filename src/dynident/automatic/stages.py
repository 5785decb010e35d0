"""Stages: the plain fit, and the fit from a trajectory with which every other stage ends.

Each stage is a function from one state of the ladder to the next. After each, `believe_best` looks at what is left over, and
`stop` at what has been spent (`stopping.py`). The stages that need a smoother are in `smoothing_stages.py`, which is loaded
where the plain fit is not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dynident.automatic.belief import BeliefLevel
from dynident.automatic.simulation_route import start_of, with_start
from dynident.automatic.state import AutomaticSetup, AutomaticState, RouteEnd, StopReason
from dynident.errors import DynidentError, NotSupported, ProblemError, StartDiverged
from dynident.estimate.estimate import Estimate
from dynident.methods.direct import DirectMethod, SingleShooting
from dynident.methods.open_loop import misfit, open_loop_residuals
from dynident.methods.options import AUTOMATIC
from dynident.methods.start_trajectory import StartTrajectory, fit_from
from dynident.problem.problem import Problem
from dynident.status import StatusCode
from dynident.tolerances import SAME_MISFIT
from dynident.transcription.initial_guess import start_values

END_PERTURBATION = 0.1  # of an unknown's size: how far beside an end the cost is looked at
LAST_ITERATIONS = 200  # of a fit from an end that did not converge


# the first fit


def plain(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """The method itself from the user's start; where it cannot begin, why."""
    before = state
    try:
        estimate = setup.method.identify(setup.problem, setup.executor, setup.telling("plain fit"))
    except ProblemError as refused:
        if isinstance(refused, StartDiverged) and refused.lost:
            raise  # it crashed or hung: other starts would do so again
        return replace(state, refused=refused).with_row("plain", before, f"could not begin: {refused}")
    state = state.with_cost(estimate.counts)
    if estimate.counts.get("interrupted"):
        return _ended(setup, state, "plain", estimate, estimate.residuals, before, StopReason.INTERRUPTED)
    if estimate.status.code is StatusCode.SIMULATOR_LOST:
        return _ended(setup, state, "plain", estimate, estimate.residuals, before, StopReason.LOST)
    try:
        return _secured(setup, state, estimate).with_row("plain", before, str(estimate.status))
    except KeyboardInterrupt:
        return _ended(setup, state, "plain", estimate, estimate.residuals, before, StopReason.INTERRUPTED)


def _secured(setup: AutomaticSetup, state: AutomaticState, estimate: Estimate) -> AutomaticState:
    """With the plain fit's end, made one of a whole simulation, not above the user's start, and off a saddle."""
    residuals = estimate.residuals if estimate.converged else _open_loop(setup, estimate)
    if residuals is not None:
        state = state.with_end(_end(setup, "plain", estimate, residuals))
    if not estimate.converged or residuals is None:  # segments that do not meet: what one simulation makes of its values
        state = refit(setup, state, "plain", StartTrajectory({n: float(estimate.values[n]) for n in setup.problem.names}))
    return leave_saddle(setup, _not_above_start(setup, state))


def _ended(setup: AutomaticSetup, state: AutomaticState, stage: str, estimate: Estimate, residuals: Any,
           before: AutomaticState, reason: StopReason) -> AutomaticState:
    state = state.with_end(_end(setup, stage, estimate, residuals))
    return replace(state.with_row(stage, before, str(estimate.status)), stopped=reason)


def _end(setup: AutomaticSetup, stage: str, estimate: Estimate, residuals: Any) -> RouteEnd:
    begin = StartTrajectory.of(estimate)
    return setup.judged(stage, begin.values, residuals, estimate.converged, begin, estimate)


def _open_loop(setup: AutomaticSetup, estimate: Estimate) -> Any:
    return open_loop_residuals(setup.problem, estimate.values, *simulated_by(setup, estimate))


def simulated_by(setup: AutomaticSetup, estimate: Estimate | None) -> tuple[str, int]:
    """The integrator and the sub-steps that a fit chose; without one, those that the method names."""
    if estimate is None:
        return setup.method.simulation_integrator, 1
    return estimate.method.simulation_integrator, int(estimate.counts.get("substeps", 1))


def _not_above_start(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """A search that lowers the cost at every step, from the user's own start, where all ends lie above that."""
    begin = StartTrajectory(dict(zip(setup.problem.names, (float(v) for v in start_values(setup.problem)), strict=True)))
    by = simulated_by(setup, state.best.estimate if state.best else None)
    at_start = open_loop_residuals(setup.problem, begin.values, *by)
    if at_start is None:
        return state
    cost = misfit(setup.problem, at_start, begin.values, setup.loss)
    if state.best is not None and not cost.better_than(state.best.misfit, SAME_MISFIT):
        return state
    return refit(setup, state, "plain, downhill", begin)


def leave_saddle(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """Whether the cost falls beside an end that is not believed, along any unknown; if so, a fit from there.

    A saddle and a plateau pass every test of a first derivative.
    """
    best = state.best
    if best is None or best.belief.level <= BeliefLevel.SMALL or not best.converged or best.estimate is None:
        return state
    lowest, beside = best.misfit, None
    for values in values_beside(setup.problem, best.begin.values):
        residuals = open_loop_residuals(setup.problem, values, *simulated_by(setup, best.estimate))
        state = state.with_cost({"simulations": 1})
        if residuals is not None:
            cost = misfit(setup.problem, residuals, values, setup.loss)
            if cost.better_than(lowest, SAME_MISFIT):
                lowest, beside = cost, values
    return state if beside is None else refit(setup, state, "plain, beside a saddle", StartTrajectory(beside))


def values_beside(problem: Problem, values: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """Values with one unknown moved by a tenth of its size, to either side, within its bounds."""
    for unknown in problem.unknowns:
        size = abs(values[unknown.name]) or unknown.scale or 1.0
        for away in (-END_PERTURBATION * size, END_PERTURBATION * size):
            moved = float(np.clip(values[unknown.name] + away, unknown.lower, unknown.upper))
            if moved != values[unknown.name]:
                yield {**values, unknown.name: moved}


# from a trajectory to an estimate of the user's problem


def refit(setup: AutomaticSetup, state: AutomaticState, stage: str, begin: StartTrajectory) -> AutomaticState:
    """With the best that direct methods make of a trajectory, in the user's own coordinates."""
    found: list[RouteEnd] = []
    for fit in last_fits(setup, begin):
        try:
            estimate = fit(setup.telling(f"{stage}: last fit"))
        except (DynidentError, np.linalg.LinAlgError):
            continue
        state = state.with_cost(estimate.counts)
        residuals = estimate.residuals if estimate.converged else _open_loop(setup, estimate)
        if residuals is not None:
            found.append(_end(setup, stage, estimate, residuals))
            known = state.best is None or not state.best.misfit.better_than(found[-1].misfit, SAME_MISFIT)
            if estimate.converged and (found[-1].is_noise or known):
                break
        if estimate.counts.get("interrupted"):
            state = replace(state, stopped=StopReason.INTERRUPTED)
            break
    best = min(found, key=lambda end: end.misfit.value, default=None)
    return state if best is None else state.with_end(best)


def last_fits(setup: AutomaticSetup, begin: StartTrajectory) -> list[Callable[[Callable[..., object]], Estimate]]:
    """One simulation per record first, which is exact; then the method itself along the trajectory.

    A method that is not direct begins at the values alone.
    """
    method, problem = setup.method, setup.problem
    if not isinstance(method, DirectMethod):
        begun = with_start(problem, start_of(problem, begin.values), logarithms=False)
        def fitted(report: Callable[..., object]) -> Estimate:
            estimate = method.identify(begun, setup.executor, report)
            return replace(estimate, problem=problem.with_noise_of(estimate.problem))

        return [fitted]
    own: Any = replace(method, max_iterations=LAST_ITERATIONS)  # type: ignore[type-var]  # each is a dataclass
    integrator = AUTOMATIC if method.chooses_integrator else method.simulation_integrator
    single = SingleShooting(integrator=integrator, loss=method.loss, max_iterations=LAST_ITERATIONS)
    found: list[Callable[[Callable[..., object]], Estimate]] = []
    for each, start in ((single, replace(begin, times=(), states=())), (own, begin)):
        try:
            each.check_supports(problem)
        except NotSupported:
            continue
        found.append(partial(fit_from, each, problem, start))
    return found
