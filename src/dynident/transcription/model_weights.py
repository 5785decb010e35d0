"""Model weights: residuals whose weight follows from the model, by formulas of standard deviations or log-normal errors.

With residuals r = (y - m)/s, or (log y - log m)/s, the cost is the sum of r^2 + 2 log s. A row for each measured value and one
for each standard deviation make a least squares problem with the same gradient and, as its Hessian, the expected one (Fisher
scoring): weight 1/s and right-hand side r for y; weight sqrt(2)/s and right-hand side (1 - r^2)/sqrt(2) for s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.problem.noise import LogNormal, formula_of, logarithmic_mean
from dynident.problem.problem import Problem

ROUGH_STD = 0.01  # of a signal's spread, or of its logarithm: before a formula has been evaluated
ROOT2 = float(np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class WeighedResiduals:
    """Right-hand side and weight of each row, (nodes, outputs), and what the standard deviations add to the cost."""

    residuals: np.ndarray
    weight: np.ndarray
    squares: float  # of the measured values alone
    log_std: float  # sum of 2 log s over formulas


class ModelWeights:
    """Which outputs of one experiment are weighed by the model, and how."""

    def __init__(self, problem: Problem, index: int, grid: Grid, measured: np.ndarray, present: np.ndarray):
        model, self.experiment = problem.model, problem.experiments[index]
        self.names, self.grid, self.present = model.outputs, grid, present
        self.std_output = {model.outputs.index(name): model.outputs.index(std)
                           for name, std in problem.noise_outputs[index].items()}
        self.log = np.array([isinstance(self.experiment.noise.get(name), LogNormal) for name in model.outputs], bool)
        self.target = measured.copy()  # logarithms where errors are log-normal
        seen = present[:, self.log]
        self.target[:, self.log] = np.where(seen, np.log(np.where(seen, measured[:, self.log], 1.0)), 0.0)

    def rough_weight(self, name: str, values: np.ndarray) -> np.ndarray:
        """A weight to begin with, for how finely a model has to be integrated; nothing is estimated by it."""
        noise, finite = self.experiment.noise[name], values[np.isfinite(values)]
        if isinstance(noise, LogNormal):
            std = ROUGH_STD if formula_of(noise) is not None else np.asarray(noise.std, float)
            return np.broadcast_to(1 / (std * np.where(np.isfinite(values), values, 1.0)), values.shape)
        spread = float(np.std(finite)) or float(np.max(np.abs(finite), initial=0.0)) or 1.0
        return np.full(values.shape, 1 / (ROUGH_STD * spread))

    def weighed(self, outputs: np.ndarray, weight: np.ndarray) -> WeighedResiduals:
        """At the outputs of a simulation; `weight` holds for the outputs whose weight is given.

        Raises SimulationDiverged where a standard deviation, or an output with a logarithm, is not positive.
        """
        seen, weight = self.present, weight.copy()
        value = np.where(seen, outputs, 1.0)
        self._positive(value, self.log, "output '{}' is not positive, and its errors are log-normal")
        inverse = 1 / np.where(self.log, value, 1.0)  # d what is compared / d output
        for j in map(int, np.flatnonzero(self.log)):
            if j not in self.std_output:
                weight[:, j] = np.where(seen[:, j], 1 / self._given(j), 0.0)
        std = self._std(outputs)
        log_std = 0.0
        for j, k in self.std_output.items():
            weight[:, j] = np.where(seen[:, j], 1 / std[:, k], 0.0)
            log_std += 2 * float(np.sum(np.log(std[seen[:, j], k])))
        compared = np.where(self.log, np.log(np.where(self.log, value, 1.0)), value)
        residuals = np.where(seen, compared - self.target, 0.0) * weight
        with np.errstate(over="ignore"):
            squares = float(np.sum(residuals**2))
            rows, weights = residuals.copy(), weight * inverse
            for k in set(self.std_output.values()):
                of = [j for j, own in self.std_output.items() if own == k]
                count = np.sum(seen[:, of], axis=1)  # one output may be the standard deviation of several
                excess = np.sum(np.where(seen[:, of], 1 - residuals[:, of] ** 2, 0.0), axis=1)
                root = np.sqrt(np.maximum(count, 1))
                rows[:, k], weights[:, k] = excess / (ROOT2 * root), np.where(count > 0, ROOT2 * root / std[:, k], 0.0)
        return WeighedResiduals(rows, weights, squares, log_std)

    def std_in_units(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """Per measured output that the model weighs, standard deviations at the samples by which y - m is r times them."""
        found = {}
        std = self._std(outputs)
        for j, name in enumerate(self.names):
            if not self.log[j] and j not in self.std_output:
                continue
            own = std[:, self.std_output[j]] if j in self.std_output else self._given(int(j))
            if self.log[j]:
                y, m = np.where(self.present[:, j], outputs[:, j], 1.0), np.exp(self.target[:, j])
                own = own * logarithmic_mean(y, m)
            found[name] = np.where(self.present[:, j] & (own > 0), own, 1.0)[self.grid.offset:]
        return found

    def _given(self, j: int) -> np.ndarray:
        """Of log-normal errors the given standard deviation at the nodes; 1 at a start of its own."""
        std: Any = self.experiment.noise[self.names[j]]
        return np.concatenate([np.ones(self.grid.offset),
                               np.broadcast_to(np.asarray(std.std, float), (self.experiment.samples,))])

    def _std(self, outputs: np.ndarray) -> np.ndarray:
        columns = sorted(set(self.std_output.values()))
        used = np.zeros(outputs.shape, bool)
        for j, k in self.std_output.items():
            used[:, k] |= self.present[:, j]
        std = np.where(used, outputs, 1.0)
        self._positive(std, np.isin(np.arange(len(self.names)), columns), "the standard deviation '{}' is not positive")
        return std

    def _positive(self, values: np.ndarray, which: np.ndarray, what: str) -> None:
        bad = np.argwhere(~(values[:, which] > 0))
        if bad.size:
            node, j = int(bad[0][0]), int(np.flatnonzero(which)[bad[0][1]])
            raise SimulationDiverged(float(self.grid.time[node]), node, what=what.format(self.names[j]))
