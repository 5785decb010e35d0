"""Lock: write the versions with which dynident was last tested into constraints.txt, linters and the manual's tools included.

    python tools/lock.py constraints.txt

They are those that pip chooses today in a fresh virtual environment; PIP_CONSTRAINT=FILE holds some of them where they are.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "dev,docs"
PINNED = re.compile(r"^[A-Za-z0-9._-]+==[^\s;@]+$")  # a name and a version; never an address or a path
HEAD = f"""# Versions with which dynident was last tested; `make lock` writes this file, `make setup` installs from it.
# Python {platform.python_version()} on {platform.system()}; another system may need packages that are not named here.
"""


def frozen(python: Path) -> list[str]:
    """name==version of all that is installed, except dynident."""
    listed = subprocess.run([str(python), "-m", "pip", "freeze", "--exclude", "dynident"], capture_output=True, text=True,
                            check=True).stdout
    return sorted((line for line in listed.splitlines() if PINNED.match(line)), key=str.lower)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e",
                        f"{ROOT}[{EXTRAS}]"], check=True)
        lines = frozen(python)
    target.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{target}: {len(lines)} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
