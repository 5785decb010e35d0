"""Claims: digits follow the uncertainty, and never promise more."""

import math

import pytest

from dynident.report.result_table import aligned, format_number, percent, with_interval


@pytest.mark.parametrize(("value", "half", "printed"), [
    (49.8731, 0.3412, ("49.87", "± 0.34")),
    (103.412, 2.108, ("103.4", "± 2.1")),
    (123456.0, 2345.0, ("123500", "± 2300")),
    (0.31, 12.4, ("0", "± 12")),
    (5.0, 0.0996, ("5.00", "± 0.10")),
    (1.23456e-9, 2.3e-12, ("1.2346e-09", "± 0.0023e-09")),
    (3.2e7, 4.1e5, ("3.200e+07", "± 0.041e+07")),
    (-0.0004, 0.01, ("0.000", "± 0.010")),
])
def test_value_ends_where_its_uncertainty_does(value, half, printed):
    assert with_interval(value, value - half, value + half) == printed


def test_unequal_arms_are_printed_as_an_interval():
    assert with_interval(9.8, 9.1, 11.4) == ("9.80", "[9.10, 11.40]")


def test_one_sided_interval_at_a_bound_keeps_its_bound():
    assert with_interval(0.0, 0.0, 1.482) == ("0.0", "[0.0, 1.5]")


def test_an_uncertainty_below_reading_precision_is_printed_on_its_own():
    value, interval = with_interval(50.0, 50.0 - 1e-12, 50.0 + 1e-12)
    assert value == "50.0000000"
    assert interval == "± 1.0e-12"


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_digits_do_not_depend_on_the_unit(factor):
    value, interval = with_interval(49.8731 * factor, 49.5319 * factor, 50.2143 * factor)
    assert math.isclose(float(value), 49.87 * factor, rel_tol=1e-12)
    assert math.isclose(float(interval.removeprefix("± ")), 0.34 * factor, rel_tol=1e-12)


def test_decimal_points_stand_below_each_other():
    places = [number.index(".") for number in aligned(["103.4", "0.80", "1.2e-05"])]
    assert len(set(places)) == 1


def test_zero_has_no_sign():
    assert format_number(-0.0) == "0"


def test_an_almost_perfect_fit_is_not_called_perfect():
    assert percent(99.99996) == "above 99.99 %"
    assert percent(100.0) == "100.00 %"
