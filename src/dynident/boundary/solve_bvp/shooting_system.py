"""Multiple shooting system: segments that must meet, and conditions at both ends, as one square system."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.block_elimination import BlockElimination
from dynident.boundary.solve_bvp.boundary_conditions import BoundaryConditions, BoundaryJacobian
from dynident.boundary.solve_bvp.root_finding import FactoredSystem
from dynident.boundary.solve_bvp.segment_propagation import Segments

ROUNDING = 2 * float(np.finfo(float).eps)  # of the terms of an equation; in 44 problems by five schemes mostly 0.5 to 1.4 eps

@dataclass(frozen=True, eq=False)
class ShootingFactors:
    """The factored Jacobian; inside, every state is divided by its typical size."""

    elimination: BlockElimination
    sizes: np.ndarray  # (states,)
    parameter_sizes: np.ndarray  # (parameters,)
    growth: np.ndarray  # (segments,) how much a change at the begin of a segment can grow to its end

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        n, count = self.sizes.size, self.elimination.segments * self.sizes.size
        s, p = self.elimination.solve(rhs[:count].reshape(-1, n) / self.sizes, rhs[count:])
        return np.concatenate([(s * self.sizes).ravel(), p * self.parameter_sizes])

    @functools.cached_property
    def softest(self) -> np.ndarray:
        """How states at the nodes and p follow the condition at the ends that moves them most, per unit.

        A unit is what the condition changes by where all states move by their typical size.
        """
        units = np.diag(self.elimination.row_size[self.sizes.size:])
        still = np.zeros(self.elimination.segments * self.sizes.size)
        return max((self.solve(np.concatenate([still, unit])) for unit in units), key=self._reach)

    def _reach(self, move: np.ndarray) -> float:
        """The largest change, in typical sizes."""
        nodes = self.elimination.segments + 1
        return float(np.max(np.abs(move) / np.concatenate([np.tile(self.sizes, nodes), self.parameter_sizes])))

    @property
    def condition(self) -> float:
        """How far the solution moves at the most, in typical sizes, per unit change of a condition at the ends.

        This is the condition number that MUSN and the thesis warn about: its logarithm is the number of digits that are lost.
        """
        return self._reach(self.softest)


def factor_shooting_system(links: np.ndarray, tied: BoundaryJacobian, sizes: np.ndarray, parameter_sizes: np.ndarray,
                           regular: bool = True) -> ShootingFactors:
    """From the derivatives of all segments' ends and of the conditions at both ends; `regular` as for `BlockElimination`."""
    _, begin, end, shared = tied
    scaled = links * np.concatenate([sizes, parameter_sizes]) / sizes[:, None]
    elimination = BlockElimination(scaled, begin * sizes, end * sizes, shared * parameter_sizes, regular)
    return ShootingFactors(elimination, sizes, parameter_sizes, growth_of(links, sizes))


def rounding_errors(links: np.ndarray, tied: BoundaryJacobian, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(segments x states + conditions,) what rounding leaves in each equation: units in the last place of its terms."""
    _, begin, end, shared = tied
    before = np.abs(np.hstack([nodes[:-1], np.tile(p, (len(nodes) - 1, 1))]))
    met = np.einsum("kij,kj->ki", np.abs(links), before) + np.abs(nodes[1:])
    held = np.abs(begin) @ np.abs(nodes[0]) + np.abs(end) @ np.abs(nodes[-1]) + np.abs(shared) @ np.abs(p)
    return ROUNDING * np.concatenate([met.ravel(), held])


def growth_of(links: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(segments,) how much a change at the begin of a segment grows to its end, at the most; states in typical sizes."""
    scaled = np.abs(links[:, :, :sizes.size]) * sizes / sizes[:, None]
    return np.max(np.sum(scaled, axis=2), axis=1)


class ShootingSystem:
    """Unknowns: states at the segments' begins and at the last end, then p. A `SquareSystem`.

    `scale`: typical size of each state, then of each parameter (states + parameters,); ones unless given. `regular`: whether
    conditions that do not determine the solution are refused, or solved as far as they do.
    """

    def __init__(self, segments: Segments, ends: BoundaryConditions, scale: np.ndarray | None = None, regular: bool = True):
        self.segments, self.ends, self.regular = segments, ends, regular
        n, m = segments.states, segments.parameters
        sizes = np.ones(n + m) if scale is None else np.asarray(scale, dtype=float)
        self.sizes, self.parameter_sizes = sizes[:n], sizes[n:]
        self.scale = np.concatenate([np.tile(self.sizes, segments.count + 1), self.parameter_sizes])

    def pack(self, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """z from the states at all nodes (segments + 1, states) and p."""
        return np.concatenate([np.ravel(nodes), p])

    def unpack(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = (self.segments.count + 1) * self.segments.states
        return z[:count].reshape(-1, self.segments.states), z[count:]

    def value(self, z: np.ndarray) -> np.ndarray:
        nodes, p = self.unpack(z)
        ends = self.segments.run(nodes[:-1], p, False)
        return np.concatenate([(ends.states - nodes[1:]).ravel(), self.ends.value(nodes[0], nodes[-1], p)])

    def linearize(self, z: np.ndarray) -> FactoredSystem:
        nodes, p = self.unpack(z)
        ends = self.segments.run(nodes[:-1], p, True)
        tied = self.ends.linearize(nodes[0], nodes[-1], p)
        factors = factor_shooting_system(ends.links, tied, self.sizes, self.parameter_sizes, self.regular)
        return FactoredSystem(np.concatenate([(ends.states - nodes[1:]).ravel(), tied[0]]), factors,
                          rounding_errors(ends.links, tied, *self.at_least_typical(nodes, p)))

    def at_least_typical(self, nodes: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Magnitudes for the rounding of a step: what stands near zero came there from about its typical size."""
        return np.maximum(np.abs(nodes), self.sizes), np.maximum(np.abs(p), self.parameter_sizes)
