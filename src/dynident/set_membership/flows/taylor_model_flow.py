"""Taylor model flow: the solutions of one mode along many steps as polynomials of what is unknown, plus a bounded rest.

    x(t_k) in  P(d) + Q [-w, w],     q = q_c + radius * d,  |d| <= 1

As in `lohner`, with polynomials of degree two or more: what bends over the box is followed instead of bounded. P is carried
through each step by `taylor_model`; the rest by the mean value form in coordinates that turn with the flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi
import numpy as np

from dynident.errors import ProblemError
from dynident.set_membership.flows.boxes import IntervalStep, stack_rows
from dynident.set_membership.flows.interval_automaton import VariableLayout, at_start
from dynident.set_membership.flows.lohner import (
    ROUNDING,
    TINY,
    LohnerFlow,
    OutputEnclosure,
    jacobian_by_rows,
    midpoint_radius,
    rotate_qr,
)
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow
from dynident.set_membership.flows.taylor_model import DerivativeKernels, TaylorModel, TaylorModelAlgebra
from dynident.set_membership.intervals import make_interval_kernel
from dynident.set_membership.intervals.arithmetic import Interval, add, midpoint

MIN_VARIABLE_RADIUS = 1e-200  # radius of an unknown that is known


def make_flow(layout: VariableLayout, rate: casadi.Function, output: casadi.Function, order: int, degree: int, rigorous: bool
              ) -> LohnerFlow | TaylorModelFlow:
    """Solutions along many steps: as lines in the unknowns (degree 1), or as polynomials."""
    if degree == 1:
        return LohnerFlow(layout, rate, output, order, rigorous)
    return TaylorModelFlow(layout, rate, output, order, degree, rigorous)


@dataclass(frozen=True, eq=False)
class _TaylorModelState:
    """A polynomial per state, and q [-w, w]; boxes last."""

    polynomials: tuple[TaylorModel, ...]  # without open parts
    q: np.ndarray  # (states, states, boxes)
    w: np.ndarray  # (states, boxes)
    known: Interval | None = None


class TaylorModelFlow:
    """One mode of a model along a record, to a degree of at least two in the unknowns."""

    def __init__(self, layout: VariableLayout, rate: casadi.Function, output: casadi.Function, order: int = 6, degree: int = 2,
                 rigorous: bool = False):
        if degree < 2:
            raise ProblemError(f"degree = {degree}: polynomials of degree 1 are what LohnerFlow is for.")
        self.layout, self.degree, self.functions = layout, degree, DerivativeKernels(rigorous)
        self.mode_flow = ModeFlow(layout, rate, FlowOptions(order, "natural"), rigorous)
        s = layout.symbols()
        y = at_start(s, output)
        self.output = make_interval_kernel(s.function(y), rigorous)
        self.output_jacobian = make_interval_kernel(s.function(casadi.jacobian(y, s.x)), rigorous)

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep], substeps: int = 1,
                        known: Interval | None = None) -> OutputEnclosure:
        """As `LohnerFlow.enclose_outputs`: along `steps`, the first sample being the begin."""
        n, boxes = self.layout.states, lo.shape[1]
        centre = midpoint((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        run = _TaylorModelRun(self, centre, radius)
        state = _TaylorModelState(tuple(run.unknowns[:n]), np.tile(np.eye(n)[:, :, None], boxes), np.zeros((n, boxes)))
        found: list[tuple] = []
        with np.errstate(invalid="ignore", over="ignore"):
            for j, step in enumerate(steps):
                if known is not None:
                    state = replace(state, known=(known[0][j][:, None], known[1][j][:, None]))
                found.append((*run.enclose_output(state, step), *run.hull(state)))
                if j + 1 < len(steps):
                    for part in step.subdivide(substeps):
                        state = run.advance(state, part)
        a, offset, error, low, high = (np.array(column) for column in zip(*found, strict=True))
        return OutputEnclosure(centre, radius, a, offset, error, low, high)


def _rest_radius(state: _TaylorModelState) -> np.ndarray:
    """(states, boxes) how far Q [-w, w] goes."""
    return np.einsum("ijb,jb->ib", np.abs(state.q), state.w) * (1 + ROUNDING) + TINY


def _within_known(hull: Interval, known: Interval | None) -> Interval:
    """A hull within what is known; where they do not meet, no point of the box counts, and any enclosure is right."""
    if known is None:
        return hull
    both = np.maximum(hull[0], known[0]), np.minimum(hull[1], known[1])
    crossed = both[0] > both[1]
    return np.where(crossed, hull[0], both[0]), np.where(crossed, hull[1], both[1])


class _TaylorModelRun:
    """What stays the same along the record: the unknowns as variables."""

    def __init__(self, flow: TaylorModelFlow, centre: np.ndarray, radius: np.ndarray):
        self.flow, self.centre, self.radius = flow, centre, radius
        self.open_rows = np.flatnonzero(np.any(radius > MIN_VARIABLE_RADIUS, axis=1))
        self.algebra = TaylorModelAlgebra(self.open_rows.size, flow.degree, flow.functions)
        ends = centre - radius, centre + radius
        self.ends = ends[0] - ROUNDING * np.abs(ends[0]), ends[1] + ROUNDING * np.abs(ends[1])
        self.unknowns = [self.algebra.from_interval((self.ends[0][row], self.ends[1][row])) for row in range(len(centre))]
        for j, row in enumerate(self.open_rows):
            self.unknowns[row] = self.algebra.variable(j, centre[row], radius[row])

    def hull(self, state: _TaylorModelState) -> Interval:
        reach = _rest_radius(state)
        low, high = add(self._range(state), (-reach, reach))
        return _within_known((np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)), state.known)

    def _range(self, state: _TaylorModelState) -> Interval:
        ranges = [self.algebra.range(p) for p in state.polynomials]
        return np.array([r[0] for r in ranges]), np.array([r[1] for r in ranges])

    def _around(self, state: _TaylorModelState) -> Interval:
        """A convex set that holds P(d) and P(d) + Q r for all that keep what is known: a derivative is met there.

        P(d) is then at most as far from what is known as Q r reaches.
        """
        low, high = self.hull(state)
        reach = _rest_radius(state)
        without = _within_known(self._range(state), None if state.known is None else add(state.known, (-reach, reach)))
        return np.minimum(low, without[0]), np.maximum(high, without[1])

    def _rows(self, states: Interval, step: IntervalStep) -> Interval:
        n = self.flow.layout.states
        return stack_rows(self.flow.layout, np.concatenate([states[0], self.ends[0][n:]]),
                          np.concatenate([states[1], self.ends[1][n:]]), step)

    def _models(self, state: _TaylorModelState, rows: Interval) -> list[TaylorModel]:
        n, k = self.flow.layout.states, self.flow.layout.unknowns
        given = [self.algebra.from_interval((rows[0][r], rows[1][r])) for r in range(k, len(rows[0]))]
        return [*state.polynomials, *self.unknowns[n:], *given]

    def advance(self, state: _TaylorModelState, step: IntervalStep) -> _TaylorModelState:
        layout, step_flow, n = self.flow.layout, self.flow.mode_flow, self.flow.layout.states
        lo, hi = self._rows(self._around(state), step)
        models = self._models(state, (lo, hi))
        lo[layout.enclosure_rows], hi[layout.enclosure_rows] = step_flow.enclose_step(lo, hi)
        rest = step_flow.remainder.evaluate(lo, hi)
        ends = [self.algebra.evaluate_tape(kernel.tape, models)[0] for kernel in step_flow.polynomial]
        slope, spread = midpoint_radius(jacobian_by_rows(step_flow.jacobian.evaluate(lo, hi), layout.unknowns))
        slope, spread = slope[:, :n], spread[:, :n]
        rest_ = np.zeros((n, lo.shape[1]))
        polynomials = []
        for i, end in enumerate(ends):
            shift, rest_[i] = midpoint_radius(add(end.remainder, (rest[0][i], rest[1][i])))
            coefficients = end.coefficients.copy()
            coefficients[0] += shift
            rest_[i] += ROUNDING * np.abs(coefficients[0])
            polynomials.append(TaylorModel(coefficients, (0 * shift, 0 * shift)))
        reach = _rest_radius(state)
        rest_ = (rest_ + np.einsum("ijb,jb->ib", spread, reach)) * (1 + ROUNDING) + TINY
        a = np.einsum("ijb,jkb->ikb", slope, state.q)
        return _TaylorModelState(tuple(polynomials), *rotate_qr(state.q, state.w, a, slope, rest_))

    def enclose_output(self, state: _TaylorModelState, step: IntervalStep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(outputs, unknowns, boxes), (outputs, boxes), (outputs, boxes): the row of a sample."""
        n, k, boxes = self.flow.layout.states, self.flow.layout.unknowns, self.centre.shape[1]
        rows = self._rows(self._around(state), step)
        found = self.algebra.evaluate_tape(self.flow.output.tape, self._models(state, rows))
        slope, spread = midpoint_radius(jacobian_by_rows(self.flow.output_jacobian.evaluate(*rows), n))
        reach = _rest_radius(state)
        rotated = np.abs(np.einsum("ijb,jkb->ikb", slope, state.q)) + ROUNDING * np.einsum(
            "ijb,jkb->ikb", np.abs(slope), np.abs(state.q))
        error = np.einsum("ijb,jb->ib", rotated, state.w) + np.einsum("ijb,jb->ib", spread, reach)
        a, offset = np.zeros((len(found), k, boxes)), np.zeros((len(found), boxes))
        variables = 1 + np.arange(self.open_rows.size)
        for i, y in enumerate(found):
            linear = y.coefficients[variables]
            a[i, self.open_rows] = linear / self.radius[self.open_rows]
            bent = TaylorModel(y.coefficients.copy(), y.remainder)
            bent.coefficients[variables] = 0.0
            offset[i], more = midpoint_radius(self.algebra.range(bent))
            error[i] += more + ROUNDING * np.abs(linear).sum(axis=0)
        error = np.where(np.isnan(error), np.inf, error)
        return a, offset, error * (1 + ROUNDING) + TINY
