"""Functions for use inside rate functions: which elementary functions may an equation hold?

Each works on symbols (when a model is traced) and on numbers and arrays (when you call your rate function by hand).
`numpy` and `math` do not: `math.sin` of a symbol is NaN without a word. Functions whose derivative is zero almost
everywhere (floor, ceil, round) are left out, since no fit can move a parameter that acts only through them; `sign`
stays for friction laws, where it multiplies something that does have a derivative. See the manual, reference/models.

Examples
--------
>>> import dynident as di
>>> from dynident import maths
>>> swing = di.EquationModel(states=["q", "v"], rate=lambda t, x, u, p: {"q": x.v, "v": -p.w2 * maths.sin(x.q)})
>>> swing.parameters
('w2',)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import casadi
import numpy as np

pi = math.pi

CONSTANTS: Mapping[str, float] = MappingProxyType({"pi": pi})


def _symbolic(*values: Any) -> bool:
    return any(isinstance(value, (casadi.SX, casadi.MX, casadi.DM)) for value in values)


def sin(x: Any) -> Any:
    """Sine of an angle in radians."""
    return casadi.sin(x) if _symbolic(x) else np.sin(x)


def cos(x: Any) -> Any:
    """Cosine of an angle in radians."""
    return casadi.cos(x) if _symbolic(x) else np.cos(x)


def tan(x: Any) -> Any:
    """Tangent of an angle in radians."""
    return casadi.tan(x) if _symbolic(x) else np.tan(x)


def asin(x: Any) -> Any:
    """Inverse sine in radians, for -1 <= x <= 1."""
    return casadi.asin(x) if _symbolic(x) else np.arcsin(x)


def acos(x: Any) -> Any:
    """Inverse cosine in radians, for -1 <= x <= 1."""
    return casadi.acos(x) if _symbolic(x) else np.arccos(x)


def atan(x: Any) -> Any:
    """Inverse tangent in radians, between -pi/2 and pi/2."""
    return casadi.atan(x) if _symbolic(x) else np.arctan(x)


def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, between -pi and pi."""
    return casadi.atan2(y, x) if _symbolic(y, x) else np.arctan2(y, x)


def sinh(x: Any) -> Any:
    """Hyperbolic sine."""
    return casadi.sinh(x) if _symbolic(x) else np.sinh(x)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""
    return casadi.cosh(x) if _symbolic(x) else np.cosh(x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent: the usual smooth stand-in for sign."""
    return casadi.tanh(x) if _symbolic(x) else np.tanh(x)


def exp(x: Any) -> Any:
    """e to the power of x."""
    return casadi.exp(x) if _symbolic(x) else np.exp(x)


def log(x: Any) -> Any:
    """Natural logarithm, for x > 0."""
    return casadi.log(x) if _symbolic(x) else np.log(x)


def sqrt(x: Any) -> Any:
    """Square root, for x >= 0; its derivative is infinite at 0."""
    return casadi.sqrt(x) if _symbolic(x) else np.sqrt(x)


def abs(x: Any) -> Any:
    """Absolute value; the derivative jumps at 0."""
    return casadi.fabs(x) if _symbolic(x) else np.abs(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1; it jumps at 0, where solvers may stall: tanh(x/width) is its smooth form."""
    return casadi.sign(x) if _symbolic(x) else np.sign(x)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of the two."""
    return casadi.fmin(a, b) if _symbolic(a, b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of the two."""
    return casadi.fmax(a, b) if _symbolic(a, b) else np.maximum(a, b)


def where(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, else `otherwise`; the branch not taken adds nothing, not even its NaN."""
    if _symbolic(condition, then, otherwise):
        return casadi.if_else(condition, then, otherwise)
    chosen = np.where(condition, then, otherwise)
    return chosen[()] if chosen.ndim == 0 else chosen


def interp(x: Any, knots: Any, values: Any, smooth: bool = False) -> Any:
    """A look-up table: straight lines between (knot, value), constant beyond the ends, as `numpy.interp`.

    `smooth`: cubic pieces with continuous slope instead, straight beyond the ends. The slope at a knot is that of the parabola
    through it and its neighbours, so that the table is linear in its values and a parabola is met exactly. Knots are rising
    numbers; values may be parameters.
    """
    at = [float(knot) for knot in np.ravel(knots)]
    heights = casadi.vertsplit(values) if isinstance(values, (casadi.SX, casadi.MX)) else list(values)
    if len(at) < 2 or len(at) != len(heights):
        raise ValueError(f"interp: {len(at)} knots and {len(heights)} values; give as many, and two or more.")
    if any(not math.isfinite(knot) for knot in at) or any(b <= a for a, b in itertools.pairwise(at)):
        raise ValueError("interp: the knots must be finite and rise.")
    if not smooth and not _symbolic(x, *heights):
        return np.interp(x, at, heights)
    pieces = _smooth_pieces(x, at, heights) if smooth else _straight_pieces(x, at, heights)
    found = pieces[-1]
    for knot, piece in zip(reversed(at), reversed(pieces[:-1]), strict=True):
        found = where(x < knot, piece, found)
    return found


def _straight_pieces(x: Any, at: list[float], heights: list[Any]) -> list[Any]:
    """Before the first knot, between the knots, behind the last."""
    lines = [heights[k] + (heights[k + 1] - heights[k]) / (at[k + 1] - at[k]) * (x - at[k]) for k in range(len(at) - 1)]
    return [heights[0], *lines, heights[-1]]


def _smooth_pieces(x: Any, at: list[float], heights: list[Any]) -> list[Any]:
    h = [b - a for a, b in itertools.pairwise(at)]
    secants = [(heights[k + 1] - heights[k]) / h[k] for k in range(len(h))]
    if len(h) == 1:
        slopes = [secants[0], secants[0]]
    else:
        slopes = [(h[k] * secants[k - 1] + h[k - 1] * secants[k]) / (h[k - 1] + h[k]) for k in range(1, len(h))]
        slopes = [2 * secants[0] - slopes[0], *slopes, 2 * secants[-1] - slopes[-1]]  # of the outermost parabolas
    pieces = [heights[0] + slopes[0] * (x - at[0])]
    for k in range(len(h)):
        s, bend = x - at[k], (slopes[k] + slopes[k + 1] - 2 * secants[k]) / h[k]
        pieces.append(heights[k] + s * (slopes[k] + s * ((secants[k] - slopes[k]) / h[k] + bend * (s / h[k] - 1))))
    return [*pieces, heights[-1] + slopes[-1] * (x - at[-1])]


def delay(u: Any, theta: Any) -> Any:
    """The input `u` as it was a dead time `theta` ago, inside of a rate function; `theta` is made of parameters and numbers.

    It has a meaning in a model only: numbers say nothing of what was before.
    """
    wrapped, u, theta = u, getattr(u, "sx", u), getattr(theta, "sx", theta)  # of a traced number, its symbol
    if not isinstance(u, casadi.SX) or not u.is_symbolic() or not u.is_scalar():
        raise TypeError("delay(u, theta) takes an input of a model, as in delay(u.force, p.theta); numbers know no past")
    dead_time = casadi.SX(theta)
    if not dead_time.is_scalar() or "@" in str(dead_time):
        raise TypeError(f"delay of '{u.name()}': write the dead time as one parameter, or a short sum or product of some")
    late = casadi.SX.sym(f"delay({u.name()}, {dead_time})")
    return late if wrapped is u else type(wrapped)(late)


# what a text equation may call: name -> (function, number of arguments)
FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = MappingProxyType({
    "sin": (sin, 1), "cos": (cos, 1), "tan": (tan, 1), "asin": (asin, 1), "acos": (acos, 1), "atan": (atan, 1),
    "atan2": (atan2, 2), "sinh": (sinh, 1), "cosh": (cosh, 1), "tanh": (tanh, 1), "exp": (exp, 1), "log": (log, 1),
    "sqrt": (sqrt, 1), "abs": (abs, 1), "sign": (sign, 1), "minimum": (minimum, 2), "maximum": (maximum, 2),
    "where": (where, 3),
})

# what it may call, too, with arguments of their own kind: a list, an input
SPECIAL = ("interp", "delay")

__all__ = [*FUNCTIONS, *SPECIAL, "CONSTANTS", "FUNCTIONS", "pi"]
