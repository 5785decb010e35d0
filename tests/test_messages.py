"""Every mistake of the catalogue is answered by one of our errors, with place and way out; the manual shows the answers."""

from __future__ import annotations

from collections import Counter

import pytest

import dynident as di
from mistakes import MISTAKES, PAGE, CommandAnswer, answer, page

LEAST = 100


def test_catalogue_holds_mistakes_of_every_kind():
    kinds = Counter(it.kind for it in MISTAKES)
    assert len(MISTAKES) >= LEAST and min(kinds.values()) >= 15
    assert set(kinds) == {"model", "record", "problem", "method", "problem file", "command line"}


@pytest.mark.parametrize("it", MISTAKES, ids=lambda it: f"{it.kind}: {it.what}"[:60])
def test_mistake_is_answered_with_its_place_and_a_way_out(it):
    error, text = answer(it)
    assert error is not None, "nothing was said"
    assert issubclass(error, (di.DynidentError, CommandAnswer)), f"{error.__name__} is no answer: {text}"
    assert it.way_out and it.place in text and it.way_out in text, text
    assert "Traceback" not in text and (error is CommandAnswer or text[-1] in ".?^"), text


def test_manual_shows_what_is_printed():
    assert PAGE.read_text() == page(), "run `python tests/mistakes.py --write`"
