"""The papers: what one item of a paper came to, theirs beside ours, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure



class Agreement(StrEnum):
    """How ours stands to theirs."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Theirs, ours, how they stand to each other, the numbers as a table, and how to draw them.

    `because` says why ours differs or is missing; where ours agrees, it may say in what sense.
    """

    theirs: str
    ours: str
    agreement: Agreement
    because: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    draw: Callable[[Figure], None] | None = None

    @property
    def line(self) -> str:
        """`theirs | ours | agrees`, or `differs because ...`."""
        return " | ".join((self.theirs, self.ours, verdict_text(self.agreement, self.because)))


def verdict_text(agreement: Agreement, because: str) -> str:
    """The third cell of an item's line."""
    if not because:
        return agreement.value
    return f"{agreement.value}: {because}" if agreement is Agreement.AGREES else f"{agreement.value} because {because}"


def compared(holds: bool, theirs: str, ours: str, because: str, columns: Sequence[str], rows: Sequence[Sequence[Any]],
             draw: Callable[[Figure], None] | None = None, sense: str = "") -> Outcome:
    """Agrees (in the stated sense) where the comparison holds, differs for the stated reason where it does not."""
    agreement = Agreement.AGREES if holds else Agreement.DIFFERS
    return Outcome(theirs, ours, agreement, sense if holds else because, columns, rows, draw)


def not_reproduced(theirs: str, because: str) -> Outcome:
    """Nothing was computed; the reason is all there is."""
    return Outcome(theirs, "-", Agreement.NOT_REPRODUCED, because, ("reason",), ((because,),))
