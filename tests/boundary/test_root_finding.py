"""Damped Newton and Davidenko on square systems: they find roots, say so, and say why not."""

from functools import partial

import numpy as np
import pytest
from scipy.linalg import lu_factor, lu_solve

import dynident as di
from boundary_problems import thesis_linear
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.mesh import steps_for
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.problem import LinearBoundaryConditions, SymbolicBoundaryConditions, trace_problem
from dynident.boundary.solve_bvp.root_finding import FactoredSystem
from dynident.boundary.solve_bvp.systems import PropagatedSegments, SegmentEnds, ShootingSystem
from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import propagator_for


class Dense:
    """A small system with its Jacobian; remembers where it was asked."""

    def __init__(self, value, jacobian, size, mixed=None):
        self.scale, self.asked = np.ones(size), []
        self.mixed = np.eye(size) if mixed is None else mixed
        self.function, self.slope = value, jacobian

    def value(self, z):
        self.asked.append(z.copy())
        with np.errstate(all="ignore"):
            F = self.mixed @ np.asarray(self.function(z), float)
        if not np.all(np.isfinite(F)):
            raise SimulationDiverged(np.nan, 0)
        return F

    def linearize(self, z):
        class Factors:
            solve = partial(lu_solve, lu_factor(self.mixed @ np.asarray(self.slope(z), float)))

        return FactoredSystem(self.value(z), Factors())


def rosenbrock(mixed=None):
    return Dense(lambda z: [10 * (z[1] - z[0]**2), 1 - z[0]], lambda z: [[-20 * z[0], 10], [-1, 0]], 2, mixed)


def arctangent():
    """Newton diverges from |z| > 1.39."""
    return Dense(lambda z: [np.arctan(z[0])], lambda z: [[1 / (1 + z[0]**2)]], 1)


def logarithm():
    """Full steps from z > e lead to where the logarithm is not defined."""
    return Dense(lambda z: [np.log(z[0])], lambda z: [[1 / z[0]]], 1)


SOLVERS = [DampedNewton(tolerance=1e-10), DampedNewton("residual", tolerance=1e-10), DampedNewton("kept", tolerance=1e-10),
           Davidenko(tolerance=1e-10)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: f"{s.name} {getattr(s, 'test', '')}")
@pytest.mark.parametrize(("system", "start", "root"), [
    (rosenbrock, [-1.2, 1.0], [1, 1]), (arctangent, [3.0], [0]), (logarithm, [20.0], [1])])
def test_roots_are_found_from_where_plain_newton_fails_or_wanders(solver, system, start, root):
    found = solver.solve(system(), np.array(start))
    assert found.converged and found.code == 0
    assert found.point == pytest.approx(root, abs=1e-9)


def test_the_natural_test_does_not_see_how_equations_are_mixed():
    """Affine covariance: with A F in place of F every iterate is the same."""
    mixed = np.array([[1e3, 2.0], [7.0, -1e-4]])
    plain, other = rosenbrock(), rosenbrock(mixed)
    solver, start = DampedNewton(tolerance=1e-10), np.array([-1.2, 1.0])
    one, two = solver.solve(plain, start), solver.solve(other, start)
    assert len(plain.asked) == len(other.asked)
    assert np.allclose(plain.asked, other.asked, atol=1e-6)  # condition of the mixture times rounding
    assert [p.share for p in one.pages] == pytest.approx([p.share for p in two.pages], rel=1e-6)


def test_newton_converges_quadratically_near_the_root():
    sizes = [page.step for page in DampedNewton(tolerance=1e-14).solve(arctangent(), np.array([0.5])).pages]
    orders = [np.log(sizes[k + 1]) / np.log(sizes[k]) for k in range(1, len(sizes) - 1)]
    assert min(orders) > 1.9  # of the arctangent it is 3


def test_keeping_the_jacobian_saves_jacobians():
    kept = DampedNewton("kept", tolerance=1e-8).solve(arctangent(), np.array([1.0]))
    assert kept.converged and kept.jacobians < kept.iterations


def test_the_first_inner_step_is_a_damped_newton_step():
    """(5.11) of the thesis: the factor is h/(1 + h)."""
    system, start, h = rosenbrock(), np.array([-1.2, 1.0]), 0.1
    Davidenko(first=h).solve(system, start)
    newton = -np.linalg.solve(system.slope(start), system.function(start))
    assert system.asked[1] == pytest.approx(start + h / (1 + h) * newton, abs=1e-14)


def test_time_stepping_becomes_newton_and_uses_few_jacobians():
    found = Davidenko().solve(arctangent(), np.array([3.0]))
    phases = [page.phase for page in found.pages]
    assert phases[0] == "time stepping" and phases[-1] == "newton"
    assert found.jacobians <= found.iterations


@pytest.mark.filterwarnings("ignore:Diagonal number")  # the system without a root is singular where |F| is least
def test_limits_have_the_numbers_of_the_table():
    assert DampedNewton(max_iterations=2).solve(rosenbrock(), np.array([-1.2, 1.0])).code == 231
    assert Davidenko(max_iterations=2).solve(rosenbrock(), np.array([-1.2, 1.0])).code == 231
    no_root = Dense(lambda z: [z[0]**2 + 1], lambda z: [[2 * z[0]]], 1)
    stopped = DampedNewton().solve(no_root, np.array([0.7]))
    assert not stopped.converged and stopped.code in (230, 231)
    wall = Dense(lambda z: [1.0 if z[0] == 2.0 else np.nan], lambda z: [[1.0]], 1)
    short, stuck = (solver.solve(wall, np.array([2.0])) for solver in (Davidenko(), DampedNewton()))
    assert short.code == 232 and short.reason.startswith("because the inner loop")  # reads on from 'stopped'
    assert stuck.code == 230 and stuck.reason.startswith("because no step helps")


def test_ctrl_c_keeps_the_point():
    def watch(page, _):
        raise KeyboardInterrupt

    for solver in SOLVERS:
        found = solver.solve(rosenbrock(), np.array([-1.2, 1.0]), watch)
        assert found.interrupted and not found.converged and found.pages


def linear_segments(nodes, scheme):
    """The linear problem of Sec. 6.3.1, one step per segment."""
    model = di.EquationModel(states={"y1": "y2", "y2": "-16*pi**2*y1"})
    time, nothing = np.linspace(0, 1, nodes + 1), np.zeros((nodes, 0))
    grid = Grid(time, 0, np.ones(nodes, np.int32), nothing, nothing, np.zeros((nodes + 1, 0)), np.zeros(nodes + 1, np.uint8))
    march = propagator_for(model, integrator_named(*scheme), ())
    ends = LinearBoundaryConditions([[1, 0], [0, 0]], [[0, 0], [0, 1]], [0, 2 * np.pi])
    return ShootingSystem(PropagatedSegments(march, grid, np.arange(nodes + 1), 2), ends), time


@pytest.mark.parametrize(("scheme", "order", "coarse"), [
    (("euler",), 1, 4000), (("heun",), 2, 200), (("runge_kutta",), 4, 50), (("gauss_legendre", 3), 6, 16)])
def test_the_linear_problem_of_the_thesis_is_solved_with_the_order_of_the_scheme(scheme, order, coarse):
    errors = []
    for nodes in (coarse, 2 * coarse):
        system, time = linear_segments(nodes, scheme)
        root = DampedNewton(tolerance=1e-9).solve(system, np.zeros(system.scale.size))
        assert root.converged and root.iterations == 1
        errors.append(np.max(np.abs(system.unpack(root.point)[0][:, 0] - thesis_linear().exact(time))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


def test_davidenko_solves_the_linear_problem_in_at_most_46_iterations():
    """As many as Sec. 6.3.1 reports from the same start; refused steps count."""
    system, time = linear_segments(400, ("runge_kutta",))
    root = Davidenko().solve(system, np.zeros(system.scale.size))
    assert root.converged and root.iterations <= 46
    assert np.max(np.abs(system.unpack(root.point)[0][:, 0] - thesis_linear().exact(time))) < 1e-6


def differences(system, z, direction, h):
    return (system.value(z + h * direction) - system.value(z - h * direction)) / (2 * h)


@pytest.mark.parametrize("integrator", ["runge_kutta", "gauss_legendre", "radau"])
def test_factored_jacobians_agree_with_differences_of_the_equations(integrator):
    """J^-1 (F(z + hv) - F(z - hv)) / 2h = v, at a solution and with a parameter that only the conditions know."""
    statement = trace_problem(lambda t, y, p: [y[1], -p[0] * di.maths.sin(y[0]) + t],
                             lambda a, b, p: [a[0] - p[1], b[0] * b[1] - 1, a[1] - 1, p[1] * p[0] - 2], 2, None, ["k", "c"])
    steps = steps_for(statement, integrator, None)
    time = np.linspace(0, 1, 8)
    system = steps.system(time, statement.ends, np.array([1.0, 2.0, 3.0, 0.5]))
    start = steps.start(system, time, lambda t: np.column_stack([1 + t, np.ones_like(t)]), np.array([2.0, 1.0]))
    root = DampedNewton(tolerance=1e-12).solve(system, start)
    assert root.converged
    rng = np.random.default_rng(3)
    direction = rng.normal(size=root.point.size)
    again = system.linearize(root.point).factors.solve(differences(system, root.point, direction, 1e-5))
    assert again == pytest.approx(direction, abs=1e-7)  # 1e-10 by the differences, times the condition of the equations


def test_segments_of_ones_own_may_jump():
    """y' = -y with y doubled at t = 1, as costates jump at measurements: y(2) = 2 e^-2 y(0)."""

    class Jumping:
        count, states, parameters = 2, 1, 0

        def run(self, begins, p, sensitivities):
            slope = np.array([2 * np.exp(-1.0), np.exp(-1.0)])
            return SegmentEnds(begins * slope[:, None], slope[:, None, None] if sensitivities else None)

    system = ShootingSystem(Jumping(), LinearBoundaryConditions([[0.0]], [[1.0]], [1.0]))
    nodes, _ = system.unpack(DampedNewton().solve(system, np.zeros(3)).point)
    assert nodes[:, 0] == pytest.approx([np.exp(2.0) / 2, np.exp(1.0), 1.0], rel=1e-14)


def test_conditions_that_are_not_finite_are_a_wall():
    import casadi as ca

    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    ends = SymbolicBoundaryConditions(a, b, ca.SX(0, 1), ca.log(a) + b)
    assert ends.value(np.array([1.0]), np.array([2.0]), np.zeros(0)) == pytest.approx([2.0])
    with pytest.raises(SimulationDiverged):
        ends.value(np.array([-1.0]), np.array([2.0]), np.zeros(0))


def test_an_unknown_test_is_named():
    with pytest.raises(di.ProblemError, match="natural"):
        DampedNewton("naturel")
