"""Random rigs whose truth is known at every sample."""

import numpy as np

import dynident as di
from dynident.methods.presets import set_membership
from dynident.papers.drive_train import RigTruth, drive_train, drive_train_record
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.run import make_observer
from dynident.set_membership.setup import make_setup

PRIOR = {"alpha": (-8.0, -0.5), "beta": (10.0, 300.0), "T_Fs": (0.0, 0.3)}
ROUNDED = 1e-9  # the simulated truth itself is rounded


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


def rig_problem(rig, prior=PRIOR, experiment=None):
    return di.Problem(drive_train(), [experiment or rig.experiment], [di.Parameter(name, 0.5 * (lo + hi), lo, hi)
                                                                      for name, (lo, hi) in prior.items()])


def truth_at(rig, k):
    return np.array([rig.angle[k], rig.speed[k], rig.truth.alpha, rig.truth.beta, rig.breakaway[k]])


def lost_samples(rig, prior=PRIOR, experiment=None, **options):
    """Samples at which no box holds the truth, and what the observer found."""
    method = set_membership(**{"max_boxes": 24, "subdivisions": 6, "reset": {"T_Fs": "speed"}, **options})
    setup = make_setup(rig_problem(rig, prior, experiment), dict(method.input_error), False)
    lo, hi = setup.box(0, setup.low, setup.high)
    lost = []

    def tell(k, boxes):
        z = truth_at(rig, k)[:, None]
        slack = ROUNDED * (1 + np.abs(z))
        if not np.any(np.all((boxes.lo <= z + slack) & (z - slack <= boxes.hi), axis=0)):
            lost.append(k)

    observed = make_observer(method, setup, method.algorithm).run(
        Boxes(lo[:, None], hi[:, None], np.zeros(1, int)), setup.records[0], tell)
    return lost, observed
