"""Costates (Euler-Lagrange equations): which model do states and costates follow where a model may err, but pays for it?

The estimation model of the thesis, (3.5): x' = Phi(x, u, t) + xi, m = psi(x, u, t) + zeta, where x holds the states and the
parameters that are estimated. Half the sum of xi' W xi, zeta' V zeta over time and of the first state's own weight R0, (3.6),
is smallest where, with the costates lambda = W xi,

    x'      = Phi + W^-1 lambda                                  (3.13a)
    lambda' = -(dPhi/dx)' lambda - (dpsi/dx)' V (m - psi)        (3.13b)
    lambda(begin) = R0 (x(begin) - x0),  lambda(end) = 0         (3.14)

Derivatives come from the equations themselves. Measurements that are single samples let lambda jump instead, by
-(dpsi/dx)' V (m - psi) at each.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca

from dynident.models.equations import EquationModel

COSTATE, MEASURED, WEIGHT, FREEDOM = "costate ", "measured ", "weight ", "freedom "  # before a name that belongs to another


def with_parameters_as_states(model: EquationModel, names: Sequence[str]) -> EquationModel:
    """The augmented state of (3.3): the named parameters stand behind the states, and stand still."""
    return _augmented(model, tuple(names)) if names else model


@functools.lru_cache(maxsize=32)
def _augmented(model: EquationModel, names: tuple[str, ...]) -> EquationModel:
    """Kept for the next fit of the same model, whose reading it would be."""
    said = model.definition()
    said["states"] = {**said["states"], **dict.fromkeys(names, "0")}
    said["parameters"] = [name for name in said["parameters"] if name not in names]
    return EquationModel.from_definition(said)


@dataclass(frozen=True)
class OptimalityModel:
    """Looks like a model to a march: the augmented states, then their costates.

    Inputs: those of the model, what was measured of each output, and the weight of each (0 where nothing was). Parameters:
    those of the model, then W^-1 of each state; 0 where the model does not err.
    """

    model: EquationModel  # parameters that are estimated are states already
    hybrid: ClassVar[bool] = False

    @property
    def states(self) -> tuple[str, ...]:
        return (*self.model.states, *(COSTATE + name for name in self.model.states))

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.model.inputs, *(MEASURED + name for name in self.model.outputs),
                *(WEIGHT + name for name in self.model.outputs))

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.model.outputs

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.model.parameters, *(FREEDOM + name for name in self.model.states))

    @property
    def rate(self) -> ca.Function:
        s = _Symbols(self)
        Phi = self.model.rate(s.t, s.x, s.u, s.p)
        return ca.Function("rate", s.arguments, [ca.densify(ca.vertcat(
            Phi + s.freedom * s.costate, -ca.jtimes(Phi, s.x, s.costate, True) + s.pull()))])

    @property
    def jump(self) -> ca.Function:
        """States and costates behind a single sample, from those before it."""
        s = _Symbols(self)
        return ca.Function("jump", s.arguments, [ca.densify(ca.vertcat(s.x, s.costate + s.pull()))])

    @property
    def output(self) -> ca.Function:
        s = _Symbols(self)
        return ca.Function("output", s.arguments, [ca.densify(s.y)])

    @property
    def cost_rate(self) -> ca.Function:
        """Integrand of the functional (3.6), without its factor 1/2: xi' W xi + zeta' V zeta, with xi = W^-1 lambda."""
        s = _Symbols(self)
        missed = s.measured - s.y
        return ca.Function("cost_rate", s.arguments, [
            ca.dot(s.freedom * s.costate, s.costate) + ca.dot(s.weight * missed, missed)])

    def content_hash(self) -> str:
        return hashlib.sha256(f"optimality {self.model.content_hash()}".encode()).hexdigest()


class _Symbols:
    """The arguments of the whole, cut into what they mean."""

    def __init__(self, whole: OptimalityModel):
        model = whole.model
        nx, nu, ny, np_ = len(model.states), len(model.inputs), len(model.outputs), len(model.parameters)
        t, X = ca.SX.sym("t"), ca.SX.sym("x", 2 * nx)
        given, p = ca.SX.sym("u", nu + 2 * ny), ca.SX.sym("p", np_ + nx)
        self.arguments = [t, X, given, p]
        self.t, self.x, self.costate = t, X[:nx], X[nx:]
        self.u, self.measured, self.weight = given[:nu], given[nu:nu + ny], given[nu + ny:]
        self.p, self.freedom = p[:np_], p[np_:]
        self.y = model.output(self.t, self.x, self.u, self.p)

    def pull(self) -> ca.SX:
        """-(dpsi/dx)' V (m - psi)"""
        return -ca.jtimes(self.y, self.x, self.weight * (self.measured - self.y), True)
