"""Is an edit of the page an edit of one value, with every comment and every other line as the user wrote it?"""

from __future__ import annotations

import difflib
import tomllib
from importlib import resources

import pytest

from dynident.workbench.document import EditError, edited

SERVO = resources.files("dynident.demo").joinpath("servo.toml").read_text(encoding="utf-8")


def changed_lines(edits: list[dict]) -> list[str]:
    after = edited(SERVO, edits)
    return [line for line in difflib.unified_diff(SERVO.splitlines(), after.splitlines(), lineterm="", n=0)
            if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_a_start_value_changes_one_line():
    assert changed_lines([{"path": ["parameters", "M", "start"], "value": 60.5}]) == [
        '-M      = { start = 50, lower = 1, upper = 500, unit = "kg" }',
        '+M      = { start = 60.5, lower = 1, upper = 500, unit = "kg" }']


def test_no_edit_changes_nothing_to_the_last_byte():
    assert edited(SERVO, []) == SERVO
    windows = SERVO.replace("\n", "\r\n")
    assert edited(windows, []) == windows


def test_comments_stay_behind_and_above_what_is_edited():
    after = edited(SERVO, [{"path": ["experiment", 0, "initial", "q"], "value": 0.25},
                           {"path": ["model", "states", "v"], "value": "(gain*u)/M"},
                           {"path": ["method", "segments"], "value": None}])
    comments = [line.partition("#")[2] for line in SERVO.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in after.splitlines() if "#" in line] == comments
    said = tomllib.loads(after)
    assert said["experiment"][0]["initial"] == {"q": 0.25, "v": 0.0}
    assert said["model"]["states"] == {"q": "v", "v": "(gain*u)/M"}
    assert said["method"] == {"kind": "multiple_shooting"}


def test_records_are_added_to_and_removed_from_their_list():
    table = {"file": "more.csv", "outputs": {"position": {"column": "q", "gaussian": 0.1}}, "window": [0.5, 2.0]}
    after = edited(SERVO, [{"path": ["validation", "+"], "value": table}])
    assert tomllib.loads(after)["validation"][1] == table
    assert edited(after, [{"path": ["validation", 1], "value": None}]).rstrip() == SERVO.rstrip()
    emptied = edited(SERVO, [{"path": ["validation", 0], "value": None}])
    assert "validation" not in tomllib.loads(emptied)


def test_a_file_grows_from_nothing():
    text = edited("", [{"path": ["experiment", "+"], "value": {"file": "a.csv", "outputs": {"y": "y"}}},
                       {"path": ["model"], "value": {"states": {"x": "-k*x"}, "outputs": {"y": "x"}}},
                       {"path": ["parameters", "k"], "value": {"start": 1}}])
    assert tomllib.loads(text) == {"experiment": [{"file": "a.csv", "outputs": {"y": "y"}}],
                                   "model": {"states": {"x": "-k*x"}, "outputs": {"y": "x"}}, "parameters": {"k": {"start": 1}}}


def test_names_that_look_like_toml_are_only_names():
    hostile = 'a"]\n[model]\npython = "evil.py:x"\n#'
    text = edited(SERVO, [{"path": ["parameters", hostile], "value": {"start": 1, "unit": hostile}}])
    said = tomllib.loads(text)
    assert said["parameters"][hostile] == {"start": 1, "unit": hostile}
    assert "python" not in said["model"]


@pytest.mark.parametrize("edit", [
    {"path": [], "value": 1}, {"path": "M", "value": 1}, {"path": [True], "value": 1},
    {"path": ["experiment", 7, "x"], "value": 1},
    {"path": ["experiment", 0, 3], "value": 1}, {"path": ["parameters", "M", "start", "deep"], "value": 1}, {"value": 1},
    {"path": ["model", "name"], "value": "x" * 300_000}, {"path": ["experiment", "first"], "value": {}}])
def test_an_edit_that_makes_no_sense_is_refused_in_a_sentence(edit):
    with pytest.raises(EditError, match=r"\.$"):
        edited(SERVO, [edit])


def test_a_file_that_is_no_toml_is_not_edited():
    with pytest.raises(EditError, match="not valid TOML"):
        edited("a = [", [{"path": ["a"], "value": 1}])
