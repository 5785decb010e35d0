"""A real arm: how well do torques of a motion that was not fitted come out, beside least squares on Pinocchio's regressor?

UR10e, records of Mamedov and Mikhel (Frontiers in Robotics and AI, 2020), which are not part of the project: set DYNIDENT_UR10E
to the folder that holds ur10e.urdf, excitation.csv and point_to_point.csv, or put them at ../shared/data/ur10e beside the
project. A smoke run takes a simulated two-link arm. All settings are the defaults; the second record is only predicted. Both
sides have the same filters, laws of friction and samples. Coverage: torques of the identified arm along its own motion,
with errors as correlated and as large as those that were found.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter
from timing import SMOKE, Line, Result, main, of_peer, once, size, spoken

import dynident as di
from dynident.inverse_dynamics.setup import LOWPASS_ORDER, ArmAlongMotion, TorqueRecord, torque_record

GAINS = [14.87, 13.26, 11.13, 10.62, 11.03, 11.47]  # N m/A, as published with the records
PROTOTYPE = "1.66 1.79 0.51 0.13 0.22 0.15"  # N m; with load-dependent friction chosen by a look at the second record
MOVING = 0.03  # rad/s
REPEATS = size(8, 2)
CORRELATION = 0.98  # of the torque errors, from one sample to the next
COVERED = 0.9
LONGEST_FORWARD = 60.0  # s of CPU


def folder() -> Path:
    beside = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "ur10e"
    return Path(os.environ.get("DYNIDENT_UR10E", beside))


def arm_and_records() -> tuple[di.RobotModel, di.Experiment, di.Experiment]:
    """The arm, the record to fit and the one to predict."""
    if SMOKE:
        arm = di.RobotModel(di.library.two_link_urdf(), motor_inertia=True, offset=True)
        values = arm.nominal_inertial() | dict.fromkeys(arm.drive_names, 1.0)
        plans = [di.excitation(arm, duration=5, harmonics=2, seed=seed) for seed in (0, 1)]
        time = np.arange(0, 5, 0.01)
        runs = [along(arm, time, plan.motion(time), values, f"run {k}", k, [0.05, 0.05]) for k, plan in enumerate(plans)]
        return arm, runs[0], runs[1]
    arm = di.RobotModel(folder() / "ur10e.urdf", motor_inertia=True, offset=True)
    fitted, predicted = (di.read_robot(folder() / f"{name}.csv", arm, gains=GAINS) for name in ("excitation", "point_to_point"))
    return arm, fitted, predicted


def along(arm: di.RobotModel, time: np.ndarray, motion: Sequence[np.ndarray], values: dict[str, float], name: str, seed: int,
          std: Sequence[float]) -> di.Experiment:
    """The record of an arm that asks for these torques, with coloured errors."""
    q, dq, ddq = motion
    n = range(arm.dof)
    names = {f"{kind}{k + 1}": signal[:, k] for kind, signal in (("q", q), ("dq", dq), ("ddq", ddq)) for k in n}
    exact = di.simulate(arm.inverse, {p: values[p] for p in arm.inverse.parameters},
                        di.Experiment(time, inputs={u: names[u] for u in arm.inverse.inputs})).outputs
    white = np.random.default_rng(seed).normal(size=(time.size + 500, arm.dof))
    errors = lfilter([np.sqrt(1 - CORRELATION**2)], [1, -CORRELATION], white, axis=0)[500:] * np.asarray(std)
    return di.Experiment(time, inputs={f"tau{k + 1}": exact[f"tau{k + 1}"] + errors[:, k] for k in n}, hold="linear", name=name,
                         outputs={**{f"q{k + 1}": q[:, k] for k in n}, **{f"dq{k + 1}": dq[:, k] for k in n}})


def rms_moving(record: TorqueRecord, predicted: np.ndarray) -> str:
    """(m, dof) torques at the samples that are kept -> RMS of each joint while it moves, N m."""
    error, speed = record.filtered(record.torque) - predicted, np.abs(record.motion.dq[record.rows])
    return " ".join(f"{np.sqrt(np.mean(error[speed[:, k] > MOVING, k] ** 2)):.3g}" for k in range(error.shape[1]))


def peer_lines(arm: di.RobotModel, records: Sequence[TorqueRecord]) -> list[Line]:
    """Ordinary and weighted least squares on Pinocchio's regressor, filtered as ours."""
    said, answer = ask_peer("pinocchio", arm, records)
    if isinstance(said, str):
        return [Line("least squares on Pinocchio's regressor", said)]
    links = [answer[f"links_{i}"] for i in range(len(records))]
    rows = [np.concatenate([r.filtered(its), r.filtered(drives(r))], axis=2) for r, its in zip(records, links, strict=True)]
    lines, weight = [], np.ones(arm.dof)
    target = records[0].filtered(records[0].torque)
    for name in ("ordinary", "weighted by joint"):
        matrix = (rows[0] * weight[:, None]).reshape(-1, rows[0].shape[2])
        found = np.linalg.lstsq(matrix, (target * weight).ravel(), rcond=1e-8)[0]
        weight = 1 / np.sqrt(np.mean((target - rows[0] @ found) ** 2, axis=0))
        lines.append(Line(f"{name} least squares on Pinocchio's regressor: RMS in N m of each joint while it moves",
                          rms_moving(records[1], rows[1] @ found)))
    return lines


def figaroh_lines(arm: di.RobotModel, records: Sequence[TorqueRecord]) -> list[Line]:
    """FIGAROH's own way, filtered as ours."""
    said, answer = ask_peer("figaroh", arm, records)
    if isinstance(said, str):
        return [Line("FIGAROH's least squares", said)]
    return [Line("FIGAROH: base parameters, median of standard errors over values, and time",
                 f"{said['base']}; {said['relative_std']:.0f} %; {spoken(said['cpu'])} CPU"),
            *(Line(f"FIGAROH's {name} least squares: RMS in N m of each joint while it moves",
                   rms_moving(records[1], answer[key]))
              for name, key in (("ordinary", "ordinary"), ("weighted by joint", "weighted")))]


def ask_peer(peer: str, arm: di.RobotModel, records: Sequence[TorqueRecord]) -> tuple[Any, dict[str, np.ndarray]]:
    """What it says, and the arrays that it writes; a sentence and nothing where it is not there."""
    with tempfile.TemporaryDirectory() as place:
        given, answered = Path(place, "motion.npz"), Path(place, "answer.npz")
        np.savez(given, **{f"{kind}_{i}": getattr(record.motion, kind) for i, record in enumerate(records)
                           for kind in ("q", "dq", "ddq")}, **{f"torque_{i}": r.torque for i, r in enumerate(records)})
        said = of_peer(Path(__file__).with_name("robot_arm_peers.py"), peer, {
            "urdf": arm.urdf.text, "joints": arm.joints, "motion": str(given), "answer": str(answered), "order": LOWPASS_ORDER,
            "cutoff": [r.parallel for r in records], "rate": [r.motion.rate for r in records],
            "rows": [r.rows.tolist() for r in records]})
        return said, {} if isinstance(said, str) else dict(np.load(answered))


def drives(record: TorqueRecord) -> np.ndarray:
    """(n, dof, 4 dof) Coulomb, viscous, offset and motor columns."""
    dq, ddq, dof = record.motion.dq, record.motion.ddq, record.motion.dq.shape[1]
    columns = np.stack([np.tanh(dq / 0.01), dq, np.ones_like(dq), ddq], axis=2)  # (n, dof, 4)
    return np.einsum("nkc,kj->nkjc", columns, np.eye(dof)).reshape(len(dq), dof, 4 * dof)


def coverage(arm: di.RobotModel, found: di.Estimate, motion: Sequence[np.ndarray], time: np.ndarray) -> Line:
    truth, hits = dict(found.robot.parameters), []
    for seed in range(REPEATS):
        again = along(arm, time, motion, truth, "again", seed, list(found.noise_std.values()))
        for b in di.identify(di.Problem(arm, [again]), di.inverse_dynamics(consistent=False), progress=False).base:
            hits.append(b.interval[0] <= sum(c * truth[name] for name, c in b.coefficients.items()) <= b.interval[1])
    share = float(np.mean(hits))
    return Line(f"95 % intervals that hold the truth, {REPEATS} simulated records along the same motion, errors of correlation "
                f"{CORRELATION}", f"{100 * share:.0f} % of {len(hits)}", f"{100 * COVERED:.0f} %",
                None if SMOKE else share >= COVERED)


def run() -> Result:
    if not SMOKE and not (folder() / "ur10e.urdf").exists():
        raise RuntimeError(f"the UR10e's records are not at {folder()}; set DYNIDENT_UR10E")
    arm, fitted, predicted = arm_and_records()
    seconds, found = once(lambda: di.identify(di.Problem(arm, [fitted]), di.inverse_dynamics(), progress=False))
    first = torque_record(arm, fitted, "auto", "auto")
    records = (first, torque_record(arm, predicted, first.cutoff, first_step(first)))
    torque, _ = ArmAlongMotion.of(arm, records[1].motion).torque_and_jacobian(found.robot.parameters)
    motion = (first.motion.q, first.motion.dq, first.motion.ddq)
    sure = f"{np.median([100 * b.std / abs(b.value) for b in found.base]):.0f} %"
    lines = [Line("inverse dynamics, defaults: base parameters, median of standard errors over values, and time",
                  f"{len(found.base)}; {sure}; {spoken(seconds)} CPU"),
             Line("the same: RMS in N m of each joint while it moves", rms_moving(records[1], records[1].filtered(torque))),
             *peer_lines(arm, records), *figaroh_lines(arm, records), coverage(arm, found, motion, first.motion.time),
             *forward_lines(arm, fitted)]
    setting = (f"{fitted.samples:,} samples fitted; a second record is predicted. A prototype whose friction laws "
               f"were chosen with a look at the second record reached {PROTOTYPE}.")
    return Result("A real arm: UR10e", setting, lines)


def forward_lines(arm: di.RobotModel, fitted: di.Experiment) -> list[Line]:
    """Forward dynamics by multiple shooting, all parameters free, from the values of the file."""
    softer = di.RobotModel(arm.urdf, motor_inertia=True, offset=True, sign_velocity=0.05)
    noise = {name: di.Gaussian(1e-3 if name[0] == "q" else 1e-2) for name in arm.outputs}
    begin, seconds = float(fitted.time[0]), np.arange(int(np.ptp(fitted.time)))
    pieces = [replace(fitted.window(begin + t, begin + t + 1, name=f"{t} s"), noise=noise) for t in seconds]
    lines = []
    for what, model, runs in (("the whole record, noise to be estimated", arm, [fitted]),
                              (f"{len(pieces)} pieces of 1 s, noise given, signs over 0.05 rad/s", softer, pieces))[SMOKE:]:
        free = [di.Parameter(name) for name in model.parameters]
        problem = di.Problem(model, runs, free)
        cpu, ended = once(lambda problem=problem: forward_fit(problem))
        lines.append(Line(f"forward dynamics, {len(free)} parameters free, no start values given: {what}",
                          f"{'converged' if ended.converged else 'not converged'}, {spoken(cpu)} CPU", "under 60 s",
                          ended.converged and cpu < LONGEST_FORWARD))
    return lines


def forward_fit(problem: di.Problem) -> di.Estimate:
    """The estimate, converged or not."""
    try:
        return di.identify(problem, di.multiple_shooting(), progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate


def first_step(record: TorqueRecord) -> int:
    """Every so many-th sample was kept."""
    return int(record.rows[1] - record.rows[0])


if __name__ == "__main__":
    main(run)
