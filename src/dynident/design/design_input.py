"""Optimal experiment design: which input tells most about the parameters, within given constraints?"""

from __future__ import annotations

import inspect
import time as clock
from collections.abc import Mapping, Sequence
from typing import Any

from dynident._util.progress import Tell, reporter
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.build_plan import build_plan
from dynident.design.criteria import Criterion
from dynident.design.design_problem import build_design_problem, refuse_unidentifiable
from dynident.design.optimize import optimize_design, progress_line
from dynident.design.plan import Plan
from dynident.design.prior_information import problem_of
from dynident.design.signals import SIGNALS, Signal
from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem

EXAMPLE = 'Add for instance: [design] signal = "piecewise_linear", constraints = ["abs(u) <= 1"].'


def design_input(known: Problem | Estimate, signal: Signal | Mapping[str, Signal],
                 criterion: Criterion | str | None = None, constraints: Sequence[str] = (), *,
                 terminal_constraints: Sequence[str] = (),
                 duration: float | tuple[float, float] | None = None, sample_time: float | None = None,
                 initial: Mapping[str, float] | None = None, parameters: Sequence[str] = (), records: int = 1,
                 robust: str = "", box: Mapping[str, tuple[float, float]] | None = None, samples: int = 8,
                 use_records: bool = True, amplitude: Mapping[str, float] | float | None = None, mode: str = "",
                 starts: int = 4, seed: int = 0, iterations: int = 200,
                 progress: Tell | bool | None = None) -> Plan:
    """An input that tells most about the parameters, from what is known now (a problem, or better an estimate of it).

    `signal` is the shape of the input (or of each input by name), `criterion` what counts: D unless given, a name from
    CRITERIA or an object. `constraints` hold all along ("abs(u) <= 2", "abs(der_v) <= 10"), `terminal_constraints` at the
    end ("v == 0"). `duration` and `sample_time` are those of the last record unless given; a pair lets the duration be
    chosen. `initial`: the known initial state of the planned record, that of the last record unless given. `parameters`:
    those of interest (all unless named). `records`: how many to plan at once. `robust`: "average" or "worst" over `samples`
    draws from the present uncertainty, or from a `box`.
    `use_records`: add the information of the records at hand. `amplitude`: a first size of inputs without a constraint.
    `mode`: of a hybrid model, the one to stay in. `progress`: called with the DesignProgress of each evaluation, or False
    for silence. Raises NotConverged where no input keeps all constraints. Ctrl-C ends the search with the best input that
    was verified until then, where there is one.
    """
    began = clock.perf_counter()
    options = DesignOptions(duration, sample_time, initial, parameters, records, robust, box, samples, use_records, amplitude,
                            mode, starts, seed, iterations)
    parsed = parse_arguments(known, signal, criterion, constraints, terminal_constraints, options)
    with reporter(progress, progress_line) as report:
        problem = build_design_problem(parsed)
        refuse_unidentifiable(problem)
        state = optimize_design(problem, report)
        return build_plan(problem, state, clock.perf_counter() - began)


# the [design] table of a problem file


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
