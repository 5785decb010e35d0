"""Davidenko: where is F(z) = 0, by following dz/dT = -J(z)^-1 F(z) through an artificial time?

Chapter 5 of the thesis. A step of the mixed Euler scheme (5.6) is found by an inner loop with a kept Jacobian (5.12); its
length follows from the error that an embedded trapezoid shows, (5.18) to (5.23); near the solution full Newton steps take
over, and hand back where they stall (Sec. 6.2). Numbers of Sec. 6.3 are the defaults. Where the text is silent:

- Ratio > rho rejects a step; Ratio < 1/rho accepts it and enlarges the next.
- The inner loop has converged when its update is below `inner` of what the error may be, EA + ER ||y||.
- A controller that asks for less than `renew_below` with an old Jacobian gets a new one, and begins at `renew_below`.
- "A few" time steps with one Jacobian (Sec. 5.2.2) are at most `kept`: steps that are all accepted would never renew it.
- The smaller of ||x_j|| and ||x_j+1|| stands in (5.22): else one long step could leap over a pole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.root_finding import (
    INNER_LOOP,
    TOO_MANY,
    NonlinearSystem,
    RootIterationLog,
    RootResult,
    Watch,
    ended,
    largest,
)
from dynident.errors import SimulationDiverged
from dynident.solvers.solver_result import iterations_in_words


@dataclass(frozen=True)
class Davidenko:
    """Options; the defaults are those of Sec. 6.3 of the thesis.

    `absolute`, `relative`: EA and ER of (5.22); `band`: rho; `caution`: alpha of (5.23); `inner_steps`: most steps of the
    inner loop; `inner`: its accuracy, as a share of EA + ER ||y||; `renew_below`, `halve_above`: what happens where the inner
    loop does not converge, by the step in time; `kept`: most time steps with one Jacobian; `switch`: Newton takes over where a
    step is shorter; `first`: first step in time; `shortest`: time step below which it gives up (232); `tolerance`: largest
    last Newton step.
    """

    absolute: float = 0.05
    relative: float = 0.05
    band: float = 4.0
    caution: float = 0.9
    inner_steps: int = 4
    inner: float = 0.1
    renew_below: float = 0.05
    halve_above: float = 0.1
    kept: int = 12
    switch: float = 0.05
    first: float = 0.1
    shortest: float = 1e-4
    longest: float = 1e6
    slow: float = 0.5
    tolerance: float = 1e-6
    iterations: int = 250
    name: str = "Davidenko"

    def solve(self, system: NonlinearSystem, z: np.ndarray, watch: Watch | None = None) -> RootResult:
        return ended(_DavidenkoRun(self, system, np.array(z, dtype=float), RootIterationLog(system, watch)))


class _DavidenkoRun:
    """The state of one solve. `flow` is -J^-1 F at z, with the Jacobian that is kept."""

    def __init__(self, options: Davidenko, system: NonlinearSystem, z: np.ndarray, diary: RootIterationLog):
        self.options, self.system, self.z, self.diary = options, system, z, diary
        self.h = options.first
        self.switch = options.switch

    def renew(self) -> None:
        """A Jacobian of this place."""
        linear = self.diary.linearize(self.z)
        self.factors, self.value, self.fresh = linear.factors, linear.value, True
        self.flow = -self.factors.solve(self.value)
        self.new, self.age = True, 0

    def size(self, z: np.ndarray) -> float:
        return largest(z, self.system.scale)

    def allowed(self, *places: np.ndarray) -> float:
        return self.options.absolute + self.options.relative * min(self.size(z) for z in places)

    def go(self) -> RootResult:
        self.renew()
        while len(self.diary.pages) < self.options.iterations:
            if self.h < self.options.shortest:
                why = "because the inner loop does not converge, however short the step in time"
                return self.diary.root(self.z, False, why, INNER_LOOP)
            if self.time_step() and self.last_step <= self.switch and self.newton():
                return self.diary.root(self.z, True, f"after {iterations_in_words(len(self.diary.pages))}", 0)
        return self.diary.root(self.z, False, f"at the limit of {iterations_in_words(self.options.iterations)}", TOO_MANY)

    def time_step(self) -> bool:
        """One step of the mixed Euler scheme, (5.6); whether it was accepted."""
        o, h, made = self.options, self.h, self.new
        self.new = False
        found = self.inner_loop(h)
        if found is None:
            self.diary.write("time stepping", h, np.zeros_like(self.z), self.value, made, accepted=False)
            if self.fresh or h > o.halve_above:
                self.h = h / 2
            else:
                self.renew()
            return False
        z, value, flow = found
        trapezoid = self.z + h / 2 * (self.flow + flow)  # (5.18)
        ratio = self.size(trapezoid - z) / h / self.allowed(self.z, z)  # (5.21), (5.22)
        wanted = min(o.caution * h / np.sqrt(ratio), o.longest) if ratio > 0 else o.longest  # (5.23)
        accepted = bool(ratio <= o.band)
        self.diary.write("time stepping", h, z - self.z, value if accepted else self.value, made, accepted)
        if accepted:
            self.last_step = self.size(z - self.z)
            self.z, self.value, self.flow, self.fresh = z, value, flow, False
            if ratio < 1 / o.band:
                self.h = wanted
            self.age += 1
            if self.age >= o.kept:
                self.renew()
        elif wanted < o.renew_below and not self.fresh:
            self.renew()
            self.h = o.renew_below
        else:
            self.h = wanted
        return accepted

    def inner_loop(self, h: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(5.12): the next z with F and the flow there; None where it does not converge within a few steps."""
        y, update = self.z, h * self.flow / (1 + h)  # (5.11): the first is a damped Newton step
        for _ in range(self.options.inner_steps):
            y = y + update
            try:
                value = self.diary.value(y)
            except SimulationDiverged:
                return None
            flow = -self.factors.solve(value)
            update = (self.z - y + h * flow) / (1 + h)
            if self.size(update) <= self.options.inner * self.allowed(y):
                return y, value, flow
        return None

    def newton(self) -> bool:
        """Full steps with a kept Jacobian, renewed where they shrink slowly; False hands back to the time stepping.

        Converged is what a Jacobian of the last place calls so: an old one may be far from singular where that one is close.
        """
        o, scale = self.options, self.system.scale
        z, flow, factors, fresh = self.z, self.flow, self.factors, False
        while len(self.diary.pages) < o.iterations:
            made = fresh
            try:
                trial = self.diary.value(z + flow)
            except SimulationDiverged:
                return self.handed_back()
            following = -factors.solve(trial)
            shrunk = largest(following, scale) / max(largest(flow, scale), float(np.finfo(float).tiny))
            small = largest(following, scale) <= o.tolerance or (largest(flow, scale) <= o.tolerance and shrunk < 1)
            if shrunk >= 1 and fresh and not small:
                return self.handed_back()
            if shrunk < 1 or small:
                self.diary.write("newton", 1.0, flow, trial, made)
                z, flow, fresh = z + flow, following, False
            if small or shrunk > o.slow:
                try:
                    linear = self.diary.linearize(z)
                except SimulationDiverged:
                    return self.handed_back()
                factors, fresh = linear.factors, True
                flow = -factors.solve(linear.value)
            if small and largest(flow, scale) <= o.tolerance:
                self.z = z + flow
                return True
        return False

    def handed_back(self) -> bool:
        """Newton stalls: the time stepping goes on from where it was, and Newton waits until steps are shorter."""
        self.switch /= 10
        self.renew()
        return False
