"""Steady state: what a system came to rest in before a record begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident._util.expressions import symbol_name, without_expression
from dynident.errors import ProblemError


@dataclass(frozen=True)
class SteadyState:
    """A record begins where the model comes to rest; inputs as before the record, or as at its first sample.

    The model is integrated until nothing changes any more, so that conserved totals stay what they are at the beginning.
    See the manual, howto/initial_states.

    Parameters
    ----------
    initial : mapping of str to float or str, optional
        Where the states begin on their way to rest, as numbers in the units of the model or as formulas; 0 for those that are
        not named.
    constants : mapping of str to float, optional
        Constants of the experiment that have other values on the way to rest, in the units of the model.

    Raises
    ------
    ProblemError
        For constants that are not finite numbers.

    Examples
    --------
    >>> import dynident as di
    >>> rest = di.SteadyState(initial={"A": "total"}, constants={"dose": 0})
    >>> di.Experiment([0, 1], outputs={"A": [1.0, 0.7]}, constants={"dose": 3}, initial=rest).steady.constants
    {'dose': 0.0}
    """

    initial: Mapping[str, float | str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults: list[str] = []
        initial = first_values("initial state '{}' of a steady state", self.initial, faults)
        constants = {str(name): finite_number(f"constant '{name}' of a steady state", value, faults)
                     for name, value in dict(self.constants).items()}
        if faults:
            raise ProblemError(faults)
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "constants", constants)


def finite_number(what: str, value: object, faults: list[str]) -> float:
    """A number as such; what is none goes to the faults."""
    try:
        number = float(value) if not isinstance(value, str) else np.nan  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        faults.append(f"the {what} is {value}; give a finite number.")
    return float(number)


def formula_or_number(what: str, value: object, faults: list[str]) -> float | str:
    """Text is a formula, which the problem reads, and so is an expression of SymPy; all else is a number."""
    value = without_expression(value)
    if isinstance(value, str):
        return " ".join(value.split())
    return finite_number(what, value, faults)


def first_values(what: str, given: Mapping[Any, object], faults: list[str]) -> dict[str, float | str]:
    """Initial states by name, as numbers or formulas; `what` has a place for the name."""
    return {symbol_name(name): formula_or_number(what.format(name), value, faults) for name, value in dict(given).items()}
