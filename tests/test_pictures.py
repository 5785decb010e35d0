"""Claim: pictures of README and manual show what the program draws today; `make pictures` draws them anew."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from pathlib import Path

import pytest

import dynident as di

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "_static" / "report"
KEPT = json.loads((FOLDER / "pictures.json").read_text(encoding="utf-8"))
OLD = "the picture is not what is drawn today: make pictures"


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("tools_pictures", ROOT / "tools" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_that_were_made_together():
    assert {path.name for path in FOLDER.glob("*.png")} == set(KEPT["sha256"])
    for name, digest in KEPT["sha256"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, OLD


def test_the_curves_are_those_of_today(pictures, tmp_path):
    today = pictures.shown_numbers(pictures.charts(pictures.demo_estimate(tmp_path)))
    assert today.keys() == KEPT["numbers"].keys()
    for name, panels in today.items():
        assert len(panels) == len(KEPT["numbers"][name]), OLD
        for (title, curves), (old_title, old_curves) in zip(panels, KEPT["numbers"][name], strict=True):
            assert title == old_title and [c[0] for c in curves] == [c[0] for c in old_curves], OLD
            for (_, points, low, high), (_, old_points, old_low, old_high) in zip(curves, old_curves, strict=True):
                wide = old_high - old_low  # a line of a picture is a hundredth of it thick
                assert abs(points - old_points) <= 2, OLD
                assert low == pytest.approx(old_low, abs=0.01 * wide) and high == pytest.approx(old_high, abs=0.01 * wide), OLD


def test_the_page_looks_as_it_did_when_it_was_photographed(pictures):
    assert pictures.page_recipe() == KEPT["page"], OLD


def test_readme_and_manual_name_pictures_that_exist_and_are_small():
    named = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")):
        named |= {Path(path).name for path in re.findall(r"_static/report/(\S+?\.png)", page.read_text(encoding="utf-8"))}
    assert named == set(KEPT["sha256"])
    assert sum(path.stat().st_size for path in FOLDER.glob("*.png")) < 700_000


def test_the_page_of_the_demo_has_the_size_that_readme_says(pictures, tmp_path):
    page = di.report.html(pictures.demo_estimate(tmp_path), tmp_path / "report.html")
    (said,) = re.findall(r"one file of ([\d.]+) MB", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert page.stat().st_size / 1e6 == pytest.approx(float(said), abs=0.02)


def test_the_pictures_of_the_workbench_find_what_they_press():
    """They are taken in a browser, which is seldom there; but the words that they look for must stand on the page."""
    script = (ROOT / "docs" / "pictures" / "workbench.py").read_text(encoding="utf-8")
    static = ROOT / "src" / "dynident" / "workbench" / "static"
    page = "".join(path.read_text(encoding="utf-8") for path in static.glob("*.js"))
    said = re.findall(r'get_by_label\("([^"]+)"\)|get_by_role\("\w+", name="([^"]+)"', script)
    assert len(said) > 4
    assert [label or name for label, name in said if (label or name).split(" [")[0] not in page] == []
