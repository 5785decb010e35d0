"""Does every method meet an option of the wrong kind, as a problem file may hold it, with a sentence?"""

from __future__ import annotations

from dataclasses import fields

import pytest

import dynident as di
from dynident.methods.options import option_rows
from dynident.methods.presets import METHODS, method_class, method_from

OPTIONS = [(kind, f.name) for kind in METHODS for f in fields(method_class(kind))]
WRONG = (["x"], [], {"a": ["b"]}, True, "x", "", 2.5, -1, float("nan"))


@pytest.mark.parametrize("kind, option", OPTIONS)
def test_wrong_kind_of_value_is_taken_or_refused_in_a_sentence(kind: str, option: str):
    refused = 0
    for value in WRONG:
        try:
            method_from({"kind": kind, option: value})
        except (di.ProblemError, di.NotSupported):
            refused += 1
    assert refused


@pytest.mark.parametrize("kind, option", [(kind, row.name) for kind in METHODS for row in option_rows(method_class(kind))
                                          if isinstance(row.default, bool)])
def test_yes_or_no_is_asked_for_where_it_is_meant(kind: str, option: str):
    for value in ("no", 2.5, ["x"]):
        with pytest.raises(di.ProblemError, match=option):
            method_from({"kind": kind, option: value})
