"""Likelihood profiles: equal to the linearised interval where that is exact, and right where it is not."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident._util.codec import decode, to_json
from dynident.statistics.profile_likelihood import IDENTIFIABLE, RECORD_HIDES, STRUCTURAL, Profile
from problems import MACHINES

TIME = np.linspace(0, 5, 60)


def line_in_time(noise_known: bool) -> di.Estimate:
    """y = a + b t as a model: x' = b, x(0) = a; linear in both unknowns."""
    y = 1.0 + 0.5 * TIME + 0.1 * np.random.default_rng(3).standard_normal(TIME.size)
    run = di.Experiment(TIME, outputs={"y": y}, noise={"y": di.Gaussian(0.1 if noise_known else None)})
    model = di.EquationModel(states={"x": "b"}, outputs={"y": "x"})
    return di.identify(di.Problem(model, [run], [di.Parameter("b", 1.0)]))


@pytest.mark.parametrize("noise_known", [True, False])
@pytest.mark.parametrize("level", [0.68, 0.95, 0.99])
def test_profile_equals_the_linearised_interval_on_a_linear_model(noise_known, level):
    estimate = line_in_time(noise_known)
    profile = di.profile(estimate)
    for name in estimate.problem.names:
        linear = np.array(estimate.uncertainty.interval(name, level))
        width = linear[1] - linear[0]
        assert np.allclose(profile.interval(name, level), linear, atol=1e-4 * width)  # the refits leave 3e-3 std errors


def test_profile_of_a_product_names_its_partner_and_is_structural():
    y = np.exp(-TIME) + 0.01 * np.random.default_rng(0).standard_normal(TIME.size)
    run = di.Experiment(TIME, outputs={"y": y}, noise={"y": di.Gaussian(0.01)}, initial={"x": 1.0})
    model = di.EquationModel(states={"x": "-a*b*x"}, outputs={"y": "x"})
    bounds = {"lower": 0.01, "upper": 100}
    profile = di.profile(di.identify(di.Problem(model, [run], [di.Parameter("a", 0.5, **bounds),
                                                               di.Parameter("b", 2.0, **bounds)])))
    assert profile.identifiability("a") == profile.identifiability("b") == STRUCTURAL
    assert profile.partners("a") == ("b",)
    a, b = profile.curves["a"].path.T
    assert np.allclose(a * b, a[0] * b[0], rtol=1e-3)


def test_parameter_that_the_record_never_excites_is_blamed_on_the_record():
    y = np.exp(-TIME) + 0.01 * np.random.default_rng(1).standard_normal(TIME.size)
    run = di.Experiment(TIME, {"u": 0 * TIME}, {"y": y}, {"y": di.Gaussian(0.01)}, {"x": 1.0})
    model = di.EquationModel(states={"x": "-a*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    profile = di.profile(di.identify(di.Problem(model, [run], [di.Parameter("a", 0.5), di.Parameter("b", 2.0)])))
    assert profile.identifiability("a") == IDENTIFIABLE
    assert profile.identifiability("b") == RECORD_HIDES
    assert np.all(np.isinf(profile.interval("b")))


def test_michaelis_menten_below_saturation_has_no_upper_limit():
    """Far below K only V/K can be seen (Raue et al. 2009 call this practically non-identifiable)."""
    model = di.EquationModel(states={"s": "-V*s/(K + s)"}, outputs={"y": "s"})
    clean = di.simulate(model, {"V": 1, "K": 5}, di.Experiment(TIME, initial={"s": 0.5})).outputs["y"]
    y = clean + 0.01 * np.random.default_rng(4).standard_normal(TIME.size)
    run = di.Experiment(TIME, outputs={"y": y}, noise={"y": di.Gaussian(0.01)}, initial={"s": 0.5})
    problem = di.Problem(model, [run], [di.Parameter("V", 1.0, lower=0), di.Parameter("K", 5.0, lower=0)])
    profile = di.profile(di.identify(problem, di.single_shooting()))
    for name, partner in (("V", "K"), ("K", "V")):
        assert profile.identifiability(name) == "practically unidentifiable: no upper limit"
        assert np.isfinite(profile.interval(name)[0])
        assert profile.partners(name) == (partner,)


def test_profile_is_the_same_on_an_executor_and_after_a_round_trip():
    estimate = di.identify(MACHINES["mass_spring_damper"].problem())
    alone = di.profile(estimate, ["m", "k"])
    with ThreadPoolExecutor(2) as pool:
        shared = di.profile(estimate, ["m", "k"], executor=pool)
    again = decode(Profile, json.loads(to_json(alone)), "a file")
    for name in ("m", "k", "d"):
        assert alone.interval(name) == shared.interval(name) == again.interval(name)


def test_profile_covers_as_often_as_it_says_where_the_linearised_interval_does_not():
    """A rate far beyond what the sampling resolves well: 95 % of 120 repeats, within three standard deviations."""
    model = di.EquationModel(states={"s": "-V*s/(K + s)"}, outputs={"y": "s"})
    time = np.linspace(0.2, 3, 12)
    clean = di.simulate(model, {"V": 1.0, "K": 0.5}, di.Experiment(time, initial={"s": 1.5})).outputs["y"]
    rng, hit, repeats = np.random.default_rng(7), 0, 120
    for _ in range(repeats):
        run = di.Experiment(time, outputs={"y": clean + 0.05 * rng.standard_normal(time.size)},
                            noise={"y": di.Gaussian(0.05)}, initial={"s": 1.5})
        problem = di.Problem(model, [run], [di.Parameter("V", 1.0, lower=0.01, upper=50),
                                            di.Parameter("K", 0.5, lower=1e-6, upper=50)])
        low, high = di.profile(di.identify(problem, di.single_shooting(substeps=1)), "K", 0.95).interval("K")
        hit += low <= 0.5 <= high
    assert abs(hit / repeats - 0.95) < 3 * np.sqrt(0.95 * 0.05 / repeats)


def test_profile_of_an_unknown_name_says_what_there_is():
    with pytest.raises(di.ProblemError, match="Did you mean 'b'"):
        di.profile(line_in_time(True), "B")


@pytest.mark.parametrize("asked, sentence", [({"names": 5}, "names = 5; give the name of an unknown or a list"),
                                             ({"names": [5]}, "'5' is not an unknown"),
                                             ({"level": "high"}, "level = 'high' is not a probability")])
def test_profile_of_what_is_no_name_or_level_is_refused(asked, sentence):
    with pytest.raises(di.ProblemError, match=sentence):
        di.profile(line_in_time(True), **asked)


def test_estimate_with_profiles_is_reported_saved_and_loaded(tmp_path):
    estimate = line_in_time(True)
    whole = replace(estimate, uncertainty=di.profile(estimate))
    whole.save(tmp_path / "results")
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Likelihood profiles" in page and "likelihood profile" in str(whole)
    again = di.load(tmp_path / "results")
    assert again.uncertainty.interval("b") == whole.uncertainty.interval("b")


def resting_on_a_bound() -> di.Estimate:
    """k is held by its upper bound, b and x(0) are not."""
    model = di.EquationModel(states={"x": "-k*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 4, 80)
    u = np.sign(np.sin(3 * time))
    clean = di.simulate(model, {"k": 1.0, "b": 2.0, "x(0)": 0.5}, di.Experiment(time, {"u": u})).outputs["y"]
    run = di.Experiment(time, {"u": u}, {"y": clean + 0.05 * np.random.default_rng(11).standard_normal(80)},
                        noise={"y": di.Gaussian(0.05)})
    return di.identify(di.Problem(model, [run], [di.Parameter("k", 0.7, upper=1.0), di.Parameter("b", 1.5)]),
                       di.single_shooting())


def test_a_parameter_on_its_bound_leaves_the_others_identifiable():
    estimate = resting_on_a_bound()
    assert estimate.uncertainty.active == {"k": "upper"}
    profile = di.profile(estimate)
    assert {profile.identifiability(name) for name in estimate.problem.names} == {IDENTIFIABLE}
    low, high = profile.interval("k")
    assert high == estimate.values["k"] and profile.remark("k") == "at its upper bound"
    model, runs = estimate.problem.model, list(estimate.problem.experiments)
    there = di.identify(di.Problem(model, runs, [di.Parameter("k", low, free=False), di.Parameter("b", 1.5)]))
    assert there.cost - estimate.cost == pytest.approx(1.645**2, rel=3e-2)  # one-sided, 95 %; 1 % of the root between points
    for name in ("b", "x(0)"):
        low, high = profile.interval(name)
        outer = estimate.uncertainty.interval(name)
        assert outer[0] - 0.01 <= low < estimate.values[name] < high <= outer[1] + 0.01
