"""Smoother covariance: how sure are unknowns, states and outputs of a smoothed record?"""

from __future__ import annotations

import functools

import numpy as np

from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import SimulationDiverged
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Variables
from dynident.linalg.smoother_qr import SmootherFactors
from dynident.tolerances import RANK_DAMPING


class SmootherCovariance:
    """The linearised problem at a point, asked for covariances; weights are taken as inverse variances."""

    def __init__(self, finite: WeakConstraintProblem, point: Variables, held: np.ndarray | None = None):
        self.finite, self.point = finite, point
        self.linear = finite.linearize(point)
        self.reduced = CondensedProblem(self.linear)
        self.held = np.zeros(len(finite.names), bool) if held is None else np.asarray(held) != 0

    @property
    def triangle(self) -> np.ndarray:
        """Rows (m, unknowns) whose square is half the Hessian in the solver's coordinates, nodes eliminated."""
        return self.reduced.rows.stacked_rows()[:, :-1]

    def covariance(self) -> np.ndarray:
        """(unknowns, unknowns) in the solver's coordinates; what is held has none."""
        free = ~self.held
        T = self.triangle[:, free]
        lengths = np.sqrt(np.sum(T**2, axis=0))
        lengths = np.where(lengths > 0, lengths, 1.0)
        R = np.linalg.qr(np.vstack([T / lengths, np.sqrt(RANK_DAMPING) * np.eye(T.shape[1])]), mode="r")
        inverse = np.linalg.solve(R, np.eye(len(R))) / lengths[:, None]
        whole = np.zeros((free.size, free.size))
        whole[np.ix_(free, free)] = inverse @ inverse.T
        return whole

    def along(self) -> list[np.ndarray]:
        """Per experiment (nodes, n, n): covariance of states and free parameters at each node, as values.

        SimulationDiverged where there is none: derivatives that multiply to more than the largest number are as good as
        infinite, whether or not the last bit of one of them says so.
        """
        if self.finite.mixing is None:
            return self._along
        n = len(self.finite.mixing)
        found = [P.copy() for P in self._along]
        back = np.linalg.inv(self.finite.mixing)
        for P in found:  # behind the first node, the chain's states are mixed
            P[1:, :n] = back @ P[1:, :n]
            P[1:, :, :n] = P[1:, :, :n] @ back.T
        return found

    @functools.cached_property
    def _along(self) -> list[np.ndarray]:
        """In the chain's states."""
        unknowns = self.covariance()
        found = []
        for smooth, spread in zip(self._smooth, self.linear.unknown_maps, strict=True):
            J = np.zeros((spread.unknown.size, len(unknowns)))
            free = np.flatnonzero(spread.unknown >= 0)
            J[free, spread.unknown[free]] = spread.derivative[free]
            with np.errstate(over="ignore", invalid="ignore"):
                found.append(smooth.covariances(J @ unknowns @ J.T))
        if not all(np.all(np.isfinite(each)) for each in found):
            raise SimulationDiverged(np.nan, 0, what="the derivatives of the simulation are not finite")
        return found

    @functools.cached_property
    def _smooth(self) -> list[SmootherFactors]:
        return [swept if isinstance(swept, SmootherFactors) else SmootherFactors(swept.chain) for swept in self.reduced.factors]

    def error_std(self) -> list[np.ndarray]:
        """Per experiment (intervals, states): standard deviation of the smoothed xi if the model errs as its weights say; 0
        where it cannot err. What the data do not show of an error is not in it: its variance is the weight's less what stays
        unknown (the law of total variance)."""
        found = []
        for smooth, P, record, reach in zip(self._smooth, self._along, self.finite.records, self.finite.reach, strict=True):
            std = np.zeros(smooth.chain.transition.shape[:2])[:len(reach)]
            shown = reach**2 - smooth.error_variances(P) if self.finite.mixing is None else self._mixed_back(smooth, P, reach)
            shown = np.maximum(shown, 0.0)  # rounding where nothing is shown
            std[:, self.finite.errs] = np.sqrt(shown) / np.diff(record.grid.time)[:, None]
            found.append(std)
        return found

    def _mixed_back(self, smooth: SmootherFactors, P: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """(intervals, errors): what the data show of the variance of each error, where the chain's are combinations of them."""
        errs = self.finite.errs
        assert self.finite.mixing is not None
        back = np.linalg.inv(self.finite.mixing)[np.ix_(errs, errs)]
        shown = reach[:, :, None] ** 2 * np.eye(errs.size) - smooth.error_covariances(P)
        return np.einsum("ia,kab,ib->ki", back, shown, back)

    def output_variances(self) -> list[np.ndarray]:
        """Per experiment (nodes, outputs): variance of the smoothed outputs in units of the measurement errors'."""
        found = []
        for chain, P in zip(self.linear.chains, self._along, strict=True):
            rows = chain.jacobian * chain.weight[:, :, None]
            found.append(np.einsum("kia,kab,kib->ki", rows, P, rows))
        return found

    def influence(self, true_std: list[np.ndarray]) -> np.ndarray:
        """Covariance of the gradient by measurement errors of a given size, per experiment (nodes, outputs) in units of
        1/weight; so that H^-1 this H^-1 is the covariance of the unknowns where the weights are no inverse variances."""
        count = len(self.finite.names)
        total = np.zeros((count, count))
        zero = [np.zeros_like(rhs) for rhs in self.linear.evaluation.weighted_residuals]
        none = [np.zeros_like(defect) for defect in self.linear.evaluation.defects]
        for e, (swept, spread) in enumerate(zip(self.reduced.factors, self.linear.unknown_maps, strict=True)):
            chain = swept.chain
            nx, n = chain.transition.shape[1], spread.unknown.size
            answers = np.empty((*chain.weight.shape, n))
            _, still = swept.gradient(zero[e], none[e])
            for j in range(n):  # how the best trajectory moves with first state and parameters
                unit = np.eye(n)[j]
                states = swept.expand(unit[:nx], unit[nx:], still)
                moved = np.hstack([states, np.tile(unit[nx:], (len(states), 1))])
                answers[:, :, j] = chain.weight * np.einsum("kia,ka->ki", chain.jacobian, moved)
            if self.finite.whitening is not None:  # by each measured value, not by combinations of them
                answers = self.finite.whitening.T @ answers
            rows = (answers * true_std[e][:, :, None]).reshape(-1, n)
            part = np.zeros((len(rows), count))
            free = np.flatnonzero(spread.unknown >= 0)
            part[:, spread.unknown[free]] = rows[:, free] * spread.derivative[free]
            total += part.T @ part
        return total
