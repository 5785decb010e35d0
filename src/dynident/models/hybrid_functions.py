"""Hybrid automaton: the modes, guards and resets of a model as CasADi functions of (t, x, u, p).

A condition is an expression that is 1 where it holds and 0 elsewhere. Its guard (switching function) is positive inside of
the set where it holds, negative outside, and zero on the border, so that a zero crossing can be located: the guard of
`v > a` is v - a, of two conditions joined by `and` the smaller one, joined by `or` the larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import casadi

from dynident.models.definition import ModelDefinition, column_vector, parse, read_condition

ARGUMENTS = ("t", "x", "u", "p")
COMPARISONS = {casadi.OP_LT: "<", casadi.OP_LE: "<=", casadi.OP_EQ: "==", casadi.OP_NE: "!="}
JOINS: dict[int, tuple[str, Callable]] = {casadi.OP_AND: ("and", casadi.fmin), casadi.OP_OR: ("or", casadi.fmax)}


def is_condition(expression: casadi.SX) -> bool:
    """Whether the expression is 1 or 0 by its form."""
    return any(expression.is_op(kind) for kind in (*COMPARISONS, *JOINS, casadi.OP_NOT))


def switching_function(condition: casadi.SX) -> casadi.SX:
    """A number that is positive inside of the set where the condition holds, zero on its border."""
    if condition.is_constant():
        return casadi.SX(1.0 if float(condition) else -1.0)
    for kind, (_, join) in JOINS.items():
        if condition.is_op(kind):
            return join(switching_function(condition.dep(0)), switching_function(condition.dep(1)))
    if condition.is_op(casadi.OP_NOT):
        return -switching_function(condition.dep(0))
    if condition.is_op(casadi.OP_EQ):
        return -casadi.fabs(condition.dep(0) - condition.dep(1))  # a set without an inside: zero where it holds
    if condition.is_op(casadi.OP_NE):
        return casadi.fabs(condition.dep(0) - condition.dep(1))
    if condition.is_op(casadi.OP_LT) or condition.is_op(casadi.OP_LE):
        return condition.dep(1) - condition.dep(0)
    return condition


def holds_equality(condition: casadi.SX) -> bool:
    """Whether == or != stands in it, which time passes without a change of sign."""
    if condition.is_op(casadi.OP_EQ) or condition.is_op(casadi.OP_NE):
        return True
    return is_condition(condition) and any(holds_equality(condition.dep(k)) for k in range(condition.n_dep()))


def condition_pattern(condition: casadi.SX, sides: list[casadi.SX]) -> str:
    """The condition as a pattern such as '({0} < {1}) and ({2} <= {3})'; the numbers in it are added to `sides`."""
    for kind, sign in COMPARISONS.items():
        if condition.is_op(kind):
            sides += [condition.dep(0), condition.dep(1)]
            return f"{{{len(sides) - 2}}} {sign} {{{len(sides) - 1}}}"
    for kind, (word, _) in JOINS.items():
        if condition.is_op(kind):
            return f"({condition_pattern(condition.dep(0), sides)}) {word} ({condition_pattern(condition.dep(1), sides)})"
    if condition.is_op(casadi.OP_NOT):
        return f"not ({condition_pattern(condition.dep(0), sides)})"
    sides.append(condition)
    return f"{{{len(sides) - 1}}} > 0"


@dataclass(frozen=True, eq=False)
class ModeFunctions:
    """One mode: how the states move in it, and where it is possible."""

    name: str
    rate: casadi.Function  # -> dx
    possible: casadi.Function  # -> 1 where the invariant holds exactly as written, else 0
    invariant: casadi.Function  # -> its margin: never negative where the mode is possible


@dataclass(frozen=True, eq=False)
class TransitionFunctions:
    """One transition: taken as soon as the guard is positive; the states then start anew from the reset."""

    source: str
    target: str
    when: str
    guard: casadi.Function  # -> g
    reset: casadi.Function  # -> x_after


@dataclass(frozen=True)
class Maker:
    """Makes functions of (t, x, u, p) with the constants put in."""

    arguments: Sequence[casadi.SX]
    constants: tuple[casadi.SX, casadi.SX]  # symbols and values
    names: tuple[str, ...] = ARGUMENTS

    def filled(self, expressions: Sequence[casadi.SX]) -> casadi.SX:
        """One below the other."""
        return casadi.densify(casadi.substitute(column_vector(expressions), *self.constants))

    def function(self, name: str, expressions: Sequence[casadi.SX], result: str) -> casadi.Function:
        return casadi.Function(name, list(self.arguments), [self.filled(expressions)], list(self.names), [result],
                               {"cse": True})

    def of_parameters(self, name: str, expression: casadi.SX) -> casadi.Function:
        """A function of the parameters alone."""
        return casadi.Function(name, [self.arguments[3]], [casadi.densify(casadi.substitute(expression, *self.constants))])


@dataclass(frozen=True)
class Automaton:
    """The expressions of all modes and transitions."""

    written: ModelDefinition
    rates: Mapping[str, list[casadi.SX]]
    invariants: Mapping[str, casadi.SX]
    conditions: Sequence[casadi.SX]
    resets: Sequence[list[casadi.SX]]

    def expressions(self) -> list[casadi.SX]:
        return [*(rate for rates in self.rates.values() for rate in rates), *self.invariants.values(), *self.conditions,
                *(value for reset in self.resets for value in reset)]

    def modes(self, make: Maker, rate: casadi.Function | None = None) -> tuple[ModeFunctions, ...]:
        """With the `rate` of the only mode, where it is not what the equations say as they stand."""
        return tuple(ModeFunctions(
            name, rate or make.function("rate", rates, "dx"), make.function("possible", [self.invariants[name]], "holds"),
            make.function("invariant", [switching_function(self.invariants[name])], "margin"))
            for name, rates in self.rates.items())

    def transitions(self, make: Maker) -> tuple[TransitionFunctions, ...]:
        return tuple(TransitionFunctions(
            said.source, said.target, said.when, make.function("guard", [switching_function(condition)], "g"),
            make.function("reset", reset, "x_after"))
            for said, condition, reset in zip(self.written.transitions, self.conditions, self.resets, strict=True))

    def guard_faults(self, moving: Sequence[casadi.SX], all_read: bool) -> list[str]:
        """Conditions that can never begin to hold while time passes; `moving` are time, states and inputs.

        Where not all texts could be read, a constant may stand for one of those.
        """
        faults = []
        changing = {symbol.element_hash() for symbol in moving}
        for said, condition in zip(self.written.transitions, self.conditions, strict=True):
            used = {symbol.element_hash() for symbol in casadi.symvar(condition)}
            if holds_equality(condition):
                faults.append(f"{said.label}: \"{said.when}\" compares with == or !=, which time passes without a "
                              "change of sign. Use < or >.")
            elif not used & changing and (used or all_read):
                faults.append(f"{said.label}: \"{said.when}\" depends on no state, no input and not on time, so it "
                              "never begins to hold.")
        return faults


def read_automaton(written: ModelDefinition, known: Mapping[str, casadi.SX], faults: list[str]) -> Automaton:
    """All texts of motion as expressions."""
    def inside(mode: str) -> str:
        return f" in mode '{mode}'" if mode else ""

    rates = {name: [parse(mode.rate.get(state, "0"), known, f"rate of '{state}'{inside(name)}", faults)
                    for state in written.states] for name, mode in written.modes.items()}
    invariants = {name: read_condition(mode.invariant, known, f"invariant of mode '{name}'", faults)
                  for name, mode in written.modes.items()}
    conditions = [read_condition(each.when, known, each.label, faults) for each in written.transitions]
    resets = [[parse(each.reset.get(state, state), known, f"{each.label}: reset of '{state}'", faults)
               for state in written.states] for each in written.transitions]
    return Automaton(written, rates, invariants, conditions, resets)
