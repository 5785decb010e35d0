"""Davidenko (Newton homotopy, a continuation method): where is F(z) = 0, by following dz/dT = -J(z)^-1 F(z) through an
artificial time?

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

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dynident.boundary.solve_bvp.root_finding import (
    INNER_LOOP,
    FactoredSystem,
    NonlinearSystem,
    RootIteration,
    RootProblem,
    RootResult,
    RootState,
    RootWatch,
    find_root,
    has_ended,
    largest,
    largest_residual,
    linearize,
    tell,
)
from dynident.errors import ProblemError, SimulationDiverged
from dynident.methods.outer_loop import OuterLoop

ESTIMATES = ("trapezoid", "kramer")


@dataclass(frozen=True)
class Davidenko:
    """Options; the defaults are those of Sec. 6.3 of the thesis.

    `absolute`, `relative`: EA and ER of (5.22); `band`: rho; `caution`: alpha of (5.23); `inner_steps`: most steps of the
    inner loop; `inner`: its accuracy, as a share of EA + ER ||y||; `renew_below`, `halve_above`: what happens where the inner
    loop does not converge, by the step in time; `kept`: most time steps with one Jacobian; `switch`: Newton takes over where a
    step is shorter, by default EA, the accuracy of the time stepping (Sec. 6.2); `first`: first step in time; `shortest`: time
    step below which it gives up (232); `tolerance`: largest last Newton step; `estimate`: of the local error, "trapezoid" by
    (5.18) to (5.21) or "kramer" by (5.16), which needs two steps before and takes the first as they are.
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
    switch: float | None = None
    first: float = 0.1
    shortest: float = 1e-4
    longest: float = 1e6
    slow: float = 0.5
    tolerance: float = 1e-6
    max_iterations: int = 250
    estimate: str = "trapezoid"
    name: str = "Davidenko"

    def __post_init__(self) -> None:
        if self.estimate not in ESTIMATES:
            raise ProblemError(f"There is no estimate '{self.estimate}' of the error of a time step; use one of "
                               f"{', '.join(ESTIMATES)}.")

    def solve(self, system: NonlinearSystem, z: np.ndarray, watch: RootWatch | None = None) -> RootResult:
        z = np.array(z, dtype=float)
        switch = self.absolute if self.switch is None else self.switch
        return find_root(DAVIDENKO, RootProblem(self, system, watch),
                         DavidenkoState(z=z, asked=z, h=self.first, switch=switch))


DavidenkoProblem: TypeAlias = RootProblem[Davidenko]


class NewtonPhase(NamedTuple):
    """Full Newton steps near the solution, from where the time stepping stands."""

    z: np.ndarray
    flow: np.ndarray  # the next step
    factors: Any
    fresh: bool = False  # the factors are of this place
    small: bool = False  # by its factors it is the end; those of this place have the last word


@dataclass(frozen=True, eq=False, kw_only=True)
class DavidenkoState(RootState):
    """Where the time stepping stands, and Newton's method where it has taken over."""

    h: float  # the next step in time
    switch: float  # Newton takes over where a step is shorter
    value: np.ndarray = field(default_factory=lambda: np.zeros(0))  # F at z
    flow: np.ndarray = field(default_factory=lambda: np.zeros(0))  # -J^-1 F at z, with the Jacobian that is kept
    factors: Any = None  # of the Jacobian that is kept
    fresh: bool = True  # it is of this place
    new: bool = True  # made for the next iteration
    age: int = 0  # time steps with it
    due: bool = False  # a new one is
    near: bool = False  # the last step was short enough for Newton to take over
    slope: np.ndarray | None = None  # (x_j - x_j-1)/h_j-1 of the last accepted step, and h_j-1
    stride: float = 0.0
    newton: NewtonPhase | None = None


class TimeStep(NamedTuple):
    """Where the inner loop ended; nothing is known of a place that it did not converge to."""

    z: np.ndarray
    value: np.ndarray
    flow: np.ndarray
    evaluations: int
    converged: bool


def error_allowance(problem: DavidenkoProblem, *places: np.ndarray) -> float:
    """The error that a step in time may have, (5.22)."""
    o = problem.options
    return o.absolute + o.relative * min(largest(z, problem.system.scale) for z in places)


# steps


def first_jacobian(problem: DavidenkoProblem, state: DavidenkoState) -> DavidenkoState:
    return linearize(problem, state, state.z, _of_this_place)


def _of_this_place(linear: FactoredSystem) -> dict[str, Any]:
    """The time stepping goes on with this Jacobian."""
    return {"factors": linear.factors, "value": linear.value, "flow": -linear.factors.solve(linear.value), "fresh": True,
            "new": True, "age": 0, "due": False}


def iterate(problem: DavidenkoProblem, state: DavidenkoState) -> DavidenkoState:
    """One step in time, or one of Newton's."""
    if len(state.pages) >= problem.options.max_iterations:
        return state.exhausted(problem.options.max_iterations)
    if state.newton is not None:
        return newton_step(problem, state, state.newton)
    if state.h < problem.options.shortest:
        why = "because the inner loop does not converge, however short the step in time"
        return state.stopped(False, why, INNER_LOOP)
    return time_step(problem, state)


def time_step(problem: DavidenkoProblem, state: DavidenkoState) -> DavidenkoState:
    """One step of the mixed Euler scheme, (5.6)."""
    o, h = problem.options, state.h
    found = inner_loop(problem, state)
    spent: dict[str, Any] = {"asked": found.z, "evaluations": state.evaluations + found.evaluations, "new": False}
    if not found.converged:
        halve = state.fresh or h > o.halve_above
        page = _page(state, problem, "time stepping", h, np.zeros_like(state.z), state.value, accepted=False)
        return replace(state, pages=(*state.pages, page), h=h / 2 if halve else h, due=not halve, **spent)
    gone = found.z - state.z
    ratio = local_error(problem, state, found) / error_allowance(problem, state.z, found.z)  # (5.22)
    wanted = min(o.caution * h / np.sqrt(ratio), o.longest) if ratio > 0 else o.longest  # (5.23)
    accepted = bool(ratio <= o.band)
    page = _page(state, problem, "time stepping", h, gone, found.value if accepted else state.value, accepted)
    spent["pages"] = (*state.pages, page)
    if not accepted:
        renew = wanted < o.renew_below and not state.fresh
        return replace(state, h=o.renew_below if renew else wanted, due=renew, **spent)
    return replace(state, z=found.z, value=found.value, flow=found.flow, fresh=False, h=wanted if ratio < 1 / o.band else h,
                   age=state.age + 1, due=state.age + 1 >= o.kept, near=page.step <= state.switch, slope=gone / h, stride=h,
                   **spent)


def local_error(problem: DavidenkoProblem, state: DavidenkoState, found: TimeStep) -> float:
    """Of a time step, per time: by the embedded trapezoid, or by how much the slope has changed (Kramer)."""
    h, scale = state.h, problem.system.scale
    if problem.options.estimate == "trapezoid":
        trapezoid = state.z + h / 2 * (state.flow + found.flow)  # (5.18)
        return largest(trapezoid - found.z, scale) / h  # (5.21)
    if state.slope is None:
        return error_allowance(problem, state.z, found.z)  # as it is: neither shorter nor longer
    change = (found.z - state.z) / h - state.slope
    return h / 2 * largest(change, scale) * 2 / (h + state.stride)  # (5.16)


def _page(state: DavidenkoState, problem: DavidenkoProblem, phase: str, share: float, step: np.ndarray, value: np.ndarray,
          accepted: bool = True) -> RootIteration:
    made = state.new if state.newton is None else state.newton.fresh
    return RootIteration(len(state.pages) + 1, phase, float(share), largest(step, problem.system.scale),
                         largest_residual(value), made, accepted)


def inner_loop(problem: DavidenkoProblem, state: DavidenkoState) -> TimeStep:
    """(5.12): the next z with F and the flow there, if it converges within a few steps."""
    o, h, y, flow = problem.options, state.h, state.z, state.flow
    update = h * flow / (1 + h)  # (5.11): the first is a damped Newton step
    value = state.value
    for count in range(1, o.inner_steps + 1):
        y = y + update
        try:
            value = problem.system.value(y)
        except SimulationDiverged:
            return TimeStep(y, value, flow, count, False)
        flow = -state.factors.solve(value)
        update = (state.z - y + h * flow) / (1 + h)
        if largest(update, problem.system.scale) <= o.inner * error_allowance(problem, y):
            return TimeStep(y, value, flow, count, True)
    return TimeStep(y, value, flow, o.inner_steps, False)


def newton_step(problem: DavidenkoProblem, state: DavidenkoState, at: NewtonPhase) -> DavidenkoState:
    """A full step with a kept Jacobian, renewed where steps shrink slowly; where they do not, the time stepping goes on."""
    o, scale, z = problem.options, problem.system.scale, at.z + at.flow
    spent: dict[str, Any] = {"asked": z, "evaluations": state.evaluations + 1}
    try:
        trial = problem.system.value(z)
    except SimulationDiverged:
        return handed_back(replace(state, **spent))
    following = -at.factors.solve(trial)
    before, after = largest(at.flow, scale), largest(following, scale)
    shrunk = after / max(before, float(np.finfo(float).tiny))
    small = after <= o.tolerance or (before <= o.tolerance and shrunk < 1)
    if shrunk >= 1 and at.fresh and not small:
        return handed_back(replace(state, **spent))
    due = small or shrunk > o.slow
    if shrunk >= 1 and not small:  # not gone: the Jacobian was old
        return replace(state, due=due, **spent)
    page = _page(state, problem, "newton", 1.0, at.flow, trial)
    return replace(state, newton=NewtonPhase(z, following, at.factors, False, small), due=due,
                   pages=(*state.pages, page), **spent)


def handed_back(state: DavidenkoState) -> DavidenkoState:
    """Newton stalls: the time stepping goes on from where it was, and Newton waits until steps are shorter."""
    return replace(state, switch=state.switch / 10, newton=None, due=True)


def renew_jacobian(problem: DavidenkoProblem, state: DavidenkoState) -> DavidenkoState:
    """A Jacobian of this place where one is due; then Newton's method takes over where the last step was short.

    Converged is what a Jacobian of the last place calls so: an old one may be far from singular where that one is close.
    """
    if state.result is not None:
        return state
    if state.due and state.newton is not None:
        state = _renewed_newton(problem, state, state.newton)
    if state.due and state.newton is None and state.result is None:
        state = linearize(problem, state, state.z, _of_this_place)
    if state.near and state.result is None:
        return replace(state, near=False, newton=NewtonPhase(state.z, state.flow, state.factors))
    return state


def _renewed_newton(problem: DavidenkoProblem, state: DavidenkoState, at: NewtonPhase) -> DavidenkoState:
    def then(linear: FactoredSystem) -> dict[str, Any]:
        return {"newton": NewtonPhase(at.z, -linear.factors.solve(linear.value), linear.factors, True), "due": False}

    try:
        state = linearize(problem, state, at.z, then)
    except SimulationDiverged:
        return handed_back(replace(state, asked=at.z, jacobians=state.jacobians + 1, evaluations=state.evaluations + 1))
    if state.result is not None or state.newton is None:
        return state
    flow = state.newton.flow
    if at.small and largest(flow, problem.system.scale) <= problem.options.tolerance:
        return replace(state, z=at.z + flow).found()
    return state


DAVIDENKO: OuterLoop[DavidenkoProblem, DavidenkoState] = OuterLoop(
    (first_jacobian,), (iterate, tell, renew_jacobian), (), has_ended)
