"""Exact shooting: one simulation per record, by an integrator with error control, and the noise that is most likely there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynident.errors import ProblemError
from dynident.integrators import integrator_named
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.scheme import Integrator
from dynident.linalg.finite_problem import ResidualJacobian, Variables
from dynident.methods.integrator_choice import EXPLICIT
from dynident.methods.noise_estimation import outputs_with_unknown_noise
from dynident.problem.problem import Problem
from dynident.transcription.shooting import Shooting


def likely_shooting(problem: Problem, values: np.ndarray) -> tuple[Shooting, Variables, dict[str, float]]:
    """The problem at given values, with the most likely standard deviations of outputs that have none."""
    left_open = dict.fromkeys(outputs_with_unknown_noise(problem), 1.0)
    finite, point = exact_shooting(problem, values, left_open)
    if not left_open:
        return finite, point, {}
    left_open = most_likely_std(problem, finite.linearization(point), left_open)
    return *exact_shooting(problem, values, left_open), left_open


def exact_shooting(problem: Problem, values: np.ndarray, noise_std: Mapping[str, float]) -> tuple[Shooting, Variables]:
    """The problem by one simulation per record that is exact to what anybody prints, and the point of these values."""
    model = problem.model
    plain = model.sample_time is not None or not model.states
    integrator: Integrator = integrator_named(EXPLICIT) if plain else RADAU5
    segments = [1] * len(problem.experiments)
    finite = Shooting(problem, integrator, segments, 1, noise_std, start_values=values)
    point = Variables(finite.coordinates.coordinates(values), tuple(np.zeros((0, len(model.states))) for _ in segments))
    return finite, point


def most_likely_std(problem: Problem, at: ResidualJacobian, used: Mapping[str, float]) -> dict[str, float]:
    """Of outputs whose standard deviation nobody stated, the root mean square of their residuals."""
    found = {}
    for name, std in used.items():
        rows = at.residuals[at.rows.output == problem.model.outputs.index(name)] * std
        found[name] = float(np.sqrt(np.mean(rows**2))) if rows.size else std
        if not found[name] > 0:
            raise ProblemError(f"the model meets every value of '{name}' exactly, so that no standard deviation is most "
                               "likely; state one, Gaussian(std).")
    return found
