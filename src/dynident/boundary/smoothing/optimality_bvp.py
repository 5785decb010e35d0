"""Optimality conditions (costates, Euler-Lagrange equations) of one record as a boundary value problem, and its solution as a
point of the smoother.

The estimation model of the thesis, (3.5): x' = Phi(x, u, t) + xi, m = psi(x, u, t) + zeta, where x holds the states and the
parameters that are estimated. Half the sum of xi' W xi, zeta' V zeta over time and of the first state's own weight R0, (3.6),
is smallest where, with the costates lambda = W xi,

    x'      = Phi + W^-1 lambda                                  (3.13a)
    lambda' = -(dPhi/dx)' lambda - (dpsi/dx)' V (m - psi)        (3.13b)
    lambda(begin) = R0 (x(begin) - x0),  lambda(end) = 0         (3.14)

Derivatives come from the equations themselves. Nodes are the samples. Continuous measurements act on the costates all along;
single samples make them jump by -(dpsi/dx)' V (m - psi), which happens at the begin of the segment that starts there (and at
the end of the last one).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar

import casadi as ca
import numpy as np

from dynident.boundary.smoothing.correlation import correlation_matrix
from dynident.boundary.smoothing.setup import SmoothingSetup, shooting_nodes, stretches, with_parameters_as_states
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.boundary.solve_bvp.problem import LinearBoundaryConditions
from dynident.boundary.solve_bvp.root_finding import Singular
from dynident.boundary.solve_bvp.systems import PropagatedSegments, SegmentEnds, ShootingSystem
from dynident.codegen.batched import BatchedFunction
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import propagator_for
from dynident.linalg.finite_problem import Variables
from dynident.models.equations import EquationModel
from dynident.problem.parameter import Parameter
from dynident.tolerances import CURVATURE_ROUNDING

COSTATE, MEASURED, WEIGHT, FREEDOM = "costate ", "measured ", "weight ", "freedom "  # before a name that belongs to another


@dataclass(frozen=True)
class OptimalityModel:
    """Looks like a model to a march: the augmented states, then their costates.

    Inputs: those of the model, what was measured of each output, and the weight of each (0 where nothing was). Parameters:
    those of the model, then W^-1, of each state or as a full matrix; 0 where the model does not err.
    """

    model: EquationModel  # parameters that are estimated are states already
    full: bool = False  # model errors go together, so that W^-1 is a full matrix
    together: tuple[tuple[float, ...], ...] = ()  # the inverse of the correlations of the outputs; none: they are independent
    hybrid: ClassVar[bool] = False
    sample_time: ClassVar[None] = None
    delays: ClassVar[tuple[()]] = ()
    algebraic: ClassVar[tuple[str, ...]] = ()  # eliminated already
    algebraic_system: ClassVar[None] = None

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
        states = self.model.states
        return (*self.model.parameters, *([FREEDOM + f"{a} {b}" for b in states for a in states] if self.full else
                                          [FREEDOM + name for name in states]))

    @property
    def rate(self) -> ca.Function:
        s = _Symbols(self)
        Phi = self.model.rate(s.t, s.x, s.u, s.p)
        return ca.Function("rate", s.arguments, [ca.densify(ca.vertcat(
            Phi + s.error, -ca.jtimes(Phi, s.x, s.costate, True) + s.pull()))])

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
        return ca.Function("cost_rate", s.arguments, [ca.dot(s.error, s.costate) + ca.dot(s.weighted(missed), missed)])

    def content_hash(self) -> str:
        said = f" {self.full} {self.together}" if self.full or self.together else ""
        return hashlib.sha256(f"optimality {self.model.content_hash()}{said}".encode()).hexdigest()


class _Symbols:
    """The arguments of the whole, cut into what they mean."""

    def __init__(self, whole: OptimalityModel):
        model = whole.model
        nx, nu, ny, np_ = len(model.states), len(model.inputs), len(model.outputs), len(model.parameters)
        t, X = ca.SX.sym("t"), ca.SX.sym("x", 2 * nx)
        given, p = ca.SX.sym("u", nu + 2 * ny), ca.SX.sym("p", len(whole.parameters))
        self.arguments = [t, X, given, p]
        self.t, self.x, self.costate = t, X[:nx], X[nx:]
        self.u, self.measured, self.weight = given[:nu], given[nu:nu + ny], given[nu + ny:]
        self.p, freedom = p[:np_], p[np_:]
        self.error = ca.reshape(freedom, nx, nx) @ self.costate if whole.full else freedom * self.costate  # xi = W^-1 lambda
        self.y, self.together = model.output(self.t, self.x, self.u, self.p), whole.together

    def weighted(self, missed: ca.SX) -> ca.SX:
        """V times this; weights of single outputs are inverse variances."""
        if not self.together:
            return self.weight * missed
        root = ca.sqrt(self.weight)
        return root * (ca.DM(self.together) @ (root * missed))

    def pull(self) -> ca.SX:
        """-(dpsi/dx)' V (m - psi)"""
        return -ca.jtimes(self.y, self.x, self.weighted(self.measured - self.y), True)


class BoundaryValueProblem:
    """The square system, its guess, and the way back."""

    def __init__(self, setup: SmoothingSetup, smoothing: WeakConstraintProblem, scaled: bool):
        self.setup, self.smoothing = setup, smoothing
        problem = setup.problem
        self.free = tuple(p.name for p in problem.parameters if isinstance(p, Parameter) and p.free)
        together = setup.correlation.inverse(problem.model.outputs)
        self.model = OptimalityModel(with_parameters_as_states(problem.model, self.free),
                                     bool(setup.method.process_correlation),
                                     () if together is None else tuple(map(tuple, together.tolist())))
        self.n = len(self.model.model.states)
        self.record = smoothing.records[0]
        grid = self._grid()
        states = self.model.model.states
        variances = np.array([1 / setup.weights[name] if name in setup.weights else 0.0 for name in states])
        self.variance = np.diag(variances)  # W^-1
        if self.model.full:
            std = np.sqrt(variances)
            self.variance = std[:, None] * correlation_matrix(states, setup.method.process_correlation) * std
        freedom = self.variance.ravel(order="F") if self.model.full else variances
        held = [self._held(name) for name in self.model.model.parameters]
        march = propagator_for(self.model, setup.method.make_integrator(), ())  # type: ignore[arg-type]  # it looks like a model
        self.p = np.array([*held, *freedom])
        self.first = shooting_nodes(grid.time, setup.method.shooting_points, [])
        segments = PropagatedSegments(march, grid, self.first, 2 * self.n, 0, lambda _: self.p)
        self.segments = segments if setup.method.measurements == "continuous" else JumpSegments(self, segments, grid)
        self.ends = self._ends()
        self.system = ShootingSystem(self.segments, self.ends, self._scale() if scaled else None)

    def _held(self, name: str) -> float:
        return float(self.setup.problem.bindings[0].parameters[self.setup.problem.model.parameters.index(name)])

    def _grid(self) -> Grid:
        """The grid of the smoother with what was measured, and its weight, as further inputs."""
        own = len(self.model.outputs)  # others weigh the first state
        grid, V = self.record.grid, np.zeros_like(self.record.weight[:, :own])
        measured = self.record.measured[:, :own].copy()
        seen = self.record.weight[:, :own] > 0
        continuous = self.setup.method.measurements == "continuous"
        for j in range(measured.shape[1]):
            if np.any(seen[:, j]):
                measured[:, j] = np.interp(grid.time, grid.time[seen[:, j]], measured[seen[:, j], j])
                if continuous:
                    V[:, j] = self._weight(j) * _within(grid.time, grid.time[seen[:, j]])

        def joined(u: np.ndarray, rows: slice) -> np.ndarray:
            return np.ascontiguousarray(np.hstack([u, measured[rows], V[rows]]))

        return replace(grid, u_begin=joined(grid.u_begin, slice(None, -1)), u_end=joined(grid.u_end, slice(1, None)),
                       u_node=joined(grid.u_node, slice(None)), output_mask=np.zeros_like(grid.output_mask))

    def _weight(self, output: int) -> float:
        return 1 / self.setup.method.measurement_std(self.setup.problem.model.outputs[output]) ** 2

    def _ends(self) -> LinearBoundaryConditions:
        """(3.14): the first costate is R0 (x - x0), or the first state is known; the last costate is zero."""
        n, binding, inner = self.n, self.setup.problem.bindings[0], self.setup.inner
        known = {u.quantity: u.prior for u in inner.unknowns}
        A, B, c = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 2 * n)), np.zeros(2 * n)
        for i, name in enumerate(self.model.model.states):
            B[n + i, n + i] = 1.0
            if name not in self.free and binding.initial_unknown[i] < 0:
                A[i, i], c[i] = 1.0, binding.initial[i]
                continue
            prior = known[name]
            R0, x0 = (1 / prior.std**2, prior.mean) if prior is not None else (0.0, 0.0)
            A[i, i], A[i, n + i], c[i] = -R0, 1.0, -R0 * x0
        first = self.setup.initial_weight
        place = [self.model.model.states.index(name) for name in first.names]
        A[np.ix_(place, place)] = -first.weight
        c[place] = -first.weight @ first.mean
        return LinearBoundaryConditions(A, B, c)

    def _scale(self) -> np.ndarray:
        """Typical sizes: states as the record shows them, parameters as they start; costates by what moves a state."""
        guess = self.nodes(self.smoothing.start())[:, :self.n]
        size = np.max(np.abs(guess), axis=0)
        size = np.where(size > 0, size, 1.0)
        return np.concatenate([size, 1 / size])

    def nodes(self, point: Variables) -> np.ndarray:
        """(nodes, 2n): states and parameters of a point of the smoother, costates zero."""
        states = self.smoothing.states(point, 0)
        values = dict(zip((u.quantity for u in self.setup.inner.unknowns),
                          self.smoothing.coordinates.values(point.unknowns), strict=True))
        names = self.setup.inner.model.states
        columns = [states[:, names.index(name)] if name in names else np.full(len(states), values[name])
                   for name in self.model.model.states]
        return np.column_stack([*columns, np.zeros((len(states), self.n))])

    def with_costates(self, point: Variables) -> np.ndarray:
        """As `nodes`, with the costates W xi that the model errors of the point say."""
        found = self.nodes(point)
        xi = self.smoothing.model_errors(point)[0]
        names = self.setup.inner.model.states
        erring = [name for name in self.model.model.states if name in self.setup.weights]
        place = np.array([self.model.model.states.index(name) for name in erring], dtype=int)
        own = xi[:, [names.index(name) for name in erring]]
        found[1:, self.n + place] = (np.linalg.solve(self.variance[np.ix_(place, place)], own.T).T if self.model.full else
                                     np.array([self.setup.weights[name] for name in erring]) * own)
        return found

    def pack(self, point: Variables) -> np.ndarray:
        """A point of the smoother as a point of the system."""
        return self.system.pack(self.with_costates(point)[self.first], np.zeros(0))

    def cost(self, z: np.ndarray) -> float:
        """The sum that is made small, at a point of the system; infinite where it cannot be computed."""
        try:
            return self.smoothing.evaluate(self.point(z)).cost
        except SimulationDiverged:
            return float("inf")

    def minimal(self, z: np.ndarray) -> bool:
        """Whether a root passes for a minimum: no conjugate point on the way, and no direction in which the end falls.

        All solutions that meet the conditions at the begin, as columns (states over costates), are followed to the end:
        states that become dependent on the way are a conjugate point, and costates = P states at the end say how the
        smallest cost to get there bends (Jacobi's condition; between two nodes only an odd number of points is seen).
        """
        nodes, p = self.system.unpack(z)
        links = self.segments.run(nodes[:-1], p, True).links
        n, size = self.n, np.maximum(np.max(np.abs(nodes[:, :self.n]), axis=0), np.finfo(float).tiny)
        scale = np.concatenate([size, 1 / size])
        begin, course = self.ends.at_begin, np.zeros((2 * n, n))
        for i in range(n):  # (3.14): a known state leaves its costate free, else this follows it
            known = begin[i, n + i] == 0
            course[n + i if known else i, i] = 1.0
            if not known:
                course[n:, i] = -begin[:n, i] * size[i] * size
        signs = []
        for link in links:
            course, R = np.linalg.qr(link * scale / scale[:, None] @ course)
            course = course * np.where(np.diag(R) < 0, -1.0, 1.0)
            signs.append(np.linalg.slogdet(course[:n])[0])
        with np.errstate(all="ignore"):
            P = np.linalg.lstsq(course[:n].T, course[n:].T, rcond=None)[0]
        bends = np.linalg.eigvalsh((P + P.T) / 2)
        return len(set(signs)) == 1 and bool(bends[0] >= -CURVATURE_ROUNDING * np.max(np.abs(bends)))

    def condition(self, point: Variables) -> float:
        """How far the solution moves per unit change of a condition at the ends, each state and costate in its size at this
        point of the smoother; infinite where that cannot be said."""
        nodes = self.with_costates(point)
        sizes = np.max(np.abs(nodes), axis=0)
        states = np.where(sizes[:self.n] > 0, sizes[:self.n], 1.0)
        costates = np.where(sizes[self.n:] > 0, sizes[self.n:], 1 / states)
        try:
            return ShootingSystem(self.segments, self.ends, np.concatenate([states, costates])).linearize(
                self.system.pack(nodes[self.first], np.zeros(0))).factors.condition
        except (SimulationDiverged, Singular):
            return float("inf")

    def guess(self) -> np.ndarray:
        return self.system.pack(self.nodes(self.smoothing.start())[self.first], np.zeros(0))

    def values(self, z: np.ndarray) -> np.ndarray:
        """The unknowns of the smoother, in the user's units, at the begin."""
        first = dict(zip(self.model.model.states, self.system.unpack(z)[0][0], strict=False))
        return np.array([first[u.quantity] for u in self.setup.inner.unknowns])

    def point(self, z: np.ndarray) -> Variables:
        """A solution as a point of the smoother; SimulationDiverged where a logarithm is asked of what is not positive."""
        nodes, p = self.system.unpack(z)
        if len(self.first) < len(self.record.grid.time):  # in between, where the segments lead
            nodes = self.segments.run(nodes[:-1], p, False).path
        values, c = self.values(z), self.smoothing.coordinates
        if np.any(values[c.log] <= 0):
            raise SimulationDiverged(np.nan, 0, what="a parameter that must be positive is not")
        names = self.setup.inner.model.states
        states = nodes[:, [self.model.model.states.index(name) for name in names]]
        full = self.smoothing.full.with_stages(0, states)
        return self.smoothing.from_values(Variables(c.coordinates(values), (full,)))


def _within(time: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Which times lie at a sample of a signal or between two neighbours that belong together."""
    known = np.isin(time, samples)
    for k in np.flatnonzero(stretches(samples)):
        known |= (time > samples[k]) & (time < samples[k + 1])
    return known


class JumpSegments:
    """Segments at whose begin a sample lets the costates jump; behind the last one too."""

    def __init__(self, whole: BoundaryValueProblem, segments: PropagatedSegments, grid: Grid):
        self.segments, self.whole = segments, whole
        self.count, self.states, self.parameters = segments.count, segments.states, 0
        model = whole.model
        a = [ca.SX.sym(n, k) for n, k in (("t", 1), ("x", 2 * whole.n), ("u", len(model.inputs)), ("p", len(model.parameters)))]

        def functions() -> list[ca.Function]:
            after = model.jump(*a)
            slope = ca.densify(ca.jacobian(after, a[1]))
            return [ca.Function("dyn_jump", a, [after, slope])]

        self.jump = BatchedFunction(f"jump {model.content_hash()}", functions)
        self.time = grid.time[:, None]
        inputs, V = grid.u_node.copy(), whole.record.weight[:, :len(model.outputs)] ** 2  # 0 where nothing was measured
        inputs[:, inputs.shape[1] - V.shape[1]:] = V
        self.inputs = np.ascontiguousarray(inputs)

    def _jumped(self, begin: int, end: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        after, slope = self.jump("dyn_jump", [self.time[begin:end], x, self.inputs[begin:end], self.whole.p], end - begin)
        n = self.states
        return after, slope.reshape(-1, n, n).swapaxes(1, 2)

    def run(self, begins: np.ndarray, p: np.ndarray, sensitivities: bool) -> SegmentEnds:
        after, slope = self._jumped(0, self.count, begins)
        ends = self.segments.run(after, p, sensitivities)
        last, last_slope = self._jumped(self.count, self.count + 1, ends.states[-1:])
        states = np.vstack([ends.states[:-1], last])
        if not sensitivities:
            return SegmentEnds(states, None)
        links = ends.links @ slope
        links[-1] = last_slope[0] @ links[-1]
        return SegmentEnds(states, links)
