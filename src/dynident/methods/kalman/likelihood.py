"""Likelihood: noise levels that make the innovations as probable as they can be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynident.methods.kalman.engine import Stopped, engine_for
from dynident.methods.kalman.passes import run
from dynident.methods.kalman.setup import Setup
from dynident.solvers.outcome import Iteration

FIRST_SHARES = (1e-4, 1e-2, 1.0)  # of a state's typical size per second: where the search for process noise begins
SPAN = 12.0  # natural logarithms to either side of the first guess
NONE_FOUND = 0.5  # logarithms above the lower end: the data show no such noise
IMPOSSIBLE = 1e3  # per measured value: a filter that breaks down is as unlikely as this
DIFFERENCE = 1e-3  # of a logarithm, for derivatives: far above the rounding of the sum, far below its curvature
ENOUGH = 1e-7  # relative change of the log-likelihood


def estimate_levels(setup: Setup, tell: Callable[..., object] = lambda _: None) -> tuple[Setup, tuple[str, ...]]:
    """The setup with every open noise level found by maximum likelihood through the filter, and remarks.

    Process noise, measurement noise and (as states of the filter) the parameters are found together.
    """
    outputs = tuple(setup.sizes)
    if not setup.open_noise and not outputs:
        return setup, ()
    search = _Search(setup, outputs, tell)
    starts = [search.first(share) for share in FIRST_SHARES] if setup.open_noise else [search.first(1.0)]
    begin = min(starts, key=search)
    bounds = [(v - SPAN, v + SPAN) for v in begin]
    from scipy import optimize  # here, because it takes a while to load

    found = optimize.minimize(search, begin, method="L-BFGS-B", bounds=bounds,
                              options={"finite_diff_rel_step": None, "eps": DIFFERENCE, "ftol": ENOUGH, "maxiter": 60})
    best = found.x
    remarks = [f"Maximum likelihood finds no process noise in '{name}'." for name, value, (low, _) in
               zip(setup.open_noise, best, bounds, strict=False) if value < low + NONE_FOUND]
    best = np.array([-np.inf if i < len(setup.open_noise) and best[i] < bounds[i][0] + NONE_FOUND else best[i]
                     for i in range(best.size)])
    return search.at(best), tuple(remarks)


class _Search:
    """Minus the log-likelihood per measured value, of the logarithms of the open standard deviations."""

    def __init__(self, setup: Setup, outputs: tuple[str, ...], tell: Callable[..., object]):
        self.setup, self.outputs, self.tell = setup, outputs, tell
        self.rows = [setup.augmented.names.index(name) for name in setup.open_noise]
        self.count = max(1, sum(int(np.sum(np.isfinite(r.outputs))) for r in setup.records))
        self.calls = 0

    def first(self, share: float) -> np.ndarray:
        typical = np.max([r.initial_std for r in self.setup.records], axis=0)
        spans = self._spans()
        typical = np.concatenate([np.maximum(typical, spans), self.setup.theta_std])
        typical = np.where(typical > 0, typical, 1.0)
        sizes = np.array(list(self.setup.sizes.values()), float)
        return np.concatenate([np.log(share * typical[self.rows]), np.log(sizes)])

    def _spans(self) -> np.ndarray:
        """Known initial states have no spread: what the record shows of each state instead."""
        from dynident.discretizations.guess import states_at

        model, spans = self.setup.augmented.model, []
        for experiment in self.setup.problem.experiments:
            time = np.asarray(experiment.time)
            looks = np.linspace(time[0], time[-1], 50)
            seen = states_at(model, experiment, looks)
            spans.append(np.max(np.where(np.isnan(seen), 0.0, np.abs(seen)), axis=0))
        return np.max(spans, axis=0)

    def at(self, logs: np.ndarray) -> Setup:
        q = self.setup.q.copy()
        q[self.rows] = np.exp(2 * logs[:len(self.rows)])
        sizes = dict(zip(self.outputs, np.exp(logs[len(self.rows):]), strict=True))
        return self.setup.with_levels(q, sizes)

    def __call__(self, logs: np.ndarray) -> float:
        setup = self.at(np.asarray(logs))
        self.calls += 1
        try:
            engine = engine_for(setup)
            done = run(setup, engine, setup.theta, False)
        except Stopped:
            return IMPOSSIBLE
        total = sum(float(np.sum(s[:, engine.layout.sample["loglik"]])) for s in done.samples)
        if not np.isfinite(total):
            return IMPOSSIBLE
        self.tell(Iteration(self.calls, -2 * total, 0.0))
        return -total / self.count
