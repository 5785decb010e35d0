"""Configuration: a design as plain data, as it stands in the [design] table of a problem file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dynident._util.progress import Tell
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_input import design_input
from dynident.design.plan import Plan
from dynident.design.prior_information import problem_of
from dynident.design.signals import SIGNALS, Signal
from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem

EXAMPLE = 'Add for instance: [design] signal = "piecewise_linear", constraints = ["abs(u) <= 1"].'


def plan_from_table(known: Problem | Estimate, table: Mapping[str, Any], progress: Tell | bool | None = None) -> Plan:
    """The plan that a [design] table asks for; `progress` as in `design_input`."""
    return design_input(known, **_arguments(known, table), progress=progress)


def check_table(known: Problem | Estimate, table: Mapping[str, Any]) -> None:
    """Raise what is wrong with a [design] table, as far as that can be seen without any fit."""
    given = _arguments(known, table)
    main = (given.pop("signal"), given.pop("criterion", None), given.pop("constraints", ()),
            given.pop("terminal_constraints", ()))
    parse_arguments(known, *main, DesignOptions(**given))


def _arguments(known: Problem | Estimate, table: Mapping[str, Any]) -> dict[str, Any]:
    """The table as arguments of `design_input`."""
    if not table:
        raise ProblemError(f"The problem file has no [design] table that says what may be planned. {EXAMPLE}")
    options = {key: value for key, value in table.items() if value is not None}
    if isinstance(options.get("duration"), (list, tuple)):
        options["duration"] = tuple(options["duration"])
    return options | {"signal": _signals(options.get("signal"), problem_of(known).model.inputs)}


def _signals(given: Any, inputs: tuple[str, ...]) -> Signal | dict[str, Signal]:
    if isinstance(given, Mapping) and "kind" not in given:
        return {str(name): signal_from(own) for name, own in given.items()}
    return dict.fromkeys(inputs, signal_from(given))


def signal_from(given: Any) -> Signal:
    """A shape by its name, or by a table with its `kind` and options."""
    options = {"kind": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    kind = options.pop("kind", None)
    if kind not in SIGNALS:
        raise ProblemError(f"design.signal: there is no signal '{kind}'.{did_you_mean(str(kind), SIGNALS)}")
    allowed = inspect.signature(SIGNALS[kind]).parameters
    faults = [f"design.signal: '{kind}' has no option '{key}'.{did_you_mean(key, allowed)}" for key in options
              if key not in allowed]
    faults += [f"design.signal: '{kind}' needs '{name}'." for name, p in allowed.items()
               if p.default is inspect.Parameter.empty and name not in options]
    if faults:
        raise ProblemError(faults)
    return SIGNALS[kind](**options)
