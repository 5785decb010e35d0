"""A parameter that changes at rest: are its bounds those of the last motion, whatever was looked at?"""

import itertools

import numpy as np
import pytest
from rigs import random_rig, rig_problem

import dynident as di
from dynident.papers.drive_train import RigTruth, drive_train_record
from dynident.set_membership.setup import TimeLimit

pytestmark = pytest.mark.compiled
PRIOR = {"alpha": (-5.0, -4.0), "beta": (60.0, 70.0), "T_Fs": (0.0, 0.3)}
LAST = 0.2  # N m, the breakaway torque of the last motion


def rig(last_motion):
    """Two motions with rests between them, the second of `last_motion` seconds and with another breakaway torque."""
    time = np.arange(round((4.0 + last_motion) / 0.01) + 1) * 0.01
    torque = np.where((time > 0.2) & (time < 1.6), 0.35, np.where(time < 4.0, 0.0, 0.35))
    return drive_train_record(time, torque, RigTruth(-4.5, 65.0, (0.08, LAST)), radius=2e-3 * (1 + 1e-9))


def bounds(made, **options):
    method = di.set_membership("batch", max_boxes=40, reset={"T_Fs": "speed"}, **options)
    return di.identify(rig_problem(made, PRIOR), method, progress=False).uncertainty


def test_a_last_motion_that_is_too_short_for_a_window_is_not_given_the_bounds_of_the_one_before():
    made = rig(0.2)
    assert made.breakaway[-1] == LAST and made.mode[-1]
    low, high = bounds(made).interval("T_Fs")
    assert low <= LAST <= high


@pytest.mark.parametrize("looks", [0, 1, 2, 4, 8, 16])
def test_a_search_that_is_out_of_time_before_the_last_motion_does_not_speak_of_an_earlier_one(looks, monkeypatch):
    """The clock is counted, not read."""
    ticks = itertools.count()
    monkeypatch.setattr(TimeLimit, "reached", property(lambda limit: limit.seconds is not None and next(ticks) >= looks))
    found = bounds(rig(1.4), time_limit=1.0)
    for name, value in {"alpha": -4.5, "beta": 65.0, "T_Fs": LAST}.items():
        low, high = found.interval(name)
        assert low <= value <= high, name


def test_a_second_pass_that_is_cut_short_keeps_what_the_first_one_proved_of_the_last_motion(monkeypatch):
    """The clock is counted: it stops the second pass after a few looks; the answer was twice as wide as that of one pass."""
    made, ticks = rig(1.4), itertools.count()
    monkeypatch.setattr(TimeLimit, "reached", property(lambda limit: limit.seconds is not None and next(ticks) < 0))
    low, high = bounds(made, time_limit=1.0).interval("T_Fs")
    first = next(ticks)  # looks of one whole pass
    for more in (1, 2, 4):
        ticks = itertools.count()
        monkeypatch.setattr(TimeLimit, "reached", property(
            lambda limit, ticks=ticks, end=first + more: limit.seconds is not None and next(ticks) >= end))
        again = bounds(made, time_limit=1.0, passes=2).interval("T_Fs")
        assert again[0] <= LAST <= again[1] and again[1] - again[0] <= (high - low) * (1 + 1e-9)


def test_the_answer_says_which_motion_its_bounds_are_of():
    problem = rig_problem(rig(0.2), PRIOR)
    estimate = di.identify(problem, di.set_membership("recursive", max_boxes=10, reset={"T_Fs": "speed"}), progress=False)
    assert any("in the last motion of the record, or in a later one that is not excluded" in note for note in estimate.notes)


def test_a_last_motion_that_is_long_enough_is_bounded_by_its_window():
    low, high = bounds(rig(1.4)).interval("T_Fs")
    assert low <= LAST <= high and high - low < 0.05 * (PRIOR["T_Fs"][1] - PRIOR["T_Fs"][0])


@pytest.mark.parametrize("seed", [100, 101, *(pytest.param(s, marks=pytest.mark.slow) for s in range(102, 160))])
def test_the_batch_keeps_the_parameters_of_a_random_rig_and_the_torque_of_its_last_motion(seed):
    made = random_rig(seed, duration=5.0)
    alpha, beta = made.truth.alpha, made.truth.beta
    near = {"alpha": (alpha - 1.0, alpha + 0.7), "beta": (0.9 * beta, 1.1 * beta), "T_Fs": (0.0, 0.3)}
    method = di.set_membership("batch", max_boxes=24, reset={"T_Fs": "speed"})
    found = di.identify(rig_problem(made, near), method, progress=False).uncertainty
    for name, value in {"alpha": alpha, "beta": beta}.items():
        low, high = found.interval(name)
        assert low - 1e-8 <= value <= high + 1e-8, name
    low, high = found.interval("T_Fs")  # of the last motion, or of the rest behind it where it may have moved once more
    moving = np.flatnonzero(made.mode)
    values = made.breakaway[moving[-1] if moving.size else 0:]
    assert any(low - 1e-8 <= value <= high + 1e-8 for value in values)
