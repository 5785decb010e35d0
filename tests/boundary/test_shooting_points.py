"""Shooting points of the boundary value method: where the segments of a root finder begin."""

import numpy as np
import pytest

import dynident as di
from dynident.papers.flexible_rotor import one_mass

STUDY = one_mass()


def test_fewer_segments_find_the_same_root():
    every = STUDY.fit((5, 5, 5), "newton")
    half = STUDY.fit((5, 5, 5), "newton", shooting_points=50)
    named = STUDY.fit((5, 5, 5), "newton", shooting_points=STUDY.record.time[::2].tolist())
    for name in STUDY.truth:
        assert half.values[name] == pytest.approx(every.values[name], rel=1e-6)
        assert named.values[name] == pytest.approx(every.values[name], rel=1e-6)
    np.testing.assert_allclose(half.trajectories[0].outputs["position"], every.trajectories[0].outputs["position"], atol=1e-6)


def test_single_shooting_ends_with_a_code_of_table_6_1():
    alone = STUDY.fit((5, 5, 5), "newton", shooting_points=1)
    assert not alone.converged and "of Table 6.1" in str(alone.status)


def test_damping_by_the_norm_of_the_equations_is_an_option_of_newton_alone():
    assert STUDY.fit((5, 5, 5), "newton", solver_options={"test": "residual"}).converged
    with pytest.raises(di.ProblemError, match="solver_options names 'test'"):
        di.boundary_value(solver="musn", solver_options={"test": "residual"})


@pytest.mark.parametrize("options, words", [
    ({"shooting_points": 5}, "shooting_points are for the root finders"),
    ({"shooting_points": 5, "solver": "newton"}, 'need measurements = "continuous"'),
    ({"shooting_points": 0, "solver": "newton", "measurements": "continuous"}, "a number of segments from 1 on"),
    ({"shooting_points": [3.0, 1.0], "solver": "newton", "measurements": "continuous"}, "times must ascend")])
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(di.ProblemError, match=words):
        di.boundary_value(measurement_noise=0.1, **options)


@pytest.mark.parametrize("points, words", [
    ([0.0, 0.123], "t = 0.123, which is no time of a sample"), (500, "has 100 intervals")])
def test_points_must_be_samples(points, words):
    with pytest.raises(di.ProblemError, match=words):
        STUDY.fit((5, 5, 5), "newton", shooting_points=points)
