"""Files whose signals bring their own sample times: one record, nothing interpolated that the model does not ask for."""

import sys

import numpy as np
import pytest

import dynident as di
from dynident.io.readers.columns import ReadRequest
from dynident.io.readers.own_clocks import CLOCK, ClockedSignals, ClockedValues, clocked_columns
from dynident.io.readers.table_columns import read_one

FAST, SLOW = np.arange(0, 1.01, 0.1), np.arange(0.05, 1.0, 0.25)
SPEED, VOLTAGE = np.sin(5 * FAST), np.arange(4.0)


def record(hold="zero", **signals):
    made = {name: ClockedValues.of_seconds(*each) for name, each in signals.items()}
    request = ReadRequest(time=CLOCK, inputs=["u"], outputs=["y"], hold=hold)
    offered = ClockedSignals("log", dict.fromkeys(made, ""), lambda names: {name: made[name] for name in names})
    return read_one(request, clocked_columns(offered, request))


def test_outputs_are_missing_between_their_samples_and_held_inputs_go_on():
    run = record(y=(FAST, SPEED), u=(SLOW, VOLTAGE))
    known = np.isfinite(run.outputs["y"])
    np.testing.assert_allclose(run.time[known], FAST[1:])  # before 0.05 the input is not known
    np.testing.assert_array_equal(run.outputs["y"][known], SPEED[1:])
    np.testing.assert_array_equal(run.inputs["u"], VOLTAGE[np.searchsorted(SLOW, run.time + 1e-12, side="right") - 1])
    assert "signals have clocks of their own (4 to 11 samples)" in run.notes[0] and "1 samples at the ends" in run.notes[1]


def test_linear_inputs_end_with_their_last_sample():
    run = record("linear", y=(FAST, SPEED), u=(SLOW, VOLTAGE))
    np.testing.assert_allclose(run.inputs["u"], np.interp(run.time, SLOW, VOLTAGE))
    assert run.time[-1] == pytest.approx(SLOW[-1])


def test_one_clock_gives_no_missing_samples():
    run = record(y=(FAST, SPEED), u=(FAST, FAST))
    assert run.samples == FAST.size and run.notes == ()


@pytest.mark.parametrize(("times", "said"), [([0.0, 0.2, 0.1], "sample 3 of 'y': time goes back"),
                                             ([0.0, 0.1, 0.1], "sample 3 of 'y': time repeats"), ([], "'y' has no sample")])
def test_clocks_that_are_out_of_order_are_refused(times, said):
    with pytest.raises(di.ProblemError, match=said):
        record(y=(times, np.zeros(len(times))), u=(FAST, FAST))


def test_a_fit_of_two_clocks_is_the_fit_of_one_with_the_rest_missing():
    model = di.EquationModel(states={"x": "(u - x)/tau"}, inputs=["u"], outputs={"y": "x"})
    t = np.round(np.arange(0, 5, 0.01), 10)
    u = np.floor(t) % 2
    y = di.simulate(model, {"tau": 0.4}, di.Experiment(t, {"u": u}, initial={"x": 0})).outputs["y"]
    run = record(y=(t[::7], y[::7]), u=(t[::100], u[::100]))
    estimate = di.identify(di.Problem(model, [run], [di.Parameter("tau", 1, 0.01, 10)]), progress=False)
    assert run.samples < 80 and estimate.values["tau"] == pytest.approx(0.4, rel=1e-4)


# by the writers of the tools


@pytest.fixture
def mf4(tmp_path):
    asammdf = pytest.importorskip("asammdf", reason="asammdf brings pandas and is too heavy for the dev extra")
    path = tmp_path / "run.mf4"
    with asammdf.MDF(version="4.10") as file:
        file.append([asammdf.Signal(SPEED, FAST, name="speed", unit="rad/s"), asammdf.Signal(FAST, FAST, name="same"),
                     asammdf.Signal(np.array([b"on"] * FAST.size), FAST, name="state", encoding="utf-8")])
        file.append([asammdf.Signal(VOLTAGE, SLOW, name="voltage", unit="mV"), asammdf.Signal(VOLTAGE, SLOW, name="same")])
        file.save(path, overwrite=True)
    return path


def test_mf4_groups_have_their_own_clocks(mf4):
    run = di.read_table(mf4, inputs={"u": "voltage"}, outputs={"y": "speed"}, units={"u": "V"})
    known = np.isfinite(run.outputs["y"])
    np.testing.assert_array_equal(run.outputs["y"][known], SPEED[1:])
    assert run.inputs["u"][-1] == pytest.approx(0.003) and run.units["y"] == "rad/s"
    other = di.read_table(mf4, outputs={"y": "1/same"})
    np.testing.assert_allclose(other.time, SLOW)


def test_mf4_says_what_is_no_number_and_no_channel(mf4):
    with pytest.raises(di.ProblemError, match=r"channel 'state' holds text, not numbers"):
        di.read_table(mf4, outputs={"y": "state"})
    with pytest.raises(di.ProblemError, match=r"run.mf4 has no column 'sped'. Did you mean 'speed'?"):
        di.read_table(mf4, outputs={"y": "sped"})


@pytest.fixture
def tdms(tmp_path):
    nptdms = pytest.importorskip("nptdms", reason="the extra tdms reads and writes TDMS")
    path = tmp_path / "run.tdms"
    wave = {"wf_increment": 0.1, "wf_start_offset": 0.0, "unit_string": "mm"}
    with nptdms.TdmsWriter(str(path)) as file:
        file.write_segment([nptdms.ChannelObject("run", "way", SPEED, properties=wave), nptdms.ChannelObject("run", "t", FAST),
                            nptdms.ChannelObject("run", "plain", 2 * FAST), nptdms.ChannelObject("run", "name", ["a"] * 11)])
    return path


def test_tdms_waveforms_bring_their_times_along_and_others_name_a_channel(tdms):
    run = di.read_table(tdms, outputs={"y": "way"}, units={"y": "m"})
    np.testing.assert_allclose(run.time, FAST)
    np.testing.assert_allclose(run.outputs["y"], SPEED / 1000)
    named = di.read_table(tdms, time="t", outputs={"y": "plain"})
    np.testing.assert_array_equal(named.time, FAST)
    with pytest.raises(di.ProblemError, match=r"channel 'plain' is no waveform and brings no times along"):
        di.read_table(tdms, outputs={"y": "plain"})
    with pytest.raises(di.ProblemError, match=r"variable 'name' holds text"):
        di.read_table(tdms, time="t", outputs={"y": "name"})


def write_bag(opened, store, serialize, sequence=()):
    """Joint states with a stamp, whose names change places, and commands without one."""
    joints, header, stamp, number = (store.types[name] for name in (
        "sensor_msgs/msg/JointState", "std_msgs/msg/Header", "builtin_interfaces/msg/Time", "std_msgs/msg/Float64"))
    with opened as bag:
        states = bag.add_connection("/joint_states", joints.__msgtype__, typestore=store)
        command = bag.add_connection("/cmd", number.__msgtype__, typestore=store)
        for k in range(10):
            now = 1_700_000_000_000_000_000 + k * 100_000_000
            names, places = (["a", "b"], [0.1 * k, 1.0]) if k % 2 else (["b", "a"], [1.0, 0.1 * k])
            at = header(*sequence, stamp(now // 10**9, now % 10**9), "")
            bag.write(states, now + 3_000_000, serialize(joints(at, names, np.array(places), np.zeros(2), np.zeros(0)),
                                                         joints.__msgtype__))
            if k % 3 == 0:
                bag.write(command, now - 50_000_000, serialize(number(float(k)), number.__msgtype__))


@pytest.fixture(params=["mcap", "sqlite3", "ros 1"])
def bag(request, tmp_path):
    rosbags = pytest.importorskip("rosbags.rosbag2", reason="rosbags brings 25 MB and is too heavy for the dev extra")
    from rosbags.rosbag1 import Writer as FirstWriter
    from rosbags.typesys import Stores, get_typestore

    if request.param == "ros 1":
        store = get_typestore(Stores.ROS1_NOETIC)
        write_bag(FirstWriter(tmp_path / "run.bag"), store, store.serialize_ros1, sequence=(0,))
        return tmp_path / "run.bag"
    store = get_typestore(Stores.ROS2_HUMBLE)
    storage = getattr(rosbags.StoragePlugin, request.param.upper())
    write_bag(rosbags.Writer(tmp_path / "bag", version=9, storage_plugin=storage), store, store.serialize_cdr)
    (file,) = [path for path in (tmp_path / "bag").iterdir() if path.suffix in (".mcap", ".db3")]
    return file


def test_bag_takes_the_stamp_where_all_topics_have_one_and_joints_by_name(bag):
    run = di.read_table(bag, outputs={"y": "/joint_states.position[a]"})
    np.testing.assert_allclose(run.time, 0.1 * np.arange(10), atol=1e-9)
    np.testing.assert_allclose(run.outputs["y"], 0.1 * np.arange(10))  # whatever their order in a message
    assert run.notes[0] == "time is counted in seconds from the first sample, near 2023-11-14T22:13:20Z, by header.stamp."


def test_bag_takes_the_time_of_the_log_where_a_topic_has_no_stamp(bag):
    run = di.read_table(bag, inputs={"u": "/cmd.data"}, outputs={"y": "/joint_states.position[a]"})
    known = np.isfinite(run.outputs["y"])
    np.testing.assert_allclose(run.time[known], 0.053 + 0.1 * np.arange(10), atol=1e-9)
    np.testing.assert_array_equal(run.inputs["u"][known], [0, 0, 0, 3, 3, 3, 6, 6, 6, 9])
    assert any("by log_time" in note for note in run.notes)
    with pytest.raises(di.ProblemError, match=r"messages of /cmd have no header.stamp; use time=\"log_time\""):
        di.read_table(bag, time="header.stamp", inputs={"u": "/cmd.data"}, outputs={"y": "/joint_states.position[a]"})


def test_bag_says_which_clocks_there_are(bag):
    with pytest.raises(di.ProblemError, match=r"time = 'stamp'; the messages of a bag have header.stamp and log_time"):
        di.read_table(bag, time="stamp", outputs={"y": "/cmd.data"})


@pytest.mark.parametrize(("name", "package", "extra"), [("run.mf4", "asammdf", "mf4"), ("run.tdms", "nptdms", "tdms"),
                                                        ("run.mcap", "rosbags", "ros")])
def test_a_reader_without_its_package_says_what_to_install(tmp_path, monkeypatch, name, package, extra):
    (tmp_path / name).write_bytes(b"anything")
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(di.NotSupported, match=rf"{name}.*needs {package}.*pip install 'dynident\[{extra}\]'"):
        di.read_table(tmp_path / name, outputs=["y"])


@pytest.mark.parametrize(("name", "package", "kind"), [("run.mf4", "asammdf", "MDF file"), ("run.tdms", "nptdms", "TDMS file"),
                                                       ("run.mcap", "rosbags.highlevel", "ROS bag"),
                                                       ("run.bag", "rosbags.highlevel", "ROS bag")])
def test_damaged_files_are_named(tmp_path, name, package, kind):
    pytest.importorskip(package, reason="the extra that reads such files")
    (tmp_path / name).write_bytes(b"this is not such a file" * 50)
    with pytest.raises(di.ProblemError, match=f"{name} is not a readable {kind}"):
        di.read_table(tmp_path / name, outputs=["y"])
