"""Function keys: when do two functions of a user surely say the same, so that one trace of them will do?

Tracing a rate takes as long as all that follows on a small problem. A key holds what a function can depend on: its code, what
it encloses, its defaults and the globals that it names, by their values; functions among these by their own keys. Whatever is
not understood (a list that may change, an object, an import, a module other than those of mathematics) has no key, and is
traced each time.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
import types
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

PURE_BUILTINS = {"abs", "bool", "complex", "divmod", "enumerate", "float", "int", "isinstance", "len", "list", "map", "max",
                 "min", "pow", "range", "reversed", "round", "sorted", "sum", "tuple", "type", "zip"}
PURE = {getattr(builtins, name) for name in PURE_BUILTINS}
MATHEMATICS = {"math", "numpy", "dynident.maths"}
# attributes whatever they belong to: those of `MATHEMATICS` that give the same each time. Not random, not load
PURE_ATTRIBUTES = {name for name in vars(math) if not name.startswith("_")} | {
    "abs", "absolute", "arange", "arccos", "arcsin", "arctan", "arctan2", "array", "asarray", "deg2rad", "dot", "eye",
    "float64", "linspace", "maximum", "minimum", "ones", "outer", "power", "sign", "square", "sum", "where", "zeros", "T",
    "shape", "size"}
CHANGES = {"DELETE_ATTR", "DELETE_DEREF", "DELETE_GLOBAL", "IMPORT_FROM", "IMPORT_NAME", "LOAD_NAME", "STORE_ATTR",
           "STORE_GLOBAL", "STORE_NAME"}


class _NotUnderstood(Exception):
    """Something that a function depends on and that is not understood."""


class _Read(NamedTuple):
    """What a piece of code reads from outside."""

    understood: bool
    names: tuple[str, ...]  # globals
    attributes: frozenset[str]


def function_key(function: object, attributes: Iterable[str] = ()) -> Hashable | None:
    """Equal for functions that give the same; None where that cannot be said. `attributes`: of its arguments."""
    if not isinstance(function, types.FunctionType):
        return None
    try:
        return _of_function(function, frozenset(attributes), ())
    except _NotUnderstood:
        return None


def _of_function(function: types.FunctionType, attributes: frozenset[str], within: tuple[int, ...]) -> Hashable:
    if id(function) in within:
        return "again", within.index(id(function))
    read, within = _read(function.__code__), (*within, id(function))
    if not read.understood or function.__dict__ or not read.attributes <= PURE_ATTRIBUTES | attributes:
        raise _NotUnderstood

    def of(value: object) -> Hashable:
        return _of_value(value, attributes, within)

    scope = function.__globals__
    try:
        enclosed = tuple(of(cell.cell_contents) for cell in function.__closure__ or ())
    except ValueError:  # not filled yet
        raise _NotUnderstood from None
    named = tuple(of(scope[name]) if name in scope else _of_builtin(name, scope) for name in read.names)
    keywords = tuple((name, of(value)) for name, value in (function.__kwdefaults__ or {}).items())
    return function.__code__, enclosed, named, of(function.__defaults__), keywords


def _of_builtin(name: str, scope: dict[str, object]) -> Hashable:
    if name not in PURE_BUILTINS or scope.get("__builtins__", builtins) not in (builtins, vars(builtins)):
        raise _NotUnderstood
    return getattr(builtins, name)


def _of_value(value: object, attributes: frozenset[str], within: tuple[int, ...]) -> Hashable:
    kind = type(value)
    if kind is float:
        return float.hex(value)  # type: ignore[arg-type]  # zeros of both signs
    if value is None or kind in (bool, int, str):
        return kind, value
    if isinstance(value, np.generic) or (kind is np.ndarray and not value.dtype.hasobject):  # type: ignore[attr-defined]
        return value.dtype.str, value.shape, value.tobytes()  # type: ignore[attr-defined]
    if kind is tuple:
        return "tuple", *(_of_value(each, attributes, within) for each in value)  # type: ignore[attr-defined]
    if isinstance(value, types.ModuleType) and value.__name__ in MATHEMATICS:
        return value
    if isinstance(value, np.ufunc) or getattr(value, "__module__", None) in ("math", "dynident.maths"):
        return value  # type: ignore[return-value]
    if isinstance(value, Hashable) and value in PURE:
        return value  # type: ignore[return-value]
    if kind is types.FunctionType:
        return _of_function(value, attributes, within)  # type: ignore[arg-type]
    raise _NotUnderstood


@functools.lru_cache(maxsize=256)
def _read(code: types.CodeType) -> _Read:
    """Of a function and all functions that stand inside of it."""
    understood, names, attributes = True, set(), set()
    for instruction in dis.get_instructions(code):
        what, name = instruction.opname, instruction.argval
        understood &= what not in CHANGES and not (what == "STORE_DEREF" and name in code.co_freevars)
        if what == "LOAD_GLOBAL":
            names.add(name)
        elif what in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(name)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = _read(inner)
            understood &= more.understood
            names |= set(more.names)
            attributes |= more.attributes
    return _Read(bool(understood), tuple(sorted(names)), frozenset(attributes))
