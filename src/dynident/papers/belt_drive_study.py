"""Filter paper, Sec. 4: its six schemes on the belt drive, free and inside of the augmented filter, by any reading of (32)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

import dynident as di
from dynident.kalman.method import KalmanMethod
from dynident.models.library import TYPICAL, belt_drive
from dynident.papers.belt_drive_rig import Cascade, Motion, closed_loop, set_points

SCHEMES: Mapping[str, str] = MappingProxyType({
    "EF": "euler", "SE": "symplectic_euler", "Heun": "heun", "LP": "leapfrog_printed", "RK3": "simpson", "RK4": "runge_kutta"})
TABLE_2: Mapping[str, tuple[int, int, int, float | None, float | None]] = MappingProxyType({
    "EF": (11, 13, 1, None, None), "SE": (11, 13, 1, 0.18, 0.16), "Heun": (28, 33, 2, 0.29, 0.19),
    "LP": (22, 31, 2, 0.13, 0.14), "RK3": (53, 58, 3, 0.07, 0.08), "RK4": (64, 72, 4, 0.06, 0.07)})
TABLE_3: Mapping[str, tuple[int, int, int, float, float]] = MappingProxyType({
    "EF": (29, 25, 2, 10.84, 725.32), "SE": (44, 29, 2, 3.26, 1.18), "Heun": (147, 110, 4, 3.61, 21.90),
    "LP": (172, 122, 4, 2.48, 3.08), "RK3": (327, 251, 6, 0.67, 4.56), "RK4": (434, 329, 8, 0.58, 2.51)})
BELT_SAMPLING = 1e-3  # s
REST = MappingProxyType({"phi": 0.0, "z": 0.0, "omega": 0.0, "v": 0.0})
NOISE = MappingProxyType({"motor_angle": 1e-9**0.5, "motor_speed": 1e-2**0.5})  # R of eq. (32)
AVERAGED_SECONDS = 2.0  # seconds at the end over which the estimates are averaged, as in the paper
STIFF = 8.0  # times Table 1: where the errors of Table 3 fit, and where forward Euler is unstable as the paper says


@dataclass(frozen=True, eq=False)
class BeltDriveRun:
    """The simulated test bed: what happened, at 1 kHz, and the values behind it."""

    name: str
    values: dict[str, float]
    time: np.ndarray
    torque: np.ndarray
    truth: di.Trajectory

    def record(self, outputs: dict[str, np.ndarray] | None = None) -> di.Experiment:
        noise = {name: di.Gaussian(std) for name, std in NOISE.items()} if outputs else {}
        return di.Experiment(self.time, {"tau": self.torque}, outputs or {}, noise, initial=dict(REST), hold="linear")


def belt_drive_run(stiffer: float = 1.0, motion: Motion | None = None, cascade: Cascade | None = None, name: str = ""
                   ) -> BeltDriveRun:
    """Closed loop at 16 kHz, four Runge-Kutta steps per sample; kept at 1 kHz. Inputs move linearly in between."""
    values = {**TYPICAL["belt_drive"], "c_spec": stiffer * TYPICAL["belt_drive"]["c_spec"]}
    fine = di.simulate(closed_loop(cascade), values, set_points(motion or Motion(duration=10.0)), substeps=4)
    each = slice(None, None, 16)
    truth = di.Trajectory(name, fine.time[each], {k: v[each] for k, v in fine.states.items()},
                          {k: v[each] for k, v in fine.outputs.items()})
    label = name or ("Table 1 as printed" if stiffer == 1 else f"{stiffer:g} times stiffer")
    return BeltDriveRun(label, values, truth.time, truth.outputs["torque"], truth)


def details(its: BeltDriveRun) -> list[np.ndarray]:
    """Where the first move reaches full speed, and where the second one does: details 1 and 2 of Fig. 4."""
    speed = its.truth.states["omega"]
    first = its.time[np.argmax(speed > 0.97 * np.max(speed[its.time < 0.8]))]
    second = its.time[np.argmax(speed < 0.97 * np.min(speed[its.time < 1.4]))]
    return [(its.time >= begin) & (its.time <= begin + 0.12) for begin in (first, second)]


def free_runs(its: BeltDriveRun, labels: Iterable[str] = SCHEMES) -> dict[str, np.ndarray | None]:
    """Motor speed of each discrete model, driven by the torque of the rig; None where it blows up."""
    runs: dict[str, np.ndarray | None] = {}
    for label in labels:
        try:
            run = di.simulate(belt_drive(), its.values, its.record(), integrator=SCHEMES[label], substeps=1).states["omega"]
            runs[label] = run if np.max(np.abs(run)) < 10 * np.max(np.abs(its.truth.states["omega"])) else None
        except di.ProblemError:
            runs[label] = None
    return runs


def nrmse(its: BeltDriveRun, run: np.ndarray | None) -> tuple[float, float] | None:
    """Root mean square error over the signal's range, in detail 1 and 2."""
    if run is None:
        return None
    exact = its.truth.states["omega"]
    first, second = (float(np.sqrt(np.mean((run - exact)[w] ** 2)) / np.ptp(exact[w])) for w in details(its))
    return first, second


@dataclass(frozen=True)
class Tuning:
    """A reading of eq. (32), or a tuning of our own."""

    name: str
    process: dict[str, float]
    initial: dict[str, float]
    per: str = "sample"


def readings(its: BeltDriveRun) -> list[Tuning]:
    """Eq. (32) with parameters in SI units, in kN, or relative to their values; its numbers as variances, or as stds."""
    units = {"SI units": (1.0, 1.0), "kN": (1e3, 1e3), "relative": (its.values["c_spec"], its.values["d"])}
    found = []
    for unit, (c, d) in units.items():
        for kind, power in (("variances", 0.5), ("standard deviations", 1.0)):
            quiet = dict.fromkeys(REST, 1e-10**power)
            found.append(Tuning(f"eq. (32) in {unit}, {kind}" if unit != "relative" else f"eq. (32) relative, {kind}",
                                {**quiet, "c_spec": c * 8e-12**power, "d": d * 8e-12**power},
                                {**quiet, "c_spec": c * 0.1**power, "d": d * 1e-6**power}))
    return found


def own_tunings(its: BeltDriveRun) -> list[Tuning]:
    """A prior as wide as the error of the start; with the noise of (32), or with noise on the forces alone."""
    wide = {"c_spec": 0.8 * its.values["c_spec"], "d": its.values["d"]}
    quiet, pseudo = dict.fromkeys(REST, 1e-5), 1e3 * 8e-12**0.5
    return [Tuning("eq. (32), wide prior", {**quiet, "c_spec": pseudo, "d": pseudo}, {**quiet, **wide}),
            Tuning("forces disturbed", {"omega": 0.03, "v": 0.003}, wide, "second")]


def filter_problem(its: BeltDriveRun, noisy: float = 1.0, seed: int = 1) -> di.Problem:
    """Measured motor angle and speed, spring and damping unknown, from Theta_init of eq. (32)."""
    rng = np.random.default_rng(seed)
    seen = {n: its.truth.outputs[n] + noisy * std * rng.standard_normal(its.time.size) for n, std in NOISE.items()}
    held = [di.Parameter(k, start=v, free=False) for k, v in its.values.items() if k not in ("c_spec", "d")]
    start = {"c_spec": 0.2 * its.values["c_spec"], "d": 2 * its.values["d"]}
    return di.Problem(belt_drive(), [its.record(seen)], [*held, *(
        di.Parameter(k, start=v, lower=1e-3 * v) for k, v in start.items())])


@dataclass(frozen=True, eq=False)
class FilterRun:
    """Errors of the last two seconds in %, mean squared innovations (2 is right), and the estimates over time."""

    spring: float
    damping: float
    nis: float
    time: np.ndarray
    values: dict[str, np.ndarray]


def run_filter(its: BeltDriveRun, problem: di.Problem, tuning: Tuning, label: str) -> FilterRun | None:
    """The augmented filter with one scheme; None where it breaks down."""
    method = KalmanMethod(integrator=SCHEMES[label], process_noise=tuning.process, initial_std=tuning.initial,
                       process_noise_unit=tuning.per)
    try:
        estimate = di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        if stopped.estimate is None or stopped.estimate.filtered is None:
            return None
        estimate = stopped.estimate  # diverged by its innovations: its numbers are of interest
    except di.ProblemError:
        return None
    assert estimate.filtered is not None
    record = estimate.filtered.records[0]
    late = its.time > its.time[-1] - AVERAGED_SECONDS
    values = {n: record.values[:, record.names.index(n)] for n in ("c_spec", "d")}
    spring, damping = (100 * abs(float(np.mean(values[n][late])) / its.values[n] - 1) for n in ("c_spec", "d"))
    return FilterRun(spring, damping, float(np.nanmean(record.nis[late])), record.time, values)


def run_filters(its: BeltDriveRun, tuning: Tuning, noisy: float = 1.0, seed: int = 1) -> dict[str, FilterRun]:
    """By scheme; those that break down are left out."""
    problem = filter_problem(its, noisy, seed)
    runs = {label: run_filter(its, problem, tuning, label) for label in SCHEMES}
    return {label: run for label, run in runs.items() if run is not None}
