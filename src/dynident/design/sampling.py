"""Sampling design: which samples of a planned record are worth measuring, where only so many may be?

The exchange algorithm (Fedorov): samples are taken one by one where the criterion gains most, then the least useful one taken
is exchanged for the most useful one left, as long as that helps; from evenly spread samples likewise, since the first samples
taken tell too little for rounding not to choose among them. Which samples are best depends on the input, and the other way
round, so that both are planned in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dynident.design.criteria import InformationState
from dynident.design.design_problem import DesignProblem
from dynident.design.nlp import DesignNlp
from dynident.design.optimize import DesignState, Report, optimize_design
from dynident.tolerances import SAMPLING_GAIN, SAMPLING_ROUND_GAIN

MAX_EXCHANGES = 200
SAMPLING_ROUNDS = 5  # of input and samples in turn
Cost = Callable[[np.ndarray], float]  # of a mask (records, samples)


def plan_samples(problem: DesignProblem, state: DesignState, report: Report) -> tuple[DesignProblem, DesignState]:
    """Which samples to measure and the input for these, in turn, until a round gains little."""
    found: tuple[DesignProblem, DesignState] | None = None
    for _ in range(SAMPLING_ROUNDS):
        assert state.best is not None  # optimize_design gives no other
        last = state.best
        taken = choose_samples(problem, replace(last.nlp, problem=replace(problem, taken=None)), last.result.point)
        tried = replace(problem, taken=taken, first_start=last.result.point[:problem.scale.size])
        state = optimize_design(tried, report)
        cost = _true_cost(state)
        if found is not None and cost > _true_cost(found[1]) - SAMPLING_ROUND_GAIN:
            return found if cost > _true_cost(found[1]) else (tried, state)
        found = tried, state
        if state.interrupted:
            break
    assert found is not None
    return found


def _true_cost(state: DesignState) -> float:
    assert state.best is not None
    return state.best.result.value / state.best.nlp.cost_scale


def choose_samples(problem: DesignProblem, nlp: DesignNlp, w: np.ndarray) -> np.ndarray:
    """(records, samples) the samples of each planned record that tell most together, within the budget."""
    budget, samples = problem.options.sample_budget, problem.inputs.samples
    assert budget is not None  # asked for by the design
    cost = _cost_of(problem, nlp.information_states(w))
    count, shape = min(budget, samples), (problem.records, samples)
    spread = np.zeros(shape, bool)
    spread[:, np.linspace(0, samples - 1, count).round().astype(int)] = True
    return min((_after_exchanges(cost, start) for start in (_one_by_one(cost, shape, count), spread)), key=cost)


def _one_by_one(cost: Cost, shape: tuple[int, int], count: int) -> np.ndarray:
    """The sample with which the criterion is best is added each time; the first few tell too little to be told apart."""
    taken = np.zeros(shape, bool)
    for record in range(shape[0]):
        for _ in range(count):
            taken = _with_best(cost, taken, record)
    return taken


def _after_exchanges(cost: Cost, taken: np.ndarray) -> np.ndarray:
    for _ in range(MAX_EXCHANGES):
        better = _exchanged(cost, taken)
        if better is None:
            break
        taken = better
    return taken


def _cost_of(problem: DesignProblem, states: Sequence[InformationState]) -> Cost:
    """Mean or worst criterion over the scenarios, of the samples in a mask."""
    def cost(taken: np.ndarray) -> float:
        values = [problem.criterion.evaluate(_some_samples(state, taken)).value for state in states]
        return float(max(values) if problem.worst_case else np.mean(values))

    return cost


def _some_samples(state: InformationState, taken: np.ndarray) -> InformationState:
    def part(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [own[mask] for own, mask in zip(arrays, taken, strict=True)]

    return replace(state, outputs=part(state.outputs), sensitivities=part(state.sensitivities), inputs=part(state.inputs))


def _with_best(cost: Cost, taken: np.ndarray, record: int) -> np.ndarray:
    """One sample more in a record: the one with which the cost is lowest."""
    tried = [_flipped(taken, (record, int(k))) for k in np.flatnonzero(~taken[record])]
    return min(tried, key=cost)


def _exchanged(cost: Cost, taken: np.ndarray) -> np.ndarray | None:
    """The least useful sample exchanged for the most useful one of its record; None where that gains nothing."""
    now = cost(taken)
    for record in range(len(taken)):
        without = [_flipped(taken, (record, int(k))) for k in np.flatnonzero(taken[record])]
        for left in sorted(without, key=cost)[:2]:
            better = _with_best(cost, left, record)
            if cost(better) < now - SAMPLING_GAIN:
                return better
    return None


def _flipped(taken: np.ndarray, place: tuple[int, int]) -> np.ndarray:
    changed = taken.copy()
    changed[place] = ~changed[place]
    return changed
