"""Which samples of a long record must be drawn so that no peak is hidden?"""

from __future__ import annotations

import numpy as np

POINTS = 4000  # drawn per curve; two per bucket, and more buckets than a screen has columns


def kept_samples(values: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Indices to draw, rising: all of a short record; else the lowest and highest of each bucket and both ends.

    Missing values (NaN) are passed over; a bucket that holds nothing else keeps one of them, so that a gap stays a gap.
    """
    values = np.asarray(values, float)
    buckets = max(points // 2 - 1, 1)  # the two ends come on top
    if values.size <= max(points, 4):
        return np.arange(values.size)
    edges = np.linspace(0, values.size, buckets + 1).astype(int)[:-1]  # where each bucket begins
    bucket = np.searchsorted(edges, np.arange(values.size), side="right") - 1
    lowest = _first_where(values == np.fmin.reduceat(values, edges)[bucket], edges)
    highest = _first_where(values == np.fmax.reduceat(values, edges)[bucket], edges)
    return np.unique(np.concatenate([[0, values.size - 1], lowest, highest]))


def _first_where(hit: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """In each bucket the first sample that is hit, or the bucket's first sample where none is (all missing)."""
    candidates = np.where(hit, np.arange(hit.size), hit.size)
    first = np.minimum.reduceat(candidates, edges)
    return np.where(first < hit.size, first, edges)
