"""The true state and the true parameters are never lost, whatever the rig, its input and its noise."""

from importlib.util import find_spec

import numpy as np
import pytest
from rigs import lost_samples, random_rig, rig_problem

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.papers.drive_train import RigTruth, drive_train, drive_train_record, driving_cycles
from dynident.set_membership.bisection import slice_wide
from dynident.set_membership.flows.boxes import Boxes

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(s, marks=pytest.mark.slow) for s in range(20, 1000))])
def test_truth_is_never_lost_on_a_random_rig(seed):
    lost, observed = lost_samples(random_rig(seed), algorithm="recursive")
    assert observed.empty_at is None and not lost


@pytest.mark.parametrize("seed", [*range(2000, 2003), *(pytest.param(s, marks=pytest.mark.slow)
                                                        for s in range(2003, 2060))])
def test_the_published_algorithm_does_not_lose_the_truth_either(seed):
    lost, observed = lost_samples(random_rig(seed), algorithm="paper", velocity_subdivisions=4)
    assert observed.empty_at is None and not lost


FREEDOM = {"factored": {"factored_step": True}, "barrier": {"standstill_barrier": True}, "all": {
    "factored_step": True, "standstill_barrier": True, "free_room": True, "strategy": "influence", "velocity_subdivisions": 4,
    "v_bar": 0.5}}


@pytest.mark.parametrize("name", FREEDOM)
@pytest.mark.parametrize("seed", [*range(3000, 3003), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3003, 3040))])
def test_the_freedom_of_the_published_text_does_not_cost_the_truth(seed, name):
    lost, observed = lost_samples(random_rig(seed), algorithm="paper", **FREEDOM[name])
    assert observed.empty_at is None and not lost


@pytest.mark.compiled
def test_the_freedom_of_the_published_text_excludes_what_its_printed_rules_do_not():
    time, torque = driving_cycles(0.0, 4.0)
    problem = rig_problem(drive_train_record(time, torque), {"alpha": (-6, 0), "beta": (10, 1000), "T_Fs": (0, 0.3)})
    common = {"algorithm": "paper", "max_boxes": 40, "reset": {"T_Fs": "speed"}}
    width = {}
    for name, options in {"printed": {"velocity_subdivisions": 20}, "freedom": {**FREEDOM["all"], "subdivisions": 10}}.items():
        low, high = di.identify(problem, di.set_membership(**common, **options), progress=False).uncertainty.interval("beta")
        assert low <= 65 <= high
        width[name] = high - low
    assert width["freedom"] < width["printed"] / 4


def test_slices_of_wide_boxes_cover_them_and_no_more():
    rng = np.random.default_rng(0)
    lo = rng.uniform(-1, 0, (3, 12))
    boxes = Boxes(lo, lo + rng.uniform(0.1, 2, (3, 12)), np.arange(12))
    cut = slice_wide(boxes, 1, 4, 1.0, None)
    wide = boxes.hi[1] - boxes.lo[1] > 1.0
    assert cut.count == 12 + 3 * wide.sum() and np.all(cut.hi[1] - cut.lo[1] <= 1.0)
    for mode in range(12):  # each mode is one box here
        own = cut.mode == mode
        order = np.argsort(cut.lo[1, own])
        assert cut.lo[1, own].min() == boxes.lo[1, mode] and cut.hi[1, own].max() == boxes.hi[1, mode]
        assert np.array_equal(cut.hi[1, own][order][:-1], cut.lo[1, own][order][1:])
    assert slice_wide(boxes, 1, 4, 1.0, 7).count == 12 + 6  # two fit into the room
    assert slice_wide(boxes, 1, 4, 9.0, None) is boxes


@pytest.mark.parametrize("options, words", [
    ({"factored_step": True}, 'factored_step = true is for algorithm = "paper"'),
    ({"algorithm": "recursive", "standstill_barrier": True}, 'standstill_barrier = true is for algorithm = "paper"'),
    ({"v_bar": 0.02}, "velocity_subdivisions is 0"), ({"v_bar": -1.0, "velocity_subdivisions": 4}, "give a positive number")])
def test_options_of_the_published_algorithm_are_refused_where_they_say_nothing(options, words):
    with pytest.raises(di.ProblemError, match=words):
        di.set_membership(**options)


@pytest.mark.compiled
@pytest.mark.parametrize("strategy", ["influence", "widest", "around_zero", "paper"])
def test_no_strategy_costs_the_truth(strategy):
    for seed in (1, 4, 9):
        lost, observed = lost_samples(random_rig(seed), algorithm="recursive", strategy=strategy)
        assert observed.empty_at is None and not lost


def test_a_strategy_may_be_written_by_the_user():
    asked = []

    def halve_beta(boxes, situation):
        asked.append(boxes.count)
        row = situation.row("beta")
        return np.full(boxes.count, row), 0.5 * (boxes.lo[row] + boxes.hi[row])

    lost, observed = lost_samples(random_rig(2), algorithm="recursive", strategy=halve_beta)
    assert asked and observed.empty_at is None and not lost
    with pytest.raises(di.ProblemError, match="one entry per box"):
        lost_samples(random_rig(2), algorithm="recursive", strategy=lambda boxes, situation: (np.zeros(1), 0.0))
    with pytest.raises(di.ProblemError, match="Did you mean 'influence'"):
        di.set_membership(strategy="influense")


@pytest.mark.parametrize("seed", [5, 6, *(pytest.param(s, marks=pytest.mark.slow) for s in range(40, 80))])
def test_inputs_with_bounded_errors_do_not_cost_the_truth(seed):
    rig = random_rig(seed)
    rng = np.random.default_rng(seed)
    error = 0.01
    read = np.asarray(rig.experiment.inputs["torque"]) + rng.uniform(-error, error, rig.experiment.time.size)
    measured = di.Experiment(time=rig.experiment.time, inputs={"torque": read}, outputs=rig.experiment.outputs,
                             noise=rig.experiment.noise, initial={"speed": 0.0})
    lost, observed = lost_samples(rig, experiment=measured, algorithm="recursive", input_error={"torque": error * (1 + 1e-9)})
    assert observed.empty_at is None and not lost


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [7, 8, *(pytest.param(s, marks=pytest.mark.slow) for s in range(80, 120))])
def test_a_wrong_sample_that_is_forgiven_does_not_cost_the_truth(seed):
    rig = random_rig(seed)
    outputs = {name: np.array(values) for name, values in rig.experiment.outputs.items()}
    wrong = 10 + int(np.random.default_rng(seed).integers(100))
    outputs["angle"][wrong] += 0.5
    spoilt = di.Experiment(time=rig.experiment.time, inputs=rig.experiment.inputs, outputs=outputs,
                           noise=rig.experiment.noise, initial={"speed": 0.0})
    lost, observed = lost_samples(rig, experiment=spoilt, algorithm="recursive", max_outliers=1)
    assert observed.empty_at is None and not lost
    estimate = di.identify(rig_problem(rig, experiment=spoilt), di.set_membership(
        algorithm="recursive", max_boxes=24, reset={"T_Fs": "speed"}), progress=False)
    assert estimate.uncertainty.refutation.time <= rig.experiment.time[wrong] + 1e-9


def rests_within_a_cycle():
    """The torque stays just below the first breakaway torque; after half a second it has changed, and the rig goes on.

    As in the designed input of Fig. 8, where the torque of a cycle lies within the range of the breakaway torque.
    """
    time = np.arange(600) * 0.01
    torque = np.interp(time, [0, 1, 1.5, 2.0, 3.4, 3.5, 4.2, 4.3], [0, 0.4, 0.4, 0.135, 0.135, 0.4, 0.4, 0.0])
    return drive_train_record(time, torque, RigTruth(breakaway=(0.145, 0.10, 0.13)), settle=0.5)


@pytest.mark.compiled
def test_a_change_in_the_shortest_standstill_does_not_cost_the_truth():
    rig = rests_within_a_cycle()
    still = np.isfinite(rig.experiment.outputs["speed"])
    assert still[100:350].sum() < 3 and np.any(np.diff(rig.breakaway[100:350]))  # it hardly stands, and it changes
    lost, observed = lost_samples(rig, algorithm="recursive", max_boxes=200, subdivisions=50)
    assert observed.empty_at is None and not lost


@pytest.mark.compiled
def test_a_change_where_none_was_admitted_is_refuted_with_the_reason():
    rig = rests_within_a_cycle()
    estimate = di.identify(rig_problem(rig), di.set_membership(
        algorithm="recursive", max_boxes=200, reset={"T_Fs": "speed"}, standstill_time=0.5), progress=False)
    assert estimate.uncertainty.empty
    assert any("standstill_time=0" in note for note in estimate.notes)


def test_inputs_on_a_line_do_not_cost_the_truth():
    """The torque passes the breakaway torque between two samples, far from both."""
    model = drive_train()
    time = np.arange(31) * 0.1
    torque = np.interp(time, [0, 1, 1.5, 2.5, 3.0], [0, 0.4, 0.4, -0.4, -0.4])
    plain = di.Experiment(time=time, inputs={"torque": torque}, hold="linear", outputs={"angle": 0 * time},
                          noise={"angle": di.Bounded(1e-4)}, initial={"angle": 0.0, "speed": 0.0})
    truth = {"alpha": -4.5, "beta": 65.0, "T_Fs": 0.12}
    course = di.simulate(model, truth, plain)
    run = di.Experiment(time=time, inputs={"torque": torque}, hold="linear", outputs={"angle": course.outputs["angle"]},
                        noise={"angle": di.Bounded(1e-4)}, initial={"angle": 0.0, "speed": 0.0})
    prior = {"alpha": (-4.6, -4.4), "beta": (64.0, 66.0), "T_Fs": (0.115, 0.125)}
    problem = di.Problem(model, [run], [di.Parameter(n, 0.5 * (a + b), a, b) for n, (a, b) in prior.items()])
    for algorithm in ("recursive", "paper"):
        estimate = di.identify(problem, di.set_membership(algorithm=algorithm, max_boxes=60), progress=False)
        assert not estimate.uncertainty.empty
        for name, value in truth.items():
            low, high = estimate.uncertainty.interval(name)
            assert low <= value <= high
        band = estimate.uncertainty.bands[0]
        for state in ("angle", "speed"):
            assert np.all((band.low[state] <= course.states[state] + 1e-7) & (
                course.states[state] - 1e-7 <= band.high[state]))
