"""Filter setup: a problem and the options of a filter as the numbers that the filter is given.

Process noise is white (increments of a Wiener process), held over a sampling interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Explicit
from dynident.kalman.method import ESTIMATE, FilterMethod, require_explicit
from dynident.kalman.simulated_functions import SimulatedFunctions
from dynident.kalman.step_choice import step_at_start
from dynident.methods import noise_estimation
from dynident.methods.capabilities import check_supports
from dynident.models.augmented import Augmented, ParameterTransform, disturbed_states, reciprocal_parameters, transform_for
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem, given_std
from dynident.transcription.initial_guess import start_values, states_from_measurements
from dynident.transcription.simulators import declared_names

RELATIVE_STD = 0.5  # of a start value: its standard deviation where nothing is given
BOUNDED_STD = 0.25  # of the distance between two bounds: likewise
INSIDE_MARGIN = 1e-3  # of the distance between two bounds: so far inside begins what starts on one and is transformed
TYPICAL_SIZE_SAMPLES = 50  # instants of a record at which states are read off, for their typical size


@dataclass(frozen=True, eq=False)
class FilterExperiment:
    """One experiment as the filter reads it."""

    name: str
    time: np.ndarray  # (samples,)
    inputs: np.ndarray  # (samples, inputs)
    outputs: np.ndarray  # (samples, outputs), NaN where missing
    variance: np.ndarray  # (1 or samples, outputs) of the measurement errors
    start: float
    initial: np.ndarray  # (states,)
    initial_std: np.ndarray  # (states,)
    first_order_hold: np.ndarray  # (inputs,) 1 where the input moves linearly between samples


@dataclass(frozen=True, eq=False)
class FilterSetup:
    """Everything that the kernels ask for."""

    problem: Problem
    method: FilterMethod
    augmented: Augmented
    integrator: Explicit
    fixed: np.ndarray  # (parameters,) values of those that are fixed (inverses where `augmented` says so), 0 where free
    theta: np.ndarray  # (free,) start, in the filter's coordinates
    theta_std: np.ndarray
    shared: np.ndarray  # (free,) bool: carried from experiment to experiment
    repeated: np.ndarray  # (free,) bool: carried to the next pass, too; a prior's mean is where every pass begins
    q: np.ndarray  # (size,) variance per second, or per sample
    open_noise: tuple[str, ...]  # states and parameters whose process noise is to be estimated
    noise_std: Mapping[str, float]  # outputs whose noise is estimated, and what it is taken for now
    records: tuple[FilterExperiment, ...]
    max_step: float  # s
    step_note: str = ""  # why steps are linearly implicit, where that was chosen
    simulated: SimulatedFunctions | None = None  # of a model without equations

    def with_noise(self, q: np.ndarray, noise_std: Mapping[str, float]) -> FilterSetup:
        """The same with other noise levels."""
        again = tuple(replace(r, variance=_variances(self.problem, e, noise_std)) for e, r in enumerate(self.records))
        return replace(self, q=q, noise_std=dict(noise_std), records=again)

    def settings(self) -> dict[str, Any]:
        """By the names of the kernels' struct; inputs move as in the first record unless a record says otherwise."""
        coordinates = self.augmented.coordinates
        return {"p": self.fixed, "q": self.q, "per_sample": float(self.method.process_noise_unit == "sample"),
                "lower": np.array([_coordinate_bound(c, c.lower, -np.inf) for c in coordinates]),
                "upper": np.array([_coordinate_bound(c, c.upper, np.inf) for c in coordinates]),
                "first_order_hold": self.records[0].first_order_hold, "max_step": self.max_step,
                "gate": self.method.gate or 0.0}


def _coordinate_bound(c: ParameterTransform, bound: float, none: float) -> float:
    """A bound in the filter's coordinates; `none` where it has no coordinate, or is kept by the transform."""
    if c.kind == "value":
        return bound
    return float(c.coordinate(bound)) if c.kind == "log" and 0 < bound < np.inf else none


def build_setup(method: FilterMethod, problem: Problem) -> FilterSetup:
    """Resolve every default; all faults of names are listed at once."""
    check_supports(problem, method.kind, method.capabilities)
    _refuse_shared_initial_states(method, problem)
    step_note = ""
    if method.chooses_integrator:
        name, step_note = step_at_start(problem, method.substeps)
        method = replace(method, integrator=name)  # type: ignore[type-var]
    model, binding = problem.model, problem.bindings[0]
    free = tuple(int(i) for i in np.flatnonzero(binding.parameter_unknown >= 0))
    unknowns = [problem.unknowns[binding.parameter_unknown[i]] for i in free]
    transform = method.bound_handling == "transform"
    coordinates = tuple(transform_for(u.lower, u.upper, u.log, transform) for u in unknowns)
    fixed = np.where(binding.parameter_unknown >= 0, 0.0, binding.parameters)
    equations = isinstance(model, EquationModel)
    inverted = tuple(k for k in reciprocal_parameters(model, free) if fixed[k] != 0) if equations else ()
    fixed[list(inverted)] = 1 / fixed[list(inverted)]
    augmented = Augmented(model, free, coordinates, inverted)
    _check_names(method, augmented)
    start = _initial_values(method, problem)
    values = np.array([start[binding.parameter_unknown[i]] for i in free])
    theta = np.array([c.coordinate(_move_inside(c, v)) for c, v in zip(coordinates, values, strict=True)])
    slopes = np.array([float(c.derivative(z)) for c, z in zip(coordinates, theta, strict=True)])
    std = np.array([_parameter_std(method, u, v) for u, v in zip(unknowns, values, strict=True)]) / slopes
    noise_std = noise_estimation.initial_noise_std(problem)
    q, open_noise = _process_noise(method, problem, augmented, slopes)
    gaps = np.concatenate([np.diff(e.time) for e in problem.experiments])
    max_step = float(np.median(gaps)) / method.substeps if gaps.size else 1.0
    records = tuple(_record(method, problem, e, start, noise_std) for e in range(len(problem.experiments)))
    shared = np.array([len(u.experiments) == len(problem.experiments) for u in unknowns], bool)
    repeated = shared & np.array([u.prior is None for u in unknowns], bool)
    return FilterSetup(problem, method, augmented, require_explicit(integrator_named(method.integrator)), fixed, theta,
                 std, shared, repeated, q, open_noise, noise_std, records, max_step, step_note,
                 None if equations else _simulated_functions(method, problem, augmented, records, theta, std))


def _simulated_functions(method: FilterMethod, problem: Problem, augmented: Augmented, records: Sequence[FilterExperiment],
                         theta: np.ndarray, theta_std: np.ndarray) -> SimulatedFunctions:
    """Of a model without equations; its states are as large as they begin, or as they may be off then."""
    begin = np.max([np.maximum(np.abs(r.initial), r.initial_std) for r in records], axis=0)
    size = np.concatenate([begin, np.maximum(np.abs(theta), theta_std)])
    simulator = problem.model.segment_simulator(declared_names(problem), method.integrator)
    return SimulatedFunctions(simulator, augmented, np.where(size > 0, size, 1.0))


def _refuse_shared_initial_states(method: FilterMethod, problem: Problem) -> None:
    shared = [u.quantity for u in problem.unknowns if u.initial and len(u.experiments) > 1]
    if shared:
        raise NotSupported(f"{method.kind} begins each record with its own state, but the initial state of "
                           f"{', '.join(shared)} is one unknown for several records. Say shared=False, or use "
                           "multiple_shooting().")


def _initial_values(method: FilterMethod, problem: Problem) -> np.ndarray:
    """Where each unknown begins: at the mean of its prior, else at its start value."""
    begin, faults = start_values(problem), []
    for i, unknown in enumerate(problem.unknowns):
        if unknown.prior is None:
            continue
        begin[i] = unknown.prior.mean
        if not unknown.lower <= begin[i] <= unknown.upper or (unknown.log and not begin[i] > 0):
            outside = "its bounds" if not unknown.lower <= begin[i] <= unknown.upper else "the domain of its logarithm"
            faults.append(f"'{unknown.name}': the prior's mean {begin[i]:g} lies outside of {outside}. Move one of the "
                          "two, or use multiple_shooting().")
    if faults:
        raise NotSupported(f"{method.kind} begins at the mean of a prior. {' '.join(faults)}")
    return begin


def _check_names(method: FilterMethod, augmented: Augmented) -> None:
    faults = []
    given = method.process_noise if isinstance(method.process_noise, Mapping) else {}
    for option, names in (("process_noise", given), ("initial_std", method.initial_std)):
        faults += [f"{option} names '{name}', which is neither a state nor a free parameter."
                   f"{did_you_mean(name, augmented.names)}" for name in names if name not in augmented.names]
    if faults:
        raise ProblemError(faults)


def _move_inside(coordinate, value: float) -> float:
    """A start value on a bound has no coordinate where bounds are transformed."""
    if coordinate.kind in ("value", "log"):
        return value
    span = coordinate.upper - coordinate.lower
    margin = INSIDE_MARGIN * (span if np.isfinite(span) else max(abs(value), 1.0))
    return float(np.clip(value, coordinate.lower + margin, coordinate.upper - margin))


def _parameter_std(method: FilterMethod, unknown, value: float) -> float:
    if unknown.quantity in method.initial_std:
        return float(method.initial_std[unknown.quantity])
    if unknown.prior is not None:
        return float(unknown.prior.std)
    span = unknown.upper - unknown.lower
    if unknown.scale is None and value == 0 and np.isfinite(span):
        return BOUNDED_STD * span
    size = RELATIVE_STD * abs(value) or unknown.scale or 1.0
    return float(min(size, BOUNDED_STD * span)) if np.isfinite(span) else float(size)


def _said_process_noise(method: FilterMethod, problem: Problem) -> Mapping[str, float | str]:
    """By name the standard deviation or "estimate": what the method says, else the problem, else the usual."""
    if isinstance(method.process_noise, Mapping):
        return method.process_noise
    if method.process_noise is None and problem.process_noise:
        if method.process_noise_unit != "second":
            raise NotSupported(f"{method.kind}: the problem states process noise per second, but process_noise_unit is "
                               f"\"{method.process_noise_unit}\". Leave the unit out, or say process_noise in the method.")
        return {name: ESTIMATE if noise.std is None else float(noise.std)  # type: ignore[arg-type]
                for name, noise in problem.process_noise.items()}
    return dict.fromkeys(disturbed_states(problem.model), ESTIMATE)


def _process_noise(method: FilterMethod, problem: Problem, augmented: Augmented, slopes: np.ndarray
                   ) -> tuple[np.ndarray, tuple[str, ...]]:
    """Variances, and the names whose level has to be found."""
    given = _said_process_noise(method, problem)
    levels = {name: 0.0 if value == ESTIMATE else float(value) for name, value in given.items()}
    scale = np.concatenate([np.ones(len(augmented.model.states)), slopes])
    q = (np.array([levels.get(name, 0.0) for name in augmented.names]) / scale) ** 2
    return q, tuple(name for name, value in given.items() if value == ESTIMATE)


def _variances(problem: Problem, e: int, noise_std: Mapping[str, float]) -> np.ndarray:
    experiment, names = problem.experiments[e], problem.model.outputs
    columns = []
    for name in names:
        given = given_std(experiment, name) if name in experiment.outputs else np.ones(1)
        columns.append(np.full(1, noise_std[name]) if given is None else given)
    constant = all(np.all(c == c[0]) for c in columns)
    rows = 1 if constant else experiment.samples
    return np.column_stack([np.broadcast_to(c[:1] if constant else c, (rows,)) for c in columns]) ** 2


def _record(method: FilterMethod, problem: Problem, e: int, start: np.ndarray, noise_std: Mapping[str, float]
            ) -> FilterExperiment:
    model, experiment = problem.model, problem.experiments[e]
    _, x0 = problem.parameters_and_initial_state(start, e)
    return FilterExperiment(experiment.name, *signals_of(experiment, model.inputs, model.outputs),
                            _variances(problem, e, noise_std), float(experiment.start or 0.0), x0,
                            _state_std(method, problem, e, x0),
                            np.array([float(experiment.hold[name] == "linear") for name in model.inputs]))


def signals_of(experiment: Experiment, inputs: tuple[str, ...], outputs: tuple[str, ...]
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time, inputs (samples, inputs) and outputs (samples, outputs) as the kernels read them; NaN where not measured."""
    missing = np.full(experiment.samples, np.nan)
    columns = [experiment.inputs[n] for n in inputs], [experiment.outputs.get(n, missing) for n in outputs]
    u, y = (np.ascontiguousarray(np.array(part, float).reshape(len(part), experiment.samples).T) for part in columns)
    return np.ascontiguousarray(experiment.time, float), u, y


def _state_std(method: FilterMethod, problem: Problem, e: int, x0: np.ndarray) -> np.ndarray:
    """Given, none where the state is known, the prior's, or the typical size of the state, less within bounds."""
    model, experiment, binding = problem.model, problem.experiments[e], problem.bindings[e]
    time = np.asarray(experiment.time)
    states = states_from_measurements(model, experiment, np.linspace(time[0], time[-1], TYPICAL_SIZE_SAMPLES))
    readings = np.abs(np.vstack([states, x0]))
    typical = np.max(np.where(np.isnan(readings), 0.0, readings), axis=0)
    std = np.where(typical > 0, typical, 1.0)
    for i, state in enumerate(model.states):
        unknown = binding.initial_unknown[i]
        if state in method.initial_std:
            std[i] = method.initial_std[state]
        elif unknown < 0:
            std[i] = 0.0
        elif (prior := problem.unknowns[unknown].prior) is not None:
            std[i] = prior.std
        else:
            std[i] = min(std[i], BOUNDED_STD * (problem.unknowns[unknown].upper - problem.unknowns[unknown].lower))
    return std
