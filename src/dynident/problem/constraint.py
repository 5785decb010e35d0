"""Constraint: what must hold between parameters, or for a state, said as text."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dynident._util.expressions import syntax_tree

COMPARISONS = re.compile(r"(<=|>=|==|<|>)")


@dataclass(frozen=True)
class Constraint:
    """lower <= middle <= upper; made from text such as "m1 + m2 == 29", "Jx <= Jy + Jz" or "-1 <= v <= 1"."""

    text: str
    middle: str
    lower: float
    upper: float

    def names(self) -> set[str]:
        """Names that occur; called functions count, the reader of the expression sorts them out."""
        return {node.id for node in ast.walk(syntax_tree(self.middle)) if isinstance(node, ast.Name)}

    def of_states(self, states: Collection[str]) -> bool:
        """Speaks of a state, and so of every point in time."""
        return bool(self.names() & set(states))


def constraint_from(text: str) -> Constraint:
    """Read a comparison; `<` means `<=`, since a solver cannot tell them apart. Raises ValueError with the reason."""
    parts = [part.strip() for part in COMPARISONS.split(str(text))]
    if len(parts) not in (3, 5) or not all(parts):
        raise ValueError('write one comparison, such as "m1 + m2 == 29", or a range such as "-1 <= v <= 1"')
    if len(parts) == 5:
        return _range(text, parts)
    left, sign, right = parts
    _readable(left)
    _readable(right)
    if _number(right) is not None:
        middle, limit = left, float(right)
    elif _number(left) is not None:
        middle, limit, sign = right, float(left), {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}.get(sign, sign)
    else:
        middle, limit = f"({left}) - ({right})", 0.0
    lower = limit if sign in ("==", ">=", ">") else -np.inf
    upper = limit if sign in ("==", "<=", "<") else np.inf
    return Constraint(str(text), middle, lower, upper)


def _range(text: str, parts: list[str]) -> Constraint:
    low, first, middle, second, high = parts
    if first not in ("<=", "<") or second not in ("<=", "<") or _number(low) is None or _number(high) is None:
        raise ValueError('a range is number <= expression <= number, such as "-1 <= v <= 1"')
    if float(low) > float(high):
        raise ValueError(f"{low} lies above {high}")
    _readable(middle)
    return Constraint(str(text), middle, float(low), float(high))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if np.isnan(number):
        raise ValueError(f"'{text}' is no number")
    return number


def _readable(text: str) -> None:
    try:
        syntax_tree(text)
    except SyntaxError:
        raise ValueError(f"'{text}' is not an expression") from None
