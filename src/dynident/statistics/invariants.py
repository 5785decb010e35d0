"""Invariants: which functions of the unknowns stay the same along directions that change nothing, found at several points?

A direction at one point looks like a sum and like a product alike. What holds at several points, as far apart as a third of
each value, is a property of the curve that these directions are tangents of: its invariants are what the data determine
(identifiable combinations). Small whole numbers are looked for first, as sums and as products; then forms that physics is full
of, as a + b*c**2, and parts of the equations themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, permutations

import numpy as np

from dynident.statistics.identifiable_combinations import LARGEST_INTEGER
from dynident.tolerances import INDEPENDENT_GRADIENT, INVARIANT, NULL_SPACE_COMPONENT

LARGEST_SET = 5  # unknowns in one sum or product; of more no reader would want it spelt out
MOST_SETS = 3000  # of unknowns that are asked, smallest first
SIGNIFICANT = 4  # digits of a coefficient that is no whole number



@dataclass(frozen=True, eq=False)
class Invariant:
    """A function of some unknowns that is constant along all directions which change nothing."""

    text: str
    members: tuple[int, ...]  # of the names it was looked for among
    function: Callable[[np.ndarray], complex]  # of all values, in the user's units; takes complex ones, for its derivative

    def value(self, values: np.ndarray) -> float:
        return float(np.real(self.function(np.asarray(values, float))))

    def gradient(self, values: np.ndarray) -> np.ndarray:
        """(names,) by a complex step, exact to rounding."""
        values = np.asarray(values, float)
        found = np.zeros(values.size)
        for j in self.members:
            step = 1e-20 * (abs(values[j]) or 1.0)
            aside = values.astype(complex)
            aside[j] += 1j * step
            found[j] = np.imag(self.function(aside)) / step
        return found


@dataclass(frozen=True, eq=False)
class TangentPoint:
    """Values, and the directions there that change nothing."""

    values: np.ndarray  # (names,)
    directions: np.ndarray  # (names, k), in the user's units


@dataclass
class _Chosen:
    """Invariants that were found so far, each a fact of its own at the first point."""

    point: TangentPoint
    sizes: np.ndarray
    wanted: int
    found: list[Invariant] = field(default_factory=list)
    basis: list[np.ndarray] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.found) >= self.wanted

    def take(self, new: Invariant) -> None:
        rest = new.gradient(self.point.values) * self.sizes
        length = float(np.linalg.norm(rest))
        if self.complete or not np.isfinite(length) or length == 0:
            return
        rest = rest / length
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for own in self.basis:
                rest = rest - (own @ rest) * own
        left = float(np.linalg.norm(rest))
        if left > INDEPENDENT_GRADIENT:
            self.basis.append(rest / left)
            self.found.append(new)


def find_invariants(names: Sequence[str], points: Sequence[TangentPoint], sizes: np.ndarray,
                    coefficients: Sequence[Invariant] = ()) -> tuple[Invariant, ...]:
    """As many independent invariants as there are, `names` less directions, or those that can be written.

    `sizes` is a typical magnitude per name; `coefficients` are parts of the equations to be asked too.
    """
    wanted = len(names) - points[0].directions.shape[1]
    chosen = _Chosen(points[0], sizes, wanted)
    for candidate in _candidates(names, points, sizes, coefficients):
        if chosen.complete:
            break
        if holds(candidate, points, sizes):
            chosen.take(candidate)
    return tuple(chosen.found)


def holds(candidate: Invariant, points: Sequence[TangentPoint], sizes: np.ndarray) -> bool:
    """Whether it stays the same along all directions at all points, to first order."""
    for point in points:
        with np.errstate(all="ignore"):
            slope = candidate.gradient(point.values) * sizes
        if not np.all(np.isfinite(slope)) or not np.any(slope):
            return False
        directions = point.directions / sizes[:, None]
        lengths = np.linalg.norm(directions, axis=1) + NULL_SPACE_COMPONENT * np.max(np.abs(directions), initial=0.0)
        if np.linalg.norm(slope @ directions) > INVARIANT * float(np.abs(slope) @ lengths):
            return False
    return True


def _candidates(names: Sequence[str], points: Sequence[TangentPoint], sizes: np.ndarray, coefficients: Sequence[Invariant]
                ) -> Iterator[Invariant]:
    """Simplest first."""
    n = len(names)
    asked = [s for size in range(1, min(n, LARGEST_SET) + 1) for s in combinations(range(n), size)][:MOST_SETS]
    if n > LARGEST_SET:
        asked.append(tuple(range(n)))
    scaled = [p.directions / sizes[:, None] for p in points]
    free = [s for s in asked if _has_room(s, scaled)]
    for members in free:
        yield from _sums_and_products(names, points, sizes, members)
    yield from coefficients
    for members in free:
        yield from _forms(names, points, members)
    for members in combinations(range(n), 3):  # a form may need three where any two have room
        if members not in free and _has_room(members, scaled):
            yield from _forms(names, points, members)


def _has_room(members: tuple[int, ...], directions: Sequence[np.ndarray]) -> bool:
    """Whether these unknowns move in fewer ways than they are, so that something of them can stand still."""
    own = directions[0][list(members)]
    largest = float(np.max(np.abs(directions[0]), initial=0.0))
    return int(np.linalg.matrix_rank(own, tol=INDEPENDENT_GRADIENT * (largest or 1.0))) < len(members)


def _sums_and_products(names: Sequence[str], points: Sequence[TangentPoint], sizes: np.ndarray, members: tuple[int, ...]
                       ) -> Iterator[Invariant]:
    own = list(members)
    if len(own) == 1:
        return
    weights = _only_solution([p.directions[own] / sizes[own, None] for p in points])
    if weights is not None:
        weights = _readable(weights / sizes[own], decimals=True)
        if weights is not None:
            yield _sum(names, members, weights)
    if all(np.all(p.values[own] != 0) for p in points):
        weights = _only_solution([p.directions[own] / p.values[own, None] for p in points])
        if weights is not None:
            weights = _readable(weights, decimals=False)
            if weights is not None:
                yield _product(names, members, weights)


def _only_solution(directions: Sequence[np.ndarray]) -> np.ndarray | None:
    """The w with w @ directions = 0 at all points, where there is exactly one and no entry of it is zero."""
    stacked = np.hstack([d / (np.max(np.abs(d), initial=0.0) or 1.0) for d in directions])
    left, s, _ = np.linalg.svd(stacked)
    s = np.concatenate([s, np.zeros(len(left) - s.size)])
    null = left[:, s <= 10 * INVARIANT * max(float(s[0]), 1.0)]
    if null.shape[1] != 1 or np.min(np.abs(null)) < NULL_SPACE_COMPONENT * np.max(np.abs(null)):
        return None
    return np.asarray(null[:, 0])


def _readable(weights: np.ndarray, decimals: bool) -> np.ndarray | None:
    """As small whole numbers; with `decimals` as numbers of a few digits, the smallest being one."""
    for smallest in range(1, LARGEST_INTEGER + 1):
        scaled = weights * smallest / np.min(np.abs(weights))
        whole = np.round(scaled)
        if np.all(np.abs(whole) <= LARGEST_INTEGER) and np.all(np.abs(scaled - whole) <= 10 * INVARIANT * np.abs(scaled)):
            return whole if whole[0] > 0 else -whole
    if not decimals:
        return None
    for j in (0, *range(1, weights.size)):
        scaled = weights / weights[j]
        short = np.array([float(f"{w:.{SIGNIFICANT}g}") for w in scaled])
        if np.all(np.abs(scaled - short) <= 10 * INVARIANT * np.abs(scaled)):
            return short
    return None


def _sum(names: Sequence[str], members: tuple[int, ...], weights: np.ndarray) -> Invariant:
    text = ""
    for w, j in zip(weights, members, strict=True):
        sign = ("-" if w < 0 else "") if not text else (" - " if w < 0 else " + ")
        text += f"{sign}{'' if abs(w) == 1 else f'{abs(w):g} '}{names[j]}"
    own = list(members)
    return Invariant(text, members, lambda values: weights @ values[own])


def _product(names: Sequence[str], members: tuple[int, ...], weights: np.ndarray) -> Invariant:
    def power(w: float, j: int) -> str:
        return names[j] if w == 1 else f"{names[j]}^{w:g}"

    if np.all(weights < 0) or np.sum(weights < 0) > np.sum(weights > 0):
        weights = -weights
    above = [power(w, j) for w, j in zip(weights, members, strict=True) if w > 0]
    below = [power(-w, j) for w, j in zip(weights, members, strict=True) if w < 0]
    text = "*".join(above) + (f"/{below[0] if len(below) == 1 else '(' + '*'.join(below) + ')'}" if below else "")
    own = list(members)
    return Invariant(text, members, lambda values: np.prod(values[own] ** weights.astype(int)))


# Forms of physics, by the number of their unknowns: how they are written, and what they are.
_FORMS: dict[int, tuple[tuple[str, Callable[..., complex]], ...]] = {
    2: (("{0}^2 + {1}^2", lambda a, b: a**2 + b**2), ("{0}^2 - {1}^2", lambda a, b: a**2 - b**2),
        ("1/{0} + 1/{1}", lambda a, b: 1 / a + 1 / b), ("1/{0} - 1/{1}", lambda a, b: 1 / a - 1 / b),
        ("{0} + {1}^2", lambda a, b: a + b**2), ("{0} - {1}^2", lambda a, b: a - b**2)),
    3: (("{0} + {1}*{2}", lambda a, b, c: a + b * c), ("{0} - {1}*{2}", lambda a, b, c: a - b * c),
        ("{0} + {1}/{2}", lambda a, b, c: a + b / c), ("{0} - {1}/{2}", lambda a, b, c: a - b / c),
        ("({0} + {1})*{2}", lambda a, b, c: (a + b) * c), ("({0} - {1})*{2}", lambda a, b, c: (a - b) * c),
        ("({0} + {1})/{2}", lambda a, b, c: (a + b) / c), ("({0} - {1})/{2}", lambda a, b, c: (a - b) / c),
        ("{0} + {1}*{2}^2", lambda a, b, c: a + b * c**2), ("{0} - {1}*{2}^2", lambda a, b, c: a - b * c**2)),
    4: (("{0}*{1} + {2}*{3}", lambda a, b, c, d: a * b + c * d), ("{0}*{1} - {2}*{3}", lambda a, b, c, d: a * b - c * d),
        ("({0} + {1})*({2} + {3})", lambda a, b, c, d: (a + b) * (c + d)),
        ("{0} + {1} + {2}*{3}", lambda a, b, c, d: a + b + c * d),
        ("({0} + {1})/({2} + {3})", lambda a, b, c, d: (a + b) / (c + d))),
}


def _forms(names: Sequence[str], points: Sequence[TangentPoint], members: tuple[int, ...]) -> Iterator[Invariant]:
    for written, form in _FORMS.get(len(members), ()):
        for order in permutations(members):
            yield Invariant(written.format(*(names[j] for j in order)), order, partial(_of_members, form, order))
    if len(members) == 2:
        yield from _shifted(names, points, members)


def _shifted(names: Sequence[str], points: Sequence[TangentPoint], members: tuple[int, ...]) -> Iterator[Invariant]:
    """(a - number)*b or /b: the number, an input that stands still, say, follows from the first point."""
    for j, k in (members, members[::-1]):
        step, other = points[0].directions[j], points[0].directions[k]
        most = int(np.argmax(np.abs(other)))
        if other[most] == 0:
            continue
        for exponent in (1, -1):
            exact = points[0].values[j] + exponent * step[most] * points[0].values[k] / other[most]
            number = float(f"{exact:.{SIGNIFICANT}g}")
            if number and abs(number - exact) <= 10 * INVARIANT * abs(exact):
                sign, mark = ("-" if number > 0 else "+"), ("*" if exponent == 1 else "/")
                yield Invariant(f"({names[j]} {sign} {abs(number):g}){mark}{names[k]}", (j, k),
                                partial(_of_members, partial(_shifted_power, number, exponent), (j, k)))


def _of_members(form: Callable[..., complex], members: tuple[int, ...], values: np.ndarray) -> complex:
    return form(*values[list(members)])


def _shifted_power(number: float, exponent: int, a: complex, b: complex) -> complex:
    return (a - number) * b**exponent
