"""Model definition: the parts of a model as text: do their names and equations fit together?"""

from __future__ import annotations

import graphlib
import itertools
import keyword
import math
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi

from dynident import units
from dynident._util.expressions import is_expression, symbol_name
from dynident.errors import ProblemError, did_you_mean
from dynident.models.parser import NAME, RESERVED, Scope, Table, names_in, parse_condition, parse_expression

TIME = "t"
KIND = "equations"
ONLY_MODE = ""  # the name of the mode of a model that has no modes

Equation = Any  # text, a number, or an expression of SymPy
Texts = dict[str, str]


@dataclass
class ModeText:
    """The rates while a mode lasts, and where it is possible (empty: everywhere)."""

    rate: Texts
    invariant: str = ""

    def definition(self) -> dict[str, Any]:
        return {"rate": dict(self.rate)} | ({"invariant": self.invariant} if self.invariant else {})


@dataclass
class TransitionText:
    """From mode to mode, when a condition begins to hold; `reset` are new values of states."""

    source: str
    target: str
    when: str
    reset: Texts = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"transition {self.source} -> {self.target}"

    def definition(self) -> dict[str, Any]:
        said = {"source": self.source, "target": self.target, "when": self.when}
        return said | ({"reset": dict(self.reset)} if self.reset else {})


@dataclass
class ModelDefinition:
    """The parts of a model as text, before it is known whether they fit together.

    A plain differential equation is one mode, called ONLY_MODE, and no transition.
    """

    inputs: list[str]
    constants: dict[str, float]
    parameters: list[str] | None  # None: whatever is declared nowhere else
    units: Texts
    name: str
    states: list[str] = field(default_factory=list)
    modes: dict[str, ModeText] = field(default_factory=dict)
    transitions: list[TransitionText] = field(default_factory=list)
    outputs: Texts = field(default_factory=dict)
    definitions: Texts = field(default_factory=dict)
    algebraic: Texts = field(default_factory=dict)  # by variable: what is zero
    guesses: Texts = field(default_factory=dict)  # of algebraic variables
    tables: dict[str, Table] = field(default_factory=dict)
    sample_time: float | None = None  # the rates are next values then
    unused: list[str] = field(default_factory=list)  # declared names that need not occur in any equation
    starts: dict[str, float] = field(default_factory=dict)  # values of parameters that the model brings along

    def motion(self) -> list[str]:
        """Texts of everything that moves the states."""
        conditions = [*(mode.invariant for mode in self.modes.values()), *(each.when for each in self.transitions)]
        return [*(text for mode in self.modes.values() for text in mode.rate.values()),
                *self.algebraic.values(),
                *(text for text in conditions if text),
                *(text for each in self.transitions for text in each.reset.values())]

    def equations(self) -> list[str]:
        return [*self.motion(), *self.outputs.values(), *self.definitions.values()]

    def declared(self) -> Iterator[tuple[str, str]]:
        """Each declared name with its kind."""
        for kind, names in (("state", self.states), ("algebraic variable", self.algebraic), ("input", self.inputs),
                            ("constant", self.constants), ("definition", self.definitions),
                            ("parameter", self.parameters or ())):
            for name in names:
                yield kind, name

    def definition(self) -> dict[str, Any]:
        only = self.modes.get(ONLY_MODE)
        timed: dict[str, Any] = {} if self.sample_time is None else {"sample_time": self.sample_time}
        key = "next" if timed else "states"
        motion: dict[str, Any] = {key: {name: only.rate[name] for name in self.states}, **timed} if only else {
            "states": list(self.states), "modes": {name: mode.definition() for name, mode in self.modes.items()},
            "transitions": [each.definition() for each in self.transitions]}
        motion |= {"algebraic": dict(self.algebraic)} if self.algebraic else {}
        motion |= {"guesses": dict(self.guesses)} if self.guesses else {}
        return {"kind": KIND, "name": self.name, **motion, "outputs": dict(self.outputs),
                "definitions": dict(self.definitions), "inputs": list(self.inputs),
                "parameters": list(self.parameters or ()), "constants": dict(self.constants), "units": dict(self.units),
                **({"tables": {name: {"knots": list(table.knots)} | ({"smooth": True} if table.smooth else {})
                               for name, table in self.tables.items()}} if self.tables else {}),
                **({"starts": dict(self.starts)} if self.starts else {}),
                **({"unused": list(self.unused)} if self.unused else {})}


def holds_symbols(*groups: Any) -> bool:
    """Whether expressions of SymPy stand among equations or their names."""
    return any(is_expression(each) for group in groups if isinstance(group, Mapping) for pair in group.items() for each in pair)


def names_of(kind: str, given: Iterable[str], faults: list[str]) -> list[str]:
    if isinstance(given, str):
        faults.append(f"{kind} is a list of names; write {kind}=[{given!r}].")
        return []
    names = [symbol_name(name) for name in given]
    faults += [f"{kind} lists '{name}' {names.count(name)} times; once is enough."
               for name in dict.fromkeys(names) if names.count(name) > 1]
    return list(dict.fromkeys(names))


def numbers_of(given: Mapping[str, float], faults: list[str], kind: str = "constant") -> dict[str, float]:
    numbers = {}
    for name, value in given.items():
        try:
            numbers[symbol_name(name)] = float(value)
        except (TypeError, ValueError):
            numbers[symbol_name(name)] = math.nan
        if not math.isfinite(numbers[symbol_name(name)]) or isinstance(value, str):
            faults.append(f"{kind} '{name}' is {value!r}; give a finite number.")
    return numbers


def tables_of(given: Mapping[str, Any], faults: list[str]) -> dict[str, Table]:
    """Look-up tables with unknown values: `{"f": {"knots": [-1, 0, 1]}}` has the parameters f0, f1 and f2."""
    tables = {}
    for name, said in given.items():
        keys = set(said) if isinstance(said, Mapping) else {""}
        if not keys <= {"knots", "smooth"} or "knots" not in keys:
            faults.append(f"table '{name}' is {said!r}; write tables={{\"{name}\": {{\"knots\": [-1, 0, 1]}}}}, and "
                          "\"smooth\": True for continuous slopes.")
            continue
        try:
            knots = tuple(float(knot) for knot in said["knots"])
        except (TypeError, ValueError):
            knots = ()
        if len(knots) < 2 or not all(math.isfinite(knot) for knot in knots) or any(
                b <= a for a, b in itertools.pairwise(knots)):
            faults.append(f"the knots of table '{name}' are {said['knots']!r}; give two or more finite numbers that rise.")
            continue
        if not isinstance(said.get("smooth", False), bool):
            faults.append(f"table '{name}': smooth is {said['smooth']!r}; say True or False.")
            continue
        tables[str(name)] = Table(knots, tuple(f"{name}{k}" for k in range(len(knots))), said.get("smooth", False))
    return tables


def texts_of(kind: str, given: Mapping[str, Equation], faults: list[str]) -> Texts:
    texts = {}
    for name, equation in given.items():
        if isinstance(equation, str):
            texts[str(name)] = " ".join(equation.split())
        elif isinstance(equation, (int, float)) and not isinstance(equation, bool) and math.isfinite(equation):
            texts[str(name)] = repr(float(equation))
        elif is_expression(equation):
            from dynident.models.symbolic_source import as_text

            texts[symbol_name(name)] = as_text(equation)
        else:
            texts[str(name)] = "0"  # a stand-in, so that the rest is checked too
            faults.append(f"the {kind} of '{name}' is {equation!r}; write it as text, such as \"-k*x/m\".")
    return texts


def take_text(written: ModelDefinition, states: Any, outputs: Any, definitions: Mapping[str, Equation],
              faults: list[str]) -> None:
    if not isinstance(states, Mapping):
        faults.append("states is a list of names, but there are no rates. Write states={\"q\": \"v\", ...}, "
                      "or give a function rate(t, x, u, p).")
        raise ProblemError(faults)  # there is nothing else to look at
    rates = texts_of("rate", states, faults)
    written.states, written.modes = list(rates), {ONLY_MODE: ModeText(rates)}
    written.definitions = texts_of("definition", definitions, faults)
    written.outputs = taken_outputs(written, outputs, faults)


def take_algebraic(written: ModelDefinition, algebraic: Any, guesses: Mapping[str, Equation], traced: bool, faults: list[str]
                   ) -> None:
    """What is zero for each algebraic variable, as text; with a rate function the names alone, since it returns the rest."""
    if traced and isinstance(algebraic, Mapping):
        faults.append("with a rate function, algebraic is a list of names; the function returns what is zero under each.")
    elif not traced and not isinstance(algebraic, Mapping):
        faults.append("algebraic is a list of names, but there are no equations. Write algebraic={\"z\": \"x - z**2\", ...}: "
                      "what stands there is zero; or give a function rate(t, x, u, p).")
    elif traced:
        written.algebraic = dict.fromkeys(names_of("algebraic", algebraic, faults), "0")
    else:
        written.algebraic = texts_of("equation", algebraic, faults)
    written.guesses = texts_of("guess", guesses, faults)
    faults += [f"guesses names '{name}', which is not an algebraic variable.{did_you_mean(name, list(written.algebraic))}"
               for name in written.guesses if name not in written.algebraic]


def take_next(written: ModelDefinition, following: Any, sample_time: Any, states: Any, rate: Any, modes: Any,
              faults: list[str]) -> Any:
    """The equations of discrete time, as those of the states; what contradicts them is a fault."""
    if following is None:
        faults.append("sample_time belongs to a model in discrete time; write next={\"x\": \"a*x + b*u\"} too.")
    if states is not None or rate is not None or modes is not None:
        faults.append("next (discrete time) and states, rate or modes (continuous time) are both given; keep one.")
    good = isinstance(sample_time, (int, float)) and not isinstance(sample_time, bool) and 0 < sample_time < math.inf
    if not good:
        faults.append(f"sample_time is {sample_time!r}; a model in discrete time needs a positive number, in the unit of time.")
    if faults:
        raise ProblemError(faults)
    written.sample_time = float(sample_time)
    return following


def delay_faults(written: ModelDefinition, known: Scope, symbols: Mapping[str, casadi.SX]) -> list[str]:
    """Dead times that are not made of parameters and numbers, and models that take none."""
    faults = []
    allowed = {symbols[name].element_hash() for name in [*(written.parameters or ()), *written.constants]}
    for symbol, dead_time in known.delayed.values():
        if any(each.element_hash() not in allowed for each in casadi.symvar(dead_time)):
            faults.append(f"{symbol.name()}: the dead time depends on time, a state or an input. It is one number along a "
                          "record, made of parameters and constants.")
    if known.delayed and (len(written.modes) > 1 or written.transitions):
        faults.append("a model with modes takes no delay(u, theta). Shift the input in the record instead.")
    if known.delayed and written.sample_time is not None:
        faults.append("in discrete time an input is delayed by states: next={\"u1\": \"u\", ...} holds u one sample ago; "
                      "transfer_function(..., delay=3, sample_time=...) writes them.")
    return faults


def taken_outputs(written: ModelDefinition, outputs: Any, faults: list[str]) -> Texts:
    """Outputs as text; without any, each state is measured under its own name."""
    if outputs is None:
        return {name: name for name in written.states}
    if isinstance(outputs, Mapping):
        return texts_of("equation", outputs, faults)
    return as_outputs(outputs, [*written.states, *written.algebraic, *written.inputs, *written.definitions], faults)


def as_outputs(outputs: Iterable[str], measurable: Sequence[str], faults: list[str]) -> Texts:
    """Outputs given as a list of names: each is measured as it is."""
    names = names_of("outputs", outputs, faults)
    faults += [f"output '{name}' has no equation and is not the name of a part of the model."
               f"{did_you_mean(name, measurable)}" for name in names if name not in measurable]
    return {name: name for name in names if name in measurable}


def empty_faults(written: ModelDefinition) -> list[str]:
    """A model without states is one whose outputs follow its inputs at once, such as inverse dynamics."""
    return [] if written.states or written.outputs else ["a model needs at least one state, or an output; both are empty."]


def name_faults(written: ModelDefinition) -> list[str]:
    """Names that are impossible, reserved or declared twice."""
    faults: list[str] = []
    kinds: dict[str, list[str]] = {}
    for kind, name in [*written.declared(), *(("table", name) for name in written.tables),
                       *(("output", name) for name in written.outputs)]:
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
            faults.append(f"'{name}' is declared as {' and as '.join(used_as)}. Each name means one thing: rename one of them.")
    return faults


def mentioned_names(text: str, tables: Collection[str] = ()) -> tuple[str, ...]:
    """Names in a text; none if it cannot be read, which `read` reports in its own words."""
    try:
        return names_in(text, tables=tables)
    except ProblemError:
        return ()


def definition_order(written: ModelDefinition, faults: list[str]) -> list[str]:
    """Definitions so that each comes after those it uses."""
    uses = {name: [used for used in mentioned_names(text) if used in written.definitions]
            for name, text in written.definitions.items()}
    try:
        return list(graphlib.TopologicalSorter(uses).static_order())
    except graphlib.CycleError as error:
        raise ProblemError([*faults, f"definitions go round in a circle: {' -> '.join(reversed(error.args[1]))}. "
                                     "One of them must not use the others."]) from None


def undeclared_names(written: ModelDefinition) -> list[str]:
    """Names that are declared nowhere, in the order in which a reader meets them: the parameters."""
    declared = {TIME, *(name for _, name in written.declared())}
    met: dict[str, None] = {}
    tables = written.tables
    ahead = [name for text in [*written.motion(), *written.outputs.values()] for name in mentioned_names(text, tables)][::-1]
    while ahead:
        name = ahead.pop()
        if name in written.definitions and name not in met:
            ahead += mentioned_names(written.definitions[name], tables)[::-1]
        met.setdefault(name)
    met.update(dict.fromkeys(value for table in tables.values() for value in table.values))
    return [name for name in met if name not in declared and NAME.fullmatch(name)]


def parse(text: str, known: Mapping[str, casadi.SX], where_used: str, faults: list[str]) -> casadi.SX:
    if text in known:
        return known[text]
    try:
        return parse_expression(text, known, where_used)
    except ProblemError as error:
        faults.extend(error.faults)
        return casadi.SX(0)


def read_condition(text: str, known: Mapping[str, casadi.SX], where_used: str, faults: list[str]) -> casadi.SX:
    try:
        return parse_condition(text, known, where_used) if text else casadi.SX(1)
    except ProblemError as error:
        faults.extend(error.faults)
        return casadi.SX(1)


def unused(written: ModelDefinition, expressions: Sequence[casadi.SX] | None) -> tuple[list[str], list[str]]:
    """Declared but in no equation; and, where all could be read, what cancels out of them as in a - a: faults, and notes on
    constants, which may be there for other models too."""
    try:
        mentioned = {name for text in written.equations() for name in names_in(text, tables=written.tables)}
        called = {name for text in written.equations() for name in names_in(text)} & set(written.tables)
    except ProblemError:
        return [], []  # the equation that cannot be read may well use them
    mentioned |= {value for name in called for value in written.tables[name].values}
    remaining = mentioned if expressions is None else {
        symbol.name() for symbol in casadi.symvar(column_vector(expressions))} | set(written.definitions)
    idle = [(kind, name, "drops out of every" if name in mentioned else "is used in no") for kind, name in written.declared()
            if kind != "state" and name not in mentioned & remaining and name not in written.unused]
    faults = [f"table '{name}' is used in no equation. Use it, as in {name}(x), or remove it."
              for name in written.tables if name not in called]
    faults += [f"{kind} '{name}' {how} equation. Use it, or remove it." for kind, name, how in idle if kind != "constant"]
    return faults, [f"The model's constant '{name}' {how} equation." for kind, name, how in idle if kind == "constant"]


def with_parameters_of_tables(written: ModelDefinition) -> list[str]:
    """The parameters that were declared, and those that tables name as values."""
    declared = list(written.parameters or ())
    return [*declared, *(value for table in written.tables.values() for value in table.values if value not in declared)]


def start_faults(written: ModelDefinition) -> list[str]:
    known = written.parameters or []
    return [f"starts names '{name}', which is not a parameter.{did_you_mean(name, known)}"
            for name in written.starts if name not in known]


def clashes(written: ModelDefinition) -> list[str]:
    """Outputs that share a name with something else they are not equal to."""
    kinds = {name: kind for kind, name in written.declared()}
    return [f"output '{name}' has the name of a {kinds[name]} but is {text}. Rename the output, or write "
            f"outputs={{\"{name}\": \"{name}\"}}." for name, text in written.outputs.items()
            if name in kinds and text != name]


def unknown_units(written: ModelDefinition) -> list[str]:
    known = [TIME, *(name for _, name in written.declared()), *written.outputs]
    strange = [f"units names '{name}', which is not part of the model.{did_you_mean(name, known)}"
               for name in written.units if name not in known]
    return strange + [f"unit of '{name}': '{unit}' is no symbol of a unit; write {units.spelt_out(unit)}."
                      for name, unit in written.units.items() if units.spelt_out(unit)]


def column_vector(items: Iterable[Any]) -> casadi.SX:
    listed_items = [item if isinstance(item, casadi.SX) else casadi.SX(item) for item in items]  # copies take long
    return casadi.vertcat(*listed_items) if listed_items else casadi.SX(0, 1)
