"""Noise and loss: what is assumed about the error of a measured signal, and how much a large residual counts.

The losses beside least squares are those of robust M-estimators (Huber), solved as iteratively reweighted least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynident._util.expressions import without_expression
from dynident.errors import ProblemError, did_you_mean
from dynident.tolerances import EQUAL_LEVELS

# rho(z) of the squared weighted residual z, and its slope; rho(z) = z is least squares
LOSSES = {
    "squared": (lambda z: z, lambda z: np.ones_like(z)),
    "huber": (lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.maximum(z, 1)) - 1), lambda z: 1 / np.sqrt(np.maximum(z, 1))),
    "soft_l1": (lambda z: 2 * (np.sqrt(1 + z) - 1), lambda z: 1 / np.sqrt(1 + z)),
    "cauchy": (np.log1p, lambda z: 1 / (1 + z)),
}
LOSS_SCALE = 1.345  # residuals beyond this many standard deviations are weighted down; 95 % efficient under normal noise


def _positive(value: ArrayLike, what: str) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"{what} is a number or one value per sample, not {value!r}.") from None
    if array.ndim > 1:
        raise ProblemError(f"{what} is a number or one value per sample, not an array of shape {array.shape}.")
    if not np.all(np.isfinite(array)) or np.any(array <= 0):
        worst = array if array.ndim == 0 else array[~(np.isfinite(array) & (array > 0))][0]
        raise ProblemError(f"{what} must be positive and finite; it is {float(worst):g}. Leave it out to have it estimated.")
    return array


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Independent normal errors of a measured signal.

    See the manual, howto/noise.

    Parameters
    ----------
    std : float, array of one value per sample, or str, optional
        Standard deviation, in the unit of the signal. Left out, it is estimated from the residuals. As text a formula of
        parameters, constants and whatever the model knows, the output itself included: "a + b*abs(y)"; its parameters are
        declared in the problem, and its logarithm is part of the objective. One name in several signals and records is one
        common standard deviation.
    bound : float, optional
        A number that no error exceeds, in the unit of the signal. It is a statement of its own: likelihood methods read `std`,
        `set_membership` reads `bound`, and neither is made from the other.
    evaluated : array of one value per sample, optional
        Of a formula, what it gave at the values of an estimate; a fit fills it in and never reads it.

    Raises
    ------
    ProblemError
        For a value that is not positive and finite.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2], outputs={"x": [1.0, 0.6, 0.4]}, noise={"x": di.Gaussian(std=0.05)})
    >>> record.noise["x"].std
    0.05
    """

    std: Any = None  # a number, one per sample, or text
    bound: float | None = None
    evaluated: Any = field(default=None, repr=False)  # of a formula, at the values of an estimate

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", without_expression(self.std))
        if self.std is not None and not isinstance(self.std, str):
            _positive(self.std, "Gaussian(std)")
        if self.bound is not None and _positive(self.bound, "Gaussian(bound=...)").ndim:
            raise ProblemError("Gaussian(bound=...) is one number; bounds per sample are said by Bounded(radius).")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and _same(self.std, other.std) and self.bound == other.bound


@dataclass(frozen=True, eq=False)
class Bounded:
    """Errors of a measured signal that never exceed a bound; their distribution inside of it is left open.

    See the manual, methods/set_membership.

    Parameters
    ----------
    radius : float or array of one value per sample
        Largest absolute error, in the unit of the signal.

    Raises
    ------
    ProblemError
        For a radius that is not positive and finite.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2], outputs={"x": [1.0, 0.6, 0.4]}, noise={"x": di.Bounded(0.05)})
    >>> record.noise["x"].radius
    0.05
    """

    radius: ArrayLike

    def __post_init__(self) -> None:
        _positive(self.radius, "Bounded(radius)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounded) and _same(self.radius, other.radius)


@dataclass(frozen=True, eq=False)
class LogNormal:
    """Errors that multiply: the logarithm of the measured value is normal about the logarithm of the model's.

    Measured values and the model's output must be positive. See the manual, howto/noise.

    Parameters
    ----------
    std : float, array of one value per sample, or str
        Standard deviation of the natural logarithm: 0.1 is some 10 %. As text a formula, as in `Gaussian`; for one of decimal
        logarithms write "s*log(10)".
    evaluated : array of one value per sample, optional
        What a fit found, as standard deviations in the unit of the signal; never read by a fit.

    Raises
    ------
    ProblemError
        For a value that is not positive and finite.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2], outputs={"x": [1.0, 0.6, 0.4]}, noise={"x": di.LogNormal(0.1)})
    >>> record.noise["x"]
    LogNormal(std=0.1)
    """

    std: Any
    evaluated: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.std is None:
            raise ProblemError("LogNormal needs a standard deviation; where it is to be found write LogNormal(\"s\") and "
                               "declare Parameter(\"s\", ...).")
        object.__setattr__(self, "std", without_expression(self.std))
        if not isinstance(self.std, str):
            _positive(self.std, "LogNormal(std)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogNormal) and _same(self.std, other.std)


Noise = Gaussian | Bounded | LogNormal


def formula_of(noise: Noise | None) -> str | None:
    """The formula of a standard deviation, where it is one."""
    std = None if noise is None or isinstance(noise, Bounded) else noise.std
    return std if isinstance(std, str) else None


def is_weighed_by_model(noise: Noise | None) -> bool:
    """Whether the weight of a residual follows from the model: a formula, or errors that multiply."""
    return isinstance(noise, LogNormal) or formula_of(noise) is not None


def logarithmic_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a - b) / (log a - log b), which lies between the two: times the std of logarithms it is that of differences."""
    ratio = np.log(a / b)
    return np.where(np.abs(ratio) > EQUAL_LEVELS, (a - b) / np.where(ratio == 0, 1.0, ratio), a)


def with_size(noise: Noise, size: Any) -> Noise:
    """The same kind of errors of another size."""
    return Bounded(size) if isinstance(noise, Bounded) else replace(noise, std=size, evaluated=None)


def size_of(noise: Noise) -> Any:
    """Standard deviation or radius as it was given: nothing, a number, one per sample, or a formula."""
    return noise.radius if isinstance(noise, Bounded) else noise.std


def stated_bound(noise: Noise) -> np.ndarray | None:
    """What the user said that no error exceeds, a number or one per sample; None where nothing was said."""
    bound = noise.radius if isinstance(noise, Bounded) else None if isinstance(noise, LogNormal) else noise.bound
    return None if bound is None else np.asarray(bound, float)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and a == b
    return bool(np.array_equal(np.asarray(a, float), np.asarray(b, float)))


def sum_of_squares(numbers: np.ndarray) -> float:
    """Sum of the squares, by pairs: a plain sum of many loses digits, by which steps are judged."""
    return float(np.sum(numbers * numbers))


def loss_and_weights(residual: np.ndarray, loss: str) -> tuple[float, np.ndarray]:
    """Cost of weighted residuals under a loss, and the factor for each row of the least squares problem that replaces it.

    The cost is infinite where it is too large for the computer; a trial point is then rejected.
    """
    with np.errstate(over="ignore"):
        if loss == "squared":
            return sum_of_squares(residual), np.ones_like(residual)
        rho, slope = LOSSES[loss]
        z = (residual / LOSS_SCALE) ** 2
        return float(LOSS_SCALE**2 * np.sum(rho(z))), np.sqrt(slope(z))  # type: ignore[operator]


def check_loss(loss: str) -> None:
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ProblemError(f"There is no loss '{loss}'.{did_you_mean(loss, LOSSES)}")
