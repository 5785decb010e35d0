"""Claims: a start at which the model is not finite is one kind of error, whatever the method; one of many has a code."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dynident as di
from dynident.errors import SimulatorLost
from dynident.status import StatusCode
from dynident.verbs.multistart import failed_start

TIME = np.linspace(0, 3, 31)


def explosive(start: float) -> di.Problem:
    """It leaves the finite numbers at t = 1 / (2 a)."""
    run = di.Experiment(TIME, outputs={"x": np.exp(-TIME)}, noise={"x": di.Gaussian(1e-2)}, initial={"x": 1.0})
    return di.Problem(di.EquationModel(states={"x": "a*x**3 - x"}), [run], [di.Parameter("a", start, -2, 90)])


def nowhere() -> di.Problem:
    """Not even its first state is a number."""
    run = di.Experiment(TIME, outputs={"x": np.exp(-TIME)}, noise={"x": di.Gaussian(1e-2)}, initial={"x": "log(a)"})
    return di.Problem(di.EquationModel(states={"x": "-b*x"}), [run], [di.Parameter("a", -1.0), di.Parameter("b", 1.0)])


@pytest.mark.parametrize("method", [di.single_shooting(), di.least_squares()], ids=lambda method: method.kind)
def test_a_start_that_diverges_is_one_kind_of_error(method):
    with pytest.raises(di.StartDiverged, match="At the start values") as caught:
        di.identify(explosive(80.0), method, progress=False)
    assert not caught.value.lost


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.least_squares()],
                         ids=lambda method: method.kind)
def test_a_first_state_that_is_no_number_is_the_same_error(method):
    with pytest.raises(di.StartDiverged):
        di.identify(nowhere(), method, progress=False)


def test_check_says_the_same():
    with pytest.raises(di.StartDiverged):
        di.check(nowhere())


def test_where_every_start_diverges_the_whole_is_that_error():
    with pytest.raises(di.StartDiverged, match="None of 2 starts"):
        di.identify(explosive(80.0), di.multistart(di.single_shooting(), points=[{"a": 80.0}, {"a": 85.0}]), progress=False)


def test_a_failed_start_has_the_code_of_its_error():
    assert failed_start(di.StartDiverged("no number.")).code is StatusCode.START_DIVERGED
    assert failed_start(di.StartDiverged("hung.", lost=True)).code is StatusCode.SIMULATOR_LOST
    assert failed_start(SimulatorLost("gone.")).code is StatusCode.SIMULATOR_LOST
    assert failed_start(di.NotSupported("not so.")).code is StatusCode.START_REFUSED


def test_the_error_comes_back_whole_from_another_process():
    back = pickle.loads(pickle.dumps(di.StartDiverged(["one", "two"], lost=True)))
    assert back.lost and back.faults == ("one", "two")
