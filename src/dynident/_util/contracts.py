"""Contracts: does a value have all members of a protocol? Asked once of each class: `isinstance` looks them up every time."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")

_met: set[tuple[type, Any]] = set()


def meets(value: Any, contract: type[T]) -> TypeGuard[T]:
    """As `isinstance(value, contract)` for a protocol that can be checked at runtime."""
    key = type(value), contract
    if key in _met:
        return True
    if isinstance(value, contract):
        _met.add(key)
        return True
    return False
