"""Claims: a function is called invariant only where it is one at every point, and is written as physics writes it."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.statistics.invariants import Invariant, TangentPoint, find_invariants, holds

RNG = np.random.default_rng(3)
NAMES = ("a", "b", "c", "d")


def tangents(functions, names, count=4) -> list[TangentPoint]:
    """Points and the directions that leave these functions as they are."""
    points = []
    for _ in range(count):
        values = RNG.uniform(0.5, 2.0, len(names))
        slopes = np.array([Invariant("", tuple(range(len(names))), f).gradient(values) for f in functions])
        points.append(TangentPoint(values, np.linalg.svd(slopes)[2][len(functions):].T))
    return points


@pytest.mark.parametrize(("functions", "texts"), [
    ([lambda v: v[0] + v[1]], ["a + b"]),
    ([lambda v: v[0] * v[1]], ["a*b"]),
    ([lambda v: v[0] / v[1] ** 2], ["a/b^2"]),
    ([lambda v: 2 * v[0] - v[1]], ["2 a - b"]),
    ([lambda v: v[0] + 0.25 * v[1]], ["4 a + b"]),
    ([lambda v: (v[0] - 5) / v[1]], ["(a - 5)/b"]),
    ([lambda v: v[0] + v[1] * v[2] ** 2], ["a + b*c^2"]),
    ([lambda v: (v[0] + v[1]) * v[2]], ["(a + b)*c"]),
    ([lambda v: v[0] + v[1], lambda v: v[2] * v[3], lambda v: v[1] * v[2]], ["a + b", "b*c", "b/d"]),
])
def test_function_is_found_from_directions_at_several_points(functions, texts):
    count = 4 if len(functions) > 1 else max(2, 3 if "c" in texts[0] else 2)
    names = NAMES[:count]
    found = find_invariants(names, tangents(functions, names), np.ones(count))
    assert [it.text for it in found] == texts


def test_directions_at_one_point_only_do_not_hold_elsewhere():
    at_ones = TangentPoint(np.ones(2), np.array([[1.0], [-1.0]]))
    elsewhere = TangentPoint(np.array([2.0, 3.0]), np.array([[2.0], [-3.0]]))  # of a product
    plus = Invariant("a + b", (0, 1), lambda v: v[0] + v[1])
    assert holds(plus, [at_ones], np.ones(2)) and not holds(plus, [at_ones, elsewhere], np.ones(2))


def test_nothing_is_invented_where_nothing_known_fits():
    strange = [lambda v: v[0] ** 1.37 + np.exp(v[1])]
    assert find_invariants(NAMES[:2], tangents(strange, NAMES[:2]), np.ones(2)) == ()
