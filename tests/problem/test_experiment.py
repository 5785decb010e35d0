"""Is a record that makes no sense refused, with everything that is wrong with it?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di

T = np.arange(5.0)


def faults(**fields) -> tuple[str, ...]:
    with pytest.raises(di.ProblemError) as refused:
        di.Experiment(**{"time": T, "name": "run 7"} | fields)
    assert all(fault.startswith("run 7: ") for fault in refused.value.faults)
    return refused.value.faults


@pytest.mark.parametrize("time, sentence", [
    ([], "it has no samples"),
    ([0, 1, np.nan], "time is not finite at sample 2"),
    ([0, 2, 1, 3], "time goes back at sample 2: 2.0 is followed by 1.0"),
    ([3, 2, 1], "(2 such places). Sort the record, or split it into two experiments"),
    ([[0, 1], [2, 3]], "time must be one-dimensional, but has shape (2, 2)"),
    (["a", "b"], "time holds something that is not a number"),
])
def test_time_that_is_none_is_refused(time, sentence):
    (fault,) = faults(time=time)
    assert sentence in fault


@pytest.mark.parametrize("fields, sentence", [
    ({"inputs": {"u": [1, 2, np.nan, 4, 5]}}, "input 'u' is not finite at sample 2 (t = 2); an input must be known"),
    ({"inputs": {"u": [1, 2, np.inf, 4, 5]}}, "input 'u' is not finite at sample 2"),
    ({"outputs": {"y": [1, 2, -np.inf, 4, 5]}}, "output 'y' is infinite at sample 2 (t = 2); write NaN if it is"),
    ({"outputs": {"y": [1, 2]}}, "output 'y' has length 2, time has 5"),
    ({"inputs": {"u": [1, 2]}}, "input 'u' has length 2, time has 5"),
    ({"outputs": {"y": T}, "noise": {"z": di.Gaussian(1)}}, "noise names 'z', which is not a measured signal"),
    ({"outputs": {"speed": T}, "noise": {"sped": di.Gaussian(1)}}, "Did you mean 'speed'?"),
    ({"outputs": {"y": T}, "noise": {"y": 0.1}}, "must be Gaussian(std), LogNormal(std) or Bounded(radius), not 0.1"),
    ({"outputs": {"y": T}, "noise": {"y": di.Gaussian([1, 2])}}, "noise of 'y' has 2 values for 5 samples"),
    ({"inputs": {"u": T}, "hold": "cubic"}, "hold of 'u' is 'cubic'; use \"zero\" or \"linear\""),
    ({"inputs": {"u": T}, "hold": {"w": "zero"}}, "hold names 'w', which is not an input"),
    ({"outputs": {"y": T}, "noise": di.Gaussian(0.1)}, "noise is given by name, as in noise={'y': Gaussian(0.1)}, not as a "
                                                       "Gaussian."),
    ({"outputs": T}, "outputs is given by name, as in outputs={'y': [...]}, not as a ndarray"),
    ({"hold": 3}, "hold is given by name, as in hold={'u': 'linear'}, not as a int"),
    ({"outputs": {"y": T * 1j}}, "output 'y' holds complex numbers; give their real part"),
    ({"initial": {"x": np.nan}}, "the known initial state 'x' is nan"),
    ({"initial": {"x": [1, 2]}}, "the known initial state 'x' is [1, 2]"),
    ({"inputs": {"u": T}, "noise": {"u": di.LogNormal(0.1)}}, "noise of the input 'u' is LogNormal, for which there is no"),
    ({"inputs": {"u": T}, "noise": {"u": di.Gaussian("a")}}, "noise of the input 'u' is a formula"),
    ({"constants": {"dose": "3"}}, "the constant 'dose' is 3; give a finite number"),
    ({"steady": "yes"}, "steady is 'yes'; write SteadyState(...)"),
    ({"start": np.datetime64("2024-05-01")}, "is not a number; it is counted like time"),
    ({"start": 1.0}, "start = 1 lies after the first sample at 0"),
    ({"start": -1.0, "inputs": {"u": T}}, "lies before the first sample at 0, where the inputs are not known"),
])
def test_what_makes_no_sense_is_refused_with_the_reason(fields, sentence):
    assert any(sentence in fault for fault in faults(**fields)), sentence


def test_all_faults_are_listed_at_once():
    found = faults(inputs={"u": [1, 2]}, outputs={"y": [np.inf] * 5}, noise={"z": di.Gaussian(1)}, hold="cubic",
                   initial={"x": np.inf})
    assert len(found) == 5


@pytest.mark.parametrize("size", [0, -1, np.nan, np.inf, [1, 0, 2], [[1, 2]], object()])
@pytest.mark.parametrize("noise", [di.Gaussian, di.Bounded])
def test_size_of_an_error_must_be_positive(noise, size):
    with pytest.raises(di.ProblemError, match=noise.__name__):
        noise(size)


def test_missing_measurements_are_kept_as_missing():
    run = di.Experiment(T, outputs={"y": [1, np.nan, 3, np.nan, 5]})
    assert np.count_nonzero(np.isfinite(run.outputs["y"])) == 3


def test_a_record_cannot_be_changed_and_changes_nothing_of_the_callers():
    y = np.ones(5)
    run = di.Experiment(T, outputs={"y": y})
    with pytest.raises(ValueError, match="read-only"):
        run.outputs["y"][0] = 2
    y[0] = 7.0  # the caller's own array stays the caller's to write
    assert run.outputs["y"][0] == 1
    with pytest.raises(AttributeError):
        run.name = "other"


def test_a_reused_buffer_gives_records_of_their_own():
    time, y, u, std = np.arange(3.0), np.zeros(3), np.zeros(3), np.ones(3)
    runs = []
    for k in (1, 2):
        y[:], u[:], std[:], time[0] = k, -k, k, -k
        runs.append(di.Experiment(time, {"u": u}, {"y": y}, {"y": di.Gaussian(std)}))
    read_only = y.view()
    read_only.flags.writeable = False  # which keeps nobody from writing to y itself
    shown = di.Experiment(time, outputs={"y": read_only})
    y[:] = 9
    for k, run in enumerate(runs, 1):
        columns = run.outputs["y"], -run.inputs["u"], run.noise["y"].std, -run.time[:1]
        assert all(np.all(column == k) for column in columns)
    assert np.all(shown.outputs["y"] == 2)


def test_a_record_made_from_another_shares_its_columns():
    run = di.Experiment(T, outputs={"y": T}, noise={"y": di.Gaussian(T + 1)})
    again = run.with_name("again")
    assert again.time is run.time and again.outputs["y"] is run.outputs["y"] and again.noise["y"] is run.noise["y"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "10ms"])
def test_durations_are_counted_in_seconds(unit):
    time = np.array([0, 10, 25], "timedelta64[s]") * 1000
    np.testing.assert_array_equal(di.Experiment(time.astype(f"timedelta64[{unit}]")).time, [0, 10_000, 25_000])
    assert di.Experiment(np.array([0, 10], "timedelta64[ms]")).time[1] == 0.01
    assert list(di.Experiment([np.timedelta64(0, "h"), np.timedelta64(2, "h")]).time) == [0, 7200]


def test_dates_are_counted_in_seconds_from_the_first():
    stamps = np.datetime64("2024-05-01T12:00:00", "ns") + np.array([0, 1_000_001, 2_000_000], "timedelta64[ns]")
    np.testing.assert_array_equal(di.Experiment(stamps).time, [0, 0.001000001, 0.002])
    assert list(di.Experiment(np.array(["2024-02", "2024-03"], "datetime64[M]")).time) == [0, 29 * 86_400]


@pytest.mark.parametrize("time, sentence", [
    (np.array(["2024-05-01", "NaT"], "datetime64[s]"), "time is not finite at sample 1"),
    (np.array(["NaT", "2024-05-01"], "datetime64[s]"), "time is not finite at sample 0"),
    (np.array(["2024-05-02", "2024-05-01"], "datetime64[s]"), "time goes back at sample 1"),
    (np.array([1, 2], "timedelta64[M]"), "timedelta64[M], which has no length in seconds"),
    (np.array([1, 2], "timedelta64"), "which has no length in seconds"),
])
def test_dates_and_durations_that_are_no_time_are_refused(time, sentence):
    (fault,) = faults(time=time)
    assert sentence in fault


def test_dates_have_a_unit_and_are_no_signal():
    stamps = np.array(["2024-05-01", "2024-05-02"], "datetime64[s]")
    assert "units says that it is in 'ms'" in faults(time=stamps, units={"time": "ms"})[0]
    assert "output 'y' holds datetime64[s], not numbers" in faults(time=[0, 1], outputs={"y": stamps})[0]


def test_part_of_a_record():
    run = di.Experiment(T, outputs={"y": T**2}, noise={"y": di.Gaussian(T + 1)}, initial={"x": 0}, name="whole")
    part = run.window(1, 3)
    assert list(part.time) == [1, 2, 3] and list(part.outputs["y"]) == [1, 4, 9]
    assert list(part.noise["y"].std) == [2, 3, 4]
    assert part.initial == {} and part.start == 1.0  # what was known at the beginning is not known later
    assert run.window(0, 2).initial == {"x": 0.0}
    with pytest.raises(di.ProblemError, match="no sample lies between 7 and 9; the record runs from 0 to 4"):
        run.window(7, 9)


def test_parts_of_one_record_stand_in_one_problem_by_names_of_their_own():
    run = di.Experiment(np.arange(6.0), outputs={"x": np.exp(-np.arange(6.0))}, name="run")
    parts = [run.window(t, t + 2, name=f"{t} s") for t in (0, 3)]
    assert [part.name for part in parts] == ["0 s", "3 s"] and run.window(0, 2).name == "run"
    assert [list(part.time) for part in parts] == [[0, 1, 2], [3, 4, 5]]
