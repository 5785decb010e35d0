"""Is a right-hand side that was written with NumPy traced exactly, or refused with its line?"""

import casadi
import numpy as np
import numpy_functions
import pytest

import dynident as di

STATES, PARAMETERS = ["a", "b", "c"], ["p0", "p1", "p2"]


def traced(function, **more):
    return di.EquationModel(**{"states": STATES, "rate": function, "inputs": ["u"], "parameters": PARAMETERS, **more})


@pytest.mark.parametrize("name", numpy_functions.cases)
def test_a_function_is_traced_exactly(name):
    function, rng = numpy_functions.cases[name], np.random.default_rng(5)
    model = traced(function)
    for _ in range(20):
        t, x, u, p = float(rng.uniform(-1, 2)), 1.5 * rng.normal(size=3), rng.normal(size=1), rng.normal(size=3)
        with np.errstate(all="ignore"):
            expected = np.array(function(t, x.copy(), u.copy(), p.copy()), dtype=float).ravel()
        finite = np.isfinite(expected)
        found = np.asarray(model.rate(t, x, u, p)).ravel()
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-11, atol=1e-12)
    assert di.EquationModel.from_definition(model.definition()) == model  # and it is plain text now


@pytest.mark.parametrize("name", numpy_functions.refused)
def test_what_cannot_be_traced_is_refused_with_its_line_and_the_way_out(name):
    with pytest.raises(di.ProblemError, match=r"line \d+ of numpy_functions.py.*SimulatorModel"):
        traced(numpy_functions.refused[name])


def test_entries_are_read_by_number_and_by_name():
    def rate(t, x, u, p):
        return [x[1], -p["k"] * x.a + u["u"] - p.d * x["b"] + u[0], 0.0 * x[2]]

    model = traced(rate, parameters=None)
    assert model.parameters == ("k", "d")
    assert np.asarray(model.rate(0, [1, 2, 3], [4], [5, 6])).ravel() == pytest.approx([2, -5 + 8 - 12, 0])


def test_parameters_that_are_read_by_number_need_no_names():
    assert traced(lambda t, x, u, p: [p[1] * x[0], p[0] * x[1], x[2]], parameters=None).parameters == ("p0", "p1")
    with pytest.raises(di.ProblemError, match="only if every parameter is declared"):
        traced(lambda t, x, u, p: p * x, parameters=None)


def test_a_state_may_have_the_name_of_something_that_arrays_have():
    model = di.EquationModel(states=["T", "size"], rate=lambda t, x, u, p: [-p.k * x.T, x.size * x[0]])
    assert np.asarray(model.rate(0, [2, 3], [], [4])).ravel() == pytest.approx([-8, 6])


def test_constants_stand_behind_the_parameters():
    model = traced(lambda t, x, u, p: [p.g * x[0], p[0], p[3]], constants={"g": 9.81}, parameters=PARAMETERS)
    assert np.asarray(model.rate(0, [2, 3, 4], [0], [7, 8, 9])).ravel() == pytest.approx([19.62, 7, 9.81])


def test_an_output_function_is_traced_as_well():
    model = di.EquationModel(states=["q", "v"], rate=lambda t, x, u, p: np.array([x[1], -p.k * x[0]]),
                             output=lambda t, x, u, p: {"r": np.hypot(*x), "far": np.where(x[0] > 1, x[0], 1.0)})
    assert np.asarray(model.output(0, [3, 4], [], [1])).ravel() == pytest.approx([5, 3])


def test_functions_of_casadi_are_still_taken():
    model = di.EquationModel(states=["q"], rate=lambda t, x, u, p: casadi.vertcat(-p.k * casadi.fmax(x.q, 0)))
    assert float(model.rate(0, 2, [], 3)) == -6


def test_branches_that_return_different_things_are_refused():
    with pytest.raises(di.ProblemError, match="its branches return different things"):
        di.EquationModel(states=["q"], rate=lambda t, x, u, p: {"q": x.q} if x.q > 0 else [x.q])


def test_too_many_answers_are_refused():
    def rate(t, x, u, p):
        return [sum(1.0 if x.q > k else 0.0 for k in range(10))]

    with pytest.raises(di.ProblemError, match="more than 512 combinations of answers"):
        di.EquationModel(states=["q"], rate=rate)


def test_three_saturations_are_joined():
    def clamp(v):
        if v > 1:
            return 1.0
        elif v < -1:
            return -1.0
        return v

    model = traced(lambda t, x, u, p: [clamp(p[0] * x[0]), clamp(x[1]), clamp(x[2])])
    assert np.asarray(model.rate(0, [3, -5, 0.5], [0], [1, 1, 1])).ravel() == pytest.approx([1, -1, 0.5])


def test_a_traced_pendulum_is_fitted():
    def rhs(t, x, u, p):
        q, w = x
        return np.array([w, -p[0] * np.sin(q) - p[1] * np.sign(w) * w**2 + u[0]])

    model = di.EquationModel(states=["q", "w"], rate=rhs, inputs=["u"], parameters=["k", "d"])
    t = np.arange(0, 8, 0.02)
    still = {"inputs": {"u": np.sin(t)}, "hold": "linear", "initial": {"q": 0.5, "w": 0.0}}
    clean = di.simulate(model, {"k": 9.0, "d": 0.2}, di.Experiment(t, **still)).states["q"]
    e = di.Experiment(t, **still, outputs={"q": clean + 0.005 * np.random.default_rng(0).normal(size=t.size)},
                      noise={"q": di.Gaussian(0.005)})
    estimate = di.identify(di.Problem(model, [e], [di.Parameter("k", 5), di.Parameter("d", 0)]), progress=False)
    for name, value in {"k": 9.0, "d": 0.2}.items():
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < value < high


def test_a_function_that_differentiates_symbols_is_taken_as_casadi_says():
    def rate(t, x, u, p):
        energy = p.k * x.q**4
        return {"q": -casadi.jacobian(energy, x.q)}

    assert float(di.EquationModel(states=["q"], rate=rate).rate(0, 2, [], 3)) == -4 * 3 * 8
