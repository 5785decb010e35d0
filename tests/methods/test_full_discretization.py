"""The method: solvers agree, published optima are reached, constraints hold, faults are sentences."""

import numpy as np
import pytest

import dynident as di
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import Variables
from dynident.methods.direct import FullDiscretizationMethod
from dynident.solvers import nlp
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status
from dynident.transcription.full_discretization import FullDiscretization
from problems import MACHINES, bellman, gas_oil, pinene

SOLVERS = [("gauss_newton", None), ("ipopt", "exact"), ("ipopt", "gauss_newton"), ("ipopt", "limited_memory"),
           ("sqp", "gauss_newton"), ("sqp", "exact")]


@pytest.mark.parametrize(("solver", "hessian"), SOLVERS)
def test_all_solvers_reach_the_same_optimum(solver, hessian):
    problem = MACHINES["mass_spring_damper"].problem(seed=4)
    e = di.identify(problem, di.full_discretization("trapezoid", substeps=1, solver=solver, hessian=hessian,
                                                         max_iterations=3000))
    reference = di.identify(problem, di.single_shooting(integrator="trapezoid", substeps=1))
    for name in problem.names:
        assert e.values[name] == pytest.approx(reference.values[name], rel=1e-5, abs=1e-4 * reference.uncertainty.std(name))


@pytest.mark.parametrize("method", [
    di.full_discretization("radau", substeps=4), di.full_discretization("gauss_legendre", 3, substeps=4),
    di.full_discretization("radau", substeps=4, solver="ipopt"),
    di.full_discretization("radau", substeps=4, solver="sqp", hessian="gauss_newton"),
    di.full_discretization("radau", substeps=4, solver="sqp", hessian="exact"),
    di.full_discretization("hermite_simpson", substeps=16)], ids=str)
def test_cops_problems_reach_the_published_optimum_from_the_published_start(method):
    """COPS 3 gives 5.2366e-3 and 19.8721; the exact differential equations 0.005236595834 and 19.87216695."""
    oil, acid = di.identify(gas_oil(), method), di.identify(pinene(), method)
    assert oil.cost == pytest.approx(0.005236595834, rel=1e-5)
    assert acid.cost == pytest.approx(19.87216695, rel=1e-5)
    assert oil.values["th1"] == pytest.approx(11.84673838, rel=1e-4)
    assert acid.values["th4"] == pytest.approx(2.744709125e-4, rel=1e-3)


def test_exact_second_derivatives_take_few_iterations():
    """What makes a Hessian convex needlessly would cost hundreds: near the optimum the method is Newton's."""
    for machine in ("two_mass", "servo_axis"):
        e = di.identify(MACHINES[machine].problem(seed=4), di.full_discretization(solver="sqp", hessian="exact"))
        assert e.counts["iterations"] < 60  # with the easier problems that come first


def test_solver_that_ends_where_no_trajectory_is_shows_the_start_and_says_so(monkeypatch):
    problem = MACHINES["pendulum"].problem(seed=4)

    class Lost:
        name = "a solver that loses its way"

        def solve(self, finite, point, watch=None):
            far = Variables(point.unknowns * np.nan, point.nodes)
            return SolverResult(far, finite.evaluate(point), False, Status("somewhere"), (), np.zeros(len(finite.names), int))

    monkeypatch.setattr(FullDiscretizationMethod, "make_solver", lambda self, finite: Lost())
    with pytest.raises(di.NotConverged, match="values below are those of the start") as stopped:
        di.identify(problem, di.full_discretization())
    assert stopped.value.estimate.status.code == "diverged"
    assert stopped.value.estimate.values["p"] == problem.parameters[0].start


def test_sparse_solver_that_ends_beyond_the_model_goes_back_to_its_last_finite_point():
    finite = FullDiscretization(MACHINES["pendulum"].problem(seed=4), integrator_named("trapezoid"), 1, {})
    run = nlp._NlpSolve(finite, finite.start(), None, "exact")
    w, evaluation = run.last_finite(np.full(run.program.size, np.nan))
    assert np.all(np.isfinite(w))
    assert evaluation.cost == finite.evaluate(finite.start()).cost
    assert run.wall is not None


def test_bellmans_kinetics_reach_the_known_optimum():
    e = di.identify(bellman(), di.full_discretization("radau", substeps=2))
    assert e.cost == pytest.approx(21.86671, rel=1e-6)
    assert e.values["k1"] == pytest.approx(4.5770881e-6, rel=1e-5)
    assert e.values["k2"] == pytest.approx(2.796242e-4, rel=1e-4)


@pytest.mark.compiled
def test_pendulum_over_many_periods_is_found_from_starts_where_single_shooting_is_lost():
    """y'' = -p sin y over 50 s, angle only: a hundred local minima for single shooting, none here."""
    rng, machine = np.random.default_rng(1), MACHINES["pendulum"]
    time = np.linspace(0, 50, 1001)
    blank = di.Experiment(time, outputs={"angle": time}, initial={"angle": 1.0, "rate": 0.0})
    y = di.simulate(machine.model, {"p": 10.0, "d": 0.0}, blank).outputs["angle"]
    run = di.Experiment(time, outputs={"angle": y + 0.01 * rng.standard_normal(time.size)},
                        noise={"angle": di.Gaussian(0.01)})
    for start in (1.0, 4.0, 20.0, 40.0):
        problem = di.Problem(machine.model, [run], [di.Parameter("p", start, 0.1, 100), di.Parameter("d", 0, free=False)])
        e = di.identify(problem, di.full_discretization("hermite_simpson"))
        low, high = e.uncertainty.interval("p", 0.9999)
        assert low < 10.0 < high


def test_equality_and_inequality_between_parameters_hold():
    problem = MACHINES["mass_spring_damper"].problem(seed=4)
    free = di.identify(problem, di.full_discretization(substeps=1))
    total = free.values["m"] + free.values["d"]
    tied = di.identify(problem.replace(constraints=[f"m + d == {total + 0.01}", f"k <= {free.values['k'] - 0.01}"]))
    assert tied.values["m"] + tied.values["d"] == pytest.approx(total + 0.01, abs=1e-7)
    assert tied.values["k"] == pytest.approx(free.values["k"] - 0.01, abs=1e-6)
    assert tied.cost > free.cost
    assert "Ipopt" in tied.status


def test_an_equality_between_parameters_is_information():
    """With m + d known, their errors are equal and opposite."""
    problem = MACHINES["mass_spring_damper"].problem(seed=4)
    free = di.identify(problem, di.full_discretization(substeps=1))
    tied = di.identify(problem.replace(constraints=[f"m + d == {free.values['m'] + free.values['d']}"]))
    index = [problem.names.index(n) for n in ("m", "d")]
    assert tied.uncertainty.correlation()[index[0], index[1]] == pytest.approx(-1, abs=1e-6)
    assert tied.uncertainty.std("m") < free.uncertainty.std("m")


def test_bounds_on_states_hold_at_every_grid_point():
    problem = MACHINES["pendulum"].problem(seed=1)
    fastest = np.max(np.abs(di.identify(problem).trajectories[0].states["rate"]))
    limit = float(0.999 * fastest)
    e = di.identify(problem.replace(constraints=[f"{-limit} <= rate <= {limit}"]),
                    di.full_discretization("hermite_simpson", substeps=1))
    assert np.max(np.abs(e.trajectories[0].states["rate"])) <= limit * (1 + 1e-6)


def test_a_constraint_that_cannot_be_met_is_said():
    problem = MACHINES["mass_spring_damper"].problem(seed=4).replace(constraints=["m + d == 5", "m + d <= 4"])
    with pytest.raises(di.NotConverged, match=r"(?s)constraints.*m \+ d") as stopped:
        di.identify(problem)
    assert stopped.value.estimate.status.code == "infeasible_constraints"


def test_faults_of_options_are_sentences():
    with pytest.raises(di.ProblemError, match="Did you mean 'trapezoid'"):
        di.full_discretization("trapezoidal")
    with pytest.raises(di.ProblemError, match="fixed steps"):
        di.full_discretization("cvodes")
    with pytest.raises(di.ProblemError, match="no degree"):
        di.full_discretization("heun", degree=3)
    with pytest.raises(di.ProblemError, match="Did you mean 'exact'"):
        di.full_discretization(hessian="exakt")
    with pytest.raises(di.ProblemError, match="whole number"):
        di.full_discretization(substeps=0)


def test_ipopt_stops_at_its_limit_and_says_so():
    problem = MACHINES["two_mass"].problem(seed=4)
    with pytest.raises(di.NotConverged, match="1 iteration") as stopped:
        di.identify(problem, di.full_discretization(solver="ipopt", max_iterations=1, substeps=1))
    assert not stopped.value.estimate.converged and stopped.value.estimate.status.code == "iteration_limit"


def test_ctrl_c_in_ipopt_keeps_the_best_point():
    def interrupt(iteration):
        if iteration.number == 2:
            raise KeyboardInterrupt

    problem = MACHINES["two_mass"].problem(seed=4)
    with pytest.raises(di.NotConverged) as stopped:
        di.identify(problem, di.full_discretization(solver="ipopt", substeps=1), progress=interrupt)
    assert stopped.value.estimate.status.code == "interrupted"
    assert stopped.value.estimate.counts["interrupted"] == 1
    assert np.isfinite(stopped.value.estimate.cost)
