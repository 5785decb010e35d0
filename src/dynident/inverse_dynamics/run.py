"""Run: weighted least squares on torques; weights per joint, or robust ones, found from the residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import ProblemError
from dynident.inverse_dynamics.base_parameters import BaseChoice, below_noise, choose_base
from dynident.inverse_dynamics.setup import ArmAlongMotion, TorqueRecord
from dynident.problem.noise import loss_and_weights
from dynident.robots.model import RobotModel
from dynident.tolerances import SINGULAR_VALUE, STEP_TOLERANCE

MAX_REWEIGHTINGS = 50  # of re-weighting, and of load-dependent friction, whose column follows the links' parameters
WEIGHTINGS = ("joints", "none", "huber")


@dataclass(frozen=True, eq=False)
class TorqueRows:
    """One record's rows of the regression, filtered: what was measured, what the model says, and its derivatives."""

    measured: np.ndarray  # (m, dof)
    predicted: np.ndarray  # (m, dof)
    jacobian: np.ndarray  # (m, dof, parameters)

    @property
    def residual(self) -> np.ndarray:
        return self.measured - self.predicted

    def linear_target(self, values: np.ndarray) -> np.ndarray:
        """What jacobian @ values should be, linearised at `values`."""
        return self.residual + self.jacobian @ values


@dataclass(frozen=True, eq=False)
class TorqueFit:
    """Parameters that explain the torques best, with what else is needed to judge them."""

    arm: RobotModel
    values: np.ndarray  # (parameters,) in the order of arm.parameters
    base: BaseChoice
    std: np.ndarray  # (dof,) of the residuals of each joint
    weights: tuple[np.ndarray, ...]  # per record (m, dof): robust factors, one without
    rows: tuple[TorqueRows, ...]
    passes: int
    converged: bool
    held: tuple[str, ...] = ()  # parameters that the problem holds

    @property
    def idle(self) -> tuple[str, ...]:
        """Free parameters that act on no torque along these records."""
        return tuple(name for name in (self.arm.parameters[i] for i in self.base.idle) if name not in self.held)

    @property
    def rms(self) -> np.ndarray:
        """(dof,) of the residuals over all records."""
        return np.sqrt(np.mean(np.concatenate([r.residual for r in self.rows]) ** 2, axis=0))

    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted residuals (model - measured) / std, and their derivatives, record after record, sample after sample."""
        residuals = [-(r.residual / self.std * w).ravel() for r, w in zip(self.rows, self.weights, strict=True)]
        jacobians = [(r.jacobian * (w / self.std)[:, :, None]).reshape(-1, r.jacobian.shape[2])
                     for r, w in zip(self.rows, self.weights, strict=True)]
        return np.concatenate(residuals), np.concatenate(jacobians)

    def at(self, values: np.ndarray, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion]) -> TorqueFit:
        """The same fit at other values."""
        return replace(self, values=values, rows=rows_at(self.arm, values, records, along))


def rows_at(arm: RobotModel, values: np.ndarray, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion]
            ) -> tuple[TorqueRows, ...]:
    named = dict(zip(arm.parameters, map(float, values), strict=True))
    found = []
    for record, it in zip(records, along, strict=True):
        torque, jacobian = it.torque_and_jacobian(named)
        found.append(TorqueRows(record.filtered(record.torque), record.filtered(torque), record.filtered(jacobian)))
    return tuple(found)


def fit_torques(arm: RobotModel, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion], weighting: str,
                free: Sequence[str] | None = None) -> TorqueFit:
    """Weighted least squares, repeated until weights and load-dependent friction stand still; `free`: the unknowns, or all."""
    start = nominal_vector(arm)
    rows = rows_at(arm, start, records, along)
    size = np.sqrt(np.mean(np.concatenate([r.measured for r in rows]) ** 2, axis=0))
    if not np.all(np.isfinite(size)) or not np.any(size > 0):
        raise ProblemError("all torques are zero; there is nothing to learn from them.")
    std = np.full(arm.dof, np.max(size)) if weighting == "none" else np.where(size > 0, size, np.max(size))
    allowed = np.array([free is None or name in free for name in arm.parameters])
    weights = tuple(np.ones_like(r.measured) for r in rows)
    fit = TorqueFit(arm, start, _base(arm, rows, std, allowed), std, weights, rows, 0, False,
                    tuple(name for name, may in zip(arm.parameters, allowed, strict=True) if not may))
    nonlinear = any("load" in laws for laws in arm.friction)
    relinearize = (lambda after: after.at(after.values, records, along)) if nonlinear else None
    fit = refit(fit, weighting, relinearize)
    size = np.sqrt(sum(float(np.sum((r.measured / fit.std) ** 2)) for r in fit.rows))
    seen = _base(arm, fit.rows, fit.std, allowed, below_noise(size))
    if len(seen.independent) == len(fit.base.independent):
        return fit
    return refit(replace(fit, values=start, base=seen, rows=rows_at(arm, start, records, along)), weighting, relinearize)


def refit(fit: TorqueFit, weighting: str, relinearize: Callable[[TorqueFit], TorqueFit] | None = None) -> TorqueFit:
    """Passes from one fit to the next until nothing moves; without `relinearize` the torques are linear. "fixed" keeps the
    weights of the fit."""
    start = fit.values
    for _ in range(MAX_REWEIGHTINGS):
        after = _pass(fit, start, weighting)
        after = relinearize(after) if relinearize is not None else replace(after, rows=tuple(
            replace(r, predicted=r.predicted + r.jacobian @ (after.values - fit.values)) for r in fit.rows))
        moved = max(float(np.max(np.abs(a.predicted - b.predicted) / after.std))
                    for a, b in zip(after.rows, fit.rows, strict=True))
        still = moved < STEP_TOLERANCE and np.allclose(after.std, fit.std, rtol=STEP_TOLERANCE)
        fit = replace(after, passes=fit.passes + 1, converged=bool(still))
        if still:
            break
    return fit


def nominal_vector(arm: RobotModel) -> np.ndarray:
    return np.array([arm.nominal_values[name].start for name in arm.parameters])


def _base(arm: RobotModel, rows: Sequence[TorqueRows], std: np.ndarray, allowed: np.ndarray, tolerance: float = SINGULAR_VALUE
          ) -> BaseChoice:
    jacobian = np.concatenate([(r.jacobian / std[:, None]).reshape(-1, r.jacobian.shape[2]) for r in rows])
    return choose_base(arm.parameters, jacobian * allowed, tolerance)


def _pass(fit: TorqueFit, start: np.ndarray, weighting: str) -> TorqueFit:
    """One weighted least squares problem, and the weights that follow from its residuals."""
    kept = fit.base.independent
    held = start.copy()
    held[kept] = 0.0
    factors = [w / fit.std for w in fit.weights]
    target = np.concatenate([((r.linear_target(fit.values) - r.jacobian @ held) * f).ravel()
                             for r, f in zip(fit.rows, factors, strict=True)])
    matrix = np.concatenate([(r.jacobian[:, :, kept] * f[:, :, None]).reshape(-1, kept.size)
                             for r, f in zip(fit.rows, factors, strict=True)])
    lengths = np.linalg.norm(matrix, axis=0)
    q, triangle = np.linalg.qr(matrix / lengths)
    solved = np.linalg.solve(triangle, q.T @ target) / lengths
    values = held
    values[kept] = solved
    residuals = [r.linear_target(fit.values) - r.jacobian @ values for r in fit.rows]
    freedom = np.sum(1 - np.sum(q**2, axis=1).reshape(-1, fit.arm.dof), axis=0)  # per joint: rows minus their leverage
    square = np.sum(np.concatenate([(e * w) ** 2 for e, w in zip(residuals, fit.weights, strict=True)]), axis=0)
    std = np.sqrt(square / np.maximum(freedom, 1.0))
    std = np.maximum(std, 1e-12 * np.max(np.abs(np.concatenate([r.measured for r in fit.rows])), axis=0) + np.finfo(float).tiny)
    if weighting == "fixed":
        std = fit.std
    elif weighting == "none":
        std = np.full_like(std, np.sqrt(np.mean(std**2)))
    weights = fit.weights
    if weighting == "huber":
        weights = tuple(loss_and_weights((e / std).ravel(), "huber")[1].reshape(e.shape) for e in residuals)
    return replace(fit, values=values, std=std, weights=weights)
