"""Hybrid automaton: the modes and transitions of a model as CasADi functions of (t, x, u, p)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi

from dynident.models.definition import ModelDefinition, column_vector, parse, read_condition
from dynident.models.guards import holds_equality, switching_function

ARGUMENTS = ["t", "x", "u", "p"]


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

    def function(self, name: str, expressions: Sequence[casadi.SX], result: str) -> casadi.Function:
        filled = casadi.substitute(column_vector(expressions), *self.constants)
        return casadi.Function(name, list(self.arguments), [casadi.densify(filled)], ARGUMENTS, [result], {"cse": True})


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

    def modes(self, make: Maker) -> tuple[ModeFunctions, ...]:
        return tuple(ModeFunctions(
            name, make.function("rate", rates, "dx"), make.function("possible", [self.invariants[name]], "holds"),
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
