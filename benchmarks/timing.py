"""Timing: how long, how much memory, how fast it grows, and how a benchmark says so."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # CPU time is compared
ANSWER = "RESULT "  # how the line begins in which a peer answers
LONG_ENOUGH = 0.02  # seconds of one measurement; shorter calls are repeated until they add up to it
SMOKE = bool(os.environ.get("DYNIDENT_BENCH_SMOKE"))  # the smallest of everything: does the benchmark still run?

Size = TypeVar("Size")


def size(full: Size, smoke: Size) -> Size:
    """How large, how many, how often: in a benchmark, and where only its running is tested (`make bench-smoke`)."""
    return smoke if SMOKE else full


def best(call: Callable[[], Any], repeats: int = 7) -> float:
    """CPU seconds of one call, the best of several: other work on the machine only ever adds."""
    if SMOKE:
        return once(call)[0]
    call()  # the first fills caches, and compiles
    began = time.process_time()
    call()
    inner = max(1, int(np.ceil(LONG_ENOUGH / max(time.process_time() - began, 1e-7))))
    return min(_seconds(call, inner) for _ in range(repeats))


def _seconds(call: Callable[[], Any], inner: int) -> float:
    began = time.process_time()
    for _ in range(inner):
        call()
    return (time.process_time() - began) / inner


def once(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and what it returned."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


_parts: dict[str, Callable[..., Any]] = {}  # of the benchmark that runs, as `main` was given them


def in_fresh_process(file: str | Path, *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
    """What another run of a benchmark's file prints as JSON in its last line.

    A smoke run asks its own parts in its own process: half a second less for each, and nothing is measured.
    """
    words = [str(a) for a in arguments]
    part = _parts.get(words[0].removeprefix("--"))
    if SMOKE and part is not None and environment is None:
        return json.loads(json.dumps(part(*[int(word) for word in words[1:]])))
    run = subprocess.run([sys.executable, str(file), *words], stdout=subprocess.PIPE, text=True, check=False,
                         env={**os.environ, **ONE_THREAD, **(environment or {})})
    if run.returncode:
        raise RuntimeError(f"{file} {' '.join(words)} failed")
    return json.loads(run.stdout.strip().split("\n")[-1])


def of_peer(file: str | Path, peer: str, case: Mapping[str, Any]) -> Any:
    """What `file` answers about a case when run for a peer by a Python that has it; a sentence where there is none.

    DYNIDENT_PEERS names that Python, since peers are not installed with dynident; else it is this one.
    """
    python = os.environ.get("DYNIDENT_PEERS", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "case.json")
        data.write_text(json.dumps(case))
        run = subprocess.run([python, str(Path(file).resolve()), peer, str(data)], capture_output=True, text=True, check=False,
                             cwd=folder, env={**os.environ, **ONE_THREAD})
    lines = [line for line in run.stdout.splitlines() if line.startswith(ANSWER)]
    if run.returncode or not lines:
        said = (run.stderr.strip().splitlines() or ["no answer"])[-1]
        return f"{peer} could not be run ({said})"
    return json.loads(lines[-1][len(ANSWER):])


def answer_as_peer(answer: Callable[[str, Any], Any]) -> None:
    """The other side of `of_peer`: print what is known about the case that the command line names."""
    print(ANSWER + json.dumps(answer(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))


def main(run: Callable[[], Result], **parts: Callable[..., Any]) -> None:
    """A benchmark's file as a command: the table, the same as JSON, or one of its parts (`--name argument ...`)."""
    if any(os.environ.get(name) != number for name, number in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})  # before numpy starts
    _parts.update(parts)
    for name, part in parts.items():
        if f"--{name}" in sys.argv:
            print(json.dumps(part(*[int(word) for word in sys.argv[2:]])))
            return
    result = run()
    print(json.dumps(asdict(result)) if "--json" in sys.argv else result.markdown())


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # exact there; the number below starts with that of the parent
        return 1024 * int(next(line for line in status.read_text().split("\n") if line.startswith("VmHWM")).split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def cpu_of_ended() -> float:
    """CPU seconds of the processes that this one has started and seen end."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def growth(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Slope of log cost over log size: 1 is linear."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


@dataclass(frozen=True)
class Line:
    """One row of a table; `met` is None where nothing was promised."""

    what: str
    found: str
    target: str = ""
    met: bool | None = None

    def __post_init__(self) -> None:
        if SMOKE:  # nothing was measured
            object.__setattr__(self, "met", None)
        elif self.met is not None:
            object.__setattr__(self, "met", bool(self.met))  # of NumPy, which JSON does not take


@dataclass(frozen=True)
class Result:
    """What a benchmark found: a title, the setting in a sentence, its rows, and remarks."""

    title: str
    setting: str
    lines: Sequence[Line]
    remarks: Sequence[str] = field(default_factory=tuple)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Result:
        return cls(data["title"], data["setting"], [Line(**line) for line in data["lines"]], data["remarks"])

    def markdown(self) -> str:
        head = ["what", "found", "target", ""]
        cells = [[line.what, line.found, line.target, {None: "", True: "met", False: "NOT MET"}[line.met]]
                 for line in self.lines]
        widths = [max(len(row[i]) for row in [head, *cells]) for i in range(4)]
        rows = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *cells]]
        rule = " | ".join("-" * max(width, 3) for width in widths)
        return "\n".join([f"## {self.title}", "", self.setting, "", f"| {rows[0]} |", f"| {rule} |",
                          *(f"| {row} |" for row in rows[1:]), *(f"\n{remark}" for remark in self.remarks)])


def spoken(seconds: float) -> str:
    """A duration with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds >= 1e-10 else "nothing"


def ratio_text(ratio: float) -> str:
    """A ratio with two or three digits that mean something."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
