"""Interval paper (Rauh, Senkel, Aschemann), Secs. 2 and 6: its drive train, driving cycles, and records of known truth.

A motor turns a shaft against a brake; friction sticks at rest:

    angle' = speed,  speed' = alpha speed + beta (torque - T_Fs sign(speed)),  at rest while |torque| <= T_Fs

The breakaway torque T_Fs may change whenever the rig stands. Records are made by the closed-form solution of each mode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynident.errors import ProblemError
from dynident.models.equations import EquationModel
from dynident.models.hybrid import Mode, Transition
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Bounded

COUNTS = 4096  # of the encoder, per turn
DRIVE_SAMPLING = 0.01  # s
CYCLE = 8.0  # s
STILL = 1e-9  # rad/s; what the start/stop indicator leaves open when it says that the rig stands


def drive_train() -> EquationModel:
    """The rig as an automaton of three modes; `speed` is measured only while the rig is known to stand."""
    def sliding(sign: str) -> dict[str, str]:
        return {"angle": "speed", "speed": f"alpha*speed + beta*(torque {sign} T_Fs)"}

    return EquationModel(
        name="drive_train", states=["angle", "speed"], inputs=["torque"],
        outputs={"angle": "angle", "speed": "speed"}, parameters=["alpha", "beta", "T_Fs"],
        modes={"rest": Mode({"angle": 0, "speed": 0}, "speed == 0 and torque <= T_Fs and torque >= -T_Fs"),
               "forward": Mode(sliding("-"), "speed >= 0"), "backward": Mode(sliding("+"), "speed <= 0")},
        transitions=[Transition("rest", "forward", "torque > T_Fs"), Transition("rest", "backward", "torque < -T_Fs"),
                     Transition("forward", "rest", "speed < 0", {"speed": 0}),
                     Transition("backward", "rest", "speed > 0", {"speed": 0})],
        units={"angle": "rad", "speed": "rad/s", "torque": "N m", "alpha": "1/s", "beta": "1/(kg m^2)", "T_Fs": "N m"})


def driving_cycles(start: float = 40.0, end: float = 80.0, peak: float = 0.35) -> tuple[np.ndarray, np.ndarray]:
    """Time and torque: standstill until `start`, then cycles of 8 s that ramp up, hold and come to rest."""
    time = np.arange(round(end / DRIVE_SAMPLING) + 1) * DRIVE_SAMPLING
    knots = [0.0, 1.0, 3.0, 5.0, 6.5, CYCLE]
    torque = np.interp((time - start) % CYCLE, knots, [0.0, 0.0, peak, peak, 0.0, 0.0])
    return time, np.where(time < start, 0.0, torque)


@dataclass(frozen=True)
class RigTruth:
    """The parameters of a simulated rig; the breakaway torque of each standstill in turn, repeated when used up."""

    alpha: float = -4.5
    beta: float = 65.0
    breakaway: tuple[float, ...] = (0.12, 0.105, 0.145, 0.13, 0.115)

    def __post_init__(self) -> None:
        if not (self.alpha < 0 < self.beta and self.breakaway and min(self.breakaway) > 0):
            raise ProblemError("a rig needs alpha < 0, beta > 0 and positive breakaway torques.")


@dataclass(frozen=True, eq=False)
class RigRecord:
    """A record with what is behind it, at every sample."""

    experiment: Experiment
    truth: RigTruth
    angle: np.ndarray
    speed: np.ndarray
    breakaway: np.ndarray
    mode: np.ndarray = field(repr=False)  # -1, 0, 1: backward, rest, forward


def drive_train_record(time: np.ndarray, torque: np.ndarray, truth: RigTruth | None = None, radius: float | None = None,
                       noise: np.ndarray | None = None, settle: float = 0.5, name: str = "rig") -> RigRecord:
    """Drive the rig; its angle is read by the encoder, or with the given errors of at most `radius`.

    The rig is reported as standing once it has stood for `settle` seconds; its breakaway torque changes then.
    """
    truth = truth or RigTruth()
    state = _Rig(truth, settle)
    rows = [state.sample(0.0)]
    for k in range(len(time) - 1):
        state.advance(float(time[k + 1] - time[k]), float(torque[k]))
        rows.append(state.sample(float(torque[k])))
    angle, speed, breakaway, mode, still = (np.array(column) for column in zip(*rows, strict=True))
    step = 2 * np.pi / COUNTS
    measured = np.round(angle / step) * step if noise is None else angle + noise
    bound = radius if radius is not None else step / 2 * (1 + 1e-9)  # the rounding of the product with the step
    experiment = Experiment(
        time=time, inputs={"torque": torque}, outputs={"angle": measured, "speed": np.where(still, 0.0, np.nan)},
        noise={"angle": Bounded(bound), "speed": Bounded(STILL)}, initial={"speed": 0.0}, name=name)
    return RigRecord(experiment, truth, angle, speed, breakaway, mode)


class _Rig:
    """The state of the rig, moved by the closed-form solution of each mode from event to event."""

    def __init__(self, truth: RigTruth, settle: float):
        self.truth, self.settle = truth, settle
        self.angle, self.speed, self.mode, self.stood, self.turn = 0.0, 0.0, 0, settle, 0
        self.changed = True

    @property
    def breakaway(self) -> float:
        return self.truth.breakaway[self.turn % len(self.truth.breakaway)]

    def sample(self, torque: float) -> tuple[float, float, float, int, bool]:
        return self.angle, self.speed, self.breakaway, self.mode, self.mode == 0 and self.stood >= self.settle

    def advance(self, left: float, torque: float) -> None:
        while left > 0:
            if self.mode == 0:
                if abs(torque) <= self.breakaway:
                    self._rest(left)
                    return
                self.mode, self.stood, self.changed = (1 if torque > 0 else -1), 0.0, False
            left -= self._slide(left, self.truth.beta * (torque - self.mode * self.breakaway))

    def _rest(self, left: float) -> None:
        self.stood += left
        if self.stood >= self.settle and not self.changed:
            self.turn, self.changed = self.turn + 1, True

    def _slide(self, left: float, push: float) -> float:
        """Slide until the speed is zero or the time is over; the time that passed."""
        alpha, v = self.truth.alpha, self.speed
        passed = left
        stops = push * self.mode < 0
        if stops:
            passed = min(left, float(np.log((push / alpha) / (v + push / alpha)) / alpha))
        grown = float(np.expm1(alpha * passed)) / alpha
        self.angle += v * grown + push * (grown - passed) / alpha
        self.speed = v + (alpha * v + push) * grown
        if stops and passed < left:
            self.speed, self.mode = 0.0, 0
        return passed
