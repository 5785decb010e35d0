"""Is it said where segments cannot meet because the model is unstable along the record, and does the way out work?"""

import numpy as np
import pytest

import dynident as di
from dynident.methods.noise_estimation import extrapolated_noise_std
from dynident.methods.unstable_records import log_growth, pieces
from dynident.status import StatusCode


def upright(seconds):
    """A pendulum that is held upright with dry friction, and a small torque that the model does not know."""
    model = di.EquationModel(states={"q": "v", "v": "g*sin(q) - c*tanh(v/0.01) + u"}, inputs=["u"], outputs=["q", "v"],
                             parameters=["g", "c"])
    t, rng = np.arange(0, seconds, 0.02), np.random.default_rng(0)
    q = 0.5 * np.sin(1.3 * t) + 0.3 * np.sin(0.7 * t)
    v = 0.65 * np.cos(1.3 * t) + 0.21 * np.cos(0.7 * t)
    a = -0.845 * np.sin(1.3 * t) - 0.147 * np.sin(0.7 * t)
    torque = a - 9.81 * np.sin(q) + np.tanh(v / 0.01) + 0.3 * np.sin(3 * t)
    seen = {"q": q + 1e-3 * rng.normal(size=t.size), "v": v + 1e-3 * rng.normal(size=t.size)}
    run = di.Experiment(t, inputs={"u": torque}, outputs=seen, hold="linear", name="upright")
    return di.Problem(model, [run], [di.Parameter("g", 9.0), di.Parameter("c", 0.8)])


def test_an_unstable_record_is_cut_and_fitted_in_pieces():
    problem = upright(20.0)
    found = di.identify(problem, di.multiple_shooting(), progress=False)
    assert found.values["g"] == pytest.approx(9.81, rel=0.02) and found.values["c"] == pytest.approx(1.0, rel=0.1)
    assert len(found.problem.experiments) > 5 and "unstable along it" in found.notes[0]


def test_an_unstable_record_that_may_not_be_cut_is_named():
    problem = upright(20.0)
    said = problem.replace(parameters=[*problem.parameters, di.InitialState("q", start=0.0)])
    with pytest.raises(di.NotConverged, match=r"unstable along 'upright'.*Cut it by Experiment\.window") as stopped:
        di.identify(said, di.multiple_shooting(), progress=False)
    assert stopped.value.estimate.status.code is StatusCode.UNSTABLE_RECORD


def test_pieces_hold_each_sample_once():
    run = upright(3.0).experiments[0]
    parts = pieces(run, 4)
    assert np.array_equal(np.concatenate([part.time for part in parts]), run.time)
    assert len({part.name for part in parts}) == 4


def test_slow_rounds_of_weights_are_extrapolated():
    def answer(level):  # a linear map with factors of 0.9 and 0.3 towards (-1, 2)
        return np.array([-1.0, 2.0]) + np.array([[0.6, 0.3], [0.3, 0.6]]) @ (level - [-1.0, 2.0])

    tried, level = [], np.zeros(2)
    for _ in range(8):
        found = answer(level)
        tried.append(tuple(dict(zip("ab", np.exp(each), strict=True)) for each in (level, found)))
        if len(tried) < 4:
            assert extrapolated_noise_std(tried) == tried[-1][1]
        level = np.log(list(extrapolated_noise_std(tried).values()))
    assert np.allclose(level, [-1.0, 2.0], atol=1e-6)  # plain rounds would be 0.9**8 = 0.4 of the way off


def test_growth_is_that_of_the_product():
    rng = np.random.default_rng(1)
    links = np.eye(3) + 0.3 * rng.normal(size=(6, 3, 3))
    product = np.linalg.multi_dot(links[::-1])
    assert log_growth(links) == pytest.approx(np.log(np.linalg.norm(product, 2)), abs=1.0)
    assert log_growth(np.tile(np.diag([2.0, 0.5]), (100, 1, 1))) == pytest.approx(100 * np.log(2))
    assert log_growth(np.zeros((0, 2, 2))) == 0.0
