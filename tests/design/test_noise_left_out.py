"""Does a plan name the noise that it leaves out, and that the estimate or the problem it comes from reckoned with?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from problems import MACHINES

MACHINE = MACHINES["mass_spring_damper"]
SMOOTHER, OUTPUT_ERROR = di.boundary_value(process_noise=0.1), di.multiple_shooting()


def plan_for(known: di.Problem | di.Estimate, problem: di.Problem) -> di.Plan:
    (name,) = problem.model.inputs
    size = float(np.max(np.abs(problem.experiments[0].inputs[name])))
    return di.design_input(known, di.signals.PiecewiseConstant(4), constraints=[f"abs({name}) <= {size}"], starts=1,
                           max_iterations=5, progress=False)


def with_noise(place: str) -> di.Problem:
    problem = MACHINE.problem()
    (run,), (name,) = problem.experiments, problem.model.inputs
    if place == "sensor":
        return problem.replace(experiments=[replace(run, noise={**run.noise, name: di.Gaussian(0.05)})])
    return problem.replace(process_noise={name if place == "behind" else problem.model.states[-1]: di.Gaussian(0.05)})


def noise_notes(plan: di.Plan) -> list[str]:
    return [note for note in plan.notes if "too small" in note]


@pytest.mark.parametrize(("place", "said"), [("sensor", "noise of the sensor of {u}"), ("behind", "noise behind {u}"),
                                             ("state", "noise on {v}")])
@pytest.mark.parametrize("fitted", [True, False])
def test_a_plan_names_the_noise_that_it_leaves_out(place, said, fitted):
    problem = with_noise(place)
    known = di.identify(problem, di.prediction_error(), progress=False) if fitted else problem
    (note,) = noise_notes(plan_for(known, problem))
    whose = "estimate allows for" if fitted else "problem states"
    assert f"The {whose} {said.format(u=problem.model.inputs[0], v=problem.model.states[-1])}, and the plan does not" in note


def test_what_a_filter_assumes_and_what_a_smoother_finds_is_named():
    problem = MACHINE.problem()
    state = problem.model.states[-1]
    for method, said in ((di.kalman(process_noise={state: 0.3}), f"noise on {state}"), (SMOOTHER, "errors of the model")):
        (note,) = noise_notes(plan_for(di.identify(problem, method, progress=False), problem))
        assert said in note


def test_of_noise_in_the_outputs_alone_nothing_is_said():
    problem = MACHINE.problem()
    assert not noise_notes(plan_for(di.identify(problem, OUTPUT_ERROR, progress=False), problem))
