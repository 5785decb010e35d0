"""Claims: empty is normal: nothing measured, nothing left over, one sample, no inputs."""

import re
from dataclasses import replace

import drawings
import numpy as np
import pytest
import sample

import dynident.report as report
from dynident.estimate.estimate import Estimate, Iteration, Trajectory
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.statistics.covariance import Covariance


def written(estimate: Estimate, folder) -> str:
    """All ways to show an estimate, one after the other; the page."""
    assert str(estimate) and estimate._repr_html_()
    report.comparison_html({"only": estimate}, folder / "comparison.html")
    return report.html(estimate, folder / "page.html").read_text(encoding="utf-8")


def words(page: str) -> str:
    """What is read, without scripts, styles and data."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL))


def tiny(time: np.ndarray, measured: np.ndarray, free: bool = True) -> Estimate:
    """One state, one parameter, no input; the model says one everywhere."""
    model = sample.NamedModel(states=("x",), inputs=(), outputs=("y",), parameters=("a",))
    problem = Problem(model, [Experiment(time, outputs={"y": measured}, initial={"x": 1.0})],
                      [Parameter("a", start=2.0, free=free)])
    names = problem.names
    uncertainty = Covariance(names, np.full(len(names), 2.0), 0.01 * np.eye(len(names)), fixed=problem.fixed_values())
    model_says = np.ones_like(time)
    trajectory = Trajectory("experiment", time, {"x": model_says}, {"y": model_says})
    return Estimate(problem, sample.Options(), dict.fromkeys(names, 2.0) | problem.fixed_values(), uncertainty, True,
                    "Done.", 0.0, (trajectory,), ({"y": measured - model_says},))


def test_one_sample(tmp_path):
    assert "2.00" in written(tiny(np.array([0.0]), np.array([1.5])), tmp_path)


def test_a_perfect_fit_of_a_signal_that_never_moves(tmp_path):
    page = written(tiny(np.arange(50.0), np.ones(50)), tmp_path)
    assert "2.00" in page and 'id="residuals"' in page
    assert "nan" not in words(page).lower()


def test_a_record_of_which_a_signal_is_all_missing(tmp_path):
    made = sample.estimate()
    nothing = ({**made.residuals[0], "velocity": np.full(400, np.nan)},)
    page = written(replace(made, residuals=nothing, statistics={**made.statistics, "fit_velocity": np.nan}), tmp_path)
    assert "not defined" in page


def test_nothing_free_to_estimate(tmp_path):
    page = written(tiny(np.arange(5.0), np.zeros(5), free=False), tmp_path)
    assert "fixed" in page and 'id="correlation"' not in page


@pytest.mark.parametrize("cost", [np.nan, np.inf, 0.0, -3.0])
def test_a_history_that_met_a_wall(tmp_path, cost):
    history = (Iteration(0, 5.0, 0.0), Iteration(1, cost, 1.0), Iteration(2, 4.0, np.inf, np.nan))
    page = written(sample.not_converged(history=history, cost=cost), tmp_path)
    assert 'id="convergence"' in page
    assert "not converged" in words(page).lower()


def test_a_record_that_begins_late_keeps_its_times(tmp_path):
    time = 1.7e9 + np.arange(0.0, 1.0, 0.001)
    page = written(tiny(time, np.ones(1000)), tmp_path)
    chart = next(chart for chart in drawings.charts(page) if "over time" in chart.described)
    assert np.allclose(chart.panels[0].named("measured").x - 1.7e9, time - 1.7e9, atol=5e-5)
    assert "time − 1700000000<" in page  # from where the numbers at the axis are counted
