"""Rival models: an input after which two models can be told apart (T-optimality, Atkinson and Fedorov 1975).

Both models run side by side as one, which has the states, parameters and outputs of both; those of the rival have a suffix. The
first is taken to be right at its nominal values, and the rival may adapt all of its parameters to the planned record and to the
records at hand: what it still can't explain is the noncentrality of the test between the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.design.criteria import CriterionValue, InformationState
from dynident.design.plan import Plan, PlannedRecord
from dynident.design.prior_information import nominal_values_of, problem_of, sensor_std
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.tolerances import PLAN_RIDGE

SUFFIX = "_rival"
TEXTS = {"states", "outputs", "definitions"}  # by name
PLAIN = {"kind", "states", "outputs", "definitions", "inputs", "constants", "parameters", "units", "name", "starts", "unused"}


@dataclass(frozen=True)
class Discrimination:
    """T-optimal: minus half the logarithm of the squared distance that a rival keeps however it adapts.

    Outputs of the first model come first, those of the rival in the same order behind them.
    """

    name: str = "discrimination"

    def evaluate(self, state: InformationState) -> CriterionValue:
        n, scale = len(state.output_names) // 2, state.scale
        own = np.array([name.partition("(")[0].endswith(SUFFIX) for name in state.names])
        weight = state.weight[:n]
        A = (state.prior_information * scale * scale[:, None])[np.ix_(own, own)] + PLAN_RIDGE * np.eye(int(own.sum()))
        g, total, parts = np.zeros(len(A)), 0.0, []
        for y, S in zip(state.outputs, state.sensitivities, strict=True):
            d = ((y[:, :n] - y[:, n:]) * weight).ravel()
            rows = (-(S[:, n:, own] * scale[own]) * weight[:, None]).reshape(d.size, -1)
            A, g, total = A + rows.T @ rows, g + rows.T @ d, total + float(d @ d)
            parts.append((d, rows))
        change = -np.linalg.solve(A, g)  # of the rival's unknowns, as it adapts
        distance = max(total + float(g @ change), np.finfo(float).tiny)
        d_outputs, d_sensitivities = [], []
        for S, (d, rows) in zip(state.sensitivities, parts, strict=True):
            left = (-(d + rows @ change) / distance).reshape(-1, n) * weight  # of -log(distance)/2, by the first's outputs
            d_outputs.append(np.concatenate([left, -left], axis=1))
            slopes = np.zeros_like(S)
            slopes[:, n:, own] = -left[:, :, None] * (change * scale[own])
            d_sensitivities.append(slopes)
        return CriterionValue(-0.5 * float(np.log(distance)), d_sensitivities, d_outputs,
                              [np.zeros_like(u) for u in state.inputs])


def noncentrality(cost: float) -> float:
    """The squared distance, in units of the noise, that belongs to a cost."""
    return float(np.exp(-2 * cost))


def with_rival(known: Problem | Estimate, rival: Problem | Estimate) -> Problem:
    """One problem of both models, at the nominal values of both, with the records at hand."""
    first, second = problem_of(known), problem_of(rival)
    faults = _rival_faults(first, second)
    if faults:
        raise ProblemError(faults)
    model = _joint_model(first.model, second.model)
    std = dict(zip(first.model.outputs, sensor_std(known), strict=True))
    records = [_joint_record(own, theirs, std) for own, theirs in zip(first.experiments, second.experiments, strict=True)]
    own = [_at_nominal(p, nominal_values_of(known), "") for p in first.parameters]
    theirs = [_at_nominal(p, nominal_values_of(rival), SUFFIX) for p in second.parameters]
    return Problem(model, records, [*own, *theirs])


def _rival_faults(first: Problem, second: Problem) -> list[str]:
    faults = []
    for problem in (first, second):
        if not isinstance(problem.model, EquationModel) or set(problem.model.definition()) - PLAIN:
            raise NotSupported("a rival is told apart for two models of plain differential equations: no modes, no algebraic "
                               "variables, no tables, no discrete time.")
    if tuple(first.model.inputs) != tuple(second.model.inputs) or set(first.model.outputs) != set(second.model.outputs):
        faults.append("the rival has other inputs or outputs; both models must explain the same records.")
    if len(first.experiments) != len(second.experiments):
        faults.append(f"the rival has {len(second.experiments)} records and the model {len(first.experiments)}; give both the "
                      "same ones.")
    return faults


def _joint_model(first: EquationModel, second: EquationModel) -> EquationModel:
    own, theirs = first.definition(), second.definition()
    renamed = {*second.states, *second.parameters, *second.outputs, *theirs.get("definitions", {}),
               *theirs.get("constants", {})}

    def rename(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: found[0] + SUFFIX * (found[0] in renamed), text)

    parts: dict[str, Any] = {}
    for key in TEXTS:
        others = {f"{name}{SUFFIX}": rename(str(text)) for name, text in theirs.get(key, {}).items()}
        order = [f"{name}{SUFFIX}" for name in first.outputs] if key == "outputs" else list(others)
        parts[key] = {**own.get(key, {}), **{name: others[name] for name in order}}
    parts["constants"] = {**own.get("constants", {}), **{f"{n}{SUFFIX}": v for n, v in theirs.get("constants", {}).items()}}
    return EquationModel(**{key: value for key, value in parts.items() if value}, inputs=list(first.inputs))


def _joint_record(own: Experiment, theirs: Experiment, std: Mapping[str, float]) -> Experiment:
    outputs = {**own.outputs, **{f"{name}{SUFFIX}": values for name, values in own.outputs.items()}}
    noise = {f"{name}{end}": Gaussian(float(std[name])) for name in own.outputs for end in ("", SUFFIX)}
    initial = {**own.initial, **{f"{name}{SUFFIX}": value for name, value in theirs.initial.items()}}
    return Experiment(own.time, dict(own.inputs), outputs, noise, initial, hold=dict(own.hold), name=own.name)


def _at_nominal(given: Parameter | InitialState, values: Mapping[str, float], suffix: str) -> Parameter | InitialState:
    if isinstance(given, InitialState):
        start = values.get(f"{given.state}(0)", given.start)
        return replace(given, state=f"{given.state}{suffix}", start=start)
    return replace(given, name=f"{given.name}{suffix}", start=values.get(given.name, given.start))


def as_plan_of_first(plan: Plan) -> Plan:
    """The plan without what belongs to the rival alone; its expected outputs stay, under their names with the suffix."""
    distance = noncentrality(plan.cost)
    note = (f"If the model is right, the rival's sum of squares is expected to be larger by {distance:.3g} times the noise "
            "variance, however the rival adapts (linearised at its present values).")
    return replace(plan, records=tuple(_of_first(own) for own in plan.records), noncentrality=distance,
                   notes=(note, *plan.notes), noise_std=_without(plan.noise_std))


def _of_first(record: PlannedRecord) -> PlannedRecord:
    return replace(record, noise=_without(record.noise), initial=_without(record.initial))


def _without(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.endswith(SUFFIX)}
