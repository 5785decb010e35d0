"""Gradient matching: which parameters make the rates fit states that were read off the record?

Over windows of time the change of each state is compared with the integral of its rate, with states from the measurements:
nothing is simulated, so that nothing can become unstable however far off the parameters are, and rates are often nearly
linear in them. Noise in the states biases the answer: it is a start, not an estimate.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.optimize import least_squares

from dynident.integrators.grid import grid_of
from dynident.problem.problem import Problem
from dynident.problem.transforms import Transforms
from dynident.transcription.initial_guess import WINDOW, states_from_measurements

WINDOWS = 40  # at least, in a record
ITERATIONS = 200


def gradient_matching_start(problem: Problem, coordinates: Transforms, start: np.ndarray) -> np.ndarray | None:
    """Coordinates of the unknowns, with parameters that match; None where the records do not show every state."""
    shown = [_Shown(problem, e) for e in range(len(problem.experiments))]
    moved = np.array([not u.initial for u in problem.unknowns], dtype=bool)
    if not np.any(moved) or not all(np.all(np.isfinite(s.states)) for s in shown):
        return None

    def whole(part: np.ndarray) -> np.ndarray:
        full = start.copy()
        full[moved] = part
        return full

    def residuals(part: np.ndarray) -> np.ndarray:
        values = coordinates.values(whole(part))
        return np.concatenate([s.missed(problem.parameters_and_initial_state(values, e)[0]) for e, s in enumerate(shown)])

    def slopes(part: np.ndarray) -> np.ndarray:
        xi = whole(part)
        values, by = coordinates.values(xi), coordinates.derivative(xi)
        blocks = []
        for e, s in enumerate(shown):
            own, unknown = s.slopes(problem.parameters_and_initial_state(values, e)[0]), problem.bindings[e].parameter_unknown
            block = np.zeros((len(own), len(values)))
            block[:, unknown[unknown >= 0]] = own[:, unknown >= 0]
            blocks.append(block * by)
        return np.vstack(blocks)[:, moved]

    low, high = coordinates.lower[moved], coordinates.upper[moved]
    inside = np.clip(start[moved], low, high)
    with np.errstate(all="ignore"):
        if not np.all(np.isfinite(residuals(inside))):
            return None
        try:
            found = least_squares(residuals, inside, slopes, bounds=(low, high), x_scale="jac", loss="linear",
                                  max_nfev=ITERATIONS)
        except (ValueError, np.linalg.LinAlgError):  # it stepped to where a rate is not finite; there is no start from here
            return None
    return whole(found.x) if np.all(np.isfinite(found.x)) else None


class _Shown:
    """One record: states at the samples, and how far their changes over windows are from what the rates say."""

    def __init__(self, problem: Problem, e: int):
        model, experiment = problem.model, problem.experiments[e]
        self.grid = grid_of(model, experiment)
        samples = self.grid.nodes
        self.window = int(np.clip(samples // WINDOWS, 1, WINDOW))
        self.states = states_from_measurements(model, experiment, self.grid.time, self.window)
        x, u = ca.SX.sym("x", len(model.states)), ca.SX.sym("u", len(model.inputs))
        t, p = ca.SX.sym("t"), ca.SX.sym("p", len(model.parameters))
        rate = model.rate(t, x, u, p)
        told = [i for i in range(len(model.states)) if any(ca.which_depends(rate[i], p, 1, False))]  # by parameters
        self.told, rate = told, rate[told]
        self.rate = ca.Function("rate", [t, x, u, p], [ca.densify(rate)]).map(samples - 1)
        self.slope = ca.Function("slope", [t, x, u, p], [ca.densify(ca.vec(ca.jacobian(rate, p)))]).map(samples - 1)
        change = self._windows(np.diff(self.states[:, told], axis=0))
        size = np.sqrt(np.mean(change**2, axis=0))
        self.change, self.size = change, np.where(size > 0, size, 1.0)

    def _windows(self, steps: np.ndarray) -> np.ndarray:
        """Sums over windows of what happens in the intervals, (windows, ...)."""
        total = np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])
        return total[self.window:] - total[:-self.window]

    def _integral(self, function: ca.Function, p: np.ndarray) -> np.ndarray:
        g, x = self.grid, self.states
        at = [function(g.time[None, k:len(x) - 1 + k], x[k:len(x) - 1 + k].T, u.T, p) for k, u in
              ((0, g.u_begin), (1, g.u_end))]
        return np.diff(g.time)[:, None] / 2 * (np.asarray(at[0]) + np.asarray(at[1])).T

    def missed(self, p: np.ndarray) -> np.ndarray:
        return ((self._windows(self._integral(self.rate, p)) - self.change) / self.size).ravel()

    def slopes(self, p: np.ndarray) -> np.ndarray:
        """(windows x states, parameters)"""
        steps = self._integral(self.slope, p).reshape(len(self.states) - 1, p.size, len(self.told)).swapaxes(1, 2)
        return (self._windows(steps) / self.size[:, None]).reshape(-1, p.size)
