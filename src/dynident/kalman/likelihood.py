"""Likelihood: noise levels that make the innovations (prediction errors) as probable as they can be.

States are integrated out by the filter: a marginal likelihood; its negative logarithm is also called an energy function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from dynident.kalman.backend import FilterStopped, backend_for
from dynident.kalman.run import run_pass
from dynident.kalman.setup import TYPICAL_SIZE_SAMPLES, FilterSetup
from dynident.solvers.solver_result import Iteration
from dynident.tolerances import LIKELIHOOD_TOLERANCE, NOISE_ABSENT
from dynident.transcription.initial_guess import states_from_measurements

FIRST_LEVELS = (1e-4, 1e-2, 1.0)  # of a state's typical size per second: where the search for process noise begins
LOG_SEARCH_RANGE = 12.0  # natural logarithms to either side of the first guess
FAILED_LOG_LIKELIHOOD = 1e3  # per measured value: a filter that breaks down is as unlikely as this
LOG_DIFFERENCE_STEP = 1e-3  # of a logarithm, for derivatives: far above the rounding of the sum, far below its curvature
MAX_LIKELIHOOD_ITERATIONS = 60


def estimate_noise(setup: FilterSetup, tell: Callable[..., object] = lambda _: None
                   ) -> tuple[FilterSetup, tuple[str, ...]]:
    """The setup with every open noise level found by maximum likelihood through the filter, and remarks.

    Process noise, measurement noise and (as states of the filter) the parameters are found together.
    """
    if not setup.open_noise and not setup.noise_std:
        return setup, ()
    levels, calls = NoiseLevels.of(setup), count(1)

    def objective(logs: np.ndarray) -> float:
        total = log_likelihood(levels.setup_at(np.asarray(logs)))
        number = next(calls)
        if total is None:
            return FAILED_LOG_LIKELIHOOD
        tell(Iteration(number, -2 * total, 0.0))
        return -total / levels.measured

    begin = min([levels.first(level) for level in (FIRST_LEVELS if setup.open_noise else (1.0,))], key=objective)
    bounds = [(v - LOG_SEARCH_RANGE, v + LOG_SEARCH_RANGE) for v in begin]
    from scipy import optimize  # here, because it takes a while to load

    best = optimize.minimize(objective, begin, method="L-BFGS-B", bounds=bounds,
                             options={"finite_diff_rel_step": None, "eps": LOG_DIFFERENCE_STEP, "ftol": LIKELIHOOD_TOLERANCE,
                                      "maxiter": MAX_LIKELIHOOD_ITERATIONS}).x
    absent = [i for i in range(len(setup.open_noise)) if best[i] < bounds[i][0] + NOISE_ABSENT]
    best[absent] = -np.inf
    return levels.setup_at(best), tuple(f"Maximum likelihood finds no process noise in '{setup.open_noise[i]}'."
                                        for i in absent)


def log_likelihood(setup: FilterSetup) -> float | None:
    """Of the innovations of one pass; None where the filter breaks down."""
    backend = backend_for(setup)
    try:
        done = run_pass(setup, backend, setup.theta)
    except FilterStopped:
        return None
    total = sum(float(np.sum(s[:, backend.layout.sample["loglik"]])) for s in done.samples)
    return total if np.isfinite(total) else None


@dataclass(frozen=True, eq=False)
class NoiseLevels:
    """The logarithms of the open standard deviations as coordinates: process noise first, then outputs."""

    setup: FilterSetup
    rows: tuple[int, ...]  # of the augmented state, whose process noise is open
    measured: int  # values

    @classmethod
    def of(cls, setup: FilterSetup) -> NoiseLevels:
        measured = sum(int(np.sum(np.isfinite(r.outputs))) for r in setup.records)
        return cls(setup, tuple(setup.augmented.names.index(name) for name in setup.open_noise), max(1, measured))

    def first(self, level: float) -> np.ndarray:
        """A guess from the typical sizes of states and parameters."""
        typical = np.max([r.initial_std for r in self.setup.records], axis=0)
        typical = np.concatenate([np.maximum(typical, self._extents()), self.setup.theta_std])
        typical = np.where(typical > 0, typical, 1.0)
        return np.concatenate([np.log(level * typical[list(self.rows)]),
                               np.log(np.array(list(self.setup.noise_std.values()), float))])

    def _extents(self) -> np.ndarray:
        """Known initial states have no variance: what the records show of each state instead."""
        model, extents = self.setup.augmented.model, []
        for experiment in self.setup.problem.experiments:
            time = np.asarray(experiment.time)
            states = states_from_measurements(model, experiment, np.linspace(time[0], time[-1], TYPICAL_SIZE_SAMPLES))
            extents.append(np.max(np.where(np.isnan(states), 0.0, np.abs(states)), axis=0))
        return np.max(extents, axis=0)

    def setup_at(self, logs: np.ndarray) -> FilterSetup:
        q = self.setup.q.copy()
        q[list(self.rows)] = np.exp(2 * logs[:len(self.rows)])
        return self.setup.with_noise(q, dict(zip(self.setup.noise_std, np.exp(logs[len(self.rows):]), strict=True)))
