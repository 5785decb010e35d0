"""Condensing: a linearised problem with its inner nodes eliminated, as least squares in the unknowns alone."""

from __future__ import annotations

import functools

import numpy as np

from dynident._util.frozen import changed, frozen
from dynident.errors import SimulationDiverged
from dynident.linalg.arrowhead import ArrowheadLeastSquares, condensed_arrowhead
from dynident.linalg.chain_qr import ChainFactors
from dynident.linalg.compiled_arrowhead import PlacedBlocks
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, LinkOffsets
from dynident.linalg.smoother_qr import SmootherFactors
from dynident.problem.noise import sum_of_squares

FIXED, OWN, SHARED = range(3)  # what an unknown is to an experiment
LARGEST_DERIVATIVE = 1e150  # of a derivative; squares of larger ones, summed up, are not finite


@frozen
class NodeOffsets:
    """What a step of the inner nodes must close at a point, per experiment."""

    links: tuple[LinkOffsets, ...]
    stage_residuals: tuple[np.ndarray, ...]  # (segments - 1, stages)


class CondensedProblem:
    """The rows to make small by a step of the unknowns, and the way back to the nodes.

    Raises SimulationDiverged where the derivatives are not finite, as at the edge of what a model can compute.
    """

    def __init__(self, linear: LinearizedProblem):
        self.linear = linear
        with np.errstate(over="ignore", invalid="ignore"):  # judged below
            memory = [linear.workspace.arrays.setdefault(("factors", e), {}) for e in range(len(linear.chains))]
            self.factors = [SmootherFactors(chain, own) if chain.noisy_states.size else ChainFactors(chain)
                           for chain, own in zip(linear.chains, memory, strict=True)]
            triangles = _stacked([swept.triangle for swept in self.factors], 3)
        if not max(triangles.max(initial=0.0), -triangles.min(initial=0.0)) < LARGEST_DERIVATIVE:
            raise SimulationDiverged(np.nan, 0, what="the derivatives of the simulation are not finite")
        self.node_reduction = self._node_reduction(triangles)
        self.rows: ArrowheadLeastSquares = _joined(linear, triangles)

    def without_chains(self) -> CondensedProblem:
        """The rows alone, for who needs no nodes: what stands in the workspace is not referred to any more."""
        return changed(self, linear=changed(self.linear, chains=(), unknown_maps=()), factors=[])

    def _node_reduction(self, triangles: np.ndarray) -> float:
        """How much the sum of squares falls by the nodes alone; where no link may be missed they have nothing to choose."""
        if not any(chain.noisy_states.size for chain in self.linear.chains):
            return 0.0
        left = sum_of_squares(triangles[:, :, -1]) + sum_of_squares(self.linear.evaluation.prior)
        return max(0.0, self.linear.evaluation.cost - left)

    def gradient(self, evaluation: Evaluation) -> tuple[np.ndarray, NodeOffsets]:
        """Gradient for the residuals and defects of another point, with this point's derivatives, and what a step of the
        nodes must close there."""
        total = np.zeros(self.linear.unknowns)
        self.linear.priors.gather(evaluation.prior, total)
        offsets = []
        for swept, mapping, rhs, defect in zip(self.factors, self.linear.unknown_maps, self._reweighed(evaluation),
                                               evaluation.defects, strict=True):
            gradient, links = swept.gradient(rhs, defect * swept.chain.node_scale)  # in this point's units of the nodes
            mapping.gather(gradient, total)
            offsets.append(links)
        return total, NodeOffsets(tuple(offsets), evaluation.stage_residuals)

    def _reweighed(self, evaluation: Evaluation) -> tuple[np.ndarray, ...]:
        """Residuals of another point with this point's robust weights, so that steps towards one goal are compared."""
        if not evaluation.factors:
            return evaluation.weighted_residuals
        return tuple(rhs * mine / theirs for rhs, theirs, mine in zip(
            evaluation.weighted_residuals, evaluation.factors, self.linear.evaluation.factors, strict=True))

    def expand(self, step: np.ndarray, offsets: NodeOffsets | None = None) -> tuple[np.ndarray, ...]:
        """Steps of the inner nodes that belong to a step of the unknowns, and close the defects of this or another point."""
        if offsets is None:
            offsets = NodeOffsets(tuple(swept.own for swept in self.factors), self.linear.evaluation.stage_residuals)
        nodes = []
        for swept, mapping, links, correction in zip(self.factors, self.linear.unknown_maps, offsets.links,
                                                     offsets.stage_residuals, strict=True):
            chain, nx = swept.chain, swept.chain.transition.shape[1]
            local = mapping.scatter(step)
            states = swept.expand(local[:nx], local[nx:], links)
            own = states[1:] / chain.node_scale
            if correction.shape[1]:  # else they would be hung on for nothing, and copied
                begin = np.hstack([states[:-1], np.tile(local[nx:], (len(states) - 1, 1))])
                own = np.hstack([own, correction + np.einsum("kij,kj->ki", chain.stage, begin)])
            nodes.append(own)
        return tuple(nodes)


def blocks_by_role(unknowns: int, unknown: np.ndarray) -> tuple[np.ndarray, tuple[PlacedBlocks, ...]]:
    """Shared unknowns, and experiments by the roles of their numbers; `unknown` (experiments, numbers) int64, -1 for none."""
    return _plan(unknowns, unknown.shape, unknown.tobytes())


@functools.lru_cache(maxsize=64)
def _plan(unknowns: int, shape: tuple[int, ...], unknown_bytes: bytes) -> tuple[np.ndarray, tuple[PlacedBlocks, ...]]:
    """Shared unknowns, and experiments by the roles of their numbers; the same for all points of a problem."""
    unknown = np.frombuffer(unknown_bytes, dtype=np.int64).reshape(shape)  # of each experiment's numbers
    users = np.bincount(unknown[unknown >= 0], minlength=unknowns)
    shared = np.flatnonzero(users != 1)
    column = np.zeros(unknowns, dtype=int)  # of a shared unknown
    column[shared] = np.arange(shared.size)
    role = np.where(unknown < 0, FIXED, np.where(np.append(users, 0)[unknown] == 1, OWN, SHARED))
    groups: dict[bytes, list[int]] = {}
    for e, roles in enumerate(role):
        groups.setdefault(roles.tobytes(), []).append(e)
    planned = []
    for alike in groups.values():
        private, common = (np.flatnonzero(role[alike[0]] == which) for which in (OWN, SHARED))
        own = unknown[alike][:, private]
        own_columns = np.tile(np.arange(private.size), (len(alike), 1))
        places = np.hstack([own_columns, private.size + column[unknown[alike][:, common]]])
        width = private.size + shared.size + 1
        which, own, numbers, places = (np.ascontiguousarray(each, np.int64)
                                       for each in (alike, own, np.append(private, common), places))
        planned.append(PlacedBlocks(which, own, numbers, places, width))
    return shared, tuple(planned)


def _stacked(arrays: list[np.ndarray], dimensions: int) -> np.ndarray:
    """One behind the other, of an experiment or of its segments."""
    each = [array if array.ndim == dimensions else array[None] for array in arrays]
    return each[0] if len(each) == 1 else np.concatenate(each)


def _joined(linear: LinearizedProblem, rows: np.ndarray) -> ArrowheadLeastSquares:
    """Experiments joined at the unknowns that they share; an unknown of one experiment only is that one's own.

    `rows` (experiments, numbers + 1, numbers | residual). Segments that are not linked are experiments here.
    """
    unknown = np.ascontiguousarray(_stacked([mapping.unknown for mapping in linear.unknown_maps], 2), np.int64)
    shared, groups = blocks_by_role(linear.unknowns, unknown)
    derivative = _stacked([mapping.derivative for mapping in linear.unknown_maps], 2)
    prior = None
    if linear.priors.unknown.size:
        prior = np.zeros((linear.unknowns, 2))  # weight and residual, zero for none
        prior[linear.priors.unknown, 0], prior[linear.priors.unknown, 1] = linear.priors.derivative, linear.evaluation.prior
    return condensed_arrowhead(linear.unknowns, shared, groups, rows, derivative, prior)
