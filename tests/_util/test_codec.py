"""Dataclasses become JSON and come back by the types of their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pytest

from dynident._util.codec import decode, encode, to_json
from dynident.errors import ProblemError
from dynident.status import Status, StatusCode


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, eq=False)
class Inner:
    place: tuple[float, float]
    colour: Colour
    count: int = 0


@dataclass(frozen=True, eq=False)
class Outer:
    name: str
    numbers: np.ndarray
    maybe: np.ndarray | None = None
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 0)))
    words: np.ndarray = field(default_factory=lambda: np.array(["nan", "b"]))
    flags: np.ndarray = field(default_factory=lambda: np.array([[True], [False]]))
    inner: tuple[Inner, ...] = ()
    table: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    either: Mapping[str, float | np.ndarray] = field(default_factory=dict)
    status: Status = field(default_factory=lambda: Status("Well.", StatusCode.CONVERGED))


def outer() -> Outer:
    return Outer("µ", np.array([[1.0, np.inf], [np.nan, -np.inf]]), np.array([1, 2]),
                 inner=(Inner((0.1, math.nan), Colour.BLUE, 3),), table={"plain": {"a": math.inf, "b": 1 / 3}},
                 either={"one": 2.0, "many": np.array([1.0, 2.0])})


def back(data) -> Outer:
    return decode(Outer, data, "file.json")


def test_everything_comes_back_with_its_type():
    made = outer()
    same = back(json.loads(to_json(made), parse_constant=lambda word: pytest.fail(f"{word} is not JSON")))
    for name in ("numbers", "maybe", "boxes", "words", "flags"):
        old, new = vars(made)[name], vars(same)[name]
        np.testing.assert_equal(new, old)
        assert new.shape == old.shape and new.dtype.kind == old.dtype.kind, name
    np.testing.assert_equal(same.inner[0].place, made.inner[0].place)
    assert same.inner[0].colour is Colour.BLUE and same.inner[0].count == 3
    assert same.table == made.table and same.name == made.name
    assert same.either["one"] == 2.0 and list(same.either["many"]) == [1.0, 2.0]
    assert same.status == made.status and same.status.code is StatusCode.CONVERGED


def test_what_json_can_hold_stays_as_it_is():
    said = {"a": (1, np.float64(0.1), np.array([1.5, np.inf])), 2: [True, None, "nan"]}
    assert encode(said) == {"a": [1, 0.1, [1.5, "inf"]], "2": [True, None, "nan"]}


def test_what_is_no_data_is_refused():
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        encode(print)


def test_fields_can_be_left_out_and_given_from_elsewhere():
    data = encode(outer(), without=["numbers"])
    assert "numbers" not in data
    assert decode(Outer, data, "file.json", numbers=np.ones(1)).numbers.size == 1


@pytest.mark.parametrize(("change", "sentence"), [
    ({"name": 3}, "name: 3 is not a text."),
    ({"numbers": ["a"]}, "numbers: 'a' is not a number."),
    ({"numbers": [[1.0], [1.0, 2.0]]}, "numbers: "),
    ({"numbers": 4}, "numbers: 4 is not an array."),
    ({"inner": [{"place": [1.0], "colour": "red", "count": 0}]}, "inner[0].place: it has 1 elements where 2 are expected."),
    ({"inner": [{"place": [1.0, 2.0], "colour": "green", "count": 0}]}, "inner[0].colour: 'green' is not a valid Colour."),
    ({"inner": [{"place": [1.0, 2.0], "colour": "red", "count": 0.5}]}, "inner[0].count: 0.5 is not a whole number."),
    ({"inner": [{"colour": "red", "count": 1}]}, "inner[0].place: it is missing."),
    ({"table": {"plain": [1.0]}}, "table.plain: [1.0] is not a table."),
    ({"surplus": 1}, "surplus: this is not known here."),
    ({"status": {"code": "odd", "sentence": ""}}, "status: 'odd' is not a valid StatusCode."),
    ({"either": {"one": True}}, "either.one: "),
])
def test_what_does_not_fit_is_said_with_the_file_and_the_place(change, sentence):
    with pytest.raises(ProblemError) as caught:
        back(encode(outer()) | change)
    assert "file.json is damaged." in str(caught.value) and sentence in str(caught.value)


def test_all_faults_are_listed_at_once():
    data = encode(outer())
    del data["name"], data["table"]
    with pytest.raises(ProblemError) as caught:
        back(data)
    assert "name: it is missing." in str(caught.value) and "table: it is missing." in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_table_at_all_is_refused(data):
    with pytest.raises(ProblemError, match=r"file\.json is damaged"):
        back(data)


@pytest.mark.parametrize("change", [{"numbers": [10**400]}, {"boxes": {"shape": [10**9, 10**9]}}, {"boxes": {"shape": [-1, 0]}},
                                    {"boxes": {"shape": [0, math.inf]}},
                                    {"inner": [{"place": [10**400, 0], "colour": "red", "count": 0}]},
                                    {"inner": [{"place": [0, 0], "colour": "red", "count": math.inf}]}])
def test_numbers_that_no_computer_holds_are_faults(change):
    """JSON knows whole numbers of any size, and a shape of two numbers would take all memory."""
    written = encode(Outer("a", np.array([1.0])))
    with pytest.raises(ProblemError, match="is damaged"):
        decode(Outer, written | change, "r.json")


def test_large_whole_numbers_of_an_array_become_floats():
    assert decode(Outer, encode(Outer("a", np.zeros(1))) | {"numbers": [2**70, 1]}, "r.json").numbers.dtype == float
