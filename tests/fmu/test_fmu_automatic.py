"""Does the ladder carry an FMU: belief and rounds, without a smoother?"""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import LAG_VALUES, exported, needs_compiler

import dynident as di
from problems import staircase


@needs_compiler
def test_an_fmu_takes_belief_and_rounds():
    time = np.linspace(0, 4, 81)
    u = staircase(time, 0.4, 1.0, 2)
    fmu = di.FmuModel(exported())
    clean = di.simulate(fmu, LAG_VALUES, di.Experiment(time, {"u": u})).outputs["y"]
    run = di.Experiment(time, {"u": u}, {"y": clean + 0.01 * np.random.default_rng(0).standard_normal(81)})
    problem = di.Problem(fmu, [run], [di.Parameter("gain", 0.3, 0.01, 100), di.Parameter("tau", 4.0, 0.01, 100)])
    estimate = di.identify(problem, progress=False)
    for name, truth in LAG_VALUES.items():
        assert estimate.values[name] == pytest.approx(truth, abs=5 * estimate.uncertainty.std(name))
    assert estimate.believed
    assert estimate.method.inner_method.kind == "least_squares"
    again = di.identify(problem, di.automatic(stages=["rounds"]), progress=False)
    assert again.values["tau"] == pytest.approx(0.5, rel=0.05)
