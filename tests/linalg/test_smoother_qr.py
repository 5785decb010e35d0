"""Is the sweep with model errors exact: the same in C and in NumPy, and that of the whole dense problem?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynident.linalg import chain_qr, smoother_qr
from dynident.linalg.finite_problem import SegmentChain
from dynident.linalg.smoother_qr import SmootherFactors
from linalg.test_chain_qr import dense, random_chain, without_signs

# segments, states, free parameters, outputs, samples per segment, model errors, states that links leave as they are
SHAPES = [(1, 2, 3, 1, 30, 1, 0), (2, 3, 0, 2, 5, 3, 0), (5, 2, 4, 3, 1, 1, 0), (12, 4, 7, 2, 9, 2, 0), (120, 3, 2, 1, 1, 3, 0),
          (3, 5, 1, 1, 150, 4, 0), (40, 8, 0, 2, 1, 8, 0), (40, 8, 0, 2, 1, 8, 4), (30, 6, 2, 1, 3, 4, 3),
          (25, 3, 3, 2, 2, 2, 2), (10, 2, 1, 2, 80, 2, 2), (20, 12, 0, 3, 1, 9, 7)]


def noisy_chain(segments: int, nx: int, nf: int, ny: int, samples: int, nw: int, still: int, seed: int = 0) -> SegmentChain:
    chain = random_chain(segments, nx, nf, ny, samples, seed)
    rng = np.random.default_rng(seed + 1)
    missed = np.sort(rng.permutation(nx)[:nw])
    chain.transition[:, nx - still:] = np.eye(nx + nf)[nx - still:nx]
    return replace(chain, noisy_states=missed, process_std=0.3 * rng.uniform(0.5, 2, (segments - 1, nw)), constant_states=still)


def dense_solution(chain: SegmentChain, rhs: np.ndarray, defect: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best states and parameters, their covariance and what is left, by one big least squares problem in (z, w)."""
    A, b, C, _ = dense(replace(chain, rhs=rhs, defect=defect))
    segments, nx, nf, _ = chain_qr.chain_shape(chain)
    nw, links = chain.noisy_states.size, segments - 1
    free = np.zeros((C.shape[1] + links * nw, nx + nf + links * nw))  # (z, w) from (first state, parameters, w)
    offset = np.zeros(len(free))
    free[:nx, :nx], free[segments * nx:C.shape[1], nx:nx + nf] = np.eye(nx), np.eye(nf)
    free[C.shape[1]:, nx + nf:] = np.eye(links * nw)
    for i in range(links):
        here, there = slice(i * nx, (i + 1) * nx), slice((i + 1) * nx, (i + 2) * nx)
        free[there] = chain.transition[i, :, :nx] @ free[here] + chain.transition[i, :, nx:] @ free[segments * nx:C.shape[1]]
        free[there, nx + nf + i * nw:nx + nf + (i + 1) * nw] += np.eye(nx)[:, chain.noisy_states] * chain.process_std[i]
        offset[there] = chain.transition[i, :, :nx] @ offset[here] + defect[i]
    rows = np.vstack([A @ free[:C.shape[1]], free[C.shape[1]:]])
    right = np.append(A @ offset[:C.shape[1]] + b, np.zeros(links * nw))
    best, *_ = np.linalg.lstsq(rows, -right, rcond=None)
    z = (free @ best + offset)[:C.shape[1]]
    spread = free[:C.shape[1]] @ np.linalg.inv(rows.T @ rows) @ free[:C.shape[1]].T
    return z, spread, rows @ best + right


@pytest.fixture(params=["C", "NumPy"])
def either(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(smoother_qr, "_library", lambda *shape: None)
    elif smoother_qr._library(1, 0, 1, 0, (0,)) is None:
        pytest.skip("needs a C compiler")


@pytest.mark.parametrize("shape", SHAPES)
def test_step_solves_the_whole_problem(either, shape):
    chain = noisy_chain(*shape)
    _segments, nx, nf, _ = chain_qr.chain_shape(chain)
    swept = SmootherFactors(chain)
    T, n = swept.triangle, nx + nf
    first = np.linalg.solve(T[:n, :n], -T[:n, n])
    states = swept.expand(first[:nx], first[nx:], swept.own)
    z, _, left = dense_solution(chain, chain.rhs, chain.defect)
    assert np.allclose(np.append(states.ravel(), first[nx:]), z, rtol=1e-8, atol=1e-9)
    assert np.isclose(T[n, n] ** 2, left @ left, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_step_for_other_right_hand_sides(either, shape):
    chain, other = noisy_chain(*shape), noisy_chain(*shape, seed=7)
    _segments, nx, nf, _ = chain_qr.chain_shape(chain)
    rhs, defect = np.where(chain.weight > 0, other.rhs, 0.0), other.defect
    swept, n = SmootherFactors(chain), nx + nf
    R = swept.triangle[:n, :n]
    gradient, offsets = swept.gradient(rhs, defect)
    first = -np.linalg.solve(R.T @ R, gradient)
    states = swept.expand(first[:nx], first[nx:], offsets)
    z, _, _ = dense_solution(chain, rhs, defect)
    assert np.allclose(np.append(states.ravel(), first[nx:]), z, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_covariances_along_time(either, shape):
    chain = noisy_chain(*shape)
    segments, nx, nf, _ = chain_qr.chain_shape(chain)
    swept, n = SmootherFactors(chain), nx + nf
    inverse = np.linalg.inv(swept.triangle[:n, :n])
    found = swept.covariances(inverse @ inverse.T)
    _, spread, _ = dense_solution(chain, chain.rhs, chain.defect)
    for i in range(segments):
        which = np.r_[i * nx:(i + 1) * nx, segments * nx:segments * nx + nf]
        assert np.allclose(found[i], spread[np.ix_(which, which)], rtol=1e-7, atol=1e-10)


def test_without_error_it_is_the_sweep_of_equalities(either):
    chain = noisy_chain(12, 4, 7, 2, 9, 2, 0)
    still = replace(chain, process_std=np.zeros_like(chain.process_std))
    ours, plain = SmootherFactors(still).triangle, chain_qr.factor(chain)
    assert np.allclose(without_signs(ours), without_signs(plain), rtol=1e-9, atol=1e-10)
