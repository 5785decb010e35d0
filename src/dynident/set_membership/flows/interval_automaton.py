"""Automaton: the modes of a model and the ways between them, over boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi
import numpy as np

from dynident.models.equations import EquationModel
from dynident.models.hybrid_functions import TransitionFunctions
from dynident.set_membership.intervals import interval_kernel
from dynident.set_membership.intervals.arithmetic import Ends


@dataclass(frozen=True, eq=False)
class Layout:
    """How the rows of a box are ordered: states x, parameters p, inputs u, their slopes, time t, step h; and for what
    holds during the whole step: states b that it may pass through, elapsed time s in [0, h]."""

    states: int
    parameters: int
    inputs: int

    @property
    def unknowns(self) -> int:
        return self.states + self.parameters

    @property
    def rows(self) -> int:
        return self.unknowns + 2 * self.inputs + 3 + self.states

    @property
    def input_rows(self) -> slice:
        return slice(self.unknowns, self.unknowns + self.inputs)

    @property
    def slope_rows(self) -> slice:
        return slice(self.unknowns + self.inputs, self.unknowns + 2 * self.inputs)

    @property
    def time_row(self) -> int:
        return self.unknowns + 2 * self.inputs

    @property
    def step_row(self) -> int:
        return self.time_row + 1

    @property
    def passed_rows(self) -> slice:
        return slice(self.step_row + 1, self.step_row + 1 + self.states)

    @property
    def elapsed_row(self) -> int:
        return self.rows - 1

    def symbols(self) -> Symbols:
        parts = [casadi.SX.sym(n, k) for n, k in (("x", self.states), ("p", self.parameters), ("u", self.inputs),
                                                  ("du", self.inputs), ("t", 1), ("h", 1), ("b", self.states),
                                                  ("s", 1))]
        return Symbols(*parts)


@dataclass(frozen=True, eq=False)
class Symbols:
    """Symbols in the order of the rows."""

    x: casadi.SX
    p: casadi.SX
    u: casadi.SX
    slope: casadi.SX
    t: casadi.SX
    h: casadi.SX
    b: casadi.SX
    s: casadi.SX

    def meanwhile(self, expression: casadi.SX) -> casadi.SX:
        """The expression at any moment of the step."""
        return casadi.substitute(expression, casadi.vertcat(self.x, self.u, self.t),
                                 casadi.vertcat(self.b, self.u + self.slope * self.s, self.t + self.s))

    def function(self, expression: casadi.SX) -> casadi.Function:
        return casadi.Function("verified", [self.x, self.p, self.u, self.slope, self.t, self.h, self.b, self.s],
                               [casadi.densify(casadi.vec(expression))], {"cse": True})


def at_start(s: Symbols, f: casadi.Function) -> casadi.SX:
    return f(s.t, s.x, s.u, s.p)


def meanwhile(s: Symbols, f: casadi.Function) -> casadi.SX:
    """At any moment of the step."""
    return s.meanwhile(at_start(s, f))


def at_end(s: Symbols, f: casadi.Function) -> casadi.SX:
    """At the end of the step, just before the inputs jump."""
    return f(s.t + s.h, s.x, s.u + s.slope * s.h, s.p)


class Condition:
    """Expressions that must be at least zero, over boxes; closed, so that a border belongs to both of its sides."""

    def __init__(self, expressions: Sequence[casadi.SX], s: Symbols, proved: bool):
        self.rows = len(expressions)
        self.kernel = interval_kernel(s.function(casadi.vertcat(*expressions)), proved) if expressions else None

    def possible(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where no point of the box makes every expression positive, as a transition asks."""
        if self.kernel is None:
            return np.ones(lo.shape[1], bool)
        return np.all(self.kernel.evaluate(lo, hi)[1] > 0, axis=0)

    def narrowed(self, lo: np.ndarray, hi: np.ndarray) -> Ends:
        """The boxes without parts in which the condition fails; NaN where it fails everywhere."""
        if self.kernel is None:
            return lo, hi
        return self.kernel.contract(lo, hi, np.zeros((self.rows, 1)), np.full((self.rows, 1), np.inf), passes=2)


class Jump:
    """A transition over boxes: when it can be taken, at the start of a step or during it, and where it leads."""

    def __init__(self, transition: TransitionFunctions, rate: casadi.Function, target: int, s: Symbols, proved: bool):
        self.target, self.name = target, f"{transition.source} -> {transition.target}"
        self.at_start, self.meanwhile = (
            Condition([moment(s, transition.guard)], s, proved) for moment in (at_start, meanwhile))
        after = casadi.vertsplit(at_start(s, transition.reset))
        self.set_anew = np.array([not casadi.is_equal(row, s.x[k]) for k, row in enumerate(after)], bool)[:, None]
        self.reset_at_start, self.reset_meanwhile = (
            interval_kernel(s.function(moment(s, transition.reset)), proved) for moment in (at_start, meanwhile))
        g, self.rise = meanwhile(s, transition.guard), _rise(transition.guard, rate, s)
        self.crossing = None if self.rise is None else Condition([g, -g], s, proved)  # where the guard is zero
        self.rising = None if self.rise is None else Condition([self.rise], s, proved)

    def can_begin(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where the guard, not positive at the start, cannot become so within the step.

        Where it is zero it would have to rise: a solution of a smooth mode cannot leave the set in which its guard is not
        positive through a border on which the guard nowhere rises (Nagumo).
        """
        can = self.meanwhile.possible(lo, hi)
        if self.crossing is None or self.rising is None or not can.any():
            return can
        edge = self.crossing.narrowed(lo[:, can], hi[:, can])
        can[can] = self.rising.possible(*edge)
        return can

    def begun(self, lo: np.ndarray, hi: np.ndarray) -> Ends:
        """The rows of boxes whose guard, not positive at the start, becomes so within the step: where it does, it rises."""
        low, high = self.meanwhile.narrowed(lo, hi)
        if self.crossing is None or self.rising is None:
            return low, high
        return self.rising.narrowed(*self.crossing.narrowed(low, high))


def _rise(guard: casadi.Function, rate: casadi.Function, s: Symbols) -> casadi.SX | None:
    """How fast the guard rises during the step; for guards that are affine in the state, else nothing."""
    g = at_start(s, guard)
    slope = casadi.jacobian(g, s.x)
    if casadi.depends_on(slope, casadi.vertcat(s.x, s.p, s.u, s.t)):
        return None
    return s.meanwhile(slope @ at_start(s, rate) + casadi.jtimes(g, s.u, s.slope) + casadi.jtimes(g, s.t, casadi.SX(1)))


class ModeLaw:
    """One mode over boxes: its rate, where it may begin, when it goes on, and how it is left."""

    def __init__(self, model: EquationModel, name: str, s: Symbols, proved: bool):
        functions = model.mode(name)
        self.name, self.rate = name, functions.rate
        self.rate_is_zero = at_start(s, functions.rate).is_zero()
        leaving = [t for t in model.transitions if t.source == name]
        self.jumps = tuple(Jump(t, functions.rate, model.modes.index(t.target), s, proved) for t in leaving)
        earlier = model.modes[:model.modes.index(name)]  # where one of these is possible, it is taken
        self.not_earlier = Condition([-at_start(s, model.mode(m).invariant) for m in earlier], s, proved)
        self.may_begin = Condition([at_start(s, functions.invariant)] if model.hybrid else [], s, proved)
        self.goes_on_at_start, self.goes_on_meanwhile, self.goes_on_at_end = (
            Condition([-moment(s, t.guard) for t in leaving], s, proved) for moment in (at_start, meanwhile, at_end))
        self.invariant_meanwhile = Condition([meanwhile(s, functions.invariant)] if model.hybrid else [], s, proved)
        self.rises = Condition([casadi.SX(1) if j.rise is None else j.rise for j in self.jumps], s, proved)


    def holds_meanwhile(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where the invariant holds nowhere among the passed states."""
        kernel = self.invariant_meanwhile.kernel
        return np.ones(lo.shape[1], bool) if kernel is None else np.all(kernel.evaluate(lo, hi)[1] >= 0, axis=0)

    def surely_left(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) true only where, at every passed state, a guard is positive, or not negative and rising."""
        if self.goes_on_meanwhile.kernel is None or self.rises.kernel is None:
            return np.zeros(lo.shape[1], bool)
        most = self.goes_on_meanwhile.kernel.evaluate(lo, hi)[1]
        known = np.array([jump.rise is not None for jump in self.jumps])[:, None]
        rising = self.rises.kernel.evaluate(lo, hi)[0] > 0
        return np.any((most < 0) | ((most <= 0) & rising & known), axis=0)


class Automaton:
    """All modes of a model; a plain ODE is one mode that is never left. A transition is taken as soon as it can be."""

    def __init__(self, model: EquationModel, proved: bool = False):
        self.layout = Layout(len(model.states), len(model.parameters), len(model.inputs))
        self.proved = proved
        s = self.layout.symbols()
        self.modes = tuple(ModeLaw(model, name, s, proved) for name in model.modes)
        self.output = interval_kernel(s.function(at_start(s, model.output)), proved)
