"""Claims: what `check` says of unknowns that cannot be determined is true at the user's values and on this record."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dynident as di
from dynident.statistics.diagnostic import Diagnostic, DiagnosticCode

TIME = np.linspace(0, 5, 120)
STEPS = 5 * np.sign(np.sin(2 * TIME))
ABOUT_UNKNOWNS = {DiagnosticCode.UNIDENTIFIABLE, DiagnosticCode.NO_EFFECT, DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE,
                  DiagnosticCode.NOT_EXCITED, DiagnosticCode.NOT_EXCITED_BY_START, DiagnosticCode.ZERO_SENSITIVITY,
                  DiagnosticCode.UNIDENTIFIABLE_AT_START}


def said(states, starts, u=None, outputs=None, initial=None, time=TIME, priors=(), constraints=()) -> tuple[Diagnostic, ...]:
    """Findings about what is determined."""
    return tuple(f for f in found(states, starts, u, outputs, initial, time, priors, constraints) if f.code in ABOUT_UNKNOWNS)


def found(states, starts, u=None, outputs=None, initial=None, time=TIME, priors=(), constraints=()) -> tuple[Diagnostic, ...]:
    model = di.EquationModel(states=states, outputs=outputs, inputs=["u"] if u is not None else [])
    record = di.Experiment(time, {} if u is None else {"u": u}, {name: 1 + np.sin(time) for name in model.outputs},
                           {name: di.Gaussian(0.01) for name in model.outputs}, initial or {})
    unknowns = [di.Parameter(name, value, prior=di.Prior(value, 0.1) if name in priors else None)
                for name, value in starts.items()]
    return di.check(di.Problem(model, [record], unknowns, constraints=constraints)).findings


def test_part_of_an_equation_is_named_where_no_direction_with_whole_numbers_would_be_true():
    """At I, m, s = 0.3, 2, 0.4 a random point's direction is false; the function is true everywhere."""
    (finding,) = said({"x": "-(I + m*s**2)*x"}, {"I": 0.3, "m": 2.0, "s": 0.4}, initial={"x": 1.0})
    assert finding.sentence == "only I + m*s^2 is determined"
    assert finding.code is DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE


def test_product_that_starts_at_ones_is_not_called_a_sum():
    (finding,) = said({"x": "-k*x + a*b*u"}, {"k": 1.0, "a": 1.0, "b": 1.0}, STEPS, initial={"x": 0.0})
    assert finding.sentence == "only a*b is determined" and "no input can tell" in finding.advice


def test_constant_input_is_part_of_what_a_record_determines():
    """Of (u - B*w - C)/J with u = 5 throughout: J/B and (C - 5)/J, and the record is blamed."""
    (finding,) = said({"w": "(u - B*w - C)/J"}, {"J": 1.0, "B": 0.7, "C": 0.3}, 5 + 0 * TIME, initial={"w": 0.0})
    assert finding.sentence == "only J/B and (C - 5)/J are determined" and finding.code is DiagnosticCode.NOT_EXCITED


@pytest.mark.parametrize(("duration", "samples", "code"), [(2, 1000, DiagnosticCode.START_GROWS),
                                                           (20, 10000, DiagnosticCode.START_DIVERGES)])
def test_start_at_which_the_model_runs_away_is_blamed_and_not_the_model(duration, samples, code):
    time = np.linspace(0, duration, samples)
    everything = found({"q": "v", "v": "(35.15*u - Fv*v - Fc*tanh(v/0.005) - offset)/M"},
                       {"M": 0.2, "Fv": -10.0, "Fc": 0.2, "offset": 10.0}, 5 * np.sign(np.sin(2 * time)),
                       initial={"q": 0.0, "v": 0.0}, time=time)
    assert code in [f.code for f in everything] and not [f for f in everything if f.code in ABOUT_UNKNOWNS]


def test_scaled_equation_shows_ratios_and_one_line():
    (finding,) = said({"x": "v", "v": "(g*u - d*v - k*x)/m"}, {"g": 1.0, "d": 1.3, "k": 2.0, "m": 1.2}, STEPS,
                      initial={"x": 0.0, "v": 0.0})
    assert finding.sentence == "only g/d and g/k and g/m are determined"


def test_start_that_hides_an_unknown_is_named_with_what_to_move():
    (finding,) = said({}, {"a": 0.0, "b": 1.0}, outputs={"y": "a*exp(-b*t)"})
    assert finding.code is DiagnosticCode.ZERO_SENSITIVITY and finding.names == ("b",) and "Start a somewhere" in finding.advice


def test_equal_starts_of_static_and_coulomb_friction_are_blamed_for_the_stribeck_velocity():
    (finding,) = said({"q": "v", "v": "(u - (Fc + (Fs - Fc)*exp(-(v/vs)**2))*tanh(v/0.01) - Fv*v)/M"},
                      {"M": 1.0, "Fv": 0.4, "Fc": 0.3, "Fs": 0.3, "vs": 0.1}, STEPS, initial={"q": 0.0, "v": 0.0})
    assert finding.severity == "warning" and finding.names == ("vs",) and "Fc = 0.3, Fs = 0.3" in finding.sentence


def test_product_at_zero_is_a_product_everywhere_and_without_effect_here():
    structural, local = said({}, {"a": 0.0, "b": 0.0}, outputs={"y": "a*b*t"})
    assert structural.sentence == "only a*b is determined"
    assert local.code is DiagnosticCode.ZERO_SENSITIVITY and local.names == ("a", "b")


def test_parameter_that_acts_by_rounding_acts_on_nothing():
    (finding,) = said({"x": "-k*x + b*(sin(2*x) - 2*sin(x)*cos(x))"}, {"k": 1.0, "b": 1.0}, initial={"x": 1.0})
    assert finding.sentence == "nothing measured depends on b"


def test_first_state_that_rests_is_blamed_without_an_input():
    (finding,) = said({"x": "-k*x"}, {"k": 1.0}, initial={"x": 0.0})
    assert finding.code is DiagnosticCode.NOT_EXCITED_BY_START


def test_record_without_input_hides_what_the_model_shows():
    (finding,) = said({"x": "-k*x + b*u"}, {"k": 1.0, "b": 2.0}, 0 * TIME, initial={"x": 1.0})
    assert finding.code is DiagnosticCode.NOT_EXCITED and finding.sentence == "nothing measured depends on b"


def test_values_with_the_same_outputs_are_given_where_no_function_is_written():
    """a*x(0)**1.37 is no part of the equations and no form with whole numbers: other values are given, and they are right."""
    model = di.EquationModel(states={"x": "-k*x", "y": "-a*y*x**1.37"}, outputs={"z": "y"})
    record = di.Experiment(TIME, {}, {"z": np.exp(-TIME)}, {"z": di.Gaussian(0.01)}, {"y": 1.0})
    unknowns = [di.Parameter("a", 1.3), di.Parameter("k", 0.5), di.InitialState("x", 1.2)]
    (finding,) = [f for f in di.check(di.Problem(model, [record], unknowns)).findings if f.severity == "error"]
    there = {name: float(value) for name, value in re.findall(r"(a|x\(0\)) = ([\d.]+)", finding.sentence)}
    assert "only 1 combination is determined" in finding.sentence and abs(there["a"] / 1.3 - 1) > 0.05
    assert there["a"] * there["x(0)"] ** 1.37 == pytest.approx(1.3 * 1.2**1.37, rel=1e-4)


@pytest.mark.parametrize("known", [{"priors": ("a",)}, {"constraints": ["b == 2*a"]}])
def test_prior_or_equality_tells_apart_what_the_record_does_not(known):
    assert not said({"x": "-k*x + a*b*u"}, {"k": 1.0, "a": 1.0, "b": 2.0}, STEPS, initial={"x": 0.0}, **known)


def test_lines_about_collinear_unknowns_share_no_name():
    names = [f"c{k}" for k in range(7)]
    lines = found({}, dict.fromkeys(names, 1.0), outputs={"y": " + ".join(f"{n}*t**{k}" for k, n in enumerate(names))})
    told = [name for f in lines if f.code is DiagnosticCode.COLLINEAR for name in f.names]
    assert told and len(told) == len(set(told))


def test_standard_deviation_is_not_compared_with_a_value_near_zero():
    (line,) = [f for f in found({}, {"a": 1.0, "b": 1e-3}, outputs={"y": "a + 0.001*b*sin(50*t)"})
               if f.code is DiagnosticCode.POORLY_DETERMINED]
    assert line.names == ("b",) and "%" not in line.sentence and "more than 100 times" in line.sentence


def test_estimate_says_the_product_and_not_the_sum_that_looks_like_it():
    model = di.EquationModel(states={"x": "-a*b*x"})
    record = di.Experiment(TIME, {}, {"x": np.exp(-TIME)}, {"x": di.Gaussian(0.01)}, {"x": 1.0})
    estimate = di.identify(di.Problem(model, [record], [di.Parameter("a", 1.0), di.Parameter("b", 1.0)]), progress=False)
    assert estimate.uncertainty.combinations == ("only a*b is determined",)
