"""A frozen value that is made quickly is the same value as by `dataclasses`."""

from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import signature

import pytest

from dynident._util.frozen import changed, frozen


def made_by(decorate):
    class Value:
        own: int
        rows: list = field(default_factory=list)
        last: float = 2.0

    return decorate(Value)


Quick, Plain = made_by(frozen), made_by(dataclass(frozen=True, eq=False))


@pytest.mark.parametrize("arguments", [(1,), (1, [3]), (1, [3], 4.0)])
def test_fields_and_defaults_are_those_of_a_dataclass(arguments):
    assert vars(Quick(*arguments)) == vars(Plain(*arguments))
    assert repr(Quick(*arguments)) == repr(Plain(*arguments))


def test_each_value_has_a_default_of_its_own():
    assert Quick(1).rows is not Quick(1).rows


def test_a_field_cannot_be_written():
    with pytest.raises(FrozenInstanceError):
        Quick(1).own = 2


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="own"):
        Quick()
    with pytest.raises(TypeError, match="strange"):
        Quick(1, strange=2)
    assert list(signature(Quick).parameters) == list(signature(Plain).parameters)


def test_copies_with_changes_agree():
    value = Quick(1, [5])
    assert vars(changed(value, last=0.0)) == vars(replace(value, last=0.0)) == {"own": 1, "rows": [5], "last": 0.0}


def test_what_follows_from_the_fields_is_made_after_them():
    @frozen
    class Doubled:
        number: int

        def __post_init__(self):
            object.__setattr__(self, "double", 2 * self.number)

    assert Doubled(4).double == 8
