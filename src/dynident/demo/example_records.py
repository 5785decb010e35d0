"""Example records of the library's models: simulated, with noise, and the problem that asks for their values."""

from __future__ import annotations

import casadi
import numpy as np

from dynident.models import library
from dynident.models.library.example_records import EXAMPLES, example_values
from dynident.models.library.machines import TYPICAL
from dynident.models.parser import parse_expression
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.verbs.simulate import simulate

BOUND_FACTOR = 20.0  # between the typical value and its bounds
EITHER_SIGN = ("offset",)
DIGITS = 5  # of what a record holds, as a logger writes it


def example_record(name: str, seed: int = 0) -> Experiment:
    """The record of a ready model, with noise of this seed."""
    said, model = EXAMPLES[name], getattr(library, name)()
    t = casadi.SX.sym("t")
    inputs = {}
    for signal, text in said.inputs.items():
        at = casadi.Function("input", [t], [parse_expression(text, {"t": t}, f"input '{signal}'")])
        inputs[signal] = np.array([float(f"{float(at(time)):.{DIGITS}g}") for time in said.time])
    units = {key: unit for key, unit in model.units.items() if key in (*model.inputs, *model.outputs)}
    ideal = Experiment(said.time, inputs, initial=said.initial, units={**units, "time": said.time_unit}, name=name)
    clean = simulate(model, example_values(name), ideal).outputs
    rng = np.random.default_rng(seed)
    outputs = {signal: clean[signal] + std * rng.standard_normal(said.samples) for signal, std in said.noise.items()}
    return Experiment(said.time, inputs, outputs, initial=said.initial, units={**units, "time": said.time_unit}, name=name)


def example_problem(name: str, record: Experiment | None = None) -> Problem:
    """The question to that record: all values but the fixed, from the typical ones, within wide bounds."""
    said, model = EXAMPLES[name], getattr(library, name)()

    def unknown(parameter: str, typical: float) -> Parameter:
        if parameter in said.fixed:
            return Parameter(parameter, start=typical, free=False)
        lower, upper = bounds_of(parameter, typical)
        return Parameter(parameter, start=typical, lower=lower, upper=upper)

    return Problem(model, [example_record(name) if record is None else record],
                   [unknown(parameter, typical) for parameter, typical in TYPICAL[name].items()])


def bounds_of(parameter: str, typical: float) -> tuple[float, float]:
    """Wide bounds around a typical value; an offset may have either sign."""
    if parameter in EITHER_SIGN:
        return -BOUND_FACTOR * typical, BOUND_FACTOR * typical
    return typical / BOUND_FACTOR, typical * BOUND_FACTOR
