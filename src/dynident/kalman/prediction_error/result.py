"""Prediction result: from the point of the scoring to an estimate with intervals from the innovations' information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.estimate.filter_result import FilterRecord, FilterResult, consistency
from dynident.kalman.prediction_error.method import PredictionError
from dynident.kalman.prediction_error.restricted import RestrictedLikelihood
from dynident.kalman.prediction_error.scoring import (
    LIKELIHOOD,
    TOTAL_LEAST_SQUARES,
    ScoringState,
    evaluate,
    hessian,
    inverse_information,
    on_bound,
    prior_information,
)
from dynident.kalman.prediction_error.setup import PredictionSetup
from dynident.kalman.setup import signals_of
from dynident.methods.build_estimate import active_bound_notes, as_sentence, build_estimate, prior_conflicts, trajectories_from
from dynident.statistics.covariance import Covariance
from dynident.statistics.hessian_covariance import covariance_from_hessian_factor
from dynident.status import Status, StatusCode, fit_status
from dynident.tolerances import FEW_SCORES

CORRELATED_LAGS = 5  # samples over which scores may be correlated where innovations are not white (Newey and West)
ASSUMED = ("the model is right and nearly linear over the interval, and disturbed by independent normal noise in {places}")
CORRELATED = "; correlations of the innovations over up to 5 samples are allowed for"


def build_prediction_estimate(setup: PredictionSetup, method: PredictionError, found: ScoringState, lower: np.ndarray,
                              upper: np.ndarray, criterion: str, why: str, remarks: tuple[str, ...],
                              times: Mapping[str, float], counts: Mapping[str, int], shifts: Sequence[np.ndarray] = ()
                              ) -> Estimate:
    """`shifts`, each (unknowns,) in coordinates: how far they would be off if the noise were in another place, where nobody
    says, or if another end were the right one."""
    problem = setup.problem
    values = dict(zip(problem.names, map(float, setup.values(found.theta)), strict=True))
    records = _filter_records(setup, found)
    tests = consistency([r.whitened for r in records], problem.model.outputs)
    statistics = _statistics(setup, found)
    process = _process_noise(setup, found.theta)
    filtered = FilterResult(records, (), process, "second", tuple(name for _, name in setup.open_terms), {},
                            statistics["log_likelihood"], tests)
    uncertainty = _uncertainty(setup, found, lower, upper, criterion, filtered.consistent, shifts)
    trajectories, residuals = trajectories_from(problem, [r.values for r in records], _predicted(setup, found, records))
    held = setup.held.active(found.theta[:setup.unknowns]) if setup.held is not None else []
    notes = [f"Criterion: {criterion}, because {why}.", *remarks,
             *(f"The estimate is held by the constraint '{text}'; intervals are those without it." for text in held),
             *(as_sentence(w) for w in uncertainty.combinations),
             *active_bound_notes(uncertainty), *(as_sentence(t.sentence) for t in tests if not t.passed),
             *prior_conflicts(problem, values, uncertainty), *(note for e in problem.experiments for note in e.notes)]
    spent = f"{max(len(found.history) - 1, 0)} iterations"
    reason = (Status.of(StatusCode.CONVERGED, spent=spent) if found.converged else
              Status.of(StatusCode.ITERATION_LIMIT, spent=spent))
    return build_estimate(
        problem, method, values, uncertainty, trajectories, residuals, converged=found.converged,
        status=fit_status(reason, found.converged, "Fisher scoring, after output error"),
        cost=2 * evaluate(setup, found.theta, TOTAL_LEAST_SQUARES, derivatives=False).value,
        noise_std=setup.std_of(found.theta, ("output",)), notes=notes, history=found.history, times=times,
        counts={**counts, "iterations": len(found.history), "substeps": setup.substeps}, statistics=statistics,
        filtered=filtered, criterion=criterion, process_noise=process, input_noise=_input_noise(setup, found.theta))


def whitened_innovations(setup: PredictionSetup, found: ScoringState) -> list[np.ndarray]:
    """Per record (samples, outputs): over their foreseen spread, NaN where nothing was measured."""
    return [np.where(record.there, at.e / np.sqrt(at.s), np.nan)
            for record, at in zip(setup.records, found.at.innovations, strict=True)]


def _filter_records(setup: PredictionSetup, found: ScoringState) -> tuple[FilterRecord, ...]:
    model, nx, records = setup.problem.model, len(setup.problem.model.states), []
    for experiment, at, white in zip(setup.problem.experiments, found.at.innovations, whitened_innovations(setup, found),
                                     strict=True):
        records.append(FilterRecord(experiment.name, np.asarray(experiment.time), model.states, model.outputs,
                                    at.mean[:, :nx].copy(), np.sqrt(np.maximum(at.variance[:, :nx], 0.0)), white,
                                    np.zeros(white.shape, bool)))
    return tuple(records)


def _predicted(setup: PredictionSetup, found: ScoringState, records: tuple[FilterRecord, ...]) -> list[np.ndarray]:
    """Outputs one sample ahead; where nothing was measured, the state is the prediction itself."""
    model, outputs = setup.problem.model, []
    t, x, u, p = (ca.SX.sym(n, k) for n, k in zip("txup", (1, len(model.states), len(model.inputs), len(model.parameters)),
                                                  strict=True))
    output = ca.Function("output", [t, x, u, p], [ca.densify(ca.vertcat(model.output(t, x, u, p)))])
    for e, (experiment, record) in enumerate(zip(setup.problem.experiments, records, strict=True)):
        own, _ = setup.problem.parameters_and_initial_state(setup.values(found.theta), e)
        time, inputs, measured = signals_of(experiment, model.inputs, model.outputs)
        here = np.asarray(output.map(time.size)(time, record.values.T, inputs.T, np.tile(own[:, None], (1, time.size)))).T
        outputs.append(np.where(np.isfinite(measured), measured - found.at.innovations[e].e, here))
    return outputs


def _statistics(setup: PredictionSetup, found: ScoringState) -> dict[str, float]:
    """Of the innovations; open noises count as unknowns."""
    count, k = setup.measured, setup.unknowns + len(setup.open_terms)
    chi2 = sum(float(np.sum(at.e**2 / at.s)) for at in found.at.innovations)
    logs = sum(float(np.sum(np.log(at.s))) for at in found.at.innovations)
    likelihood = -0.5 * (chi2 + logs + count * np.log(2 * np.pi))
    aic, dof = 2 * k - 2 * likelihood, float(count - setup.unknowns)
    return {"log_likelihood": likelihood, "aic": aic,
            "aicc": aic + 2 * k * (k + 1) / (count - k - 1) if count > k + 1 else np.inf,
            "bic": k * float(np.log(max(count, 1))) - 2 * likelihood, "chi2": chi2, "dof": dof,
            "reduced_chi2": chi2 / dof if dof > 0 else np.inf}


def _process_noise(setup: PredictionSetup, theta: np.ndarray) -> dict[str, float]:
    """By state or input, given or found; errors of sensors are not among them."""
    sensors = setup.problem.noisy_inputs
    levels = np.exp(setup.noise_of(theta, 0))
    found = {}
    for k, (place, name) in enumerate(setup.terms):
        if place == "state":
            found[name] = float(levels[k])
        elif place == "input" and name not in sensors:
            column = setup.model.column_of("w") + k - len(setup.model.states)
            found[name] = float(levels[k] * np.sqrt(setup.records[0].columns[-1, column]))
    return found


def _input_noise(setup: PredictionSetup, theta: np.ndarray) -> dict[str, float]:
    """Standard deviation of each input's sensor, given (its mean) or found."""
    found = setup.std_of(theta, ("input",))
    given = {}
    for name in setup.problem.noisy_inputs:
        own = [e.input_noise[name].std for e in setup.problem.experiments if name in e.input_noise]
        known = [float(np.mean(np.asarray(std, float))) for std in own if std is not None]
        given[name] = found[name] if name in found else float(np.mean(known))
    return given


# intervals


def _uncertainty(setup: PredictionSetup, found: ScoringState, lower: np.ndarray, upper: np.ndarray, criterion: str, white: bool,
                 shifts: Sequence[np.ndarray]) -> Covariance:
    n, problem = setup.unknowns, setup.problem
    held = on_bound(found, lower, upper)
    if setup.held is not None:
        setup = replace(setup, held=setup.held.equalities())
        kind = TOTAL_LEAST_SQUARES if criterion == "errors in variables" else LIKELIHOOD
        found = replace(found, at=evaluate(setup, found.theta, kind))
    active = {name: "lower" if found.theta[i] <= lower[i] else "upper" for i, name in enumerate(problem.names) if held[i]}
    kept = ~held
    kept[:n] = True  # of the unknowns the covariance knows itself which are on bounds
    slopes = setup.slopes(found.theta)
    places = ", ".join(f"{place} {name}" for place, name in setup.terms)
    meat: np.ndarray | None
    correlated = criterion == "errors in variables" or not white
    if criterion == "errors in variables":
        bread, meat = _total_least_squares(setup, found)
    else:
        H, noises = found.at.information, np.flatnonzero(kept[n:]) + n
        project = np.hstack([np.eye(n), -H[:n, noises] @ inverse_information(H[np.ix_(noises, noises)])])
        which = np.concatenate([np.arange(n), noises])
        bread = project @ H[np.ix_(which, which)] @ project.T
        meat = None if white else project @ _score_covariance(setup, found)[np.ix_(which, which)] @ project.T
    if meat is not None:
        meat = _where_scores_are_few(found, bread, meat)
    for shift in shifts:  # each as a standard deviation of its own
        meat = (bread if meat is None else meat) + np.outer(bread @ shift, bread @ shift)
    bread = bread / slopes / slopes[:, None]
    meat = None if meat is None else meat / slopes / slopes[:, None]
    w, V = np.linalg.eigh((bread + bread.T) / 2)
    triangle = np.sqrt(np.maximum(w, 0.0))[:, None] * V.T
    assumed = ASSUMED.format(places=places) + (CORRELATED if correlated else "")
    dof = RestrictedLikelihood.of(setup, lower, upper).degrees_of_freedom(found)
    return covariance_from_hessian_factor(problem, setup.values(found.theta), triangle, active, assumed, meat, own_dof=dof)


def _score_covariance(setup: PredictionSetup, found: ScoringState) -> np.ndarray:
    """Of the gradient, where scores of neighbouring samples are correlated (Newey and West); priors are data, too."""
    total = prior_information(setup, found.theta)
    for scores in found.at.scores:
        total += scores.T @ scores
        for lag in range(1, min(CORRELATED_LAGS, len(scores) - 1) + 1):
            cross = scores[lag:].T @ scores[:-lag]
            total += (1 - lag / (CORRELATED_LAGS + 1)) * (cross + cross.T)
    return total


def _where_scores_are_few(found: ScoringState, bread: np.ndarray, meat: np.ndarray) -> np.ndarray:
    """The covariance of the gradient, not smaller than the model's own for unknowns that only a few samples tell of.

    An initial state is told by the first samples alone; their scores add up to zero at the optimum, and their squares say next
    to nothing about the spread.
    """
    shares = [np.sum(at.de[..., :len(bread)] ** 2 / at.s[..., None], axis=1) for at in found.at.innovations]
    total, squares = sum(np.sum(share, axis=0) for share in shares), sum(np.sum(share**2, axis=0) for share in shares)
    few = total**2 < FEW_SCORES * squares
    own, model = np.diag(meat), np.diag(bread)
    scale = np.sqrt(np.where(few & (own > 0) & (model > own), model / np.where(own > 0, own, 1.0), 1.0))
    return np.asarray(meat * scale * scale[:, None])


def _total_least_squares(setup: PredictionSetup, found: ScoringState) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and covariance of the gradient in the unknowns: their sandwich is the covariance."""
    n = setup.unknowns
    bread = hessian(setup, found, np.arange(found.theta.size) < n, TOTAL_LEAST_SQUARES)
    return bread, _score_covariance(setup, found)[:n, :n]
