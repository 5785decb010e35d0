"""Smooth: models without modes, by set inversion over the whole of each record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dynident.estimate.enclosure import Refutation
from dynident.set_membership.batch import (
    Effort,
    Stretch,
    first_inconsistent,
    invert,
    smallest_inflation,
)
from dynident.set_membership.flows.boxes import Step
from dynident.set_membership.flows.lohner import Tube
from dynident.set_membership.flows.taylor_model_flow import TaylorTube, tube_of
from dynident.set_membership.result import Answer
from dynident.set_membership.setup import Question

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

TUBE_ORDER = 8  # of the Taylor polynomial
ROUNDS, PAVING_ROUNDS = 20, 40  # of cutting and narrowing
MOST_PAVED = 20_000  # boxes
SUBSTEPS = (1, 2, 4, 8, 16, 32, 64)


def inverted(method: SetMembership, question: Question) -> Answer:
    """Set inversion over the whole of each record in turn; each starts from what those before it left."""
    low, high = question.low.copy(), question.high.copy()
    tube = tube_of(question.automaton.layout, question.model.rate, question.model.output, method.order or TUBE_ORDER,
                   method.degree, method.proved)
    answer = Answer(low, high, {tube.flow.whole.rigour, tube.output.rigour})
    paving = len(question.problem.unknowns) <= 2 and len(question.records) == 1
    for e, record in enumerate(question.records):
        lo, hi = question.box(e, low, high)
        count = _substeps(tube, record.steps[0], lo, hi)
        stretch = Stretch(tube, record.steps, record.low, record.high, substeps=count)
        effort = Effort(boxes=method.cap, tolerance=method.tolerance, forgive=method.forgive, rounds=ROUNDS)
        found = invert(stretch, lo, hi, effort)
        hull, room = found.hull(), f"cap = {method.cap} boxes"
        if paving and hull is not None:  # only within the hull: what is cut away by then needs no small boxes
            found = invert(stretch, *hull, replace(effort, boxes=MOST_PAVED, paving=True, rounds=PAVING_ROUNDS))
            hull, room = found.hull(), f"{MOST_PAVED} boxes"
        answer.full = room if found.full else answer.full
        if hull is None:
            when = float(record.time[first_inconsistent(stretch, lo, hi, effort)])
            return answer.refuted(Refutation(record.label, when, smallest_inflation(stretch, lo, hi, effort)))
        rows, source = question.unknown_rows(e)
        low[source] = np.maximum(low[source], hull[0][rows])
        high[source] = np.minimum(high[source], hull[1][rows])
        if paving:
            answer.outer, answer.inner = (
                np.array([part[0][rows], part[1][rows]]) for part in (found.outer, found.inner))
        answer.centres.append(0.5 * (hull[0] + hull[1]))
    answer.low, answer.high = low, high
    return answer


def _substeps(tube: Tube | TaylorTube, step: Step, lo: np.ndarray, hi: np.ndarray) -> int:
    """The fewest parts of a step for which a first enclosure exists."""
    for count in SUBSTEPS:
        rows = tube.rows(lo[:, None], hi[:, None], (step, step), count)
        if np.all(np.isfinite(rows.doubt)):
            return count
    return SUBSTEPS[-1]
