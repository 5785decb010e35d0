"""Lowest: the smallest versions that pyproject.toml declares, as requirements for pip.

    python tools/lowest.py > lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = re.compile(r"^(?P<name>[\w.-]+)>=(?P<version>[\w.]+)$")


def lowest(requirement: str) -> str:
    """`numpy>=1.26` -> `numpy==1.26`."""
    found = BOUND.match(requirement)
    if found is None:
        raise ValueError(f"'{requirement}' states no lower bound; write name>=version.")
    return f"{found['name']}=={found['version']}"


LEFT_OUT = ("all", "docs", "mpi")  # names others, has no tests, is built with the MPI of a machine


def requirements() -> list[str]:
    """Of dynident, of its tests and of all that is optional; linters are fixed by `==` and have no part in this."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for name, asked in project["optional-dependencies"].items() if name not in LEFT_OUT for each in asked]
    return [lowest(each) for each in dict.fromkeys([*project["dependencies"], *extras]) if "==" not in each]


if __name__ == "__main__":
    print("\n".join(requirements()))
