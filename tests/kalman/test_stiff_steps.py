"""Do filters follow a stiff plant, which an explicit step does not, and do they say so?"""

from functools import cache

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di
from dynident.errors import NotSupported
from dynident.integrators import INTEGRATORS, integrator_named
from dynident.integrators.rosenbrock import ROSENBROCK
from dynident.integrators.scheme import StepFunction
from dynident.kalman.step_choice import explicit_growth

TRUTH = {"R": 2.0, "C": 1.5}
FAST = 5e3  # 1/s; samples follow each other in 0.1 s


def oven():
    """A mass heated by u, read by a thin sensor that is 5,000 times faster; its walls radiate."""
    return di.EquationModel(states={"T": "(u - T/R - 0.01*T**4)/C", "s": f"{FAST}*(T - s)"}, inputs=["u"], outputs={"y": "s"})


@cache
def record(disturbed=0.02):
    """Time, input and readings by scipy's Radau; the mass is disturbed from sample to sample."""
    rng = np.random.default_rng(5)
    time = np.arange(0, 30, 0.1)
    u = 1.0 + np.sign(np.sin(0.7 * time))
    R, C = TRUTH["R"], TRUTH["C"]
    x, found = np.array([0.5, 0.5]), []
    for k in range(time.size):
        found.append(x[1])
        if k + 1 < time.size:
            rate = lambda _, x, u=u[k]: [(u - x[0] / R - 0.01 * x[0] ** 4) / C, FAST * (x[0] - x[1])]  # noqa: E731
            x = solve_ivp(rate, (0, 0.1), x, "Radau", rtol=1e-8, atol=1e-10).y[:, -1]
            x[0] += disturbed * np.sqrt(0.1) * rng.normal()
    return time, u, np.array(found) + 0.01 * rng.normal(size=time.size)


def heated(model=None, disturbed=0.02):
    time, u, y = record(disturbed)
    begin = {name: 0.5 if name in "Ts" else 0.0 for name in (model or oven()).states}
    run = di.Experiment(time, {"u": u}, {"y": y}, noise={"y": di.Gaussian(0.01)}, initial=begin)
    unknowns = [di.Parameter("R", 1.8, 0.5, 10), di.Parameter("C", 1.3, 0.2, 10)]
    return di.Problem(model or oven(), [run], unknowns, process_noise={"T": di.Gaussian(disturbed)} if disturbed else {})


@pytest.fixture(scope="module")
def problem():
    return heated()


def off(estimate):
    """Standard errors between estimate and truth."""
    std = dict(zip(estimate.uncertainty.names, np.sqrt(np.diag(estimate.uncertainty.matrix)), strict=True))
    return max(abs(estimate.values[name] - TRUTH[name]) / std[name] for name in TRUTH)


def test_the_linearly_implicit_step_has_its_order_and_damps_what_is_stiff():
    model = di.EquationModel(states={"x": "v*cos(t)", "v": "-x - 0.3*v*x*x + u"}, inputs=["u"])
    t, h, x, u0, u1 = (ca.SX.sym(n, k) for n, k in (("t", 1), ("h", 1), ("x", 2), ("u0", 1), ("u1", 1)))
    none = ca.SX(0, 1)
    ahead = ca.Function("ahead", [t, h, x, u0, u1], [ROSENBROCK.next_state(StepFunction(model.rate, t, h, x, u0, u1, none))])
    push = lambda s: 0.5 + 0.7 * s  # noqa: E731
    exact = solve_ivp(lambda s, y: np.asarray(model.rate(s, y, push(s), [])).ravel(), (0, 2), [1, 0.5], rtol=1e-12, atol=1e-13)
    errors = []
    for count in (40, 80):
        y, step = np.array([1, 0.5]), 2 / count
        for k in range(count):
            y = np.asarray(ahead(k * step, step, y, push(k * step), push((k + 1) * step))).ravel()
        errors.append(np.max(np.abs(y - exact.y[:, -1])))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(ROSENBROCK.order, abs=0.1)
    decay = di.EquationModel(states={"x": "-1e8*(x - cos(t))"})
    stiff = ROSENBROCK.next_state(StepFunction(decay.rate, ca.SX(0), ca.SX(0.1), ca.SX(5), none, none, none))
    assert float(stiff) == pytest.approx(np.cos(0.1), abs=2e-3)  # L-stable: what it was before is forgotten in one step


CLOSE = {"R": 0.2, "C": 0.2}  # so that no sigma point has a negative mass
METHODS = {"extended": di.kalman(initial_std=CLOSE), "unscented": di.kalman(filter="unscented", initial_std=CLOSE),
           "smoother": di.kalman(smoother=True, initial_std=CLOSE), "horizon": di.moving_horizon(horizon=5),
           "square root": di.kalman(covariance_update="square_root", initial_std=CLOSE)}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_filters_take_the_implicit_step_where_an_explicit_one_is_unstable(problem, method):
    assert explicit_growth(problem, 1) > 1e6
    found = di.identify(problem, method, progress=False)
    assert found.method.integrator == "rosenbrock"
    assert sum("stiff at the start" in note and "rosenbrock" in note for note in found.notes) == 1
    assert off(found) < 4


def test_an_explicit_step_fails_there(problem):
    found = di.identify(problem, di.kalman(integrator="runge_kutta", initial_std=CLOSE), progress=False)
    assert any("runge_kutta is unstable at this sampling time" in note for note in found.notes)
    assert off(found) > 20


def test_stiffness_that_shows_on_the_way_only_is_seen_at_the_estimate():
    """How fast the sensor is depends on a state that nobody measures and that begins at 0."""
    model = di.EquationModel(states={"T": "(u - T/R - 0.01*T**4)/C", "s": f"{FAST}*h**2*(T - s)", "h": "0.2*(T - h)"},
                             inputs=["u"], outputs={"y": "s"})
    problem = heated(model)
    assert explicit_growth(problem, 1) <= 1
    found = di.identify(problem, di.kalman(initial_std=CLOSE), progress=False)
    assert sum("stiff at the estimate" in note and "rosenbrock" in note for note in found.notes) == 1
    assert found.method.integrator == "rosenbrock"


def test_prediction_error_takes_the_implicit_step_and_finds_the_truth(problem):
    found = di.identify(problem, di.prediction_error(), progress=False)
    assert found.method.integrator == "rosenbrock" and found.method.simulation_integrator == "radau5"
    assert any("linearly implicit" in note for note in found.notes)
    assert off(found) < 4


def test_a_plant_that_is_not_stiff_keeps_the_explicit_step():
    slow = di.EquationModel(states={"T": "(u - T/R - 0.01*T**4)/C", "s": "5*(T - s)"}, inputs=["u"], outputs={"y": "s"})
    problem = heated(slow)
    found = di.identify(problem, di.kalman(), progress=False)
    assert found.method.integrator == "runge_kutta"
    assert not any("stiff" in note for note in found.notes)


def test_the_step_is_refused_where_a_formula_alone_does_not_do(problem):
    with pytest.raises(NotSupported, match=r"'rosenbrock' is a step of filters[.] Simulate stiff models by radau5"):
        di.identify(problem.replace(process_noise={}), di.multiple_shooting(integrator="rosenbrock"), progress=False)
    assert integrator_named("rosenbrock") not in INTEGRATORS
