"""Friction laws: which torque does a joint lose, as parameters times functions of its velocity and load?

Every law is linear in its parameter; the load-dependent one multiplies the torque that the links ask of the joint. The
sign of a velocity is tanh(v / sign_velocity): at rest friction is any torque up to Coulomb's, which no function tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import casadi as ca

from dynident.errors import ProblemError, did_you_mean

SIGN_VELOCITY = 0.01  # rad/s or m/s; below it a joint hardly moves
STRIBECK_VELOCITY = 0.1  # rad/s or m/s; where Stribeck's extra friction has fallen to 1/e

AUTO = "auto"
Laws = tuple[str, ...]


@dataclass(frozen=True)
class JointFriction:
    """A law with one parameter: torque = parameter * column(v, sign, load)."""

    prefix: str  # of the parameter: Fc_2 is Coulomb's of joint 2
    unit: str  # of a revolute joint
    prismatic_unit: str
    column: Callable[[ca.SX, ca.SX, ca.SX], ca.SX]
    meaning: str


FRICTION_LAWS: Mapping[str, JointFriction] = {
    "coulomb": JointFriction("Fc", "N m", "N", lambda v, sign, load: sign, "dry friction, against the motion"),
    "viscous": JointFriction("Fv", "N m s/rad", "N s/m", lambda v, sign, load: v, "proportional to the velocity"),
    "offset": JointFriction("F0", "N m", "N", lambda v, sign, load: ca.SX(1),
                            "a constant torque, such as a current's zero error"),
    "asymmetric": JointFriction("Fa", "N m", "N", lambda v, sign, load: ca.sqrt(sign * sign + 1e-12),
                                "half of what dry friction differs by between both directions"),
    "load": JointFriction("Fl", "", "", lambda v, sign, load: sign * ca.fabs(load),
                        "dry friction that grows with the torque which the links ask of the joint"),
    "cubic": JointFriction("F3", "N m s^3/rad^3", "N s^3/m^3", lambda v, sign, load: v * v * v,
                         "proportional to the third power of the velocity"),
    "stribeck": JointFriction("Fs", "N m", "N", lambda v, sign, load: sign * ca.exp(-(v / STRIBECK_VELOCITY) ** 2),
                            "extra dry friction at low velocity"),
}
CANDIDATES = ("offset", "asymmetric", "load", "cubic", "stribeck")  # what "auto" tries beside Coulomb and viscous


def friction_per_joint(given: str | Sequence[str] | Mapping[str, Sequence[str]], joints: Sequence[str], offset: bool
                       ) -> tuple[Laws, ...]:
    """The laws of each joint; a mapping names joints, by number or by name, and leaves the others without friction."""
    if isinstance(given, str) and given not in (AUTO, "none"):
        given = (given,)
    if isinstance(given, Mapping):
        numbers = {str(i + 1): i for i in range(len(joints))} | {name: i for i, name in enumerate(joints)}
        faults = [f"friction: there is no joint '{key}'.{did_you_mean(str(key), joints)}" for key in given
                  if str(key) not in numbers]
        if faults:
            raise ProblemError(faults)
        chosen: list[Sequence[str]] = [()] * len(joints)
        for key, laws in given.items():
            chosen[numbers[str(key)]] = (laws,) if isinstance(laws, str) else tuple(laws)
    else:
        laws = ("coulomb", "viscous") if given == AUTO else () if given == "none" else tuple(given)
        chosen = [laws] * len(joints)
    unknown = sorted({str(law) for laws in chosen for law in laws if law not in FRICTION_LAWS})
    if unknown:
        raise ProblemError([f"friction '{law}' is not known.{did_you_mean(law, FRICTION_LAWS)}" for law in unknown])
    return tuple(tuple(law for law in FRICTION_LAWS if law in laws or (law == "offset" and offset)) for laws in chosen)


def sign_of(v: ca.SX, sign_velocity: float) -> ca.SX:
    return ca.tanh(v / sign_velocity)
