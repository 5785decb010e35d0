"""The loop around the solver: what it says about itself."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import dynident as di
from dynident.statistics.diagnostic import DiagnosticCode
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


def runaway(start: float) -> di.Problem:
    """A start at which the model explodes between two samples."""
    time = np.linspace(0, 10, 201)
    model = di.EquationModel(states={"x": "-a*x + u"}, outputs={"y": "x"}, inputs=["u"])
    record = di.Experiment(time, {"u": np.sin(time)}, name="slow")
    y = di.simulate(model, {"a": 2.0, "x(0)": 0.0}, record).outputs["y"]
    measured = dataclasses.replace(record, outputs={"y": y}, noise={"y": di.Gaussian(0.01)})
    return di.Problem(model, [measured], [di.Parameter("a", start=start), di.InitialState("x", start=0.0)])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", [di.multiple_shooting(), di.single_shooting()], ids=["multiple", "single"])
def test_a_start_that_blows_up_is_refused_by_its_own_values(method):
    with pytest.raises(di.ProblemError, match=r"At the start values .* \(a = -100, x\(0\) = 0\)"):
        di.identify(runaway(-100), method, progress=False)


@pytest.mark.filterwarnings("error")
def test_check_of_a_start_that_blows_up_says_so_in_words():
    for start in (-100, -50):  # the default begins from the measurements and arrives: a warning, not an error
        told = {finding.code: finding for finding in di.check(runaway(start)).findings}
        assert told[DiagnosticCode.START_DIVERGES].severity == "warning"
    far = next(f for f in di.check(runaway(-50)).findings if f.code is DiagnosticCode.FAR_START)
    assert np.isfinite(far.numbers["rms"]) and "inf" not in far.sentence
