"""Does the default arrive at the certified answers of NIST's nonlinear regressions, from both starts and without bounds?"""

from __future__ import annotations

import pytest

import dynident as di
from nist import MODELS, certified

DIGITS = {"ENSO": 5}  # of the parameters; six of all others: its cosines converge by a third per iteration
STD_DIGITS = {"Lanczos1": 0, "Lanczos2": 3}  # five of all others; the residuals of the first are the rounding of its data


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_the_certified_answer_is_found(name, start):
    data = certified(name)
    estimate = di.identify(data.problem(start), progress=False)
    values, std = data.digits(estimate)
    assert values >= DIGITS.get(name, 6)
    assert std >= STD_DIGITS.get(name, 5)
    assert estimate.converged


@pytest.mark.parametrize("name", ["MGH17", "BoxBOD", "Eckerle4", "MGH10"])
def test_a_plain_fit_from_the_far_start_misses_it(name):
    """What the ladder is for: each of these ended elsewhere, two of them as converged."""
    data = certified(name)
    try:
        estimate = di.identify(data.problem(0), di.single_shooting(), progress=False)
    except di.NotConverged as stopped:
        estimate = stopped.estimate
    assert data.digits(estimate)[0] < 4
