"""The ready models: each has units, typical values and an example record, from which the default finds its values."""

import casadi
import numpy as np
import pytest
import scipy.integrate

import dynident as di
from dynident.demo.example_records import example_problem
from dynident.models import library
from dynident.models.equations import EquationModel
from dynident.models.library import EXAMPLES, TYPICAL, example_record, example_values

LEAST = 20


def test_library_has_that_many_models_and_each_has_typical_values_and_an_example():
    made = {name for name in library.__all__ if callable(getattr(library, name)) and name in TYPICAL}
    assert len(made) >= LEAST and made == set(TYPICAL) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_model_has_units_typical_values_and_a_form_in_files(name):
    model, said = getattr(library, name)(), EXAMPLES[name]
    open_units = {"u", "gain"} if name == "servo_axis" else set()
    names = {*model.states, *model.inputs, *model.outputs, *model.parameters, *model.constants}
    assert names - {n for n, unit in model.units.items() if unit} == open_units
    assert set(TYPICAL[name]) == set(model.parameters) and model.name == name
    assert EquationModel.from_definition(model.definition()) == model
    assert (set(said.inputs), set(said.noise)) == (set(model.inputs), set(model.outputs))
    assert set(said.initial) == set(model.states) and set(said.fixed) <= set(model.parameters)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "dead_time_process"])
def test_example_record_is_the_solution_of_the_equations(name):
    """Beside scipy, with inputs that are held from sample to sample."""
    model, record, values = getattr(library, name)(), example_record(name), example_values(name)
    x, u = casadi.SX.sym("x", len(model.states)), casadi.SX.sym("u", len(model.inputs))
    p = [values[n] for n in model.parameters]
    rate = casadi.Function("rate", [x, u], [model.rate(0, x, u, p)])
    output = casadi.Function("output", [x, u], [model.output(0, x, u, p)])
    state = np.array([record.initial[n] for n in model.states], float)
    residuals = {n: [] for n in model.outputs}
    part = min(record.samples, 60)
    for k in range(part):
        held = np.array([record.inputs[n][k] for n in model.inputs])
        at = np.array(output(state, held)).ravel()
        for j, n in enumerate(model.outputs):
            residuals[n].append(record.outputs[n][k] - at[j])
        if k + 1 < part:
            found = scipy.integrate.solve_ivp(lambda t, y, held=held: np.array(rate(y, held)).ravel(), record.time[k:k + 2],
                                              state, method="LSODA", rtol=1e-9, atol=1e-12)
            state = found.y[:, -1]
    for n, std in EXAMPLES[name].noise.items():
        assert np.std(residuals[n]) == pytest.approx(std, rel=0.5) and abs(np.mean(residuals[n])) < 4 * std / np.sqrt(part)


@pytest.mark.parametrize("name", EXAMPLES)
def test_default_finds_the_values_behind_the_example(name):
    """From the typical values, within bounds of a factor of 20; errors of four standard errors have a chance of 6e-5 each."""
    estimate = di.identify(example_problem(name), progress=False)
    truth = example_values(name)
    assert estimate.converged and estimate.believed and str(estimate.verdict.grade) in "A?"
    for unknown in estimate.problem.names:
        low, high = estimate.uncertainty.interval(unknown)
        assert abs(estimate.values[unknown] - truth[unknown]) < 2 * (high - low) / 1.96
        assert high - low < 0.3 * abs(truth[unknown]), "the record tells the value"


def test_cart_and_pendulum_keep_their_energy_but_for_friction():
    model = library.cart_pendulum()
    M, m, l, b, d, g = 1.3, 0.4, 0.6, 2.0, 0.03, 9.81
    x, angle, v, rate, F = 0.2, 0.9, -0.7, 1.4, 2.5
    _, _, a, turn = np.array(model.rate(0, [x, angle, v, rate], F, [M, m, l, b, d])).ravel()
    s, c = np.sin(angle), np.cos(angle)
    energy_rate = (M + m) * v * a + m * l**2 * rate * turn + m * l * (a * rate * c + v * turn * c - v * rate**2 * s) + (
        m * g * l * s * rate)  # of (M + m) v^2/2 + m l^2 rate^2/2 + m l v rate cos - m g l cos
    assert list(model.states) == ["x", "angle", "v", "rate"]
    assert energy_rate == pytest.approx(F * v - b * v**2 - d * rate**2, rel=1e-12)


def test_an_example_of_no_model_is_refused():
    with pytest.raises(di.ProblemError, match=r"the library has no model 'tnak'. Did you mean 'tank'?"):
        example_record("tnak")
