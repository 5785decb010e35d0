"""Stopping: is the best end believed, have routes agreed, or is the budget spent?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynident.automatic.belief import BeliefLevel
from dynident.automatic.state import SECOND_OPINION, AutomaticSetup, AutomaticState, RouteEnd, StopReason
from dynident.tolerances import SAME_MISFIT

BUDGET = 20  # times the larger of the first two stages, in simulations with sensitivities
LEAST_BUDGET = 800  # simulations with sensitivities: some three rounds of restarts
BLIND_BUDGET = 3000  # the same where the plain fit could not begin, so that nothing says what a fit takes
ROUTES_AGREE = 2  # routes of different kinds to the same end, the plain fit among them, where what is left over is small
IDLE_ROUNDS = 6  # in a row, each from further away than the one before: twice through all distances
CURVE_ROUNDS_AGREE = 3  # rounds of which a restart ends at the best place, for curves without states
RESTARTS_AGREE = 4  # restarts that end at the same place, and one more route of any kind
LIKELIHOOD_RESTARTS_AGREE = 8  # the same where standard deviations are formulas, whatever the plain fit says
CURVE_BUDGET = 2000  # simulations with sensitivities of curves, which cost next to nothing
LIKELIHOOD_BUDGET = 3000  # simulations with sensitivities: these problems are small, and have many local optima
SMALL_RESTARTS_AGREE = 8  # the same where what is left over is small, since wrong minima of that kind draw many starts


def believe_best(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """Stop where what the best end leaves over is noise, or is small and the plain fit and another route agree.

    Routes have to agree on noise, too, where an unknown is left open: such an end may be a plateau.
    """
    best = state.best
    if state.stopped is not None or best is None:
        return state
    if best.is_noise and noise_suffices(setup, state, best):
        return replace(state, stopped=StopReason.BELIEVED)
    if best.belief.level is BeliefLevel.SMALL and not best.belief.contradicted and routes_differ(setup, state):
        return replace(state, stopped=StopReason.AGREED)
    return state


def noise_suffices(setup: AutomaticSetup, state: AutomaticState, end: RouteEnd) -> bool:
    """Whether an end that leaves noise needs no more: it leaves no unknown open, or a second route ended there.

    A curve without states can leave noise at many worse minima, a sine or a peak short: there restarts of several rounds
    have to end at the same.
    """
    routes = state.routes_to_best()
    if not setup.one_minimum and rounds_of(routes) < CURVE_ROUNDS_AGREE:
        return False
    return not end.left_open or len(routes) >= ROUTES_AGREE


def rounds_of(routes: Sequence[str]) -> int:
    """Of how many rounds there is a restart among the routes."""
    return len({route.partition(".")[0] for route in routes if route.startswith("restart")})


def routes_differ(setup: AutomaticSetup, state: AutomaticState) -> bool:
    """Whether the best end was reached by the plain fit and by another kind of route; a curve's, by restarts of rounds.

    Restarts of a curve begin at the best of hundreds of places each, drawn anew: they are as independent as a plain fit.
    """
    routes = state.routes_to_best()
    plain = len(routes) >= ROUTES_AGREE and any(route.startswith("plain") for route in routes)
    return plain or (not setup.one_minimum and len(routes) >= SMALL_RESTARTS_AGREE and rounds_of(routes) >= CURVE_ROUNDS_AGREE)


def set_limit(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """The budget: as said, or so many times the larger of the first stages in all, of which rounds get a least part."""
    if setup.budget is not None:
        return replace(state, limit=float(setup.budget))
    largest = largest_stage(state)
    least = LEAST_BUDGET if state.refused is None else BLIND_BUDGET
    least = max(least, LIKELIHOOD_BUDGET) if setup.problem.has_noise_formulas else least
    least = least if setup.one_minimum else max(least, CURVE_BUDGET)
    return replace(state, limit=float(max(BUDGET * largest, state.spent["jacobians"] + least)))


def largest_stage(state: AutomaticState) -> int:
    """Simulations with sensitivities of the larger of the first two stages."""
    return max((row.jacobians for row in state.trail if row.stage in ("plain", "smooth")), default=0)


def stop(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """Stop where the best end was reached often enough, where restarts end at one place only, or the budget is spent."""
    if state.stopped is not None:
        return state
    routes = state.routes_to_best()
    restarts = sum(route.startswith("restart") for route in routes)
    small = state.best is not None and state.best.belief.level is BeliefLevel.SMALL
    wanted = SMALL_RESTARTS_AGREE if small else RESTARTS_AGREE
    likelihood = setup.problem.has_noise_formulas  # has several maxima, at each of which residuals look as they should
    enough = restarts >= LIKELIHOOD_RESTARTS_AGREE if likelihood else restarts >= wanted and len(routes) > RESTARTS_AGREE
    if enough and (setup.one_minimum or rounds_of(routes) >= CURVE_ROUNDS_AGREE):
        return replace(state, stopped=StopReason.AGREED)
    ended = tuple(route for route, _ in state.agreements)
    if (not likelihood and len(state.restart_ends()) >= wanted and one_place_only(state)
            and (setup.one_minimum or rounds_of(ended) >= CURVE_ROUNDS_AGREE)):
        return replace(state, stopped=StopReason.EXHAUSTED)
    spent = state.spent["jacobians"] >= state.limit or idle_rounds(state) >= IDLE_ROUNDS
    return replace(state, stopped=StopReason.BUDGET) if spent else state


def one_place_only(state: AutomaticState) -> bool:
    """Whether all routes but the plain fit, converged or not, ended at one place."""
    others = [end.misfit for end in state.ends if not end.stage.startswith("plain") and end.stage != SECOND_OPINION]
    places = [*state.restart_ends(), *others]
    return all(at.same(places[0], SAME_MISFIT) for at in places)


def idle_rounds(state: AutomaticState) -> int:
    """How many rounds there were since one in which a start could be followed: they spend nothing of the budget."""
    count = 0
    for row in reversed(state.trail):
        if not row.stage.startswith("round") or row.jacobians:
            break
        count += 1
    return count
