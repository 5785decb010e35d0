"""When nothing fits: the first sample that refutes is named, never one before it, and the same bounds prove it."""

from importlib.util import find_spec

import numpy as np
import pytest
from rigs import random_rig, rig_problem

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.papers.drive_train import COUNTS, drive_train_record, driving_cycles

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")

SLIP = 400  # sample at which the encoder slips
PRIOR = {"alpha": (-6.0, -3.0), "beta": (50.0, 80.0), "T_Fs": (0.1, 0.14)}


def slipped(counts, end=5.0):
    """A driving cycle whose encoder slips by some counts at t = 4 s; half a count is what its bound admits."""
    rig = drive_train_record(*driving_cycles(0.0, end))
    angle = np.array(rig.experiment.outputs["angle"])
    angle[SLIP:] += counts * 2 * np.pi / COUNTS
    run = di.Experiment(time=rig.experiment.time, inputs=rig.experiment.inputs, initial={"speed": 0.0},
                        outputs={**rig.experiment.outputs, "angle": angle}, noise=rig.experiment.noise)
    return rig_problem(rig, PRIOR, run)


@pytest.mark.slow
def test_a_slip_that_only_a_whole_stretch_shows_is_dated_by_the_batch():
    """All samples before the slip are explained by the truth, so no sound method refutes before it."""
    problem = slipped(1)
    along = di.identify(problem, di.set_membership("recursive", max_boxes=12, reset={"T_Fs": "speed"}), progress=False)
    assert not along.uncertainty.empty  # box by box it is not seen
    found = di.identify(problem, di.set_membership(max_boxes=12, reset={"T_Fs": "speed"}), progress=False).uncertainty
    time = problem.experiments[0].time
    assert time[SLIP] <= found.refutation.time <= time[SLIP + 10]  # and the window goes on to the end of the record
    until = problem.experiments[0].window(0, found.refutation.time)
    short = di.Problem(problem.model, [until], problem.parameters)
    assert di.identify(short, di.set_membership(max_boxes=12, reset={"T_Fs": "speed"}), progress=False).uncertainty.empty


@pytest.mark.parametrize("algorithm", ["recursive", pytest.param("batch", marks=pytest.mark.slow)])
def test_a_large_slip_is_dated_to_the_sample(algorithm):
    problem = slipped(20, end=4.2)
    found = di.identify(problem, di.set_membership(algorithm, max_boxes=12, reset={"T_Fs": "speed"}), progress=False)
    assert found.uncertainty.refutation.time == problem.experiments[0].time[SLIP]
    assert 1 < found.uncertainty.refutation.inflation <= 41  # 20 counts and the half that was admitted, over a half


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(31, 51))
def test_no_sample_before_the_first_wrong_one_is_blamed(seed):
    rig = random_rig(seed)
    rng = np.random.default_rng(seed)
    wrong = int(rng.integers(20, rig.experiment.time.size - 20))
    angle = np.array(rig.experiment.outputs["angle"])
    angle[wrong:] += rng.choice([-1, 1]) * rng.uniform(4e-3, 0.1)
    run = di.Experiment(time=rig.experiment.time, inputs=rig.experiment.inputs, initial={"speed": 0.0},
                        outputs={**rig.experiment.outputs, "angle": angle}, noise=rig.experiment.noise)
    for algorithm in ("recursive", "batch"):
        method = di.set_membership(algorithm, max_boxes=24, reset={"T_Fs": "speed"})
        found = di.identify(rig_problem(rig, experiment=run), method, progress=False).uncertainty.refutation
        assert found is None or found.time >= rig.experiment.time[wrong] - 1e-12
