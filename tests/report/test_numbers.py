"""Claims: numbers print right from 1e-300 to 1e300, and exact zeros as 0."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.report.result_table import format_number, with_interval


@pytest.mark.parametrize("exponent", range(-300, 301, 25))
@pytest.mark.parametrize("sign", [1, -1])
def test_value_and_interval_read_back_as_they_are(exponent, sign):
    value, arm = sign * 1.2345 * 10.0**exponent, 0.0123 * 10.0**exponent
    text, interval = with_interval(value, value - arm, value + arm)
    assert float(text) == pytest.approx(value, rel=1e-3) and float(interval.removeprefix("± ")) == pytest.approx(arm, rel=0.06)


@pytest.mark.parametrize(("value", "low", "high"), [(1e-5, -1e40, 6e50), (1e-5, 0.0, 6e50), (0.0, -2e-5, 6e-4), (0.0, 0.0, 0.0),
                                                    (0.0, -1e-300, 1e-300), (1e300, -1e300, 1e300), (5e-324, 0.0, 1e-300)])
def test_extreme_intervals_read_back_within_their_digits(value, low, high):
    text, interval = with_interval(value, low, high)
    width = max(value - low, high - value)
    assert abs(float(text) - value) <= 0.06 * width + 1e-9 * abs(value)
    assert "0.0e" not in f"{text} {interval}" and "nan" not in interval
    if value == 0:
        assert float(text) == 0 and "e" not in text


@pytest.mark.parametrize("number", [0.0, -0.0, 1e-300, -1e300, 5e-324])
def test_lone_number_reads_back(number):
    assert float(format_number(number)) == pytest.approx(number) and not format_number(0.0 * number).startswith("-")


def test_not_a_number_is_said_so():
    assert format_number(np.nan) == "nan" and format_number(np.inf) == "inf"
