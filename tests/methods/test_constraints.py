"""Constraints between parameters: every method that takes them finds Ipopt's optimum, every other one says that it does not."""

import dataclasses

import casadi
import numpy as np
import pytest

import dynident as di
from dynident.linalg.arrowhead import arrowhead
from dynident.linalg.bounded_least_squares import bounded_least_squares
from dynident.solvers.search_direction import LinearizedConstraints
from dynident.statistics.diagnostic import DiagnosticCode
from problems import MACHINES

SCHEME = "trapezoid"
TAKE = {"full discretization": di.full_discretization(SCHEME, substeps=1, solver="gauss_newton"),
        "SQP": di.full_discretization(SCHEME, substeps=1, solver="sqp"),
        "multiple shooting": di.multiple_shooting(integrator=SCHEME, substeps=1),
        "single shooting": di.single_shooting(integrator=SCHEME, substeps=1),
        "black box": di.least_squares(integrator=SCHEME, substeps=1)}
REFUSE = [di.kalman(), di.moving_horizon(), di.boundary_value()]
FREE = {"m": 1.0063, "d": 1.0128, "k": 1.0044}  # roughly where the fit without constraints ends
CONSTRAINTS = {
    "sum": [f"m + d == {FREE['m'] + FREE['d'] + 0.01}"],
    "sum and limit": [f"m + d == {FREE['m'] + FREE['d'] + 0.01}", f"k <= {FREE['k'] - 0.01}"],
    "product": [f"m*k == {1.01 * FREE['m'] * FREE['k']}"],
    "two inequalities": [f"m + d >= {FREE['m'] + FREE['d'] + 0.02}", f"k/m <= {FREE['k'] / FREE['m'] - 0.01}"],
    "one that is slack": ["m + d >= 1.9", f"{FREE['k'] - 0.02} <= k <= {FREE['k'] - 0.005}"]}


def problem(constraints=()):
    return MACHINES["mass_spring_damper"].problem(seed=4).replace(constraints=list(constraints))


@pytest.mark.parametrize("method", TAKE)
@pytest.mark.parametrize("which", CONSTRAINTS)
def test_all_methods_find_the_optimum_of_ipopt(which, method):
    asked = problem(CONSTRAINTS[which])
    reference = di.identify(asked, di.full_discretization(SCHEME, substeps=1, solver="ipopt"))
    found = di.identify(asked, TAKE[method])
    assert found.cost == pytest.approx(reference.cost, rel=1e-6)
    for name in asked.names:
        std = reference.uncertainty.std(name)
        assert found.values[name] == pytest.approx(reference.values[name], abs=1e-3 * std + 1e-7)
        assert found.uncertainty.std(name) == pytest.approx(std, rel=1e-2, abs=1e-7)


def test_several_experiments_share_a_constrained_parameter():
    machine = MACHINES["two_mass"]
    one = machine.problem(seed=4)
    records = [dataclasses.replace(e, name=name) for name, e in
               (("first", one.experiments[0]), ("second", machine.problem(seed=5).experiments[0]))]
    both = di.Problem(one.model, records, one.parameters)
    free = di.identify(both)
    name, other = both.parameters[0].name, both.parameters[1].name
    tied = both.replace(constraints=[f"{name} + {other} == {1.01 * (free.values[name] + free.values[other])}"])
    found = di.identify(tied, di.multiple_shooting(integrator=SCHEME, substeps=1))
    reference = di.identify(tied, di.full_discretization(SCHEME, substeps=1, solver="ipopt"))
    assert found.cost == pytest.approx(reference.cost, rel=1e-6)
    assert found.values[name] == pytest.approx(reference.values[name], abs=1e-3 * reference.uncertainty.std(name))


@pytest.mark.parametrize("method", [m for m in TAKE if m != "SQP"])
def test_constraints_that_contradict_each_other_are_said(method):
    with pytest.raises(di.NotConverged, match=r"meets all constraints: 'm \+ d (==|<=) [45]' is off by") as stopped:
        di.identify(problem(["m + d == 5", "m + d <= 4"]), TAKE[method])
    assert stopped.value.estimate.status.code == "infeasible_constraints"


@pytest.mark.parametrize("method", REFUSE, ids=lambda m: m.kind)
def test_who_takes_no_constraints_says_so(method):
    with pytest.raises(di.NotSupported, match=r"no other constraints.*m \+ d == 2.*multiple_shooting"):
        di.identify(problem(["m + d == 2"]), method)


def test_sets_and_profiles_say_so_too():
    e, = problem().experiments
    within = di.Experiment(e.time, e.inputs, e.outputs, noise={name: di.Bounded(1.0) for name in e.outputs})
    boxed = [di.Parameter(p.name, p.start, 0.1, 3) for p in problem().parameters if isinstance(p, di.Parameter)]
    bounded = di.Problem(problem().model, [within], boxed, constraints=["m + d == 2"])
    with pytest.raises(di.NotSupported, match="holds with the constraint too"):
        di.identify(bounded, di.set_membership())
    with pytest.raises(di.NotSupported, match="no other constraints"):
        di.profile(di.identify(problem(CONSTRAINTS["sum"])))


@pytest.mark.parametrize("method", ["multiple shooting", "single shooting", "black box", "full discretization"])
def test_bounds_on_states_are_refused_with_the_way_out(method):
    with pytest.raises(di.NotSupported, match=r"no bounds on states \('v <= 1'\).*(full_discretization|ipopt)"):
        di.identify(problem(["v <= 1"]), TAKE[method])


@pytest.mark.parametrize("seed", range(6))
def test_step_under_conditions_is_that_of_an_independent_solver(seed):
    """Random least squares with bounds, two inequalities and an equality, whose first point meets none of the last two."""
    rng = np.random.default_rng(seed)
    A, b, C = rng.normal(size=(9, 5)), rng.normal(size=9), rng.normal(size=(3, 5))
    lower, upper = np.full(5, -0.5), np.full(5, 0.7)
    low, high = np.array([-np.inf, 0.3, 0.2]), np.array([0.4, np.inf, 0.2])

    class Limits:
        texts = ("", "", "")

    limits = Limits()
    limits.lower, limits.upper = low, high
    tie = LinearizedConstraints(limits, np.zeros(3), C, np.ones(3), np.full(3, 1e6))
    rows = tie.augment(arrowhead(5, np.arange(5), [], np.column_stack([A, b])))
    step, _ = bounded_least_squares(rows, *tie.bounds(lower, upper))
    peer = casadi.conic("peer", "qrqp", {"h": casadi.Sparsity.dense(5, 5), "a": casadi.Sparsity.dense(3, 5)},
                        {"print_iter": False, "print_header": False})
    found = peer(h=2 * A.T @ A, g=2 * A.T @ b, a=C, lba=low, uba=high, lbx=lower, ubx=upper)
    assert peer.stats()["success"]
    np.testing.assert_allclose(step[:5], np.asarray(found["x"]).ravel(), atol=1e-8)


def carts(constraints, **bounds):
    """A model that shows only the sum of two masses."""
    model = di.EquationModel(states={"v": "(F - d*v)/(m1 + m2)"}, outputs={"speed": "v"}, inputs=["F"])
    time = np.linspace(0, 8, 201)
    force = 5 * np.sign(np.sin(2 * np.pi * time / 3))
    clean = di.simulate(model, {"m1": 2.0, "m2": 4.0, "d": 1.5}, di.Experiment(time, {"F": force}, initial={"v": 0.0}))
    speed = clean.outputs["speed"] + 1e-3 * np.random.default_rng(4).standard_normal(201)
    run = di.Experiment(time, {"F": force}, {"speed": speed}, noise={"speed": di.Gaussian(1e-3)}, initial={"v": 0.0})
    return di.Problem(model, [run], [di.Parameter("m1", 1.0, **(bounds or {"lower": 0.1})),
                                     di.Parameter("m2", 2.0, lower=0.1), di.Parameter("d", 1.0, lower=0)],
                      constraints=constraints)


def test_check_counts_an_equality_as_knowledge():
    assert not di.check(carts([])).ok
    result = di.check(carts(["m2 == 2*m1"]))
    assert result.ok and not any("m1" in f.subject for f in result.findings), str(result)
    assert not di.check(carts(["m1 + m2 == 6"])).ok  # says what the data say already, and not how to split it
    assert not di.check(carts(["m2 >= 2*m1"])).ok  # nor does an inequality


@pytest.mark.parametrize(("constraints", "bounds"), [
    (["m1 == 1", "m1 == 2"], {}), (["m1 == 0.01"], {}), (["m1 + m2 <= 1", "m1 >= 2"], {}), (["m1 >= 3"], {"upper": 2.0})])
def test_check_says_that_constraints_contradict_each_other_or_a_bound(constraints, bounds):
    result = di.check(carts(constraints, **bounds))
    first = result.findings[0]
    assert not result.ok and first.code is DiagnosticCode.INFEASIBLE_CONSTRAINTS
    assert first.subject.strip("'") in constraints


@pytest.mark.parametrize("constraints", [["m1 == 2", "m2 == 4"], ["m1*m2 == 8"], ["m1 >= 2", "m1 <= 2.0", "m2 == 2*m1"],
                                         ["m1 + m2 == 6", "m1 - m2 == -2"], ["m1 == 0.1"]])
def test_check_leaves_constraints_in_peace_that_can_be_met(constraints):
    codes = set(di.check(carts(constraints)).codes)
    assert not codes & {DiagnosticCode.INFEASIBLE_CONSTRAINTS, DiagnosticCode.PERHAPS_INFEASIBLE_CONSTRAINTS}
