"""Many starts: how often the best was found, the same on one worker and on several."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dynident as di
from dynident.methods.ranking import criterion
from dynident.tolerances import SAME_OPTIMUM
from dynident.verbs.multistart import start_points
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
    open_ended = problem.replace(parameters=(di.Parameter("p", 3.0), di.Parameter("d", 0.0, free=False)))
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
    assert "start_diverged" in {s.status.code for s in failed} and "unknown" not in {s.status.code for s in failed}


def beat_problem(seed: int, noise: dict | None = None) -> di.Problem:
    """Two tones, of which an undamped oscillator can follow one: the larger at w = 3, with many local optima beside it."""
    time = np.linspace(0, 20, 401)
    y = np.cos(3 * time) + 0.8 * np.cos(6 * time) + 0.02 * np.random.default_rng(seed).standard_normal(401)
    model = di.EquationModel(states={"y": "v", "v": "-w**2*y"}, outputs={"pos": "y"})
    return di.Problem(model, [di.Experiment(time, {}, {"pos": y}, noise or {})], [di.Parameter("w", 6.0, lower=2.0, upper=7.0)])


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_noise_of_unknown_size_does_not_make_all_optima_equal(seed):
    """Each end divides its cost by a noise of its own, so that all costs are the degrees of freedom."""
    unknown = di.identify(beat_problem(seed), di.multistart(di.single_shooting(), starts=8))
    given = di.identify(beat_problem(seed, {"pos": di.Gaussian(0.5)}), di.multistart(di.single_shooting(), starts=8))
    assert np.ptp([s.cost for s in unknown.starts]) < 1e-6 * unknown.cost
    assert unknown.values["w"] == pytest.approx(3.0, abs=0.01)
    assert unknown.values["w"] == pytest.approx(given.values["w"], abs=1e-6)
    assert unknown.counts["reached the best"] == given.counts["reached the best"] < 8
    ends = [[s.values["w"] for s in sorted(e.starts, key=lambda s: s.criterion)] for e in (unknown, given)]
    np.testing.assert_allclose(ends[0], ends[1], atol=0.01)  # optima lie 0.2 apart; in the order of how well they fit


def test_criterion_is_twice_the_log_likelihood_of_several_signals():
    """The difference of two ends is that of -2 log L, computed here from residuals alone."""
    time = np.linspace(0, 10, 201)
    model = di.EquationModel(states={"y": "v", "v": "-w**2*y"}, outputs={"pos": "y", "speed": "v"})
    rng = np.random.default_rng(3)
    data = {"pos": np.cos(3 * time) + 0.1 * rng.standard_normal(201), "speed": -3 * np.sin(3 * time) + rng.standard_normal(201)}
    data["speed"][50:80] = np.nan
    problem = di.Problem(model, [di.Experiment(time, {}, data)], [di.Parameter("w", 3.0, 1, 9)])
    ends = [di.single_shooting().identify(problem.replace(parameters=(di.Parameter("w", w, 1, 9),)), None, lambda _: None)
            for w in (3.1, 7.0)]

    def twice(e):
        found = 0.0
        for name in data:
            r = e.residuals[0][name]
            r, s = r[np.isfinite(r)], e.noise_std[name]
            found += np.sum((r / s) ** 2) + 2 * r.size * np.log(s)
        return found

    assert abs(ends[0].values["w"] - ends[1].values["w"]) > 1
    assert criterion(ends[1]) - criterion(ends[0]) == pytest.approx(twice(ends[1]) - twice(ends[0]), rel=1e-9)


@pytest.mark.parametrize("noise", [{}, {"y": di.Gaussian(0.01)}])
def test_data_without_noise_do_not_tell_ends_apart_by_rounding(noise):
    model = di.EquationModel(states={"y": "-a*y + b"}, outputs=["y"])
    time = np.linspace(0, 3, 61)
    y = np.exp(-time) + 0.5 * (1 - np.exp(-time))
    problem = di.Problem(model, [di.Experiment(time, {}, {"y": y}, noise)],
                         [di.Parameter("a", 2.0, 0.1, 10), di.Parameter("b", 2.0, 0.1, 10)])
    e = di.identify(problem, di.multistart(di.single_shooting(), starts=6))
    assert "Best found 6 of 6 times" in e.status
    costs = np.array([s.cost for s in e.starts])
    assert noise == {} or np.max(costs) > (1 + SAME_OPTIMUM) * np.min(costs)  # equal only in what counts


def test_user_weights_are_the_same_at_all_ends():
    """With weights of the user's own no noise size enters the sum, though one is printed."""
    problem = beat_problem(0)
    e = di.identify(problem, di.boundary_value(measurement_noise=1.0, process_noise=1e-3), progress=False)
    assert e.noise_std["pos"] != 1.0
    assert criterion(e) == e.cost


def test_filters_are_ranked_by_their_likelihood():
    problem = pendulum_problem()
    e = di.kalman(initial_std={"p": 5.0}).identify(problem, None, lambda _: None)
    assert criterion(e) == -2 * e.filtered.loglik != e.cost


@pytest.mark.parametrize("starts", ["3", None, 0, -1, True, 1.5])
def test_a_wrong_number_of_starts_is_refused_in_words(starts):
    with pytest.raises(di.ProblemError, match=r"starts = .*whole number from 1 on"):
        di.multistart(starts=starts)
    with pytest.raises(di.ProblemError, match=r"starts = .*whole number from 1 on"):
        di.compare(pendulum_problem(), ["single_shooting"], starts=starts)
