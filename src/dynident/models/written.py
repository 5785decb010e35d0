"""Written: the parts of a model as text: do their names and equations fit together?"""

from __future__ import annotations

import graphlib
import keyword
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi

from dynident.errors import ProblemError, did_you_mean
from dynident.models.text import NAME, RESERVED, names_in, parse_expression

TIME = "t"
KIND = "equations"

Equation = str | float
Texts = dict[str, str]


@dataclass
class Written:
    """The parts of a model as text, before it is known whether they fit together."""

    inputs: list[str]
    constants: dict[str, float]
    parameters: list[str] | None  # None: whatever is declared nowhere else
    units: Texts
    name: str
    states: Texts = field(default_factory=dict)
    outputs: Texts = field(default_factory=dict)
    definitions: Texts = field(default_factory=dict)

    def equations(self) -> list[str]:
        return [*self.states.values(), *self.outputs.values(), *self.definitions.values()]

    def declared(self) -> Iterator[tuple[str, str]]:
        """Each declared name with its kind."""
        for kind, names in (("state", self.states), ("input", self.inputs), ("constant", self.constants),
                            ("definition", self.definitions), ("parameter", self.parameters or ())):
            for name in names:
                yield kind, name

    def definition(self) -> dict[str, Any]:
        return {"kind": KIND, "name": self.name, "states": dict(self.states), "outputs": dict(self.outputs),
                "definitions": dict(self.definitions), "inputs": list(self.inputs),
                "parameters": list(self.parameters or ()), "constants": dict(self.constants), "units": dict(self.units)}


def names_of(kind: str, given: Iterable[str], faults: list[str]) -> list[str]:
    if isinstance(given, str):
        faults.append(f"{kind} is a list of names; write {kind}=[{given!r}].")
        return []
    names = [str(name) for name in given]
    faults += [f"{kind} lists '{name}' {names.count(name)} times; once is enough."
               for name in dict.fromkeys(names) if names.count(name) > 1]
    return list(dict.fromkeys(names))


def numbers_of(given: Mapping[str, float], faults: list[str]) -> dict[str, float]:
    numbers = {}
    for name, value in given.items():
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):
            numbers[str(name)] = math.nan
        if not math.isfinite(numbers[str(name)]) or isinstance(value, str):
            faults.append(f"constant '{name}' is {value!r}; give a finite number.")
    return numbers


def texts_of(kind: str, given: Mapping[str, Equation], faults: list[str]) -> Texts:
    texts = {}
    for name, equation in given.items():
        if isinstance(equation, str):
            texts[str(name)] = " ".join(equation.split())
        elif isinstance(equation, (int, float)) and not isinstance(equation, bool) and math.isfinite(equation):
            texts[str(name)] = repr(float(equation))
        else:
            texts[str(name)] = "0"  # a stand-in, so that the rest is checked too
            faults.append(f"the {kind} of '{name}' is {equation!r}; write it as text, such as \"-k*x/m\".")
    return texts


def take_text(written: Written, states: Any, outputs: Any, definitions: Mapping[str, Equation],
               faults: list[str]) -> None:
    if not isinstance(states, Mapping):
        faults.append("states is a list of names, but there are no rates. Write states={\"q\": \"v\", ...}, "
                      "or give a function rate(t, x, u, p).")
        raise ProblemError(faults)  # there is nothing else to look at
    written.states = texts_of("rate", states, faults)
    written.definitions = texts_of("definition", definitions, faults)
    if outputs is None:
        written.outputs = {name: name for name in written.states}
    elif isinstance(outputs, Mapping):
        written.outputs = texts_of("equation", outputs, faults)
    else:
        written.outputs = listed(outputs, [*written.states, *written.inputs, *written.definitions], faults)


def listed(outputs: Iterable[str], measurable: Sequence[str], faults: list[str]) -> Texts:
    """Outputs given as a list of names: each is measured as it is."""
    names = names_of("outputs", outputs, faults)
    faults += [f"output '{name}' has no equation and is not the name of a part of the model."
               f"{did_you_mean(name, measurable)}" for name in names if name not in measurable]
    return {name: name for name in names if name in measurable}


def name_faults(written: Written) -> list[str]:
    """Names that are impossible, reserved or declared twice; and a model without states."""
    faults = [] if written.states else ["a model needs at least one state; states is empty."]
    kinds: dict[str, list[str]] = {}
    for kind, name in [*written.declared(), *(("output", name) for name in written.outputs)]:
        kinds.setdefault(name, []).append(kind)
        if len(kinds[name]) > 1:
            continue  # said already
        if not NAME.fullmatch(name) or keyword.iskeyword(name):
            faults.append(f"{kind} '{name}' is not a possible name: a letter, then letters, digits and _, and no word "
                          "of Python's own.")
        elif unicodedata.normalize("NFKC", name) != name:
            faults.append(f"{kind} '{name}' is written with look-alike characters; write "
                          f"'{unicodedata.normalize('NFKC', name)}'.")
        elif name in RESERVED or name == TIME:
            meaning = "is time" if name == TIME else "is a function or number of dynident.maths"
            faults.append(f"{kind} '{name}': this name {meaning}. Choose another.")
    for name, used_as in kinds.items():
        used_as = [kind for kind in used_as if kind != "output"]  # an output may repeat a name; see clashes
        if len(used_as) > 1:
            faults.append(f"'{name}' is declared as {' and as '.join(used_as)}. Each name means one thing.")
    return faults


def mentioned(text: str) -> tuple[str, ...]:
    """Names in a text; none if it cannot be read, which `read` reports in its own words."""
    try:
        return names_in(text)
    except ProblemError:
        return ()


def definition_order(written: Written, faults: list[str]) -> list[str]:
    """Definitions so that each comes after those it uses."""
    uses = {name: [used for used in mentioned(text) if used in written.definitions]
            for name, text in written.definitions.items()}
    try:
        return list(graphlib.TopologicalSorter(uses).static_order())
    except graphlib.CycleError as error:
        raise ProblemError([*faults, f"definitions go round in a circle: {' -> '.join(reversed(error.args[1]))}. "
                                     "One of them must not use the others."]) from None


def undeclared(written: Written) -> list[str]:
    """Names that are declared nowhere, in the order in which a reader meets them: the parameters."""
    declared = {TIME, *(name for _, name in written.declared())}
    met: dict[str, None] = {}
    ahead = [name for text in [*written.states.values(), *written.outputs.values()] for name in mentioned(text)][::-1]
    while ahead:
        name = ahead.pop()
        if name in written.definitions and name not in met:
            ahead += mentioned(written.definitions[name])[::-1]
        met.setdefault(name)
    return [name for name in met if name not in declared and NAME.fullmatch(name)]


def read(text: str, known: Mapping[str, casadi.SX], where_used: str, faults: list[str]) -> casadi.SX:
    if text in known:
        return known[text]
    try:
        return parse_expression(text, known, where_used)
    except ProblemError as error:
        faults.extend(error.faults)
        return casadi.SX(0)


def unused(written: Written, expressions: Sequence[casadi.SX] | None) -> list[str]:
    """Declared but in no equation; and, where all could be read, what cancels out of them as in a - a."""
    try:
        mentioned = {name for text in written.equations() for name in names_in(text)}
    except ProblemError:
        return []  # the equation that cannot be read may well use them
    remaining = mentioned if expressions is None else {
        symbol.name() for symbol in casadi.symvar(column(expressions))} | set(written.definitions)
    return [f"{kind} '{name}' {'drops out of' if name in mentioned else 'is used in'} "
            f"{'every' if name in mentioned else 'no'} equation. Use it, or remove it."
            for kind, name in written.declared() if kind != "state" and name not in mentioned & remaining]


def clashes(written: Written) -> list[str]:
    """Outputs that share a name with something else they are not equal to."""
    kinds = {name: kind for kind, name in written.declared()}
    return [f"output '{name}' has the name of a {kinds[name]} but is {text}. Rename the output, or write "
            f"outputs={{\"{name}\": \"{name}\"}}." for name, text in written.outputs.items()
            if name in kinds and text != name]


def unknown_units(written: Written) -> list[str]:
    known = [TIME, *(name for _, name in written.declared()), *written.outputs]
    return [f"units names '{name}', which is not part of the model.{did_you_mean(name, known)}"
            for name in written.units if name not in known]


def column(items: Iterable[Any]) -> casadi.SX:
    listed_items = list(items)
    return casadi.vertcat(*(casadi.SX(item) for item in listed_items)) if listed_items else casadi.SX(0, 1)
