"""Interval arithmetic of NumPy arrays: the interpreted twin of arithmetic.c, each end rounded outward by a proved step.

The proof stands there. Intervals are pairs of arrays (lo, hi); an empty interval is NaN at both ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Interval = tuple[Any, Any]  # (lo, hi): arrays, or numbers, of one shape

PHI = float.fromhex("0x1.0000000000002p-53")
ETA = 5e-324  # the smallest positive number of double precision
LARGEST_FLOAT = np.finfo(float).max
TINY = 1e-300  # absolute: more than any underflow can lose
UNIT = 2.0**-52  # relative error of a rounded operation, doubled


def round_down(c: Any) -> Any:
    """A number below every real that rounds to c."""
    c = np.where(c > LARGEST_FLOAT, LARGEST_FLOAT, c)
    return c - (PHI * np.abs(c) + ETA)


def round_up(c: Any) -> Any:
    """A number above every real that rounds to c."""
    return -round_down(-np.asarray(c))


def add(a: Interval, b: Interval) -> Interval:
    """The sum, where a zero sum is exact."""
    lo, hi = a[0] + b[0], a[1] + b[1]
    return np.where(lo == 0, 0.0, round_down(lo)), np.where(hi == 0, 0.0, round_up(hi))


def sub(a: Interval, b: Interval) -> Interval:
    """The difference."""
    return add(a, (-b[1], -b[0]))


def mul(a: Interval, b: Interval) -> Interval:
    """The product; zero times an infinite end is zero, since the end is never reached."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = np.array(np.broadcast_arrays(a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]))
        undefined = np.isnan(a[0]) | np.isnan(b[0])
        products[np.isnan(products)] = 0
        lo, hi = products.min(axis=0), products.max(axis=0)
        thin_zero = ((a[0] == 0) & (a[1] == 0)) | ((b[0] == 0) & (b[1] == 0))
        same_sign = ((a[0] >= 0) & (b[0] >= 0)) | ((a[1] <= 0) & (b[1] <= 0))
        other_sign = ((a[0] >= 0) & (b[1] <= 0)) | ((a[1] <= 0) & (b[0] >= 0))
        low, high = round_down(lo), round_up(hi)
        low = np.where(thin_zero | (same_sign & (low < 0)), 0.0, low)
        high = np.where(thin_zero | (other_sign & (high > 0)), 0.0, high)
    return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds both; an empty one adds nothing."""
    return np.fmin(a[0], b[0]), np.fmax(a[1], b[1])


def intersect(a: Interval, b: Interval) -> Interval:
    """What both hold; NaN where that is nothing."""
    with np.errstate(invalid="ignore"):
        lo, hi = np.maximum(a[0], b[0]), np.minimum(a[1], b[1])
        bad = ~(lo <= hi)
    return np.where(bad, np.nan, lo), np.where(bad, np.nan, hi)


def midpoint(a: Interval) -> np.ndarray:
    """A number inside; finite wherever one of the ends is."""
    lo, hi = np.clip(a[0], -LARGEST_FLOAT / 4, LARGEST_FLOAT / 4), np.clip(a[1], -LARGEST_FLOAT / 4, LARGEST_FLOAT / 4)
    return np.clip(0.5 * lo + 0.5 * hi, np.maximum(a[0], -LARGEST_FLOAT), np.minimum(a[1], LARGEST_FLOAT))
