"""Does `identify` without a method arrive, say so, and say where it did not?"""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from plain_misses import beats, exact, fitted

import dynident as di
from dynident.automatic import prediction_stage
from dynident.automatic.run import climb_ladder
from dynident.automatic.smoothing_stages import rounds, smooth_stage
from dynident.automatic.stages import plain
from dynident.automatic.starts import round_starts
from dynident.automatic.state import AutomaticSetup, AutomaticState, StopReason
from dynident.automatic.stopping import believe_best
from dynident.kalman.prediction_error import run as prediction_run
from dynident.statistics.verdict import Cause, Grade
from problems import MACHINES

ALL = ("plain", "smooth", "climb", "rounds")


def setup_of(problem, **changes):
    return replace(AutomaticSetup(problem, di.multiple_shooting(), None, 0, ALL, None, lambda page: None), **changes)


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
    silent = fitted(estimate.problem, di.automatic(stages=["plain", "smooth", "climb", "rounds"]))
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


@pytest.fixture(scope="module")
def alone():
    return di.identify(beats(), di.automatic(stages=["rounds"], seed=3), progress=False)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_nothing(alone, pool, workers):
    with pool(workers) as executor:
        together = di.identify(beats(), di.automatic(stages=["rounds"], seed=3), executor=executor, progress=False)
    assert together.values == alone.values
    assert together.counts == alone.counts
    assert [(row.stage, row.cost, row.jacobians) for row in together.stages] == [
        (row.stage, row.cost, row.jacobians) for row in alone.stages]


def test_a_seed_gives_the_same_run_again(alone):
    again = di.identify(beats(), di.automatic(stages=["rounds"], seed=3), progress=False)
    assert again.values == alone.values and again.counts == alone.counts
    other = di.identify(beats(), di.automatic(stages=["rounds"], seed=4), progress=False)
    assert other.counts != alone.counts  # of other starts


def test_progress_says_the_stage_in_words():
    said = []
    estimate = di.identify(beats(), progress=lambda page: said.append(page.stage))
    words = list(dict.fromkeys(said))
    assert words[0] == "plain fit"
    assert [row.stage for row in estimate.stages] == ["plain", "smooth", "prediction", "climb"]
    assert all(row.jacobians > 0 for row in estimate.stages)
    assert "smoothing" in words and "climbing from a weak model to a strong one" in words
    di.identify(beats(), di.automatic(stages=["rounds"]), progress=lambda page: said.append(page.stage))
    assert "restarts, round 1" in said


def test_an_interrupt_returns_the_best_so_far():
    calls = []

    def stop_in_the_second_stage(page):
        calls.append(page.stage)
        if "last fit" in page.stage:  # within a solver; it ends with the best so far
            raise KeyboardInterrupt

    with pytest.raises(di.NotConverged) as stopped:
        di.identify(beats(), progress=stop_in_the_second_stage)
    assert stopped.value.estimate is not None
    assert stopped.value.estimate.stages[0].stage == "plain"
    assert not stopped.value.estimate.believed


@pytest.mark.parametrize("where", ["dynident.methods.direct_estimate.build_direct_estimate",
                                   "dynident.automatic.state.believe", "dynident.automatic.stages.leave_saddle",
                                   "dynident.automatic.smoothing_stages.smooth", "dynident.automatic.run.smoothed_estimate",
                                   "dynident.automatic.run.evidence_of"])
def test_an_interrupt_at_any_moment_after_a_fit_loses_nothing(where, monkeypatch):
    """While statistics are made, between two stages, in a smoother, and while the estimate is put together."""
    module, name = where.rsplit(".", 1)
    own, calls = getattr(importlib.import_module(module), name), []

    def interrupted_once(*values, **named):
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return own(*values, **named)

    monkeypatch.setattr(importlib.import_module(module), name, interrupted_once)
    estimate = fitted(beats(std=0.2, known=False), di.automatic(stages=["plain", "smooth"]))
    assert calls, "the moment was not reached"
    assert estimate.values["a"] > 0 and estimate.counts["interrupted"] == 1
    assert not estimate.believed and "interrupted" in estimate.belief_reason


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


@pytest.mark.parametrize("method", [None, di.multiple_shooting()], ids=["discretization", "shooting"])
@pytest.mark.parametrize(("text", "limit"), [("a + b <= 20", 20.0), ("a == 6*b", 0.0)])
def test_every_end_of_the_ladder_keeps_the_constraints(text, limit, method):
    """Ends of the smoother and of shooting once left them, and lay below what any allowed value reaches."""
    problem = beats().replace(constraints=[text])
    estimate = fitted(problem, di.automatic(method=method, stages=["plain", "smooth", "climb", "rounds"], budget=400))
    a, b = (float(estimate.values[n]) for n in "ab")
    assert (a + b if limit else a - 6 * b) == pytest.approx(limit, abs=1e-4)
    assert len(estimate.stages) > 2
    assert min(row.best_cost for row in estimate.stages) >= estimate.cost * (1 - 1e-6)


def test_a_course_that_leaves_the_bounds_on_states_is_no_end():
    """The smoother knows nothing of them: its course reached 1.02 here, and counted."""
    setup = setup_of(beats().replace(constraints=["y <= 0.2"]), method=di.full_discretization())
    state = smooth_stage(setup, AutomaticState())
    assert len(state.ends) == 1
    assert np.max(state.ends[0].begin.states[0][:, 2]) <= 0.2 + 1e-6


def test_a_robust_loss_is_that_of_the_method():
    machine = MACHINES["pendulum"]
    run = machine.record(1)
    y = np.array(run.outputs["angle"])
    y[10::25] += 1.0
    spoiled = di.Problem(machine.model, [replace(run, outputs={"angle": y})], machine.parameters())
    estimate = di.identify(spoiled, di.automatic(method=di.multiple_shooting(loss="huber")), progress=False)
    assert estimate.values["p"] == pytest.approx(machine.truth["p"], rel=0.02)
    assert estimate.believed


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
    verdict = found.verdict
    assert (verdict.grade, verdict.cause, verdict.colour) == (Grade.SLOW_REMAINDER, Cause.NOISE_GUESSED, "amber")
    assert 'state it (process_noise={"v": Gaussian()} of the problem)' in verdict.sentence


def test_noise_that_was_stated_may_be_green():
    """The way out that the sentence above names is true."""
    stated = disturbed_oscillator(0).replace(process_noise={"v": di.Gaussian()})
    assert di.identify(stated, progress=False).verdict.colour == "green"


def test_a_record_that_is_too_long_to_find_out_is_told_so(monkeypatch):
    monkeypatch.setattr(prediction_stage, "MOST_ROWS", 300)
    found = di.identify(disturbed_oscillator(0), progress=False)
    assert found.criterion == "output error" and any("was not asked: with 400 samples" in note for note in found.notes)


def two_masses_as_one(samples=400):
    """The end of a flexible shaft, of which the model knows one inertia: no noise makes up for a resonance."""
    step, x, rows = 0.05, np.zeros(4), []
    force = np.repeat(np.random.default_rng(3).choice([-1.0, 1.0], samples // 8), 8)
    for held in force:
        rows.append(x[2])
        for _ in range(20):
            pull = 30.0 * (x[0] - x[2]) + 0.1 * (x[1] - x[3])
            x = x + step / 20 * np.array([x[1], held - pull - 0.4 * x[1] - 2.0 * x[0], x[3], pull])
    y = np.array(rows) + 0.002 * np.random.default_rng(4).normal(size=force.size)
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + b*u"}, inputs=["u"], outputs=["x"])
    run = di.Experiment(step * np.arange(force.size), {"u": force}, {"x": y})
    return di.Problem(model, [run], [di.Parameter("k", 1.0), di.Parameter("d", 0.2), di.Parameter("b", 0.5)])


@pytest.mark.parametrize("part", [150, 2500])
def test_the_begin_of_a_long_record_shows_what_no_noise_explains(monkeypatch, part):
    """As the whole record does, whose every pass costs more."""
    monkeypatch.setattr(prediction_stage, "ASKED_PART", part)
    found = di.identify(two_masses_as_one(), di.automatic(stages=("plain", "prediction")), progress=False)
    assert found.criterion == "output error" and "the model lacks something else" in found.notes[0]
    assert ("asked of the first 150 samples" in found.notes[0]) == (part == 150)


def test_what_noise_explains_in_a_part_is_asked_of_the_whole_record(monkeypatch):
    monkeypatch.setattr(prediction_stage, "ASKED_PART", 150)
    found = di.identify(disturbed_oscillator(0), di.automatic(stages=("plain", "prediction")), progress=False)
    assert found.criterion == "prediction error" and found.process_noise["v"] == pytest.approx(0.3, rel=0.25)


def test_without_noise_in_the_model_output_error_is_kept():
    found = di.identify(disturbed_oscillator(0, std=0.0), progress=False)
    assert found.criterion == "output error" and found.believed and found.arrived_by == "plain"


def found_by_prediction(problem):
    """A stand-in for what the prediction stage would find, without its search."""
    estimate = di.identify(problem, di.multiple_shooting(), progress=False)
    counts = {**estimate.counts, "jacobians": 1000}
    return replace(estimate, criterion="prediction error", counts=counts, notes=("Criterion: prediction error, because ...",))


@pytest.mark.parametrize("gain", [0.5, 0.9999])
def test_noise_in_the_model_is_no_answer_where_simulations_just_became_far_better(gain, monkeypatch):
    """Ends that a refit halves were no minimum: the ladder goes on, and asks once more at its end."""
    problem = beats()
    setup = setup_of(problem, stages=("plain", "smooth", "prediction", "climb", "rounds"))
    state = plain(setup, AutomaticState())
    best = state.best
    lower = replace(best, misfit=replace(best.misfit, value=gain * best.misfit.value))
    assert not lower.is_noise
    monkeypatch.setattr(prediction_stage, "_found", lambda *_: found_by_prediction(problem))
    monkeypatch.setattr(prediction_stage, "refit", lambda setup, state, stage, begin: state.with_end(lower))
    after = prediction_stage.prediction_stage(setup, state)
    assert after.trail[-1].stage == "prediction" and after.spent["jacobians"] > state.spent["jacobians"]
    assert (after.stopped is StopReason.PREDICTED) == (gain > 0.9)
    ended = prediction_stage.prediction_again(setup, replace(after, stopped=StopReason.BUDGET, predicted=None))
    assert ended.stopped is StopReason.PREDICTED


def test_rows_are_counted_with_the_sub_steps_that_prediction_needs(monkeypatch):
    """From rates that are far off a filter needs many steps between samples, whatever the simulation took."""
    problem, asked = beats(), []
    setup = setup_of(problem, stages=("plain", "prediction"))
    state = plain(setup, AutomaticState())
    before = prediction_run.prediction_steps

    def many(method, problem, first):
        asked.append(first)
        return before(method, problem, first)[0], 10**6, []

    monkeypatch.setattr(prediction_run, "prediction_steps", many)
    after = prediction_stage.prediction_stage(setup, state)
    assert asked and after.unasked_rows == 301 * 10**6
    assert after.best is state.best and after.stopped is None


def test_outputs_of_one_sample_are_one_row(monkeypatch):
    """A pass takes all outputs of a sample together: a drive with two encoders is not twice as long as one with one."""
    problem = MACHINES["two_mass"].problem(seed=3)
    run, method = problem.experiments[0], di.prediction_error()
    assert len(run.outputs) == 2
    first = fitted(problem, di.multiple_shooting())
    monkeypatch.setattr(prediction_run, "_output_error_is_enough", lambda *_: "")
    with pytest.raises(prediction_run.TooManyRows) as limited:
        prediction_run.after_output_error(method, problem, first, lambda page: None, [], prediction_run.SearchLimits(1, 1))
    assert limited.value.rows == run.samples * prediction_run.prediction_steps(method, problem, first)[1]


def test_a_search_for_noise_that_nobody_asked_for_ends_with_its_passes():
    problem = beats()
    first = fitted(problem, di.multiple_shooting())
    method = di.prediction_error()
    found = [prediction_run.after_output_error(method, problem, first, lambda page: None, [],
                                               prediction_run.SearchLimits(20_000, passes)) for passes in (5, 60)]
    few, more = (each.counts["jacobians"] - first.counts["jacobians"] for each in found)
    assert few < more
    assert found[0].criterion == "output error"
    assert "was ended after 5 passes" in found[0].notes[0] and "has an end" not in found[0].notes[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_record_that_is_too_long_to_ask_for_other_noise_says_so_at_the_end(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    model = di.EquationModel(states={"h": "c*u - a*sqrt(h)"}, inputs=["u"], outputs=["h"])
    u = 2 + 0.8 * rng.normal(size=300).clip(-2, 2)
    run = di.simulate(model, {"c": 0.05, "a": 0.08, "h(0)": 1.5}, di.Experiment(np.arange(300.0), {"u": u}))
    seen = u + 0.3 * rng.normal(size=300)
    record = di.Experiment(np.arange(300.0), {"u": seen}, {"h": run.outputs["h"] + 0.002 * rng.normal(size=300)})
    problem = di.Problem(model, [record], [di.Parameter("c", 0.06), di.Parameter("a", 0.1)])
    said = []
    for most in (1, 50_000):
        monkeypatch.setattr(prediction_stage, "MOST_ROWS", most)
        found = di.identify(problem, progress=False)
        said.append(any("was not asked: with 300 samples" in note for note in found.notes))
        assert found.criterion != "output error" or most == 1
    assert said == [True, False]
