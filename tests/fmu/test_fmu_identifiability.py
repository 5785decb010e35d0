"""Claims about what data cannot tell apart in an FMU: it is named as it is for equations, and only what simulations confirm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference_fmus as made
from fmu_makers import exported, needs_compiler

import dynident as di

pytestmark = needs_compiler
T = np.linspace(0, 20, 201)
U = {"outside": 10 + 5 * np.sin(T), "ground": 15 + 3 * np.sign(np.sin(0.7 * T))}
TRUE = {"R1": 2.0, "R2": 3.0, "C": 1.5}
BUILDING = di.EquationModel(states={"T": "(outside - T)/(R1*C) + (ground - T)/(R2*C)"}, inputs=["outside", "ground"],
                            name="building")
WAYS = pytest.mark.parametrize("kind", ["model_exchange", "co_simulation"])


def problem(kind, names=tuple(TRUE), noise=0.05):
    clean = di.simulate(BUILDING, {**TRUE, "T(0)": 20.0}, di.Experiment(T, U)).outputs["T"]
    y = clean + noise * np.random.default_rng(0).normal(size=T.size)
    record = di.Experiment(T, U, {"T": y}, {"T": di.Gaussian(noise)}, initial={"T": 20.0})
    model = di.FmuModel(exported(BUILDING, {**TRUE, "T(0)": 20.0}), kind=kind)
    return di.Problem(model, [record], [di.Parameter(n, start=0.8 * TRUE[n], lower=0.1, upper=10) for n in names])


@WAYS
def test_the_products_that_a_building_tells_are_named(kind):
    found = di.identify(problem(kind), di.least_squares(), progress=False)
    assert found.uncertainty.combinations == ("only R1*C and R2*C are determined",)
    assert found.values["R1"] * found.values["C"] == pytest.approx(3.0, rel=0.05)
    assert found.values["R2"] * found.values["C"] == pytest.approx(4.5, rel=0.05)


@WAYS
def test_check_names_them_before_any_fit(kind):
    found = di.check(problem(kind))
    assert not found.ok
    assert "R1, R2, C: only R1*C and R2*C are determined" in str(found)
    assert di.check(problem(kind, ("R1", "R2"))).ok


@WAYS
def test_shooting_names_them_too(kind):
    found = di.identify(problem(kind), di.single_shooting(), progress=False)
    assert found.uncertainty.combinations == ("only R1*C and R2*C are determined",)


@WAYS
def test_nothing_is_called_undetermined_that_is_not(kind):
    found = di.identify(problem(kind, ("R1", "R2")), di.least_squares(), progress=False)
    assert found.uncertainty.combinations == () and found.converged
    for name in ("R1", "R2"):
        low, high = found.uncertainty.interval(name, 0.999)
        assert low < TRUE[name] < high


def test_a_direction_that_is_weak_but_seen_is_no_null_direction():
    """Beside a + b, which acts a thousand times as much, b bends the decay: differences do tell a from b, if barely."""
    t = np.linspace(0, 3, 61)
    twins = replace(made.DAHLQUIST, name="Twins", variables=(
        made.V("x", "output", start=1.0, initial="exact"), made.V("der_x", of="x"),
        made.V("a", "parameter", "fixed", 1.0, initial="exact"), made.V("b", "parameter", "fixed", 1.0, initial="exact")),
        code="static void compute(Model *m) { der_x_ = -(a_ + b_) * x_ + 1e-3 * b_ * x_ * x_; }"
             + made.NO_EVENTS + made.NO_SLOPES)
    model = di.FmuModel(made.reference_fmu(twins, 2), kind="model_exchange")
    y = di.simulate(model, {}, di.Experiment(t)).outputs["x"]
    record = di.Experiment(t, {}, {"x": y}, {"x": di.Gaussian(1e-3)})
    found = di.identify(di.Problem(model, [record], [di.Parameter("a", start=1.0), di.Parameter("b", start=1.2)]),
                        di.least_squares(), progress=False)
    assert found.uncertainty.combinations == ()


@WAYS
@pytest.mark.parametrize("method", [di.least_squares(), di.multiple_shooting(segments=4)], ids=["whole", "segments"])
def test_profiles_run_on_an_fmu(kind, method):
    found = di.identify(problem(kind, ("R1", "R2")), method, progress=False)
    profile = di.profile(found, ["R1"])
    low, high = profile.interval("R1")
    assert low < TRUE["R1"] < high
