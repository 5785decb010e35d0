"""What preparing does to a record: which samples stay, what moves, what is refused."""

import re

import numpy as np
import pytest

import dynident as di
from dynident.problem.output_filter import OutputFilter, filtered, impulse_response, noise_gain, spacing

T = np.arange(400) * 0.005
STEP = np.where(T < 0.7 - 1e-9, 0.0, 1.0)


def record(**changes):
    fields = {"time": T, "inputs": {"u": STEP}, "outputs": {"y": np.sin(5 * T)}, "initial": {"x": 0.0}, **changes}
    return di.Experiment(**fields)


def test_crop_keeps_what_lies_between_and_forgets_the_first_state_unless_it_is_in():
    run = record().prepared([di.crop(0.5, 1.0)])
    assert (run.time[0], run.time[-1], dict(run.initial)) == (0.5, 1.0, {})
    assert dict(record().prepared([di.crop(end=1.0)]).initial) == {"x": 0.0}


def test_thinning_drops_outputs_and_keeps_where_the_input_moves():
    run = record().prepared([di.thin(50)])
    assert run.samples == 10 and np.isclose(run.time, 0.7).any()  # 8 samples, the step of the input, the end
    assert np.isfinite(run.outputs["y"]).sum() == 8
    np.testing.assert_array_equal(run.inputs["u"], np.where(run.time < 0.7 - 1e-9, 0.0, 1.0))


def test_thinning_an_input_that_moves_linearly_keeps_all_its_samples():
    run = record(hold="linear").prepared([di.thin(50)])
    assert run.samples == T.size and np.isfinite(run.outputs["y"]).sum() == 8


def test_thinning_counts_samples_that_are_there():
    y = np.sin(5 * T)
    y[:7] = np.nan
    kept = np.flatnonzero(np.isfinite(record(inputs={}, outputs={"y": y}).prepared([di.thin(100)]).outputs["y"]))
    assert kept.size == 4


def test_thinned_fit_is_the_fit_with_the_others_missing():
    model = di.EquationModel(states={"x": "(K*u - x)/tau"}, inputs=["u"], outputs={"y": "x"})
    y = np.where(T < 0.7, 0, 1 - np.exp(-(T - 0.7) / 0.2)) + 0.01 * np.random.default_rng(3).standard_normal(T.size)
    blanked = np.where(np.arange(T.size) % 10 == 0, y, np.nan)
    unknowns = [di.Parameter("K", 2, 0, 10), di.Parameter("tau", 1, 0.01, 10)]
    thinned, missing = (di.identify(di.Problem(model, [run], unknowns), progress=False) for run in (
        record(outputs={"y": y}).prepared([di.thin(10)]), record(outputs={"y": blanked})))
    for name in ("K", "tau"):
        assert thinned.values[name] == pytest.approx(missing.values[name], rel=1e-3)  # other steps of the integrator
        np.testing.assert_allclose(thinned.uncertainty.interval(name), missing.uncertainty.interval(name), rtol=2e-3)


def test_resampling_is_exact_for_what_is_straight_and_keeps_the_mean_of_an_input():
    time = np.sort(np.random.default_rng(4).uniform(0, 10, 300))
    run = di.Experiment(time, {"u": np.sign(np.sin(time)), "v": 2 * time}, {"y": 3 * time + 1}, hold={"v": "linear"})
    even = run.prepared([di.resample(0.1)])
    np.testing.assert_allclose(np.diff(even.time), 0.1)
    np.testing.assert_allclose(even.inputs["v"], 2 * even.time)
    known = np.isfinite(even.outputs["y"])
    np.testing.assert_allclose(even.outputs["y"][known], 3 * even.time[known] + 1)
    area = np.sum(run.inputs["u"][:-1] * np.diff(np.minimum(time, even.time[-1])))
    assert np.sum(even.inputs["u"][:-1]) * 0.1 == pytest.approx(area)


def test_resampling_leaves_gaps_open():
    run = di.Experiment([0.0, 1.0, 2.0, 7.0, 8.0], outputs={"y": [0.0, 1.0, 2.0, 7.0, 8.0]}).prepared([di.resample(1.0)])
    np.testing.assert_array_equal(run.outputs["y"], [0, 1, 2, np.nan, np.nan, np.nan, np.nan, 7, 8])


def test_shifting_by_whole_samples_moves_values_to_samples():
    run = record().prepared([di.shift("y", -0.01)])
    np.testing.assert_array_equal(run.outputs["y"][:-2], np.sin(5 * T)[2:])
    assert np.isnan(run.outputs["y"][-2:]).all() and run.samples == T.size


def test_shifting_by_less_than_a_sample_gives_the_channel_a_clock_of_its_own():
    run = record().prepared([di.shift("y", 0.002)])
    known = np.isfinite(run.outputs["y"])
    np.testing.assert_allclose(run.outputs["y"][known], np.sin(5 * (run.time[known] - 0.002)), atol=1e-9)
    np.testing.assert_array_equal(run.inputs["u"], np.where(run.time < 0.7 - 1e-9, 0.0, 1.0))
    assert known.sum() == T.size - 1  # the last leaves the time in which the input is known


def test_shifting_an_input_moves_its_edge():
    run = record().prepared([di.shift("u", 0.002)])
    np.testing.assert_array_equal(run.inputs["u"], np.where(run.time < 0.702 - 1e-9, 0.0, 1.0))
    assert run.time[0] == pytest.approx(0.002) and dict(run.initial) == {}


def test_a_lowpass_leaves_slow_things_in_their_place_and_removes_fast_ones():
    slow, fast = np.sin(2 * np.pi * 1.0 * T), np.sin(2 * np.pi * 60.0 * T)
    run = record(outputs={"slow": slow, "fast": fast}).prepared([di.lowpass(15)])
    middle = np.isfinite(run.outputs["slow"]) & (T > 0.3) & (T < 1.7)
    np.testing.assert_allclose(run.outputs["slow"][middle], slow[middle], atol=1e-4)  # gain 1 - (1/15)**4, phase 0
    assert np.abs(run.outputs["fast"][middle]).max() < 1 / (1 + (60 / 15) ** 4)  # each pass leaves 1/sqrt(1 + 4**4)


def test_an_input_is_filtered_only_where_it_is_named():
    plain, named = (record().prepared([step]) for step in (di.lowpass(10), di.lowpass(10, signals=["u"])))
    np.testing.assert_array_equal(plain.inputs["u"], STEP)
    assert np.ptp(np.diff(named.inputs["u"])) < 0.2 and not named.filters


def test_detrending_takes_a_polynomial_out():
    y = 3 + 2 * T - T**2 + np.sin(20 * T)
    left = record(outputs={"y": y}).prepared([di.detrend("y", degree=2)]).outputs["y"]
    np.testing.assert_allclose(np.polyfit(T, left, 2), 0, atol=1e-10)


def test_a_derivative_is_that_of_a_parabola_exactly_and_has_no_unit_of_its_own():
    run = record(outputs={"y": T**2}, units={"y": "m"}).prepared([di.differentiate("y")])
    known = np.isfinite(run.outputs["y"])
    np.testing.assert_allclose(run.outputs["y"][known], 2 * T[known], atol=1e-10)
    assert "y" not in run.units


@pytest.mark.parametrize("chain", [[OutputFilter("lowpass", 20.0, 2)], [OutputFilter("differentiate")],
                                   [OutputFilter("lowpass", 30.0, 4), OutputFilter("differentiate")]])
def test_gain_and_spacing_are_those_of_filtered_noise(chain):
    noise = np.random.default_rng(8).standard_normal((2000, 400))
    out = filtered(chain, noise, 0.005)[500:1500]
    assert out.std() == pytest.approx(noise_gain(chain, 0.005, 2000), rel=0.02)
    apart = spacing(chain, 0.005, 2000)
    correlation = np.mean(out[:-apart] * out[apart:]) / np.mean(out**2)
    assert abs(correlation) < 0.12
    if apart > 1:
        assert max(abs(np.mean(out[:-k] * out[k:]) / np.mean(out**2)) for k in range(1, apart)) > 0.1


def test_a_known_std_is_that_of_the_filtered_noise():
    run = record(noise={"y": di.Gaussian(0.3)}).prepared([di.lowpass(20)])
    response = impulse_response([OutputFilter("lowpass", 20, 2)], 0.005, 400)
    assert run.noise["y"].std == pytest.approx(0.3 * np.sqrt(np.sum(response**2)))


def test_filtered_samples_are_thinned_with_a_note_and_not_twice():
    once, by_hand = (record().prepared(steps) for steps in ([di.lowpass(20)], [di.lowpass(20), di.thin(20)]))
    apart = int(np.diff(np.flatnonzero(np.isfinite(once.outputs["y"])))[0])
    assert apart == spacing(once.filters["y"], 0.005, 400) and f"every {apart}th sample is kept" in once.notes[-1]
    assert by_hand.notes == () and int(np.diff(np.flatnonzero(np.isfinite(by_hand.outputs["y"])))[0]) == 20
    assert once.samples == T.size  # the model goes through the filter on all samples


@pytest.mark.parametrize(("steps", "said"), [
    ([di.crop(3, 4)], "crop(begin=3, end=4): experiment: no sample lies between 3 and 4"),
    ([di.crop("a")], "begin = 'a' must be a number"),
    ([di.thin(0)], "every = 0 must be a whole number from 1 on"),
    ([di.resample(0.001)], "the record's samples are 0.005 apart; between them is nothing measured"),
    ([di.shift("z", 1)], "the record has no signal 'z' for this"),
    ([di.shift("y", 100)], "the shift is longer than the record"),
    ([di.lowpass(200)], "the cut-off 200 is not below half the sampling rate, 100"),
    ([di.lowpass(-1)], "must be positive"),
    ([di.lowpass(20), di.crop(0, 1)], "comes after a filter, whose ends it would move. Put it before."),
    ([di.lowpass(20), di.shift("y", 0.0021)], "is no whole number of samples. Say 0."),
    ([di.shift("y", 0.01), di.lowpass(20)], "'y' is missing at t = 0 and 1 more samples; a filter needs all of them"),
    ([di.differentiate("y", into="v")], "'y' is an output and becomes its derivative"),
    ([di.differentiate("u")], "'u' is an input; say what its derivative is to be called"),
    ([di.detrend(degree=9)], "must be between 0 (a constant) and 3"),
    ([{"lowpas": 20}], "there is no step 'lowpas'. Did you mean 'lowpass'?"),
    ([{"crop": [1, 2, 3]}], "crop: takes from 0 to 2 positional arguments but 3 were given"),
    (["crop"], "'crop' is no step; write one such as crop(2, 9)")])
def test_what_cannot_be_prepared_is_refused_with_its_step(steps, said):
    with pytest.raises(di.ProblemError, match=re.escape(said)):
        record().prepared(steps)


def test_uneven_samples_are_not_filtered():
    uneven = T.copy()
    uneven[7] += 0.001
    with pytest.raises(di.ProblemError, match=r"needs samples at even distances, but the one after t = 0.03 comes 0.006 later"):
        record(time=uneven).prepared([di.lowpass(20)])


@pytest.mark.parametrize("noise", [di.Bounded(0.1), di.Gaussian(0.1, 0.3), di.Gaussian(np.full(400, 0.1))])
def test_errors_of_which_a_filter_makes_nobody_knows_what_are_refused(noise):
    with pytest.raises(di.ProblemError, match=r"what a filter makes of them is known for Gaussian\(std\)"):
        record(noise={"y": noise}).prepared([di.lowpass(20)])


def test_a_window_of_a_filtered_record_is_refused():
    with pytest.raises(di.ProblemError, match=r"Crop before filtering"):
        record().prepared([di.lowpass(20)]).window(0, 1)


PROBLEM = """
[model]
states = { x = "-k*x" }
[[experiment]]
file = "run.csv"
time = "t"
outputs = ["x"]
prepare = PREPARE
[parameters]
k = { start = 1 }
"""


def written(tmp_path, steps):
    rows = "".join(f"{t!r},{float(np.exp(-t))!r}\n" for t in T.tolist())
    (tmp_path / "run.csv").write_text("t,x\n" + rows)
    (tmp_path / "run.toml").write_text(PROBLEM.replace("PREPARE", steps))
    return tmp_path / "run.toml"


def test_a_problem_file_prepares_as_python_does(tmp_path):
    path = written(tmp_path, '[{ crop = [0.5, 1.5] }, { lowpass = { cutoff = 20, order = 3 } }, { shift = ["x", 0.01] }]')
    (run,) = di.read_problem(path).problem.experiments
    same = di.read_table(tmp_path / "run.csv", time="t", outputs=["x"], name=run.name,
                         prepare=[di.crop(0.5, 1.5), di.lowpass(20, order=3), di.shift("x", 0.01)])
    np.testing.assert_array_equal(run.outputs["x"], same.outputs["x"])
    assert run.filters == same.filters == {"x": (OutputFilter("lowpass", 20.0, 3),)}


def test_a_filtered_record_comes_back_from_a_written_problem(tmp_path):
    problem = di.read_problem(written(tmp_path, "[{ lowpass = 20 }, { detrend = \"x\" }]")).problem
    again = di.read_problem(di.write_problem(problem, None, tmp_path / "again.toml")).problem
    assert again.content_hash() == problem.content_hash() and again.filtered_outputs == ("x",)


@pytest.mark.parametrize(("steps", "said"), [("[{ lowpas = 20 }]", "there is no step 'lowpas'"),
                                             ('"crop"', "must be a list of steps"),
                                             ("[{ crop = { start = 1 } }]", "got an unexpected keyword argument 'start'")])
def test_a_problem_file_says_which_step_is_none(tmp_path, steps, said):
    with pytest.raises(di.ProblemError, match=rf"run.toml, line 8: experiment\[0\].prepare: .*{said}"):
        di.read_problem(written(tmp_path, steps))
