"""Filter result: from the numbers of a filter to an estimate, with checks of its steps: stable, and errors below the noise?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.filter_result import ASSUMED, FilterCovariance, FilterRecord, FilterResult, consistency
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.kalman.backend import FilterBackend, FilterStopped, backend_for
from dynident.kalman.model_functions import measurement_function, next_states, symbols
from dynident.kalman.run import FilterPass, run_pass
from dynident.kalman.setup import FilterSetup
from dynident.kalman.simulated_functions import SimulatedFunctions
from dynident.kalman.step_choice import decaying_growth
from dynident.methods.build_estimate import as_sentence, build_estimate, trajectories_from
from dynident.models.augmented import ParameterTransform
from dynident.problem.problem import given_std
from dynident.solvers.solver_result import Iteration
from dynident.status import Status, StatusCode
from dynident.tolerances import FILTER_BOUND_ROUNDING, STEP_HALVING_SHIFT, UNSTABLE_GROWTH
from dynident.transcription.simulators import segment_notes

MAX_OUTLIERS = 0.05  # of the measured values: with more left out, the gate keeps the truth outside
EXAMINED_SAMPLES = 200  # samples at which a step is examined
FINE_STEPS = 16  # Runge-Kutta steps in place of one: as good as exact beside it


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
    states, outputs = ([np.full((r.time.size, len(names)), np.nan) for r in setup.records]
                       for names in (setup.problem.model.states, setup.problem.model.outputs))
    trajectories, residuals = trajectories_from(setup.problem, states, outputs)
    return build_estimate(setup.problem, setup.method, values, uncertainty, trajectories, residuals, converged=False,
                          status=Status.of(StatusCode.FILTER_STOPPED, why=stop), noise_std=setup.noise_std,
                          counts={"samples": stop.sample})


def to_user_units(setup: FilterSetup, x: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard deviations from the filter's coordinates; arrays of (..., size)."""
    nx = len(setup.augmented.model.states)
    values, std = x.copy(), np.sqrt(np.maximum(variance, 0.0))
    for place, c in enumerate(setup.augmented.coordinates):
        values[..., nx + place] = c.value(x[..., nx + place])
        std[..., nx + place] *= np.abs(c.derivative(np.asarray(x[..., nx + place])))
    return values, std


def _filtered_record(setup: FilterSetup, backend: FilterBackend, done: FilterPass, e: int) -> FilterRecord:
    record, whole = setup.records[e], done.smoothed[e] if done.smoothed else None
    smoothed = to_user_units(setup, whole.states, whole.variances) if whole else (None, None)
    return filter_record(setup, backend, record.name, record.time, done.samples[e], *smoothed)


def filter_record(setup: FilterSetup, backend: FilterBackend, name: str, time: np.ndarray, samples: np.ndarray,
                  *smoothed: np.ndarray | None) -> FilterRecord:
    """What the filter knew along a record, in the user's units; with what a smoother knows of it."""
    fields = backend.layout.sample
    return FilterRecord(name, time, setup.augmented.names, setup.problem.model.outputs,
                        *to_user_units(setup, samples[:, fields["x"]], samples[:, fields["variance"]]),
                        samples[:, fields["whitened"]].copy(), samples[:, fields["used"]] == 2, *smoothed)


def _filtered(setup: FilterSetup, records: tuple[FilterRecord, ...], tests, loglik: float) -> FilterResult:
    nx = len(setup.augmented.model.states)
    names = setup.augmented.names
    slopes = [1.0] * nx + [float(abs(c.derivative(z))) for c, z in
                           zip(setup.augmented.coordinates, setup.theta, strict=True)]
    noise = {n: float(np.sqrt(q) * s) for n, q, s in zip(names, setup.q, slopes, strict=True) if q > 0}
    start = [*np.max([r.initial_std for r in setup.records], axis=0), *setup.theta_std]
    initial = {n: float(v * s) for n, v, s in zip(names, start, slopes, strict=True)}
    return FilterResult(records, names[nx:], noise, setup.method.process_noise_unit, (*setup.open_noise, *setup.noise_std),
                    initial, loglik, tests)


def _trajectories(setup: FilterSetup, backend: FilterBackend, done: FilterPass
                  ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """States as known at each sample (with the whole record where smoothed); outputs as predicted one sample ahead."""
    fields = backend.layout.sample
    states = [s.states for s in done.smoothed] if done.smoothed else [s[:, fields["x"]] for s in done.samples]
    return trajectories_from(setup.problem, states, [s[:, fields["predicted"]] for s in done.samples])


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
        margin = FILTER_BOUND_ROUNDING * abs(value)
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
    notes += segment_notes(setup.simulated.simulator) if setup.simulated is not None else ()
    return notes


@dataclass(frozen=True)
class StepQuality:
    """One step of the scheme along a record, at the sampling time."""

    growth: float  # largest eigenvalue of a step, as a modulus
    true_growth: float  # of the exact flow at the same place
    output_error: dict[str, float]  # error of one step in each output, root mean square
    state_error: dict[str, float]

    @property
    def unstable(self) -> bool:
        return self.growth > max(1.0, self.true_growth) + UNSTABLE_GROWTH


def step_quality(setup: FilterSetup, record: int, states: np.ndarray) -> StepQuality:
    """Examine steps that start from filtered states, (samples, size) in the filter's coordinates."""
    its = setup.records[record]
    count = len(its.time)
    if count < 2:
        return StepQuality(0.0, 0.0, {}, {})
    rows = np.unique(np.linspace(0, count - 2, min(EXAMINED_SAMPLES, count - 1)).astype(int))
    look = _step_error_function(setup) if setup.simulated is None else _simulated_step_error(setup, setup.simulated)
    h = np.minimum(np.diff(its.time)[rows], setup.max_step)
    u0 = its.inputs[rows]
    u1 = u0 + its.first_order_hold * (its.inputs[rows + 1] - u0) if u0.shape[1] else u0
    growth, true_growth, moved, seen = [], [], [], []
    for k, row in enumerate(rows):
        F, true, dx, dy = (np.asarray(v) for v in look(its.time[row], h[k], states[row], u0[k], u1[k], setup.fixed))
        if not (np.all(np.isfinite(F)) and np.all(np.isfinite(true))):
            continue
        growth.append(np.max(np.abs(np.linalg.eigvals(F))))
        true_growth.append(np.exp(h[k] * np.max(np.linalg.eigvals(true).real)) if setup.simulated is None else
                           np.max(np.abs(np.linalg.eigvals(true))))
        moved.append(dx.ravel())
        seen.append(dy.ravel())
    if not growth:
        return StepQuality(np.inf, 1.0, {}, {})
    worst = int(np.argmax(np.array(growth) - np.array(true_growth)))
    model = setup.augmented.model
    return StepQuality(float(growth[worst]), float(true_growth[worst]),
                       dict(zip(model.outputs, np.sqrt(np.mean(np.square(seen), axis=0)), strict=True)),
                       dict(zip(model.states, np.sqrt(np.mean(np.square(moved), axis=0)), strict=True)))


def unstable_steps(setup: FilterSetup, backend: FilterBackend, done: FilterPass) -> bool:
    """Whether what decays in the model grows in the steps along the records, in the median: a few wild states are no reason."""
    place, look, seen = backend.layout.sample["x"], _step_error_function(setup), []
    for its, samples in zip(setup.records, done.samples, strict=True):
        count = len(its.time)
        for row in np.unique(np.linspace(0, count - 2, min(EXAMINED_SAMPLES, count - 1)).astype(int)) if count > 1 else ():
            u, h = its.inputs[row], min(its.time[row + 1] - its.time[row], setup.max_step)
            A = np.asarray(look(its.time[row], h, samples[row, place], u, u, setup.fixed)[1])
            seen.append(decaying_growth(h * np.linalg.eigvals(A)) if np.all(np.isfinite(A)) else 0.0)
    return bool(seen) and float(np.median(seen)) > 1


def _step_error_function(setup: FilterSetup) -> ca.Function:
    """(t, h, a, u0, u1, p) -> state Jacobian of a step, of the rates; error of a step in the states, in the outputs."""
    augmented = setup.augmented
    s = symbols(augmented)
    nx = len(augmented.model.states)
    x, p = augmented.split(s["a"], s["p"])
    coarse = next_states(augmented, setup.integrator, s)
    fine, scheme = s["a"], setup.integrator if setup.integrator.linearly_implicit else RUNGE_KUTTA
    for k in range(FINE_STEPS):
        at = lambda m: s["u0"] + m / FINE_STEPS * (s["u1"] - s["u0"])  # noqa: E731
        part = {**s, "h": s["h"] / FINE_STEPS, "t": s["t"] + k * s["h"] / FINE_STEPS, "a": fine, "u0": at(k), "u1": at(k + 1)}
        fine = ca.vertcat(next_states(augmented, scheme, part), s["a"][nx:])
    rate = augmented.model.rate(s["t"], x, s["u0"], p)
    ends = [measurement_function(augmented, {**s, "t": s["t"] + s["h"], "u0": s["u1"], "a": ca.vertcat(end, s["a"][nx:])})
            for end in (coarse, fine[:nx])]
    return ca.Function("step_error", [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]],
                       [ca.jacobian(coarse, s["a"])[:, :nx], ca.jacobian(rate, s["a"])[:, :nx], coarse - fine[:nx],
                        ends[0] - ends[1]])


def _simulated_step_error(setup: FilterSetup, simulated: SimulatedFunctions) -> Callable[..., tuple[np.ndarray, ...]]:
    """The same of a model without equations, with the Jacobian of fine steps in the place of that of the rates."""
    nx = len(setup.augmented.model.states)

    def look(t: float, h: float, a: np.ndarray, u0: np.ndarray, u1: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, ...]:
        coarse, F = simulated.step(t, h, a, u0, u1, p)
        fine, exact = simulated.step(t, h, a, u0, u1, p, substeps=FINE_STEPS)
        ends = np.array([np.concatenate([end, a[nx:]]) for end in (coarse, fine)])
        outputs = simulated.measured(t + h, ends, u1, p)
        return F[:, :nx], exact[:, :nx], coarse - fine, outputs[0] - outputs[1]

    return look


def step_notes(setup: FilterSetup, filtered: FilterResult, done: FilterPass) -> list[str]:
    """A sentence for each experiment whose steps are unstable or less accurate than the noise, and for parameters that
    finer steps would move."""
    remarks, reach = [], 0.0
    nx = len(setup.augmented.model.states)
    per_sample = setup.method.process_noise_unit == "sample"
    for e, record in enumerate(filtered.records):
        coordinates = record.values.copy()
        for place, c in enumerate(setup.augmented.coordinates):
            coordinates[:, nx + place] = [c.coordinate(v) for v in record.values[:, nx + place]]
        quality = step_quality(setup, e, coordinates)
        where = f" in '{record.experiment}'" if len(filtered.records) > 1 else ""
        if quality.unstable:
            remarks.append(f"{setup.integrator.name} is unstable at this sampling time{where}: an error grows by a "
                           f"factor of {quality.growth:.3g} in a step where the model itself gives "
                           f"{quality.true_growth:.3g}. Use more substeps, a scheme of higher order, or rosenbrock.")
        worst = _worst_error(setup, e, quality, per_sample)
        if worst[1] > 1:
            remarks.append(f"One step of {setup.integrator.name} errs by {worst[1]:.2g} standard deviations of the "
                           f"{worst[0]}{where}: the discretization, not the data, decides. Use more substeps, or a "
                           "scheme of higher order.")
        # if every step errs the same way and each sample sees the sum of all, in standard deviations of what N tell
        reach = max(reach, worst[1] * (setup.method.substeps * len(record.time)) ** 1.5)
    return remarks + (halved_step_notes(setup, done) if reach > STEP_HALVING_SHIFT else [])


def halved_step_notes(setup: FilterSetup, done: FilterPass) -> list[str]:
    """One more pass with steps half as long: a sentence where it moves a parameter by a good part of its deviation."""
    finer = replace(setup, max_step=setup.max_step / 2)
    backend = backend_for(finer)
    try:
        again = run_pass(finer, backend, done.theta)
    except FilterStopped as stop:
        return [f"With steps half as long the filter stops: the discretization, not the data, decides. {stop}"]
    fields, nx = backend.layout.sample, len(setup.augmented.model.states)
    shifts: dict[str, float] = {}
    for e, binding in enumerate(setup.problem.bindings):  # a shared one keeps what the last record says
        coarse, fine = done.samples[e][-1], again.samples[e][-1]
        std = np.sqrt(np.maximum(coarse[fields["variance"]], 0.0))[nx:]
        moved = np.abs(fine[fields["x"]] - coarse[fields["x"]])[nx:]
        for index, by, scale in zip(setup.augmented.free, moved, std, strict=True):
            shifts[setup.problem.unknowns[binding.parameter_unknown[index]].name] = by / scale if scale > 0 else 0.0
    said = ", ".join(f"{name} by {shift:.2g}" for name, shift in shifts.items() if shift > STEP_HALVING_SHIFT)
    return [f"With steps half as long the answer moves, in standard deviations: {said}. The intervals do not hold this "
            f"error of the discretization. Use substeps={2 * setup.method.substeps} or more, or a scheme of higher "
            "order."] if said else []


def _worst_error(setup: FilterSetup, e: int, quality: StepQuality, per_sample: bool) -> tuple[str, float]:
    """What the error of a step exceeds most: the noise of an output, or the process noise of a state over one step."""
    experiment, ratios = setup.problem.experiments[e], {}
    for name, error in quality.output_error.items():
        if name in experiment.outputs:
            given = given_std(experiment, name)
            size = setup.noise_std[name] if given is None else float(np.median(given))
            ratios[f"noise of '{name}'"] = error / size
    for i, (name, error) in enumerate(quality.state_error.items()):
        if setup.q[i] > 0 and name not in setup.open_noise:  # an estimated level has the error in it
            over = setup.q[i] / setup.method.substeps if per_sample else setup.q[i] * setup.max_step
            ratios[f"process noise of '{name}'"] = error / np.sqrt(over)
    return max(ratios.items(), key=lambda item: item[1]) if ratios else ("noise", 0.0)
