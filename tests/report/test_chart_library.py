"""Claim: the chart library that pages carry is the one that was published, and its licence comes with it."""

import hashlib
import tomllib
from importlib import resources
from pathlib import Path

import pytest

ASSETS = resources.files("dynident.report").joinpath("assets")
VERSION = "1.6.32"
PUBLISHED = {  # SHA-256 of the files in the release of that version
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_chart_library_says_its_version():
    assert f"(v{VERSION})" in ASSETS.joinpath("uPlot.iife.min.js").read_text(encoding="utf-8")[:80]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_chart_library_is_as_published(name):
    content = ASSETS.joinpath(name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == PUBLISHED[name]


def test_its_licence_is_beside_it_and_in_every_distribution():
    text = ASSETS.joinpath("uPlot.LICENSE.txt").read_text(encoding="utf-8")
    assert text.startswith("The MIT License") and "Leon Sorokin" in text
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "src/dynident/report/assets/uPlot.LICENSE.txt" in project["project"]["license-files"]
    assert "**/*.LICENSE.txt" in project["tool"]["setuptools"]["package-data"]["dynident"]
