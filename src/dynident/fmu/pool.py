"""Pool: as many running instances of an FMU as there are threads that ask, and an end to repeated crashes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from dynident.errors import SimulatorLost
from dynident.fmu.isolated import IsolatedSimulator
from dynident.fmu.library import SimulationFailed
from dynident.fmu.loop import Course
from dynident.fmu.plan import Plan
from dynident.fmu.simulator import Simulator

MOST_MESSAGES = 1000  # kept
MOST_CRASHES = 3  # at different values; then the FMU is called broken


class FmuBroken(SimulatorLost):
    """The FMU cannot be loaded, or crashed or hung again and again; there is no use in going on."""


class SimulatorPool:
    """Idle simulators are kept; a trusted FMU runs in this process, one simulation at a time."""

    def __init__(self, plan: Plan, trusted: bool, limit: float):
        self.plan, self.trusted, self.limit = plan, trusted, limit
        self.idle: list[Simulator | IsolatedSimulator] = []
        self.lock, self.alone = threading.Lock(), threading.Lock()
        self.crashes: dict[bytes, str] = {}
        self.notes: list[str] = []
        self.log: dict[str, None] = {}  # what the FMU said, warnings and worse, each once

    def run(self, values: np.ndarray, course: Course, states: bool, slopes: Sequence[int] = ()) -> np.ndarray:
        if self.trusted:
            with self.alone:
                return self._run(values, course, states, slopes)
        return self._run(values, course, states, slopes)

    def _run(self, values: np.ndarray, course: Course, states: bool, slopes: Sequence[int]) -> np.ndarray:
        with self.lock:
            simulator = self.idle.pop() if self.idle else None
        try:
            if simulator is None:
                simulator = Simulator(self.plan) if self.trusted else IsolatedSimulator(self.plan, self.limit)
            return simulator.run(values, course, states, slopes)
        except SimulationFailed as error:
            if error.crash:
                self._count(values, str(error))
            if error.useless:
                raise FmuBroken(str(error)) from None
            raise
        finally:
            if simulator is not None:
                self._put_back(simulator)

    def _put_back(self, simulator: Simulator | IsolatedSimulator) -> None:
        with self.lock:
            self.notes += [n for n in simulator.notes if n not in self.notes]
            simulator.notes = []
            for said in simulator.messages()[:MOST_MESSAGES - len(self.log)]:
                self.log.setdefault(said)
            self.idle.append(simulator)

    def _count(self, values: np.ndarray, sentence: str) -> None:
        with self.lock:
            self.crashes[values.tobytes()] = sentence
            if len(self.crashes) >= MOST_CRASHES:
                raise FmuBroken(f"{self.plan.file} failed at {len(self.crashes)} different points and was given up: "
                                f"{sentence}")

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for simulator in idle:
            simulator.close()
