"""Start-up: how long until the first result, and is anything compiled twice?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Line, Result, in_fresh_process, main, spoken

IMPORT_LIMIT = 1.0  # seconds of CPU
METHODS = ("single_shooting", "multiple_shooting", "full_discretization")


def import_seconds(code: str) -> float:
    """CPU seconds of some code in a fresh interpreter, beyond those of the interpreter itself."""
    def cpu(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(cpu(code) for _ in range(5)) - min(cpu("pass") for _ in range(5))


def demo(method: int) -> dict[str, float]:
    """Fit the embedded example in this process; how long it took and what was compiled."""
    began = time.process_time()
    import dynident as di
    from dynident.codegen import compiler
    from dynident.demo import copy_to

    with tempfile.TemporaryDirectory() as folder:
        problem = di.read_problem(copy_to(Path(folder))[0]).problem
    di.identify(problem, METHODS[method], progress=False)
    return {"cpu": time.process_time() - began, "compiled": compiler.libraries_compiled,
            "compiling": compiler.seconds_compiling}


def run() -> Result:
    lines = []
    for code in ("import dynident", "import dynident as di; di.read_csv, di.Problem, di.identify"):
        seconds = import_seconds(code)
        lines.append(Line(f"{code}", f"{spoken(seconds)} of CPU", f"under {IMPORT_LIMIT:g} s", seconds < IMPORT_LIMIT))
    for number, name in enumerate(METHODS):
        with tempfile.TemporaryDirectory() as cache:
            first, second = (in_fresh_process(__file__, "--demo", number, environment={"DYNIDENT_CACHE": cache})
                             for _ in range(2))
        lines.append(Line(f"the embedded example by {name}: kernels compiled in the second run",
                          f"{second['compiled']} (first run: {first['compiled']}, {spoken(first['compiling'])}); "
                          f"{spoken(second['cpu'])} of CPU in all", "0", second["compiled"] == 0))
    return Result("Start-up", "Fresh interpreters; the second run of a problem finds the kernels of the first.", lines,
                  ["`import dynident` loads names when they are first used; the second line uses those of a fit."])


if __name__ == "__main__":
    main(run, demo=demo)
