"""Claims about optional packages: each has an extra, `all` has them all, and errors name the one that helps."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OF_DEVELOPERS = {"dev", "docs", "all"}
PACKAGES = {"fmu": "fmpy", "dask": "distributed", "mpi": "mpi4py", "verified": "crival", "export": "ziglang",
            "robots": "clarabel", "excel": "python-calamine", "hdf5": "h5py", "mf4": "asammdf",
            "ros": "rosbags", "tdms": "nptdms", "petab": "PyYAML"}
INSTALL = re.compile(r"pip install [\\\"']*dynident\[([\w,]+)\]")


def test_there_is_one_extra_for_each_optional_package():
    for extra, package in PACKAGES.items():
        assert [re.split(r"[<>=]", one)[0] for one in EXTRAS[extra]] == [package]
    assert set(PACKAGES) == set(EXTRAS) - OF_DEVELOPERS


def test_all_is_the_sum_of_them():
    (everything,) = EXTRAS["all"]
    assert set(everything.removeprefix("dynident[").rstrip("]").split(",")) == set(PACKAGES)


def test_every_install_line_names_an_extra_and_the_package_behind_it():
    texts = {path: path.read_text() for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"))}
    found = [(path, match[1], text[max(0, match.start() - 200):match.start()].lower())
             for path, text in texts.items() for match in INSTALL.finditer(text)]
    assert {extra for _, extra, _ in found} == set(PACKAGES)
    for path, extra, before in found:
        assert PACKAGES[extra].lower() in before or extra in before, (path, extra)
