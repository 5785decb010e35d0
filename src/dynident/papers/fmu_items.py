"""FMU paper, (7a), Table 1 and Figs. 1, 4 to 6: the delta robot through an FMU, its weights, intervals and tool chain.

The geometry is ours, since the paper gives none, and the record is made with the estimates of Table 1 and noise of 0.05 N m:
what is reproduced is that the tool chain finds known values, not the measured robot.
"""

from __future__ import annotations

import csv
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dynident as di
from dynident._util.progress import Tell
from dynident.methods.direct import SingleShooting
from dynident.papers.delta_robot import AXES, TABLE_1, delta_robot, pick_and_place
from dynident.papers.outcome import Outcome, compared, not_reproduced

NOISE = 0.05  # N m
WIDTHS = {"lower_arm_mass": 0.00350, "upper_arm_mass": 0.0211, "base_plate_mass": 0.0212, "inertia": 2.65e-6,
          "efficiency": 0.0136, "coulomb": 0.00158, "viscous": 1.92e-5}  # Table 1: half of the 95 % intervals
COSTS, RESIDUALS = (2.12e6, 1.25e6), 3 * 6250  # of (7a) before and after
OURS = "the geometry is ours and the record is simulated"


def robot_torques(samples: int, seed: int = 1, stds: tuple[float, ...] = (NOISE, NOISE, NOISE)) -> di.Experiment:
    """The motion of the paper's length at four speeds, and noisy torques."""
    time, inputs = pick_and_place(samples)
    truth = {name: value for name, (_, value) in TABLE_1.items()}
    torques = di.simulate(delta_robot(), truth, di.Experiment(time, inputs), substeps=1).outputs
    rng = np.random.default_rng(seed)
    noisy = {n: y + std * rng.normal(size=y.size) for (n, y), std in zip(torques.items(), stds, strict=True)}
    return di.Experiment(time, inputs, noisy, {n: di.Gaussian(std) for n, std in zip(torques, stds, strict=True)})


def parameter(name: str, start: float | None = None) -> di.Parameter:
    """Not negative; an efficiency of at most one. Without a start that of the FMU."""
    efficiency = name == "efficiency"
    return di.Parameter(name, start, lower=0.3 if efficiency else 0.0, upper=1.0 if efficiency else np.inf)


def _missing() -> str | None:
    """Why an FMU cannot be made here; None where it can."""
    from dynident.codegen.compiler import compiler

    try:
        import fmpy  # noqa: F401
    except ImportError:
        return "FMUs need FMPy: pip install dynident[fmu]"
    return None if compiler() else "the export of an FMU needs a C compiler"


def _fit(folder: str, samples: int) -> di.Estimate:
    from dynident.fmu.export import export_fmu

    fmu = export_fmu(delta_robot(), Path(folder, "delta_robot.fmu"), {n: start for n, (start, _) in TABLE_1.items()})
    problem = di.Problem(di.FmuModel(fmu), [robot_torques(samples)], [parameter(n) for n in TABLE_1])
    return di.identify(problem, progress=False)


def table_1(quick: bool, tell: Tell) -> Outcome:
    """All seven parameters through an FMU, from the table's start, with their intervals."""
    theirs = "seven parameters with 95 % intervals; cost 2.12e6 to 1.25e6"
    if (why := _missing()) is not None:
        return not_reproduced(theirs, why)
    with tempfile.TemporaryDirectory() as folder:
        estimate = _fit(folder, 1250 if quick else 6250)
    rows, inside = [], 0
    for name, (start, value) in TABLE_1.items():
        low, high = estimate.uncertainty.interval(name)
        inside += low <= value <= high
        rows.append((name, start, value, WIDTHS[name], estimate.values[name], (high - low) / 2))
    chi = 2 * COSTS[1] / RESIDUALS
    return compared(
        inside == len(rows), theirs,
        f"{inside} of 7 values of Table 1 inside our 95 % intervals; {estimate.counts['simulations']} simulations. Table 1's "
        f"own intervals: its cost over {RESIDUALS} residuals is a reduced chi-square of {chi:.0f}, so that they are "
        f"{chi**0.5:.0f} times too narrow", "some of the known values lie outside our intervals",
        ("parameter", "start", "Table 1", "Table 1: +-", "ours", "ours: +-"), rows, partial(_draw_table, rows), OURS)


def _draw_table(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis, at = figure.subplots(), np.arange(len(rows))
    axis.errorbar(at - 0.1, np.ones(len(rows)), [row[3] / row[2] for row in rows], fmt="ko", capsize=4, label="Table 1")
    axis.errorbar(at + 0.1, [row[4] / row[2] for row in rows], [row[5] / row[2] for row in rows], fmt="C0o", capsize=4,
                  label="ours, simulated record")
    axis.plot(at, [row[1] / row[2] for row in rows], "C1x", label="start")
    axis.set_xticks(at, [row[0] for row in rows], rotation=30)
    axis.set_ylabel("over Table 1")
    axis.legend(frameon=False)


def equation_7a(quick: bool, tell: Tell) -> Outcome:
    """Coverage of 95 % intervals over repeats, residuals divided by sigma^2 as printed, or by sigma as meant."""
    stds = np.array([0.05, 0.1, 0.2])
    time, inputs = pick_and_place(626)
    truth = {name: value for name, (_, value) in TABLE_1.items()}
    record = di.Experiment(time, inputs)

    def torques(values: dict[str, float]) -> np.ndarray:
        found = di.simulate(delta_robot(), values, record, substeps=1).outputs
        return np.concatenate([found[f"torque_{i}"] for i in AXES])

    slopes = np.column_stack([(torques({**truth, n: v * (1 + 1e-4)}) - torques({**truth, n: v * (1 - 1e-4)})) / (2e-4 * v)
                              for n, v in truth.items()])
    sigma = np.repeat(stds, time.size)
    noise = sigma * np.random.default_rng(0).standard_normal((400 if quick else 5000, sigma.size))
    rows, share = [], {}
    for name, weight in (("as printed, Sigma^-1", 1 / sigma**2), ("as meant, Sigma^-1/2", 1 / sigma)):
        J = slopes * weight[:, None]
        covariance = np.linalg.inv(J.T @ J)
        errors = (noise * weight) @ J @ covariance
        inside = np.abs(errors) <= 1.96 * np.sqrt(np.diag(covariance))
        share[name] = 100 * float(np.mean(inside))
        rows += [(name, n, 100 * float(np.mean(inside[:, k]))) for k, n in enumerate(truth)]
    printed, meant = share.values()
    return compared(
        93 <= printed <= 97, "(7a) weighs residuals by Sigma^-1 and calls the intervals 95 %",
        f"95 % intervals hold the truth in {printed:.0f} % of repeats as printed, in {meant:.0f} % as meant",
        "Sigma^-1 divides residuals by variances; the likelihood above (7a) divides by standard deviations",
        ("weights", "parameter", "coverage in %"), rows, partial(_draw_coverage, rows))


def _draw_coverage(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis = figure.subplots()
    for k, name in enumerate(dict.fromkeys(row[0] for row in rows)):
        mine = [row for row in rows if row[0] == name]
        axis.bar(np.arange(len(mine)) + 0.4 * k, [row[2] for row in mine], 0.38, label=name)
        axis.set_xticks(np.arange(len(mine)) + 0.2, [row[1] for row in mine], rotation=30)
    axis.axhline(95, color="k", ls="--", lw=0.8)
    axis.set_ylabel("coverage of 95 % intervals")
    axis.legend(frameon=False)


def figs_4_to_6(quick: bool, tell: Tell) -> Outcome:
    """A section of the torques of each arm, measured, with the start values and with the estimates."""
    record = robot_torques(1250 if quick else 6250)
    model = delta_robot()
    problem = di.Problem(model, [record], [parameter(n, start) for n, (start, _) in TABLE_1.items()])
    estimate = di.identify(problem, SingleShooting(), progress=False)  # Levenberg-Marquardt, as the paper
    before = di.simulate(model, {n: start for n, (start, _) in TABLE_1.items()}, record, substeps=1).outputs
    after = estimate.trajectories[0].outputs
    rows: list[Any] = [(f"arm {i}", *(float(np.sqrt(np.mean((record.outputs[f"torque_{i}"] - y[f"torque_{i}"]) ** 2)))
                           for y in (before, after))) for i in AXES]
    return compared(
        all(row[2] < row[1] for row in rows) and all(row[2] < 1.1 * NOISE for row in rows),
        "with the estimated parameters the accuracy of the model has been improved significantly (cost 2.12e6 to 1.25e6)",
        "; ".join(f"{row[0]}: error {row[1]:.3f} to {row[2]:.3f} N m" for row in rows), "the fit is not better than the start",
        ("arm", "RMS error with start values", "with estimates"), rows, partial(_draw_arms, record, before, after), OURS)


def _draw_arms(record: di.Experiment, before: Any, after: Any, figure: Any) -> None:
    axes = figure.subplots(3, 1, sharex=True)
    window = record.time < 3
    for axis, i in zip(axes, AXES, strict=True):
        axis.plot(record.time[window], record.outputs[f"torque_{i}"][window], color="0.7", lw=3, label="measured (simulated)")
        axis.plot(record.time[window], before[f"torque_{i}"][window], "C1--", lw=1, label="start")
        axis.plot(record.time[window], after[f"torque_{i}"][window], "C0", lw=1, label="estimated")
        axis.set_ylabel(f"arm {i} (N m)")
    axes[0].legend(frameon=False, fontsize="small", ncols=3)
    axes[2].set_xlabel("time (s)")


CONFIGURATION = """[model]
fmu = "delta_robot.fmu"

[[experiment]]
file = "record.csv"
time = "t"
inputs = [{inputs}]
outputs = {{ {outputs} }}

[parameters]
{parameters}
"""


def fig_1(quick: bool, tell: Tell) -> Outcome:
    """One configuration file, CSV and FMU to estimates, by the same reader that `dynident fit` uses."""
    theirs = "a configuration file names the FMU, the CSV files, parameters with start and bounds, and variances"
    if (why := _missing()) is not None:
        return not_reproduced(theirs, why)
    from dynident.io.problem_file.read import read_problem

    with tempfile.TemporaryDirectory() as folder:
        direct = _fit(folder, 626)
        record = robot_torques(626)
        columns = {"t": record.time, **record.inputs, **record.outputs}
        with Path(folder, "record.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(columns), *np.column_stack(list(columns.values())).tolist()])
        Path(folder, "problem.toml").write_text(CONFIGURATION.format(
            inputs=", ".join(f'"{n}"' for n in record.inputs),
            outputs=", ".join(f"{n} = {{ column = \"{n}\", gaussian = {NOISE} }}" for n in record.outputs),
            parameters="\n".join(f"{n} = {{ start = {start}, lower = 0 }}" for n, (start, _) in TABLE_1.items())),
            encoding="utf-8")
        asked = read_problem(Path(folder, "problem.toml"), allow_code=True).problem
        estimate = di.identify(asked, progress=False)
    rows = [(n, direct.values[n], estimate.values[n]) for n in TABLE_1]
    worst = max(abs(b - a) / direct.uncertainty.std(n) for n, a, b in rows)
    return compared(worst < 0.1, theirs, f"the same values as by Python, to {worst:.0e} standard errors",
                    "the file leads to other values", ("parameter", "by Python", "by the file"), rows)


def covariance(quick: bool, tell: Tell) -> Outcome:
    """Repeats with fresh noise: do the intervals hold the truth as often as they say, and are the masses one weak direction?"""
    truth = {name: value for name, (_, value) in TABLE_1.items()}
    inside, rows, correlation = [], [], 0.0
    for seed in range(12 if quick else 200):
        tell(f"repeat {seed}")
        record = robot_torques(313, seed)
        estimate = di.identify(di.Problem(delta_robot(), [record], [
            parameter(n, start) for n, (start, _) in TABLE_1.items()]), SingleShooting(), progress=False)
        ends = [estimate.uncertainty.interval(n) for n in truth]
        inside.append([low <= value <= high for (low, high), value in zip(ends, truth.values(), strict=True)])
        rows.append((seed, *(estimate.values[n] for n in truth)))
        matrix = estimate.uncertainty.correlation()
        assert matrix is not None
        correlation = max(correlation, float(np.max(np.abs(matrix[:3, :3] - np.eye(3)))))
    share = 100 * float(np.mean(inside))
    return compared(
        share >= 85, "covariance by Ceres, 95 % intervals",
        f"the truth lies inside {share:.0f} % of {7 * len(rows)} intervals; the masses are correlated by up to "
        f"{correlation:.2f}", "the intervals hold the truth too seldom",
        ("repeat", *truth), rows, partial(_draw_repeats, rows), OURS)


def _draw_repeats(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis = figure.subplots()
    for k, (_, value) in enumerate(TABLE_1.values()):
        axis.plot([k] * len(rows), [row[1 + k] / value for row in rows], "o", ms=3, alpha=0.5)
    axis.set_xticks(range(len(TABLE_1)), list(TABLE_1), rotation=30)
    axis.axhline(1, color="k", lw=0.8)
    axis.set(ylabel="estimate over truth")
