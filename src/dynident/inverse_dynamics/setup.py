"""Setup: from a measured record to motion, torques and regressor that were filtered alike.

Positions, velocities and torques are put on an even grid, the motion is smoothed by a zero-phase low-pass and differentiated,
and both sides of torque = regressor @ parameters pass the same second low-pass before only every n-th sample is kept: what
the filter takes from the torques it takes from the model too (parallel filtering; Gautier, IEEE ICRA 1997). What is left over
is an equation error, in torques, not an output error in positions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.experiment import Experiment
from dynident.robots.friction import FRICTION_LAWS
from dynident.robots.model import MOTOR_INERTIA, RobotModel
from dynident.tolerances import IDLE_JOINT

LOWPASS_ORDER = 4  # of the low-pass, which runs forth and back
MOTION_POWER = 0.999  # of the velocities' power lies below what is called the bandwidth of a motion
NOISE_FLOOR = 3.0  # times the median power of the upper half of the spectrum
FILTER_OVER_BANDWIDTH = 15.0  # cut-off of the motion's filter: far above, for the corners that friction makes at reversals
PARALLEL_OVER_BANDWIDTH = 7.5  # cut-off of the second filter, at least
PARALLEL_CUTOFF = 0.4  # of the kept sampling rate: 0.8 of its Nyquist frequency
KEPT_SAMPLES = 300  # at least, where the record has them: with fewer the noise is not known well enough for intervals
HIGHEST_CUTOFF = 0.4  # of the sampling rate; a filter above it is none
LONGEST_GAP = 0.1  # s; what is missing for longer is not made up
FEWEST_GRID_SAMPLES = 50  # on the even grid


@dataclass(frozen=True, eq=False)
class JointMotion:
    """Joint positions, velocities and accelerations on an even grid, smooth."""

    time: np.ndarray  # (n,)
    q: np.ndarray  # (n, dof)
    dq: np.ndarray
    ddq: np.ndarray

    @property
    def rate(self) -> float:
        """Samples per second."""
        return float((self.time.size - 1) / (self.time[-1] - self.time[0]))


@dataclass(frozen=True, eq=False)
class TorqueRecord:
    """One record, ready for a regression: the motion, the measured torques, and which rows count."""

    name: str
    motion: JointMotion
    torque: np.ndarray  # (n, dof) as measured
    bandwidth: float  # Hz, of the motion as measured
    cutoff: float  # Hz, of the motion's filter
    parallel: float  # Hz, of both sides
    rows: np.ndarray  # (m,) indices of the samples that are kept
    notes: tuple[str, ...]
    measured: tuple[np.ndarray, np.ndarray | None]  # (n, dof) positions and, where they were measured, velocities; unfiltered
    command: JointMotion | None = None  # what the controller asked for, filtered as the motion; where it was recorded

    def filtered(self, signal: np.ndarray) -> np.ndarray:
        """(m, ...) a signal (n, ...) after the second filter, at the samples that are kept."""
        return zero_phase(signal, self.parallel, self.motion.rate)[self.rows]


def zero_phase(signal: np.ndarray, cutoff: float, rate: float) -> np.ndarray:
    """A Butterworth low-pass forth and back along the first axis; a cut-off near half the rate does nothing."""
    if cutoff >= HIGHEST_CUTOFF * rate:
        return signal
    return sosfiltfilt(butter(LOWPASS_ORDER, cutoff, fs=rate, output="sos"), signal, axis=0)


def torque_record(arm: RobotModel, experiment: Experiment, cutoff: float | str, decimate: int | str) -> TorqueRecord:
    """The record on an even grid, filtered as asked; "auto" takes both cut-offs from the bandwidth of the motion."""
    experiment = arm.renamed(experiment)
    _check(arm, experiment)
    time, q, dq, torque = _even(arm, experiment)
    rate = (time.size - 1) / (time[-1] - time[0])
    bandwidth = motion_bandwidth(CubicSpline(time, q, axis=0)(time, 1) if dq is None else dq, rate)
    motion_cutoff = min(FILTER_OVER_BANDWIDTH * bandwidth, HIGHEST_CUTOFF * rate) if cutoff == "auto" else float(cutoff)
    if decimate == "auto":
        decimate = max(1, min(int(PARALLEL_CUTOFF * rate / (PARALLEL_OVER_BANDWIDTH * bandwidth)), time.size // KEPT_SAMPLES))
    parallel = PARALLEL_CUTOFF * rate / int(decimate)
    smooth = zero_phase(q, motion_cutoff, rate)
    velocity = CubicSpline(time, smooth, axis=0)(time, 1) if dq is None else zero_phase(dq, motion_cutoff, rate)
    motion = JointMotion(time, smooth, velocity, CubicSpline(time, velocity, axis=0)(time, 1))
    edge = int(np.ceil(rate / min(parallel, motion_cutoff)))  # what the filters make up beyond both ends reaches that far
    rows = np.arange(edge, time.size - edge, int(decimate))
    if rows.size * arm.dof < len(arm.parameters):
        raise ProblemError(f"{experiment.label}: {rows.size} samples are left after filtering, too few for "
                           f"{len(arm.parameters)} parameters. Record longer, or decimate less.")
    note = f"{experiment.label}: motion filtered at {motion_cutoff:.3g} Hz"
    if int(decimate) > 1:
        note += f", torques and regressor at {parallel:.3g} Hz, one sample of {decimate} kept ({rows.size})"
    return TorqueRecord(experiment.name, motion, torque, bandwidth, motion_cutoff, parallel, rows, (f"{note}.",), (q, dq),
                        _command(arm, experiment, time, motion_cutoff, rate))


def _command(arm: RobotModel, experiment: Experiment, time: np.ndarray, cutoff: float, rate: float) -> JointMotion | None:
    """The positions that were asked for, with derivatives; None where they were not recorded, or not for all joints."""
    if not all(name in experiment.inputs for name in arm.commands):
        return None
    asked = np.column_stack([np.interp(time, experiment.time, experiment.inputs[name]) for name in arm.commands])
    q = zero_phase(asked, cutoff, rate)
    spline = CubicSpline(time, q, axis=0)
    return JointMotion(time, q, spline(time, 1), spline(time, 2))


def motion_bandwidth(dq: np.ndarray, rate: float) -> float:
    """Hz below which nearly all of the velocities' power lies, joints counted alike; at least one period of the record.

    What lies in the upper half of the spectrum is noise, and its level is taken off everywhere.
    """
    scaled = (dq - dq.mean(axis=0)) / np.maximum(dq.std(axis=0), np.finfo(float).tiny)
    moving = dq.std(axis=0) > IDLE_JOINT * np.max(dq.std(axis=0), initial=0.0)
    power = np.sum(np.abs(np.fft.rfft(scaled[:, moving] * np.hanning(len(dq))[:, None], axis=0)) ** 2, axis=1)
    floor = NOISE_FLOOR * float(np.median(power[power.size // 2:])) if power.size else 0.0
    total = np.cumsum(np.maximum(power - floor, 0.0))
    k = int(np.searchsorted(total, MOTION_POWER * total[-1])) if total[-1] > 0 else 1
    return max(k, 1) * rate / len(dq)


def _check(arm: RobotModel, experiment: Experiment) -> None:
    n = range(1, arm.dof + 1)
    faults = [f"{experiment.label}: the torque 'tau{k}' of joint {k} ({arm.joints[k - 1]}) is not among the inputs."
              f"{did_you_mean(f'tau{k}', experiment.inputs)}" for k in n if f"tau{k}" not in experiment.inputs]
    faults += [f"{experiment.label}: the position 'q{k}' of joint {k} ({arm.joints[k - 1]}) is not among the outputs."
               f"{did_you_mean(f'q{k}', experiment.outputs)}" for k in n if f"q{k}" not in experiment.outputs]
    if experiment.samples < FEWEST_GRID_SAMPLES:
        faults.append(f"{experiment.label}: {experiment.samples} samples are too few to differentiate; "
                      f"give {FEWEST_GRID_SAMPLES}.")
    if not faults and not any(np.nanmax(y) > np.nanmin(y) for y in (experiment.outputs[f"q{k}"] for k in n)
                              if np.any(np.isfinite(y))):
        faults.append(f"{experiment.label}: no joint moves, so that inertias and friction ask for no torque. Record a motion, "
                      "as di.excitation plans one.")
    if faults:
        raise ProblemError(faults)


def _even(arm: RobotModel, experiment: Experiment) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    """Time from the record's start on an even grid, positions, velocities where all were measured, torques.

    A torque that a controller holds until its next sample acts half a sample later than one that was measured.
    """
    given, n = np.asarray(experiment.time, float), range(1, arm.dof + 1)
    count = given.size
    time = np.linspace(given[0], given[-1], count)
    limit = max(LONGEST_GAP, 3 * (given[-1] - given[0]) / (count - 1))

    def column(name: str, values: Any) -> np.ndarray:
        values = np.asarray(values, float)
        if experiment.hold.get(name) == "zero":  # held from sample to sample: at a sample, the mean of before and after
            values = np.append(values[:1], (values[1:] + values[:-1]) / 2)
        there = np.isfinite(values)
        known = given[there]
        gap = np.max(np.diff(known), initial=0.0) if known.size > 1 else np.inf
        if gap > limit or not (there[0] and there[-1]):
            raise ProblemError(f"{experiment.label}: '{name}' is missing for more than {limit:.3g} s, or at an end; a "
                               "derivative across the gap would be made up. Split the record there.")
        return np.interp(time, known, values[there]) if name.startswith("tau") else CubicSpline(known, values[there])(time)

    q = np.column_stack([column(f"q{k}", experiment.outputs[f"q{k}"]) for k in n])
    measured = all(f"dq{k}" in experiment.outputs for k in n)
    dq = np.column_stack([column(f"dq{k}", experiment.outputs[f"dq{k}"]) for k in n]) if measured else None
    return time, q, dq, np.column_stack([column(f"tau{k}", experiment.inputs[f"tau{k}"]) for k in n])


# the model along a motion


@dataclass(frozen=True, eq=False)
class ArmAlongMotion:
    """Torques of the drives along a motion, and their derivatives; the links' regressor is evaluated once."""

    arm: RobotModel
    motion: JointMotion
    links: np.ndarray  # (n, dof, 10 bodies)

    @classmethod
    def of(cls, arm: RobotModel, motion: JointMotion) -> ArmAlongMotion:
        n = motion.time.size
        flat = np.array(arm.regressor.map(n)(motion.q.T, motion.dq.T, motion.ddq.T))  # (dof, n 10 bodies)
        return cls(arm, motion, flat.reshape(arm.dof, n, -1).transpose(1, 0, 2))

    def with_arm(self, arm: RobotModel) -> ArmAlongMotion:
        """The same links with other friction."""
        return ArmAlongMotion(arm, self.motion, self.links)

    def torque_and_jacobian(self, values: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """(n, dof) torques and (n, dof, parameters) their derivatives, in the order of `arm.parameters`."""
        arm, n = self.arm, self.motion.time.size
        place = {name: i for i, name in enumerate(arm.parameters)}
        load = self.links @ np.array([values.get(name, 0.0) for name in arm.inertial_names])
        jacobian, torque = np.zeros((n, arm.dof, len(place))), load.copy()
        used = [(i, place[name]) for i, name in enumerate(arm.inertial_names) if name in place]
        gain = np.ones((n, arm.dof))  # of the links' torque, where friction follows it
        for k, laws in enumerate(arm.friction):
            for law in laws:
                name = f"{FRICTION_LAWS[law].prefix}_{k + 1}"
                column, by_load = _law_columns(law, self.motion.dq[:, k], load[:, k], arm.sign_velocity)
                jacobian[:, k, place[name]] = column
                torque[:, k] += values[name] * column
                gain[:, k] += values[name] * by_load
            if arm.motor_inertia:
                name = f"{MOTOR_INERTIA}_{k + 1}"
                jacobian[:, k, place[name]] = self.motion.ddq[:, k]
                torque[:, k] += values[name] * self.motion.ddq[:, k]
        jacobian[:, :, [j for _, j in used]] = self.links[:, :, [i for i, _ in used]] * gain[:, :, None]
        return torque, jacobian


def _law_columns(law: str, v: np.ndarray, load: np.ndarray, sign_velocity: float) -> tuple[np.ndarray, np.ndarray]:
    """A friction law's column along a motion, and its derivative by the load."""
    function = _law_function(law).map(v.size)
    first, second = (np.array(out).ravel() for out in function(v[None], np.tanh(v / sign_velocity)[None], load[None]))
    return first, second


@functools.cache
def _law_function(law: str) -> ca.Function:
    symbols = [ca.SX.sym(name) for name in ("v", "sign", "load")]
    column = FRICTION_LAWS[law].column(*symbols)
    return ca.Function("column", symbols, [ca.densify(column), ca.densify(ca.jacobian(column, symbols[2]))])
