"""Records of simulated arms: a Fourier series as motion, its torques, noise as asked for."""

import casadi as ca
import numpy as np

import dynident as di

DRIVES = {"Fc": 2.0, "Fv": 1.5, "F0": 0.3, "Ia": 0.4, "Fl": 0.05, "F3": 0.2, "Fs": 0.5, "Fa": 0.1}


def drive_values(arm):
    """Friction and motors for every joint, smaller towards the tip."""
    return {name: DRIVES[name.split("_")[0]] / int(name.split("_")[1]) for name in arm.drive_names}


def true_values(arm):
    """The file's inertias, friction and motors of our own."""
    return arm.nominal_inertial() | drive_values(arm)


def fourier_motion(dof, duration=20.0, rate=100.0, harmonics=5, seed=0, size=0.8):
    """Time, and positions, velocities and accelerations of a periodic motion, exact."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, duration, 1 / rate)
    w = 2 * np.pi / duration * np.arange(1, harmonics + 1)
    a, b = rng.normal(0, size / np.sqrt(harmonics), (2, harmonics, dof))
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    return t, s @ a + c @ b, (c * w) @ a - (s * w) @ b, -(s * w**2) @ a - (c * w**2) @ b


def torques_of(arm, values, q, dq, ddq):
    symbols = [ca.SX.sym(name, arm.dof) for name in ("q", "dq", "ddq")]
    f = ca.Function("tau", symbols, [arm.torques(*symbols, values)])
    return np.array(f.map(len(q))(q.T, dq.T, ddq.T)).T


def coloured(shape, memory, seed):
    """Unit variance, correlation `memory` from one sample to the next."""
    from scipy.signal import lfilter

    white = np.random.default_rng(seed).normal(size=(shape[0] + 200, shape[1]))
    return lfilter([np.sqrt(1 - memory**2)], [1, -memory], white, axis=0)[200:]


def record(arm, values, noise=0.0, memory=0.0, motion_seed=0, noise_seed=0, position_noise=0.0, velocities=True, **motion):
    t, q, dq, ddq = fourier_motion(arm.dof, seed=motion_seed, **motion)
    tau = torques_of(arm, values, q, dq, ddq)
    tau = tau + noise * np.std(tau, axis=0) * coloured(tau.shape, memory, noise_seed)
    seen = q + position_noise * np.random.default_rng(noise_seed + 1).normal(size=q.shape)
    outputs = {f"q{k + 1}": seen[:, k] for k in range(arm.dof)}
    outputs |= {f"dq{k + 1}": dq[:, k] for k in range(arm.dof)} if velocities else {}
    inputs = {f"tau{k + 1}": tau[:, k] for k in range(arm.dof)}
    return di.Experiment(t, inputs=inputs, outputs=outputs, hold="linear", name=f"run {motion_seed}")
