"""Question: is this problem one that bounds can answer, and from which box does the answer start?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.methods.restraints import refuse_constraints, refuse_without_states
from dynident.models.equations import EquationModel
from dynident.problem.noise import stated_bound
from dynident.problem.problem import Problem
from dynident.set_membership.flows.boxes import rows_of
from dynident.set_membership.flows.interval_automaton import Automaton
from dynident.set_membership.intervals.arithmetic import Ends
from dynident.set_membership.record import BoundedRecord, bounded_record

FIRST_PASSES = 20  # of contraction of the initial state by the first measurement


@dataclass(frozen=True, eq=False)
class Question:
    """A problem with bounded errors and bounded unknowns."""

    problem: Problem
    model: EquationModel
    automaton: Automaton
    records: tuple[BoundedRecord, ...]
    low: np.ndarray  # (unknowns of the problem,)
    high: np.ndarray

    def box(self, experiment: int, low: np.ndarray, high: np.ndarray) -> Ends:
        """(states + parameters,) of one experiment, from bounds of the problem's unknowns."""
        ends = []
        for bounds in (low, high):
            p, x = self.problem.values_in(bounds, experiment)
            ends.append(np.concatenate([x, p]))
        return ends[0], ends[1]

    def unknown_rows(self, experiment: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a box that are unknowns of the problem, and which ones."""
        b = self.problem.bindings[experiment]
        source = np.concatenate([b.initial_unknown, b.parameter_unknown])
        rows = np.flatnonzero(source >= 0)
        return rows, source[rows]


def question_of(problem: Problem, input_error: dict[str, float], proved: bool) -> Question:
    """Everything that could be wrong is said in one error."""
    model = problem.model
    if not isinstance(model, EquationModel):
        raise NotSupported(f"set_membership needs a model of equations, not a {type(model).__name__}: only equations can "
                           "be evaluated over boxes.")
    refuse_without_states(problem, "set_membership")
    refuse_constraints(problem, "set_membership", "it without: what it proves then holds with the constraint too")
    faults = _noise_faults(problem) + _bound_faults(problem)
    faults += [f"input_error names '{name}', which is not an input of the model." for name in input_error
               if name not in model.inputs]
    if faults:
        raise ProblemError(faults)
    automaton = Automaton(model, proved)
    records = tuple(bounded_record(e, model, input_error) for e in problem.experiments)
    low = np.array([u.lower for u in problem.unknowns], float)
    high = np.array([u.upper for u in problem.unknowns], float)
    question = Question(problem, model, automaton, records, low, high)
    for k in range(len(records)):
        _by_first_measurement(question, k)
    unbounded = [u.name for u, a, b in zip(problem.unknowns, low, high, strict=True) if not np.isfinite(b - a)]
    if unbounded:
        raise ProblemError(f"the initial state {', '.join(unbounded)} has no bounds, and the first sample does not bound "
                           "it. Give InitialState(..., lower=, upper=), or `initial` in the experiment if it is known.")
    return question


def _noise_faults(problem: Problem) -> list[str]:
    open_ = sorted({name for e in problem.experiments for name, n in e.noise.items() if stated_bound(n) is None})
    return [f"set_membership needs a bound on the errors of {', '.join(open_)}, but these are Gaussian. A standard "
            "deviation bounds nothing: say Bounded(radius) or Gaussian(std, bound=radius) if you know one, or use "
            "multiple_shooting()."] if open_ else []


def _bound_faults(problem: Problem) -> list[str]:
    open_ = [u.name for u in problem.unknowns if not u.initial and not np.isfinite(u.upper - u.lower)]
    return [f"set_membership starts from a box, but {', '.join(open_)} "
            f"{'has' if len(open_) == 1 else 'have'} no bounds. Give Parameter(..., lower=, upper=)."] if open_ else []


def _by_first_measurement(question: Question, experiment: int) -> None:
    """Narrow the initial state by what the first sample measured; refuse where that leaves nothing."""
    record, layout = question.records[experiment], question.automaton.layout
    lo, hi = question.box(experiment, question.low, question.high)
    rows = rows_of(layout, lo[:, None], hi[:, None], record.steps[0])
    low, high = question.automaton.output.contract(*rows, record.low[:, [0]], record.high[:, [0]], FIRST_PASSES)
    if np.isnan(low).any():
        raise ProblemError(f"{record.label}: the first sample (t = {record.time[0]:g}) lies outside of every initial state "
                           "within its bounds. Widen the bounds of the initial state, or the radius of the error.")
    own, source = question.unknown_rows(experiment)
    initial = own < layout.states
    question.low[source[initial]] = np.maximum(question.low[source[initial]], low[own[initial], 0])
    question.high[source[initial]] = np.minimum(question.high[source[initial]], high[own[initial], 0])
