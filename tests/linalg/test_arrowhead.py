"""Least squares with unknowns of their own per block: the same answers as the dense matrix that it stands for."""

import pickle

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from dynident.linalg import arrowhead as arrowhead_module
from dynident.linalg import arrowhead_interpreted
from dynident.linalg.arrowhead import ArrowheadLeastSquares, arrowhead
from dynident.linalg.bounded_least_squares import bounded_least_squares, damped_step
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, SegmentChain, UnknownMap

CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # matrices below have condition numbers up to about 1e3


@pytest.fixture(params=["C", "NumPy"], autouse=True)
def either(request, monkeypatch):
    """The compiled loops, and what serves where there is no compiler."""
    if request.param == "NumPy":
        monkeypatch.setattr(arrowhead_module, "arrowhead_loops", lambda: arrowhead_interpreted)
    elif arrowhead_module.arrowhead_loops() is arrowhead_interpreted:
        pytest.skip("this machine has no C compiler")


def random_arrow(blocks: int, own: int, shared: int, rows: int, seed: int = 1
                 ) -> tuple[ArrowheadLeastSquares, np.ndarray, np.ndarray]:
    """An arrow, and the dense A and b that it must stand for; unknowns in mixed order."""
    rng = np.random.default_rng(seed)
    unknowns = blocks * own + shared
    order = rng.permutation(unknowns)
    shared_at, parts, A, b = order[:shared], [], [], []
    for k in range(blocks):
        mine = order[shared + k * own:shared + (k + 1) * own]
        part = rng.normal(size=(rows, own + shared + 1))
        parts.append((mine, part))
        dense = np.zeros((rows, unknowns))
        dense[:, mine], dense[:, shared_at] = part[:, :own], part[:, own:-1]
        A.append(dense)
        b.append(part[:, -1])
    border = rng.normal(size=(2, shared + 1))
    dense = np.zeros((2, unknowns))
    dense[:, shared_at] = border[:, :-1]
    return (arrowhead(unknowns, shared_at, parts, border), np.vstack([*A, dense]), np.concatenate([*b, border[:, -1]]))


SHAPES = [(1, 4, 0, 9), (1, 0, 3, 7), (5, 2, 3, 6), (3, 4, 0, 8), (4, 0, 5, 3), (6, 3, 2, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_question_has_the_answer_of_the_dense_matrix(shape):
    rows, A, b = random_arrow(*shape)
    step = np.random.default_rng(2).normal(size=A.shape[1])
    before, after = b @ b, np.sum((A @ step + b) ** 2)
    assert rows.column_norms == pytest.approx(np.linalg.norm(A, axis=0))
    assert rows.predicted_reduction(step) == pytest.approx(before - after)
    np.testing.assert_allclose(rows.gradient(step), A.T @ (A @ step + b), **CLOSE)


@pytest.mark.parametrize("shape", SHAPES)
def test_damped_minimiser_is_that_of_the_dense_matrix(shape):
    rows, A, b = random_arrow(*shape)
    lengths = np.linspace(0.5, 2, A.shape[1])
    expected = np.linalg.lstsq(np.vstack([A, np.diag(lengths)]), np.append(-b, np.zeros(lengths.size)), rcond=None)[0]
    np.testing.assert_allclose(rows.with_damping(lengths).solve(), expected, **CLOSE)


@pytest.mark.parametrize("shape", SHAPES)
def test_held_unknowns_rest_and_the_others_move_as_if_alone(shape):
    rows, A, b = random_arrow(*shape)
    lengths = np.full(A.shape[1], 0.3)
    A, b = np.vstack([A, np.diag(lengths)]), np.append(b, np.zeros(lengths.size))
    rng = np.random.default_rng(3)
    held, step = rng.random(A.shape[1]) < 0.4, rng.normal(size=A.shape[1])
    rest = rows.with_damping(lengths).with_fixed(held, step)
    expected = np.zeros(A.shape[1])
    expected[~held] = np.linalg.lstsq(A[:, ~held], -(b + A[:, held] @ step[held]), rcond=None)[0]
    np.testing.assert_allclose(rest.solve(), expected, **CLOSE)
    gradient = rng.normal(size=A.shape[1])
    expected[~held] = -np.linalg.solve(A[:, ~held].T @ A[:, ~held], gradient[~held])
    np.testing.assert_allclose(rest.newton_step(gradient), expected, **CLOSE)


@pytest.mark.parametrize("shape", [(1, 4, 0, 9), (1, 0, 3, 7), (5, 2, 3, 6), (3, 4, 0, 8)])
def test_direction_that_nothing_sees_rests_and_the_others_go_their_way(shape):
    """A column that is the sum of two others: the step is that of the pseudo-inverse, in the lengths that are given."""
    blocks, own, shared, count = shape
    rng, first = np.random.default_rng(4), own if shared else 0
    unknowns = np.arange(blocks * own + shared)
    mine = unknowns[shared:].reshape(blocks, own)
    parts = [rng.normal(size=(count, own + shared + 1)) for _ in range(blocks)]
    border = rng.normal(size=(2, shared + 1))
    for rows in (*parts, border) if shared else parts:
        at = first if rows is not border else 0
        rows[:, at + 2] = rows[:, at] + rows[:, at + 1]
    whole = arrowhead(unknowns.size, unknowns[:shared], zip(mine, parts, strict=True), border)
    A = np.vstack([_dense(rows, [*own_ones, *unknowns[:shared]], unknowns.size)
                   for own_ones, rows in zip(mine, parts, strict=True)] + [_dense(border, unknowns[:shared], unknowns.size)])
    b = np.concatenate([*(rows[:, -1] for rows in parts), border[:, -1]])
    lengths = np.linspace(0.5, 2, unknowns.size)
    expected = lengths * np.linalg.lstsq(A * lengths, -b, rcond=1e-10)[0]
    np.testing.assert_allclose(whole.freeze_unobservable(lengths, 1e-3).solve(), expected, **CLOSE)
    assert np.max(np.abs(whole.freeze_unobservable(lengths, 1e-3).with_damping(1e-9 * lengths).solve() - expected)) < 1e-6


def _dense(rows: np.ndarray, columns: list[int] | np.ndarray, width: int) -> np.ndarray:
    placed = np.zeros((len(rows), width))
    placed[:, columns] = rows[:, :-1]
    return placed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_box_solution_is_that_of_an_independent_solver(shape, seed):
    rows, A, b = random_arrow(*shape, seed=seed)
    lengths = np.full(A.shape[1], 1e-2)
    rng = np.random.default_rng(seed)
    lower, upper = -rng.random(A.shape[1]) * 0.3, rng.random(A.shape[1]) * 0.3
    lower[::3], upper[1::3] = -np.inf, 0.0  # open below; already on the upper bound
    found, held = bounded_least_squares(rows.with_damping(lengths), lower, upper)
    dense = np.vstack([A, np.diag(lengths)]), -np.append(b, np.zeros(lengths.size))
    peer = lsq_linear(*dense, (np.minimum(lower, -1e-300), np.maximum(upper, 1e-300)), method="bvls", tol=1e-14)
    np.testing.assert_allclose(found, peer.x, rtol=1e-6, atol=1e-7)
    assert np.all(found[held < 0] == lower[held < 0]) and np.all(found[held > 0] == upper[held > 0])
    assert np.all((found >= lower) & (found <= upper))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_damped_step_in_one_call_is_that_of_its_parts(shape, seed):
    """Damping, elimination and active bounds in one compiled call, against the same one after the other."""
    rows, A, b = random_arrow(*shape, seed=seed)
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.01, 0.5, A.shape[1])
    lower, upper = -rng.random(A.shape[1]) * 0.2, rng.random(A.shape[1]) * 0.2
    lower[::3] = -np.inf
    damped, step, active = damped_step(rows, lengths, lower, upper)
    expected, held = bounded_least_squares(rows.with_damping(lengths), lower, upper)
    np.testing.assert_allclose(step, expected, **CLOSE)
    np.testing.assert_array_equal(active, held)
    other = rng.normal(size=A.shape[1])
    whole = np.vstack([A, np.diag(lengths)]) @ other + np.append(b, np.zeros(lengths.size))
    assert damped.predicted_reduction(other) == pytest.approx(b @ b - whole @ whole)
    assert np.any(active) or seed  # bounds do hold some of these steps


def test_a_copy_in_another_place_asks_for_its_own_addresses():
    rows, _, _ = random_arrow(5, 2, 3, 6)
    before = rows.solve()
    there = pickle.loads(pickle.dumps(rows))
    for stack in rows.stacks:
        stack.rows[:] = 0  # whoever still looked at the first one's memory would find nothing
    np.testing.assert_array_equal(there.solve(), before)


def test_no_unknowns_at_all():
    rows = arrowhead(0, np.zeros(0, int), [(np.zeros(0, int), np.ones((3, 1)))], np.zeros((0, 1)))
    step, held = bounded_least_squares(rows.with_damping(np.zeros(0)), np.zeros(0), np.zeros(0))
    assert step.size == held.size == 0
    assert rows.predicted_reduction(step) == 0


def test_units_do_not_matter():
    rows, _, _ = random_arrow(4, 2, 3, 7)
    units = 10.0 ** np.linspace(-12, 12, rows.unknowns)
    blocks = [(b.own, b.rows * np.append(units[np.append(b.own, rows.shared)], 1)) for b in rows.blocks]
    scaled = arrowhead(rows.unknowns, rows.shared, blocks, rows.last.rows * np.append(units[rows.shared], 1))
    np.testing.assert_allclose(scaled.solve() * units, rows.solve(), **CLOSE)


def chained(nodes: int, outputs: int, nx: int, nf: int, rng: np.random.Generator) -> SegmentChain:
    return SegmentChain(np.array([0, nodes - 1]), rng.normal(size=(nodes, outputs, nx + nf)), np.ones((nodes, outputs)),
                 rng.normal(size=(nodes, outputs)), rng.normal(size=(1, nx, nx + nf)), np.zeros((0, nx)))


def test_experiments_are_joined_at_what_they_share_and_priors_find_their_place():
    """Unknowns: 0 shared by all, 1 by all but the last, 2 and 3 own initial states, 4 only in a prior."""
    rng = np.random.default_rng(5)
    chains = [chained(6, 2, 1, 2, rng) for _ in range(3)]
    unknown = [np.array([2, 0, 1]), np.array([3, 0, 1]), np.array([-1, 0, -1])]
    spreads = [UnknownMap(u, np.where(u >= 0, rng.random(3) + 0.5, 0.0)) for u in unknown]
    priors = UnknownMap(np.array([4, 3, 0]), np.array([2.0, 3.0, 0.5]))
    evaluation = Evaluation(0.0, tuple(c.rhs for c in chains), np.array([0.1, -0.2, 0.3]),
                            tuple(c.defect for c in chains), tuple(np.zeros((0, 0)) for _ in chains), 0.0)
    rows = CondensedProblem(LinearizedProblem(evaluation, 5, tuple(chains), tuple(spreads), priors)).rows
    A, b = [], []
    for chain, spread in zip(chains, spreads, strict=True):
        reach = np.zeros((3, 5))
        for i, u in enumerate(spread.unknown):
            if u >= 0:
                reach[i, u] = spread.derivative[i]
        A.append(chain.jacobian.reshape(-1, 3) @ reach)
        b.append(chain.rhs.ravel())
    for u, slope, residual in zip(priors.unknown, priors.derivative, evaluation.prior, strict=True):
        A.append(slope * np.eye(5)[[u]])
        b.append([residual])
    assert sorted(rows.shared) == [0, 1, 4]
    expected = np.linalg.lstsq(np.vstack(A), -np.concatenate(b), rcond=None)[0]
    np.testing.assert_allclose(rows.solve(), expected, **CLOSE)


def test_a_step_rests_along_what_is_null_to_rounding():
    """Two equal columns, one of them shifted by rounding: the least squares step along their difference is arbitrary."""
    rng = np.random.default_rng(3)
    column, other, right = rng.standard_normal((3, 40))
    twin = column * (1 + 2e-16 * rng.standard_normal(40))
    rows = np.column_stack([column, twin, other, right])
    plain = arrowhead(3, np.arange(3), [], rows)
    step = plain.freeze_null_space().with_damping(np.full(3, 1e-11)).solve()
    assert step[0] == pytest.approx(step[1], abs=1e-9)
    assert plain.predicted_reduction(step) == pytest.approx(float(right @ right) - float(
        np.linalg.lstsq(np.column_stack([column, other]), -right, rcond=None)[1][0]), rel=1e-9)


def test_a_weakly_seen_direction_is_not_taken_for_a_null_one():
    rng = np.random.default_rng(4)
    column, other, right = rng.standard_normal((3, 40))
    rows = np.column_stack([column, column + 1e-9 * other, right])
    plain = arrowhead(2, np.arange(2), [], rows)
    assert plain.freeze_null_space().solve() == pytest.approx(plain.solve(), rel=1e-3)
