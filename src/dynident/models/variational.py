"""Variational model: the sensitivities of the states as further states (forward sensitivities), and inputs to be varied.

    x' = f(t, x, u, p),  S' = (df/dx) S + df/dq     eq. (15) of the input design paper, q: unknowns
    u = given + sum_j delta_j slope_j               so that d/d delta at delta = 0 is the derivative along a signal

A simulation of it, with derivatives with respect to delta, gives how the sensitivities answer to a change of the input,
exactly as the scheme computes them: the variational equation of a scheme is the scheme of the variational equation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np

from dynident.models.equations import EquationModel
from dynident.models.parser import parse_expression

RATE_OF = "der_"  # der_v is the rate of the state v in an expression


@dataclass(frozen=True)
class VariationalModel:
    """Looks like a model to a propagator: names, `rate`, `output`, `content_hash`.

    `initial` and `free` are the unknown initial states and parameters (indices), `pairs` says which coefficient moves
    which input as pairs (input, coefficient), `monitored` are expressions to be followed. Time runs `stretch` times as
    fast as the grid says; `stretch` is the last parameter.
    """

    model: EquationModel
    initial: tuple[int, ...]
    free: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    coefficients: int
    monitored: tuple[str, ...] = ()
    hybrid: ClassVar[bool] = False
    sample_time: ClassVar[None] = None
    delays: ClassVar[tuple[()]] = ()
    algebraic: ClassVar[tuple[str, ...]] = ()  # eliminated already
    algebraic_system: ClassVar[None] = None

    @property
    def unknowns(self) -> int:
        return len(self.initial) + len(self.free)

    @property
    def states(self) -> tuple[str, ...]:
        return (*self.model.states, *(f"{s}/{k}" for k in range(self.unknowns) for s in self.model.states))

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.model.inputs, *(f"slope {i} {j}" for i, j in self.pairs))

    @property
    def outputs(self) -> tuple[str, ...]:
        seen = tuple(f"{y}/{k}" for k in range(self.unknowns) for y in self.model.outputs)
        return (*self.model.outputs, *seen, *self.monitored)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.model.parameters, *(f"delta {j}" for j in range(self.coefficients)), "stretch")

    @property
    def varied(self) -> tuple[int, ...]:
        """Indices of the coefficients and of the stretch among the parameters: what a propagator differentiates for."""
        return tuple(range(len(self.model.parameters), len(self.parameters)))

    def first_state(self, x0: np.ndarray) -> np.ndarray:
        """The initial state with its sensitivities: one for an unknown initial state, zero for a parameter."""
        S = np.zeros((len(self.model.states), self.unknowns))
        S[list(self.initial), range(len(self.initial))] = 1.0
        return np.concatenate([x0, S.ravel(order="F")])

    def values(self, p: np.ndarray, stretch: float = 1.0) -> np.ndarray:
        return np.concatenate([p, np.zeros(self.coefficients), [stretch]])

    @property
    def rate(self) -> ca.Function:
        s = self._symbols()
        f = self.model.rate(s.t, s.x, s.u, s.p)
        q = s.p[list(self.free), 0]
        own = ca.horzcat(ca.SX.zeros(f.shape[0], len(self.initial)), ca.jacobian(f, q))
        dS = ca.jacobian(f, s.x) @ s.S + own
        moved = s.stretch * ca.vertcat(f, ca.vec(ca.densify(dS)))
        return ca.Function("rate", s.arguments, [s.substitute(moved)])

    @property
    def output(self) -> ca.Function:
        s = self._symbols()
        y = self.model.output(s.t, s.x, s.u, s.p)
        own = ca.horzcat(ca.SX.zeros(y.shape[0], len(self.initial)), ca.jacobian(y, s.p[list(self.free), 0]))
        J = ca.jacobian(y, s.x) @ s.S + own
        followed = monitored_expressions(self.model, self.monitored, s.t, s.x, s.u, s.p)
        return ca.Function("output", s.arguments, [s.substitute(ca.vertcat(y, ca.vec(ca.densify(J)), *followed))])

    def content_hash(self) -> str:
        said = (self.model.content_hash(), self.initial, self.free, self.pairs, self.coefficients, self.monitored)
        return hashlib.sha256(f"variational {said!r}".encode()).hexdigest()

    def _symbols(self) -> _VariationalSymbols:
        return _VariationalSymbols(self)


class _VariationalSymbols:
    """The arguments of the whole, and the parts that the model's own functions take."""

    def __init__(self, whole: VariationalModel):
        model, nx, nu = whole.model, len(whole.model.states), len(whole.model.inputs)
        clock, state = ca.SX.sym("t"), ca.SX.sym("x", nx * (1 + whole.unknowns))
        given, p = ca.SX.sym("u", len(whole.inputs)), ca.SX.sym("p", len(whole.parameters))
        self.arguments = [clock, state, given, p]
        self.t, self.x, self.u, self.p = (ca.SX.sym(n, k) for n, k in
                                          (("tm", 1), ("xm", nx), ("um", nu), ("pm", len(model.parameters))))
        self.S = ca.reshape(state[nx:], nx, whole.unknowns)
        self.stretch = p[-1]
        delta = p[len(model.parameters):-1]
        u = [given[i] for i in range(nu)]
        for place, (i, j) in enumerate(whole.pairs):
            u[i] = u[i] + delta[j] * given[nu + place]
        moved = ca.vertcat(*u) if u else ca.SX(0, 1)
        self.replacements = ([self.t, self.x, self.u, self.p],
                      [clock * self.stretch, state[:nx], moved, p[:len(model.parameters)]])

    def substitute(self, expression: ca.SX) -> ca.SX:
        """The model's own symbols replaced by the parts of the whole."""
        return ca.densify(ca.substitute([expression], *self.replacements)[0])


def monitored_expressions(model: EquationModel, texts: Sequence[str], t: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX
                        ) -> list[ca.SX]:
    """Expressions of states, inputs, outputs, parameters, constants, time and rates of states (`der_v`)."""
    f, y = model.rate(t, x, u, p), model.output(t, x, u, p)
    known = {"t": t, **{n: ca.SX(v) for n, v in model.constants.items()}}
    known |= {n: y[k] for k, n in enumerate(model.outputs)}
    for names, symbols in ((model.parameters, p), (model.inputs, u), (model.states, x)):
        known |= {name: symbols[k] for k, name in enumerate(names)}
    known |= {f"{RATE_OF}{n}": f[k] for k, n in enumerate(model.states)}
    return [parse_expression(text, known, f"constraint '{text}'") for text in texts]
