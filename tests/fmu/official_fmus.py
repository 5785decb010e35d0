"""Official FMUs: the Reference FMUs of the Modelica Association, built from their source where that is at hand.

DYNIDENT_REFERENCE_FMUS names a checkout of https://github.com/modelica/Reference-FMUs, which is built by cmake outside of
the tree, once per run; or a folder in which built FMUs lie. Nothing of them is part of this project.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fmu_makers import FOLDER

VARIABLE = "DYNIDENT_REFERENCE_FMUS"


def official(name: str, version: int) -> Path:
    """The FMU, or a skip that says what is missing."""
    given = os.environ.get(VARIABLE, "")
    if not given:
        pytest.skip(f"{VARIABLE} names no checkout of the Reference FMUs")
    folder = Path(given)
    if (folder / "CMakeLists.txt").exists():
        if shutil.which("cmake") is None:
            pytest.skip("the Reference FMUs are built by cmake, which is not installed")
        folder = built(folder, version)
    for path in sorted(folder.rglob(f"{name}.fmu")):
        with zipfile.ZipFile(path) as archive:
            if ElementTree.fromstring(archive.read("modelDescription.xml")).get("fmiVersion", "")[0] == str(version):
                return path
    pytest.skip(f"{given} holds no {name}.fmu of FMI {version}.0")


@functools.cache
def built(checkout: Path, version: int) -> Path:
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    for command in (["cmake", "-S", str(checkout.resolve()), "-B", str(folder), f"-DFMI_VERSION={version}",
                     "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS=-Wno-stringop-truncation"],
                    ["cmake", "--build", str(folder)]):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"the Reference FMUs cannot be built here: {made.stderr.strip().splitlines()[-1:]}")
    return folder / "fmus"


def without_binaries(path: Path, folder: Path) -> Path:
    """The same FMU with its source code only."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(folder / path.name, "w") as made:
        for name in dict.fromkeys(archive.namelist()):
            if not name.startswith("binaries/"):
                made.writestr(name, archive.read(name))
    return folder / path.name
