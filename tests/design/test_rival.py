"""Two models of the same records: the input after which they can be told apart, against the literature and by refits."""

import numpy as np
import pytest

import dynident as di
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_problem import build_design_problem
from dynident.design.nlp import DesignNlp
from dynident.design.optimize import draw_start
from dynident.design.rival import Discrimination, with_rival

STD = 0.05
TIME = np.linspace(0, 4, 41)


def problem_of(rate, values, output="x", initial=0.0, time=TIME):
    model = di.EquationModel(states={"x": rate}, inputs=["u"], outputs={"y": output})
    run = di.Experiment(time, {"u": 0.5 * np.sin(time)}, {"y": 0 * time}, {"y": di.Gaussian(STD)}, {"x": initial})
    return di.Problem(model, [run], [di.Parameter(n, v) for n, v in values.items()])


def linear():
    return problem_of("-a*x + b*u", {"a": 0.8, "b": 1.2})


def cubic():
    return problem_of("-a*x - c*x**3 + b*u", {"a": 0.6, "c": 0.4, "b": 1.2})


def test_line_and_parabola_are_told_apart_at_the_points_of_the_literature():
    """T-optimal on [-1, 1]: a quarter of the samples at each end, half in the middle (Atkinson and Fedorov 1975)."""
    time = np.linspace(0, 1, 40)
    parabola = problem_of("0*x", {"p": 1.0, "q": 0.5, "r": 0.3}, "p + q*u + r*u**2 + 0*x", time=time)
    line = problem_of("0*x", {"p": 1.0, "q": 0.5}, "p + q*u + 0*x", time=time)
    plan = di.design_input(parabola, di.signals.PiecewiseConstant(4), constraints=["abs(u) <= 1"], use_records=False,
                           rival=line, progress=False)
    levels = np.sort(plan.inputs["u"])
    assert levels[:10] == pytest.approx(-1, abs=1e-3) and levels[-10:] == pytest.approx(1, abs=1e-3)
    assert levels[10:30] == pytest.approx(0, abs=0.01)
    u = plan.inputs["u"]
    left = np.polyval(np.polyfit(u, 0.3 * u**2, 1), u) - 0.3 * u**2
    assert plan.noncentrality == pytest.approx(np.sum(left**2) / STD**2, rel=1e-6)


def test_derivatives_are_those_of_central_differences():
    problem = build_design_problem(parse_arguments(with_rival(cubic(), linear()), di.signals.PiecewiseLinear(4),
                                                   Discrimination(), ["abs(u) <= 1"], (), DesignOptions()))
    nlp = DesignNlp(problem, problem.simulation, (), ())
    w, h = draw_start(problem, problem.simulation, problem.generator()), 1e-6
    slope = [(nlp.evaluate(w + h * e).value - nlp.evaluate(w - h * e).value) / (2 * h) for e in np.eye(w.size)]
    assert nlp.evaluate(w).gradient == pytest.approx(slope, abs=1e-5 * np.max(np.abs(slope)))


def test_a_refit_of_the_rival_misses_by_what_was_predicted_and_a_timid_input_by_less():
    plan = di.design_input(cubic(), di.signals.PiecewiseConstant(5), constraints=["abs(u) <= 1.5"], use_records=False, starts=2,
                           rival=linear(), progress=False)
    assert plan.record.noise.keys() == {"y"} and plan.record.initial.keys() == {"x"}
    assert f"larger by {plan.noncentrality:.3g} times the noise variance" in plan.notes[0]

    def missed(u, hold):
        run = di.Experiment(TIME, {"u": u}, initial={"x": 0.0}, hold=hold)
        y = di.simulate(cubic().model, {"a": 0.6, "c": 0.4, "b": 1.2}, run).outputs["y"]
        record = di.Experiment(TIME, {"u": u}, {"y": y}, {"y": di.Gaussian(STD)}, {"x": 0.0}, hold=hold)
        fitted = di.identify(di.Problem(linear().model, [record], linear().parameters), di.single_shooting(), progress=False)
        return float(np.sum((y - di.simulate(linear().model, fitted.values, run).outputs["y"]) ** 2)) / STD**2

    found = missed(plan.inputs["u"], "zero")
    assert found == pytest.approx(plan.noncentrality, rel=0.25)  # the rival moves far enough to bend
    assert found > 2 * missed(0.5 * np.sin(TIME), "linear")
    assert found > missed(np.full(TIME.size, 1.5), "zero")


def test_a_rival_of_other_records_is_refused():
    other = problem_of("-a*x + b*u", {"a": 0.8, "b": 1.2})
    two = other.replace(experiments=[*other.experiments, *[e.with_name("again") for e in other.experiments]])
    with pytest.raises(di.ProblemError, match="2 records"):
        di.design_input(linear(), di.signals.PiecewiseConstant(2), constraints=["abs(u) <= 1"], rival=two, progress=False)
    with pytest.raises(di.ProblemError, match="criterion of its own"):
        di.design_input(linear(), di.signals.PiecewiseConstant(2), "D", ["abs(u) <= 1"], rival=cubic(), progress=False)
