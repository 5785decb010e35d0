"""Is noise said where it acts, and does no method ignore it?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.methods.capabilities import Support
from dynident.methods.presets import METHODS, method_class


def problem(input_noise=None, process_noise=None, method=None):
    time = np.linspace(0, 5, 60)
    rng = np.random.default_rng(0)
    model = di.EquationModel(states={"x": "-k*x + u"}, inputs=["u"], outputs=["x"])
    noise = {"x": di.Gaussian(0.05)} | ({"u": input_noise} if input_noise else {})
    run = di.Experiment(time, {"u": np.sin(time)}, {"x": np.cos(time) + 0.05 * rng.normal(size=60)}, noise)
    return di.Problem(model, [run], [di.Parameter("k", 1.0)], process_noise=process_noise or {})


@pytest.mark.parametrize("noise", [di.Gaussian(0.03), di.Gaussian(), di.Gaussian(np.linspace(0.1, 0.2, 60))])
def test_noise_of_an_input_and_of_the_model_survive_a_problem_file(noise, tmp_path):
    asked = problem(noise, {"x": di.Gaussian(0.1)})
    write_problem(asked, None, tmp_path / "problem.toml")
    read = read_problem(tmp_path / "problem.toml").problem
    assert read.experiments[0].noise["u"] == noise and read.process_noise == asked.process_noise
    assert read.content_hash() == asked.content_hash() != problem().content_hash()


def test_problem_file_says_them_as_the_manual_does(tmp_path):
    write_problem(problem(), None, tmp_path / "problem.toml")
    text = (tmp_path / "problem.toml").read_text()
    said = text.replace('inputs = { u = "u" }', 'inputs.u = { column = "u", gaussian = 0.03 }')
    (tmp_path / "problem.toml").write_text(said + "\n[process_noise]\nx = true\n")
    read = read_problem(tmp_path / "problem.toml").problem
    assert read.noisy_inputs == ("u",) and read.process_noise == {"x": di.Gaussian()}


PLACES = {"sensor": (di.Gaussian(0.03), {}), "sensor, open": (di.Gaussian(), {}), "behind": (None, {"u": di.Gaussian()}),
          "state": (None, {"x": di.Gaussian(0.1)})}
SPREAD = ("multistart",)  # its row is that of the method inside
ROBOTS = ("inverse_dynamics",)  # takes no equations
EQUATIONS = [kind for kind in METHODS if kind not in (*SPREAD, *ROBOTS)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", EQUATIONS)
def test_a_method_takes_noise_where_its_row_says_so_and_refuses_it_else(kind, place):
    """Taken is what changes the answer: nothing ignores in silence what a problem says."""
    method, asked = method_class(kind)(), problem(*PLACES[place])
    if getattr(method.capabilities, "process_noise" if place == "state" else "input_noise") is Support.YES:
        with_it, without = (_interval(each, method) for each in (asked, problem()))
        assert with_it != without
        return
    said = "process noise of x" if place == "state" else "noise of the input u"
    for refusal in (lambda: method.check_supports(asked), lambda: di.identify(asked, method, progress=False),
                    lambda: di.multistart(method, points=[{"k": 1.0}]).check_supports(asked)):
        with pytest.raises(di.NotSupported, match=f"{said}.*prediction_error"):
            refusal()


def _interval(asked, method):
    try:
        found = di.identify(asked, method, progress=False)
    except di.NotConverged as end:
        found = end.estimate
    return found.uncertainty.interval("k")


@pytest.mark.parametrize(("place", "said"), [("sensor", "errors of the torques itself.*the input tau1"),
                                             ("behind", "errors of the torques itself.*the input tau1"),
                                             ("state", "states process noise of q")])
def test_robots_refuse_noise_that_a_fit_of_torques_does_not_take(place, said):
    arm, still = di.RobotModel(di.library.two_link_urdf()), np.zeros(50)
    record = di.Experiment(np.linspace(0, 1, 50), dict.fromkeys(arm.inputs, still), dict.fromkeys(arm.outputs, still),
                           {"tau1": di.Gaussian(0.1)} if place == "sensor" else {}, hold="linear")
    process = {"behind": {"tau1": di.Gaussian()}, "state": {arm.states[0]: di.Gaussian()}}.get(place, {})
    with pytest.raises(di.NotSupported, match=said):
        di.identify(di.Problem(arm, [record], [], process_noise=process), "inverse_dynamics", progress=False)


def test_every_method_is_asked():
    assert {*EQUATIONS, *SPREAD, *ROBOTS} == set(METHODS)


def test_filters_and_the_smoother_take_process_noise_from_the_problem():
    stated, told = problem(None, {"x": di.Gaussian(0.2)}), problem()
    for method in (di.kalman, di.moving_horizon, di.boundary_value):
        by_problem = di.identify(stated, method(), progress=False)
        by_method = di.identify(told, method(process_noise={"x": 0.2}), progress=False)
        assert by_problem.values["k"] == pytest.approx(by_method.values["k"], rel=1e-9)
    other = di.identify(stated, di.kalman(process_noise={"x": 0.4}), progress=False)
    assert other.filtered.process_noise == {"x": 0.4}  # what the method says comes first


def test_faults_name_the_thing():
    with pytest.raises(di.ProblemError, match=r"neither a state nor an input.*Did you mean 'x'"):
        problem(None, {"xx": di.Gaussian()})
    with pytest.raises(di.ProblemError, match=r"must be Gaussian\(std\) with one number"):
        problem(None, {"x": di.Bounded(0.1)})
    with pytest.raises(di.ProblemError, match="input 'u' is Bounded"):
        problem(di.Bounded(0.1))
    with pytest.raises(di.ProblemError, match="cannot tell them apart"):
        problem(di.Gaussian(0.1), {"u": di.Gaussian()})
