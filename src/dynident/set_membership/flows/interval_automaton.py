"""Interval automaton: the modes of a hybrid model, their guards, invariants and resets, over boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi
import numpy as np

from dynident.models.equations import EquationModel
from dynident.models.hybrid_functions import TransitionFunctions
from dynident.set_membership.intervals import make_interval_kernel
from dynident.set_membership.intervals.arithmetic import Interval


@dataclass(frozen=True, eq=False)
class VariableLayout:
    """How the rows of a box are ordered: states x, parameters p, inputs u, their rates, time t, step h; and for what
    holds during the whole step: an a priori enclosure b of the states that it passes through, elapsed time s in [0, h]."""

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
    def input_rate_rows(self) -> slice:
        return slice(self.unknowns + self.inputs, self.unknowns + 2 * self.inputs)

    @property
    def time_row(self) -> int:
        return self.unknowns + 2 * self.inputs

    @property
    def step_row(self) -> int:
        return self.time_row + 1

    @property
    def enclosure_rows(self) -> slice:
        return slice(self.step_row + 1, self.step_row + 1 + self.states)

    @property
    def elapsed_row(self) -> int:
        return self.rows - 1

    def symbols(self) -> StepSymbols:
        parts = [casadi.SX.sym(n, k) for n, k in (("x", self.states), ("p", self.parameters), ("u", self.inputs),
                                                  ("du", self.inputs), ("t", 1), ("h", 1), ("b", self.states),
                                                  ("s", 1))]
        return StepSymbols(*parts)


@dataclass(frozen=True, eq=False)
class StepSymbols:
    """Symbols in the order of the rows."""

    x: casadi.SX
    p: casadi.SX
    u: casadi.SX
    input_rate: casadi.SX
    t: casadi.SX
    h: casadi.SX
    b: casadi.SX
    s: casadi.SX

    def during_step(self, expression: casadi.SX) -> casadi.SX:
        """The expression at any moment of the step."""
        return casadi.substitute(expression, casadi.vertcat(self.x, self.u, self.t),
                                 casadi.vertcat(self.b, self.u + self.input_rate * self.s, self.t + self.s))

    def function(self, expression: casadi.SX) -> casadi.Function:
        return casadi.Function("verified", [self.x, self.p, self.u, self.input_rate, self.t, self.h, self.b, self.s],
                               [casadi.densify(casadi.vec(expression))], {"cse": True})


def at_start(s: StepSymbols, f: casadi.Function) -> casadi.SX:
    """At the start of the step."""
    return f(s.t, s.x, s.u, s.p)


def during_step(s: StepSymbols, f: casadi.Function) -> casadi.SX:
    """At any moment of the step."""
    return s.during_step(at_start(s, f))


def at_end(s: StepSymbols, f: casadi.Function) -> casadi.SX:
    """At the end of the step, just before the inputs jump."""
    return f(s.t + s.h, s.x, s.u + s.input_rate * s.h, s.p)


class IntervalCondition:
    """Expressions that must be at least zero, over boxes; closed, so that a border belongs to both of its sides."""

    def __init__(self, expressions: Sequence[casadi.SX], s: StepSymbols, rigorous: bool):
        self.rows = len(expressions)
        self.kernel = make_interval_kernel(s.function(casadi.vertcat(*expressions)), rigorous) if expressions else None

    def can_hold(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where no point of the box makes every expression positive, as a transition asks."""
        if self.kernel is None:
            return np.ones(lo.shape[1], bool)
        return np.all(self.kernel.evaluate(lo, hi)[1] > 0, axis=0)

    def contract(self, lo: np.ndarray, hi: np.ndarray) -> Interval:
        """The boxes without parts in which the condition fails; NaN where it fails everywhere."""
        if self.kernel is None:
            return lo, hi
        return self.kernel.contract(lo, hi, np.zeros((self.rows, 1)), np.full((self.rows, 1), np.inf), passes=2)


class IntervalTransition:
    """A transition over boxes: when it can be taken, at the start of a step or during it, and where it leads."""

    def __init__(self, transition: TransitionFunctions, rate: casadi.Function, target: int, s: StepSymbols, rigorous: bool):
        self.target, self.name = target, f"{transition.source} -> {transition.target}"
        self.guard_at_start, self.guard_during = (
            IntervalCondition([moment(s, transition.guard)], s, rigorous) for moment in (at_start, during_step))
        after = casadi.vertsplit(at_start(s, transition.reset))
        self.resets_row = np.array([not casadi.is_equal(row, s.x[k]) for k, row in enumerate(after)], bool)[:, None]
        self.reset_at_start, self.reset_during = (
            make_interval_kernel(s.function(moment(s, transition.reset)), rigorous) for moment in (at_start, during_step))
        g, self.guard_rate = during_step(s, transition.guard), _guard_rate(transition.guard, rate, s)
        self.crossing = None if self.guard_rate is None else IntervalCondition([g, -g], s, rigorous)  # where the guard is zero
        self.rising = None if self.guard_rate is None else IntervalCondition([self.guard_rate], s, rigorous)

    def can_start(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where the guard, not positive at the start, cannot become so within the step.

        Where it is zero it would have to rise: a solution of a smooth mode cannot leave the set in which its guard is not
        positive through a border on which the guard nowhere rises (Nagumo).
        """
        can = self.guard_during.can_hold(lo, hi)
        if self.crossing is None or self.rising is None or not can.any():
            return can
        edge = self.crossing.contract(lo[:, can], hi[:, can])
        can[can] = self.rising.can_hold(*edge)
        return can

    def rows_that_start(self, lo: np.ndarray, hi: np.ndarray) -> Interval:
        """The rows of boxes whose guard, not positive at the start, becomes so within the step: where it does, it rises."""
        low, high = self.guard_during.contract(lo, hi)
        if self.crossing is None or self.rising is None:
            return low, high
        return self.rising.contract(*self.crossing.contract(low, high))


def _guard_rate(guard: casadi.Function, rate: casadi.Function, s: StepSymbols) -> casadi.SX | None:
    """How fast the guard rises during the step; for guards that are affine in the state, else nothing."""
    g = at_start(s, guard)
    slope = casadi.jacobian(g, s.x)
    if casadi.depends_on(slope, casadi.vertcat(s.x, s.p, s.u, s.t)):
        return None
    return s.during_step(slope @ at_start(s, rate) + casadi.jtimes(g, s.u, s.input_rate) + casadi.jtimes(g, s.t, casadi.SX(1)))


class IntervalMode:
    """One mode over boxes: its rate, where it may begin, when it goes on, and how it is left."""

    def __init__(self, model: EquationModel, name: str, s: StepSymbols, rigorous: bool):
        functions = model.mode(name)
        self.name, self.rate = name, functions.rate
        self.rate_is_zero = at_start(s, functions.rate).is_zero()
        leaving = [t for t in model.transitions if t.source == name]
        self.transitions = tuple(IntervalTransition(t, functions.rate, model.modes.index(t.target), s, rigorous)
                                 for t in leaving)
        earlier = model.modes[:model.modes.index(name)]  # where one of these is possible, it is taken
        self.no_earlier_invariant = IntervalCondition([-at_start(s, model.mode(m).invariant) for m in earlier], s, rigorous)
        self.invariant_at_start = IntervalCondition([at_start(s, functions.invariant)] if model.hybrid else [], s, rigorous)
        self.stays_at_start, self.stays_during, self.stays_at_end = (
            IntervalCondition([-moment(s, t.guard) for t in leaving], s, rigorous)
            for moment in (at_start, during_step, at_end))
        self.invariant_during = IntervalCondition([during_step(s, functions.invariant)] if model.hybrid else [], s, rigorous)
        self.guard_rates = IntervalCondition([casadi.SX(1) if t.guard_rate is None else t.guard_rate
                                              for t in self.transitions], s, rigorous)

    def invariant_can_hold(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) false only where the invariant holds nowhere in the enclosure of the step."""
        kernel = self.invariant_during.kernel
        return np.ones(lo.shape[1], bool) if kernel is None else np.all(kernel.evaluate(lo, hi)[1] >= 0, axis=0)

    def must_leave(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) true only where a guard is positive, or not negative and rising, everywhere in the enclosure."""
        if self.stays_during.kernel is None or self.guard_rates.kernel is None:
            return np.zeros(lo.shape[1], bool)
        most = self.stays_during.kernel.evaluate(lo, hi)[1]
        known = np.array([jump.guard_rate is not None for jump in self.transitions])[:, None]
        rising = self.guard_rates.kernel.evaluate(lo, hi)[0] > 0
        return np.any((most < 0) | ((most <= 0) & rising & known), axis=0)


class IntervalAutomaton:
    """All modes of a model; a plain ODE is one mode that is never left. A transition is taken as soon as it can be."""

    def __init__(self, model: EquationModel, rigorous: bool = False):
        self.layout = VariableLayout(len(model.states), len(model.parameters), len(model.inputs))
        self.rigorous = rigorous
        s = self.layout.symbols()
        self.modes = tuple(IntervalMode(model, name, s, rigorous) for name in model.modes)
        self.output = make_interval_kernel(s.function(at_start(s, model.output)), rigorous)
