"""Uncertainty: the contract for how far an estimate can be trusted.

Whoever prints, draws, saves or compares estimates asks these members and no others. What an uncertainty cannot say it answers
emptily (NaN, None, an empty tuple); the answers given here are those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dynident.errors import ProblemError, did_you_mean

if TYPE_CHECKING:
    from dynident.statistics.covariance import Covariance

LEVEL = 0.95  # probability of an interval, unless another is asked for


INTERVAL_ENDS = "interval ends"  # how a remark begins that speaks of the interval alone


@runtime_checkable
class Uncertainty(Protocol):
    """Answers `interval(name)` and says what the interval means; `names` are the unknowns, in the order of all matrices."""

    names: tuple[str, ...]

    @property
    def meaning(self) -> str:
        """One or two sentences for the reader of a report: what the interval means, under which assumptions."""
        ...

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """(low, high); an end that the data cannot bound is infinite; a fixed quantity gives its value twice."""
        ...

    def remark(self, name: str) -> str:
        """A few words for the table ('at its lower bound', 'unidentifiable', 'fixed'), or nothing."""
        ...

    def std(self, name: str, kind: str | None = None) -> float:
        """Standard deviation: infinite where the data say nothing, zero where fixed, NaN where there is no distribution."""
        return float("nan")

    def correlation(self, kind: str | None = None) -> np.ndarray | None:
        """(unknowns, unknowns), NaN in the rows of those without a variance; None where there is no distribution."""
        return None

    def covariance(self) -> np.ndarray | None:
        """(unknowns, unknowns) as it was computed, or None."""
        return None

    @property
    def linearized(self) -> Covariance | None:
        """The covariance of the linearised least-squares problem that this is or rests on, or None."""
        return None

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `kind` may be, where intervals rest on several assumptions about the errors; else nothing."""
        return ()

    @property
    def default_kind(self) -> str:
        """The one of `kinds` that is used where none is asked for."""
        return ""

    @property
    def combinations(self) -> tuple[str, ...]:
        """What the data determine of unknowns that they do not determine each, in words."""
        return ()

    @property
    def heading(self) -> str:
        """Of the column of intervals in a table of results."""
        return "95 % interval"

    @property
    def status_word(self) -> str:
        """A word in place of 'Converged', where that would mislead; else nothing."""
        return ""

    def is_informed(self, name: str) -> bool:
        """Whether the data say more about an unknown than was known before; else its value is no estimate."""
        return True

    def with_plot_pair(self, pair: Sequence[str], truth: Mapping[str, Any]) -> Uncertainty | None:
        """A copy that is drawn as a set over two unknowns, and beside what is known to be true; None: it is no set."""
        return None


def index_of(name: str, names: Sequence[str] | Mapping[str, int]) -> int:
    """The place of an unknown (of many: from a table); one that there is not is refused with what may have been meant."""
    if name not in names:
        raise ProblemError(f"'{name}' is not an unknown of this estimate.{did_you_mean(name, names)}")
    return names[name] if isinstance(names, Mapping) else list(names).index(name)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ProblemError(f"level = {level} is not a probability; use for instance level=0.95.")


def check_single_kind(kind: str | None) -> None:
    """For an uncertainty that knows no `kinds`."""
    if kind:
        raise ProblemError(f"kind = '{kind}': there is one kind of interval here; leave it out.")
