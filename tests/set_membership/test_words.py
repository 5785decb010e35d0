"""Do pages and tables of bounded errors speak of bounds, and never of 95 %, normal errors or nan?"""

import re
from importlib.util import find_spec

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")
TIME = np.linspace(0, 3, 13)


def asked(shift=0.0, noise=None, times=TIME):
    """A decay with k = 0.5 and x(0) = 1, both unknown; `shift` of one sample breaks the bound."""
    x = np.exp(-0.5 * times)
    x[-1] += shift
    run = di.Experiment(times, outputs={"x": x}, noise={"x": noise or di.Bounded(0.05)})
    return di.Problem(di.EquationModel(states={"x": "-k*x"}), [run],
                      [di.Parameter("k", 0.4, 0.1, 2.0), di.InitialState("x", 1.0, lower=0.5, upper=1.5)])


def words(estimate, tmp_path):
    """What a reader sees on the page and in the terminal."""
    page = di.report.html(estimate, tmp_path / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join((re.sub(r"<[^>]+>", " ", page) + str(estimate)).split())


@pytest.mark.compiled
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_a_page_of_bounded_errors_does_not_speak_of_probability(shift, tmp_path):
    estimate = di.identify(asked(shift), di.set_membership(tolerance=0.1), progress=False)
    assert estimate.uncertainty.empty == (shift != 0)
    text = words(estimate, tmp_path)
    for word in (r"95 %", r"normal", r"standard deviation", r"\bnan\b", r"chi-square"):
        assert not re.search(word, text), word


@pytest.mark.compiled
def test_an_answer_prints_what_is_proved_and_the_points_that_fit():
    estimate = di.identify(asked(), di.set_membership(tolerance=0.1), progress=False)
    found = estimate.uncertainty
    assert "points inside fit" in " ".join(str(estimate).split())
    for j, name in enumerate(found.names):
        low, high = found.interval(name)
        inside = found.feasible_interval(name)
        assert low <= inside[0] <= inside[1] <= high
        assert inside[1] - inside[0] > 0.5 * (high - low)
        assert inside == (found.feasible[j].min(), found.feasible[j].max())
    k, x0 = found.feasible
    modelled = x0[:, None] * np.exp(-k[:, None] * TIME)
    assert np.all(np.abs(modelled - np.exp(-0.5 * TIME)) <= 0.05 + 1e-12)


@pytest.mark.compiled
def test_a_set_needs_no_more_values_than_unknowns():
    few = di.identify(asked(times=np.array([1.0])), di.set_membership(), progress=False)
    low, high = few.uncertainty.interval("k")
    assert low <= 0.5 <= high and not few.uncertainty.empty
    # x(0) exp(-k) within 0.05 of exp(-0.5): the hull of a curve's neighbourhood
    assert few.uncertainty.interval("x(0)")[0] == pytest.approx(np.exp(-0.5) - 0.05, abs=1e-6)


def test_other_methods_still_ask_for_as_many_values_as_unknowns():
    one = np.array([1.0])
    with pytest.raises(di.ProblemError, match=r"2 unknowns .* cannot be found from 1 measured values"):
        asked(noise=di.Gaussian(0.1), times=one)
    with pytest.raises(di.ProblemError, match=r"2 unknowns .* cannot be found from 1 measured values"):
        di.identify(asked(noise=di.Gaussian(0.1, bound=0.5), times=one), di.single_shooting(), progress=False)
