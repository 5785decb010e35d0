"""Taylor models: numbers that are known as polynomials of the unknowns, plus an interval.

    value in  sum_m coefficient_m * d^m + [low, high],    every |d_j| <= 1

Coefficients are plain numbers; what rounding, truncation and cut-off terms leave open goes into the interval. All
operations work on many boxes at once, boxes last. `TaylorModelAlgebra.evaluate_tape` runs a tape of operations, so that a
model needs no second definition.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from dynident.errors import NotSupported
from dynident.set_membership.intervals import IntervalKernel, make_interval_kernel
from dynident.set_membership.intervals.arithmetic import TINY, Interval, add, mul
from dynident.set_membership.intervals.tape import CODES, Tape

UNIT = 2.0**-52  # relative error of a rounded operation, doubled


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
        self._cut = np.array([p[:2] for p in pairs if p[2] < 0]).reshape(-1, 2).T
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
