"""Taylor model flow: the solutions of one mode along many steps as polynomials of what is unknown, plus a bounded rest.

    x(t_k) in  P(d) + G [-1, 1]^m,     q = q_c + radius * d,  |d| <= 1

As in `lohner`, with polynomials of degree two or more: what bends over the box is followed instead of bounded. P is carried
through each step by `TaylorModelAlgebra`; the rest, a zonotope, by the mean value form.

A Taylor model is a number that is known as a polynomial of the unknowns plus an interval: its coefficients are plain numbers,
and what rounding, truncation and cut-off terms leave open goes into the interval. All operations work on many boxes at once,
boxes last. `TaylorModelAlgebra.evaluate_tape` runs a tape of operations, so that a model needs no second definition.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.set_membership.flows.boxes import IntervalStep, stack_rows
from dynident.set_membership.flows.interval_automaton import VariableLayout, at_start
from dynident.set_membership.flows.lohner import (
    PATIENT_TRIES,
    ROUNDING,
    LohnerFlow,
    OutputEnclosure,
    carry_zonotope,
    follow_steps,
    jacobian_by_rows,
    midpoint_radius,
    within_known,
    zonotope_reach,
    zonotope_reach_along,
)
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow
from dynident.set_membership.intervals import IntervalKernel, make_interval_kernel
from dynident.set_membership.intervals.arithmetic import TINY, UNIT, Interval, add, midpoint, mul
from dynident.set_membership.intervals.kernel import CODES, Tape
from dynident.tolerances import KNOWN_RADIUS


@dataclass(frozen=True, eq=False)
class TaylorModel:
    """Polynomials over boxes, with what is open."""

    coefficients: np.ndarray  # (monomials, boxes)
    remainder: Interval  # (boxes,) each


class TaylorModelAlgebra:
    """Operations on Taylor models in `unknowns` variables, cut off behind `degree`."""

    def __init__(self, unknowns: int, degree: int, functions: DerivativeKernels):
        self.degree, self.functions = degree, functions
        self.monomials = [m for m in itertools.product(range(degree + 1), repeat=unknowns) if sum(m) <= degree]
        self.monomials.sort(key=lambda m: (sum(m), tuple(-e for e in m)))  # 1, d_1, d_2, ..., then products
        place = {m: k for k, m in enumerate(self.monomials)}
        pairs = [(i, j, place.get(tuple(a + b for a, b in zip(m, n, strict=True)), -1))
                 for (i, m), (j, n) in itertools.product(enumerate(self.monomials), repeat=2)]
        self._kept = np.array([p for p in pairs if p[2] >= 0]).T
        self._cut = np.array([p[:2] for p in pairs if p[2] < 0], int).reshape(-1, 2).T
        self._target = np.zeros((len(self.monomials), self._kept.shape[1]))
        self._target[self._kept[2], np.arange(self._kept.shape[1])] = 1.0
        self._even = np.array([all(e % 2 == 0 for e in m) for m in self.monomials])[:, None]

    def variable(self, j: int, centre: np.ndarray, radius: np.ndarray) -> TaylorModel:
        """centre + radius * d_j."""
        coefficients = np.zeros((len(self.monomials), centre.size))
        coefficients[0], coefficients[1 + j] = centre, radius
        return self._without_remainder(coefficients)

    def from_interval(self, ends: Interval) -> TaylorModel:
        """Anything between two ends."""
        coefficients = np.zeros((len(self.monomials), ends[0].size))
        middle = 0.5 * ends[0] + 0.5 * ends[1]
        coefficients[0] = middle
        return TaylorModel(coefficients, add(ends, (-middle, -middle)))

    def _without_remainder(self, coefficients: np.ndarray) -> TaylorModel:
        nothing = np.zeros(coefficients.shape[1])
        return TaylorModel(coefficients, (nothing, nothing))

    def range(self, a: TaylorModel, constant: bool = True) -> Interval:
        """Bounds of the value; without its constant term on request."""
        c = a.coefficients[1:]
        low = np.where(self._even[1:], np.minimum(c, 0), -np.abs(c)).sum(axis=0)
        high = np.where(self._even[1:], np.maximum(c, 0), np.abs(c)).sum(axis=0)
        loss = len(c) * UNIT * np.abs(c).sum(axis=0) + TINY
        ends = add((low - loss, high + loss), a.remainder)
        return add(ends, (a.coefficients[0], a.coefficients[0])) if constant else ends

    def _widen(self, rest: Interval, by: np.ndarray) -> Interval:
        by = by * (1 + 8 * UNIT) + TINY
        return add(rest, (-by, by))

    def add(self, a: TaylorModel, b: TaylorModel) -> TaylorModel:
        c = a.coefficients + b.coefficients
        return TaylorModel(c, self._widen(add(a.remainder, b.remainder), UNIT * np.abs(c).sum(axis=0)))

    def negate(self, a: TaylorModel) -> TaylorModel:
        return TaylorModel(-a.coefficients, (-a.remainder[1], -a.remainder[0]))

    def multiply(self, a: TaylorModel, b: TaylorModel) -> TaylorModel:
        i, j, _ = self._kept
        c = self._target @ (a.coefficients[i] * b.coefficients[j])
        sizes = np.abs(a.coefficients), np.abs(b.coefficients)
        lost = (sizes[0][self._cut[0]] * sizes[1][self._cut[1]]).sum(axis=0) * (1 + self._cut.shape[1] * UNIT)
        lost = lost + (self._kept.shape[1] + 2) * UNIT * sizes[0].sum(axis=0) * sizes[1].sum(axis=0)
        polynomial = self.range(TaylorModel(a.coefficients, (np.zeros(1), np.zeros(1))))
        rest = add(mul(polynomial, b.remainder), mul(a.remainder, self.range(b)))
        return TaylorModel(c, self._widen(rest, lost))

    def apply(self, name: str, a: TaylorModel) -> TaylorModel:
        """A smooth function: its polynomial around the constant term, by Horner, and Lagrange's remainder."""
        values, rest = self.functions.derivatives(name, self.degree)
        middle = a.coefficients[:1]
        low, high = values.evaluate(middle, middle)
        moved = TaylorModel(a.coefficients.copy(), a.remainder)
        moved.coefficients[0] = 0.0
        result = self.from_interval((low[-1], high[-1]))
        for k in range(self.degree - 1, -1, -1):
            result = self.add(self.multiply(result, moved), self.from_interval((low[k], high[k])))
        over = self.range(a)
        last = rest.evaluate(np.minimum(over[0], middle[0])[None], np.maximum(over[1], middle[0])[None])
        power, step = self.range(moved, constant=False), self.range(moved, constant=False)
        for _ in range(self.degree):
            power = mul(power, step)
        return TaylorModel(result.coefficients, add(result.remainder, mul((last[0][0], last[1][0]), power)))

    def evaluate_tape(self, tape: Tape, rows: list[TaylorModel]) -> list[TaylorModel]:
        """The outputs of a tape; a function that has no derivatives is refused by name."""
        values: list[TaylorModel] = []
        for code, a, b, _, _ in tape.instructions:
            values.append(self._operation(CODES[code], int(a), int(b), values, tape, rows))
        return [values[root] for root in tape.roots]

    def _operation(self, name: str, a: int, b: int, values: list[TaylorModel], tape: Tape, rows: list[TaylorModel]
                   ) -> TaylorModel:
        if name == "input":
            return rows[a]
        if name == "const":
            value = np.full(rows[0].coefficients.shape[1], tape.constants[a])
            return self.from_interval((value, value))
        if name in ("copy", "neg", "twice", "sq"):
            x = values[a]
            return {"copy": lambda: x, "neg": lambda: self.negate(x), "twice": lambda: self.add(x, x),
                    "sq": lambda: self.multiply(x, x)}[name]()
        if name in ("add", "sub", "mul", "div"):
            x, y = values[a], values[b]
            return {"add": lambda: self.add(x, y), "sub": lambda: self.add(x, self.negate(y)),
                    "mul": lambda: self.multiply(x, y), "div": lambda: self.multiply(x, self.apply("inv", y))}[name]()
        if name in SMOOTH:
            return self.apply(name, values[a])
        raise NotSupported(f"'{name}' has no Taylor polynomial; use taylor_degree=1 for this model.")


SMOOTH: dict[str, Any] = {  # said, since a type checker would else join the overloads of them all
    "inv": lambda x: 1 / x, "sqrt": casadi.sqrt, "exp": casadi.exp, "log": casadi.log, "sin": casadi.sin,
    "cos": casadi.cos, "tan": casadi.tan, "asin": casadi.asin, "acos": casadi.acos, "atan": casadi.atan,
    "sinh": casadi.sinh, "cosh": casadi.cosh, "tanh": casadi.tanh}


class DerivativeKernels:
    """Derivatives of smooth functions, made when first asked for; kernels have room for one thread, so one per flow."""

    def __init__(self, rigorous: bool = False):
        self.rigorous = rigorous
        self._made: dict[tuple[str, int], tuple[IntervalKernel, IntervalKernel]] = {}

    def derivatives(self, name: str, degree: int) -> tuple[IntervalKernel, IntervalKernel]:
        """f, f', f''/2, ... up to the degree at a point, and the next one over an interval."""
        if (name, degree) not in self._made:
            x = casadi.SX.sym("x")
            found = [SMOOTH[name](x)]
            for k in range(1, degree + 2):
                found.append(casadi.jacobian(found[-1], x) / k)
            values, rest = (casadi.Function("f", [x], [casadi.densify(e)])
                            for e in (casadi.vertcat(*found[:-1]), found[-1]))
            self._made[name, degree] = make_interval_kernel(values, self.rigorous), make_interval_kernel(rest, self.rigorous)
        return self._made[name, degree]


def make_flow(layout: VariableLayout, rate: casadi.Function, output: casadi.Function, order: int, degree: int, rigorous: bool
              ) -> LohnerFlow | TaylorModelFlow:
    """Solutions along many steps: as lines in the unknowns (degree 1), or as polynomials."""
    if degree == 1:
        return LohnerFlow(layout, rate, output, order, rigorous)
    return TaylorModelFlow(layout, rate, output, order, degree, rigorous)


@dataclass(frozen=True, eq=False)
class _TaylorModelState:
    """A polynomial per state, and g [-1, 1]^m; boxes last."""

    polynomials: tuple[TaylorModel, ...]  # without open parts
    g: np.ndarray  # (states, columns, boxes)
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

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, steps: Sequence[IntervalStep],
                        substeps: Sequence[int] = (), known: Interval | None = None) -> OutputEnclosure:
        """As `LohnerFlow.enclose_outputs`: along `steps`, the first sample being the begin."""
        n, boxes = self.layout.states, lo.shape[1]
        centre = midpoint((lo, hi))
        radius = np.maximum(hi - centre, centre - lo) * (1 + ROUNDING) + TINY
        run = _TaylorModelRun(self, centre, radius)
        state = _TaylorModelState(tuple(run.unknowns[:n]), np.zeros((n, 0, boxes)))
        a, offset, error, low, high = follow_steps(
            state, steps, substeps, known, run.advance,
            lambda state, step: (*run.enclose_output(state, step), *run.hull(state)))
        return OutputEnclosure(centre, radius, a, offset, error, low, high)


def _rest_radius(state: _TaylorModelState) -> np.ndarray:
    """(states, boxes) how far the rest goes."""
    return zonotope_reach(state.g) + TINY


class _TaylorModelRun:
    """What stays the same along the record: the unknowns as variables."""

    def __init__(self, flow: TaylorModelFlow, centre: np.ndarray, radius: np.ndarray):
        self.flow, self.centre, self.radius = flow, centre, radius
        self.open_rows = np.flatnonzero(np.any(radius > KNOWN_RADIUS, axis=1))
        self.algebra = TaylorModelAlgebra(self.open_rows.size, flow.degree, flow.functions)
        ends = centre - radius, centre + radius
        self.ends = ends[0] - ROUNDING * np.abs(ends[0]), ends[1] + ROUNDING * np.abs(ends[1])
        self.unknowns = [self.algebra.from_interval((self.ends[0][row], self.ends[1][row])) for row in range(len(centre))]
        for j, row in enumerate(self.open_rows):
            self.unknowns[row] = self.algebra.variable(j, centre[row], radius[row])

    def hull(self, state: _TaylorModelState) -> Interval:
        reach = _rest_radius(state)
        low, high = add(self._range(state), (-reach, reach))
        return within_known((np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)), state.known)

    def _range(self, state: _TaylorModelState) -> Interval:
        ranges = [self.algebra.range(p) for p in state.polynomials]
        return np.array([r[0] for r in ranges]), np.array([r[1] for r in ranges])

    def _around(self, state: _TaylorModelState) -> Interval:
        """A convex set that holds P(d) and P(d) + G r for all that keep what is known: a derivative is met there.

        P(d) is then at most as far from what is known as G r reaches.
        """
        low, high = self.hull(state)
        reach = _rest_radius(state)
        without = within_known(self._range(state), None if state.known is None else add(state.known, (-reach, reach)))
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
        lo[layout.enclosure_rows], hi[layout.enclosure_rows] = step_flow.enclose_step(lo, hi, PATIENT_TRIES)
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
        return _TaylorModelState(tuple(polynomials), carry_zonotope(slope, state.g, rest_))

    def enclose_output(self, state: _TaylorModelState, step: IntervalStep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(outputs, unknowns, boxes), (outputs, boxes), (outputs, boxes): the row of a sample."""
        n, k, boxes = self.flow.layout.states, self.flow.layout.unknowns, self.centre.shape[1]
        rows = self._rows(self._around(state), step)
        found = self.algebra.evaluate_tape(self.flow.output.tape, self._models(state, rows))
        slope, spread = midpoint_radius(jacobian_by_rows(self.flow.output_jacobian.evaluate(*rows), n))
        reach = _rest_radius(state)
        error = zonotope_reach_along(slope, state.g) + np.einsum("ijb,jb->ib", spread, reach)
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
