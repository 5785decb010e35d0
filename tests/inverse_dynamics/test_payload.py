"""Is what hangs on an arm found, with intervals that hold it?"""

import numpy as np
import pytest

import dynident as di
from dynident.errors import NotSupported, ProblemError
from dynident.robots.kinematic_tree import INERTIAL_PARAMETERS, move_inertial
from robot_records import record, true_values

ARM = di.RobotModel(di.library.six_axis_urdf())
CENTRE = np.array([0.02, -0.01, 0.11])
LOAD = dict(zip(INERTIAL_PARAMETERS, move_inertial(np.array([3.0, 0, 0, 0, 0.01, 0, 0, 0.012, 0, 0.008]), np.eye(3), CENTRE),
                strict=True))


def runs(noise, seed=0):
    values = true_values(ARM)
    heavy = values | {f"{name}_6": values[f"{name}_6"] + LOAD[name] for name in INERTIAL_PARAMETERS}
    return (record(ARM, values, noise=noise, memory=0.8, noise_seed=seed),
            record(ARM, heavy, noise=noise, memory=0.8, noise_seed=seed + 100, motion_seed=1))


def test_the_payload_is_found():
    found = di.identify_payload(ARM, *runs(0.0))
    assert found.mass == pytest.approx(3.0, rel=2e-3)
    assert found.centre == pytest.approx(CENTRE, abs=1e-3)
    assert found.rms["tau2"] < 0.2 * found.rms_without["tau2"]


def test_intervals_hold_the_payload():
    hits, widths = [], []
    for seed in range(8):
        found = di.identify_payload(ARM, *runs(0.02, seed))
        for name, true in {**LOAD, "cx": CENTRE[0], "cy": CENTRE[1], "cz": CENTRE[2]}.items():
            low, high = found.interval(name)
            hits.append(low <= true <= high)
        widths.append(found.std["m"])
    assert np.mean(hits) >= 0.9
    assert max(widths) < 0.3  # and they say something


def test_nothing_carried_is_nothing_found():
    empty, _ = runs(0.02)
    again = record(ARM, true_values(ARM), noise=0.02, memory=0.8, noise_seed=7, motion_seed=1)
    low, high = di.identify_payload(ARM, empty, again).interval("m")
    assert low <= 0 <= high


def test_what_cannot_be_done_is_said():
    with pytest.raises(ProblemError, match="one with the payload"):
        di.identify_payload(ARM, [], [])
    with pytest.raises(NotSupported, match="friction laws that are linear"):
        di.identify_payload(di.RobotModel(di.library.six_axis_urdf(), friction="auto"), *runs(0.0))
