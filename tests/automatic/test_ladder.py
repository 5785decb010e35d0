"""Does `identify` without a method arrive, say so, and say where it did not?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


def test_a_record_that_is_too_long_to_find_out_is_told_so(monkeypatch):
    monkeypatch.setattr(prediction_stage, "MOST_ROWS", 300)
    found = di.identify(disturbed_oscillator(0), progress=False)
    assert found.criterion == "output error" and any("was not asked: with 400 samples" in note for note in found.notes)


def test_without_noise_in_the_model_output_error_is_kept():
    found = di.identify(disturbed_oscillator(0, std=0.0), progress=False)
    assert found.criterion == "output error" and found.believed and found.arrived_by == "plain"
