"""Model checks: which names, values and options suit an FMU? All faults of one model are listed at once."""

from __future__ import annotations

import difflib
import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.fmu.description import INTERFACES, NUMBER_TYPES, TEXT_TYPE, TRIGGER_TYPES, FmuDescription, FmuVariable
from dynident.fmu.simulation_spec import ALIGNMENTS, SCHEMES, type_limits
from dynident.tolerances import FMU_TIGHTEST_TOLERANCE

USUAL_SCHEME, USUAL_ALIGNMENT = SCHEMES[0], ALIGNMENTS[0]
MAX_NEAR_NAMES = 5  # near names in an error
MAX_COMPLAINTS = 3  # about a description, in a report


def as_path(given: Any) -> Path:
    if not isinstance(given, (str, os.PathLike)):
        raise ProblemError(f"FmuModel wants the path of an .fmu file, not {given!r}.")
    return Path(given)


def as_names(what: str, names: Any, faults: list[str]) -> list[str] | None:
    """Names as a list; one name alone is a list of one."""
    if names is None or isinstance(names, str):
        return None if names is None else [names]
    try:
        given = list(names)
    except TypeError:
        faults.append(f"{what} = {names!r}; give a list of names.")
        return []
    faults += [f"{what}: {name!r} is not a name." for name in given if not isinstance(name, str)]
    names = [name for name in given if isinstance(name, str)]
    faults += [f"{what}: '{name}' is named twice." for name in dict.fromkeys(names) if names.count(name) > 1]
    return names


def values_by_name(values: Any, faults: list[str]) -> dict[str, float | str]:
    """What `values` holds; what is neither a finite number nor a text is left out and said."""
    try:
        given = dict(values or {})
    except (TypeError, ValueError):
        faults.append(f"values are given by name, as in values={{'gain': 2.0}}, not as a {type(values).__name__}.")
        return {}
    found: dict[str, float | str] = {}
    for name, value in given.items():
        try:
            number = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isfinite(number):
            found[str(name)] = number
        elif isinstance(value, str):
            found[str(name)] = value
        else:
            faults.append(f"values: '{name}' is {value!r}; give a finite number.")
    return found


def choice_faults(d: FmuDescription, inputs: Sequence[str], outputs: Sequence[str], values: Mapping[str, float | str]
                  ) -> list[str]:
    """Names that the FMU does not have or that cannot serve so, and values that it cannot take."""
    if not d.structured:
        return [f"{d.path.name} cannot be used: its description holds no ModelStructure, so that its states are not known. "
                "Export it again."]
    return [*name_faults(d, "values", values, settable=True), *value_faults(d, values),
            *name_faults(d, "inputs", inputs, roles=("input",)), *name_faults(d, "outputs", outputs),
            *alias_faults(d, {"inputs": inputs, "values": tuple(values)})]


def value_faults(d: FmuDescription, values: Mapping[str, float | str]) -> list[str]:
    """Numbers that the type of their variable cannot hold, texts for numbers and numbers for texts."""
    faults = []
    for name, value in values.items():
        v = d.variables.get(name)
        if v is None or v.type not in (*NUMBER_TYPES, TEXT_TYPE):
            continue
        if isinstance(value, str) or v.type == TEXT_TYPE:
            if v.type != TEXT_TYPE:
                faults.append(f"values: '{name}' is {value!r}; give a finite number, of type {v.type}.")
            elif not isinstance(value, str):
                faults.append(f"values: '{name}' is {value!r}, but of type {TEXT_TYPE}; give a text.")
            elif "\0" in value:
                faults.append(f"values: '{name}' is {value!r}; a text for an FMU holds no zero character.")
            continue
        lowest, highest = type_limits(v, d.version)
        if not v.real and value != round(value):
            faults.append(f"values: '{name}' is {value:g}, but of type {v.type}; give a whole number.")
        elif not lowest <= value <= highest:
            faults.append(f"values: '{name}' is {value:g}, but of type {v.type}, which goes from {lowest:g} to "
                          f"{highest:g}.")
    return faults


def alias_faults(d: FmuDescription, chosen: Mapping[str, Sequence[str]]) -> list[str]:
    """One variable under two of its names, or in two roles that each give it a value."""
    faults = []
    met: dict[tuple[str, int, int], tuple[str, str]] = {}
    for role, names in chosen.items():
        for name in names:
            if (v := d.variables.get(name)) is None:
                continue
            first, other = met.setdefault(v.place, (role, name))
            if (first, other) == (role, name):
                continue
            both = f"'{name}'" if other == name else f"'{other}' and '{name}', two names of one variable,"
            where = f"in {first} and in {role}" if first != role else f"in {role}"
            faults.append(f"{both} {'stands' if other == name else 'stand'} {where}; keep one of the two.")
    return faults


def name_faults(d: FmuDescription, what: str, names: Iterable[str], roles: tuple[str, ...] = (), settable: bool = False
                ) -> list[str]:
    faults, variables, file = [], d.variables, d.path.name
    for name in names:
        v = variables.get(name)
        if v is None:
            near = difflib.get_close_matches(name, variables, n=MAX_NEAR_NAMES, cutoff=0.5)
            near = near or [n for n in variables if name.lower() in n.lower()][:MAX_NEAR_NAMES]
            hint = f" Near: {', '.join(near)}." if near else f" `dynident fmu info {file}` lists them."
            faults.append(f"{what}: '{name}' is not a variable of {file}.{hint}")
        elif v.type in TRIGGER_TYPES:
            faults.append(f"{what}: '{name}' is a {v.type}; dynident drives no clocks and reads no binary data. Leave it out.")
        elif v.type not in NUMBER_TYPES and not (settable and v.type == TEXT_TYPE and v.size == 1):
            faults.append(f"{what}: '{name}' is {'an array of type' if v.size > 1 else 'a'} {v.type}, not a number.")
        elif roles and v.causality not in roles:
            faults.append(f"{what}: '{name}' is a {v.causality} of {file}, not an {roles[0]}.")
        elif settable and not (v.settable_before_start or v.causality == "input"):
            faults.append(f"{what}: '{name}' {_why_not_settable(v)} of {file}.")
    return faults


def _why_not_settable(v: FmuVariable) -> str:
    if v.causality == "structuralParameter":
        return "gives arrays their size and cannot be set; export the FMU with that size, or use another structural parameter"
    if v.variability == "constant":
        return "is a constant"
    if v.causality in ("independent", "calculatedParameter"):
        return f"is computed ({v.causality}) and cannot be set; set what it follows from, another variable"
    return f"({v.causality}, {v.variability}) cannot be set: it has no start value that initialisation would use, unlike others"


def option_faults(kind: Any, integrator: Any, alignment: Any, limit: Any, tolerance: Any) -> list[str]:
    faults = []
    for what, value, known in (("kind", kind, ("auto", *INTERFACES)), ("integrator", integrator, SCHEMES),
                               ("alignment", alignment, ALIGNMENTS)):
        if value not in known:
            faults.append(f"{what} = {value!r} is not known to FmuModel.{did_you_mean(value, known)}")
    number = isinstance(limit, (int, float, np.integer, np.floating)) and not isinstance(limit, bool)
    if not number or not 0 < limit <= threading.TIMEOUT_MAX:
        faults.append(f"time_limit = {limit!r}; give a positive number of seconds, at most {threading.TIMEOUT_MAX:.0g}.")
    number = isinstance(tolerance, (int, float, np.integer, np.floating)) and not isinstance(tolerance, bool)
    if tolerance is not None and (not number or not FMU_TIGHTEST_TOLERANCE <= tolerance < 1):
        faults.append(f"tolerance = {tolerance!r}; give a relative error from {FMU_TIGHTEST_TOLERANCE:g} to below 1, or leave "
                      "it out.")
    return faults


def idle_option_faults(file: str, kind: str, integrator: str, alignment: str) -> list[str]:
    """Options that would change nothing with the interface that is used."""
    faults = []
    if kind == "co_simulation" and integrator != USUAL_SCHEME:
        faults.append(f"integrator = {integrator!r} serves Model Exchange, but {file} runs by Co-Simulation with a solver "
                      "of its own; leave it out, or use kind=\"model_exchange\" where the FMU offers it.")
    if kind == "model_exchange" and alignment != USUAL_ALIGNMENT:
        faults.append(f"alignment = {alignment!r} serves Co-Simulation, but {file} runs by Model Exchange, where inputs "
                      "and samples meet anyway; leave it out, or use kind=\"co_simulation\".")
    return faults


def complaint_notes(d: FmuDescription) -> tuple[str, ...]:
    """What is wrong in the description of an FMU that is used all the same."""
    said = [f"The description of {d.path.name} is not valid: {words.strip()}" for words in d.complaints[:MAX_COMPLAINTS]]
    more = len(d.complaints) - MAX_COMPLAINTS
    return (*said, f"`dynident fmu info {d.path.name}` says {more} more.") if more > 0 else tuple(said)


def range_notes(d: FmuDescription, values: Mapping[str, float | str]) -> tuple[str, ...]:
    """A sentence about each value for which the FMU was not made."""
    fixed = ((d.variables[name], value) for name, value in values.items())
    return tuple(f"'{v.name}' is fixed at {value:g}, but {d.path.name} is made for values from {v.lower:g} to {v.upper:g}."
                 for v, value in fixed if not isinstance(value, str) and not v.lower <= value <= v.upper)
