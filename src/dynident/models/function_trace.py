"""Function trace: which expressions does a function written with NumPy and math compute?

The function is copied with other meanings of np, math, float, max and min, and run with traced arrays, once per answer to what
it asks of values; the runs are joined by `where`. What comes out is compared with the function itself at random points.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import math
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import casadi
import numpy as np

from dynident.models.traced_arrays import (
    ELEMENTARY,
    MOST_QUESTIONS,
    QUESTIONS,
    Questions,
    TracedArray,
    TracedNumber,
    TraceError,
    apply,
    array_of,
    as_floats,
    expression,
    has_symbols,
    plain,
    wrapped,
)

MOST_RUNS = 512  # of a function, one per combination of answers
BLACK_BOX = ("What cannot be traced can be fitted as a black box: SimulatorModel(simulate, parameters=[...], outputs=[...]).")


# what numpy, math and builtins mean inside of a traced function


class TracedFloat(type):
    """float(x) of a traced number is that number; everything else is as ever."""

    def __call__(cls, value: Any = 0.0) -> Any:
        traced = isinstance(value, (TracedNumber, TracedArray)) and has_symbols(value)
        return (value.item() if traced else float(value))

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (float, TracedNumber))


class PlainFloat(metaclass=TracedFloat):
    """What `float` is inside of a traced function."""


FLOATS = (PlainFloat, float, np.float64, np.float32, "float", "float64", "d", None)


def _makes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor whose arrays can hold symbols."""
    def make(*args: Any, **options: Any) -> Any:
        kind = options.get("dtype")
        if kind is not None and kind not in FLOATS and kind is not object:
            return function(*args, **options)
        options.pop("dtype", None)
        positional = [each for k, each in enumerate(args) if not (k > 0 and each in (PlainFloat, float))]
        if function is np.empty:
            return wrapped(np.full(positional[0], math.nan, dtype=object))
        made = function(*(plain(each) for each in positional), **{k: plain(v) for k, v in options.items()})
        return wrapped(np.asarray(made, dtype=object))

    return make


def _array(values: Any, dtype: Any = None, **options: Any) -> Any:
    if isinstance(dtype, type) and not has_symbols(values) and dtype not in FLOATS:
        return np.array(values, dtype=dtype)
    if not has_symbols(values):
        numbers = np.array(plain(values), **{k: v for k, v in options.items() if k in ("ndmin",)})
        if numbers.dtype.kind in "iub" and dtype is None:
            return numbers  # indices, and whole numbers that stay so
        return wrapped(numbers.astype(object)) if numbers.dtype.kind in "iubf" else numbers
    made = array_of(values)
    made = made.reshape((1,) * (options.get("ndmin", 0) - made.ndim) + made.shape)
    return as_floats(made, None if dtype in FLOATS else dtype)


def _asarray(values: Any, dtype: Any = None, **_: Any) -> Any:
    if isinstance(values, TracedArray) and dtype in FLOATS:
        return values
    return _array(values, dtype)


def _lists_as_arrays(value: Any) -> Any:
    """A list of numbers as an array: only of arrays does NumPy ask what they can do."""
    if isinstance(value, (list, tuple)) and has_symbols(value) and not any(
            isinstance(each, (np.ndarray, str)) for each in value):
        return wrapped(array_of(value))
    return float if value is PlainFloat else value


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return wrapped(function(*(_lists_as_arrays(each) for each in args),
                                **{key: _lists_as_arrays(each) for key, each in options.items()}))

    return call


class NumpyProxy:
    """What `np` (or a part of it) is inside of a traced function."""

    MADE: ClassVar[dict[str, Any]] = {
        "array": _array, "asarray": _asarray, "asanyarray": _asarray, "ascontiguousarray": _asarray,
        **{name: _makes(getattr(np, name)) for name in ("zeros", "ones", "empty", "full", "eye", "identity", "diag")},
        "float64": PlainFloat, "float32": PlainFloat, "double": PlainFloat}

    def __init__(self, module: Any):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name == "random":
            raise TraceError("random numbers make a function that is another one each time; disturbances are noise of "
                             "the problem")
        if self._module is np and name in self.MADE:
            return self.MADE[name]
        return _substitute(getattr(self._module, name))


MATH = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
        "atanh": "arctanh", "pow": "power"}


class MathProxy:
    """What `math` is inside of a traced function."""

    def __getattr__(self, name: str) -> Any:
        return _math_function(getattr(math, name))


def _math_function(original: Any) -> Any:
    if not callable(original):
        return original
    name = original.__name__

    def call(*args: Any) -> Any:
        values = [each.item() if isinstance(each, (TracedArray, np.ndarray)) and each.size == 1 else each for each in args]
        if not any(has_symbols(each) for each in values):
            return original(*values)
        if name == "log" and len(values) == 2:
            return apply("log", values[0]) / math.log(values[1])
        if name in ("fsum", "prod"):
            return functools.reduce(lambda a, b: a + b if name == "fsum" else a * b, values[0])
        if name == "hypot" and len(values) != 2:
            return apply("sqrt", sum(each * each for each in values))
        known = MATH.get(name, name)
        if known not in ELEMENTARY:
            raise TraceError(f"the function math.{name} is not one that an equation can hold")
        return apply(known, *values)

    return call


def _largest(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if options or not any(isinstance(each, TracedNumber) for each in values):
            return original(*args, **options)
        return functools.reduce(functools.partial(apply, name), values)

    return call


def _import(name: str, *args: Any, **options: Any) -> Any:
    found = builtins.__import__(name, *args, **options)
    return _substitute(found)


BUILTINS = {**vars(builtins), "__import__": _import, "float": PlainFloat, "max": _largest("maximum", max),
            "min": _largest("minimum", min)}


# the copy of a function


def _library(value: Any) -> bool:
    """Whether it belongs to an installed package or to Python itself."""
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    file = str(getattr(module, "__file__", "") or "")
    return "site-packages" in file or "dist-packages" in file or file.startswith(sys.base_prefix + "/lib")


def _substitute(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """What stands for a global value inside of a traced function."""
    if value is math:
        return MathProxy()
    if isinstance(value, types.ModuleType):
        ours = value is np or value.__name__.startswith("numpy.")
        return NumpyProxy(value) if ours else value
    name = getattr(value, "__name__", None)
    if value is float:
        return PlainFloat
    if isinstance(name, str) and not isinstance(value, type):
        if getattr(math, name, None) is value:
            return _math_function(value)
        if getattr(np, name, None) is value:
            return NumpyProxy.MADE.get(name) or (_called(value) if callable(value) else value)
    if isinstance(value, types.FunctionType) and str(value.__module__).split(".")[0] == "numpy":
        return _called(value)
    copied = traced_copy(value, {} if memo is None else memo) if _is_users(value) else value
    return copied


def _is_users(value: Any) -> bool:
    if isinstance(value, functools.partial):
        return True
    inner = getattr(value, "py_func", value)  # numba keeps the function that it compiles
    inner = inner.__func__ if isinstance(inner, types.MethodType) else inner
    return isinstance(inner, types.FunctionType) and not _library(inner)


def traced_copy(function: Any, memo: dict[int, Any]) -> Any:
    """The same code with other meanings of np, math, float, max and min, in what it calls too."""
    function = getattr(function, "py_func", function)
    if isinstance(function, functools.partial):
        return functools.partial(traced_copy(function.func, memo), *function.args, **function.keywords)
    if isinstance(function, types.MethodType):
        return types.MethodType(traced_copy(function.__func__, memo), function.__self__)
    if not isinstance(function, types.FunctionType):
        call = _call_of(function)
        if isinstance(call, types.FunctionType) and not isinstance(function, type):
            return types.MethodType(traced_copy(call, memo), function)
        return function
    if id(function) in memo:
        return memo[id(function)]
    world: dict[str, Any] = {"__builtins__": BUILTINS, "__name__": function.__module__}
    made = types.FunctionType(function.__code__, world, function.__name__, function.__defaults__, tuple(
        types.CellType() for _ in function.__closure__ or ()) or None)
    made.__kwdefaults__ = function.__kwdefaults__
    memo[id(function)] = made
    for name in _names(function.__code__):
        if name in function.__globals__:
            world[name] = _substitute(function.__globals__[name], memo)
    for cell, own in zip(made.__closure__ or (), function.__closure__ or (), strict=True):
        cell.cell_contents = _substitute(own.cell_contents, memo)
    return made


def _call_of(value: Any) -> Any:
    """What an object of a class of the user's does when it is called."""
    return next((vars(each)["__call__"] for each in type(value).__mro__ if "__call__" in vars(each)), None)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


# runs and their union


@dataclass(frozen=True, eq=False)
class Run:
    """One run: what it asked, what it was told, and what it returned."""

    conditions: tuple[casadi.SX, ...]
    answers: tuple[bool, ...]
    returned: Any  # dict or list of expressions


def trace_function(function: Callable[..., Any], arguments: Callable[[], Sequence[Any]], branches: bool = True) -> Any:
    """What a function returns, as a dict or a list of expressions; `arguments` makes them anew for each run.

    Without `branches`, one that asks values for true or false is refused.

    Raises whatever the function raises, TraceError among it.
    """
    copied, runs = traced_copy(function, {}), []
    answers: list[bool] = []
    while True:
        questions = Questions(answers, most=MOST_QUESTIONS if branches else 0)
        token = QUESTIONS.set(questions)
        try:
            runs.append(Run((), (), expressions_of(copied(*arguments()))))
        finally:
            QUESTIONS.reset(token)
        runs[-1] = Run(tuple(questions.conditions), tuple(questions.answers[:len(questions.conditions)]), runs[-1].returned)
        answers = list(runs[-1].answers)
        while answers and not answers[-1]:
            answers.pop()
        if not answers:
            return _joined(runs, 0)
        answers[-1] = False
        if len(runs) >= MOST_RUNS:
            raise TraceError(f"what it asks of values (if, while, max, ...) has more than {MOST_RUNS} combinations of answers; "
                             "write where(condition, then, otherwise)")


def expressions_of(returned: Any) -> Any:
    """What a function returned, as a dict or a list of expressions; anything else as it is."""
    if isinstance(returned, Mapping):
        return {name: _scalar(value) for name, value in returned.items()}
    if returned is None or isinstance(returned, str):
        return returned
    if isinstance(returned, (casadi.SX, casadi.MX)):
        return casadi.vertsplit(returned)
    if isinstance(returned, (list, tuple)):
        return [_scalar(value) for value in returned]
    return [_scalar(value) for value in array_of(returned).ravel()]


def _scalar(value: Any) -> Any:
    if isinstance(value, TracedNumber):
        return value.sx
    if isinstance(value, np.ndarray) and value.size == 1:
        return _scalar(value.view(np.ndarray).ravel()[0])
    if isinstance(value, np.ndarray) and value.dtype == object:
        return casadi.vertcat(*(expression(each) for each in value.view(np.ndarray).ravel()))
    return value


def _joined(runs: Sequence[Run], depth: int) -> Any:
    if len(runs) == 1:
        return runs[0].returned
    condition = runs[0].conditions[depth]
    yes, no = (_joined([run for run in runs if run.answers[depth] is each], depth + 1) for each in (True, False))
    if isinstance(yes, dict) and isinstance(no, dict) and list(yes) == list(no):
        return {name: _either(condition, yes[name], no[name]) for name in yes}
    if isinstance(yes, list) and isinstance(no, list) and len(yes) == len(no):
        return [_either(condition, a, b) for a, b in zip(yes, no, strict=True)]
    raise TraceError("its branches return different things; let each return a value for every state")


def _either(condition: casadi.SX, yes: Any, no: Any) -> casadi.SX:
    a, b = casadi.SX(yes), casadi.SX(no)
    return a if casadi.is_equal(a, b, 8) else casadi.if_else(condition, a, b)


def _code(function: Any) -> types.CodeType | None:
    inner = getattr(function, "py_func", function)
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, types.FunctionType):
        inner = _call_of(inner)
    return getattr(inner, "__code__", None)


def definition_place(function: Callable[..., Any]) -> str:
    """Where a function begins: 'line 12 of model.py'."""
    code = _code(function)
    return f"line {code.co_firstlineno} of {Path(code.co_filename).name}" if code else "which is no function of Python"


def place_of(error: BaseException, function: Callable[..., Any]) -> str:
    """The line of the user's file in which an error arose: 'line 12 of model.py (return np.linalg.pinv(A) @ x)'."""
    code = _code(function)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    if not frames:
        return ""
    last = frames[-1]
    text = linecache.getline(last.filename, last.lineno or 0).strip()
    return f"line {last.lineno} of {Path(last.filename).name}" + (f" ({text})" if text else "")
