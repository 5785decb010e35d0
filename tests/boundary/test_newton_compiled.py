"""Newton on a small mesh as one compiled call: the steps of its twin, and what is left to that."""

import numpy as np
import pytest

import dynident as di
from boundary_problems import HARDER, PUBLISHED, Published, bratu, mathieu, t1, t20
from dynident.boundary.solve_bvp import block_elimination, newton_compiled
from dynident.boundary.solve_bvp.block_elimination import measure_links
from dynident.boundary.solve_bvp.block_elimination_interpreted import measure_links_interpreted
from dynident.boundary.solve_bvp.mesh import steps_for
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.newton_compiled import compiled_newton
from dynident.boundary.solve_bvp.problem import trace_problem
from dynident.codegen.compiler import compiler
from dynident.maths import log

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")


def posed(problem, integrator="gauss_legendre", nodes=17, sizes=None):
    """The equations of a problem on an even mesh, and where its guess stands in them."""
    guess = problem.guess if callable(problem.guess) else lambda t: problem.guess
    statement = trace_problem(problem.rate, problem.boundary, len(guess(problem.interval[0])), None, list(problem.parameters))
    steps, times = steps_for(statement, integrator, None), np.linspace(*problem.interval, nodes)
    unknowns = len(statement.states) + len(statement.parameters)
    system = steps.system(times, statement.ends, np.linspace(0.5, 2, unknowns) if sizes is None else sizes)
    return system, steps.start(system, times, lambda t: np.array([guess(each) for each in t], float),
                               np.array(list(problem.parameters.values()), float))


OPTIONS = {"natural": DampedNewton(tolerance=1e-9), "few": DampedNewton(tolerance=1e-9, max_iterations=2),
           "residual": DampedNewton("residual", 1e-9, max_iterations=30),
           "insisting": DampedNewton("residual", 1e-9, insist=0.25, max_iterations=30)}


@pytest.mark.parametrize("problem", [*PUBLISHED[::2], HARDER[6], HARDER[9]], ids=lambda p: p.name)
@pytest.mark.parametrize("name", OPTIONS)
def test_the_compiled_call_takes_the_steps_of_its_twin(problem, name):
    system, z = posed(problem)
    ours, twin = compiled_newton(OPTIONS[name], system, z), OPTIONS[name].solve(system, z)
    if ours is None:  # left to the twin: it has nothing to compare with where that met something unusual
        assert not twin.converged
        return
    assert (ours.converged, ours.reason, ours.code) == (twin.converged, twin.reason, twin.code)
    assert (ours.iterations, ours.jacobians) == (twin.iterations, twin.jacobians)
    assert [page.number for page in ours.pages] == [page.number for page in twin.pages]
    if twin.converged or twin.iterations <= 2:  # thirty steps that lead nowhere magnify rounding
        assert ours.evaluations == twin.evaluations
    if twin.converged:
        assert [page.share for page in ours.pages] == pytest.approx([page.share for page in twin.pages], rel=1e-6)
        condition = twin.linear.factors.condition
        np.testing.assert_allclose(ours.point / system.scale, twin.point / system.scale, atol=1e-13 * condition + 1e-11)
        right = np.random.default_rng(0).normal(size=z.size) * system.scale
        answers = [each.linear.factors.solve(right) / system.scale for each in (ours, twin)]
        assert np.max(np.abs(answers[0] - answers[1])) <= 1e-8 * np.max(np.abs(answers[1]))
        assert ours.linear.factors.condition == pytest.approx(condition, rel=1e-6)
        np.testing.assert_allclose(ours.linear.rounding, twin.linear.rounding, rtol=1e-6, atol=1e-30)
        np.testing.assert_allclose(ours.linear.factors.growth, twin.linear.factors.growth, rtol=1e-6)


@pytest.mark.parametrize("integrator", ["trapezoid", "radau", "hermite_simpson"])
@pytest.mark.parametrize("problem", [bratu(False), mathieu()], ids=lambda p: p.name)
def test_other_schemes_take_the_same_steps(problem, integrator):
    system, z = posed(problem, integrator)
    ours, twin = (solve(DampedNewton(tolerance=1e-9), system, z) for solve in (compiled_newton, DampedNewton.solve))
    assert ours.converged and ours.iterations == twin.iterations
    np.testing.assert_allclose(ours.point, twin.point, rtol=1e-8, atol=1e-8)


def test_links_are_measured_as_by_the_twin():
    rng = np.random.default_rng(3)
    segments, n, m, stages = 7, 3, 2, 6
    link, stage = rng.normal(size=(segments, n, n + m)), rng.normal(size=(segments, stages, n + m))
    z, sizes = rng.normal(size=(segments + 1) * n + m + segments * stages), rng.uniform(0.1, 3, n + m)
    for ours, twin in zip(measure_links(link, stage, z, sizes, 1e-3), measure_links_interpreted(link, stage, z, sizes, 1e-3),
                          strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-13)


def test_many_right_hand_sides_are_answered_as_one_by_one():
    system, z = posed(mathieu())
    factors = system.linearize(z).factors
    changes = np.random.default_rng(1).normal(size=(4, factors.linked.elimination.segments * 2 + 3))
    np.testing.assert_allclose(factors.answer(changes), [factors.answer(each) for each in changes], rtol=1e-13)


def test_equations_that_are_singular_are_left_to_the_twin():
    levels = Published("one of many levels", lambda t, y: [y[1], 1.0], lambda a, b: [a[1], b[1] - 1], (0, 1), [0, 0])
    system, z = posed(levels)
    assert compiled_newton(DampedNewton(), system, z) is None


def test_a_guess_that_is_not_finite_is_named_and_not_solved():
    with pytest.raises(di.ProblemError, match="rate of 'y2' is not finite at the guess: t = "):
        di.solve_bvp(lambda t, y: [y[1], log(y[0])], lambda a, b: [a[0] - 1, b[0] - 1], [0, 1], [-1, 0])
    with pytest.raises(di.ProblemError, match="Condition 1 at the ends is not finite at the guess"):
        di.solve_bvp(lambda t, y: [y[1], -y[0]], lambda a, b: [log(a[0]), b[0] - 1], [0, 1], [-1, 0])


def test_ctrl_c_within_the_call_gives_what_was_found(monkeypatch):
    class Library:
        def dynident_newton(self, call):
            raise KeyboardInterrupt

    monkeypatch.setattr(newton_compiled, "_library", Library)
    result = compiled_newton(DampedNewton(), *posed(t1(1e-2)))
    assert result.interrupted and not result.converged


def test_large_meshes_and_machines_without_a_compiler_are_left_to_the_twin(monkeypatch):
    assert compiled_newton(DampedNewton(), *posed(t20(0.1), nodes=1_001)) is None
    monkeypatch.setattr(newton_compiled, "_library", lambda: None)
    assert compiled_newton(DampedNewton(), *posed(t20(0.1))) is None


def test_without_a_compiler_the_elimination_is_interpreted(monkeypatch):
    monkeypatch.setattr(block_elimination, "_library", lambda: None)
    monkeypatch.setattr(newton_compiled, "_library", lambda: None)
    problem = bratu(True)
    found = di.solve_bvp(problem.rate, problem.boundary, problem.interval, problem.guess, tolerance=1e-6)
    assert found.converged
    np.testing.assert_allclose(found(np.array([0.5]))[0, 0], problem.exact(0.5), rtol=1e-6)
