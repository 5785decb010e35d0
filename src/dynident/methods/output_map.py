"""Output map: what is measured as a function of the unknowns, and the directions in which it does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.adaptive import RADAU5
from dynident.linalg.rank import truncated_svd, unit_columns
from dynident.methods.substeps import choose_substeps
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import transforms_of
from dynident.problem.problem import Problem
from dynident.tolerances import FAINT_ROW, NULL_SPACE_COMPONENT, SINGULAR_VALUE
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.transcription.shooting import Shooting


@dataclass(frozen=True, eq=False)
class Outputs:
    """What is measured at some values, in units of its size, with derivatives and rows of like weight."""

    values: np.ndarray  # (rows,)
    jacobian: np.ndarray  # (rows, unknowns)
    weight: np.ndarray  # (rows,): one over how sensitive a row is, so that a run that grows shows its begin as well

    def change_to(self, other: Outputs) -> float:
        """Length of what differs, in weighted rows."""
        return float(np.linalg.norm(self.weight * (other.values - self.values)))

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.weight * self.values))


class OutputMap:
    """The measured outputs, priors and equalities of a problem as a function of its unknowns."""

    def __init__(self, problem: Problem, values: np.ndarray):
        """With steps that are short enough at `values`. Raises SimulationDiverged where the model is not finite there."""
        self.problem = problem.replace(experiments=[_of_unit_size(e) for e in problem.experiments])
        self.coordinates = transforms_of(problem, values)
        self.constraints = parameter_constraints(problem, self.coordinates)
        self.scheme = integrator_named("runge_kutta")
        self.substeps, error = choose_substeps(partial(self._shooting, values))
        if error > 1 and problem.model.states:
            self.scheme, self.substeps = RADAU5, 1
        self.at(values)

    def _shooting(self, values: np.ndarray, substeps: int) -> Shooting:
        return Shooting(self.problem, self.scheme, [1] * len(self.problem.experiments), substeps, {}, start_values=values)

    def at(self, values: np.ndarray) -> Outputs:
        """Raises SimulationDiverged where the model, or a derivative, is not finite."""
        finite = self._shooting(values, self.substeps)
        with np.errstate(all="ignore"):
            at = finite.linearization(finite.start())
            weight = _row_weights(at.jacobian, at.rows.experiment, at.rows.sample)
        if not (np.all(np.isfinite(at.residuals)) and np.all(np.isfinite(at.jacobian)) and np.all(np.isfinite(weight))):
            raise SimulationDiverged(np.inf, 0, what="outputs or their derivatives are not finite")
        if not self.constraints.count:
            return Outputs(at.residuals, at.jacobian, weight)
        xi = self.coordinates.coordinates(values)
        own, slope = self.constraints.at(xi)
        equal = self.constraints.lower == self.constraints.upper
        slope = (slope / self.coordinates.derivative(xi))[equal]
        lengths = np.linalg.norm(slope, axis=1)
        return Outputs(np.concatenate([at.residuals, own[equal]]), np.vstack([at.jacobian, slope]),
                       np.concatenate([weight, 1 / np.where(lengths > 0, lengths, 1.0)]))


def _of_unit_size(experiment: Experiment) -> Experiment:
    """The record with outputs that are zero where they were measured, counted in their own size."""
    outputs, noise = {}, {}
    for name, values in experiment.outputs.items():
        there = np.isfinite(np.asarray(values, float))
        spread = float(np.std(np.asarray(values, float)[there])) if np.any(there) else 0.0
        outputs[name] = np.where(there, 0.0, np.nan)
        noise[name] = Gaussian(spread or float(np.max(np.abs(np.asarray(values)[there]), initial=0.0)) or 1.0)
    return replace(experiment, outputs=outputs, noise=noise, notes=())


def _row_weights(jacobian: np.ndarray, experiment: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """(rows,) one over the length of each row in columns of length one, but no less than rounding of earlier ones leaves."""
    peaks = np.max(np.abs(jacobian), axis=0, initial=0.0)
    lengths = np.linalg.norm(jacobian / np.where(peaks > 0, peaks, 1.0), axis=1)
    weight = np.ones(lengths.size)
    for e in np.unique(experiment):
        own = np.flatnonzero(experiment == e)
        own = own[np.argsort(sample[own], kind="stable")]
        floor = FAINT_ROW * np.maximum.accumulate(lengths[own]) if e >= 0 else 0.0
        scale = np.maximum(lengths[own], floor)
        weight[own] = 1 / np.where(scale > 0, scale, 1.0)
    return weight


def null_space(outputs: Sequence[Outputs], sizes: np.ndarray) -> np.ndarray:
    """(unknowns, k) directions in the user's units along which none of these changes; columns of length one in `sizes`."""
    rows = np.vstack([o.weight[:, None] * o.jacobian for o in outputs])
    if not rows.shape[1]:
        return np.zeros((0, 0))
    unit, norms, _ = unit_columns(rows, sizes)
    svd = truncated_svd(np.asarray(np.linalg.qr(unit, mode="r")), SINGULAR_VALUE, null_space=True)
    null = svd.null_space / (norms * sizes)[:, None]
    basis, _ = np.linalg.qr(null) if null.shape[1] else (null, None)
    return np.asarray(basis * sizes[:, None])


def touched(null: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(unknowns,) which of them take part in a direction."""
    return np.linalg.norm(null / sizes[:, None], axis=1) > NULL_SPACE_COMPONENT
