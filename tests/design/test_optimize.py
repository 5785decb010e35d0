"""The loop of a design: are its steps functions of frozen states, and is Ctrl-C answered with what stands verified?"""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import dynident as di
from dynident.design import optimize
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_problem import build_design_problem
from dynident.design.optimize import next_step, optimize_design, screen_starts

TIME = np.linspace(0, 4, 41)
MODEL = di.EquationModel(states={"x": "-a*x + b*u"}, inputs=["u"], outputs={"y": "x"})


def asked(noise=None, **options):
    run = di.Experiment(TIME, {"u": np.sin(TIME)}, {"y": 0 * TIME}, {"y": noise or di.Gaussian(0.1)}, {"x": 0.0})
    problem = di.Problem(MODEL, [run], [di.Parameter("a", 0.8), di.Parameter("b", 1.2)])
    return problem, di.signals.PiecewiseLinear(4), None, ["abs(u) <= 1", "abs(x) <= 0.7"], (), DesignOptions(**options)


def silent(progress):
    pass


def test_every_state_can_be_resumed_from():
    problem = build_design_problem(parse_arguments(*asked(starts=2)))
    state, states = screen_starts(problem), []
    while not state.finished:
        states.append(state)
        state = next_step(problem, state)(problem, state, silent)
    assert [len(s.optima) for s in states][:3] == [0, 1, 2]
    for earlier in (states[0], states[1], states[-2]):
        while not earlier.finished:
            earlier = next_step(problem, earlier)(problem, earlier, silent)
        assert np.array_equal(earlier.best.result.point, state.best.result.point)
    with pytest.raises(FrozenInstanceError):
        state.finished = False


def test_the_same_problem_gives_the_same_state_twice():
    problem = build_design_problem(parse_arguments(*asked(starts=1)))
    once, again = (optimize_design(problem).best.result.point for _ in range(2))
    assert np.array_equal(once, again)


def test_ctrl_c_gives_the_best_input_that_is_verified(monkeypatch):
    choose = optimize.choose_candidate

    def interrupted(problem, state, report):
        if state.best is not None:
            raise KeyboardInterrupt
        return choose(problem, state, report)

    monkeypatch.setattr(optimize, "choose_candidate", interrupted)
    problem, signal, criterion, constraints, _, _ = asked()
    plan = di.design_input(problem, signal, criterion, constraints, starts=1, progress=False)
    assert plan.interrupted and not plan.converged and plan.status.startswith("Stopped by the user")
    assert all(use.holds for use in plan.constraints)


def test_ctrl_c_before_any_input_is_verified_is_passed_on():
    def stop(progress):
        raise KeyboardInterrupt

    problem, signal, criterion, constraints, _, _ = asked()
    with pytest.raises(KeyboardInterrupt):
        di.design_input(problem, signal, criterion, constraints, progress=stop)


def test_bounded_errors_of_the_records_at_hand_count_as_evenly_distributed():
    problem, signal, criterion, constraints, _, _ = asked(di.Bounded(0.1 * np.sqrt(3)))
    bounded = di.design_input(problem, signal, criterion, constraints, starts=1, progress=False)
    gaussian = di.design_input(asked(di.Gaussian(0.1))[0], signal, criterion, constraints, starts=1, progress=False)
    assert bounded.std_before == pytest.approx(gaussian.std_before) and bounded.cost == pytest.approx(gaussian.cost)
    for name, width in bounded.width_after.items():
        assert width < bounded.width_before[name] < np.inf
