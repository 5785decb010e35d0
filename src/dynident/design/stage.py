"""Stage: how far a search for an input has come, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Stage:
    """One look at the search; costs are those of the search, smaller is better."""

    start: int  # which of the starts is searched from, from 1 on
    starts: int
    tightening: bool  # limits are being kept between the samples, too
    asked: int  # courses simulated with their sensitivities so far
    cost: float  # of the course that was just tried


def said(stage: Stage, seconds: float) -> str:
    """The line on a terminal or in a log."""
    where = "limits between the samples" if stage.tightening else f"start {stage.start} of {stage.starts}"
    return f"{where}  {stage.asked} courses tried  cost {stage.cost:.4g}  {seconds:.1f} s"


@dataclass
class Teller:
    """Counts what is tried and tells of it."""

    tell: Callable[[Stage], object] = lambda stage: None
    start: int = 0
    starts: int = 0
    tightening: bool = False
    asked: int = field(default=0, init=False)

    def watching(self, ask: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
        """The same question; each answer is told."""

        def asked(point: np.ndarray) -> Any:
            answer = ask(point)
            self.asked += 1
            self.tell(Stage(self.start, self.starts, self.tightening, self.asked, float(answer.value)))
            return answer

        return asked
