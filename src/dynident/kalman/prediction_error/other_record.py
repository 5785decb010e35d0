"""Other record: what does the filter of a fit, with its values and its noises, foresee of a record that was not fitted?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.kalman.prediction_error.method import PredictionError
from dynident.kalman.prediction_error.result import build_prediction_estimate
from dynident.kalman.prediction_error.scoring import (
    LIKELIHOOD,
    TOTAL_LEAST_SQUARES,
    InnovationCriterion,
    evaluate,
    inverse_information,
    minimise,
)
from dynident.kalman.prediction_error.setup import PredictionSetup, build_prediction
from dynident.methods.noise_estimation import with_noise_std
from dynident.methods.substeps import MAX_SUBSTEPS
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.statistics.distributions import chi_square_quantile
from dynident.tolerances import STEP_ERROR, UNSURE_CONFIDENCE
from dynident.transcription.initial_guess import start_values

PREDICTIONS = ("prediction error", "errors in variables")  # criteria that are about innovations
LONGEST_SEARCH = 100  # scoring steps for the initial states


@dataclass(frozen=True, eq=False)
class PredictedRecord:
    """The filter over the record, as an estimate whose only unknowns are initial states that nobody gave."""

    estimate: Estimate
    unsure: Mapping[str, float]  # per output: mean square that errors of the fitted values may add, over the foreseen


def predicted_record(fitted: Estimate, experiment: Experiment, held: Sequence[Parameter], initial: Sequence[InitialState]
                     ) -> PredictedRecord | None:
    """With parameters `held` at the fitted values; None where the criterion of the fit is no prediction, its filter does not
    take such a record, or leaves the finite numbers on it."""
    if fitted.criterion not in PREDICTIONS:
        return None
    known = with_noise_std(_with_fitted_sensors(fitted, experiment), {**fitted.noise_std, **fitted.input_noise})
    method = PredictionError(integrator=fitted.method.simulation_integrator)
    names = {p.name: name for p in held for name in (p.name, f"{p.name}[{experiment.group}]") if name in fitted.problem.names}
    freed = [replace(p, free=p.name in names) for p in held]
    try:
        problem, open_problem = (Problem(fitted.problem.model, [known], [*parameters, *initial], process_noise={
            name: Gaussian(std) for name, std in fitted.process_noise.items()}) for parameters in (held, freed))
        method.check_supports(problem)
        return _filtered(fitted, problem, open_problem, method, names)
    except DynidentError:
        return None


def _with_fitted_sensors(fitted: Estimate, experiment: Experiment) -> Experiment:
    """With the inputs' sensors erring as in the fit, where the record does not say how they do."""
    silent = {name: Gaussian(std) for name, std in fitted.input_noise.items() if name not in experiment.noise}
    return replace(experiment, noise={**experiment.noise, **silent})


def _filtered(fitted: Estimate, problem: Problem, open_problem: Problem, method: PredictionError, names: Mapping[str, str]
              ) -> PredictedRecord | None:
    process = dict(fitted.process_noise)
    setup = _fine_enough(problem, process, method, int(fitted.counts.get("substeps", 1)))
    lower, upper = (setup.coordinates(np.array([getattr(u, side) for u in problem.unknowns], float))
                    for side in ("lower", "upper"))
    kind = LIKELIHOOD if fitted.criterion == PREDICTIONS[0] else TOTAL_LEAST_SQUARES
    found = minimise(setup, setup.coordinates(start_values(problem)), lower, upper, np.ones(lower.size, bool), kind,
                     LONGEST_SEARCH)
    found = replace(found, at=evaluate(setup, found.theta))
    if not np.isfinite(found.at.value):
        return None
    estimate = build_prediction_estimate(setup, method, found, lower, upper, fitted.criterion, "that of the fit is", (), {},
                                         {"substeps": setup.substeps})
    open_setup = build_prediction(open_problem, process, method.integrator, setup.substeps)
    return PredictedRecord(estimate, _unsure(fitted, open_setup, estimate.values, names))


def _fine_enough(problem: Problem, process: Mapping[str, float | None], method: PredictionError, substeps: int
                 ) -> PredictionSetup:
    """With steps that follow this record, on which the motion may be faster than on the fitted one."""
    def made(count: int) -> PredictionSetup:
        return build_prediction(problem, process, method.integrator, count)

    setup = made(substeps)
    while setup.substeps < MAX_SUBSTEPS:
        finer = made(2 * setup.substeps)
        theta = setup.coordinates(start_values(problem))
        coarse, fine = (evaluate(each, theta, derivatives=False).innovations for each in (setup, finer))
        moved = [(a.e - b.e) / np.sqrt(b.s) for a, b in zip(coarse, fine, strict=False)]
        if fine and coarse and np.sqrt(np.mean(np.square(moved[0]))) <= STEP_ERROR:
            return setup
        setup = finer
    return setup


def _unsure(fitted: Estimate, setup: PredictionSetup, values: Mapping[str, float], names: Mapping[str, str]
            ) -> dict[str, float]:
    """How much of the innovations' variance is due to errors of the fitted values, as large as their covariance says."""
    place = {name: k for k, name in enumerate(setup.problem.names)}
    begin = np.array([values[name] for name in setup.problem.names], float)
    at = evaluate(setup, setup.coordinates(begin))
    own = [name for name in names if name in place]
    if not own or not np.isfinite(at.value):
        return {}
    moved = _beside_initial_states(at, [place[name] for name in own])
    matrix, outputs = _covariance(fitted, [names[name] for name in own]), setup.problem.model.outputs
    there = setup.records[0].there
    return {name: _most(moved[there[:, j], j], matrix) for j, name in enumerate(outputs) if np.any(there[:, j])}


def _most(moved: np.ndarray, matrix: np.ndarray) -> float:
    """The mean square of `moved` (samples, values) times errors of this covariance, in all but few cases (Satterthwaite)."""
    shares = np.linalg.eigvals(moved.T @ moved @ matrix).real / len(moved)
    total, squares = float(np.sum(shares)), float(np.sum(shares**2))
    free = max(total**2 / squares, 1.0) if squares > 0 else 1.0
    return total * float(chi_square_quantile(UNSURE_CONFIDENCE, free)) / free


def _beside_initial_states(at: InnovationCriterion, own: Sequence[int]) -> np.ndarray:
    """(samples, outputs, own) by how many of their foreseen deviations innovations change with a value, initial states
    following."""
    (record,) = at.innovations
    change = record.de / np.sqrt(record.s)[..., None]
    rest = [k for k in range(change.shape[2]) if k not in own]
    flat = change.reshape(-1, change.shape[2])
    follows = inverse_information(flat[:, rest].T @ flat[:, rest]) @ (flat[:, rest].T @ flat[:, own]) if rest else None
    moved = flat[:, own] if follows is None else flat[:, own] - flat[:, rest] @ follows
    return np.asarray(moved.reshape(*change.shape[:2], len(own)))


def _covariance(fitted: Estimate, names: Sequence[str]) -> np.ndarray:
    """Of some unknowns, in their own units; what the fit did not determine is taken as it is printed."""
    std = np.array([fitted.uncertainty.std(name) for name in names], float)
    std = np.where(np.isfinite(std), std, 0.0)
    found = fitted.uncertainty.correlation()
    if found is None:
        return np.diag(std**2)
    rows = [fitted.uncertainty.names.index(name) for name in names]
    related = np.where(np.eye(len(rows), dtype=bool), 1.0, np.nan_to_num(found[np.ix_(rows, rows)]))
    return np.asarray(related * std * std[:, None])
