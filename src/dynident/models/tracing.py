"""Tracing: how does a Python function of (t, x, u, p) become equations?

It is called once with symbols, and what it returns is written down as text.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import casadi

from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import ONLY_MODE, TIME, ModelDefinition, ModeText, as_outputs, name_faults, names_of
from dynident.models.hybrid_functions import is_condition
from dynident.models.printer import expressions_to_text

USE_MATHS = "Take sin, tanh, where, ... from dynident.maths: those of numpy and math do not know symbols."


class Names:
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


def _standing_still(*_: Any) -> tuple:
    """The rates of a model without states."""
    return ()


def take_functions(written: ModelDefinition, states: Any, outputs: Any, definitions: Any, rate: Callable[..., Any] | None,
                   output: Callable[..., Any] | None, faults: list[str]) -> None:
    """Trace the functions once with symbols and write down what they return."""
    if rate is None and output is not None and not states:
        rate = _standing_still
    if rate is None:
        faults.append("there is an output function but no rate function. Give rate(t, x, u, p) too, or text for both.")
    if isinstance(states, Mapping):
        faults.append("with a rate function, states is a list of names; the rates come from the function.")
    if definitions:
        faults.append("definitions belong to text equations; in a rate function, use variables.")
    if output is None and isinstance(outputs, Mapping):
        faults.append("with a rate function, outputs come from an output function, or list states by name.")
    names = names_of("states", states, faults)
    if faults or rate is None:
        return
    written.states = names
    implicit = list(written.algebraic)
    faults += name_faults(written)
    _, x, u, p = arguments = arguments_of(written, faults)
    rates = trace("rate", rate, arguments, [*names, *implicit], faults)
    if output is not None:
        declared = None if outputs is None else names_of("outputs", outputs, faults)
        measured = trace("output", output, arguments, declared, faults)
    else:
        measured = {name: x[name] for name in (
            names if outputs is None else as_outputs(outputs, [*names, *implicit], faults))}
    if faults:
        kinds = {name: kind for kind, name in written.declared() if kind != "state"}
        faults += [*u._never_asked(kinds), *p._never_asked(kinds)]
        return
    if written.parameters is None:
        written.parameters = [name for name in p._symbols if name not in written.constants]
    keyed = {("state", k): v for k, v in rates.items()} | {("output", k): v for k, v in measured.items()}
    try:
        texts, written.definitions = expressions_to_text(keyed, [*symbols_of(arguments), *delayed_inputs(keyed.values())],
                                                         taken=measured)
    except ProblemError as error:
        faults.extend(error.faults)
        return
    written.modes = {ONLY_MODE: ModeText({name: texts["state", name] for name in names})}
    written.algebraic = {name: texts["state", name] for name in implicit}
    written.outputs = {name: texts["output", name] for name in measured}


Arguments = tuple[casadi.SX, Names, Names, Names]


def arguments_of(written: ModelDefinition, faults: list[str]) -> Arguments:
    """What a user's function is called with."""
    known = [*(written.parameters or ()), *written.constants]
    return (casadi.SX.sym(TIME), Names("x", "state", [*written.states, *written.algebraic], faults),
            Names("u", "input", written.inputs, faults),
            Names("p", "parameter", known, faults, written.parameters is None))


def symbols_of(arguments: Arguments) -> list[casadi.SX]:
    t, *others = arguments
    return [t, *(symbol for names in others for symbol in names._symbols.values())]


def delayed_inputs(expressions: Iterable[casadi.SX]) -> list[casadi.SX]:
    """The symbols that `maths.delay` made, each once: their names are the text that they stand for."""
    met = {symbol.element_hash(): symbol for each in expressions for symbol in casadi.symvar(each)}
    return [symbol for symbol in met.values() if symbol.name().startswith("delay(")]


def returned_by(called: str, function: Callable[..., Any], arguments: Iterable[Any], faults: list[str]) -> Any:
    """What a user's function returns for symbols; an error inside of it is told in the user's words."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=r"\s*casadi: a numpy function", category=FutureWarning)
            return function(*arguments)
    except Exception as error:
        raise ProblemError([*faults, f"{called} {_what_went_wrong(error)}"]) from error


def trace_condition(called: str, function: Callable[..., Any], arguments: Arguments, faults: list[str]) -> casadi.SX:
    """The condition that a function returns for symbols; a number that is none holds where it is positive."""
    expression = scalar_of(called, returned_by(called, function, arguments, faults), faults)
    return expression if is_condition(expression) or expression.is_constant() else expression > 0


def trace(what: str, function: Callable[..., Any], arguments: Arguments, names: list[str] | None,
           faults: list[str], of: str = "") -> dict[str, casadi.SX]:
    """What the function returns for symbols, by name; without `names` it must be a dict and names them itself."""
    called = f"the {what} function {getattr(function, '__name__', '')}".rstrip() + of
    kind = "output" if what == "output" else "state"
    returned = returned_by(called, function, arguments, faults)
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
    return {name: scalar_of(f"{called}: '{name}'", returned[name], faults) for name in wanted if name in returned}


def _what_went_wrong(error: Exception) -> str:
    """An error inside of a user's function, with the way out where it is known."""
    if isinstance(error, FutureWarning) or "numpy" in f"{error} {type(error).__module__}":
        return f"calls a numpy function. {USE_MATHS}"
    if "truth value" in str(error):
        return "asks 'if', 'and' or 'or' of a symbol. Use where(condition, then, otherwise) from dynident.maths."
    return f"raised {type(error).__name__}: {str(error).rstrip('.')}."


def _in_order(returned: Any) -> list[Any]:
    if isinstance(returned, casadi.SX):
        return casadi.vertsplit(returned)
    return list(returned) if isinstance(returned, Iterable) else [returned]


def scalar_of(what: str, value: Any, faults: list[str]) -> casadi.SX:
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
