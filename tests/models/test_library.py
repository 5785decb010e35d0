"""Do the library's models obey their documented equations?"""

from types import SimpleNamespace

import casadi
import numpy as np
import pytest

from dynident.errors import ProblemError
from dynident.models import library
from dynident.models.equations import EquationModel
from dynident.models.library import TYPICAL, belt_drive, coulomb, pendulum, servo_axis, stribeck, two_mass, viscous
from dynident.models.printer import expressions_to_text

MODELS = {
    "mass_spring_damper": library.mass_spring_damper(), "two_mass": two_mass(), "servo_axis": servo_axis(),
    "pendulum": pendulum(), "belt_drive": belt_drive(), "driven pendulum": pendulum(torque=True),
    "two_link_robot": library.two_link_robot(),
    "stribeck axis": servo_axis(viscous() + stribeck()), "arctan axis": servo_axis(coulomb(smoothing="arctan"))}
VALUES = SimpleNamespace(Fv=90.0, Fc=12.0, Fs=20.0, vs=0.05, v_smooth=0.01)


def symbols_of(model):
    groups = {"t": ["t"], "x": model.states, "u": model.inputs, "p": model.parameters}
    scalars = {key: [casadi.SX.sym(name) for name in names] for key, names in groups.items()}
    columns = [casadi.vertcat(*group) if group else casadi.SX(0, 1) for group in scalars.values()]
    return [symbol for group in scalars.values() for symbol in group], columns


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_survives_text_symbols_text(model):
    scalars, columns = symbols_of(model)
    rates, measured = model.rate(*columns), model.output(*columns)
    written = {f"rate_{name}": rates[k] for k, name in enumerate(model.states)}
    written |= {f"out_{name}": measured[k] for k, name in enumerate(model.outputs)}
    texts, definitions = expressions_to_text(written, scalars)
    again = EquationModel(
        states={name: texts[f"rate_{name}"] for name in model.states}, definitions=definitions,
        outputs={f"out_{name}": texts[f"out_{name}"] for name in model.outputs}, inputs=model.inputs,
        parameters=model.parameters)
    rng = np.random.default_rng(5)
    for _ in range(20):
        point = [rng.uniform(0.1, 2, column.numel()) for column in columns]
        np.testing.assert_array_equal(np.array(again.rate(*point)), np.array(model.rate(*point)))
        np.testing.assert_array_equal(np.array(again.output(*point)), np.array(model.output(*point)))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_comes_back_from_its_definition(model):
    assert EquationModel.from_definition(model.definition()) == model


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_machine_is_in_the_form_of_positions_and_velocities(model):
    positions, velocities = model.position_velocity()
    assert sorted(positions + velocities) == list(range(len(model.states)))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_name_has_a_unit(model):
    """But the drive signal of an axis and its gain: volts, amperes and counts are all in use."""
    left_open = {"u", "gain"} if model.name == "servo_axis" else set()
    for name in (*model.states, *model.inputs, *model.outputs, *model.parameters, *model.constants):
        assert bool(model.units.get(name)) != (name in left_open), name


@pytest.mark.parametrize("name", TYPICAL)
def test_typical_values_are_those_of_the_default_machine(name):
    assert set(TYPICAL[name]) == set(getattr(library, name)().parameters)


def test_belt_drive_obeys_the_matrix_form_of_its_paper():
    model = belt_drive()
    values = TYPICAL["belt_drive"]
    r1, z0, k = 0.0159, 0.13, 50.0
    rng = np.random.default_rng(7)
    for _ in range(20):
        phi, z, omega, v = rng.uniform([0, 0, -20, -0.3], [20, 0.5, 20, 0.3])
        tau = rng.uniform(-5, 5)
        # M q'' + D q' + C(q) q + H(q') = F, eqs. (23) to (28); the model is written in the form of (29) and (30)
        c = values["c_spec"] * (1 + 1 / (z0 + z))
        mass = np.diag([values["inertia"], values["m"]])
        damping = np.array([[values["d"] * r1**2, -values["d"] * r1],
                            [-values["d"] * r1, values["d"] + values["mu_v"]]])
        stiffness = c * np.array([[r1**2, -r1], [-r1, 1]])
        friction = np.array([0, values["mu_c"] * np.tanh(k * v)])
        force = np.array([tau, 0]) - damping @ [omega, v] - stiffness @ [phi, z] - friction
        expected = [omega, v, *np.linalg.solve(mass, force)]
        rates = model.rate(0, [phi, z, omega, v], tau, [values[name] for name in model.parameters])
        np.testing.assert_allclose(np.array(rates).ravel(), expected, rtol=1e-9)
        assert np.array(model.output(0, [phi, z, omega, v], tau, [1] * 6)).ravel().tolist() == [phi, omega]


def test_servo_axis_is_by_default_viscous_and_dry_friction_on_one_mass():
    model = servo_axis(gain=30.0, v_smooth=0.02)
    assert (model.states, model.inputs, model.outputs) == (("q", "v"), ("u",), ("position",))
    assert model.parameters == ("M", "Fv", "Fc", "offset")
    assert dict(model.constants) == {"gain": 30.0, "v_smooth": 0.02}
    v, u, M, Fv, Fc, offset = 0.013, 0.7, 55.0, 120.0, 14.0, -2.0
    expected = (30.0 * u - Fv * v - Fc * np.tanh(v / 0.02) - offset) / M
    assert float(model.rate(0, [1, v], u, [M, Fv, Fc, offset])[1]) == pytest.approx(expected, rel=1e-13)


def test_the_pendulum_keeps_its_energy_rate():
    angle, rate, p, d = 0.8, -1.1, 9.0, 0.3
    slope = np.array(pendulum().rate(0, [angle, rate], [], [p, d])).ravel()
    energy_rate = rate * slope[1] + p * np.sin(angle) * slope[0]  # of rate^2/2 - p cos(angle)
    assert energy_rate == pytest.approx(-d * rate**2, rel=1e-13)


def test_two_masses_keep_their_momentum_without_a_force():
    m1, m2, k, b = 1.5, 4.0, 1000.0, 10.0
    slope = np.array(two_mass().rate(0, [0.1, -0.2, 0.5, 0.9], 0, [m1, m2, k, b])).ravel()
    assert m1 * slope[2] + m2 * slope[3] == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize(("law", "formula"), [
    (viscous(), lambda v: 90 * v),
    (coulomb(), lambda v: 12 * np.tanh(v / 0.01)),
    (coulomb(smoothing="arctan"), lambda v: 12 * 2 / np.pi * np.arctan(v / 0.01)),
    (stribeck(), lambda v: (12 + 8 * np.exp(-((v / 0.05) ** 2))) * np.tanh(v / 0.01)),
    (viscous() + coulomb(), lambda v: 90 * v + 12 * np.tanh(v / 0.01))])
def test_a_law_is_its_formula_for_numbers_arrays_and_symbols(law, formula):
    velocities = np.array([-0.3, -0.004, 0.0, 0.02, 1.0])
    np.testing.assert_allclose(law(velocities, VALUES), formula(velocities), rtol=1e-13)
    assert law(0.02, vars(VALUES)) == pytest.approx(formula(0.02), rel=1e-13)
    v = casadi.SX.sym("v")
    assert float(casadi.Function("f", [v], [law(v, VALUES)])(0.02)) == pytest.approx(formula(0.02), rel=1e-13)


def test_a_law_in_a_rate_function_equals_the_law_as_text():
    law = viscous() + stribeck()

    def rate(t, x, u, p):
        return {"q": x.v, "v": (p.gain * u.u - law(x.v, p) - p.offset) / p.M}

    by_text = servo_axis(law)
    by_function = EquationModel(states=["q", "v"], rate=rate, inputs=["u"], parameters=by_text.parameters,
                                constants=by_text.constants)
    point = [0, [0.1, 0.03], 0.6, [50, 90, 12, 20, 0.05, 1]]
    np.testing.assert_allclose(np.array(by_function.rate(*point)), np.array(by_text.rate(*point)), rtol=1e-13)


def test_the_velocity_of_a_law_may_be_an_expression():
    assert viscous().text("v1 - v2") == "Fv*(v1 - v2)"


def test_laws_that_disagree_about_a_constant_do_not_add():
    with pytest.raises(ProblemError, match="disagree about 'v_smooth'"):
        coulomb(0.01) + stribeck(0.02)


def test_wrong_options_of_a_law_are_named():
    with pytest.raises(ProblemError, match="Did you mean 'tanh'"):
        coulomb(smoothing="tan")
    with pytest.raises(ProblemError, match="v_smooth = 0 must be positive"):
        coulomb(v_smooth=0)
    with pytest.raises(ProblemError, match="v_smooth is part of the friction law"):
        servo_axis(coulomb(), v_smooth=0.01)
