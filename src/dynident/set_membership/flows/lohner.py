"""Lohner's method: the solutions of one mode along many steps, linear in what is unknown, plus a bounded rest.

    x(t_k) in  c + S (q - q_c) + G [-1, 1]^m,     q = (state at the begin, parameters)

c, S and G are plain numbers, S by the mean value form (plain intervals forget that one unknown occurs twice, the dependency
effect); everything that rounding, the Taylor remainder and the curvature over
the box leave open becomes a new column of G, and the flow carries the columns along as it carries the states: a zonotope,
which does not wrap (the wrapping effect). Where there are too many columns, the oldest are put into a frame of as many as
there are states. Outputs follow as rows a (q - q_c) + offset: linear constraints on q with an error bound of the offset.
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
PATIENT_TRIES = 40  # of Picard's iteration: thin boxes, as points that are to be proved, grow slowly
MAX_FLOW_SUBSTEPS = 256  # parts of a step between two samples
MAX_GENERATORS = 256  # columns of a rest: more are put into a frame, at the price of some wrapping


def rounding(terms: int) -> float:
    """The same for a sum of any number of products."""
    return ROUNDING * max(1.0, (terms + 4) / 4)


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
    cells: CellRows | None = None  # where times of samples are open: then rows are those of cells, in place of samples


@dataclass(frozen=True, eq=False)
class CellRows:
    """Which rows belong to the window in which the time of a sample lies."""

    groups: np.ndarray  # (samples,) the first row of each
    owner: np.ndarray  # (rows,) its sample
    nodes: OutputEnclosure  # at the instants between cells
    span: np.ndarray  # (samples, 2) the first and the last node of each
    continuous: bool  # outputs do not jump


class LohnerFlow:
    """One mode of a model along a record, linear in the unknowns."""

    def __init__(self, layout: VariableLayout, rate: casadi.Function, output: casadi.Function, order: int = 6,
                 rigorous: bool = False):
        self.layout = layout
        self.mode_flow = ModeFlow(layout, rate, FlowOptions(order, "natural"), rigorous)
        step = self.mode_flow.taylor_step
        self.step_jacobians = tuple(make_interval_kernel(f, rigorous) for f in (step.state_jacobian, step.parameter_jacobian))
        s = layout.symbols()
        y = at_start(s, output)
        self.output = make_interval_kernel(s.function(y), rigorous)
        self.outputs = int(y.numel())
        self.output_jacobians = tuple(make_interval_kernel(s.function(casadi.jacobian(y, by)), rigorous) for by in (s.x, s.p))
        self.output_smoothness = Smoothness(y, s, rigorous)
        self.continuous_outputs = self.output_smoothness.everywhere and not casadi.depends_on(y, s.u)
        f = at_start(s, rate)
        change = casadi.jtimes(y, s.x, f) + casadi.jtimes(y, s.u, s.input_rate) + casadi.jtimes(y, s.t, casadi.SX(1))
        self.output_change = make_interval_kernel(s.function(casadi.densify(s.s * s.during_step(change))), rigorous)

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep],
                        substeps: Sequence[int] = (), known: Interval | None = None) -> OutputEnclosure:
        """Along `steps`, each in as many `substeps` (one unless said), the first sample being the begin.

        `lo`, `hi` are (unknowns, boxes).

        `known` are (samples, states) bounds of the state from elsewhere: the rows then hold for all q that keep them.
        """
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        centre = midpoint((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        state = _LohnerState(centre[:n].copy(), np.tile(np.eye(n, k)[:, :, None], boxes), np.zeros((n, 0, boxes)))
        a, offset, error, low, high = follow_steps(
            state, steps, substeps, known, lambda state, part: self._advance(state, centre, radius, part),
            lambda state, step: (*self._enclose_output(state, centre, radius, step), *state.hull(radius)))
        return OutputEnclosure(centre, radius, a, offset, error, low, high)

    def enclose_cells(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep]) -> tuple[OutputEnclosure, Interval]:
        """Rows at the begin of each step, and (steps, outputs, boxes) how far outputs move from there within the step."""
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        centre = midpoint((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        state = _LohnerState(centre[:n].copy(), np.tile(np.eye(n, k)[:, :, None], boxes), np.zeros((n, 0, boxes)))
        a, offset, error, least, most, low, high = follow_steps(
            state, steps, (), None, lambda state, part: self._advance(state, centre, radius, part),
            lambda state, step: (*self._enclose_output(state, centre, radius, step), *state.hull(radius),
                                 *self._enclose_change(state, centre, radius, step)))
        return OutputEnclosure(centre, radius, a, offset, error, least, most), (low, high)

    def _enclose_change(self, state: _LohnerState, centre: np.ndarray, radius: np.ndarray, step: IntervalStep) -> Interval:
        """(outputs, boxes) by how much an output may differ from its value at the begin, anywhere in the step."""
        lo, hi, _ = self._rows(state, centre, radius, step)
        lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows] = self.mode_flow.enclose_step(lo, hi, PATIENT_TRIES)
        low, high = self.output_change.evaluate(lo, hi)
        smooth = ~(self.output_smoothness.may_fail(lo, hi) | self.mode_flow.smoothness.may_fail(lo, hi))
        open_ = ~smooth | np.isnan(low) | np.isnan(high)
        return np.where(open_, -np.inf, low), np.where(open_, np.inf, high)

    def _advance(self, state: _LohnerState, centre: np.ndarray, radius: np.ndarray, step: IntervalStep) -> _LohnerState:
        n, k = self.layout.states, self.layout.unknowns
        lo, hi, reach = self._rows(state, centre, radius, step)
        lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows] = self.mode_flow.enclose_step(lo, hi, PATIENT_TRIES)
        ahead = (lo.copy(), hi.copy())
        remainder = self.mode_flow.remainder.evaluate(lo, hi)
        jacobian, rest = self._mean_value(self.step_jacobians, n, (lo, hi), centre, radius, reach)
        lo[:k], hi[:k] = np.concatenate([state.c, centre[n:]]), np.concatenate([state.c, centre[n:]])
        at = np.array([kernel.evaluate(lo, hi) for kernel in self.mode_flow.polynomial])[:, :, 0].transpose(1, 0, 2)
        c, error = midpoint_radius(add((at[0], at[1]), remainder))
        c, jacobian, rest = self._first_order_where_nonsmooth(ahead, state.c, (c, jacobian, rest + error))
        s, size = _chain(jacobian, state.s), _chain(np.abs(jacobian), np.abs(state.s))
        rest = (rest + rounding(k) * _apply(size, radius)) * (1 + ROUNDING) + TINY
        return state.advance(c, s, jacobian[:, :n], rest)

    def _rows(self, state: _LohnerState, centre: np.ndarray, radius: np.ndarray, step: IntervalStep
              ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows over all states and parameters, and how far the states are from their centre."""
        n = self.layout.states
        hull = state.with_centre(state.hull(radius))
        wide = radius[n:] * (1 + ROUNDING)
        lo, hi = stack_rows(self.layout, np.concatenate([hull[0], centre[n:] - wide]),
                            np.concatenate([hull[1], centre[n:] + wide]), step)
        return lo, hi, np.maximum(hull[1] - state.c, state.c - hull[0]) * (1 + ROUNDING)

    def _mean_value(self, kernels: tuple[Any, ...], size: int, rows: Interval, centre: np.ndarray, radius: np.ndarray,
                    reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(size, unknowns, boxes) a plain Jacobian, and what the mean value form with it leaves open; `rows` is overwritten.

        f(x, p) - f(c, p_c) = [f(x, p) - f(x, p_c)] + [f(x, p_c) - f(c, p_c)]: parameters move over the whole box, states only
        beside the middle of the parameters. A product of both then counts once, not twice.
        """
        n, k, (by_states, by_parameters) = self.layout.states, self.layout.unknowns, kernels
        by_p, error_p = _midpoint_jacobian(by_parameters, rows, size, k - n)
        rows[0][n:k], rows[1][n:k] = centre[n:], centre[n:]
        by_x, error_x = _midpoint_jacobian(by_states, rows, size, n)
        open_ = _apply(error_x, reach) + _apply(error_p, radius[n:] * (1 + ROUNDING))
        return np.concatenate([by_x, by_p], axis=1), open_ * (1 + rounding(k))

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
        lo, hi, reach = self._rows(state, centre, radius, step)
        full = (lo.copy(), hi.copy())
        jacobian, open_ = self._mean_value(self.output_jacobians, self.outputs, (lo, hi), centre, radius, reach)
        point = np.concatenate([state.c, centre[n:]])
        offset, error = midpoint_radius(self.output.evaluate(*stack_rows(self.layout, point, point, step)))
        a, size = _chain(jacobian, state.s), _chain(np.abs(jacobian), np.abs(state.s))
        error = error + open_ + rounding(k) * _apply(size, radius) + zonotope_reach_along(jacobian[:, :n], state.g)
        return self._range_where_nonsmooth(full, (a, offset, error * (1 + ROUNDING) + TINY))

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
    """c + s dq + g [-1, 1]^m, boxes last."""

    c: np.ndarray  # (states, boxes)
    s: np.ndarray  # (states, unknowns, boxes)
    g: np.ndarray  # (states, columns, boxes)
    known: Interval | None = None  # of the state, from elsewhere

    def hull(self, radius: np.ndarray) -> Interval:
        reach = _apply(np.abs(self.s), radius) * (1 + rounding(len(radius))) + zonotope_reach(self.g) + TINY
        reach = reach + ROUNDING * (np.abs(self.c) + reach)
        reach = np.where(np.isnan(reach), np.inf, reach)
        return within_known((self.c - reach, self.c + reach), self.known)

    def with_centre(self, hull: Interval) -> Interval:
        """The hull and the centre: a derivative between them is met there."""
        return np.minimum(hull[0], self.c), np.maximum(hull[1], self.c)

    def advance(self, c: np.ndarray, s: np.ndarray, jacobian: np.ndarray, rest: np.ndarray) -> _LohnerState:
        """c + s dq + jacobian g [-1, 1]^m + [-rest, rest]."""
        return _LohnerState(c, s, carry_zonotope(jacobian, self.g, rest))


# a rest as a zonotope g [-1, 1]^m, g being (states, columns, boxes)


def zonotope_reach(g: np.ndarray) -> np.ndarray:
    """(states, boxes) how far it goes."""
    return np.abs(g).sum(axis=1) * (1 + rounding(g.shape[1]))


def zonotope_reach_along(rows: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(rows, boxes) how far rows g [-1, 1]^m goes, for (rows, states, boxes)."""
    lost = rounding(len(g)) * _apply(np.abs(rows), zonotope_reach(g))
    return np.abs(_carry(rows, g)).sum(axis=1) * (1 + rounding(g.shape[1])) + lost


def carry_zonotope(jacobian: np.ndarray, g: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """jacobian g [-1, 1]^m + [-rest, rest], in no more columns than are worth their time."""
    rest = rest + rounding(len(g)) * _apply(np.abs(jacobian), zonotope_reach(g))
    carried = np.concatenate([_carry(jacobian, g), _diagonal(rest)], axis=1)
    return carried if carried.shape[1] <= MAX_GENERATORS else fold_oldest(carried, MAX_GENERATORS // 2)


def _carry(jacobian: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Columns after a step, per box."""
    return np.einsum("ijb,jmb->imb", jacobian, g)


def _diagonal(rest: np.ndarray) -> np.ndarray:
    """(states, states, boxes) a column per state; zero beside the diagonal also where a rest is infinite."""
    columns = np.zeros((len(rest), *rest.shape))
    columns[np.arange(len(rest)), np.arange(len(rest))] = rest
    return columns


def fold_oldest(g: np.ndarray, kept: int) -> np.ndarray:
    """The newest columns of a zonotope, and a frame of its main axes that holds what the others say; all in it, proved.

    With any plain matrices F and y, old = F y + (old - F y): F y [-1, 1]^m lies in F diag(|y| 1) [-1, 1]^n, and what is left
    is bounded entry by entry.
    """
    n, old, new = len(g), g[:, :-kept], g[:, -kept:]
    scale = np.abs(old).sum(axis=1) + TINY  # states count in their own units
    scaled = np.nan_to_num(old / scale[:, None], posinf=0.0, neginf=0.0)
    axes = np.linalg.eigh(np.einsum("imb,jmb->bij", scaled, scaled))[1].transpose(1, 2, 0)  # (states, axes, boxes)
    y = np.einsum("iab,imb->amb", axes, scaled)
    frame = scale[:, None] * axes
    left = np.abs(old - _carry(frame, y)).sum(axis=1)
    lost = rounding(n) * _apply(np.abs(frame), np.abs(y).sum(axis=1)) + ROUNDING * np.abs(old).sum(axis=1)
    wide = np.abs(y).sum(axis=1) * (1 + rounding(old.shape[1]))
    more = 1 + rounding(old.shape[1])
    folded = frame * wide[None]
    rest = (left + lost) * more + ROUNDING * np.abs(folded).sum(axis=1) + TINY
    return np.concatenate([folded, _diagonal(rest), new], axis=1)


def follow_steps(state: Any, steps: Sequence[IntervalStep], substeps: Sequence[int], known: Interval | None,
                 advance: Callable[..., Any], enclose: Callable[..., tuple]) -> tuple[np.ndarray, ...]:
    """What `enclose(state, step)` says at each sample, as arrays over the samples; `known` as in `enclose_outputs`."""
    found = []
    with np.errstate(invalid="ignore", over="ignore"):
        for j, step in enumerate(steps):
            if known is not None:
                state = replace(state, known=(known[0][j][:, None], known[1][j][:, None]))
            found.append(enclose(state, step))
            for part in step.subdivide(substeps[j] if substeps else 1) if j + 1 < len(steps) else ():
                state = advance(state, part)
    return tuple(np.array(column) for column in zip(*found, strict=True))


def choose_substeps(flow: ModeFlow, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep]) -> tuple[int, ...]:
    """Per step, the fewest parts (a power of two) such that steps of twice their length have an enclosure, for all parameters
    of a box (unknowns,): the Taylor polynomial then converges fast.

    States begin at the solution of the middle of the box: so each gap between samples is divided as the model's own rate
    asks for, and what is far from the middle, and lost in time, does not ask for more.
    """
    n, k = flow.layout.states, flow.layout.unknowns
    centre = midpoint((lo, hi))[:, None]
    point, counts, last = centre[:n], [], 1
    for step in steps:
        count = max(last // 2, 1)  # the next gap may be shorter
        while count < MAX_FLOW_SUBSTEPS and not _has_enclosure(flow, point, lo[n:, None], hi[n:, None],
                                                               step.subdivide(count)[0]):
            count *= 2
        counts.append(count)
        last = count
        for part in step.subdivide(count):
            rows = stack_rows(flow.layout, *(np.concatenate([point, centre[n:k]]),) * 2, part)
            low, high = np.array([kernel.evaluate(*rows) for kernel in flow.polynomial])[:, :, 0].transpose(1, 0, 2)
            point = np.nan_to_num(midpoint((low, high)), nan=0.0, posinf=0.0, neginf=0.0)
    return tuple(counts)


def _has_enclosure(flow: ModeFlow, point: np.ndarray, p_lo: np.ndarray, p_hi: np.ndarray, step: IntervalStep) -> bool:
    step = replace(step, length=(2 * step.length[0], 2 * step.length[1]))
    rows = stack_rows(flow.layout, np.concatenate([point, p_lo]), np.concatenate([point, p_hi]), step)
    return bool(np.all(np.isfinite(flow.enclose_step(*rows, PATIENT_TRIES))))


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


def _apply(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Nonnegative matrix times nonnegative vector per box; callers add the rounding."""
    return np.einsum("ijb,jb->ib", matrix, vector)


def _midpoint_jacobian(kernel: Any, rows: Interval, size: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns, boxes) plain numbers and how far the derivatives are from them."""
    if not columns:
        nothing = np.zeros((size, 0, rows[0].shape[1]))
        return nothing, nothing
    return midpoint_radius(jacobian_by_rows(kernel.evaluate(*rows), columns))


def jacobian_by_rows(ends: Interval, columns: int) -> Interval:
    """(rows, columns, boxes) of a Jacobian whose entries come column by column."""
    shape = (columns, -1, ends[0].shape[1])
    return ends[0].reshape(shape).transpose(1, 0, 2), ends[1].reshape(shape).transpose(1, 0, 2)


def midpoint_radius(ends: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Plain numbers and how far the ends are from them, rounded up; infinite where there is no end."""
    with np.errstate(invalid="ignore"):
        mid = np.where(np.isfinite(ends[0]) & np.isfinite(ends[1]), 0.5 * (ends[0] + ends[1]), 0.0)
    rad = np.maximum(ends[1] - mid, mid - ends[0]) * (1 + ROUNDING) + TINY
    return mid, np.where(np.isnan(rad), np.inf, rad)
