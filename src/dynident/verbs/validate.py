"""Validate: what an estimate predicts about a record that it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import DynidentError, NotConverged, NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate, Trajectory, Validation, validation_metrics
from dynident.kalman.prediction_error.k_step import fit_ahead
from dynident.kalman.prediction_error.other_record import PredictedRecord, predicted_record
from dynident.methods.noise_estimation import outputs_with_unknown_noise, with_noise_std
from dynident.methods.options import MAX_ITERATIONS
from dynident.methods.presets import method_from
from dynident.models.augmented import disturbed_states
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.problem.problem_checks import unit_faults
from dynident.verbs.judge import judge_record
from dynident.verbs.judged_predictions import judge_predicted_record
from dynident.verbs.simulate import simulate


def validate(estimate: Estimate, experiment: Experiment) -> Validation:
    """Simulate with the estimated parameters and compare.

    Initial states that the record does not give are the only thing fitted to it; parameters are held.
    """
    experiment = experiment if experiment.name else experiment.with_name("validation")
    with single_thread():
        validation = _compared(estimate, experiment)
        if estimate.verdict.exceeds_noise:  # what was estimated as noise there holds the error of the model
            unknown = outputs_with_unknown_noise(estimate.problem)
            allowed = {name: fit for name, fit in validation.attainable.items() if name not in unknown}
            validation = replace(validation, attainable=allowed)
        return validation if validation.predicted else replace(
            validation, verdict=judge_record(estimate, experiment, validation))


def _compared(estimate: Estimate, experiment: Experiment) -> Validation:
    """Numbers and tests, by the method's own way or by a simulation."""
    if (own := estimate.method.inner_method.validation(estimate, experiment)) is not None:
        return own
    if not experiment.outputs:
        raise ProblemError(f"{experiment.label}: it holds no measured signal to compare with.")
    strange = [name for name in experiment.outputs if name not in estimate.problem.model.outputs]
    if strange:
        raise ProblemError([f"{experiment.label}: '{name}' is not an output of the model."
                            f"{did_you_mean(name, estimate.problem.model.outputs)}" for name in strange])
    if faults := unit_faults([*estimate.problem.experiments, experiment], estimate.problem.model):
        raise ProblemError(faults)
    if not np.all(np.isfinite([estimate.values[name] for name in estimate.problem.names])):
        raise ProblemError("there is nothing to validate: no values explain the record of this estimate, its model is refuted.")
    held = [Parameter(p.name, start=_value(estimate, p, experiment.group), free=False)
            for p in estimate.problem.parameters if isinstance(p, Parameter) and p.name not in experiment.constants]
    values = {p.name: float(p.start) for p in held}  # type: ignore[arg-type]
    brought = set(estimate.problem.model.nominal_values) - {s.state for s in estimate.problem.parameters
                                                        if isinstance(s, InitialState)}
    missing = [s for s in estimate.problem.model.states
               if s not in experiment.initial and s not in brought and experiment.steady is None]
    notes = _drift_notes(estimate, values)
    if (known := predicted_record(estimate, experiment, held, _unknown_initial_states(estimate, missing))) is not None:
        return _predicted(estimate, experiment, known, values, missing)
    if missing:
        found = _initial_states(estimate, experiment, held, missing)
        values |= found
        notes += (_fitted_states(found),)
    trajectory = simulate(estimate.problem.model, values, experiment, estimate.method.simulation_integrator)
    dof = estimate.statistics.get("dof", np.inf) if outputs_with_unknown_noise(estimate.problem) else np.inf
    compared = validation_metrics(experiment, trajectory, estimate.noise_std, max(dof, 1.0))
    return replace(compared, notes=notes, ahead=_fit_ahead(estimate, experiment, held, missing))


def _predicted(estimate: Estimate, experiment: Experiment, record: PredictedRecord, values: dict[str, float],
               missing: list[str]) -> Validation:
    """By the innovations of the fit's own filter; beside them what a simulation does that begins where the filter begins."""
    known, model = record.estimate, estimate.problem.model
    assert known.filtered is not None
    found = {f"{s}(0)": float(known.values[f"{s}(0)"]) for s in missing}
    notes = [_fitted_states(found)] if missing else []
    try:
        run = simulate(model, values | found, experiment, estimate.method.simulation_integrator)
    except ProblemError:
        nowhere = np.full(experiment.samples, np.nan)
        run = Trajectory(experiment.name, np.asarray(experiment.time), dict.fromkeys(model.states, nowhere),
                         dict.fromkeys(model.outputs, nowhere))
        notes.append("The simulation of the whole record leaves the finite numbers.")
    simulated = validation_metrics(experiment, run, {})
    states = np.column_stack([known.trajectories[0].states[name] for name in model.states])
    ahead = fit_ahead(known.problem, states, known.method.simulation_integrator, int(known.counts["substeps"]))
    return replace(simulated, trajectory=known.trajectories[0], residuals=known.residuals[0], tests=known.filtered.tests,
                   notes=tuple(notes), ahead=ahead, attainable={}, predicted=True,
                   verdict=judge_predicted_record(estimate, record, simulated.fit))


def _fitted_states(found: Mapping[str, float]) -> str:
    listed = ", ".join(f"{name} = {value:.4g}" for name, value in found.items())
    return f"The initial state was not given and was fitted to this record: {listed}."


def _fit_ahead(estimate: Estimate, experiment: Experiment, held: list[Parameter], missing: list[str]
               ) -> dict[int, dict[str, float]]:
    """Fit in percent by the number of samples that are predicted, per output; empty for models without a filter.

    The noise is what this record shows under the fitted parameters: output error knows none of its own.
    """
    model = estimate.problem.model
    if not isinstance(model, EquationModel) or model.hybrid or not model.states or model.delays or model.sample_time:
        return {}
    initial = _unknown_initial_states(estimate, missing)
    disturbed = estimate.process_noise or dict.fromkeys(disturbed_states(model))
    record = with_noise_std(experiment.without_input_noise(), estimate.noise_std if estimate.process_noise else {})
    problem = Problem(model, [record], [*held, *initial], process_noise=dict.fromkeys(disturbed, Gaussian()))
    try:
        found = method_from("prediction_error").identify(problem, None, lambda _: None)
        if not found.converged:
            return {}
        known = np.column_stack([found.trajectories[0].states[name] for name in model.states])  # by the filter, or simulated
        return fit_ahead(problem, known, found.method.simulation_integrator, int(found.counts.get("substeps", 1)))
    except DynidentError:
        return {}


def _drift_notes(estimate: Estimate, values: Mapping[str, float]) -> tuple[str, ...]:
    """What the reader must know of parameters that changed along time in the fit and stand still here."""
    notes = []
    if (smoothed := estimate.smoothed) is not None:
        for name in smoothed.drifting:
            course = np.concatenate([r.values[:, r.names.index(name)] for r in smoothed.records])
            notes.append(f"In the fit {name} drifts, between {np.min(course):.4g} and {np.max(course):.4g}; here it stands "
                         f"still at {values[name]:.4g}, its value at the begin of the fitted record.")
    if (filtered := estimate.filtered) is not None:
        notes += [f"In the fit {name} may change from sample to sample; here it stands still at {values[name]:.4g}, its value "
                  "at the end of the fitted record." for name in filtered.parameters if name in filtered.process_noise]
    return tuple(notes)


def _value(estimate: Estimate, parameter: Parameter, group: str) -> float:
    of_group = f"{parameter.name}[{group}]" if parameter.per == "group" else parameter.name
    if of_group in estimate.values:
        return float(estimate.values[of_group])
    raise NotSupported(f"'{parameter.name}' has a value of its own in each fitted experiment, so there is none for another "
                       "record. Fit it as shared, or add the record to the problem.")


def _unknown_initial_states(estimate: Estimate, missing: list[str]) -> list[InitialState]:
    known = {s.state: s for s in estimate.problem.parameters if isinstance(s, InitialState)}
    return [replace(known[s], shared=False) if s in known else InitialState(s) for s in missing]  # start, bounds and prior hold


def _initial_states(estimate: Estimate, experiment: Experiment, held: list[Parameter], missing: list[str]
                    ) -> dict[str, float]:
    initial = _unknown_initial_states(estimate, missing)
    known = with_noise_std(experiment.without_input_noise(), estimate.noise_std)
    problem = Problem(estimate.problem.model, [known], [*held, *initial])
    shoots = isinstance(problem.model, EquationModel) and not problem.filtered_outputs
    careful = method_from("single_shooting" if shoots else "least_squares")
    method = estimate.method.inner_method.for_initial_states(MAX_ITERATIONS) or careful
    try:
        found = method.identify(problem, None, lambda _: None)
    except (ProblemError, NotSupported):
        found = careful.identify(problem, None, lambda _: None)
    if not found.converged:
        raise NotConverged(f"{experiment.label}: no initial state was found from which the model follows the record "
                           f"({found.status}). Give it as `initial`.", found)
    return {f"{s}(0)": float(found.values[f"{s}(0)"]) for s in missing}
