"""Install peers: the tools that benchmarks compare with, each by itself, into a virtual environment of their own.

    python benchmarks/install_peers.py .venv-peers

What does not install is said, and kept in `not_installed.json` there, so that RESULTS.md can say it too. cyipopt, which opty
needs, has no wheel for Linux and is built with the Ipopt that CasADi's wheel holds; the program `ipopt`, which Pyomo calls, is
in no package and must be on the path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

PEERS: dict[str, tuple[str, ...]] = {  # what a benchmark calls it: what it needs
    "filterpy": ("filterpy",), "dynamax": ("dynamax",), "codac": ("codac",), "opty": ("opty",), "pyomo": ("pyomo",),
    "gekko": ("gekko",), "lmfit": ("lmfit",), "pydiffsol": ("pydiffsol",), "diffrax": ("diffrax",), "amici": ("amici", "swig"),
    "pinocchio": ("pin",), "figaroh": ("figaroh", "pin")}
MISSING = "not_installed.json"


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install(python: Path, packages: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Nothing, or the last line that pip says about why not."""
    run = subprocess.run([str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *packages],
                         capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})})
    if not run.returncode:
        return ""
    errors = [line.strip() for line in run.stderr.splitlines() if "rror:" in line and "subprocess-exited" not in line]
    return errors[-1] if errors else f"pip ended with code {run.returncode}"


def install_cyipopt(python: Path) -> str:
    """By its wheel, or built with the Ipopt of CasADi."""
    if not install(python, ["--no-cache-dir", "--only-binary", "cyipopt", "cyipopt"]):
        return ""
    if reason := install(python, ["casadi"]):
        return reason
    ask = "import casadi, pathlib; print(pathlib.Path(casadi.__file__).parent)"
    place = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ipopt.pc").write_text(f"Name: ipopt\nDescription: of CasADi\nVersion: 3.14\nLibs: -L{place} -lipopt\n"
                                            f"Cflags: -I{place}/include/coin-or\n")
        return install(python, ["--no-cache-dir", "cyipopt"],
                       {"PKG_CONFIG_PATH": folder, "LDFLAGS": f"-Wl,-rpath,{place}"})


def main(folder: Path) -> None:
    if not python_of(folder).exists():
        venv.create(folder, with_pip=True)
    python = python_of(folder)
    before = {"opty": install_cyipopt}  # what opty asks for must be there, or pip would try to build it without Ipopt
    reasons = {peer: (before[peer](python) if peer in before else "") or install(python, packages)
               for peer, packages in PEERS.items()}
    missing = {peer: reason for peer, reason in reasons.items() if reason}
    Path(folder, MISSING).write_text(json.dumps(missing))
    for peer in PEERS:
        print(f"{peer}: {'not installed: ' + missing[peer] if peer in missing else 'installed'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
