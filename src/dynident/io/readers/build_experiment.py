"""Build an experiment: from the values of the wanted columns to an Experiment, with units converted and oddities noted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.io.readers.columns import TIME, ColumnRef, ReadRequest
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, Gaussian, LogNormal, Noise
from dynident.units import Factor, conversion, converted, is_time, scaled

NOTABLE_GAP = 1.5  # times the typical step; a larger distance between two samples is reported
STEPS_LOOKED_AT = 100_000  # to find the typical step of a long record


def to_experiment(request: ReadRequest, found: Sequence[ColumnRef], values: Mapping[int, np.ndarray], source: str,
                  notes: Sequence[str] = ()) -> Experiment:
    """Build the experiment; arrays that may be written to are converted in place."""
    told = list(notes)
    units: dict[str, str] = {}
    signals: dict[str, dict[str, np.ndarray]] = {"time": {}, "input": {}, "output": {}, "error size": {}}
    for place, own, (factor, given, wanted) in zip(found, _own_arrays(found, values), factors(request, found, source),
                                                   strict=True):
        if factor != 1:
            told.append(f"column '{place.header}' was converted from {given} to {wanted}.")
        if place.role == "time" and given and not wanted:
            told.append(f"time is counted in '{given}', which is not known as a unit of time; it was left as it is.")
        signals[place.role][place.signal] = scaled(own, factor)
        if (wanted or given) and place.role != "error size":
            units[place.signal] = wanted or given
    time = signals["time"].get(TIME)
    if time is None:
        rows = max((column.size for column in values.values()), default=0)
        time = np.arange(rows) * float(request.sample_time or 0.0)
    told += _gaps(time, signals["output"])
    for column in (time, *(column for role in signals.values() for column in role.values())):
        column.flags.writeable = False  # a record copies only what others could write to, and these are long
    return Experiment(time=time, inputs=signals["input"], outputs=signals["output"],
                      noise=_noise(request, signals["error size"]), initial=dict(request.initial), start=request.start,
                      mode=request.mode,
                      hold=request.hold, name=request.name or "", units=units, source=source, notes=tuple(told))


def factors(request: ReadRequest, found: Sequence[ColumnRef], source: str) -> list[tuple[Factor, str, str]]:
    """Per place the factor to the unit that is wanted, the unit in the file and the one that is wanted; all that cannot
    be converted in one error."""
    faults: list[str] = []
    known: list[tuple[Factor, str, str]] = []
    for place in found:
        given, wanted = _units_of(place, request, found)
        factor = conversion(given, wanted) if given and wanted else Fraction(1)
        if factor is None:
            faults.append(f"{source}: column '{place.header}' is in {given}, but {wanted} is asked for, and there "
                          "is no factor from one to the other. Correct the unit, or convert the column beforehand.")
        elif place.role == "time" and place.unit and request.time_unit and (
                conversion(place.unit, request.time_unit) != 1):
            faults.append(f"{source}: column '{place.header}' says that time is in {place.unit}, but time_unit is "
                          f"'{request.time_unit}'. Leave time_unit out, or correct the header.")
        known.append((factor or Fraction(1), given, wanted))
    if faults:
        raise ProblemError(faults)
    return known


def _own_arrays(found: Sequence[ColumnRef], values: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """One array per signal: a column that serves two signals is copied, so that converting one leaves the other."""
    first = {place.column: k for k, place in reversed(list(enumerate(found)))}
    return [values[place.column] if first[place.column] == k else values[place.column].copy()
            for k, place in enumerate(found)]


def _units_of(place: ColumnRef, request: ReadRequest, found: Sequence[ColumnRef]) -> tuple[str, str]:
    """The unit in the file and the unit that is wanted; empty where nothing is said."""
    declared = dict(request.units or {})
    if place.role == "error size":  # the size of an error is counted like the signal it belongs to
        signal = next(other for other in found if other.signal == place.signal and other.role in ("input", "output"))
        return place.unit or signal.unit, declared.get(place.signal, signal.unit)
    if place.role != "time":
        return place.unit, declared.get(place.signal, "")
    given = place.unit or request.time_unit or _unit_in_name(place.header)
    return given, declared.get(TIME, "s" if given and is_time(given) else "")


def _unit_in_name(header: str) -> str:
    """The unit of a time column called time_ms, t_us or the like."""
    match = re.fullmatch(r"t(?:ime)?_([mun]s)", header, re.IGNORECASE)
    return match.group(1).lower() if match else ""


def _gaps(time: np.ndarray, outputs: Mapping[str, np.ndarray]) -> list[str]:
    """Sentences about missing samples and the largest distance in time."""
    told = []
    for name, column in outputs.items():
        missing = int(np.isnan(column).sum())
        if missing:
            told.append(f"'{name}' has {missing} missing of {column.size} samples.")
    if time.size > 2:
        steps = time[1:] - time[:-1]
        k = int(steps.argmax())
        typical = float(np.median(steps[:: max(1, steps.size // STEPS_LOOKED_AT)]))
        if steps[k] > NOTABLE_GAP * typical:
            told.append(f"the largest gap in time is {steps[k]:.6g}, after t = {time[k]:.10g}; the typical step is "
                        f"{typical:.6g}.")
    return told


def _noise(request: ReadRequest, sizes: Mapping[str, np.ndarray]) -> dict[str, Noise]:
    noise: dict[str, Noise] = {}
    inputs = request.inputs.items() if isinstance(request.inputs, Mapping) else ()
    outputs = request.outputs.items() if isinstance(request.outputs, Mapping) else ()
    for name, given in (*((n, it) for n, it in inputs if isinstance(it, tuple)), *outputs):
        if isinstance(given, tuple) and len(given) == 3:
            noise[name] = given[1](sizes[name])
        elif isinstance(given, tuple):
            noise[name] = given[1]
        else:
            noise[name] = Gaussian() if isinstance(given, (str, int)) else given
    return noise


def in_units_of(model: Model, record: Experiment, declared: Collection[str] = ()) -> Experiment:
    """The record with every signal converted that the model counts in another unit, and a note about each.

    `declared` names the signals whose unit was asked for by the one who read the record; of the others the unit stands
    in the header only, and a number beside them (the size of an error) could be meant in either unit: that is refused.
    What has no factor is left to the problem to refuse.
    """
    wanted = {name: model.units[name] for name in (*record.inputs, *record.outputs) if name in model.units}
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
    if isinstance(noise, LogNormal):
        return []  # relative: the same in every unit
    sizes: list[Any] = [noise.radius] if isinstance(noise, Bounded) else [noise.std, noise.bound]
    return [float(np.ravel(size)[0]) for size in sizes
            if size is not None and not isinstance(size, str) and np.ndim(size) == 0]


def _in_unit(noise: Noise, factor: Factor) -> Noise:
    def size(given: Any) -> Any:
        if given is None or isinstance(given, str):  # a formula counts in the unit of the model
            return given
        return converted(float(given), factor) if np.ndim(given) == 0 else scaled(np.array(given, dtype=float), factor)

    if isinstance(noise, Bounded):
        return Bounded(size(noise.radius))
    return noise if isinstance(noise, LogNormal) else Gaussian(size(noise.std), size(noise.bound))
