"""Problem: a model, records and unknowns, checked once and completely."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynident._util import hooks
from dynident._util.contracts import meets
from dynident.errors import ProblemError
from dynident.problem.experiment import Experiment
from dynident.problem.formulas import NoiseOutputs, with_formulas
from dynident.problem.model import FormulaModel, Model, RenamingModel
from dynident.problem.noise import Bounded, Gaussian, LogNormal, Noise, formula_of, is_weighed_by_model, stated_bound
from dynident.problem.parameter import InitialState, Parameter, Prior, is_number
from dynident.problem.problem_checks import (
    experiment_faults,
    parameter_faults,
    process_noise_faults,
    read_constraints,
    type_faults,
)

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
    first_state: Any = None  # where initial states follow from the parameters: a map with `state` and `derivative`

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Parameters that follow an unknown, and which; initial states that do, and which."""
        p, x = (np.flatnonzero(unknown >= 0) for unknown in (self.parameter_unknown, self.initial_unknown))
        return p, self.parameter_unknown[p], x, self.initial_unknown[x]


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, its records and its unknowns, checked once and completely; what every method must respect.

    See the manual, start.

    Parameters
    ----------
    model : EquationModel, FmuModel, RobotModel or SimulatorModel
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
    underdetermined : bool, default False
        Whether there may be more unknowns than measured values, as for `objective`; methods refuse such a problem.

    Attributes
    ----------
    unknowns : tuple of Unknown
        What is estimated, in the order of every vector and matrix.
    bindings : tuple of ParameterMapping
        Per experiment, where its parameters and initial states come from.
    noise_outputs : tuple of mapping of str to str
        Per experiment, the output of the model that is the standard deviation of an output, where that is a formula.

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
    underdetermined: bool = False  # there may be more unknowns than data: for `objective`, no method fits it
    unknowns: tuple[Unknown, ...] = field(init=False, repr=False)
    bindings: tuple[ParameterMapping, ...] = field(init=False, repr=False)
    noise_outputs: tuple[NoiseOutputs, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        experiments = (self.experiments,) if isinstance(self.experiments, Experiment) else tuple(self.experiments)
        parameters = tuple(self.parameters)
        faults = type_faults(self.model, experiments, parameters)
        if faults:
            raise ProblemError(faults)
        experiments = _named(experiments)
        if meets(self.model, RenamingModel):
            experiments = tuple(map(self.model.renamed, experiments))
        declared = [p.name for p in parameters if isinstance(p, Parameter)]
        model, noise_outputs = with_formulas(self.model, experiments, declared, faults)
        parameters = tuple(_completed(model, p) for p in parameters)
        faults += experiment_faults(model, experiments)
        faults += parameter_faults(model, experiments, parameters)
        constraints = read_constraints(model, parameters, self.constraints, faults)
        faults += process_noise_faults(model, experiments, self.process_noise)
        if faults:
            raise ProblemError(faults)
        unknowns, bindings = _map_unknowns(model, experiments, parameters)
        for key, value in {"experiments": experiments, "parameters": parameters, "constraints": constraints,
                           "unknowns": unknowns, "process_noise": dict(self.process_noise), "model": model,
                           "bindings": bindings, "noise_outputs": noise_outputs}.items():
            object.__setattr__(self, key, value)
        if not self.underdetermined and self.too_few_values and any(
                stated_bound(noise) is None for e in experiments for noise in e.noise.values()):
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

    def parameters_at(self, unknowns: np.ndarray, experiment: int) -> np.ndarray:
        """Parameters of one experiment, from values of the unknowns in `names` order."""
        b = self.bindings[experiment]
        place, unknown, _, _ = b.places
        p = b.parameters.copy()
        p[place] = unknowns[unknown]
        return p

    def parameters_and_initial_state(self, unknowns: np.ndarray, experiment: int) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and initial state of one experiment, from values of the unknowns in `names` order."""
        b = self.bindings[experiment]
        _, _, place, unknown = b.places
        p, x0 = self.parameters_at(unknowns, experiment), b.initial.copy()
        x0[place] = unknowns[unknown]
        return p, x0 if b.first_state is None else b.first_state.state(p, x0)

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
                if b.initial_unknown[i] < 0 and np.isfinite(b.initial[i]) and (
                        state not in silent or state in experiment.initial):
                    held[_printed(f"{state}(0)", experiment.name, len(self.experiments) > 1)] = float(b.initial[i])
        return held

    def noise_of(self, output: str) -> tuple[Noise, ...]:
        """What is assumed of the errors of one output, per experiment that measures it."""
        return tuple(e.noise[output] for e in self.experiments if output in e.noise)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth a word about the problem as it is stated: constants that nothing uses."""
        unused = [f"{e.label}: the constant '{name}' is used in no equation and no formula."
                  for e in self.experiments for name in e.constants if name not in self.model.parameters]
        return (*(self.model.notes if meets(self.model, FormulaModel) else ()), *unused)

    @property
    def weighs_by_model(self) -> bool:
        """Whether weights of residuals follow from the model: formulas of standard deviations, or log-normal errors."""
        return any(is_weighed_by_model(noise) for e in self.experiments for noise in e.noise.values())

    @property
    def has_noise_formulas(self) -> bool:
        """Whether a standard deviation is a formula, so that its logarithm is part of the objective."""
        return any(self.noise_outputs)

    def with_noise_at(self, sizes: Sequence[Mapping[str, np.ndarray]]) -> Problem:
        """The same problem with what formulas of standard deviations gave at some values, for statistics and pictures."""
        def known(noise: Noise, size: np.ndarray | None) -> Noise:
            return noise if size is None or isinstance(noise, Bounded) else replace(noise, evaluated=size)

        return self.replace(experiments=[
            replace(e, noise={name: known(noise, own.get(name)) for name, noise in e.noise.items()})
            for e, own in zip(self.experiments, sizes, strict=True)])

    def with_noise_of(self, fitted: Problem) -> Problem:
        """The same problem with what a fit of it found for formulas of standard deviations."""
        if not self.weighs_by_model:
            return self
        return self.with_noise_at([{name: noise.evaluated for name, noise in e.noise.items() if not isinstance(noise, Bounded)}
                                   for e in fitted.experiments])

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
            if e.constants or e.group or e.steady:
                digest.update(repr((sorted(e.constants.items()), e.group, e.steady)).encode())
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
                digest.update(b"estimated" if level is None else level.encode() if isinstance(level, str)
                              else np.asarray(level, float).tobytes())
                if isinstance(noise, Gaussian) and noise.bound is not None:
                    digest.update(f"within {float(noise.bound)!r}".encode())
        return digest.hexdigest()


def _printed(quantity: str, experiment: str, several: bool) -> str:
    return f"{quantity}[{experiment}]" if several else quantity


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


def _map_unknowns(model: Model, experiments: tuple[Experiment, ...], parameters: tuple[Parameter | InitialState, ...]
          ) -> tuple[tuple[Unknown, ...], tuple[ParameterMapping, ...]]:
    """Give every free quantity its place among the unknowns: parameters first, then initial states."""
    unknowns: list[Unknown] = []
    several = len(experiments) > 1
    bindings = tuple(_known_values(model, experiment) for experiment in experiments)

    def place(it: Parameter | InitialState, quantity: str, where: Sequence[int], initial: bool) -> None:
        names = model.states if initial else model.parameters
        i = names.index(quantity)
        for label, group in _sharing(it, experiments, where).items():
            if it.free:
                printed = f"{quantity}(0)" if initial else quantity
                if not it.common:
                    printed = _printed(printed, label, several)
                unknowns.append(Unknown(printed, quantity, initial, group, it.start, it.lower, it.upper, it.scale,
                                        it.log, it.unit, it.prior))
            for e in group:
                held = bindings[e].initial if initial else bindings[e].parameters
                source = bindings[e].initial_unknown if initial else bindings[e].parameter_unknown
                if it.free:
                    source[i] = len(unknowns) - 1
                else:
                    held[i] = it.start

    for p in parameters:
        if isinstance(p, Parameter):
            place(p, p.name, [e for e, run in enumerate(experiments) if p.name not in run.constants], initial=False)
    stated = {p.state: p for p in parameters if isinstance(p, InitialState)}
    given = model.nominal_values
    for state in model.states:
        open_in = [e for e, run in enumerate(experiments) if state not in run.initial and run.steady is None]
        if open_in:
            nominal = InitialState(state, given[state].start, free=False) if state in given else InitialState(state)
            place(stated.get(state, nominal), state, open_in, initial=True)
    return tuple(unknowns), bindings


def _known_values(model: Model, experiment: Experiment) -> ParameterMapping:
    """Numbers that model and experiment state: nominal values, constants, initial states; nan, and no unknown, elsewhere."""
    parameters = {name: value.start for name, value in model.nominal_values.items()} | dict(experiment.constants)
    initial = {name: value for name, value in experiment.initial.items() if not isinstance(value, str)}
    return ParameterMapping(np.array([parameters.get(name, np.nan) for name in model.parameters], float),
                            np.full(len(model.parameters), -1),
                            np.array([initial.get(name, np.nan) for name in model.states], float),
                            np.full(len(model.states), -1), first_state_of(model, experiment))


def first_state_of(model: Model, experiment: Experiment) -> Any:
    """How initial states follow from the parameters; None where none does."""
    follows = experiment.steady is not None or any(isinstance(value, str) for value in experiment.initial.values())
    return hooks.call("first_state", model, experiment) if follows else None


def _sharing(it: Parameter | InitialState, experiments: Sequence[Experiment], where: Sequence[int]
             ) -> dict[str, tuple[int, ...]]:
    """Which experiments have one value, by the name that tells it from others."""
    if it.common:
        return {"": tuple(where)} if where else {}
    if not (isinstance(it, Parameter) and it.per == "group"):
        return {experiments[e].name: (e,) for e in where}
    return {group: tuple(e for e in where if experiments[e].group == group)
            for group in dict.fromkeys(experiments[e].group for e in where)}


def given_std(experiment: Experiment, output: str) -> np.ndarray | None:
    """The given standard deviation per sample, or None where it is to be estimated.

    Of a formula, and of log-normal errors, what they are at an estimate; None before there is one.
    """
    noise: Mapping[str, Noise] = experiment.noise
    level = noise[output]
    if isinstance(level, Bounded):
        return None
    std = level.evaluated if isinstance(level, LogNormal) or isinstance(level.std, str) else level.std
    return None if std is None else np.broadcast_to(np.asarray(std, float), (experiment.samples,))


def stated_std(experiment: Experiment, output: str) -> np.ndarray | None:
    """As `given_std`, but None for formulas too: what a fit has made as large as its residuals is no measure of them."""
    return None if formula_of(experiment.noise[output]) is not None else given_std(experiment, output)
