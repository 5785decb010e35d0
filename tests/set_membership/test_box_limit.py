"""Does a set that was cut short for want of boxes say so?"""

import itertools

import numpy as np
import pytest

import dynident as di
from dynident.set_membership.setup import TimeLimit

TIME = np.linspace(0, 1, 6)


def asked(model, initial, values, **record):
    run = di.Experiment(TIME, initial=initial, **record)
    clean = di.simulate(model, values, run)
    outputs = dict(clean.outputs)
    noise = {name: di.Bounded(0.05) for name in outputs}
    return di.Problem(model, [di.Experiment(TIME, outputs=outputs, noise=noise, initial=initial, **record)],
                      [di.Parameter(n, v, lower=0.5 * v, upper=2 * v) for n, v in values.items()])


def rest_and_slide():
    model = di.EquationModel(
        states=["q", "v"], inputs=["u"], outputs={"position": "q"},
        modes={"rest": di.Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fs"),
               "slide": di.Mode(rate={"q": "v", "v": "(u - Fc)/M"}, invariant="v > 0 or v == 0 and u > Fs")},
        transitions=[di.Transition("rest", "slide", when="u > Fs"),
                     di.Transition("slide", "rest", when="v < 0", reset={"v": 0})])
    return asked(model, {"q": 0.0, "v": 0.0}, {"M": 2.0, "Fs": 2.0, "Fc": 1.0}, inputs={"u": 3 * TIME}, hold="linear")


def two_rates():
    model = di.EquationModel(states={"x": "-a*x + b", "z": "-c*z + a*x"}, constants={"c": 2.0})
    return asked(model, {"x": 1.0, "z": 0.0}, {"a": 1.0, "b": 0.5})


@pytest.mark.parametrize(("problem", "algorithm", "how"), [
    (rest_and_slide, "batch", "the list was full at"), (rest_and_slide, "recursive", "the list was full at"),
    (two_rates, "batch", "boxes of the paving are undecided and larger than the tolerance")])
def test_a_set_that_wanted_more_boxes_says_so_and_what_they_cost(problem, algorithm, how):
    estimate = di.identify(problem(), di.set_membership(max_boxes=8, algorithm=algorithm), progress=False)
    assert estimate.status.code == "enclosed_box_limit"
    assert estimate.status.startswith("Converged as far as max_boxes = 8 boxes reach: ") and how in estimate.status
    assert "times as much" in estimate.status


@pytest.mark.parametrize("max_boxes", [1, 8, 50])
def test_the_paving_of_a_smooth_model_keeps_to_its_number_of_boxes(max_boxes):
    found = di.identify(two_rates(), di.set_membership(max_boxes=max_boxes), progress=False).uncertainty
    assert 1 <= found.outer.shape[2] + found.inner.shape[2] <= max_boxes
    for name, value in {"a": 1.0, "b": 0.5}.items():
        low, high = found.interval(name)
        assert low <= value <= high


def test_a_larger_limit_leaves_less_undecided():
    left = []
    for max_boxes in (20, 400):
        found = di.identify(two_rates(), di.set_membership(max_boxes=max_boxes), progress=False).uncertainty
        left.append(np.prod(found.outer[1] - found.outer[0], axis=0).sum())
    assert left[1] < 0.7 * left[0]


def test_a_set_that_is_cut_to_its_tolerance_has_converged():
    model = di.EquationModel(states={"x": "-a*x"})
    estimate = di.identify(asked(model, {"x": 1.0}, {"a": 1.0}), di.set_membership(max_boxes=300))
    assert estimate.status.code == "enclosed"
    assert estimate.status == "Converged: everything was excluded that the batch algorithm could exclude."


@pytest.mark.parametrize(("problem", "looks"), [
    (rest_and_slide, 0), (two_rates, 0), (two_rates, 1), (two_rates, 3), (two_rates, 10)])
def test_a_set_that_is_out_of_time_says_so_and_still_holds_all_that_a_finished_one_holds(problem, looks, monkeypatch):
    """The clock is counted, not read, so that it runs out at the same place on every machine."""
    ticks = itertools.count()
    monkeypatch.setattr(TimeLimit, "reached", property(lambda limit: limit.seconds is not None and next(ticks) >= looks))
    asked_for = problem()
    short = di.identify(asked_for, di.set_membership("batch", max_boxes=40, time_limit=1.0), progress=False)
    whole = di.identify(asked_for, di.set_membership("batch", max_boxes=40), progress=False).uncertainty
    assert "time_limit" in short.status
    for unknown in asked_for.unknowns:  # start values are the truth here
        (low, high), (inner_low, inner_high) = short.uncertainty.interval(unknown.name), whole.interval(unknown.name)
        assert low <= inner_low <= unknown.start <= inner_high <= high
