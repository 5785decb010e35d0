"""Trust: does a mesh know how the solution follows changes of the equations, or does it only seem so?

A layer inside may stand almost anywhere: what the far ends say about its place can be less than the errors of a mesh. Such a
mesh pins the layer, and what is computed with its Jacobian, the error and the condition number among it, is small and wrong.

Steps of half the length between the same nodes make a second Jacobian. Let v and w be the answers of the first and the second
to the same change; where one direction is soft, both lie along it, and c = (v, w) / (w, w) is its stiffness by the second,
as a share of the first. A direction that errors of the mesh hold has c far below 1, or a negative one; and one that they set
free, c far above. Stiff modes that need not be resolved are harmless: finer steps damp them more, so that c is 1 or above, and
they do not reach far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.boundary_conditions import BoundaryConditions
from dynident.boundary.solve_bvp.mesh import CollocationMesh, ShootingMesh
from dynident.boundary.solve_bvp.root_finding import Factors, Singular
from dynident.boundary.solve_bvp.shooting_system import LinkedFactors, linked_factors
from dynident.errors import SimulationDiverged

PROBES = 3  # random changes of everything: one alone might miss a soft direction by chance
NOISE = 1e3 * np.finfo(float).eps  # error of one segment, in typical sizes, that more steps cannot lower
DOUBTFUL = 0.5  # relative error of a stiffness from which on the mesh does not know it
UNSURE = 0.25  # the same for a direction that reaches far
FAR = 100.0  # typical sizes per unit change, or times what another change does


@dataclass(frozen=True)
class Verdict:
    """Whether a mesh knows how its solution is held; and whether changes at the ends move it, or only changes inside."""

    known: bool
    at_ends: bool


def finer_factors(steps: ShootingMesh | CollocationMesh, ends: BoundaryConditions, times: np.ndarray, nodes: np.ndarray, p: np.ndarray, sizes: np.ndarray
                  ) -> LinkedFactors | None:
    """The Jacobian at these nodes by steps of half the length; None where it is singular or not finite."""
    n = nodes.shape[1]
    try:
        links = steps.checked_links(times, nodes, p)
        return linked_factors(links, ends.linearize(nodes[0], nodes[-1], p), sizes[:n], sizes[n:])
    except (SimulationDiverged, Singular):
        return None


def answer(factors: Factors, change: np.ndarray, unknowns: int) -> np.ndarray:
    """How nodes and parameters follow a change of segments and conditions; stages, where there are any, have none."""
    return factors.solve(np.append(change, np.zeros(unknowns - change.size)))[:change.size]


def verdict(first: Factors, second: LinkedFactors, unknowns: int, sizes: np.ndarray, order: int) -> Verdict:
    """Of the mesh of `first`, by the Jacobian of half steps; `sizes` of nodes and parameters."""
    shown = 1 - 0.5**order  # of an error, by steps of half the length
    known, reach = True, 0.0
    for change in _changes(second):
        v, w = answer(first, change, unknowns) / sizes, second.solve(change) / sizes
        with np.errstate(all="ignore"):
            share, reach = float(np.divide(v @ w, w @ w)), max(reach, float(np.max(np.abs(w))))
        known &= bool(share > 1 - DOUBTFUL * shown and (reach <= FAR or abs(share - 1) < UNSURE * shown))
    known &= bool(max(reach, second.condition) * NOISE < DOUBTFUL)  # else rounding moves it as it likes
    return Verdict(known, not second.condition * FAR < reach)


def _changes(factors: LinkedFactors) -> Iterator[np.ndarray]:
    """All segments and all conditions at the ends, by random multiples of their units."""
    segments, n = factors.elimination.segments, factors.sizes.size
    conditions = factors.elimination.row_size[n:]
    random = np.random.default_rng(0)
    for _ in range(PROBES):
        yield np.concatenate([(random.standard_normal((segments, n)) * factors.sizes).ravel(),
                              random.standard_normal(conditions.size) * conditions])
