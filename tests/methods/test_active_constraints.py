"""Bounds and constraints that hold an estimate: what the others' intervals know of them, and the degrees of freedom."""

import numpy as np
import pytest

import dynident as di
from dynident._util.codec import decode, encode

LEVEL = 0.95


def coverage_floor(repeats: int) -> float:
    """What a true coverage of 95 % falls below once in a thousand times."""
    return LEVEL - 3.1 * np.sqrt(LEVEL * (1 - LEVEL) / repeats)


def friction_runs(repeats: int, seed: int = 1):
    """Viscous and Coulomb friction of a drive that never turns back: nearly the same, and the second rests at zero at times."""
    model = di.EquationModel(states={"v": "(u - Fv*v - Fc*tanh(v/0.05))/M"}, inputs=["u"], outputs={"speed": "v"})
    rng = np.random.default_rng(seed)
    time = np.arange(0, 6, 0.05)
    force = 2 + 0.4 * np.sin(3 * time)
    clean = di.simulate(model, {"M": 1.0, "Fv": 1.0, "Fc": 0.05},
                        di.Experiment(time, {"u": force}, initial={"v": 1.9})).outputs["speed"]
    for _ in range(repeats):
        run = di.Experiment(time, {"u": force}, {"speed": clean + 0.05 * rng.standard_normal(time.size)},
                            noise={"speed": di.Gaussian(0.05)}, initial={"v": 1.9})
        yield di.Problem(model, [run], [di.Parameter("M", 1, lower=0.01), di.Parameter("Fv", 0.9, lower=0),
                                        di.Parameter("Fc", 0.1, lower=0)])


def test_interval_of_another_covers_when_one_rests_on_its_bound():
    found = [di.identify(problem, di.single_shooting()) for problem in friction_runs(40)]
    resting = [e for e in found if "Fc" in e.uncertainty.active]
    assert len(resting) >= 10
    inside = [low <= 1.0 <= high for low, high in (e.uncertainty.interval("Fv") for e in resting)]
    assert np.mean(inside) >= coverage_floor(len(resting))
    assert any("Fc is at its lower bound (active)" in note and "interval of Fv allows" in note for note in resting[0].notes)
    assert resting[0].uncertainty.interval("Fc")[0] == 0.0


def test_interval_of_the_other_is_that_of_all_values_the_bound_one_may_have():
    """Refits with the bound one moved inside, to the end of its interval: the estimates of the other lie in its interval."""
    problem = next(p for p in friction_runs(40) if "Fc" in di.identify(p, di.single_shooting()).uncertainty.active)
    e = di.identify(problem, di.single_shooting())
    low, high = e.uncertainty.interval("Fv")
    end = e.uncertainty.interval("Fc")[1]
    moved = di.identify(problem.replace(parameters=[*problem.parameters[:2], di.Parameter("Fc", end, free=False)]),
                        di.single_shooting())
    half = high - e.values["Fv"]  # Fv falls as Fc grows, so that this side is the one with Fc held
    assert low + half == pytest.approx(moved.values["Fv"], abs=0.05 * half)


def masses(**bounds):
    model = di.EquationModel(states={"v": "(F-d*v)/(m1+m2)"}, outputs={"speed": "v"}, inputs=["F"])
    rng = np.random.default_rng(4)
    time = np.linspace(0, 8, 401)
    force = 5 * np.sign(np.sin(2 * time))
    clean = di.simulate(model, {"m1": 1.0, "m2": 5.0, "d": 1.5, "v(0)": 0.0}, di.Experiment(time, {"F": force}))
    run = di.Experiment(time, {"F": force}, {"speed": clean.outputs["speed"] + 0.01 * rng.standard_normal(401)},
                        noise={"speed": di.Gaussian(0.01)})
    return di.Problem(model, [run], [di.Parameter("m1", 1.0, **bounds), di.Parameter("m2", 0.5, lower=0.1),
                                     di.Parameter("d", 1)])


def test_where_only_a_sum_is_determined_a_partner_on_its_bound_lets_the_other_go_as_far_as_it_can():
    e = di.identify(masses(lower=0.1, upper=1.5), di.single_shooting())
    assert e.uncertainty.active == {"m1": "upper"}
    low, high = e.uncertainty.interval("m2")
    assert high == pytest.approx(e.values["m1"] + e.values["m2"] - 0.1, abs=0.1)  # m1 may be as little as its lower bound
    assert e.values["m2"] - 0.5 < low <= 5.0
    assert "do not tell it apart from m2" in e.notes[0]
    held = e.uncertainty.std("d") * 1.96
    assert np.ptp(e.uncertainty.interval("d")) == pytest.approx(2 * held, rel=1e-3)  # d has no part in it


def test_without_the_other_bound_the_other_is_open():
    e = di.identify(masses(upper=1.5), di.single_shooting())
    low, high = e.uncertainty.interval("m2")
    assert np.isfinite(low) and high == np.inf
    assert all(np.isfinite(e.uncertainty.interval("d")))


def decay(constraints, rng, parameters=None, std=0.02, noise=0.02):
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    time = np.linspace(0, 3, 50)
    run = di.Experiment(time, {}, {"y": np.exp(-time) + std * rng.standard_normal(50)},
                        noise={"y": di.Gaussian(noise)}, initial={"x": 1.0})
    return di.Problem(model, [run], parameters or [di.Parameter("k", 1.5)], constraints=constraints)


def test_interval_at_an_active_inequality_covers_and_the_note_names_it():
    rng = np.random.default_rng(0)
    found = [di.identify(decay(["k >= 0.999"], rng), di.single_shooting()) for _ in range(60)]
    inside = [low <= 1.0 <= high for low, high in (e.uncertainty.interval("k") for e in found)]
    assert np.mean(inside) >= coverage_floor(len(found))
    held = [e for e in found if e.values["k"] < 0.999 + 1e-6]
    assert len(held) >= 10 and all("'k >= 0.999'" in note for e in held for note in e.notes[:1])


def test_an_inequality_on_one_parameter_is_as_good_as_its_bound():
    seeds = [s for s in range(12) if di.identify(decay([], np.random.default_rng(s))).values["k"] < 0.999]
    by_constraint = di.identify(decay(["k >= 0.999"], np.random.default_rng(seeds[0])), di.single_shooting())
    by_bound = di.identify(decay([], np.random.default_rng(seeds[0]), [di.Parameter("k", 1.5, lower=0.999)]))
    np.testing.assert_allclose(by_constraint.uncertainty.interval("k"), by_bound.uncertainty.interval("k"), rtol=1e-6)
    for key in ("dof", "aic", "bic", "reduced_chi2"):
        assert by_constraint.statistics[key] == pytest.approx(by_bound.statistics[key], rel=1e-6), key


@pytest.mark.parametrize("noise", [0.02, None])
def test_an_equality_leaves_the_degrees_of_freedom_of_a_held_parameter(noise):
    model = di.EquationModel(states={"x": "-a*x + b"}, outputs={"y": "x"})
    rng = np.random.default_rng(2)
    time = np.linspace(0, 4, 15)
    clean = di.simulate(model, {"a": 1.0, "b": 0.5}, di.Experiment(time, initial={"x": 2.0})).outputs["y"]
    run = di.Experiment(time, {}, {"y": clean + 0.02 * rng.standard_normal(15)}, noise={"y": di.Gaussian(noise)},
                        initial={"x": 2.0})
    same_steps = di.single_shooting(substeps=4)  # chosen by itself, their number may differ
    tied = di.identify(di.Problem(model, [run], [di.Parameter("a", 0.8), di.Parameter("b", 0.4)],
                                  constraints=["b == 0.5"]), same_steps)
    held = di.identify(di.Problem(model, [run], [di.Parameter("a", 0.8), di.Parameter("b", 0.5, free=False)]), same_steps)
    for key in ("dof", "aic", "aicc", "bic", "reduced_chi2"):
        assert tied.statistics[key] == pytest.approx(held.statistics[key], rel=1e-5), key
    assert tied.noise_std["y"] == pytest.approx(held.noise_std["y"], rel=1e-5)
    np.testing.assert_allclose(tied.uncertainty.interval("a"), held.uncertainty.interval("a"), rtol=1e-5)


def test_leeway_survives_a_file():
    e = di.identify(masses(lower=0.1, upper=1.5), di.single_shooting())
    again = decode(type(e.uncertainty), encode(e.uncertainty), "a file")
    for name in e.problem.names:
        assert again.interval(name) == e.uncertainty.interval(name)
