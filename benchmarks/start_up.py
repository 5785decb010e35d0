"""Start-up: how long until the first result, and is anything compiled twice?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Line, Result, cpu_of_ended, in_fresh_process, main, size, spoken

IMPORT_LIMIT = 1.0  # seconds of CPU
NOTICED = 2e-3  # seconds of CPU by which the start of an interpreter differs from run to run
METHODS = size(("single_shooting", "multiple_shooting", "full_discretization"), ("single_shooting",))
REPEATS = size(5, 1)
HELP_LIMIT, FIT_LIMIT = 0.1, 0.7  # seconds of CPU, the interpreter's own included


def import_seconds(code: str) -> float:
    """CPU seconds of some code in a fresh interpreter, beyond those of the interpreter itself."""
    def cpu(code: str) -> float:
        before = cpu_of_ended()
        subprocess.run([sys.executable, "-c", code], check=True)
        return cpu_of_ended() - before

    return max(0.0, min(cpu(code) for _ in range(REPEATS)) - min(cpu("pass") for _ in range(REPEATS)))


def command_seconds(*arguments: str, bytecode: Path) -> float:
    """CPU seconds of a command in all, at the least; modules are compiled to bytecode, as pip leaves them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)

    def cpu() -> float:
        before = cpu_of_ended()
        subprocess.run([sys.executable, "-m", "dynident", *arguments], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=environment)
        return cpu_of_ended() - before

    return min(cpu() for _ in range(REPEATS))


def command_lines() -> list[Line]:
    """Help, and a fit whose kernels are compiled."""
    from dynident.demo import copy_to

    with tempfile.TemporaryDirectory() as folder:
        file = str(copy_to(Path(folder))[0])
        fit = "fit", file, "--out", str(Path(folder, "results"))
        bytecode = Path(folder, "bytecode")
        command_seconds(*fit, bytecode=bytecode)  # kernels and bytecode of the first run serve the others
        found = {"--help": (command_seconds("--help", bytecode=bytecode), HELP_LIMIT),
                 "fit": (command_seconds(*fit, bytecode=bytecode), FIT_LIMIT)}
    return [Line(f"dynident {name}", f"{spoken(seconds)} of CPU in all", f"at most {limit:g} s", seconds <= limit)
            for name, (seconds, limit) in found.items()]


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
        found = f"{spoken(seconds)} of CPU" if seconds > NOTICED else f"less than {spoken(NOTICED)} of CPU"
        lines.append(Line(f"{code}", found, f"under {IMPORT_LIMIT:g} s", seconds < IMPORT_LIMIT))
    for number, name in enumerate(METHODS):
        with tempfile.TemporaryDirectory() as cache:
            first, second = (in_fresh_process(__file__, "--demo", number, environment={"DYNIDENT_CACHE": cache})
                             for _ in range(2))
        lines.append(Line(f"the embedded example by {name}: kernels compiled in the second run",
                          f"{second['compiled']} (first run: {first['compiled']}, {spoken(first['compiling'])}); "
                          f"{spoken(second['cpu'])} of CPU in all", "0", second["compiled"] == 0))
    lines += command_lines()
    return Result("Start-up", "Fresh interpreters; the second run of a problem finds the kernels of the first.", lines,
                  ["`import dynident` loads names when they are first used; the second line uses those of a fit."])


if __name__ == "__main__":
    main(run, demo=demo)
