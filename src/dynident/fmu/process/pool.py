"""Pool: as many running instances of an FMU as there are threads that ask, and an end to repeated crashes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from dynident.errors import SimulatorLost
from dynident.fmu.in_process import InProcessSimulator
from dynident.fmu.instance import SimulationFailed
from dynident.fmu.process.simulator import IsolatedSimulator
from dynident.fmu.simulation_spec import FmuInputs, SimulationSpec

MOST_MESSAGES = 1000  # kept
MOST_CRASHES = 3  # at different values; then the FMU is called broken


class FmuBroken(SimulatorLost):
    """The FMU cannot be loaded, or crashed or hung again and again; there is no use in going on."""


class SimulatorPool:
    """Idle simulators are kept; a trusted FMU runs in this process, one simulation at a time."""

    def __init__(self, spec: SimulationSpec, trusted: bool, limit: float):
        self.spec, self.trusted, self.limit = spec, trusted, limit
        self.idle: list[InProcessSimulator | IsolatedSimulator] = []
        self.lock, self.alone = threading.Lock(), threading.Lock()
        self.crashes: dict[bytes, str] = {}
        self.notes: list[str] = []
        self.log: dict[str, None] = {}  # what the FMU said, warnings and worse, each once

    def run(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int] = ()) -> np.ndarray:
        if self.trusted:
            with self.alone:
                return self._run(values, inputs, states, directions)
        return self._run(values, inputs, states, directions)

    def _run(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int]) -> np.ndarray:
        with self.lock:
            simulator = self.idle.pop() if self.idle else None
        try:
            if simulator is None:
                simulator = InProcessSimulator(self.spec) if self.trusted else IsolatedSimulator(self.spec, self.limit)
            return simulator.run(values, inputs, states, directions)
        except SimulationFailed as error:
            if error.crash:
                self._count(values, str(error))
            if error.useless:
                raise FmuBroken(str(error)) from None
            raise
        finally:
            if simulator is not None:
                self._put_back(simulator)

    def _put_back(self, simulator: InProcessSimulator | IsolatedSimulator) -> None:
        with self.lock:
            self.notes += [n for n in simulator.notes if n not in self.notes]
            simulator.notes = []
            for message in simulator.messages()[:MOST_MESSAGES - len(self.log)]:
                self.log.setdefault(message)
            self.idle.append(simulator)

    def _count(self, values: np.ndarray, sentence: str) -> None:
        with self.lock:
            self.crashes[values.tobytes()] = sentence
            if len(self.crashes) >= MOST_CRASHES:
                raise FmuBroken(f"{self.spec.file} failed at {len(self.crashes)} different points and was given up: "
                                f"{sentence}")

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for simulator in idle:
            simulator.close()
