"""Does the page show all that a smoother or a root finder found: states, errors with their band, steps, ways of parameters?"""

from __future__ import annotations

from dataclasses import replace

import drawings
import numpy as np
import pyarrow.parquet
import pytest

import dynident as di
from boundary.test_boundary_value import THESIS, fitted, simulated, spring
from dynident.errors import ProblemError
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.io.results.signal_tables import read_smoothed, smoothed_table
from dynident.report.estimate_charts import course_panels
from dynident.report.sections import convergence, states


@pytest.fixture(scope="module")
def estimate() -> di.Estimate:
    return fitted(spring(simulated(), (1.5, 1.5, 1.5)), process_noise={"v": 0.1, "k": 10**-0.5})


def test_states_that_are_no_outputs_are_drawn_with_their_interval(estimate):
    page = str(states.unmeasured_states(estimate))
    panels = [panel for chart in drawings.charts(page) for panel in chart.panels]
    assert [panel.title for panel in panels] == ["v"]  # y is measured, and drawn among the signals
    assert "95 % interval" in page and any("area" in curve.classes for curve in panels[0].curves)


def test_where_weights_are_no_variances_no_band_is_drawn():
    chosen = fitted(spring(simulated(), (1.5, 1.5, 1.5)), **THESIS)
    for section in (states.model_errors, states.unmeasured_states):
        page = str(section(chosen))
        drawn = [curve for chart in drawings.charts(page) for panel in chart.panels for curve in panel.curves]
        assert drawn and not any("area" in curve.classes for curve in drawn) and "95 %" not in page
    assert "no variances" in str(states.model_errors(chosen))


def test_band_of_model_errors_is_that_of_smoothed_ones(estimate):
    record = estimate.smoothed.records[0]
    v = record.names.index("v")
    panel = states.error_chart(record, estimate.smoothed, {}).panels[0]
    band = next(curve for curve in panel.curves if curve.look == "area")
    assert np.max(band.y_end) == pytest.approx(1.96 * np.nanmax(record.error_std[:, v]), rel=1e-4)


def test_ways_of_the_other_sign_are_drawn(estimate):
    """A parameter that begins at -3 and ends at 1, and one that begins at zero."""
    names = estimate.problem.names
    ways = {"m": (2.0, 1.2), "k": (-3.0, 0.5), "b": (0.0, 2.0)}
    history = [replace(estimate.history[0], number=i, values=tuple(
        ways[name][i] if i < 2 and name in ways else estimate.values[name] for name in names)) for i in range(3)]
    panels = course_panels(replace(estimate, history=tuple(history)), np.arange(3.0), [0])
    assert [panel.log for panel in panels] == [True, False]
    found = {curve.name: curve for panel in panels for curve in panel.curves}
    for name, way in ways.items():
        assert found[name].y == pytest.approx([*(w / estimate.values[name] for w in way), 1.0])


def test_a_rejected_step_with_a_new_jacobian_looks_rejected(estimate):
    made = tuple(PseudoTimeStep(1, "newton", 0.5, 1.0, 1.0, fresh, accepted)
                 for fresh in (True, False) for accepted in (True, False))
    symbols = [convergence.MARKS[convergence._mark(stride)] for stride in made]
    assert len(set(symbols)) == 4
    assert ["cross" in symbol for symbol in symbols] == [not stride.accepted for stride in made]
    page = str(convergence.root_finder_steps(replace(estimate, smoothed=replace(estimate.smoothed, strides=made))))
    above = drawings.charts(page)[0].panels[0]
    assert set(above.legend) == {"newton", *convergence.MARKS}  # the legend explains each
    assert sorted(above.symbols) == ["cross", "dot", "ring", "thin-cross"]
    assert "2 rejected" in page


def test_steps_of_a_second_round_stand_behind_those_of_the_first():
    made = tuple(PseudoTimeStep(number, "newton", 1.0, 1.0, 1.0, True, True) for number in (1, 2, 1, 2))
    lengths = convergence.root_finder_chart(made).panels[0].curves[0]
    assert lengths.x.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_table_that_lacks_a_column_is_refused_with_its_name(estimate, tmp_path):
    table = smoothed_table(estimate.smoothed)
    table = table.drop_columns([name for name in table.column_names if name.startswith("error_std.")])
    pyarrow.parquet.write_table(table, tmp_path / "old.parquet")
    with pytest.raises(ProblemError, match=r"old\.parquet cannot be used: it has no column 'error_std\."):
        read_smoothed(tmp_path / "old.parquet")


def test_without_a_band_of_the_errors_none_is_drawn(estimate):
    records = tuple(replace(r, error_std=np.full_like(r.error_std, np.nan)) for r in estimate.smoothed.records)
    assert "95 %" not in str(states.model_errors(replace(estimate, smoothed=replace(
        estimate.smoothed, records=records, drifting=()))))


def with_units(method):
    model = di.EquationModel(states={"x": "-k*x"}, units={"x": "m", "k": "1/s"})
    time = np.linspace(0, 5, 51)
    noisy = np.exp(-time) + 0.01 * np.random.default_rng(0).standard_normal(51)
    run = di.Experiment(time, outputs={"x": noisy}, noise={"x": di.Gaussian(0.01)}, units={"time": "s", "x": "m"})
    return di.identify(di.Problem(model, [run], [di.Parameter("k", 0.8, unit="1/s")]), method, progress=False)


def test_charts_of_a_filter_say_the_units_of_time_and_parameters():
    estimate = with_units(di.kalman())
    chart = states.filter_chart(estimate.filtered.records[0], estimate.filtered, states.units_of(estimate)[0])
    assert chart.across == "time (s)" and chart.panels[0].unit == "1/s"


def test_charts_of_model_errors_say_the_unit_of_a_rate():
    estimate = with_units(di.boundary_value(process_noise={"x": 0.1}))
    chart = states.error_chart(estimate.smoothed.records[0], estimate.smoothed, states.units_of(estimate)[0])
    assert chart.across == "time (s)" and chart.panels[0].unit == "m/s"


def test_the_name_that_was_given_heads_the_page(tmp_path, estimate):
    page = di.report.html(estimate, tmp_path / "page.html", name="Test rig 7").read_text()
    assert "<h1>Test rig 7</h1>" in page
