"""Algebraic variables: in which forms are they taken, and what is said of those that are not determined?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di

OSCILLATOR = {"states": {"q": "v", "v": "a"}, "algebraic": {"a": "m*a + c*v + k*q - u"}, "inputs": ["u"],
              "outputs": {"position": "q", "acceleration": "a"}}


def diode(**changes) -> di.EquationModel:
    """A capacitor that empties through a diode and a resistor in series; i is the current."""
    return di.EquationModel(**{"states": {"q": "-i"}, "algebraic": {"i": "R*i + n*log(1 + i/s) - q/C"},
                               "outputs": ["q", "i"], "parameters": ["R", "n", "s", "C"], **changes})


def test_a_variable_that_enters_linearly_is_eliminated():
    model = di.EquationModel(**OSCILLATOR)
    assert model.algebraic == ("a",) and model.algebraic_system.affine and model.algebraic_system.symmetric
    m, c, k = (model.parameters.index(name) for name in "mck")
    p = np.zeros(3)
    p[[m, c, k]] = 2.0, 0.5, 3.0
    assert np.allclose(np.asarray(model.rate(0, [1.0, -1.0], [4.0], p)).ravel(), [-1.0, (4.0 + 0.5 - 3.0) / 2])
    assert np.allclose(np.asarray(model.output(0, [1.0, -1.0], [4.0], p)).ravel(), [1.0, 0.75])


def test_a_variable_that_enters_nonlinearly_is_found_to_rounding():
    model = diode()
    i = float(model.output(0, [2.0], [], [1.0, 0.3, 1e-3, 0.5])[1])
    assert not model.algebraic_system.affine
    assert abs(i + 0.3 * np.log1p(i / 1e-3) - 4.0) < 1e-14


def test_text_and_function_give_the_same_equations():
    def rate(t, x, u, p):
        return {"q": x.v, "v": x.a, "a": p.m * x.a + p.c * x.v + p.k * x.q - u.u}

    def output(t, x, u, p):
        return {"position": x.q, "acceleration": x.a}

    traced = di.EquationModel(states=["q", "v"], algebraic=["a"], inputs=["u"], rate=rate, output=output)
    text = di.EquationModel(**OSCILLATOR, parameters=list(traced.parameters))
    place = (0.3, [1.0, -1.0], [4.0], [2.0, 0.5, 3.0])
    assert np.array_equal(np.asarray(traced.rate(*place)), np.asarray(text.rate(*place)))


def test_a_model_is_built_again_from_its_definition():
    model = diode(guesses={"i": "q/(C*R)"})
    again = di.EquationModel.from_definition(model.definition())
    assert again == model and again.definition()["guesses"] == {"i": "q/(C*R)"}


def test_the_definition_of_a_model_without_algebraic_variables_says_nothing_of_them():
    assert not {"algebraic", "guesses"} & set(di.EquationModel(states={"x": "-k*x"}).definition())


def test_a_guess_chooses_between_solutions():
    def found(guess: float) -> float:
        model = di.EquationModel(states={"x": "-x"}, algebraic={"z": "z**2 - x"}, outputs=["z"], guesses={"z": guess})
        return float(model.output(0, [4.0], [], []))

    assert found(1.0) == pytest.approx(2.0) and found(-1.0) == pytest.approx(-2.0)


def test_without_a_guess_newton_begins_at_zero_and_then_at_one():
    model = di.EquationModel(states={"x": "-x"}, algebraic={"z": "log(z) - x"}, outputs=["z"])  # no logarithm at zero
    assert float(model.output(0, [0.5], [], [])) == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize("algebraic, named", [
    ({"force": "x**2 + y**2 - L**2"}, "'force'"),  # a pendulum in its plane: index 3
    ({"a": "a + b - x", "b": "2*a + 2*b - y"}, "'a', 'b'"),
    ({"a": "x*a - y", "b": "x - 1"}, "'b'")])
def test_index_above_one_is_refused_with_the_variable_and_the_way_out(algebraic, named):
    uses = " + ".join(algebraic)
    with pytest.raises(di.ProblemError) as refused:
        di.EquationModel(states={"x": uses, "y": "x + t"}, algebraic=algebraic)
    assert named in str(refused.value) and "index above 1" in str(refused.value) and "Differentiate" in str(refused.value)


def test_units_of_variables_do_not_make_a_system_singular():
    model = di.EquationModel(states={"x": "a"}, algebraic={"a": "1e-9*a + 1e3*b - x", "b": "1e6*b - 2*x"})
    assert model.algebraic_system.affine


@pytest.mark.parametrize("changes, said", [
    ({"guesses": {"b": 1.0}}, "'b', which is not an algebraic variable"),
    ({"guesses": {"a": "2*a"}}, "'a' is not declared"),
    ({"algebraic": ["a"]}, "list of names, but there are no equations"),
    ({"algebraic": {"a": "m*a + c*v + k*q - u", "q": "q"}}, "declared as state and as algebraic variable"),
    ({"modes": {"one": di.Mode({"q": "v"})}, "states": ["q", "v"]}, "modes or algebraic variables, not both")])
def test_faults_are_said(changes, said):
    with pytest.raises(di.ProblemError, match=said.replace("(", r"\(")):
        di.EquationModel(**{**OSCILLATOR, **changes})


def test_what_a_rate_function_leaves_out_is_named():
    with pytest.raises(di.ProblemError, match="no rate for the state 'z'"):
        di.EquationModel(states=["x"], algebraic=["z"], rate=lambda t, x, u, p: {"x": -x.z})


def test_positions_and_velocities_are_found_through_algebraic_accelerations():
    assert di.EquationModel(**OSCILLATOR).position_velocity() == ((0,), (1,))


def test_str_says_which_equation_gives_which_variable():
    assert "0 = R*i + n*log(1 + i/s) - q/C gives i" in str(diode())
