"""Is noise said where it acts, and does no method ignore it?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.io.problem_file.read import read_problem, write_problem


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


@pytest.mark.parametrize("method", ["single_shooting", "multiple_shooting", "full_discretization", "least_squares", "kalman",
                                    "moving_horizon", "boundary_value", "set_membership"])
def test_a_method_that_takes_inputs_as_exact_says_so(method):
    for asked in (problem(di.Gaussian(0.03)), problem(None, {"u": di.Gaussian()})):
        with pytest.raises(di.NotSupported, match=r"noise of the input u.*prediction_error"):
            di.identify(asked, method, progress=False)


@pytest.mark.parametrize("method", ["single_shooting", "multiple_shooting", "full_discretization", "least_squares",
                                    "set_membership"])
def test_a_method_that_takes_the_model_as_undisturbed_says_so(method):
    with pytest.raises(di.NotSupported, match=r"process noise of x.*prediction_error"):
        di.identify(problem(None, {"x": di.Gaussian(0.1)}), method, progress=False)


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
