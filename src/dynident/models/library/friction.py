"""Friction laws: which force opposes a velocity?

A law is text with named parameters, so it can stand in a text model, and it can be called inside a rate function:

    law = viscous() + coulomb(v_smooth=0.01)
    EquationModel(states={"q": "v", "v": "(u - friction)/M"}, definitions={"friction": law.text("v")},
                  inputs=["u"], constants=law.constants)
    def rate(t, x, u, p): return {"q": x.v, "v": (u.u - law(x.v, p))/p.M}

The jump of dry friction at standstill is smoothed over about +-2 v_smooth: the body creeps there instead of sticking.
`law.automaton(...)` gives the same law without smoothing, as modes between which a hybrid model switches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import casadi
import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import Equation
from dynident.models.hybrid import Mode, Transition
from dynident.models.parser import NAME, names_in, parse_expression

SMOOTHINGS = {"tanh": "tanh({v}/v_smooth)", "arctan": "2/pi*atan({v}/v_smooth)"}


@dataclass(frozen=True)
class Term:
    """One part of a law, in the grammar of text models, with {v} for the velocity."""

    force: str  # of a dry part its size, which is against the motion
    direction: str = ""  # of a dry part: what takes the place of sign(v); empty where the force is smooth by itself
    breakaway: str = ""  # of a dry part: the largest force that it holds at standstill

    def smoothed(self) -> str:
        return f"{self.force}*{self.direction}" if self.direction else self.force

    def sliding(self, sign: str) -> str:
        return f"{sign} {self.force}" if self.direction else f"+ {self.force}"


@dataclass(frozen=True)
class FrictionLaw:
    """A force (or torque) against the velocity; laws add with +."""

    terms: tuple[Term, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """The smoothed force."""
        return " + ".join(term.smoothed() for term in self.terms)

    def text(self, velocity: str = "v") -> str:
        """The force as text for a velocity, which is a name or an expression; a sum, so give it a definition."""
        return _at(self.template, velocity)

    def automaton(self, rates: Mapping[str, Equation], push: str, velocity: str = "v", friction: str = "friction"
                  ) -> dict[str, Any]:
        """The law as modes stick, forward and backward: arguments `modes`, `transitions`, `definitions`, `constants`.

        `rates` are those of all states, where the name given as `friction` stands for the force of this law; `push` is
        the force that friction holds in balance while the state `velocity` is zero and stays so.
        """
        return stick_slip(self, rates, push, velocity, friction)

    def sliding(self, velocity: str, forward: bool) -> str:
        """The force while sliding, without any smoothing."""
        return _at(" ".join(term.sliding("+" if forward else "-") for term in self.terms), velocity).removeprefix("+ ")

    def breakaway(self) -> str:
        """The largest force that the law holds at standstill."""
        held = [term.breakaway for term in self.terms if term.breakaway]
        if not held:
            raise ProblemError("this friction law has no dry part, so nothing ever sticks. Add coulomb() or "
                               "stribeck(), or use it without modes.")
        return " + ".join(held)

    def __call__(self, velocity: Any, p: Any) -> Any:
        """The force at a velocity: a symbol, a number or an array; `p` holds the values as attributes or items."""
        if not isinstance(velocity, casadi.SX) and np.ndim(velocity):
            return np.array([self(float(each), p) for each in np.ravel(velocity)]).reshape(np.shape(velocity))
        values = {name: casadi.SX(p[name] if isinstance(p, Mapping) else getattr(p, name))
                  for name in (*self.parameters, *self.constants)}
        force = parse_expression(self.text("velocity"), {**values, "velocity": casadi.SX(velocity)}, "friction law")
        return force if not force.is_constant() else float(force)

    def __add__(self, other: FrictionLaw) -> FrictionLaw:
        differ = [name for name in self.constants if other.constants.get(name, self.constants[name])
                  != self.constants[name]]
        if differ:
            raise ProblemError(f"two friction laws disagree about '{differ[0]}': {self.constants[differ[0]]!r} and "
                               f"{other.constants[differ[0]]!r}. Give both the same value.")
        return FrictionLaw(self.terms + other.terms,
                           tuple(dict.fromkeys(self.parameters + other.parameters)),
                           {**self.constants, **other.constants}, {**self.units, **other.units})


def _at(template: str, velocity: str) -> str:
    return template.replace("{v}", velocity if NAME.fullmatch(velocity) else f"({velocity})")


def viscous() -> FrictionLaw:
    """F = Fv v."""
    return FrictionLaw((Term("Fv*{v}"),), ("Fv",), units={"Fv": "N s/m"})


def coulomb(v_smooth: float = 0.01, smoothing: str = "tanh") -> FrictionLaw:
    """F = Fc tanh(v/v_smooth), or F = Fc (2/pi) arctan(v/v_smooth), which approaches Fc more slowly."""
    return FrictionLaw((Term("Fc", _direction(smoothing), "Fc"),), ("Fc",), {"v_smooth": _width(v_smooth)},
                       {"Fc": "N", "v_smooth": "m/s"})


def stribeck(v_smooth: float = 0.01, smoothing: str = "tanh") -> FrictionLaw:
    """F = (Fc + (Fs - Fc) exp(-(v/vs)^2)) tanh(v/v_smooth): from Fs at rest down to Fc beyond the velocity vs."""
    sliding = Term("(Fc + (Fs - Fc)*exp(-({v}/vs)**2))", _direction(smoothing), "Fs")
    return FrictionLaw((sliding,), ("Fc", "Fs", "vs"),
                       {"v_smooth": _width(v_smooth)}, {"Fc": "N", "Fs": "N", "vs": "m/s", "v_smooth": "m/s"})


def _direction(smoothing: str) -> str:
    if smoothing not in SMOOTHINGS:
        raise ProblemError(f"smoothing '{smoothing}' is not known.{did_you_mean(smoothing, SMOOTHINGS)}")
    return SMOOTHINGS[smoothing]


def _width(v_smooth: float) -> float:
    if not (np.isfinite(v_smooth) and v_smooth > 0):
        raise ProblemError(f"v_smooth = {v_smooth} must be positive: it is the velocity over which the jump is spread.")
    return float(v_smooth)


if TYPE_CHECKING:
    from dynident.models.library.friction import FrictionLaw

STICK, FORWARD, BACKWARD = "stick", "forward", "backward"


def stick_slip(law: FrictionLaw, rates: Mapping[str, Equation], push: str, velocity: str, friction: str
               ) -> dict[str, Any]:
    """The arguments of EquationModel that differ from the smoothed form."""
    if velocity not in rates:
        raise ProblemError(f"stick and slip: the velocity '{velocity}' is not among the rates."
                           f"{did_you_mean(velocity, rates)}")
    definitions = {f"{friction}_{FORWARD}": law.sliding(velocity, True),
                   f"{friction}_{BACKWARD}": law.sliding(velocity, False)}
    push = _named("push", push, definitions)
    held = _named("breakaway", law.breakaway(), definitions)
    at_rest = {**_with(rates, friction, f"({push})"), velocity: 0}
    ahead, back = (_with(rates, friction, name) for name in list(definitions)[:2])
    used = {name for text in definitions.values() for name in names_in(text)}
    return {
        "modes": {
            STICK: Mode(at_rest, invariant=f"{velocity} == 0 and {push} <= {held} and {push} >= -{held}"),
            FORWARD: Mode(ahead, invariant=f"{velocity} > 0 or {velocity} == 0 and {push} > {held}"),
            BACKWARD: Mode(back, invariant=f"{velocity} < 0 or {velocity} == 0 and {push} < -{held}")},
        "transitions": [
            Transition(STICK, FORWARD, when=f"{push} > {held}"),
            Transition(STICK, BACKWARD, when=f"{push} < -{held}"),
            Transition(FORWARD, STICK, when=f"{velocity} < 0", reset={velocity: 0}),
            Transition(BACKWARD, STICK, when=f"{velocity} > 0", reset={velocity: 0})],
        "definitions": definitions,
        "constants": {name: value for name, value in law.constants.items() if name in used}}


def _named(name: str, text: str, definitions: dict[str, str]) -> str:
    """A text that is one name stands for itself; a longer one gets a definition."""
    if NAME.fullmatch(text):
        return text
    definitions[name] = text
    return name


def _with(rates: Mapping[str, Equation], name: str, stands_for: str) -> dict[str, Equation]:
    whole_word = re.compile(rf"\b{re.escape(name)}\b")
    return {state: whole_word.sub(stands_for, rate) if isinstance(rate, str) else rate for state, rate in rates.items()}
