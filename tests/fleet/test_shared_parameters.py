"""Shared parameters: the fleet finds what one large problem with all records finds."""

from __future__ import annotations

import itertools
import sqlite3

import fleets
import numpy as np
import pyarrow.parquet as parquet
import pytest

import dynident as di
from dynident.fleet.shared_parameters import RecordSum, SharedParameterSolver, SharedState, accept_or_reject
from dynident.fleet.store import FILE
from dynident.tolerances import SHARED_STEP_TOLERANCE


def runs(count: int, **noise) -> list[di.Experiment]:
    """Records with one T, and a g of their own."""
    rng = np.random.default_rng(4)
    made = []
    for k in range(count):
        data = fleets.record(k, T=0.5, g=2.0 + 0.5 * rng.standard_normal())
        made.append(di.Experiment(data["t"], {"u": data["u"]}, {"y": data["y"]},
                                  noise or {"y": di.Gaussian(fleets.STD)}, name=f"run {k:02d}", initial={"x": 0.0}))
    return made


def parameters(**T) -> list[di.Parameter]:
    return [di.Parameter("T", **{"start": 1.0, "lower": 0.01, "upper": 10} | T), di.Parameter("g", 1.0, -10, 10)]


def own(changed: list[di.Parameter]) -> list[di.Parameter]:
    from dataclasses import replace

    return [replace(p, shared=p.name == "T") for p in changed]


@pytest.mark.parametrize("T", [{}, {"log": True}, {"prior": di.Prior(0.505, 0.002)}, {"upper": 0.48, "start": 0.3}],
                         ids=["plain", "logarithm", "prior", "bound"])
def test_fleet_finds_what_one_large_problem_finds(T, tmp_path):
    records = runs(6)
    found = di.fleet(di.Fleet(fleets.LAG, records, parameters(**T), di.single_shooting(), shared=["T"]), tmp_path / "r",
                     progress=False)
    whole = di.identify(di.Problem(fleets.LAG, records, own(parameters(**T))), di.single_shooting(), progress=False)
    assert found.shared is not None and found.shared.converged
    std = whole.uncertainty.std("T", "plain")
    at_bound = "upper" in T
    assert found.shared.values[0] == pytest.approx(whole.values["T"], abs=1e-12 if at_bound else 0.011 * std)
    if at_bound:
        assert found.shared.remarks == ("at its upper bound",)
        return
    # few records: the interval is that of the noise, as in the large problem
    assert found.shared.std("T") == pytest.approx(std, rel=1e-3)
    notes = parquet.read_table(tmp_path / "r" / "fleet.parquet")["notes"].to_pylist()
    for k, record in enumerate(found.records):
        name = f"g[{record}]"
        assert found.values["g"][k] == pytest.approx(whole.values[name], abs=0.02 * whole.uncertainty.std(name))
        if "autocorrelated" not in (notes[k] or ""):  # then a record of its own has a wider interval
            assert found.std["g"][k] == pytest.approx(whole.uncertainty.std(name, "plain"), rel=0.02)


def test_noise_of_unknown_size_is_estimated_per_record(tmp_path):
    records = runs(6, y=di.Gaussian())
    found = di.fleet(di.Fleet(fleets.LAG, records, parameters(), di.single_shooting(), shared=["T"]), tmp_path / "r",
                     progress=False)
    low, high = float(found.shared.low[0]), float(found.shared.high[0])
    assert low < 0.5 < high
    assert high - low < 0.02


def test_same_on_two_workers_and_after_an_interruption(tmp_path):
    asked = di.Fleet(fleets.LAG, runs(24), parameters(), di.single_shooting(), shared=["T"])
    alone = di.fleet(asked, tmp_path / "alone", progress=False)

    def interrupt(progress) -> None:
        if progress.what == "pass 1" and progress.done == 5:
            raise KeyboardInterrupt

    stopped = di.fleet(asked, tmp_path / "stopped", progress=interrupt)
    assert stopped.stopped and stopped.shared is None
    with sqlite3.connect(tmp_path / "stopped" / FILE) as base:
        assert base.execute("SELECT count(*) FROM result WHERE pass = 1").fetchone() == (5,)
    with di.process_pool(2) as pool:
        resumed = di.fleet(asked, tmp_path / "stopped", executor=pool, progress=False)
    assert np.array_equal(alone.shared.values, resumed.shared.values)
    assert (tmp_path / "alone" / "fleet.csv").read_bytes() == (tmp_path / "stopped" / "fleet.csv").read_bytes()


def test_intervals_of_many_records_hold_the_truth_and_agreement_is_said(tmp_path):
    found = di.fleet(di.Fleet(fleets.LAG, runs(25), parameters(), di.single_shooting(), shared=["T"]), tmp_path / "r",
                     progress=False)
    assert abs(found.shared.values[0] - 0.5) < 4 * found.shared.std("T")
    assert found.shared.agrees
    assert "how the 25 records differ" in found.shared.meaning
    assert "T_alone" in (tmp_path / "r" / "fleet.csv").read_text().split("\n")[0]


def test_parameter_that_is_not_shared_in_truth_is_found_out(tmp_path):
    records = runs(12)
    odd = fleets.record(99, T=0.6)
    records.append(di.Experiment(odd["t"], {"u": odd["u"]}, {"y": odd["y"]}, {"y": di.Gaussian(fleets.STD)}, name="odd",
                                 initial={"x": 0.0}))
    found = di.fleet(di.Fleet(fleets.LAG, records, parameters(), di.single_shooting(), shared=["T"]), tmp_path / "r",
                     progress=False)
    assert not found.shared.agrees
    assert "do NOT agree" in str(found)


@pytest.mark.slow
def test_interval_of_a_shared_value_covers_at_its_level(tmp_path):
    """Errors that are alike from sample to sample: the scatter between records keeps the promise, the noise would not."""
    inside = 0
    repeats = 30
    rng = np.random.default_rng(0)
    for k in range(repeats):
        records = []
        for r in range(20):
            data = fleets.record(100 * k + r, std=0.0)
            errors = rng.standard_normal(60)
            for i in range(1, 60):
                errors[i] = 0.9 * errors[i - 1] + np.sqrt(1 - 0.81) * errors[i]
            records.append(di.Experiment(data["t"], {"u": data["u"]}, {"y": data["y"] + fleets.STD * errors},
                                         {"y": di.Gaussian(fleets.STD)}, name=f"{r:02d}", initial={"x": 0.0}))
        found = di.fleet(di.Fleet(fleets.LAG, records, parameters(), di.single_shooting(), shared=["T"]),
                         tmp_path / str(k), progress=False)
        inside += bool(found.shared.low[0] <= 0.5 <= found.shared.high[0])
    assert inside >= 25  # 28.5 are expected; fewer than 25 has a probability of 0.3 %


def test_shared_names_and_methods_are_checked(tmp_path):
    with pytest.raises(di.ProblemError, match="shared names 'S'"):
        di.Fleet(fleets.LAG, runs(2), parameters(), shared=["S"])
    with pytest.raises(di.NotSupported, match="constraints"):
        di.Fleet(fleets.LAG, runs(2), parameters(), shared=["T"], constraints=["T <= g"])
    found = di.fleet(di.Fleet(fleets.LAG, runs(2), parameters(), di.kalman(), shared=["T"]), tmp_path / "r",
                     progress=False)
    assert "least squares" in found.failures[0].reason


class ArctanSolver(SharedParameterSolver):
    """Residuals arctan(T) / 0.01 and noise of size 1: from T = 2 every undamped Gauss-Newton step leads further away."""

    def sum_records(self, number, at, only=None):
        rows = 100 * np.array([[1 / (1 + at[0] ** 2), np.arctan(at[0])]])
        return RecordSum(rows, 99 + float(rows[0, 1] ** 2), 100, np.zeros((1, 1)), 0.0, frozenset({"run"}))


def test_a_step_that_overshoots_is_rejected_and_damped_until_the_cost_falls():
    solver = ArctanSolver(di.Fleet(fleets.LAG, runs(1), parameters(lower=-100, upper=100), shared=["T"]), None, None)
    states = [SharedState("records", trial=1, at=(2.0,))]
    while not states[-1].finished:
        states.append(accept_or_reject(solver, states[-1]))
    accepted = [s.accepted_at[0] for s in states[1:]]
    assert any(s.rejected for s in states)  # it did overshoot
    assert all(abs(later) <= abs(sooner) for sooner, later in itertools.pairwise(accepted))
    assert states[-1].converged
    assert abs(accepted[-1]) < SHARED_STEP_TOLERANCE * 0.01  # standard error of T
