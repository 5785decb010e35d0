"""Design: which input tells most about the parameters, within what the machine can bear?"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dynident._util.progress import Tell, reporter
from dynident.design.asked import argument_faults
from dynident.design.criteria import CRITERIA, Criterion, Selective, d_optimal
from dynident.design.knowledge import Knowledge
from dynident.design.limits import Limit, limits_from
from dynident.design.modes import Stay, in_mode
from dynident.design.plan import Plan
from dynident.design.search import Search
from dynident.design.signals import Signal
from dynident.design.stage import Teller, said
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.verbs.structural_identifiability import structure_of

Read = TypeVar("Read")


def design_input(known: Problem | Estimate, signal: Signal | Mapping[str, Signal],
                 criterion: Criterion | str | None = None, limits: Sequence[str] = (), *, ends: Sequence[str] = (),
                 duration: float | tuple[float, float] | None = None, sample_time: float | None = None,
                 initial: Mapping[str, float] | None = None, parameters: Sequence[str] = (), records: int = 1,
                 robust: str = "", box: Mapping[str, tuple[float, float]] | None = None, samples: int = 8,
                 use_records: bool = True, amplitude: Mapping[str, float] | float | None = None, mode: str = "",
                 starts: int = 4, seed: int = 0, iterations: int = 200,
                 progress: Tell | bool | None = None) -> Plan:
    """An input that tells most about the parameters, from what is known now (a problem, or better an estimate of it).

    `signal` is the shape of the input (or of each input by name), `criterion` what counts: D unless said, a name from
    CRITERIA or an object. `limits` hold all along ("abs(u) <= 2", "abs(der_v) <= 10"), `ends` at the end ("v == 0").
    `duration` and `sample_time` are those of the last record unless given; a pair lets the duration be chosen.
    `initial`: the known initial state of the planned record, that of the last record unless given. `parameters`: the
    wanted ones (all unless named). `records`: how many to plan at once. `robust`: "average" or "worst" over `samples`
    draws from the present uncertainty, or from a `box`.
    `use_records`: add the information of the records at hand. `amplitude`: a first size of inputs without a limit.
    `mode`: of a hybrid model, the one to stay in. `progress`: called with each Stage of the search, or False for silence.
    """
    began = clock.perf_counter()
    asked = judged(known, signal, criterion, limits, ends=ends, duration=duration, sample_time=sample_time,
                   parameters=parameters, records=records, robust=robust, box=box, samples=samples, amplitude=amplitude,
                   mode=mode, starts=starts, seed=seed, iterations=iterations)
    with reporter(progress, said) as tell:
        search = Search(asked.stay, asked.signals, asked.criterion, asked.limits, duration, sample_time, initial,
                        (parameters,) if isinstance(parameters, str) else tuple(parameters), records,
                        robust, dict(box or {}), samples, use_records, amplitude, seed, Teller(tell))
        _refuse_what_no_input_can_tell(asked.stay, search.knowledge)
        plan = search.best(starts, iterations)
        return search.finished(plan, clock.perf_counter() - began)


@dataclass(frozen=True, eq=False)
class Asked:
    """A design whose arguments are judged, and what they say."""

    stay: Stay
    signals: dict[str, Signal]
    criterion: Criterion
    limits: tuple[Limit, ...]


def judged(known: Problem | Estimate, signal: Signal | Mapping[str, Signal], criterion: Criterion | str | None = None,
           limits: Sequence[str] = (), *, ends: Sequence[str] = (), duration: Any = None, sample_time: Any = None,
           parameters: Sequence[str] = (), records: Any = 1, robust: Any = "", box: Any = None, samples: Any = 8,
           amplitude: Any = None, mode: str = "", starts: Any = 4, seed: Any = 0, iterations: Any = 200,
           **_: Any) -> Asked:
    """What the arguments of `design_input` say, or all that is wrong with them that can be seen without any fit."""
    stay = in_mode(known, mode)
    problem, model = stay.problem, stay.problem.model
    if not isinstance(model, EquationModel):
        raise NotSupported(f"design_input needs a model with equations, not a {type(model).__name__}.")
    faults = argument_faults(model.inputs, counts={"records": records, "samples": samples, "starts": starts,
                                                   "iterations": iterations}, seed=seed, robust=robust, box=box or {},
                             times={"duration": duration, "sample_time": sample_time}, amplitude=amplitude)
    quantities = {*model.parameters, *model.states}  # of an initial state x(0) only the search knows in which record
    faults += [f"parameters names '{name}', which is not an unknown of the problem.{did_you_mean(str(name), problem.names)}"
               for name in ([parameters] if isinstance(parameters, str) else parameters)
               if str(name).partition("(")[0].partition("[")[0] not in quantities]

    def read(part: Callable[..., Read], *said: Any) -> Read | None:
        try:
            return part(*said)
        except ProblemError as error:
            faults.extend(error.faults)
            return None

    chosen = read(_criterion, criterion)
    signals = read(_signals, model, signal)
    told = read(limits_from, model, [limits] if isinstance(limits, str) else limits, ends)
    if faults or chosen is None or signals is None or told is None:
        raise ProblemError(faults)
    if isinstance(chosen, Selective) and isinstance(duration, tuple):
        raise NotSupported("the selective cost is an integral over a fixed time; give one duration.")
    if records > 1 and isinstance(duration, tuple):
        raise NotSupported("several records at once need one fixed duration.")
    return Asked(stay, signals, chosen, (*stay.limits, *told))


def _criterion(criterion: Criterion | str | None) -> Criterion:
    if criterion is None:
        return d_optimal()
    if isinstance(criterion, Criterion):
        return criterion
    if not isinstance(criterion, str):
        raise ProblemError(f"criterion = {criterion!r}; use one of {', '.join(CRITERIA)}, or an object of di.criteria.")
    kind, _, name = criterion.partition(":")
    if kind in CRITERIA and (kind == "std") != bool(name.strip()):
        raise ProblemError(f"criterion = '{criterion}'; " + (
            "name the parameter whose standard deviation is meant, as in \"std:M\"." if kind == "std" else
            f"{kind} speaks of all wanted parameters. Write \"{kind}\", and name them with parameters=[...]."))
    if kind not in CRITERIA:
        raise ProblemError(f"There is no criterion '{criterion}'.{did_you_mean(kind, CRITERIA)} Write \"std:M\" for "
                           "the standard deviation of M.")
    return CRITERIA[kind](*([name.strip()] if name else []))


def _signals(model: EquationModel, signal: Signal | Mapping[str, Signal]) -> dict[str, Signal]:
    if not model.inputs:
        raise ProblemError("The model has no inputs, so there is nothing to design.")
    given = dict(signal) if isinstance(signal, Mapping) else dict.fromkeys(model.inputs, signal)
    faults = [f"'{name}' is not an input of the model.{did_you_mean(name, model.inputs)}" for name in given
              if name not in model.inputs]
    faults += [f"the input '{name}' has no signal; give one, or Given(value) to hold it." for name in model.inputs
               if name not in given]
    faults += [f"the signal of '{name}' is {s!r}; use one of those in di.signals."
               for name, s in given.items() if not isinstance(s, Signal)]
    if faults:
        raise ProblemError(faults)
    return {name: given[name] for name in model.inputs}


def _refuse_what_no_input_can_tell(stay: Stay, knowledge: Knowledge) -> None:
    """Parameters that the model itself hides stay hidden, whatever the input: say so before searching.

    Unless a constraint tells them apart, or records have done so in another mode.
    """
    problem, before = stay.problem, knowledge.judged()
    told = {name for name, std in zip(knowledge.names, before.std, strict=True) if stay.mode and np.isfinite(std)}
    tied = {name for c in problem.constraints if c.lower == c.upper for name in c.names()}
    hidden = [(group, words) for found in [structure_of(problem)]
              for group, words in zip(found.groups, found.combinations, strict=True)
              if any(u.name in group and not u.initial and u.prior is None for u in problem.unknowns)
              and not set(group) <= told and not set(group) & tied]
    where = f" in the mode '{stay.mode}'" if stay.mode else ""
    if hidden:
        raise ProblemError([f"No input{where} can determine {', '.join(group)}: {words}. Hold one of them (free=False), give "
                            "it a prior, or measure something else." for group, words in hidden])
