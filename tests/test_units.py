"""Units: what a text means, and when there is a factor from one to the other."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dynident.units import conversion, parse, split_header


@pytest.mark.parametrize("given, wanted, factor", [
    ("mV", "V", Fraction(1, 1000)), ("N.m", "Nm", 1), ("kg.m2", "kg m^2", 1), ("W/(m2.K)", "W/m^2/K", 1),
    ("N m/(rad/s)", "N m s/rad", 1), ("1/(kg m^2)", "kg^-1 m-2", 1), ("-", "1", 1), ("%", "-", Fraction(1, 100)),
    ("°C", "degC", 1), ("mol/m3", "mol/m^3", 1), ("l/min", "l/h", 60), ("m.s-2", "m/s²", 1),
])
def test_there_is_a_factor_between_spellings_and_scales_of_one_unit(given, wanted, factor):
    assert conversion(given, wanted) == factor


@pytest.mark.parametrize("given, wanted", [
    ("rpm", "Hz"), ("rad/s", "1/s"), ("Hz", "1/s"), ("degC", "K"), ("counts", "steps"), ("V", "kg"), ("10 m", "m"),
    ("m2s", "m^2 s"), ("(m", "m"), ("m/", "m"), ("m)", "m"),
])
def test_there_is_none_between_different_things_and_for_what_is_no_unit(given, wanted):
    assert conversion(given, wanted) is None


def test_a_number_before_a_unit_is_not_taken_for_the_unit_alone():
    assert parse("10 m") is None


def test_a_unit_with_brackets_stands_in_square_brackets():
    assert split_header("k [W/(m2.K)]") == ("k", "W/(m2.K)")
    assert split_header("y(k)") == ("y(k)", "")
