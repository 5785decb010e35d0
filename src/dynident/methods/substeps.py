"""Sub-steps: how many steps between samples until the integrator's error no longer moves the estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynident.discretizations.finite import Point
from dynident.discretizations.shooting import Shooting
from dynident.integrators.march import Diverged
from dynident.integrators.scheme import Adaptive

HARMLESS = 0.02  # standard errors: an error of this length in weighted outputs moves no estimate by more
EXACT = 1e-9  # relative to the signals: good enough where the noise is nearly nothing
MOST = 64


def integration_error(finite: Shooting, finer: Shooting, point: Point, level: float = 1.0) -> float:
    """Length of the change in the weighted outputs when each step is halved; infinite where a simulation diverges.

    An estimate cannot move by more standard errors than this. Relative to what is harmless: 1 is just good enough.
    `level` is the size of the weighted residuals where they are smaller than the noise that was given.
    """
    try:
        coarse = [out.outputs.copy() for out in finite.run(point, False)]
        fine = finer.run(point, False)
    except Diverged:
        return np.inf
    change = size = 0.0
    for record, a, b in zip(finite.records, coarse, fine, strict=True):
        seen = record.weight > 0
        change += float(np.sum(((a - b.outputs)[seen] * record.weight[seen]) ** 2))
        size += float(np.sum((b.outputs[seen] * record.weight[seen]) ** 2))
    return float(np.sqrt(change) / max(HARMLESS * level, EXACT * np.sqrt(size)))


def choose_substeps(make: Callable[[int], Shooting], point: Callable[[Shooting], Point], first: int = 1,
                    level: float = 1.0) -> tuple[int, float]:
    """The smallest number of sub-steps (1, 2, 4, ...) that is good enough at a point, and its error."""
    count, finite = first, make(first)
    if isinstance(finite.integrator, Adaptive):
        return 1, 0.0
    error = np.inf
    while count <= MOST:
        finer = make(2 * count)
        error = integration_error(finite, finer, point(finite), level)
        if error <= 1:
            return count, error
        count, finite = 2 * count, finer
    return MOST, error


def error_with(make: Callable[[int], Shooting], point: Point, steps: int, level: float = 1.0) -> float:
    """The error of a number of sub-steps that was asked for."""
    return integration_error(make(steps), make(2 * steps), point, level)
