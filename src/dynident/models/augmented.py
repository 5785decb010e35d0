"""State augmentation: a model whose unknown parameters have become states that stand still.

The filter sees one vector: the states, then a coordinate per free parameter. A coordinate is the value itself, its
logarithm, or for a value between bounds a number without bounds (eqs. (11) to (14) of the filter paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.models.equations import EquationModel
from dynident.problem.model import Model

KINDS = ("value", "log", "above", "below", "between")


@dataclass(frozen=True)
class ParameterTransform:
    """How one parameter is seen by the filter: value(z), and z back from the value."""

    kind: str = "value"
    lower: float = -np.inf
    upper: float = np.inf

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ProblemError(f"There is no coordinate '{self.kind}'; known: {', '.join(KINDS)}.")

    def value(self, z):
        """The parameter, of a number or of a symbol."""
        exp = ca.exp if isinstance(z, ca.SX) else np.exp
        if self.kind == "log":
            return exp(z)
        if self.kind == "above":
            return self.lower + exp(z)
        if self.kind == "below":
            return self.upper - exp(-z)
        if self.kind == "between":
            return self.lower + (self.upper - self.lower) / (1 + exp(-z))
        return z

    def coordinate(self, value: float) -> float:
        """z of a value strictly inside of its bounds."""
        if self.kind == "log":
            return float(np.log(value))
        if self.kind == "above":
            return float(np.log(value - self.lower))
        if self.kind == "below":
            return float(-np.log(self.upper - value))
        if self.kind == "between":
            return float(np.log((value - self.lower) / (self.upper - value)))
        return float(value)

    def derivative(self, z):
        """d value / d z."""
        value = self.value(z)
        if self.kind == "log":
            return value
        if self.kind == "above":
            return value - self.lower
        if self.kind == "below":
            return self.upper - value
        if self.kind == "between":
            return (value - self.lower) * (self.upper - value) / (self.upper - self.lower)
        return np.ones_like(z) if isinstance(z, np.ndarray) else 1.0


def transform_for(lower: float, upper: float, log: bool, transform: bool) -> ParameterTransform:
    """`transform` asks for coordinates that cannot leave the bounds; `log` for the logarithm."""
    if log:
        return ParameterTransform("log", lower, upper)
    if not transform or not (np.isfinite(lower) or np.isfinite(upper)):
        return ParameterTransform("value", lower, upper)
    kind = "between" if np.isfinite(lower) and np.isfinite(upper) else "above" if np.isfinite(lower) else "below"
    return ParameterTransform(kind, lower, upper)


@dataclass(frozen=True)
class Augmented:
    """A model and which of its parameters are estimated, each with its coordinate."""

    model: Any  # EquationModel, or a model of a kind above this layer that is simulated
    free: tuple[int, ...]  # indices into model.parameters
    coordinates: tuple[ParameterTransform, ...]
    inverted: tuple[int, ...] = ()  # held parameters that are handed over as 1/value: products instead of quotients

    @property
    def size(self) -> int:
        return len(self.model.states) + len(self.free)

    @property
    def names(self) -> tuple[str, ...]:
        """States, then the free parameters."""
        return (*self.model.states, *(self.model.parameters[i] for i in self.free))

    def split(self, a: ca.SX, fixed: ca.SX) -> tuple[ca.SX, ca.SX]:
        """States and all parameters of the model, from the augmented vector and the fixed parameters."""
        states = len(self.model.states)
        p = ca.SX(fixed)
        for index in self.inverted:
            p[index] = 1 / fixed[index]
        for place, (index, coordinate) in enumerate(zip(self.free, self.coordinates, strict=True)):
            p[index] = coordinate.value(a[states + place])
        return a[:states], p

    def key(self) -> str:
        return f"{self.model.content_hash()} {self.free} {self.coordinates} {self.inverted}"


def reciprocal_parameters(model: EquationModel, free: tuple[int, ...]) -> tuple[int, ...]:
    """Fixed parameters that the equations only divide by; a product with the inverse costs a tenth of a quotient."""
    t, x, u = ca.SX.sym("t"), ca.SX.sym("x", len(model.states)), ca.SX.sym("u", len(model.inputs))
    p = ca.SX.sym("p", len(model.parameters))

    def quotients(inverted: tuple[int, ...]) -> int:
        values = ca.SX(p)
        for index in inverted:
            values[index] = 1 / p[index]
        function = ca.Function("count", [t, x, u, p], [model.rate(t, x, u, values), model.output(t, x, u, values)])
        codes = [function.instruction_id(k) for k in range(function.n_instructions())]
        return codes.count(ca.OP_DIV) + codes.count(ca.OP_INV)

    plain = quotients(())
    return tuple(k for k in range(len(model.parameters)) if k not in free and quotients((k,)) < plain)


def disturbed_states(model: Model) -> tuple[str, ...]:
    """Where disturbances enter: forces act on velocities; without that form, on every state."""
    if not isinstance(model, EquationModel):
        return model.states
    try:
        _, velocities = model.position_velocity()
    except NotSupported:
        return model.states
    return tuple(model.states[i] for i in velocities)
