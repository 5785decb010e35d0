"""Model units: a record that was read from a file, in the units in which the model counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, Gaussian, Noise
from dynident.problem.unit_checks import units_of
from dynident.units import Factor, conversion, converted, scaled


def in_units_of(model: Model, record: Experiment, declared: Collection[str] = ()) -> Experiment:
    """The record with every signal converted that the model counts in another unit, and a note about each.

    `declared` names the signals whose unit was asked for by the one who read the record; of the others the unit stands
    in the header only, and a number beside them (the size of an error) could be meant in either unit: that is refused.
    What has no factor is left to the problem to refuse.
    """
    wanted = {name: units_of(model)[name] for name in (*record.inputs, *record.outputs) if name in units_of(model)}
    factors = {name: conversion(record.units.get(name) or unit, unit) for name, unit in wanted.items()}
    changed: dict[str, Factor] = {name: factor for name, factor in factors.items() if factor is not None and factor != 1}
    doubtful = [name for name in changed if name in record.noise and name not in declared and _numbers(record.noise[name])]
    if doubtful:
        raise ProblemError([
            f"{record.label}: '{name}' is in {record.units[name]} in the header, but in {wanted[name]} in the model; is "
            f"the size of its error ({_numbers(record.noise[name])[0]:g}) in the one or in the other? Say it with units = "
            f"{{ {name} = \"{record.units[name]}\" }} or {{ {name} = \"{wanted[name]}\" }}." for name in doubtful])
    if not changed:
        return record
    notes = [f"'{name}' was converted from {record.units[name]} to {wanted[name]}, the unit of the model."
             for name in changed]
    return replace(
        record, inputs=_in_units(record.inputs, changed), outputs=_in_units(record.outputs, changed),
        noise={name: _in_unit(noise, changed[name]) if name in changed else noise for name, noise in record.noise.items()},
        units={**record.units, **{name: wanted[name] for name in changed}}, notes=(*record.notes, *notes))


def _in_units(signals: Mapping[str, np.ndarray], factors: Mapping[str, Factor]) -> dict[str, np.ndarray]:
    return {name: scaled(values, factors.get(name, Fraction(1))) for name, values in signals.items()}


def _numbers(noise: Noise) -> list[float]:
    """The sizes of an error that are said as one number, and not in a column of their own."""
    sizes: list[Any] = [noise.radius] if isinstance(noise, Bounded) else [noise.std, noise.bound]
    return [float(np.ravel(size)[0]) for size in sizes if size is not None and np.ndim(size) == 0]


def _in_unit(noise: Noise, factor: Factor) -> Noise:
    def size(given: Any) -> Any:
        if given is None:
            return None
        return converted(float(given), factor) if np.ndim(given) == 0 else scaled(np.array(given, dtype=float), factor)

    if isinstance(noise, Bounded):
        return Bounded(size(noise.radius))
    return Gaussian(size(noise.std), size(noise.bound))
