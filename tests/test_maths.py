"""Do the functions for equations mean the same on symbols, numbers and arrays?"""

import casadi
import numpy as np
import pytest

from dynident import maths

SAFE_ARGUMENTS = (0.3, 0.7, -0.2)  # inside of every function's domain, as many as it takes
ONE_AND_TWO = [name for name in maths.FUNCTIONS if name != "where"]


@pytest.mark.parametrize("name", ONE_AND_TWO)
def test_symbols_and_numbers_give_the_same_value(name):
    function, count = maths.FUNCTIONS[name]
    symbols = [casadi.SX.sym(f"a{k}") for k in range(count)]
    traced = casadi.Function("f", symbols, [function(*symbols)])
    by_symbol = float(traced(*SAFE_ARGUMENTS[:count]))
    assert by_symbol == pytest.approx(float(function(*SAFE_ARGUMENTS[:count])), rel=1e-15)


@pytest.mark.parametrize("name", ONE_AND_TWO)
def test_arrays_are_taken_element_by_element(name):
    function, count = maths.FUNCTIONS[name]
    arrays = [np.array([value, value / 2]) for value in SAFE_ARGUMENTS[:count]]
    expected = [float(function(*(array[k] for array in arrays))) for k in range(2)]
    np.testing.assert_allclose(function(*arrays), expected, rtol=1e-15)


@pytest.mark.parametrize("name", [name for name in ONE_AND_TWO if name != "sign"])
def test_every_function_but_sign_has_a_derivative_that_is_not_zero(name):
    function, count = maths.FUNCTIONS[name]
    symbols = [casadi.SX.sym(f"a{k}") for k in range(count)]
    gradient = casadi.Function("g", symbols, [casadi.jacobian(function(*symbols), casadi.vertcat(*symbols))])
    assert np.any(np.array(gradient(*SAFE_ARGUMENTS[:count])) != 0)


def test_where_chooses_for_symbols_numbers_and_arrays():
    x = casadi.SX.sym("x")
    choose = casadi.Function("f", [x], [maths.where(x > 0, x, -2 * x)])
    assert (float(choose(3)), float(choose(-3))) == (3, 6)
    assert maths.where(True, 1.0, 2.0) == 1.0
    np.testing.assert_array_equal(maths.where(np.array([True, False]), 1.0, 2.0), [1.0, 2.0])


def test_the_branch_not_taken_spoils_neither_value_nor_derivative():
    x = casadi.SX.sym("x")
    guarded = maths.where(x > 0, maths.sqrt(x), 1)
    both = casadi.Function("f", [x], [guarded, casadi.jacobian(guarded, x)])
    value, slope = both(-1.0)
    assert (float(value), float(slope)) == (1.0, 0.0)


def test_functions_without_a_useful_derivative_are_left_out():
    assert not {"floor", "ceil", "round"} & set(maths.FUNCTIONS)
