"""Tableau: a scheme as numbers. Where does a step ask for rates, and how do its stages and its end combine them?

A scheme is a formula (`scheme.py`). Here it is followed once with symbols for the rates, which gives the weights of all its
combinations: those of the Butcher tableau, and the same for schemes that treat positions and velocities each in their own way.
`stages.c` is the step; what stands here is printed in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.integrators.scheme import Explicit, Implicit, StepFunction

COMPARED_DEPTH = 20  # operations down to which two expressions are compared
ALL, POSITIONS, VELOCITIES = 0, 0, 1  # rows of a combination: one for all states, or one for each of these two


@dataclass(frozen=True)
class WeightedTerm:
    """weight * h**power * one vector: the state ("x"), a stage ("z") or a rate ("k"); of it, its positions or velocities."""

    weight: float
    power: int
    source: str
    index: int
    part: int


Combination = tuple[tuple[WeightedTerm, ...], ...]  # one row for all states, or one for positions and one for velocities


@dataclass(frozen=True)
class Tableau:
    """One step: rates at `states` at `fractions` of it, equations between the stages, and the next state."""

    fractions: tuple[float, ...]
    states: tuple[Combination, ...]
    equations: tuple[Combination, ...]  # per stage, zero at the solution; none: explicit
    next_state: Combination

    @property
    def stages(self) -> int:
        return len(self.equations)

    @property
    def rates(self) -> int:
        return len(self.fractions)

    @property
    def nested(self) -> bool:
        """A rate is asked for at a state that depends on other rates, in a step that is implicit."""
        return bool(self.equations) and any(term.source == "k" for state in self.states for row in state for term in row)

    @property
    def closing_rates(self) -> bool:
        """The next state needs rates, not only stages."""
        return any(term.source == "k" for row in self.next_state for term in row)


class _Trace:
    """A rate that answers with symbols and remembers where it was asked."""

    def __init__(self, parts: int, forces_by_position: bool):
        self.parts, self.compared = parts, 1 if forces_by_position else parts
        self.fractions: list[float] = []
        self.states: list[ca.SX] = []
        self.rates: list[ca.SX] = []

    def __call__(self, t: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX) -> ca.SX:
        fraction = float(ca.SX(t))  # of a step that begins at 0
        for k, (known, at) in enumerate(zip(self.states, self.fractions, strict=True)):
            if at == fraction and all(ca.is_equal(known[i], x[i], COMPARED_DEPTH) for i in range(self.compared)):
                return self.rates[k]
        self.fractions.append(fraction)
        self.states.append(ca.SX(x))
        self.rates.append(ca.SX.sym(f"k{len(self.rates)}", self.parts))
        return self.rates[-1]


def tableau_of(scheme: Explicit | Implicit, forces_by_position: bool = False) -> Tableau:
    """`forces_by_position`: the velocities' rates do not depend on velocities, so that fewer rates are asked for."""
    parts = 2 if scheme.position_velocity else 1
    implicit = isinstance(scheme, Implicit)
    x, z = ca.SX.sym("x", parts), ca.SX.sym("z", parts * (scheme.stages if isinstance(scheme, Implicit) else 0))
    unit, double = (_followed(scheme, x, z, ca.SX(h), parts, forces_by_position) for h in (1.0, 2.0))
    symbols = [("x", 0, x), *(("z", i, z[i * parts:(i + 1) * parts]) for i in range(z.numel() // parts)),
               *(("k", i, k) for i, k in enumerate(unit[0].rates))]
    renamed = ca.substitute([ca.vertcat(*_expressions(double))], double[0].rates, unit[0].rates)[0]
    once, twice = (_weights(e, ca.vertcat(*[s for _, _, s in symbols])) for e in (ca.vertcat(*_expressions(unit)), renamed))
    rows = [_row(a, b, symbols, parts) for a, b in zip(once, twice, strict=True)]
    combinations = [tuple(rows[k:k + parts]) for k in range(0, len(rows), parts)]
    asked = len(unit[0].states)
    return Tableau(tuple(unit[0].fractions), tuple(combinations[:asked]),
                   tuple(combinations[asked:-1]) if implicit else (), combinations[-1])


def _followed(scheme: Explicit | Implicit, x: ca.SX, z: ca.SX, h: ca.SX, parts: int, forces_by_position: bool
              ) -> tuple[_Trace, ca.SX, ca.SX]:
    """The rates asked for in a step of length h, the equations of the stages and the next state."""
    rate, nothing = _Trace(parts, forces_by_position), ca.SX(0, 1)
    pairs = parts - 1  # of a position and its velocity
    step = StepFunction(rate, ca.SX(0), h, x, nothing, nothing, nothing, (POSITIONS,) * pairs, (VELOCITIES,) * pairs)
    if isinstance(scheme, Implicit):
        equations = scheme.equations(step, z)
        following = scheme.next_state(step, z)
    else:
        equations, following = ca.SX(0, 1), scheme.next_state(step)
    rate.fractions = [fraction / float(h) for fraction in rate.fractions]
    return rate, equations, following


def _expressions(followed: tuple[_Trace, ca.SX, ca.SX]) -> list[ca.SX]:
    return [*followed[0].states, followed[1], followed[2]]


def _weights(expression: ca.SX, symbols: ca.SX) -> np.ndarray:
    slope = ca.jacobian(expression, symbols)
    if ca.symvar(slope):
        raise ValueError("a scheme's states must be linear in the state, the stages and the rates")
    return np.asarray(ca.evalf(ca.densify(slope)))


def _row(once: np.ndarray, twice: np.ndarray, symbols: Sequence[tuple[str, int, ca.SX]], parts: int
         ) -> tuple[WeightedTerm, ...]:
    """Terms of one row; how a weight grows with the step says which power of it there is."""
    terms = []
    for column in map(int, np.flatnonzero(once)):
        source, index, _ = symbols[column // parts]
        power = int(np.round(np.log2(twice[column] / once[column])))
        terms.append(WeightedTerm(float(once[column]), power, source, index, column % parts))
    return tuple(terms)
