"""Reduced: a linearised problem with its inner nodes eliminated, as least squares in the unknowns alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.discretizations.finite import Evaluation, Linear, Spread
from dynident.integrators.march import Diverged
from dynident.solvers.arrow import Arrow, arrow
from dynident.solvers.smooth import SmoothSweep
from dynident.solvers.sweep import Sweep


class Reduced:
    """The rows to make small by a step of the unknowns, and the way back to the nodes.

    Raises Diverged where the derivatives are not finite, as at the edge of what a model can compute.
    """

    def __init__(self, linear: Linear):
        self.linear = linear
        self.sweeps = [SmoothSweep(chain) if chain.missed.size else Sweep(chain) for chain in linear.chains]
        triangles = [swept.triangle for swept in self.sweeps]
        if not all(np.all(np.isfinite(T)) for T in triangles):
            raise Diverged(np.nan, 0, what="the derivatives of the simulation are not finite")
        self.rows: Arrow = _joined(linear, triangles)
        own = [chain.rhs for chain in linear.chains], [chain.defect for chain in linear.chains]
        self._last: tuple[Evaluation, Sequence[np.ndarray], Sequence[np.ndarray]] = linear.evaluation, *own

    def gradient(self, evaluation: Evaluation) -> np.ndarray:
        """Gradient for the residuals and defects of another point, with this point's derivatives."""
        total = np.zeros(self.linear.unknowns)
        self.linear.priors.collect(evaluation.prior, total)
        for swept, spread, rhs, defect in zip(self.sweeps, self.linear.spreads, *self._rights(evaluation), strict=True):
            spread.collect(swept.gradient(rhs, defect), total)
        return total

    def _rights(self, evaluation: Evaluation) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
        """Residuals and defects as the chains know them: with this point's robust weights, and in its units of the nodes.

        The same arrays for the same evaluation, by which a sweep knows that it has seen them.
        """
        if self._last[0] is not evaluation:
            defects = [defect * chain.unit for defect, chain in zip(evaluation.defects, self.linear.chains, strict=True)]
            self._last = evaluation, self._reweighed(evaluation), defects
        return self._last[1:]

    def _reweighed(self, evaluation: Evaluation) -> tuple[np.ndarray, ...]:
        """Residuals of another point with this point's robust weights, so that steps towards one goal are compared."""
        if not evaluation.factors:
            return evaluation.rhs
        return tuple(rhs * here / there for rhs, there, here in zip(
            evaluation.rhs, evaluation.factors, self.linear.evaluation.factors, strict=True))

    def expand(self, step: np.ndarray, evaluation: Evaluation) -> tuple[np.ndarray, ...]:
        """Steps of the inner nodes that belong to a step of the unknowns and close the evaluation's defects."""
        nodes = []
        for swept, spread, rhs, defect, correction in zip(self.sweeps, self.linear.spreads, *self._rights(evaluation),
                                                          evaluation.corrections, strict=True):
            chain, nx = swept.chain, swept.chain.link.shape[1]
            local = spread.change(step)
            states = swept.expand(local[:nx], local[nx:], rhs, defect)
            own = states[1:] / chain.unit
            if correction.shape[1]:  # else they would be hung on for nothing, and copied
                begin = np.hstack([states[:-1], np.tile(local[nx:], (len(states) - 1, 1))])
                own = np.hstack([own, correction + np.einsum("kij,kj->ki", chain.stage, begin)])
            nodes.append(own)
        return tuple(nodes)


def _joined(linear: Linear, triangles: list[np.ndarray]) -> Arrow:
    """Experiments joined at the unknowns that they share; an unknown of one experiment only is that one's own."""
    users = np.zeros(linear.unknowns + 1, dtype=int)  # one place more, for the index -1 of what is held
    for spread in linear.spreads:
        users[spread.unknown] += 1
    private = users == 1
    private[-1] = False
    shared = np.flatnonzero(~private[:-1])
    column = np.zeros(linear.unknowns, dtype=int)  # of an unknown, in the rows of whoever speaks of it
    prior = np.full(linear.unknowns, -1)  # of an unknown, -1 for none
    prior[linear.priors.unknown] = np.arange(linear.priors.unknown.size)
    blocks = []
    for spread, T in zip(linear.spreads, triangles, strict=True):
        own = spread.unknown[private[spread.unknown]]
        column[own], column[shared] = np.arange(own.size), own.size + np.arange(shared.size)
        width = own.size + shared.size + 1
        known = _prior_rows(linear, prior[own], column, width)
        blocks.append((own, np.vstack([_placed(T, spread, column, width), known])))
    column[shared] = np.arange(shared.size)
    return arrow(linear.unknowns, shared, blocks, _prior_rows(linear, prior[shared], column, shared.size + 1))


def _placed(rows: np.ndarray, spread: Spread, column: np.ndarray, width: int) -> np.ndarray:
    """Rows (numbers of a spread | residual) as rows (unknowns | residual)."""
    placed = np.zeros((len(rows), width))
    free = spread.unknown >= 0
    placed[:, column[spread.unknown[free]]] = rows[:, :-1][:, free] * spread.slope[free]
    placed[:, -1] = rows[:, -1]
    return placed


def _prior_rows(linear: Linear, which: np.ndarray, column: np.ndarray, width: int) -> np.ndarray:
    """Some of the priors (-1: none)."""
    which = which[which >= 0]
    if not which.size:
        return np.zeros((0, width))
    rows = np.column_stack([np.eye(which.size), linear.evaluation.prior[which]])
    return _placed(rows, Spread(linear.priors.unknown[which], linear.priors.slope[which]), column, width)
