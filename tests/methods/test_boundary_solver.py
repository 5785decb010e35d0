"""solve_boundary_value on published problems: right to the tolerance, and honest where it is not."""

import dataclasses

import numpy as np
import pytest

import dynident as di
from boundary_problems import HARDER, PUBLISHED, bratu, by_scipy, mathieu, measles, t1, thesis_linear, troesch
from dynident.discretizations import segments
from dynident.maths import exp, log, pi, sinh
from dynident.solvers.davidenko import Davidenko
from dynident.solvers.newton import DampedNewton

TOLERANCE = 1e-6
ESTIMATED = 2  # an error is estimated from steps of half the length; it may be larger by this
CLOSER = 1e-8  # tolerance of the reference; scipy measures a residual, so that its error is of this size only roughly
DENSE = 2001  # points at which solutions are compared, most of them between nodes


def solved(problem, **options):
    return di.solve_boundary_value(problem.rate, problem.boundary, problem.interval, problem.guess,
                                   parameters=problem.parameters, **options)


def distance(solution, reference):
    """Largest difference over time and states, each relative to its largest value; reference (times, states)."""
    time = np.linspace(solution.time[0], solution.time[-1], DENSE)
    sizes = np.array([solution.scale[name] for name in solution.names])[:reference(time).shape[1]]
    return float(np.max(np.abs(solution(time)[:, :sizes.size] - reference(time)) / sizes))


def check(problem):
    solution = solved(problem)
    assert solution.converged, solution.status
    assert solution.error <= TOLERANCE
    if problem.exact is not None:
        assert distance(solution, lambda t: problem.exact(t)[:, None]) <= ESTIMATED * TOLERANCE
    if problem.parameter is not None:
        assert next(iter(solution.parameters.values())) == pytest.approx(problem.parameter, rel=ESTIMATED * TOLERANCE)
    peer = by_scipy(problem, CLOSER)
    if not peer.success:  # from our solution instead: it still has to be one of scipy's equations
        peer = by_scipy(dataclasses.replace(problem, guess=solution), CLOSER, 2001)
    assert peer.success, "scipy's solve_bvp has no solution to compare with"
    assert distance(solution, lambda t: peer.sol(t).T) <= ESTIMATED * TOLERANCE + 100 * CLOSER


@pytest.mark.parametrize("problem", PUBLISHED, ids=lambda p: p.name)
def test_published_problems_agree_with_closed_forms_and_with_scipy(problem):
    check(problem)


@pytest.mark.slow
@pytest.mark.parametrize("problem", HARDER, ids=lambda p: p.name)
def test_harder_problems_do_so_too(problem):
    check(problem)


@pytest.mark.parametrize("integrator", ["runge_kutta", "simpson", "radau", "gauss_legendre",
                                        pytest.param("hermite_simpson", marks=pytest.mark.compiled)])
@pytest.mark.parametrize("problem", [thesis_linear(), bratu(True), mathieu(), measles()], ids=lambda p: p.name)
def test_shooting_and_collocation_agree(problem, integrator):
    reference = solved(problem, tolerance=1e-9)
    solution = solved(problem, integrator=integrator)
    assert solution.converged
    assert distance(solution, reference) <= ESTIMATED * TOLERANCE


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 1e-8, 1e-11])
def test_the_tolerance_is_met_whatever_it_is(tolerance):
    for problem in (bratu(True), t1(1e-4)):
        solution = solved(problem, tolerance=tolerance)
        assert solution.converged
        assert distance(solution, lambda t, p=problem: p.exact(t)[:, None]) <= ESTIMATED * tolerance


def test_two_solutions_of_one_problem_are_both_found():
    middles = [solved(bratu(upper))(0.5)[0] for upper in (False, True)]
    assert middles == pytest.approx([0.1405392, 4.0914669], abs=1e-5)


@pytest.mark.parametrize(("mu", "slope"), [(5, 4.575046e-2), (10, 3.583378e-4)])
def test_troesch_has_the_published_slope(mu, slope):
    """y'(0) as tabulated in the literature, for example by Roberts and Shipman (1972)."""
    assert solved(troesch(mu), tolerance=1e-9).values[0, 1] == pytest.approx(slope, rel=1e-6)


def test_a_solution_is_a_guess_for_a_harder_problem():
    """Troesch with mu = 20 is out of reach from a straight line; its y'(0) is 1.648773e-8."""
    solution = solved(troesch(5))
    for mu in (10, 15, 20):
        solution = solved(dataclasses.replace(troesch(mu), guess=solution), tolerance=1e-8)
        assert solution.converged
    assert solution.values[0, 1] == pytest.approx(1.648773e-8, rel=1e-5)


def test_nodes_are_inserted_where_modes_grow():
    """e^+-100 over the interval: as shooting, no change may grow by more than 100 over one segment."""
    solution = solved(t1(1e-4), integrator="runge_kutta", growth=100.0)
    assert solution.converged and solution.rounds[-1].growth <= 100
    assert len(solution.time) > np.log(np.exp(100)) / np.log(100)
    finer = solved(t1(1e-4), integrator="runge_kutta", growth=10.0, tolerance=1e-2)
    coarser = solved(t1(1e-4), integrator="runge_kutta", growth=1e3, tolerance=1e-2)
    assert finer.rounds[-1].growth <= 10 and len(finer.time) > len(coarser.time)


def test_davidenko_can_be_chosen_and_tells_its_steps():
    solution = solved(thesis_linear(), method="davidenko")
    assert solution.converged and solution.rounds[0].solver == "Davidenko" and solution.rounds[0].iterations <= 46
    assert {page.phase for page in solution.history} == {"time stepping", "newton"}
    assert distance(solution, lambda t: thesis_linear().exact(t)[:, None]) <= ESTIMATED * TOLERANCE
    assert solved(bratu(False), method=Davidenko(absolute=0.5, relative=0.5)).converged


def test_values_do_not_depend_on_units():
    """y in units of 1e-9, y' in units of 1e6: the same path of iterations, the same numbers."""
    plain = solved(bratu(True))
    other = di.solve_boundary_value(
        lambda t, y: [1e9 * 1e-6 * y[1], -1e6 * exp(1e-9 * y[0])], lambda a, b: [a[0], b[0]], (0, 1),
        lambda t: [4e9 * np.sin(np.pi * t), 4e6 * np.pi * np.cos(np.pi * t)])
    assert other.iterations == plain.iterations and np.array_equal(other.time, plain.time)
    assert other.values * [1e-9, 1e-6] == pytest.approx(plain.values, abs=1e-9)


def test_output_points_are_nodes_and_must_hold_the_boundaries():
    problem = thesis_linear()
    output = np.array([0, 0.123, 0.5, 0.876, 1])
    solution = solved(problem, output=output)
    assert np.array_equal(solution.output_time, output)
    assert solution.output[:, 0] == pytest.approx(problem.exact(output), abs=TOLERANCE)
    with pytest.raises(di.ProblemError, match="121"):
        solved(problem, output=[0, 0.5, 0.9])


def test_a_parameter_may_stand_in_the_conditions_only():
    """y' = -y, y(0) = c, y(1) = c - 1: c = 1/(1 - 1/e)."""
    solution = di.solve_boundary_value(lambda t, y, p: [-y[0]], lambda a, b, p: [a[0] - p.c, b[0] - p.c + 1], (0, 1), [1.0],
                                       parameters={"c": 3.0})
    assert solution.parameters["c"] == pytest.approx(1 / (1 - np.exp(-1)), abs=TOLERANCE)


def test_models_and_names_can_be_used():
    model = di.EquationModel(states={"angle": "speed", "speed": "-k*sin(angle)"})
    solution = di.solve_boundary_value(model, lambda a, b, p: [a.angle - 0.5, a.speed, b["angle"] + 0.5], [0, 1.0],
                                       lambda t: [0.5 * np.cos(np.pi * t), 0], parameters={"k": 8.0})
    assert solution.converged
    path = di.simulate(model, {**solution.parameters, "angle(0)": 0.5, "speed(0)": 0.0},
                       di.Experiment(np.linspace(0, 1, 11)))
    assert solution(path.time)[:, 0] == pytest.approx(path.states["angle"], abs=2e-6)
    assert list(solution.states) == ["angle", "speed"]


def test_threads_change_no_number(monkeypatch):
    mesh = np.linspace(0, np.pi, 301)
    for options in ({}, {"integrator": "runge_kutta"}):
        one = dataclasses.replace(mathieu(), interval=mesh)
        alone = solved(one, **options)
        monkeypatch.setattr(segments, "WORTH_A_THREAD", 10)
        monkeypatch.setattr(segments, "cpu_count", lambda: 3)
        assert np.array_equal(solved(one, **options).values, alone.values)
        monkeypatch.undo()


def test_singular_conditions_are_refused_with_their_number():
    solution = di.solve_boundary_value(lambda t, y: [y[1], 1.0], lambda a, b: [a[1], b[1] - 1], (0, 1), [0, 0])
    assert not solution.converged and solution.code == 260 and "260" in solution.status
    assert "NOT CONVERGED" in str(solution)


def test_a_condition_number_above_1e8_is_warned_about():
    """Periodic and undamped, tied to its own frequency: only a tiny detuning keeps the solution."""
    k = (2 * np.pi * (1 + 1e-10))**2
    solution = di.solve_boundary_value(lambda t, y: [y[1], 1e-3 - k * y[0]], lambda a, b: [a[0] - b[0], a[1] - b[1]],
                                       (0, 1), [0, 0], tolerance=1e-3)
    assert solution.condition > 1e8 and any("1e8" in text for text in solution.warnings)
    assert not solved(thesis_linear()).warnings


def test_what_is_not_found_is_not_shown_as_found():
    nothing = di.solve_boundary_value(lambda t, y: [y[1], -4 * exp(y[0])], lambda a, b: [a[0], b[0]], (0, 1), [0, 0])
    assert not nothing.converged  # Bratu has no solution beyond 3.51
    assert "Not converged" in nothing.status and nothing.code and np.isnan(nothing.error)
    few = solved(t1(1e-6), nodes=30)
    assert not few.converged and "nodes = 30" in few.status
    assert few.values[0, 0] == pytest.approx(1) and len(few.time) <= 30  # what was solved last is kept
    stopped = solved(bratu(True), method=DampedNewton(iterations=1))
    assert stopped.code == 231 and not np.allclose(stopped.values[:, 0], [bratu(True).guess(t)[0] for t in stopped.time])


def test_a_run_can_be_stopped():
    def watch(page):
        raise KeyboardInterrupt

    stopped = solved(bratu(True), watch=watch)
    assert not stopped.converged and "by the user" in stopped.status


@pytest.mark.parametrize(("change", "said"), [
    ({"rate": lambda t, y: [y[1]]}, "1 rates, but there are 2 states"),
    ({"rate": lambda t, y: [y[1], np.sin(y[0])]}, "dynident.maths"),
    ({"rate": lambda t: [0, 0]}, r"\(t, y\)"),
    ({"rate": lambda t, y: None}, "returned nothing"),
    ({"boundary": lambda a, b: [a[0]]}, "1 conditions, but 2 states need 2"),
    ({"boundary": lambda a, b: [a[0], b.speed]}, "no 'speed'"),
    ({"mesh": [0]}, "two finite times"),
    ({"mesh": [0, 1, 0.5]}, "increase"),
    ({"guess": [[1, 2, 3]]}, "shape"),
    ({"guess": "near zero"}, "function of t"),
    ({"guess": [0, np.nan]}, "not finite"),
    ({"rate": lambda t, y: [y[1], log(y[0])]}, "rate of 'y2' is not finite at the guess: t = 0"),
    ({"tolerance": 0}, "tolerance"),
    ({"growth": 1}, "growth"),
    ({"method": "newtn"}, "newton"),
    ({"integrator": "cvodes"}, "chooses its own steps"),
    ({"scale": {"z": 1}}, "no such state"),
    ({"scale": {"y1": -1}}, "positive"),
    ({"states": ["only"]}, "2 values per point, but there are 1 states")])
def test_faults_are_named(change, said):
    usual = {"rate": lambda t, y: [y[1], -y[0]], "boundary": lambda a, b: [a[0], b[0] - 1], "mesh": [0, 1], "guess": [0, 0]}
    with pytest.raises(di.DynidentError, match=said):
        di.solve_boundary_value(**{**usual, **change})


def test_asking_outside_of_the_interval_is_refused():
    with pytest.raises(di.ProblemError, match="known from"):
        solved(thesis_linear())(1.5)


def test_the_result_prints_and_draws():
    solution = solved(mathieu())
    text = str(solution)
    assert "Converged" in text and "17.0965" in text and "condition number" in text
    assert len(solution.plot().axes) == 3
    above, below = solution.plot_iterations().axes
    assert len(above.lines[0].get_xdata()) == solution.iterations and below.get_xlabel() == "iteration"
    assert solution.jacobians == sum(each.jacobians for each in solution.rounds) >= len(solution.rounds)


def test_a_rate_that_holds_a_boundary_layer_of_troesch_is_smooth_in_mu():
    """Derivative of y'(0) by mu: differences of solutions agree with the variational equation solved beside it."""
    def slope(mu):
        return solved(troesch(mu), tolerance=1e-11).values[0, 1]

    def rate(t, y):
        mu = 3.0
        return [y[1], mu * sinh(mu * y[0]), y[3], sinh(mu * y[0]) + mu * di.maths.cosh(mu * y[0]) * (y[0] + mu * y[2])]

    both = di.solve_boundary_value(rate, lambda a, b: [a[0], b[0] - 1, a[2], b[2]], (0, 1), lambda t: [t, 1, 0, 0],
                                   tolerance=1e-10)
    assert (slope(3 + 1e-4) - slope(3 - 1e-4)) / 2e-4 == pytest.approx(both.values[0, 3], rel=1e-6)


def test_pi_is_the_length_of_half_a_wave():
    """An unknown length as a parameter: y'' = -L^2 y on [0, 1] with y(0) = y(1) = 0, y'(0) = L."""
    solution = di.solve_boundary_value(lambda t, y, p: [p[0] * y[1], -p[0] * y[0]],
                                       lambda a, b, p: [a[0], b[0], a[1] - 1], [0, 1],
                                       lambda t: [np.sin(3 * t), np.cos(3 * t)], parameters={"L": 3.0}, tolerance=1e-10)
    assert solution.parameters["L"] == pytest.approx(pi, abs=1e-9)


def test_a_rate_that_has_changed_is_traced_anew():
    stiffness = [1.0]

    def rate(t, y):
        return [y[1], -stiffness[0] * y[0]]

    for stiffness[0] in (1.0, 1.0 + 1e-9, 4.0):
        found = di.solve_boundary_value(rate, lambda a, b: [a[0], b[0] - 1], (0.0, 1.0), [0.0, 1.0], tolerance=1e-9)
        turn = np.sqrt(stiffness[0])
        assert found(0.5)[0] == pytest.approx(np.sin(turn / 2) / np.sin(turn), rel=1e-8)
