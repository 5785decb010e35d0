"""Lohner's method: the solutions of one mode along many steps, linear in what is unknown, plus a bounded rest.

    x(t_k) in  c + S (q - q_c) + Q [-w, w],     q = (state at the begin, parameters)

c, S and Q are plain numbers, S by the mean value form; everything that rounding, the Taylor remainder and the curvature over
the box leave open goes into w, in coordinates Q that are turned with the flow (QR preconditioning against the wrapping
effect). Outputs follow as rows a (q - q_c) + offset: linear constraints on q with an error bound of the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi
import numpy as np

from dynident.set_membership.flows.boxes import IntervalStep, stack_rows
from dynident.set_membership.flows.interval_automaton import VariableLayout, at_start
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow
from dynident.set_membership.flows.nonsmooth import Smoothness
from dynident.set_membership.intervals import make_interval_kernel
from dynident.set_membership.intervals.arithmetic import TINY, Interval, add, midpoint

ROUNDING = 2.0**-50  # times the sum of absolute terms: more than any sum of up to eight products can lose


@dataclass(frozen=True, eq=False)
class OutputEnclosure:
    """Outputs at samples over boxes: y = a (q - q_c) + offset, |error of the offset| <= error."""

    centre: np.ndarray  # (unknowns, boxes)
    radius: np.ndarray  # (unknowns, boxes)
    a: np.ndarray  # (samples, outputs, unknowns, boxes)
    offset: np.ndarray  # (samples, outputs, boxes)
    error: np.ndarray  # (samples, outputs, boxes); infinite where no enclosure was found
    low: np.ndarray  # (samples, states, boxes) hull of the states
    high: np.ndarray


class LohnerFlow:
    """One mode of a model along a record, linear in the unknowns."""

    def __init__(self, layout: VariableLayout, rate: casadi.Function, output: casadi.Function, order: int = 6,
                 rigorous: bool = False):
        self.layout = layout
        self.mode_flow = ModeFlow(layout, rate, FlowOptions(order, "natural"), rigorous)
        s = layout.symbols()
        self.output = make_interval_kernel(s.function(at_start(s, output)), rigorous)
        jacobian = casadi.jacobian(at_start(s, output), casadi.vertcat(s.x, s.p))
        self.output_jacobian = make_interval_kernel(s.function(jacobian), rigorous)
        self.output_smoothness = Smoothness(at_start(s, output), s, rigorous)

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep], substeps: int = 1,
                        known: Interval | None = None) -> OutputEnclosure:
        """Along `steps`, the first sample being the begin; `lo`, `hi` are (unknowns, boxes).

        `known` are (samples, states) bounds of the state from elsewhere: the rows then hold for all q that keep them.
        """
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        centre = midpoint((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        state = _LohnerState(centre[:n].copy(), np.tile(np.eye(n, k)[:, :, None], boxes),
                             np.tile(np.eye(n)[:, :, None], boxes), np.zeros((n, boxes)))
        return OutputEnclosure(centre, radius, *follow_steps(
            state, steps, substeps, known, lambda state, part: self._advance(state, centre, radius, part),
            lambda state, step: (*self._enclose_output(state, centre, radius, step), *state.hull(radius))))

    def _advance(self, state: _LohnerState, centre: np.ndarray, radius: np.ndarray, step: IntervalStep) -> _LohnerState:
        n, k = self.layout.states, self.layout.unknowns
        hull = state.with_centre(state.hull(radius))
        p = centre[n:] - radius[n:] * (1 + ROUNDING), centre[n:] + radius[n:] * (1 + ROUNDING)
        lo, hi = stack_rows(self.layout, np.concatenate([hull[0], p[0]]), np.concatenate([hull[1], p[1]]), step)
        lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows] = self.mode_flow.enclose_step(lo, hi)
        ahead = (lo.copy(), hi.copy())
        remainder = self.mode_flow.remainder.evaluate(lo, hi)
        jacobian, jacobian_error = midpoint_radius(jacobian_by_rows(self.mode_flow.jacobian.evaluate(lo, hi), k))
        lo[:k], hi[:k] = np.concatenate([state.c, centre[n:]]), np.concatenate([state.c, centre[n:]])
        at = np.array([kernel.evaluate(lo, hi) for kernel in self.mode_flow.polynomial])[:, :, 0].transpose(1, 0, 2)
        c, rest = midpoint_radius(add((at[0], at[1]), remainder))
        distance = np.concatenate([np.maximum(hull[1] - state.c, state.c - hull[0]), radius[n:]]) * (1 + ROUNDING)
        rest = rest + _apply(jacobian_error, distance)
        c, jacobian, rest = self._first_order_where_nonsmooth(ahead, state.c, (c, jacobian, rest))
        s, size = _chain(jacobian, state.s), _chain(np.abs(jacobian), np.abs(state.s))
        rest = (rest + ROUNDING * _apply(size, radius)) * (1 + ROUNDING) + TINY
        return state.advance(c, s, np.einsum("ijb,jkb->ikb", jacobian[:, :n], state.q), jacobian[:, :n], rest)

    def _first_order_where_nonsmooth(self, rows: Interval, start: np.ndarray, bent: tuple[np.ndarray, ...]
                                     ) -> tuple[np.ndarray, ...]:
        """Centre, Jacobian and rest; where the rate is not smooth, or nearly so, x + h f with all of h f in the rest."""
        if self.mode_flow.smoothness.everywhere:
            return bent
        n, k = self.layout.states, self.layout.unknowns
        nonsmooth = self.mode_flow.smoothness.may_fail(*rows)
        rows[0][:n], rows[1][:n] = start, start
        c, rest = midpoint_radius(self.mode_flow.first_order.evaluate(*rows))
        nonsmooth |= np.all(rest < bent[2], axis=0)
        return (np.where(nonsmooth, c, bent[0]), np.where(nonsmooth, np.eye(n, k)[:, :, None], bent[1]),
                np.where(nonsmooth, rest, bent[2]))

    def _enclose_output(self, state: _LohnerState, centre: np.ndarray, radius: np.ndarray, step: IntervalStep) -> tuple:
        """(outputs, unknowns, boxes), (outputs, boxes), (outputs, boxes): the row of a sample."""
        n, k = self.layout.states, self.layout.unknowns
        hull = state.with_centre(state.hull(radius))
        full = (np.concatenate([hull[0], centre[n:] - radius[n:] * (1 + ROUNDING)]),
                np.concatenate([hull[1], centre[n:] + radius[n:] * (1 + ROUNDING)]))
        rows = stack_rows(self.layout, *full, step)
        jacobian, jacobian_error = midpoint_radius(jacobian_by_rows(self.output_jacobian.evaluate(*rows), k))
        point = np.concatenate([state.c, centre[n:]])
        offset, error = midpoint_radius(self.output.evaluate(*stack_rows(self.layout, point, point, step)))
        distance = np.concatenate([np.maximum(hull[1] - state.c, state.c - hull[0]), radius[n:]]) * (1 + ROUNDING)
        a, size = _chain(jacobian, state.s), _chain(np.abs(jacobian), np.abs(state.s))
        rotated = np.abs(np.einsum("ijb,jkb->ikb", jacobian[:, :n], state.q)) + ROUNDING * np.einsum(
            "ijb,jkb->ikb", np.abs(jacobian[:, :n]), np.abs(state.q))
        error = error + _apply(jacobian_error, distance) + ROUNDING * _apply(size, radius) + _apply(rotated, state.w)
        return self._range_where_nonsmooth(rows, (a, offset, error * (1 + ROUNDING) + TINY))

    def _range_where_nonsmooth(self, rows: Interval, found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The row of a sample; where an output is not smooth, all of it is in the error."""
        nonsmooth = self.output_smoothness.may_fail(*rows)
        if not nonsmooth.any():
            return found
        a, offset, error = found
        a[:, :, nonsmooth] = 0.0
        there = self.output.evaluate(rows[0][:, nonsmooth], rows[1][:, nonsmooth])
        offset[:, nonsmooth], error[:, nonsmooth] = midpoint_radius(there)
        return a, offset, error


@dataclass(frozen=True, eq=False)
class _LohnerState:
    """c + s dq + q [-w, w], boxes last."""

    c: np.ndarray  # (states, boxes)
    s: np.ndarray  # (states, unknowns, boxes)
    q: np.ndarray  # (states, states, boxes)
    w: np.ndarray  # (states, boxes)
    known: Interval | None = None  # of the state, from elsewhere

    def hull(self, radius: np.ndarray) -> Interval:
        reach = (_apply(np.abs(self.s), radius) + _apply(np.abs(self.q), self.w)) * (1 + ROUNDING) + TINY
        reach = reach + ROUNDING * np.abs(self.c)
        return within_known((self.c - reach, self.c + reach), self.known)

    def with_centre(self, hull: Interval) -> Interval:
        """The hull and the centre: a derivative between them is met there."""
        return np.minimum(hull[0], self.c), np.maximum(hull[1], self.c)

    def advance(self, c: np.ndarray, s: np.ndarray, a: np.ndarray, jacobian: np.ndarray, rest: np.ndarray) -> _LohnerState:
        """c + s dq + a [-w, w] + [-rest, rest], with the rest in the coordinates that the flow turns it into."""
        return _LohnerState(c, s, *rotate_qr(self.q, self.w, a, jacobian, rest))


def follow_steps(state: Any, steps: Sequence[IntervalStep], substeps: int, known: Interval | None,
                 advance: Callable[..., Any], enclose: Callable[..., tuple]) -> tuple[np.ndarray, ...]:
    """What `enclose(state, step)` says at each sample, as arrays over the samples; `known` as in `enclose_outputs`."""
    found = []
    with np.errstate(invalid="ignore", over="ignore"):
        for j, step in enumerate(steps):
            if known is not None:
                state = replace(state, known=(known[0][j][:, None], known[1][j][:, None]))
            found.append(enclose(state, step))
            for part in step.subdivide(substeps) if j + 1 < len(steps) else ():
                state = advance(state, part)
    return tuple(np.array(column) for column in zip(*found, strict=True))


def within_known(hull: Interval, known: Interval | None) -> Interval:
    """A hull within what is known; where they do not meet, no point of the box counts, and any enclosure is right."""
    if known is None:
        return hull
    both = np.maximum(hull[0], known[0]), np.minimum(hull[1], known[1])
    crossed = both[0] > both[1]
    return np.where(crossed, hull[0], both[0]), np.where(crossed, hull[1], both[1])


def _chain(jacobian: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Chain rule: by the unknowns, where the states depend on them by s, and parameters act at once, too."""
    n = len(s)
    by_unknowns = np.einsum("ijb,jkb->ikb", jacobian[:, :n], s)
    by_unknowns[:, n:] += jacobian[:, n:]
    return by_unknowns


def rotate_qr(q: np.ndarray, w: np.ndarray, a: np.ndarray, jacobian: np.ndarray, rest: np.ndarray
              ) -> tuple[np.ndarray, np.ndarray]:
    """a [-w, w] + [-rest, rest] in the coordinates that the flow turns it into; a is jacobian q, up to rounding."""
    rest = rest + ROUNDING * _apply(np.einsum("ijb,jkb->ikb", np.abs(jacobian), np.abs(q)), w)
    scaled = np.nan_to_num((a * (w + TINY)[None]).transpose(2, 0, 1), posinf=0.0, neginf=0.0)
    order = np.argsort(-np.sum(scaled**2, axis=1), axis=1)  # the longest edge of the rest stays an edge
    new = np.linalg.qr(np.take_along_axis(scaled, order[:, None, :], axis=2) + TINY * np.eye(len(w)))[0]
    new = new.transpose(1, 2, 0)
    inverse, n = new.transpose(1, 0, 2), len(w)
    off = np.abs(np.einsum("ijb,jkb->ikb", inverse, new) - np.eye(n)[:, :, None]).sum(axis=1).max(axis=0)
    off = off + n * ROUNDING * (1 + np.abs(new).sum(axis=1).max(axis=0) ** 2)  # how far from the true inverse
    both = np.abs(np.einsum("ijb,jkb->ikb", inverse, a)) + ROUNDING * np.einsum(
        "ijb,jkb->ikb", np.abs(inverse), np.abs(a))
    wide = (_apply(both, w) + _apply(np.abs(inverse), rest)) * (1 + ROUNDING)
    return new, wide + np.where(off < 0.5, 2 * off, np.inf) * np.max(wide, axis=0) + TINY


def _apply(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Nonnegative matrix times nonnegative vector per box; callers add the rounding."""
    return np.einsum("ijb,jb->ib", matrix, vector)


def jacobian_by_rows(ends: Interval, columns: int) -> Interval:
    """(rows, columns, boxes) of a Jacobian whose entries come column by column."""
    shape = (columns, -1, ends[0].shape[1])
    return ends[0].reshape(shape).transpose(1, 0, 2), ends[1].reshape(shape).transpose(1, 0, 2)


def midpoint_radius(ends: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Plain numbers and how far the ends are from them, rounded up; infinite where there is no end."""
    mid = np.where(np.isfinite(ends[0]) & np.isfinite(ends[1]), 0.5 * (ends[0] + ends[1]), 0.0)
    rad = np.maximum(ends[1] - mid, mid - ends[0]) * (1 + ROUNDING) + TINY
    return mid, np.where(np.isnan(rad), np.inf, rad)
