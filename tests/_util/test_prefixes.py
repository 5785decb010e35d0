"""Claims: small and large quantities are written in a prefix of their unit, and the number stays what it was."""

import pytest

from dynident._util.prefixes import prefixed, quantity


@pytest.mark.parametrize(("value", "unit", "text"), [
    (2.02e-5, "m", "20.2 µm"), (0.002, "m/s", "2 mm/s"), (-3.4e-9, "A", "-3.4 nA"), (2.5e6, "Pa", "2.5 MPa"),
    (0.314, "m", "0.314 m"), (95.0, "kg", "95 kg"), (0.0, "m", "0 m"), (3.1e-7, "kg", "3.1e-07 kg"), (1e-6, "m^2", "1e-06 m^2"),
    (4e5, "s", "4e+05 s"), (1.5e-4, "N m", "150 µN m"), (1e-5, "", "1e-05"), (float("nan"), "m", "nan m"),
    (1e-300, "m", "1e-300 m")])
def test_a_number_is_written_in_the_prefix_of_its_size(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize("size", [1e-300, 3e-7, 0.5, 2e4, 7e8, 1e300])
@pytest.mark.parametrize("unit", ["m", "kg", ""])
def test_scaled_numbers_are_readable_or_as_they_were(size, unit):
    factor, _ = prefixed(size, unit)
    assert factor == 1.0 or 1.0 <= size * factor < 1000.0


@pytest.mark.parametrize(("one", "other", "unit", "texts"), [
    (1.87e-3, 0.02, "m", ("1.87 mm", "20 mm")), (0.02, 0.05, "m", ("0.02 m", "0.05 m")),
    (3e-5, 0.004, "m", ("0.03 mm", "4 mm")),
    (1e-9, 0.02, "m", ("1e-09 m", "0.02 m")),
    (2e-5, 9e-5, "kg", ("2e-05 kg", "9e-05 kg")), (0.0, 2e-5, "m", ("0 µm", "20 µm"))])
def test_two_numbers_that_are_compared_have_one_unit(one, other, unit, texts):
    assert (quantity(one, unit, beside=(other,)), quantity(other, unit, beside=(one,))) == texts
