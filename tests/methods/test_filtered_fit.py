"""Filtered records: what a filter on data and model alike does to values and intervals, and what on the data alone."""

import numpy as np
import pytest

import dynident as di

T = np.arange(1000) * 0.001
U = np.floor(T / 0.25) % 2
LAG = di.EquationModel(states={"x": "(K*u - x)/tau"}, inputs=["u"], outputs={"y": "x"})
TRUE = {"K": 2.0, "tau": 0.05}
CLEAN = di.simulate(LAG, TRUE, di.Experiment(T, {"u": U}, initial={"x": 0.0})).outputs["y"]
UNKNOWNS = [di.Parameter("K", 1.0, 0.1, 10), di.Parameter("tau", 0.1, 0.001, 1)]


def run(noise=0.0, rng=None, y=CLEAN):
    scatter = 0.0 if rng is None else noise * rng.standard_normal(T.size)
    return di.Experiment(T, {"u": U}, {"y": y + scatter}, initial={"x": 0.0})


def fitted(record, method=None):
    return di.identify(di.Problem(LAG, [record], UNKNOWNS), method, progress=False)


@pytest.mark.parametrize("steps", [[di.lowpass(5)], [di.detrend()], [di.differentiate("y")],
                                   [di.lowpass(20), di.differentiate("y")]], ids=str)
def test_without_noise_a_filter_on_both_sides_changes_no_value(steps):
    estimate = fitted(run().prepared(steps))
    for name, value in TRUE.items():
        assert estimate.values[name] == pytest.approx(value, rel=1e-5)


def test_a_filter_on_the_data_alone_biases():
    """A cut-off of 5 Hz, no noise: the lag of 50 ms is not found, which is why the model goes through the filter too."""
    alone = run(y=run().prepared([di.lowpass(5)]).prepared([]).outputs["y"])
    assert abs(fitted(alone).values["tau"] - 0.05) > 0.005


def test_a_late_channel_is_mended_by_its_shift():
    late = run(y=np.interp(T - 0.005, T, CLEAN))
    assert fitted(late).values["tau"] > 0.054
    assert fitted(late.prepared([di.shift("y", -0.005)])).values["tau"] == pytest.approx(0.05, rel=1e-3)


def test_the_default_takes_least_squares_and_others_say_so():
    record = run(0.1, np.random.default_rng(2)).prepared([di.lowpass(20)])
    estimate = fitted(record)
    assert estimate.method.options()["method"]["kind"] == "least_squares" and estimate.converged
    with pytest.raises(di.NotSupported, match=r"multiple_shooting compares sample by sample, but y went through a filter"):
        fitted(record, "multiple_shooting")


def test_what_follows_a_fit_works_on_filtered_records():
    rng = np.random.default_rng(5)
    estimate = fitted(run(0.1, rng).prepared([di.lowpass(20)]))
    low, high = di.profile(estimate, ["tau"]).interval("tau")
    np.testing.assert_allclose([low, high], estimate.uncertainty.interval("tau"), rtol=0.02)
    another = run(0.1, rng).prepared([di.lowpass(20)]).with_name("another")
    assert str(estimate.validate(another).verdict.grade) == "A"
    assert not any(finding.severity == "error" for finding in di.check(estimate.problem).findings)


def test_a_filtered_result_comes_back_from_its_folder(tmp_path):
    estimate = fitted(run(0.1, np.random.default_rng(5)).prepared([di.lowpass(20)]))
    estimate.save(tmp_path / "result")
    assert di.load(tmp_path / "result").problem.content_hash() == estimate.problem.content_hash()


def covered(steps, repeats, noise):
    """How often the 95 % intervals of K and tau held the truth."""
    rng = np.random.default_rng(1)
    hits = np.zeros(2)
    for _ in range(repeats):
        estimate = fitted(run(noise, rng).prepared(steps), "least_squares")
        hits += [low <= TRUE[name] <= high for name in TRUE for low, high in [estimate.uncertainty.interval(name)]]
    return hits / repeats


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "noise"), [([di.lowpass(20)], 0.1), ([di.lowpass(10, order=4)], 0.1), ([di.detrend()], 0.1),
                                              ([di.differentiate("y")], 0.002)], ids=str)
def test_intervals_of_filtered_records_cover(steps, noise):
    """300 repeats: 95 % plus or minus three standard errors of the count, which are 3.8 %."""
    assert np.all(np.abs(covered(steps, 300, noise) - 0.95) < 0.038)
