"""Plan: everything a process needs to simulate one FMU, as plain data that can be sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dynident.fmu.description import Variable


@dataclass(frozen=True)
class Plan:
    """Which FMU, through which interface, and which of its variables are set and read."""

    file: str  # its name, for messages
    folder: str  # where it is unpacked
    library: str  # inside of the folder
    version: int
    token: str
    tolerance: float | None
    exchange: bool
    states: int
    indicators: int
    needs_completed: bool
    variable_steps: bool
    feedthrough: bool  # an output may depend directly on an input
    alignment: str  # "sampled", or "feedthrough" where the FMU holds no dynamics
    scheme: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    observed: tuple[str, ...]  # states that are read on request
    written: tuple[str, ...]  # what is given a value before each simulation
    constants: Mapping[str, float]  # set once and for all
    variables: Mapping[str, Variable]
    state_references: tuple[int, ...] = ()
    rate_references: tuple[int, ...] = ()
    slopes: bool = False  # directional derivatives can give those of a simulation
    reset: bool = True  # one instance is used again by reset; False: a fresh one for each simulation
    renew: int = 1000  # simulations after which an instance is replaced; slow leaks stay small

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Plan:
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        variables = {name: Variable(**fields) for name, fields in data["variables"].items()}
        return cls(**{**data, **lists, "variables": variables})

    def without_reset(self) -> Plan:
        return replace(self, reset=False)
