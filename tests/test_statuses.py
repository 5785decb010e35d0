"""Claims: each status of the list is produced by its example, and the manual lists all of them."""

from __future__ import annotations

import pytest

from status_examples import EXAMPLES, PAGE, page


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.value)
def test_example_ends_with_its_status(code):
    ended = EXAMPLES[code]()
    assert ended.code is code and ended.rstrip().endswith("."), ended


def test_manual_lists_every_status():
    assert PAGE.read_text() == page(), "run `python tests/status_examples.py`"
