"""Radau 5 interpreted: `radau5.c` in Python, for computers without a C compiler; the same steps, formulas and step size
control (Gustafsson)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.implicit import RADAU, collocation_weights
from dynident.integrators.propagation import NO_WAY, Propagation, allocate, divergence_error
from dynident.integrators.propagation_interpreted import first_sensitivities
from dynident.integrators.scheme import Adaptive
from dynident.integrators.step_functions import symbols, unknowns_jacobian
from dynident.models.equations import EquationModel
from dynident.tolerances import RADAU_NEWTON_STALLED, RADAU_NEWTON_STEP, RADAU_SHORTEST_STEP, RADAU_WHOLE_STEP

# the numbers of radau5.c, with its reasons
SAFETY, LARGEST_GROWTH, SMALLEST_GROWTH, GAMMA, SMALL_STATE, ROUNDING = (
    0.9, 8.0, 0.2, 3.6378342527444957, 1e-2, 1e-14)  # of a new step, and of sizes: radau5.c says each
MOST_STEPS, STEPS_PER_INTERVAL, CORRECTIONS, FACTORS = 5000, 20, 8, 3
POINT = np.array(RADAU.points)
WEIGHTS = collocation_weights(POINT)[0]
ERROR_WEIGHT = np.array([-10.048809399827415, 1.3821427331607488, -1 / 3])


class NoWay(Exception):
    """The tolerance cannot be met."""


@dataclass
class Walk:
    """Where a segment stands between two steps."""

    x: np.ndarray
    S: np.ndarray
    largest: np.ndarray
    h: float = 0.0  # proposed for the next step
    h_before: float = 0.0
    error_before: float = 0.0
    refused: bool = False  # an attempt at the step to come was
    spare: int = MOST_STEPS  # steps that may still be taken in the segment
    length: float = 0.0  # of the step that `move` belongs to; 0: nothing is known of it
    move: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))  # (stages, states) from its begin

    def enter(self) -> None:
        """An interval begins."""
        self.largest = np.maximum(self.largest, np.abs(self.x))
        self.spare += STEPS_PER_INTERVAL


@dataclass(frozen=True)
class InputSpan:
    """Inputs that move linearly over a time."""

    t: float
    length: float
    u_begin: np.ndarray
    u_end: np.ndarray
    p: np.ndarray

    def at(self, since: float) -> tuple[float, np.ndarray, np.ndarray]:
        return self.t + since, self.u_begin + since / self.length * (self.u_end - self.u_begin), self.p


@dataclass(frozen=True)
class Attempt:
    """A step that meets the tolerance."""

    h: float
    whole: bool  # to the end of the interval
    z: np.ndarray  # (stages, states)
    error: float


class RadauSteps:
    """Steps of a rate, which is given as functions of (t, x, u, p): the rate, and the rate with derivatives, by x first."""

    def __init__(self, rate: ca.Function, rate_by: ca.Function, tolerance: float):
        self.rate, self.rate_by, self.tolerance = rate, rate_by, tolerance

    def attempt(self, walk: Walk, span: InputSpan, done: float) -> Attempt | None:
        """Try a step from `done` on in an interval; None after a refusal, which proposes a shorter one."""
        left = span.length - done
        f = self._rate(span, done, walk.x)
        if not np.all(np.isfinite(f)):
            raise NoWay
        if not walk.h > 0:
            walk.h = _first_step(walk.x, f, self._scale(walk, walk.x), span.length)
        whole = walk.h >= left * (1 - RADAU_WHOLE_STEP)
        h = left if whole else 0.5 * left if walk.h > 0.5 * left else walk.h
        if h < RADAU_SHORTEST_STEP * span.length:
            raise NoWay
        found = self.settled(span, done, h, walk, _predicted(walk, h))
        if found is None and walk.length > 0:
            walk.length = 0.0
            return None
        error = np.inf if found is None else self._error(walk, span, done, h, f, *found, walk.refused or walk.h_before == 0)
        if found is not None and error < 1:
            return Attempt(h, whole, found[0], error)
        walk.h = h * (max(SMALLEST_GROWTH, SAFETY * error**-0.25) if np.isfinite(error) else 0.25)
        walk.refused = True
        return None

    def accept(self, walk: Walk, tried: Attempt) -> None:
        """What an accepted step says about the next one; leads to its end."""
        h, error = tried.h, tried.error
        growth = SAFETY * max(error, 1e-10)**-0.25
        if walk.h_before > 0:
            growth = min(growth, growth * h / walk.h_before * (max(walk.error_before, 1e-2) / max(error, 1e-10))**0.25)
        growth = min(1.0 if walk.refused else LARGEST_GROWTH, max(SMALLEST_GROWTH, growth))
        walk.h = max(walk.h, h * growth) if h < walk.h else h * growth
        walk.h_before, walk.error_before, walk.refused = h, max(error, 1e-2), False
        walk.move, walk.length = tried.z - walk.x, h
        walk.x = tried.z[-1].copy()
        walk.largest = np.maximum(walk.largest, np.abs(walk.x))

    def jacobians(self, span: InputSpan, done: float, h: float, z: np.ndarray) -> list[list[np.ndarray]]:
        """Rates and their derivatives at the stages."""
        made = []
        for c, at in zip(POINT, z, strict=True):
            t, u, p = span.at(done + c * h)
            made.append([np.asarray(m) for m in self.rate_by(t, at, u, p)])
        return made

    def settled(self, span: InputSpan, done: float, h: float, walk: Walk, z: np.ndarray
                ) -> tuple[np.ndarray, np.ndarray] | None:
        """The stages down to rounding, and the Jacobian of the first of them where it was last asked for."""
        x, before = walk.x, np.inf
        for _ in range(FACTORS):
            made = self.jacobians(span, done, h, z)
            matrix, k = newton_matrix(h, [m[1] for m in made]), np.array([m[0].ravel() for m in made])
            for correction in range(CORRECTIONS):
                if correction > 0:
                    k = np.array([self._rate(span, done + c * h, at) for c, at in zip(POINT, z, strict=True)])
                lack = z - x - h * WEIGHTS @ k
                if not (np.all(np.isfinite(lack)) and np.all(np.isfinite(matrix))):
                    return None
                try:
                    step = np.linalg.solve(matrix, lack.ravel()).reshape(z.shape)
                except np.linalg.LinAlgError:
                    return None
                z = z - step
                size = _norm(step, self._scale(walk, *z))
                if not np.isfinite(size):
                    return None
                ratio = size / before if correction > 0 else np.inf
                left = size * ratio / (1 - ratio) if ratio < 1 else np.inf
                stalled = size <= RADAU_NEWTON_STALLED and 0.5 < ratio < np.inf
                if min(size, left) <= RADAU_NEWTON_STEP or stalled:
                    return z, made[0][1]
                if correction > 0 and ratio > 0.9:
                    break
                before = size
        return None

    def _rate(self, span: InputSpan, since: float, x: np.ndarray) -> np.ndarray:
        t, u, p = span.at(since)
        return np.asarray(self.rate(t, x, u, p)).ravel()

    def _scale(self, walk: Walk, *places: np.ndarray) -> np.ndarray:
        size = np.max(np.abs([walk.x, *places]), axis=0)
        largest = np.max(np.maximum(size, walk.largest), initial=0.0)
        return self.tolerance * (size + SMALL_STATE * walk.largest) + ROUNDING * largest + 1e-300

    def _error(self, walk: Walk, span: InputSpan, done: float, h: float, f: np.ndarray, z: np.ndarray, J: np.ndarray,
               again: bool) -> float:
        scale, x = self._scale(walk, z[-1]), walk.x
        matrix = GAMMA / h * np.eye(len(x)) - J
        sum_ = ERROR_WEIGHT @ (z - x) / h
        try:
            error = np.linalg.solve(matrix, f + sum_)
            if _norm(error, scale) >= 1 and again:
                error = np.linalg.solve(matrix, self._rate(span, done, x + error) + sum_)
        except np.linalg.LinAlgError:
            return np.inf
        size = _norm(error, scale)
        return size if np.isfinite(size) else np.inf


class InterpretedRadau5:
    """One call into CasADi's machine per rate."""

    def __init__(self, model: EquationModel, integrator: Adaptive, free: tuple[int, ...]):
        self.model = model
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        s = symbols(model)
        place = [s["t"], s["x"], s["u0"], s["p"]]
        f, y = model.rate(*place), model.output(*place)
        self.steps = RadauSteps(ca.Function("rate", place, [ca.densify(f)]),
                                ca.Function("rate_by", place, [ca.densify(f), *self._slopes(f, s, free)]),
                                integrator.relative_tolerance)
        self.look = ca.Function("look", place, [ca.densify(y), *self._slopes(y, s, free)])

    def _slopes(self, value: ca.SX, s: dict[str, ca.SX], free: tuple[int, ...]) -> list[ca.SX]:
        whole = ca.densify(unknowns_jacobian(value, s, free))
        return [whole[:, :self.sizes[0]], whole[:, self.sizes[0]:]]

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        nx, _, _, nf = self.sizes
        out = allocate(grid, len(first) - 1, self.sizes, sensitivities)
        for i, (begin, end) in enumerate(itertools.pairwise(first)):
            walk = Walk(np.array(nodes[i], float), first_sensitivities(grid, i, nx, nf), np.zeros(nx))
            for k in range(int(begin), int(end)):
                self._observe(grid, k, walk, p, out)
                if grid.time[k + 1] == grid.time[k]:  # measured again at the same time
                    continue
                if k > 0 and np.any(grid.u_begin[k] != grid.u_end[k - 1]):
                    walk.length = 0.0
                span = InputSpan(grid.time[k], grid.time[k + 1] - grid.time[k], grid.u_begin[k], grid.u_end[k], p)
                try:
                    self._interval(walk, span, sensitivities)
                except NoWay:
                    raise SimulationDiverged(float(grid.time[k + 1]), k + 1, what=NO_WAY) from None
            if i == len(first) - 2:
                self._observe(grid, int(end), walk, p, out)
            out.end_states[i] = walk.x
            if out.end_jacobian is not None:
                out.end_jacobian[i] = walk.S
        return out

    def _observe(self, grid: Grid, k: int, walk: Walk, p: np.ndarray, out: Propagation) -> None:
        out.states[k] = walk.x
        y, by_x, by_p = (np.asarray(v) for v in self.look(grid.time[k], walk.x, grid.u_node[k], p))
        if not np.all(np.isfinite(walk.x)) or (grid.output_mask[k] and not np.all(np.isfinite(y))):
            raise divergence_error(self.model, grid, k, walk.x, y.ravel())
        if not grid.output_mask[k]:
            return
        out.outputs[k] = y.ravel()
        if out.jacobian is not None:
            out.jacobian[k] = by_x @ walk.S
            out.jacobian[k][:, self.sizes[0]:] += by_p

    def _interval(self, walk: Walk, span: InputSpan, sensitivities: bool) -> None:
        done, walk.refused = 0.0, False
        walk.enter()
        while walk.spare > 0:
            walk.spare -= 1
            tried = self.steps.attempt(walk, span, done)
            if tried is None:
                continue
            if sensitivities:
                walk.S = self._chain(walk.S, tried.h, self.steps.jacobians(span, done, tried.h, tried.z))
            self.steps.accept(walk, tried)
            if tried.whole:
                return
            done += tried.h
        raise NoWay

    def _chain(self, S: np.ndarray, h: float, made: list[list[np.ndarray]]) -> np.ndarray:
        nx = self.sizes[0]
        by_parameters = np.array([np.hstack([np.zeros((nx, nx)), m[2]]) for m in made])
        right = S + h * np.tensordot(WEIGHTS, by_parameters, axes=1)
        return np.linalg.solve(newton_matrix(h, [m[1] for m in made]), right.reshape(3 * nx, -1))[2 * nx:]


def newton_matrix(h: float, jacobians: list[np.ndarray]) -> np.ndarray:
    n = len(jacobians[0])
    blocks = np.block([[-h * w * J for w, J in zip(row, jacobians, strict=True)] for row in WEIGHTS])
    return np.eye(3 * n) + blocks


def _norm(v: np.ndarray, scale: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean((v / scale) ** 2))) if v.size else 0.0


def _first_step(x: np.ndarray, f: np.ndarray, scale: np.ndarray, longest: float) -> float:
    size, speed = _norm(x, scale), _norm(f, scale)
    return min(0.01 * size / speed, longest) if speed > 0 and size > 0 else longest


def _predicted(walk: Walk, h: float) -> np.ndarray:
    """Stages where the polynomial of the step before leads, or at the state where there is none."""
    if not walk.length > 0:
        return np.tile(walk.x, (3, 1))
    weights = interpolation_weights(1 + POINT * h / walk.length)
    weights[:, 2] -= 1
    return walk.x + weights @ walk.move


def interpolation_weights(at: np.ndarray) -> np.ndarray:
    """Of the stages of a step, at fractions of it: (fractions, stages); at its begin nothing has moved."""
    weights = np.empty((at.size, 3))
    for j in range(3):
        others = np.delete(POINT, j)
        weights[:, j] = at / POINT[j] * np.prod((at[:, None] - others) / (POINT[j] - others), axis=1)
    return weights
