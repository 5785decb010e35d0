"""Recursion: hybrid records by boxes along time; in the batch, each stretch of motion then also as a whole."""

from __future__ import annotations

from dataclasses import replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.enclosure import Refutation
from dynident.models.equations import EquationModel
from dynident.set_membership.batch import largest_refuted
from dynident.set_membership.bisection import strategy_from
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.interval_automaton import Automaton
from dynident.set_membership.flows.mode_flow import FlowChoice
from dynident.set_membership.interval_observer import (
    Budget,
    Observer,
    ObserverVariant,
    Passage,
    Reset,
    VerifiedStep,
    short_standstills,
    standing_modes,
    whole_range,
)
from dynident.set_membership.motion import Motion
from dynident.set_membership.motion_windows import Window, WindowChoice
from dynident.set_membership.relaxed_intersection import ForgivingStep
from dynident.set_membership.result import Answer
from dynident.set_membership.setup import Question

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

WINDOW_ORDER = 5  # of the Taylor polynomial in a window
STEP_ORDER = 3  # of that in a step
PAPER_VARIANTS = {"paper": "dynident.papers.union_of_modes:PUBLISHED"}  # loaded when asked for
INFLATION_CAP = 30  # boxes while looking for the smallest inflation, which takes several runs
INFLATION_SLICES, INFLATION_ROUNDS = 8, 6  # of a window, likewise
INFLATION_CLOSE = 1.2  # to which ratio it is found


def observer_of(method: SetMembership, question: Question, algorithm: str) -> Observer:
    model = question.model
    variant: ObserverVariant = resolve_name(PAPER_VARIANTS[algorithm]) if algorithm in PAPER_VARIANTS else _usual(method)
    resets = tuple(_reset(method, question, name, signal) for name, signal in method.reset.items())
    cuts = method.subdivisions if method.subdivisions is not None else variant.cuts
    sliced = model.states.index(method.velocity) if method.velocity else len(model.states) - 1
    budget = Budget(method.cap, cuts, method.velocity_subdivisions, sliced, variant.overfull)
    strategy = strategy_from(method.strategy, variant.strategy)
    return Observer(model, variant.make_step(question.automaton, model), strategy, budget, variant.backward, resets,
                    variant.renew)


def _usual(method: SetMembership) -> ObserverVariant:
    """Boxes split at guards, and narrowed backward; with samples that may be wrong, once for each number of them."""
    def step(automaton: Automaton, model: EquationModel) -> VerifiedStep:
        made = HybridStep(automaton, FlowChoice(method.order or STEP_ORDER))
        return ForgivingStep(made, method.forgive) if method.forgive else made

    return ObserverVariant(step, "influence", max(method.cap // 4, 1), whole_range, overfull=False, backward=True)


def _reset(method: SetMembership, question: Question, name: str, signal: str) -> Reset:
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
    return Reset(model.parameters.index(name), output, method.standstill_time, modes)


def recursed(method: SetMembership, question: Question, algorithm: str) -> Answer:
    """Runs over the records, one after another, each beginning with what is known by then."""
    observer = observer_of(method, question, algorithm)
    answer = Answer(question.low.copy(), question.high.copy(), {observer.step.rigour})
    changing = frozenset(question.model.parameters.index(name) for name in method.reset)
    for run in range(method.runs):
        for e, record in enumerate(question.records):
            lo, hi = question.box(e, answer.low, answer.high)
            passage = observer.run(_one(lo, hi), record)
            answer.add_band(question, e, run, passage)
            if np.any(passage.count[:passage.reached()] >= method.cap):
                answer.full = f"cap = {method.cap} boxes"
            motion = Motion(question, e, passage, changing, WindowChoice(method.order or WINDOW_ORDER, method.degree))
            found = motion.narrowed(answer.low, answer.high) if algorithm == "batch" and not method.forgive else None
            if found is not None and found.refuted_at is not None:
                return _refuted(answer, observer, motion, found.refuted_at, found.window)
            if passage.empty_at is not None:
                return _refuted(answer, observer, motion, passage.empty_at)
            _learn(answer, question, e, passage, changing)
            if found is not None:
                answer.low, answer.high = np.maximum(answer.low, found.low), np.minimum(answer.high, found.high)
                answer.last_motion |= found.last_motion
    return answer


def _one(lo: np.ndarray, hi: np.ndarray) -> Boxes:
    return Boxes(lo[:, None], hi[:, None], np.zeros(1, int))


def _refuted(answer: Answer, observer: Observer, motion: Motion, sample: int, window: Window | None = None) -> Answer:
    """The answer where nothing fits from a sample on; `window` is the stretch of motion that says so, if one does."""
    record = motion.question.records[motion.experiment]
    answer.notes += short_standstills(observer, record, sample)
    inflation = _inflation(observer, motion, window)
    return answer.refuted(Refutation(record.label, float(record.time[sample]), inflation))


def _inflation(observer: Observer, motion: Motion, window: Window | None) -> float | None:
    """The largest factor on all radii with which this record alone is still refuted, by fewer boxes; None if it is not.

    Of windows only the one that was refuted is looked at.
    """
    question, e = motion.question, motion.experiment
    quick = replace(observer, budget=replace(observer.budget, cap=min(observer.budget.cap, INFLATION_CAP)))
    end = question.records[e].samples if window is None else window.end

    def refuted(factor: float) -> bool:
        record = question.records[e].until(end).inflated(factor)
        passage = quick.run(_one(*question.box(e, question.low, question.high)), record)
        if passage.empty_at is not None or window is None:
            return passage.empty_at is not None
        records = tuple(record if k == e else other for k, other in enumerate(question.records))
        again = replace(motion, question=replace(question, records=records), passage=passage,
                        choice=replace(motion.choice, slices=INFLATION_SLICES, rounds=INFLATION_ROUNDS))
        return any(again.refuted(part, question.low, question.high) for part in again.windows()
                   if part.end > window.begin)

    found = largest_refuted(refuted, INFLATION_CLOSE, grow=4.0)
    return found if found > 1 else None


def _learn(answer: Answer, question: Question, e: int, passage: Passage, changing: frozenset[int]) -> None:
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
