"""Method: the contract between `identify` and whatever finds an estimate."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, runtime_checkable

from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem


@runtime_checkable
class Method(Protocol):
    """A frozen set of options; `options()` gives them as plain data with the key `kind`."""

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        """The estimate, converged or not; `tell` takes each Iteration."""
        ...

    def options(self) -> dict[str, Any]: ...
