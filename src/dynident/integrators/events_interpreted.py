"""Events interpreted: `integrators/events.c` in Python, for computers without a C compiler; the same steps and formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dynident.integrators.events import NO_MODE, NOT_FINITE, TOO_MANY, TOUCHED, UNDEFINED, EventPropagatorKey, event_error
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation, allocate
from dynident.tolerances import EVENT_AT_ONCE, EVENT_TIME, SAME_MOTION

MOST_EVENTS, MOST_LOOKS, SMALLEST_PART = 100, 200, 45  # as in event_location.c, with its reasons


class Ended(Exception):
    """The propagation cannot go on; `why` is one of the reasons of events.c."""

    def __init__(self, why: int):
        self.why = why


class Evaluator:
    """A function that reads and writes memory of its own: a tenth of the time of a plain call."""

    def __init__(self, function: ca.Function):
        self.buffer, self.evaluate = function.buffer()
        self.arguments = [np.zeros(function.nnz_in(k)) for k in range(function.n_in())]
        self.results = [np.zeros(function.nnz_out(k)) for k in range(function.n_out())]
        self.shapes = [function.size_out(k) for k in range(function.n_out())]
        for k, memory in enumerate(self.arguments):
            if memory.size:
                self.buffer.set_arg(k, memory.data)  # type: ignore[call-arg]
        for k, memory in enumerate(self.results):
            if memory.size:
                self.buffer.set_res(k, memory.data)  # type: ignore[call-arg]

    def __call__(self, arguments: Sequence[Any]) -> list[np.ndarray]:
        for memory, argument in zip(self.arguments, arguments, strict=True):
            memory[:] = np.ravel(argument)
        self.evaluate()
        return [memory.reshape(shape, order="F").copy()
                for memory, shape in zip(self.results, self.shapes, strict=True)]


class InterpretedEventPropagator:
    """One call into CasADi's machine per step, guard and reset."""

    def __init__(self, recipe: EventPropagatorKey):
        self.recipe = recipe
        self.segment: Callable[..., InterpretedSegment] = InterpretedSegment
        self.made = {name: [Evaluator(f) for f in group] for name, group in recipe.functions().items()}

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        out = allocate(grid, len(first) - 1, self.recipe.sizes, sensitivities, reuse, modes=True)
        walk = self.segment(self.recipe, self.made, grid, p, sensitivities)
        largest = np.max(np.abs(nodes), axis=0)
        for i, (begin, end) in enumerate(itertools.pairwise(first)):
            k = int(begin)
            try:
                walk.begin(k, nodes[i], i == 0, largest)
                walk.restart()
                for k in range(int(begin), int(end)):
                    walk.look(k, out)
                    walk.interval(k, out)
                if i == len(first) - 2:
                    k = int(end)
                    walk.look(k, out)
                elif not np.all(np.isfinite(walk.x)):
                    raise Ended(NOT_FINITE)
            except Ended as ended:
                time = float(grid.time[k]) + walk.s
                raise event_error(self.recipe.model, ended.why, time, k, walk.last, nodes[i]) from None
            out.end_states[i] = walk.x
            if out.end_jacobian is not None:
                out.end_jacobian[i] = walk.S
        return out


class InterpretedSegment:
    """Where the march is: mode, state, sensitivities, and the derivative T of the time at which the step began."""

    def __init__(self, recipe: EventPropagatorKey, made: dict[str, list[Evaluator]], grid: Grid, p: np.ndarray, sens: bool):
        self.recipe, self.made, self.grid, self.p, self.sens = recipe, made, grid, p, sens
        self.nx, nq = recipe.sizes[0], recipe.sizes[0] + recipe.sizes[3]
        self.x, self.S, self.T = np.zeros(self.nx), np.eye(self.nx, nq), np.zeros(nq)
        self.g, self.slope = np.zeros(0), np.zeros(0)  # margins out of the mode, and how fast they grow
        self.held = np.zeros(0, bool)  # transitions back to the mode itself whose condition held at a fresh begin
        self.mode, self.last, self.events, self.s, self.step, self.fresh = -1, -1, 0, 0.0, 0.0, False

    def begin(self, k: int, x: np.ndarray, first: bool, largest: np.ndarray) -> None:
        on = not first and bool(np.all(np.abs(x - self.x) <= SAME_MOTION * largest))
        self.x, self.s = np.array(x, float), 0.0
        self.S, self.fresh = np.eye(*self.S.shape), not first and not on
        if on:
            self.enter(self.mode)
            return
        if first and self.grid.first_mode >= 0:
            self.enter(self.grid.first_mode)
            return
        possible = np.flatnonzero(self.made["possible"][0]([
            self.grid.time[k], self.x, self.grid.u_node[k], self.p])[0] > 0.5)
        if not possible.size and first:
            raise Ended(NO_MODE)
        self.enter(int(possible[0]) if possible.size and self.mode not in possible else self.mode)

    def enter(self, mode: int) -> None:
        self.mode, self.held = mode, np.zeros(max(1, len(self.recipe.leaving[mode])), bool)

    def look(self, k: int, out: Propagation) -> None:
        self.s = 0.0
        if not np.all(np.isfinite(self.x)):
            raise Ended(NOT_FINITE)
        assert out.modes is not None
        out.states[k], out.modes[k] = self.x, self.mode
        if not self.grid.output_mask[k]:
            return
        y, *by = self.made["out_jac" if self.sens else "out"][0]([
            self.grid.time[k], self.x, self.grid.u_node[k], self.p])
        out.outputs[k] = y.ravel()
        if out.jacobian is not None:
            out.jacobian[k] = by[0][:, :self.nx] @ self.S
            out.jacobian[k][:, self.nx:] += by[0][:, self.nx:]
        if not (np.all(np.isfinite(y)) and (out.jacobian is None or np.all(np.isfinite(out.jacobian[k])))):
            raise Ended(NOT_FINITE)

    def interval(self, k: int, out: Propagation) -> None:
        assert out.modes is not None
        grid, count = self.grid, int(self.grid.substeps[k])
        length = grid.time[k + 1] - grid.time[k]
        self.t, self.u, self.du = grid.time[k], grid.u_begin[k], (grid.u_end[k] - grid.u_begin[k]) / length
        self.s, self.step, self.events = 0.0, length / count, 0
        self.T[:] = 0
        self.settle()
        out.modes[k] = self.mode
        self.march(k, length, count)

    def march(self, k: int, length: float, count: int) -> None:
        """From the begin of an interval to its end."""
        for m in range(1, count + 1):
            self.events = 0
            end = length if m == count else m * self.step
            while not self.advance(end):
                pass

    def restart(self) -> None:
        """Steps begin anew; those of a formula know of no others."""

    def accepted(self) -> None:
        """A step was taken as a whole."""

    # the pieces of a step, named as in events.c

    def after(self, s1: float, by: bool) -> list[np.ndarray]:
        return self.made["step_jac" if by else "step"][self.mode]([
            self.t, self.s, s1, self.x, self.u, self.du, self.p])

    def here(self, name: str, which: int, s: float, x: np.ndarray) -> list[np.ndarray]:
        return self.made[name][which]([self.t, s, x, self.u, self.du, self.p])

    def margins(self, s: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g, slope = self.here("entry", self.mode, s, x)
        return g.ravel(), slope.ravel()

    def best_of(self, g: np.ndarray) -> tuple[float, int]:
        leaving, count = self.recipe.leaving[self.mode], ~self.held & ~np.isnan(g)
        if not leaving or not np.any(count):
            return -math.inf if leaving else -1.0, -1
        best = int(np.argmax(np.where(count, g, -math.inf)))
        return float(g[best]), leaving[best]

    def undefined(self, g: np.ndarray) -> int:
        lost = np.flatnonzero(np.isnan(g))
        return self.recipe.leaving[self.mode][lost[0]] if lost.size else -1

    def margins_after(self, s: float) -> np.ndarray:
        x = self.after(s, False)[0]
        g = self.here("guards", self.mode, s, x)[0].ravel()
        return g if np.all(np.isfinite(x)) else np.full(g.size, math.nan)

    def largest_after(self, s: float) -> tuple[float, int]:
        return self.best_of(self.margins_after(s))

    def undefined_behind(self, s: float) -> bool:
        return self.undefined(self.margins_after(s + EVENT_AT_ONCE * self.step)) >= 0

    def peak(self, s1: float, g1: np.ndarray, slope1: np.ndarray) -> tuple[float, float, int]:
        h = s1 - self.s
        for d0, d1, rise, held in zip(h * self.slope, h * slope1, g1 - self.g, self.held, strict=True):
            if held or not (d0 > 0 > d1):
                continue
            a, b = 3 * (d0 + d1 - 2 * rise), 2 * (3 * rise - 2 * d0 - d1)
            s = self.s + h * 2 * d0 / (math.sqrt(b * b - 4 * a * d0) - b)
            if self.s < s < s1:
                g, which = self.largest_after(s)
                if g > 0:
                    return s, g, which
        return s1, -1.0, -1

    def carry(self, by: np.ndarray, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        nq = T.size
        moved = by[:, :self.nx] @ S + np.outer(by[:, nq], T)
        moved[:, self.nx:] += by[:, self.nx:nq]
        return moved

    def jump(self, transition: int) -> None:
        x, *by = self.here("reset_jac" if self.sens else "reset", transition, self.s, self.x)
        if self.sens:
            self.S = self.carry(by[0], self.S, self.T)
        self.x, self.last = x.ravel(), transition
        if self.mode != self.recipe.targets[transition]:
            self.enter(self.recipe.targets[transition])
        self.restart()
        self.events += 1
        if self.events > MOST_EVENTS:
            raise Ended(TOO_MANY)

    def stays(self, g: np.ndarray, slope: np.ndarray) -> np.ndarray:
        return g + EVENT_AT_ONCE * self.step * slope > 0

    def settle(self) -> None:
        while True:
            if not np.all(np.isfinite(self.x)):
                raise Ended(NOT_FINITE)
            self.g, self.slope = self.margins(self.s, self.x)
            leaving = self.recipe.leaving[self.mode]
            if self.fresh and leaving:
                back = np.array([self.recipe.targets[k] == self.mode for k in leaving])
                self.held = back & (self.g > 0)
            enabled = (self.g > 0) & np.where(self.held, self.slope > 0, self.stays(self.g, self.slope))
            if not np.any(enabled):
                break
            self.jump(leaving[int(np.argmax(enabled))])
        self.fresh = False
        if self.undefined(self.g) >= 0 and self.undefined_behind(self.s):
            self.last = self.undefined(self.g)
            raise Ended(UNDEFINED)

    def grows_anew(self) -> bool:
        self.held = self.held & (self.g > 0)
        return bool(np.any(self.held & (self.slope > 0)))

    def located(self, low: float, g_low: float, high: float, g_high: float, which: int) -> tuple[float, int]:
        before, side = high - low, 0
        for look in range(MOST_LOOKS):
            if high - low <= EVENT_TIME * self.step:
                break
            slow = look % 3 == 2 and high - low > 0.5 * before
            s = 0.5 * (low + high) if slow else high - (high - low) * g_high / (g_high - g_low)
            before = high - low if look % 3 == 2 else before
            s = s if low < s < high else 0.5 * (low + high)
            if not low < s < high:
                break
            g, found = self.largest_after(s)
            if g > 0:
                g_low = 0.5 * g_low if side > 0 else g_low
                high, g_high, which, side = s, g, found, 1
            else:
                g_high = 0.5 * g_high if side < 0 else g_high
                low, g_low, side = s, min(g, 0.0), -1
        return high, which

    def brink(self, s1: float) -> tuple[float, float, int, int]:
        low, high = self.s, s1
        while high - low > EVENT_TIME * self.step and low < 0.5 * (low + high) < high:
            s = 0.5 * (low + high)
            g = self.margins_after(s)
            largest, which = self.best_of(g)
            if self.undefined(g) >= 0:
                high = s
            elif largest > 0:
                return s, largest, which, -1
            else:
                low = s
        g = self.margins_after(high)
        return high, *self.best_of(g), self.undefined(g)

    def first_at(self, s: float, otherwise: int) -> int:
        stays = ~self.held & self.stays(*self.margins(s, self.after(s, False)[0]))
        return self.recipe.leaving[self.mode][int(np.argmax(stays))] if np.any(stays) else otherwise

    def go(self, s1: float) -> None:
        """To the event at s1, with the derivative of its time still to come."""
        x, *by = self.after(s1, self.sens)
        self.x = x.ravel()
        if self.sens:
            self.S = self.carry(by[0], self.S, self.T)
            self.speed = by[0][:, -1]

    def cross(self, s1: float, transition: int) -> None:
        self.go(s1)
        if self.sens:
            by = self.here("guard_jac", transition, s1, self.x)[1]
            speed = float(by[0, -1] + by[0, :self.nx] @ self.speed)
            if not abs(speed) > 0:
                raise Ended(TOUCHED)
            self.T = -self.carry(by, self.S, np.zeros_like(self.T))[0] / speed
            self.S = self.S + np.outer(self.speed, self.T)
        self.s = s1
        self.jump(transition)

    def high_end(self, s1: float, x: np.ndarray, g: np.ndarray, slope: np.ndarray) -> tuple[float, float, int]:
        """A place with a positive margin, the margin, and whose it is; where there is none, the margin is not positive."""
        finite = bool(np.all(np.isfinite(x)))
        if finite and self.undefined(g) < 0:
            largest, which = self.best_of(g)
            return (s1, largest, which) if largest > 0 else self.peak(s1, g, slope)
        if not self.recipe.leaving[self.mode]:
            raise Ended(NOT_FINITE)
        high, largest, which, lost = self.brink(s1)
        if not largest > 0 and not finite:
            raise Ended(NOT_FINITE)
        if not largest > 0 and (high < s1 or self.undefined_behind(s1)):
            self.s, self.last = high, lost
            raise Ended(UNDEFINED)
        return high, largest, which

    def advance(self, s1: float) -> bool:
        """To s1, or to the first event before it; whether s1 was reached."""
        x, *by = self.after(s1, self.sens)
        g, slope = self.margins(s1, x)
        high, g_high, which = self.high_end(s1, x, g, slope)
        anew = False
        if g_high > 0:
            low, (g_low, _) = self.s, self.best_of(self.g)
            for parts in range(1, SMALLEST_PART + 1):
                if not g_low > 0:
                    break
                low = self.s + math.ldexp(high - self.s, -parts)
                g_low = self.largest_after(low)[0]
            event, which = (low, which) if g_low > 0 else self.located(low, g_low, high, g_high, which)
            self.cross(event, self.first_at(event, which))
            self.settle()
            if self.s < s1:
                return False
            x, *by = self.after(s1, self.sens)  # of no length: brings the sensitivities to the time s1
        else:
            self.accepted()
            self.g, self.slope = g, slope
            anew = self.grows_anew()
        self.x, self.s = x.ravel(), s1
        if self.sens:
            self.S = self.carry(by[0], self.S, self.T)
            self.T[:] = 0
        if anew:
            self.settle()
        return True
