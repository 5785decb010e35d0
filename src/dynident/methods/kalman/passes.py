"""Passes: the filter over all records, one after another, and the smoother back over them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynident.methods.kalman.engine import Engine
from dynident.methods.kalman.setup import Setup
from dynident.methods.kalman.stepwise import scaled_inverse


@dataclass(eq=False)
class Pass:
    """What one pass leaves behind, per experiment."""

    samples: list[np.ndarray] = field(default_factory=list)  # (samples, fields of layout.sample)
    links: list[np.ndarray | None] = field(default_factory=list)
    starts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # mean and covariance at each begin
    ends: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    smoothed: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # states and variances
    first: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # smoothed mean and covariance at sample 0


def run(setup: Setup, engine: Engine, theta: np.ndarray, links: bool) -> Pass:
    """One pass from these parameters; shared parameters and their covariance go from record to record."""
    done = Pass()
    nx = len(setup.augmented.model.states)
    mean, block = theta.copy(), np.diag(setup.theta_std**2)
    for record in setup.records:
        x = np.concatenate([record.initial, mean])
        P = np.zeros((x.size, x.size))
        P[:nx, :nx] = np.diag(record.initial_std**2)
        P[nx:, nx:] = block
        engine.begin(x, P, record.start, record.inputs[0])
        done.starts.append((x, P))
        samples, more = engine.record(record, links)
        done.samples.append(samples)
        done.links.append(more)
        done.ends.append(engine.present())
        end, P_end = done.ends[-1]
        mean, block = carried(setup, theta, end[nx:], P_end[nx:, nx:])
    return done


def carried(setup: Setup, start: np.ndarray, mean: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parameters for the next record: shared ones go on, the others begin anew."""
    both = np.outer(setup.shared, setup.shared)
    return np.where(setup.shared, mean, start), np.where(both, block, 0.0) + np.diag(
        np.where(setup.shared, 0.0, setup.theta_std**2))


def smooth(setup: Setup, engine: Engine, done: Pass) -> None:
    """Back over every record, the last one first; what a later record says about shared parameters reaches all."""
    nx = len(setup.augmented.model.states)
    count = len(setup.records)
    done.smoothed, done.first = [None] * count, [None] * count  # type: ignore[list-item]
    x, P = done.ends[-1]
    for e in reversed(range(count)):
        links = done.links[e]
        assert links is not None
        xs, vs, P_first = engine.smooth(done.samples[e], links, x, P)
        done.smoothed[e], done.first[e] = (xs, vs), (xs[0], P_first)
        if e:
            x, P = _across(setup, nx, done.ends[e - 1], done.starts[e], done.first[e])


def _across(setup: Setup, nx: int, end: tuple[np.ndarray, np.ndarray], start: tuple[np.ndarray, np.ndarray],
            first: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The smoothed end of a record, from what the next one says about the parameters they share."""
    shared = nx + np.flatnonzero(setup.shared)
    (x, P), (before, P_before), (after, P_after) = end, start, first
    if not shared.size:
        return x, P
    gain = P[:, shared] @ scaled_inverse(P_before[np.ix_(shared, shared)])
    change = P_after[np.ix_(shared, shared)] - P_before[np.ix_(shared, shared)]
    return x + gain @ (after[shared] - before[shared]), P + gain @ change @ gain.T
