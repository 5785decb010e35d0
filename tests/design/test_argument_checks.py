"""Arguments of a design: is each that cannot be meant refused, with its name and the way out?"""

from typing import Any

import numpy as np
import pytest

import dynident as di

TIME = np.linspace(0, 4, 41)
MODEL = di.EquationModel(states={"x": "-a*x + u"}, inputs=["u"], outputs={"y": "x"})
RUN = di.Experiment(TIME, {"u": 0 * TIME}, {"y": 0 * TIME}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
PROBLEM = di.Problem(MODEL, [RUN], [di.Parameter("a", 0.8)])
NAN = float("nan")


def planned(**options: Any) -> di.Plan:
    said: dict[str, Any] = {"signal": di.signals.PiecewiseConstant(8), "constraints": ["abs(u) <= 1"], "starts": 1,
                            "progress": False}
    return di.design_input(PROBLEM, **(said | options))


@pytest.mark.parametrize(("options", "said"), [
    ({"starts": 0}, "starts = 0; give a whole number from 1 on"),
    ({"records": 1.5}, "records = 1.5; give a whole number"),
    ({"max_iterations": 0}, "max_iterations = 0; give a whole number"),
    ({"seed": -1}, "seed = -1; give a whole number from 0 on"),
    ({"duration": 0}, "duration = 0; give a positive number of seconds"),
    ({"duration": (3, 1)}, "the shorter one first"),
    ({"duration": (1, 2, 3)}, "the shortest and the longest time"),
    ({"sample_time": NAN}, "sample_time = nan; give a positive number"),
    ({"sample_time": 10.0}, "fewer than three samples"),
    ({"robust": "worst", "box": {"a": 1}}, "box of 'a' is 1; give two finite numbers"),
    ({"robust": "worst", "box": {"a": (2, 1)}}, "the lower one first"),
    ({"amplitude": {"w": 1.0}}, "amplitude names 'w', which is not an input"),
    ({"amplitude": -1.0}, "amplitude is -1.0; give a positive number"),
    ({"constraints": ["abs(w) <= 1"]}, "'w' is not declared"),
    ({"constraints": ["abs(u) <= nan"]}, "'nan' is no number"),
    ({"criterion": "D:a"}, "D speaks of all wanted parameters"),
    ({"criterion": "std"}, "name the parameter whose standard deviation is meant"),
    ({"criterion": 5}, "criterion = 5; use one of D, A, E"),
    ({"signal": di.signals.Given(1.0)}, "every input is given"),
    ({"signal": di.signals.PiecewiseConstant(42)}, "42 coefficients, but a record of 4 s with a sample every 0.1 s has 41"),
    ({"signal": di.signals.Chirp(1, 6)}, "reaches 6 Hz, but a sample every 0.1 s shows 5 Hz at the most"),
])
def test_what_cannot_be_meant_is_refused_by_name(options, said):
    with pytest.raises(di.ProblemError) as refused:
        planned(**options)
    assert said in str(refused.value)


def test_all_faults_are_said_at_once():
    with pytest.raises(di.ProblemError) as refused:
        planned(starts=0, seed=-1, amplitude=0)
    assert len(refused.value.faults) == 3


@pytest.mark.parametrize("made", [lambda: di.signals.Given(NAN), lambda: di.signals.Given(np.ones(3)),
                                  lambda: di.signals.MotionProfile(1, 1, NAN), lambda: di.signals.Chirp(1, float("inf")),
                                  lambda: di.signals.Chirp(1, 2, hold="cubic")])
def test_signals_of_numbers_that_are_none_are_refused(made):
    with pytest.raises(di.ProblemError):
        made()


def test_a_single_name_is_a_list_of_one():
    assert planned(parameters="a").std_after == planned(parameters=["a"]).std_after
