"""Traced arrays: what does NumPy compute where the numbers are symbols?

A `TracedNumber` is one expression; a `TracedArray` is an object array of them, which NumPy itself slices, stacks, rolls and
multiplies. What NumPy cannot do with objects (where, clip, interp, solve, ...) is written here. Asking a value for true or
false is a question (`Questions`): the function is run again for each answer, and the answers are joined by `where`.
"""

from __future__ import annotations

import contextvars
import functools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import casadi
import numpy as np

MOST_QUESTIONS = 64  # in one run; a loop that ends when a value says so asks without end


class TraceError(TypeError):
    """Something that has no meaning for symbols."""


@dataclass
class Questions:
    """The conditions that one run of a function asked for, and the answers that it got."""

    answers: list[bool] = field(default_factory=list)
    conditions: list[casadi.SX] = field(default_factory=list)
    most: int = MOST_QUESTIONS

    def ask(self, condition: casadi.SX) -> bool:
        for known, answer in zip(self.conditions, self.answers, strict=False):
            if casadi.is_equal(known, condition, 4):
                return answer
        if not self.most:
            raise TraceError("it asks 'if', 'and' or 'or' of a value; write (v > 0) & (u > 1) or (v > 0) | (u > 1)")
        if len(self.conditions) >= self.most:
            raise TraceError(f"more than {MOST_QUESTIONS} questions (if, while, max, ...) hang on values in one run; a loop "
                             "must not end by a value")
        if len(self.answers) == len(self.conditions):
            self.answers.append(True)
        self.conditions.append(condition)
        return self.answers[len(self.conditions) - 1]


QUESTIONS: contextvars.ContextVar[Questions] = contextvars.ContextVar("questions")


def expression(value: Any) -> casadi.SX:
    """A number or a traced number as an expression."""
    return value.sx if isinstance(value, TracedNumber) else casadi.SX(float(value))


def _pow(a: casadi.SX, b: casadi.SX) -> casadi.SX:
    return a ** (float(b) if b.is_constant() else b)


def _where(condition: casadi.SX, then: casadi.SX, otherwise: casadi.SX) -> casadi.SX:
    return casadi.if_else(condition, then, otherwise)


def _cbrt(a: casadi.SX) -> casadi.SX:
    return casadi.sign(a) * casadi.fabs(a) ** (1 / 3)


def _arcsinh(a: casadi.SX) -> casadi.SX:
    return casadi.sign(a) * casadi.log(casadi.fabs(a) + casadi.sqrt(a * a + 1))


# by the name of the ufunc; text equations know sin, exp, ... and no log1p, so that these are written out
ELEMENTARY: dict[str, Callable[..., Any]] = {
    "negative": lambda a: -a, "positive": lambda a: a, "conjugate": lambda a: a, "absolute": casadi.fabs, "fabs": casadi.fabs,
    "sign": casadi.sign, "square": lambda a: a * a, "sqrt": casadi.sqrt, "exp": casadi.exp, "log": casadi.log,
    "sin": casadi.sin, "cos": casadi.cos, "tan": casadi.tan, "arcsin": casadi.asin, "arccos": casadi.acos,
    "arctan": casadi.atan, "sinh": casadi.sinh, "cosh": casadi.cosh, "tanh": casadi.tanh, "arcsinh": _arcsinh,
    "arccosh": lambda a: casadi.log(a + casadi.sqrt(a * a - 1)), "arctanh": lambda a: casadi.log((1 + a) / (1 - a)) / 2,
    "log1p": lambda a: casadi.log(1 + a), "expm1": lambda a: casadi.exp(a) - 1, "log2": lambda a: casadi.log(a) / math.log(2),
    "log10": lambda a: casadi.log(a) / math.log(10), "exp2": lambda a: casadi.exp(math.log(2) * a), "cbrt": _cbrt,
    "reciprocal": lambda a: 1 / a, "deg2rad": lambda a: a * (math.pi / 180), "radians": lambda a: a * (math.pi / 180),
    "rad2deg": lambda a: a * (180 / math.pi), "degrees": lambda a: a * (180 / math.pi),
    "expit": lambda a: 1 / (1 + casadi.exp(-a)), "logit": lambda a: casadi.log(a / (1 - a)),
    "logical_not": casadi.logic_not, "invert": casadi.logic_not,
    "isnan": lambda a: casadi.SX(0), "isinf": lambda a: casadi.SX(0), "isfinite": lambda a: casadi.SX(1),
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": _pow, "float_power": _pow, "maximum": casadi.fmax, "minimum": casadi.fmin, "fmax": casadi.fmax,
    "fmin": casadi.fmin, "arctan2": casadi.atan2, "hypot": lambda a, b: casadi.sqrt(a * a + b * b),
    "copysign": lambda a, b: casadi.fabs(a) * _where(b < 0, casadi.SX(-1), casadi.SX(1)),
    "heaviside": lambda a, b: _where(a < 0, casadi.SX(0), _where(a > 0, casadi.SX(1), b)),
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: b < a,
    "greater_equal": lambda a, b: b <= a, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
    "logical_and": casadi.logic_and, "bitwise_and": casadi.logic_and, "logical_or": casadi.logic_or,
    "bitwise_or": casadi.logic_or, "logical_xor": lambda a, b: (a != 0) != (b != 0),
    "bitwise_xor": lambda a, b: (a != 0) != (b != 0),
    "clip": lambda a, low, high: casadi.fmin(casadi.fmax(a, low), high), "where": _where}
ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "where": lambda c, a, b: a if c else b, "clip": lambda a, low, high: min(max(a, low), high),
    "expit": lambda a: 1 / (1 + math.exp(-a)), "logit": lambda a: math.log(a / (1 - a)), "logical_not": lambda a: not a,
    "invert": lambda a: not a}


def apply(name: str, *values: Any) -> Any:
    """One elementary function of numbers and traced numbers."""
    if any(isinstance(value, complex) for value in values):
        raise TraceError("complex numbers have no place in an equation")
    if not any(isinstance(value, TracedNumber) for value in values):
        if name in ON_NUMBERS:
            return ON_NUMBERS[name](*values)
        with np.errstate(all="ignore"):
            found = getattr(np, name)(*values)
        return found.item() if isinstance(found, np.generic) else found
    return TracedNumber(ELEMENTARY[name](*(expression(value) for value in values)))


class TracedNumber:
    """One expression that behaves like a number; asked for true or false, it asks `QUESTIONS`."""

    __slots__ = ("sx",)
    __hash__ = object.__hash__
    shape, ndim, size = (), 0, 1

    def __init__(self, sx: casadi.SX):
        self.sx = sx

    def __bool__(self) -> bool:
        if self.sx.is_constant():
            return bool(float(self.sx))
        return QUESTIONS.get().ask(self.sx)

    def __float__(self) -> float:
        if self.sx.is_constant():
            return float(self.sx)
        raise TraceError("a value is turned into a plain number (float, an array of integers, ...), which it is not before the "
                         "model is run")

    def _refused(self, *_: Any) -> Any:
        raise TraceError("whole numbers (int, round, floor, //, %) of a value have no derivative and no place in an equation")

    __int__ = __index__ = __round__ = __floor__ = __ceil__ = __trunc__ = __mod__ = __rmod__ = __floordiv__ = _refused
    __rfloordiv__ = floor = ceil = rint = trunc = _refused

    def __complex__(self) -> complex:
        raise TraceError("complex numbers have no place in an equation")

    @property
    def real(self) -> TracedNumber:
        return self

    @property
    def imag(self) -> float:
        return 0.0

    @property
    def T(self) -> TracedNumber:
        return self

    def item(self) -> TracedNumber:
        return self

    def copy(self) -> TracedNumber:
        return self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Callable, types: Iterable, args: tuple, options: dict) -> Any:
        return array_function(function, args, options)

    def __repr__(self) -> str:
        return str(self.sx)


def _operator(name: str, turned: bool) -> Callable[[TracedNumber, Any], Any]:
    def operate(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, complex):
            raise TraceError("complex numbers have no place in an equation")
        if not isinstance(other, (TracedNumber, numbers.Real, np.bool_)):
            return NotImplemented
        return apply(name, other, self) if turned else apply(name, self, other)

    return operate


def _method(name: str) -> Callable[[TracedNumber], Any]:
    return lambda self: apply(name, self)


for _name, _function in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
                         "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.items():
    setattr(TracedNumber, f"__{_name}__", _operator(_function, False))
    setattr(TracedNumber, f"__r{_name}__", _operator(_function, True))
for _name, _function in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
                         "ne": "not_equal"}.items():
    setattr(TracedNumber, f"__{_name}__", _operator(_function, False))
for _name, _function in {"__neg__": "negative", "__pos__": "positive", "__abs__": "absolute", "__invert__": "invert"}.items():
    setattr(TracedNumber, _name, _method(_function))
for _name in ("sqrt", "exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
              "arccosh", "arctanh", "log1p", "expm1", "log2", "log10", "exp2", "cbrt", "square", "conjugate", "sign", "fabs",
              "deg2rad", "rad2deg", "radians", "degrees", "reciprocal"):
    setattr(TracedNumber, _name, _method(_name))  # NumPy calls these of the objects of an array


class TracedArray(np.ndarray):
    """An object array of numbers and traced numbers."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # type: ignore[override]
        return array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Callable, types: Iterable, args: tuple, options: dict) -> Any:  # type: ignore[override]
        return array_function(function, args, options)

    def __getitem__(self, key: Any) -> Any:
        return wrapped(plain(self)[_index(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, TracedArray) and has_symbols(key) and np.ndim(value) == 0:  # y[x < 0] = 0
            plain(self)[...] = plain(wrapped(elementwise("where", key, value, plain(self))))
        else:
            plain(self)[_index(key)] = value if isinstance(value, TracedNumber) else plain(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def astype(self, kind: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        return as_floats(self, kind)

    def item(self, *place: Any) -> Any:
        return plain(self).item(*place)

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())


def _index(key: Any) -> Any:
    """An index of numbers; conditions among it are asked for."""
    if isinstance(key, tuple):
        return tuple(_index(each) for each in key)
    if isinstance(key, TracedNumber):
        return bool(key)  # x[x > 0] of one value
    if isinstance(key, TracedArray):
        flat = [bool(each) if isinstance(each, TracedNumber) else each for each in plain(key).ravel()]
        return np.array(flat).reshape(key.shape)
    return key


def as_floats(values: Any, kind: Any) -> Any:
    """A copy under another type; what is no float keeps nothing of a symbol."""
    if np.dtype(object if kind is None else kind).kind not in "fO" and has_symbols(values):
        raise TraceError(f"a value is turned into {np.dtype(kind)}, which has no derivative")
    return wrapped(np.array(plain(values), dtype=object))


def plain(value: Any) -> Any:
    """Arrays without our class; numbers stay as they are, inside of an array of no dimensions where they are symbols."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if isinstance(value, TracedNumber):
        box = np.empty((), dtype=object)
        box[()] = value
        return box
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, TracedNumber) for each in value) and all(np.ndim(each) == 0 for each in value):
            return array_of(value)
        return type(value)(plain(each) for each in value) if not hasattr(value, "_fields") else value
    return value


def wrapped(result: Any) -> Any:
    """What NumPy made of objects, as ours again."""
    if isinstance(result, np.ndarray) and result.dtype == object:
        for place, each in enumerate(result.flat if result.ndim else ()):
            if isinstance(each, np.ndarray) and not each.ndim:  # a symbol that is still in the box that NumPy took it in
                result.flat[place] = each[()]
        return result.view(TracedArray) if result.ndim else result[()]
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return type(result)(wrapped(each) for each in result)
    return result


def array_of(value: Any) -> np.ndarray:
    """An object array of whatever stands for an array."""
    if isinstance(value, (list, tuple)):
        parts = [array_of(each) for each in value]
        if len({part.shape for part in parts}) > 1:
            raise ValueError("setting an array element with a sequence: its rows have different lengths")
        made = np.empty((len(parts), *(parts[0].shape if parts else ())), dtype=object)
        for k, part in enumerate(parts):
            made[k] = part if part.ndim else part[()]
        return made
    return np.asarray(plain(value), dtype=object)


def has_symbols(value: Any) -> bool:
    if isinstance(value, TracedNumber):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(isinstance(each, TracedNumber) for each in value.view(np.ndarray).ravel())
    return isinstance(value, (list, tuple)) and any(has_symbols(each) for each in value)


def elementwise(name: str, *values: Any) -> np.ndarray:
    arrays = [array_of(value) for value in values]
    found = np.frompyfunc(functools.partial(apply, name), len(arrays), 1)(*arrays)
    if isinstance(found, np.ndarray):
        return found
    return plain(found) if isinstance(found, TracedNumber) else np.array(found, object)


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, options: dict) -> Any:
    name, out, chosen = ufunc.__name__, options.pop("out", None), options.pop("where", True)
    if name in ("matmul", "vecdot", "matvec", "vecmat") and method == "__call__":
        result = ufunc(*(array_of(each) for each in inputs))
        result = result if isinstance(result, np.ndarray) else plain(result)
    elif name not in ELEMENTARY:
        raise TraceError(f"the function {name} is not one that an equation can hold")
    elif method == "__call__":
        result = elementwise(name, *inputs)
    elif method == "outer":
        a, b = (array_of(each) for each in inputs)
        result = elementwise(name, a.reshape(a.shape + (1,) * b.ndim), b)
    elif method in ("reduce", "accumulate"):
        result = (_reduce if method == "reduce" else _accumulate)(name, array_of(inputs[0]), *inputs[1:], **options)
    else:
        raise TraceError(f"{name}.{method} of values is not known here")
    if chosen is not True:
        before = array_of(out[0]) if out is not None else np.array(math.nan, object)
        result = elementwise("where", chosen, result, before)
    if out is not None and out[0] is not None:
        if not isinstance(out[0], TracedArray) and out[0].dtype != object:
            raise TraceError("a value is written into an array of plain numbers; make that array inside of the function")
        plain(out[0])[...] = result
        return out[0]
    return wrapped(result)


def _reduce(name: str, values: np.ndarray, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None,
            **_: Any) -> np.ndarray:
    axes = tuple(range(values.ndim))
    if axis is not None and axes:
        axes = tuple(a % values.ndim for a in np.atleast_1d(axis))
    kept = [a for a in range(values.ndim) if a not in axes]
    lines = values.transpose([*axes, *kept]).reshape((-1, *(values.shape[a] for a in kept)))
    neutral = {"add": 0.0, "multiply": 1.0, "logical_or": False, "logical_and": True}.get(name)
    begin = [] if initial is None or initial is np._NoValue else [np.array(initial, object)]
    begin = begin or ([np.full(lines.shape[1:], neutral, object)] if not len(lines) and neutral is not None else [])
    rows = [*begin, *(np.asarray(line, object) for line in lines)]
    if name in ("logical_or", "logical_and"):  # of one alone it is still a condition
        rows = [elementwise("not_equal", rows[0], 0.0) if not has_symbols(rows[0]) else rows[0], *rows[1:]]
    result = np.asarray(functools.reduce(lambda a, b: elementwise(name, a, b), rows), dtype=object)
    return result.reshape([1 if a in axes else values.shape[a] for a in range(values.ndim)]) if keepdims else result


def _accumulate(name: str, values: np.ndarray, axis: int = 0, **_: Any) -> np.ndarray:
    lines = np.moveaxis(values, axis, 0)
    rows = [np.asarray(lines[0], object)]
    for line in lines[1:]:
        rows.append(elementwise(name, rows[-1], line))
    return np.moveaxis(np.array(rows, dtype=object), 0, axis)


def array_function(function: Callable, args: tuple, options: dict) -> Any:
    from dynident.models.traced_functions import HANDLERS

    handler = HANDLERS.get(function)
    if handler is not None:
        return handler(*args, **options)
    return wrapped(function(*(plain(each) for each in args), **{key: plain(each) for key, each in options.items()}))
