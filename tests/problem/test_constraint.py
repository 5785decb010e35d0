"""Constraints as text."""

import numpy as np
import pytest

import dynident as di
from dynident.problem.constraint import constraint_from
from problems import MACHINES


@pytest.mark.parametrize(("text", "middle", "lower", "upper"), [
    ("m1 + m2 == 29", "m1 + m2", 29, 29), ("Jx <= Jy + Jz", "(Jx) - (Jy + Jz)", -np.inf, 0),
    ("3 >= k", "k", -np.inf, 3), ("k > 2e-3", "k", 2e-3, np.inf), ("-1 <= v <= 1.5", "v", -1, 1.5)])
def test_text_becomes_a_range(text, middle, lower, upper):
    c = constraint_from(text)
    assert (c.middle, c.lower, c.upper) == (middle, lower, upper)


@pytest.mark.parametrize("text", ["m + d", "m = 3", "m == ", "a < b < c", "3 <= m <= 1", "m +* d == 3", ""])
def test_what_is_no_constraint_is_refused_with_the_text(text):
    machine = MACHINES["mass_spring_damper"]
    with pytest.raises(di.ProblemError, match="constraint"):
        machine.problem().replace(constraints=[text])


def test_unknown_names_and_functions_of_states_are_faults_listed_together():
    machine = MACHINES["mass_spring_damper"]
    with pytest.raises(di.ProblemError) as wrong:
        machine.problem().replace(constraints=["mm + d == 3", "x + v <= 1"])
    assert len(wrong.value.faults) == 2
    assert "Did you mean 'm'" in wrong.value.faults[0]
    assert "only a bound" in wrong.value.faults[1]
