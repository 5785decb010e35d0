"""Are transitions found where mathematics says they are, and do sensitivities pass them?"""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di
from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.integrators.events import EventPropagatorKey, event_propagator_for
from dynident.integrators.events_interpreted import InterpretedEventPropagator
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for
from dynident.models.equations import EquationModel
from dynident.models.hybrid import Mode, Transition
from dynident.models.library import coulomb, servo_axis, stribeck, viscous
from dynident.problem.experiment import Experiment

ROUNDING = 1e-12  # a few hundred operations on numbers of size one


def oscillator():
    """k q + M q'' = -Fc sign(q'), with sticking."""
    motion = coulomb().automaton({"q": "v", "v": "(-k*q - friction)/M"}, push="-k*q")
    return EquationModel(states=["q", "v"], parameters=["k", "Fc", "M"], **motion)


def ball(condition="y < 0"):
    return EquationModel(states=["y", "v"], modes={"air": Mode(rate={"y": "v", "v": "-g"})},
                         transitions=[Transition("air", "air", when=condition, reset={"v": "-e*v"})])


def belt():
    """A mass on a belt that runs with speed w, held by a spring: sticks to the belt up to Fs, slips with Fc."""
    return EquationModel(
        states=["x", "v"], parameters=["k", "m", "Fs", "Fc", "w"],
        modes={"stick": Mode(rate={"x": "v", "v": 0}), "slip": Mode(rate={"x": "v", "v": "(Fc - k*x)/m"})},
        transitions=[Transition("stick", "slip", when="k*x > Fs"),
                     Transition("slip", "stick", when="v > w", reset={"v": "w"})])


def simulated(model, values, initial, time, substeps=1, integrator="runge_kutta", **record):
    run = Experiment(time=time, initial=initial, **record)
    return di.simulate(model, values, run, integrator=integrator, substeps=substeps)


def coulomb_oscillation(time, q0, k, Fc, M):
    """Harmonic half cycles of length pi/omega around -+Fc/k, until one ends where the spring cannot break away."""
    omega, d = math.sqrt(k / M), Fc / k
    q, half_cycles = np.full(time.size, q0), 0
    begin, amplitude = 0.0, q0
    while abs(amplitude) > d:
        centre = math.copysign(d, amplitude)
        during = time >= begin
        q[during] = centre + (amplitude - centre) * np.cos(omega * (time[during] - begin))
        amplitude, begin, half_cycles = 2 * centre - amplitude, begin + math.pi / omega, half_cycles + 1
        q[time >= begin] = amplitude
    return q, half_cycles


# closed forms


def test_a_block_that_slides_to_rest_stops_where_and_when_it_must():
    model = EquationModel(
        states=["q", "v"], modes={"forward": Mode(rate={"q": "v", "v": "-Fc/M"}), "stick": Mode(rate={"q": 0, "v": 0})},
        transitions=[Transition("forward", "stick", when="v < 0", reset={"v": 0})])
    time = np.linspace(0, 3, 13)
    v0, deceleration = 1.7, 1.3 / 2.0
    found = simulated(model, {"Fc": 1.3, "M": 2.0}, {"q": 0.2, "v": v0}, time)
    moving = np.minimum(time, v0 / deceleration)
    np.testing.assert_allclose(found.states["q"], 0.2 + v0 * moving - deceleration * moving**2 / 2, atol=ROUNDING)
    assert np.all(found.states["v"][time > v0 / deceleration] == 0)
    assert found.modes.tolist() == ["forward" if t < v0 / deceleration else "stick" for t in time]


def test_dry_friction_ends_an_oscillation_after_the_known_number_of_half_cycles():
    time = np.linspace(0, 16, 161)
    k, Fc, M = 2.0, 0.31, 1.5
    expected, half_cycles = coulomb_oscillation(time, 1.0, k, Fc, M)
    found = simulated(oscillator(), {"k": k, "Fc": Fc, "M": M}, {"q": 1.0, "v": 0.0}, time, substeps=16)
    np.testing.assert_allclose(found.states["q"], expected, atol=1e-9)  # (h omega)^5/120 per radian, h = 1/160
    sliding = found.modes[found.modes != "stick"]
    assert 1 + np.count_nonzero(sliding[1:] != sliding[:-1]) == half_cycles == 3
    assert found.modes[-1] == "stick"


def test_events_do_not_cost_the_scheme_its_order():
    time = np.linspace(0, 8, 41)
    exact, _ = coulomb_oscillation(time, 1.0, 2.0, 0.1, 1.5)
    for scheme in ("heun", "simpson", "runge_kutta"):
        order = integrator_named(scheme).order
        errors = [np.max(np.abs(simulated(oscillator(), {"k": 2.0, "Fc": 0.1, "M": 1.5}, {"q": 1.0, "v": 0.0}, time,
                                          substeps, scheme).states["q"] - exact)) for substeps in (4, 8)]
        assert np.log2(errors[0] / errors[1]) > order - 0.4, (scheme, errors)


def test_a_mass_on_a_belt_sticks_and_slips_with_the_known_period():
    k, m, Fs, Fc, w = 3.0, 0.8, 2.0, 1.2, 0.7
    omega = math.sqrt(k / m)
    sticking = 2 * (Fs - Fc) / (k * w)
    slipping = 2 / omega * (math.pi - math.atan((Fs - Fc) * omega / (k * w)))
    # sample twice per period, where sticking and slipping begin
    period = sticking + slipping
    time = np.sort(np.concatenate([np.arange(6) * period, np.arange(6) * period + sticking]))
    start = {"x": (2 * Fc - Fs) / k, "v": w}
    found = simulated(belt(), {"k": k, "m": m, "Fs": Fs, "Fc": Fc, "w": w}, start, time, substeps=256)
    np.testing.assert_allclose(found.states["x"][::2], start["x"], atol=1e-9)
    np.testing.assert_allclose(found.states["x"][1::2], Fs / k, atol=1e-9)
    between = simulated(belt(), {"k": k, "m": m, "Fs": Fs, "Fc": Fc, "w": w}, start,
                        np.sort(np.concatenate([[0], time + sticking / 2, time + sticking + slipping / 2])), 256)
    assert set(between.modes) == {"stick", "slip"}


def test_a_ball_bounces_at_the_known_times():
    g, e, height = 9.81, 0.8, 1.0
    fall = math.sqrt(2 * height / g)
    bounces = fall + np.concatenate([[0], np.cumsum(2 * fall * e ** np.arange(1, 12))])
    time = np.linspace(0, 0.95 * bounces[-1], 57)
    expected = height - g * time**2 / 2
    for n, begin in enumerate(bounces):
        up = e ** (n + 1) * g * fall
        expected = np.where(time >= begin, up * (time - begin) - g * (time - begin) ** 2 / 2, expected)
    for condition in ("y < 0", "y < 0 and v < 0"):
        found = simulated(ball(condition), {"g": g, "e": e}, {"y": height, "v": 0.0}, time)
        np.testing.assert_allclose(found.states["y"], expected, atol=ROUNDING)


@pytest.mark.parametrize("condition", ["y < 0", "y < 0 and v < 0"])
def test_infinitely_many_bounces_are_answered_with_a_sentence(condition):
    g, e = 9.81, 0.5
    fall = math.sqrt(2 / g)
    last = fall * (1 + e) / (1 - e)  # where the sum of all flights ends
    with pytest.raises(ProblemError, match=r"without time passing.*air -> air.*add a mode in which it rests") as caught:
        simulated(ball(condition), {"g": g, "e": e}, {"y": 1.0, "v": 0.0}, np.linspace(0, 2, 41))
    assert f"t = {last:.4f}"[:-2] in str(caught.value)


def test_a_ball_with_a_mode_for_rest_comes_to_rest():
    model = EquationModel(
        states=["y", "v"], modes={"air": Mode(rate={"y": "v", "v": "-g"}), "rest": Mode(rate={"y": 0, "v": 0})},
        transitions=[Transition("air", "rest", when="y < 0 and v < 0 and v > -0.01", reset={"y": 0, "v": 0}),
                     Transition("air", "air", when="y < 0 and v < 0", reset={"v": "-e*v"})])
    found = simulated(model, {"g": 9.81, "e": 0.5}, {"y": 1.0, "v": 0.0}, np.linspace(0, 2, 41))
    assert (found.modes[-1], found.states["y"][-1]) == ("rest", 0)


# inputs


def test_a_ramp_breaks_away_between_samples_and_not_at_one():
    model = servo_axis(coulomb(), gain=1.0, hybrid=True)
    time = np.linspace(0, 2, 5)  # breakaway at t = 0.77
    values = {"M": 2.0, "Fc": 0.77, "offset": 0.0}
    start = {"q": 0.0, "v": 0.0}
    found = simulated(model, values, start, time, inputs={"u": time}, hold="linear")
    late = np.maximum(time - 0.77, 0)
    np.testing.assert_allclose(found.states["v"], late**2 / 2 / 2.0, atol=ROUNDING)
    np.testing.assert_allclose(found.states["q"], late**3 / 6 / 2.0, atol=ROUNDING)


def test_an_input_that_jumps_breaks_away_at_its_sample():
    model = servo_axis(viscous() + stribeck(), gain=1.0, hybrid=True)
    time = np.linspace(0, 1, 11)
    u = np.where(time >= 0.5, 2.1, 1.9)
    values = {"M": 1.0, "Fv": 0.5, "Fc": 1.0, "Fs": 2.0, "vs": 0.1, "offset": 0.0}
    found = simulated(model, values, {"q": 0.0, "v": 0.0}, time, inputs={"u": u})
    assert found.modes.tolist() == ["stick"] * 5 + ["forward"] * 6
    assert np.all(found.states["v"][time <= 0.5] == 0)
    assert np.all(np.diff(found.states["v"][time >= 0.5]) > 0)


def test_a_strong_reversal_slides_on_the_other_way_without_resting():
    model = servo_axis(coulomb(), gain=1.0, hybrid=True)
    time = np.linspace(0, 4, 9)
    found = simulated(model, {"M": 1.0, "Fc": 0.5, "offset": 0.0}, {"q": 0.0, "v": 1.0}, time,
                      inputs={"u": np.full(9, -1.0)})
    stop = 1 / 1.5
    v = np.where(time < stop, 1 - 1.5 * time, -0.5 * (time - stop))
    np.testing.assert_allclose(found.states["v"], v, atol=ROUNDING)
    assert found.modes.tolist() == ["forward"] * 2 + ["backward"] * 7


def test_a_condition_that_holds_only_inside_of_a_step_is_not_missed():
    model = EquationModel(states=["x", "v", "n"], modes={"a": Mode(rate={"x": "v", "v": "-1", "n": 0})},
                          transitions=[Transition("a", "a", when="x > top", reset={"n": "n + 1", "v": "-v"})])
    # the peak, 0.5 at t = 1, lies between the samples 0 and 2; it is cut at 0.455, reached at t = 0.7
    found = simulated(model, {"top": 0.455}, {"x": 0.0, "v": 1.0, "n": 0.0}, np.array([0.0, 2.0, 2.1]))
    assert found.states["n"].tolist() == [0, 1, 1]
    np.testing.assert_allclose(found.states["x"][1], 0.455 - 0.3 * 1.3 - 1.3**2 / 2, atol=ROUNDING)


# no chattering


def test_a_border_that_is_crossed_is_crossed_once():
    model = EquationModel(
        states=["x"], modes={"below": Mode(rate={"x": "a"}, invariant="x <= 0"),
                             "above": Mode(rate={"x": "b"}, invariant="x >= 0")},
        transitions=[Transition("below", "above", when="x > 0"), Transition("above", "below", when="x < 0")])
    time = np.linspace(0, 1, 8)
    found = simulated(model, {"a": 1.0, "b": 3.0}, {"x": -0.37}, time)
    np.testing.assert_allclose(found.states["x"], np.where(time < 0.37, time - 0.37, 3 * (time - 0.37)), atol=ROUNDING)
    with pytest.raises(ProblemError, match=r"without time passing \(the last is (below -> above|above -> below)"):
        simulated(model, {"a": 1.0, "b": -1.0}, {"x": -0.37}, time)


# sensitivities


def jacobian_of(model, first_state, p, time, substeps, free=None, **record):
    march = propagator_for(model, integrator_named("runge_kutta"), tuple(range(len(p))) if free is None else free)
    grid = grid_of(model, Experiment(time=time, **record), substeps, everywhere=True)
    return march.run(grid, np.array([0, grid.nodes - 1]), np.array([first_state]), np.asarray(p), True)


def differences(values_at, point, step):
    columns = []
    for i in range(point.size):
        d = np.zeros(point.size)
        d[i] = step * max(1.0, abs(point[i]))
        columns.append((values_at(point + d) - values_at(point - d)) / (2 * d[i]))
    return np.stack(columns, axis=-1)


def bounced(point, time):
    """A ball on a plate at height a + b t, by an adaptive code with its own event location."""
    y0, v0, g, e, a, b = point
    hits = lambda t, z: z[0] - a - b * t  # noqa: E731
    hits.terminal, hits.direction = True, -1
    found, t, z = [], 0.0, np.array([y0, v0])
    for end in time[1:]:
        while t < end:
            piece = solve_ivp(lambda _, z: [z[1], -g], (t, end), z, "DOP853", events=hits, rtol=1e-12, atol=1e-13)
            t, z = piece.t[-1], piece.y[:, -1]
            if piece.status == 1:
                z = np.array([a + b * t, b - e * (z[1] - b)])
        found.append(z.copy())
    return np.array([[y0, v0], *found])


def test_sensitivities_pass_events_whose_guard_and_reset_hold_parameters():
    model = EquationModel(
        states=["y", "v"], parameters=["g", "e", "a", "b"], modes={"air": Mode(rate={"y": "v", "v": "-g"})},
        transitions=[Transition("air", "air", when="y < a + b*t", reset={"v": "b - e*(v - b)"})])
    point = np.array([1.0, 0.2, 9.81, 0.75, 0.05, 0.1])
    time = np.linspace(0, 1.6, 17)
    out = jacobian_of(model, point[:2], point[2:], time, 2)
    np.testing.assert_allclose(out.states, bounced(point, time), atol=1e-10)
    expected = differences(lambda z: bounced(z, time), point, 1e-5)
    np.testing.assert_allclose(out.jacobian, expected, rtol=1e-6, atol=1e-6)  # 1e-12/1e-5 and 1e-10 curvature


def rubbed(point, time):
    """The oscillator with dry friction, by an adaptive code."""
    q0, v0, k, Fc, M = point
    found, t, z = [], 0.0, np.array([q0, v0])
    sign = math.copysign(1.0, v0)
    halts = lambda t, z: z[1]  # noqa: E731
    halts.terminal = True
    for end in time[1:]:
        while t < end and sign:
            halts.direction = -sign
            piece = solve_ivp(lambda _, z: [z[1], (-k * z[0] - sign * Fc) / M], (t, end), z, "DOP853",  # noqa: B023
                              events=halts, rtol=1e-12, atol=1e-13)
            t, z = piece.t[-1], piece.y[:, -1]
            if piece.status == 1:
                z = np.array([z[0], 0.0])
                sign = -math.copysign(1.0, z[0]) if abs(k * z[0]) > Fc else 0.0
        t = end
        found.append(z.copy())
    return np.array([[q0, v0], *found])


def test_sensitivities_pass_sticking_and_sliding():
    point = np.array([1.0, 0.3, 2.0, 0.31, 1.5])
    time = np.linspace(0, 12, 49)
    out = jacobian_of(oscillator(), point[:2], point[2:], time, 16)
    np.testing.assert_allclose(out.states, rubbed(point, time), atol=1e-8)
    expected = differences(lambda z: rubbed(z, time), point, 1e-5)
    np.testing.assert_allclose(out.jacobian, expected, rtol=1e-6, atol=2e-6)  # and RK4's own error at h = 1/64
    assert set(out.modes) == {0, 1, 2}


def test_sensitivities_are_exact_for_the_scheme_itself():
    """Long steps: far from the solution of the equation, yet the derivative of what is computed."""
    point = np.array([1.0, 0.3, 2.0, 0.31, 1.5])
    time = np.linspace(0, 12, 13)

    def coarse(z):
        return jacobian_of(oscillator(), z[:2], z[2:], time, 1).states

    out = jacobian_of(oscillator(), point[:2], point[2:], time, 1)
    np.testing.assert_allclose(out.jacobian, differences(coarse, point, 1e-6), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(24))
def test_any_drive_is_followed_with_exact_sensitivities(seed):
    rng = np.random.default_rng(seed)
    model = servo_axis(viscous() + stribeck(), gain=1.0, hybrid=True)
    dry = rng.uniform(0.1, 1)
    p = np.array([rng.uniform(0.5, 3), rng.uniform(0.1, 2), dry, dry * rng.uniform(1, 2), rng.uniform(0.1, 0.3), 0.1])
    time = np.cumsum(rng.uniform(0.02, 0.1, 60))
    drive = [rng.normal(size=60) * 2, 2 * np.sin(rng.uniform(1, 8) * time), np.round(rng.normal(size=60))][seed % 3]
    record = {"inputs": {"u": drive}, "hold": "linear" if seed % 2 else "zero"}
    first = np.array([0.0, rng.choice([0.0, 0.3 * rng.normal()])])
    out = jacobian_of(model, first, p, time, 4, **record)
    fine = jacobian_of(model, first, p, time, 64, **record)
    np.testing.assert_allclose(out.states, fine.states, atol=1e-5)  # (h/0.1)^4 of the Stribeck velocity, h = 0.025
    expected = differences(lambda z: jacobian_of(model, first, z, time, 4, **record).outputs, p, 1e-7)
    size = 1 + np.max(np.abs(expected))
    np.testing.assert_allclose(out.jacobian[:, :, 2:] / size, expected / size, atol=1e-7)


def test_an_event_that_falls_on_a_sample_keeps_its_sensitivity():
    model = EquationModel(states=["x"], parameters=["a", "b", "c"],
                          modes={"one": Mode(rate={"x": "a"}), "two": Mode(rate={"x": "b"})},
                          transitions=[Transition("one", "two", when="x > c")])
    time = np.array([0.0, 0.5, 1.0])
    out = jacobian_of(model, [0.0], [1.0, 3.0, 0.5 - 1e-16], time, 1)
    # x(1) = c + b (1 - (c - x0)/a)
    np.testing.assert_allclose(out.jacobian[2, 0], [3.0, 3.0 * 0.5, 0.5, 1 - 3.0], atol=1e-9)


def test_segments_chain_to_the_sensitivities_of_the_whole():
    model, time = oscillator(), np.linspace(0, 12, 49)
    march = propagator_for(model, integrator_named("runge_kutta"), (0, 1))
    grid = grid_of(model, Experiment(time=time), 4, everywhere=True)
    p = np.array([2.0, 0.31, 1.5])
    whole = march.run(grid, np.array([0, 48]), np.array([[1.0, 0.3]]), p, True)
    first = np.array([0, 7, 20, 33, 48])
    parts = march.run(grid, first, whole.states[first[:-1]], p, True)
    np.testing.assert_allclose(parts.states, whole.states, atol=1e-13)
    np.testing.assert_array_equal(parts.modes, whole.modes)
    chain = np.eye(4)
    for k in range(4):
        chain[:2] = parts.end_jacobian[k] @ chain
    np.testing.assert_allclose(chain[:2], whole.end_jacobian[0], atol=1e-10)


def test_without_a_compiler_the_numbers_are_the_same():
    time = np.linspace(0, 8, 41)
    u = np.sin(2 * time) * 30
    model = servo_axis(viscous() + stribeck(), gain=1.0, hybrid=True)
    p = np.array([3.0, 2.0, 8.0, 12.0, 0.2, 1.0])
    grid = grid_of(model, Experiment(time=time, inputs={"u": u}, hold="linear"), 2, everywhere=True)
    first, nodes = np.array([0, 20, 40]), np.array([[0.0, 0.0], [1.0, -0.2]])
    scheme = integrator_named("runge_kutta")
    compiled = event_propagator_for(model, scheme, (0, 2, 3)).run(grid, first, nodes, p, True)
    plain = InterpretedEventPropagator(EventPropagatorKey(model, scheme, (0, 2, 3))).run(grid, first, nodes, p, True)
    for name in ("states", "outputs", "jacobian", "end_states", "end_jacobian", "modes"):
        np.testing.assert_allclose(getattr(plain, name), getattr(compiled, name), rtol=1e-10, atol=1e-11)
    assert len(set(compiled.modes)) == 3


# which mode


def hysteresis():
    return EquationModel(
        states=["T"], modes={"off": Mode(rate={"T": "-T"}, invariant="T >= 1"),
                             "on": Mode(rate={"T": "3 - T"}, invariant="T <= 2")},
        transitions=[Transition("off", "on", when="T < 1"), Transition("on", "off", when="T > 2")])


def test_the_first_possible_mode_is_taken_unless_the_experiment_says_another():
    time = np.linspace(0, 0.2, 3)
    assert simulated(hysteresis(), {}, {"T": 1.5}, time).modes[0] == "off"
    assert simulated(hysteresis(), {}, {"T": 1.5}, time, mode="on").modes[0] == "on"
    assert simulated(hysteresis(), {}, {"T": 0.5}, time).modes[0] == "on"


def test_a_segment_keeps_the_mode_of_the_one_before_where_that_is_possible():
    model, time = hysteresis(), np.linspace(0, 3, 31)
    march = propagator_for(model, integrator_named("runge_kutta"), ())
    grid = grid_of(model, Experiment(time=time, mode="on"), 4)
    whole = march.run(grid, np.array([0, 30]), np.array([[1.5]]), np.zeros(0), False)
    cut = np.array([0, 2, 11, 17, 30])
    parts = march.run(grid, cut, whole.states[cut[:-1]], np.zeros(0), False)
    np.testing.assert_array_equal(parts.modes, whole.modes)
    assert set(whole.modes) == {0, 1}


def test_no_possible_mode_is_answered_with_the_state():
    model = EquationModel(states=["x"], modes={"a": Mode(rate={"x": "1"}, invariant="x > 0"),
                                               "b": Mode(rate={"x": "2"}, invariant="x < 0")},
                          transitions=[Transition("a", "b", when="x < 0"), Transition("b", "a", when="x > 0")])
    with pytest.raises(ProblemError, match=r"no mode is possible with x = 0 \(no invariant holds"):
        simulated(model, {}, {"x": 0.0}, np.linspace(0, 1, 3))
    found = simulated(model, {}, {"x": 0.0}, np.linspace(0, 1, 3), mode="a")
    assert found.states["x"][-1] == pytest.approx(1.0)


def test_a_mode_that_the_model_does_not_have_is_named():
    run = Experiment(time=[0, 1, 2], outputs={"T": [1.0, 1.0, 1.0]}, mode="onn")
    with pytest.raises(ProblemError, match=r"the model has no mode 'onn'. Did you mean 'on'"):
        di.Problem(hysteresis(), [run])
    with pytest.raises(ProblemError, match="the model has no mode 'onn'"):
        di.simulate(hysteresis(), {"T(0)": 1.0}, run)


def test_schemes_that_cannot_end_a_step_at_an_event_say_so():
    can = []
    for integrator in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)]:
        try:
            propagator_for(oscillator(), integrator, ())
            can.append(integrator.name)
        except NotSupported as sentence:
            assert "Use radau5, runge_kutta" in str(sentence)
    assert can == ["euler", "heun", "simpson", "runge_kutta", "radau5"]


def test_a_simulation_that_blows_up_between_events_says_when():
    model = EquationModel(states=["x"], modes={"slow": Mode(rate={"x": "1"}), "fast": Mode(rate={"x": "x**3"})},
                          transitions=[Transition("slow", "fast", when="x > 1")])
    march = propagator_for(model, integrator_named("runge_kutta"), ())
    grid = grid_of(model, Experiment(time=np.linspace(0, 5, 51)), 1)
    with pytest.raises(SimulationDiverged, match=r"no longer finite at t = 1[.]"):
        march.run(grid, np.array([0, 50]), np.array([[0.0]]), np.zeros(0), False)


# conditions that are no numbers, and conditions that begin together


def falling(*transitions, rate="-1"):
    return EquationModel(states=["h"], modes={"full": Mode(rate={"h": rate}), "low": Mode(rate={"h": "0"}),
                                              "other": Mode(rate={"h": "0"})},
                         transitions=[*transitions, Transition("low", "other", when="h > 9")])


def everywhere(model, start, samples, sens=False):
    """States at the end of 3 s, and the mode: of the compiled loop where there is one, and of the interpreted."""
    grid = grid_of(model, Experiment(time=np.linspace(0, 3, samples)), 1)
    scheme, cut = integrator_named("runge_kutta"), np.array([0, samples - 1])
    for march in (event_propagator_for(model, scheme, ()), InterpretedEventPropagator(EventPropagatorKey(model, scheme, ()))):
        out = march.run(grid, cut, np.array([[start]]), np.zeros(0), sens)
        yield out.states[-1, 0], model.modes[out.modes[-1]]


@pytest.mark.parametrize("samples", [4, 11, 12, 24])
def test_a_condition_that_is_passed_on_the_way_to_no_number_is_found(samples):
    model = falling(Transition("full", "low", when="sqrt(h) < 0.1"))
    for h, mode in everywhere(model, 1.0, samples, sens=True):
        assert (h, mode) == (pytest.approx(0.01, abs=1e-10), "low")


@pytest.mark.parametrize("samples", [4, 11, 12])
def test_a_condition_that_turns_into_no_number_is_named(samples):
    model = falling(Transition("full", "low", when="sqrt(h) > 1.5"))
    with pytest.raises(SimulationDiverged, match=r'"sqrt\(h\) > 1.5" of full -> low is no longer a number .* at t = 1$'):
        list(everywhere(model, 1.0, samples))
    with pytest.raises(SimulationDiverged, match="no longer a number"):
        list(everywhere(falling(Transition("full", "low", when="log(-h) > 1")), 1.0, samples))


def test_a_condition_that_is_no_number_does_not_hide_another():
    for order in (1, -1):
        both = [Transition("full", "other", when="sqrt(h) > 1.5"), Transition("full", "low", when="h < 0")][::order]
        for h, mode in everywhere(falling(*both), 1.0, 11):
            assert (h, mode) == (pytest.approx(0.0, abs=1e-12), "low")


def test_a_quotient_that_is_no_number_at_the_begin_only_is_followed():
    model = falling(Transition("full", "low", when="h/t < -2"), rate="-t**2")
    for h, mode in everywhere(model, 0.0, 31):  # h/t = -t**2/3
        assert (h, mode) == (pytest.approx(-math.sqrt(6) ** 3 / 3, rel=1e-8), "low")


def test_a_step_that_overshoots_the_domain_of_its_rate_still_ends_at_the_event():
    model = falling(Transition("full", "low", when="h < 0.01"), rate="-sqrt(h)")
    for samples in (11, 12, 13):
        for h, mode in everywhere(model, 1.0, samples):
            assert (h, mode) == (pytest.approx(0.01, abs=1e-12), "low")


@pytest.mark.parametrize("second", ["x > 1", "2*x > 2", "x + 0.1 > 1.1", "1000*x > 1000", "x**3 > 1"])
def test_of_conditions_that_begin_together_the_first_is_taken(second):
    for order, wanted in ((1, "b"), (-1, "c")):
        model = EquationModel(
            states=["x"], modes={"a": Mode(rate={"x": "1"}), "b": Mode(rate={"x": "0"}), "c": Mode(rate={"x": "0"})},
            transitions=[Transition("a", "b", when="x > 1"), Transition("a", "c", when=second)][::order])
        for samples in (13, 22, 23, 40):
            for _, mode in everywhere(model, 0.0, samples):
                assert mode == wanted


# nodes that are guesses


def bouncing():
    return EquationModel(states=["y", "v"], modes={"air": Mode(rate={"y": "v", "v": "-g"}, invariant="y >= 0")},
                         transitions=[Transition("air", "air", when="y < 0", reset={"v": "-e*v"})])


@pytest.mark.parametrize(("v", "after"), [(-2.0, 1.6), (3.0, 3.0)])
def test_a_ball_guessed_below_the_floor_bounces_if_it_falls_and_flies_on_if_it_rises(v, after):
    model, time, p = bouncing(), np.linspace(0, 0.4, 41), np.array([9.81, 0.8])
    grid = grid_of(model, Experiment(time=time), 1)
    scheme = integrator_named("runge_kutta")
    twin = InterpretedEventPropagator(EventPropagatorKey(model, scheme, (0, 1)))
    for march in (event_propagator_for(model, scheme, (0, 1)), twin):
        out = march.run(grid, np.array([0, 20, 40]), np.array([[1.0, 0.0], [-0.01, v]]), p, True)
        np.testing.assert_allclose(out.states[21:, 0], -0.01 + after * time[1:21] - 9.81 * time[1:21] ** 2 / 2, atol=ROUNDING)


def test_a_ball_guessed_too_deep_does_not_fall_through_the_floor():
    model, time = bouncing(), np.linspace(0, 4, 401)
    grid = grid_of(model, Experiment(time=time), 1)
    out = event_propagator_for(model, integrator_named("runge_kutta"), ()).run(
        grid, np.array([0, 20, 400]), np.array([[1.0, 0.0], [-0.5, -2.0]]), np.array([9.81, 1.0]), False)
    assert np.min(out.states[:, 0]) > -0.6


def test_a_segment_that_continues_the_one_before_keeps_its_mode_within_rounding():
    """A rest that is 1e-12 too fast is no slide: else breaking away would be free at every node."""
    model = EquationModel(
        states=["q", "v"], inputs=["u"],
        modes={"rest": Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fs"),
               "slide": Mode(rate={"q": "v", "v": "(u - Fc)/M"}, invariant="v > 0 or v == 0 and u > Fs")},
        transitions=[Transition("rest", "slide", when="u > Fs"),
                     Transition("slide", "rest", when="v < 0", reset={"v": 0})])
    time = np.linspace(0, 3, 31)
    grid = grid_of(model, Experiment(time=time, inputs={"u": np.where(time < 2, 1.5, 3.0)}), 1)
    p = np.array([{"Fs": 2.0, "Fc": 1.0, "M": 2.0}[name] for name in model.parameters])
    nodes = np.array([[0.0, 0.0], [0.0, 1e-12], [0.0, -1e-12], [0.1, 0.5]])
    scheme = integrator_named("runge_kutta")
    for march in (event_propagator_for(model, scheme, ()), InterpretedEventPropagator(EventPropagatorKey(model, scheme, ()))):
        out = march.run(grid, np.array([0, 5, 10, 25, 30]), nodes, p, False)
        assert [model.modes[m] for m in out.modes[:20]] == ["rest"] * 20
        assert model.modes[out.modes[20]] == "slide"
