"""The filter paper's study, rerun: which of its rankings come out."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.integrators.operation_count import operation_counts
from dynident.models.library import belt_drive
from dynident.papers.belt_drive_rig import jerk_limited_move
from dynident.papers.belt_drive_study import STIFF, belt_drive_run, free_runs, own_tunings, run_filters

PAPER_DIVISIONS = {"euler": (1, 2), "symplectic_euler": (1, 2), "heun": (2, 4), "leapfrog_printed": (2, 4),
                   "simpson": (3, 6), "runge_kutta": (4, 8)}
PAPER_TOTALS = {"heun": 261, "leapfrog_printed": 298, "simpson": 584, "runge_kutta": 771}  # of Table 3


@pytest.mark.slow
def test_rankings_of_table_3_come_out_where_forward_euler_is_unstable():
    its = belt_drive_run(STIFF)
    table = run_filters(its, own_tunings(its)[-1])
    assert free_runs(its)["EF"] is None
    assert table["EF"].damping > 100  # the damping with Euler is ruined
    assert table["SE"].spring < table["Heun"].spring and table["SE"].damping < table["Heun"].damping
    assert table["LP"].spring < table["SE"].spring and max(table["RK4"].spring, table["RK4"].damping) < 1
    assert table["SE"].nis > 3 > table["RK4"].nis  # ... but only Runge-Kutta's filter knows how wrong it is


def test_multiplications_of_symplectic_euler_are_those_of_table_3_where_the_sampling_time_is_a_number():
    count = operation_counts(belt_drive(), "symplectic_euler", ["c_spec", "d"], jacobian=True, step=1e-3)
    assert (count.multiplications, count.divisions) == (44, 2)


@pytest.mark.parametrize("scheme", list(PAPER_DIVISIONS))
def test_divisions_of_a_step_are_those_of_the_paper(scheme):
    plain = operation_counts(belt_drive(), scheme)
    with_jacobian = operation_counts(belt_drive(), scheme, ["c_spec", "d"], jacobian=True)
    assert (plain.divisions, with_jacobian.divisions) == PAPER_DIVISIONS[scheme]


@pytest.mark.parametrize("scheme", list(PAPER_TOTALS))
def test_jacobians_cost_less_than_the_papers(scheme):
    found = operation_counts(belt_drive(), scheme, ["c_spec", "d"], jacobian=True)
    assert found.multiplications + found.additions + found.divisions < PAPER_TOTALS[scheme]


@pytest.mark.parametrize("distance", [1.0, 0.1, 0.003, -0.5])
def test_set_points_keep_their_limits_and_arrive(distance):
    t = np.linspace(0, 3, 30_001)
    limits = {"velocity": 1.2, "acceleration": 10.0, "jerk": 500.0}
    position, speed = jerk_limited_move(t, distance, **limits, start=0.2)
    h = t[1]
    acceleration = np.diff(speed) / h
    assert position[0] == 0 and position[-1] == pytest.approx(distance, rel=1e-12)
    assert np.max(np.abs(speed)) <= limits["velocity"] * (1 + 1e-9)
    assert np.max(np.abs(acceleration)) <= limits["acceleration"] * (1 + 1e-6)
    assert np.max(np.abs(np.diff(acceleration))) / h <= limits["jerk"] * (1 + 1e-6)
    assert np.max(np.abs(np.diff(position) / h - (speed[1:] + speed[:-1]) / 2)) < limits["jerk"] * h**2
