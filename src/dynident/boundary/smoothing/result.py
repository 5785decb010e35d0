"""Result: from a smoothed point to an estimate with its uncertainty, model errors and remarks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident.boundary.smoothing.optimality_bvp import BoundaryValueProblem
from dynident.boundary.smoothing.setup import SmoothingSetup
from dynident.boundary.smoothing.smoother_covariance import SmootherCovariance
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.smoother_result import PseudoTimeStep, SmootherRecord, SmootherResult
from dynident.methods.build_estimate import active_bound_notes, as_sentence, build_estimate
from dynident.methods.noise_estimation import signal_std
from dynident.problem.parameter import Parameter
from dynident.problem.problem import given_std
from dynident.solvers.solver_result import SolverResult
from dynident.statistics.covariance import Covariance
from dynident.statistics.hessian_covariance import covariance_from_hessian_factor
from dynident.statistics.residual_tests import noise_level
from dynident.status import fit_status
from dynident.tolerances import BADLY_CONDITIONED, ON_BOUND, RESIDUAL_ROUNDING

AS_STATED = ("model errors and measurement errors are independent and normal, with process_noise and the noise of the record "
             "as standard deviations, and the model is nearly linear over the interval")
MODEL_IS_RIGHT = ("the model is right and nearly linear over the interval, and measurement errors are independent and normal "
                  "with a standard deviation {}; process_noise and measurement_noise weigh the errors and do not size them")


@dataclass(frozen=True, eq=False)
class SmoothingOutcome:
    """What a fit hands over."""

    setup: SmoothingSetup
    finite: WeakConstraintProblem
    outcome: SolverResult
    sizes: Mapping[str, float]
    by: str
    strides: tuple[PseudoTimeStep, ...]
    counts: Mapping[str, int]
    times: Mapping[str, float]


def build_smoothing_estimate(found: SmoothingOutcome) -> Estimate:
    began = time.perf_counter()
    setup, finite, outcome = found.setup, found.finite, found.outcome
    problem, place = setup.problem, setup.place()
    values = finite.coordinates.values(outcome.point.unknowns)[place]
    active = {name: "lower" if side < 0 else "upper" for name, side in
              zip(problem.names, outcome.active_bounds[place], strict=True) if side}
    trajectories, residuals = _trajectories(found)
    spreads = SmootherCovariance(finite, outcome.point, outcome.active_bounds)
    uncertainty = _uncertainty(found, spreads, values, active, residuals)
    smoothed = _smoother_result(found, spreads)
    return build_estimate(
        problem, setup.method, dict(zip(problem.names, map(float, values), strict=True)), uncertainty, trajectories, residuals,
        converged=outcome.converged, status=fit_status(outcome.reason, outcome.converged, found.by),
        cost=outcome.evaluation.cost, noise_std=found.sizes or _given_sizes(setup, residuals),
        notes=_notes(found, uncertainty, smoothed), history=outcome.history, counts=found.counts,
        times={**found.times, "statistics": time.perf_counter() - began}, interrupted=outcome.interrupted,
        statistics=_costs(found, smoothed, len(active)), smoothed=smoothed)


def _given_sizes(setup: SmoothingSetup, residuals: tuple[Mapping[str, np.ndarray], ...]) -> dict[str, float]:
    """Sizes of errors that nothing sized: those of the residuals."""
    sizes = {}
    for name in setup.problem.model.outputs:
        own = [r[name] for r, e in zip(residuals, setup.problem.experiments, strict=True)
               if name in r and given_std(e, name) is None]
        if own:
            sizes[name] = float(np.sqrt(np.nanmean(np.concatenate(own) ** 2)))
    return sizes


def _trajectories(found: SmoothingOutcome) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """Smoothed states and outputs at the samples, and measured minus smoothed."""
    setup, finite, point = found.setup, found.finite, found.outcome.point
    names, inner = setup.problem.model, setup.inner.model
    trajectories, residuals = [], []
    values = finite.coordinates.values(point.unknowns)
    output = inner.output.map
    for e, (record, experiment) in enumerate(zip(finite.records, setup.problem.experiments, strict=True)):
        states = finite.states(point, e)[record.pointers]
        p, _ = setup.inner.parameters_and_initial_state(values, e)
        time, inputs = record.grid.time[record.pointers], record.grid.u_node[record.pointers]
        outputs = np.asarray(output(len(time))(time[None], states.T, inputs.T, p)).T.reshape(len(time), -1)
        trajectories.append(Trajectory(experiment.name, np.asarray(experiment.time),
                                       {n: states[:, inner.states.index(n)].copy() for n in names.states},
                                       {n: outputs[:, j].copy() for j, n in enumerate(names.outputs)}))
        residuals.append({n: np.asarray(y) - trajectories[-1].outputs[n] for n, y in experiment.outputs.items()})
    return tuple(trajectories), tuple(residuals)


def _uncertainty(found: SmoothingOutcome, spreads: SmootherCovariance, values: np.ndarray, active: Mapping[str, str],
                 residuals: tuple[Mapping[str, np.ndarray], ...]) -> Covariance:
    setup, finite = found.setup, found.finite
    slope = finite.coordinates.derivative(found.outcome.point.unknowns)
    place = setup.place()
    triangle = (spreads.triangle / slope)[:, place]
    if setup.method.measurement_noise is None:
        return covariance_from_hessian_factor(setup.problem, values, triangle, active, AS_STATED)
    estimated = _given_sizes(setup, residuals)
    std = [_true_std(found, e, estimated) for e in range(len(finite.records))]
    middle = (spreads.influence(std) / slope / slope[:, None])[np.ix_(place, place)]
    assumed = MODEL_IS_RIGHT.format("as large as the residuals'" if estimated else "as given")
    return covariance_from_hessian_factor(setup.problem, values, triangle, active, assumed, middle)


def _true_std(found: SmoothingOutcome, e: int, estimated: Mapping[str, float]) -> np.ndarray:
    """Standard deviation of each measured value in units of 1/weight, (nodes, outputs)."""
    record, experiment = found.finite.records[e], found.setup.problem.experiments[e]
    std = np.zeros_like(record.weight)
    for j, name in enumerate(found.setup.problem.model.outputs):
        if name in experiment.outputs:
            given = given_std(experiment, name)
            std[record.pointers, j] = estimated[name] if given is None else given
    return std * record.weight


def _smoother_result(found: SmoothingOutcome, spreads: SmootherCovariance) -> SmootherResult:
    setup, finite, point = found.setup, found.finite, found.outcome.point
    errors = finite.model_errors(point)
    variances = spreads.along() if setup.method.measurement_noise is None else None  # else the weights are no variances
    usual = spreads.error_std() if variances is not None else []
    records = []
    for e, record in enumerate(finite.records):
        states = finite.states(point, e)
        nx = states.shape[1]
        std, error_std = np.full_like(states, np.nan), np.full_like(states, np.nan)
        if variances is not None:
            std = np.sqrt(np.maximum(np.einsum("kaa->ka", variances[e])[:, :nx], 0.0))
            error_std[:-1] = usual[e]
        xi = np.vstack([errors[e], np.full((1, nx), np.nan)])
        records.append(SmootherRecord(record.name, record.grid.time, setup.inner.model.states, states, std, xi, error_std))
    return SmootherResult(tuple(records), dict(setup.weights), setup.drifting, found.strides)


def _costs(found: SmoothingOutcome, smoothed: SmootherResult, fixed: int) -> dict[str, float]:
    """The parts of the sum that was made small; where the weights are variances, it is a chi-square as a whole."""
    cost, finite, own = found.outcome.evaluation.cost, found.finite, len(found.setup.problem.model.outputs)
    rows, priors = found.outcome.evaluation.weighted_residuals, found.outcome.evaluation.prior
    parts = {"measurement_cost": sum(float(np.sum(rhs[:, :own] ** 2)) for rhs in rows),
             "model_cost": sum(smoothed.share_of_cost().values())}
    if finite.mixing is not None:  # which has no shares by state
        parts["model_cost"] = cost - sum(float(np.sum(rhs**2)) for rhs in rows) - float(priors @ priors)
    dof = finite.residual_count - len(finite.names) + fixed
    if found.setup.method.measurement_noise is not None or dof <= 0:
        return parts
    return {"chi2": cost, "dof": float(dof), "reduced_chi2": cost / dof, **parts}


def _notes(found: SmoothingOutcome, uncertainty: Covariance, smoothed: SmootherResult) -> list[str]:
    setup, finite, outcome = found.setup, found.finite, found.outcome
    notes = [as_sentence(words) for words in uncertainty.combinations]
    notes += active_bound_notes(uncertainty)
    notes += [f"{name} is practically unidentifiable (unbounded interval): these data hardly determine it."
              for name in uncertainty.practically_unidentifiable]
    if smoothed.drifting:
        notes.append(f"{', '.join(smoothed.drifting)} may drift: what is printed holds at the begin of the record; the course "
                     "is among the smoothed signals.")
    notes += _beyond_bounds(setup, smoothed)
    notes += _conditioning_notes(found)
    if setup.method.measurement_noise is None and not found.sizes:
        test = noise_level(outcome.evaluation.cost, finite.residual_count - len(finite.names) + len(uncertainty.active),
                           "all errors with their standard deviations")
        if not test.passed:
            way = "more process noise, or larger" if test.value > 1 else "less process noise, or smaller"
            notes.append(as_sentence(f"{test.sentence.split(';')[0]}; the noise that was given does not fit the errors: {way} "
                                     "standard deviations of the measurements, would"))
    follows = ("model errors of this process noise follow every sample. Less process noise, or a std, would tell the two apart"
               if setup.weights else "the model follows every sample to the last digit")
    notes += [f"Nothing is left that an error of '{name}' would explain: {follows}." for name, size in found.sizes.items()
              if size <= 2 * RESIDUAL_ROUNDING * signal_std(setup.problem, name)]
    where = smoothed.largest()
    if where is not None:
        record, name, begin, end = where
        place = f" of {record}" if len(setup.problem.experiments) > 1 else ""
        notes.append(f"Against its weight the model errs most in the rate of {name}, from t = {begin:.4g} to {end:.4g}{place}.")
    notes += [note for e in setup.problem.experiments for note in e.notes]
    return notes


def _beyond_bounds(setup: SmoothingSetup, smoothed: SmootherResult) -> list[str]:
    """Bounds are those of the first value: a course that leaves them is said."""
    notes = []
    for it in setup.problem.parameters:
        if isinstance(it, Parameter) and it.name in smoothed.drifting:
            course = np.concatenate([r.values[:, r.names.index(it.name)] for r in smoothed.records])
            low, high, slack = float(np.min(course)), float(np.max(course)), ON_BOUND * float(np.max(np.abs(course)))
            if low < it.lower - slack or high > it.upper + slack:
                notes.append(f"{it.name} leaves its bounds, {it.lower:.4g} to {it.upper:.4g}, as it drifts: its trajectory "
                             f"lies between {low:.4g} and {high:.4g}. Bounds apply to the first value only; a smaller "
                             f"process_noise of {it.name} keeps it closer to that.")
    return notes


def _conditioning_notes(found: SmoothingOutcome) -> list[str]:
    """The thesis' warning, where a root finder worked; smoother and intervals do not go through these equations."""
    if not found.strides:
        return []
    condition = BoundaryValueProblem(found.setup, found.finite, scaled=True).condition(found.outcome.point)
    if condition <= BADLY_CONDITIONED or (np.isinf(condition) and not found.outcome.converged):  # then the status says why
        return []
    return [f"The condition number of the boundary value problem is {condition:.1e}, above 1e8 (Table 6.1 of the thesis): half "
            'of the digits or more are lost. solver="smoother" finds the same minimum without these equations.']
