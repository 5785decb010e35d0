"""Problem checks: what is wrong with a model, records and unknowns that are to be one problem, their units included? Each fault
is a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from dynident._util.contracts import meets
from dynident._util.expressions import is_expression, without_expression
from dynident.errors import did_you_mean
from dynident.problem.constraint import Constraint, constraint_from
from dynident.problem.experiment import Experiment
from dynident.problem.model import FormulaModel, Model, RenamingModel
from dynident.problem.noise import Bounded, Gaussian, formula_of
from dynident.problem.parameter import InitialState, Parameter
from dynident.tolerances import LARGEST_SIGNAL, SMALLEST_SIGNAL
from dynident.units import conversion

MOST_NAMES_LISTED = 30  # names in one error
NO_INPUTS = " Give it with the record, as inputs={name: values}."


def type_faults(model: Any, experiments: tuple, parameters: tuple) -> list[str]:
    faults = []
    if not meets(model, Model):
        faults.append(f"the model is a {type(model).__name__}; use EquationModel(...) or another model of dynident.")
    if not experiments:
        faults.append("there is no experiment; give at least one.")
    faults += [f"experiment {i + 1} is a {type(e).__name__}, not an Experiment; use Experiment(...) or read_csv(...)."
               for i, e in enumerate(experiments) if not isinstance(e, Experiment)]
    faults += [f"'{p}' is not a Parameter or InitialState."
               for p in parameters if not isinstance(p, (Parameter, InitialState))]
    return faults


def experiment_faults(model: Model, experiments: tuple[Experiment, ...]) -> list[str]:
    faults = [f"{n} experiments are called '{name}'; give each its own name."
              for name, n in Counter(e.name for e in experiments).items() if n > 1]
    beside = model.commands if meets(model, RenamingModel) else ()
    for e in experiments:
        for name in model.inputs:
            if name not in e.inputs:
                known = did_you_mean(name, e.inputs) or NO_INPUTS
                faults.append(f"{e.label}: the model's input '{name}' is not in the record.{known}")
        for name in e.inputs:
            if name not in (*model.inputs, *beside):
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
        faults += _condition_faults(model, e)
        if _not_plain(model) and np.any(repeated := np.diff(e.time) == 0):
            faults.append(f"{e.label}: time repeats at sample {int(np.argmax(repeated)) + 1}, which models with modes, with "
                          "dead times and in discrete time do not take; give each repeat as an experiment of its own.")
    faults += unit_faults(experiments, model) + _size_faults(experiments)
    if not any(np.any(np.isfinite(y)) for e in experiments for y in e.outputs.values()):
        faults.append("no experiment holds a single measured value; name the measured signals under `outputs`.")
    for name in model.outputs:
        kinds = {type(e.noise[name]) for e in experiments if name in e.noise}
        if Bounded in kinds and len(kinds) > 1:
            other = "Gaussian" if Gaussian in kinds else "LogNormal"
            faults.append(f"the errors of '{name}' are {other} in one experiment and Bounded in another; "
                          "say one of them in all.")
    return faults


def _size_faults(experiments: tuple[Experiment, ...]) -> list[str]:
    """Signals whose sums of squares no floating point number holds; small ones may be so beside a standard deviation."""
    faults = []
    for name in dict.fromkeys(name for e in experiments for name in e.outputs):
        sizes = {e: float(np.nanmax(np.abs(y), initial=0.0, where=np.isfinite(y)))
                 for e in experiments if (y := np.asarray(e.outputs.get(name, ()), float)).size}
        given = any(getattr(e.noise.get(name), "std", None) is not None for e in sizes)
        largest = max(sizes, key=lambda e: sizes[e])
        if sizes[largest] > LARGEST_SIGNAL or (0 < sizes[largest] < SMALLEST_SIGNAL and not given):
            faults.append(f"{largest.label}: '{name}' is {sizes[largest]:.1e} at its largest, whose square cannot be computed "
                          "with; state it in another unit, so that its values lie nearer to 1.")
    return faults


def _condition_faults(model: Model, e: Experiment) -> list[str]:
    """What is wrong with an experiment's constants, and with its state of rest."""
    inside: Mapping[str, float] = model.constants if meets(model, FormulaModel) else {}
    faults = [f"{e.label}: '{name}' is a constant of the model ({inside[name]:g}) and of the experiment; remove it from the "
              "model's `constants`, so that each experiment gives its own." for name in e.constants if name in inside]
    faults += [f"{e.label}: '{name}' is a constant of the experiment, but {kind} of the model; choose another name."
               for kind, names in (("a state", model.states), ("an input", model.inputs))
               for name in e.constants if name in names]
    if e.steady is None:
        return faults
    faults += [f"{e.label}: '{name}' begins on its way to rest, but is not a state of the model."
               f"{did_you_mean(name, model.states)}" for name in e.steady.initial if name not in model.states]
    faults += [f"{e.label}: the constant '{name}' on the way to rest is not one of the experiment; give it there too."
               for name in e.steady.constants if name not in e.constants]
    if not isinstance(model, FormulaModel) or _not_plain(model):
        faults.append(f"{e.label}: a state of rest is found for models of differential equations without modes and dead times; "
                      "give the initial states as numbers, or leave them to be estimated.")
    return faults


def _not_plain(model: Model) -> bool:
    """Modes, dead times or discrete time."""
    return bool(model.hybrid or (meets(model, FormulaModel) and (model.delays or model.sample_time)))


def process_noise_faults(model: Model, experiments: tuple[Experiment, ...], said: Any) -> list[str]:
    if not isinstance(said, Mapping):
        return [f"process_noise is given by name, as in process_noise={{'v': Gaussian(0.1)}}, not as a {type(said).__name__}."]
    faults = []
    for name, noise in said.items():
        if name not in model.states and name not in model.inputs:
            faults.append(f"process_noise names '{name}', which is neither a state nor an input of the model."
                          f"{did_you_mean(name, [*model.states, *model.inputs])}")
        if not isinstance(noise, Gaussian) or np.ndim(noise.std) or noise.bound is not None or formula_of(noise):
            faults.append(f"process_noise of '{name}' must be Gaussian(std) with one number, or Gaussian() where it is to be "
                          f"found; not {noise!r}.")
        if any(name in e.input_noise for e in experiments):
            faults.append(f"'{name}' has noise of its sensor (in an experiment) and a disturbance behind it (process_noise). "
                          "One record cannot tell them apart; say the larger one.")
    return faults


def parameter_faults(model: Model, experiments: tuple[Experiment, ...],
                      parameters: tuple[Parameter | InitialState, ...]) -> list[str]:
    faults = [fault for p in parameters for fault in p.faults()]
    faults += unknown_unit_faults(parameters, model)
    declared = Counter(p.name for p in parameters if isinstance(p, Parameter))
    initials = Counter(p.state for p in parameters if isinstance(p, InitialState))
    faults += [f"parameter '{n}' is declared {k} times. Keep one." for n, k in declared.items() if k > 1]
    faults += [f"initial state '{n}' is declared {k} times. Keep one." for n, k in initials.items() if k > 1]
    faults += [f"parameter '{p.name}' has no start value; give one." for p in parameters
               if isinstance(p, Parameter) and p.start is None and p.name in model.parameters]
    given_in = Counter(name for e in experiments for name in e.constants)
    missing = [n for n in model.parameters if n not in declared and n not in model.nominal_values
               and given_in[n] < len(experiments)]
    faults += [f"parameter '{p.name}' is a constant of every experiment, and declared as an unknown too; keep one of the two."
               for p in parameters if isinstance(p, Parameter) and p.free and given_in[p.name] == len(experiments)]
    faults += [f"{e.label}: parameter '{p.name}' has one value per group, but the experiment says no `group`."
               for p in parameters if isinstance(p, Parameter) and p.per == "group" for e in experiments if not e.group]
    for name in declared:
        if name not in model.parameters:
            near = _close_names(name, missing or model.parameters)
            faults.append(model.why_not_estimable(name) or f"'{name}' is not a parameter of the model.{near}")
    faults += [f"the model's parameter '{n}' has no entry; add Parameter('{n}', start=...) or make it a constant."
               for n in missing if not given_in[n]]
    faults += [f"{e.label}: the model's parameter '{n}' is a constant of other experiments, and has no value here; give it in "
               f"`constants`, or add Parameter('{n}', start=...)." for n in missing if given_in[n]
               for e in experiments if n not in e.constants]
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
    return did_you_mean(name, known if len(known) <= MOST_NAMES_LISTED else get_close_matches(name, known, 5, 0.4))


def read_constraints(model: Model, parameters: tuple[Parameter | InitialState, ...], given: Sequence[str | Constraint],
                 faults: list[str]) -> tuple[Constraint, ...]:
    """The constraints as data; what cannot be read or names nothing known goes to the faults."""
    from dynident.maths import CONSTANTS, FUNCTIONS  # the words of the grammar; maths knows nothing of problems

    own = {p.name for p in parameters if isinstance(p, Parameter) and not p.common}
    read = []
    for each in [given] if isinstance(given, str) or is_expression(given) else given:
        text = without_expression(each)
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


def unit_faults(experiments: Sequence[Experiment], model: Model) -> list[str]:
    """Signals that a record counts in another unit than the model, or than the first record that says one."""
    faults = []
    for name in dict.fromkeys(name for e in experiments for name in e.units):
        saying = [e for e in experiments if e.units.get(name)]
        if wanted := model.units.get(name):
            faults += _against_model(name, wanted, saying)
            continue
        for other in saying[1:]:
            first, here, there = saying[0], saying[0].units[name], other.units[name]
            if conversion(there, here) != 1:
                faults.append(f"'{name}' is in {here} in {first.label}, but in {there} in {other.label}; read both in one "
                              f"unit, as with units={{'{name}': '{here}'}}.")
                break
    return faults


def _against_model(name: str, wanted: str, saying: Iterable[Experiment]) -> list[str]:
    faults = []
    for experiment in saying:
        given = experiment.units[name]
        factor = conversion(given, wanted)
        if factor is None:
            faults.append(f"'{name}' is in {given} in {experiment.label}, but in {wanted} in the model, and there is no "
                          "factor from one to the other; correct one of the two, or convert the record beforehand.")
        elif factor != 1:
            faults.append(f"'{name}' is in {given} in {experiment.label}, but in {wanted} in the model; read the record in "
                          f"{wanted}, as with units={{'{name}': '{wanted}'}}.")
    return faults


def unknown_unit_faults(parameters: Iterable[Parameter | InitialState], model: Model) -> list[str]:
    """Unknowns that are declared in another unit than that of the model, in which their numbers go into it."""
    faults = []
    for it in parameters:
        what, name = ("parameter", it.name) if isinstance(it, Parameter) else ("initial state", it.state)
        wanted = model.units.get(name)
        if it.unit and wanted and conversion(it.unit, wanted) != 1:
            faults.append(f"{what} '{name}' is declared in {it.unit}, but the model counts it in {wanted}; give its numbers "
                          f"in {wanted}, with unit='{wanted}' or without a unit.")
    return faults
