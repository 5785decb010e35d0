"""Passes: the filter over all records, one after another, and the smoother back over them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynident.methods.kalman.engine import Engine, Later, Smoothed
from dynident.methods.kalman.setup import Setup


@dataclass(eq=False)
class Pass:
    """What one pass leaves behind, per experiment."""

    theta: np.ndarray  # (free,) where it began
    samples: list[np.ndarray] = field(default_factory=list)  # (samples, fields of layout.sample)
    links: list[np.ndarray | None] = field(default_factory=list)
    ends: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # mean and covariance
    smoothed: list[Smoothed] = field(default_factory=list)

    def end_with_all_known(self, e: int, later: Later) -> None:
        """The end of a record, with what later records say."""
        x, P = self.ends[e]
        self.ends[e] = x - P @ later.vector, P - P @ later.matrix @ P


def run(setup: Setup, engine: Engine, theta: np.ndarray, links: bool) -> Pass:
    """One pass from these parameters; shared parameters and their covariance go from record to record."""
    done = Pass(theta)
    nx = len(setup.augmented.model.states)
    mean, block = theta.copy(), np.diag(setup.theta_std**2)
    for record in setup.records:
        x = np.concatenate([record.initial, mean])
        P = np.zeros((x.size, x.size))
        P[:nx, :nx] = np.diag(record.initial_std**2)
        P[nx:, nx:] = block
        engine.hold(record.linear)
        engine.begin(x, P, record.start, record.inputs[0])
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
    nx, n = len(setup.augmented.model.states), setup.augmented.size
    go_on = np.zeros(n)
    go_on[nx:] = setup.shared
    later = Later(np.zeros(n), np.zeros((n, n)))
    for e in reversed(range(len(done.samples))):
        links = done.links[e]
        assert links is not None
        smoothed = engine.smooth(done.samples[e], links, later)
        done.smoothed.insert(0, smoothed)
        done.end_with_all_known(e, later)
        later = Later(smoothed.start.vector * go_on, smoothed.start.matrix * np.outer(go_on, go_on))
