"""Scheme: what an integrator must say about one step in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

Rate = Callable[[Any, Any, Any, Any], Any]  # (t, x, u, p) -> dx/dt


@dataclass(frozen=True)
class StepFunction:
    """One step from x at time t over h, with the inputs at its two ends (they move linearly between them)."""

    rate: Rate
    t: ca.SX
    h: ca.SX
    x: ca.SX
    u_begin: ca.SX
    u_end: ca.SX
    p: ca.SX
    positions: tuple[int, ...] = ()  # indices of position states; only where a scheme asks for them
    velocities: tuple[int, ...] = ()

    def rate_at(self, x: ca.SX, fraction: float) -> ca.SX:
        """dx/dt for the state x at a fraction of the step."""
        u = self.u_begin if fraction == 0 else self.u_end if fraction == 1 else (
            (1 - fraction) * self.u_begin + fraction * self.u_end)
        return self.rate(self.t + fraction * self.h, x, u, self.p)


@dataclass(frozen=True)
class Explicit:
    """A scheme whose next state is a formula."""

    name: str
    order: int
    next_state: Callable[[StepFunction], ca.SX] = field(repr=False)
    position_velocity: bool = False  # takes only models of the form q' = v, v' = f(q, v)
    linearly_implicit: bool = False  # the formula holds the rate's Jacobian: for filters, which ask for a formula alone
    summary: str = ""


@dataclass(frozen=True)
class Implicit:
    """A scheme whose next state follows from equations in its stages (each as large as the state)."""

    name: str
    order: int
    stages: int
    equations: Callable[[StepFunction, ca.SX], ca.SX] = field(repr=False)  # (step, stages) -> residual, zero at the root
    next_state: Callable[[StepFunction, ca.SX], ca.SX] = field(repr=False)
    points: tuple[float, ...] = (1.0,)  # where in the step each stage is the state
    position_velocity: bool = False
    summary: str = ""


@dataclass(frozen=True)
class Adaptive:
    """An integrator that chooses its own steps to meet a tolerance."""

    name: str
    plugin: str  # CasADi's name for it; none: our own loop in C
    relative_tolerance: float
    position_velocity: bool = False
    summary: str = ""


@dataclass(frozen=True)
class Multistep:
    """A scheme that reaches back to the node before the step's begin; for full discretization, which has all nodes at hand.

    `equation` takes (step, ratio of this step to the one before, state there, rate there, state at the end) and is zero at
    the end of the step. With a ratio of 0 it is the one-step scheme `start`, by which it begins, and begins anew where the
    inputs jump and the past is of another course.
    """

    name: str
    order: int
    start: str
    needs_smooth_rates: bool  # its order needs rates without bends, so that it begins anew where an input bends
    equation: Callable[[StepFunction, ca.SX, ca.SX, ca.SX, ca.SX], ca.SX] = field(repr=False)
    position_velocity: bool = False
    summary: str = ""


Integrator = Explicit | Implicit | Adaptive  # of one step
AnyIntegrator = Integrator | Multistep


def runge_kutta_step(step: StepFunction, c: Sequence[float], a: Sequence[Sequence[float]], b: Sequence[float]) -> ca.SX:
    """The next state by an explicit Runge-Kutta scheme given as its tableau."""
    rates: list[ca.SX] = []
    for fraction, row in zip(c, a, strict=True):
        x = step.x
        for weight, rate in zip(row, rates, strict=True):
            if weight:
                x = x + step.h * weight * rate
        rates.append(step.rate_at(x, fraction))
    total = sum(weight * rate for weight, rate in zip(b, rates, strict=True) if weight)
    return step.x + step.h * total
