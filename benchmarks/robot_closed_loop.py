"""How biased are inverse dynamics on an arm in a loop, and how often do their intervals hold the truth?

A two-link arm follows a Fourier series under computed torque and PD control, simulated; the controller sees noisy positions,
the record holds these, noisy torques and, for one of the ways, the commanded positions. Torque noise is as correlated from one
sample to the next as CORRELATION says. For each size of position noise, each way to estimate and over all base parameters:
the root mean square of bias over standard error (chance alone: one over the root of the number of runs), and the share of
95 % intervals that hold the truth; and how often the Durbin-Wu-Hausman test fires and DIDIM confirms. Intervals around
DIDIM are those of least squares.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.signal import lfilter
from timing import Line, Result, main, size

import dynident as di

RATE, DURATION = 200.0, size(20.0, 4.0)  # Hz, s
REPEATS = size(8, 2)
CORRELATION = 0.9  # of the noise of torques, from sample to sample
GAIN, DAMPING = 400.0, 40.0  # 1/s^2, 1/s
BY_COMMAND = "instrumental variables from the recorded command"
WAYS = ("least squares", "the same, errors taken as independent", "instrumental variables", BY_COMMAND, "DIDIM")
DRIVES = {"Fc_1": 2.0, "Fv_1": 1.5, "Fc_2": 1.0, "Fv_2": 0.75, "Ia_1": 0.3, "Ia_2": 0.2}


def commanded(time: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A motion that begins at rest in position, velocity and acceleration."""
    w = 2 * np.pi / DURATION * np.arange(1, 6)
    a = np.random.default_rng(seed).normal(0, 0.35, (5, 2))
    a[0] -= (a * np.arange(1, 6)[:, None]).sum(axis=0)  # velocity zero at the start
    s, c = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
    return s @ a, (c * w) @ a, -(s * w**2) @ a


def closed_loop(arm: di.RobotModel, values: dict[str, float], position_noise: float, torque_noise: float, seed: int
                ) -> di.Experiment:
    """The record of one run."""
    rng = np.random.default_rng(seed)
    time = np.arange(0, DURATION, 1 / RATE)
    reference = commanded(time)
    symbols = [ca.SX.sym(name, 2) for name in ("q", "dq", "ddq")]
    inverse = ca.Function("tau", symbols, [arm.torques(*symbols, values)])
    p = [values[name] for name in arm.equations.parameters]
    x, seen, torques, last = np.concatenate([reference[0][0], reference[1][0]]), [], [], reference[0][0]
    for k in range(time.size):
        measured = x[:2] + rng.normal(0, position_noise, 2)
        rate = (measured - last) * RATE if k else reference[1][0]
        last = measured
        wanted = reference[2][k] + GAIN * (reference[0][k] - measured) + DAMPING * (reference[1][k] - rate)
        tau = np.array(inverse(measured, reference[1][k], wanted)).ravel()
        seen.append(measured)
        torques.append(tau)
        x = runge_kutta(arm.equations.rate, x, tau, p, 1 / RATE)
    sent = np.array(torques)
    noisy, q = sent + torque_noise * coloured(rng, sent.shape) * sent.std(axis=0), np.array(seen)
    return di.Experiment(time, inputs={"tau1": noisy[:, 0], "tau2": noisy[:, 1], "q1_command": reference[0][:, 0],
                                       "q2_command": reference[0][:, 1]},
                         outputs={"q1": q[:, 0], "q2": q[:, 1]}, name=f"run {seed}")


def coloured(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of unit variance."""
    white = rng.normal(size=(shape[0] + 200, *shape[1:]))
    return lfilter([np.sqrt(1 - CORRELATION**2)], [1, -CORRELATION], white, axis=0)[200:]


def runge_kutta(rate: ca.Function, x: np.ndarray, u: np.ndarray, p: list[float], h: float, substeps: int = 2) -> np.ndarray:
    for _ in range(substeps):
        d = h / substeps
        k1 = np.array(rate(0, x, u, p)).ravel()
        k2 = np.array(rate(0, x + d / 2 * k1, u, p)).ravel()
        k3 = np.array(rate(0, x + d / 2 * k2, u, p)).ravel()
        k4 = np.array(rate(0, x + d * k3, u, p)).ravel()
        x = x + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def study(position_noise: float, filter: float | str) -> list[Line]:
    arm = di.RobotModel(di.library.two_link_urdf(), motor_inertia=True, sign_velocity=0.05)
    values = arm.nominal_inertial() | DRIVES
    ways: dict[str, tuple[list[list[float]], list[float]]] = {name: ([], []) for name in WAYS}  # errors, widths
    fired, fired_by_command, confirmed = [], [], []
    method = di.inverse_dynamics(filter=filter, instruments=True, consistent=False)
    for seed in range(REPEATS):
        run = closed_loop(arm, values, position_noise, 0.02, seed)
        by_command = di.identify(di.Problem(arm, [run]), method).robot
        found = di.identify(di.Problem(arm, [arm.without_commands(run)]), method)
        robot, base = found.robot, found.base
        truth = [sum(c * values[n] for n, c in b.coefficients.items()) for b in base]
        plain = [found.uncertainty.std(b.name, "plain") for b in base]
        given = {"least squares": [(b.value, b.std) for b in base],
                 "the same, errors taken as independent": [(b.value, s) for b, s in zip(base, plain, strict=True)],
                 "instrumental variables": [(robot.instrumental[b.name], robot.instrumental_std[b.name]) for b in base],
                 BY_COMMAND: [(by_command.instrumental[b.name], by_command.instrumental_std[b.name]) for b in base],
                 "DIDIM": [(robot.didim.base[b.name], b.std) for b in base]}
        for name, pairs in given.items():
            ways[name][0].append([(value - t) / std for (value, std), t in zip(pairs, truth, strict=True)])
            ways[name][1].append(float(np.median([std / b.std for (_, std), b in zip(pairs, base, strict=True)])))
        fired.append(robot.hausman.biased)
        fired_by_command.append(by_command.hausman.biased)
        confirmed.append(robot.didim.outside == 0)
    cutoff = "chosen by itself" if filter == "auto" else f"{filter:g} Hz"
    where = f"position noise {position_noise:g} rad, filter {cutoff}"
    return [*(Line(f"{where}: {name}", spoken_way(*ways[name])) for name in WAYS),
            Line(f"{where}: tests", f"Durbin-Wu-Hausman fires in {100 * np.mean(fired):.0f} % of the runs, with the command in "
                 f"{100 * np.mean(fired_by_command):.0f} %; DIDIM confirms in {100 * np.mean(confirmed):.0f} %")]


def spoken_way(errors: list[list[float]], widths: list[float]) -> str:
    """Bias over all base parameters, and the share of 95 % intervals that hold the truth."""
    bias = float(np.sqrt(np.mean(np.mean(errors, axis=0) ** 2)))
    return (f"bias {bias:.2f} standard errors; {100 * np.mean(np.abs(errors) < 1.96):.0f} % of 95 % intervals hold the truth; "
            f"{np.mean(widths):.2g} times as wide as those of least squares")


def run() -> Result:
    setting = (f"Two links under computed torque, {DURATION:g} s at {RATE:g} Hz, torque noise 2 % of its spread, of "
               f"correlation {CORRELATION:g} from sample to sample, {REPEATS} runs; over all base parameters.")
    return Result("Inverse dynamics in a closed loop", setting,
                  [line for noise in (1e-6, 1e-4) for cutoff in ("auto", 40.0) for line in study(noise, cutoff)])


if __name__ == "__main__":
    main(run)
