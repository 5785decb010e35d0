"""Run: the filter over all records, pass after pass, and the Rauch-Tung-Striebel (fixed-interval) smoother back over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynident.kalman.backend import AdjointState, FilterBackend, SmoothedSamples
from dynident.kalman.setup import FilterSetup
from dynident.solvers.solver_result import Iteration


@dataclass(frozen=True, eq=False)
class FilterPass:
    """What one pass leaves behind, per experiment."""

    theta: np.ndarray  # (free,) where it began
    samples: tuple[np.ndarray, ...] = ()  # (samples, fields of layout.sample)
    smoother_data: tuple[np.ndarray | None, ...] = ()
    ends: tuple[tuple[np.ndarray, np.ndarray], ...] = ()  # mean and covariance when the record ends
    smoothed: tuple[SmoothedSamples, ...] = ()


def run_pass(setup: FilterSetup, backend: FilterBackend, theta: np.ndarray, for_smoother: bool = False) -> FilterPass:
    """One pass from these parameters; shared parameters and their covariance go from record to record."""
    nx = len(setup.augmented.model.states)
    mean, block = theta.copy(), np.diag(setup.theta_std**2)
    filtered, ends = [], []
    for record in setup.records:
        x = np.concatenate([record.initial, mean])
        P = np.zeros((x.size, x.size))
        P[:nx, :nx] = np.diag(record.initial_std**2)
        P[nx:, nx:] = block
        memory = backend.initialize(x, P, record.start, record.inputs[0])
        filtered.append(backend.filter_record(memory, record, for_smoother))
        end, P_end = backend.estimate(filtered[-1].memory)
        ends.append((end, P_end))
        mean, block = _carry_parameters(setup, theta, end[nx:], P_end[nx:, nx:])
    return FilterPass(theta, tuple(f.samples for f in filtered), tuple(f.smoother_data for f in filtered), tuple(ends))


def _carry_parameters(setup: FilterSetup, start: np.ndarray, mean: np.ndarray, block: np.ndarray
                      ) -> tuple[np.ndarray, np.ndarray]:
    """Parameters for the next record: shared ones go on, the others begin anew."""
    both = np.outer(setup.shared, setup.shared)
    return np.where(setup.shared, mean, start), np.where(both, block, 0.0) + np.diag(
        np.where(setup.shared, 0.0, setup.theta_std**2))


def smooth_pass(setup: FilterSetup, backend: FilterBackend, done: FilterPass) -> FilterPass:
    """Back over every record, the last one first; what a later record says about shared parameters reaches all."""
    nx, n = len(setup.augmented.model.states), setup.augmented.size
    shared = np.zeros(n)
    shared[nx:] = setup.shared
    future, smoothed, ends = AdjointState.zero(n), [], []
    for samples, smoother_data, (x, P) in zip(reversed(done.samples), reversed(done.smoother_data), reversed(done.ends),
                                              strict=True):
        assert smoother_data is not None
        smoothed.append(backend.smooth(samples, smoother_data, future))
        ends.append((x - P @ future.vector, P - P @ future.matrix @ P))  # with what later records say
        start = smoothed[-1].start
        future = AdjointState(start.vector * shared, start.matrix * np.outer(shared, shared))
    return replace(done, smoothed=tuple(reversed(smoothed)), ends=tuple(reversed(ends)))


def run_passes(setup: FilterSetup, backend: FilterBackend, tell: Callable[..., object]
               ) -> tuple[FilterPass, tuple[Iteration, ...]]:
    """Each pass begins with the parameters of the last one and the covariance of the first: no record counts twice
    in the standard deviations."""
    theta, history = setup.theta, []
    nx, passes = len(setup.augmented.model.states), setup.method.passes
    for number in range(passes):
        done = run_pass(setup, backend, theta, for_smoother=setup.method.smoother and number == passes - 1)
        before, theta = theta, np.where(setup.repeated, done.ends[-1][0][nx:], setup.theta)
        cost = sum(float(np.sum(s[:, backend.layout.sample["nis"]])) for s in done.samples)
        step = float(np.linalg.norm((theta - before) / np.where(setup.theta_std > 0, setup.theta_std, 1.0)))
        history.append(Iteration(number, cost, step))
        tell(history[-1])
    return done, tuple(history) if passes > 1 else ()
