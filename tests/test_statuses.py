"""Claims: each status of the list is produced by its example, and the manual lists all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dynident.status import CLAUSES, StatusCode
from status_examples import EXAMPLES, PAGE, page


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.value)
def test_example_ends_with_its_status(code):
    ended = EXAMPLES[code]()
    assert ended.code is code and ended.rstrip().endswith("."), ended


def test_every_status_but_one_that_turns_on_rounding_has_an_example():
    assert set(StatusCode) - set(EXAMPLES) == {StatusCode.CONVERGED_NO_PROGRESS}


def test_manual_lists_every_status():
    assert PAGE.read_text() == page(), "run `python tests/status_examples.py`"


def test_a_test_that_quotes_how_a_run_ended_reads_its_code():
    """Sentences may be said in better words; what is claimed is the code."""
    parts = {part.strip(" ,.;:(") for clause in CLAUSES.values() for part in re.split(r"\{[^}]*\}", clause)}
    quoted = {" ".join(part.split()[:4]) for part in parts if len(part.split()) > 3} | {"at the limit of"}
    wordy = []
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                said = " ".join(it.value for it in ast.walk(node) if isinstance(it, ast.Constant) and isinstance(it.value, str))
                if any(words in said for words in quoted) and ".code" not in (ast.get_source_segment(text, node) or ""):
                    wordy.append(f"{path.name}: {node.name}")
    assert len(quoted) > 10 and [each for each in wordy if not each.startswith("test_statuses.py")] == []
