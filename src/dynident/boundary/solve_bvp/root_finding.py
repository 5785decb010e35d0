"""Root finding: what is a system of as many equations as unknowns, where does a root finder stand, and what does it report?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from dynident.errors import DynidentError
from dynident.methods.outer_loop import OuterLoop
from dynident.solvers.solver_result import iterations_in_words
from dynident.status import Status, StatusCode


class Singular(DynidentError):
    """A Jacobian that cannot be solved, said as `RootResult.reason` is; `code` is the number of Table 6.1 of the thesis."""

    def __init__(self, what: str, code: int):
        self.code = code
        super().__init__(what)


class Factors(Protocol):
    """A factored Jacobian; stays valid when the system is asked elsewhere."""

    def solve(self, rhs: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class FactoredSystem:
    """F at a point, and its factored Jacobian there."""

    value: np.ndarray
    factors: Any  # Factors
    rounding: np.ndarray | float = 0.0  # (equations,) what rounding leaves of F there, roughly; 0 where it is not known


class NonlinearSystem(Protocol):
    """F(z) = 0. Both methods raise SimulationDiverged where a number is not finite; `linearize` raises Singular."""

    @property
    def scale(self) -> np.ndarray:
        """(unknowns,) typical size of each; steps are measured in it."""
        ...

    def value(self, z: np.ndarray) -> np.ndarray: ...

    def linearize(self, z: np.ndarray) -> FactoredSystem: ...


@dataclass(frozen=True)
class RootIteration:
    """One iteration of a root finder."""

    number: int
    phase: str  # "newton" or "time stepping"
    share: float  # of the Newton step that was gone; in time stepping: the step in pseudo-time
    step: float  # largest change of an unknown, in its typical size
    residual: float  # largest |F| after it
    fresh: bool  # the Jacobian was made for this iteration
    accepted: bool = True


@dataclass(frozen=True, eq=False)
class RootResult:
    """Where a root finder ended. `code`: 0, or the number of Table 6.1 (230 is MUSN's own) that says why not."""

    point: np.ndarray
    converged: bool
    reason: str  # what follows 'converged' or 'stopped': 'after 12 iterations', 'because no step helps any more'
    code: int
    pages: tuple[RootIteration, ...]
    jacobians: int
    evaluations: int  # of F, those with a Jacobian included
    linear: FactoredSystem | None = None  # the last one that was made; at `point` or close to it
    interrupted: bool = False

    @property
    def iterations(self) -> int:
        return len(self.pages)

    @property
    def status(self) -> Status:
        """The reason with its code."""
        code = StatusCode.INTERRUPTED if self.interrupted else STATUS_CODES[self.code]
        return Status(self.reason, code)


RootWatch = Callable[[RootIteration, np.ndarray], None]  # with where the system was asked last
OptionsT = TypeVar("OptionsT")

TOO_MANY = 231  # codes of Table 6.1
INNER_LOOP = 232
SINGULAR_BLOCK = 250
ILL_POSED = 260
TOO_SHORT = 230  # MUSN's own: the damping factor is too small
STATUS_CODES = {0: StatusCode.CONVERGED, TOO_MANY: StatusCode.ITERATION_LIMIT, INNER_LOOP: StatusCode.INNER_LOOP_FAILED,
                SINGULAR_BLOCK: StatusCode.SINGULAR, ILL_POSED: StatusCode.SINGULAR, TOO_SHORT: StatusCode.NO_PROGRESS}


def largest(step: np.ndarray, scale: np.ndarray) -> float:
    """The largest entry, each in its typical size."""
    return float(np.max(np.abs(step / scale))) if step.size else 0.0


def largest_residual(value: np.ndarray) -> float:
    return float(np.max(np.abs(value))) if value.size else 0.0


@dataclass(frozen=True, eq=False)
class RootProblem(Generic[OptionsT]):
    """What stays the same over all iterations of a root finder."""

    options: OptionsT
    system: NonlinearSystem
    watch: RootWatch | None


@dataclass(frozen=True, eq=False, kw_only=True)
class RootState:
    """Where a root finder stands, and what it has asked and written so far; each root finder adds what it needs."""

    z: np.ndarray
    asked: np.ndarray  # where the system was asked last
    linear: FactoredSystem | None = None  # the last one that was made
    pages: tuple[RootIteration, ...] = ()
    told: int = 0  # pages of which whoever watches knows
    jacobians: int = 0
    evaluations: int = 0
    result: RootResult | None = None  # ends it

    def stopped(self, converged: bool, reason: str, code: int = 0, interrupted: bool = False) -> Self:
        return replace(self, result=RootResult(self.z, converged, reason, code, self.pages, self.jacobians, self.evaluations,
                                               self.linear, interrupted))

    def found(self, remark: str = "") -> Self:
        return self.stopped(True, f"after {iterations_in_words(len(self.pages))}{remark}")

    def exhausted(self, iterations: int) -> Self:
        return self.stopped(False, f"at the limit of {iterations_in_words(iterations)}", TOO_MANY)

    def ended(self, reason: Status, interrupted: bool) -> Self:
        """By Ctrl-C: with where it stood behind the last step, and what it had counted there."""
        return self.stopped(False, str(reason), 0, interrupted)


RootStateT = TypeVar("RootStateT", bound=RootState)


def linearize(problem: RootProblem[Any], state: RootStateT, z: np.ndarray, then: Callable[[FactoredSystem], dict[str, Any]]
              ) -> RootStateT:
    """With the Jacobian of a place and what follows from it; where the equations are singular there, that is the end."""
    asked: dict[str, Any] = {"asked": z, "jacobians": state.jacobians + 1, "evaluations": state.evaluations + 1}
    try:
        linear = problem.system.linearize(z)
    except Singular as reason:
        return replace(state, **asked).stopped(False, str(reason), reason.code)
    return replace(state, linear=linear, **asked, **then(linear))


def tell(problem: RootProblem[Any], state: RootStateT) -> RootStateT:
    """Whoever watches is told of what was written since."""
    if problem.watch is None or state.told == len(state.pages):
        return state
    for page in state.pages[state.told:]:
        problem.watch(page, state.asked)
    return replace(state, told=len(state.pages))


def has_ended(_problem: RootProblem[Any], state: RootState) -> bool:
    return state.result is not None


def find_root(loop: OuterLoop[Any, Any], problem: RootProblem[Any], state: RootState) -> RootResult:
    """Steps from one state to the next, until there is a result."""
    result = loop.run(problem, state).result
    assert isinstance(result, RootResult)
    return result
