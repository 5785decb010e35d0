"""Tracing: how does a Python function of (t, x, u, p) become equations?

It is called once with symbols, and what it returns is written down as text; numbers at random points are then compared.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import ONLY_MODE, TIME, ModelDefinition, ModeText, as_outputs, name_faults, names_of
from dynident.models.function_trace import BLACK_BOX, definition_place, expressions_of, place_of, trace_function
from dynident.models.hybrid_functions import is_condition
from dynident.models.parser import names_in
from dynident.models.printer import expressions_to_text
from dynident.models.traced_arguments import NameScope
from dynident.models.traced_arrays import TracedNumber, TraceError
from dynident.tolerances import TRACE_TOLERANCE

RANDOM_POINTS = 12  # random ones, of three sizes
TRACING_SEED = 20240229


class Names:
    """What `x`, `u` and `p` are for a function that hands them to CasADi itself: plain symbols by name."""

    _scope: NameScope

    def __init__(self, scope: NameScope):
        self.__dict__["_scope"] = scope

    def __getitem__(self, name: str) -> casadi.SX:
        if not isinstance(name, str):
            raise TypeError(f"{self._scope.letter}[{name!r}]: CasADi's own symbols are read by name")
        return self._scope.symbol(name)

    def __getattr__(self, name: str) -> casadi.SX:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._scope.symbol(name)

    def __iter__(self) -> Iterator[casadi.SX]:
        return iter([self._scope.symbol(name) for name in self._scope.symbols])

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(f"{self._scope.letter}.{name} = ...: a {self._scope.kind} is read, never set, inside of an equation")


def _standing_still(*_: Any) -> tuple:
    """The rates of a model without states."""
    return ()


def _mixed_with_text(states: Any, outputs: Any, definitions: Any, rate: Any, output: Any) -> list[str]:
    """What belongs to equations in text and was given beside functions, or the other way round."""
    faults = []
    if rate is None:
        faults.append("there is an output function but no rate function. Give rate(t, x, u, p) too, or text for both.")
    if isinstance(states, Mapping):
        faults.append("with a rate function, states is a list of names; the rates come from the function.")
    if definitions:
        faults.append("definitions belong to text equations; in a rate function, use variables.")
    if output is None and isinstance(outputs, Mapping):
        faults.append("with a rate function, outputs come from an output function, or list states by name.")
    return faults


def take_functions(written: ModelDefinition, states: Any, outputs: Any, definitions: Any, rate: Callable[..., Any] | None,
                   output: Callable[..., Any] | None, faults: list[str]) -> None:
    """Trace the functions once with symbols and write down what they return."""
    if rate is None and output is not None and not states:
        rate = _standing_still
    faults += _mixed_with_text(states, outputs, definitions, rate, output)
    names = names_of("states", states, faults)
    if faults or rate is None:
        return
    written.states = names
    implicit = list(written.algebraic)
    faults += name_faults(written)
    arguments = arguments_of(written, faults)
    rates = trace("rate", rate, arguments, [*names, *implicit], faults)
    if output is not None:
        declared = None if outputs is None else names_of("outputs", outputs, faults)
        measured = trace("output", output, arguments, declared, faults)
    else:
        listed = names if outputs is None else as_outputs(outputs, [*names, *implicit], faults)
        measured = {name: arguments.x.symbols[name] for name in listed}
    if faults:
        kinds = {name: kind for kind, name in written.declared() if kind != "state"}
        faults += [*arguments.u.never_asked(kinds), *arguments.p.never_asked(kinds)]
        return
    if written.parameters is None:
        written.parameters = [name for name in arguments.p.symbols if name not in written.constants]
    written.unused += unread(written, arguments, [*rates.values(), *measured.values()])
    keyed = {("state", k): v for k, v in rates.items()} | {("output", k): v for k, v in measured.items()}
    try:
        symbols = [*arguments.symbols, *delayed_inputs(keyed.values())]
        texts, written.definitions = expressions_to_text(keyed, symbols, taken=measured)
    except ProblemError as error:
        faults.extend(error.faults)
        return
    written.modes = {ONLY_MODE: ModeText({name: texts["state", name] for name in names})}
    written.algebraic = {name: texts["state", name] for name in implicit}
    written.outputs = {name: texts["output", name] for name in measured}


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a user's function is called with: time, and states, inputs and parameters (with constants) by name."""

    t: casadi.SX
    x: NameScope
    u: NameScope
    p: NameScope
    constants: Mapping[str, float]

    def traced(self) -> tuple[Any, ...]:
        return TracedNumber(self.t), self.x.traced(), self.u.traced(), self.p.traced()

    def symbolic(self) -> tuple[Any, ...]:
        return self.t, Names(self.x), Names(self.u), Names(self.p)

    @property
    def symbols(self) -> list[casadi.SX]:
        return [self.t, *(symbol for scope in (self.x, self.u, self.p) for symbol in scope.symbols.values())]


def arguments_of(written: ModelDefinition, faults: list[str]) -> Arguments:
    """What a user's function is called with."""
    known = [*(written.parameters or ()), *written.constants]
    return Arguments(casadi.SX.sym(TIME), NameScope("x", "state", [*written.states, *written.algebraic], faults),
                     NameScope("u", "input", written.inputs, faults),
                     NameScope("p", "parameter", known, faults, written.parameters is None), written.constants)


def unread(written: ModelDefinition, arguments: Arguments, expressions: list[casadi.SX]) -> list[str]:
    """Declared names that a function written with arrays does not read: an array is handed over whole."""
    if not any(scope.positional for scope in (arguments.x, arguments.u, arguments.p)):
        return []
    met = {name for each in expressions for symbol in casadi.symvar(each)
           for name in ([symbol.name()] if "(" not in symbol.name() else names_in(symbol.name()))}
    return [name for kind, name in written.declared() if kind in ("input", "constant", "parameter") and name not in met]


def delayed_inputs(expressions: Iterable[casadi.SX]) -> list[casadi.SX]:
    """The symbols that `maths.delay` made, each once: their names are the text that they stand for."""
    met = {symbol.element_hash(): symbol for each in expressions for symbol in casadi.symvar(each)}
    return [symbol for symbol in met.values() if symbol.name().startswith("delay(")]


def returned_by(called: str, function: Callable[..., Any], arguments: Arguments, faults: list[str], branches: bool = True
                ) -> tuple[Any, bool]:
    """What a user's function returns for symbols, as a dict or a list; an error inside of it is told in the user's words.

    A function that hands its arguments to CasADi is called with CasADi's own symbols; whether it was is the second result.
    """
    try:
        return trace_function(function, arguments.traced, branches), False
    except Exception as error:
        known = list(faults)
        try:
            return expressions_of(called_with_symbols(function, arguments.symbolic())), True
        except Exception:
            raise ProblemError([*known, _what_went_wrong(called, error, place_of(error, function))]) from error


def called_with_symbols(function: Callable[..., Any], arguments: Iterable[Any]) -> Any:
    """What a function returns for CasADi's own symbols; functions of numpy, which do not know them, are an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=r"\s*casadi: a numpy function", category=FutureWarning)
        return function(*arguments)


def returned_for_symbols(called: str, function: Callable[..., Any], arguments: Iterable[Any], faults: list[str]) -> Any:
    """The same; an error inside of it is told in the user's words."""
    try:
        return called_with_symbols(function, arguments)
    except Exception as error:
        raise ProblemError([*faults, f"{called} {_symbols_misused(error)}"]) from error


def _symbols_misused(error: Exception) -> str:
    if isinstance(error, FutureWarning) or "numpy" in f"{error} {type(error).__module__}":
        return "calls a numpy function. Take sin, tanh, where, ... from dynident.maths: those of numpy do not know symbols."
    if "truth value" in str(error):
        return "asks 'if', 'and' or 'or' of a symbol. Use where(condition, then, otherwise) from dynident.maths."
    return f"raised {type(error).__name__}: {str(error).rstrip('.')}."


def trace_condition(called: str, function: Callable[..., Any], arguments: Arguments, faults: list[str]) -> casadi.SX:
    """The condition that a function returns for symbols; a number that is none holds where it is positive."""
    returned, _ = returned_by(called, function, arguments, faults, branches=False)
    expression = scalar_of(called, returned[0] if isinstance(returned, list) and len(returned) == 1 else returned, faults)
    return expression if is_condition(expression) or expression.is_constant() else expression > 0


def trace(what: str, function: Callable[..., Any], arguments: Arguments, names: list[str] | None,
           faults: list[str], of: str = "") -> dict[str, casadi.SX]:
    """What the function returns for symbols, by name; without `names` it must be a dict and names them itself."""
    called = f"the {what} function {getattr(function, '__name__', '')}".rstrip() + of
    kind = "output" if what == "output" else "state"
    returned, by_casadi = returned_by(called, function, arguments, faults)
    if not isinstance(returned, Mapping):
        if names is None or returned is None:
            faults.append(f"{called} returned {type(returned).__name__}; return a dict from name to expression.")
            return {}
        values = returned if isinstance(returned, list) else [returned]
        if len(values) != len(names):
            faults.append(f"{called} returned {len(values)} {what}s, but there are {len(names)}: {', '.join(names)}. "
                          "Return one for each.")
            return {}
        returned = dict(zip(names, values, strict=True))
    wanted = list(returned) if names is None else names
    faults += [f"{called} returned a {what} for '{name}', which is not a {kind}.{did_you_mean(name, wanted)}"
               for name in returned if name not in wanted]
    faults += [f"{called} returned no {what} for the {kind} '{name}'." for name in wanted if name not in returned]
    before = len(faults)
    found = {name: scalar_of(f"{called}: '{name}'", returned[name], faults) for name in wanted if name in returned}
    if len(faults) == before:
        faults += trace_faults(called, function, arguments, found, by_casadi)
    return found


def _what_went_wrong(called: str, error: Exception, place: str) -> str:
    """An error inside of a user's function, with its line and the way out."""
    said = str(error).rstrip(".")
    if isinstance(error, TraceError):
        return f"{called}{f', {place}' if place else ''}: {said}. {BLACK_BOX}"
    return f"{called} raised {type(error).__name__}: {said}{f', in {place}' if place else ''}."


def scalar_of(what: str, value: Any, faults: list[str]) -> casadi.SX:
    """A returned value as one expression; what it cannot be is a fault, and 0 stands in for it."""
    try:
        expression = value if isinstance(value, casadi.SX) else casadi.SX(value)
        expression = expression if expression.is_dense() else casadi.densify(expression)
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
        faults.append(f"{what} holds nan whatever the values: an entry that was never filled, or 0/0.")
    elif not all(math.isfinite(number) for number in numbers):
        faults.append(f"{what} holds inf whatever the values. Only finite numbers can be used.")
    return expression


def trace_faults(called: str, function: Callable[..., Any], arguments: Any, found: Mapping[str, casadi.SX], by_casadi: bool
                 ) -> list[str]:
    """Where function and trace differ; and that the function cannot be asked, where it raises at every point.

    `by_casadi`: it was called with CasADi's own symbols, and may need them (casadi.jacobian), so that numbers say nothing.
    """
    scopes = (arguments.x, arguments.u, arguments.p)
    inputs = [arguments.t, *(casadi.vertcat(*scope.symbols.values()) for scope in scopes)]
    if any("(" in symbol.name() for each in found.values() for symbol in casadi.symvar(each)):
        return []  # a delayed input, which numbers do not have
    trace = casadi.Function("trace", inputs, [casadi.vertcat(*found.values())])
    rng, compared, last = np.random.default_rng(TRACING_SEED), 0, ""
    for k in range(RANDOM_POINTS):
        values = [_point(rng, scope.symbols, arguments.constants, k, scope is arguments.p) for scope in scopes]
        t = float(rng.uniform(0, 3))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                said = _numbers(function(t, *(s.numbers(v) for s, v in zip(scopes, values, strict=True))), found)
                again = _numbers(function(t, *(s.numbers(v) for s, v in zip(scopes, values, strict=True))), found)
            except Exception as error:  # whatever it raises outside of its domain
                if _raised_by_casadi(error):
                    return []  # written for symbols (it takes derivatives, say): there is no function beside its trace
                last = f"{type(error).__name__}: {str(error).rstrip('.')}"
                continue
        traced = np.asarray(trace(t, *(list(v.values()) for v in values))).ravel()
        compared += 1
        for name, by_function, twice, by_trace in zip(found, said, again, traced, strict=True):
            if math.isfinite(by_function) and not abs(by_function - by_trace) <= TRACE_TOLERANCE * (1 + abs(by_function)):
                other = "" if by_function == twice else ", and called again it gives another value"
                return [f"{called}, {definition_place(function)}: '{name}' is {by_function:.9g} by the function and "
                        f"{by_trace:.9g} by its trace{other}. It hangs on something that is no argument (a counter, random "
                        f"numbers, the clock). {BLACK_BOX}"]
    if compared or by_casadi:
        return []
    return [f"{called}, {definition_place(function)}: it could not be compared with its trace, since it raises {last} at every "
            f"point that was tried. {BLACK_BOX}"]


def _raised_by_casadi(error: BaseException) -> bool:
    return any(frame.f_globals.get("__name__", "").partition(".")[0] == "casadi"
               for frame, _ in traceback.walk_tb(error.__traceback__))


def _point(rng: np.random.Generator, names: Iterable[str], constants: Mapping[str, float], k: int, positive: bool
           ) -> dict[str, float]:
    size = (1.0, 0.3, 3.0)[k % 3]
    drawn = {name: size * float(rng.normal()) for name in names}
    if positive and k % 2:
        drawn = {name: abs(value) + 0.1 for name, value in drawn.items()}
    return {name: constants.get(name, value) for name, value in drawn.items()}


def _numbers(returned: Any, found: Mapping[str, casadi.SX]) -> list[float]:
    if isinstance(returned, Mapping):
        return [float(np.ravel(returned[name])[0]) for name in found]
    if isinstance(returned, (list, tuple)):
        return [float(np.ravel(np.asarray(each))[0]) for each in returned]
    return [float(each) for each in np.ravel(np.asarray(returned))]
