"""Contracts: does a value have all members of a protocol? Asked once of each class: `isinstance` looks them up every time."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")

_answers: dict[tuple[type, Any], bool] = {}


def meets(value: Any, contract: type[T]) -> TypeGuard[T]:
    """As `isinstance(value, contract)` for a protocol that can be checked at runtime.

    A no is remembered of our own classes alone: those of others may get their members with each instance.
    """
    key = type(value), contract
    answer = _answers.get(key)
    if answer is None:
        answer = isinstance(value, contract)
        if answer or key[0].__module__.startswith("dynident."):
            _answers[key] = answer
    return answer
