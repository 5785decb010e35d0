"""Does a plan say what it leaves out, that the estimate it comes from reckoned with?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from problems import MACHINES

MACHINE = MACHINES["mass_spring_damper"]


@pytest.mark.parametrize("method, said", [(di.kalman(process_noise={"velocity": 0.3}), "noise that acts on the system"),
                                          (di.boundary_value(process_noise=0.1), "errors of the model"),
                                          (di.multiple_shooting(), "")])
def test_noise_that_acts_on_the_system_is_not_forgotten_in_silence(method, said):
    problem = MACHINE.problem()
    if said.startswith("noise"):
        method = di.kalman(process_noise={problem.model.states[-1]: 0.3})
    estimate = di.identify(problem, method, progress=False)
    name = problem.model.inputs[0]
    size = float(np.max(np.abs(problem.experiments[0].inputs[name])))
    plan = di.design_input(estimate, di.signals.PiecewiseConstant(4), constraints=[f"abs({name}) <= {size}"], starts=1,
                           max_iterations=5, progress=False)
    assert any(said in note and "too small" in note for note in plan.notes) == bool(said)
