"""Outliers: odd machines are found, fleets without any raise few alarms, and poor knowledge is no oddity."""

from __future__ import annotations

import fleets
import numpy as np
import pytest

import dynident as di
from dynident.fleet.outliers import find_outliers, robust_centre, robust_spread


def drawn(rng, machines, days, between, within, error):
    names = np.repeat([f"m{k}" for k in range(machines)], days)
    std = error * np.exp(0.7 * rng.standard_normal(machines * days))
    values = (np.repeat(between * rng.standard_normal(machines), days) + within * rng.standard_normal(machines * days)
              + std * rng.standard_normal(machines * days))
    return list(names), [f"r{k}" for k in range(machines * days)], values, std


@pytest.mark.parametrize("machines, days, between, within", [(12, 1, 1.0, 0.0), (60, 1, 1.0, 0.0), (60, 1, 0.0, 0.0),
                                                             (15, 8, 1.0, 0.3)])
def test_fleet_without_odd_machines_raises_few_alarms(machines, days, between, within):
    rng, repeats = np.random.default_rng(0), 60
    alarms = np.zeros(2)
    for _ in range(repeats):
        found, _ = find_outliers("p", *drawn(rng, machines, days, between, within, 0.1))
        alarms += any(not s.record for s in found), any(s.record for s in found)
    assert np.all(alarms <= 8)  # 5 % are promised; more than 8 of 60 has a probability of 0.3 %


def test_odd_machine_and_odd_day_are_found_and_nobody_else():
    names, records, values, std = drawn(np.random.default_rng(1), 30, 10, 1.0, 0.2, 0.05)
    values[40:50] += 12  # m4
    values[77] += 4  # one day of m7
    found, centre = find_outliers("p", names, records, values, std)
    assert [(s.machine, s.record) for s in found] == [("m4", ""), ("m7", "r77")]
    assert centre.spread == pytest.approx(1.0, rel=0.5)
    assert "above the fleet's middle" in found[0].sentence("N")
    assert "above the machine's own middle" in found[1].sentence()


def test_machine_that_is_poorly_known_does_not_stand_out():
    names, records, values, std = drawn(np.random.default_rng(2), 40, 1, 0.1, 0.0, 0.1)
    values[3], std[3] = 5.0, 3.0
    assert "m3" not in [s.machine for s in find_outliers("p", names, records, values, std)[0]]
    std[3] = 0.1
    assert "m3" in [s.machine for s in find_outliers("p", names, records, values, std)[0]]


def test_spread_is_what_the_errors_do_not_explain():
    rng = np.random.default_rng(3)
    std = np.full(4000, 0.5)
    pure = 0.5 * rng.standard_normal(4000)
    assert robust_spread(pure, std) < 0.17  # a scale by medians of n values errs by 1.17 / sqrt(n): 3 times that
    centre = robust_centre(10 + pure + 1.2 * rng.standard_normal(4000), std)
    assert centre.spread == pytest.approx(1.2, rel=0.05)
    assert centre.middle == pytest.approx(10, abs=0.1)


def test_values_without_an_error_take_no_part():
    values = np.array([1.0, 2.0, 3.0, np.nan, 5.0, 4.0])
    std = np.array([np.inf, 0.1, 0.1, 0.1, 0.0, 0.1])
    assert find_outliers("p", [""] * 6, list("abcdef"), values, std) == ([], None)


def test_logarithms_are_compared_where_the_parameter_is_one():
    rng = np.random.default_rng(5)
    values = np.exp(rng.standard_normal(200))
    names = [f"m{k}" for k in range(200)]
    assert find_outliers("p", names, names, values, 0.01 * values, log=True)[0] == []
    assert find_outliers("p", names, names, values, 0.01 * values, log=False)[0] != []


def test_page_shows_names_as_text_and_who_stands_out(tmp_path):
    runs = []
    for k in range(12):
        data = fleets.record(k, g=2.0 + 0.01 * k + (3.0 if k == 5 else 0.0))
        runs.append(di.Experiment(data["t"], {"u": data["u"]}, {"y": data["y"]}, {"y": di.Gaussian(fleets.STD)},
                                  name=f"<b>{k}</b>", initial={"x": 0.0}))
    result = di.fleet(di.Fleet(fleets.LAG, runs, fleets.PARAMETERS, di.single_shooting()), tmp_path / "r", progress=False)
    page = (tmp_path / "r" / "fleet.html").read_text(encoding="utf-8")
    assert "<b>5</b>" not in page and "&lt;b&gt;5&lt;/b&gt;" in page
    assert "1 outlier machine." in page
    assert [s.machine for s in result.outliers] == ["<b>5</b>"]
    assert "No machine" not in page
