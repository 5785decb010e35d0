"""Filter result: from the numbers of a filter to an estimate with its histories, uncertainty and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.filter_covariance import ASSUMED, FilterCovariance
from dynident.estimate.filter_result import FilterRecord, FilterResult, consistency
from dynident.kalman.backend import FilterBackend, FilterStopped
from dynident.kalman.passes import FilterPass
from dynident.kalman.setup import FilterSetup
from dynident.kalman.step_checks import step_notes
from dynident.methods.build_estimate import all_noise_std, as_sentence, build_estimate
from dynident.models.augmented import ParameterTransform
from dynident.solvers.solver_result import Iteration
from dynident.status import Status, StatusCode

BOUND_ROUNDING = 1e-12  # relative: a bound that went through a logarithm comes back so close
MAX_OUTLIERS = 0.05  # of the measured values: with more left out, the gate keeps the truth outside


def build_filter_estimate(setup: FilterSetup, backend: FilterBackend, done: FilterPass, remarks: tuple[str, ...],
                          history: tuple[Iteration, ...], times: Mapping[str, float]) -> Estimate:
    problem, fields = setup.problem, backend.layout.sample
    records = tuple(_filtered_record(setup, backend, done, e) for e in range(len(setup.records)))
    tests = consistency([r.whitened for r in records], problem.model.outputs)
    filtered = _filtered(setup, records, tests, sum(float(np.sum(s[:, fields["loglik"]])) for s in done.samples))
    trajectories, residuals = _trajectories(setup, backend, done)
    uncertainty = _uncertainty(setup, done, filtered.consistent)
    values = {name: float(c.value(z)) for name, z, c in
              zip(uncertainty.names, uncertainty.mean, uncertainty.coordinates, strict=True)}
    outside = {name: values[name] for name in _out_of_bounds(setup, uncertainty)}
    counts = {"samples": sum(len(s) for s in done.samples), "passes": setup.method.passes,
              "outliers": sum(int(np.sum(r.left_out)) for r in records),
              "projections": sum(int(np.sum(s[:, fields["projected"]])) for s in done.samples)}
    cost = sum(float(np.sum(s[:, fields["nis"]])) for s in done.samples)
    used = sum(int(np.sum(np.isfinite(r.whitened))) for r in records)
    return build_estimate(
        problem, setup.method, values, uncertainty, trajectories, residuals, converged=not filtered.diverged,
        status=_status(counts["samples"], filtered), cost=cost, noise_std=setup.noise_std, history=history, counts=counts,
        notes=(*_notes(setup, filtered, counts, done, outside), *remarks), times=times,
        statistics={"log_likelihood": filtered.loglik, "reduced_chi2": cost / max(used, 1)}, filtered=filtered)


def stopped_estimate(setup: FilterSetup, stop: FilterStopped) -> Estimate:
    """A filter that could not go on: the start values, marked as such."""
    names, mean, coordinates = _unknown_coordinates(setup)
    values = {name: float(c.value(z)) for name, z, c in zip(names, mean, coordinates, strict=True)}
    uncertainty = FilterCovariance(names, mean, np.diag(np.full(len(names), np.inf)), coordinates,
                                  dict.fromkeys(names, ASSUMED), setup.problem.fixed_values(), consistent=False)
    model = setup.problem.model
    empty = tuple(Trajectory(r.name, r.time, {n: np.full(r.time.size, np.nan) for n in model.states},
                             {n: np.full(r.time.size, np.nan) for n in model.outputs}) for r in setup.records)
    residuals = tuple({n: np.full(e.samples, np.nan) for n in e.outputs} for e in setup.problem.experiments)
    return Estimate(problem=setup.problem, method=setup.method, values={**values, **setup.problem.fixed_values()},
                    uncertainty=uncertainty, converged=False,
                    status=Status.of(StatusCode.FILTER_STOPPED, why=stop), cost=float("nan"),
                    trajectories=empty, residuals=residuals, noise_std=all_noise_std(setup.problem, setup.noise_std),
                    counts={"samples": stop.sample})


def to_user_units(setup: FilterSetup, x: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard deviations from the filter's coordinates; arrays of (..., size)."""
    nx = len(setup.augmented.model.states)
    values, std = x.copy(), np.sqrt(np.maximum(variance, 0.0))
    for place, c in enumerate(setup.augmented.coordinates):
        values[..., nx + place] = c.value(x[..., nx + place])
        std[..., nx + place] *= np.abs(c.slope(np.asarray(x[..., nx + place])))
    return values, std


def _filtered_record(setup: FilterSetup, backend: FilterBackend, done: FilterPass, e: int) -> FilterRecord:
    fields, samples, record = backend.layout.sample, done.samples[e], setup.records[e]
    values, std = to_user_units(setup, samples[:, fields["x"]], samples[:, fields["variance"]])
    whole = done.smoothed[e] if done.smoothed else None
    smoothed = to_user_units(setup, whole.states, whole.variances) if whole else (None, None)
    return FilterRecord(record.name, record.time, setup.augmented.names, setup.problem.model.outputs, values, std,
                          samples[:, fields["whitened"]].copy(), samples[:, fields["used"]] == 2, *smoothed)


def _filtered(setup: FilterSetup, records: tuple[FilterRecord, ...], tests, loglik: float) -> FilterResult:
    nx = len(setup.augmented.model.states)
    names = setup.augmented.names
    slopes = [1.0] * nx + [float(abs(c.slope(z))) for c, z in
                           zip(setup.augmented.coordinates, setup.theta, strict=True)]
    noise = {n: float(np.sqrt(q) * s) for n, q, s in zip(names, setup.q, slopes, strict=True) if q > 0}
    start = [*np.max([r.initial_std for r in setup.records], axis=0), *setup.theta_std]
    initial = {n: float(v * s) for n, v, s in zip(names, start, slopes, strict=True)}
    return FilterResult(records, names[nx:], noise, setup.method.process_noise_unit, (*setup.open_noise, *setup.noise_std),
                    initial, loglik, tests)


def _trajectories(setup: FilterSetup, backend: FilterBackend, done: FilterPass
                  ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """States as known at each sample (with the whole record where smoothed); outputs as predicted one sample ahead."""
    model, fields = setup.problem.model, backend.layout.sample
    trajectories, residuals = [], []
    for e, (samples, experiment) in enumerate(zip(done.samples, setup.problem.experiments, strict=True)):
        states = done.smoothed[e].states if done.smoothed else samples[:, fields["x"]]
        predicted = samples[:, fields["predicted"]]
        trajectories.append(Trajectory(experiment.name, np.asarray(experiment.time),
                                       {n: states[:, i].copy() for i, n in enumerate(model.states)},
                                       {n: predicted[:, j].copy() for j, n in enumerate(model.outputs)}))
        residuals.append({n: np.asarray(y) - trajectories[-1].outputs[n] for n, y in experiment.outputs.items()})
    return tuple(trajectories), tuple(residuals)


def _unknown_coordinates(setup: FilterSetup) -> tuple[tuple[str, ...], np.ndarray, tuple[ParameterTransform, ...]]:
    """Per unknown of the problem: its name, its start and its coordinate."""
    problem = setup.problem
    mean, coordinates = np.zeros(len(problem.unknowns)), [ParameterTransform()] * len(problem.unknowns)
    for e, binding in enumerate(problem.bindings):
        for place, index in enumerate(setup.augmented.free):
            unknown = binding.parameter_unknown[index]
            mean[unknown], coordinates[unknown] = setup.theta[place], setup.augmented.coordinates[place]
        for i, unknown in enumerate(binding.initial_unknown):
            if unknown >= 0:
                mean[unknown] = setup.records[e].initial[i]
    return problem.names, mean, tuple(coordinates)


def _uncertainty(setup: FilterSetup, done: FilterPass, consistent: bool) -> FilterCovariance:
    """Parameters at the end (of their own record where not shared), initial states where a smoother reached them.

    Covariances are those of unknowns known at the same time; what is known at different times has none here.
    """
    names, mean, coordinates = _unknown_coordinates(setup)
    nx = len(setup.augmented.model.states)
    matrix = np.zeros((len(names), len(names)))
    remarks: dict[str, str] = {}
    for e, binding in enumerate(setup.problem.bindings):
        ending = np.flatnonzero(~setup.shared | (e == len(setup.records) - 1))  # shared ones: when the last record ends
        where = binding.parameter_unknown[list(setup.augmented.free)][ending]
        x, P = done.ends[e]
        mean[where] = x[nx + ending]
        matrix[np.ix_(where, where)] = P[np.ix_(nx + ending, nx + ending)]
        for i, unknown in enumerate(binding.initial_unknown):
            if unknown < 0:
                continue
            if done.smoothed:
                mean[unknown], matrix[unknown, unknown] = _initial_state(setup, done, e, i)
            else:
                matrix[unknown, unknown] = setup.records[e].initial_std[i] ** 2
                remarks[names[unknown]] = ASSUMED
    known = FilterCovariance(names, mean, matrix, coordinates, remarks, setup.problem.fixed_values(), consistent)
    remarks |= dict.fromkeys(_out_of_bounds(setup, known), "outside of its bounds")
    for name, z, c in zip(names, mean, coordinates, strict=True):
        for side, bound in (("lower", c.lower), ("upper", c.upper)):
            if c.kind == "value" and z == bound:
                remarks[name] = f"at its {side} bound"
    return replace(known, remarks=remarks)


def _initial_state(setup: FilterSetup, done: FilterPass, e: int, i: int) -> tuple[float, float]:
    """Mean and variance of a state where its record starts, with everything known."""
    record, smoothed = setup.records[e], done.smoothed[e]
    if record.start == record.time[0]:
        return float(smoothed.states[0, i]), float(smoothed.P_first[i, i])
    variance = record.initial_std[i] ** 2
    return (float(record.initial[i] - variance * smoothed.start.vector[i]),
            float(variance - variance**2 * smoothed.start.matrix[i, i]))


def _out_of_bounds(setup: FilterSetup, known: FilterCovariance) -> list[str]:
    """Unknowns that the smoother took out of their bounds; the filter itself puts parameters back."""
    found = []
    for name, unknown, z, c in zip(known.names, setup.problem.unknowns, known.mean, known.coordinates, strict=True):
        value = float(c.value(z))
        margin = BOUND_ROUNDING * abs(value)
        lower = max(unknown.lower, 0.0) if unknown.log else unknown.lower
        if not lower - margin <= value <= unknown.upper + margin:
            found.append(name)
    return found


def _status(samples: int, filtered: FilterResult) -> Status:
    if filtered.diverged:
        code = StatusCode.FILTER_DIVERGED
    elif not filtered.tests:
        code = StatusCode.FILTERED_UNJUDGED
    else:
        code = StatusCode.FILTERED if filtered.consistent else StatusCode.FILTERED_INCONSISTENT
    return Status.of(code, samples=samples)


def _notes(setup: FilterSetup, filtered: FilterResult, counts: Mapping[str, int], done: FilterPass, outside: Mapping[str, float]
           ) -> list[str]:
    notes = [as_sentence(t.sentence) for t in filtered.tests if not t.passed]
    notes += [f"The smoother took {name} to {value:.6g}, outside of its bounds, which it does not keep. Use "
              "multiple_shooting() for an answer within them." for name, value in outside.items()]
    notes += step_notes(setup, filtered, done)
    if counts["projections"]:
        notes.append(f"Parameters were put back onto a bound {counts['projections']} times; see their histories.")
    if counts["outliers"]:
        notes.append(f"{counts['outliers']} measured values lay beyond the gate of {setup.method.gate:g} standard "
                     "deviations and were left out."
                     + (" So many are no outliers: it is the filter that is off. Start closer, or open the gate."
                        if counts["outliers"] > MAX_OUTLIERS * setup.problem.measured_values else ""))
    if setup.method.passes > 1:
        notes.append("The last pass began with the parameters of the one before; intervals are those of a single pass.")
    notes += [note for e in setup.problem.experiments for note in e.notes]
    return notes
