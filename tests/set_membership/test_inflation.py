"""Where nothing fits: by how much the bounds must grow at least, and what is left where they have grown just so far."""

from importlib.util import find_spec

import numpy as np
import pytest
from rigs import random_rig, rig_problem

import dynident as di
from dynident.codegen.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")
TIME = np.linspace(0, 3, 13)
RADIUS = 0.02
DECAY = di.EquationModel(states={"x": "-k*x"})
RATES = np.linspace(0, 2, 20001)


def record(values, name="", radius=RADIUS, **initial):
    return di.Experiment(TIME, outputs={"x": values}, noise={"x": di.Bounded(radius)}, initial=initial, name=name)


def problem_of(*records, unknowns=()):
    return di.Problem(DECAY, list(records), [di.Parameter("k", 1, 0, 2), *unknowns])


def set_of(problem, *arguments, **options):
    return di.identify(problem, di.set_membership(*arguments, **options), progress=False)


BENT = np.exp(-0.5 * TIME) + 0.05 * np.sin(2 * TIME)  # no decay


def smallest_factor(*values):
    """By trying all rates: the exact solution of the decay is known."""
    return min(max(np.max(np.abs(np.exp(-k * TIME) - own)) for own in values) / RADIUS for k in RATES)


def test_smallest_inflation_is_that_of_the_best_uniform_fit():
    found = set_of(problem_of(record(BENT, x=1)), inflate="auto").uncertainty
    exact = smallest_factor(BENT)
    assert not found.empty
    assert found.inflation == pytest.approx(exact, rel=2e-3)
    assert found.refuted_as_given.inflation <= exact <= found.inflation * (1 + 1e-9)
    assert found.feasible.shape[1] > 0  # so that the set is proved not to be empty
    rate = RATES[np.argmin([np.max(np.abs(np.exp(-k * TIME) - BENT)) for k in RATES])]
    low, high = found.interval("k")
    assert low - 1e-4 <= rate <= high + 1e-4 and high - low < 0.01


def test_bounds_that_leave_something_are_not_inflated():
    problem = problem_of(record(np.exp(-0.5 * TIME), x=1))
    plain, auto = set_of(problem).uncertainty, set_of(problem, inflate="auto").uncertainty
    assert auto.inflation == 1 and auto.refuted_as_given is None
    assert auto.interval("k") == plain.interval("k")


def test_a_stated_factor_is_that_on_the_radius():
    values = np.exp(-0.5 * TIME)
    scaled = set_of(problem_of(record(values, x=1)), inflate=3).uncertainty
    wide = set_of(problem_of(record(values, radius=3 * RADIUS, x=1))).uncertainty
    assert scaled.interval("k") == pytest.approx(wide.interval("k"), rel=1e-9)
    assert "3 times its bound" in scaled.meaning


@pytest.mark.parametrize("algorithm", ["batch", "recursive"])
def test_an_empty_set_names_the_time_the_inflation_and_the_way_out(algorithm):
    """The samples up to the named one contradict each other; those up to the one before it do not."""
    estimate = set_of(problem_of(record(BENT, x=1)), algorithm)
    until = np.searchsorted(TIME, estimate.uncertainty.refutation.time)
    rates = [k for k in RATES if np.all(np.abs(np.exp(-k * TIME) - BENT)[:until] <= RADIUS)]
    assert rates and not any(np.all(np.abs(np.exp(-k * TIME) - BENT)[:until + 1] <= RADIUS) for k in RATES)
    assert f"t = {TIME[until]:g}" in estimate.status
    assert 'inflate="auto"' in estimate.status and "max_outliers=1" in estimate.status
    assert 1 < estimate.uncertainty.refutation.inflation <= smallest_factor(BENT)


def test_the_next_number_of_outliers_is_named():
    assert "max_outliers=3" in set_of(problem_of(record(BENT, x=1)), max_outliers=2).status


def test_two_records_that_contradict_each_other_share_one_factor():
    """The first leaves little with its own bounds, but more with wider ones: what is said to be the least must know that."""
    first, second = np.exp(-0.5 * TIME), np.exp(-0.7 * TIME)
    problem = problem_of(record(first, "first", x=1), record(second, "second", x=1))
    exact = smallest_factor(first, second)
    assert 1 < set_of(problem).uncertainty.refutation.inflation <= exact
    found = set_of(problem, inflate="auto").uncertainty
    assert found.inflation == pytest.approx(exact, rel=2e-3)
    assert found.refuted_as_given.experiment == "second"


def test_an_unknown_initial_state_is_as_free_as_the_wider_bounds_leave_it():
    problem = problem_of(record(BENT), unknowns=[di.InitialState("x", lower=0, upper=2)])
    starts = np.linspace(0.5, 1.5, 401)
    exact = min(np.max(np.abs(np.multiply.outer(starts, np.exp(-k * TIME)) - BENT), axis=1).min() for k in RATES[::20]) / RADIUS
    found = set_of(problem, inflate="auto").uncertainty
    assert found.refuted_as_given.inflation <= exact * 1.01
    assert found.inflation == pytest.approx(exact, rel=0.02)


def test_outliers_are_forgiven_before_bounds_grow():
    values = np.exp(-0.5 * TIME)
    values[4] += 1.0
    problem = problem_of(record(values, x=1))
    assert set_of(problem).uncertainty.empty
    forgiving = set_of(problem, max_outliers=1, inflate="auto").uncertainty
    assert forgiving.inflation == 1
    low, high = forgiving.interval("k")
    assert low <= 0.5 <= high


def test_an_inflated_set_is_saved_with_its_factor(tmp_path):
    estimate = set_of(problem_of(record(BENT, x=1)), inflate="auto")
    again = di.load(estimate.save(tmp_path / "set.json")).uncertainty
    assert again.inflation == estimate.uncertainty.inflation
    assert again.refuted_as_given.sentence == estimate.uncertainty.refuted_as_given.sentence
    assert again.meaning == estimate.uncertainty.meaning


@pytest.mark.parametrize("factor", [0, -1, "always", float("nan"), None, True])
def test_a_factor_that_is_none_is_refused(factor):
    with pytest.raises(di.ProblemError, match='or "auto"'):
        di.set_membership(inflate=factor)


def test_along_a_hybrid_record_bounds_grow_until_something_is_left():
    rig = random_rig(31)
    angle = np.array(rig.experiment.outputs["angle"])
    angle[60:] += 0.02  # ten radii
    run = di.Experiment(time=rig.experiment.time, inputs=rig.experiment.inputs, initial={"speed": 0.0},
                        outputs={**rig.experiment.outputs, "angle": angle}, noise=rig.experiment.noise)
    options = {"max_boxes": 24, "reset": {"T_Fs": "speed"}}
    problem = rig_problem(rig, experiment=run)
    refuted = set_of(problem, "recursive", **options).uncertainty
    assert refuted.empty
    found = set_of(problem, "recursive", inflate="auto", **options).uncertainty
    assert not found.empty and 1 < found.inflation <= 11 * 1.2  # with eleven radii the truth fits
    assert found.refuted_as_given.time == refuted.refutation.time
