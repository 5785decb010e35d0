"""Run: all benchmarks, or some by name; each in a process of its own.

    python benchmarks/run.py                    all, on the terminal
    python benchmarks/run.py growth start_up    some
    python benchmarks/run.py --write            and keep the tables in RESULTS.md, in the place of older ones
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from install_peers import MISSING, PEERS
from timing import Result, in_fresh_process

BENCHMARKS = ("gauss_newton_pass", "emps_fit", "growth", "small_fits", "start_up", "full_discretization", "kalman_belt_drive",
              "kalman_growth", "verified_step", "verified_rig", "three_unknowns", "fmu_delta_robot", "design_input",
              "design_shapes", "design_profiles", "boundary_values", "boundary_value_starts", "fleet",
              "transcription_peers", "stiff", "noise", "noise_published",
              "arrival", "certified", "nonlinear_benchmarks", "identifiability", "verdict", "mass_form",
              "large_models", "interval_coverage", "robot_closed_loop", "robot_arm",
              "workbench", "petab_collection")
HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
OURS = ("dynident", "numpy", "scipy", "casadi")
HEAD = """# Results

Made by `make bench`, which writes each table in the place of its older one: take the ratios of a table, not the times of
two. CPU time of one thread unless a line says otherwise. "Not met" is a target that we set ourselves.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Side by side with peers, as ratios.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which; all unless said: {', '.join(BENCHMARKS)}")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    missed = []
    for name in options.names or BENCHMARKS:
        try:
            result = Result.from_data(in_fresh_process(HERE / f"{name}.py", "--json"))
        except RuntimeError as reason:  # the others are still worth having
            missed.append(f"{name}: {reason}")
            continue
        missed += [f"{name}: {line.what}" for line in result.lines if line.met is False]
        print(f"{result.markdown()}\n", flush=True)
        if options.write:  # at once: the next may take an hour, and be interrupted
            keep(RESULTS, name, f"{result.markdown()}\n\n{conditions()}")
    print("All targets are met." if not missed else "\n".join(["Targets that are not met:", *missed]))
    return 0


def keep(file: Path, name: str, table: str) -> None:
    """Put a benchmark's table in its place; what was never run is named at the end."""
    tables = {**kept(file), name: table}
    never = [each for each in BENCHMARKS if each not in tables]
    parts = [HEAD, *(f"<!-- {each} -->\n{tables[each]}\n" for each in BENCHMARKS if each in tables)]
    if never:
        parts.append(f"<!-- never run -->\n## Not run\n\nNo results here yet of: {', '.join(f'`{each}`' for each in never)}.\n")
    file.write_text("\n".join(parts), encoding="utf-8")


def kept(file: Path) -> dict[str, str]:
    """Name of a benchmark -> its table in the file."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    marks = re.split(r"^<!-- ([\w ]+) -->\n", text, flags=re.MULTILINE)[1:]
    return {name: table.strip() for name, table in zip(marks[::2], marks[1::2], strict=True) if name in BENCHMARKS}


def conditions() -> str:
    """When, where and with which versions, in a sentence."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{package} {version(package)}" for package in OURS)])
    return (f"*{datetime.date.today().isoformat()}, {processor()}, {os.cpu_count()} processors with {100 * busy:.0f} % of work "
            f"on them at the end; {versions}. Peers: {peers()}.*")


def peers() -> str:
    """Which other tools are there, as DYNIDENT_PEERS has them, and which could not be installed."""
    python = os.environ.get("DYNIDENT_PEERS")
    if python is None:
        return "those of this environment only (`make bench` installs the others)"
    ask = ("import json; from importlib.metadata import distributions; "
           "print(json.dumps({d.metadata['Name'].lower(): d.version for d in distributions()}))")
    there = json.loads(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout)
    note = Path(python).parents[1] / MISSING
    missing = json.loads(note.read_text()) if note.exists() else {}
    said = [f"{peer} {there[needs[0]]}" for peer, needs in PEERS.items() if needs[0] in there and peer not in missing]
    lacking = [f"{peer} did not install ({reason.split('. ')[0]})" for peer, reason in missing.items()]
    return "; ".join([", ".join(said), *lacking])


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")
             ] if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
