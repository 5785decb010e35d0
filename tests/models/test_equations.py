"""Does a model say what its equations say, and does it name every fault in them?"""

import copy
import json
import math
import pickle

import casadi
import numpy as np
import pytest

from dynident import maths
from dynident.errors import NotSupported, ProblemError
from dynident.models.equations import EquationModel
from dynident.problem.model import Model

DRIVE = {"states": {"q": "v", "v": "(gain*u - Fv*v - friction - offset) / M"}, "outputs": {"position": "q"},
         "inputs": ["u"], "constants": {"gain": 35.15}, "definitions": {"friction": "Fc*tanh(v/0.01)"}}


def drive_rate(t, x, u, p):
    friction = p.Fc * maths.tanh(x.v / 0.01)
    return {"q": x.v, "v": (p.gain * u.u - p.Fv * x["v"] - friction - p["offset"]) / p.M}


def drive_by_function(**changed):
    return EquationModel(**{"states": ["q", "v"], "rate": drive_rate, "inputs": ["u"], "constants": {"gain": 35.15},
                            "output": lambda t, x, u, p: {"position": x.q}} | changed)


def faults_of(**arguments):
    with pytest.raises(ProblemError) as caught:
        EquationModel(**arguments)
    return caught.value.faults


def only_fault_of(**arguments):
    faults = faults_of(**arguments)
    assert len(faults) == 1, faults
    return faults[0]


def rate_values(model, seed=3):
    rng = np.random.default_rng(seed)
    arguments = [rng.uniform(0.5, 2, model.rate.size1_in(k)) for k in range(4)]
    return np.array(model.rate(*arguments)).ravel(), np.array(model.output(*arguments)).ravel()


# what a model is


def test_a_name_declared_nowhere_is_a_parameter_in_order_of_reading():
    assert EquationModel(**DRIVE).parameters == ("Fv", "Fc", "offset", "M")
    assert drive_by_function().parameters == ("Fc", "Fv", "offset", "M")


def test_text_and_function_give_the_same_numbers():
    text = EquationModel(**DRIVE)
    function = drive_by_function(parameters=text.parameters)
    for by_text, by_function in zip(rate_values(text), rate_values(function), strict=True):
        np.testing.assert_allclose(by_text, by_function, rtol=1e-14)


def test_rate_is_what_the_equation_says():
    model = EquationModel(**DRIVE)
    q, v, u, Fv, Fc, offset, M = 0.3, -0.004, 0.8, 90.0, 12.0, 1.5, 40.0
    expected = [v, (35.15 * u - Fv * v - Fc * math.tanh(v / 0.01) - offset) / M]
    np.testing.assert_allclose(np.array(model.rate(0, [q, v], [u], [Fv, Fc, offset, M])).ravel(), expected, rtol=1e-14)
    assert float(model.output(0, [q, v], [u], [Fv, Fc, offset, M])) == q


def test_functions_carry_the_names_and_shapes_of_the_contract():
    model = EquationModel(**DRIVE)
    assert isinstance(model, Model)
    for function, result, size in ((model.rate, "dx", 2), (model.output, "y", 1)):
        assert function.name_in() == ["t", "x", "u", "p"]
        assert function.name_out() == [result]
        assert [function.size1_in(k) for k in range(4)] == [1, 2, 1, 4]
        assert function.size_out(0) == (size, 1)
        assert function.is_a("SXFunction")


def test_no_inputs_and_no_parameters_is_normal():
    model = EquationModel(states={"x": "-x"})
    assert (model.inputs, model.parameters, model.outputs) == ((), (), ("x",))
    assert float(model.rate(0, 2, [], [])) == -2


def test_no_outputs_at_all_is_normal():
    model = EquationModel(states={"x": "-x"}, outputs={})
    assert model.outputs == ()
    assert model.output.size1_out(0) == 0


def test_a_rate_of_zero_is_a_dense_zero():
    model = EquationModel(states={"x": 0, "y": "a"})
    assert model.rate.nnz_out(0) == 2
    assert np.array(model.rate(0, [1, 1], [], 5)).ravel().tolist() == [0, 5]


def test_time_can_stand_in_an_equation():
    assert float(EquationModel(states={"x": "t*x"}).rate(3, 2, [], [])) == 6


def test_without_outputs_every_state_is_one():
    assert drive_by_function(output=None).outputs == ("q", "v")


def test_outputs_can_list_states_to_measure():
    assert drive_by_function(output=None, outputs=["q"]).outputs == ("q",)
    assert EquationModel(states={"q": "v", "v": "-q"}, outputs=["q"]).definition()["outputs"] == {"q": "q"}


@pytest.mark.parametrize("rate", [
    lambda t, x, u, p: [x.v, -p.k * x.q], lambda t, x, u, p: (x.v, -p.k * x.q),
    lambda t, x, u, p: casadi.vertcat(x.v, -p.k * x.q), lambda t, x, u, p: {"v": -p["k"] * x["q"], "q": x["v"]},
    lambda t, x, u, p: np.array([x.v, -p.k * x.q], dtype=object)], ids=["list", "tuple", "vector", "dict", "array"])
def test_rates_can_be_returned_in_any_usual_container(rate):
    model = EquationModel(states=["q", "v"], rate=rate)
    assert np.array(model.rate(0, [2, 3], [], 5)).ravel().tolist() == [3, -10]


def test_states_can_be_unpacked():
    def rate(t, x, u, p):
        q, v = x
        return [v, -p.k * q]
    assert EquationModel(states=["q", "v"], rate=rate).position_velocity() == ((0,), (1,))


def test_definitions_may_stand_in_any_order():
    model = EquationModel(states={"x": "first"}, definitions={"first": "2*second", "second": "k*x"})
    assert float(model.rate(0, 3, [], 5)) == 30


def test_constants_that_are_zero_leave_the_parameters_in_place():
    model = EquationModel(states={"x": "on*a*x - x"}, constants={"on": 0})
    assert model.parameters == ("a",)
    assert float(model.rate(0, 3, [], 5)) == -3


def test_a_model_prints_its_equations():
    shown = str(EquationModel(**DRIVE, units={"q": "m"}, name="drive"))
    for line in ("EquationModel drive", "q' = v", "states: q [m], v", "output position = q", "Fc*tanh(v/0.01)",
                 "gain = 35.15", "parameters: Fv, Fc, offset, M"):
        assert line in shown


def test_a_model_is_frozen():
    model = EquationModel(**DRIVE)
    with pytest.raises(AttributeError, match="frozen"):
        model.name = "other"
    with pytest.raises(TypeError):
        model.constants["gain"] = 1
    model.definition()["constants"]["gain"] = 1
    assert model.definition()["constants"]["gain"] == 35.15


# a model as plain data


@pytest.mark.parametrize("model", [EquationModel(**DRIVE), drive_by_function()], ids=["text", "function"])
def test_a_model_comes_back_from_json_to_the_bit(model):
    again = EquationModel.from_definition(json.loads(json.dumps(model.definition())))
    assert again == model
    assert again.content_hash() == model.content_hash()
    for before, after in zip(rate_values(model), rate_values(again), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("travel", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_made_of_a_local_function_travels_to_other_processes(travel):
    model = drive_by_function()
    assert travel(model) == model


def test_the_hash_is_the_same_in_every_process_and_differs_with_the_content():
    first = EquationModel(states={"x": "-a*x"})
    assert first.content_hash() == EquationModel(states={"x": "  -a*x "}).content_hash()
    others = [EquationModel(states={"x": "-b*x"}), EquationModel(states={"x": "-a*x"}, name="n"),
              EquationModel(states={"x": "-a*x"}, units={"x": "m"}), EquationModel(states={"x": "-a*2*x"})]
    assert len({model.content_hash() for model in [first, *others]}) == 5
    assert first != others[0] and first != "text"


def test_the_order_of_states_counts_and_that_of_constants_does_not():
    swapped = EquationModel(states={"b": "a", "a": "b"})
    assert swapped != EquationModel(states={"a": "b", "b": "a"})
    one = EquationModel(states={"x": "k*l*x"}, constants={"k": 1, "l": 2})
    assert one == EquationModel(states={"x": "k*l*x"}, constants={"l": 2, "k": 1})


def test_a_definition_of_another_kind_or_with_unknown_items_is_refused():
    with pytest.raises(ProblemError, match="kind 'fmu'"):
        EquationModel.from_definition({"kind": "fmu", "states": {"x": "x"}})
    with pytest.raises(ProblemError, match=r"'ouputs' has no meaning in a model\. Did you mean 'outputs'"):
        EquationModel.from_definition({"kind": "equations", "states": {"x": "x"}, "ouputs": {}})
    with pytest.raises(ProblemError, match="'rate' has no meaning"):
        EquationModel.from_definition({"kind": "equations", "states": {"x": "x"}, "rate": print})


# positions and velocities


def test_positions_and_velocities_are_found_wherever_they_stand():
    model = EquationModel(states={"v2": "-k*x2", "x1": "v1", "x2": "v2", "v1": "-x1"})
    assert model.position_velocity() == ((1, 2), (3, 0))


def test_positions_and_velocities_are_found_through_definitions_and_functions():
    assert EquationModel(states={"x": "w", "v": "-x"}, definitions={"w": "v"}).position_velocity() == ((0,), (1,))
    assert drive_by_function().position_velocity() == ((0,), (1,))


@pytest.mark.parametrize(("states", "named"), [
    ({"x": "-x"}, "'x'"), ({"x": "v", "v": "-x", "current": "-current + v"}, "'current'"),
    ({"x": "v", "v": "a", "a": "-x"}, "'v'"), ({"x": "v", "y": "v", "v": "-x - y"}, "'v'"),
    ({"x": "2*v", "v": "-x"}, "'x'"), ({"x": "x", "v": "-x"}, "'x'")])
def test_the_state_that_breaks_the_form_is_named(states, named):
    with pytest.raises(NotSupported, match=named):
        EquationModel(states=states).position_velocity()


# faults of names


def test_all_faults_come_in_one_error():
    faults = faults_of(states={"q": "v", "v": "-k*q +", "sin": "u"}, inputs=["u", "q"], constants={"1x": 2},
                       outputs={"y": "q.real"}, units={"w": "m"})
    text = "\n".join(faults)
    for part in ("rate of 'v'", "state 'sin'", "'q' is declared as state and as input", "constant '1x'", "output 'y'",
                 "units names 'w'"):
        assert part in text


def test_undeclared_and_unused_parameters_are_reported_together():
    faults = faults_of(states={"x": "-mas*x"}, parameters=["mass"])
    assert any("'mas' is not declared. Did you mean 'mass'?" in fault for fault in faults)
    assert any("parameter 'mass' is used in no equation" in fault for fault in faults)


def test_undeclared_and_unused_names_of_a_function_are_reported_together():
    faults = faults_of(states=["x"], rate=lambda t, x, u, p: [-p.mas * x.y], parameters=["mass"], inputs=["force"])
    text = "\n".join(faults)
    assert "p.mas is read, but 'mas' is not declared as a parameter. Did you mean 'mass'?" in text
    assert "x.y is read, but 'y' is not declared as a state" in text
    assert "parameter 'mass' is declared but never read" in text
    assert "input 'force' is declared but never read" in text


@pytest.mark.parametrize(("arguments", "sentence"), [
    ({"inputs": ["u"]}, "input 'u' is used in no equation"),
    ({"parameters": ["k", "m"]}, "parameter 'm' is used in no equation"),
    ({"definitions": {"d": "k*x"}}, "definition 'd' is used in no equation")])
def test_what_is_declared_but_unused_is_a_fault(arguments, sentence):
    assert sentence in only_fault_of(states={"x": "-k*x"}, **arguments)
    if "definitions" not in arguments:
        assert sentence in only_fault_of(states=["x"], rate=lambda t, x, u, p: [-p.k * x.x], **arguments)


def test_a_parameter_that_cancels_out_is_a_fault():
    assert "parameter 'a' drops out of every equation" in only_fault_of(states={"x": "a - a - x"})


@pytest.mark.parametrize("name", ["t", "sin", "where", "pi"])
def test_reserved_names_are_refused(name):
    assert f"state '{name}': this name" in only_fault_of(states={name: "1"})


@pytest.mark.parametrize("name", ["1a", "a b", "", "_a", "__class__", "lambda", "a.b", "a-b"])
def test_impossible_names_are_refused(name):
    assert f"state '{name}' is not a possible name" in only_fault_of(states={name: "1"})


def test_a_micro_sign_for_the_greek_letter_is_named():
    assert "look-alike" in only_fault_of(states={"\u00b5": "1"})
    assert EquationModel(states={"\u03bc": "-\u00b5"}).states == ("\u03bc",)


@pytest.mark.parametrize(("arguments", "kinds"), [
    ({"inputs": ["x"]}, "state and as input"), ({"parameters": ["x"]}, "state and as parameter"),
    ({"constants": {"x": 1}}, "state and as constant"), ({"definitions": {"x": "1"}}, "state and as definition")])
def test_a_name_declared_twice_is_refused(arguments, kinds):
    assert any(f"'x' is declared as {kinds}" in fault for fault in faults_of(states={"x": "-x"}, **arguments))


def test_a_name_listed_twice_is_refused():
    assert "inputs lists 'u' 2 times" in only_fault_of(states={"x": "u"}, inputs=["u", "u"])
    assert "states lists 'q' 2 times" in only_fault_of(states=["q", "q"], rate=lambda t, x, u, p: [x.q, x.q])


def test_a_listed_output_that_is_no_part_of_the_model_never_becomes_a_parameter():
    assert "output 'sped' has no equation" in only_fault_of(states={"speed": "-speed"}, outputs=["sped"])
    assert "Did you mean 'speed'?" in only_fault_of(states=["speed"], outputs=["sped"],
                                                    rate=lambda t, x, u, p: [-x.speed])


def test_an_output_may_repeat_a_name_only_if_it_is_the_same_thing():
    assert EquationModel(states={"x": "-k*x"}, outputs={"x": "x", "k": "k"}).outputs == ("x", "k")
    assert "output 'x' has the name of a state but is 2*x" in only_fault_of(states={"x": "-x"}, outputs={"x": "2*x"})


def test_a_model_without_states_is_refused():
    assert "at least one state" in only_fault_of(states={})
    assert "at least one state" in faults_of(states=[], rate=lambda t, x, u, p: [])[0]


def test_definitions_in_a_circle_are_refused():
    assert "circle: " in only_fault_of(states={"x": "a"}, definitions={"a": "b", "b": "a + x"})


@pytest.mark.parametrize("value", [math.nan, math.inf, "3", None, [1, 2]])
def test_a_constant_that_is_no_number_is_refused(value):
    assert "constant 'c'" in only_fault_of(states={"x": "c*x"}, constants={"c": value})


def test_a_bare_string_for_a_list_is_named():
    assert "write inputs=['u']" in only_fault_of(states={"x": "u"}, inputs="u")


def test_values_of_the_wrong_type_do_not_hide_other_faults():
    faults = faults_of(states={"x": None, "y": "x +"}, constants={"c": math.nan}, units={"z": "m"})
    text = "\n".join(faults)
    assert all(part in text for part in ("rate of 'x'", "rate of 'y'", "constant 'c'", "units names 'z'"))


def test_an_equation_that_is_neither_text_nor_number_is_refused():
    assert "rate of 'x' is None" in only_fault_of(states={"x": None})
    assert "rate of 'x' is nan" in only_fault_of(states={"x": math.nan})


def test_dunder_names_never_become_parameters():
    assert "names start with a letter" in only_fault_of(states={"x": "__builtins__ + x"})


# faults of functions


def test_a_rate_missing_or_too_many_is_named():
    faults = faults_of(states=["q", "speed"], rate=lambda t, x, u, p: {"q": x.speed, "sped": -x.q})
    assert any("a rate for 'sped', which is not a state. Did you mean 'speed'?" in fault for fault in faults)
    assert any("no rate for the state 'speed'" in fault for fault in faults)


def test_the_wrong_number_of_rates_is_named():
    assert "returned 1 rates, but there are 2: q, v" in only_fault_of(states=["q", "v"], rate=lambda t, x, u, p: [x.v])


def test_returning_nothing_is_named():
    assert "returned NoneType" in only_fault_of(states=["q"], rate=lambda t, x, u, p: None)


def test_an_output_function_must_name_its_outputs():
    assert "return a dict" in only_fault_of(states=["q"], rate=lambda t, x, u, p: [-x.q],
                                            output=lambda t, x, u, p: [x.q])


def test_an_error_inside_a_function_is_kept_as_the_cause():
    def rate(t, x, u, p):
        raise KeyError("mass")
    with pytest.raises(ProblemError, match="the rate function rate raised KeyError: 'mass'") as caught:
        EquationModel(states=["q"], rate=rate)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("function", [
    np.sin, np.tanh, np.abs, np.sign, lambda z: np.where(z > 0, z, 0), lambda z: np.clip(z, 0, 1),
    lambda z: np.interp(z, [0, 1], [0, 1]), math.sin, math.exp, lambda z: 1 if z > 0 else 2])
def test_functions_of_numpy_and_math_and_questions_are_followed(function):
    model = EquationModel(states=["q"], rate=lambda t, x, u, p: [function(x.q)])
    for q in (-0.7, 0.3, 1.9):
        assert float(model.rate(0, q, [], [])) == pytest.approx(float(function(q)), rel=1e-14)


def test_infinity_and_nan_in_a_rate_are_refused():
    assert "'q' holds inf" in only_fault_of(states=["q"], rate=lambda t, x, u, p: [math.inf * x.q])
    assert "'q' holds nan" in only_fault_of(states=["q"], rate=lambda t, x, u, p: [x.q + math.nan])


def test_a_vector_where_a_scalar_belongs_is_named():
    rate = lambda t, x, u, p: {"q": casadi.vertcat(x.q, x.q)}  # noqa: E731
    assert "'q' has shape (2, 1)" in only_fault_of(states=["q"], rate=rate)


def test_setting_a_state_inside_a_function_is_refused():
    def rate(t, x, u, p):
        x.q = 3
    assert "never set" in only_fault_of(states=["q"], rate=rate)


def test_a_function_casadi_knows_and_text_does_not_is_refused_by_name():
    assert "erf" in only_fault_of(states=["q"], rate=lambda t, x, u, p: [casadi.erf(x.q)])


def test_mixing_text_and_functions_is_refused():
    rate = lambda t, x, u, p: [-x.q]  # noqa: E731
    assert "states is a list of names" in only_fault_of(states={"q": "-q"}, rate=rate)
    assert "definitions belong to text" in only_fault_of(states=["q"], rate=rate, definitions={"a": "q"})
    assert "no rate function" in only_fault_of(states=["q"], output=lambda t, x, u, p: {"y": x.q})
    assert "there are no rates" in only_fault_of(states=["q"])
