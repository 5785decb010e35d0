"""Are models in discrete time and transfer functions what their difference and differential equations say?"""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.signal

import dynident as di

ARX = di.EquationModel(next={"x": "a*x + b*u"}, sample_time=0.1, inputs=["u"])
U = np.random.default_rng(0).normal(size=80)
T = 0.1 * np.arange(80)


def filtered(a, b, x0=0.0):
    x = [x0]
    for u in U[:-1]:
        x.append(a * x[-1] + b * u)
    return np.array(x)


def test_a_map_is_iterated_sample_by_sample():
    found = di.simulate(ARX, {"a": 0.8, "b": 0.5, "x(0)": 1.0}, di.Experiment(T, inputs={"u": U})).states["x"]
    np.testing.assert_allclose(found, filtered(0.8, 0.5, 1.0), rtol=1e-12, atol=1e-13)


def test_missing_samples_are_stepped_over():
    some = np.array([0, 1, 4, 5, 9])
    found = di.simulate(ARX, {"a": 0.8, "b": 0.5, "x(0)": 1.0}, di.Experiment(T[some], inputs={"u": np.ones(5)})).states["x"]
    steps, x = [], 1.0
    for _ in range(10):
        steps.append(x)
        x = 0.8 * x + 0.5
    np.testing.assert_allclose(found, np.array(steps)[some], rtol=1e-13)


@pytest.mark.parametrize("kind", ["single_shooting", "multiple_shooting", "least_squares", "automatic"])
def test_a_discrete_model_is_identified(kind):
    y = filtered(0.8, 0.5, 1.0) + 0.01 * np.random.default_rng(1).normal(size=80)
    e = di.Experiment(T, inputs={"u": U}, outputs={"x": y}, noise={"x": di.Gaussian(0.01)})
    estimate = di.identify(di.Problem(ARX, [e], [di.Parameter("a", 0.1), di.Parameter("b", 1)]), kind, progress=False)
    for name, value in {"a": 0.8, "b": 0.5, "x(0)": 1.0}.items():
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < value < high


def test_a_nonlinear_map_has_its_derivatives():
    logistic = di.EquationModel(next={"x": "r*x*(1 - x)"}, sample_time=1)
    x = [0.3]
    for _ in range(30):
        x.append(2.7 * x[-1] * (1 - x[-1]))
    problem = di.Problem(logistic, [di.Experiment(np.arange(31), outputs={"x": x}, noise={"x": di.Gaussian(1e-3)})],
                         [di.Parameter("r", 2.5)])
    assert di.identify(problem, progress=False).values["r"] == pytest.approx(2.7, abs=1e-6)


def test_time_in_a_map_is_that_of_the_record():
    ramp = di.EquationModel(next={"x": "x + t"}, sample_time=0.5)
    found = di.simulate(ramp, {"x(0)": 0}, di.Experiment([1.0, 1.5, 2.0])).states["x"]
    np.testing.assert_allclose(found, [0, 1.0, 2.5])


def test_a_record_with_another_sample_time_is_refused():
    with pytest.raises(di.ProblemError, match=r"the record takes 0.5 steps. Resample it"):
        di.simulate(ARX, {"a": 1, "b": 1, "x(0)": 0}, di.Experiment([0, 0.05], inputs={"u": [0, 0]}))


@pytest.mark.parametrize("more, words", [
    ({"next": {"x": "x"}}, "needs a positive number"), ({"next": {"x": "x"}, "sample_time": -1}, "needs a positive number"),
    ({"states": {"x": "x"}, "sample_time": 1}, "write next="), ({}, "the model has no states"),
    ({"next": {"x": "x"}, "sample_time": 1, "states": {"x": "x"}}, "keep one")])
def test_a_model_is_in_discrete_or_in_continuous_time(more, words):
    with pytest.raises(di.ProblemError, match=words):
        di.EquationModel(**more)


@pytest.mark.parametrize("kind", ["full_discretization", "kalman", "prediction_error", "boundary_value", "set_membership"])
def test_methods_that_need_a_rate_say_so(kind):
    record = di.Experiment(T, inputs={"u": U}, outputs={"x": U})
    problem = di.Problem(ARX, [record], [di.Parameter("a", 1), di.Parameter("b", 1)])
    with pytest.raises(di.NotSupported, match=r"discrete time|continuous time"):
        di.identify(problem, kind, progress=False)


def test_a_transfer_function_answers_as_scipy_says():
    model = di.transfer_function(num=[2, "K"], den=["T1*T2", "T1 + T2", 1])
    values = {"K": 3.0, "T1": 0.7, "T2": 0.2}
    u = np.repeat(U[:20], 4)
    e = di.Experiment(T, inputs={"u": u}, initial={"x1": 0, "x2": 0})
    found = di.simulate(model, values, e, substeps=20).outputs["y"]
    _, expected, _ = scipy.signal.lsim(([2, 3.0], [0.14, 0.9, 1]), u, T, interp=False)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("num, den", [([2, 0.5, 1], [1, 0.3, 0.2]), ([0.5], [1, -0.8]), ([1, 2], [2, 1, 0.5, 0.1]), ([3], [2])])
@pytest.mark.parametrize("delay", [None, 3])
def test_a_discrete_transfer_function_is_a_difference_equation(num, den, delay):
    model = di.transfer_function(num, den, delay=delay, sample_time=0.1)
    e = di.Experiment(T, inputs={"u": U}, initial=dict.fromkeys(model.states, 0))
    late = np.concatenate([np.zeros(delay or 0), U])[:80]
    expected = scipy.signal.lfilter(np.concatenate([np.zeros(len(den) - len(num)), num]), den, late)
    np.testing.assert_allclose(di.simulate(model, {}, e).outputs["y"], expected, rtol=1e-11, atol=1e-12)


def test_first_order_plus_dead_time_is_identified():
    plant = di.transfer_function(num=["K"], den=["T", 1], delay="theta")
    t = np.arange(0, 40, 0.25)
    u = (t >= 2).astype(float) - 2 * (t >= 20)
    still = di.Experiment(t, inputs={"u": u}, initial={"x1": 0})
    clean = di.simulate(plant, {"K": 1.7, "T": 3.2, "theta": 1.9}, still).outputs["y"]
    e = di.Experiment(t, inputs={"u": u}, outputs={"y": clean + 0.02 * np.random.default_rng(0).normal(size=t.size)},
                      noise={"y": di.Gaussian(0.02)}, initial={"x1": 0})
    estimate = di.identify(di.Problem(plant, [e], [di.Parameter("K", 1), di.Parameter("T", 1, lower=0.01),
                                                   di.Parameter("theta", 0, lower=0, upper=10)]), progress=False)
    for name, value in {"K": 1.7, "T": 3.2, "theta": 1.9}.items():
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < value < high


def test_names_of_the_user_are_kept_apart():
    model = di.transfer_function(num=["x1"], den=[1, "den1 + 1"], sample_time=1)
    assert set(model.parameters) == {"x1", "den1"} and "x1" not in model.states


@pytest.mark.parametrize("given, words", [
    ({"num": [1, 2, 3], "den": [1, 1]}, "look into the future"), ({"num": "K", "den": [1]}, "give its coefficients"),
    ({"num": [1], "den": [0, 1]}, "first coefficient of den is 0"), ({"num": [None], "den": [1]}, "a number or text"),
    ({"num": [1], "den": [1, 1], "delay": "th", "sample_time": 1}, "a whole number of samples")])
def test_what_is_no_transfer_function_is_refused(given, words):
    with pytest.raises(di.ProblemError, match=words):
        di.transfer_function(**given)


SECOND_ORDER = SimpleNamespace(num=[[np.array([4.0])]], den=[[np.array([2.0, 1.0, 3.0])]], dt=0)


def test_the_numbers_of_a_control_system_become_starts():
    model = di.from_control(SECOND_ORDER)
    assert {n: v.start for n, v in model.nominal_values.items()} == {"b2": 2.0, "a1": 0.5, "a2": 1.5}
    assert di.EquationModel.from_definition(model.definition()).nominal_values == model.nominal_values
    t = np.arange(0, 20, 0.1)
    u = np.sign(np.sin(t))
    e = di.Experiment(t, inputs={"u": u}, initial={"x1": 0, "x2": 0})
    y = di.simulate(model, {"b2": 2.2, "a1": 0.4}, e).outputs["y"]  # a2 keeps what the system said
    _, expected, _ = scipy.signal.lsim(([2.2], [1, 0.4, 1.5]), u, t, interp=False)
    np.testing.assert_allclose(y, expected, atol=1e-6)
    record = di.Experiment(t, inputs={"u": u}, outputs={"y": y}, initial={"x1": 0, "x2": 0}, noise={"y": di.Gaussian(0.01)})
    estimate = di.identify(di.Problem(model, [record], [di.Parameter("b2"), di.Parameter("a1")]), progress=False)
    assert estimate.values["b2"] == pytest.approx(2.2, abs=1e-4) and estimate.values["a1"] == pytest.approx(0.4, abs=1e-4)


@pytest.mark.parametrize("dt", [None, 0.1])
def test_state_space_models_and_scipy_systems_are_taken(dt):
    A, B, C, D = np.array([[0, 1], [-0.5, -0.3]]), np.array([[0.0], [0.7]]), np.array([[1.0, 0], [0.2, 1]]), np.zeros((2, 1))
    system = scipy.signal.StateSpace(A, B, C, D) if dt is None else scipy.signal.StateSpace(A, B, C, D, dt=dt)
    model = di.from_control(system)
    assert set(model.parameters) == {"A21", "A22", "B21", "C21"} and model.outputs == ("y1", "y2")
    e = di.Experiment(T, inputs={"u": U}, initial={"x1": 0, "x2": 0})
    found = di.simulate(model, {}, e)
    exact = (A, B, C, D, 0.1) if dt else (*scipy.signal.cont2discrete((A, B, C, D), 0.1)[:4], 0.1)
    expected = scipy.signal.dlsim(exact, U)[1]
    np.testing.assert_allclose(np.column_stack([found.outputs["y1"], found.outputs["y2"]]), expected, atol=1e-7)


def test_control_systems_without_meaning_are_refused():
    with pytest.raises(di.ProblemError, match="sample time is not said"):
        di.from_control(SimpleNamespace(num=[1], den=[1, 1], dt=True))
    with pytest.raises(di.ProblemError, match="neither num and den"):
        di.from_control(object())
    with pytest.raises(di.ProblemError, match="several inputs"):
        di.from_control(SimpleNamespace(num=[[[1], [1]]], den=[[[1, 1], [1, 2]]], dt=0))


def test_the_control_package_itself_is_read():
    control = pytest.importorskip("control", reason="the control package is not installed")
    assert di.from_control(control.tf([4], [2, 1, 3])) == di.from_control(SECOND_ORDER)
    assert di.from_control(control.ss([[-1.5]], [[2.0]], [[1]], [[0]], 0.2)).sample_time == 0.2


@pytest.mark.parametrize("said", [
    'next = { x = "a*x + b*u" }\nsample_time = 0.5\ninputs = ["u"]\noutputs = { y = "x" }',
    'transfer_function = { num = ["b"], den = [1, "a"], sample_time = 0.5 }',
    'transfer_function = { num = ["b"], den = ["a", 1], delay = "theta" }',
    'states = { x = "(b*delay(u, theta) - f(x))/a" }\ninputs = ["u"]\noutputs = { y = "x" }\n'
    'tables = { f = { knots = [0, 1], smooth = true } }'])
def test_problem_files_say_the_same(tmp_path, said):
    t = np.arange(0, 20, 0.5)
    columns = np.column_stack([t, np.sign(np.sin(t)), np.cos(t)])
    np.savetxt(tmp_path / "run.csv", columns, delimiter=",", header="t,u,y", comments="")
    names = ["a", "b", *["theta"] * ("theta" in said), *["f0", "f1"] * ("knots" in said)]
    lines = "\n".join(f"{name} = {{ start = 0.5 }}" for name in names)
    (tmp_path / "it.toml").write_text(f'[model]\n{said}\n[[experiment]]\nfile = "run.csv"\ntime = "t"\ninputs = ["u"]\n'
                                      f'outputs = ["y"]\nbefore = {{ u = 0.0 }}\n[parameters]\n{lines}\n')
    problem = di.read_problem(tmp_path / "it.toml").problem
    assert set(problem.model.parameters) == set(names) and problem.experiments[0].before == {"u": 0.0}
    di.write_problem(problem, None, tmp_path / "again.toml")
    assert di.read_problem(tmp_path / "again.toml").problem.content_hash() == problem.content_hash()


def test_a_wrong_word_in_a_file_is_named_with_its_line(tmp_path):
    (tmp_path / "it.toml").write_text('[model]\ntransfer_function = { nun = ["b"], den = [1, "a"] }\n')
    with pytest.raises(di.ProblemError, match=r"line 2.*nun.*Did you mean 'num'"):
        di.read_problem(tmp_path / "it.toml")
