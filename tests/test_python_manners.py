"""Claims: what Python users meet: short reprs, tables as data, one figure, progress in a notebook."""

from __future__ import annotations

import io
import sys
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dynident as di
from dynident._util import progress
from dynident._util.data_classes import MOST_LINES

TIME = np.linspace(0, 5, 2001)
RECORD = di.Experiment(TIME, {"u": np.sin(3 * TIME)}, {"y": np.exp(-TIME)}, {"y": di.Gaussian(0.01)}, name="run")
MODEL = di.EquationModel(states={"x": "-k*x + b*u"}, outputs={"y": "x"}, inputs=["u"])
PROBLEM = di.Problem(MODEL, [RECORD], [di.Parameter("k", 0.8, unit="1/s"), di.Parameter("b", 0.1)])


@pytest.fixture(scope="module")
def estimate() -> di.Estimate:
    return di.identify(PROBLEM, "single_shooting", progress=False)


@pytest.fixture(scope="module")
def shown(estimate) -> dict[str, object]:
    """Public objects with data in them."""
    long = di.EquationModel(states={f"x{i}": f"-k*x{i} + x{(i + 1) % 40}" for i in range(40)})
    return {"record": RECORD, "model": MODEL, "long model": long, "problem": PROBLEM, "parameter": di.Parameter("k", 1),
            "estimate": estimate, "trajectory": estimate.trajectories[0], "validation": estimate.validate(RECORD),
            "check": di.check(PROBLEM), "method": di.multiple_shooting(), "uncertainty": estimate.uncertainty,
            "comparison": di.compare(PROBLEM, ["single_shooting", "multiple_shooting", "full_discretization"]),
            "structure": di.structural_identifiability(MODEL, {"k": 1, "b": 2}, duration=2),
            "profile": di.profile(estimate, ["k"]), "bootstrap": di.bootstrap(estimate, repeats=20),
            "noise": di.Gaussian(np.full(2001, 0.1)), "iteration": estimate.history[-1], "verdict": estimate.verdict,
            **shown_of_other_methods()}


def shown_of_other_methods() -> dict[str, object]:
    filtered, smoothed = (di.identify(PROBLEM, name, progress=False) for name in ("kalman", "boundary_value"))
    bounded = di.Experiment(TIME, outputs={"y": np.exp(-TIME)}, noise={"y": di.Bounded(0.1)}, initial={"x": 1.0})
    decay = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    proved = di.identify(di.Problem(decay, [bounded], [di.Parameter("k", 1, 0.5, 2)]),
                         di.set_membership(max_boxes=20, algorithm="recursive"), progress=False)
    bvp = di.solve_bvp(lambda t, y: [y[1], -y[0]], lambda a, b: [a[0], b[0] - 1], (0, 1), [0, 0])
    return {"filtered": filtered.filtered, "filter record": filtered.filtered.records[0], "filter": filtered.uncertainty,
            "smoothed": smoothed.smoothed, "smoother record": smoothed.smoothed.records[0], "enclosure": proved.uncertainty,
            "boundary solution": bvp, "fleet": di.Fleet(MODEL, [RECORD.with_name(f"r{i}") for i in range(50)],
                                                        [di.Parameter("k", 0.8), di.Parameter("b", 0.1)])}


def test_repr_of_every_object_fits_on_a_screen(shown):
    long = {name: (len(repr(it).splitlines()), len(repr(it))) for name, it in shown.items()
            if len(repr(it).splitlines()) > MOST_LINES or len(repr(it)) > 80 * MOST_LINES}
    assert long == {}


@pytest.mark.slow
def test_repr_of_a_plan_and_of_a_fleet_fits_on_a_screen(tmp_path):
    plan = di.design_input(PROBLEM, di.signals.PiecewiseConstant(4), constraints=["abs(u) <= 1"], duration=2.0, starts=1,
                           use_records=False, progress=False)
    time = np.linspace(0, 3, 16)
    records = [di.Experiment(time, outputs={"x": np.exp(-(0.5 + 0.005 * i) * time)}, name=f"r{i}") for i in range(100)]
    fleet = di.Fleet(di.EquationModel(states={"x": "-k*x"}), records, [di.Parameter("k", 0.8)])
    result = di.fleet(fleet, tmp_path, progress=False)
    for it in (plan, result):
        assert len(repr(it).splitlines()) <= MOST_LINES and len(repr(it)) <= 80 * MOST_LINES, type(it)


def test_estimate_as_data_holds_what_the_table_shows(estimate):
    rows = estimate.to_dict()
    low, high = estimate.uncertainty.interval("k")
    assert rows["k"] == {"value": estimate.values["k"], "std": estimate.uncertainty.std("k"), "low": low, "high": high,
                         "unit": "1/s", "fixed": False, "remark": ""}
    assert set(rows) == {"k", "b", "x(0)"}


def test_comparison_and_validation_as_data(shown, estimate):
    assert shown["comparison"].to_dict()["single_shooting"]["k"]["value"] == pytest.approx(estimate.values["k"], rel=1e-6)
    assert shown["validation"].to_dict()["y"]["fit"] == shown["validation"].fit["y"]


def test_to_pandas_makes_a_row_per_quantity_or_says_what_to_install(estimate, monkeypatch):
    class DataFrame:
        @staticmethod
        def from_dict(rows, orient):
            return rows, orient

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=DataFrame))
    assert estimate.to_pandas() == (estimate.to_dict(), "index")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(di.NotSupported, match="pip install pandas"):
        estimate.to_pandas()


def test_summary_says_how_it_ended_and_one_line_per_quantity(estimate):
    lines = estimate.summary().splitlines()
    assert estimate.verdict.sentence in lines[0] and lines[1].startswith("Converged")
    assert [line.split(" =")[0] for line in lines[2:5]] == ["k", "b", "x(0)"] and lines[-1].startswith("fit y")


def test_figure_is_shown_once_in_a_notebook(estimate, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    before = plt.get_fignums()
    figure = estimate.plot()
    assert plt.get_fignums() == before and figure.axes


def test_progress_in_a_notebook_is_one_line_that_vanishes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    di.identify(PROBLEM, "single_shooting")
    said = sys.stderr.getvalue()
    assert said.count("iteration") >= 1 and "\n" not in said and said.endswith("\r")
