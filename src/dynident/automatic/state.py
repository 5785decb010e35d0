"""State: where the ladder stands between two stages; frozen, so that each stage can be run, printed and tested alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dynident.automatic.belief import Belief, BeliefLevel, believe
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate, StageResult
from dynident.methods.open_loop import Misfit, Residuals, linear_in_unknowns, misfit
from dynident.methods.start_trajectory import StartTrajectory
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.statistics.covariance import Covariance
from dynident.status import Status
from dynident.tolerances import SAME_MISFIT, TIED_MISFIT

if TYPE_CHECKING:
    from dynident.automatic.smoothing_route import Smoothed, SmoothingRoute

SECOND_OPINION = "second opinion"  # a route that begins at the best end, and can only leave it
RESTART = "restart"  # a route from places around the user's start
HOP = "hop"  # the same, from places around it


class StopReason(StrEnum):
    """Why the ladder was left."""

    BELIEVED = "believed"  # what is left over is noise
    AGREED = "agreed"  # independent routes ended at the same point
    EXHAUSTED = "exhausted"  # all routes but the plain fit end at one place, which is worse
    BUDGET = "budget"
    STAGES = "stages"  # all stages that were asked for have been climbed
    INTERRUPTED = "interrupted"
    PREDICTED = "predicted"  # noise in the model or its inputs explains what no simulation does
    LOST = "lost"  # the simulator crashed or hung again and again, and was given up


@dataclass(frozen=True, eq=False)
class AutomaticSetup:
    """What stays the same on the whole ladder."""

    problem: Problem
    method: Any  # the direct method of the first and the last fit
    budget: int | None  # simulations with sensitivities; None: by what the first stages take
    seed: int
    stages: tuple[str, ...]
    executor: Executor | None
    report: Callable[..., object]

    @cached_property
    def route(self) -> SmoothingRoute | None:
        """How a smoother takes the problem, made when first asked for; None where it does not."""
        from dynident.automatic.smoothing_route import smoothing_route  # loads a family that a plain fit does without

        return smoothing_route(self.problem)

    @cached_property
    def one_minimum(self) -> bool:
        """Whether noise that is left over is taken for a proof: with states, and where the model is linear in its unknowns.

        And for simulators, of which nobody knows whether there are states inside; many restarts of them cost too much.
        """
        model = self.problem.model
        return bool(model.states) or not isinstance(model, EquationModel) or linear_in_unknowns(self.problem)

    @property
    def loss(self) -> str:
        return str(self.method.objective_key().get("loss", "squared"))

    def telling(self, stage: str) -> Callable[..., object]:
        """Who is told of iterations, with the stage in words."""
        return lambda page: self.report(replace(page, stage=stage))

    def judged(self, stage: str, values: Mapping[str, float], residuals: Residuals, converged: bool,
               begin: StartTrajectory, estimate: Estimate | None = None) -> RouteEnd:
        """An end with what its open-loop residuals say."""
        cost = misfit(self.problem, residuals, values, self.loss)
        return RouteEnd(stage, cost, believe(self.problem, residuals, self.loss), converged, begin, estimate)


@dataclass(frozen=True, eq=False)
class RouteEnd:
    """Where a route to the minimum ended, with the trajectory from which a fit can begin there."""

    stage: str
    misfit: Misfit
    belief: Belief
    converged: bool
    begin: StartTrajectory
    estimate: Estimate | None = None  # where one was made

    @property
    def is_noise(self) -> bool:
        return self.belief.level is BeliefLevel.NOISE

    @property
    def left_open(self) -> tuple[str, ...]:
        """Unknowns whose interval is unbounded: the end may be a plateau or the way to infinity, however well it fits."""
        uncertainty = None if self.estimate is None else self.estimate.uncertainty
        return tuple(uncertainty.practically_unidentifiable) if isinstance(uncertainty, Covariance) else ()


def best_of(ends: Sequence[RouteEnd]) -> RouteEnd | None:
    """The lowest end; of several that rounding tells apart, as where equal terms have changed places, the first."""
    lowest = min(ends, key=lambda end: end.misfit.value, default=None)
    return next((end for end in ends if lowest is not None and end.converged == lowest.converged
                 and (end.estimate is None) == (lowest.estimate is None) and end.misfit.same(lowest.misfit, TIED_MISFIT)), None)


@dataclass(frozen=True, eq=False)
class AutomaticState:
    """Ends so far, what each stage took, and whether it is enough."""

    ends: tuple[RouteEnd, ...] = ()
    trail: tuple[StageResult, ...] = ()
    spent: Mapping[str, int] = field(default_factory=lambda: {"simulations": 0, "jacobians": 0})
    limit: float = float("inf")  # simulations with sensitivities
    rounds: int = 0
    known: tuple[tuple[float, Misfit | None], ...] = ()  # smoothed cost -> where the strong fit ended
    agreements: tuple[tuple[str, Misfit], ...] = ()  # by which route an end was reached, also again
    smoothed: Smoothed | None = None  # the best that converged at the full weight of the model
    unasked_rows: int = 0  # samples times sub-steps, where these were too many to ask prediction error
    predicted: Estimate | None = None  # what prediction error says of the best end, where that left more than noise
    stopped: StopReason | None = None
    refused: DynidentError | None = None  # why the plain fit could not begin

    def ended(self, reason: Status, interrupted: bool) -> AutomaticState | None:
        """With the best so far, where the user or the end of all simulation stops it; None where there is none."""
        return replace(self, stopped=StopReason.INTERRUPTED if interrupted else StopReason.LOST) if self.ends else None

    @property
    def best(self) -> RouteEnd | None:
        return best_of(self.ends)

    def with_end(self, end: RouteEnd) -> AutomaticState:
        state = replace(self, ends=(*self.ends, end))
        return state.with_agreement(end.stage, end.misfit) if end.converged else state

    def with_smoothed(self, found: Smoothed) -> AutomaticState:
        """With what a smoother took, and with what it found, where that is the best at the full weight."""
        better = found.share == 1.0 and found.converged and (self.smoothed is None or found.cost < self.smoothed.cost)
        return replace(self.with_cost(found.spent), smoothed=found if better else self.smoothed)

    def with_agreement(self, route: str, at: Misfit) -> AutomaticState:
        return replace(self, agreements=(*self.agreements, (route, at)))

    def with_cost(self, more: Mapping[str, int]) -> AutomaticState:
        return replace(self, spent={key: self.spent.get(key, 0) + more.get(key, 0) for key in ("simulations", "jacobians")})

    def with_row(self, stage: str, before: AutomaticState, words: str) -> AutomaticState:
        """With a line of the waterfall: what a stage took since `before`, and where the best end stands."""
        best, new = self.best, self.ends[len(before.ends):]
        own = min(new, key=lambda end: end.misfit.value, default=None)
        row = StageResult(stage, self.spent["jacobians"] - before.spent["jacobians"],
                          self.spent["simulations"] - before.spent["simulations"],
                          float("nan") if own is None else own.misfit.value,
                          float("nan") if best is None else best.misfit.value,
                          own is not None and own.is_noise, Status(words))
        return replace(self, trail=(*self.trail, row))

    def routes_to_best(self) -> tuple[str, ...]:
        """Which routes ended at the best end known; one that began there does not count."""
        if self.best is None:
            return ()
        return tuple(dict.fromkeys(route for route, at in self.agreements
                                   if not route.startswith((SECOND_OPINION, HOP))
                                   and at.same(self.best.misfit, SAME_MISFIT)))

    def restart_ends(self) -> tuple[Misfit, ...]:
        """Where restarts converged, in their order, one each."""
        return tuple({route: at for route, at in self.agreements if route.startswith("restart")}.values())
