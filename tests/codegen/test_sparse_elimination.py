"""Does the order of elimination save work, and do its factors solve what the whole matrix does?"""

import numpy as np
import pytest

import dynident as di
from dynident.codegen.sparse_elimination import sparse_elimination
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for
from dynident.integrators.radau5_interpreted import InterpretedRadau5
from dynident.problem.experiment import Experiment


def arrow(size):
    """A matrix with entries in its first row and column: eliminated first, that state fills all; last, none."""
    return [(0, k) for k in range(size)] + [(k, 0) for k in range(size)] + [(k, k) for k in range(size)]


def test_an_arrow_does_not_fill():
    order = sparse_elimination(12, arrow(12))
    assert len(order.places) == len(set(arrow(12)))
    assert order.pivots[-1] == 0 or order.pivots[-2] == 0
    assert order.products == 11


def test_a_full_matrix_is_left_to_straight_loops():
    assert sparse_elimination(12, [(i, j) for i in range(12) for j in range(12)]) is None
    assert sparse_elimination(3, arrow(3)) is None


def test_eliminating_in_the_order_solves_the_equations():
    rng = np.random.default_rng(2)
    entries = sorted({(int(i), int(j)) for i, j in rng.integers(0, 15, (30, 2))})
    order = sparse_elimination(15, entries)
    A = np.zeros((15, 15))
    for i, j in entries:
        A[i, j] = rng.normal()
    A += 5 * np.eye(15)
    wanted, left = np.linalg.solve(A, np.ones(15)), A.copy()
    b = np.ones(15)
    for k, below, right in zip(order.pivots, order.below, order.right, strict=True):
        for i in below:
            factor = left[i, k] / left[k, k]
            for j in right:
                assert (i, j) in order.places
                left[i, j] -= factor * left[k, j]
            b[i] -= factor * b[k]
    x = np.zeros(15)
    for k, right in zip(reversed(order.pivots), reversed(order.right), strict=True):
        x[k] = (b[k] - sum(left[k, j] * x[j] for j in right)) / left[k, k]
    np.testing.assert_allclose(x, wanted, rtol=1e-12)


def chain():
    """Seven substances, each made of the one before and all of them feeding the first: stiff and sparse."""
    rates = {f"y{k}": f"{10.0 ** (k % 4)}*(y{k - 1} - y{k})" for k in range(1, 7)}
    return di.EquationModel(states={"y0": "-a*y0 + b*y6*y0 + 0.1*(y1 + y2 + y3 + y4 + y5)", **rates}, parameters=["a", "b"])


def spinning(speed=1e5):
    """Four fast rotations beside a slow decay that they drive: nothing on the diagonal, so that pivots there cost digits."""
    rates = {}
    for k in range(4):
        rates |= {f"c{k}": f"-w{k}*s{k} - 0.1*c{k}", f"s{k}": f"w{k}*c{k} - 0.1*s{k}"}
    return di.EquationModel(states={**rates, "x": "-x + c0 + c1 + c2 + c3"}, parameters=[f"w{k}" for k in range(4)])


@pytest.mark.parametrize(("model", "values", "time"), [
    (chain(), [2.0, 0.3], np.linspace(0, 4, 9)), (spinning(), [1e4, 2e4, 3e4, 4e4], np.linspace(0, 2e-3, 5))],
    ids=["chain", "spinning"])
def test_steps_solved_place_by_place_are_those_of_the_whole_matrix(model, values, time):
    n, free = len(model.states), tuple(range(len(values)))
    grid = grid_of(model, Experiment(time=time), 1, everywhere=True)
    first, begin = np.array([0, grid.nodes - 1]), np.linspace(1, 2, n)[None]
    ours, other = (march.run(grid, first, begin, np.array(values), True)
                   for march in (propagator_for(model, RADAU5, free), InterpretedRadau5(model, RADAU5, free)))
    np.testing.assert_allclose(ours.states, other.states, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ours.end_jacobian, other.end_jacobian, rtol=1e-7, atol=1e-8 * np.max(np.abs(other.end_jacobian)))
