"""Mesh: at which times do segments begin, what are the equations there, and how far off are they?"""

from __future__ import annotations

import functools
from collections.abc import Callable

import casadi as ca
import numpy as np

from dynident.boundary.solve_bvp.problem import BoundaryConditions, Statement
from dynident.boundary.solve_bvp.systems import CollocationSystem, PropagatedSegments, ShootingSystem, growth_of
from dynident.codegen.compiler import remembered
from dynident.errors import ProblemError, SimulationDiverged
from dynident.integrators import OF_CHOSEN_DEGREE, integrator_named
from dynident.integrators.collocation_defects import collocator_for
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import propagator_for
from dynident.integrators.scheme import Adaptive, Explicit, Implicit, Integrator, StepFunction

Course = Callable[[np.ndarray], np.ndarray]  # (times,) -> (times, states)

USUAL_DEGREE = 4  # stages of a step, where they can be chosen
EXPLICIT_STEPS = 4  # per segment; between their ends the solution is interpolated


def split(times: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """New nodes: segment i cut into pieces[i] of equal length; old nodes stay as they are, to the last bit."""
    segment = np.repeat(np.arange(len(pieces)), pieces)
    within = (np.arange(segment.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[segment]
    return np.append(times[segment] + within * np.diff(times)[segment], times[-1])


def too_short(times: np.ndarray) -> np.ndarray:
    """Segments that cannot be cut any more: their middle would drown in the rounding of time."""
    reach = np.maximum(np.abs(times[:-1]), np.abs(times[1:]))
    return np.diff(times) <= 1e3 * np.finfo(float).eps * np.maximum(reach, times[-1] - times[0])


def _grid(times: np.ndarray, steps: int) -> Grid:
    fine = split(times, np.full(len(times) - 1, steps))
    nothing = np.zeros((fine.size - 1, 0))
    return Grid(fine, 0, np.ones(fine.size - 1, np.int32), nothing, nothing, np.zeros((fine.size, 0)),
                np.zeros(fine.size, np.uint8))


class ShootingMesh:
    """Segments of a few explicit steps, followed from their begin: multiple shooting."""

    follows = True

    def __init__(self, statement: Statement, scheme: Explicit | Implicit, steps: int):
        self.statement, self.steps, self.order = statement, steps, scheme.order
        self.fractions = self.asked = np.arange(steps + 1) / steps
        self.march = propagator_for(statement.model, scheme, tuple(range(len(statement.model.parameters))))

    def segments(self, times: np.ndarray, steps: int) -> PropagatedSegments:
        used = list(self.statement.used)
        return PropagatedSegments(self.march, _grid(times, steps), np.arange(0, steps * len(times), steps)[:len(times)],
                             len(self.statement.states), len(self.statement.parameters), lambda p: p[used], used)

    def system(self, times: np.ndarray, ends: BoundaryConditions, sizes: np.ndarray) -> ShootingSystem:
        return ShootingSystem(self.segments(times, self.steps), ends, sizes, not self.statement.same_slopes)

    def start(self, system: ShootingSystem, times: np.ndarray, course: Course, p: np.ndarray) -> np.ndarray:
        return system.pack(course(times), p)

    def interior_states(self, system: ShootingSystem, z: np.ndarray) -> np.ndarray:
        """(segments, fractions, states) of a point."""
        nodes, p = system.unpack(z)
        return _by_segment(system.segments.run(nodes[:-1], p, False).path, nodes)

    def growth_factors(self, times: np.ndarray, course: Course, p: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        nodes = course(times)
        broken = self.diverges(times, nodes, p)
        if np.any(broken):
            return np.where(broken, np.inf, 1.0)
        return growth_of(self.segments(times, self.steps).run(nodes[:-1], p, True).links, sizes[:nodes.shape[1]])

    def diverges(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(segments,) whether the way from the begin of a segment to its end leaves the finite numbers."""
        bad = np.zeros(len(times) - 1, dtype=bool)
        begin = 0
        while begin < bad.size:
            try:
                self.segments(times[begin:], self.steps).run(nodes[begin:-1], p, False)
                break
            except SimulationDiverged as divergence:
                begin += max(divergence.node - 1, 0) // self.steps
                bad[begin] = True
                begin += 1
        return bad

    def half_step_solution(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with steps of half the length: ends (segments, states), and states after each step but the last."""
        out = self.segments(times, 2 * self.steps).run(nodes[:-1], p, False)
        return out.states, out.path[:-1].reshape(len(times) - 1, 2 * self.steps, -1)[:, 1:]

    def half_step_links(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """How the ends follow the begins and p, by steps of half the length; (segments, states, states + parameters)."""
        return np.asarray(self.segments(times, 2 * self.steps).run(nodes[:-1], p, True).links)


def _by_segment(path: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    count, n = len(nodes) - 1, nodes.shape[1]
    return np.concatenate([path[:-1].reshape(count, -1, n), nodes[1:, None]], axis=1)


@functools.cache
def asked_by(scheme: Implicit) -> np.ndarray:
    """Where in a step the rate is asked for; collocation leaves the ends out where none of its points lies there."""
    asked: list[float] = []

    def rate(t: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX) -> ca.SX:
        asked.append(float(t))
        return x

    stages, nothing = ca.SX.sym("stages", scheme.stages), ca.SX(0, 1)
    step = StepFunction(rate, ca.SX(0), ca.SX(1), ca.SX.sym("x"), nothing, nothing, nothing)
    scheme.equations(step, stages)
    scheme.next_state(step, stages)
    places = np.unique(asked)
    places.flags.writeable = False  # kept with the scheme
    return places


class CollocationMesh:
    """One implicit step per segment, its stages unknowns too: collocation."""

    follows = False

    def __init__(self, statement: Statement, scheme: Implicit):
        self.statement, self.points, self.order = statement, scheme.points, scheme.order
        self.fractions, self.asked = np.unique([0.0, *scheme.points, 1.0]), asked_by(scheme)
        self.collocator = collocator_for(statement.model, scheme, tuple(range(len(statement.model.parameters))))
        self.shot = ShootingMesh(statement, scheme, 2)

    def system(self, times: np.ndarray, ends: BoundaryConditions, sizes: np.ndarray) -> CollocationSystem:
        return CollocationSystem(self.collocator, _grid(times, 1), ends, self.points, len(self.statement.states),
                            self.statement.used, sizes, not self.statement.same_slopes)

    def start(self, system: CollocationSystem, times: np.ndarray, course: Course, p: np.ndarray) -> np.ndarray:
        at = times[:-1, None] + np.array(self.points) * np.diff(times)[:, None]
        return system.pack(course(times), p, course(at.ravel()))

    def interior_states(self, system: CollocationSystem, z: np.ndarray) -> np.ndarray:
        nodes, _ = system.unpack(z)
        inner = system.stages(z)[:, [k for k, c in enumerate(self.points) if 0 < c < 1]]
        return np.concatenate([nodes[:-1, None], inner, nodes[1:, None]], axis=1)

    def growth_factors(self, times: np.ndarray, course: Course, p: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        system = self.system(times, self.statement.ends, sizes)
        try:
            links = system.run(self.start(system, times, course, p), True).link[:-1]
        except SimulationDiverged as divergence:
            return np.where(np.arange(len(times) - 1) == divergence.node - 1, np.inf, 1.0)
        return growth_of(links, system.sizes)

    def half_step_solution(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.shot.half_step_solution(times, nodes, p)

    def half_step_links(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.shot.half_step_links(times, nodes, p)


@functools.cache
def _scheme(name: str, degree: int | None) -> Integrator:
    return integrator_named(name, USUAL_DEGREE if degree is None and name in OF_CHOSEN_DEGREE else degree)


def scheme_for(integrator: str, degree: int | None) -> Explicit | Implicit:
    scheme = _scheme(integrator, degree)
    if isinstance(scheme, Adaptive):
        raise ProblemError(f"'{integrator}' chooses its own steps; a boundary value problem takes a scheme with fixed steps, "
                           "and chooses them itself.")
    return scheme


@remembered(64)
def steps_for(statement: Statement, integrator: str, degree: int | None) -> ShootingMesh | CollocationMesh:
    """Explicit schemes are followed from node to node, implicit ones have their stages as unknowns."""
    scheme = scheme_for(integrator, degree)
    if isinstance(scheme, Implicit):
        return CollocationMesh(statement, scheme)
    return ShootingMesh(statement, scheme, EXPLICIT_STEPS)
