"""Options of the root finders of `boundary_value`: they arrive, faults are sentences, tolerances cost iterations."""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.boundary.smoothing.finders import finder, finder_fields
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.papers.flexible_rotor import one_mass


def test_options_reach_the_root_finder():
    found = finder("davidenko", 77, {"absolute": 0.01, "estimate": "kramer"})
    assert (found.absolute, found.estimate, found.max_iterations, found.first) == (0.01, "kramer", 77, 0.05)
    assert finder("musn", 5, {"tolerance": 1e-3}).tolerance == 1e-3
    assert {"absolute", "relative", "band", "caution", "inner_steps", "kept", "switch"} <= set(finder_fields("davidenko"))


def test_an_option_that_the_solver_does_not_have_is_refused_with_its_neighbour():
    with pytest.raises(di.ProblemError, match=r"names 'absolut'.*absolute"):
        di.boundary_value(solver="davidenko", solver_options={"absolut": 0.1})
    with pytest.raises(di.ProblemError, match="It is for davidenko, newton and musn"):
        di.boundary_value(solver_options={"absolute": 0.1})
    with pytest.raises(di.ProblemError, match="There is no estimate 'euler'"):
        Davidenko(estimate="euler")


def test_smaller_tolerances_cost_more_iterations_and_jacobians():
    study = one_mass()
    for number in "12":
        plain, fine = (study.fit(study.starts[number], "davidenko", solver_options=options, max_iterations=2000)
                       for options in ({}, {"absolute": 0.005, "relative": 0.005}))
        assert plain.converged and fine.converged
        assert fine.counts["iterations"] > 1.5 * plain.counts["iterations"]
        assert fine.counts["jacobians"] >= plain.counts["jacobians"]


def test_kramers_estimate_leads_to_the_same_root():
    study = one_mass()
    found = [study.fit(study.starts["1"], "davidenko", solver_options=options)
             for options in ({}, {"estimate": "kramer"})]
    assert all(e.converged for e in found)
    assert np.allclose([found[0].values[n] for n in study.truth], [found[1].values[n] for n in study.truth], rtol=1e-6)
