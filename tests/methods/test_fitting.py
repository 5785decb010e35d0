"""The loop around the solver: what it says about itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dynident as di
from problems import MACHINES


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization()])
@pytest.mark.parametrize("noise_known", [True, False])
def test_status_counts_all_iterations_of_all_rounds(method, noise_known):
    estimate = di.identify(MACHINES["two_mass"].problem(noise_known=noise_known), method)
    assert f"after {estimate.counts['iterations']} iterations" in estimate.status
    assert len(estimate.history) >= estimate.counts["iterations"]


def test_problem_method_and_estimate_cross_a_process_boundary():
    problem, method = MACHINES["mass_spring_damper"].problem(), di.multiple_shooting(segments=5)
    estimate = di.identify(*pickle.loads(pickle.dumps((problem, method))))
    again = pickle.loads(pickle.dumps(estimate))
    assert again.values == di.identify(problem, method).values
    assert again.problem.content_hash() == problem.content_hash()


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.boundary_value()])
def test_notes_keep_the_spelling_of_names(method):
    """`a` and `phi` have no effect; `A` is another parameter."""
    time = np.linspace(0, 3, 61)
    y = np.exp(-time) + 0.01 * np.random.default_rng(0).standard_normal(61)
    model = di.EquationModel(states={"x": "-A*x", "phi": "a - phi"}, outputs={"y": "x"})
    run = di.Experiment(time, {}, {"y": y}, {"y": di.Gaussian(0.01)})
    problem = di.Problem(model, [run], [di.Parameter("A", 2.0, 0.1, 9), di.Parameter("a", 1.0, 0.1, 9),
                                        di.InitialState("phi", 1.0, 0.1, 9), di.InitialState("x", 1.0, 0.1, 9)])
    notes = method.identify(problem, None, lambda _: None).notes
    assert "Nothing measured depends on a." in notes and "Nothing measured depends on phi(0)." in notes
    assert not any(note.startswith(("A ", "Phi")) for note in notes)
