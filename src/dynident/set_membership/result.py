"""Answer: what the algorithms found, and how it becomes an estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.estimate.enclosure import Band, Enclosure, Refutation
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.interval_observer import Passage
from dynident.set_membership.intervals import Rigour
from dynident.set_membership.setup import Question
from dynident.verbs.simulate import simulate

MOST_KEPT = 4000  # boxes of a paving that an estimate keeps


@dataclass(eq=False)
class Answer:
    """Collects bounds of the problem's unknowns while an algorithm runs."""

    low: np.ndarray
    high: np.ndarray
    rigours: set[Rigour]
    outer: np.ndarray | None = None
    inner: np.ndarray | None = None
    bands: list[Band] = field(default_factory=list)
    centres: list[np.ndarray] = field(default_factory=list)
    last_motion: dict[int, tuple[float, float]] = field(default_factory=dict)
    boxes: Boxes | None = None
    refutation: Refutation | None = None
    notes: list[str] = field(default_factory=list)
    full: str = ""  # how many boxes there could be, where that many were not enough to cut further

    def refuted(self, refutation: Refutation) -> Answer:
        self.refutation = refutation
        return self

    def add_band(self, question: Question, e: int, run: int, passage: Passage) -> None:
        model, record = question.model, question.records[e]
        names = (*model.states, *model.parameters)
        end = passage.reached()
        self.bands.append(Band(
            record.label, record.time[:end], {n: passage.low[:end, i] for i, n in enumerate(names)},
            {n: passage.high[:end, i] for i, n in enumerate(names)}, passage.count[:end], passage.modes[:end],
            tuple(model.modes) if model.hybrid else (), tuple(float(record.time[k]) for k in passage.resets), run + 1))


def assembled(question: Question, method: Any, algorithm: str, answer: Answer, seconds: float) -> Estimate:
    problem = question.problem
    prior = question.low.copy(), question.high.copy()
    low, high = answer.low.copy(), answer.high.copy()
    notes = []
    for k, (a, b) in answer.last_motion.items():
        low[k], high[k] = a, b
        notes.append(f"{problem.names[k]} may change at every standstill: its bounds are those of its value in the last "
                     "motion of the record.")
    if answer.refutation is not None:
        low[:], high[:] = np.nan, np.nan
    notes += answer.notes
    rigour = Rigour.MARGIN if Rigour.MARGIN in answer.rigours else Rigour.PROVED
    none = np.zeros((2, len(problem.names), 0))
    outer, inner = (none if part is None else part[:, :, :MOST_KEPT] for part in (answer.outer, answer.inner))
    complete = all(part is None or part.shape[2] <= MOST_KEPT for part in (answer.outer, answer.inner))
    enclosure = Enclosure(
        names=problem.names, low=low, high=high, rigour=rigour.value, prior_low=prior[0], prior_high=prior[1],
        outer=outer if complete else none, inner=inner if complete else none, forgiven=method.forgive,
        refutation=answer.refutation, bands=tuple(answer.bands), held=problem.held_values(),
        last=_last_boxes(question, answer.boxes, low, high))
    middle = 0.5 * (low + high)
    values = {**dict(zip(problem.names, (float(v) for v in middle), strict=True)), **problem.held_values()}
    trajectories, residuals = _trajectories(question, answer)
    status = answer.refutation.sentence if answer.refutation else (
        f"Converged as far as {answer.full} reach: stopped there, and more may exclude more."
        if answer.full else f"Converged: everything was excluded that the {algorithm} algorithm could exclude.")
    counts = {"boxes": answer.boxes.count if answer.boxes is not None else int(outer.shape[2] + inner.shape[2])}
    return Estimate(
        problem=problem, method=method, values=values, uncertainty=enclosure, converged=True, status=status,
        cost=float("nan"), trajectories=trajectories, residuals=residuals, notes=tuple(notes), counts=counts,
        times={"fit": seconds}, statistics={"share_removed": enclosure.removed()})


def _last_boxes(question: Question, boxes: Boxes | None, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(2, unknowns, boxes) what was left at the end of the last record, within the bounds that were found by then."""
    if boxes is None or np.isnan(low).any():
        return np.zeros((2, low.size, 0))
    ends = np.array([low, high])[:, :, None].repeat(min(boxes.count, MOST_KEPT), axis=2)
    rows, source = question.unknown_rows(len(question.records) - 1)
    for row, k in zip(rows, source, strict=True):
        if row >= question.automaton.layout.states:
            ends[0, k] = np.maximum(ends[0, k], boxes.lo[row, :MOST_KEPT])
            ends[1, k] = np.minimum(ends[1, k], boxes.hi[row, :MOST_KEPT])
    return ends[:, :, np.all(ends[0] <= ends[1], axis=0)]


def _trajectories(question: Question, answer: Answer) -> tuple[tuple[Trajectory, ...], tuple[dict, ...]]:
    """Of the middle of the bounds; or, where there are bands, the middle of these: no solution, but never far from one."""
    model = question.model
    made, left = [], []
    last = {band.experiment: band for band in answer.bands}
    for e, record in enumerate(question.records):
        size = record.samples
        states = {n: np.full(size, np.nan) for n in model.states}
        parameters = np.array([_middle(question, answer, e)[0]] * size).T
        if record.label in last:
            band = last[record.label]
            for n in model.states:
                with np.errstate(invalid="ignore"):  # what has no end on either side has no middle
                    states[n][:band.time.size] = 0.5 * (band.low[n] + band.high[n])
        elif answer.refutation is None:
            states = _of_the_middle(question, answer, e)
        x = np.array([states[n] for n in model.states])
        u = np.array([np.asarray(question.problem.experiments[e].inputs[n]) for n in model.inputs]).reshape(-1, size)
        y = np.asarray(model.output.map(size)(record.time[None], x, u, parameters))
        outputs = {n: y[j] for j, n in enumerate(model.outputs)}
        made.append(Trajectory(record.label, record.time, states, outputs))
        measured = question.problem.experiments[e].outputs
        left.append({n: np.asarray(measured[n]) - outputs[n] for n in model.outputs if n in measured})
    return tuple(made), tuple(left)


def _middle(question: Question, answer: Answer, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and initial states of one experiment."""
    return question.problem.values_in(0.5 * (answer.low + answer.high), e)


def _of_the_middle(question: Question, answer: Answer, e: int) -> dict[str, np.ndarray]:
    """States of a simulation; not known where it diverges, which says nothing about values that fit."""
    model, run = question.model, question.problem.experiments[e]
    p, x = _middle(question, answer, e)
    values = {**dict(zip(model.parameters, p, strict=True)),
              **{f"{n}(0)": value for n, value in zip(model.states, x, strict=True)}}
    try:
        return dict(simulate(model, values, run).states)
    except ProblemError:
        return {n: np.full(run.time.size, np.nan) for n in model.states}
