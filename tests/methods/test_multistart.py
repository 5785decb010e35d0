"""Many starts: how often the best was found, the same on one worker and on several."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dynident as di
from dynident.methods.multistart import start_points
from problems import MACHINES


def pendulum_problem() -> di.Problem:
    """Long enough for single shooting to have local optima."""
    rng, machine = np.random.default_rng(1), MACHINES["pendulum"]
    time = np.linspace(0, 20, 401)
    blank = di.Experiment(time, outputs={"angle": time}, initial={"angle": 1.0, "rate": 0.0})
    y = di.simulate(machine.model, {"p": 10.0, "d": 0.0}, blank).outputs["angle"]
    run = di.Experiment(time, outputs={"angle": y + 0.01 * rng.standard_normal(time.size)},
                        noise={"angle": di.Gaussian(0.01)})
    return di.Problem(machine.model, [run], [di.Parameter("p", 3.0, 1, 40), di.Parameter("d", 0.0, free=False)])


def test_best_of_many_starts_is_found_where_one_start_is_not():
    problem = pendulum_problem()
    one = di.identify(problem, di.single_shooting())
    many = di.identify(problem, di.multistart(di.single_shooting(), starts=25, seed=2))
    assert "one start" in one.status
    assert one.cost > 10 * many.cost
    assert many.values["p"] == pytest.approx(10.0, abs=0.01)
    assert len(many.starts) == 25
    reached = sum(s.converged and s.cost <= many.cost * 1.001 for s in many.starts)
    assert many.counts["reached the best"] == reached < 25
    assert f"{reached} of 25" in many.status


def test_one_worker_and_several_give_the_same_starts_and_ends():
    problem, method = pendulum_problem(), di.multistart(di.single_shooting(), starts=6)
    alone = di.identify(problem, method)
    with ThreadPoolExecutor(2) as pool:
        together = di.identify(problem, method, executor=pool)
    assert alone.starts == together.starts
    assert alone.values == together.values


def test_starts_lie_inside_the_bounds_one_in_each_layer():
    problem = pendulum_problem()
    points = [p["p"] for p in start_points(problem, 13, seed=0)]
    layers = np.floor((np.array(points) - 1) / (40 - 1) * 13)
    assert sorted(layers) == list(range(13))


def test_given_points_are_used_as_they_are():
    method = di.multistart(di.single_shooting(), points=[{"p": 9.5}, {"p": 10.5}])
    e = di.identify(pendulum_problem(), method)
    assert [s.start["p"] for s in e.starts] == [9.5, 10.5]


def test_unbounded_parameters_and_wrong_names_are_refused():
    problem = pendulum_problem()
    open_ended = problem.changed(parameters=(di.Parameter("p", 3.0), di.Parameter("d", 0.0, free=False)))
    with pytest.raises(di.ProblemError, match="needs bounds for 'p'"):
        di.identify(open_ended, di.multistart(di.single_shooting(), starts=3))
    with pytest.raises(di.ProblemError, match="names 'q'"):
        di.identify(problem, di.multistart(di.single_shooting(), points=[{"q": 1.0}]))


def test_a_start_that_diverges_is_counted_and_the_others_go_on():
    model = di.EquationModel(states={"x": "a*x**3 - x"})
    time = np.linspace(0, 3, 31)
    truth = di.simulate(model, {"a": -0.5, "x(0)": 1.0}, di.Experiment(time, outputs={"x": time}, initial={"x": 1.0}))
    run = di.Experiment(time, outputs={"x": truth.outputs["x"]}, noise={"x": di.Gaussian(1e-3)}, initial={"x": 1.0})
    problem = di.Problem(model, [run], [di.Parameter("a", -1.0, -2, 60)])
    e = di.identify(problem, di.multistart(di.single_shooting(), starts=10))
    assert e.values["a"] == pytest.approx(-0.5, abs=1e-6)
    failed = [s for s in e.starts if not s.converged]
    assert failed
    assert all("finite" in s.status or "converge" in s.status for s in failed)
