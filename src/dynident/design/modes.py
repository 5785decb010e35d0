"""Modes: how is an input designed for one mode of a hybrid model, and kept in it?"""

from __future__ import annotations

from dataclasses import replace

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem


def in_mode(known: Problem | Estimate, mode: str) -> tuple[Problem | Estimate, list[str]]:
    """The same question for the equations of one mode, and the limits that keep the system in it."""
    problem = known if isinstance(known, Problem) else known.problem
    model = problem.model
    if not isinstance(model, EquationModel) or not model.hybrid:
        if mode:
            raise ProblemError(f"mode = '{mode}', but the model has no modes.")
        return known, []
    if mode not in model.modes:
        named = f"There is no mode '{mode}'.{did_you_mean(mode, model.modes)} " if mode else ""
        raise NotSupported(f"{named}An input is designed for one mode of a hybrid model, in which it then stays: give "
                           f"mode=..., one of {', '.join(model.modes)}.")
    definition = model.definition()
    said = definition["modes"][mode]
    alone = {k: v for k, v in definition.items() if k not in ("kind", "modes", "transitions", "parameters", "states")}
    own = EquationModel(states={s: said["rate"][s] for s in model.states}, **alone)
    parameters = [p for p in problem.parameters if not isinstance(p, Parameter) or p.name in own.parameters]
    changed = problem.changed(model=own, parameters=parameters)
    limits = [part.strip() for part in said.get("invariant", "").split(" and ") if part.strip()]
    if isinstance(known, Problem):
        return changed, limits
    return replace(known, problem=changed), limits
