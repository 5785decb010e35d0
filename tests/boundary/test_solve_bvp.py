"""solve_bvp on published problems: right to the tolerance, and honest where it is not."""

import dataclasses

import numpy as np
import pytest

import dynident as di
from boundary_problems import (
    HARDER,
    PUBLISHED,
    bratu,
    by_scipy,
    kink,
    kink_times,
    line,
    mathieu,
    measles,
    steady_burgers,
    t1,
    thesis_linear,
    troesch,
)
from dynident.boundary.solve_bvp import systems
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.maths import exp, log, pi, sinh

TOLERANCE = 1e-6
ESTIMATED = 2  # an error is estimated from steps of half the length; it may be larger by this
CLOSER = 1e-8  # tolerance of the reference; scipy measures a residual, so that its error is of this size only roughly
WAVE = (lambda t, y: [y[1], -y[0]]), (lambda a, b: [a[0], b[0] - 1])
DENSE = 2001  # points at which solutions are compared, most of them between nodes


def solved(problem, **options):
    return di.solve_bvp(problem.rate, problem.boundary, problem.interval, problem.guess,
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
    assert not solution.warnings  # none of them is one of many
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


def as_tanh(a):
    return lambda t: [np.tanh(a * t), a / np.cosh(a * t)**2]


def off_kink(solution, a, above):
    """The largest error of y where it climbs, in its typical size; the reference is a quadrature."""
    values = np.linspace(-0.9, 0.9, 7)
    return np.max(np.abs(solution(kink_times(a, above, values))[:, 0] - values)) / solution.scale["y1"]


@pytest.mark.parametrize("a", [2, 4, 5, 6])
def test_a_layer_inside_is_found_from_a_straight_line(a):
    solution = solved(kink(a))
    assert solution.converged and not solution.warnings
    assert off_kink(solution, a, 0.0) <= ESTIMATED * TOLERANCE


@pytest.mark.parametrize("tolerance", [pytest.param(1e-2, marks=pytest.mark.slow), 1e-6])
@pytest.mark.parametrize(("a", "above"), [(6, 0), (7, 0), (8, 0), (6, 1e-4), (8, 1e-6), (9, 1e-6), (12, 1e-6)])
def test_no_layer_is_claimed_to_stand_where_it_does_not(a, above, tolerance):
    """The ends move it by about e^(2a) of what they change by: too little for coarse meshes, at last for rounding."""
    claims = [solved(kink(a, above, guess), tolerance=tolerance) for guess in (line(-1, 1, (-1, 1)), as_tanh(a))]
    for claim in claims:
        assert not claim.converged or off_kink(claim, a, above) <= ESTIMATED * tolerance


@pytest.mark.parametrize("method", [Davidenko(tolerance=1e-7, max_iterations=1000), DampedNewton("kept", tolerance=1e-7)])
def test_an_old_jacobian_claims_nothing(method):
    for a in (4, 6, 8):
        claim = di.solve_bvp(kink(a).rate, kink(a).boundary, np.linspace(-1, 1, 65), kink(a).guess, method=method)
        assert not claim.converged or abs(claim(0.0)[0]) <= ESTIMATED * TOLERANCE  # it is odd


def test_the_condition_number_is_that_of_the_solution():
    """y(0) of the kink follows y(1) by about e^(2a)/16 at a = 6, by quadrature: a coarse mesh shows 5."""
    solution = solved(kink(6, 0.0, as_tanh(6)))
    moved = solved(kink(6, 1e-7, solution), tolerance=1e-8)(0.0)[0] - solved(kink(6, 0.0, solution), tolerance=1e-8)(0.0)[0]
    assert solution.condition == pytest.approx(moved / 1e-7, rel=0.2)


@pytest.mark.parametrize("guess", [line(1, -1, (-1, 1)), [0, 0]], ids=["line", "zero"])
@pytest.mark.parametrize("eps", [0.1, 0.05])
def test_a_shock_is_found_from_a_poor_guess(eps, guess):
    problem = steady_burgers(eps, guess)
    solution = solved(problem)
    assert solution.converged
    assert distance(solution, lambda t: problem.exact(t)[:, None]) <= ESTIMATED * TOLERANCE


def test_a_shock_is_found_by_continuation():
    problem = steady_burgers(0.05, solved(steady_burgers(0.1, [0, 0])))
    assert distance(solved(problem), lambda t: problem.exact(t)[:, None]) <= ESTIMATED * TOLERANCE


def test_what_rounding_stops_is_kept_with_its_error():
    problem = steady_burgers(0.06, lambda t: [-np.tanh(t / 0.12), -1 / 0.12 / np.cosh(t / 0.12)**2])
    solution = solved(problem, tolerance=1e-9)
    assert solution.status.code == "mesh_limit" and f"rounding keeps the error at {solution.error:.1e}" in solution.status
    assert distance(solution, lambda t: problem.exact(t)[:, None]) <= ESTIMATED * solution.error


@pytest.mark.parametrize("unit", [1e-6, 1e-13, 1e-30])
def test_the_error_is_relative_however_small_the_states_are(unit):
    def middle(unit):
        found = di.solve_bvp(lambda t, y: [y[1], -3 * unit * exp(y[0] / unit)], lambda a, b: [a[0], b[0]], [0, 1],
                                        [0, 0])
        assert found.converged
        return found(0.5)[0] / unit

    assert middle(unit) == pytest.approx(middle(1.0), rel=2 * ESTIMATED * TOLERANCE)


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
    other = di.solve_bvp(
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
    solution = di.solve_bvp(lambda t, y, p: [-y[0]], lambda a, b, p: [a[0] - p.c, b[0] - p.c + 1], (0, 1), [1.0],
                                       parameters={"c": 3.0})
    assert solution.parameters["c"] == pytest.approx(1 / (1 - np.exp(-1)), abs=TOLERANCE)


def test_models_and_names_can_be_used():
    model = di.EquationModel(states={"angle": "speed", "speed": "-k*sin(angle)"})
    solution = di.solve_bvp(model, lambda a, b, p: [a.angle - 0.5, a.speed, b["angle"] + 0.5], [0, 1.0],
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
        monkeypatch.setattr(systems, "STEPS_WORTH_A_THREAD", 10)
        monkeypatch.setattr(systems, "cpu_count", lambda: 3)
        assert np.array_equal(solved(one, **options).values, alone.values)
        monkeypatch.undo()


@pytest.mark.parametrize(("integrator", "order"), [("gauss_legendre", 2), ("radau", 1)])
def test_one_stage_is_the_midpoint_rule_or_implicit_euler(integrator, order):
    """y'' = -y, y(0) = 0, y(1) = 1: at a tolerance that asks for no refinement, half the step has a 2^order-th of the error."""
    def error(segments):
        found = di.solve_bvp(*WAVE, np.linspace(0, 1, segments + 1), [0, 0], degree=1, integrator=integrator,
                                        tolerance=0.5)
        assert len(found.time) == segments + 1
        return np.max(np.abs(found.values[:, 0] - np.sin(found.time) / np.sin(1)))

    assert np.log2(error(64) / error(128)) == pytest.approx(order, abs=0.05)


def test_singular_conditions_are_refused_with_their_number():
    solution = di.solve_bvp(lambda t, y: [y[1], 1.0], lambda a, b: [a[1], b[1] - 1], (0, 1), [0, 0])
    assert not solution.converged and solution.code == 260 and "260" in solution.status
    assert "NOT CONVERGED" in str(solution)
    assert "every guess ends like this one" in solution.status  # linear: no guess can help


def test_a_guess_that_determines_nothing_is_not_taken_for_a_problem_that_does_not():
    """y'' = -a y, y(0) = y(1) = 0, y'(0) = 1 has a = pi^2; where the guess is y = 0, nothing depends on a."""
    def eigenvalue(guess):
        return di.solve_bvp(lambda t, y, p: [y[1], -p.a * y[0]], lambda a, b, p: [a[0], b[0], a[1] - 1], [0, 1],
                                       guess, parameters={"a": 9.0})

    stuck = eigenvalue([0, 1])
    assert stuck.code == 260 and "This is known at the guess only: begin with another guess" in stuck.status
    assert "change the conditions at the ends" in stuck.status
    assert eigenvalue(lambda t: [np.sin(3 * t) / 3, np.cos(3 * t)]).parameters["a"] == pytest.approx(pi**2, rel=TOLERANCE)


@pytest.mark.parametrize("integrator", ["gauss_legendre", "trapezoid", "runge_kutta"])
def test_one_of_many_solutions_is_called_so(integrator):
    """y'' = -y, y(0) = y(pi) = 0: c sin(t) for every c. On a coarse mesh the condition number alone may look harmless."""
    found = di.solve_bvp(WAVE[0], lambda a, b: [a[0], b[0]], [0, np.pi], [0, 1], integrator=integrator)
    text = str(found)
    assert "one of many" in found.status and "error" not in found.status and "condition number" in text
    assert any("singular" in warning and "one of many" in warning for warning in found.warnings)


@pytest.mark.parametrize("close", [1e-2, 1e-5, 1e-8])
def test_a_solution_that_is_determined_is_not_called_one_of_many(close):
    """The same a little beside the eigenvalue: only y = 0, however large the condition number is."""
    found = di.solve_bvp(lambda t, y: [y[1], -(1 + close) * y[0]], lambda a, b: [a[0], b[0]], [0, np.pi], [0, 1])
    assert found.converged and found.condition > 0.1 / close and "one of many" not in str(found)


def test_a_periodic_orbit_without_a_phase_is_called_one_of_many():
    """van der Pol at its own period 6.66328685933: every point of the orbit may be the first; at a rounded period none is."""
    period = 6.66328685933
    found = di.solve_bvp(lambda t, y: [period * y[1], period * ((1 - y[0]**2) * y[1] - y[0])],
                                    lambda a, b: [a[0] - b[0], a[1] - b[1]], [0, 1],
                                    lambda t: [2 * np.cos(2 * np.pi * t), -2 * np.sin(2 * np.pi * t)], tolerance=1e-3)
    assert not found.converged and found.code == 260 and "may be one of many" in found.status


@pytest.mark.parametrize("integrator", ["gauss_legendre", "radau"])
def test_a_rate_may_have_a_pole_at_an_end_where_it_is_never_asked_for(integrator):
    """Lane and Emden's equation of index 5: y = (1 + t^2/3)^(-1/2)."""
    found = di.solve_bvp(lambda t, y: [y[1], -2 / t * y[1] - y[0]**5], lambda a, b: [a[1], b[0] - np.sqrt(0.75)],
                                    [0, 1], [1, 0], integrator=integrator)
    assert found.converged and not found.warnings
    assert distance(found, lambda t: (1 + t[:, None]**2 / 3)**-0.5) <= ESTIMATED * TOLERANCE


@pytest.mark.parametrize("integrator", ["trapezoid", "runge_kutta"])
def test_no_other_guess_is_asked_for_where_none_helps(integrator):
    with pytest.raises(di.ProblemError, match=r"at t = 0, neither for the guess nor for 64 other states.*a little beside"):
        di.solve_bvp(lambda t, y: [y[1], -2 / t * y[1] - y[0]], lambda a, b: [a[1], b[0] - 1], [0, 1], [1, 0],
                                integrator=integrator)


def test_reasons_read_as_what_follows_stopped():
    nothing = di.solve_bvp(lambda t, y: [y[1], -4 * exp(y[0])], lambda a, b: [a[0], b[0]], (0, 1), [0, 0],
                                      method="newton")
    assert nothing.status.code == "no_progress" and "stopped because no step helps any more" in nothing.status
    stopped = solved(bratu(True), method=DampedNewton(max_iterations=1))
    assert stopped.status.code == "iteration_limit" and "stopped at the limit of 1 iteration" in stopped.status
    short = solved(bratu(True), method=Davidenko(first=1e-3, shortest=1e-2))
    assert short.status.code == "inner_loop_failed" and "stopped because the inner loop does not converge" in short.status


def test_a_condition_number_above_1e8_is_warned_about():
    """Periodic and undamped, tied to its own frequency: only a tiny detuning keeps the solution."""
    k = (2 * np.pi * (1 + 1e-10))**2
    solution = di.solve_bvp(lambda t, y: [y[1], 1e-3 - k * y[0]], lambda a, b: [a[0] - b[0], a[1] - b[1]],
                                       (0, 1), [0, 0], tolerance=1e-3)
    assert solution.condition > 1e8 and any("1e8" in text for text in solution.warnings)
    assert not solved(thesis_linear()).warnings


def test_what_is_not_found_is_not_shown_as_found():
    nothing = di.solve_bvp(lambda t, y: [y[1], -4 * exp(y[0])], lambda a, b: [a[0], b[0]], (0, 1), [0, 0])
    assert not nothing.converged  # Bratu has no solution beyond 3.51
    assert nothing.status.code == "no_progress" and nothing.code and np.isnan(nothing.error)
    few = solved(t1(1e-6), nodes=30)
    assert not few.converged and few.status.code == "mesh_limit" and "nodes = 30" in few.status
    assert "stopped because the error is still" in few.status
    assert few.values[0, 0] == pytest.approx(1) and len(few.time) <= 30  # what was solved last is kept
    stopped = solved(bratu(True), method=DampedNewton(max_iterations=1))
    assert stopped.code == 231 and not np.allclose(stopped.values[:, 0], [bratu(True).guess(t)[0] for t in stopped.time])


def test_one_mesh_is_not_called_meshes():
    status = solved(bratu(False)).status
    assert "on 1 mesh, the last of 17 nodes" in status


def test_a_run_can_be_stopped():
    def watch(page):
        raise KeyboardInterrupt

    stopped = solved(bratu(True), watch=watch)
    assert not stopped.converged and stopped.status.code == "interrupted"


def raising(t):
    raise RuntimeError("no guess here.")


USUAL = {"rate": WAVE[0], "boundary": WAVE[1], "mesh": [0, 1], "guess": [0, 0]}


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
    ({"states": ["only"]}, "2 values per point, but there are 1 states"),
    ({"states": "ab"}, "states = 'ab'; give a list of names"),
    ({"states": ["a", "a"]}, "'a' names two things"),
    ({"mesh": "ab"}, "^mesh = 'ab'; give a list of at least two"),
    ({"mesh": [[0, 1], [2, 3]]}, r"mesh = an array of shape \(2, 2\)"),
    ({"output": "a"}, "^output = 'a'"),
    ({"parameters": [10.0]}, r"parameters = \[10.0\]; give a dict"),
    ({"parameters": {"k": "a"}}, r"parameters\['k'\] = 'a'; use a finite number"),
    ({"tolerance": None}, "tolerance = None"),
    ({"tolerance": "1e-6"}, "tolerance = '1e-6'"),
    ({"nodes": "a"}, "nodes = 'a'; give a whole number from 17 on"),
    ({"nodes": 5}, "nodes = 5; give a whole number from 17 on"),
    ({"nodes": 0}, "nodes = 0"),
    ({"nodes": -1}, "nodes = -1"),
    ({"growth": "a"}, "growth = 'a'"),
    ({"degree": "a"}, "degree = 'a'; give a whole number from 1 to 7"),
    ({"degree": 0}, "degree = 0; use 1 to 7"),
    ({"degree": 8}, "degree = 8; use 1 to 7"),
    ({"integrator": ["radau"]}, "integrator = "),
    ({"scale": 5}, "scale = 5; give a dict"),
    ({"scale": {"y1": "a"}}, r"scale\['y1'\] = 'a'"),
    ({"method": 3}, "method = 3; use one of auto"),
    ({"method": None}, "method = None"),
    ({"watch": 5}, "watch = 5; give a function"),
    ({"guess": raising}, "guess function raised RuntimeError at t = 0: no guess here. It"),
    ({"guess": lambda t: "text"}, "guess function returned 'text' at t = 0"),
    ({"guess": lambda t: [0.0] * (2 + (t > 0.5))}, "returned 3 numbers at t = 0.5625, but 2 at t = 0"),
    ({"rate": lambda t, y, p: [y[1], -y[0]], "boundary": lambda a, b, p: [a[0], b[0], b[1]], "parameters": {"k": 1}},
     "'k'. stands neither in the rate nor in the conditions"),
    ({"boundary": lambda a, b: [a[0], 1 / a[0]]}, "Condition 2 at the ends is not finite at the guess: y1 = 0, y2 = 0 at"),
    ({"boundary": lambda a, b: [a[0], b.speed]}, r"Known: y1, y2\.$"),
    ({"boundary": lambda a, b: [a[0], b["speed"]]}, r"Known: y1, y2\.$")])
def test_faults_are_named(change, said):
    with pytest.raises(di.ProblemError, match=said):
        di.solve_bvp(**{**USUAL, **change})


def test_several_faults_are_listed_at_once_and_none_of_what_was_not_given():
    with pytest.raises(di.ProblemError) as refused:
        di.solve_bvp(**{**USUAL, "mesh": [0, 1, 0.5], "tolerance": None, "nodes": "a", "growth": "a", "scale": 5,
                                   "method": 3, "watch": 5, "degree": "a", "parameters": [10.0]})
    assert [fault.split(" = ")[0] for fault in refused.value.faults] == [
        "mesh", "nodes", "parameters", "scale", "tolerance", "growth", "watch", "degree", "method"]


def test_a_constant_of_a_model_is_not_searched_for():
    def spring(**constants):
        return di.EquationModel(states={"x": "v", "v": "-stiffness*x"}, **constants)

    def solve(model, name):
        return di.solve_bvp(model, lambda a, b, p: [a.x, b.x - 1, a.v - 1], [0, 1], [0, 1],
                                       parameters={name: 1.0})

    with pytest.raises(di.ProblemError, match=r"'stiffness' is a constant of the model \(stiffness = 3\)"):
        solve(spring(constants={"stiffness": 3.0}), "stiffness")
    with pytest.raises(di.ProblemError, match=r"no such parameter.* Did you mean 'stiffness'"):
        solve(spring(), "stifness")


def test_most_nodes_are_kept_to():
    with pytest.raises(di.ProblemError, match="nodes = 500; give a whole number from 1001 on"):
        di.solve_bvp(*WAVE, np.linspace(0, 1, 1001), [0, 0], nodes=500)
    assert len(di.solve_bvp(*WAVE, [0, 1], [0, 0], nodes=17).time) == 17
    assert len(solved(t1(1e-6), nodes=40).time) <= 40


def test_asking_outside_of_the_interval_is_refused():
    solution = solved(thesis_linear())
    with pytest.raises(di.ProblemError, match="known from"):
        solution(1.5)
    with pytest.raises(di.ProblemError, match=r"shape \(2, 2\)"):
        solution(np.zeros((2, 2)))
    with pytest.raises(di.ProblemError, match="not at 'noon'"):
        solution("noon")


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

    both = di.solve_bvp(rate, lambda a, b: [a[0], b[0] - 1, a[2], b[2]], (0, 1), lambda t: [t, 1, 0, 0],
                                   tolerance=1e-10)
    assert (slope(3 + 1e-4) - slope(3 - 1e-4)) / 2e-4 == pytest.approx(both.values[0, 3], rel=1e-6)


def test_pi_is_the_length_of_half_a_wave():
    """An unknown length as a parameter: y'' = -L^2 y on [0, 1] with y(0) = y(1) = 0, y'(0) = L."""
    solution = di.solve_bvp(lambda t, y, p: [p[0] * y[1], -p[0] * y[0]],
                                       lambda a, b, p: [a[0], b[0], a[1] - 1], [0, 1],
                                       lambda t: [np.sin(3 * t), np.cos(3 * t)], parameters={"L": 3.0}, tolerance=1e-10)
    assert solution.parameters["L"] == pytest.approx(pi, abs=1e-9)


def test_a_rate_that_has_changed_is_traced_anew():
    stiffness = [1.0]

    def rate(t, y):
        return [y[1], -stiffness[0] * y[0]]

    for stiffness[0] in (1.0, 1.0 + 1e-9, 4.0):
        found = di.solve_bvp(rate, lambda a, b: [a[0], b[0] - 1], (0.0, 1.0), [0.0, 1.0], tolerance=1e-9)
        turn = np.sqrt(stiffness[0])
        assert found(0.5)[0] == pytest.approx(np.sin(turn / 2) / np.sin(turn), rel=1e-8)
