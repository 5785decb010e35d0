"""Argument checks: what do the arguments of a design ask for, or what is wrong with them, all of it at once?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from dynident.design.constraints import PathConstraint, parse_constraints
from dynident.design.criteria import CRITERIA, Criterion, Selective, d_optimal
from dynident.design.guard_constraints import ModeConstraint, restrict_to_mode
from dynident.design.signals import Chirp, Signal
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.methods.options import is_whole
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem

ROBUST = ("", "average", "worst")

Read = TypeVar("Read")


@dataclass(frozen=True)
class DesignOptions:
    """What `design_input` takes beside what is known, signal, criterion and constraints; as its docstring says."""

    duration: float | tuple[float, float] | None = None
    sample_time: float | None = None
    initial: Mapping[str, float] | None = None
    parameters: Sequence[str] = ()
    records: int = 1
    robust: str = ""
    box: Mapping[str, tuple[float, float]] | None = None
    samples: int = 8
    use_records: bool = True
    amplitude: Mapping[str, float] | float | None = None
    mode: str = ""
    starts: int = 4
    seed: int = 0
    max_iterations: int = 200
    sample_budget: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters of interest; a single name is a list of one."""
        return (self.parameters,) if isinstance(self.parameters, str) else tuple(self.parameters)


@dataclass(frozen=True, eq=False)
class ParsedDesign:
    """Arguments in which nothing is wrong that can be seen without simulating."""

    mode: ModeConstraint
    signals: Mapping[str, Signal]
    criterion: Criterion
    constraints: tuple[PathConstraint, ...]
    options: DesignOptions = field(default_factory=DesignOptions)


def parse_arguments(known: Problem | Estimate, signal: Signal | Mapping[str, Signal], criterion: Criterion | str | None,
                    constraints: Sequence[str], terminal_constraints: Sequence[str], options: DesignOptions) -> ParsedDesign:
    """What the arguments of `design_input` say, or all that is wrong with them that can be seen without any fit."""
    mode = restrict_to_mode(known, options.mode)
    model = mode.problem.model
    if not isinstance(model, EquationModel):
        raise NotSupported(f"design_input needs a model with equations, not {type(model).__name__}.")
    if model.algebraic_system is not None and not model.algebraic_system.affine:
        raise NotSupported(f"design_input takes algebraic variables that enter linearly, which can be eliminated; "
                           f"'{model.algebraic[0]}' does not.")
    faults = [*option_faults(options), *_amplitude_faults(model.inputs, options.amplitude),
              *_name_faults(mode.problem, options.names)]

    def collect(part: Callable[..., Read], *arguments: Any) -> Read | None:
        try:
            return part(*arguments)
        except ProblemError as error:
            faults.extend(error.faults)
            return None

    chosen = collect(_criterion, criterion)
    signals = collect(_signals, model, signal)
    read = collect(parse_constraints, model, [constraints] if isinstance(constraints, str) else constraints,
                   terminal_constraints)
    if faults or chosen is None or signals is None or read is None:
        raise ProblemError(faults)
    if isinstance(chosen, Selective) and isinstance(options.duration, tuple):
        raise NotSupported("the selective cost is an integral over a fixed time; give one duration.")
    if options.records > 1 and isinstance(options.duration, tuple):
        raise NotSupported("several records at once need one fixed duration.")
    if options.sample_budget is not None and (isinstance(chosen, Selective) or isinstance(options.duration, tuple)):
        raise NotSupported("sample_budget chooses samples by a criterion of the covariance, in a record of one fixed duration.")
    return ParsedDesign(mode, signals, chosen, (*mode.constraints, *read), options)


def option_faults(options: DesignOptions) -> list[str]:
    """What is wrong with the options by themselves."""
    faults = [f"{name} = {value!r}; give a whole number from 1 on." for name, value in (
        ("records", options.records), ("samples", options.samples), ("starts", options.starts),
        ("max_iterations", options.max_iterations)) if not is_whole(value) or value < 1]
    if options.sample_budget is not None and (not is_whole(options.sample_budget) or options.sample_budget < 1):
        faults.append(f"sample_budget = {options.sample_budget!r}; give how many samples may be measured, from 1 on.")
    if not is_whole(options.seed) or options.seed < 0:
        faults.append(f"seed = {options.seed!r}; give a whole number from 0 on.")
    if options.robust not in ROBUST:
        faults.append(f"robust = {options.robust!r}; use \"average\", \"worst\" or nothing.")
    return [*faults, *_time_faults(options.duration, options.sample_time), *_box_faults(options.box or {})]


def _time_faults(duration: Any, sample_time: Any) -> list[str]:
    faults = []
    if sample_time is not None and not _positive(sample_time):
        faults.append(f"sample_time = {sample_time!r}; give a positive number of seconds.")
    pair = isinstance(duration, tuple)
    if pair and not (len(duration) == 2 and all(map(_positive, duration)) and duration[0] <= duration[1]):
        faults.append(f"duration = {duration!r}; give the shortest and the longest time, both positive, the shorter one first.")
    if not pair and duration is not None and not _positive(duration):
        faults.append(f"duration = {duration!r}; give a positive number of seconds, or a pair of them.")
    return faults


def _box_faults(box: Any) -> list[str]:
    if not isinstance(box, Mapping):
        return [f"box = {box!r}; give a table from parameter to (low, high)."]
    return [f"box of '{name}' is {ends!r}; give two finite numbers, (low, high), the lower one first."
            for name, ends in box.items()
            if not (isinstance(ends, (tuple, list)) and len(ends) == 2 and all(map(_number, ends)) and ends[0] <= ends[1])]


def _amplitude_faults(inputs: Sequence[str], amplitude: Any) -> list[str]:
    given = amplitude if isinstance(amplitude, Mapping) else {} if amplitude is None else {"": amplitude}
    return [f"amplitude names '{name}', which is not an input.{did_you_mean(name, inputs)}" for name in given
            if name and name not in inputs] + [
        f"amplitude{f' of {name}' * bool(name)} is {value!r}; give a positive number." for name, value in given.items()
        if not _positive(value)]


def _name_faults(problem: Problem, names: Sequence[str]) -> list[str]:
    quantities = {*problem.model.parameters, *problem.model.states}  # in which record x(0) stands is not known yet
    return [f"parameters names '{name}', which is not an unknown of the problem.{did_you_mean(str(name), problem.names)}"
            for name in names if str(name).partition("(")[0].partition("[")[0] not in quantities]


def _criterion(criterion: Criterion | str | None) -> Criterion:
    if criterion is None:
        return d_optimal()
    if isinstance(criterion, Criterion):
        return criterion
    if not isinstance(criterion, str):
        raise ProblemError(f"criterion = {criterion!r}; use one of {', '.join(CRITERIA)}, or an object of di.criteria.")
    kind, _, name = criterion.partition(":")
    if kind in CRITERIA and (kind == "std") != bool(name.strip()):
        raise ProblemError(f"criterion = '{criterion}'; " + (
            "name the parameter whose standard deviation is meant, as in \"std:M\"." if kind == "std" else
            f"{kind} speaks of all wanted parameters. Write \"{kind}\", and name them with parameters=[...]."))
    if kind not in CRITERIA:
        raise ProblemError(f"There is no criterion '{criterion}'.{did_you_mean(kind, CRITERIA)} Write \"std:M\" for "
                           "the standard deviation of M.")
    return CRITERIA[kind](*([name.strip()] if name else []))


def _signals(model: EquationModel, signal: Signal | Mapping[str, Signal]) -> dict[str, Signal]:
    if not model.inputs:
        raise ProblemError("The model has no inputs, so there is nothing to design.")
    given = dict(signal) if isinstance(signal, Mapping) else dict.fromkeys(model.inputs, signal)
    faults = [f"'{name}' is not an input of the model.{did_you_mean(name, model.inputs)}" for name in given
              if name not in model.inputs]
    faults += [f"the input '{name}' has no signal; give one, or Given(value) to fix it." for name in model.inputs
               if name not in given]
    faults += [f"the signal of '{name}' is {s!r}; use one of those in di.signals."
               for name, s in given.items() if not isinstance(s, Signal)]
    if faults:
        raise ProblemError(faults)
    return {name: given[name] for name in model.inputs}


def signal_faults(signals: Mapping[str, Signal], samples: int, step: float) -> list[str]:
    """Of shapes that are finer than the samples they are made of."""
    faults = [f"the signal of '{name}' has {len(signal.names)} coefficients, but a record of {(samples - 1) * step:g} s with a "
              f"sample every {step:g} s has {samples} samples. Give it fewer pieces, or sample faster (sample_time)."
              for name, signal in signals.items() if len(signal.names) > samples]
    nyquist = 1 / (2 * step)  # Hz; above it a fast sine looks like a slow one
    faults += [f"the chirp of '{name}' reaches {signal.highest:g} Hz, but a sample every {step:g} s shows {nyquist:g} Hz at "
               "the most. Lower it, or sample faster (sample_time)."
               for name, signal in signals.items() if isinstance(signal, Chirp) and signal.highest > nyquist]
    if not any(signal.names for signal in signals.values()):
        faults.append("every input is given, so there is nothing to design. Give one of them a shape of di.signals.")
    return faults


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _positive(value: Any) -> bool:
    return _number(value) and value > 0
