"""Traced arguments: what t, x, u and p are inside of a user's function, as symbols and as numbers.

Each is an array (`x[0]`, `x[1:]`, `p @ x`) whose entries have names too (`x.q`, `x["q"]`). Where no parameters are declared,
`p` makes them up as they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import casadi
import numpy as np

from dynident.errors import did_you_mean
from dynident.models.traced_arrays import TracedArray, TracedNumber, TraceError


class NameScope:
    """The entries of one argument by name, and which were asked for in which way."""

    def __init__(self, letter: str, kind: str, names: Iterable[str], faults: list[str], open_ended: bool = False):
        self.letter, self.kind, self.faults, self.open_ended = letter, kind, faults, open_ended
        self.symbols: dict[str, casadi.SX] = {name: casadi.SX.sym(name) for name in names}
        self.asked: set[str] = set()
        self.positional = False  # read as an array, or by number: then what is not read is no mistake

    def symbol(self, name: str) -> casadi.SX:
        """By name; one that is not declared is a fault, or a new parameter."""
        self.asked.add(name)
        if name not in self.symbols:
            if not self.open_ended:
                fault = (f"{self.letter}.{name} is read, but '{name}' is not declared as a {self.kind}."
                         f"{did_you_mean(name, self.symbols)}")
                self.faults += [fault] if fault not in self.faults else []
            self.symbols[name] = casadi.SX.sym(name)  # a stand-in, so that the rest is checked too
        return self.symbols[name]

    def numbered(self, place: int) -> str:
        """The name of an entry of an argument without declared names."""
        self.positional = True
        names = [f"{self.letter}{k}" for k in range(place + 1)]
        for name in names:
            self.symbols.setdefault(name, casadi.SX.sym(name))
        return names[place]

    def traced(self) -> Any:
        return OpenArgument(self) if self.open_ended else NamedArray(self)

    def numbers(self, values: Mapping[str, float]) -> Any:
        return OpenArgument(self, values) if self.open_ended else NamedVector(self, values)

    def never_asked(self, kinds: Mapping[str, str]) -> list[str]:
        return [f"{kinds[name]} '{name}' is declared but never read. Use it, or remove it."
                for name in self.symbols if name in kinds and name not in self.asked and not self.positional]


class _Named:
    """Entries by name, before all that an array has of its own: a state may be called T."""

    def __getattribute__(self, name: str) -> Any:
        scope = object.__getattribute__(self, "__dict__").get("_scope")
        if scope is None or name.startswith("_"):
            return super().__getattribute__(name)
        if name in scope.symbols or not hasattr(np.ndarray, name):
            return self._entry(name)
        scope.positional = True
        return super().__getattribute__(name)

    def _entry(self, name: str) -> Any:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        scope = self.__dict__.get("_scope")
        if scope is not None:
            raise TypeError(f"{scope.letter}.{name} = ...: a {scope.kind} is read, never set, inside of an equation")
        super().__setattr__(name, value)

    def __getitem__(self, key: Any) -> Any:
        scope = self.__dict__.get("_scope")
        if scope is not None and isinstance(key, str):
            return self._entry(key)
        if scope is not None:
            scope.positional = True
        return super().__getitem__(key)  # type: ignore[misc]

    def __iter__(self) -> Iterator[Any]:
        if (scope := self.__dict__.get("_scope")) is not None:
            scope.positional = True
        return super().__iter__()  # type: ignore[misc]


class NamedArray(_Named, TracedArray):  # type: ignore[misc]
    """An argument of symbols."""

    def __new__(cls, scope: NameScope) -> NamedArray:
        made = np.empty(len(scope.symbols), dtype=object)
        for k, symbol in enumerate(scope.symbols.values()):
            made[k] = TracedNumber(symbol)
        new = made.view(cls)
        new.__dict__["_scope"] = scope
        return new

    def _entry(self, name: str) -> TracedNumber:
        return TracedNumber(self.__dict__["_scope"].symbol(name))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:  # type: ignore[override]
        for each in inputs:
            if isinstance(each, NamedArray) and (scope := each.__dict__.get("_scope")) is not None:
                scope.positional = True
        return super().__array_ufunc__(ufunc, method, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: tuple, options: dict) -> Any:  # type: ignore[override]
        if (scope := self.__dict__.get("_scope")) is not None:
            scope.positional = True
        return super().__array_function__(function, types, args, options)


class NamedVector(_Named, np.ndarray):  # type: ignore[misc]
    """An argument of numbers."""

    def __new__(cls, scope: NameScope, values: Mapping[str, float]) -> NamedVector:
        new = np.array([values[name] for name in scope.symbols], dtype=float).view(cls)
        new.__dict__.update(_scope=scope, _values=values)
        return new

    def __array_finalize__(self, other: Any) -> None:
        pass

    def _entry(self, name: str) -> float:
        return float(self.__dict__["_values"][name])


class OpenArgument:
    """An argument whose names are made up as they are asked for; not an array, since it has no length."""

    def __init__(self, scope: NameScope, values: Mapping[str, float] | None = None):
        self.__dict__.update(_scope=scope, _values=values)

    def __getitem__(self, key: Any) -> Any:
        scope, values = self.__dict__["_scope"], self.__dict__["_values"]
        if isinstance(key, (int, np.integer)) and key >= 0:
            key = scope.numbered(int(key))
        if not isinstance(key, str):
            self._refused()
        return TracedNumber(scope.symbol(key)) if values is None else float(values[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        scope = self.__dict__["_scope"]
        raise TypeError(f"{scope.letter}.{name} = ...: a {scope.kind} is read, never set, inside of an equation")

    def _refused(self, *_: Any, **__: Any) -> Any:
        scope = self.__dict__["_scope"]
        raise TraceError(f"{scope.letter} is used as an array, but how long it is is not said; it can be unpacked or computed "
                         f"with only if every {scope.kind} is declared in the model ({scope.kind}s=[...])")

    __iter__ = __len__ = __array_ufunc__ = __array_function__ = __mul__ = __rmul__ = __add__ = __matmul__ = _refused
