"""What version 0.1 got wrong by default when it was used: findings A1 to A13, each as a test that fails there."""

from __future__ import annotations

import re

import numpy as np
import pytest
from plain_misses import beats, exact, fitted

import dynident as di
from dynident.methods.integrator_choice import check_integrator_at
from dynident.methods.open_loop import open_loop_residuals
from dynident.methods.start_trajectory import StartTrajectory
from dynident.methods.substeps import integration_error
from problems import boehm, boehm_log_likelihood, staircase


def two_masses(samples=3001):
    """Encoder on the motor only; starts off by a factor five up or down."""
    time, rng = np.linspace(0, 15, samples), np.random.default_rng(11)
    truth = {"m1": 0.6, "m2": 1.4, "k": 8.0, "d": 0.15, "b1": 0.4, "b2": 0.25}
    u = staircase(time, 0.4, 2.0, 8)
    step = time[1] - time[0]

    def rate(t, x):
        spring = truth["k"] * (x[0] - x[1]) + truth["d"] * (x[2] - x[3])
        force = u[min(int(t / step + 1e-9), samples - 1)]
        return [x[2], x[3], (force - truth["b1"] * x[2] - spring) / truth["m1"], (spring - truth["b2"] * x[3]) / truth["m2"]]

    y = exact(rate, [0.0, 0.1, 0.0, 0.0], time, max_step=step)[0] + 1e-3 * rng.standard_normal(samples)
    twist = "(k*(q1 - q2) + d*(v1 - v2))"
    model = di.EquationModel(states={"q1": "v1", "q2": "v2", "v1": f"(u - b1*v1 - {twist})/m1", "v2": f"({twist} - b2*v2)/m2"},
                             outputs={"motor": "q1"}, inputs=["u"], parameters=list(truth))
    starts = {name: value * 5.0 ** (1 if k % 2 else -1) for k, (name, value) in enumerate(truth.items())}
    return di.Problem(model, [di.Experiment(time, {"u": u}, {"motor": y})],
                      [di.Parameter(name, start, lower=0) for name, start in starts.items()]), truth


def test_hidden_states_are_found_from_an_encoder_on_the_motor():
    """A1: the default ended in a wrong minimum and said "Converged"."""
    problem, truth = two_masses()
    estimate = di.identify(problem, progress=False)
    for name, value in truth.items():
        assert estimate.values[name] == pytest.approx(value, abs=4 * estimate.uncertainty.std(name)), name
    assert np.std(estimate.residuals[0]["motor"]) == pytest.approx(1e-3, rel=0.1)
    assert estimate.believed


def test_a_stiff_problem_is_fitted_from_its_optimum_on():
    """A7: an explicit scheme cannot simulate it there."""
    estimate = fitted(boehm())
    assert boehm_log_likelihood(estimate.cost) == pytest.approx(138.22199693, abs=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_fast_rates_at_the_start_stop_nothing(seed):
    """A7: a linear stable model, started where its rates are beyond the sampling."""
    time, rng = np.linspace(0, 10, 101), np.random.default_rng(seed)
    u = staircase(time, 1.0, 1.0, 3)
    x = np.zeros(2)
    y = []
    a, b = 0.5, 1.3
    for k in range(time.size):  # exact for a held input: distinct real rates
        y.append(x[1])
        ea, eb, first, second = np.exp(-a * 0.1), np.exp(-b * 0.1), x[0] - u[k], x[1]
        x = np.array([u[k] + first * ea, u[k] + first * b * (ea - eb) / (b - a) + (second - u[k]) * eb])
    y = np.array(y) + 0.005 * rng.standard_normal(time.size)
    model = di.EquationModel(states={"p": "a*(u - p)", "q": "b*(p - q)"}, outputs={"q": "q"}, inputs=["u"],
                             parameters=["a", "b"])
    starts = [di.Parameter(n, float(10 ** rng.uniform(1, 4))) for n in "ab"]
    estimate = di.identify(di.Problem(model, [di.Experiment(time, {"u": u}, {"q": y}, initial={"p": 0, "q": 0})], starts),
                           progress=False)
    assert sorted(estimate.values[n] for n in "ab") == pytest.approx([a, b], rel=0.15)


def barnes(start):
    """Eleven samples of two reacting species; the data of van Domselaar and Hemker (1975)."""
    y = {"x": [1, 1.1, 1.3, 1.1, 0.9, 0.7, 0.5, 0.6, 0.7, 0.8, 1.0],
         "y": [0.3, 0.35, 0.4, 0.5, 0.5, 0.4, 0.3, 0.25, 0.25, 0.3, 0.35]}
    model = di.EquationModel(states={"x": "a*x - b*x*y", "y": "b*x*y - c*y"}, parameters=["a", "b", "c"])
    run = di.Experiment(np.linspace(0, 5, 11), {}, {n: np.array(v, float) for n, v in y.items()}, initial={"x": 1.0, "y": 0.3},
                        noise={n: di.Gaussian(0.05) for n in y})
    return di.Problem(model, [run], [di.Parameter(p, v) for p, v in zip("abc", start, strict=True)])


def test_eleven_samples_climb_the_same_ladder():
    """A8: below 21 samples the default was single shooting by another name, and missed four of ten far starts."""
    near = di.identify(barnes((0.86, 2.08, 1.81)), di.single_shooting(), progress=False)
    for seed in range(6):
        far = np.array([0.86, 2.08, 1.81]) * 10 ** np.random.default_rng(seed).uniform(-1.5, 1.5, 3)
        assert fitted(barnes(tuple(far))).cost == pytest.approx(near.cost, rel=1e-3), seed


def pulse(start):
    time = np.linspace(0, 5, 51)
    y = np.exp(-1.2 * (1 - np.exp(-0.7 * time)) / 0.7) + 0.01 * np.random.default_rng(1).standard_normal(time.size)
    model = di.EquationModel(states={"x": "-a*exp(-b*t)*x"}, parameters=["a", "b"])
    run = di.Experiment(time, {}, {"x": y}, initial={"x": 1.0}, noise={"x": di.Gaussian(0.01)})
    return di.Problem(model, [run], [di.Parameter(n, v, 1e-5, 1e5, log=True) for n, v in zip("ab", start, strict=True)])


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting()], ids=lambda m: m.kind)
def test_a_logarithm_goes_a_hundredfold_at_the_most_in_one_step(method):
    """A11: steps of many decades ended on plateaus."""
    for start in ((1e-4, 0.7), (1e-3, 300.0), (40.0, 1e-4), (900.0, 500.0)):
        path = np.log([page.values for page in fitted(pulse(start), method).history])
        assert np.max(np.abs(np.diff(path, axis=0))) <= np.log(100) + 1e-9


def test_unknowns_with_logarithms_arrive_over_six_decades():
    """A11: two of these ended on a plateau, and were called converged."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        start = (1.2 * 10 ** rng.uniform(-3, 3), 0.7 * 10 ** rng.uniform(-3, 3))
        estimate = fitted(pulse(start), di.multiple_shooting())
        assert estimate.values["a"] == pytest.approx(1.2, rel=0.05), start


def test_steps_that_agree_by_chance_are_seen_by_another_integrator():
    """A13: 1, 2 and 4 steps of radau agree on a cost that 16 do not give; what that moves is below the promise."""
    problem, method = boehm(), di.single_shooting(integrator="radau")
    estimate, adaptive = fitted(problem, method), fitted(problem, di.single_shooting(integrator="radau5"))
    coarse = method.transcribe(problem, 1, {})
    there = StartTrajectory({name: estimate.values[name] for name in problem.names}).variables(coarse)
    halved = integration_error(coarse, coarse.with_substeps(2), there).relative
    assert check_integrator_at(coarse, there, 1.0).error > 5 * halved
    for name in problem.names:
        moved = abs(estimate.values[name] - adaptive.values[name])
        assert moved <= 0.02 * max(estimate.uncertainty.std(name, "plain"), 1e-12), name
    assert boehm_log_likelihood(adaptive.cost) == pytest.approx(138.22199693, abs=1e-4)


def test_a_saddle_at_an_equilibrium_is_left():
    """A3: with all first states at 0 nothing moves, and every derivative vanishes."""
    time = np.linspace(0, 20, 35)
    y = exact(lambda t, x: [-0.6 * x[0] + 9 * x[1] * x[2], 0.6 * x[0] - 9 * x[1] * x[2] - 60 * x[1] ** 2, 60 * x[1] ** 2],
              [0.93, 0.0, 0.0], time)[2]
    y += 0.01 * np.random.default_rng(0).standard_normal(time.size)
    model = di.EquationModel(states={"A": "-k1*A + k3*B*C", "B": "k1*A - k3*B*C - k2*B*B", "C": "k2*B*B"},
                             outputs={"C": "C"}, parameters=["k1", "k2", "k3"])
    run = di.Experiment(time, {}, {"C": y}, noise={"C": di.Gaussian(0.01)})
    estimate = di.identify(di.Problem(model, [run], [
        *(di.Parameter(n, v) for n, v in (("k1", 1.0), ("k2", 10.0), ("k3", 10.0))),
        *(di.InitialState(s, start=0.0) for s in "ABC")]), progress=False)
    assert estimate.believed
    assert estimate.statistics["reduced_chi2"] < 1.5


def test_an_unobservable_first_state_stops_nothing():
    """A6: the position, of which only the velocity is measured."""
    time = np.linspace(0, 5, 201)
    u = staircase(time, 0.5, 1.0, 4)
    v = np.zeros(time.size)
    for k in range(time.size - 1):
        end = 3 * u[k] / 0.8
        v[k + 1] = end + (v[k] - end) * np.exp(-0.8 / 2 * (time[k + 1] - time[k]))
    y = v + 0.02 * np.random.default_rng(3).standard_normal(time.size)
    model = di.EquationModel(states={"q": "v", "v": "(3*u - Fv*v)/M"}, outputs={"v": "v"}, inputs=["u"])
    problem = di.Problem(model, [di.Experiment(time, {"u": u}, {"v": y})], [di.Parameter("Fv", 0.3), di.Parameter("M", 1.0)])
    for method in (None, di.multiple_shooting()):
        estimate = di.identify(problem, method, progress=False)
        assert estimate.values["Fv"] == pytest.approx(0.8, abs=4 * estimate.uncertainty.std("Fv"))
        assert estimate.values["M"] == pytest.approx(2.0, abs=4 * estimate.uncertainty.std("M"))


@pytest.mark.parametrize("seed", range(6))
def test_a_right_fit_is_not_called_a_minimum_at_infinity(seed):
    """A5: ten times as far a coarse Runge-Kutta step has an alias that fits as well."""
    time = np.linspace(0, 5, 21)
    y = np.exp(-time) + 0.01 * np.random.default_rng(seed).standard_normal(time.size)
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [di.Experiment(time, {}, {"x": y})],
                         [di.Parameter("k", 1e-3)])
    estimate = di.identify(problem, progress=False)
    assert estimate.values["k"] == pytest.approx(1.0, abs=4 * estimate.uncertainty.std("k"))
    assert estimate.status.code not in ("unbounded_minimum", "converged_limit_case")


def empty_tank():
    time = np.linspace(0, 100, 101)
    u = 0.5 + 0.3 * np.sign(np.sin(time / 8))

    def rate(t, h):
        level = np.sqrt(np.maximum(h, 0))
        return [0.5 * u[min(int(t), 99)] - 0.25 * level[0], 0.25 * level[0] - 0.2 * level[1]]

    y = exact(rate, [1.0, 0.5], time, max_step=1.0)[1] + 0.01 * np.random.default_rng(5).standard_normal(time.size)
    model = di.EquationModel(states={"h1": "a*u - k1*sqrt(h1)", "h2": "k1*sqrt(h1) - k2*sqrt(h2)"}, outputs={"h2": "h2"},
                             inputs=["u"])
    return di.Problem(model, [di.Experiment(time, {"u": u}, {"h2": y})],
                      [di.Parameter("a", 1.0), di.Parameter("k1", 0.1), di.Parameter("k2", 0.1)])


def test_an_empty_tank_is_fitted_although_nothing_can_be_simulated_at_the_start():
    """A10: the square root of a hidden level that begins at 0 has no derivative."""
    estimate = di.identify(empty_tank(), progress=False)
    assert estimate.believed
    assert estimate.values["k2"] == pytest.approx(0.2, rel=0.1)


def test_a_plain_fit_of_an_empty_tank_names_state_and_cause():
    with pytest.raises(di.ProblemError, match=r"no derivative at h1 = 0, .* begin beside it, with InitialState\('h1', start"):
        di.identify(empty_tank(), di.multiple_shooting(), progress=False)


@pytest.mark.parametrize("signal", ["x", "u"])
def test_what_acts_by_rounding_only_is_called_without_effect(signal):
    """A12: sin(2s) - 2 sin(s) cos(s) is zero but for the last bit; with the input for s, b ended at -4e13."""
    time = np.linspace(0, 5, 51)
    u = np.sign(np.sin(2 * time)) * 0.7
    x = exact(lambda t, x: [-0.8 * x[0] + u[min(int(t * 10 + 1e-9), 50)]], [1.0], time, max_step=0.1)[0]
    y = x + 0.01 * np.random.default_rng(6).standard_normal(51)
    model = di.EquationModel(states={"x": f"-a*x + u + b*(sin(2*{signal}) - 2*sin({signal})*cos({signal}))"}, inputs=["u"],
                             parameters=["a", "b"])
    problem = di.Problem(model, [di.Experiment(time, {"u": u}, {"x": y})], [di.Parameter("a", 0.5), di.Parameter("b", 1.0)])
    for method in (None, di.single_shooting(), di.multiple_shooting()):
        estimate = di.identify(problem, method, progress=False)
        assert estimate.values["b"] == pytest.approx(1.0)
        assert estimate.values["a"] == pytest.approx(0.8, abs=0.02)
        assert any("depends on b" in note for note in estimate.notes)


@pytest.mark.parametrize("start", [(0.01, 1000.0), (1127.7, 39.9)])
def test_a_plateau_is_left(start):
    """A4: a rate that has died out before the first sample, and one that leaves nothing; the second was called converged."""
    estimate = di.identify(pulse(start), progress=False)
    assert estimate.values["a"] == pytest.approx(1.2, rel=0.05)
    assert estimate.believed


def test_nothing_ends_above_its_own_start():
    """A2: a refit from the values of a good fit stays there, however multiple shooting would move."""
    problem = beats()
    good = di.identify(problem, progress=False)
    begun = problem.replace(parameters=[
        *(di.Parameter(n, float(good.values[n])) for n in ("a", "b")),
        *(di.InitialState(s, start=float(good.values[f"{s}(0)"])) for s in ("x", "v", "y", "w"))])
    again = di.identify(begun, progress=False)
    at_start = open_loop_residuals(begun, {}, substeps=again.counts["substeps"])
    assert again.cost <= sum(float(np.sum((r / 0.02) ** 2)) for own in at_start for r in own.values()) * (1 + 1e-9)


def test_bounds_of_logarithms_are_kept_to_the_last_bit():
    """A11: exp(log(1e5)) lies above 1e5."""
    time = np.linspace(0, 1, 30)
    model = di.EquationModel(states={"x": "-x/k"}, parameters=["k"])
    run = di.Experiment(time, {}, {"x": np.ones(30)}, initial={"x": 1.0})
    problem = di.Problem(model, [run], [di.Parameter("k", 10.0, 1e-3, 1e5, log=True)])
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    assert estimate.values["k"] <= 1e5
    di.Problem(model, [run], [di.Parameter("k", estimate.values["k"], 1e-3, 1e5, log=True)])


def two_values(problem, estimate):
    return sorted(float(estimate.values[n]) for n in ("a", "b"))


@pytest.mark.parametrize("known", [True, False])
def test_two_hidden_sines_are_found_from_afar(known):
    problem = beats(known=known)
    estimate = di.identify(problem, progress=False)
    assert two_values(problem, estimate) == pytest.approx([4.0, 25.0], rel=0.01)
    assert estimate.believed
    assert len(estimate.stages) > 1


def lorenz(end, samples):
    time = np.linspace(0, end, samples)
    y = exact(lambda t, x: [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]], [1, 1, 20], time)
    y = y + 0.1 * np.random.default_rng(4).standard_normal(y.shape)
    model = di.EquationModel(states={"x": "s*(y - x)", "y": "x*(r - z) - y", "z": "x*y - b*z"}, parameters=["s", "r", "b"])
    return di.Problem(model, [di.Experiment(time, {}, dict(zip("xyz", y, strict=True)))],
                      [di.Parameter("s", 5.0), di.Parameter("r", 20.0), di.Parameter("b", 1.0)])


@pytest.mark.parametrize(("end", "samples"), [(22.0, 551), pytest.param(60.0, 2401, marks=pytest.mark.slow)])
def test_chaos_is_solved(end, samples):
    """A9: over 22 s a simulation still follows; over 60 s none does, and the smoother describes it from sample to sample."""
    estimate = di.identify(lorenz(end, samples), di.automatic(budget=600), progress=False)
    assert estimate.believed
    assert (estimate.smoothed is not None) == (end > 30)
    for name, truth in (("s", 10.0), ("r", 28.0), ("b", 8 / 3)):
        assert estimate.values[name] == pytest.approx(truth, rel=0.02)


@pytest.mark.slow
def test_what_noise_in_the_model_finds_of_chaos_is_simulated_from_there():
    """By one state and from far: a filter finds the parameters, and along its states a simulation meets the record.

    From the parameters alone it went astray, and the stage ended the search as "noise in the model".
    """
    time = np.linspace(0, 6, 301)
    x = exact(lambda t, x: [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]], [1, 2, 20], time)[0]
    x += 0.01 * np.std(x) * np.random.default_rng([0, *b"lorenz"]).standard_normal(time.size)
    model = di.EquationModel(states={"x": "s*(y - x)", "y": "x*(r - z) - y", "z": "x*y - b*z"}, outputs={"x": "x"},
                             parameters=["s", "r", "b"])
    run = di.Experiment(time, {}, {"x": x}, noise={"x": di.Gaussian(0.071)})
    far = {"s": 0.6754832903748359, "r": 542.2438475610564, "b": 34.86154743049991}
    estimate = di.identify(di.Problem(model, [run], [di.Parameter(n, v) for n, v in far.items()]), progress=False)
    assert estimate.believed and estimate.statistics["reduced_chi2"] < 1.3
    for name, truth in (("s", 10.0), ("r", 28.0), ("b", 8 / 3)):
        assert estimate.values[name] == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize(("bend", "believed"), [(0.0, True), (0.3, False)])
def test_a_static_nonlinearity_that_leaves_white_residuals_is_seen(bend, believed):
    """A sensor that sees the square of a white input: believed at once, and graded A, with 18 % of the signal left over."""
    rng, time = np.random.default_rng(0), 0.1 * np.arange(400)
    u, x, y = rng.uniform(-1, 1, 400), 0.0, []
    for now in u:
        y.append(x + bend * now**2)
        x = np.exp(-2) * x + (1 - np.exp(-2)) * now
    model = di.EquationModel(states={"x": "r*(g*u - x)"}, outputs={"y": "x + c"}, inputs=["u"], parameters=["r", "g", "c"])
    run = di.Experiment(time, {"u": u}, {"y": np.array(y) + 0.02 * rng.standard_normal(400)})
    estimate = di.identify(di.Problem(model, [run], [di.Parameter("r", 5.0, lower=0), di.Parameter("g", 0.5),
                                                     di.Parameter("c", 0.0)]), progress=False)
    assert estimate.believed is believed
    assert (estimate.verdict.grade == "A") is believed
    assert ("a bent function of u" in estimate.belief_reason) is not believed


def test_a_long_record_that_went_through_a_filter_needs_no_smoother():
    """More samples than the smoother takes at once: a part of a filtered record is refused, and all of the fit was with it.

    The filter keeps each third sample, and of these without neighbours "nan % of the signal" was said to be left over.
    """
    rng, step = np.random.default_rng(0), 0.02
    time = step * np.arange(5100)
    u, x, y = np.sign(np.sin(0.9 * time) + 0.4 * np.sin(2.3 * time)), 0.0, []
    for now in u:
        y.append(x)
        x += step * (now - x) + 0.3 * np.sqrt(step) * rng.standard_normal()
    run = di.Experiment(time, {"u": u}, {"x": np.array(y) + 0.005 * rng.standard_normal(5100)}).prepared([di.lowpass(20)])
    model = di.EquationModel(states={"x": "(g*u - x)/T"}, inputs=["u"])
    estimate = di.identify(di.Problem(model, [run], [di.Parameter("g", 2.0), di.Parameter("T", 0.4)]),
                           di.automatic(stages=["plain", "smooth"]), progress=False)
    assert estimate.converged and not estimate.believed
    assert re.search(r"beyond noise is \d\d % of the signal", estimate.belief_reason)
