"""Stopping: is the best end believed, have routes agreed, or is the budget spent?"""

from __future__ import annotations

from dataclasses import replace

from dynident.automatic.belief import BeliefLevel
from dynident.automatic.state import SECOND_OPINION, AutomaticSetup, AutomaticState, RouteEnd, StopReason
from dynident.tolerances import SAME_MISFIT

BUDGET = 20  # times the larger of the first two stages, in simulations with sensitivities
LEAST_BUDGET = 800  # simulations with sensitivities: some three rounds of restarts
BLIND_BUDGET = 3000  # the same where the plain fit could not begin, so that nothing says what a fit takes
ROUTES_AGREE = 2  # routes of different kinds to the same end, the plain fit among them, where what is left over is small
IDLE_ROUNDS = 6  # in a row, each from further away than the one before: twice through all distances
CURVE_ROUNDS_AGREE = 2  # rounds of which a restart ends at the best place, for curves without states
RESTARTS_AGREE = 4  # restarts that end at the same place, and one more route of any kind
LIKELIHOOD_RESTARTS_AGREE = 8  # the same where standard deviations are formulas, whatever the plain fit says
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
    if best.belief.level is BeliefLevel.SMALL and not best.belief.contradicted and routes_differ(state):
        return replace(state, stopped=StopReason.AGREED)
    return state


def noise_suffices(setup: AutomaticSetup, state: AutomaticState, end: RouteEnd) -> bool:
    """Whether an end that leaves noise needs no more: it leaves no unknown open, or a second route ended there.

    A curve without states can leave noise at many worse minima, a sine or a peak short: there restarts of several rounds
    have to end at the same.
    """
    routes = state.routes_to_best()
    if not setup.one_minimum and len({r.partition(".")[0] for r in routes if r.startswith("restart")}) < CURVE_ROUNDS_AGREE:
        return False
    return not end.left_open or len(routes) >= ROUTES_AGREE


def routes_differ(state: AutomaticState) -> bool:
    """Whether the best end was reached by the plain fit and by another kind of route."""
    routes = state.routes_to_best()
    return len(routes) >= ROUTES_AGREE and any(route.startswith("plain") for route in routes)


def set_limit(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """The budget: as said, or for the rounds so many times the larger of the first stages."""
    if setup.budget is not None:
        return replace(state, limit=float(setup.budget))
    largest = max((row.jacobians for row in state.trail if row.stage in ("plain", "smooth")), default=0)
    least = LEAST_BUDGET if state.refused is None else BLIND_BUDGET
    least = max(least, LIKELIHOOD_BUDGET) if setup.problem.has_noise_formulas else least
    return replace(state, limit=float(state.spent["jacobians"] + max(BUDGET * largest, least)))


def stop(setup: AutomaticSetup, state: AutomaticState) -> AutomaticState:
    """Stop where the best end was reached often enough, where restarts end at one place only, or the budget is spent."""
    if state.stopped is not None:
        return state
    routes = state.routes_to_best()
    restarts = sum(route.startswith("restart") for route in routes)
    small = state.best is not None and state.best.belief.level is BeliefLevel.SMALL
    wanted = SMALL_RESTARTS_AGREE if small else RESTARTS_AGREE
    likelihood = setup.problem.has_noise_formulas  # has several maxima, at each of which residuals look as they should
    if (restarts >= LIKELIHOOD_RESTARTS_AGREE) if likelihood else (restarts >= wanted and len(routes) > RESTARTS_AGREE):
        return replace(state, stopped=StopReason.AGREED)
    if not likelihood and len(state.restart_ends()) >= wanted and one_place_only(state):
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
