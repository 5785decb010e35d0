"""Windows: stretches of a hybrid record in one moving mode, inverted all samples at once.

The recursion proves in which stretches every possible state moves in one mode, and bounds the state there. Each such
window is then a smooth problem: its tube is linear in most unknowns, the curving ones are sliced, and linear programs
with proved bounds (`linear.Program`) narrow all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynident.set_membership.batch import ENOUGH, Stretch
from dynident.set_membership.flows.lohner import ROUNDING, Rows
from dynident.set_membership.flows.taylor_model_flow import tube_of
from dynident.set_membership.interval_observer import Passage
from dynident.set_membership.intervals.arithmetic import Ends, down, meet, times, up
from dynident.set_membership.reparametrization import Scaled, scaled
from dynident.set_membership.setup import Question
from dynident.set_membership.verified_lp import Program

SHORTEST = 20  # samples: a shorter window says little
FIRST_SAMPLES = 40
ROUNDS_MORE = 4  # where fewer samples have already left little
PROGRAM_SAMPLES = 60  # of a window that a linear program looks at, spread evenly
THIN = 1e-290  # radius of an unknown that is known


@dataclass(frozen=True, eq=False)
class Window:
    """Samples begin ... end of a record in one mode."""

    begin: int
    end: int
    mode: int


def windows_of(passage: Passage, still: set[int]) -> Iterator[Window]:
    """Longest stretches in which every box stayed in one and the same moving mode."""
    begin = None
    single = (passage.modes & (passage.modes - 1)) == 0
    for k in range(1, passage.reached() + 1):
        goes_on = (k < passage.reached() and bool(passage.steady[k]) and bool(single[k]) and bool(single[k - 1])
                   and passage.modes[k] == passage.modes[k - 1])
        if goes_on and begin is None:
            begin = k - 1
        elif not goes_on and begin is not None:
            mode = int(passage.modes[k - 1]).bit_length() - 1
            if k - begin >= SHORTEST and mode not in still:
                yield Window(begin, k, mode)
            begin = None


@dataclass(frozen=True)
class WindowChoice:
    """How a window is followed: order of the Taylor polynomial in time, degree of that in the unknowns; and how hard."""

    order: int = 5
    degree: int = 1
    slices: int = 32  # at most, along parameters in which the tube bends
    rounds: int = 12


@dataclass(frozen=True, eq=False)
class Slices:
    """What is left of a window's box: boxes in the products, and bounds of the parameters that these replaced."""

    boxes: Ends
    own: Ends


class WindowSolver:
    """One window of one experiment."""

    def __init__(self, question: Question, experiment: int, window: Window, passage: Passage,
                 choice: WindowChoice):
        self.states = question.automaton.layout.states
        record = question.records[experiment]
        law = question.automaton.modes[window.mode]
        n, self.choice = self.states, choice
        positive = passage.low[window.begin, n:] > 0
        self.form: Scaled = scaled(law.rate, question.model.output, positive)
        tube = tube_of(question.automaton.layout, self.form.rate, self.form.output, choice.order, choice.degree,
                       question.automaton.proved)
        part = slice(window.begin, window.end)
        self.stretch = Stretch(tube, record.steps[part], record.low[:, part], record.high[:, part],
                               (passage.low[part, :n], passage.high[part, :n]))

    def narrowed(self, lo: np.ndarray, hi: np.ndarray) -> Ends | None:
        """Bounds (states at the begin, parameters) that the window leaves of [lo, hi]; None if nothing."""
        found = self.slices(lo, hi, self.stretch.samples)
        return None if found is None else self._from_products(found.boxes, found.own)

    def slices(self, lo: np.ndarray, hi: np.ndarray, end: int, start: Slices | None = None) -> Slices | None:
        """What the first `end` samples leave of [lo, hi]; `start` is what fewer of them left, if that is known."""
        boxes, own = self._to_products(lo[:, None], hi[:, None])
        samples = min(FIRST_SAMPLES, end)
        if start is not None:
            boxes, own, samples = meet(start.boxes, boxes), meet(start.own, own), end
            left = np.all(boxes[0] <= boxes[1], axis=0) & np.all(own[0] <= own[1], axis=0)
            boxes, own = (boxes[0][:, left], boxes[1][:, left]), (own[0][:, left], own[1][:, left])
        for _ in range(self.choice.rounds if start is None else ROUNDS_MORE):
            if not boxes[0].shape[1]:
                return None
            before = _span(boxes, own)
            rows = self.stretch.rows(*boxes, samples)
            boxes, own = self._solved(rows, boxes, own, samples)
            if not boxes[0].shape[1]:
                return None
            settled = np.all(_span(boxes, own) >= ENOUGH * before)
            if samples == end and settled and 2 * boxes[0].shape[1] > self.choice.slices:
                break
            samples = min(end, 2 * samples)
            boxes, own = self._sliced(boxes, own)
        return Slices(boxes, own)

    def _to_products(self, lo: np.ndarray, hi: np.ndarray) -> tuple[Ends, Ends]:
        """Boxes in the products, and the bounds of the parameters that these replaced."""
        low, high = lo.copy(), hi.copy()
        rows = [self.states + k for k in self.form.products]
        for k, j in self.form.products.items():
            low[self.states + k], high[self.states + k] = times(
                (lo[self.states + k], hi[self.states + k]), (lo[self.states + j], hi[self.states + j]))
        return (low, high), (lo[rows], hi[rows])

    def _from_products(self, boxes: Ends, own: Ends) -> Ends:
        low, high = boxes[0].min(axis=1), boxes[1].max(axis=1)
        for place, k in enumerate(self.form.products):
            low[self.states + k], high[self.states + k] = own[0][place].min(), own[1][place].max()
        return low, high

    def _solved(self, rows: Rows, boxes: Ends, own: Ends, samples: int) -> tuple[Ends, Ends]:
        """Slices that cannot fit are dropped, the others narrowed in every direction."""
        programs = [self._program(rows, own, b, samples) for b in range(boxes[0].shape[1])]
        left = [b for b, program in enumerate(programs) if not program.inflation() > 0]
        low, high = boxes[0][:, left].copy(), boxes[1][:, left].copy()
        own_low, own_high = own[0][:, left].copy(), own[1][:, left].copy()
        kept = np.ones(len(left), bool)
        for place, b in enumerate(left):
            self._narrow(programs[b], rows, b, place, (low, high), (own_low, own_high))
            kept[place] = bool(np.all(low[:, place] <= high[:, place]) and np.all(
                own_low[:, place] <= own_high[:, place]))
        return (low[:, kept], high[:, kept]), (own_low[:, kept], own_high[:, kept])

    def _program(self, rows: Rows, own: Ends, box: int, samples: int) -> Program:
        """Measurements, and T low <= product/factor <= T high as inequalities."""
        chosen = np.unique(np.linspace(0, samples - 1, min(samples, PROGRAM_SAMPLES)).astype(int))
        part = Rows(rows.centre, rows.radius, rows.a[chosen], rows.offset[chosen], rows.doubt[chosen],
                    rows.low[chosen], rows.high[chosen])
        low, high = self.stretch.low[:, chosen], self.stretch.high[:, chosen]
        a, b = [], []
        for place, (k, j) in enumerate(self.form.products.items()):
            for sign, bound in ((1.0, own[1][place, box]), (-1.0, own[0][place, box])):
                line, value = self._ratio_line(rows, box, k, j, sign, bound)
                a.append(line)
                b.append(value)
        also = (np.array(a), np.array(b)) if a else None
        return Program(part, low, high, box, also=also)

    def _ratio_line(self, rows: Rows, box: int, k: int, j: int, sign: float, bound: float) -> tuple[np.ndarray, float]:
        """sign*(product - bound*factor) <= 0 as a line in q - q_c, its constant rounded up."""
        line = np.zeros(rows.centre.shape[0])
        line[self.states + k], line[self.states + j] = sign, -sign * bound
        product, factor = rows.centre[self.states + k, box], rows.centre[self.states + j, box]
        value = -sign * (product - bound * factor)
        return line, float(value + ROUNDING * (abs(product) + abs(bound * factor)))

    def _narrow(self, program: Program, rows: Rows, box: int, place: int, ends: Ends, own: Ends) -> None:
        size = rows.centre.shape[0]
        for i in range(size):
            if rows.radius[i, box] <= THIN:
                continue
            axis = np.zeros(size)
            axis[i] = 1.0
            centre = rows.centre[i, box]
            ends[0][i, place] = max(ends[0][i, place], float(down(centre + program.least(axis))))
            ends[1][i, place] = min(ends[1][i, place], float(up(centre - program.least(-axis))))
        for spot, (k, j) in enumerate(self.form.products.items()):
            self._narrow_own(program, rows, box, place, ends, own, spot, k, j)

    def _narrow_own(self, program: Program, rows: Rows, box: int, place: int, ends: Ends, own: Ends, spot: int, k: int,
                    j: int) -> None:
        """product - bound*factor >= gap leaves T >= bound + gap/factor for every factor in its bounds."""
        largest = ends[1][self.states + j, place]
        for side, sign in ((0, 1.0), (1, -1.0)):
            bound = own[side][spot, place]
            line, value = self._ratio_line(rows, box, k, j, sign, bound)
            gap = float(down(program.least(line) - value - 2 * ROUNDING * abs(value)))
            if gap > 0:
                moved = down(down(gap / largest) * (1 - ROUNDING))
                own[side][spot, place] = down(bound + moved) if side == 0 else up(bound - moved)

    def _sliced(self, boxes: Ends, own: Ends) -> tuple[Ends, Ends]:
        """Halve every slice along its widest curving parameter, while there is room."""
        low, high = boxes
        rows = self.states + np.flatnonzero(self.form.curving[self.states:])
        if not rows.size or 2 * low.shape[1] > self.choice.slices:
            return boxes, own
        first = (high[rows] - low[rows]).max(axis=1)
        widest = rows[np.argmax((high[rows] - low[rows]) / np.where(first > 0, first, 1)[:, None], axis=0)]
        each = np.arange(low.shape[1])
        middle = 0.5 * (low[widest, each] + high[widest, each])
        other_low, other_high = low.copy(), high.copy()
        high = high.copy()
        high[widest, each] = middle
        other_low[widest, each] = middle
        return ((np.concatenate([low, other_low], axis=1), np.concatenate([high, other_high], axis=1)),
                (np.tile(own[0], 2), np.tile(own[1], 2)))


def _span(boxes: Ends, own: Ends) -> np.ndarray:
    """Widths of the hull of all slices."""
    return np.concatenate([boxes[1].max(axis=1) - boxes[0].min(axis=1), own[1].max(axis=1) - own[0].min(axis=1)])
