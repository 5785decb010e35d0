"""Constraints of a plan: path and terminal constraints on inputs, states and their rates.

Text such as "-2 <= u <= 2", "abs(v) <= 0.5", "abs(der_v) <= 10" (the rate of a state), "abs(der_u) <= 50" (the rate of
an input), or any expression of states, inputs, outputs, parameters and time; along the whole record, or at its end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.errors import ProblemError
from dynident.models.equations import EquationModel
from dynident.models.parser import names_in
from dynident.models.variational import RATE_OF, monitored_expressions
from dynident.problem.constraint import constraint_from

ABSOLUTE = re.compile(r"abs\((.*)\)")


@dataclass(frozen=True)
class PathConstraint:
    """lower <= expression <= upper, all along the record or (a terminal constraint) at its end."""

    text: str
    expression: str
    lower: float
    upper: float
    terminal: bool = False
    input_rate: int | None = None  # index of the input whose rate it is
    acts_at_start: bool = True  # whether the input can change it at the first sample
    strict: bool = False  # to be kept away from by more than rounding: behind it a machine behaves otherwise
    typical: float = 1.0  # size of what is constrained, where both ends are zero or infinite

    @property
    def scale(self) -> float:
        """Brings all constraints to the size of one."""
        ends = [abs(e) for e in (self.lower, self.upper) if np.isfinite(e) and e != 0]
        return max(ends, default=self.typical)

    @property
    def equality(self) -> bool:
        return self.lower == self.upper

    def with_margin(self, margin: float) -> PathConstraint:
        """With a distance to both ends; an equality has no room for one."""
        return self if self.equality else replace(self, lower=self.lower + margin, upper=self.upper - margin)

    def violation(self, values: np.ndarray) -> np.ndarray:
        """By how much each value lies outside; negative: how much room is left."""
        return np.maximum(values - self.upper, self.lower - values)


def parse_constraints(model: EquationModel, path: Sequence[str], terminal: Sequence[str] = ()) -> tuple[PathConstraint, ...]:
    """Read all texts; all faults are listed at once."""
    faults: list[str] = []
    read = []
    for texts, at_end in ((path, False), (terminal, True)):
        for text in [texts] if isinstance(texts, str) else texts:
            try:
                read.append(_parse(model, str(text), at_end))
            except ValueError as reason:
                faults.append(f"constraint '{text}': {reason}.")
            except ProblemError as error:
                faults += error.faults
    if faults:
        raise ProblemError(faults)
    return tuple(read)


def _parse(model: EquationModel, text: str, terminal: bool) -> PathConstraint:
    given = constraint_from(text)
    expression, lower, upper = given.middle, given.lower, given.upper
    inside = ABSOLUTE.fullmatch(expression.strip())
    if inside and np.isinf(lower) and _balanced(inside.group(1)):
        expression, lower = inside.group(1), -upper  # smooth, and the same
    rates = {f"{RATE_OF}{name}": i for i, name in enumerate(model.inputs)}
    mentioned = set(names_in(expression, f"constraint '{text}'"))
    if expression.strip() in rates:
        return PathConstraint(text, expression.strip(), lower, upper, terminal, rates[expression.strip()])
    if mentioned & set(rates):
        raise ValueError("the rate of an input can only be constrained by itself, as in \"abs(der_u) <= 50\"")
    monitored_expressions(model, [expression], *model_symbols(model))  # raises where a name is not known
    return PathConstraint(text, expression, lower, upper, terminal)


def _balanced(text: str) -> bool:
    """Whether brackets close inside: abs(a) + abs(b) is not abs of one thing."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def model_symbols(model: EquationModel) -> list[ca.SX]:
    """t, x, u, p of a model."""
    return [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                                     ("p", len(model.parameters)))]


def input_range(constraints: Sequence[PathConstraint], name: str) -> tuple[float, float] | None:
    """Centre and half width of what an input may be, where constraints say so."""
    ends = [(own.lower, own.upper) for own in constraints if own.expression.strip() == name and not own.terminal]
    if not ends:
        return None
    low, high = max(e[0] for e in ends), min(e[1] for e in ends)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return (low + high) / 2, (high - low) / 2
