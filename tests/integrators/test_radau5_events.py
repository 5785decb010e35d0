"""Does radau5 follow the modes of a stiff hybrid model, with the sensitivities that an independent code has?"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di
from dynident.errors import ProblemError
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.events import EventPropagatorKey, event_propagator_for, interpreted_events
from dynident.integrators.grid import grid_of
from dynident.problem.experiment import Experiment

TIME = np.linspace(0, 3, 13)
OUTSIDE = 0.3 * np.sin(TIME)
POINT = np.array([1.5, 0.2, 0.0, 1.0, 1e4, 4.0, 0.02])  # first states, then k, c, q, a


def thermostat():
    """A room heated by a switch that reads a fast sensor (time constant 1e-4); each cycle it switches on at a warmer sensor."""
    sensor = {"s": "c*(T - s)*(1 + s*s)", "n": "0"}
    return di.EquationModel(
        states=["T", "s", "n"], parameters=["k", "c", "q", "a"], inputs=["outside"], outputs={"T": "T", "s": "s"},
        modes={"on": di.Mode({"T": "q - k*(T - outside)", **sensor}), "off": di.Mode({"T": "-k*(T - outside)", **sensor})},
        transitions=[di.Transition("on", "off", when="s > 2 + 0.01*t"),
                     di.Transition("off", "on", when="s < 1 + a*n", reset={"n": "n + 1"})])


def by_scipy(point, hold):
    """Radau with its own event location."""
    k, c, q, a = point[3:]
    x, on, found = np.array(point[:3]), True, [point[:3]]
    for now, end, before, behind in zip(TIME, TIME[1:], OUTSIDE, OUTSIDE[1:], strict=False):
        slope = (behind - before) / (end - now) if hold == "linear" else 0.0

        t = now
        while t < end:
            def rate(t, x, now=now, before=before, slope=slope, on=on):
                outside = before + slope * (t - now)
                return [q * on - k * (x[0] - outside), c * (x[0] - x[1]) * (1 + x[1] ** 2), 0.0]

            def switch(t, x, on=on):
                return x[1] - 2 - 0.01 * t if on else 1 + a * x[2] - x[1]

            switch.terminal, switch.direction = True, 1
            piece = solve_ivp(rate, (t, end), x, "Radau", events=switch, rtol=1e-12, atol=1e-13)
            t, x = piece.t[-1], piece.y[:, -1].copy()
            if piece.status == 1:
                x[2] += not on
                on = not on
        found.append(x)
    return np.array(found)


def marches(model, free):
    """Compiled, and interpreted."""
    return event_propagator_for(model, RADAU5, free), interpreted_events(EventPropagatorKey(model, RADAU5, free))


def followed(point, hold="linear", free=(0, 1, 2, 3), cuts=(), interpreted=False, nodes=None):
    model = thermostat()
    march = marches(model, free)[interpreted]
    record = Experiment(time=TIME, inputs={"outside": OUTSIDE}, hold=hold, mode="on")
    grid = grid_of(model, record, 1, everywhere=True)
    first = np.array([0, *cuts, grid.nodes - 1])
    return march.run(grid, first, np.array([point[:3]]) if nodes is None else nodes, np.array(point[3:]), True)


@pytest.mark.parametrize("hold", ["linear", "zero"])
def test_a_stiff_switching_model_is_followed_as_by_an_independent_code(hold):
    out = followed(POINT, hold)
    np.testing.assert_allclose(out.states, by_scipy(POINT, hold), atol=5e-9)  # the tolerance is 1e-8 of states of 1 to 6
    assert out.states[-1, 2] >= 2  # cycles


def test_sensitivities_pass_the_events_as_differences_of_an_independent_code():
    out = followed(POINT)
    for column, step in ((3, 1e-4), (6, 1e-5)):
        d = np.zeros(POINT.size)
        d[column] = step
        expected = (by_scipy(POINT + d, "linear") - by_scipy(POINT - d, "linear"))[:, :2] / (2 * step)
        size = np.max(np.abs(expected))
        np.testing.assert_allclose(out.jacobian[:, :, column] / size, expected / size, atol=1e-6)  # 1e-12/1e-5 and curvature


def test_segments_chain_to_the_sensitivities_of_the_whole():
    whole = followed(POINT)
    cuts = (4, 9)
    parts = followed(POINT, cuts=cuts, nodes=whole.states[[0, *cuts]])
    chained = np.eye(3, 7)
    for block in parts.end_jacobian:
        chained = block[:, :3] @ chained + np.hstack([np.zeros((3, 3)), block[:, 3:]])
    np.testing.assert_allclose(chained, whole.end_jacobian[0], rtol=1e-6, atol=1e-7)  # steps are chosen anew at a cut
    np.testing.assert_array_equal(parts.modes, whole.modes)


@pytest.mark.parametrize("cuts", [(), (4, 9)])
def test_without_a_compiler_the_numbers_are_the_same(cuts):
    nodes = followed(POINT).states[[0, *cuts]]
    ours, other = (followed(POINT, cuts=cuts, nodes=nodes, interpreted=each) for each in (False, True))
    np.testing.assert_allclose(other.states, ours.states, atol=1e-10)
    np.testing.assert_allclose(other.jacobian, ours.jacobian, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(other.end_jacobian, ours.end_jacobian, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(other.modes, ours.modes)


def test_an_event_that_falls_on_a_sample_keeps_its_sensitivity():
    model = di.EquationModel(states=["x"], parameters=["a", "b", "c"],
                             modes={"one": di.Mode({"x": "a"}), "two": di.Mode({"x": "b"})},
                             transitions=[di.Transition("one", "two", when="x > c")])
    grid = grid_of(model, Experiment(time=[0.0, 0.5, 1.0]), 1, everywhere=True)
    for march in marches(model, (0, 1, 2)):
        out = march.run(grid, np.array([0, 2]), np.array([[0.0]]), np.array([1.0, 3.0, 0.5 - 1e-16]), True)
        # x(1) = c + b (1 - (c - x0)/a)
        np.testing.assert_allclose(out.jacobian[2, 0], [3.0, 3.0 * 0.5, 0.5, 1 - 3.0], atol=1e-9)


def ball():
    return di.EquationModel(states=["y", "v"], modes={"air": di.Mode({"y": "v", "v": "-g"})},
                            transitions=[di.Transition("air", "air", when="y < 0", reset={"v": "-e*v"})])


def test_infinitely_many_bounces_are_answered_with_a_sentence():
    run = Experiment(time=np.linspace(0, 5, 6), initial={"y": 1.0, "v": 0.0})
    with pytest.raises(ProblemError, match=r"without time passing.*air -> air.*add a mode in which it rests"):
        di.simulate(ball(), {"g": 9.81, "e": 0.5}, run, integrator="radau5")


def test_a_ball_bounces_as_by_a_scheme_that_is_exact_for_it():
    run = Experiment(time=np.linspace(0, 2, 41), initial={"y": 1.0, "v": 0.0})
    ours, exact = (di.simulate(ball(), {"g": 9.81, "e": 0.8}, run, integrator=name) for name in ("radau5", "runge_kutta"))
    np.testing.assert_allclose(ours.states["y"], exact.states["y"], atol=1e-11)


def record_of(values, seed=4):
    rng = np.random.default_rng(seed)
    run = Experiment(time=TIME, inputs={"outside": OUTSIDE}, hold="linear", mode="on", initial={"T": 1.5, "s": 0.2, "n": 0.0})
    exact = di.simulate(thermostat(), values, run, integrator="radau5")
    outputs = {name: exact.outputs[name] + 0.01 * rng.normal(size=TIME.size) for name in ("T", "s")}
    return Experiment(time=TIME, inputs={"outside": OUTSIDE}, outputs=outputs, hold="linear", mode="on",
                      initial={"T": 1.5, "s": 0.2, "n": 0.0}, noise={name: di.Gaussian(0.01) for name in outputs})


def test_a_stiff_hybrid_fit_chooses_radau5_and_says_so():
    truth = {"k": 1.0, "c": 1e4, "q": 4.0, "a": 0.02}
    unknowns = [di.Parameter("k", 1.02, 0.5, 2), di.Parameter("q", 3.95, 2, 8), di.Parameter("c", 1e4, free=False),
                di.Parameter("a", 0.02, free=False)]
    found = di.identify(di.Problem(thermostat(), [record_of(truth)], unknowns), "multiple_shooting", progress=False)
    assert found.converged
    assert any("stiff at the start" in note and "radau5" in note for note in found.notes)
    std = np.sqrt(np.diag(found.uncertainty.matrix))
    assert np.all(np.abs([found.values["k"] - 1.0, found.values["q"] - 4.0]) < 4 * std)
