"""Run: all benchmarks, or some by name; each in a process of its own.

    python benchmarks/run.py                    all, on the terminal
    python benchmarks/run.py growth start_up    some
    python benchmarks/run.py --write            and keep the tables in RESULTS.md
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from timing import Result, in_fresh_process

BENCHMARKS = ("gauss_newton_pass", "emps_fit", "growth", "start_up", "full_discretization", "kalman_belt_drive",
              "kalman_growth", "verified_step", "verified_rig", "fmu_delta_robot", "design_input", "design_profiles",
              "boundary_values", "boundary_value_starts", "fleet", "transcription_peers")
HERE = Path(__file__).parent
HEAD = f"""# Results

Made by `python benchmarks/run.py --write` in one run on one thread of {{machine}}, Python {platform.python_version()}.
Take the ratios, not the times.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Side by side with peers, as ratios.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which; all unless said: {', '.join(BENCHMARKS)}")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    tables, missed = [], []
    for name in options.names or BENCHMARKS:
        try:
            result = Result.from_data(in_fresh_process(HERE / f"{name}.py", "--json"))
        except RuntimeError as reason:  # the others are still worth having
            missed.append(f"{name}: {reason}")
            continue
        tables.append(result.markdown())
        missed += [f"{name}: {line.what}" for line in result.lines if line.met is False]
        print(f"{tables[-1]}\n", flush=True)
    print("All targets are met." if not missed else "\n".join(["Targets that are not met:", *missed]))
    if options.write:
        (HERE / "RESULTS.md").write_text("\n".join([HEAD.format(machine=processor()), *(f"{t}\n" for t in tables)]))
    return 0


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")
             ] if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
