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


def refuse(method: Method, problem: Problem) -> None:
    """Raise what the method says against the problem before it computes anything, where it can say so that early."""
    if hasattr(method, "refuse"):
        method.refuse(problem)


# Options that say how to look for the smallest sum, and for no method which sum it is.
HOW_TO_SEARCH = ("solver", "hessian", "segments", "restarts", "polish", "global_search")


def minimised(method: Any) -> dict[str, Any]:
    """What tells the sum that a method minimises from that of another; costs compare where these are equal.

    A method may say it itself as `minimises()`. Of all others every option counts, except those that only say how to
    search: weights, losses and filters with other settings do not minimise the same.
    """
    if hasattr(method, "minimises"):
        return method.minimises()
    options = method.options() if hasattr(method, "options") else {}
    return {name: value for name, value in options.items() if name not in HOW_TO_SEARCH}


def started_method(method: Any) -> Any:
    """The method itself, of one that begins it many times."""
    return getattr(method, "method", method)
