"""Tube: the solutions of one mode along many steps as a linear function of what is unknown, plus a bounded rest.

    x(t_k) in  c + S (q - q_c) + Q [-w, w],     q = (state at the begin, parameters)

c, S and Q are plain numbers; everything that rounding, the Taylor remainder and the curvature over the box leave open
goes into w, in coordinates Q that are turned with the flow (QR preconditioning), so that it is not wrapped anew in each
step. Outputs follow as rows a (q - q_c) + offset: linear constraints on q with all doubt in the offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi
import numpy as np

from dynident.set_membership.flows.boxes import Step, rows_of
from dynident.set_membership.flows.interval_automaton import Layout, at_start
from dynident.set_membership.flows.mode_flow import FlowChoice, ModeFlow
from dynident.set_membership.flows.nonsmooth import Smoothness
from dynident.set_membership.intervals import interval_kernel
from dynident.set_membership.intervals.arithmetic import Ends, middle, total

ROUNDING = 2.0**-50  # times the sum of absolute terms: more than any sum of up to eight products can lose
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Rows:
    """Outputs at samples over boxes: y = a (q - q_c) + offset, |error of offset| <= doubt."""

    centre: np.ndarray  # (unknowns, boxes)
    radius: np.ndarray  # (unknowns, boxes)
    a: np.ndarray  # (samples, outputs, unknowns, boxes)
    offset: np.ndarray  # (samples, outputs, boxes)
    doubt: np.ndarray  # (samples, outputs, boxes); infinite where no enclosure was found
    low: np.ndarray  # (samples, states, boxes) hull of the states
    high: np.ndarray


class Tube:
    """One mode of a model along a record."""

    def __init__(self, layout: Layout, rate: casadi.Function, output: casadi.Function, order: int = 6,
                 proved: bool = False):
        self.layout = layout
        self.flow = ModeFlow(layout, rate, FlowChoice(order, "natural"), proved)
        s = layout.symbols()
        self.output = interval_kernel(s.function(at_start(s, output)), proved)
        slopes = casadi.jacobian(at_start(s, output), casadi.vertcat(s.x, s.p))
        self.output_slopes = interval_kernel(s.function(slopes), proved)
        self.smooth_output = Smoothness(at_start(s, output), s, proved)

    def rows(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[Step], substeps: int = 1,
             known: Ends | None = None) -> Rows:
        """Along `steps`, the first sample being the begin; `lo`, `hi` are (unknowns, boxes).

        `known` are (samples, states) bounds of the state from elsewhere: the rows then hold for all q that keep them.
        """
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        centre = middle((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        state = _State(centre[:n].copy(), np.tile(np.eye(n, k)[:, :, None], boxes),
                       np.tile(np.eye(n)[:, :, None], boxes), np.zeros((n, boxes)))
        found: list[tuple] = []
        for j, step in enumerate(steps):
            if known is not None:
                state = replace(state, known=(known[0][j][:, None], known[1][j][:, None]))
            found.append((*self._measured(state, centre, radius, step), *state.hull(radius)))
            if j + 1 < len(steps):
                for part in step.parts(substeps):
                    state = self._advance(state, centre, radius, part)
        a, offset, doubt, low, high = (np.array(column) for column in zip(*found, strict=True))
        return Rows(centre, radius, a, offset, doubt, low, high)

    def _advance(self, state: _State, centre: np.ndarray, radius: np.ndarray, step: Step) -> _State:
        n, k = self.layout.states, self.layout.unknowns
        with np.errstate(invalid="ignore", over="ignore"):
            hull = state.with_centre(state.hull(radius))
            p = centre[n:] - radius[n:] * (1 + ROUNDING), centre[n:] + radius[n:] * (1 + ROUNDING)
            lo, hi = rows_of(self.layout, np.concatenate([hull[0], p[0]]), np.concatenate([hull[1], p[1]]), step)
            lo[self.layout.passed_rows], hi[self.layout.passed_rows] = self.flow.bound(lo, hi)
            ahead = (lo.copy(), hi.copy())
            rest = self.flow.remainder.evaluate(lo, hi)
            slope, spread = mid_rad(by_rows(self.flow.jacobian.evaluate(lo, hi), k))
            lo[:k], hi[:k] = np.concatenate([state.c, centre[n:]]), np.concatenate([state.c, centre[n:]])
            at = np.array([kernel.evaluate(lo, hi) for kernel in self.flow.polynomial])[:, :, 0].transpose(1, 0, 2)
            c, open_ = mid_rad(total((at[0], at[1]), rest))
            apart = np.concatenate([np.maximum(hull[1] - state.c, state.c - hull[0]), radius[n:]]) * (1 + ROUNDING)
            c, slope, open_ = self._straightened(ahead, state.c, (c, slope, open_ + _apply(spread, apart)))
            s = np.einsum("ijb,jkb->ikb", slope[:, :n], state.s)
            s[:, n:] += slope[:, n:]
            size = np.einsum("ijb,jkb->ikb", np.abs(slope[:, :n]), np.abs(state.s))
            size[:, n:] += np.abs(slope[:, n:])
            open_ = (open_ + ROUNDING * _apply(size, radius)) * (1 + ROUNDING) + TINY
            return state.turned(c, s, np.einsum("ijb,jkb->ikb", slope[:, :n], state.q), slope[:, :n], open_)

    def _straightened(self, rows: Ends, start: np.ndarray, bent: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Centre, slopes and doubt; where the rate is not smooth, or nearly so, x + h f with all that h f can be in doubt."""
        if self.flow.smooth.everywhere:
            return bent
        n, k = self.layout.states, self.layout.unknowns
        rough = self.flow.smooth.fails(*rows)
        rows[0][:n], rows[1][:n] = start, start
        c, open_ = mid_rad(self.flow.straight.evaluate(*rows))
        rough |= np.all(open_ < bent[2], axis=0)
        return (np.where(rough, c, bent[0]), np.where(rough, np.eye(n, k)[:, :, None], bent[1]),
                np.where(rough, open_, bent[2]))

    def _measured(self, state: _State, centre: np.ndarray, radius: np.ndarray, step: Step) -> tuple:
        """(outputs, unknowns, boxes), (outputs, boxes), (outputs, boxes): the row of a sample."""
        n, k = self.layout.states, self.layout.unknowns
        with np.errstate(invalid="ignore", over="ignore"):
            hull = state.with_centre(state.hull(radius))
            full = (np.concatenate([hull[0], centre[n:] - radius[n:] * (1 + ROUNDING)]),
                    np.concatenate([hull[1], centre[n:] + radius[n:] * (1 + ROUNDING)]))
            slope, spread = mid_rad(by_rows(self.output_slopes.evaluate(*rows_of(self.layout, *full, step)), k))
            point = np.concatenate([state.c, centre[n:]])
            offset, doubt = mid_rad(self.output.evaluate(*rows_of(self.layout, point, point, step)))
            apart = np.concatenate([np.maximum(hull[1] - state.c, state.c - hull[0]), radius[n:]]) * (1 + ROUNDING)
            a = np.einsum("ijb,jkb->ikb", slope[:, :n], state.s)
            a[:, n:] += slope[:, n:]
            size = np.einsum("ijb,jkb->ikb", np.abs(slope[:, :n]), np.abs(state.s))
            size[:, n:] += np.abs(slope[:, n:])
            turned = np.abs(np.einsum("ijb,jkb->ikb", slope[:, :n], state.q)) + ROUNDING * np.einsum(
                "ijb,jkb->ikb", np.abs(slope[:, :n]), np.abs(state.q))
            doubt = doubt + _apply(spread, apart) + ROUNDING * _apply(size, radius) + _apply(turned, state.w)
            return self._flat_where_rough(rows_of(self.layout, *full, step), (a, offset, doubt * (1 + ROUNDING) + TINY))

    def _flat_where_rough(self, rows: Ends, found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The row of a sample; where an output is not smooth, all of it is doubt."""
        rough = self.smooth_output.fails(*rows)
        if not rough.any():
            return found
        a, offset, doubt = found
        a[:, :, rough] = 0.0
        offset[:, rough], doubt[:, rough] = mid_rad(self.output.evaluate(rows[0][:, rough], rows[1][:, rough]))
        return a, offset, doubt


@dataclass(frozen=True, eq=False)
class _State:
    """c + s dq + q [-w, w], boxes last."""

    c: np.ndarray  # (states, boxes)
    s: np.ndarray  # (states, unknowns, boxes)
    q: np.ndarray  # (states, states, boxes)
    w: np.ndarray  # (states, boxes)
    known: Ends | None = None  # of the state, from elsewhere

    def hull(self, radius: np.ndarray) -> Ends:
        reach = (_apply(np.abs(self.s), radius) + _apply(np.abs(self.q), self.w)) * (1 + ROUNDING) + TINY
        reach = reach + ROUNDING * np.abs(self.c)
        hull = self.c - reach, self.c + reach
        if self.known is None:
            return hull
        low, high = np.maximum(hull[0], self.known[0]), np.minimum(hull[1], self.known[1])
        crossed = low > high  # no point of the box keeps what is known; any enclosure is right then
        return np.where(crossed, hull[0], low), np.where(crossed, hull[1], high)

    def with_centre(self, hull: Ends) -> Ends:
        """The hull and the centre: a derivative between them is met there."""
        return np.minimum(hull[0], self.c), np.maximum(hull[1], self.c)

    def turned(self, c: np.ndarray, s: np.ndarray, a: np.ndarray, slope: np.ndarray, open_: np.ndarray) -> _State:
        """c + s dq + a [-w, w] + [-open, open], with the rest in the coordinates that the flow turns it into."""
        return _State(c, s, *turned(self.q, self.w, a, slope, open_))


def turned(q: np.ndarray, w: np.ndarray, a: np.ndarray, slope: np.ndarray, open_: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray]:
    """a [-w, w] + [-open, open] in the coordinates that the flow turns it into; a is slope q, up to rounding."""
    open_ = open_ + ROUNDING * _apply(np.einsum("ijb,jkb->ikb", np.abs(slope), np.abs(q)), w)
    scaled = np.nan_to_num((a * (w + TINY)[None]).transpose(2, 0, 1), posinf=0.0, neginf=0.0)
    order = np.argsort(-np.sum(scaled**2, axis=1), axis=1)  # the longest edge of the rest stays an edge
    new = np.linalg.qr(np.take_along_axis(scaled, order[:, None, :], axis=2) + TINY * np.eye(len(w)))[0]
    new = new.transpose(1, 2, 0)
    inverse, n = new.transpose(1, 0, 2), len(w)
    off = np.abs(np.einsum("ijb,jkb->ikb", inverse, new) - np.eye(n)[:, :, None]).sum(axis=1).max(axis=0)
    off = off + n * ROUNDING * (1 + np.abs(new).sum(axis=1).max(axis=0) ** 2)  # how far from the true inverse
    both = np.abs(np.einsum("ijb,jkb->ikb", inverse, a)) + ROUNDING * np.einsum(
        "ijb,jkb->ikb", np.abs(inverse), np.abs(a))
    wide = (_apply(both, w) + _apply(np.abs(inverse), open_)) * (1 + ROUNDING)
    return new, wide + np.where(off < 0.5, 2 * off, np.inf) * np.max(wide, axis=0) + TINY


def _apply(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Nonnegative matrix times nonnegative vector per box; callers add the rounding."""
    return np.einsum("ijb,jb->ib", matrix, vector)


def by_rows(ends: Ends, columns: int) -> Ends:
    """(rows, columns, boxes) of a Jacobian whose entries come column by column."""
    shape = (columns, -1, ends[0].shape[1])
    return ends[0].reshape(shape).transpose(1, 0, 2), ends[1].reshape(shape).transpose(1, 0, 2)


def mid_rad(ends: Ends) -> tuple[np.ndarray, np.ndarray]:
    mid = np.where(np.isfinite(ends[0]) & np.isfinite(ends[1]), 0.5 * (ends[0] + ends[1]), 0.0)
    rad = np.maximum(ends[1] - mid, mid - ends[0]) * (1 + ROUNDING) + TINY
    return mid, np.where(np.isnan(rad), np.inf, rad)
