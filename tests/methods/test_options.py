"""Does every method meet an option of the wrong kind, as a problem file may hold it, with a sentence?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import dynident as di
from dynident.methods.presets import METHODS, method_from

OPTIONS = [(make, name) for make in METHODS for name in inspect.signature(make).parameters]
WRONG = (["x"], [], {"a": ["b"]}, True, "x", "", 2.5, -1, float("nan"))


@pytest.mark.parametrize("make, option", OPTIONS, ids=lambda it: getattr(it, "__name__", it))
def test_wrong_kind_of_value_is_taken_or_refused_in_a_sentence(make: Callable[..., Any], option: str):
    refused = 0
    for value in WRONG:
        try:
            method_from({"kind": make.__name__, option: value})
        except (di.ProblemError, di.NotSupported):
            refused += 1
    assert refused


@pytest.mark.parametrize("make, option", [
    (make, name) for make, name in OPTIONS if isinstance(inspect.signature(make).parameters[name].default, bool)],
    ids=lambda it: getattr(it, "__name__", it))
def test_yes_or_no_is_asked_for_where_it_is_meant(make: Callable[..., Any], option: str):
    for value in ("no", 2.5, ["x"]):
        with pytest.raises(di.ProblemError, match=option):
            method_from({"kind": make.__name__, option: value})
