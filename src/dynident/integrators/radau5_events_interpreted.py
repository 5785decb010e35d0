"""Radau 5 through events, interpreted: `radau5_events.c` in Python, for computers without a C compiler; the same steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import casadi as ca
import numpy as np

from dynident.integrators.events import NO_STEP, EventPropagatorKey
from dynident.integrators.events_interpreted import Ended, InterpretedEventPropagator, InterpretedSegment
from dynident.integrators.radau5_interpreted import (
    POINT,
    STEPS_PER_INTERVAL,
    WEIGHTS,
    Attempt,
    InputSpan,
    NoWay,
    RadauSteps,
    Walk,
    interpolation_weights,
    newton_matrix,
)
from dynident.integrators.scheme import Adaptive
from dynident.integrators.step_functions import symbols

COUNTED = 1e-3  # as in events.c, with its reason


class InterpretedRadauEvents(InterpretedEventPropagator):
    """One call into CasADi's machine per rate, guard and reset."""

    def __init__(self, recipe: EventPropagatorKey):
        super().__init__(recipe)
        assert isinstance(recipe.integrator, Adaptive)
        self.segment = partial(_RadauSegment, _mode_steps(recipe, recipe.integrator.relative_tolerance))


def _mode_steps(recipe: EventPropagatorKey, tolerance: float) -> list[RadauSteps]:
    """One a mode; the last input slot of `rate_by` carries the inputs and their slope."""
    model = recipe.model
    s = symbols(model)
    t, x, u, p = s["t"], s["x"], s["u0"], s["p"]
    du, since = ca.SX.sym("du", u.numel()), ca.SX.sym("s")
    made = []
    for name in model.modes:
        f = ca.densify(model.mode(name).rate(t + since, x, u + since * du, p))
        by = [ca.densify(ca.jacobian(f, of)) for of in (x, p[list(recipe.free), 0], since)]
        f, *by = ca.substitute([f, *by], [since], [ca.SX(0)])
        place = [t, x, ca.vertcat(u, du), p]
        made.append(RadauSteps(ca.Function("rate", place, [f]), ca.Function("rate_by", place, [f, *by]), tolerance))
    return made


class _RadauSegment(InterpretedSegment):
    """Steps of the mode's rate, whose lengths meet a tolerance."""

    def __init__(self, steps: list[RadauSteps], *arguments: Any):
        super().__init__(*arguments)
        self.steps, self.walk = steps, Walk(self.x, np.zeros(0), np.zeros(self.nx))
        self.tried: Attempt | None = None
        self.span = InputSpan(0.0, 1.0, np.zeros(0), np.zeros(0), self.p)

    def begin(self, k: int, x: np.ndarray, first: bool, largest: np.ndarray) -> None:
        super().begin(k, x, first, largest)
        self.walk = Walk(self.x, np.zeros(0), np.zeros(self.nx))

    def restart(self) -> None:
        self.tried = None
        self.walk.h = self.walk.h_before = self.walk.length = 0.0
        self.walk.refused = False
        self.walk.spare += STEPS_PER_INTERVAL

    def interval(self, k: int, out: Any) -> None:
        grid = self.grid
        length = grid.time[k + 1] - grid.time[k]
        slope = (grid.u_end[k] - grid.u_begin[k]) / length
        if k > 0 and np.any(grid.u_begin[k] != grid.u_end[k - 1]):
            self.walk.length = 0.0
        self.span = InputSpan(grid.time[k], length, np.append(grid.u_begin[k], slope), np.append(grid.u_end[k], slope), self.p)
        self.walk.x = self.x
        self.walk.enter()
        super().interval(k, out)

    def march(self, k: int, length: float, count: int) -> None:
        counted = 0.0
        while self.s < length:
            self.advance(self._chosen_end(length))
            if self.s > counted + COUNTED * length:
                counted, self.events = self.s, 0

    def _chosen_end(self, length: float) -> float:
        """Of a step that meets the tolerance."""
        self.walk.x, self.tried = self.x, None
        while self.walk.spare > 0:
            try:
                tried = self.steps[self.mode].attempt(self.walk, self.span, self.s)
            except NoWay:
                break
            if tried is not None:
                end = length if tried.whole else self.s + tried.h
                self.tried = Attempt(end - self.s, tried.whole, tried.z, tried.error)  # as it is rounded
                self.step, self.began = self.tried.h, self.s
                return float(end)
            self.walk.spare -= 1
        raise Ended(NO_STEP)

    def accepted(self) -> None:
        assert self.tried is not None
        self.steps[self.mode].accept(self.walk, self.tried)

    def after(self, s1: float, by: bool) -> list[np.ndarray]:
        steps, h = self.steps[self.mode], s1 - self.s
        tried = self.tried if self.tried is not None and self.began == self.s else None
        self.walk.x = self.x
        if tried is not None and h == tried.h:
            z = tried.z
        else:
            guess = np.tile(self.x, (3, 1))
            if tried is not None:
                guess = guess + interpolation_weights(POINT * h / tried.h) @ (tried.z - self.x)
            found = steps.settled(self.span, self.s, h, self.walk, guess)
            z = np.full((3, self.nx), np.nan) if found is None else found[0]
        if not by:
            return [z[-1]]
        return [z[-1], self._derivatives(steps, h, z)]

    def _derivatives(self, steps: RadauSteps, h: float, z: np.ndarray) -> np.ndarray:
        """By the state, the free parameters, and the begin and the end of the step; the formulas are in radau5_events.c."""
        nx, made = self.nx, steps.jacobians(self.span, self.s, h, z)
        columns = np.array([np.hstack([np.zeros((nx, nx)), h * m[2], -m[0] + h * (1 - c) * m[3], m[0] + h * c * m[3]])
                            for c, m in zip(POINT, made, strict=True)])
        right = np.eye(nx, columns.shape[2]) + np.tensordot(WEIGHTS, columns, axes=1)
        return np.linalg.solve(newton_matrix(h, [m[1] for m in made]), right.reshape(3 * nx, -1))[2 * nx:]
