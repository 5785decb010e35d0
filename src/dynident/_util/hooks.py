"""Which functions of upper layers may data classes call, without importing them?

A result can be printed, drawn, validated and saved by its own methods, but reports, files and verbs stand above the data. The
package's `__init__` says under which name each of these functions is found; nothing is imported before one is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_functions: dict[str, str] = {}  # hook -> dotted path of the function


def register(functions: Mapping[str, str]) -> None:
    """Say where functions are found: name -> dotted path."""
    _functions.update(functions)


def registered() -> dict[str, str]:
    """Everything that was said so far."""
    return dict(_functions)


def hook(name: str) -> Callable[..., Any]:
    """The function itself."""
    module, _, function = _functions[name].rpartition(".")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function by the name that it was registered under."""
    return hook(name)(*arguments, **options)
