"""What is assumed about the error of a measured signal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynident.errors import ProblemError


def _positive(value: ArrayLike, what: str) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"{what} is a number or one value per sample, not {value!r}.") from None
    if array.ndim > 1:
        raise ProblemError(f"{what} is a number or one value per sample, not an array of shape {array.shape}.")
    if not np.all(np.isfinite(array)) or np.any(array <= 0):
        raise ProblemError(f"{what} must be positive and finite.")
    return array


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Independent normal errors; without `std` the standard deviation is estimated from the residuals.

    `bound` says in addition that no error exceeds it, as a second statement of its own: methods of likelihood read the
    standard deviation, set_membership reads the bound, and neither is ever made from the other.
    """

    std: ArrayLike | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        if self.std is not None:
            _positive(self.std, "Gaussian(std)")
        if self.bound is not None and _positive(self.bound, "Gaussian(bound=...)").ndim:
            raise ProblemError("Gaussian(bound=...) is one number; bounds per sample are said by Bounded(radius).")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and _same(self.std, other.std) and self.bound == other.bound


@dataclass(frozen=True, eq=False)
class Bounded:
    """Errors that never exceed `radius`; nothing is assumed about how they are distributed inside."""

    radius: ArrayLike

    def __post_init__(self) -> None:
        _positive(self.radius, "Bounded(radius)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounded) and _same(self.radius, other.radius)


Noise = Gaussian | Bounded


def stated_bound(noise: Noise) -> np.ndarray | None:
    """What the user said that no error exceeds, a number or one per sample; None where nothing was said."""
    bound = noise.radius if isinstance(noise, Bounded) else noise.bound
    return None if bound is None else np.asarray(bound, float)


def _same(a: ArrayLike | None, b: ArrayLike | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(np.asarray(a, float), np.asarray(b, float)))
