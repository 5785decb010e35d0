"""Table: a design as plain data, as it stands in a problem file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dynident._util.progress import Tell
from dynident.design.design_input import design_input, judged
from dynident.design.plan import Plan
from dynident.design.signals import SIGNALS, Signal
from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem

EXAMPLE = 'Add for instance: [design] signal = "piecewise_linear", limits = ["abs(u) <= 1"].'


def plan_from(known: Problem | Estimate, table: Mapping[str, Any], progress: Tell | bool | None = None) -> Plan:
    """The plan that a [design] table asks for; `progress` as in `design_input`."""
    return design_input(known, **_arguments(known, table), progress=progress)


def refuse(known: Problem | Estimate, table: Mapping[str, Any]) -> None:
    """Raise what is wrong with a [design] table, as far as that can be seen without any fit."""
    judged(known, **_arguments(known, table))


def _arguments(known: Problem | Estimate, table: Mapping[str, Any]) -> dict[str, Any]:
    """The table as arguments of `design_input`."""
    if not table:
        raise ProblemError(f"The problem file has no [design] table that says what may be planned. {EXAMPLE}")
    problem = known if isinstance(known, Problem) else known.problem
    options = {key: value for key, value in table.items() if value is not None}
    if isinstance(options.get("duration"), (list, tuple)):
        options["duration"] = tuple(options["duration"])
    return options | {"signal": _signals(options.get("signal"), problem.model.inputs)}


def _signals(said: Any, inputs: tuple[str, ...]) -> Signal | dict[str, Signal]:
    if isinstance(said, Mapping) and "kind" not in said:
        return {str(name): signal_from(own) for name, own in said.items()}
    return dict.fromkeys(inputs, signal_from(said))


def signal_from(said: Any) -> Signal:
    """A shape by its name, or by a table with its `kind` and options."""
    options = {"kind": said} if isinstance(said, str) else dict(said) if isinstance(said, Mapping) else {}
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
