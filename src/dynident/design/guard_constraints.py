"""Guard constraints: how is an input designed for one mode of a hybrid model, and kept in it?

The planned records obey the equations of that mode; what the records at hand tell is asked of the whole model. That the
mode's invariant holds, and that no guard of a transition out of it does, is written as inequality constraints where it can
be, and the finished plan is simulated with all modes.

Constraints hold together, and `<` means `<=`. A condition of comparisons joined by `and` is such a list. One joined by `or`
is only where a part of it is all that the parts have in common: `v > 0 or v == 0 and u > Fc` has the closure v >= 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident._util.expressions import syntax_tree
from dynident.design.constraints import FineSimulation, PathConstraint, parse_constraints
from dynident.design.plan import ConstraintUse
from dynident.design.prior_information import nominal_values_of, problem_of
from dynident.errors import NotConverged, NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.models.parser import names_in
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.tolerances import PLAN_ALONG_GUARD, PLAN_SAME_MOTION
from dynident.verbs.simulate import simulate

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}


@dataclass(frozen=True, eq=False)
class ModeConstraint:
    """What is planned for: all that is known, the problem with the equations of one mode, and what keeps a plan in it."""

    known: Problem | Estimate
    problem: Problem  # with one mode
    constraints: tuple[PathConstraint, ...] = ()  # that keep it in the mode
    unwritten: tuple[str, ...] = ()  # what must hold there, and no inequality can say
    mode: str = ""  # empty: the model has one only
    values: Mapping[str, float] = field(default_factory=dict)  # nominal, of all parameters

    def check_stays(self, planned: FineSimulation) -> None:
        """Simulate a planned record with all modes, and refuse it where it does not stay in the one it was made for."""
        model = problem_of(self.known).model
        if not self.mode or not isinstance(model, EquationModel):
            return
        values = {**self.values, **dict(zip(planned.model.parameters, planned.parameters, strict=True))}
        alone, name = planned.trajectory, repr(self.mode)
        first = {state: float(x[0]) for state, x in alone.states.items()}
        run = Experiment(planned.time, {n: planned.inputs[:, i] for i, n in enumerate(model.inputs)}, initial=first,
                         hold=dict(planned.holds), mode=self.mode)
        whole = simulate(model, values, run)
        assert whole.modes is not None  # of a hybrid model
        scale = {state: max(float(np.max(np.abs(x))), 1e-300) for state, x in alone.states.items()}
        apart = np.any([np.abs(whole.states[s] - x) > PLAN_SAME_MOTION * scale[s] for s, x in alone.states.items()], axis=0)
        left = np.flatnonzero((whole.modes[:-1] != self.mode) | apart[:-1])
        if left.size:
            why = f" ({'; '.join(self.unwritten)})" if self.unwritten else ""
            raise NotConverged(f"The best input found leaves the mode {name} at t = {planned.time[left[0]]:.4g}{why}. Give a "
                               "constraint that keeps it there, such as 'v >= 0.01', or another initial state.")
        outside = np.flatnonzero(_invariant_margin(model, self.mode, planned, values) < -PLAN_SAME_MOTION)
        if outside.size:
            raise NotConverged(f"The best input found leaves the invariant of the mode {name} at t = "
                               f"{planned.time[outside[0]]:.4g} ({'; '.join(self.unwritten)}). Give a constraint that "
                               "keeps it.")

    def notes_on_guards(self, uses: Iterable[ConstraintUse]) -> list[str]:
        """Guards of the mode that a plan comes close to: a machine of slightly other values crosses them."""
        own = {constraint.text for constraint in self.constraints}
        near = [use.text for use in uses if use.text in own and use.lower < use.upper and min(
            use.least - use.lower, use.upper - use.most) < PLAN_ALONG_GUARD * (use.most - use.least)]
        return [f"The plan goes along '{near[0]}', the border of the mode '{self.mode}': with values a little off, the machine "
                "leaves the mode there, and the predicted std does not hold. A constraint further inside costs little."
                ] if near else []


def _invariant_margin(model: EquationModel, mode: str, planned: FineSimulation, values: Mapping[str, float]) -> np.ndarray:
    """Of the invariant along a record, over the largest of them; never negative where the mode is possible."""
    x = np.array([planned.trajectory.states[s] for s in model.states])
    p = np.array([values[name] for name in model.parameters])
    n = planned.time.size
    margin = np.asarray(model.mode(mode).invariant.map(n)(
        planned.time[None], x, planned.inputs.T, np.tile(p[:, None], (1, n)))).ravel()
    return margin / max(float(np.max(np.abs(margin))), 1e-300)


def restrict_to_mode(known: Problem | Estimate, mode: str) -> ModeConstraint:
    """The same question for the equations of one mode, and the constraints that keep the system in it."""
    problem = problem_of(known)
    model = problem.model
    if not isinstance(model, EquationModel) or not model.hybrid:
        if mode:
            raise ProblemError(f"mode = '{mode}', but the model has no modes.")
        return ModeConstraint(known, problem)
    if mode not in model.modes:
        named = f"There is no mode '{mode}'.{did_you_mean(mode, model.modes)} " if mode else ""
        raise NotSupported(f"{named}An input is designed for one mode of a hybrid model, in which it then stays: give "
                           f"mode=..., one of {', '.join(model.modes)}.")
    definition = model.definition()
    own = _model_of_mode(model, definition, mode)
    absent = [c.text for c in problem.constraints if c.names() & (set(model.parameters) - set(own.parameters))]
    if absent:
        raise NotSupported(f"'{absent[0]}' ties parameters together that do not all stand in the mode '{mode}', and the design "
                           "of an input in one mode cannot take that. Leave it out, or put it into the model.")
    parameters = [p for p in problem.parameters if not isinstance(p, Parameter) or p.name in own.parameters]
    plain = [replace(e, mode="") for e in problem.experiments]
    restricted = problem.replace(model=own, parameters=parameters, experiments=plain)
    values = _nominal_parameters(known)
    guards = [guard_constraints(definition["modes"][mode].get("invariant", ""), holds=True)]
    guards += [guard_constraints(each.when, holds=False) for each in model.transitions if each.source == mode]
    unwritten = tuple(dict.fromkeys(text for guard in guards for text in guard.unwritten))
    return ModeConstraint(known, restricted, _path_constraints(own, definition, guards, values), unwritten, mode, values)


def _nominal_parameters(known: Problem | Estimate) -> dict[str, float]:
    """Of the whole model, in the last record."""
    problem, nominal = problem_of(known), nominal_values_of(known)
    unknowns = np.array([nominal[name] for name in problem.names])
    p, _ = problem.parameters_and_initial_state(unknowns, len(problem.experiments) - 1)
    return dict(zip(problem.model.parameters, (float(v) for v in p), strict=True))


def _model_of_mode(model: EquationModel, definition: Mapping[str, Any], mode: str) -> EquationModel:
    """The equations of one mode, with what they use and nothing else."""
    rates = {state: definition["modes"][mode]["rate"][state] for state in model.states}
    used = _names_used([*rates.values(), *definition["outputs"].values()], definition["definitions"])
    idle = [name for name in model.inputs if name not in used]
    if idle:
        raise NotSupported(f"In the mode '{mode}' nothing depends on the input{'s' * (len(idle) > 1)} {', '.join(idle)}, so "
                           "there is nothing to design. Choose another mode.")
    parts: dict[str, Any] = {key: {name: value for name, value in definition[key].items() if name in used}
                             for key in ("definitions", "constants")}
    own = EquationModel(states=rates, outputs=definition["outputs"], inputs=model.inputs, **parts, name=model.name)
    named = {*own.states, *own.inputs, *own.outputs, *own.parameters, *parts["constants"], *parts["definitions"], "t"}
    units = {name: unit for name, unit in definition["units"].items() if name in named}
    return EquationModel(**{**{k: v for k, v in own.definition().items() if k != "kind"}, "units": units})


def _names_used(texts: Iterable[Any], definitions: Mapping[str, Any]) -> set[str]:
    """Names in some equations, and in the definitions that they use."""
    met: set[str] = set()
    ahead = [name for text in texts for name in names_in(str(text))]
    while ahead:
        name = ahead.pop()
        if name in definitions and name not in met:
            ahead += names_in(str(definitions[name]))
        met.add(name)
    return met


def _path_constraints(own: EquationModel, definition: Mapping[str, Any], guards: Iterable[GuardConstraints],
                      values: Mapping[str, float]) -> tuple[PathConstraint, ...]:
    """Guards as constraints of the mode's own model: definitions, and what that model does not know, are put in."""
    meant = {**{n: f"({text})" for n, text in definition["definitions"].items()},
             **{n: f"({v!r})" for n, v in {**definition["constants"], **values}.items() if n not in own.parameters}}
    read: dict[str, PathConstraint] = {}
    for guard in guards:
        for text in guard.inequalities:
            full = text
            while any(name in meant for name in names_in(full)):
                full = re.sub(r"\b[^\W\d]\w*\b", lambda m: meant.get(m.group(), m.group()), full)
            (constraint,) = parse_constraints(own, [full])
            read[text] = replace(constraint, text=text, strict=guard.strict or (text in read and read[text].strict))
    return tuple(read.values())


@dataclass(frozen=True)
class GuardConstraints:
    """A guard, or an invariant, as texts of inequalities, and the parts that no inequality can say."""

    inequalities: tuple[str, ...]
    unwritten: tuple[str, ...]
    strict: bool  # the border itself is to be kept away from: behind it the condition begins to hold


@dataclass(frozen=True)
class _Comparison:
    """low <= high, or low == high."""

    low: str
    high: str
    equal: bool = False

    def implies(self, other: _Comparison) -> bool:
        pair = {self.low, self.high} == {other.low, other.high} if self.equal else (
            (self.low, self.high) == (other.low, other.high))
        return pair and (self.equal or not other.equal)

    def __str__(self) -> str:
        if self.equal:
            return f"{self.low} == {self.high}"
        return f"{self.high} >= {self.low}" if _is_number(self.low) else f"{self.low} <= {self.high}"


def guard_constraints(condition: str, holds: bool) -> GuardConstraints:
    """Where a condition holds, or does not."""
    if not condition:
        return GuardConstraints((), (), not holds)
    comparisons, unwritten = _inequalities(syntax_tree(condition).body, holds)
    return GuardConstraints(tuple(dict.fromkeys(str(own) for own in comparisons)), tuple(unwritten), not holds)


def _inequalities(node: ast.expr, holds: bool) -> tuple[list[_Comparison], list[str]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _inequalities(node.operand, not holds)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a < b < c
        sides = [node.left, *node.comparators]
        pairs: list[ast.expr] = [ast.Compare(sides[i], [op], [sides[i + 1]]) for i, op in enumerate(node.ops)]
        return _inequalities(ast.BoolOp(ast.And(), pairs), holds)
    if isinstance(node, ast.Compare):
        return _comparison(node, holds), []
    if isinstance(node, ast.BoolOp):
        parts = [_inequalities(part, holds) for part in node.values]
        if isinstance(node.op, ast.And) == holds:
            return [own for comparisons, _ in parts for own in comparisons], [text for _, texts in parts for text in texts]
        common = [each for each in dict.fromkeys(_closure(a) for comparisons, _ in parts for a in comparisons)
                  if all(any(own.implies(each) for own in comparisons) for comparisons, _ in parts)]
        if any(not texts and all(own in common for own in comparisons) for comparisons, texts in parts):
            return common, []
    return [], [ast.unparse(node) if holds else f"not ({ast.unparse(node)})"]


def _comparison(node: ast.Compare, holds: bool) -> list[_Comparison]:
    kind = type(node.ops[0]) if holds else NEGATED[type(node.ops[0])]
    left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
    if kind is ast.NotEq:
        return []  # everywhere but on a set without inside
    if kind is ast.Eq:
        return [_Comparison(left, right, True)]
    return [_Comparison(left, right) if kind in (ast.Lt, ast.LtE) else _Comparison(right, left)]


def _closure(comparison: _Comparison) -> _Comparison:
    return comparison if not comparison.equal else _Comparison(comparison.high, comparison.low)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
