"""Are look-up tables in equations those of numpy, smooth where asked for, and can their values be found?"""

import casadi
import numpy as np
import pytest

import dynident as di
from dynident import maths
from dynident.errors import ProblemError
from dynident.models.parser import parse_expression

KNOTS, VALUES = [-1.0, 0.0, 0.5, 2.0], [3.0, -1.0, 4.0, 4.5]
X = np.concatenate([np.linspace(-2, 3, 301), KNOTS])


def evaluated(text, names=("x",), more=()):
    symbols = {name: casadi.SX.sym(name) for name in names}
    f = casadi.Function("f", list(symbols.values()), [parse_expression(text, symbols)])
    return np.array([float(f(x, *more)) for x in X])


def test_linear_tables_are_those_of_numpy():
    found = evaluated("interp(x, [-1, 0, 0.5, 2], [3, -1, 4, 4.5])")
    np.testing.assert_allclose(found, np.interp(X, KNOTS, VALUES), rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(maths.interp(X, KNOTS, VALUES), np.interp(X, KNOTS, VALUES))


def test_smooth_tables_meet_their_values_and_parabolas_and_have_no_kink():
    found = evaluated("interp(x, [-1, 0, 0.5, 2], [3, -1, 4, 4.5], smooth)")
    np.testing.assert_allclose(found, maths.interp(X, KNOTS, VALUES, smooth=True), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(maths.interp(np.array(KNOTS), KNOTS, VALUES, smooth=True), VALUES, atol=1e-14)
    parabola = np.polynomial.Polynomial([1.0, -2.0, 0.7])
    inside = np.linspace(-1, 2, 100)
    np.testing.assert_allclose(maths.interp(inside, KNOTS, parabola(np.array(KNOTS)), True), parabola(inside), atol=1e-13)
    x = casadi.SX.sym("x")
    slope = casadi.Function("slope", [x], [casadi.jacobian(maths.interp(x, KNOTS, VALUES, True), x)])
    for knot in KNOTS:
        assert float(slope(knot - 1e-9)) == pytest.approx(float(slope(knot + 1e-9)), abs=1e-6)


def test_two_knots_make_a_straight_line():
    np.testing.assert_allclose(maths.interp(np.array([0.25, 3.0]), [0, 1], [1, 3], smooth=True), [1.5, 7.0])


@pytest.mark.parametrize("text, words", [
    ("interp(x, [0, 1], [1])", "2 knots and 1 values"), ("interp(x, [1, 0], [1, 2])", "must be finite and rise"),
    ("interp(x, [0, x], [1, 2])", "a knot of interp is a number"), ("interp(x, 0, 1)", "stand in square brackets"),
    ("interp(x, [0, 1])", "takes an argument, a list of knots"), ("interp(x, [0, 1], [1, 2], rough)", "takes an argument"),
    ("[x, 1]", "A list stands in interp"), ("x[0]", "Give each signal a name")])
def test_what_is_no_table_is_refused_at_its_place(text, words):
    with pytest.raises(ProblemError, match=words) as error:
        parse_expression(text, {"x": casadi.SX.sym("x")})
    assert "^" in str(error.value)


def test_a_battery_with_its_open_circuit_voltage_as_a_table_is_identified():
    """With nested where() an expert got there; now it can be said as it is."""
    soc, ocv = [0.0, 0.1, 0.3, 0.6, 0.9, 1.0], [3.0, 3.4, 3.6, 3.75, 4.0, 4.2]
    battery = di.EquationModel(
        states={"z": "-i/(3600*Q)", "v1": "i/C1 - v1/(R1*C1)"}, inputs=["i"],
        outputs={"v": f"interp(z, {soc}, {ocv}) - v1 - R0*i"})
    t = np.arange(0, 3600, 5.0)
    i = np.where((t // 300) % 2 == 0, 2.0, 0.3)
    truth = {"Q": 1.6, "R0": 0.02, "R1": 0.015, "C1": 2400.0, "z(0)": 0.95, "v1(0)": 0.0}
    clean = di.simulate(battery, truth, di.Experiment(t, inputs={"i": i})).outputs["v"]
    e = di.Experiment(t, inputs={"i": i}, outputs={"v": clean + 1e-3 * np.random.default_rng(0).normal(size=t.size)},
                      noise={"v": di.Gaussian(1e-3)}, initial={"v1": 0})
    estimate = di.identify(di.Problem(battery, [e], [
        di.Parameter("Q", 2.5, lower=0.1), di.Parameter("R0", 0.05, lower=0), di.Parameter("R1", 0.05, lower=1e-4),
        di.Parameter("C1", 1000, lower=10), di.InitialState("z", 0.8, lower=0, upper=1)]), progress=False)
    for name in ("Q", "R0", "R1", "C1", "z(0)"):
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < truth[name] < high


@pytest.mark.parametrize("smooth", [False, True])
def test_a_friction_law_is_found_as_a_table(smooth):
    knots = [-2.0, -1.0, 0.0, 1.0, 2.0]
    model = di.EquationModel(states={"v": "(u - f(v))/m"}, inputs=["u"], constants={"m": 0.5},
                             tables={"f": {"knots": knots, "smooth": smooth}})
    assert model.parameters == ("f0", "f1", "f2", "f3", "f4")
    truth = dict(zip(model.parameters, [-1.2, -0.9, 0.1, 1.0, 1.5], strict=True))
    t = np.arange(0, 20, 0.02)
    u = 1.6 * np.sin(1.3 * t) + 0.8 * np.sin(0.31 * t)
    given = {"inputs": {"u": u}, "hold": "linear", "initial": {"v": 0}}
    clean = di.simulate(model, truth, di.Experiment(t, **given)).states["v"]
    e = di.Experiment(t, **given, outputs={"v": clean + 0.01 * np.random.default_rng(0).normal(size=t.size)},
                      noise={"v": di.Gaussian(0.01)})
    estimate = di.identify(di.Problem(model, [e], [di.Parameter(name, 0.0) for name in model.parameters]), progress=False)
    for name, value in truth.items():
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < value < high


def test_a_table_survives_definition_and_file(tmp_path):
    model = di.EquationModel(states={"x": "-f(x) + interp(x, [0, 1], [b, 2], smooth)"}, tables={"f": {"knots": [-1, 0, 1]}})
    assert di.EquationModel.from_definition(model.definition()) == model
    problem = di.Problem(model, [di.Experiment(np.arange(9.0), outputs={"x": np.arange(9.0)})],
                         [di.Parameter(name, 1) for name in model.parameters])
    di.write_problem(problem, None, tmp_path / "table.toml")
    assert di.read_problem(tmp_path / "table.toml").problem.model == model


@pytest.mark.parametrize("tables, words", [
    ({"f": [1, 2]}, "write tables="), ({"f": {"knots": [1]}}, "two or more finite numbers"), ({"f": {"knots": [2, 1]}}, "rise"),
    ({"sin": {"knots": [0, 1]}}, "is a function or number"), ({"f": {"knots": [0, 1], "smooth": 1}}, "True or False"),
    ({"g": {"knots": [0, 1]}}, "table 'g' is used in no equation")])
def test_tables_that_cannot_be_are_refused(tables, words):
    with pytest.raises(ProblemError, match=words):
        di.EquationModel(states={"x": "-k*x"}, tables=tables)
