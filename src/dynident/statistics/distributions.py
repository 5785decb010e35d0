"""Distributions: quantiles and tails that tests and intervals ask for.

They are those of scipy.stats, without the half second that loading it takes.
"""

from __future__ import annotations

import numpy as np
from scipy import special


def normal_quantile(probability: float) -> float:
    return float(special.ndtri(probability))


def normal_sf(value: float) -> float:
    """Probability of more than that many standard deviations, on one side."""
    return float(special.ndtr(-value))


def student_quantile(probability: float, dof: float) -> float:
    """Of the t distribution; with infinitely many degrees of freedom that is the normal one."""
    return float(special.stdtrit(dof, probability)) if np.isfinite(dof) else normal_quantile(probability)


def chi_square_quantile(probability: float, dof: float) -> float:
    return float(2 * special.gammaincinv(dof / 2, probability))


def chi_square_sf(value: float, dof: float) -> float:
    return float(special.chdtrc(dof, value))


def noncentrality_limit(value: float, dof: float, probability: float) -> float:
    """The noncentrality at which a noncentral chi-square is no larger than `value` with this probability; 0 below it."""
    if special.chdtr(dof, value) <= probability:
        return 0.0
    return float(special.chndtrinc(value, dof, probability))


def f_quantile(probability: float, dof: float, other: float) -> float:
    """Of the ratio of two mean squares; that of chi-square over its degrees of freedom where the other is exact."""
    return float(special.fdtri(dof, other, probability)) if np.isfinite(other) else chi_square_quantile(probability, dof) / dof


def poisson_quantile(probability: float, mean: float) -> float:
    """The smallest count that is exceeded with no more than the remaining probability."""
    if mean <= 0:
        return 0.0
    count = max(float(np.ceil(special.pdtrik(probability, mean))), 0.0)
    return count - 1 if count and special.pdtr(count - 1, mean) >= probability else count


def skewness_and_excess(values: np.ndarray) -> tuple[float, float]:
    """Third and fourth standardised moments, the latter minus the 3 of a normal distribution."""
    centred = values - np.mean(values)
    centred = centred / np.max(np.abs(centred))  # so that no power is too large or too small for the computer
    variance = np.mean(centred**2)
    return float(np.mean(centred**3) / variance**1.5), float(np.mean(centred**4) / variance**2 - 3)
