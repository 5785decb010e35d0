"""Are the parameters of a machine that sticks and slips found, with intervals that hold the truth?"""

import numpy as np
import pytest

import dynident as di
from dynident._util.codec import decode, encode
from dynident.models.equations import EquationModel
from dynident.models.hybrid import Mode, Transition
from dynident.models.library import servo_axis, stribeck, viscous

TRUTH = {"M": 60.0, "Fv": 150.0, "Fc": 20.0, "Fs": 28.0, "vs": 0.02, "offset": 1.0}
START = {"M": 40.0, "Fv": 100.0, "Fc": 12.0, "Fs": 20.0, "vs": 0.03, "offset": 0.0}
NOISE = 2e-5  # m
TIME = np.arange(0, 8, 0.01)
DRIVE = 1.6 * np.sin(2 * np.pi * 0.4 * TIME) + 0.5 * np.sin(2 * np.pi * 1.3 * TIME)  # it comes to rest five times
AXIS = servo_axis(viscous() + stribeck(), hybrid=True)
RECORD = {"time": TIME, "inputs": {"u": DRIVE}, "hold": "linear", "initial": {"q": 0.0, "v": 0.0}, "name": "axis"}


@pytest.fixture(scope="module")
def motion():
    return di.simulate(AXIS, TRUTH, di.Experiment(**RECORD))


def measured(motion, seed):
    error = NOISE * np.random.default_rng(seed).standard_normal(TIME.size)
    return di.Experiment(**RECORD, outputs={"position": motion.outputs["position"] + error},
                         noise={"position": di.Gaussian(NOISE)})


def asked(record, start=START):
    bounds = {name: (-10.0, 10.0) if name == "offset" else (0.01 * value, 10 * value) for name, value in TRUTH.items()}
    return di.Problem(AXIS, [record], [di.Parameter(name, start[name], lower=bounds[name][0], upper=bounds[name][1])
                                       for name in AXIS.parameters])


def test_the_record_sticks_and_slides_both_ways(motion):
    assert set(motion.modes) == {"stick", "forward", "backward"}
    assert np.count_nonzero((motion.modes[1:] == "stick") & (motion.modes[:-1] != "stick")) == 5


@pytest.mark.compiled
def test_shooting_over_events_finds_the_truth_from_far_away(motion):
    problem = asked(measured(motion, 0))
    single = di.identify(problem, di.single_shooting())
    multiple = di.identify(problem, di.multiple_shooting(segments=20))
    black_box = di.identify(problem, di.least_squares())
    for estimate in (single, multiple, black_box):
        assert estimate.converged
        for name, value in TRUTH.items():
            assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name), name
    for other in (multiple, black_box):
        for name in TRUTH:  # one optimum, found by three ways of taking derivatives
            assert abs(other.values[name] - single.values[name]) < 0.01 * single.uncertainty.std(name)
            assert other.uncertainty.std(name) == pytest.approx(single.uncertainty.std(name), rel=0.01)
    assert single.statistics["reduced_chi2"] == pytest.approx(1, abs=0.15)


@pytest.mark.compiled
def test_intervals_hold_the_truth_as_often_as_they_say(motion):
    inside = []
    for seed in range(100, 140):
        estimate = di.identify(asked(measured(motion, seed), start=TRUTH), di.single_shooting(substeps=1))
        for name, value in TRUTH.items():
            low, high = estimate.uncertainty.interval(name)
            inside.append(low <= value <= high)
    # 240 intervals in 40 independent records, about 2 independent directions each: 0.95 +- 3 sqrt(0.05 0.95/80)
    assert 0.87 < np.mean(inside) <= 1.0


def test_the_mode_is_kept_with_the_result_and_shown(motion, tmp_path):
    estimate = di.identify(asked(measured(motion, 0), start=TRUTH), di.multiple_shooting(segments=10))
    agree = estimate.trajectories[0].modes == motion.modes
    assert np.mean(agree) > 0.99  # samples beside an event may differ
    estimate.save(tmp_path / "result")
    again = di.load(tmp_path / "result")
    assert again.trajectories[0].modes.tolist() == estimate.trajectories[0].modes.tolist()
    page = (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    assert all(f"</svg>{mode}</span>" in page for mode in ("stick", "forward", "backward"))
    assert "<code>forward: d/dt q</code>" in page
    assert "forward → stick when v &lt; 0, then v = 0.0" in page
    bands = [container.get_label() for container in estimate.plot().axes[-1].containers]
    assert bands == list(dict.fromkeys(estimate.trajectories[0].modes.tolist()))


def test_a_validation_keeps_its_modes(motion):
    estimate = di.identify(asked(measured(motion, 0), start=TRUTH), di.single_shooting())
    validation = estimate.validate(measured(motion, 1))
    assert set(validation.trajectory.modes) == {"stick", "forward", "backward"}
    again = decode(type(validation), encode(validation), "a file")
    assert again.trajectory.modes.tolist() == validation.trajectory.modes.tolist()
    assert validation.fit["position"] > 99.9


def test_parameters_of_guards_and_resets_are_found():
    model = EquationModel(
        states=["y", "v"], parameters=["g", "e", "floor"], outputs={"height": "y"},
        modes={"air": Mode(rate={"y": "v", "v": "-g"})},
        transitions=[Transition("air", "air", when="y < floor", reset={"v": "-e*v"})])
    truth = {"g": 9.81, "e": 0.8, "floor": 0.05}
    time, rng = np.linspace(0, 2.2, 111), np.random.default_rng(7)
    run = {"time": time, "initial": {"y": 1.0, "v": 0.0}}
    height = di.simulate(model, truth, di.Experiment(**run)).outputs["height"]
    record = di.Experiment(**run, outputs={"height": height + 1e-3 * rng.standard_normal(time.size)},
                           noise={"height": di.Gaussian(1e-3)})
    problem = di.Problem(model, [record], [di.Parameter("g", 9.5), di.Parameter("e", 0.75, lower=0.1, upper=0.99),
                                           di.Parameter("floor", 0.02)])
    estimate = di.identify(problem, di.multiple_shooting(segments=11))
    assert estimate.converged
    for name, value in truth.items():
        assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name)


def test_a_start_from_which_modes_cannot_be_followed_is_refused_with_the_reason():
    model = EquationModel(states=["x"], modes={"up": Mode(rate={"x": "a"}, invariant="x <= 0"),
                                               "down": Mode(rate={"x": "-b"}, invariant="x >= 0")},
                          transitions=[Transition("up", "down", when="x > 0"), Transition("down", "up", when="x < 0")])
    time = np.linspace(0, 1, 11)
    record = di.Experiment(time=time, outputs={"x": time}, initial={"x": -0.5})
    with pytest.raises(di.DynidentError, match="without time passing"):
        di.identify(di.Problem(model, [record], [di.Parameter("a", 1.0), di.Parameter("b", 1.0)]),
                    di.single_shooting())


def block_and_record():
    """The first model of docs/howto/hybrid.md, pushed on and off."""
    model = EquationModel(
        states=["q", "v"], inputs=["u"], outputs={"position": "q"},
        modes={"rest": Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fs"),
               "slide": Mode(rate={"q": "v", "v": "(u - Fc)/M"}, invariant="v > 0 or v == 0 and u > Fs")},
        transitions=[Transition("rest", "slide", when="u > Fs"),
                     Transition("slide", "rest", when="v < 0", reset={"v": 0})])
    time = np.arange(0, 6, 0.01)
    return model, {"time": time, "inputs": {"u": 1.5 + 1.5 * np.sin(2 * time - 1.5)}, "hold": "linear",
                   "initial": {"q": 0.0, "v": 0.0}, "mode": "rest"}


def noisy(model, record, truth, output, std, seed):
    clean = di.simulate(model, truth, di.Experiment(**record)).outputs[output]
    y = clean + std * np.random.default_rng(seed).standard_normal(clean.size)
    return di.Experiment(**record, outputs={output: y}, noise={output: di.Gaussian(std)})


def finds(problem, truth):
    """The default and single shooting converge within four standard errors of the truth."""
    for method in (di.multiple_shooting(), di.single_shooting()):
        estimate = di.identify(problem, method)
        assert estimate.converged
        for name, value in truth.items():
            assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name), (method.kind, name)


def test_the_default_fits_a_block_whose_nodes_no_mode_allows():
    model, record = block_and_record()
    truth = {"M": 2.0, "Fs": 2.0, "Fc": 1.0}
    run = noisy(model, record, truth, "position", 0.002, 0)
    problem = di.Problem(model, [run], [di.Parameter(n, 0.95 * v, lower=0.1, upper=20) for n, v in truth.items()])
    finds(problem, truth)


@pytest.mark.parametrize("seed", [0, 20])
def test_the_default_fits_a_bouncing_ball(seed):
    model = EquationModel(
        states=["h", "v"], outputs={"height": "h"}, modes={"fly": Mode(rate={"h": "v", "v": "-g"}, invariant="h >= 0")},
        transitions=[Transition("fly", "fly", when="h < 0", reset={"v": "-e*v"})])
    record = {"time": np.linspace(0, 3, 151), "initial": {"h": 1.0, "v": 0.0}}
    truth = {"g": 9.81, "e": 0.8}
    run = noisy(model, record, truth, "height", 0.005, seed)
    problem = di.Problem(model, [run], [di.Parameter("g", 9.0, 5, 15), di.Parameter("e", 0.75, 0.1, 1)])
    finds(problem, truth)


def test_a_refused_start_advises_a_scheme_that_can_follow_modes():
    model = EquationModel(states=["x"], modes={"up": Mode(rate={"x": "a"}), "fast": Mode(rate={"x": "a*x**3"})},
                          transitions=[Transition("up", "fast", when="x > 1")])
    record = di.Experiment(time=np.linspace(0, 50, 51), outputs={"x": np.ones(51)}, initial={"x": 0.0})
    with pytest.raises(di.DynidentError, match="Choose other start values") as refused:
        di.identify(di.Problem(model, [record], [di.Parameter("a", 1.0)]), di.single_shooting())
    assert 'integrator="radau5"' in str(refused.value)
