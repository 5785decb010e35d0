"""Smoothing stages: smooth, climb and rounds, each a function from one state of the ladder to the next.

smooth   through a model that may err, to the model that may not
climb    the same from weak to strong weights of the model (continuation)
rounds   the same from starts that lie decades around the user's; restarts of the method where a smoother does not apply
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.automatic.belief import BeliefLevel
from dynident.automatic.curve_starts import curve_starts
from dynident.automatic.simulation_route import Restart, restart, start_of, with_start
from dynident.automatic.smoothing_route import SMOOTHING_ITERATIONS, Smoothed, SmoothingRoute, Strong, smooth, strengthen
from dynident.automatic.stages import LAST_ITERATIONS, refit
from dynident.automatic.starts import Start, blind_states, round_starts
from dynident.automatic.state import HOP, RESTART, SECOND_OPINION, AutomaticSetup, AutomaticState, RouteEnd
from dynident.models.equations import EquationModel
from dynident.parallel.tasks import map_ordered
from dynident.tolerances import CONSTRAINT_CHECK, SAME_MISFIT
from dynident.transcription.parameter_constraints import state_bounds

CLIMB = (1e-4, 1e-2, 1.0, 1e2)  # shares of the model weight, from weak to strong
WEAK = ((1e-2, 4), (1.0, 3))  # further shares of every second round, which begins at the weakest, and how many go on
WEAKEST = 1e-4  # share of the model weight
FIRST_LOOK = 12  # iterations before starts are compared
HOP_KEEPS = 0.5  # share of the unknowns: what is right at the best end, a peak or a period, should stay there
GO_ON = 2  # starts of a round that go on to the end
CURVES_GO_ON = 4  # the same of curves, which cost next to nothing


def smooth_stage(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """The smoother from the user's start, then the strong model; where a small remainder needs it, also along the best end."""
    if setup.route is None:
        return state
    before = state
    state, smoothed = _smoothed(setup, state, Start(), (1.0,))
    if smoothed is None and (blind := blind_states(setup.problem)):  # 0 may be where the model has no derivative
        state, smoothed = _smoothed(setup, state, Start(first_states=dict.fromkeys(blind, 1.0)), (1.0,))
    state = finish(setup, state, "smooth", smoothed)
    best = state.best
    if best is not None and best.belief.level is BeliefLevel.SMALL and len(state.routes_to_best()) < 2:
        again = None if setup.route.shortened else smooth(setup.route, _start_at(setup, best), 1.0, best.begin)
        state = state if again is None else state.with_smoothed(again)
        state = finish(setup, state, SECOND_OPINION, again)
    return state.with_row("smooth", before, _in_words(smoothed))


def _start_at(setup: AutomaticSetup, end: RouteEnd) -> Start:
    begun = start_of(setup.problem, end.begin.values)
    return replace(begun, first_states={}, signed=any(v <= 0 for v in begun.parameters.values()))


def climb(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """Continuation in the model weight: a weak model lets the states follow the record, stronger ones pull them in."""
    if setup.route is None:
        return state
    before = state
    state, smoothed = _smoothed(setup, state, Start(), CLIMB)
    return finish(setup, state, "climb", smoothed).with_row("climb", before, _in_words(smoothed))


def _smoothed(setup: AutomaticSetup, state: AutomaticState, start: Start, shares: tuple[float, ...]
              ) -> tuple[AutomaticState, Smoothed | None]:
    """The last share that did not diverge."""
    assert setup.route is not None
    found: Smoothed | None = None
    for share in shares:
        following = smooth(setup.route, start, share, None if found is None else found.course)
        if following is None:
            break
        state, found = state.with_smoothed(following), following
    return state, found


def _in_words(smoothed: Smoothed | None) -> str:
    if smoothed is None:
        return "diverged"
    return f"{'converged' if smoothed.converged else 'did not converge'} at a smoothed cost of {smoothed.cost:.4g}"


def finish(setup: AutomaticSetup, state: AutomaticState, stage: str, smoothed: Smoothed | None) -> AutomaticState:
    """From a smoothed trajectory to an end of the model that may not err."""
    if smoothed is None:
        return state
    assert setup.route is not None
    return with_strong(setup, state, stage, smoothed, strengthen(setup.route, smoothed))


def with_strong(setup: AutomaticSetup, state: AutomaticState, stage: str, smoothed: Smoothed, strong: Strong | None
                ) -> AutomaticState:
    """With the strong end; an estimate is made of it where it is noise, or better than all others and not yet an optimum."""
    assert setup.route is not None
    if strong is None:
        return state
    state = state.with_cost(strong.spent)
    if setup.route.shortened:
        return refit(setup, state, stage, replace(strong.course, times=(), states=()))
    if _leaves_bounds(setup, strong):  # no end of this problem
        return refit(setup, state, stage, strong.course)
    end = setup.judged(stage, strong.course.values, strong.residuals, strong.converged, strong.course)
    best = state.best
    better = best is None or end.misfit.better_than(best.misfit, SAME_MISFIT)
    if not end.is_noise and (strong.converged or not better):
        return state.with_end(end)
    after = refit(setup, state, stage, strong.course)
    violated = bool(setup.problem.constraints) and not strong.converged
    return after if violated or len(after.ends) > len(state.ends) else after.with_end(end)


def _leaves_bounds(setup: AutomaticSetup, strong: Strong) -> bool:
    """Whether a course leaves the bounds on states, of which neither smoother nor shooting knows."""
    states = setup.problem.model.states
    lower, upper = state_bounds(setup.problem)
    room = CONSTRAINT_CHECK * np.maximum(np.where(np.isfinite(lower), np.abs(lower), 0),
                                         np.where(np.isfinite(upper), np.abs(upper), 0))
    return any(bool(np.any((x[:, :len(states)] < lower - room) | (x[:, :len(states)] > upper + room)))
               for x in strong.course.states)


# from other starts


def rounds(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """One round of restarts; looked at side by side where there is an executor, in the same order on any number of workers."""
    before, number = state, state.rounds
    kind, starts = starts_of_round(setup, state)
    state = replace(state, rounds=number + 1)
    if setup.route is None:
        state = _round_by_simulation(setup, state, starts, kind)
    else:
        state = _round_by_smoothing(setup, setup.route, state, starts, weak=number % 2 == 1)
    best = state.best
    if best is not None and best.estimate is None and not best.converged and best not in before.ends:
        state = refit(setup, state, best.stage, best.begin)  # the best of this round to its ground
    go_on = GO_ON if setup.one_minimum else CURVES_GO_ON
    return state.with_row(f"round {number + 1}", before, f"{len(starts)} starts, {min(go_on, len(starts))} to the end")


def _round_by_smoothing(setup: AutomaticSetup, route: SmoothingRoute, state: AutomaticState, starts: list[Start], weak: bool
                        ) -> AutomaticState:
    tasks: list[tuple] = [(start, WEAKEST if weak else 1.0, None, FIRST_LOOK) for start in starts]
    state, looks = _all_smoothed(setup, state, tasks)
    for share, keep in WEAK if weak else ():
        state, looks = _all_smoothed(setup, state, [(look.start, share, look.course, FIRST_LOOK) for look in looks[:keep]])
    going = looks[:GO_ON]
    tasks = [(look.start, 1.0, look.course, SMOOTHING_ITERATIONS) for look in going if not look.converged]
    state, further = _all_smoothed(setup, state, tasks)
    going = [*(look for look in going if look.converged), *further]
    fresh = []
    for k, look in enumerate(going):
        known = next((at for cost, at in state.known if look.converged and abs(look.cost - cost) <= SAME_MISFIT * cost), 0)
        if known == 0:
            fresh.append((k, look))
        elif known is not None:
            state = state.with_agreement(f"restart {state.rounds}.{k + 1}", known)  # type: ignore[arg-type]
    strong = map_ordered(strengthen, route, [(look,) for _, look in fresh], setup.executor)
    for (k, look), found in zip(fresh, strong, strict=True):
        ends = len(state.ends)
        state = with_strong(setup, state, f"restart {state.rounds}.{k + 1}", look, found)
        if look.converged:
            ended = state.ends[-1].misfit if len(state.ends) > ends and state.ends[-1].converged else None
            state = replace(state, known=(*state.known, (look.cost, ended)))
    return state


def _all_smoothed(setup: AutomaticSetup, state: AutomaticState, tasks: list[tuple]) -> tuple[AutomaticState, list[Smoothed]]:
    """All that did not diverge, best first."""
    found = [each for each in map_ordered(smooth, setup.route, tasks, setup.executor) if each is not None]
    for each in found:
        state = state.with_smoothed(each)
    return state, sorted(found, key=lambda each: each.cost)


def starts_of_round(setup: AutomaticSetup, state: AutomaticState) -> tuple[str, list[Start]]:
    """Drawn around the user's start; for curves the best of many, every second round around the best end so far."""
    problem, best = setup.problem, state.best
    if problem.model.states or not isinstance(problem.model, EquationModel) or problem.has_noise_formulas:
        return RESTART, round_starts(problem, setup.seed, state.rounds)
    if state.rounds % 2 == 0 or best is None:
        return RESTART, curve_starts(problem, setup.loss, setup.seed, state.rounds)
    around = with_start(problem, start_of(problem, best.begin.values), logarithms=False)
    return HOP, curve_starts(around, setup.loss, setup.seed, state.rounds, HOP_KEEPS)


def _round_by_simulation(setup: AutomaticSetup, state: AutomaticState, starts: list[Start], kind: str) -> AutomaticState:
    common = setup.method, setup.problem, setup.loss
    looks = [each for each in map_ordered(restart, common, [(start, FIRST_LOOK) for start in starts], setup.executor)
             if each is not None]
    looks = sorted(looks, key=lambda each: each.misfit.value)
    for each in looks:
        state = state.with_cost(each.spent)
    going = looks[:GO_ON if setup.one_minimum else CURVES_GO_ON]
    unfinished = [each for each in going if not each.converged]
    tasks = [(start_of(setup.problem, each.course.values), LAST_ITERATIONS) for each in unfinished]
    further = [each for each in map_ordered(restart, common, tasks, setup.executor) if each is not None]
    for k, each in enumerate([*(each for each in going if each.converged), *further]):
        state = _with_restart(setup, state.with_cost(each.spent), f"{kind} {state.rounds}.{k + 1}", each)
    return state


def _with_restart(setup: AutomaticSetup, state: AutomaticState, stage: str, found: Restart) -> AutomaticState:
    end = setup.judged(stage, found.course.values, found.residuals, found.converged, found.course)
    return state.with_end(end)
