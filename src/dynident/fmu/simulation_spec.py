"""Simulation spec: which FMU is simulated, by which interface, along which samples and by which steps.

Plain data, so that it can be sent to the process in which the FMU runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from dynident.fmu.description import FmuVariable

SCHEMES = ("runge_kutta", "radau", "cvodes")  # integrators of Model Exchange; the last one is not in C
ALIGNMENTS = ("sampled", "feedthrough")


class FmuInputs(Protocol):
    """The samples of a record and how inputs move between them; `Grid` of the integrators is one."""

    time: np.ndarray  # (nodes,)
    substeps: np.ndarray  # (nodes - 1,) int32
    u_begin: np.ndarray  # (nodes - 1, inputs) at the begin of each interval
    u_end: np.ndarray  # at its end; inputs move linearly in between
    u_node: np.ndarray  # (nodes, inputs) at the samples themselves
    output_mask: np.ndarray  # (nodes,) uint8: outputs are read here
    finite_mask: np.ndarray  # (nodes, outputs) uint8: outputs that must be finite; of no columns: all


@dataclass(frozen=True)
class SimulationSpec:
    """Which FMU, through which interface, and which of its variables are set and read."""

    file: str  # its name, for messages
    folder: str  # where it is unpacked
    library: str  # inside of the folder
    version: int
    token: str
    tolerance: float | None
    exchange: bool  # Model Exchange; else Co-Simulation
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
    variables: Mapping[str, FmuVariable]
    state_references: tuple[int, ...] = ()
    rate_references: tuple[int, ...] = ()
    differentiable: bool = False  # directional derivatives can give those of a simulation
    reset: bool = True  # one instance is used again by reset; False: a fresh one for each simulation
    renew: int = 1000  # simulations after which an instance is replaced; slow leaks stay small

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SimulationSpec:
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        variables = {name: FmuVariable(**fields) for name, fields in data["variables"].items()}
        return cls(**{**data, **lists, "variables": variables})

    def without_reset(self) -> SimulationSpec:
        return replace(self, reset=False)


@dataclass(frozen=True, eq=False)
class StepSettings:
    """How an instance is led from sample to sample."""

    exchange: bool
    scheme: str  # of Model Exchange
    settle_first: bool = False  # Co-Simulation: a settling step at the first sample
    settle: bool = False  # Co-Simulation: a settling step with the input of each sample
    input_at_end: bool = False  # Co-Simulation: the last sub-step has the input of the sample at its end
    equal: bool = False  # Co-Simulation: every communication step of the same length
    input_events: bool = False  # Model Exchange: inputs may jump at samples

    @classmethod
    def of(cls, spec: SimulationSpec, inputs: FmuInputs) -> StepSettings:
        if spec.exchange:
            discrete = any(spec.variables[n].variability == "discrete" for n in spec.inputs)
            jumps = bool(np.any(inputs.u_end != inputs.u_node[1:]))
            return cls(True, spec.scheme, input_events=discrete or (spec.indicators > 0 and jumps))
        any_length, feedthrough = spec.variable_steps, spec.alignment == "feedthrough"
        return cls(False, spec.scheme, settle_first=any_length, settle=any_length and not feedthrough,
                   input_at_end=feedthrough or (not any_length and spec.feedthrough), equal=not any_length)
