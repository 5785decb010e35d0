"""Delay: which model is integrated where inputs arrive late, and along which grid?

The rate of a model with `delay(u, theta)` takes, behind the inputs, a channel per delayed input. A held input jumps at the
samples, its delayed copy at the samples shifted by theta: there the grid gets nodes of its own, so that every step sees a
smooth input and simulations are as exact as without a delay.

Derivatives by theta: the added nodes move with theta. Written over a time that does not move, tau, with

    t = tau + c(tau) (theta - theta_0),    c = 1 at shifted nodes, 0 at samples, linear in between,

the model is  dx/dtau = (1 + c' (theta - theta_0)) f(t, x, u, p)  with inputs u + (du/dtheta) (theta - theta_0): a model
without delay on a fixed grid, equal to the one asked for at theta = theta_0, with the same derivative by theta. It is exact for
the discretized model, and continuous in theta, also where a shifted node passes a sample. So every integrator takes it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca

if TYPE_CHECKING:
    from dynident.models.equations import EquationModel


@dataclass(frozen=True, eq=False)
class Delay:
    """One delayed input of a model: which input, and its dead time as a function of the parameters."""

    input: int
    text: str  # "delay(u, theta)"
    dead_time: ca.Function  # p -> theta


class ModelWithoutDelay:
    """A model with delays as one of plain inputs; what looks like a model is enough for everything that integrates."""

    def __init__(self, model: EquationModel, inputs: tuple[str, ...], told: str):
        self.model, self.inputs, self.told = model, inputs, told
        self.states, self.outputs, self.parameters = model.states, model.outputs, model.parameters
        self.constants, self.units, self.modes, self.hybrid = model.constants, model.units, model.modes, False
        self.delays: tuple[Delay, ...] = ()
        self.sample_time: float | None = None
        self.algebraic: tuple[str, ...] = ()  # eliminated already
        self.algebraic_system = None

    def content_hash(self) -> str:
        return f"{self.model.content_hash()} {self.told}"

    def position_velocity(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.model.position_velocity()

    def symbols(self) -> list[ca.SX]:
        return [ca.SX.sym("t"), ca.SX.sym("x", len(self.states)), ca.SX.sym("u", len(self.inputs)),
                ca.SX.sym("p", len(self.parameters))]


class Undelayed(ModelWithoutDelay):
    """The model as it would be without dead times, for first guesses and for what does not depend on them."""

    def __init__(self, model: EquationModel):
        super().__init__(model, model.inputs, "undelayed")

    @functools.cached_property
    def rate(self) -> ca.Function:
        return self._function(self.model.mode(self.modes[0]).rate)

    @functools.cached_property
    def output(self) -> ca.Function:
        return self._function(self.model.channel_output)

    def _function(self, own: ca.Function) -> ca.Function:
        t, x, u, p = arguments = self.symbols()
        late = [u[delay.input] for delay in self.model.delays]
        return ca.Function(own.name(), arguments, [own(t, x, ca.vertcat(u, *late), p)])


class MovingGridModel(ModelWithoutDelay):
    """The model over tau. `moving`: whether derivatives by dead times are wanted; else inputs are just the channels.

    Its inputs: the channels (inputs and delayed inputs); where it moves, also c and c' per delay, the channels' derivatives by
    each dead time, and theta_0.
    """

    def __init__(self, model: EquationModel, moving: bool):
        self.moving = moving
        channels, delays = len(model.inputs) + len(model.delays), len(model.delays)
        extra = delays * (3 + channels) if moving else 0
        super().__init__(model, (*model.inputs, *(f"channel {k}" for k in range(delays + extra))), f"on a moving grid {moving}")
        self.channels = channels

    @functools.cached_property
    def rate(self) -> ca.Function:
        return self._function(self.model.mode(self.modes[0]).rate, True)

    @functools.cached_property
    def output(self) -> ca.Function:
        return self._function(self.model.channel_output, False)

    def _function(self, own: ca.Function, stretched: bool) -> ca.Function:
        t, x, u, p = arguments = self.symbols()
        n, d = self.channels, len(self.model.delays)
        values = u[:n]
        stretch = ca.SX(1)
        if self.moving:
            c, slope, change, reference = u[n:n + d], u[n + d:n + 2 * d], u[n + 2 * d:n + 2 * d + n * d], u[n + 2 * d + n * d:]
            moved = ca.vertcat(*(delay.dead_time(p) for delay in self.model.delays)) - reference
            values = values + ca.reshape(change, n, d) @ moved
            t, stretch = t + ca.dot(c, moved), 1 + ca.dot(slope, moved)
        result = own(t, x, values, p)
        return ca.Function(own.name(), arguments, [stretch * result if stretched else result])


class MapAsRate(ModelWithoutDelay):
    """A model in discrete time as one whose Euler step of length one is the map: dx/dk = F(x, u, p) - x."""

    def __init__(self, model: EquationModel):
        super().__init__(model, model.inputs, "as a map")
        self.step = float(model.sample_time or 0.0)

    @functools.cached_property
    def rate(self) -> ca.Function:
        k, x, u, p = arguments = self.symbols()
        return ca.Function("rate", arguments, [self.model.next_state(k * self.step, x, u, p) - x])

    @functools.cached_property
    def output(self) -> ca.Function:
        k, x, u, p = arguments = self.symbols()
        return ca.Function("output", arguments, [self.model.output(k * self.step, x, u, p)])
