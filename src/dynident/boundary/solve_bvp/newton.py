"""Newton (of a boundary value problem: quasilinearization): where is F(z) = 0, by steps that are shortened until they help?

Three tests of whether a step helps:

- "natural" (default): the step that would follow, computed with the same Jacobian, must be shorter (Deuflhard). Steps are
  compared with steps, so that neither the units of the equations nor their curvature along the valley matter.
- "residual": ||F||_2 must fall by a share of what its slope promises, (4.37) to (4.40) of the thesis.
- "kept": the natural test, and the Jacobian stays while steps are shortened, as in the code MUSN that the thesis compares
  with; cheap, and less robust.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dynident.boundary.solve_bvp.root_finding import (
    TOO_SHORT,
    FactoredSystem,
    NonlinearSystem,
    RootIteration,
    RootProblem,
    RootResult,
    RootState,
    RootWatch,
    find_root,
    has_ended,
    largest,
    largest_residual,
    linearize,
    tell,
)
from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.methods.outer_loop import OuterLoop
from dynident.tolerances import BVP_EXACT_RESIDUAL, BVP_HIDDEN_STEP, BVP_ROUNDING_STEP, SUFFICIENT_REDUCTION

TESTS = ("natural", "residual", "kept")
SLOW_CONTRACTION = 0.5  # a kept Jacobian that shrinks the step by less than this is renewed


@dataclass(frozen=True)
class DampedNewton:
    """Options of Newton's method.

    `tolerance`: largest last step, in typical sizes; `shortest`: share of a step below which the method gives up (230);
    `insist`: share of a step that is gone even where the test says that it does not help, 0 for none. Layers inside wander to
    their place along ways on which no test sees a gain; a root that is found so has passed the same last test as any other.
    """

    test: str = "natural"
    tolerance: float = 1e-6
    max_iterations: int = 100
    shortest: float = 1e-6
    insist: float = 0.0
    name: str = "damped Newton"

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise ProblemError(f"There is no test '{self.test}' of a Newton step.{did_you_mean(self.test, TESTS)}")

    @property
    def no_step_helps(self) -> str:
        return f"because no step helps any more, not even one of {self.shortest:g} times Newton's"

    @property
    def hidden_by_rounding(self) -> str:
        return "; rounding hides smaller steps"

    def solve(self, system: NonlinearSystem, z: np.ndarray, watch: RootWatch | None = None) -> RootResult:
        z = np.array(z, dtype=float)
        return find_root(NEWTON, RootProblem(self, system, watch), NewtonState(z=z, asked=z))


NewtonProblem: TypeAlias = RootProblem[DampedNewton]


@dataclass(frozen=True, eq=False, kw_only=True)
class NewtonState(RootState):
    """Where Newton's method stands."""

    value: np.ndarray = field(default_factory=lambda: np.zeros(0))  # F at z
    share: float = 1.0  # of the last step
    fresh: bool = True  # the Jacobian is of this place
    last: NewtonStep | None = None
    moved: bool = True  # by the last search along a step
    turns: int = 0


class NewtonStep(NamedTuple):
    """A step that was gone, in part or as a whole."""

    step: np.ndarray
    following: np.ndarray  # the step that would follow, with the same Jacobian
    share: float
    size: float


class LineSearch(NamedTuple):
    """Where a search along a step ended; None where nothing helps."""

    found: NewtonStep | None
    value: np.ndarray  # F at the last trial
    asked: np.ndarray  # the last trial
    evaluations: int


def length(problem: NewtonProblem, step: np.ndarray) -> float:
    """Root mean square, in typical sizes: smooth, as the theory wants it, and independent of the mesh."""
    scaled = step / problem.system.scale
    with np.errstate(over="ignore"):
        return math.sqrt(float(scaled @ scaled) / scaled.size)


# steps


def first_jacobian(problem: NewtonProblem, state: NewtonState) -> NewtonState:
    return linearize(problem, state, state.z, _of_this_place)


def _of_this_place(linear: FactoredSystem) -> dict[str, Any]:
    return {"value": linear.value, "fresh": True}


def _linear(state: NewtonState) -> FactoredSystem:
    assert state.linear is not None
    return state.linear


def take_step(problem: NewtonProblem, state: NewtonState) -> NewtonState:
    """Along the Newton step as far as the test allows; nowhere is the end where the Jacobian is one of this place."""
    if state.turns >= problem.options.max_iterations:
        return state.exhausted(problem.options.max_iterations)
    step = -_linear(state).factors.solve(state.value)
    size = length(problem, step)
    share = initial_step_length(problem, state, step, size)
    found, value, asked, evaluations = line_search(problem, state, step, size, share)
    spent: dict[str, Any] = {"asked": asked, "evaluations": state.evaluations + evaluations, "turns": state.turns + 1}
    if found is None:
        state = replace(state, share=share, moved=False, **spent)
        return stopped_without_progress(problem, state, step) if state.fresh else state
    gone = found.share * step
    page = RootIteration(len(state.pages) + 1, "newton", found.share, largest(gone, problem.system.scale),
                         largest_residual(value), state.fresh)
    return replace(state, z=state.z + gone, value=value, share=found.share, last=found, moved=True,
                   pages=(*state.pages, page), **spent)


def renew_jacobian(problem: NewtonProblem, state: NewtonState) -> NewtonState:
    """The end where the step that would follow is short enough; else the Jacobian for the next step, which may be the old one.

    Where an old Jacobian says that it is the end, that of this place has the last word.
    """
    if state.result is not None:
        return state
    if not state.moved or state.last is None:  # the Jacobian was old; try again with one of this place
        return linearize(problem, state, state.z, lambda _: {"fresh": True})
    _, following, share, size = state.last
    done = share == 1.0 and (has_converged(problem, following) or exact(state.value, _linear(state)))
    if done and not state.fresh:
        state = linearize(problem, state, state.z, _of_this_place)
        if state.result is not None:
            return state
        following = -_linear(state).factors.solve(state.value)
        done = has_converged(problem, following) or exact(state.value, _linear(state))
        return replace(state, z=state.z + following).found() if done else state
    if done:
        return replace(state, z=state.z + following).found()
    if problem.options.test == "kept" and (share < 1 or length(problem, following) <= SLOW_CONTRACTION * size):
        return replace(state, fresh=False)
    return linearize(problem, state, state.z, _of_this_place)


def stopped_without_progress(problem: NewtonProblem, state: NewtonState, step: np.ndarray) -> NewtonState:
    """A tiny step after a full one that no longer shrinks is rounding, enlarged by the condition of the equations."""
    if has_converged(problem, step) or exact(state.value, _linear(state)):
        return state.found()
    if largest(step, problem.system.scale) <= BVP_ROUNDING_STEP and state.last is not None and state.last.share == 1:
        return state.found(problem.options.hidden_by_rounding)
    return state.stopped(False, problem.options.no_step_helps, TOO_SHORT)


NEWTON: OuterLoop[NewtonProblem, NewtonState] = OuterLoop(
    (first_jacobian,), (take_step, tell, renew_jacobian), (), has_ended)


# tests of a step


def exact(value: np.ndarray, linear: FactoredSystem) -> bool:
    """F is zero as far as rounding lets it be: no step can do better, however long it is where J is close to singular."""
    return bool(np.all(np.abs(value) <= BVP_EXACT_RESIDUAL * linear.rounding))


def has_converged(problem: NewtonProblem, following: np.ndarray) -> bool:
    return largest(following, problem.system.scale) <= problem.options.tolerance


def initial_step_length(problem: NewtonProblem, state: NewtonState, step: np.ndarray, size: float) -> float:
    """The share to begin with: from how the last step compares with what followed it (Deuflhard's predictor)."""
    last = state.last
    if last is None or problem.options.test == "residual":
        return min(1.0, 4 * state.share) if last else 1.0
    off = length(problem, last.following - step)
    if off <= 0 or size <= 0:
        return 1.0
    wanted = last.share * length(problem, last.step) * length(problem, last.following) / (off * size)
    return float(np.clip(wanted, problem.options.shortest, 1.0))


def line_search(problem: NewtonProblem, state: NewtonState, step: np.ndarray, size: float, share: float) -> LineSearch:
    """Shorten a step until it helps; longer again, once, where the first trial was far too careful."""
    options, linear, enlarged, evaluations = problem.options, _linear(state), False, 0
    trial, asked = state.value, state.asked
    while share >= options.shortest:
        asked, evaluations = state.z + share * step, evaluations + 1
        try:
            trial = problem.system.value(asked)
            following = -linear.factors.solve(trial)
        except SimulationDiverged:
            share /= 4
            continue
        helps, suggested = judge_step(problem, state, NewtonStep(step, following, share, size), trial)
        helps = helps or (share == 1.0 and exact(trial, linear))
        if helps and not enlarged and suggested >= 4 * share and share < 1:
            share, enlarged = min(1.0, suggested), True  # it was far too careful
            continue
        if helps or share <= options.insist:
            return LineSearch(NewtonStep(step, following, share, size), trial, asked, evaluations)
        share = max(min(suggested, share / 2), min(options.insist, share / 2))
        enlarged = True
    return LineSearch(None, trial, asked, evaluations)


def judge_step(problem: NewtonProblem, state: NewtonState, trial: NewtonStep, value: np.ndarray) -> tuple[bool, float]:
    """Whether the step helps, and which share looks right."""
    step, following, share, size = trial
    off = length(problem, following - (1 - share) * step)
    suggested = 0.5 * size * share**2 / off if off > 0 else 1.0
    if problem.options.test == "residual":
        with np.errstate(over="ignore"):
            before, after = float(state.value @ state.value), float(value @ value)
        falls = after <= (1 - 2 * SUFFICIENT_REDUCTION * share) * before
        return falls or below_rounding(problem, state, step), max(0.1 * share, min(suggested, 1.0))
    shrinks = length(problem, following) <= (1 - share / 4) * size
    return shrinks or below_rounding(problem, state, step), min(1.0, suggested)


def below_rounding(problem: NewtonProblem, state: NewtonState, step: np.ndarray) -> bool:
    """A step that rounding hides."""
    noise = BVP_HIDDEN_STEP * np.finfo(float).eps * (np.abs(state.z) + problem.system.scale)
    return bool(np.all(np.abs(step) <= noise))
