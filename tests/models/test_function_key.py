"""Keys of functions: equal for those that surely give the same, none where that cannot be said."""

import math
import random
from math import sqrt

import numpy as np
import pytest

import dynident as di
from dynident.maths import sin
from dynident.models.function_key import function_key

FORCE = 1.0
TABLE = [1.0, 2.0]


def forced(t, y):
    return [y[1], FORCE]


def made(k, shift=0.0, kind=float):
    def inner(x):
        return k * x

    def rate(t, y, p=shift):
        return [y[1], inner(kind(2)) + sin(y[0]) + math.pi + sqrt(4.0) + p]
    return rate


def test_functions_that_say_the_same_have_one_key():
    assert function_key(made(2.0)) == function_key(made(2.0)) is not None
    assert function_key(made(np.arange(3.0))) == function_key(made(np.arange(3.0))) is not None


@pytest.mark.parametrize("other", [made(3.0), made(2), made(np.float64(2.0)), made(2.0, 1.0), made(2.0, -0.0),
                                   made(2.0, kind=int), made((2.0,))], ids=range(7))
def test_another_value_anywhere_is_another_key(other):
    assert function_key(other) != function_key(made(2.0))


def test_a_global_that_changes_is_another_key(monkeypatch):
    before = function_key(forced)
    monkeypatch.setitem(forced.__globals__, "FORCE", 2.0)
    assert function_key(forced) != before


def test_arrays_are_taken_by_their_numbers():
    numbers = np.arange(3.0)
    rate = made(numbers)
    before = function_key(rate)
    numbers[1] = 5
    assert function_key(rate) != before


def counts():
    count = 0

    def rate(t, y):
        nonlocal count
        count += 1
        return [count]
    return rate


def imports(t, y):
    from math import cos
    return [cos(1.0)]


class Machine:
    mass = 1.0

    def rate(self, t, y):
        return [self.mass]


MACHINE = Machine()


@pytest.mark.parametrize("unknown", [
    lambda t, y: [random.random()], lambda t, y: [np.random.normal()], lambda t, y: [TABLE[0]], lambda t, y: print(y), counts(),
    imports, MACHINE.rate, lambda t, y: [MACHINE.mass], lambda t, y: [nothing_of_this_name], made([2.0]), made({"k": 2.0}),  # noqa: F821
    lambda t, y: [input("x")], lambda t, y: [eval("1")], lambda t, y: [globals()["FORCE"]], "y", None, abs], ids=range(17))
def test_what_is_not_understood_has_no_key(unknown):
    assert function_key(unknown) is None


def test_attributes_that_a_function_carries_are_not_understood():
    rate = made(2.0)
    rate.k = 3
    assert function_key(rate) is None


def test_a_function_that_calls_itself_has_a_key():
    def power(n):
        return 1 if n == 0 else 2 * power(n - 1)
    assert function_key(power) == function_key(power) is not None


def test_a_constant_that_was_changed_counts_in_the_next_solution(monkeypatch):
    """y'' = force, 0 at both ends: y(1/2) = -force/8."""
    for force in (1.0, 2.0, 1.0):
        monkeypatch.setitem(forced.__globals__, "FORCE", force)
        found = di.solve_bvp(forced, lambda a, b: [a[0], b[0]], [0, 0.5, 1], [0, 0])
        assert found(np.array([0.5]))[0, 0] == pytest.approx(-force / 8, rel=1e-6)
