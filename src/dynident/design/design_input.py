"""Optimal experiment design: which input tells most about the parameters, within given constraints?"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence

from dynident._util.progress import Tell, reporter
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.build_plan import build_plan
from dynident.design.criteria import Criterion
from dynident.design.design_problem import build_design_problem, refuse_unidentifiable
from dynident.design.optimize import optimize_design, progress_line
from dynident.design.plan import Plan
from dynident.design.signals import Signal
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem


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
