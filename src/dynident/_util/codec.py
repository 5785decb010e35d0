"""How do dataclasses become JSON that every reader accepts, and dataclasses again?

By the types of their fields: what a file says never decides what is made of it, so nothing in it can be code. JSON has no NaN
and no infinity: they are written as the texts "nan", "inf" and "-inf", which float() understands. Arrays are nested lists;
one of texts is {"texts": [...]}, and one without elements whose shape a list cannot tell is {"shape": [...]}.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.status import Status

NOT_FINITE = ("nan", "inf", "-inf")
LARGEST, LARGEST_WHOLE = int(sys.float_info.max), 2**63  # of numbers, and of whole ones in an array


def to_json(value: Any) -> str:
    """JSON text of anything that `encode` takes."""
    return json.dumps(encode(value), allow_nan=False, indent=1, ensure_ascii=False)


def encode(value: Any, without: Iterable[str] = ()) -> Any:
    """Lists, numbers, texts and dicts only; fields of a dataclass named in `without` are left out."""
    if isinstance(value, Status):
        return {"code": value.code.value, "sentence": str(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        left_out = set(without)
        value = getattr(value, "completed", value)  # with what is else computed on demand
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)
                if f.name not in left_out and f.metadata.get("saved", True)}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _encode_array(array: np.ndarray) -> Any:
    if array.dtype.kind in "UO":
        return {"texts": [str(each) for each in array.tolist()]}
    if array.size == 0 and array.ndim != 1:
        return {"shape": list(array.shape)}
    return encode(array.tolist())


def decode(kind: Any, data: Any, source: str, way_out: str = "", **given: Any) -> Any:
    """An object of a type from what `encode` made of it; fields of a dataclass in `given` are taken from there.

    All that does not fit is listed at once, with `source` (a file, say) in the first sentence and `way_out` after it.
    """
    faults: list[str] = []
    made = _decode(kind, data, "", faults, given)
    if faults:
        raise ProblemError([f"{source} is damaged.{f' {way_out}' if way_out else ''}", *faults])
    return made


def _decode(kind: Any, data: Any, path: str, faults: list[str], given: Mapping[str, Any] = types.MappingProxyType({})) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if origin in (typing.Union, types.UnionType):
        return _decode_union(inner, data, path, faults)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(inner[1], data, path, faults)
    if origin in (tuple, list) or (origin is not None and issubclass(origin, Iterable)):
        return _decode_sequence(origin, inner, data, path, faults)
    if kind is np.ndarray:
        return _decode_array(data, path, faults)
    if kind is Status:
        words = _decode(dict[str, str], data, path, faults) or {}
        return _made(lambda: Status(words["sentence"], words["code"]), path, faults)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _made(lambda: kind(data), path, faults)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, path, faults, given)
    return _decode_scalar(kind, data, path, faults)


def _decode_scalar(kind: Any, data: Any, path: str, faults: list[str]) -> Any:
    if kind is float and (_is_number(data) or data in NOT_FINITE):
        return float(data)
    if kind is int and _is_number(data) and float(data).is_integer():
        return int(data)
    if kind in (str, bool) and isinstance(data, kind):
        return data
    if kind is type(None) and data is None:
        return None
    words = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}.get(kind, "what was expected")
    faults.append(f"{path or 'content'}: {_short(data)} is not {words}.")
    return None


def _decode_union(kinds: tuple[Any, ...], data: Any, path: str, faults: list[str]) -> Any:
    """The first that fits; the faults are those of the last, which is the fullest one by habit."""
    if data is None and type(None) in kinds:
        return None
    last: list[str] = []
    for kind in (k for k in kinds if k is not type(None)):
        last = []
        made = _decode(kind, data, path, last)
        if not last:
            return made
    faults += last
    return None


def _decode_mapping(kind: Any, data: Any, path: str, faults: list[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        faults.append(f"{path or 'content'}: {_short(data)} is not a table.")
        return {}
    return {key: _decode(kind, item, _below(path, key), faults) for key, item in data.items()}


def _decode_sequence(origin: Any, inner: tuple[Any, ...], data: Any, path: str, faults: list[str]) -> Any:
    if not isinstance(data, list):
        faults.append(f"{path or 'content'}: {_short(data)} is not a list.")
        return ()
    fixed = origin is tuple and inner[-1:] != (Ellipsis,)
    if fixed and len(inner) != len(data):
        faults.append(f"{path}: it has {len(data)} elements where {len(inner)} are expected.")
        return ()
    kinds = inner if fixed else [inner[0]] * len(data)
    made = [_decode(kind, item, f"{path}[{i}]", faults) for i, (kind, item) in enumerate(zip(kinds, data, strict=True))]
    return made if origin is list else tuple(made)


def _decode_array(data: Any, path: str, faults: list[str]) -> np.ndarray:
    def made() -> np.ndarray:
        if isinstance(data, dict) and list(data) == ["texts"]:
            return np.array(data["texts"], dtype=str)
        if isinstance(data, dict) and list(data) == ["shape"]:
            return _empty(tuple(int(size) for size in data["shape"]))
        return np.array(_numbers(data)) if data else np.zeros(0)

    if not isinstance(data, list | dict):
        faults.append(f"{path}: {_short(data)} is not an array.")
        return np.zeros(0)
    array = _made(made, path, faults)
    return np.zeros(0) if array is None else array


def _empty(shape: tuple[int, ...]) -> np.ndarray:
    if 0 not in shape or min(shape) < 0:  # one with elements is written as a list, and must not be made of a few letters
        raise ValueError(f"the shape {shape} is not that of an array without elements")
    return np.zeros(shape)


def _numbers(data: Any) -> Any:
    """Nested lists of numbers; texts that stand for one become it, others are refused."""
    if isinstance(data, list):
        return [_numbers(each) for each in data]
    if _is_number(data) or isinstance(data, bool):
        return data if abs(data) < LARGEST_WHOLE else float(data)  # NumPy has no larger whole numbers
    if data in NOT_FINITE:
        return float(data)
    raise ValueError(f"{_short(data)} is not a number")


def _decode_dataclass(kind: Any, data: Any, path: str, faults: list[str], given: Mapping[str, Any]) -> Any:
    if not isinstance(data, dict):
        faults.append(f"{path or 'content'}: {_short(data)} is not a table.")
        return None
    hints, before = _hints(kind), len(faults)
    known = {f.name for f in dataclasses.fields(kind)}
    faults += [f"{_below(path, key)}: this is not known here." for key in data if key not in known]
    faults += [f"{_below(path, name)}: it is missing." for name in hints if name not in data and name not in given]
    fields = {name: _decode(hint, data[name], _below(path, name), faults) for name, hint in hints.items() if name in data}
    return _made(lambda: kind(**fields, **given), path, faults) if len(faults) == before else None


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, as objects."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind) if f.metadata.get("saved", True)}


def _made(make: Any, path: str, faults: list[str]) -> Any:
    try:
        return make()
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError, ProblemError) as error:
        faults.append(f"{path or 'content'}: {error}".rstrip(".") + ".")
        return None


def _is_number(data: Any) -> bool:
    """Whether it is one that a float can hold."""
    return isinstance(data, float) or (isinstance(data, int) and not isinstance(data, bool) and abs(data) <= LARGEST)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:36]} ..."
