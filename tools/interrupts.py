"""Interrupts: what of Ctrl-C at random moments? Every command is interrupted as often as asked, and the endings are counted.

`python tools/interrupts.py [--moments 200] [--only fleet] [--seed 1]`. Moments are drawn over the time that the command takes
on this machine; one that comes too late does not count. A good ending is one line and exit code 130, with no process and no
temporary folder left. Seconds are from the signal to the end: of the clock, and of the processor, which a busy machine does
not make longer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from test_interrupt import COMMANDS, Ending, interrupted, prepare

TOO_LATE = 10  # times as many runs as moments that are asked for: then a command that outruns them all is given up
NEVER = 600.0  # s: the first run of a command is not interrupted


def endings(command: str, count: int, rng: np.random.Generator) -> tuple[list[tuple[float, Ending]], float]:
    """So many moments with their endings, and how long the command takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, command)
        lasts = min(_duration(folder, command, k) for k in range(2))  # the first one may compile
        found: list[tuple[float, Ending]] = []
        for number in range(TOO_LATE * count):
            if len(found) == count:
                break
            wait = float(rng.uniform(0, lasts))
            ending = interrupted(folder, _words(command, 10 + number), wait)
            if ending.code != 0:
                found.append((wait, ending))
            _remove_results(folder)
    return found, lasts


def _words(command: str, number: int) -> list[str]:
    """Each run has a folder of results of its own, so that none goes on from another."""
    words = COMMANDS[command]
    return [f"{word}{number}" if before == "--out" else word for before, word in zip(["", *words], words, strict=False)]


def _duration(folder: Path, command: str, number: int) -> float:
    import os
    import subprocess

    import dynident

    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "dynident", *_words(command, number)], cwd=folder, env=environment, check=False,
                   capture_output=True, timeout=NEVER)
    return time.monotonic() - begin


def _remove_results(folder: Path) -> None:
    import shutil

    for path in [p for p in folder.iterdir() if p.name != "temporary"] + list((folder / "temporary").iterdir()):
        if path.is_dir():
            shutil.rmtree(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--only", choices=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    commands = [asked.only] if asked.only else [c for c in COMMANDS if c != "simulate"]
    shares = np.diff(np.linspace(0, asked.moments, len(commands) + 1).astype(int))
    rng, good, total = np.random.default_rng(asked.seed), 0, 0
    print("command    takes  moments  good  within 1 s  median  most  processor: median  most   [s]")
    for command, count in zip(commands, shares, strict=True):
        found, lasts = endings(command, int(count), rng)
        clean = [e for _, e in found if e.clean]
        seconds, cpu = np.array([e.seconds for _, e in found]), np.array([e.cpu for _, e in found])
        print(f"{command:9s} {lasts:6.1f} {len(found):8d} {len(clean):5d} {int(np.sum(seconds <= 1)):11d} "
              f"{np.median(seconds):7.2f} {np.max(seconds):5.2f} {np.median(cpu):17.2f} {np.max(cpu):5.2f}", flush=True)
        for wait, e in found:
            if not e.clean:
                print(f"    after {wait:.3f} s: exit {e.code}, processes {e.processes}, folders {e.folders}: {e.complaints!r}")
        good, total = good + len(clean), total + len(found)
    print(f"{good} of {total}")


if __name__ == "__main__":
    main()
