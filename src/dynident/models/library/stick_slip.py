"""Stick and slip: how does a friction law become modes and transitions?

    stick     v stays zero; friction balances the push
    forward   v > 0, the dry force pulls back
    backward  v < 0, the dry force pulls forward

A body breaks away where the push exceeds what the law holds at standstill, and comes to rest where v crosses zero. If
the push is then too large for rest, it slides on the other way at once. These are S2, S3 and S1 of Fig. 3 in Rauh,
Senkel, Aschemann (verified identification of a drive train).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import Equation
from dynident.models.hybrid import Mode, Transition
from dynident.models.parser import NAME, names_in

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
