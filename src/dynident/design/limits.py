"""Limits: what may the machine be asked to bear?

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
class Limit:
    """lower <= expression <= upper."""

    text: str
    expression: str
    lower: float
    upper: float
    at_end: bool = False
    input_rate: int | None = None  # index of the input whose rate it is
    from_start: bool = True  # whether the input can change it at the first sample
    open: bool = False  # to be kept away from by more than rounding: behind it a machine behaves otherwise
    typical: float = 1.0  # size of what is limited, where both ends are zero or open

    @property
    def size(self) -> float:
        """To bring all limits to one scale."""
        ends = [abs(e) for e in (self.lower, self.upper) if np.isfinite(e) and e != 0]
        return max(ends, default=self.typical)

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def narrowed(self, margin: float) -> Limit:
        """With a distance to both ends."""
        if self.lower == self.upper:
            return self
        return replace(self, lower=self.lower + margin, upper=self.upper - margin)

    def excess(self, values: np.ndarray) -> float:
        """By how much values leave it at the worst; negative: how much room is left."""
        return float(np.max(np.maximum(values - self.upper, self.lower - values)))


def limits_from(model: EquationModel, everywhere: Sequence[str], at_end: Sequence[str] = ()) -> tuple[Limit, ...]:
    """Read all texts; all faults are listed at once."""
    faults: list[str] = []
    read = []
    for texts, end in ((everywhere, False), (at_end, True)):
        for text in [texts] if isinstance(texts, str) else texts:
            try:
                read.append(_limit(model, str(text), end))
            except ValueError as reason:
                faults.append(f"limit '{text}': {reason}.")
            except ProblemError as error:
                faults += error.faults
    if faults:
        raise ProblemError(faults)
    return tuple(read)


def _limit(model: EquationModel, text: str, at_end: bool) -> Limit:
    said = constraint_from(text)
    expression, lower, upper = said.middle, said.lower, said.upper
    inside = ABSOLUTE.fullmatch(expression.strip())
    if inside and np.isinf(lower) and _closed(inside.group(1)):
        expression, lower = inside.group(1), -upper  # smooth, and the same
    rates = {f"{RATE_OF}{name}": i for i, name in enumerate(model.inputs)}
    mentioned = set(names_in(expression, f"limit '{text}'"))
    if expression.strip() in rates:
        return Limit(text, expression.strip(), lower, upper, at_end, rates[expression.strip()])
    if mentioned & set(rates):
        raise ValueError("the rate of an input can only be limited by itself, as in \"abs(der_u) <= 50\"")
    symbols = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                                        ("p", len(model.parameters)))]
    monitored_expressions(model, [expression], *symbols)  # raises where a name is not known
    return Limit(text, expression, lower, upper, at_end)


def _closed(text: str) -> bool:
    """Whether brackets close inside: abs(a) + abs(b) is not abs of one thing."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def input_size(model: EquationModel, limits: Sequence[Limit], name: str) -> tuple[float, float] | None:
    """Middle and half width of what an input may be, where a limit says so."""
    ends = [(limit.lower, limit.upper) for limit in limits if limit.expression.strip() == name and not limit.at_end]
    if not ends:
        return None
    low, high = max(e[0] for e in ends), min(e[1] for e in ends)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return (low + high) / 2, (high - low) / 2
