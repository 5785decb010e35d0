"""Does `identify` without a method arrive, say so, and say where it did not?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di
from dynident.automatic.run import climb_ladder
from dynident.automatic.smoothing_stages import rounds, smooth_stage
from dynident.automatic.stages import plain
from dynident.automatic.starts import round_starts
from dynident.automatic.state import AutomaticSetup, AutomaticState, StopReason
from dynident.automatic.stopping import believe_best
from dynident.methods.open_loop import open_loop_residuals
from problems import MACHINES, staircase

ALL = ("plain", "smooth", "climb", "rounds")


def setup_of(problem, **changes):
    return replace(AutomaticSetup(problem, di.multiple_shooting(), None, 0, ALL, None, lambda page: None), **changes)


def exact(rate, x0, time, **options):
    return solve_ivp(rate, (time[0], time[-1]), x0, "LSODA", time, rtol=1e-10, atol=1e-12, **options).y


def fitted(problem, method=None):
    try:
        return di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate


def beats(std=0.02, known=True):
    """Two oscillators of which the sum is measured: a plain fit from afar ends in a wrong minimum."""
    time = np.linspace(0, 10, 301)
    y = np.cos(2 * time) + 0.5 * np.sin(5 * time) + std * np.random.default_rng(0).standard_normal(time.size)
    model = di.EquationModel(states={"x": "v", "v": "-a*x", "y": "w", "w": "-b*y"}, outputs={"sum": "x + y"})
    run = di.Experiment(time, {}, {"sum": y}, noise={"sum": di.Gaussian(std if known else None)})
    return di.Problem(model, [run], [di.Parameter("a", 40.0), di.Parameter("b", 0.3)])


def two_values(problem, estimate):
    return sorted(float(estimate.values[n]) for n in ("a", "b"))


@pytest.mark.parametrize("known", [True, False])
def test_two_hidden_sines_are_found_from_afar(known):
    problem = beats(known=known)
    estimate = di.identify(problem, progress=False)
    assert two_values(problem, estimate) == pytest.approx([4.0, 25.0], rel=0.01)
    assert estimate.believed
    assert len(estimate.stages) > 1


def test_a_plain_fit_that_arrives_is_all_that_runs():
    problem = MACHINES["two_mass"].problem(seed=3)
    estimate, alone = di.identify(problem, progress=False), di.identify(problem, di.multiple_shooting(), progress=False)
    assert [row.stage for row in estimate.stages] == ["plain"]
    assert estimate.values == alone.values
    assert (estimate.believed, estimate.arrived_by) == (True, "plain")
    assert estimate.counts["jacobians"] == alone.counts["jacobians"]


def test_a_wrong_model_is_not_believed_and_is_stopped():
    time = np.linspace(0, 25, 301)
    y = exact(lambda t, x: [x[1], 2 * (1 - x[0] ** 2) * x[1] - 1.5 * x[0]], [0.5, 0.0], time)[0]
    y += 0.02 * np.random.default_rng(0).standard_normal(time.size)
    model = di.EquationModel(states={"x": "v", "v": "-d*v - w*x"}, outputs={"x": "x"})
    estimate = di.identify(di.Problem(model, [di.Experiment(time, {}, {"x": y})],
                                      [di.Parameter("d", 1.0), di.Parameter("w", 5.0)]), progress=False)
    assert not estimate.believed
    assert "Only another record tells noise from what the model lacks" in estimate.belief_reason
    silent = di.identify(estimate.problem, di.automatic(stages=["plain", "smooth", "climb", "rounds"]), progress=False)
    assert silent.believed is False and silent.belief_reason == silent.notes[0]
    assert silent.belief_reason.startswith("Not believed")


def test_each_stage_runs_alone():
    setup = setup_of(beats())
    begun = plain(setup, AutomaticState())
    assert [row.stage for row in begun.trail] == ["plain"]
    smoothed = smooth_stage(setup, AutomaticState())
    assert [row.stage for row in smoothed.trail] == ["smooth"]
    once = rounds(setup, AutomaticState())
    assert once.rounds == 1
    assert believe_best(setup, once).stopped in (None, StopReason.BELIEVED)


def test_the_same_seed_gives_the_same_starts_and_another_seed_others():
    problem = beats()
    assert round_starts(problem, 0, 1) == round_starts(problem, 0, 1)
    assert round_starts(problem, 0, 1) != round_starts(problem, 1, 1)
    assert round_starts(problem, 0, 1) != round_starts(problem, 0, 2)


@pytest.mark.parametrize("number", range(6))
def test_starts_lie_within_the_bounds_and_keep_the_sign_that_bounds_say(number):
    parameters = [di.Parameter("a", 3.0, lower=0.5, upper=7.0), di.Parameter("b", -2.0, upper=-1e-3),
                  di.Parameter("c", 0.0), di.Parameter("d", 4.0, log=True)]
    model = di.EquationModel(states={"x": "a*b*c*d - x"})
    problem = di.Problem(model, [di.Experiment(np.arange(9.0), {}, {"x": np.arange(9.0)})], parameters)
    for start in round_starts(problem, 3, number):
        for p in parameters:
            assert p.lower <= start.parameters[p.name] <= p.upper
        assert start.parameters["b"] < 0 < start.parameters["d"]
    drawn = [start.parameters["c"] for start in round_starts(problem, 3, number)]
    assert min(drawn) < 0 < max(drawn)


def test_the_budget_is_kept_to_a_round():
    wrong = beats()
    model = di.EquationModel(states={"x": "-a*x", "y": "-b*y"}, outputs={"sum": "x + y"})
    problem = di.Problem(model, wrong.experiments, wrong.parameters)
    estimate = fitted(problem, di.automatic(budget=1))
    assert not estimate.believed
    assert [row.stage for row in estimate.stages if row.stage.startswith("round")] == []


def test_only_the_stages_that_were_asked_for_are_climbed():
    estimate = di.identify(beats(), di.automatic(stages=["smooth", "climb"]), progress=False)
    assert {row.stage for row in estimate.stages} <= {"smooth", "climb"}
    with pytest.raises(di.ProblemError, match="is none of plain, smooth, prediction, climb, rounds"):
        di.automatic(stages=["plane"])


def test_workers_change_nothing():
    problem = beats()
    alone = di.identify(problem, di.automatic(stages=["rounds"]), progress=False)
    with ThreadPoolExecutor(2) as two:
        together = di.identify(problem, di.automatic(stages=["rounds"]), executor=two, progress=False)
    assert together.values == alone.values
    assert together.counts == alone.counts
    assert [row.cost for row in together.stages] == [row.cost for row in alone.stages]


def test_progress_says_the_stage_in_words():
    said = []
    di.identify(beats(), progress=lambda page: said.append(page.stage))
    assert said[0] == "plain fit"
    assert len(set(said)) > 1


def test_an_interrupt_returns_the_best_so_far():
    calls = []

    def stop_in_the_second_stage(page):
        calls.append(page.stage)
        if page.stage != "plain fit":
            raise KeyboardInterrupt

    with pytest.raises(di.NotConverged) as stopped:
        di.identify(beats(), progress=stop_in_the_second_stage)
    assert stopped.value.estimate is not None
    assert stopped.value.estimate.stages[0].stage == "plain"


# what was found in use


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


def test_what_acts_by_rounding_only_is_called_without_effect():
    """A12: sin(2x) - 2 sin(x) cos(x) is zero but for the last bit."""
    time = np.linspace(0, 5, 51)
    y = np.exp(-0.8 * time) + 0.01 * np.random.default_rng(6).standard_normal(51)
    model = di.EquationModel(states={"x": "-a*x + b*(sin(2*x) - 2*sin(x)*cos(x))"}, parameters=["a", "b"])
    problem = di.Problem(model, [di.Experiment(time, {}, {"x": y})], [di.Parameter("a", 0.5), di.Parameter("b", 1.0)])
    estimate = di.identify(problem, progress=False)
    assert estimate.values["b"] == pytest.approx(1.0)
    assert "Nothing measured depends on b." in estimate.notes


def test_a_plateau_is_left():
    """A4: a rate that has died out before the first sample."""
    time = np.linspace(0, 5, 51)
    y = np.exp(-1.2 * (1 - np.exp(-0.7 * time)) / 0.7) + 0.01 * np.random.default_rng(1).standard_normal(time.size)
    model = di.EquationModel(states={"x": "-a*exp(-b*t)*x"}, parameters=["a", "b"])
    estimate = di.identify(di.Problem(model, [di.Experiment(time, {}, {"x": y})], [
        di.Parameter("a", 0.01, 1e-4, 1e4, log=True), di.Parameter("b", 1000.0, 1e-4, 1e4, log=True)]), progress=False)
    assert estimate.values["a"] == pytest.approx(1.2, rel=0.05)


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


# bodies that it must carry


def test_several_experiments_with_first_states_of_their_own():
    machine = MACHINES["two_mass"]
    runs = [machine.record(seed, name=f"run {seed}") for seed in range(3)]
    far = [replace(p, start=p.start * 4) for p in machine.parameters()]
    estimate = di.identify(di.Problem(machine.model, runs, far), progress=False)
    assert estimate.believed
    for name, truth in machine.truth.items():
        assert estimate.values[name] == pytest.approx(truth, abs=5 * estimate.uncertainty.std(name))


def test_a_model_without_states_goes_through_rounds():
    x = np.linspace(0, 3, 40)
    y = 2 * np.exp(-1.5 * x) + 0.01 * np.random.default_rng(0).standard_normal(40)
    model = di.EquationModel(states={}, outputs={"y": "a*exp(-b*x)"}, inputs=["x"])
    problem = di.Problem(model, [di.Experiment(np.arange(40.0), {"x": x}, {"y": y})],
                         [di.Parameter("a", 300.0), di.Parameter("b", 200.0)])
    estimate = di.identify(problem, progress=False)
    assert estimate.believed
    assert estimate.values["b"] == pytest.approx(1.5, rel=0.05)


def test_constraints_hold_the_answer():
    machine = MACHINES["two_mass"]
    problem = di.Problem(machine.model, [machine.record(3)], machine.parameters(), constraints=["m2 <= 4*m1"])
    estimate = di.identify(problem, progress=False)
    assert estimate.values["m2"] <= 4 * estimate.values["m1"] * (1 + 1e-6)


def test_a_robust_loss_is_that_of_the_method():
    machine = MACHINES["pendulum"]
    run = machine.record(1)
    y = np.array(run.outputs["angle"])
    y[10::25] += 1.0
    spoiled = di.Problem(machine.model, [replace(run, outputs={"angle": y})], machine.parameters())
    estimate = di.identify(spoiled, di.automatic(method=di.multiple_shooting(loss="huber")), progress=False)
    assert estimate.values["p"] == pytest.approx(machine.truth["p"], rel=0.02)
    assert estimate.believed


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


def test_the_ladder_ends_with_its_reason():
    state = climb_ladder(setup_of(beats(), stages=("plain",)))
    assert state.stopped is StopReason.STAGES


def disturbed_oscillator(seed, std=0.3):
    """A mass on a spring, pushed by a known force and by one that nobody measures; nothing is said of it."""
    rng, step, x, rows = np.random.default_rng(seed), 0.05, np.zeros(2), []
    force = np.repeat(rng.choice([-1.0, 1.0], 50), 8)
    for held in force:
        rows.append(x[0] + 0.01 * rng.normal())
        for _ in range(10):
            push = 2.0 * held + std * rng.normal() / np.sqrt(step / 10)
            x = x + step / 10 * np.array([x[1], -4.0 * x[0] - 0.6 * x[1] + push])
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + b*u"}, inputs=["u"], outputs=["x"])
    run = di.Experiment(step * np.arange(force.size), {"u": force}, {"x": np.array(rows)})
    return di.Problem(model, [run], [di.Parameter("k", 5.0), di.Parameter("d", 1.0), di.Parameter("b", 1.0)])


def test_noise_in_the_model_is_found_out_where_nobody_says_it():
    found = di.identify(disturbed_oscillator(0), progress=False)
    assert found.criterion == "prediction error" and found.arrived_by == "prediction"
    assert found.notes[0].startswith("Criterion: prediction error, because the residuals of output error are not white")
    assert found.process_noise["v"] == pytest.approx(0.3, rel=0.25)
    assert found.believed is None and "Only another record" in found.belief_reason


def test_without_noise_in_the_model_output_error_is_kept():
    found = di.identify(disturbed_oscillator(0, std=0.0), progress=False)
    assert found.criterion == "output error" and found.believed and found.arrived_by == "plain"
