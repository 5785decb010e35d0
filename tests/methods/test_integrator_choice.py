"""Is a stiff problem seen, and a fit stopped whose integrator left the solution of the model?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.methods.integrator_choice import choose_integrator
from dynident.methods.linearize_at import linearize_at
from dynident.status import StatusCode

ROBERTSON = di.EquationModel(states={"a": "-k1*a + k3*b*c", "b": "k1*a - k3*b*c - k2*b**2", "c": "k2*b**2"},
                             parameters=["k1", "k2", "k3"])
BINDING = di.EquationModel(states={"A": "-k1*A - k3*A*B", "B": "-k3*A*B", "C": "k3*A*B - k2*C"}, parameters=["k2"],
                           constants={"k1": 1e-2, "k3": 1e4})  # A + B -> C at once, where some A is left over
OSCILLATOR = di.EquationModel(states={"x": "v", "v": "-k*x - d*v"}, outputs={"x": "x"}, parameters=["k", "d"])


def problem_of(model: di.EquationModel, truth: dict[str, float], t: np.ndarray, initial: dict[str, float],
               std: dict[str, float], start: dict[str, float]) -> di.Problem:
    quiet = di.simulate(model, truth, di.Experiment(t, initial=initial), integrator="radau5")
    rng = np.random.default_rng(7)
    measured = {name: quiet.outputs[name] + size * rng.normal(size=t.size) for name, size in std.items()}
    run = di.Experiment(t, outputs=measured, initial=initial, noise={name: di.Gaussian(size) for name, size in std.items()})
    return di.Problem(model, [run], [di.Parameter(name, start=value, lower=value / 1e3) for name, value in start.items()])


def binding() -> di.Problem:
    return problem_of(BINDING, {"k2": 1.0}, np.linspace(0, 10, 51), {"A": 1.0, "B": 0.8, "C": 0.0}, {"C": 0.01}, {"k2": 0.8})


def oscillator(samples: int, start: dict[str, float]) -> di.Problem:
    return problem_of(OSCILLATOR, {"k": 4.0, "d": 0.2}, np.linspace(0, 10, samples), {"x": 1.0, "v": 0.0}, {"x": 0.01}, start)


IMPLICIT = {"single_shooting": "radau5", "multiple_shooting": "radau5", "full_discretization": "radau"}


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization()],
                         ids=lambda m: m.kind)
def test_a_stiff_model_is_fitted_by_an_implicit_integrator_and_one_line_says_so(method):
    truth = {"k1": 0.04, "k2": 3e7, "k3": 1e4}
    problem = problem_of(ROBERTSON, truth, np.concatenate([[0], np.logspace(-3, 4, 40)]), {"a": 1.0, "b": 0.0, "c": 0.0},
                         {"a": 1e-3, "b": 1e-7, "c": 1e-3}, {"k1": 0.06, "k2": 2e7, "k3": 1.3e4})
    found = di.identify(problem, method)
    assert found.converged and found.method.integrator == IMPLICIT[method.kind]
    assert sum("stiff" in note for note in found.notes) == 1
    for name, value in truth.items():
        assert found.values[name] == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("method", [di.single_shooting(), di.full_discretization()], ids=lambda m: m.kind)
@pytest.mark.parametrize("samples", [201, 12])  # a dozen samples take many sub-steps, for accuracy and not for stability
def test_a_model_that_is_not_stiff_is_fitted_by_the_usual_scheme_without_a_word(samples, method):
    found = di.identify(oscillator(samples, {"k": 3.8, "d": 0.25}), method)
    assert found.converged and found.method.integrator == method.usual_integrator
    assert not any("stiff" in note or "integrator" in note for note in found.notes)


@pytest.mark.parametrize("method", [di.single_shooting(), di.full_discretization()], ids=lambda m: m.kind)
def test_stiffness_that_only_the_solution_has_is_seen_there(method):
    model = di.EquationModel(states={"x": "-k*(x - sin(t))"}, parameters=["k"])
    t = np.linspace(0, 10, 41)
    problem = problem_of(model, {"k": 400.0}, t, {"x": 0.0}, {"x": 1e-5}, {"k": 4.0})
    found = di.identify(problem, method)
    assert found.converged and found.values["k"] == pytest.approx(400, rel=2e-2)
    assert found.method.integrator == IMPLICIT[method.kind] and any("stiff at the solution" in note for note in found.notes)


def test_sub_steps_that_are_given_are_those_of_runge_kutta():
    found = di.identify(oscillator(201, {"k": 3.8, "d": 0.25}), di.single_shooting(substeps=2))
    assert found.method.integrator == "runge_kutta" and found.counts["substeps"] == 2


@pytest.mark.parametrize("method", [di.single_shooting(integrator="radau", substeps=1),
                                    di.multiple_shooting(integrator="radau", substeps=2),
                                    di.full_discretization(integrator="radau", substeps=1)],
                         ids=["one step", "two steps", "full discretization"])
def test_an_implicit_step_on_a_false_branch_stops_the_word_converged(method):
    """Newton's method lands where A = 0 and B = -0.2, which is a root of the step's equations and no motion of the model."""
    with pytest.raises(di.NotConverged) as bad:
        di.identify(binding(), method)
    assert bad.value.estimate.status.code == StatusCode.INTEGRATOR_WRONG
    assert "radau5" in bad.value.estimate.status


def test_the_default_finds_what_a_false_branch_hides():
    found = di.identify(binding(), di.multiple_shooting())
    assert found.converged and found.method.integrator == "radau5"
    assert found.values["k2"] == pytest.approx(1.0, rel=0.02)


def test_crude_steps_that_the_test_of_the_steps_has_seen_stay_a_note():
    found = di.identify(oscillator(21, {"k": 3.8, "d": 0.25}), di.single_shooting(integrator="heun", substeps=1))
    assert found.converged and any("integrator's error" in note for note in found.notes)


def test_a_stiff_problem_is_linearized_where_runge_kutta_cannot_follow_it():
    truth = {"k1": 0.04, "k2": 3e7, "k3": 1e4}
    problem = problem_of(ROBERTSON, truth, np.concatenate([[0], np.logspace(-3, 4, 40)]), {"a": 1.0, "b": 0.0, "c": 0.0},
                         {"a": 1e-3, "b": 1e-7, "c": 1e-3}, truth)
    found = linearize_at(problem, None, {})
    assert np.sqrt(np.mean(found.residuals**2)) < 1.3  # the noise alone


def test_many_starts_keep_the_integrator_of_the_best():
    problem = oscillator(41, {"k": 3.8, "d": 0.25})
    points = [{"k": 3.8, "d": 0.25}, {"k": 4.2, "d": 0.15}]
    found = di.identify(problem, di.multistart(di.single_shooting(), points=points))
    assert found.method.simulation_integrator == "runge_kutta" and found.method.method.integrator == "runge_kutta"


def test_a_flank_that_no_step_of_full_discretization_follows_is_said_with_the_way_out():
    model = di.EquationModel(states={"x": "v", "v": "mu*(1 - x*x)*v - x"}, parameters=["mu"])
    time, begin = np.linspace(0, 200, 101), {"x": 2.0, "v": 0.0}
    exact = di.simulate(model, {"mu": 100.0}, di.Experiment(time, initial=begin), integrator="radau5")
    run = di.Experiment(time, outputs=dict(exact.states), initial=begin, noise={"x": di.Gaussian(2e-3), "v": di.Gaussian(1e-4)})
    problem = di.Problem(model, [run], [di.Parameter("mu", 110.0, 10, 1000)])
    chosen = choose_integrator(di.full_discretization(), problem, {})
    assert "integrated by radau. It moves faster than 64 steps between samples follow" in chosen.note
    with pytest.raises(di.DynidentError) as ended:
        di.identify(problem, di.full_discretization(), progress=False)
    said = " ".join([str(ended.value), *(ended.value.estimate.notes if isinstance(ended.value, di.NotConverged) else [])])
    assert "use multiple_shooting()" in said
    found = di.identify(problem, di.multiple_shooting(segments=10), progress=False)
    assert found.converged and found.values["mu"] == pytest.approx(100.0, rel=1e-3)
    assert not any("between samples follow" in note for note in found.notes)
