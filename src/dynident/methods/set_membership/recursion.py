"""Recursion: hybrid records by boxes along time; in the batch, each stretch of motion then also as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.enclosure import Refutation
from dynident.integrators.verified.boxes import Boxes
from dynident.integrators.verified.flow import FlowChoice
from dynident.integrators.verified.hybrid_step import HybridStep
from dynident.integrators.verified.united_step import UnitedStep
from dynident.methods.set_membership.answer import Answer
from dynident.methods.set_membership.forgiving import ForgivingStep
from dynident.methods.set_membership.inversion import largest_refuted
from dynident.methods.set_membership.observer import (
    Budget,
    Observer,
    Passage,
    Reset,
    VerifiedStep,
    short_standstills,
    standing_modes,
)
from dynident.methods.set_membership.question import Question
from dynident.methods.set_membership.splitting import strategy_from
from dynident.methods.set_membership.windows import WindowSolver, windows_of

if TYPE_CHECKING:
    from dynident.methods.set_membership.method import SetMembership

WINDOW_ORDER = 5  # of the Taylor polynomial in a window
STEP_ORDER = 3  # of that in a step
PAPER_CUTS = 50  # M of the paper
INFLATION_CAP = 30  # boxes while looking for the smallest inflation, which takes several runs
INFLATION_CLOSE = 1.2  # to which ratio it is found


def observer_of(method: SetMembership, question: Question, algorithm: str) -> Observer:
    model, paper = question.model, algorithm == "paper"
    resets = tuple(_reset(method, question, name, signal, paper) for name, signal in method.reset.items())
    cuts = method.subdivisions if method.subdivisions is not None else (PAPER_CUTS if paper else max(method.cap // 4, 1))
    sliced = model.states.index(method.velocity) if method.velocity else len(model.states) - 1
    budget = Budget(method.cap, cuts, method.velocity_subdivisions, sliced, overfull=paper)
    strategy = strategy_from(method.strategy, "paper" if paper else "influence")
    step: VerifiedStep = UnitedStep(question.automaton, model) if paper else HybridStep(
        question.automaton, FlowChoice(method.order or STEP_ORDER))
    if isinstance(step, HybridStep) and method.forgive:
        step = ForgivingStep(step, method.forgive)
    return Observer(model, step, strategy, budget, backward=not paper, resets=resets)


def _reset(method: SetMembership, question: Question, name: str, signal: str, pieces: bool) -> Reset:
    model = question.model
    if name not in model.parameters:
        raise ProblemError(f"reset names '{name}', which is not a parameter.{did_you_mean(name, model.parameters)}")
    if signal not in model.outputs:
        raise ProblemError(f"reset of '{name}' waits for '{signal}', which is not an output of the model."
                           f"{did_you_mean(signal, model.outputs)}")
    output = model.outputs.index(signal)
    modes = standing_modes(model, output)
    if not modes:
        raise ProblemError(f"reset of '{name}' waits for '{signal}' to stand still, but it moves in every mode.")
    return Reset(model.parameters.index(name), output, method.standstill_time, pieces, modes)


def recursed(method: SetMembership, question: Question, algorithm: str) -> Answer:
    """Runs over the records, one after another, each beginning with what is known by then."""
    observer = observer_of(method, question, algorithm)
    answer = Answer(question.low.copy(), question.high.copy(), {observer.step.rigour})
    changing = {question.model.parameters.index(name) for name in method.reset}
    for run in range(method.runs):
        for e, record in enumerate(question.records):
            lo, hi = question.box(e, answer.low, answer.high)
            passage = observer.run(_one(lo, hi), record)
            answer.add_band(question, e, run, passage)
            if passage.empty_at is not None:
                when = float(record.time[passage.empty_at])
                answer.notes += short_standstills(observer, record, passage.empty_at)
                return answer.refuted(Refutation(record.label, when, _inflation(observer, question, e)))
            _learn(answer, question, e, passage, changing)
            if algorithm == "batch" and not method.forgive:
                _by_windows(method, question, answer, e, passage, changing)
            if answer.refutation is not None:
                return answer
    return answer


def _one(lo: np.ndarray, hi: np.ndarray) -> Boxes:
    return Boxes(lo[:, None], hi[:, None], np.zeros(1, int))


def _inflation(observer: Observer, question: Question, e: int) -> float | None:
    """The largest factor on all radii with which this record alone is still refuted; None if it needed the others."""
    budget = replace(observer.budget, cap=min(observer.budget.cap, INFLATION_CAP))
    quick = replace(observer, budget=budget)

    def refuted(factor: float) -> bool:
        first = _one(*question.box(e, question.low, question.high))
        return quick.run(first, question.records[e].inflated(factor)).empty_at is not None

    return largest_refuted(refuted, INFLATION_CLOSE, grow=4.0) if refuted(1.0) else None


def _by_windows(method: SetMembership, question: Question, answer: Answer, e: int, passage: Passage,
                changing: set[int]) -> None:
    """Each stretch of motion as a whole; what one leaves of the parameters is where the next begins."""
    n = question.automaton.layout.states
    still = {k for k, law in enumerate(question.automaton.modes) if law.rate_is_zero}
    rows, source = question.unknown_rows(e)
    for window in windows_of(passage, still):
        lo, hi = question.box(e, answer.low, answer.high)
        own = [*range(n), *(n + k for k in changing)]
        at = [window.begin] * n + [window.end - 1] * len(changing)
        lo[own], hi[own] = passage.low[at, own], passage.high[at, own]
        found = WindowSolver(question, e, window, passage, method.order or WINDOW_ORDER).narrowed(lo, hi)
        if found is None:
            answer.refuted(Refutation(question.records[e].label, float(question.records[e].time[window.end - 1])))
            return
        for row, k in zip(rows, source, strict=True):
            if row >= n and row - n in changing:
                answer.last_motion[int(k)] = float(found[0][row]), float(found[1][row])
            elif row >= n:
                answer.low[k], answer.high[k] = max(answer.low[k], found[0][row]), min(answer.high[k], found[1][row])


def _learn(answer: Answer, question: Question, e: int, passage: Passage, changing: set[int]) -> None:
    """Take over what a passage proved; a parameter that is reset keeps its first range, and is told beside it."""
    n = question.automaton.layout.states
    standing = sum(1 << k for k, law in enumerate(question.automaton.modes) if law.rate_is_zero)
    rows, source = question.unknown_rows(e)
    for row, k in zip(rows, source, strict=True):
        if row < n:
            answer.low[k] = max(answer.low[k], passage.low[0, row])
            answer.high[k] = min(answer.high[k], passage.high[0, row])
        elif row - n in changing:
            answer.last_motion[int(k)] = _in_last_motion(passage, row, standing)
        else:
            answer.low[k] = max(answer.low[k], passage.low[-1, row])
            answer.high[k] = min(answer.high[k], passage.high[-1, row])
    answer.boxes = passage.boxes


def _in_last_motion(passage: Passage, row: int, standing: int) -> tuple[float, float]:
    """The narrowest bounds of a parameter between the two resets around the last motion."""
    end = passage.reached()
    moving = np.flatnonzero(passage.modes[:end] & ~standing)
    last = int(moving[-1]) if moving.size else end - 1
    begin = max((k for k in passage.resets if k <= last), default=0)
    end = min((k for k in passage.resets if k > last), default=end)
    k = begin + int(np.argmin(passage.high[begin:end, row] - passage.low[begin:end, row]))
    return float(passage.low[k, row]), float(passage.high[k, row])
