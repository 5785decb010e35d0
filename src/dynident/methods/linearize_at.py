"""Linearize at: the residuals of a problem and their Jacobian at given values, without a fit.

Secant columns serve piecewise constant parameters: a condition that begins to hold from one sample to the next (a mode that
an input switches which is held between samples, the first argument of `where`) moves what is measured by steps, and between
two of them every derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.adaptive import RADAU5
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.substeps import choose_substeps
from dynident.problem.problem import Problem
from dynident.statistics.identifiability import typical_values
from dynident.tolerances import SAME_COST, ZERO_SENSITIVITY
from dynident.transcription.shooting import Shooting, default_segments

SECANT_STEPS = (0.1, 1.0, 0.01)  # of a typical change, to either side: where a change is looked for


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
            substeps, error = choose_substeps(make)
            stiff = None if error <= 1 else _stiffly(problem, way, noise_std, values)
            finite = make(substeps)
            return stiff or finite.linearization(finite.start())
        except SimulationDiverged as bad:
            last = bad
    raise last


def _stiffly(problem: Problem, segments: list[int], noise_std: Mapping[str, float], values: np.ndarray | None
             ) -> ResidualJacobian | None:
    """By an integrator for stiff models; None where it cannot follow either."""
    if not problem.model.states or problem.model.sample_time is not None:
        return None
    finite = _shooting(problem, RADAU5, segments, noise_std, values, 1)
    try:
        return finite.linearization(finite.start())
    except SimulationDiverged:
        return None


def _shooting(problem: Problem, scheme, segments: list[int], noise_std: Mapping[str, float], values: np.ndarray | None,
              substeps: int) -> Shooting:
    return Shooting(problem, scheme, segments, substeps, noise_std, start_values=values)


def with_secant_columns(problem: Problem, at: ResidualJacobian, linearize: Callable[[np.ndarray], ResidualJacobian]
                 ) -> tuple[np.ndarray, tuple[int, ...]]:
    """The Jacobian with differences over a step in the columns of unknowns that act in jumps only, and which these are."""
    lower, upper = np.array([u.lower for u in problem.unknowns], float), np.array([u.upper for u in problem.unknowns], float)
    sizes = typical_values(problem, at.values)
    typical = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.where(at.values != 0, np.abs(at.values), 1.0))
    measured = at.rows.experiment >= 0
    jacobian, found = at.jacobian.copy(), []
    largest = float(np.max(np.abs(jacobian[measured]), initial=0.0))
    if not np.isfinite(largest):  # a course that blows up, which is said by whoever judges the sensitivities
        return jacobian, ()
    norms = np.linalg.norm(jacobian[measured] / (largest or 1.0), axis=0) * typical  # of squares that stay finite
    for i in np.flatnonzero(norms <= ZERO_SENSITIVITY * np.max(norms, initial=0.0)):
        secant = _secant(at, int(i), typical, lower, upper, linearize)
        if secant is not None:
            jacobian[measured, i] = secant[measured]
            found.append(int(i))
    return jacobian, tuple(found)


def _secant(at: ResidualJacobian, i: int, typical: np.ndarray, lower: np.ndarray, upper: np.ndarray,
            linearize: Callable[[np.ndarray], ResidualJacobian]) -> np.ndarray | None:
    """None where nothing changes with the unknown, or where its slope vanishes at this place only."""
    for size in (sign * size for size in SECANT_STEPS for sign in (1, -1)):
        values = at.values.copy()
        values[i] = np.clip(values[i] + size * typical[i], lower[i], upper[i])
        step = values[i] - at.values[i]
        if not step:
            continue
        try:
            there = linearize(values)
        except (SimulationDiverged, ProblemError):
            continue
        change = np.where(at.rows.experiment >= 0, there.residuals - at.residuals, 0.0)
        if np.linalg.norm(change) > SAME_COST * max(1.0, float(np.linalg.norm(at.residuals))):
            return None if np.any(there.jacobian[at.rows.experiment >= 0, i]) else change / step
    return None
