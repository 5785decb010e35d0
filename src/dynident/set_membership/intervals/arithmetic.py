"""Rounding: interval sums and products of numpy arrays, each end moved outward by a proved step.

The step is that of arithmetic.c, where its proof stands. Ends are pairs of arrays (lo, hi); empty ends are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ends = tuple[Any, Any]  # arrays, or numbers, of one shape

PHI = float.fromhex("0x1.0000000000002p-53")
ETA = 5e-324
TOP = np.finfo(float).max


def down(c: Any) -> Any:
    c = np.where(c > TOP, TOP, c)
    return c - (PHI * np.abs(c) + ETA)


def up(c: Any) -> Any:
    return -down(-np.asarray(c))


def total(a: Ends, b: Ends) -> Ends:
    """a + b, where a zero sum is exact."""
    lo, hi = a[0] + b[0], a[1] + b[1]
    return np.where(lo == 0, 0.0, down(lo)), np.where(hi == 0, 0.0, up(hi))


def difference(a: Ends, b: Ends) -> Ends:
    return total(a, (-b[1], -b[0]))


def times(a: Ends, b: Ends) -> Ends:
    """a * b; zero times an infinite end is zero, since the end is never reached."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = np.array(np.broadcast_arrays(a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]))
        undefined = np.isnan(a[0]) | np.isnan(b[0])
        products[np.isnan(products)] = 0
        lo, hi = products.min(axis=0), products.max(axis=0)
        thin_zero = ((a[0] == 0) & (a[1] == 0)) | ((b[0] == 0) & (b[1] == 0))
        same_sign = ((a[0] >= 0) & (b[0] >= 0)) | ((a[1] <= 0) & (b[1] <= 0))
        other_sign = ((a[0] >= 0) & (b[1] <= 0)) | ((a[1] <= 0) & (b[0] >= 0))
        low, high = down(lo), up(hi)
        low = np.where(thin_zero | (same_sign & (low < 0)), 0.0, low)
        high = np.where(thin_zero | (other_sign & (high > 0)), 0.0, high)
    return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)


def join(a: Ends, b: Ends) -> Ends:
    """The smallest interval that holds both; an empty one adds nothing."""
    return np.fmin(a[0], b[0]), np.fmax(a[1], b[1])


def meet(a: Ends, b: Ends) -> Ends:
    """What both hold; NaN where that is nothing."""
    with np.errstate(invalid="ignore"):
        lo, hi = np.maximum(a[0], b[0]), np.minimum(a[1], b[1])
        bad = ~(lo <= hi)
    return np.where(bad, np.nan, lo), np.where(bad, np.nan, hi)


def middle(a: Ends) -> np.ndarray:
    """A number inside; finite wherever one of the ends is."""
    lo, hi = np.clip(a[0], -TOP / 4, TOP / 4), np.clip(a[1], -TOP / 4, TOP / 4)
    return np.clip(0.5 * lo + 0.5 * hi, np.maximum(a[0], -TOP), np.minimum(a[1], TOP))
