"""EquationModel: how do equations, written as text or as a Python function, become a model?

Both ways end as text: a function is traced once with symbols and written down, and the model is built from what was
written. So a model is plain data, the same in every process, and holds no code.
"""

from __future__ import annotations

import copy
import graphlib
import hashlib
import json
import keyword
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, final

import casadi

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.models.text import NAME, RESERVED, expressions_to_text, names_in, parse_expression

TIME = "t"
KIND = "equations"
ITEMS = ("states", "outputs", "inputs", "constants", "definitions", "parameters", "units", "name")

USE_MATHS = "Take sin, tanh, where, ... from dynident.maths: those of numpy and math do not know symbols."

Equation = str | float
Texts = dict[str, str]


@final
class EquationModel:
    """Rates of the states and outputs as equations; frozen, compared by what it says.

    As text, `states` and `outputs` map a name to its equation and `definitions` name parts of them; a name that is
    declared nowhere is a parameter, unless `parameters` lists them all. As functions, `states` lists names,
    `rate(t, x, u, p)` returns a rate per state (a dict, or a sequence in the order of the states) and
    `output(t, x, u, p)` a dict of outputs; `x.q` and `x["q"]` read a state, `p` holds parameters and constants.
    Without outputs, every state is measured under its own name. Time is `t`.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, float]
    units: Mapping[str, str]
    name: str
    rate: casadi.Function  # (t, x, u, p) -> dx
    output: casadi.Function  # (t, x, u, p) -> y
    _definition: dict[str, Any]

    def __init__(self, *, states: Mapping[str, Equation] | Sequence[str],
                 outputs: Mapping[str, Equation] | Sequence[str] | None = None, inputs: Sequence[str] = (),
                 constants: Mapping[str, float] | None = None, definitions: Mapping[str, Equation] | None = None,
                 parameters: Sequence[str] | None = None, units: Mapping[str, str] | None = None, name: str = "",
                 rate: Callable[..., Any] | None = None, output: Callable[..., Any] | None = None):
        faults: list[str] = []
        written = _Written(
            inputs=_names("inputs", inputs, faults), constants=_numbers(constants or {}, faults),
            parameters=None if parameters is None else _names("parameters", parameters, faults),
            units={str(k): str(v) for k, v in (units or {}).items()}, name=str(name))
        if rate is None and output is None:
            _take_text(written, states, outputs, definitions or {}, faults)
        else:
            _take_functions(written, states, outputs, definitions, rate, output, faults)
            if faults:
                raise ProblemError(faults)  # there is no text to look at
        self._build(written, faults)

    def _build(self, written: _Written, faults: list[str]) -> None:
        """The symbols and functions of equations that are all text by now."""
        complete = not faults
        faults += _name_faults(written)
        if written.parameters is None:
            written.parameters = _undeclared(written)
        symbols = {name: casadi.SX.sym(name) for name in [TIME, *(name for _, name in written.declared())]}
        known = dict(symbols)
        for name in _definition_order(written, faults):
            known[name] = _read(written.definitions[name], known, f"definition of '{name}'", faults)
        rates = [_read(text, known, f"rate of '{name}'", faults) for name, text in written.states.items()]
        measured = [_read(text, known, f"output '{name}'", faults) for name, text in written.outputs.items()]
        faults += _unused(written, None if faults else [*rates, *measured]) if complete else []
        faults += _clashes(written)
        faults += _unknown_units(written)
        if faults:
            raise ProblemError(faults)
        arguments = [symbols[TIME], *(_column(symbols[name] for name in group)
                                      for group in (written.states, written.inputs, written.parameters))]
        fixed = _column(symbols[name] for name in written.constants), _column(written.constants.values())
        for key, value in {
                "states": tuple(written.states), "inputs": tuple(written.inputs), "outputs": tuple(written.outputs),
                "parameters": tuple(written.parameters), "constants": MappingProxyType(written.constants),
                "units": MappingProxyType(written.units), "name": written.name,
                "rate": _function("rate", arguments, rates, fixed, "dx"),
                "output": _function("output", arguments, measured, fixed, "y"),
                "_definition": written.definition()}.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> EquationModel:
        """The model that `definition()` describes."""
        faults = []
        if definition.get("kind") != KIND:
            faults.append(f"a model of kind {definition.get('kind')!r} is not made of equations; expected '{KIND}'.")
        faults += [f"'{key}' has no meaning in a model.{did_you_mean(key, ITEMS)}"
                   for key in definition if key not in ("kind", *ITEMS)]
        faults += ["the model has no 'states'."] * ("states" not in definition)
        if faults:
            raise ProblemError(faults)
        return cls(**{key: value for key, value in definition.items() if key != "kind"})

    def definition(self) -> dict[str, Any]:
        """The model as plain data: text and numbers, from which `from_definition` builds it again."""
        return copy.deepcopy(self._definition)

    def content_hash(self) -> str:
        """A fingerprint of the definition; equal for models that say the same in the same words."""
        said = self.definition()
        for unordered in ("constants", "definitions", "units"):
            said[unordered] = sorted(said[unordered].items())
        for ordered in ("states", "outputs"):
            said[ordered] = list(said[ordered].items())
        return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    def position_velocity(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Positions and, in the same order, their velocities, as indices into the states.

        The form asks that each position's rate is one velocity and nothing else, and that every state is one of both.
        """
        x = casadi.SX.sym("x", len(self.states))
        others = [casadi.SX.sym(n, self.rate.size1_in(k)) for k, n in ((0, "t"), (2, "u"), (3, "p"))]
        rates = self.rate(others[0], x, *others[1:])
        index = {x[k].element_hash(): k for k in range(len(self.states))}
        velocity_of = {k: index[rates[k].element_hash()] for k in range(len(self.states))
                       if rates[k].element_hash() in index}
        positions = tuple(velocity_of)
        velocities = tuple(velocity_of.values())
        for k, state in enumerate(self.states):
            reason = ""
            if k in velocity_of and k in velocities:
                reason = f"'{state}' is a velocity whose own rate is the state '{self.states[velocity_of[k]]}'"
            elif velocities.count(k) > 1:
                reason = f"'{state}' is the rate of {velocities.count(k)} states"
            elif k not in velocity_of and k not in velocities:
                reason = f"the rate of '{state}' is not one state alone, and '{state}' is the rate of no other state"
            if reason:
                raise NotSupported(f"{self._label} is not in the form of positions and velocities: {reason}. "
                                   "Use an integrator that takes any model, such as runge_kutta.")
        return positions, velocities

    @property
    def _label(self) -> str:
        return f"model '{self.name}'" if self.name else "the model"

    def __str__(self) -> str:
        said = self._definition

        def unit(name: str) -> str:
            return f" [{self.units[name]}]" if self.units.get(name) else ""

        lines = [f"EquationModel {self.name}".rstrip()]
        lines += [f"  {name}' = {text}" for name, text in said["states"].items()]
        lines += [f"  output {name} = {text}{unit(name)}" for name, text in said["outputs"].items()]
        lines += [f"  with {name} = {text}" for name, text in said["definitions"].items()]
        lines += [f"  constant {name} = {value!r}{unit(name)}" for name, value in self.constants.items()]
        for kind, names in (("states", self.states), ("inputs", self.inputs), ("parameters", self.parameters)):
            lines += [f"  {kind}: {', '.join(name + unit(name) for name in names)}"] * bool(names)
        return "\n".join(lines)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EquationModel) and self.content_hash() == other.content_hash()

    def __hash__(self) -> int:
        return hash(self.content_hash())

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"a model is frozen; build another one to change '{key}'.")

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f"a model is frozen; build another one without '{key}'.")

    def __reduce__(self) -> tuple[Any, ...]:
        return EquationModel.from_definition, (self.definition(),)


@dataclass
class _Written:
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


def _names(kind: str, given: Iterable[str], faults: list[str]) -> list[str]:
    if isinstance(given, str):
        faults.append(f"{kind} is a list of names; write {kind}=[{given!r}].")
        return []
    names = [str(name) for name in given]
    faults += [f"{kind} lists '{name}' {names.count(name)} times; once is enough."
               for name in dict.fromkeys(names) if names.count(name) > 1]
    return list(dict.fromkeys(names))


def _numbers(given: Mapping[str, float], faults: list[str]) -> dict[str, float]:
    numbers = {}
    for name, value in given.items():
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):
            numbers[str(name)] = math.nan
        if not math.isfinite(numbers[str(name)]) or isinstance(value, str):
            faults.append(f"constant '{name}' is {value!r}; give a finite number.")
    return numbers


def _texts(kind: str, given: Mapping[str, Equation], faults: list[str]) -> Texts:
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


def _take_text(written: _Written, states: Any, outputs: Any, definitions: Mapping[str, Equation],
               faults: list[str]) -> None:
    if not isinstance(states, Mapping):
        faults.append("states is a list of names, but there are no rates. Write states={\"q\": \"v\", ...}, "
                      "or give a function rate(t, x, u, p).")
        raise ProblemError(faults)  # there is nothing else to look at
    written.states = _texts("rate", states, faults)
    written.definitions = _texts("definition", definitions, faults)
    if outputs is None:
        written.outputs = {name: name for name in written.states}
    elif isinstance(outputs, Mapping):
        written.outputs = _texts("equation", outputs, faults)
    else:
        written.outputs = _listed(outputs, [*written.states, *written.inputs, *written.definitions], faults)


def _listed(outputs: Iterable[str], measurable: Sequence[str], faults: list[str]) -> Texts:
    """Outputs given as a list of names: each is measured as it is."""
    names = _names("outputs", outputs, faults)
    faults += [f"output '{name}' has no equation and is not the name of a part of the model."
               f"{did_you_mean(name, measurable)}" for name in names if name not in measurable]
    return {name: name for name in names if name in measurable}


class _Names:
    """What `x`, `u` and `p` are inside of a rate function: symbols by name, remembering which were asked for."""

    _letter: str
    _kind: str
    _faults: list[str]
    _open_ended: bool  # an unknown name is a new parameter, not a fault
    _symbols: dict[str, casadi.SX]
    _asked: set[str]

    def __init__(self, letter: str, kind: str, names: Iterable[str], faults: list[str], open_ended: bool = False):
        self.__dict__.update(_letter=letter, _kind=kind, _faults=faults, _open_ended=open_ended, _asked=set(),
                             _symbols={name: casadi.SX.sym(name) for name in names})

    def __getitem__(self, name: str) -> casadi.SX:
        if not isinstance(name, str):
            raise TypeError(f"{self._letter}[{name!r}]: read a {self._kind} by its name, as in {self._letter}.name or "
                            f"{self._letter}[\"name\"]")
        self._asked.add(name)
        if name not in self._symbols:
            if not self._open_ended:
                self._faults.append(f"{self._letter}.{name} is read, but '{name}' is not declared as a {self._kind}."
                                    f"{did_you_mean(name, self._symbols)}")
            self._symbols[name] = casadi.SX.sym(name)  # a stand-in, so that the rest is checked too
        return self._symbols[name]

    def __getattr__(self, name: str) -> casadi.SX:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[casadi.SX]:
        if self._open_ended:
            raise TypeError(f"{self._letter} can be unpacked only if every {self._kind} is declared in the model")
        return iter([self[name] for name in self._symbols])

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(f"{self._letter}.{name} = ...: a {self._kind} is read, never set, inside of an equation")

    def _never_asked(self, kinds: Mapping[str, str]) -> list[str]:
        return [f"{kinds[name]} '{name}' is declared but never read. Use it, or remove it."
                for name in self._symbols if name in kinds and name not in self._asked]


def _take_functions(written: _Written, states: Any, outputs: Any, definitions: Any, rate: Callable[..., Any] | None,
                    output: Callable[..., Any] | None, faults: list[str]) -> None:
    """Trace the functions once with symbols and write down what they return."""
    if rate is None:
        faults.append("there is an output function but no rate function. Give rate(t, x, u, p) too, or text for both.")
    if isinstance(states, Mapping):
        faults.append("with a rate function, states is a list of names; the rates come from the function.")
    if definitions:
        faults.append("definitions belong to text equations; in a rate function, use variables.")
    if output is None and isinstance(outputs, Mapping):
        faults.append("with a rate function, outputs come from an output function, or list states by name.")
    names = _names("states", states, faults)
    if faults or rate is None:
        return
    written.states = {name: name for name in names}  # until the rates are known
    faults += _name_faults(written)
    t = casadi.SX.sym(TIME)
    x = _Names("x", "state", names, faults)
    u = _Names("u", "input", written.inputs, faults)
    p = _Names("p", "parameter", [*(written.parameters or ()), *written.constants], faults, written.parameters is None)
    rates = _traced("rate", rate, (t, x, u, p), names, faults)
    if output is not None:
        declared = None if outputs is None else _names("outputs", outputs, faults)
        measured = _traced("output", output, (t, x, u, p), declared, faults)
    else:
        measured = {name: x[name] for name in (names if outputs is None else _listed(outputs, names, faults))}
    if faults:
        kinds = {name: kind for kind, name in written.declared() if kind != "state"}
        faults += [*u._never_asked(kinds), *p._never_asked(kinds)]
        return
    if written.parameters is None:
        written.parameters = [name for name in p._symbols if name not in written.constants]
    symbols = [t, *x._symbols.values(), *u._symbols.values(), *p._symbols.values()]
    keyed = {("state", k): v for k, v in rates.items()} | {("output", k): v for k, v in measured.items()}
    try:
        texts, written.definitions = expressions_to_text(keyed, symbols, taken=measured)
    except ProblemError as error:
        faults.extend(error.faults)
        return
    written.states = {name: texts["state", name] for name in names}
    written.outputs = {name: texts["output", name] for name in measured}


def _traced(what: str, function: Callable[..., Any], arguments: tuple, names: list[str] | None,
            faults: list[str]) -> dict[str, casadi.SX]:
    """What the function returns for symbols, by name; without `names` it must be a dict and names them itself."""
    called = f"the {what} function {getattr(function, '__name__', '')}".rstrip()
    kind = "state" if what == "rate" else "output"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=r"\s*casadi: a numpy function", category=FutureWarning)
            returned = function(*arguments)
    except Exception as error:
        raise ProblemError([*faults, f"{called} {_what_went_wrong(error)}"]) from error
    if not isinstance(returned, Mapping):
        if names is None or returned is None:
            faults.append(f"{called} returned {type(returned).__name__}; return a dict from name to expression.")
            return {}
        values = _in_order(returned)
        if len(values) != len(names):
            faults.append(f"{called} returned {len(values)} {what}s, but there are {len(names)}: {', '.join(names)}.")
            return {}
        returned = dict(zip(names, values, strict=True))
    wanted = list(returned) if names is None else names
    faults += [f"{called} returned a {what} for '{name}', which is not a {kind}.{did_you_mean(name, wanted)}"
               for name in returned if name not in wanted]
    faults += [f"{called} returned no {what} for the {kind} '{name}'." for name in wanted if name not in returned]
    return {name: _scalar(f"{called}: '{name}'", returned[name], faults) for name in wanted if name in returned}


def _what_went_wrong(error: Exception) -> str:
    """An error inside of a user's function, with the way out where it is known."""
    if isinstance(error, FutureWarning) or "numpy" in f"{error} {type(error).__module__}":
        return f"calls a numpy function. {USE_MATHS}"
    if "truth value" in str(error):
        return "asks 'if', 'and' or 'or' of a symbol. Use where(condition, then, otherwise) from dynident.maths."
    return f"raised {type(error).__name__}: {error}."


def _in_order(returned: Any) -> list[Any]:
    if isinstance(returned, casadi.SX):
        return casadi.vertsplit(returned)
    return list(returned) if isinstance(returned, Iterable) else [returned]


def _scalar(what: str, value: Any, faults: list[str]) -> casadi.SX:
    """A returned value as one expression; what it cannot be is a fault, and 0 stands in for it."""
    try:
        expression = casadi.densify(casadi.SX(value))
    except (NotImplementedError, TypeError, RuntimeError):
        faults.append(f"{what} is a {type(value).__name__}, not an expression.")
        return casadi.SX(0)
    if expression.numel() != 1:
        faults.append(f"{what} has shape {expression.shape}; each is one scalar expression.")
        return casadi.SX(0)
    walk = casadi.Function("walk", casadi.symvar(expression), [expression])
    numbers = [walk.instruction_constant(k) for k in range(walk.n_instructions())
               if walk.instruction_id(k) == casadi.OP_CONST]
    if any(math.isnan(number) for number in numbers):
        faults.append(f"{what} holds nan whatever the values. {USE_MATHS}")
    elif not all(math.isfinite(number) for number in numbers):
        faults.append(f"{what} holds inf whatever the values. Only finite numbers can be used.")
    return expression


def _name_faults(written: _Written) -> list[str]:
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
        used_as = [kind for kind in used_as if kind != "output"]  # an output may repeat a name; see _clashes
        if len(used_as) > 1:
            faults.append(f"'{name}' is declared as {' and as '.join(used_as)}. Each name means one thing.")
    return faults


def _mentioned(text: str) -> tuple[str, ...]:
    """Names in a text; none if it cannot be read, which `_read` reports in its own words."""
    try:
        return names_in(text)
    except ProblemError:
        return ()


def _definition_order(written: _Written, faults: list[str]) -> list[str]:
    """Definitions so that each comes after those it uses."""
    uses = {name: [used for used in _mentioned(text) if used in written.definitions]
            for name, text in written.definitions.items()}
    try:
        return list(graphlib.TopologicalSorter(uses).static_order())
    except graphlib.CycleError as error:
        raise ProblemError([*faults, f"definitions go round in a circle: {' -> '.join(reversed(error.args[1]))}. "
                                     "One of them must not use the others."]) from None


def _undeclared(written: _Written) -> list[str]:
    """Names that are declared nowhere, in the order in which a reader meets them: the parameters."""
    declared = {TIME, *(name for _, name in written.declared())}
    met: dict[str, None] = {}
    ahead = [name for text in [*written.states.values(), *written.outputs.values()] for name in _mentioned(text)][::-1]
    while ahead:
        name = ahead.pop()
        if name in written.definitions and name not in met:
            ahead += _mentioned(written.definitions[name])[::-1]
        met.setdefault(name)
    return [name for name in met if name not in declared and NAME.fullmatch(name)]


def _read(text: str, known: Mapping[str, casadi.SX], where_used: str, faults: list[str]) -> casadi.SX:
    if text in known:
        return known[text]
    try:
        return parse_expression(text, known, where_used)
    except ProblemError as error:
        faults.extend(error.faults)
        return casadi.SX(0)


def _unused(written: _Written, expressions: Sequence[casadi.SX] | None) -> list[str]:
    """Declared but in no equation; and, where all could be read, what cancels out of them as in a - a."""
    try:
        mentioned = {name for text in written.equations() for name in names_in(text)}
    except ProblemError:
        return []  # the equation that cannot be read may well use them
    remaining = mentioned if expressions is None else {
        symbol.name() for symbol in casadi.symvar(_column(expressions))} | set(written.definitions)
    return [f"{kind} '{name}' {'drops out of' if name in mentioned else 'is used in'} "
            f"{'every' if name in mentioned else 'no'} equation. Use it, or remove it."
            for kind, name in written.declared() if kind != "state" and name not in mentioned & remaining]


def _clashes(written: _Written) -> list[str]:
    """Outputs that share a name with something else they are not equal to."""
    kinds = {name: kind for kind, name in written.declared()}
    return [f"output '{name}' has the name of a {kinds[name]} but is {text}. Rename the output, or write "
            f"outputs={{\"{name}\": \"{name}\"}}." for name, text in written.outputs.items()
            if name in kinds and text != name]


def _unknown_units(written: _Written) -> list[str]:
    known = [TIME, *(name for _, name in written.declared()), *written.outputs]
    return [f"units names '{name}', which is not part of the model.{did_you_mean(name, known)}"
            for name in written.units if name not in known]


def _column(items: Iterable[Any]) -> casadi.SX:
    listed = list(items)
    return casadi.vertcat(*(casadi.SX(item) for item in listed)) if listed else casadi.SX(0, 1)


def _function(name: str, arguments: list[casadi.SX], expressions: Sequence[casadi.SX],
              fixed: tuple[casadi.SX, casadi.SX], result: str) -> casadi.Function:
    """A function of (t, x, u, p) with the constants put in."""
    column = casadi.substitute(_column(expressions), *fixed)
    return casadi.Function(name, arguments, [casadi.densify(column)], ["t", "x", "u", "p"], [result], {"cse": True})
