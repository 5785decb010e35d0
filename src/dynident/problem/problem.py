"""Problem: a model, records and unknowns, checked once and completely."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.constraint import Constraint, constraint_from
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, Gaussian, Noise, stated_bound
from dynident.problem.parameter import InitialState, Parameter, Prior, is_number
from dynident.problem.unit_checks import unit_faults, unknown_unit_faults

MOST_LISTED = 30  # names in one error
LARGEST_BOUND = float(np.finfo(float).max) / 2  # a larger one is none: the distance of two of them is no number


@dataclass(frozen=True)
class Unknown:
    """One number to be found: a parameter or an initial state, for all experiments or for some."""

    name: str  # as printed: "M", "Fc[run 2]", "q(0)"
    quantity: str  # the model's parameter or state
    initial: bool  # an initial state, not a parameter
    experiments: tuple[int, ...]
    start: float | None  # None: taken from the measurements
    lower: float
    upper: float
    scale: float | None
    log: bool
    unit: str
    prior: Prior | None


@dataclass(frozen=True, eq=False)
class ParameterMapping:
    """Where the parameters and the initial states of one experiment come from: a held value or an unknown."""

    parameters: np.ndarray  # held values, NaN where unknown
    parameter_unknown: np.ndarray  # index of the unknown, -1 where held
    initial: np.ndarray
    initial_unknown: np.ndarray


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, its records and its unknowns, checked once and completely; what every method must respect.

    See the manual, start.

    Parameters
    ----------
    model : EquationModel or FmuModel
        With inputs and outputs that the records hold.
    experiments : sequence of Experiment
        The records; they are fitted together.
    parameters : sequence of Parameter or InitialState, default ()
        What is unknown or fixed. Each parameter of the model must be declared; an initial state that nothing is said about is
        free, one per experiment.
    constraints : sequence of str, default ()
        Equalities and inequalities between parameters ("m1 + m2 == 29", "Jx <= Jy + Jz") and bounds of states
        ("-1 <= v <= 1").
    process_noise : mapping of str to Gaussian, optional
        What disturbs the model, by state or input; `Gaussian()` where its standard deviation is to be estimated. Of a state the
        standard deviation that white noise adds in one second (it grows with the root of time); of an input that of a
        disturbance behind it, in the input's unit, held over a sample and independent of the next.

    Attributes
    ----------
    unknowns : tuple of Unknown
        What is estimated, in the order of every vector and matrix.
    bindings : tuple of ParameterMapping
        Per experiment, where its parameters and initial states come from.

    Raises
    ------
    ProblemError
        With everything that is wrong, before any computation.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> problem.names
    ('k', 'x(0)')
    """

    model: Any  # a Model
    experiments: Sequence[Experiment]
    parameters: Sequence[Parameter | InitialState] = ()
    constraints: Sequence[Any] = ()  # "m1 + m2 == 29", "Jx <= Jy + Jz", "-1 <= v <= 1"
    process_noise: Mapping[str, Gaussian] = field(default_factory=dict)  # by state or input: what disturbs the model
    unknowns: tuple[Unknown, ...] = field(init=False, repr=False)
    bindings: tuple[ParameterMapping, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        experiments = (self.experiments,) if isinstance(self.experiments, Experiment) else tuple(self.experiments)
        parameters = tuple(self.parameters)
        faults = _type_faults(self.model, experiments, parameters)
        if faults:
            raise ProblemError(faults)
        experiments = _named(experiments)
        parameters = tuple(_completed(self.model, p) for p in parameters)
        faults += _experiment_faults(self.model, experiments)
        faults += _parameter_faults(self.model, experiments, parameters)
        constraints = _constraints(self.model, parameters, self.constraints, faults)
        faults += _process_noise_faults(self.model, experiments, self.process_noise)
        if faults:
            raise ProblemError(faults)
        unknowns, bindings = _bind(self.model, experiments, parameters)
        for key, value in {"experiments": experiments, "parameters": parameters, "constraints": constraints,
                           "unknowns": unknowns, "process_noise": dict(self.process_noise),
                           "bindings": bindings}.items():
            object.__setattr__(self, key, value)
        if self.too_few_values and any(stated_bound(noise) is None for e in experiments for noise in e.noise.values()):
            raise ProblemError(self.too_few_values)  # bounds leave a set, however few the values

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknowns, in the order of every vector and matrix that speaks of them."""
        return tuple(u.name for u in self.unknowns)

    @property
    def measured_values(self) -> int:
        """Number of measured values in all records, missing ones left out."""
        return sum(int(np.sum(np.isfinite(y))) for e in self.experiments for y in e.outputs.values())

    @property
    def too_few_values(self) -> str:
        """A sentence where there are fewer measured values than unknowns, which leaves no single answer; else nothing."""
        if self.measured_values + sum(u.prior is not None for u in self.unknowns) >= len(self.unknowns):
            return ""
        return (f"{len(self.unknowns)} unknowns ({', '.join(self.names)}) cannot be found from {self.measured_values} measured "
                "values. Fix some of them, or measure more.")

    def parameters_and_initial_state(self, unknowns: np.ndarray, experiment: int) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and initial state of one experiment, from values of the unknowns in `names` order."""
        b = self.bindings[experiment]
        p, x0 = b.parameters.copy(), b.initial.copy()
        p[b.parameter_unknown >= 0] = unknowns[b.parameter_unknown[b.parameter_unknown >= 0]]
        x0[b.initial_unknown >= 0] = unknowns[b.initial_unknown[b.initial_unknown >= 0]]
        return p, x0

    def fixed_parameters(self) -> dict[str, float]:
        """Parameters that are not estimated, with their values."""
        return {p.name: float(p.start) for p in self.parameters  # type: ignore[arg-type]  # a held one has a value
                if isinstance(p, Parameter) and not p.free}

    def fixed_values(self) -> dict[str, float]:
        """Parameters and initial states that are not estimated, by printed name."""
        held = {p.name: float(p.start or 0.0) for p in self.parameters if isinstance(p, Parameter) and not p.free}
        silent = set(self.model.nominal_values) - {p.state for p in self.parameters if isinstance(p, InitialState)}
        for experiment, b in zip(self.experiments, self.bindings, strict=True):
            for i, state in enumerate(self.model.states):
                if b.initial_unknown[i] < 0 and (state not in silent or state in experiment.initial):
                    held[_printed(f"{state}(0)", experiment.name, len(self.experiments) > 1)] = float(b.initial[i])
        return held

    def noise_of(self, output: str) -> tuple[Noise, ...]:
        """What is assumed of the errors of one output, per experiment that measures it."""
        return tuple(e.noise[output] for e in self.experiments if output in e.noise)

    def replace(self, **fields: Any) -> Problem:
        """A copy with other `model`, `experiments`, `parameters`, `constraints` or `process_noise`."""
        return replace(self, **fields)

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """Inputs of which an experiment says that their sensor errs."""
        return tuple(name for name in self.model.inputs if any(name in e.input_noise for e in self.experiments))

    @property
    def filtered_outputs(self) -> tuple[str, ...]:
        """Outputs that went through a filter in some record; the model's go through it alike."""
        return tuple(dict.fromkeys(name for experiment in self.experiments for name in experiment.filters))

    def with_output_noise_only(self) -> Problem:
        """The problem of output error: inputs known exactly, a model that nothing disturbs."""
        if not self.process_noise and not self.noisy_inputs:
            return self
        return self.replace(experiments=[e.without_input_noise() for e in self.experiments], process_noise={})

    def content_hash(self) -> str:
        """A hash of everything the answer depends on: model, data, unknowns."""
        digest = hashlib.sha256(json.dumps(self.model.definition(), sort_keys=True).encode())
        digest.update(repr((self.parameters, [c.text for c in self.constraints])).encode())
        for name, disturbance in sorted(self.process_noise.items()):
            digest.update(f"{name} disturbed {disturbance.std}".encode())
        for e in self.experiments:
            digest.update(repr((e.name, e.start, sorted(e.hold.items()), sorted(e.initial.items()))).encode())
            digest.update(e.mode.encode())
            digest.update(repr(sorted(e.before.items())).encode() if e.before else b"")
            digest.update(np.asarray(e.time_radius, float).tobytes() if np.any(e.time_radius) else b"")
            digest.update(repr(sorted(e.filters.items())).encode() if e.filters else b"")
            for columns in ({"time": e.time}, e.inputs, e.outputs):
                for name in sorted(columns):
                    digest.update(name.encode())
                    digest.update(np.ascontiguousarray(columns[name]).tobytes())
            for name, noise in sorted(e.noise.items()):
                level = noise.radius if isinstance(noise, Bounded) else noise.std
                digest.update(f"{name}{type(noise).__name__}".encode())
                digest.update(b"estimated" if level is None else np.asarray(level, float).tobytes())
                if isinstance(noise, Gaussian) and noise.bound is not None:
                    digest.update(f"within {float(noise.bound)!r}".encode())
        return digest.hexdigest()


def _printed(quantity: str, experiment: str, several: bool) -> str:
    return f"{quantity}[{experiment}]" if several else quantity


def _type_faults(model: Any, experiments: tuple, parameters: tuple) -> list[str]:
    faults = []
    if not isinstance(model, Model):
        faults.append(f"the model is a {type(model).__name__}; use EquationModel(...) or another model of dynident.")
    if not experiments:
        faults.append("there is no experiment; give at least one.")
    faults += [f"experiment {i + 1} is a {type(e).__name__}, not an Experiment; use Experiment(...) or read_csv(...)."
               for i, e in enumerate(experiments) if not isinstance(e, Experiment)]
    faults += [f"'{p}' is not a Parameter or InitialState."
               for p in parameters if not isinstance(p, (Parameter, InitialState))]
    return faults


def _completed(model: Model, it: Parameter | InitialState) -> Parameter | InitialState:
    """A declaration with what it leaves open taken from the model, where that brings it along.

    Tools write the largest number that there is for 'no bound'.
    """
    given = model.nominal_values.get(it.name if isinstance(it, Parameter) else it.state)
    if given is not None:
        it = replace(it, start=given.start if it.start is None else it.start, unit=it.unit or given.unit,
                     lower=given.lower if it.lower == -np.inf else it.lower,
                     upper=given.upper if it.upper == np.inf else it.upper)
    lower, upper = (math.copysign(math.inf, bound) if is_number(bound) and abs(float(bound)) > LARGEST_BOUND else bound
                    for bound in (it.lower, it.upper))
    return replace(it, lower=lower, upper=upper)


def _named(experiments: tuple[Experiment, ...]) -> tuple[Experiment, ...]:
    def name(i: int, e: Experiment) -> str:
        return e.name or ("experiment" if len(experiments) == 1 else f"experiment {i + 1}")

    return tuple(e if e.name else e.with_name(name(i, e)) for i, e in enumerate(experiments))


def _experiment_faults(model: Model, experiments: tuple[Experiment, ...]) -> list[str]:
    faults = [f"{n} experiments are called '{name}'; give each its own name."
              for name, n in Counter(e.name for e in experiments).items() if n > 1]
    for e in experiments:
        for name in model.inputs:
            if name not in e.inputs:
                faults.append(f"{e.label}: the model's input '{name}' is not in the record.{did_you_mean(name, e.inputs)}")
        for name in e.inputs:
            if name not in model.inputs:
                faults.append(f"{e.label}: '{name}' is not an input of the model.{did_you_mean(name, model.inputs)}")
        for name in e.outputs:
            if name not in model.outputs:
                faults.append(f"{e.label}: '{name}' is not an output of the model.{did_you_mean(name, model.outputs)}")
        modes = [name for name in model.modes if name]
        if e.mode and e.mode not in modes:
            faults.append(f"{e.label}: the model has no mode '{e.mode}'.{did_you_mean(e.mode, modes)}")
        for name in e.initial:
            if name not in model.states:
                faults.append(f"{e.label}: '{name}' in `initial` is not a state of the model."
                              f"{did_you_mean(name, model.states)}")
    faults += unit_faults(experiments, model)
    if not any(np.any(np.isfinite(y)) for e in experiments for y in e.outputs.values()):
        faults.append("no experiment holds a single measured value; name the measured signals under `outputs`.")
    for name in model.outputs:
        kinds = {type(e.noise[name]) for e in experiments if name in e.noise}
        if kinds == {Gaussian, Bounded}:
            faults.append(f"the errors of '{name}' are Gaussian in one experiment and Bounded in another; "
                          "say one of them in all.")
    return faults


def _process_noise_faults(model: Model, experiments: tuple[Experiment, ...], said: Any) -> list[str]:
    if not isinstance(said, Mapping):
        return [f"process_noise is given by name, as in process_noise={{'v': Gaussian(0.1)}}, not as a {type(said).__name__}."]
    faults = []
    for name, noise in said.items():
        if name not in model.states and name not in model.inputs:
            faults.append(f"process_noise names '{name}', which is neither a state nor an input of the model."
                          f"{did_you_mean(name, [*model.states, *model.inputs])}")
        if not isinstance(noise, Gaussian) or np.ndim(noise.std) or noise.bound is not None:  # type: ignore[arg-type]
            faults.append(f"process_noise of '{name}' must be Gaussian(std) with one number, or Gaussian() where it is to be "
                          f"found; not {noise!r}.")
        if any(name in e.input_noise for e in experiments):
            faults.append(f"'{name}' has noise of its sensor (in an experiment) and a disturbance behind it (process_noise). "
                          "One record cannot tell them apart; say the larger one.")
    return faults


def _parameter_faults(model: Model, experiments: tuple[Experiment, ...],
                      parameters: tuple[Parameter | InitialState, ...]) -> list[str]:
    faults = [fault for p in parameters for fault in p.faults()]
    faults += unknown_unit_faults(parameters, model)
    declared = Counter(p.name for p in parameters if isinstance(p, Parameter))
    initials = Counter(p.state for p in parameters if isinstance(p, InitialState))
    faults += [f"parameter '{n}' is declared {k} times." for n, k in declared.items() if k > 1]
    faults += [f"initial state '{n}' is declared {k} times." for n, k in initials.items() if k > 1]
    faults += [f"parameter '{p.name}' has no start value; give one." for p in parameters
               if isinstance(p, Parameter) and p.start is None and p.name in model.parameters]
    missing = [n for n in model.parameters if n not in declared and n not in model.nominal_values]
    for name in declared:
        if name not in model.parameters:
            near = _close_names(name, missing or model.parameters)
            faults.append(model.why_not_estimable(name) or f"'{name}' is not a parameter of the model.{near}")
    faults += [f"the model's parameter '{n}' has no entry; add Parameter('{n}', start=...) or make it a constant."
               for n in missing]
    for name in initials:
        if name not in model.states:
            faults.append(f"'{name}' is not a state of the model.{did_you_mean(name, model.states)}")
        elif any(name in e.initial for e in experiments):
            both = next(e for e in experiments if name in e.initial)
            faults.append(f"{both.label}: the initial state of '{name}' is given as known, and declared as an unknown "
                          "too; keep one of the two.")
    return faults


def _close_names(name: str, known: Sequence[str]) -> str:
    """A hint that stays short where a model has hundreds of parameters."""
    return did_you_mean(name, known if len(known) <= MOST_LISTED else get_close_matches(name, known, 5, 0.4))


def _constraints(model: Model, parameters: tuple[Parameter | InitialState, ...], given: Sequence[str | Constraint],
                 faults: list[str]) -> tuple[Constraint, ...]:
    """The constraints as data; what cannot be read or names nothing known goes to the faults."""
    from dynident.maths import CONSTANTS, FUNCTIONS  # the words of the grammar; maths knows nothing of problems

    own = {p.name for p in parameters if isinstance(p, Parameter) and not p.shared}
    read = []
    for text in [given] if isinstance(given, str) or hasattr(given, "rel_op") else given:
        if hasattr(text, "rel_op"):  # a relation of SymPy
            text = f"{text.lhs} {text.rel_op} {text.rhs}"  # type: ignore[union-attr]
        try:
            constraint = text if isinstance(text, Constraint) else constraint_from(text)
        except ValueError as reason:
            faults.append(f"constraint '{text}': {reason}.")
            continue
        read.append(constraint)
        for name in sorted(constraint.names() - set(FUNCTIONS) - set(CONSTANTS)):
            if name in own:
                faults.append(f"constraint '{constraint.text}': '{name}' has a value of its own in each experiment; only "
                              "shared parameters can be constrained.")
            elif name not in model.parameters and name not in model.states:
                faults.append(f"constraint '{constraint.text}': '{name}' is neither a parameter nor a state."
                              f"{did_you_mean(name, [*model.parameters, *model.states])}")
        if constraint.of_states(model.states) and constraint.middle not in model.states:
            faults.append(f"constraint '{constraint.text}': of a state only a bound can be asked, such as \"-1 <= v <= 1\".")
    return tuple(read)


def _bind(model: Model, experiments: tuple[Experiment, ...], parameters: tuple[Parameter | InitialState, ...]
          ) -> tuple[tuple[Unknown, ...], tuple[ParameterMapping, ...]]:
    """Give every free quantity its place among the unknowns: parameters first, then initial states."""
    unknowns: list[Unknown] = []
    several = len(experiments) > 1
    bindings = tuple(ParameterMapping(np.full(len(model.parameters), np.nan), np.full(len(model.parameters), -1),
                             np.full(len(model.states), np.nan), np.full(len(model.states), -1)) for _ in experiments)

    def place(it: Parameter | InitialState, quantity: str, where: Sequence[int], initial: bool) -> None:
        groups: list[tuple[int, ...]] = [tuple(where)] if it.shared else [(e,) for e in where]
        names = model.states if initial else model.parameters
        i = names.index(quantity)
        for group in groups:
            if it.free:
                printed = f"{quantity}(0)" if initial else quantity
                if not it.shared:
                    printed = _printed(printed, experiments[group[0]].name, several)
                unknowns.append(Unknown(printed, quantity, initial, group, it.start, it.lower, it.upper, it.scale,
                                        it.log, it.unit, it.prior))
            for e in group:
                held = bindings[e].initial if initial else bindings[e].parameters
                source = bindings[e].initial_unknown if initial else bindings[e].parameter_unknown
                if it.free:
                    source[i] = len(unknowns) - 1
                else:
                    held[i] = it.start

    given = model.nominal_values
    for i, name in enumerate(model.parameters):
        for binding in bindings:
            binding.parameters[i] = given[name].start if name in given else np.nan
    for p in parameters:
        if isinstance(p, Parameter):
            place(p, p.name, range(len(experiments)), initial=False)
    said = {p.state: p for p in parameters if isinstance(p, InitialState)}
    for state in model.states:
        open_in = [e for e, experiment in enumerate(experiments) if state not in experiment.initial]
        for e, experiment in enumerate(experiments):
            if state in experiment.initial:
                bindings[e].initial[model.states.index(state)] = experiment.initial[state]
        if open_in:
            kept = InitialState(state, given[state].start, free=False) if state in given else InitialState(state)
            place(said.get(state, kept), state, open_in, initial=True)
    return tuple(unknowns), bindings


def given_std(experiment: Experiment, output: str) -> np.ndarray | None:
    """The given standard deviation per sample, or None where it is to be estimated."""
    noise: Mapping[str, Noise] = experiment.noise
    level = noise[output]
    if isinstance(level, Bounded) or level.std is None:
        return None
    return np.broadcast_to(np.asarray(level.std, float), (experiment.samples,))
