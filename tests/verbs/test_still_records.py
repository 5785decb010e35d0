"""Claims: records that are exactly zero are fitted and judged like others."""

import numpy as np
import pytest

import dynident as di
from dynident.statistics.verdict import Grade

TIME = np.linspace(0, 2, 30)


def decay(begin: float, noise: dict[str, di.Gaussian]) -> di.Problem:
    record = di.Experiment(TIME, outputs={"x": np.zeros(30)}, initial={"x": begin}, noise=noise)
    return di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 1.0, lower=0.1, upper=3.0)])


@pytest.mark.parametrize("noise", [{}, {"x": di.Gaussian(1e-6)}])
def test_a_record_of_zeros_is_followed_and_tells_nothing(noise):
    """Both ended in a ZeroDivisionError."""
    estimate = di.identify(decay(0.0, noise), progress=False)
    assert estimate.verdict.grade is Grade.UNJUDGED and "never moves" in estimate.verdict.sentence
    assert "unidentifiable" in str(estimate)


def test_a_model_that_moves_does_not_describe_a_record_of_zeros():
    try:
        verdict = di.identify(decay(1.0, {"x": di.Gaussian(1e-6)}), di.single_shooting(), progress=False).verdict
    except di.NotConverged as stopped:
        verdict = stopped.estimate.verdict
    assert verdict.grade is Grade.NOT
