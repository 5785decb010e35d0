"""Points around one: what is measured at each, and the directions along which nothing of it changes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.methods.output_map import Outputs, null_space
from dynident.problem.problem import Unknown
from dynident.tolerances import LOST_SIZE

NEIGHBOUR_DISTANCES = (0.1, 0.35)  # of an unknown's size: how far points beside one are
NEAR_POINTS = 3
MAX_HALVINGS = 6  # each with values half as far


def sizes_of(unknowns: Sequence[Unknown], values: np.ndarray) -> np.ndarray:
    """(unknowns,) how large a value is: itself, its scale, a tenth of its bounds, or one."""
    spans = np.array([u.upper - u.lower for u in unknowns], float)
    scales = np.array([u.scale if u.scale is not None else np.nan for u in unknowns], float)
    sizes = np.where(values != 0, np.abs(values), scales)
    sizes = np.where(np.isnan(sizes) & np.isfinite(spans), spans / 10, sizes)
    return np.where(np.isnan(sizes), 1.0, sizes)


def with_lost_sizes(unknowns: Sequence[Unknown], values: np.ndarray, sizes: np.ndarray, here: Sequence[Outputs]) -> np.ndarray:
    """(unknowns,) with that of the start for a value that fell far below it, as one that is zero but for rounding.

    And no more than what changes the outputs by their own size: a factor of them may well be as small as that.
    """
    lengths = np.sqrt(sum(np.sum((each.weight[:, None] * each.jacobian) ** 2, axis=0) for each in here))
    size = float(np.sqrt(sum(each.size**2 for each in here)))
    starts = np.array([abs(u.start or 0.0) for u in unknowns], float)
    most = np.divide(size, lengths, out=np.full(values.size, np.inf), where=lengths > 0)
    lost = (values != 0) & (np.abs(values) < LOST_SIZE * starts)
    return np.where(lost, np.maximum(np.minimum(starts, most), sizes), sizes)


def beside(unknowns: Sequence[Unknown], values: np.ndarray, sizes: np.ndarray, rng: np.random.Generator, share: float = 1.0,
           only: Sequence[int] | None = None) -> np.ndarray:
    """A point nearby and within the bounds: every unknown, or only some, its own way."""
    moved = values.copy()
    for i in range(values.size) if only is None else only:
        unknown = unknowns[i]
        way = share * sizes[i] * rng.uniform(*NEIGHBOUR_DISTANCES) * rng.choice([-1, 1])
        for there in (values[i] + way, values[i] - way, 0.5 * (values[i] + unknown.upper), 0.5 * (values[i] + unknown.lower)):
            if unknown.lower <= there <= unknown.upper and np.isfinite(there):
                moved[i] = there
                break
    return moved

@dataclass(frozen=True, eq=False)
class Region:
    """A point with some around it, what is measured at each, and the directions that change nothing there."""

    unknowns: tuple[Unknown, ...]
    outputs: Callable[[np.ndarray], Sequence[Outputs]]
    points: tuple[np.ndarray, ...]  # the first is the one that is spoken about
    nulls: tuple[np.ndarray, ...]
    sizes: np.ndarray

    @property
    def directions(self) -> int:
        """How many there are at all of the points."""
        return min(null.shape[1] for null in self.nulls)

    def generic(self) -> Region:
        """Without points at which there are more of them."""
        kept = [(p, n) for p, n in zip(self.points, self.nulls, strict=True) if n.shape[1] == self.directions]
        return replace(self, points=tuple(p for p, _ in kept), nulls=tuple(n for _, n in kept))


def region_around(unknowns: Sequence[Unknown], values: np.ndarray, outputs: Callable[[np.ndarray], Sequence[Outputs]],
                  seed: int) -> Region:
    """With points beside the values, nearer where a simulation diverges. Raises SimulationDiverged where it does here."""
    rng, here = np.random.default_rng(seed), outputs(values)
    sizes = with_lost_sizes(unknowns, values, sizes_of(unknowns, values), here)
    points, nulls, share = [values], [null_space(here, sizes)], 1.0
    for _ in range(MAX_HALVINGS):
        there = beside(unknowns, values, sizes, rng, share)
        try:
            nulls.append(null_space(outputs(there), sizes))
        except (SimulationDiverged, np.linalg.LinAlgError):
            share *= 0.5
            continue
        points.append(there)
        if len(points) > NEAR_POINTS:
            break
    return Region(tuple(unknowns), outputs, tuple(points), tuple(nulls), sizes)
