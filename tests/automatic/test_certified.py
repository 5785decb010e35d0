"""Does the default arrive at the certified answers of NIST's nonlinear regressions, from both starts and without bounds?"""

from __future__ import annotations

import pytest

import dynident as di
from nist import MODELS, certified

DIGITS = 6  # of the parameters
STD_DIGITS = {"Lanczos1": 3, "Lanczos2": 3}  # of their standard deviations, five of all others: residuals of 1e-14 and 1e-7


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_the_certified_answer_is_found(name, start):
    data = certified(name)
    estimate = di.identify(data.problem(start), progress=False)
    values, std = data.digits(estimate)
    assert values >= DIGITS
    assert std >= STD_DIGITS.get(name, 5)
    assert estimate.converged
    assert estimate.counts["iterations"] <= 200


@pytest.mark.parametrize("name", ["MGH17", "BoxBOD", "Eckerle4", "MGH10"])
def test_a_plain_fit_from_the_far_start_misses_it(name):
    """What the ladder is for: each of these ended elsewhere, two of them as converged."""
    data = certified(name)
    try:
        estimate = di.identify(data.problem(0), di.single_shooting(), progress=False)
    except di.NotConverged as stopped:
        estimate = stopped.estimate
    assert data.digits(estimate)[0] < 4


FAR = {("Bennett5", 0), ("Bennett5", 1), ("BoxBOD", 0), ("Eckerle4", 0), ("MGH10", 0), ("MGH17", 0)}  # one descent misses


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_differences_of_simulations_find_as_many_digits(name, start):
    """least_squares; from the starts that one descent misses, with the ladder around it."""
    data, method = certified(name), di.least_squares()
    estimate = di.identify(data.problem(start), di.automatic(method=method) if (name, start) in FAR else method, progress=False)
    values, std = data.digits(estimate)
    assert values >= DIGITS
    assert std >= STD_DIGITS.get(name, 5)
    assert estimate.converged
