"""Taylor tube: the solutions of one mode along many steps as polynomials of what is unknown, plus a bounded rest.

    x(t_k) in  P(d) + Q [-w, w],     q = q_c + radius * d,  |d| <= 1

The tube of `tube.py` with polynomials of degree two or more: what bends over the box is followed instead of bounded. P is
carried through each step by `taylor_model`; the rest by a mean-value term in coordinates that turn with the flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi
import numpy as np

from dynident.errors import ProblemError
from dynident.set_membership.flows.boxes import Step, rows_of
from dynident.set_membership.flows.interval_automaton import Layout, at_start
from dynident.set_membership.flows.lohner import ROUNDING, TINY, Rows, Tube, by_rows, mid_rad, turned
from dynident.set_membership.flows.mode_flow import FlowChoice, ModeFlow
from dynident.set_membership.flows.taylor_model import Algebra, Functions, TaylorModel
from dynident.set_membership.intervals import interval_kernel
from dynident.set_membership.intervals.arithmetic import Ends, middle, total

THIN = 1e-200  # radius of an unknown that is known


def tube_of(layout: Layout, rate: casadi.Function, output: casadi.Function, order: int, degree: int, proved: bool
            ) -> Tube | TaylorTube:
    """Solutions along many steps: as lines in the unknowns (degree 1), or as polynomials."""
    if degree == 1:
        return Tube(layout, rate, output, order, proved)
    return TaylorTube(layout, rate, output, order, degree, proved)


@dataclass(frozen=True, eq=False)
class _State:
    """A polynomial per state, and q [-w, w]; boxes last."""

    polynomials: tuple[TaylorModel, ...]  # without open parts
    q: np.ndarray  # (states, states, boxes)
    w: np.ndarray  # (states, boxes)
    known: Ends | None = None


class TaylorTube:
    """One mode of a model along a record, to a degree of at least two in the unknowns."""

    def __init__(self, layout: Layout, rate: casadi.Function, output: casadi.Function, order: int = 6, degree: int = 2,
                 proved: bool = False):
        if degree < 2:
            raise ProblemError(f"degree = {degree}: polynomials of degree 1 are what Tube is for.")
        self.layout, self.degree, self.functions = layout, degree, Functions(proved)
        self.flow = ModeFlow(layout, rate, FlowChoice(order, "natural"), proved)
        s = layout.symbols()
        y = at_start(s, output)
        self.output = interval_kernel(s.function(y), proved)
        self.output_slopes = interval_kernel(s.function(casadi.jacobian(y, s.x)), proved)

    def rows(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[Step], substeps: int = 1,
             known: Ends | None = None) -> Rows:
        """As `Tube.rows`: along `steps`, the first sample being the begin."""
        n, boxes = self.layout.states, lo.shape[1]
        centre = middle((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        course = _Course(self, centre, radius)
        state = _State(tuple(course.unknowns[:n]), np.tile(np.eye(n)[:, :, None], boxes), np.zeros((n, boxes)))
        found: list[tuple] = []
        with np.errstate(invalid="ignore", over="ignore"):
            for j, step in enumerate(steps):
                if known is not None:
                    state = replace(state, known=(known[0][j][:, None], known[1][j][:, None]))
                found.append((*course.measured(state, step), *course.hull(state)))
                if j + 1 < len(steps):
                    for part in step.parts(substeps):
                        state = course.advanced(state, part)
        a, offset, doubt, low, high = (np.array(column) for column in zip(*found, strict=True))
        return Rows(centre, radius, a, offset, doubt, low, high)


def _reach(state: _State) -> np.ndarray:
    """(states, boxes) how far Q [-w, w] goes."""
    return np.einsum("ijb,jb->ib", np.abs(state.q), state.w) * (1 + ROUNDING) + TINY


def _kept(hull: Ends, known: Ends | None) -> Ends:
    """A hull within what is known; where they do not meet, no point of the box counts, and any enclosure is right."""
    if known is None:
        return hull
    both = np.maximum(hull[0], known[0]), np.minimum(hull[1], known[1])
    crossed = both[0] > both[1]
    return np.where(crossed, hull[0], both[0]), np.where(crossed, hull[1], both[1])


class _Course:
    """What stays the same along the record: the unknowns as variables."""

    def __init__(self, tube: TaylorTube, centre: np.ndarray, radius: np.ndarray):
        self.tube, self.centre, self.radius = tube, centre, radius
        self.open_rows = np.flatnonzero(np.any(radius > THIN, axis=1))
        self.algebra = Algebra(self.open_rows.size, tube.degree, tube.functions)
        ends = centre - radius, centre + radius
        self.ends = ends[0] - ROUNDING * np.abs(ends[0]), ends[1] + ROUNDING * np.abs(ends[1])
        self.unknowns = [self.algebra.between((self.ends[0][row], self.ends[1][row])) for row in range(len(centre))]
        for j, row in enumerate(self.open_rows):
            self.unknowns[row] = self.algebra.variable(j, centre[row], radius[row])

    def hull(self, state: _State) -> Ends:
        reach = _reach(state)
        low, high = total(self._range(state), (-reach, reach))
        return _kept((np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)), state.known)

    def _range(self, state: _State) -> Ends:
        ranges = [self.algebra.range(p) for p in state.polynomials]
        return np.array([r[0] for r in ranges]), np.array([r[1] for r in ranges])

    def _around(self, state: _State) -> Ends:
        """A convex set that holds P(d) and P(d) + Q r for all that keep what is known: a derivative is met there.

        P(d) is then at most as far from what is known as Q r reaches.
        """
        low, high = self.hull(state)
        reach = _reach(state)
        without = _kept(self._range(state), None if state.known is None else total(state.known, (-reach, reach)))
        return np.minimum(low, without[0]), np.maximum(high, without[1])

    def _rows(self, states: Ends, step: Step) -> Ends:
        n = self.tube.layout.states
        return rows_of(self.tube.layout, np.concatenate([states[0], self.ends[0][n:]]),
                       np.concatenate([states[1], self.ends[1][n:]]), step)

    def _models(self, state: _State, rows: Ends) -> list[TaylorModel]:
        n, k = self.tube.layout.states, self.tube.layout.unknowns
        given = [self.algebra.between((rows[0][r], rows[1][r])) for r in range(k, len(rows[0]))]
        return [*state.polynomials, *self.unknowns[n:], *given]

    def advanced(self, state: _State, step: Step) -> _State:
        layout, flow, n = self.tube.layout, self.tube.flow, self.tube.layout.states
        lo, hi = self._rows(self._around(state), step)
        models = self._models(state, (lo, hi))
        lo[layout.passed_rows], hi[layout.passed_rows] = flow.bound(lo, hi)
        rest = flow.remainder.evaluate(lo, hi)
        ends = [self.algebra.along(kernel.tape, models)[0] for kernel in flow.polynomial]  # type: ignore[attr-defined]
        slope, spread = mid_rad(by_rows(flow.jacobian.evaluate(lo, hi), layout.unknowns))
        slope, spread = slope[:, :n], spread[:, :n]
        open_ = np.zeros((n, lo.shape[1]))
        polynomials = []
        for i, end in enumerate(ends):
            shift, open_[i] = mid_rad(total(end.rest, (rest[0][i], rest[1][i])))
            coefficients = end.coefficients.copy()
            coefficients[0] += shift
            open_[i] += ROUNDING * np.abs(coefficients[0])
            polynomials.append(TaylorModel(coefficients, (0 * shift, 0 * shift)))
        reach = _reach(state)
        open_ = (open_ + np.einsum("ijb,jb->ib", spread, reach)) * (1 + ROUNDING) + TINY
        a = np.einsum("ijb,jkb->ikb", slope, state.q)
        return _State(tuple(polynomials), *turned(state.q, state.w, a, slope, open_))

    def measured(self, state: _State, step: Step) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(outputs, unknowns, boxes), (outputs, boxes), (outputs, boxes): the row of a sample."""
        n, k, boxes = self.tube.layout.states, self.tube.layout.unknowns, self.centre.shape[1]
        rows = self._rows(self._around(state), step)
        found = self.algebra.along(self.tube.output.tape, self._models(state, rows))  # type: ignore[attr-defined]
        slope, spread = mid_rad(by_rows(self.tube.output_slopes.evaluate(*rows), n))
        reach = _reach(state)
        turned_ = np.abs(np.einsum("ijb,jkb->ikb", slope, state.q)) + ROUNDING * np.einsum(
            "ijb,jkb->ikb", np.abs(slope), np.abs(state.q))
        doubt = np.einsum("ijb,jb->ib", turned_, state.w) + np.einsum("ijb,jb->ib", spread, reach)
        a, offset = np.zeros((len(found), k, boxes)), np.zeros((len(found), boxes))
        variables = 1 + np.arange(self.open_rows.size)
        for i, y in enumerate(found):
            linear = y.coefficients[variables]
            a[i, self.open_rows] = linear / self.radius[self.open_rows]
            bent = TaylorModel(y.coefficients.copy(), y.rest)
            bent.coefficients[variables] = 0.0
            offset[i], more = mid_rad(self.algebra.range(bent))
            doubt[i] += more + ROUNDING * np.abs(linear).sum(axis=0)
        doubt = np.where(np.isnan(doubt), np.inf, doubt)
        return a, offset, doubt * (1 + ROUNDING) + TINY
