"""A bound and a standard deviation, both stated: what is proved stands beside what is likely, and neither is made up."""

from importlib.util import find_spec

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler

STD, BOUND = 0.01, 0.02


def decay(noise):
    """x' = -k x + b u from x(0) = 1; uniform errors within the bound."""
    rng = np.random.default_rng(11)
    time = np.linspace(0, 3, 31)
    measured = 0.4 + 0.6 * np.exp(-1.3 * time) + rng.uniform(-BOUND, BOUND, 31)
    model = di.EquationModel(states={"x": "-k*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    run = di.Experiment(time=time, inputs={"u": np.ones(31)}, outputs={"y": measured}, noise={"y": noise},
                        initial={"x": 1.0})
    return di.Problem(model, [run], [di.Parameter("k", 1, 0.2, 4), di.Parameter("b", 0.5, 0, 3)])


@pytest.mark.skipif(compiler() is None and find_spec("ival") is None, reason="proved bounds need a C compiler, or crival")
def test_compare_shows_the_likeliest_value_beside_the_bounds():
    found = di.compare(decay(di.Gaussian(STD, bound=BOUND)), [di.single_shooting(), di.set_membership(tolerance=0.02)])
    assert not found.failed and list(found) == ["single_shooting", "set_membership"]
    for name, truth in {"k": 1.3, "b": 0.52}.items():
        low, high = found["set_membership"].uncertainty.interval(name)
        assert low <= truth <= high
        assert low < found["single_shooting"].values[name] < high
    text = str(found)
    assert "single_shooting" in text and "set_membership" in text
    assert "no value explains the data" in " ".join(text.split())  # what the bounds mean, beside the other's meaning


def test_the_bound_does_not_move_the_likelihood_nor_the_deviation_the_proof():
    both = decay(di.Gaussian(STD, bound=BOUND))
    likely = [di.identify(problem, di.single_shooting()) for problem in (both, decay(di.Gaussian(STD)))]
    assert likely[0].values == likely[1].values
    assert likely[0].uncertainty.interval("k") == likely[1].uncertainty.interval("k")
    proved = [di.identify(problem, di.set_membership(tolerance=0.05)) for problem in (both, decay(di.Bounded(BOUND)))]
    assert proved[0].uncertainty.interval("k") == proved[1].uncertainty.interval("k")
    assert both.content_hash() != decay(di.Gaussian(STD)).content_hash()


@pytest.mark.parametrize("noise, method, words", [
    (di.Gaussian(STD), "set_membership", "bound=radius"), (di.Bounded(BOUND), "single_shooting", "bound=radius")])
def test_what_was_not_stated_is_asked_for(noise, method, words):
    with pytest.raises(di.DynidentError, match=words):
        di.identify(decay(noise), method)


def test_both_statements_survive_saving(tmp_path):
    estimate = di.identify(decay(di.Gaussian(STD, bound=BOUND)), di.set_membership(tolerance=0.1))
    estimate.save(tmp_path / "result")
    assert di.load(tmp_path / "result").problem.experiments[0].noise["y"] == di.Gaussian(STD, bound=BOUND)


def test_a_bound_beside_a_deviation_is_one_positive_number():
    for wrong in (-1.0, [0.1, 0.2]):
        with pytest.raises(di.ProblemError, match="bound"):
            di.Gaussian(STD, bound=wrong)


def test_check_looks_at_bounded_errors_too_and_makes_no_deviation_of_them():
    found = di.check(decay(di.Bounded(BOUND)))
    assert "standard deviation" not in str(found)
    still = decay(di.Bounded(BOUND))
    twice = di.Problem(di.EquationModel(states={"x": "-k*x + b*c*u"}, inputs=["u"], outputs={"y": "x"}), still.experiments,
                       [*still.parameters, di.Parameter("c", 1.0, 0.1, 3)])
    assert any({"b", "c"} <= set(f.names) for f in di.check(twice).findings)  # only their product counts
