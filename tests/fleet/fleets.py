"""Small fleets with a known truth, as files; and methods that kill or hang, for tests of what follows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import dynident as di
from dynident.methods.method import Method

LAG = di.EquationModel(states={"x": "(g*u - x)/T"}, outputs={"y": "x"}, inputs=["u"])
STD = 0.01
TRUTH = {"T": 0.5, "g": 2.0}
PARAMETERS = [di.Parameter("T", 1.0, 0.01, 10, unit="s"), di.Parameter("g", 1.0, -10, 10)]
READING = {"time": "t", "inputs": ["u"], "outputs": {"y": di.Gaussian(STD)}, "initial": {"x": 0.0}}

TOML = """
[model]
inputs = ["u"]
states = { x = "(g*u - x)/T" }
outputs = { y = "x" }

[record]
time = "t"
inputs = ["u"]
outputs.y = { gaussian = 0.01 }
initial = { x = 0.0 }

[parameters]
T = { start = 1.0, lower = 0.01, upper = 10, unit = "s" }
g = { start = 1.0, lower = -10, upper = 10 }

[method]
kind = "single_shooting"

[fleet]
records = "data/{machine}_{time}.csv"
"""


def record(seed: int, samples: int = 60, std: float = STD, **truth: float) -> dict[str, np.ndarray]:
    """Columns t, u, y of a lag, by its exact solution between samples."""
    rng = np.random.default_rng(seed)
    values = {**TRUTH, **truth}
    time, u = 0.05 * np.arange(samples), np.repeat(rng.uniform(-1, 1, -(-samples // 10)), 10)[:samples]
    x = np.zeros(samples)
    share = np.exp(-0.05 / values["T"])
    for k in range(samples - 1):
        x[k + 1] = share * x[k] + (1 - share) * values["g"] * u[k]
    return {"t": time, "u": u, "y": x + std * rng.standard_normal(samples)}


def write(path: Path, columns: Mapping[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments="",
               fmt="%.12g")
    return path


def made(folder: Path, machines: int, days: int, odd: Mapping[int, Mapping[str, float]] | None = None, toml: str = TOML,
         spread: float = 0.02) -> Path:
    """A folder with a fleet file and its records; `odd` machines have other values. Returns the fleet file."""
    rng = np.random.default_rng(1)
    for m in range(machines):
        own = {"T": 0.5 + spread * rng.standard_normal(), "g": 2.0 + spread * rng.standard_normal(), **(odd or {}).get(m, {})}
        for d in range(days):
            write(folder / "data" / f"m{m:02d}_2026-01-{d + 1:02d}.csv", record(1000 * m + d, **own))
    (folder / "fleet.toml").write_text(toml, encoding="utf-8")
    return folder / "fleet.toml"


class _Deadly(Method):
    """Single shooting, except at records whose name holds a word."""

    kind = "deadly"

    def __init__(self, word: str):
        self.word = word

    @property
    def capabilities(self):
        return di.single_shooting().capabilities

    def check_supports(self, problem):
        pass

    def options(self) -> dict:
        return {"kind": type(self).__name__, "word": self.word}

    def identify(self, problem, executor, report, /):
        if self.word in problem.experiments[0].name:
            self.harm()
        return di.single_shooting().identify(problem, executor, report)

    def harm(self):
        raise NotImplementedError


class Kills(_Deadly):
    def harm(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(_Deadly):
    def harm(self):
        time.sleep(600)


class Raises(_Deadly):
    def harm(self):
        raise ZeroDivisionError("by accident")
