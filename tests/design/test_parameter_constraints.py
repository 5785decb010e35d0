"""Do constraints between parameters enter a plan as they enter an estimate?"""

import numpy as np
import pytest

import dynident as di

TIME = np.arange(0, 3, 0.01)
SHAPE = di.signals.PiecewiseLinear(5)
BOUNDED = ["abs(u) <= 4"]


def axis(inertia):
    return di.EquationModel(states={"q": "v", "v": f"(35.15*u - Fv*v - 20*tanh(v/0.02))/({inertia})"},
                            outputs={"position": "q"}, inputs=["u"])


@pytest.fixture(scope="module")
def record():
    run = {"time": TIME, "inputs": {"u": 1.5 * np.sin(np.pi * TIME)}, "initial": {"q": 0.0, "v": 0.0}, "hold": "linear"}
    y = di.simulate(axis("M"), {"M": 95.0, "Fv": 200.0}, di.Experiment(**run)).outputs["position"]
    y = y + 1e-3 * np.random.default_rng(1).standard_normal(TIME.size)
    return di.Experiment(**run, outputs={"position": y}, noise={"position": di.Gaussian(1e-3)})


def planned(record, inertia, names, constraints=(), **options):
    starts = {"m": 45.0, "m1": 45.0, "m2": 45.0, "Fv": 180.0}
    problem = di.Problem(axis(inertia), [record], [di.Parameter(n, starts[n], lower=1, upper=500) for n in names],
                         constraints=list(constraints))
    estimate = di.identify(problem, di.single_shooting())
    return estimate, di.design_input(estimate, SHAPE, options.pop("criterion", "D"), BOUNDED, starts=1, **options)


@pytest.mark.parametrize("criterion", ["A", "D", "E", "modified_E", "std:Fv"])
def test_an_equality_is_the_same_as_a_model_with_one_parameter_less(record, criterion):
    estimate, tied = planned(record, "m1 + m2", ["m1", "m2", "Fv"], ["m1 == m2"], criterion=criterion)
    for name, std in tied.std_before.items():
        assert std == pytest.approx(estimate.uncertainty.std(name), rel=0.01)
    assert tied.std_after["m1"] == pytest.approx(tied.std_after["m2"], rel=1e-6)
    if criterion in ("D", "std:Fv"):  # do not depend on how m is counted
        _, free = planned(record, "2*m", ["m", "Fv"], criterion=criterion)
        for name, other in (("m", "m1"), ("Fv", "Fv")):
            assert free.std_before[name] == pytest.approx(tied.std_before[other], rel=1e-4)
            assert free.std_after[name] == pytest.approx(tied.std_after[other], rel=0.02)  # where the search settles


def test_an_equality_counts_where_no_record_does(record):
    _, plan = planned(record, "m1 + m2", ["m1", "m2", "Fv"], ["m1 == m2"], use_records=False)
    assert all(np.isinf(std) for std in plan.std_before.values())
    assert all(np.isfinite(std) for std in plan.std_after.values())


def test_parameters_that_no_constraint_tells_apart_are_still_refused(record):
    with pytest.raises(di.ProblemError, match="No input can determine m1, m2"):
        di.design_input(di.Problem(axis("m1 + m2"), [record], [di.Parameter(n, 45.0, lower=1, upper=500)
                                                               for n in ("m1", "m2", "Fv")]), SHAPE, "D", BOUNDED)


@pytest.mark.parametrize(("limit", "binds"), [("Fv <= 3*m1", True), ("Fv <= 9*m1", False)])
def test_an_inequality_counts_where_it_holds_the_estimate(record, limit, binds):
    estimate, plan = planned(record, "2*m1", ["m1", "Fv"], [limit])
    ratio = estimate.values["Fv"] / estimate.values["m1"]
    assert (ratio == pytest.approx(3.0, rel=1e-4)) == binds
    if binds:
        assert plan.std_after["Fv"] == pytest.approx(3 * plan.std_after["m1"], rel=1e-4)


def test_draws_of_a_robust_plan_keep_the_constraint(record):
    from dynident.design.argument_checks import DesignOptions, parse_arguments
    from dynident.design.design_problem import build_design_problem

    estimate, _ = planned(record, "m1 + m2", ["m1", "m2", "Fv"], ["m1 == m2"])
    options = DesignOptions(robust="average", samples=5, amplitude=4.0)
    for m1, m2, _ in build_design_problem(parse_arguments(estimate, SHAPE, None, (), (), options)).scenarios:
        assert m1 == pytest.approx(m2, rel=1e-5)


def test_bounds_on_states_are_said_to_be_no_constraint_of_the_plan(record):
    problem = di.Problem(axis("M"), [record], [di.Parameter("M", 95.0), di.Parameter("Fv", 200.0)],
                         constraints=["-1 <= v <= 1"])
    plan = di.design_input(problem, SHAPE, "D", BOUNDED, starts=1)
    assert any("'-1 <= v <= 1' bounds states" in note for note in plan.notes)
