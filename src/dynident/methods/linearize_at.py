"""Linearize at: the residuals of a problem and their Jacobian at given values, without a fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.substeps import choose_substeps
from dynident.problem.problem import Problem
from dynident.transcription.shooting import Shooting, default_segments


def linearize_at(problem: Problem, values: np.ndarray | None, noise_std: Mapping[str, float], cut: bool = True
                 ) -> ResidualJacobian:
    """At these values of the unknowns, or at their start where they are None; with as many sub-steps as it takes.

    Over the whole record; with `cut` segment by segment where that diverges, each from where the measurements say. Raises
    SimulationDiverged where that does not help either.
    """
    scheme, lengths = integrator_named("runge_kutta"), [e.samples for e in problem.experiments]
    whole, segments = [1] * len(lengths), [default_segments(samples) for samples in lengths]
    for way in (whole, segments) if cut else (whole,):
        make = partial(_shooting, problem, scheme, way, noise_std, values)
        try:
            finite = make(choose_substeps(make)[0])
            return finite.linearization(finite.start())
        except SimulationDiverged as bad:
            last = bad
    raise last


def _shooting(problem: Problem, scheme, segments: list[int], noise_std: Mapping[str, float], values: np.ndarray | None,
              substeps: int) -> Shooting:
    return Shooting(problem, scheme, segments, substeps, noise_std, start_values=values)
