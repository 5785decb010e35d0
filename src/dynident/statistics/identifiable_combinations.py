"""Combinations: how is a direction that the data do not see said in words?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dynident.tolerances import INTEGER_TOLERANCE, NULL_SPACE_COMPONENT

NOT_SHOWN = "nothing measured depends on"  # how it begins of parameters without any effect; other words name a combination
LARGEST_INTEGER = 4  # larger coefficients and exponents read like noise; the direction itself is printed then
MOST_CHOICES = 500  # pivot sets that are tried per group; more than this no reader would want spelt out


def identifiable_combinations(names: Sequence[str], values: np.ndarray, null: np.ndarray, norms: np.ndarray
                          ) -> tuple[tuple[tuple[str, ...], str], ...]:
    """For each group of parameters tied by undetermined directions: its names, and what of them is determined.

    `null` (unknowns, k) spans the directions that change nothing, in units of 1/norms; the user's units are
    null / norms. The words hold locally: a product and a sum can look alike at one point, and then both are said. They never
    begin with a name, which would become another one at the begin of a sentence.
    """
    return tuple(_describe([names[i] for i in members], values[list(members)], (basis / norms[list(members)]).T)
                 for members, basis in _separate(null))


def _separate(null: np.ndarray) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Independent groups: the reduced echelon form of the null space, split where its rows share no parameter."""
    rows = _echelon(null.T)
    rows[np.abs(rows) <= NULL_SPACE_COMPONENT] = 0.0
    groups: list[tuple[set[int], list[np.ndarray]]] = []
    for row in rows:
        support = set(np.flatnonzero(np.abs(row) > NULL_SPACE_COMPONENT).tolist())
        joined = [row]
        apart = []
        for members, basis in groups:
            if members & support:
                support |= members
                joined += basis
            else:
                apart.append((members, basis))
        groups = [*apart, (support, joined)]
    ordered = sorted((tuple(sorted(members)), basis) for members, basis in groups if members)
    return [(members, np.array([row[list(members)] for row in basis])) for members, basis in ordered]


def _echelon(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    for k in range(rows.shape[0]):
        i, j = divmod(int(np.argmax(np.abs(rows[k:]))), rows.shape[1])
        rows[[k, k + i]] = rows[[k + i, k]]
        rows[k] /= rows[k, j]
        others = [m for m in range(rows.shape[0]) if m != k]
        rows[others] -= np.outer(rows[others, j], rows[k])
    return rows


def _describe(names: list[str], values: np.ndarray, directions: np.ndarray) -> tuple[tuple[str, ...], str]:
    """`directions` (parameters, k) in the user's units."""
    if len(names) == directions.shape[1]:
        return tuple(names), f"{NOT_SHOWN} {' or '.join(names)}"
    sums = _integer_combinations(directions)
    powers = None if np.any(values == 0) else _integer_combinations(directions / values[:, None])
    candidates = []
    if sums is not None:
        candidates.append((_effort(sums), _same_signs(sums), [_sum_text(row, names) for row in sums]))
    if powers is not None:
        candidates.append((_effort(powers), not _same_signs(powers), [_power_text(row, names) for row in powers]))
    if not candidates:
        return tuple(names), _direction_text(names, directions)
    candidates.sort(key=lambda c: (c[0], not c[1]))
    best = candidates[0]
    text = f"only {' and '.join(best[2])} {'is' if len(best[2]) == 1 else 'are'} determined"
    if len(candidates) > 1 and candidates[1][0] == best[0]:
        text += f" ({' and '.join(candidates[1][2])} would look the same at these values)"
    return tuple(names), text


def _integer_combinations(directions: np.ndarray) -> np.ndarray | None:
    """Small integers w (combinations, parameters) with w @ directions = 0: the simplest such basis, or None."""
    n, k = directions.shape
    best = None
    for count, pivots in enumerate(combinations(reversed(range(n)), k)):
        if count == MOST_CHOICES:
            break
        block = directions[list(pivots)]
        if np.linalg.cond(block) > 1 / INTEGER_TOLERANCE**2:
            continue
        rest = [i for i in range(n) if i not in pivots]
        coefficients = directions[rest] @ np.linalg.inv(block)  # a pivot block is at most a few by a few
        rows = [_integers(i, coefficient, pivots, n) for i, coefficient in zip(rest, coefficients, strict=True)]
        if all(row is not None for row in rows) and _change_nothing(np.array(rows), directions):
            found = np.array(rows)
            if best is None or _effort(found) < _effort(best):
                best = found
    return best


def _change_nothing(rows: np.ndarray, directions: np.ndarray) -> bool:
    """Whether what the terms of each sum change by cancels; a coefficient 1e-4 of a parameter 1e4 times as large is no zero."""
    terms = np.abs(rows) @ np.abs(directions)
    room = NULL_SPACE_COMPONENT * np.abs(rows) @ np.max(np.abs(directions), axis=1, keepdims=True)
    return bool(np.all(np.abs(rows @ directions) <= INTEGER_TOLERANCE * terms + room))


def _integers(i: int, coefficients: np.ndarray, pivots: Sequence[int], n: int) -> np.ndarray | None:
    for multiple in range(1, LARGEST_INTEGER + 1):
        scaled = multiple * coefficients
        whole = np.round(scaled)
        if np.all(np.abs(scaled - whole) <= INTEGER_TOLERANCE) and np.all(np.abs(whole) <= LARGEST_INTEGER):
            row = np.zeros(n)
            row[i] = multiple
            row[list(pivots)] = -whole
            return row if row[np.flatnonzero(row)[0]] > 0 else -row
    return None


def _effort(rows: np.ndarray) -> float:
    return float(np.abs(rows).sum())


def _same_signs(rows: np.ndarray) -> bool:
    """Sums (m1 + m2) and ratios (k/m) are how physics ties parameters; differences and products are rarer."""
    return bool(np.all(rows >= 0))


def _sum_text(row: np.ndarray, names: Sequence[str]) -> str:
    text = ""
    for w, name in zip(row, names, strict=True):
        if w:
            sign = ("-" if w < 0 else "") if not text else (" - " if w < 0 else " + ")
            text += f"{sign}{'' if abs(w) == 1 else f'{abs(w):g} '}{name}"
    return text


def _power_text(row: np.ndarray, names: Sequence[str]) -> str:
    def power(w: float, name: str) -> str:
        return name if w == 1 else f"{name}^{w:g}"

    above = [power(w, name) for w, name in zip(row, names, strict=True) if w > 0]
    below = [power(-w, name) for w, name in zip(row, names, strict=True) if w < 0]
    if not below:
        return "*".join(above)
    return f"{'*'.join(above)}/{below[0] if len(below) == 1 else '(' + '*'.join(below) + ')'}"


def _direction_text(names: Sequence[str], directions: np.ndarray) -> str:
    texts = []
    for d in directions.T:
        d = d / d[np.argmax(np.abs(d))]
        texts.append(", ".join(f"{name} by {step:.3g}" for name, step in zip(names, d, strict=True)
                               if abs(step) > np.finfo(float).tiny))
    return "nothing measured changes when one changes together " + "; or ".join(texts)
