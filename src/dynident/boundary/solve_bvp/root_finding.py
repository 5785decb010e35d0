"""Root finding: what is a system of as many equations as unknowns, and what does a root finder report?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dynident.errors import DynidentError
from dynident.status import Status, StatusCode


class Singular(DynidentError):
    """A Jacobian that cannot be solved, said as `Root.reason` is; `code` is the number of Table 6.1 of the thesis."""

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


Watch = Callable[[RootIteration], None]

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


class RootIterationLog:
    """Counts what a root finder asks of a system, keeps its pages and tells whoever watches."""

    def __init__(self, system: NonlinearSystem, watch: Watch | None):
        self.system, self.watch = system, watch
        self.pages: list[RootIteration] = []
        self.jacobians = self.evaluations = 0
        self.linear: FactoredSystem | None = None

    def value(self, z: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        return self.system.value(z)

    def linearize(self, z: np.ndarray) -> FactoredSystem:
        self.evaluations += 1
        self.jacobians += 1
        self.linear = self.system.linearize(z)
        return self.linear

    def write(self, phase: str, share: float, step: np.ndarray, value: np.ndarray, fresh: bool,
              accepted: bool = True) -> None:
        residual = float(np.max(np.abs(value))) if value.size else 0.0
        size = largest(step, self.system.scale)
        page = RootIteration(len(self.pages) + 1, phase, float(share), size, residual, fresh, accepted)
        self.pages.append(page)
        if self.watch:
            self.watch(page)

    def root(self, point: np.ndarray, converged: bool, reason: str, code: int, interrupted: bool = False) -> RootResult:
        return RootResult(point, converged, reason, code, tuple(self.pages), self.jacobians, self.evaluations, self.linear,
                    interrupted)


class Run(Protocol):
    """The state of one solve: where it is, and what it wrote."""

    z: np.ndarray
    diary: RootIterationLog

    def go(self) -> RootResult: ...


def ended(run: Run) -> RootResult:
    """A run to its end; singular equations and Ctrl-C are ends too."""
    try:
        return run.go()
    except Singular as reason:
        return run.diary.root(run.z, False, str(reason), reason.code)
    except KeyboardInterrupt:
        return run.diary.root(run.z, False, "by the user", 0, interrupted=True)
