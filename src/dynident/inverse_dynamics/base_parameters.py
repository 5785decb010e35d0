"""Base parameters: which combinations of a robot's parameters do its torques tell, in words?

Of each set of dependent columns of the regressor one is kept, and its parameter gathers the others (Gautier and Khalil, IEEE
Trans. Robotics and Automation 6, 1990; numerically Gautier 1991). The rank is that of the recorded motion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.linalg.rank import independent_columns, truncated_svd
from dynident.tolerances import IDLE_COLUMN, SHOWN_COEFFICIENT, SINGULAR_VALUE, SINGULAR_VALUE_CHOSEN


@dataclass(frozen=True, eq=False)
class BaseChoice:
    """Which columns are kept, and how the others gather in them."""

    names: tuple[str, ...]
    independent: np.ndarray  # (r,) places of the kept columns, ascending
    dependent: np.ndarray  # (d,) the others that act on something
    idle: np.ndarray  # (k,) columns that are zero along this motion
    gather: np.ndarray  # (r, d): dependent columns = independent columns @ gather

    def values(self, values: np.ndarray) -> np.ndarray:
        """(r,) the base parameters of a set of parameters (p,)."""
        return values[self.independent] + self.gather @ values[self.dependent]

    def coefficients(self, i: int) -> dict[str, float]:
        """Of the i-th base parameter: what of each parameter it holds."""
        return {self.names[self.independent[i]]: 1.0} | {
            self.names[j]: float(c) for j, c in zip(self.dependent, self.gather[i], strict=True) if c}

    def words(self, i: int) -> str:
        return sum_in_words(self.coefficients(i))


def sum_in_words(coefficients: Mapping[str, float]) -> str:
    """hz_3 + 0.571 m_4 - Ixx_2"""
    text = ""
    for name, c in coefficients.items():
        sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
        text += f"{sign}{'' if abs(abs(c) - 1) < SHOWN_COEFFICIENT else f'{abs(c):.4g} '}{name}"
    return text


def choose_base(names: Sequence[str], jacobian: np.ndarray, tolerance: float = SINGULAR_VALUE) -> BaseChoice:
    """Keep columns of `jacobian` (rows, parameters) that earlier ones do not span, by more than a part of their length.

    In an order that gathers as textbooks do: drives first, then moments of the links from the base to the tip, masses last; so
    masses of outer links end up in first moments of inner ones.
    """
    triangle = np.linalg.qr(jacobian, mode="r")
    lengths = np.linalg.norm(triangle, axis=0)
    acting = lengths > IDLE_COLUMN * np.max(lengths, initial=0.0)
    unit = triangle / np.where(acting, lengths, 1.0)
    independent = independent_columns(unit, sorted(np.flatnonzero(acting), key=lambda j: _priority(names[int(j)])),
                                      tolerance)
    kept = np.array(sorted(independent), int)
    dependent = np.array([j for j in np.flatnonzero(acting) if j not in set(independent)], int)
    gather = truncated_svd(unit[:, kept], SINGULAR_VALUE_CHOSEN).least_squares(unit[:, dependent])
    gather = gather / lengths[kept, None] * lengths[dependent]
    shown = np.abs(gather) * lengths[kept, None] / np.maximum(lengths[dependent], np.finfo(float).tiny)
    return BaseChoice(tuple(names), kept, dependent, np.flatnonzero(~acting),
                      np.where(shown > max(SHOWN_COEFFICIENT, tolerance), gather, 0.0))


def _priority(name: str) -> tuple[int, int, str]:
    kind, _, number = name.rpartition("_")
    group = 2 if kind == "m" else 1 if kind[0] in "hI" and kind != "Ia" else 0
    return group, int(number), kind if group == 0 else f"{'I' in kind:d}{kind}"


def below_noise(size: float) -> float:
    """Which part of a column is too small to be seen, by the length of all torques in standard deviations of their noise.

    Where a parameter that alone made all of the torques would show in its own part of the column by less than one standard
    error, that part says nothing: a right angle that a file writes as 1.5708 tells 1e-6 of a motor's inertia from a link's.
    """
    return max(SINGULAR_VALUE, 1.0 / size) if size > 1.0 else SINGULAR_VALUE
