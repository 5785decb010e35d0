"""Model: the contract that every source of models keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class NominalValue:
    """What a model itself says about a parameter or an initial state; a problem that is silent about it keeps it."""

    start: float
    lower: float = -np.inf
    upper: float = np.inf
    unit: str = ""


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

    def definition(self) -> dict:
        """The model as plain data (text and numbers, no code), from which it can be built again."""
        ...


def nominal_values(model: Model) -> Mapping[str, NominalValue]:
    """Values that the model brings along; equations bring none."""
    return getattr(model, "given", {})


def why_not_estimable(model: Model, name: str) -> str:
    """Why a name that is not among the model's parameters is none; empty where the model does not know it either."""
    say = getattr(model, "why_not_estimated", None)
    return "" if say is None else say(name)
