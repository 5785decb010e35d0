"""Is an input for one mode of a hybrid model planned with what all records tell, and does it stay in the mode?"""

import numpy as np
import pytest

import dynident as di
from dynident.design.guard_constraints import guard_constraints
from dynident.errors import NotConverged, NotSupported, ProblemError
from dynident.models.equations import EquationModel
from dynident.models.hybrid import Mode, Transition

TRUTH = {"M": 2.0, "Fc": 1.0, "Fv": 0.5}
TIME = np.arange(0, 3, 0.01)
SHAPE = di.signals.PiecewiseLinear(6)
MOVING = {"q": 0.0, "v": 0.5}


def block(invariant="v > 0 or v == 0 and u > Fc", stops="v < 0"):
    """Sticks, and slides both ways."""
    return EquationModel(
        states=["q", "v"], inputs=["u"], outputs={"position": "q"},
        modes={"rest": Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fc and u >= -Fc"),
               "forward": Mode(rate={"q": "v", "v": "(u - Fc - Fv*v)/M"}, invariant=invariant),
               "back": Mode(rate={"q": "v", "v": "(u + Fc - Fv*v)/M"}, invariant="v < 0 or v == 0 and u < -Fc")},
        transitions=[Transition("rest", "forward", when="u > Fc"), Transition("rest", "back", when="u < -Fc"),
                     Transition("forward", "rest", when=stops, reset={"v": 0}),
                     Transition("back", "rest", when="v > 0", reset={"v": 0})])


def fitted(model):
    run = {"time": TIME, "inputs": {"u": 2.5 * np.sin(4 * TIME)}, "initial": {"q": 0.0, "v": 0.0}, "hold": "linear"}
    y = di.simulate(model, TRUTH, di.Experiment(**run)).outputs["position"]
    y = y + 1e-3 * np.random.default_rng(0).standard_normal(TIME.size)
    record = di.Experiment(**run, outputs={"position": y}, noise={"position": di.Gaussian(1e-3)}, mode="rest")
    return di.identify(di.Problem(model, [record], [di.Parameter(n, 0.8 * v, 0.01, 10) for n, v in TRUTH.items()]))


@pytest.mark.parametrize("invariant", ["", "v > 0 or v == 0 and u > Fc"])
def test_a_plan_for_a_mode_counts_what_all_modes_of_the_records_told_and_stays(invariant):
    model = block(invariant)
    estimate = fitted(model)
    plan = di.design_input(estimate, SHAPE, "std:Fc", ["abs(u) <= 3"], starts=1, mode="forward", initial=MOVING)
    for name, std in plan.std_before.items():
        assert std == pytest.approx(estimate.uncertainty.std(name), rel=0.01)  # the estimate has its own number of steps
    assert plan.std_after["Fc"] < plan.std_before["Fc"]
    record = plan.record
    motion = di.simulate(model, {n: estimate.values[n] for n in TRUTH}, di.Experiment(
        record.time, record.inputs, initial=record.initial, hold=record.hold))
    assert set(motion.modes) == {"forward"}
    assert record.experiment({"position": np.zeros(record.time.size)}).mode == "forward"


def test_a_plan_for_a_mode_is_as_sharp_as_predicted():
    model = block()
    estimate = fitted(model)
    options = {"criterion": "std:Fc", "starts": 1, "mode": "forward", "initial": MOVING}
    along = di.design_input(estimate, SHAPE, constraints=["abs(u) <= 3"], **options)
    assert any("goes along 'v >= 0', the border of the mode 'forward'" in note for note in along.notes)
    plan = di.design_input(estimate, SHAPE, constraints=["abs(u) <= 3", "v >= 0.05"], **options)
    assert not plan.notes
    ran = di.simulate(model, TRUTH, plan.experiment({"position": np.zeros(plan.time.size)})).outputs["position"]
    ran = ran + 1e-3 * np.random.default_rng(1).standard_normal(ran.size)
    both = estimate.problem.replace(experiments=[*estimate.problem.experiments, plan.experiment({"position": ran})])
    check = plan.compare(di.identify(both, di.single_shooting()))
    assert check.as_predicted, check


def test_a_transition_that_no_inequality_can_say_is_found_in_the_finished_plan():
    estimate = fitted(block("", "v < 0 and q > -100"))
    with pytest.raises(NotConverged, match=r"leaves the mode 'forward' at t = .*not \(v < 0 and q > -100\).*Give a constraint"):
        di.design_input(estimate, SHAPE, "std:Fc", ["abs(u) <= 3"], starts=1, mode="forward", initial=MOVING)
    plan = di.design_input(estimate, SHAPE, "std:Fc", ["abs(u) <= 3", "v >= 0.01"], starts=1, mode="forward",
                           initial=MOVING)
    assert min(plan.record.states["v"]) > 0


def test_an_invariant_that_no_inequality_can_say_is_found_in_the_finished_plan():
    estimate = fitted(block("v > 0.4 or u > 2"))
    with pytest.raises(NotConverged, match=r"leaves the invariant of the mode 'forward' .*v > 0.4 or u > 2"):
        di.design_input(estimate, SHAPE, "std:Fc", ["abs(u) <= 3"], starts=1, mode="forward", initial=MOVING)


@pytest.mark.parametrize("law", [di.library.coulomb(), di.library.stribeck()])
def test_laws_of_the_library_are_planned_for(law):
    """Definitions of other modes stand in no equation of this one; offset and Fc are told apart by both directions."""
    axis = di.library.servo_axis(friction=di.library.viscous() + law, hybrid=True)
    truth = {"M": 60.0, "Fv": 150.0, "Fc": 20.0, "Fs": 28.0, "vs": 0.02, "offset": 1.0}
    time = np.arange(0, 4, 0.01)
    record = di.Experiment(time, {"u": 1.6 * np.sin(3 * time)}, {"position": 0 * time}, {"position": di.Gaussian(2e-5)},
                           {"q": 0.0, "v": 0.0}, hold="linear")
    problem = di.Problem(axis, [record], [di.Parameter(n, truth[n]) for n in axis.parameters])
    plan = di.design_input(problem, SHAPE, "std:M", ["abs(u) <= 2"], mode="forward", initial={"q": 0.0, "v": 0.05},
                           starts=1, max_iterations=30)
    assert min(plan.record.states["v"]) > 0
    assert plan.std_after["M"] < plan.std_before["M"] < np.inf


def test_a_mode_in_which_inputs_do_nothing_is_refused():
    with pytest.raises(NotSupported, match="In the mode 'rest' nothing depends on the input u"):
        di.design_input(fitted(block()), SHAPE, None, ["abs(u) <= 1"], mode="rest")


def test_what_only_another_direction_tells_is_refused_without_records():
    axis = di.library.servo_axis(friction=di.library.viscous() + di.library.coulomb(), hybrid=True)
    time = np.arange(0, 1, 0.01)
    record = di.Experiment(time, {"u": 0 * time + 2}, {"position": 0 * time}, {"position": di.Gaussian(2e-5)},
                           {"q": 0.0, "v": 0.05})
    problem = di.Problem(axis, [record], [di.Parameter(n, v) for n, v in zip(
        axis.parameters, (60.0, 150.0, 20.0, 1.0), strict=True)])
    with pytest.raises(ProblemError, match="No input in the mode 'forward' can determine Fc, offset"):
        di.design_input(problem, SHAPE, None, ["abs(u) <= 2"], mode="forward", use_records=False)


@pytest.mark.parametrize(("condition", "holds", "inequalities", "unwritten"), [
    ("v > 0 or v == 0 and u > Fc", True, ("v >= 0",), ()),
    ("v < 0 or v == 0 and u < -Fc", True, ("v <= 0",), ()),
    ("v == 0 and push <= Fs and push >= -Fs", True, ("v == 0", "push <= Fs", "-Fs <= push"), ()),
    ("v < 0", False, ("v >= 0",), ()),
    ("u > Fc or u < -Fc", False, ("u <= Fc", "-Fc <= u"), ()),
    ("not (u > Fc)", True, ("u <= Fc",), ()),
    ("0 < x < 1", True, ("x >= 0", "x <= 1"), ()),
    ("y < 0 and v < 0", False, (), ("not (y < 0 and v < 0)",)),
    ("x > 1 or y > 2", True, (), ("x > 1 or y > 2",)),
    ("x > 1 and y > 3 or x > 1 and y < 2", True, (), ("x > 1 and y > 3 or (x > 1 and y < 2)",)),
    ("x != 0", True, (), ()),
    ("", True, (), ())])
def test_guards_are_written_as_inequalities_where_they_can_be(condition, holds, inequalities, unwritten):
    found = guard_constraints(condition, holds)
    assert (found.inequalities, found.unwritten) == (inequalities, unwritten)
