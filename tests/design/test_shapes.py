"""Shapes of the input: two levels with free switches, which shape wins and by how much, and whether random inputs beat it."""

from pathlib import Path

import numpy as np
import pytest
from lags import lag

import dynident as di
from dynident.design.design_input import check_table, plan_from_table
from dynident.design.signals import default_shapes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
U = ["abs(u) <= 1"]


def design(problem, signal=None, **options):
    return di.design_input(problem, signal, constraints=U, use_records=False, starts=1, progress=False, **options)


def test_a_binary_input_has_two_levels_and_its_switches_in_order():
    plan = design(lag(), di.signals.Binary(3))
    u, c = plan.inputs["u"], plan.record.coefficients
    switches = [c[f"u.switch{k}"] for k in range(3)]
    assert switches == sorted(switches) and switches[0] >= 0 and switches[-1] <= 1
    low, high = sorted((c["u.first_level"], c["u.second_level"]))
    between = (u > low + 1e-9) & (u < high - 1e-9)
    assert between.sum() <= 3  # a switch within a sample is the mean of both levels there
    assert u.min() >= low - 1e-9 and u.max() <= high + 1e-9


def test_a_switch_within_a_sample_is_the_share_of_it():
    plan = design(lag(), di.signals.Binary(1))
    c, u, share = plan.record.coefficients, plan.inputs["u"], plan.record.coefficients["u.switch0"] * 40
    k = int(share)
    if k < 40:
        expected = c["u.second_level"] + (share - k) * (c["u.first_level"] - c["u.second_level"])
        assert u[k] == pytest.approx(expected, abs=1e-9)
    assert np.allclose(u[:k], c["u.first_level"]) and np.allclose(u[k + 1:], c["u.second_level"])


def test_the_best_of_several_shapes_is_the_best_of_the_plans_alone():
    shapes = [di.signals.Bernstein(2), di.signals.PiecewiseConstant(4), di.signals.Binary(2)]
    alone = {own.shape: own.cost for own in (design(lag(), shape) for shape in shapes)}
    plan = design(lag(), shapes)
    assert plan.shapes == pytest.approx(alone)
    assert plan.cost == min(alone.values()) and alone[plan.shape] == plan.cost
    assert plan.notes[0].startswith(f"Of 3 shapes of the input {plan.shape} is best")
    worst = max(alone, key=alone.get)
    assert f"{worst} is {100 * np.expm1(alone[worst] - plan.cost):.3g} % worse" in plan.notes[0]


def test_without_a_signal_the_five_shapes_are_tried():
    seen = set()
    plan = di.design_input(lag(11), constraints=U, use_records=False, starts=1, progress=lambda at: seen.add(at.shape))
    kinds = {"piecewise constant", "piecewise linear", "bernstein", "multisine", "binary"}
    assert {label.split(" (")[0] for label in plan.shapes} == kinds
    assert {label.split(" (")[0] for label in seen} == kinds


@pytest.mark.parametrize("samples", [3, 4, 11, 1001])
def test_default_shapes_are_no_finer_than_the_samples(samples):
    assert all(1 <= len(shape.names) <= max(samples, 3) + 1 for shape in default_shapes(samples)[:3])
    assert max(len(shape.names) for shape in default_shapes(samples)) <= 21


def test_a_shape_that_cannot_keep_the_constraints_is_named_and_left():
    """One level can't end with the state at zero and the input away from it."""
    one, many = di.signals.PiecewiseConstant(1), di.signals.PiecewiseConstant(8)
    options = {"constraints": U, "terminal_constraints": ["x == 0", "u == 0.5"], "use_records": False, "starts": 1,
               "progress": False}
    with pytest.raises(di.NotConverged):
        di.design_input(lag(), one, **options)
    plan = di.design_input(lag(), [one, many], **options)
    assert plan.shapes["piecewise constant (1 coefficients)"] == np.inf
    assert plan.shape == "piecewise constant (8 coefficients)"
    assert "piecewise constant (1 coefficients) met not all constraints" in plan.notes[0]


def test_no_shape_at_all_is_refused():
    with pytest.raises(di.ProblemError, match="at least one shape"):
        design(lag(), [])


def test_a_problem_file_may_leave_the_shape_open_or_list_some():
    for signal in ("auto", [{"kind": "binary", "switches": 2}, "bernstein"]):
        check_table(lag(), {"signal": signal, "constraints": U})
    plan = plan_from_table(lag(), {"signal": [{"kind": "binary", "switches": 2}, {"kind": "bernstein", "order": 2}],
                                   "constraints": U, "starts": 1, "use_records": False}, progress=False)
    assert len(plan.shapes) == 2


def test_nothing_limits_a_binary_input_without_a_constraint():
    with pytest.raises(di.ProblemError, match="Nothing limits the input 'u'"):
        di.design_input(lag(), di.signals.Binary(2), progress=False)


def test_random_inputs_do_not_beat_the_plan_for_a_duffing_oscillator(monkeypatch):
    """A piecewise linear input with 20 corners alone is beaten by a random binary one."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import design_shapes as study

    case = study.CASES["Duffing"]
    rng = np.random.default_rng(3)
    best = min(study.costs_of(case, np.array([draw(case, rng) for _ in range(150)]).T, hold).min()
               for draw, hold in study.KINDS.values())

    def judged(*shapes):
        plan = di.design_input(case.problem(), shapes, constraints=U, use_records=False, starts=2, progress=False)
        return study.costs_of(case, plan.inputs["u"][:, None], plan.record.hold["u"])[0], plan

    cost, plan = judged(di.signals.PiecewiseConstant(20), di.signals.Binary(16))
    assert cost < best
    assert plan.cost == pytest.approx(cost, abs=1e-3)  # the planner's own prediction
