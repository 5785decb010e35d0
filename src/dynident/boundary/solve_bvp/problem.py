"""Boundary value problem: how do a rate function and conditions at both ends become a boundary value problem?"""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np

from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.models.definition import column_vector
from dynident.models.equations import EquationModel
from dynident.models.function_key import function_key
from dynident.models.tracing import returned_for_symbols, scalar_of

LETTER = "y"  # states are y1, y2, ... unless they are named


# boundary conditions

BoundaryJacobian = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # value, d/d begin, d/d end, d/d p


class BoundaryConditions(Protocol):
    """Conditions g(begin, end, p) = 0, as many as states and parameters together; separated boundary conditions ask one end
    each, periodic ones both.
    """

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray: ...

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian: ...


class SymbolicBoundaryConditions:
    """Conditions as one expression in the symbols of both states and of the parameters."""

    def __init__(self, begin: ca.SX, end: ca.SX, p: ca.SX, conditions: ca.SX):
        self.everything = everything = ca.vertcat(begin, end, p)
        slope = ca.densify(ca.jacobian(conditions, everything))
        self.plain = BufferedFunction(ca.Function("ends", [everything], [ca.densify(conditions)]))
        self.both = BufferedFunction(ca.Function("ends_slopes", [everything], [ca.densify(conditions), slope]))

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return _finite(self.plain(np.concatenate([begin, end, p]))[0].ravel())

    def both_again(self) -> BufferedFunction:
        """Conditions and their slopes, with numbers of its own."""
        return BufferedFunction(self.both.function)

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian:
        value, slope = self.both(np.concatenate([begin, end, p]))
        n = begin.size
        _finite(value)
        _finite(slope, "the derivative of a condition")
        return value.ravel(), slope[:, :n], slope[:, n:2 * n], slope[:, 2 * n:]


class BufferedFunction:
    """A CasADi function of one vector, called through its buffers: a tenth of the usual cost of a call."""

    def __init__(self, function: ca.Function):
        self.function, self.alone = function, threading.Lock()
        self.buffer, self.trigger = function.buffer()
        self.argument = np.zeros(function.size1_in(0))
        self.results = [np.zeros(function.size_out(k)[::-1]) for k in range(function.n_out())]  # column by column
        self.buffer.set_arg(0, memoryview(self.argument))  # type: ignore[call-arg, arg-type]
        for k, room in enumerate(self.results):
            self.buffer.set_res(k, memoryview(room))  # type: ignore[call-arg, arg-type]

    @functools.cached_property
    def as_c(self) -> Any:
        """From C: from `argument` to `results`."""
        return ctypes.CFUNCTYPE(None)(self.trigger)

    def __call__(self, argument: np.ndarray) -> list[np.ndarray]:
        with self.alone:
            self.argument[:] = argument
            self.trigger()
            return [room.T.copy() for room in self.results]


class LinearBoundaryConditions:
    """A y(begin) + B y(end) = c, as (3.16) of the thesis; no parameters."""

    def __init__(self, at_begin: np.ndarray, at_end: np.ndarray, right: np.ndarray):
        self.at_begin, self.at_end, self.right = (np.asarray(a, dtype=float) for a in (at_begin, at_end, right))

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.at_begin @ begin + self.at_end @ end - self.right

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian:
        return self.value(begin, end, p), self.at_begin, self.at_end, np.zeros((self.right.size, p.size))


def _finite(values: np.ndarray, what: str = "a condition") -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise SimulationDiverged(np.nan, 0, what=f"{what} at the ends is not a finite number")
    return values


# the problem


class Listed(Sequence[ca.SX]):
    """What `y` and `p` are inside of a user's function: symbols by place (y[0]), by name (y.speed) or unpacked."""

    def __init__(self, names: Sequence[str], symbols: Sequence[ca.SX]):
        self._names, self._symbols = tuple(names), tuple(symbols)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            if place not in self._names:
                raise LookupError(f"there is no '{place}'.{did_you_mean(place, self._names)}")
            return self._symbols[self._names.index(place)]
        return self._symbols[place]

    def __getattr__(self, name: str) -> ca.SX:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except LookupError as error:
            raise AttributeError(str(error)) from None

    def __len__(self) -> int:
        return len(self._symbols)

    def __iter__(self) -> Iterator[ca.SX]:
        return iter(self._symbols)


@dataclass(frozen=True, eq=False)
class Statement:
    """y' = rate(t, y, p), conditions(y(a), y(b), p) = 0."""

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    model: EquationModel  # its parameters are those that the rate uses
    used: tuple[int, ...]  # places of the model's parameters among all
    ends: SymbolicBoundaryConditions
    conditions: int
    same_slopes: bool  # derivatives that no state or parameter changes, as those of linear equations: no guess matters
    free: tuple[str, ...] = ()  # states to which any number can be added: no rate depends on them, no condition on their level

    def values(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(conditions,) what the boundary function gives, finite or not."""
        return self.ends.plain(np.concatenate([begin, end, p]))[0].ravel()

    def rates(self, t: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(points, states) rates at (points,) times and (points, states) states."""
        n, count = len(self.states), len(t)
        call = self.model.rate.map(count)
        inputs = ca.DM(0, count)
        return np.asarray(call(t[None, :], y.T, inputs, np.tile(p[list(self.used)][:, None], (1, count)))).T.reshape(count, n)


_traced: OrderedDict[Hashable, Statement] = OrderedDict()
TRACED = 64  # statements that are kept


def trace_problem(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], count: int,
                  states: Sequence[str] | None, parameters: Sequence[str]) -> Statement:
    """Both functions as expressions; of those that surely say what they said before, the statement that was made then."""
    names = (*(states or ()), *parameters)
    keys = rate if isinstance(rate, EquationModel) else function_key(rate, names), function_key(boundary, names)
    if None in keys:
        return _trace(rate, boundary, count, states, parameters)
    key = keys, count, states if states is None else tuple(states), tuple(parameters)
    if (found := _traced.pop(key, None)) is None:
        found = _trace(rate, boundary, count, states, parameters)
    _traced[key] = found  # the one that was asked for last stands at the end
    if len(_traced) > TRACED:
        _traced.popitem(last=False)
    return found


def forget_statements() -> None:
    """As if nothing had been traced yet."""
    _traced.clear()


def _trace(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], count: int, states: Sequence[str] | None,
           parameters: Sequence[str]) -> Statement:
    """Trace both functions once with symbols; all faults are listed in one error."""
    faults: list[str] = []
    names = _state_names(rate, count, states, faults)
    if faults:
        raise ProblemError(faults)
    model, used = (_of_model(rate, names, parameters, faults) if isinstance(rate, EquationModel) else
                   _of_function(rate, names, parameters, faults))
    begin, end = (Listed(names, [ca.SX.sym(f"{name}_{at}") for name in names]) for at in ("begin", "end"))
    p = Listed(parameters, [ca.SX.sym(name) for name in parameters])
    called = f"the boundary function {getattr(boundary, '__name__', '')}".rstrip()
    arguments = [begin, end, p][:_arity(called, boundary, 2, bool(parameters), "(begin, end)", faults)]
    conditions = _expressions(called, returned_for_symbols(called, boundary, arguments, faults), faults)
    wanted = len(names) + len(parameters)
    if not faults and len(conditions) != wanted:
        also = f" and {len(parameters)} parameters" if parameters else ""
        faults.append(f"{called} returned {len(conditions)} conditions, but {len(names)} states{also} need {wanted}.")
    in_conditions = {name for name in parameters if ca.depends_on(column_vector(conditions), p[name])}
    faults += _idle(rate, parameters, {*in_conditions, *(parameters[k] for k in used)}, bool(faults))
    if faults or model is None:
        raise ProblemError(faults)
    first, last, held = column_vector(begin), column_vector(end), column_vector(conditions)
    ends = SymbolicBoundaryConditions(first, last, column_vector(p), held)
    straight = bool(ca.is_linear(held, ends.everything))
    return Statement(tuple(names), tuple(parameters), model, used, ends, wanted, straight and _straight(model),
                     _free(model, first, last, held))


def _state_names(rate: Any, count: int, states: Sequence[str] | None, faults: list[str]) -> list[str]:
    if isinstance(rate, EquationModel):
        names = list(rate.states)
        if states is not None and list(states) != names:
            faults.append(f"the model names its own states: {', '.join(names)}. Leave states out.")
    else:
        names = [f"{LETTER}{k + 1}" for k in range(count)] if states is None else [str(s) for s in states]
    if len(names) != count:
        faults.append(f"the guess has {count} values per point, but there are {len(names)} states: {', '.join(names)}.")
    return names


def _idle(rate: Any, parameters: Sequence[str], standing: set[str], already: bool) -> list[str]:
    """Parameters that nothing depends on: no condition can find them. `already`: faults were found, and rates are missing."""
    if isinstance(rate, EquationModel):
        return [f"'{name}' is a constant of the model ({name} = {rate.constants[name]:g}), not a parameter. Leave it out of "
                "its constants to have it found, or out of parameters to keep its value." if name in rate.constants else
                f"parameters['{name}']: the model has no such parameter, and no condition at the ends holds it."
                f"{did_you_mean(name, rate.parameters)}"
                for name in parameters if name in rate.constants or name not in {*standing, *rate.parameters}]
    idle = [] if already else [name for name in parameters if name not in standing]
    return [f"parameters['{name}'] stands neither in the rate nor in the conditions at the ends, so that nothing can determine "
            "it. Leave it out, or use it." for name in idle]


def _straight(model: EquationModel) -> bool:
    """Whether the rate has the same derivatives everywhere."""
    t, x, p = (ca.SX.sym("t"), ca.SX.sym("x", len(model.states)), ca.SX.sym("p", len(model.parameters)))
    return bool(ca.is_linear(model.rate(t, x, ca.SX(0, 1), p), ca.vertcat(x, p)))


def _free(model: EquationModel, begin: ca.SX, end: ca.SX, conditions: ca.SX) -> tuple[str, ...]:
    """States whose level nothing determines; read off the expressions, so that no rounding has a say."""
    t, x, p = (ca.SX.sym("t"), ca.SX.sym("x", len(model.states)), ca.SX.sym("p", len(model.parameters)))
    inside = ca.jacobian(model.rate(t, x, ca.SX(0, 1), p), x)
    idle = [k for k in range(len(model.states)) if inside[:, k].is_zero()]
    if not idle:
        return ()
    level = ca.simplify(ca.jacobian(conditions, begin) + ca.jacobian(conditions, end))
    return tuple(model.states[k] for k in idle if level[:, k].is_zero())


def _of_model(model: EquationModel, names: list[str], parameters: Sequence[str], faults: list[str]
              ) -> tuple[EquationModel | None, tuple[int, ...]]:
    if model.inputs:
        faults.append(f"the model has inputs ({', '.join(model.inputs)}); a boundary value problem has none: write them as "
                      "functions of t.")
    if model.algebraic_system is not None and not model.algebraic_system.affine:
        faults.append(f"the algebraic variable '{model.algebraic[0]}' enters nonlinearly; a boundary value problem takes "
                      "those that enter linearly.")
    faults += [f"the model's parameter '{name}' has no value; give parameters={{'{name}': ...}}."
               for name in model.parameters if name not in parameters]
    if faults:
        return None, ()
    return model, tuple(list(parameters).index(name) for name in model.parameters)


def _of_function(rate: Callable[..., Any], names: list[str], parameters: Sequence[str], faults: list[str]
                 ) -> tuple[EquationModel | None, tuple[int, ...]]:
    """The rate as a model; parameters that it does not use stay with the boundary."""
    called = f"the rate function {getattr(rate, '__name__', '')}".rstrip()
    arity = _arity(called, rate, 2, bool(parameters), "(t, y)", faults)
    t, y, p = ca.SX.sym("t"), [ca.SX.sym(name) for name in names], [ca.SX.sym(name) for name in parameters]

    def call(t: Any, y: Sequence[ca.SX], p: Sequence[ca.SX]) -> list[ca.SX]:
        arguments = [t, Listed(names, y), Listed(parameters, p)][:arity]
        return _expressions(called, returned_for_symbols(called, rate, arguments, faults), faults)

    rates = call(t, y, p)
    if not faults and len(rates) != len(names):
        faults.append(f"{called} returned {len(rates)} rates, but there are {len(names)} states: {', '.join(names)}.")
    if faults:
        return None, ()
    together = ca.vertcat(*rates)
    used = tuple(k for k, symbol in enumerate(p) if ca.depends_on(together, symbol))
    traced = ca.Function("rate", [t, column_vector(y), column_vector(p[k] for k in used)], [together])
    return _model(traced.serialize(), tuple(names), tuple(parameters[k] for k in used)), used


@functools.lru_cache(maxsize=64)
def _model(traced: str, names: tuple[str, ...], parameters: tuple[str, ...]) -> EquationModel:
    """A rate as a model, kept for those who solve the same equations again: the key is what was traced, to the last bit."""
    function = ca.Function.deserialize(traced)

    def rate(t: Any, x: Any, u: Any, p: Any) -> list[ca.SX]:
        states, constants = column_vector(x[name] for name in names), column_vector(p[name] for name in parameters)
        return ca.vertsplit(function(t, states, constants))

    return EquationModel(states=names, rate=rate, parameters=parameters)


def _arity(called: str, function: Callable[..., Any], least: int, with_parameters: bool, usual: str, faults: list[str]) -> int:
    """How many arguments a user's function takes: the parameters may be left out where there are none."""
    try:
        taken = [a for a in inspect.signature(function).parameters.values()
                 if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD) and a.default is a.empty]
        open_ended = any(a.kind == a.VAR_POSITIONAL for a in inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return least + with_parameters
    if open_ended or len(taken) == least + 1:
        return least + 1
    if len(taken) == least and not with_parameters:
        return least
    more = usual.replace(")", ", p)")
    way = more if with_parameters else f"{usual} or {more}"
    faults.append(f"{called} takes {len(taken)} arguments; it is called with {way}.")
    return least + with_parameters


def _expressions(called: str, returned: Any, faults: list[str]) -> list[ca.SX]:
    if returned is None:
        faults.append(f"{called} returned nothing; return a list of expressions.")
        return []
    if isinstance(returned, Mapping):
        returned = list(returned.values())
    if isinstance(returned, ca.SX):
        returned = ca.vertsplit(ca.densify(ca.vec(returned)))
    values = list(returned) if isinstance(returned, Sequence | np.ndarray) else [returned]
    return [scalar_of(f"{called}: number {k + 1}", value, faults) for k, value in enumerate(values)]
