"""Claims about derivatives of black boxes: noise is found wherever it enters, and only what is right is confirmed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler
from reference_fmus import NO_EVENTS, NO_SLOPES, Reference, V, reference_fmu

import dynident as di

pytestmark = needs_compiler
T = np.linspace(0.0, 5.0, 101)
STD = 0.01
DECAY = Reference("Decay", (V("x", "output", start=1.0, initial="exact"), V("der_x", of="x"),
                            V("k", "parameter", "fixed", 0.0, initial="exact")),
                  "static void compute(Model *m) { der_x_ = -k_ * x_; }" + NO_EVENTS + NO_SLOPES)
OWN, NOT_OF_SIMULATION = "are the model's own", "do not give the derivative of the simulation"


def quantised(share: str, quantum: float, name: str) -> Reference:
    """A decay from 2 whose output is rounded down to a quantum, and whose derivative by k is `share` of the right one."""
    y = f"{quantum!r} * floor(x_ / {quantum!r})" if quantum else "x_"
    code = f"""
static void compute(Model *m) {{ der_x_ = -k_ * x_; y_ = {y}; }}
static int slope(Model *m, int unknown, int known, double *value) {{
  *value = unknown == known;
  if (unknown == at_der_x) *value = known == at_x ? -k_ : known == at_k ? -({share}) * x_ : 0;
  if (unknown == at_y) *value = known == at_x;
  return 1;
}}
"""
    return Reference(name, (V("x", "local", start=2.0, initial="exact"), V("der_x", of="x"),
                            V("k", "parameter", "tunable", 1.0, initial="exact"), V("y", "output")), code + NO_EVENTS,
                     slopes=True, needs={"y": ["x"], "der_x": ["x"]})


def record(output: str, clean: np.ndarray, known_noise: bool = True) -> di.Experiment:
    noise = STD * np.random.default_rng(0).normal(size=T.size)
    return di.Experiment(T, outputs={output: clean + noise}, noise={output: di.Gaussian(STD if known_noise else None)})


def fitted(model: Reference, data: di.Experiment, unknowns: list, outputs: list | None = None) -> di.Estimate:
    return di.identify(di.Problem(di.FmuModel(reference_fmu(model, 2), outputs=outputs, trusted=True), [data], unknowns),
                       di.least_squares(), progress=False)


def said(estimate: di.Estimate, words: str) -> str:
    return " ".join(note for note in estimate.notes if words in note)


def decay_fit(model: Reference) -> di.Estimate:
    return fitted(model, record("y", 2 * np.exp(-0.5 * T)), [di.Parameter("k", start=1.0)], ["y"])


@pytest.mark.parametrize(("share", "quantum"), [("0", 1e-6), ("0.5", 3e-7), ("0.8", 3e-8), ("0.99", 0.0)])
def test_a_wrong_derivative_is_found_out_however_coarse_the_outputs_are(share, quantum):
    found = decay_fit(quantised(share, quantum, "Wrong"))
    exact = decay_fit(replace(quantised("1", 0.0, "Right"), slopes=False))
    assert "k" in said(found, NOT_OF_SIMULATION) and not said(found, OWN)
    assert abs(found.values["k"] - exact.values["k"]) < 1e-2 * exact.uncertainty.std("k")


@pytest.mark.parametrize("quantum", [0.0, 3e-7])
def test_a_right_derivative_is_confirmed_though_the_outputs_are_coarse(quantum):
    assert said(decay_fit(quantised("1", quantum, "Right")), OWN)


def test_what_is_right_at_the_start_and_wrong_at_the_end_is_found_out():
    """The fit ends below k = 0.8, where the derivative is half of the right one, and nobody noticed on the way."""
    found = decay_fit(quantised("k_ > 0.8 ? 1.0 : 0.5", 0.0, "Later"))
    exact = decay_fit(replace(quantised("1", 0.0, "Right"), slopes=False))
    assert "k" in said(found, NOT_OF_SIMULATION) and said(found, "went on by differences") and not said(found, OWN)
    assert found.converged and abs(found.values["k"] - exact.values["k"]) < 1e-4 * exact.uncertainty.std("k")


def test_nothing_is_confirmed_where_nothing_shows():
    """A derivative of 0 agrees with a difference of 0: the state begins at 0, and so k does nothing at first."""
    zero = Reference("Zero", (V("x", "output", start=0.0, initial="exact"), V("der_x", of="x"),
                              V("k", "parameter", "tunable", 1.0, initial="exact")), """
static void compute(Model *m) { der_x_ = -k_ * x_; }
static int slope(Model *m, int unknown, int known, double *value) {
  *value = unknown == at_der_x ? (known == at_x ? -k_ : 0) : unknown == known; return 1; }
""" + NO_EVENTS, slopes=True, needs={"x": ["x"], "der_x": ["x"]})
    data = record("x", 2 * np.exp(-0.5 * T))
    for start in (0.0, 1.0):
        found = fitted(zero, data, [di.Parameter("k", start=1.0), di.InitialState("x", start=start)])
        assert "by k do not" in said(found, NOT_OF_SIMULATION) and "by x(0) are" in said(found, OWN)
        assert abs(found.values["k"] - 0.5) < 4 * found.uncertainty.std("k")


def test_a_parameter_that_sets_an_initial_value_accuses_nobody():
    """The derivatives of the rates are right, but x(0) depends on x_start, which they do not tell."""
    begun = Reference("Begun", (V("x", "output", start=None), V("der_x", of="x"),
                                V("k", "parameter", "tunable", 1.0, initial="exact"),
                                V("x_start", "parameter", "fixed", 1.0, initial="exact"),
                                V("done", "local", "discrete", 0, initial="exact")), """
static void compute(Model *m) { if (!done_) x_ = x_start_; der_x_ = -k_ * x_; }
static void indicators(Model *m, double *z) { (void)m; (void)z; }
static int event(Model *m, double *next, int *end) { if (done_) return 0; x_ = x_start_; done_ = 1; return 1; }
static int step_event(Model *m) { (void)m; return 0; }
static int slope(Model *m, int unknown, int known, double *value) {
  *value = unknown == known;
  if (unknown == at_der_x) *value = known == at_x ? -k_ : known == at_k ? -x_ : 0;
  return 1;
}
""", slopes=True, needs={"x": ["x"], "der_x": ["x"]})
    for start in (1.0, 0.0):
        found = fitted(begun, record("x", 3 * np.exp(-T)), [di.Parameter("k", start=0.5), di.Parameter("x_start", start=start)])
        assert "by k are" in said(found, OWN) and "by x_start do not" in said(found, NOT_OF_SIMULATION)
        assert not said(found, "wrong")
        assert abs(found.values["x_start"] - 3) < 4 * found.uncertainty.std("x_start")


def test_columns_of_rounding_accuse_nobody():
    """A lag of 1 ms under samples of 50 ms shows in no digit; its derivative is right nevertheless."""
    u = np.sin(3 * T)
    fmu = di.FmuModel(exported(), outputs=["y"], trusted=True)
    y = di.simulate(fmu, {"gain": 2.0, "tau": 0.5}, di.Experiment(T, {"u": u})).outputs["y"]
    data = di.Experiment(T, {"u": u}, {"y": y + STD * np.random.default_rng(0).normal(size=T.size)})
    unknowns = [di.Parameter("gain", start=1.0, log=True), di.Parameter("tau", start=1e-3, log=True, lower=1e-6, upper=1e3)]
    found = di.identify(di.Problem(fmu, [data], unknowns), di.least_squares(), progress=False)
    assert not said(found, NOT_OF_SIMULATION) and "gain, tau" in said(found, OWN)


def test_the_order_of_the_parameters_changes_nothing():
    """The outputs are coarse along k and smooth along the offset: the noise is that of both."""
    noisy = Reference("Noisy", (
        V("x", "local", start=2.0, initial="exact"), V("der_x", of="x"), V("y", "output"),
        V("offset", "parameter", "tunable", 0.1, initial="exact"), V("k", "parameter", "tunable", 1.0, initial="exact")),
        "static void compute(Model *m) { der_x_ = -k_ * x_; y_ = offset_ + 1e-5 * floor(x_ * 1e5); }" + NO_EVENTS + NO_SLOPES)
    data = record("y", 0.3 + 2 * np.exp(-0.5 * T), known_noise=False)
    one, other = (fitted(noisy, data, [di.Parameter(n) for n in names], ["y"]) for names in (("offset", "k"), ("k", "offset")))
    for name in ("offset", "k"):
        assert one.uncertainty.std(name) == pytest.approx(other.uncertainty.std(name), rel=1e-2)
        assert abs(one.values[name] - other.values[name]) < 0.05 * one.uncertainty.std(name)


@pytest.mark.parametrize(("model", "bounds"), [
    (DECAY, {"start": 0.0, "lower": 0.0, "upper": 1e9}),  # a thousandth of the way to the bound is far too far
    (DECAY, {"start": 1e-9, "lower": 0.0, "upper": 10.0}),  # its own size is far too little
    (replace(DECAY, name="Wall", code="static void compute(Model *m) { der_x_ = k_ > 1.0002 ? NAN : -k_ * x_; }"
             + NO_EVENTS + NO_SLOPES), {"start": 1.0}),  # nothing is finite on one side
], ids=["wide bounds", "small start", "wall"])
def test_a_start_is_left_if_anything_near_it_can_be_simulated(model, bounds):
    found = fitted(model, record("x", np.exp(-0.7 * T)), [di.Parameter("k", **bounds)])
    assert found.converged and abs(found.values["k"] - 0.7) < 4 * found.uncertainty.std("k")


def test_a_point_with_nothing_finite_around_it_is_named():
    lonely = replace(DECAY, name="Lonely", code="static void compute(Model *m) { der_x_ = k_ == 1 ? -k_ * x_ : NAN; }"
                     + NO_EVENTS + NO_SLOPES)
    with pytest.raises(di.ProblemError, match=r"the simulation is finite, but not close to them: at k = (0\.99|1\.00)\d+, "
                                              r"the simulation of Lonely.fmu failed at t = 0.05: state 'x' is no longer"):
        fitted(lonely, record("x", np.exp(-0.7 * T)), [di.Parameter("k", start=1.0)])


THERMOSTAT = Reference("Thermostat", (
    V("x", "output", start=0.0, initial="exact"), V("der_x", of="x"), V("u", "input", start=0.0),
    V("on", "output", "discrete", 1, "Int32", "exact"), V("a", "parameter", "tunable", 1.0, initial="exact"), V("z0"),
    V("z1")), """
static void compute(Model *m) { der_x_ = (on_ ? u_ : 0) - a_ * x_; z0_ = x_ - 1; z1_ = x_ - 0.5; }
static void indicators(Model *m, double *z) { z[0] = x_ - 1; z[1] = x_ - 0.5; }
static int event(Model *m, double *next, int *end) {
  if (on_ && x_ >= 1) on_ = 0; else if (!on_ && x_ <= 0.5) on_ = 1;
  return 0;
}
static int step_event(Model *m) { (void)m; return 0; }
""" + NO_SLOPES, indicators=2)


def test_kinks_where_events_pass_samples_are_not_taken_for_noise():
    """Near these starts an event passes a sample, and the output there has a kink along a; all lead to one optimum."""
    t, rng = np.linspace(0, 10, 201), np.random.default_rng(0)
    u = np.repeat(rng.uniform(1.5, 4, 21), 10)[:201]
    fmu = di.FmuModel(reference_fmu(THERMOSTAT, 3), outputs=["x"], trusted=True)
    clean = di.simulate(fmu, {"a": 1.0}, di.Experiment(t, {"u": u})).outputs["x"]
    data = di.Experiment(t, {"u": u}, {"x": clean + STD * rng.normal(size=t.size)})
    found = [di.identify(di.Problem(fmu, [data], [di.Parameter("a", start=a)]), di.least_squares(), progress=False)
             for a in (0.95, 0.99, 1.0, 1.05, 1.1)]
    values, std = np.array([f.values["a"] for f in found]), found[0].uncertainty.std("a")
    assert np.ptp(values) < 1e-3 * std and all(f.uncertainty.std("a") == pytest.approx(std, rel=1e-3) for f in found)
