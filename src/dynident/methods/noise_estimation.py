"""Noise: standard deviations for signals whose errors the user did not size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Bounded, Gaussian, Noise
from dynident.problem.problem import Problem, given_std
from dynident.statistics.residual_statistics import NORMAL_MEDIAN
from dynident.tolerances import NOISE_MIXING_RANK, RESIDUAL_ROUNDING

PLAIN_ROUNDS = 4  # of weights, before they are called slow
MIXED_ROUNDS = 5  # the last ones, that are mixed
LONGEST_MIX = 1.0  # of a logarithm: beyond what was found
FIRST_NOISE_FRACTION = 0.01  # of the signal's spread: a first weight, replaced by what the residuals say


def outputs_with_unknown_noise(problem: Problem) -> tuple[str, ...]:
    """Outputs whose standard deviation has to be estimated."""
    return tuple(name for name in problem.model.outputs
                 if any(isinstance(n, Gaussian) and n.std is None for n in problem.noise_of(name)))


def signal_std(problem: Problem, output: str) -> float:
    """How far a signal moves, over all records; 1 for a signal that does not."""
    measured = [np.asarray(e.outputs[output]) for e in problem.experiments if output in e.outputs]
    values = np.concatenate(measured) if measured else np.zeros(0)
    values = values[np.isfinite(values)]
    if not values.size:
        return 1.0
    return float(np.std(values)) or float(np.max(np.abs(values))) or 1.0


def initial_noise_std(problem: Problem) -> dict[str, float]:
    return {name: FIRST_NOISE_FRACTION * signal_std(problem, name) for name in outputs_with_unknown_noise(problem)}


def std_from_bounds(problem: Problem) -> dict[str, float]:
    """Signals of which only a bound is known, weighed by it: enough to compare sensitivities, nothing to make intervals of."""
    radii = {name: [np.median(np.asarray(n.radius, float)) for n in problem.noise_of(name) if isinstance(n, Bounded)]
             for name in problem.model.outputs}
    return {name: float(np.median(found)) for name, found in radii.items() if found}


def estimate_noise_std(problem: Problem, at: ResidualJacobian, used: dict[str, float], robust: bool,
               fixed: int = 0) -> dict[str, float]:
    """Standard deviations by maximum likelihood with the degrees of freedom shared out among the signals.

    `fixed` unknowns rest on bounds or constraints and take none.
    """
    count = int(np.count_nonzero(at.rows.output >= 0))
    left = max(count - at.values.size + fixed, 1) / max(count, 1)
    estimated = {}
    for name, std in used.items():
        open_in = [e for e, run in enumerate(problem.experiments) if name in run.noise and given_std(run, name) is None]
        rows = (at.rows.output == problem.model.outputs.index(name)) & np.isin(at.rows.experiment, open_in)
        residuals = at.residuals[rows] * std
        if not residuals.size:
            estimated[name] = std
            continue
        level = np.median(np.abs(residuals)) / NORMAL_MEDIAN if robust else np.sqrt(np.mean(residuals**2) / left)
        estimated[name] = max(float(level), RESIDUAL_ROUNDING * signal_std(problem, name))
    return estimated


def extrapolated_noise_std(tried: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> dict[str, float]:
    """The next weights from rounds of (used, found): what was found last, or where the rounds lead to if they go on alike.

    Signals that share what the model lacks pass it on to each other slowly; Anderson's mixing of the last rounds, in
    logarithms, takes many of these rounds at once.
    """
    found = dict(tried[-1][1])
    if len(tried) < PLAIN_ROUNDS or any(set(used) != set(found) for used, _ in tried):
        return found
    used, answered = (np.log([[pair[k][name] for name in found] for pair in tried[-MIXED_ROUNDS:]]) for k in (0, 1))
    missed = answered - used
    share = np.linalg.lstsq(np.diff(missed, axis=0).T, missed[-1], rcond=NOISE_MIXING_RANK)[0]
    moved = np.clip(-share @ np.diff(answered, axis=0), -LONGEST_MIX, LONGEST_MIX)
    return {name: float(np.exp(level)) for name, level in zip(found, answered[-1] + moved, strict=True)}


def with_noise_std(experiment: Experiment, noise_std: Mapping[str, float]) -> Experiment:
    """The record with the noise that it leaves open taken as known, where a level was estimated."""
    def known(noise: Noise, level: float | None) -> Noise:
        left_open = isinstance(noise, Gaussian) and noise.std is None
        return Gaussian(level) if left_open and level and np.isfinite(level) else noise

    return replace(experiment, noise={name: known(noise, noise_std.get(name)) for name, noise in experiment.noise.items()})
