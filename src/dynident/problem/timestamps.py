"""Clock: how many seconds are these dates or durations?"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

DATES, DURATIONS = "M", "m"  # as numpy calls the kinds of datetime64 and timedelta64
SECONDS = {"W": Fraction(604_800), "D": Fraction(86_400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1)} | {
    unit: Fraction(1, 1000 ** power) for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)}


def to_seconds(times: np.ndarray) -> np.ndarray | None:
    """Durations in seconds, dates in seconds after the first; NaN where there is none, None where they have no size.

    Whole counts are subtracted before they become floats, so that nanoseconds survive beside a date.
    """
    if times.dtype.kind == DATES:
        if np.datetime_data(times.dtype)[0] in "YM":  # calendar units have no fixed length, their first days have
            times = times.astype("datetime64[D]")
        times = times - times.ravel()[:1]
    unit, multiple = np.datetime_data(times.dtype)
    if unit not in SECONDS:
        return None
    factor = SECONDS[unit] * multiple
    counts = times.astype(np.int64).astype(float) * float(factor.numerator) / float(factor.denominator)
    return np.where(np.isnat(times), np.nan, counts)
