"""Does the page of a filter call what it predicts, and by how much it errs, by their names and sizes?"""

from __future__ import annotations

import re

import numpy as np
import pytest

import dynident as di

TIME = np.arange(300.0)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A tank whose noise is in the model: the sensor errs by a hundredth of what the predictions do."""
    rng, h, course = np.random.default_rng(1), 1.5, []
    u = 2 + 0.8 * rng.normal(size=TIME.size).clip(-2, 2)
    for flow in u:
        course.append(h)
        h += 0.05 * flow - 0.08 * np.sqrt(h) + 0.01 * rng.normal()
    record = di.Experiment(TIME, {"u": u}, {"h": np.array(course) + 1e-4 * rng.normal(size=TIME.size)},
                           {"h": di.Gaussian(1e-4)})
    model = di.EquationModel(states={"h": "c*u - a*sqrt(h)"}, inputs=["u"], outputs=["h"])
    estimate = di.identify(di.Problem(model, [record], [di.Parameter("c", 0.06), di.Parameter("a", 0.1)],
                                      process_noise={"h": di.Gaussian(0.01)}), progress=False)
    file = tmp_path_factory.mktemp("page") / "page.html"
    di.report.html(estimate, file)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", file.read_text(encoding="utf-8")))


def test_innovations_are_no_errors_of_the_sensor(page):
    """In units of the sensor nearly all were outliers, and the noise allowed a fit that no prediction has."""
    said = re.search(r"300 measured values, .*? (\d+) beyond 4 times", page)
    assert said is not None and int(said[1]) <= 1
    allowed = re.search(r"fit of h ([\d.]+) % the noise allows ([\d.]+) %", page)
    assert allowed is not None and float(allowed[2]) == pytest.approx(float(allowed[1]), abs=1.0)


def test_innovations_are_called_so(page):
    assert "Innovations: by how much each sample differs from what was predicted" in page
    assert "of which noise of the model and of inputs is a part" in page
    assert "residuals belong if the noise is as stated" not in page


def test_a_page_without_filtered_parameters_shows_no_empty_table_of_them(page):
    assert "initial standard deviation" not in page and "Parameters over time" not in page


def test_what_a_filter_assumed_has_units(tmp_path):
    """The table of initial standard deviations and process noise was numbers alone."""
    record = di.Experiment(TIME[:50], outputs={"h": np.exp(-0.1 * TIME[:50])}, noise={"h": di.Gaussian(0.01)},
                           units={"time": "s"})
    tank = di.EquationModel(states={"h": "-k*h"}, outputs=["h"], units={"h": "m"})
    problem = di.Problem(tank, [record], [di.Parameter("k", 0.2, 0, 1, unit="1/s")])
    estimate = di.identify(problem, di.kalman(process_noise={"h": 0.02}, initial_std={"k": 0.25}), progress=False)
    shown = di.report.html(estimate, tmp_path / "page.html").read_text(encoding="utf-8")
    table = shown.split("process noise per second", 1)[1].split("</table>", 1)[0]
    assert "0.02 m<" in table and "0.25 1/s<" in table
