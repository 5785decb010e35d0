"""Linear equations along time whose two ends are tied: right, stable, and honest where they are singular."""

import numpy as np
import pytest

from dynident.boundary.solve_bvp import block_elimination
from dynident.boundary.solve_bvp.block_elimination import BlockElimination
from dynident.boundary.solve_bvp.block_elimination_interpreted import InterpretedElimination
from dynident.boundary.solve_bvp.root_finding import Singular
from dynident.codegen.compiler import compiler

WAYS = ["compiled", "plain"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Both ways of the same algebra."""
    if request.param == "plain":
        monkeypatch.setattr(block_elimination, "_library", lambda: None)
    elif compiler() is None:
        pytest.skip("needs a C compiler")


def whole_matrix(link, begin, end, shared):
    """The same equations as one dense matrix, unknowns (s_0 .. s_N, p)."""
    segments, n, columns = link.shape
    m = columns - n
    size = (segments + 1) * n + m
    matrix = np.zeros((size, size))
    for i in range(segments):
        rows = slice(i * n, (i + 1) * n)
        matrix[rows, i * n:(i + 1) * n] = link[i, :, :n]
        matrix[rows, (i + 1) * n:(i + 2) * n] = -np.eye(n)
        matrix[rows, size - m:] = link[i, :, n:]
    matrix[segments * n:, :n], matrix[segments * n:, segments * n:(segments + 1) * n] = begin, end
    matrix[segments * n:, size - m:] = shared
    return matrix


@pytest.mark.parametrize("segments", [1, 2, 3, 8])
@pytest.mark.parametrize("m", [0, 2])
def test_agrees_with_a_dense_solve(way, segments, m):
    rng = np.random.default_rng(10 * segments + m)
    n = 3
    link = rng.normal(size=(segments, n, n + m))
    begin, end, shared = rng.normal(size=(n + m, n)), rng.normal(size=(n + m, n)), rng.normal(size=(n + m, m))
    c, d = rng.normal(size=(segments, n)), rng.normal(size=n + m)
    s, p = BlockElimination(link, begin, end, shared).solve(c, d)
    matrix = whole_matrix(link, begin, end, shared)
    expected = np.linalg.solve(matrix, np.concatenate([c.ravel(), d]))
    reach = np.linalg.cond(matrix) * np.finfo(float).eps * np.max(np.abs(expected))
    assert np.max(np.abs(np.concatenate([s.ravel(), p]) - expected)) <= 10 * reach


def test_modes_that_grow_and_decay_by_500_decades_do_no_harm(way):
    """One mode grows and one decays by e^5 per segment; the conditions hold each at the end where it is small."""
    segments = 240
    turn = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    link = np.tile(turn @ np.diag([np.exp(5.0), np.exp(-5.0)]) @ turn.T, (segments, 1, 1))
    grow, decay = turn[:, 0], turn[:, 1]
    begin, end = np.vstack([decay, np.zeros(2)]), np.vstack([np.zeros(2), grow])
    s, _ = BlockElimination(link, begin, end, np.zeros((2, 0))).solve(np.zeros((segments, 2)), np.array([1.0, 1.0]))
    k = np.arange(segments + 1)
    with np.errstate(under="ignore"):
        exact = np.exp(-5.0 * k)[:, None] * decay + np.exp(5.0 * (k - segments))[:, None] * grow
    assert np.max(np.abs(s - exact)) <= 1e-13  # of solutions of size 1: rounding, though the modes reach e^1200


def test_conditions_that_do_not_determine_the_solution_are_260(way):
    link = np.tile(np.array([[1.0, 0.1], [0.0, 1.0]]), (5, 1, 1))  # y'' = 0
    slopes_only = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])
    with pytest.raises(Singular, match=r"^because the linearised conditions at the ends do not determine") as refused:
        BlockElimination(link, *slopes_only, np.zeros((2, 0)))
    assert refused.value.code == 260


def test_a_block_without_a_full_triangle_is_250(way):
    link = np.stack([np.eye(2), np.diag([1e20, 1.0]), np.diag([0.0, 1.0]), np.eye(2)])
    with pytest.raises(Singular, match=r"^because the linearised equations are singular at node") as refused:
        BlockElimination(link, np.eye(2), np.zeros((2, 2)), np.zeros((2, 0)))
    assert refused.value.code == 250


def test_the_twin_does_what_the_compiled_loop_does():
    if compiler() is None:
        pytest.skip("needs a C compiler")
    rng, n, m, segments = np.random.default_rng(3), 3, 2, 6
    link, defects = rng.normal(size=(segments, n, n + m)), rng.normal(size=(segments, n))
    begin, end, shared, conditions = (rng.normal(size=(n + m, columns)) for columns in (n, n, m, 1))
    elimination, results = BlockElimination(link, begin, end, shared), []
    for chain in (elimination.chain, InterpretedElimination(link)):
        elimination.chain = chain
        results.append(np.concatenate([each.ravel() for each in elimination.solve(defects, conditions[:, 0])]))
    assert not isinstance(elimination.chain, block_elimination.CompiledElimination)
    assert results[1] == pytest.approx(results[0], abs=1e-12)
