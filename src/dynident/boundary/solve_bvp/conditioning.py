"""Conditioning: is a problem ill-conditioned, and does a mesh know how the solution follows changes of the equations?

A layer inside may stand almost anywhere: what the far ends say about its place can be less than the errors of a mesh. Such a
mesh pins the layer, and what is computed with its Jacobian, the error and the condition number among it, is small and wrong.

Steps of half the length between the same nodes make a second Jacobian. Let v and w be the answers of the first and the second
to the same change; where one direction is soft, both lie along it, and c = (v, w) / (w, w) is its stiffness by the second,
as a share of the first. A direction that errors of the mesh hold has c far below 1, or a negative one; and one that they set
free, c far above. Stiff modes that need not be resolved are harmless: finer steps damp them more, so that c is 1 or above, and
they do not reach far.

Rounding has a say of its own. What it may do to the equations where the solution is changed by w is answered too, and compared
with w: this is how far the stiffness is known at all (times the root of N, since N segments of equal length round alike).
Unless that is far below 1, c means nothing, and the answer is 'not determined on this mesh', by the same margin on every
processor.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.mesh import CollocationMesh, ShootingMesh
from dynident.boundary.solve_bvp.problem import BoundaryConditions, BoundaryJacobian
from dynident.boundary.solve_bvp.root_finding import Singular
from dynident.boundary.solve_bvp.systems import CollocationFactors, ShootingFactors, factor_shooting_system, rounding_errors
from dynident.errors import SimulationDiverged
from dynident.tolerances import FAR_REACH, SOFT_DIRECTION, STIFFNESS_DOUBTFUL, STIFFNESS_ROUNDING, STIFFNESS_UNSURE

EPS = float(np.finfo(float).eps)
PROBES = 3  # random changes of everything: one alone might miss a soft direction by chance


@dataclass(frozen=True, eq=False)
class Conditioning:
    """How the solution on one mesh is held."""

    determined: bool  # by more than errors of the mesh and rounding
    at_ends: bool  # changes of the conditions at the ends move it, not only changes inside
    reach: float  # largest answer to a change of everything by about its unit, in typical sizes
    condition: float  # largest answer to a unit change of one condition at the ends
    floor: float  # what rounding alone may do to the solution, in typical sizes
    answers: np.ndarray  # (changes, nodes x states + parameters) to random changes of everything, in typical sizes
    factors: ShootingFactors | None  # the Jacobian by steps of half the length; None where it is singular or not finite

    @functools.cached_property
    def soft(self) -> np.ndarray:
        """Directions of the farthest answers, orthonormal: along which the solution is held least."""
        if not np.all(np.isfinite(self.answers)) or not np.any(self.answers):
            return self.answers[:0]
        _, lengths, directions = np.linalg.svd(self.answers, full_matrices=False)
        return np.asarray(directions[lengths > SOFT_DIRECTION * lengths[0]])

    def without_soft(self, change: np.ndarray) -> np.ndarray:
        """A change of nodes and parameters, in typical sizes, less its part along which the solution is loose."""
        return change - self.soft.T @ (self.soft @ change)


def measure_conditioning(steps: ShootingMesh | CollocationMesh, ends: BoundaryConditions, times: np.ndarray,
                         nodes: np.ndarray, p: np.ndarray, sizes: np.ndarray, first: ShootingFactors | CollocationFactors
                         ) -> Conditioning:
    """Of the mesh whose Jacobian is `first`; `sizes` of states and parameters."""
    n = nodes.shape[1]
    all_sizes = np.concatenate([np.tile(sizes[:n], len(nodes)), sizes[n:]])
    try:
        links, tied = steps.half_step_links(times, nodes, p), ends.linearize(nodes[0], nodes[-1], p)
        second = factor_shooting_system(links, tied, sizes[:n], sizes[n:], regular=not steps.statement.same_slopes)
    except (SimulationDiverged, Singular):
        return Conditioning(False, True, np.inf, np.inf, np.inf, np.zeros((0, all_sizes.size)), None)
    conditions = second.elimination.row_size[n:]  # all of them and all segments change, by random multiples of their units
    changes = draws(0, all_sizes.size) * np.concatenate([np.tile(sizes[:n], len(nodes) - 1), conditions])
    v, w = first.answer(changes) / all_sizes, second.answer(changes) / all_sizes
    reach, condition = float(np.max(np.abs(w))), second.condition
    known = _known(v, w, steps.order) and _sharp(second, links, tied, w * all_sizes, nodes.shape)
    rounding = draws(0, all_sizes.size) * rounding_errors(links, tied, nodes, p)
    floor = float(np.max(np.abs(second.answer(rounding)) / all_sizes))
    return Conditioning(known, condition * FAR_REACH >= reach, reach, condition, floor, w, second)


@functools.lru_cache(maxsize=16)
def draws(seed: int, size: int) -> np.ndarray:
    """(PROBES, size) standard normal numbers, always the same ones."""
    numbers = np.random.default_rng(seed).standard_normal((PROBES, size))
    numbers.flags.writeable = False
    return numbers


def _known(v: np.ndarray, w: np.ndarray, order: int) -> bool:
    """Whether both Jacobians answer alike; `shown`: of an error, by steps of half the length."""
    shown = 1 - 0.5**order
    with np.errstate(all="ignore"):
        share = np.sum(v * w, axis=1) / np.sum(w * w, axis=1)
    near = (np.max(np.abs(w), axis=1) <= FAR_REACH) | (np.abs(share - 1) < STIFFNESS_UNSURE * shown)
    return bool(np.all((share > 1 - STIFFNESS_DOUBTFUL * shown) & near))


def _sharp(factors: ShootingFactors, links: np.ndarray, tied: BoundaryJacobian, w: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether rounding leaves the stiffness along each answer known."""
    count = shape[0] * shape[1]
    rounding = rounding_errors(links, tied, w[:, :count].reshape(-1, *shape), w[:, count:])
    moved = factors.answer(draws(1, w.shape[1]) * rounding)
    with np.errstate(all="ignore"):
        blurred = np.sqrt(shape[0] * np.sum(moved**2, axis=1) / np.sum(w**2, axis=1))
    return bool(np.all(blurred < STIFFNESS_ROUNDING))
