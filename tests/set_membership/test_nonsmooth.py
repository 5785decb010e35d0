"""Rates that are not smooth: kinks, jumps and ends are passed within a step, and no trajectory is lost (10^4 each)."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.papers.union_of_modes import PRINTED_FLOW, UnionOfModesStep
from dynident.set_membership.flows.boxes import BoundedSample, Boxes, IntervalStep, stack_rows
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.flows.lohner import LohnerFlow
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow
from dynident.set_membership.flows.nonsmooth import smoothness_margins
from dynident.set_membership.flows.taylor_model_flow import TaylorModelFlow

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")

SAMPLES = 10_000
ROUNDED = 1e-12  # what the closed forms lose
LENGTH = 0.1


def crossing(above, time_to_zero, below):
    """A solution that starts above zero, as `above`, and from zero on goes as `below`."""
    def ends(x, a, b, t):
        left = np.maximum(t - time_to_zero(x, a, b), 0)
        return np.where(x > 0, np.where(left > 0, below(0 * x, a, b, left), above(x, a, b, t)), below(x, a, b, t))

    return ends


def damped(sign):
    """x' = sign a x - b."""
    return lambda x, a, b, t: x * np.exp(sign * a * t) - b * np.expm1(sign * a * t) / (sign * a)


def straight(rate):
    return lambda x, a, b, t: x - rate(a, b) * t


def braked(x, a, b, t):
    """x' = -a x^2 - b above zero."""
    return np.sqrt(b / a) * np.tan(np.arctan(x * np.sqrt(a / b)) - np.sqrt(a * b) * t)


def helped(x, a, b, t):
    """x' = a x^2 - b below zero."""
    return np.sqrt(b / a) * np.tanh(np.arctanh(x * np.sqrt(a / b)) - np.sqrt(a * b) * t)


def drained(x, a, b, t):
    return np.maximum(np.sqrt(x) - a * b * t / 2, 0) ** 2


LAWS = {  # rate with parameters a in [1, 1.2], b in [0.5, 0.6]; exact solution; where x starts
    "abs": ("-a*abs(x) - b", crossing(damped(-1), lambda x, a, b: np.log1p(a * x / b) / a, damped(1)), (-0.02, 0.04)),
    "maximum": ("-a*maximum(x, 0) - b", crossing(damped(-1), lambda x, a, b: np.log1p(a * x / b) / a,
                                                 straight(lambda a, b: b)), (-0.02, 0.04)),
    "where, which jumps": ("where(x > 0, -b, -a)", crossing(straight(lambda a, b: b), lambda x, a, b: x / b,
                                                            straight(lambda a, b: a)), (-0.02, 0.04)),
    "sign": ("-a - b*sign(x)", crossing(straight(lambda a, b: a + b), lambda x, a, b: x / (a + b),
                                        straight(lambda a, b: a - b)), (-0.02, 0.1)),
    "quadratic drag": ("-a*x*abs(x) - b", crossing(braked, lambda x, a, b: np.arctan(x * np.sqrt(a / b)) / np.sqrt(a * b),
                                                   helped), (-0.02, 0.04)),
    "sqrt, which ends": ("-a*b*sqrt(x)", drained, (0.0, 0.004)),
    "power": ("-a*b*x**0.5", drained, (0.0, 0.004)),
}


def drawn(name, share):
    """A model, its box, random members of it and where they are after the step; `share` of the range of x."""
    text, exact, (low, high) = LAWS[name]
    rng = np.random.default_rng(3)
    model = di.EquationModel(states={"x": text}, parameters=["a", "b"])
    lo = np.array([low + share[0] * (high - low), 1.0, 0.5])
    hi = np.array([low + share[1] * (high - low), 1.2, 0.6])
    inside, corners = rng.random((3, SAMPLES)), rng.choice([0.0, 1.0], (3, SAMPLES))
    points = lo[:, None] + (hi - lo)[:, None] * np.where(rng.random((3, SAMPLES)) < 0.4, corners, inside)
    with np.errstate(all="ignore"):
        return model, lo[:, None], hi[:, None], points, exact(*points, LENGTH)


def step():
    none = np.zeros(0)
    return IntervalStep.from_samples(0.0, LENGTH, none, none, np.zeros(0, bool), none)


SHARES = [(0.0, 1.0), (0.0, 0.0), (0.3, 0.35), (0.5, 1.0), (1.0, 1.0)]  # wide, thin, at the kink, beyond it


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", LAWS)
def test_no_order_loses_a_trajectory_that_meets_what_is_not_smooth(name, share):
    model, lo, hi, _, reached = drawn(name, share)
    layout = IntervalAutomaton(model).layout
    for choice in (PRINTED_FLOW, FlowOptions(2), FlowOptions(3), FlowOptions(6)):
        flow = ModeFlow(layout, model.rate, choice)
        low, high = stack_rows(layout, lo, hi, step())
        low[layout.enclosure_rows], high[layout.enclosure_rows] = flow.enclose_step(low, high)
        end = flow.enclose_end(low, high)
        assert np.all((reached >= end[0] - ROUNDED) & (reached <= end[1] + ROUNDED))
        assert end[1][0, 0] - end[0][0, 0] < 0.4  # an enclosure of everything would hold all too


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", LAWS)
def test_nor_does_a_step_with_its_measurement_and_the_way_back(name, share):
    model, lo, hi, points, reached = drawn(name, share)
    automaton = IntervalAutomaton(model)
    radius = 0.01
    for k in range(0, SAMPLES, SAMPLES // 20):
        sample = BoundedSample(step(), reached[[k]] - radius, reached[[k]] + radius)
        truth = np.append(reached[k], points[1:, k])
        for way in (HybridStep(automaton, FlowOptions(3)), HybridStep(automaton, FlowOptions(3), compiled=False),
                    UnionOfModesStep(automaton, model)):
            first = way.start(Boxes(lo, hi, np.zeros(1, int)), step())
            left = way.advance(first, step(), sample, True)[0]
            assert np.any(np.all((left.lo <= truth[:, None] + ROUNDED) & (truth[:, None] - ROUNDED <= left.hi), axis=0))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", LAWS)
def test_nor_does_a_tube(name, share):
    model, lo, hi, points, reached = drawn(name, share)
    layout = IntervalAutomaton(model).layout
    parts = step().subdivide(4)
    rows = LohnerFlow(layout, model.rate, model.output, 5).enclose_outputs(lo, hi, [*parts, step()])
    predicted = rows.offset[-1, 0, 0] + rows.a[-1, 0, :, 0] @ (points - rows.centre)
    assert np.all(np.abs(predicted - reached) <= rows.error[-1, 0, 0] + ROUNDED)
    assert rows.error[-1, 0, 0] < 0.4


@pytest.mark.parametrize("share", SHARES)
def test_a_taylor_tube_holds_what_ends(share):
    model, lo, hi, _, reached = drawn("sqrt, which ends", share)
    flow = TaylorModelFlow(IntervalAutomaton(model).layout, model.rate, model.output, 3, 2)
    rows = flow.enclose_outputs(lo, hi, [*step().subdivide(2), step()])
    assert np.all((reached >= rows.low[-1] - ROUNDED) & (reached <= rows.high[-1] + ROUNDED))


def test_an_output_that_jumps_is_not_taken_for_a_line():
    model = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "where(x > 0.5, 1, 0)"})
    lo, hi = np.array([[0.4], [1.0]]), np.array([[0.7], [1.1]])
    rows = LohnerFlow(IntervalAutomaton(model).layout, model.rate, model.output, 5).enclose_outputs(lo, hi, [step()])
    for x in (0.45, 0.65):
        y = rows.offset[0, 0, 0] + rows.a[0, 0, :, 0] @ (np.array([x, 1.05]) - rows.centre[:, 0])
        assert abs(y - (x > 0.5)) <= rows.error[0, 0, 0] + ROUNDED


@pytest.mark.parametrize("text, meets", [
    ("sin(x)*exp(-p) + u**2 + x**3", None), ("abs(p)*x", None), ("sqrt(p)*x", None), ("where(p > 1, x, -x)", "p = 1"),
    ("abs(u)*x", "u passes 0"), ("where(u > p, x, 0)", "u = p"), ("sqrt(u)", "u = 0"), ("atan2(x, -1)", "x = 0"),
    ("log(x)", "x = 0"), ("asin(x)", "x = 1"), ("minimum(x, p)", "x = p")])
def test_what_is_not_smooth_is_found_in_the_equations(text, meets):
    model = di.EquationModel(states={"x": text}, inputs=re.findall(r"\bu\b", text))
    s = IntervalAutomaton(model).layout.symbols()
    assert bool(smoothness_margins(model.rate(s.t, s.x, s.u, s.p), s)) == (meets is not None)


def test_a_kink_in_an_input_that_is_held_is_none():
    model = di.EquationModel(states={"x": "abs(u) - x"}, inputs=["u"])
    layout = IntervalAutomaton(model).layout
    flow = ModeFlow(layout, model.rate, FlowOptions(3))
    for end, linear, fails in ((0.0, False, False), (1.0, True, True)):
        held = IntervalStep.from_samples(0.0, LENGTH, np.zeros(1), np.array([end]), np.array([linear]), np.zeros(1))
        assert flow.smoothness.may_fail(*stack_rows(layout, np.ones((1, 1)), np.ones((1, 1)), held))[0] == fails


@pytest.mark.compiled
def test_a_tank_that_runs_empty_is_not_refuted():
    """Torricelli: the level reaches zero, where the rate has no derivative, and stays there."""
    time = np.arange(41) * 0.25
    level = np.maximum(1 - 0.26 * time / 2, 0) ** 2
    radius = 0.01
    measured = level + np.random.default_rng(1).uniform(-radius, radius, time.size)
    model = di.EquationModel(states={"level": "-k*sqrt(level)"})
    run = di.Experiment(time=time, outputs={"level": measured}, noise={"level": di.Bounded(radius)},
                        initial={"level": 1.0})
    problem = di.Problem(model, [run], [di.Parameter("k", 0.3, 0.05, 1.0)])
    for algorithm in ("batch", "recursive", "paper"):
        low, high = di.identify(problem, di.set_membership(algorithm, max_boxes=60, strategy="widest"), progress=False
                                ).uncertainty.interval("k")
        assert low <= 0.26 <= high
        assert algorithm == "paper" or high - low < 0.02


@pytest.mark.parametrize("order", [1, 2, 3])
def test_each_state_meets_its_remainder_at_a_moment_of_its_own(order):
    """x = p t^(n+2)/(n+2), y = p t^(n+1)/(n+1): Lagrange's points of the two remainders differ, and both are measured."""
    time, n = np.arange(4.0), order + 1
    model = di.EquationModel(states={"x": f"p*t**{n + 1}", "y": f"p*t**{n}"}, outputs={"x": "x", "y": "y"})
    run = di.Experiment(time=time, initial={"x": 0.0, "y": 0.0}, noise=dict.fromkeys("xy", di.Bounded(1e-3)),
                        outputs={"x": time ** (n + 2) / (n + 2), "y": time ** (n + 1) / (n + 1)})
    problem = di.Problem(model, [run], [di.Parameter("p", 1.0, 0.9, 1.1)])
    low, high = di.identify(problem, di.set_membership("recursive", order=order, max_boxes=20), progress=False
                            ).uncertainty.interval("p")
    assert low <= 1 <= high


def test_a_box_without_end_loses_nothing():
    """exp of a speed that is not known at all: corners at infinity would say nothing true."""
    model = di.EquationModel(states={"x": "-a*x + b*exp(-x)"}, outputs={"y": "x"})
    layout = IntervalAutomaton(model).layout
    flow = ModeFlow(layout, model.rate, FlowOptions(3))
    for low, high in ((-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0)):
        lo, hi = stack_rows(layout, np.array([[low], [1.0], [0.5]]), np.array([[high], [1.2], [0.6]]), step())
        lo[layout.enclosure_rows], hi[layout.enclosure_rows] = flow.enclose_step(lo, hi)
        end = flow.enclose_end(lo, hi)
        inside = np.clip(0.3, low, high)
        moved = inside + LENGTH * (-1.1 * inside + 0.55 * np.exp(-inside))  # the end of its step, to a few percent
        assert end[0][0, 0] <= moved - 0.02 and moved + 0.02 <= end[1][0, 0]
        (_, _), left = flow.contract(lo, hi, (np.full((1, 1), moved - 0.1), np.full((1, 1), moved + 0.1)))
        assert left[0][0, 0] <= moved <= left[1][0, 0]
