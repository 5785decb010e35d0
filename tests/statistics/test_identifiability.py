"""What cannot be determined is said in the words of the model."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.errors import DynidentError
from dynident.statistics.identifiability import identifiability

T = np.linspace(0, 10, 200)
NONE = np.full(6, np.nan)  # no scales known


def judge(names, values, columns, factors=None):
    jacobian = np.stack(columns, axis=1) * (1.0 if factors is None else np.asarray(factors))
    return identifiability(names, np.asarray(values, float), NONE[: len(names)], jacobian)


def test_independent_effects_are_all_determined():
    found = judge(("a", "b"), [1, 1], [np.ones_like(T), np.sin(T)])
    assert found.complete and found.rank == 2 and not found.groups
    assert found.condition < 2


def test_sum_of_masses():
    found = judge(("m1", "m2", "k"), [2, 3.7, 1], [np.sin(T), np.sin(T), np.cos(3 * T)])
    assert found.combinations == ("only m1 + m2 is determined",)
    assert found.unidentifiable == ("m1", "m2") and found.rank == 2
    assert np.isinf(found.std[:2]).all() and np.isfinite(found.std[2])


def test_ratio_of_stiffness_and_mass():
    k, m = 37.0, 2.3
    effect = np.sin(T)  # of k/m
    found = judge(("k", "m"), [k, m], [effect / m, -effect * k / m**2])
    assert found.combinations == ("only k/m is determined",)


def test_product_and_power():
    a, b = 3.3, 0.71
    found = judge(("a", "b"), [a, b], [np.sin(T) * b**2, np.sin(T) * 2 * a * b])  # of a*b^2
    assert found.combinations == ("only a*b^2 is determined",)


def test_ratio_that_looks_like_a_difference_at_equal_values_says_both():
    found = judge(("k", "m"), [1, 1], [np.sin(T), -np.sin(T)])
    assert found.combinations[0].startswith("only k/m is determined")
    assert "k - m" in found.combinations[0]


def friction(v):
    forward, backward = (v > 0).astype(float), -(v < 0).astype(float)
    return judge(("Fc_plus", "Fc_minus", "offset", "M"), [20.3, 18.1, 1.7, 95.0],
                 [forward, backward, np.ones_like(T), np.cos(T)])


def test_friction_per_direction_and_an_offset_are_one_group_of_three():
    found = friction(np.sin(T + 0.01))  # never at rest on a sample
    assert set(found.unidentifiable) == {"Fc_plus", "Fc_minus", "offset"} and found.rank == 3
    assert found.combinations == ("only Fc_plus + offset and Fc_minus - offset are determined",)
    assert np.isfinite(found.std[3])


def test_one_sample_at_rest_leaves_the_three_nearly_collinear():
    found = friction(np.sin(T))  # at rest at t = 0, where only the offset acts
    assert found.complete
    assert [group.names for group in found.groups] == [("Fc_plus", "Fc_minus", "offset")]


def test_two_independent_groups_are_told_apart():
    found = judge(("m1", "m2", "c1", "c2"), [1, 2.7, 3.1, 4.9], [np.sin(T), np.sin(T), np.cos(T), np.cos(T)])
    assert found.combinations == ("only m1 + m2 is determined", "only c1 + c2 is determined")


def test_no_integers_no_invention():
    found = judge(("a", "b"), [1.0, 1.7], [np.sin(T), 0.4321 * np.sin(T)])
    assert found.combinations[0].startswith("nothing measured changes") and "0.432" in found.combinations[0]


def test_parameter_without_effect():
    found = judge(("a", "dead"), [1, 1], [np.sin(T), np.zeros_like(T)])
    assert found.no_effect == ("dead",) and found.unidentifiable == ("dead",)
    assert found.combinations == ("nothing measured depends on dead",)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_do_not_matter(factor):
    columns = [np.sin(T), np.sin(T), np.cos(3 * T), np.cos(3 * T) + 1e-3 * T]
    before = judge(("a", "b", "c", "d"), [1, 2.7, 1, 1], columns)
    after = judge(("a", "b", "c", "d"), [1, 2.7, 1 * factor, 1], columns, [1, 1, 1 / factor, 1])
    assert (before.rank, before.combinations) == (after.rank, after.combinations)
    assert [g.names for g in before.groups] == [g.names for g in after.groups] == [("c", "d")]
    np.testing.assert_allclose(before.singular_values[:3], after.singular_values[:3], rtol=1e-9)
    assert after.std[2] == pytest.approx(before.std[2] * factor, rel=1e-6)


def test_collinear_group_is_named_with_its_index():
    found = judge(("a", "b", "c"), [1, 1, 1], [np.sin(T), np.sin(T) + 1e-3 * np.cos(T), np.ones_like(T)])
    (group,) = found.groups
    assert group.names == ("a", "b") and found.complete
    unit = np.stack([np.sin(T), np.sin(T) + 1e-3 * np.cos(T)], axis=1)
    unit /= np.linalg.norm(unit, axis=0)
    assert group.index == pytest.approx(1 / np.sqrt(np.linalg.eigvalsh(unit.T @ unit)[0]), rel=1e-3)


def test_standard_deviation_is_that_of_unit_noise():
    x = np.stack([np.ones_like(T), T], axis=1)
    found = judge(("a", "b"), [2, 5], list(x.T))
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(np.linalg.inv(x.T @ x))), rtol=1e-9)
    np.testing.assert_allclose(found.relative_std, found.std / [2, 5])


def test_sensitivity_that_is_not_finite_is_refused_by_name():
    with pytest.raises(DynidentError, match="sensitivity to b"):
        judge(("a", "b"), [1, 1], [np.sin(T), np.full_like(T, np.nan)])


def test_no_unknowns_is_normal():
    found = identifiability((), np.zeros(0), np.zeros(0), np.zeros((5, 0)))
    assert found.complete and found.rank == 0


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e12])
def test_product_of_numbers_of_different_sizes_is_no_single_number(ratio):
    a, b = 2 / np.sqrt(ratio), 3 * np.sqrt(ratio)
    found = judge(("a", "b"), [a, b], [np.sin(T) * b, np.sin(T) * a])
    assert found.combinations == ("only a*b is determined",)
