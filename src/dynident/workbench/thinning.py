"""Thinning: which few points look like all of them? Per pixel the smallest and the largest value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Thinning:
    """Where the pixels begin in a part of a record: all signals that are thinned by it keep their samples side by side."""

    first: int  # sample of the record
    last: int  # one beyond
    edges: np.ndarray | None  # (pixels,) samples, counted from `first`; None: as few samples as points, and all are kept

    @classmethod
    def of(cls, time: np.ndarray, width: int, begin: float | None = None, end: float | None = None) -> Thinning:
        """For times between begin and end, with a neighbour on either side, on so many pixels."""
        first = 0 if begin is None else max(0, int(np.searchsorted(time, begin, "left")) - 1)
        last = len(time) if end is None else min(len(time), int(np.searchsorted(time, end, "right")) + 1)
        last = max(last, min(first + 1, len(time)))
        if last - first <= 2 * width:
            return cls(first, last, None)
        return cls(first, last, np.linspace(0, last - first, width, endpoint=False).astype(np.int64))

    def times(self, time: np.ndarray) -> np.ndarray:
        """Two per pixel: where it begins, and its middle."""
        part = np.asarray(time[self.first:self.last], float)
        if self.edges is None:
            return part
        ends = np.append(self.edges[1:], len(part))
        return np.column_stack([part[self.edges], part[(self.edges + ends) // 2]]).ravel()

    def values(self, signal: np.ndarray) -> np.ndarray:
        """The smallest and the largest value per pixel, in the order in which the signal goes; NaN where all are missing."""
        part = np.asarray(signal[self.first:self.last], float)
        if self.edges is None:
            return part
        low, high = np.fmin.reduceat(part, self.edges), np.fmax.reduceat(part, self.edges)
        falls = part[np.append(self.edges[1:], len(part)) - 1] < part[self.edges]
        return np.column_stack([np.where(falls, high, low), np.where(falls, low, high)]).ravel()
