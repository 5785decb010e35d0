"""Modes: how is an input designed for one mode of a hybrid model, and kept in it?

The planned records move by the equations of that mode; what the records at hand tell is asked of the whole model. That
no transition leaves the mode is written as limits where it can be, and the finished plan is simulated with all modes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.design.border import Border, border_of
from dynident.design.finer import Finer
from dynident.design.knowledge import believed_values
from dynident.design.limits import Limit, limits_from
from dynident.design.plan import Use
from dynident.errors import NotConverged, NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.models.parser import names_in
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.verbs.simulate import simulate

NEAR = 1e-3  # of what a plan moves through: closer to a border than this it goes along it
SAME_MOTION = 1e-6  # of a state's size: what two simulations of one motion may differ by


@dataclass(frozen=True, eq=False)
class Stay:
    """What is planned: all that is known, the problem of the equations that the plan moves by, and where it has to stay."""

    known: Problem | Estimate
    problem: Problem  # with one mode
    limits: tuple[Limit, ...] = ()  # that keep it in the mode
    unwritten: tuple[str, ...] = ()  # what must hold there, and no limit can say
    mode: str = ""  # empty: the model has one only
    values: Mapping[str, float] = field(default_factory=dict)  # of all parameters, as believed

    def refuse_leaving(self, finer: Finer) -> None:
        """Simulate a planned record with all modes, and refuse it where it does not stay in the one it was made for."""
        model = (self.known if isinstance(self.known, Problem) else self.known.problem).model
        if not self.mode or not isinstance(model, EquationModel):
            return
        values = {**self.values, **dict(zip(finer.model.parameters, finer.p, strict=True))}
        alone, name = finer.trajectory, repr(self.mode)
        first = {state: float(x[0]) for state, x in alone.states.items()}
        run = Experiment(finer.time, {n: finer.inputs[:, i] for i, n in enumerate(model.inputs)}, initial=first,
                         hold=dict(finer.holds), mode=self.mode)
        found = simulate(model, values, run)
        assert found.modes is not None  # of a hybrid model
        size = {state: max(float(np.max(np.abs(x))), 1e-300) for state, x in alone.states.items()}
        apart = np.any([np.abs(found.states[s] - x) > SAME_MOTION * size[s] for s, x in alone.states.items()], axis=0)
        left = np.flatnonzero((found.modes[:-1] != self.mode) | apart[:-1])
        if left.size:
            why = f" ({'; '.join(self.unwritten)})" if self.unwritten else ""
            raise NotConverged(f"The best input found leaves the mode {name} at t = {finer.time[left[0]]:.4g}{why}. Give a "
                               f"limit that keeps it there, or another initial state; 'v >= 0.01' is an example of a limit.")
        outside = np.flatnonzero(_margins(model, self.mode, finer, values) < -SAME_MOTION)
        if outside.size:
            raise NotConverged(f"The best input found leaves the invariant of the mode {name} at t = "
                               f"{finer.time[outside[0]]:.4g} ({'; '.join(self.unwritten)}). Give a limit that keeps it.")


    def grazed(self, taken_up: Iterable[Use]) -> list[str]:
        """Borders of the mode that a plan comes close to: a machine of slightly other values crosses them."""
        own = {limit.text for limit in self.limits}
        near = [use.text for use in taken_up if use.text in own and use.lower < use.upper and min(
            use.least - use.lower, use.upper - use.most) < NEAR * (use.most - use.least)]
        return [f"The plan goes along '{near[0]}', the border of the mode '{self.mode}': with values a little off, the machine "
                "leaves the mode there, and the promise is void. A limit further inside costs little."] if near else []


def _margins(model: EquationModel, mode: str, finer: Finer, values: Mapping[str, float]) -> np.ndarray:
    """Of the invariant along a record, over the largest of them; never negative where the mode is possible."""
    x = np.array([finer.trajectory.states[s] for s in model.states])
    p = np.array([values[name] for name in model.parameters])
    n = finer.time.size
    found = np.asarray(model.mode(mode).invariant.map(n)(
        finer.time[None], x, finer.inputs.T, np.tile(p[:, None], (1, n)))).ravel()
    return found / max(float(np.max(np.abs(found))), 1e-300)


def in_mode(known: Problem | Estimate, mode: str) -> Stay:
    """The same question for the equations of one mode, and the limits that keep the system in it."""
    problem = known if isinstance(known, Problem) else known.problem
    model = problem.model
    if not isinstance(model, EquationModel) or not model.hybrid:
        if mode:
            raise ProblemError(f"mode = '{mode}', but the model has no modes.")
        return Stay(known, problem)
    if mode not in model.modes:
        named = f"There is no mode '{mode}'.{did_you_mean(mode, model.modes)} " if mode else ""
        raise NotSupported(f"{named}An input is designed for one mode of a hybrid model, in which it then stays: give "
                           f"mode=..., one of {', '.join(model.modes)}.")
    said = model.definition()
    own = _alone(model, said, mode)
    absent = [c.text for c in problem.constraints if c.names() & (set(model.parameters) - set(own.parameters))]
    if absent:
        raise NotSupported(f"'{absent[0]}' ties parameters together that do not all stand in the mode '{mode}', and the design "
                           "of an input in one mode cannot take that. Leave it out, or put it into the model.")
    parameters = [p for p in problem.parameters if not isinstance(p, Parameter) or p.name in own.parameters]
    plain = [replace(e, mode="") for e in problem.experiments]
    changed = problem.changed(model=own, parameters=parameters, experiments=plain)
    values = _believed(known, problem)
    borders = [border_of(said["modes"][mode].get("invariant", ""), holds=True)]
    borders += [border_of(each.when, holds=False) for each in model.transitions if each.source == mode]
    unwritten = tuple(dict.fromkeys(text for border in borders for text in border.unwritten))
    return Stay(known, changed, _limits(own, said, borders, values), unwritten, mode, values)


def _believed(known: Problem | Estimate, problem: Problem) -> dict[str, float]:
    """Of all parameters of the model, in the last record."""
    believed = believed_values(known)
    p, _ = problem.values_in(np.array([believed[name] for name in problem.names]), len(problem.experiments) - 1)
    return dict(zip(problem.model.parameters, (float(v) for v in p), strict=True))


def _alone(model: EquationModel, said: Mapping[str, Any], mode: str) -> EquationModel:
    """The equations of one mode, with what they use and nothing else."""
    rates = {state: said["modes"][mode]["rate"][state] for state in model.states}
    used = _used([*rates.values(), *said["outputs"].values()], said["definitions"])
    idle = [name for name in model.inputs if name not in used]
    if idle:
        raise NotSupported(f"In the mode '{mode}' nothing depends on the input{'s' * (len(idle) > 1)} {', '.join(idle)}, so "
                           "there is nothing to design. Choose another mode.")
    parts: dict[str, Any] = {key: {name: value for name, value in said[key].items() if name in used}
                             for key in ("definitions", "constants")}
    own = EquationModel(states=rates, outputs=said["outputs"], inputs=model.inputs, **parts, name=model.name)
    named = {*own.states, *own.inputs, *own.outputs, *own.parameters, *parts["constants"], *parts["definitions"], "t"}
    units = {name: unit for name, unit in said["units"].items() if name in named}
    return EquationModel(**{**{k: v for k, v in own.definition().items() if k != "kind"}, "units": units})


def _used(texts: Iterable[Any], definitions: Mapping[str, Any]) -> set[str]:
    """Names in some equations, and in the definitions that they use."""
    met: set[str] = set()
    ahead = [name for text in texts for name in names_in(str(text))]
    while ahead:
        name = ahead.pop()
        if name in definitions and name not in met:
            ahead += names_in(str(definitions[name]))
        met.add(name)
    return met


def _limits(own: EquationModel, said: Mapping[str, Any], borders: Iterable[Border], values: Mapping[str, float]
            ) -> tuple[Limit, ...]:
    """Borders as limits of the mode's own model: definitions, and what that model does not know, are put in."""
    meant = {**{n: f"({text})" for n, text in said["definitions"].items()},
             **{n: f"({v!r})" for n, v in {**said["constants"], **values}.items() if n not in own.parameters}}
    read: dict[str, Limit] = {}
    for border in borders:
        for text in border.limits:
            full = text
            while any(name in meant for name in names_in(full)):
                full = re.sub(r"\b[^\W\d]\w*\b", lambda m: meant.get(m.group(), m.group()), full)
            (limit,) = limits_from(own, [full])
            read[text] = replace(limit, text=text, open=border.open or (text in read and read[text].open))
    return tuple(read.values())


