"""The true state and the true parameters are never lost, whatever the rig, its input and its noise."""

import numpy as np
import pytest
from rigs import random_rig, rig_problem, truth_at

from dynident.integrators.verified.boxes import Boxes
from dynident.methods.presets import set_membership
from dynident.methods.set_membership.method import _observer
from dynident.methods.set_membership.question import question_of

ROUNDED = 1e-9  # the simulated truth itself is rounded


def lost_samples(seed, algorithm, cap=24):
    """Samples at which no box holds the truth."""
    rig = random_rig(seed)
    method = set_membership(algorithm=algorithm, cap=cap, subdivisions=6, reset={"T_Fs": "speed"}, standstill_time=0.0)
    question = question_of(rig_problem(rig), {}, False)
    lo, hi = question.box(0, question.low, question.high)
    lost = []

    def tell(k, boxes):
        z = truth_at(rig, k)[:, None]
        slack = ROUNDED * (1 + np.abs(z))
        if not np.any(np.all((boxes.lo <= z + slack) & (z - slack <= boxes.hi), axis=0)):
            lost.append(k)

    passage = _observer(method, question, algorithm).run(
        Boxes(lo[:, None], hi[:, None], np.zeros(1, int)), question.records[0], tell)
    return lost, passage


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 1000))])
def test_truth_is_never_lost_on_a_random_rig(seed):
    lost, passage = lost_samples(seed, "recursive")
    assert passage.empty_at is None and not lost


@pytest.mark.parametrize("seed", range(2000, 2003))
def test_published_rules_do_not_lose_the_truth_either(seed):
    lost, passage = lost_samples(seed, "paper")
    assert passage.empty_at is None and not lost
