"""Claims about what is asked of an FMU: what cannot be done is refused with a sentence, what is said is done."""

from __future__ import annotations

import re
import zipfile

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler, tampered
from reference_fmus import FEEDTHROUGH, NAMED, NO_EVENTS, NO_SLOPES, SINGLE, STATE_SPACE, Reference, V, reference_fmu

import dynident as di

pytestmark = needs_compiler
T = np.linspace(0.0, 5.0, 101)
U = np.sin(3 * T)
TWO_NAMES = Reference("TwoNames", (
    V("x", "output", start=1.0, initial="exact"), V("der_x", of="x"), V("k", "parameter", "fixed", 1.0, initial="exact"),
    V("k2", "parameter", "fixed", 1.0, initial="exact", alias="k")),
    "static void compute(Model *m) { der_x_ = -k_ * x_; }" + NO_EVENTS + NO_SLOPES)
SWITCH = Reference("Switch", (
    V("x", "output", start=0.0, initial="exact"), V("der_x", of="x"), V("on", "input", "discrete", "false", "Boolean")),
    "static void compute(Model *m) { der_x_ = on_ ? 1 : 0; }" + NO_EVENTS + NO_SLOPES)
SET = "if (r[i] == AT_T || !model_set(M, r[i], value[i])) return ERROR;"


def test_an_element_held_by_a_value_stays_when_another_is_an_input_or_named():
    """A = diag(-1, -3) with 2 at [1,2]: x2 rests at u2 / 3, and x1 at u1 / 7 once A[1,1] is -7; no start value comes
    back."""
    path = reference_fmu(STATE_SPACE, 3)
    held = di.FmuModel(path, inputs=["u[1]"], values={"u[2]": 5.0})
    rest = di.simulate(held, {}, di.Experiment(np.linspace(0, 20, 101), {"u[1]": np.zeros(101)})).outputs["y[2]"][-1]
    assert rest == pytest.approx(5 / 3, rel=1e-6)
    held = di.FmuModel(path, values={"A[1,1]": -7.0})
    record = di.Experiment(T, {"u[1]": np.ones(101), "u[2]": np.zeros(101)})
    for named in ({}, {"A[2,2]": -3.0}, {"A[2,1]": 0.0, "A[2,2]": -2.0}):
        assert di.simulate(held, named, record).outputs["y[1]"][-1] == pytest.approx(1 / 7, rel=1e-6)


def test_a_held_value_that_does_not_take_is_said():
    ignores = tampered("ignores", {SET: f"if (r[i] == AT_P) continue; else {SET}"})
    for path, said in ((ignores, True), (exported(), False)):
        made = di.FmuModel(path, values={"gain": 3.0})
        y = di.simulate(di.FmuModel(path), {}, di.Experiment(T, {"u": U})).outputs["y"]
        noisy = y + 0.01 * np.random.default_rng(0).normal(size=101)
        estimate = di.identify(di.Problem(made, [di.Experiment(T, {"u": U}, {"y": noisy})], [di.Parameter("tau", start=0.6)]),
                               progress=False)
        assert any("'gain' was set to 3 but reads back as 2" in note for note in estimate.notes) == said


def test_single_precision_takes_what_it_can_hold():
    single = di.FmuModel(reference_fmu(SINGLE, 3), inputs=["u"], outputs=["y"])
    y = 1.7 * U + 0.01 * np.random.default_rng(0).normal(size=101)
    estimate = di.identify(di.Problem(single, [di.Experiment(T, {"u": U}, {"y": y})], [di.Parameter("gain", start=0.1)]),
                           progress=False)
    assert not any("reads back" in note for note in estimate.notes)


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"values": {"int_param": 2.7}}, "'int_param' is 2.7, but of type Int32; give a whole number"),
    ({"values": {"int_param": 1e12}}, r"'int_param' is 1e\+12, but of type Int32, which goes from"),
    ({"values": {"bool_param": 2}}, "of type Boolean, which goes from 0 to 1"),
    ({"values": {"real_fixed_param": float("nan")}}, "'real_fixed_param' is nan; give a finite number"),
    ({"values": {"real_fixed_param": "abc"}}, "'real_fixed_param' is 'abc'; give a finite number"),
    ({"values": [1, 2]}, "values are given by name"),
    ({"inputs": ["int_in"], "values": {"int_in": 5}}, "'int_in' stands in inputs and in values"),
    ({"inputs": ["int_in", "int_in"]}, "'int_in' is named twice"),
    ({"outputs": 3}, "outputs = 3; give a list of names"),
    ({"time_limit": "x"}, "time_limit = 'x'; give a positive number of seconds"),
    ({"time_limit": float("inf")}, "time_limit = inf; give a positive number of seconds"),
    ({"kind": "co_simulation", "integrator": "radau"}, "'radau' serves Model Exchange"),
    ({"kind": "model_exchange", "alignment": "feedthrough"}, "'feedthrough' serves Co-Simulation"),
])
def test_what_cannot_be_done_is_refused(asked, sentence):
    with pytest.raises(di.ProblemError, match=sentence):
        di.FmuModel(reference_fmu(FEEDTHROUGH, 3), **asked)


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"values": {"string_param": 3.0}}, "'string_param' is 3.0, but of type String; give a text"),
    ({"values": {"string_param": "a\0b"}}, "holds no zero character"),
    ({"outputs": ["string_param"]}, "'string_param' is a String, not a number"),
    ({"tolerance": 0}, "tolerance = 0; give a relative error"),
    ({"tolerance": 2.0}, r"tolerance = 2.0; give a relative error"),
    ({"tolerance": "fine"}, "tolerance = 'fine'; give a relative error")])
@pytest.mark.parametrize("version", [2, 3])
def test_texts_and_tolerances_that_cannot_be_are_refused(asked, sentence, version):
    with pytest.raises(di.ProblemError, match=sentence):
        di.FmuModel(reference_fmu(FEEDTHROUGH, version), **asked)


@pytest.mark.parametrize("kind", ["model_exchange", "co_simulation"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_text_and_a_start_value_of_a_local_variable_reach_the_fmu(version, kind):
    """The FMU shows the length of the text; the local variable is its rate of decay, by Euler with 0.01 s inside."""
    model = di.FmuModel(reference_fmu(NAMED, version), kind=kind, values={"label": "twelve chars", "local_gain": 0.5})
    found = di.simulate(model, {}, di.Experiment(T)).outputs
    assert np.all(found["letters"] == 12)
    assert found["x"][-1] == pytest.approx(np.exp(-0.5 * T[-1]), rel=1e-6 if kind == "model_exchange" else 0.03)


def test_no_path_is_refused():
    with pytest.raises(di.ProblemError, match=r"wants the path of an \.fmu file, not None"):
        di.FmuModel(None)


def test_one_name_alone_is_a_list_of_one():
    model = di.FmuModel(exported(), inputs="u", outputs="through")
    assert model.inputs == ("u",) and model.outputs == ("through",)


def test_a_value_outside_of_what_the_fmu_is_made_for_is_said():
    bounded = tampered("bounded", {}, {'start="0.5"': 'start="0.5" min="0.1" max="1"'})
    assert any("'tau' is fixed at 2" in note and "from 0.1 to 1" in note
               for note in di.FmuModel(bounded, values={"tau": 2.0}).notes)
    assert not any("is fixed at" in note for note in di.FmuModel(bounded, values={"tau": 0.7}).notes)


def test_a_value_holds_all_names_of_its_variable():
    path = reference_fmu(TWO_NAMES, 2)
    model = di.FmuModel(path, values={"k2": 3.0})
    record = di.Experiment(T, {}, {"x": np.exp(-3 * T)})
    assert model.parameters == ()
    for asked in (lambda: di.simulate(model, {"k": 1.0}, record), lambda: di.Problem(model, [record], [di.Parameter("k")])):
        with pytest.raises(di.ProblemError, match="another name of 'k2', has a value of its own"):
            asked()
    with pytest.raises(di.ProblemError, match="two names of one variable, stand in values"):
        di.FmuModel(path, values={"k": 1.0, "k2": 3.0})


@pytest.mark.parametrize("method", ["simulate", "fit"])
def test_a_switch_does_not_move_linearly(method):
    model = di.FmuModel(reference_fmu(SWITCH, 2))
    on = np.where(T > 2, 1.0, 0.0)
    record = di.Experiment(T, {"on": on}, {"x": np.maximum(T - 2, 0)}, hold="linear")
    with pytest.raises(di.ProblemError, match=r"on can only jump .* hold=\"zero\""):
        if method == "simulate":
            di.simulate(model, {}, record)
        else:
            di.identify(di.Problem(model, [record], [di.InitialState("x")]), progress=False)


def test_an_integrator_that_is_not_the_fmus_is_refused():
    record = di.Experiment(T, {"u": U}, {"y": U})
    for name in ("nonsense", "radau"):
        with pytest.raises(di.ProblemError, match=r"FmuModel\(..., integrator=...\) says"):
            di.simulate(di.FmuModel(exported()), {}, record, integrator=name)
    with pytest.raises(di.ProblemError, match=r"FmuModel\(..., integrator=...\) says"):
        di.identify(di.Problem(di.FmuModel(exported()), [record], [di.Parameter("gain")]), di.least_squares(integrator="radau"))
    di.simulate(di.FmuModel(exported(), integrator="radau"), {}, record, integrator="radau")


@pytest.mark.parametrize(("values", "initial", "sentence"), [
    ({}, {"zz": 3.0}, "'zz' in `initial` is not a state of the model. Known: x"),
    ({"x": 1.0}, {"x": 3.0}, "in `initial` is not a state of the model. 'x' has a value of its own")])
def test_an_initial_value_of_what_is_no_free_state_is_refused(values, initial, sentence):
    with pytest.raises(di.ProblemError, match=re.escape(sentence)):
        di.simulate(di.FmuModel(exported(), values=values), {}, di.Experiment(T, {"u": U}, initial=initial))


@needs_compiler
def test_the_way_to_check_a_hidden_solver_is_one_that_is_there(tmp_path):
    both, alone = exported(), tmp_path / "alone.fmu"
    with zipfile.ZipFile(both) as archive, zipfile.ZipFile(alone, "w") as made:
        for entry in archive.namelist():
            content = archive.read(entry)
            made.writestr(entry, re.sub(rb"<ModelExchange[^>]*?(/>|>.*?</ModelExchange>)", b"", content, flags=re.DOTALL)
                          if entry == "modelDescription.xml" else content)
    for path, way in ((both, 'Use kind="model_exchange" to check.'), (alone, "Export it for Model Exchange to check.")):
        assert di.FmuModel(path, kind="co_simulation").notes[0].endswith(way)
