"""Model: the contract that every source of state-space models keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dynident.problem.experiment import Experiment


@dataclass(frozen=True)
class NominalValue:
    """What a model itself says about a parameter or an initial state; a problem that is silent about it keeps it."""

    start: float
    lower: float = -np.inf
    upper: float = np.inf
    unit: str = ""


@runtime_checkable
class FormulaModel(Protocol):
    """A model made of equations, which can be told more of them."""

    @property
    def parameters(self) -> tuple[str, ...]: ...

    @property
    def constants(self) -> Mapping[str, float]: ...

    @property
    def delays(self) -> Sequence[object]:
        """Dead times of inputs."""
        ...

    @property
    def sample_time(self) -> float | None:
        """Of a model in discrete time."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth a word about the equations."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """What moves: states, algebraic variables, inputs, definitions and outputs."""
        ...

    @property
    def output_texts(self) -> Mapping[str, str]:
        """Outputs as they are written."""
        ...

    def names_in(self, text: str, where: str) -> tuple[str, ...]:
        """Names that a formula uses; raises ProblemError for what is none."""
        ...

    def with_formulas(self, outputs: Mapping[str, str], parameters: Sequence[str]) -> Model:
        """The same model with more outputs, and parameters that need not occur in any equation."""
        ...


@runtime_checkable
class RenamingModel(Protocol):
    """A model whose signals have other names that people know, and whose records may hold more than it is driven by."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Inputs of a controller, not of the model: what was asked for. A record may hold them; no simulation reads them."""
        ...

    def renamed(self, experiment: Experiment) -> Experiment:
        """The record by the names of the model."""
        ...


@runtime_checkable
class Model(Protocol):
    """Names of what goes in and comes out; values, bounds and data live elsewhere."""

    @property
    def states(self) -> tuple[str, ...]: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> tuple[str, ...]: ...

    @property
    def units(self) -> Mapping[str, str]:
        """In which the model counts its quantities; it may be silent about some or all."""
        ...

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the modes of a hybrid model; a model without modes has one, called ""."""
        ...

    @property
    def hybrid(self) -> bool:
        """Whether there are modes to choose from, or states that jump."""
        ...

    @property
    def stepwise(self) -> tuple[str, ...]:
        """Inputs that can only jump from value to value."""
        ...

    @property
    def sample_time(self) -> float | None:
        """Of a model in discrete time; None for one in continuous time."""
        ...

    @property
    def delays(self) -> tuple[Any, ...]:
        """Its delayed inputs, as `models/delay.py` holds them."""
        ...

    @property
    def nominal_values(self) -> Mapping[str, NominalValue]:
        """Of parameters and initial states, as far as the model brings them along; equations bring none."""
        ...

    def why_not_estimable(self, name: str) -> str:
        """Why a name that is not among the parameters is none; empty where the model does not know it either."""
        ...

    def definition(self) -> dict:
        """The model as plain data (text and numbers, no code), from which it can be built again."""
        ...


def is_robot(model: object) -> bool:
    """Whether it is a `RobotModel`; asked by its name, so that only arms load the room of robots."""
    return type(model).__module__ == "dynident.robots.model"
