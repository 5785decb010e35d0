"""Motion: what do the stretches of motion of one record leave, each solved as a whole, one after another?

Everything goes forward in time: a stretch that ends at a sample is judged by what samples up to it say, so that the first
sample with which nothing fits any more can be named. Nothing from behind it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.set_membership.batch import first_true
from dynident.set_membership.interval_observer import Passage
from dynident.set_membership.intervals.arithmetic import Ends
from dynident.set_membership.motion_windows import Slices, Window, WindowChoice, WindowSolver, windows_of
from dynident.set_membership.setup import Question


@dataclass(frozen=True, eq=False)
class Motion:
    """One record whose passage is known, and what was known before it."""

    question: Question
    experiment: int
    passage: Passage
    changing: frozenset[int]  # parameters that are reset at standstill
    choice: WindowChoice

    def windows(self) -> list[Window]:
        still = {k for k, law in enumerate(self.question.automaton.modes) if law.rate_is_zero}
        return list(windows_of(self.passage, still))

    def narrowed(self, low: np.ndarray, high: np.ndarray) -> Narrowed:
        """Bounds of the problem's unknowns after all windows, or the first sample that nothing fits."""
        low, high = low.copy(), high.copy()
        last: dict[int, tuple[float, float]] = {}
        done = 0
        for window in self.windows():
            crossing = self._first_crossing(low, high, done, window.end)
            if crossing is not None:
                return Narrowed(low, high, last, crossing)
            found = self._solver(window).narrowed(*self._box(window, window.end, low, high))
            if found is None:
                return Narrowed(low, high, last, self._first_refuted(window, low, high), window)
            self._take(found, low, high, last)
            done = window.end
        return Narrowed(low, high, last, self._first_crossing(low, high, done, self.passage.reached()))

    def refuted(self, window: Window, low: np.ndarray, high: np.ndarray) -> bool:
        return self._solver(window).narrowed(*self._box(window, window.end, low, high)) is None

    def _solver(self, window: Window) -> WindowSolver:
        return WindowSolver(self.question, self.experiment, window, self.passage, self.choice)

    def _box(self, window: Window, end: int, low: np.ndarray, high: np.ndarray) -> Ends:
        """States at its begin, parameters as the last sample before `end` leaves them."""
        n = self.question.automaton.layout.states
        own = n + np.array(sorted(self.changing), int)
        lo, hi = self.question.box(self.experiment, low, high)
        lo[own], hi[own] = -np.inf, np.inf
        lo[n:] = np.maximum(lo[n:], self.passage.low[end - 1, n:])
        hi[n:] = np.minimum(hi[n:], self.passage.high[end - 1, n:])
        lo[:n], hi[:n] = self.passage.low[window.begin, :n], self.passage.high[window.begin, :n]
        return lo, hi

    def _take(self, found: Ends, low: np.ndarray, high: np.ndarray, last: dict[int, tuple[float, float]]) -> None:
        n = self.question.automaton.layout.states
        for row, k in zip(*self.question.unknown_rows(self.experiment), strict=True):
            if row >= n and row - n in self.changing:
                last[int(k)] = float(found[0][row]), float(found[1][row])
            elif row >= n:
                low[k], high[k] = max(low[k], found[0][row]), min(high[k], found[1][row])

    def _first_crossing(self, low: np.ndarray, high: np.ndarray, begin: int, end: int) -> int | None:
        """The first sample at which the boxes leave nothing of the given bounds."""
        n = self.question.automaton.layout.states
        rows, source = self.question.unknown_rows(self.experiment)
        kept = [row >= n and row - n not in self.changing for row in rows]
        rows, source = rows[kept], source[kept]
        apart = (self.passage.low[begin:end, rows] > high[source]) | (self.passage.high[begin:end, rows] < low[source])
        found = np.flatnonzero(apart.any(axis=1))
        return begin + int(found[0]) if found.size else None

    def _first_refuted(self, window: Window, low: np.ndarray, high: np.ndarray) -> int:
        """The last sample of the shortest beginning of the window that is refuted, found by halving."""
        solver = self._solver(window)
        left: Slices | None = None  # what the longest beginning left that is not refuted

        def refuted(last: int) -> bool:
            nonlocal left
            found = solver.slices(*self._box(window, last + 1, low, high), last + 1 - window.begin, left)
            left = left if found is None else found
            return found is None

        return first_true(refuted, window.begin, window.end - 1)


@dataclass(frozen=True, eq=False)
class Narrowed:
    """What windows leave of the problem's unknowns."""

    low: np.ndarray
    high: np.ndarray
    last_motion: dict[int, tuple[float, float]]  # of parameters that are reset: in the last window
    refuted_at: int | None = None  # the first sample with which nothing fits any more
    window: Window | None = None  # that said so
