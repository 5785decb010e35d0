"""Steps of Levenberg-Marquardt in one compiled call are those of the loop in Python, and what is not ordinary is left to it."""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.integrators import integrator_named
from dynident.methods.relaxed_start import RelaxedShooting
from dynident.solvers import levenberg_marquardt, trust_region
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.status import StatusCode
from dynident.transcription.shooting import Shooting

pytestmark = pytest.mark.skipif(compiler() is None, reason="this machine has no C compiler")


def pendulum(samples=80, log=False, missing=False, known=False, lower=0.0, start=2.0):
    model = di.EquationModel(states={"a": "w", "w": "-k*sin(a) - d*w + u"}, inputs=["u"],
                             outputs={"angle": "a", "speed": "2*w"})
    time = 0.05 * np.arange(samples)
    u, rng = np.sin(3 * time), np.random.default_rng(3)
    quiet = di.Experiment(time, {"u": u}, {}, initial={"a": 1.0, "w": 0.0})
    run = di.simulate(model, {"k": 3.0, "d": 0.4}, quiet)
    outputs = {name: y + 0.02 * rng.normal(size=samples) for name, y in run.outputs.items()}
    if missing:
        outputs["speed"][::3] = np.nan
    record = di.Experiment(time, {"u": u}, outputs, noise={name: di.Gaussian(0.02) for name in outputs},
                           initial={"a": 1.0, "w": 0.0} if known else {})
    return di.Problem(model, [record], [di.Parameter("k", start, lower=max(lower, 1e-3), upper=50, log=log),
                                        di.Parameter("d", 0.6, lower=0.01, upper=5)])


def shooting(problem, segments=1):
    return Shooting(problem, integrator_named("runge_kutta"), [segments], 2, {})


def in_python(monkeypatch):
    monkeypatch.setattr(levenberg_marquardt, "compiled_steps", lambda *_: None)


CASES = {"plain": {}, "logarithm": {"log": True}, "values missing": {"missing": True}, "known first state": {"known": True},
         "at a bound": {"lower": 3.2, "start": 4.0}, "far away": {"start": 30.0},
         "far away, logarithm": {"start": 30.0, "log": True}}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["single", "held nodes", "free nodes"])
def test_the_search_is_that_in_python(case, kind, monkeypatch):
    problem = pendulum(**CASES[case])

    def solved():
        finite = shooting(problem, 1 if kind == "single" else 4)
        if kind != "single":
            finite = RelaxedShooting(finite, finite.start(), kind == "free nodes")
        result = LevenbergMarquardt(60).solve(finite, finite.start())
        return result, dict(finite.counts)

    (quick, counts), _ = solved(), in_python(monkeypatch)
    slow, expected = solved()
    assert (quick.converged, str(quick.reason), counts) == (slow.converged, str(slow.reason), expected)
    assert [i.cost for i in quick.history] == pytest.approx([i.cost for i in slow.history], rel=1e-7)
    assert [i.max_defect for i in quick.history] == pytest.approx([i.max_defect for i in slow.history], rel=1e-5, abs=1e-9)
    np.testing.assert_allclose(quick.point.unknowns, slow.point.unknowns, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(quick.active_bounds, slow.active_bounds)


def test_steps_are_taken_in_compiled_calls_and_the_end_is_said_by_python(monkeypatch):
    taken = []
    advance = trust_region.CompiledTrustRegion.advance
    monkeypatch.setattr(trust_region.CompiledTrustRegion, "advance", lambda self, *given: (
        taken.append((found := advance(self, *given))[1]) or found))
    finite = shooting(pendulum())
    result = LevenbergMarquardt(60).solve(finite, finite.start())
    assert result.reason.code is StatusCode.CONVERGED and sum(taken) == len(result.history) - 1


def test_a_limit_of_iterations_is_kept():
    finite = shooting(pendulum(start=30.0))
    result = LevenbergMarquardt(2).solve(finite, finite.start())
    assert result.reason.code is StatusCode.ITERATION_LIMIT and len(result.history) == 3


def test_who_watches_sees_every_step_and_may_stop():
    finite, seen = shooting(pendulum(start=30.0)), []

    def watch(iteration):
        seen.append(iteration.number)
        if iteration.number == 3:
            raise KeyboardInterrupt

    result = LevenbergMarquardt(60).solve(finite, finite.start(), watch)
    assert seen == [0, 1, 2, 3] and result.interrupted
    assert result.evaluation.cost == pytest.approx(result.history[-1].cost)
    assert result.evaluation.cost < result.history[0].cost


def test_a_simulation_that_diverges_is_come_back_from(monkeypatch):
    model = di.EquationModel(states={"x": "k*x**2"}, outputs=["x"])  # infinite at t = 1/(k x(0))
    time = np.linspace(0, 1, 30)
    record = di.Experiment(time, {}, {"x": 1 / (1 - 0.8 * time)}, initial={"x": 1.0}, noise={"x": di.Gaussian(0.01)})
    problem = di.Problem(model, [record], [di.Parameter("k", 0.01, lower=0, upper=1e6)])

    def solved():
        finite = shooting(problem)
        return LevenbergMarquardt(60).solve(finite, finite.start())

    quick, _ = solved(), in_python(monkeypatch)
    slow = solved()
    assert quick.converged and str(quick.reason) == str(slow.reason)
    np.testing.assert_allclose(quick.point.unknowns, slow.point.unknowns, rtol=1e-7)


@pytest.mark.parametrize("change", ["two records", "prior", "robust loss", "segments that meet", "adaptive"])
def test_what_is_more_than_a_plain_record_is_left_to_python(change):
    problem, integrator, segments, loss = pendulum(), integrator_named("runge_kutta"), 1, "squared"
    if change == "two records":
        problem = problem.replace(experiments=[problem.experiments[0].with_name(name) for name in "ab"])
    elif change == "prior":
        problem = problem.replace(parameters=[di.Parameter("k", 2.0, prior=di.Prior(3.0, 1.0)), *problem.parameters[1:]])
    elif change == "robust loss":
        loss = "huber"
    elif change == "segments that meet":
        segments = 3
    else:
        integrator = integrator_named("radau5")
    finite = Shooting(problem, integrator, [segments] * len(problem.experiments), 1, {}, loss)
    assert finite.plain_record() is None
