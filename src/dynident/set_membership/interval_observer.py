"""Observer: a list of boxes goes through a record; what no measurement can come from is deleted.

Sec. 4 of Rauh, Senkel and Aschemann: split, predict, intersect with the measurement, delete, reset, merge. Beyond the
paper: boxes are split at guards instead of uniting modes, and each measurement narrows the parameters backward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import casadi
import numpy as np

from dynident.models.equations import EquationModel
from dynident.set_membership.bisection import Situation, Strategy, slice_widest, split
from dynident.set_membership.flows.boxes import Boxes, Step, gathered
from dynident.set_membership.flows.interval_automaton import Automaton, Layout
from dynident.set_membership.flows.measurement_update import Piece, Sample, measured
from dynident.set_membership.intervals import Rigour
from dynident.set_membership.merging import merged
from dynident.set_membership.record import BoundedRecord

STIR = 50  # a full list is made smaller by one part in so many: more blurs the boxes, less leaves them stuck


class VerifiedStep(Protocol):
    """How boxes go from one sample to the next; what `Boxes.mode` means is its own business."""

    @property
    def automaton(self) -> Automaton: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def rigour(self) -> Rigour: ...

    def begin(self, boxes: Boxes, step: Step) -> Boxes:
        """The boxes in every mode in which they may begin."""
        ...

    def advance(self, boxes: Boxes, step: Step, sample: Sample, backward: bool) -> tuple[Boxes, bool]:
        """What is left of the boxes at the next sample, and whether each stayed in its mode for certain."""
        ...

    def active(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) bit masks of the modes in which a box may be."""
        ...

    def influence(self, boxes: Boxes, step: Step) -> np.ndarray:
        """(rows, boxes) how far the width of each row spreads the states in the step, relative to how far they are."""
        ...


@dataclass(frozen=True)
class Reset:
    """A parameter that may change when the rig comes to rest, which the record says by measuring `signal` as zero."""

    parameter: int  # row among the parameters
    signal: int  # output
    minimum_time: float  # seconds of standstill after which it may have changed
    modes: int  # bit mask of those in which the signal does not move


Renewal = Callable[[Boxes, int, float, float], Boxes]  # (boxes, row, low, high of the first range)


@dataclass(frozen=True)
class Budget:
    """How many boxes, how many cuts."""

    cap: int
    cuts: int  # M
    slices: int = 0  # M_v
    sliced: int = -1  # the row that is sliced
    overfull: bool = False  # cut though the cap is reached, and merge again; else only what fits under the cap is cut


@dataclass(frozen=True)
class ObserverVariant:
    """What a published variant of the observer does in its own way."""

    make_step: Callable[[Automaton, EquationModel], VerifiedStep]
    strategy: str
    cuts: int  # per sample, where nothing is said
    renew: Renewal
    overfull: bool  # as in `Budget`
    backward: bool  # whether measurements narrow the parameters of a box


@dataclass(frozen=True, eq=False)
class Passage:
    """What one run over a record leaves behind, per sample."""

    boxes: Boxes  # at the end; none where nothing fits
    low: np.ndarray  # (samples, rows) hull of all boxes
    high: np.ndarray
    count: np.ndarray  # (samples,)
    modes: np.ndarray  # (samples,) bit mask of the modes that are possible
    steady: np.ndarray  # (samples,) whether the step that led here stayed in one mode in every box
    empty_at: int | None = None  # the first sample that nothing fits
    resets: tuple[int, ...] = ()  # samples at which a parameter was reset

    def reached(self) -> int:
        return self.low.shape[0] if self.empty_at is None else self.empty_at


def whole_range(boxes: Boxes, row: int, low: float, high: float) -> Boxes:
    """Each box with the first range; those that are then the same are kept once."""
    lo, hi = boxes.lo.copy(), boxes.hi.copy()
    lo[row], hi[row] = low, high
    _, first = np.unique(np.concatenate([lo, hi, boxes.mode[None]]), axis=1, return_index=True)
    return Boxes(lo[:, first], hi[:, first], boxes.mode[first])


@dataclass(frozen=True, eq=False)
class Observer:
    """Everything that stays the same along a record."""

    model: EquationModel
    step: VerifiedStep
    strategy: Strategy
    budget: Budget
    backward: bool = True
    resets: tuple[Reset, ...] = ()
    renew: Renewal = whole_range  # how a parameter that is reset gets its range back

    def run(self, first: Boxes, record: BoundedRecord, tell: Callable[..., object] = lambda *_: None) -> Passage:
        """Through the record once; stops where nothing is left."""
        layout = self.step.layout
        prior = first.hull()
        width = prior[1] - prior[0]
        width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
        kept = _Kept(record.samples, layout.unknowns, len(self.resets))
        standing = np.zeros(len(self.resets))
        boxes = measured([Piece(first)], self.step.automaton, record.sample(0), backward=False)
        boxes = self.step.begin(boxes, record.steps[0]) if boxes.count else boxes
        steady = False
        for k in range(record.samples):
            if k:
                boxes = self._cut(boxes, record.steps[k - 1], width)
                boxes, steady = self.step.advance(boxes, record.steps[k - 1], record.sample(k), self.backward)
            if not boxes.count:
                return kept.passage(boxes, empty_at=k)
            boxes = self._reset(boxes, record, k, standing, prior, kept)
            boxes = merged(boxes, self.budget.cap, width)
            kept.sample(k, boxes, int(np.bitwise_or.reduce(self.step.active(boxes))), steady)
            tell(k, boxes)
        return kept.passage(boxes)

    def _cut(self, boxes: Boxes, step: Step, width: np.ndarray) -> Boxes:
        budget = self.budget
        if boxes.count >= budget.cap and not budget.overfull:  # nothing died: a few make room, or nothing would be cut
            boxes = merged(boxes, budget.cap - max(budget.cap // STIR, 1), width)
        cuts = budget.cuts if budget.overfull else min(budget.cuts, budget.cap - boxes.count)
        boxes = slice_widest(boxes, budget.sliced, budget.slices) if budget.slices else boxes
        if cuts <= 0:
            return boxes
        inputs = {n: float(u) for n, u in zip(self.model.inputs, step.inputs[1], strict=True)}
        situation = Situation((*self.model.states, *self.model.parameters), self.step.layout.states, width, inputs,
                              lambda some: self.step.influence(some, step))
        return split(boxes, situation, self.strategy, cuts)

    def _reset(self, boxes: Boxes, record: BoundedRecord, k: int, standing: np.ndarray, prior: tuple,
               kept: _Kept) -> Boxes:
        for j, reset in enumerate(self.resets):
            still = record.low[reset.signal, k] <= 0 <= record.high[reset.signal, k]
            still = still and np.isfinite(record.low[reset.signal, k])
            passed = record.time[k] - record.time[k - 1] if k else 0.0
            standing[j] = standing[j] + passed if still and kept.still[j] else 0.0
            kept.still[j] = still
            if not still or standing[j] < reset.minimum_time:
                kept.was_reset[j] = False
            if not still or standing[j] < reset.minimum_time or kept.was_reset[j]:
                continue
            row = self.step.layout.states + reset.parameter
            stands = (self.step.active(boxes) & reset.modes) != 0  # in any other mode the rig moves, and nothing changes
            boxes = gathered([self.renew(boxes.where(stands), row, prior[0][row], prior[1][row]), boxes.where(~stands)],
                             boxes.lo.shape[0])
            kept.was_reset[j] = True
            kept.resets.append(k)
        return boxes


def short_standstills(observer: Observer, record: BoundedRecord, until: int) -> list[str]:
    """A sentence per parameter that was not reset in a standstill because that was too short, before a sample."""
    said = []
    for reset in observer.resets:
        still = np.abs(record.low[reset.signal, :until]) < np.inf
        still &= (record.low[reset.signal, :until] <= 0) & (record.high[reset.signal, :until] >= 0)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(int)))
        stretches = [(b, e) for b, e in edges.reshape(-1, 2)
                     if b and e < until and record.time[e - 1] - record.time[b] < reset.minimum_time]
        if stretches:
            name = observer.model.parameters[reset.parameter]
            said.append(f"{name} was not set back at {len(stretches)} standstills of less than standstill_time = "
                        f"{reset.minimum_time:g} s, the first at t = {record.time[stretches[0][0]]:g}. If it can change "
                        "there, the record does not refute the model: use standstill_time=0.")
    return said


class _Kept:
    """Collects the passage while it happens."""

    def __init__(self, samples: int, rows: int, resets: int):
        self.low, self.high = np.full((samples, rows), np.nan), np.full((samples, rows), np.nan)
        self.count, self.modes = np.zeros(samples, int), np.zeros(samples, int)
        self.steady = np.zeros(samples, bool)
        self.resets: list[int] = []
        self.still, self.was_reset = [False] * resets, [False] * resets

    def sample(self, k: int, boxes: Boxes, modes: int, steady: bool) -> None:
        self.low[k], self.high[k] = boxes.hull()
        self.count[k] = boxes.count
        self.modes[k] = modes
        self.steady[k] = steady

    def passage(self, boxes: Boxes, empty_at: int | None = None) -> Passage:
        return Passage(boxes, self.low, self.high, self.count, self.modes, self.steady, empty_at,
                       tuple(dict.fromkeys(self.resets)))


def standing_modes(model: EquationModel, output: int) -> int:
    """Bit mask of the modes in which an output cannot change, whatever the values."""
    standing = 0
    for k, name in enumerate(model.modes):
        f = model.mode(name).rate
        t, x, u, p = (casadi.SX.sym(n, f.size1_in(j)) for j, n in enumerate("txup"))
        signal = model.output(t, x, u, p)[output]
        change = casadi.simplify(casadi.jtimes(signal, x, f(t, x, u, p)))
        standing |= (1 << k) if change.is_zero() else 0
    return standing
