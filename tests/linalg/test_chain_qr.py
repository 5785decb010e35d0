"""Is the elimination along time exact: the same in C and in NumPy, and that of the whole dense problem?"""

from __future__ import annotations

import numpy as np
import pytest

from dynident.linalg import chain_qr
from dynident.linalg.chain_qr_interpreted import segment_rows
from dynident.linalg.finite_problem import SegmentChain

# segments, states, free parameters, outputs, samples per segment
SHAPES = [(1, 2, 3, 1, 30), (1, 1, 0, 1, 4), (2, 3, 0, 2, 5), (5, 2, 4, 3, 1), (12, 4, 7, 2, 9), (60, 2, 3, 1, 3),
          (300, 3, 2, 1, 1), (3, 6, 20, 3, 40)]


def random_chain(segments: int, nx: int, nf: int, ny: int, samples: int, seed: int = 0, growth: float = 0.9) -> SegmentChain:
    """Links that shrink the state by about `growth` from segment to segment; a fifth of the values is not measured."""
    rng = np.random.default_rng(seed)
    nodes = segments * samples + 1
    weight = np.where(rng.random((nodes, ny)) < 0.2, 0.0, rng.uniform(0.5, 2, (nodes, ny)))
    rhs = np.where(weight > 0, rng.normal(size=(nodes, ny)), 0.0)
    link = np.empty((segments, nx, nx + nf))
    for i in range(segments):
        link[i, :, :nx] = growth * np.linalg.qr(rng.normal(size=(nx, nx)))[0]
        link[i, :, nx:] = rng.normal(size=(nx, nf))
    return SegmentChain(np.arange(segments + 1, dtype=np.int64) * samples, rng.normal(size=(nodes, ny, nx + nf)), weight, rhs,
                 link, rng.normal(size=(segments - 1, nx)))


def dense(chain: SegmentChain) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows A z + b to make small and links C z + d = 0, with z = (states at the segments' begins, parameters)."""
    segments, nx, nf, ny = chain_qr.chain_shape(chain)
    size = segments * nx + nf
    A, b = [], []
    for i in range(segments):
        last = int(chain.segment_starts[i + 1]) + (i == segments - 1)
        for k in range(int(chain.segment_starts[i]), last):
            for y in range(ny):
                if chain.weight[k, y]:
                    row = np.zeros(size)
                    row[i * nx:(i + 1) * nx] = chain.weight[k, y] * chain.jacobian[k, y, :nx]
                    row[segments * nx:] = chain.weight[k, y] * chain.jacobian[k, y, nx:]
                    A.append(row)
                    b.append(chain.rhs[k, y])
    C, d = np.zeros(((segments - 1) * nx, size)), np.zeros((segments - 1) * nx)
    for i in range(segments - 1):
        here = slice(i * nx, (i + 1) * nx)
        C[here, here], C[here, segments * nx:] = chain.transition[i, :, :nx], chain.transition[i, :, nx:]
        C[here, (i + 1) * nx:(i + 2) * nx] = -np.eye(nx)
        d[here] = chain.defect[i]
    return np.array(A), np.array(b), C, d


def without_signs(T: np.ndarray) -> np.ndarray:
    """A triangular factor is unique up to the signs of its rows."""
    return T * np.where(np.diag(T) < 0, -1.0, 1.0)[:, None]


@pytest.fixture(params=["C", "NumPy"])
def either(request, monkeypatch):
    """The compiled sweep, and the one that serves where there is no compiler."""
    if request.param == "NumPy":
        monkeypatch.setattr(chain_qr, "_library", lambda: None)
    elif chain_qr._library() is None:
        pytest.skip("this machine has no C compiler")


@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_and_numpy_sweep_agree_to_rounding(shape, monkeypatch):
    if chain_qr._library() is None:
        pytest.skip("this machine has no C compiler")
    chain = random_chain(*shape)
    other = random_chain(*shape, seed=1)
    _, nx, nf, _ = chain_qr.chain_shape(chain)
    s, p = np.arange(1.0, nx + 1), np.linspace(-1, 1, nf)

    def everything() -> tuple[np.ndarray, ...]:
        return (chain_qr.factor(chain), chain_qr.gradient(chain, other.rhs, other.defect),
                chain_qr.expand(chain, s, p, chain.defect))

    fast = everything()
    monkeypatch.setattr(chain_qr, "_library", lambda: None)
    plain = everything()
    np.testing.assert_allclose(without_signs(fast[0]), without_signs(plain[0]), atol=1e-12 * np.max(np.abs(plain[0])))
    for a, b in zip(fast[1:], plain[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(np.max(np.abs(b)), 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_segments_that_are_not_linked_have_the_triangle_of_their_own_rows(shape, either):
    chain = random_chain(*shape)
    for i, T in enumerate(chain_qr.segment_factors(chain)):
        rows = segment_rows(chain, i)
        np.testing.assert_allclose(T.T @ T, rows.T @ rows, atol=1e-12 * max(1, np.sum(rows**2)))
        assert not np.any(np.tril(T, -1))


@pytest.mark.parametrize("shape", SHAPES)
def test_swept_minimum_is_that_of_the_dense_problem_with_its_equalities(shape, either):
    chain = random_chain(*shape)
    nx = chain_qr.chain_shape(chain)[1]
    A, b, C, d = dense(chain)
    whole = np.block([[A.T @ A, C.T], [C, np.zeros((len(C), len(C)))]])
    z = np.linalg.solve(whole, -np.concatenate([A.T @ b, d]))[:A.shape[1]]
    T = chain_qr.factor(chain)
    first = np.linalg.solve(T[:-1, :-1], -T[:-1, -1])
    states = chain_qr.expand(chain, first[:nx], first[nx:], chain.defect)
    found = np.concatenate([states.ravel(), first[nx:]])
    np.testing.assert_allclose(found, z, rtol=0, atol=1e-8 * np.max(np.abs(z)))  # the dense matrix squares A
    assert abs(T[-1, -1]) == pytest.approx(np.linalg.norm(A @ z + b), rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_for_other_residuals_is_that_of_the_dense_problem(shape, either):
    chain, other = random_chain(*shape), random_chain(*shape, seed=1)
    other = SegmentChain(chain.segment_starts, chain.jacobian, chain.weight, np.where(chain.weight > 0, other.rhs, 0),
                         chain.transition, other.defect)
    segments, nx, nf, _ = chain_qr.chain_shape(chain)
    A, b, _, _ = dense(other)

    def whole(s: np.ndarray, p: np.ndarray, defect: np.ndarray) -> np.ndarray:
        return np.concatenate([chain_qr.expand(chain, s, p, defect).ravel(), p])

    zero = np.zeros((segments - 1, nx))
    columns = np.column_stack([whole(e[:nx], e[nx:], zero) for e in np.eye(nx + nf)])
    at = A @ whole(np.zeros(nx), np.zeros(nf), other.defect) + b
    expected = columns.T @ (A.T @ at)
    found = chain_qr.gradient(chain, other.rhs, other.defect)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.max(np.abs(expected)))


@pytest.mark.parametrize("growth", [0.01, 1.5])
def test_states_that_vanish_or_grow_along_time_lose_no_digits(growth, either):
    """1.5^40 = 1e7 along the chain; compared with a QR factorisation of the eliminated rows."""
    chain = random_chain(40, 2, 3, 1, 4, growth=growth)
    T = chain_qr.factor(chain)
    A, b, _, _ = dense(chain)
    segments, nx, nf, _ = chain_qr.chain_shape(chain)
    zero = np.zeros((segments - 1, nx))
    columns = np.column_stack([np.append(chain_qr.expand(chain, e[:nx], e[nx:], zero).ravel(), e[nx:])
                               for e in np.eye(nx + nf)])
    at = A @ np.append(chain_qr.expand(chain, np.zeros(nx), np.zeros(nf), chain.defect).ravel(), np.zeros(nf)) + b
    R = np.linalg.qr(np.column_stack([A @ columns, at]), mode="r")
    scale = np.linalg.norm(R, axis=0)
    np.testing.assert_allclose(without_signs(T) / scale, without_signs(R) / scale, rtol=0, atol=1e-10)


def test_chain_on_which_nothing_was_measured(either):
    chain = random_chain(3, 2, 1, 1, 4)
    blind = SegmentChain(chain.segment_starts, chain.jacobian, np.zeros_like(chain.weight), np.zeros_like(chain.rhs),
                         chain.transition, chain.defect)
    assert np.all(chain_qr.factor(blind) == 0)
    assert np.all(chain_qr.gradient(blind, blind.rhs, blind.defect) == 0)


def test_fewer_rows_than_unknowns_leave_zero_rows(either):
    chain = random_chain(1, 2, 5, 1, 2, seed=3)
    T = chain_qr.factor(chain)
    A, b, _, _ = dense(chain)
    rows = np.column_stack([A, b])
    np.testing.assert_allclose(T.T @ T, rows.T @ rows, atol=1e-12)
