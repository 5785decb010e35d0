"""Do modes and transitions mean what they say, and is everything that does not fit together named?"""

import json
import pickle

import numpy as np
import pytest

import dynident as di
from dynident import maths
from dynident.errors import NotSupported, ProblemError
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.models.equations import EquationModel
from dynident.models.hybrid import Mode, Transition
from dynident.models.library import coulomb, servo_axis, stribeck, viscous

PARTS = {
    "states": ["q", "v"], "inputs": ["u"], "outputs": {"position": "q"}, "constants": {"gain": 35.0},
    "definitions": {"push": "gain*u - offset"},
    "modes": {"rest": Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and push <= Fs"),
              "slide": Mode(rate={"q": "v", "v": "(push - Fc)/M"}, invariant="v > 0 or v == 0 and push > Fs")},
    "transitions": [Transition("rest", "slide", when="push > Fs"),
                    Transition("slide", "rest", when="v < 0", reset={"v": 0})]}


def by_functions():
    def push(u, p):
        return p.gain * u.u - p.offset

    return EquationModel(
        states=["q", "v"], inputs=["u"], constants={"gain": 35.0}, output=lambda t, x, u, p: {"position": x.q},
        modes={"rest": Mode(rate=lambda t, x, u, p: {"q": 0, "v": 0},
                            invariant=lambda t, x, u, p: maths.minimum(-maths.abs(x.v), p.Fs - push(u, p)) >= 0),
               "slide": Mode(rate=lambda t, x, u, p: [x.v, (push(u, p) - p.Fc) / p.M],
                             invariant=lambda t, x, u, p: x.v > 0)},
        transitions=[Transition("rest", "slide", when=lambda t, x, u, p: push(u, p) - p.Fs),
                     Transition("slide", "rest", when=lambda t, x, u, p: x.v < 0,
                                reset=lambda t, x, u, p: {"v": 0})])


def faults_of(**changed):
    with pytest.raises(ProblemError) as caught:
        EquationModel(**{**PARTS, **changed})
    return caught.value.faults


def at(function, model, **values):
    x = [values.get(name, 0.0) for name in model.states]
    u = [values.get(name, 0.0) for name in model.inputs]
    p = [values.get(name, 1.0) for name in model.parameters]
    return np.array(function(0.0, x, u, p)).ravel()


# what they mean


def test_each_mode_has_its_own_rates_and_each_transition_its_guard_and_reset():
    model = EquationModel(**PARTS)
    assert model.modes == ("rest", "slide")
    assert model.hybrid
    given = {"q": 0.3, "v": 0.2, "u": 0.1, "offset": 0.4, "Fc": 0.5, "Fs": 2.0, "M": 4.0}
    push = 35.0 * 0.1 - 0.4
    np.testing.assert_allclose(at(model.mode("slide").rate, model, **given), [0.2, (push - 0.5) / 4.0])
    assert at(model.mode("rest").rate, model, **given).tolist() == [0, 0]
    away, halt = model.transitions
    assert (away.source, away.target, halt.target) == ("rest", "slide", "rest")
    np.testing.assert_allclose(at(away.guard, model, **given), push - 2.0)
    np.testing.assert_allclose(at(halt.guard, model, **given), -0.2)
    assert at(away.reset, model, **given).tolist() == [0.3, 0.2]
    assert at(halt.reset, model, **given).tolist() == [0.3, 0.0]


def test_an_invariant_is_exact_and_its_margin_is_never_negative_inside():
    model = EquationModel(**PARTS)
    rest, slide = model.mode("rest"), model.mode("slide")
    rng = np.random.default_rng(2)
    for _ in range(200):
        v = rng.choice([0.0, rng.normal()])
        given = {"v": v, "u": rng.uniform(-0.2, 0.2), "offset": 0.4, "Fs": 2.0}
        push = 35.0 * given["u"] - 0.4
        assert at(rest.possible, model, **given) == (v == 0 and push <= 2.0)
        assert at(slide.possible, model, **given) == (v > 0 or (v == 0 and push > 2.0))
        for mode in (rest, slide):
            assert not at(mode.possible, model, **given) or at(mode.invariant, model, **given) >= 0


@pytest.mark.parametrize("text, positive, negative", [
    ("v > 1", 1.5, 0.5), ("v < 1", 0.5, 1.5), ("v >= 1 and v < 2", 1.5, 2.5), ("v > 2 or v < 1", 0.5, 1.5),
    ("not (v > 1)", 0.5, 1.5), ("0 < v < 1", 0.5, 1.5)])
def test_a_condition_is_a_number_that_changes_sign(text, positive, negative):
    model = EquationModel(states={"v": "1"}, modes={"a": Mode()}, transitions=[Transition("a", "a", when=text)])
    guard = model.transitions[0].guard
    assert at(guard, model, v=positive) > 0 > at(guard, model, v=negative)


def test_rates_that_the_states_give_hold_in_every_mode_that_says_nothing_else():
    model = EquationModel(states={"q": "v", "v": "-a"}, modes={"fall": Mode(), "fly": Mode(rate={"v": "b"})},
                          transitions=[Transition("fall", "fly", when="q < 0")])
    assert model.definition()["modes"] == {"fall": {"rate": {"q": "v", "v": "-a"}},
                                           "fly": {"rate": {"q": "v", "v": "b"}}}


def test_functions_and_text_give_the_same_numbers():
    text, functions = EquationModel(**PARTS), by_functions()
    assert set(functions.parameters) == set(text.parameters)
    rng = np.random.default_rng(3)
    for _ in range(20):
        given = {name: rng.uniform(0.1, 2) for name in (*text.states, *text.inputs, *text.parameters)}
        for mode in text.modes:
            np.testing.assert_allclose(at(functions.mode(mode).rate, functions, **given),
                                       at(text.mode(mode).rate, text, **given), rtol=1e-14)
            assert at(functions.mode(mode).possible, functions, **given) == at(text.mode(mode).possible, text, **given)
        for ours, theirs in zip(functions.transitions, text.transitions, strict=True):
            np.testing.assert_allclose(at(ours.guard, functions, **given), at(theirs.guard, text, **given), rtol=1e-12)
            np.testing.assert_allclose(at(ours.reset, functions, **given), at(theirs.reset, text, **given))


def test_functions_and_text_can_be_mixed_without_names_that_meet():
    model = EquationModel(
        states=["x"], definitions={"e1": "a*x"},
        modes={"one": Mode(rate=lambda t, x, u, p: [maths.sin(p.e2 * x.x) + maths.sin(p.e2 * x.x) ** 2]),
               "two": Mode(rate={"x": "e1 + e3"})},
        transitions=[Transition("one", "two", when="x > e1")])
    assert set(model.parameters) == {"a", "e2", "e3"}
    np.testing.assert_allclose(at(model.mode("one").rate, model, x=0.5, e2=2.0), np.sin(1.0) + np.sin(1.0) ** 2)


# one mode


def test_a_plain_model_is_one_mode_without_a_name_and_no_transition():
    model = EquationModel(states={"x": "-a*x"})
    assert (model.modes, model.transitions, model.hybrid) == (("",), (), False)
    assert model.mode("").rate(0, 2.0, [], 3.0) == model.rate(0, 2.0, [], 3.0) == -6
    assert "modes" not in model.definition()


def test_one_mode_with_a_name_and_no_transition_is_fitted_like_any_model():
    model = EquationModel(states=["x"], modes={"only": Mode(rate={"x": "-a*x"})})
    time = np.linspace(0, 1, 11)
    found = di.simulate(model, {"a": 2.0}, di.Experiment(time=time, initial={"x": 1.0}))
    np.testing.assert_allclose(found.states["x"], np.exp(-2 * time), rtol=1e-6)
    assert found.modes is None


def test_what_needs_one_rate_for_all_modes_says_so():
    model = EquationModel(**PARTS)
    run = di.Experiment(time=np.arange(9.0), inputs={"u": np.ones(9)}, outputs={"position": np.arange(9.0)})
    problem = di.Problem(model, [run], [di.Parameter(name, 1.0) for name in model.parameters])
    for method in (di.full_discretization(), di.kalman(), di.moving_horizon()):
        with pytest.raises(NotSupported, match=r"'slide'.*single_shooting\(\), multiple_shooting\(\) and least_squares\(\)"):
            di.identify(problem, method)
    with pytest.raises(NotSupported, match="'rest', 'slide'"):
        model.position_velocity()


# as data


@pytest.mark.parametrize("model", [EquationModel(**PARTS), by_functions(), servo_axis(hybrid=True),
                                   servo_axis(viscous() + stribeck(), hybrid=True)])
def test_a_hybrid_model_is_plain_data_and_comes_back_the_same(model):
    again = EquationModel.from_definition(json.loads(json.dumps(model.definition())))
    assert again == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert [each.when for each in again.transitions] == [each.when for each in model.transitions]


def test_the_fingerprint_follows_modes_conditions_and_resets():
    one = EquationModel(**PARTS)
    leave, _ = PARTS["transitions"]
    rest, slide = PARTS["modes"].values()
    others = [{"transitions": [leave, Transition("slide", "rest", when="v < 0")]},
              {"transitions": [leave, Transition("slide", "rest", when="v < -0.1", reset={"v": 0})]},
              {"modes": {"slide": slide, "rest": rest}},  # the order decides where two are possible
              {"modes": {"rest": Mode(rest.rate), "slide": slide}}]
    assert len({one.content_hash(), *(EquationModel(**{**PARTS, **other}).content_hash() for other in others)}) == 5


def test_a_hybrid_problem_file_reads_as_it_is_written(tmp_path):
    time = np.linspace(0, 1, 11)
    run = di.Experiment(time=time, inputs={"u": time}, outputs={"position": time**2}, mode="rest", name="run",
                        noise={"position": di.Gaussian(0.1)}, initial={"q": 0.0, "v": 0.0})
    model = EquationModel(**PARTS)
    problem = di.Problem(model, [run], [di.Parameter(name, 1.0) for name in model.parameters])
    again = read_problem(write_problem(problem, {"kind": "single_shooting"}, tmp_path / "problem.toml")).problem
    assert again.model == model
    assert again.experiments[0].mode == "rest"
    assert again.content_hash() == problem.content_hash()


TOML = """
[model]
inputs = ["u"]
states = ["q", "v"]
outputs = { position = "q" }

[model.modes.rest]
rate = { q = 0, v = 0 }
invariant = "v == 0 and u <= Fs"

[model.modes.slide]
rate = { q = "v", v = "(u - Fc)/M" }
invariant = "v > 0"

[[model.transitions]]
source = "rest"
target = "slide"
when = "u > Fs"

[[model.transitions]]
source = "slide"
target = "rest"
when = "v < 0"
reset = { v = 0 }

[[experiment]]
file = "run.csv"
time = "t"
inputs = ["u"]
outputs.position = { gaussian = 0.01 }
mode = "rest"

[parameters]
Fs = { start = 1 }
Fc = { start = 1 }
M = { start = 1 }
"""


def written(folder, text):
    (folder / "run.csv").write_text("t,u,position\n" + "".join(f"{k},{k},{k}\n" for k in range(9)))
    (folder / "problem.toml").write_text(text)
    return folder / "problem.toml"


def test_modes_can_be_written_by_hand_in_a_problem_file(tmp_path):
    problem = read_problem(written(tmp_path, TOML)).problem
    assert problem.model.modes == ("rest", "slide")
    assert problem.model.transitions[1].when == "v < 0"
    assert problem.experiments[0].mode == "rest"


def test_faults_of_modes_in_a_problem_file_are_listed_with_their_places(tmp_path):
    text = TOML.replace("invariant = \"v > 0\"", "invarient = \"v > 0\"").replace("target = \"slide\"\n", "")
    with pytest.raises(ProblemError) as caught:
        read_problem(written(tmp_path, text))
    said = "\n".join(caught.value.faults)
    assert "model.modes.slide.invarient: this key has no meaning here. Did you mean 'invariant'?" in said
    assert "model.transitions[0].target: is required" in said
    with pytest.raises(ProblemError, match="no mode 'sliding'"):
        read_problem(written(tmp_path, TOML.replace('source = "slide"', 'source = "sliding"')))


# faults


def test_all_faults_of_modes_and_transitions_are_named_at_once():
    said = "\n".join(faults_of(
        modes={"rest": Mode(rate={"q": 0}, invariant="v = 0"), "slide": Mode(rate={"q": "v", "v": "push/", "w": "1"}),
               "lost": Mode(rate={"q": "v", "v": "M*Fc*Fs"})},
        transitions=[Transition("rest", "slid", when="push > Fs"), Transition("slide", "rest", when="v == 0"),
                     Transition("rest", "slide", when="Fs > 1", reset={"z": 0}), Transition("slide", "rest")]))
    for part in ("mode 'rest' has no rate for the state 'v'", "mode 'slide' has a rate for 'w', which is not a state",
                 "there is no mode 'slid'. Did you mean 'slide'?", "resets 'z', which is not a state",
                 "it does not say when it is taken", "mode 'lost' is never reached", "invariant of mode 'rest'",
                 "rate of 'v' in mode 'slide'", "\"v == 0\" compares with == or !=",
                 "\"Fs > 1\" depends on no state, no input and not on time"):
        assert part in said, part


def test_a_condition_that_always_or_never_holds_is_refused():
    for text in ("1 > 0", "v > v"):
        assert "never begins to hold" in faults_of(
            transitions=[*PARTS["transitions"], Transition("rest", "slide", when=text)])[0]


def test_a_number_in_the_place_of_a_condition_is_refused():
    assert "a condition is a comparison" in faults_of(transitions=[
        *PARTS["transitions"], Transition("rest", "slide", when="v + 1")])[0]
    assert "is 3; write a comparison" in faults_of(transitions=[
        *PARTS["transitions"], Transition("rest", "slide", when=3)])[0]


def test_what_is_neither_a_mode_nor_a_table_of_one_is_named():
    assert "mode 'rest' is a str; write Mode(rate, invariant)" in faults_of(modes={
        "rest": "q", "slide": PARTS["modes"]["slide"]})[0]
    assert "'rates' has no meaning here. Did you mean 'rate'?" in faults_of(modes={
        **PARTS["modes"], "rest": {"rates": {}}})[0]


def test_modes_and_a_rate_function_exclude_each_other():
    assert "rate and modes are both given" in faults_of(rate=lambda t, x, u, p: [0, 0])[0]


def test_transitions_without_modes_and_modes_without_names_are_refused():
    assert "modes is empty" in faults_of(modes={}, transitions=[], parameters=[])[0]
    assert any("not a possible name of a mode" in fault for fault in faults_of(
        modes={**PARTS["modes"], "": Mode(rate={"q": 0, "v": 0}, invariant="v < 0")}))


def test_an_undeclared_name_in_a_condition_is_a_fault_where_parameters_are_listed():
    said = "\n".join(faults_of(parameters=["Fc", "M", "offset"]))
    assert "'Fs' is not declared" in said
    assert "transition rest -> slide" in said


def test_a_parameter_in_a_condition_alone_is_used():
    model = EquationModel(**PARTS)
    assert "Fs" in model.parameters


# friction


def test_a_law_has_the_same_force_smoothed_far_from_rest_and_in_its_modes():
    law = viscous() + stribeck(v_smooth=1e-4)
    smooth, modes = servo_axis(law), servo_axis(law, hybrid=True)
    assert smooth.parameters == modes.parameters
    values = {"M": 3.0, "Fv": 20.0, "Fc": 5.0, "Fs": 8.0, "vs": 0.05, "offset": 0.3}
    for v in (0.01, 0.2, 1.5):
        for mode, sign in (("forward", 1), ("backward", -1)):
            np.testing.assert_allclose(at(modes.mode(mode).rate, modes, v=sign * v, u=0.2, **values),
                                       at(smooth.rate, smooth, v=sign * v, u=0.2, **values), rtol=1e-12)


def test_every_state_of_rest_and_motion_is_possible_in_exactly_one_mode():
    model = servo_axis(viscous() + stribeck(), gain=1.0, hybrid=True)
    rng = np.random.default_rng(4)
    for _ in range(200):
        given = {"v": rng.choice([0.0, rng.normal()]), "u": rng.choice([-2.0, 2.0, rng.normal()]), "offset": 0.0,
                 "Fs": 2.0}
        assert sum(at(model.mode(name).possible, model, **given)[0] for name in model.modes) == 1


def test_a_law_without_dry_friction_never_sticks():
    with pytest.raises(ProblemError, match="no dry part"):
        servo_axis(viscous(), hybrid=True)
    with pytest.raises(ProblemError, match="the velocity 'w' is not among the rates"):
        coulomb().automaton({"q": "v", "v": "-friction"}, push="u", velocity="w")


def test_smoothed_friction_tends_to_sticking_and_sliding():
    time = np.linspace(0, 4, 81)
    u = 30 * np.sin(3 * time) * np.exp(-time / 3)
    run = di.Experiment(time=time, inputs={"u": u}, hold="linear", initial={"q": 0.0, "v": 0.0})
    values = {"M": 3.0, "Fv": 2.0, "Fc": 8.0, "offset": 1.0}
    law = viscous() + coulomb()
    exact = di.simulate(servo_axis(law, gain=1.0, hybrid=True), values, run)
    assert set(exact.modes) == {"stick", "forward", "backward"}
    apart = [np.max(np.abs(di.simulate(servo_axis(viscous() + coulomb(width), gain=1.0), values, run, "cvodes")
                           .states["q"] - exact.states["q"])) for width in (1e-2, 1e-3, 1e-4)]
    # creeping at rest moves the body by at most v_smooth times the time, so the gap falls in proportion
    assert apart[0] < 1e-2 * 4
    assert apart[1] < 0.2 * apart[0]
    assert apart[2] < 0.2 * apart[1]
