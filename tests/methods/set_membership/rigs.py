"""Random rigs whose truth is known at every sample."""

import numpy as np

import dynident as di
from dynident.models.library.drive_train import RigTruth, drive_train, drive_train_record

PRIOR = {"alpha": (-8.0, -0.5), "beta": (10.0, 300.0), "T_Fs": (0.0, 0.3)}


def random_rig(seed, duration=2.4, sampling=0.02, radius=None):
    """Parameters, torque with reversals and rests, noise inside the bound, event times between samples: all random."""
    rng = np.random.default_rng(seed)
    truth = RigTruth(rng.uniform(-7, -1), rng.uniform(20, 200), tuple(rng.uniform(0.03, 0.25, 4)))
    time = np.arange(round(duration / sampling) + 1) * sampling
    knots = np.sort(rng.uniform(0, duration, 6))
    torque = np.interp(time, np.append(0, knots), np.append(0, rng.choice([-0.45, -0.2, 0, 0, 0.1, 0.3, 0.5], 6)))
    torque = torque * (1 + 0.05 * rng.standard_normal(time.size)) if rng.random() < 0.5 else torque
    bound = 2e-3 if radius is None else radius
    noise = bound * rng.choice([-1.0, 1.0], time.size) if rng.random() < 0.3 else rng.uniform(-bound, bound, time.size)
    return drive_train_record(time, torque, truth, radius=bound * (1 + 1e-9), noise=noise, settle=0.1)


def rig_problem(rig):
    return di.Problem(drive_train(), [rig.experiment], [di.Parameter(name, 0.5 * (lo + hi), lo, hi)
                                                        for name, (lo, hi) in PRIOR.items()])


def truth_at(rig, k):
    return np.array([rig.angle[k], rig.speed[k], rig.truth.alpha, rig.truth.beta, rig.breakaway[k]])
