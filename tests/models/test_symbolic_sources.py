"""Do derivations with SymPy and functions of CasADi become the same model as their equations as text?"""

import casadi
import numpy as np
import pytest

import dynident as di

sympy = pytest.importorskip("sympy", reason="SymPy is not installed")
from sympy.physics import mechanics  # noqa: E402  # behind the question whether it is there
from sympy.physics.mechanics.models import n_link_pendulum_on_cart  # noqa: E402

Q, W, K, D, U = sympy.symbols("q w k d u")
SWING = {Q: W, W: -K * sympy.sin(Q) - D * W + U}
TEXT = di.EquationModel(states={"q": "w", "w": "-k*sin(q) - d*w + u"}, inputs=["u"], parameters=["k", "d"])


def same_rates(model, other, seed=0, positive=False):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        x, u = rng.normal(size=len(model.states)), rng.normal(size=len(model.inputs))
        values = {name: float(rng.uniform(0.5, 2)) for name in model.parameters}
        found = [np.asarray(m.rate(0.3, x, u, [values[n] for n in m.parameters])).ravel() for m in (model, other)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_expressions_stand_wherever_text_does():
    model = di.EquationModel(states=SWING, inputs=[U], outputs={"x": sympy.cos(Q), "y": "sin(q)"})
    same_rates(model, TEXT)
    assert model.outputs == ("x", "y")
    mixed = di.EquationModel(states={"q": "w", "w": "-f + u"}, definitions={"f": K * sympy.sin(Q) + D * W}, inputs=["u"])
    same_rates(mixed, TEXT)
    assert di.EquationModel.from_definition(model.definition()) == model  # plain text


def test_a_dict_of_first_order_equations_is_a_model():
    t = sympy.Symbol("t")
    q, w, u = (sympy.Function(name)(t) for name in ("q", "w", "u"))
    model = di.EquationModel.from_sympy({q: w, w: -K * sympy.sin(q) - D * w + u}, outputs={"y": sympy.sin(q)})
    assert (model.states, model.inputs, model.outputs) == (("q", "w"), ("u",), ("y",))
    same_rates(model, TEXT)


FUNCTIONS = [
    sympy.exp(-Q**2) + sympy.sqrt(Q**2 + 1) + sympy.Abs(W) ** K, sympy.Piecewise((Q, Q < 0), (Q**2, Q < 1), (W, True)),
    sympy.Max(Q, W, 0) - sympy.Min(Q, 1), sympy.atan2(W, Q) + sympy.tanh(Q / 3) + sympy.pi * sympy.E, sympy.log(Q**2 + 2, 10),
    sympy.Piecewise((1, sympy.And(Q > 0, sympy.Or(W > 0, Q > 1))), (sympy.Rational(1, 3), True)),
    Q / W**2 + 1 / sympy.sqrt(1 + Q**2),
    sympy.Heaviside(Q, 0.5) * sympy.sign(W), sympy.cot(Q) + sympy.sech(W) + sympy.asinh(K)]


@pytest.mark.parametrize("expression", FUNCTIONS, ids=str)
def test_functions_mean_what_sympy_means(expression):
    model = di.EquationModel(states={"q": 0, "w": 0}, outputs={"y": expression + 0 * K}, parameters=["k"], unused=["k"])
    rng = np.random.default_rng(2)
    for _ in range(10):
        q, w, k = rng.normal(), rng.normal(), rng.uniform(0.5, 2)
        expected = float(expression.subs({Q: q, W: w, K: k}).evalf())
        assert float(model.output(0, [q, w], [], [k])) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("expression, words", [
    (sympy.gamma(Q), "SymPy's gamma"), (sympy.I * Q, "only finite real ones"), (sympy.Symbol("2x") * Q, "not a possible name"),
    (sympy.Piecewise((Q, Q > 0)), "says nothing of the rest"), (sympy.Function("f")(Q).diff(Q), "is not among the states")])
def test_what_no_equation_can_hold_is_refused(expression, words):
    with pytest.raises(di.ProblemError, match=words):
        di.EquationModel(states={"q": expression})


def test_constraints_modes_and_transfer_functions_take_expressions():
    m1, m2 = sympy.symbols("m1 m2")
    model = di.EquationModel(states={"x": -(m1 + 2 * m2) * sympy.Symbol("x")})
    record = di.Experiment(np.arange(5.0), outputs={"x": np.exp(-np.arange(5.0))})
    problem = di.Problem(model, [record], [di.Parameter("m1", 1), di.Parameter("m2", 1)], [sympy.Eq(m1 + m2, 2), m1 <= m2])
    assert [c.text for c in problem.constraints] == ["m1 + m2 == 2", "m1 <= m2"]
    hybrid = di.EquationModel(states=["q"], modes={"up": di.Mode({"q": K * Q}), "down": di.Mode({"q": "-k*q"})},
                              transitions=[di.Transition("up", "down", "q > 1")])
    assert hybrid.parameters == ("k",)
    assert set(di.transfer_function([K], [m1 * m2, m1 + m2, 1]).parameters) == {"k", "m1", "m2"}


def pendulum_by_lagrange():
    q1, q2 = mechanics.dynamicsymbols("q1 q2")
    m, length, g = sympy.symbols("m l g")
    x1, y1 = length * sympy.sin(q1), -length * sympy.cos(q1)
    x2, y2 = x1 + length * sympy.sin(q2), y1 - length * sympy.cos(q2)
    t = mechanics.dynamicsymbols._t
    kinetic = m / 2 * sum(each.diff(t) ** 2 for each in (x1, y1, x2, y2))
    return mechanics.LagrangesMethod(kinetic - m * g * (y1 + y2), [q1, q2])


def test_conditions_of_modes_first_states_and_noise_take_expressions():
    v, e, a = sympy.symbols("v e a")
    texts = di.EquationModel(states=["q", "v"], modes={"fly": di.Mode({"q": "v", "v": "-k"}, invariant="q >= 0")}, transitions=[
        di.Transition("fly", "fly", when="q <= 0 and v <= 0", reset={"v": "-e*v"})])
    symbols = di.EquationModel(states=["q", "v"], modes={"fly": di.Mode({Q: v, v: -K}, invariant=Q >= 0)}, transitions=[
        di.Transition("fly", "fly", when=sympy.And(Q <= 0, sympy.Not(v > 0)), reset={v: -e * v})])
    run = di.Experiment(np.linspace(0, 1, 21))
    values = {"k": 9.81, "e": 0.8, "q(0)": 1.0, "v(0)": 0.0}
    assert di.simulate(symbols, values, run).outputs["q"] == pytest.approx(di.simulate(texts, values, run).outputs["q"])
    record = di.Experiment([0.0, 1.0], outputs={"q": [1.0, 0.5]}, initial={Q: a / K}, noise={
        "q": di.Gaussian(0.1 + 0.1 * sympy.Abs(Q))})
    assert record.initial == {"q": "a/k"} and record.noise["q"].std == "0.1 + 0.1*abs(q)"
    assert di.SteadyState(initial={Q: a / K}).initial == {"q": "a/k"} and di.LogNormal(a).std == "a"


def test_a_function_that_nobody_defines_is_no_parameter():
    with pytest.raises(di.ProblemError, match=r"f\(q\) is a function that SymPy does not define"):
        di.EquationModel(states={Q: -sympy.Function("f")(Q)})


def test_lagranges_equations_are_a_model():
    lagrange = pendulum_by_lagrange()
    lagrange.form_lagranges_equations()
    model = di.EquationModel.from_sympy(lagrange)
    assert model.states == ("q1", "q2", "q1_dot", "q2_dot")
    text = di.EquationModel(states={  # the double pendulum of textbooks, m and l alike; m drops out
        "q1": "q1_dot", "q2": "q2_dot",
        "q1_dot": "(-g*(3*sin(q1) + sin(q1 - 2*q2)) - 2*l*sin(q1 - q2)*(q2_dot**2 + q1_dot**2*cos(q1 - q2)))"
                  "/(l*(3 - cos(2*q1 - 2*q2)))",
        "q2_dot": "2*sin(q1 - q2)*(2*l*q1_dot**2 + 2*g*cos(q1) + l*q2_dot**2*cos(q1 - q2))/(l*(3 - cos(2*q1 - 2*q2)))"},
        parameters=["g", "l"])
    same_rates(model, text)


def test_equations_that_are_not_derived_yet_are_derived_or_asked_for():
    assert len(di.EquationModel.from_sympy(pendulum_by_lagrange()).states) == 4
    with pytest.raises(di.ProblemError, match="takes a KanesMethod, a LagrangesMethod or a dict"):
        di.EquationModel.from_sympy(Q + W)


def test_the_four_link_pendulum_of_sympy_is_its_own_equations_and_is_fitted():
    kane = n_link_pendulum_on_cart(4)
    model = di.EquationModel.from_sympy(kane)
    assert (len(model.states), model.inputs) == (10, ("F",))
    t = mechanics.dynamicsymbols._t
    moving = [*kane.q, *kane.u, sympy.Function("F")(t)]
    plain = [sympy.Dummy() for _ in moving]
    put = dict(zip(moving, plain, strict=True))
    numbers = sympy.lambdify([plain, [sympy.Symbol(n) for n in model.parameters]],
                             [kane.mass_matrix_full.subs(put), kane.forcing_full.subs(put)], cse=True)
    rng = np.random.default_rng(0)
    for _ in range(5):
        v, p = rng.normal(size=11), rng.uniform(0.5, 2, len(model.parameters))
        M, f = (np.asarray(each, float) for each in numbers(v, p))
        found = np.asarray(model.rate(0, v[:10], v[10:], p)).ravel()
        np.testing.assert_allclose(found, np.linalg.solve(M, f).ravel(), rtol=1e-11)
    truth = {"l0": 0.5, "l1": 0.4, "l2": 0.4, "l3": 0.3, "m0": 2.0, "m1": 0.6, "m2": 0.5, "m3": 0.4, "m4": 0.3, "g": 9.81}
    time = np.arange(0, 2, 0.01)
    given = {"inputs": {"F": 5 * np.sin(4 * time)}, "hold": "linear",
             "initial": {n: (0.3 if n in ("q1", "q2") else 0.0) for n in model.states}}
    clean = di.simulate(model, truth, di.Experiment(time, **given)).outputs
    noisy = {n: clean[n] + 1e-3 * rng.normal(size=time.size) for n in model.states[:5]}
    e = di.Experiment(time, **given, outputs=noisy, noise=dict.fromkeys(noisy, di.Gaussian(1e-3)))
    known = ("g", "m0")
    starts = [di.Parameter(n, v if n in known else 1.3 * v, lower=0.05, free=n not in known) for n, v in truth.items()]
    estimate = di.identify(di.Problem(model, [e], starts), progress=False)
    for name in estimate.problem.names:
        low, high = estimate.uncertainty.interval(name, 0.9999)
        assert low < truth[name] < high


def test_casadi_functions_are_models():
    t, x, u, p = casadi.SX.sym("t"), casadi.SX.sym("x", 2), casadi.SX.sym("u"), casadi.SX.sym("p", 2)
    dx = casadi.vertcat(x[1], -p[0] * casadi.sin(x[0]) - p[1] * x[1] + u)
    names = {"states": ["q", "w"], "inputs": ["u"], "parameters": ["k", "d"]}
    for arguments in ([t, x, u, p], [x, u, p]):
        same_rates(di.EquationModel.from_casadi(casadi.Function("f", arguments, [dx]), **names), TEXT)
    turned = casadi.Function("f", [p, x, u], [dx, x[0] ** 2], ["p", "x", "u"], ["dx", "y"])
    model = di.EquationModel.from_casadi(turned, **names, outputs=["square"])
    same_rates(model, TEXT)
    assert float(model.output(0, [3, 0], [0], [1, 1])) == 9


def test_matrix_expressions_of_casadi_are_taken_and_solvers_inside_are_refused():
    x, p = casadi.MX.sym("x", 3), casadi.MX.sym("p", 3)
    A = np.array([[0.0, 1, 0], [0, 0, 1], [-1, -2, -3]])
    model = di.EquationModel.from_casadi(casadi.Function("f", [x, p], [A @ x * p]), states=["a", "b", "c"],
                                         parameters=["p0", "p1", "p2"])
    v, w = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    np.testing.assert_allclose(np.asarray(model.rate(0, v, [], w)).ravel(), A @ v * w)
    z, given = casadi.SX.sym("z"), casadi.SX.sym("x")
    root = casadi.rootfinder("root", "newton", {"x": z, "p": given, "g": z + casadi.tanh(z) - given})
    y = casadi.MX.sym("y")
    with pytest.raises(di.ProblemError, match=r"is no formula.*SimulatorModel"):
        di.EquationModel.from_casadi(casadi.Function("f", [y], [root(0, y)]), states=["y"])


@pytest.mark.parametrize("more, words", [
    ({"states": ["q"]}, "2 entries, but 1 names"), ({"outputs": ["y"]}, "returns the rates only")])
def test_casadi_functions_of_other_sizes_are_refused(more, words):
    x, p = casadi.SX.sym("x", 2), casadi.SX.sym("p")
    f = casadi.Function("f", [x, p], [p * x])
    with pytest.raises(di.ProblemError, match=words):
        di.EquationModel.from_casadi(f, **{"states": ["a", "b"], "parameters": ["p"], **more})
