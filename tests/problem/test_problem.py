"""Is a problem checked once and completely, and does each unknown find its place?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.problem.problem import given_std

T = np.linspace(0, 1, 11)
MODEL = di.EquationModel(states={"q": "v", "v": "(u - drag*v)/mass"}, outputs={"position": "q", "speed": "v"},
                         inputs=["u"])
RUN = di.Experiment(T, {"u": np.sin(T)}, {"position": T}, name="a")
GOOD = [di.Parameter("mass", 1.0), di.Parameter("drag", 0.1)]


def faults(model=MODEL, experiments=(RUN,), parameters=tuple(GOOD)) -> tuple[str, ...]:
    with pytest.raises(di.ProblemError) as refused:
        di.Problem(model, experiments, parameters)
    return refused.value.faults


def parameter(**fields) -> list[di.Parameter]:
    return [di.Parameter(**{"name": "mass", "start": 1.0} | fields), GOOD[1]]


@pytest.mark.parametrize("fields, sentence", [
    ({"lower": 3, "upper": 2}, "parameter 'mass': lower = 3 lies above upper = 2; swap them"),
    ({"lower": 2, "upper": 2, "start": 2}, "lower equals upper; use free=False to fix a value"),
    ({"lower": 2, "upper": 3}, "start = 1 lies outside of its bounds [2, 3]"),
    ({"lower": np.nan}, "a bound is NaN; leave it out for 'no bound'"),
    ({"start": np.inf}, "start is inf; give a finite number"),
    ({"scale": -1.0}, "scale = -1.0 must be positive"),
    ({"start": "1"}, "parameter 'mass': start is '1'; give one number"),
    ({"start": np.array([1.0, 2.0])}, "start is array([1., 2.]); give one number"),
    ({"lower": None}, "lower is None; give one number, or leave it out for 'no bound'"),
    ({"scale": "big"}, "scale is 'big'; give one number"),
    ({"prior": (1, 1)}, "prior is (1, 1); write Prior(mean, std) with two numbers"),
    ({"prior": di.Prior("1", 1)}, "write Prior(mean, std) with two numbers"),
    ({"start": 0.0, "log": True}, "log=True needs a positive start, not 0"),
    ({"prior": di.Prior(1.0, -2.0)}, "a prior needs a finite mean and a positive std"),
    ({"prior": di.Prior(np.nan, 1.0)}, "a prior needs a finite mean and a positive std"),
])
def test_declaration_that_makes_no_sense_is_refused(fields, sentence):
    (fault,) = faults(parameters=parameter(**fields))
    assert sentence in fault


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0)], ids=repr)
def test_a_number_is_a_number_whoever_made_it(number):
    problem = di.Problem(MODEL, RUN, parameter(start=number, lower=number / 2, prior=di.Prior(number, number)))
    assert problem.unknowns[0].start == 2


@pytest.mark.parametrize("parameters, sentence", [
    ([*GOOD, di.Parameter("mas", 1.0)], "'mas' is not a parameter of the model. Did you mean 'mass'?"),
    ([GOOD[0]], "the model's parameter 'drag' has no entry; add Parameter('drag', start=...)"),
    ([*GOOD, GOOD[0]], "parameter 'mass' is declared 2 times"),
    ([*GOOD, di.InitialState("w")], "'w' is not a state of the model"),
    ([*GOOD, di.InitialState("q"), di.InitialState("q")], "initial state 'q' is declared 2 times"),
    ([*GOOD, di.InitialState("q", free=False)], "initial state 'q' is fixed (free=False) but has no start value"),
    ([*GOOD, di.InitialState("q", 3.0, lower=4)], "initial state 'q': start = 3 lies outside of its bounds"),
    ([*GOOD, di.InitialState("q", log=True, upper=0)], "initial state 'q': log=True needs a positive upper bound"),
    ([*GOOD, "mass"], "'mass' is not a Parameter or InitialState"),
])
def test_names_that_do_not_fit_are_refused(parameters, sentence):
    assert any(sentence in fault for fault in faults(parameters=parameters))


@pytest.mark.parametrize("fields, sentence", [
    ({"inputs": {}}, "a: the model's input 'u' is not in the record"),
    ({"inputs": {"u": T, "w": T}}, "a: 'w' is not an input of the model"),
    ({"outputs": {"positon": T}}, "a: 'positon' is not an output of the model. Did you mean 'position'?"),
    ({"outputs": {}}, "no experiment holds a single measured value"),
    ({"outputs": {"position": np.full(11, np.nan)}}, "no experiment holds a single measured value"),
    ({"initial": {"z": 0}}, "a: 'z' in `initial` is not a state of the model"),
])
def test_records_that_do_not_fit_the_model_are_refused(fields, sentence):
    run = di.Experiment(**{"time": T, "inputs": {"u": T}, "outputs": {"position": T}, "name": "a"} | fields)
    assert any(sentence in fault for fault in faults(experiments=[run]))


def test_state_that_is_known_and_unknown_at_once_is_refused():
    known = di.Experiment(T, {"u": T}, {"position": T}, initial={"q": 0}, name="a")
    (fault,) = faults(experiments=[known], parameters=[*GOOD, di.InitialState("q", 1.0)])
    assert "given as known, and declared as an unknown too; keep one of the two" in fault


def test_two_records_of_one_name_are_refused():
    (fault,) = faults(experiments=[RUN, RUN])
    assert fault == "2 experiments are called 'a'; give each its own name."


def in_units(name, **units):
    return di.Experiment(T, {"u": np.sin(T)}, {"position": T}, name=name, units=units)


@pytest.mark.parametrize("units, others, sentence", [
    ({"position": "m"}, {"position": "mm"}, "'position' is in m in a, but in mm in c; read both in one unit, as with "
                                            "units={'position': 'm'}."),
    ({"u": "N"}, {"u": "V"}, "'u' is in N in a, but in V in c"),
    ({"time": "s"}, {"time": "h"}, "'time' is in s in a, but in h in c"),
    ({"position": "counts"}, {"position": "steps"}, "'position' is in counts in a, but in steps in c"),
])
def test_records_in_different_units_are_refused_with_both(units, others, sentence):
    (fault,) = faults(experiments=[in_units("a", **units), in_units("b"), in_units("c", **others)])
    assert fault.startswith(sentence)


def test_one_unit_may_be_spelt_in_several_ways_or_left_out():
    several = [in_units("a", position="um", u="m/s"), in_units("b", position="µm", u="m*s^-1"), in_units("c")]
    assert len(di.Problem(MODEL, several, GOOD).experiments) == 3


COUNTED = di.EquationModel(states={"q": "v", "v": "(u - drag*v)/mass"}, outputs={"position": "q"}, inputs=["u"],
                           units={"position": "m", "u": "V", "mass": "kg", "q": "m"})


@pytest.mark.parametrize("units, sentence", [
    ({"u": "mV"}, "'u' is in mV in a, but in V in the model; read the record in V, as with units={'u': 'V'}."),
    ({"position": "kg"}, "'position' is in kg in a, but in m in the model, and there is no factor from one to the other"),
    ({"position": "counts"}, "'position' is in counts in a, but in m in the model, and there is no factor"),
])
def test_a_record_in_other_units_than_the_model_is_refused_with_both(units, sentence):
    (fault,) = faults(model=COUNTED, experiments=[in_units("a", **units)])
    assert fault.startswith(sentence)
    with pytest.raises(di.ProblemError, match="in the model"):
        di.simulate(COUNTED, {"mass": 1.0, "drag": 1.0, "q(0)": 0.0, "v(0)": 0.0}, in_units("a", **units))


def test_each_record_that_differs_from_the_model_is_named():
    said = faults(model=COUNTED, experiments=[in_units("a", u="mV"), in_units("b", u="V"), in_units("c", u="mV")])
    assert [fault.split(",")[0] for fault in said] == ["'u' is in mV in a", "'u' is in mV in c"]


@pytest.mark.parametrize("unit", ["g", "m"])
def test_an_unknown_in_another_unit_than_the_model_is_refused(unit):
    (fault,) = faults(model=COUNTED, parameters=parameter(unit=unit))
    assert fault.startswith(f"parameter 'mass' is declared in {unit}, but the model counts it in kg; give its numbers in kg")
    (fault,) = faults(model=COUNTED, parameters=[*GOOD, di.InitialState("q", 1.0, unit="mm")])
    assert fault.startswith("initial state 'q' is declared in mm, but the model counts it in m")


def test_units_that_agree_with_the_model_are_welcome():
    problem = di.Problem(COUNTED, [in_units("a", u="kg m^2/(A s^3)", position="m")],
                         [*parameter(unit="kg"), di.InitialState("q", 1.0, unit="m")])
    assert problem.unknowns[0].unit == "kg"


def test_gaussian_here_and_bounded_there_is_refused():
    other = di.Experiment(T, {"u": T}, {"position": T}, {"position": di.Bounded(0.1)}, name="b")
    (fault,) = faults(experiments=[RUN, other])
    assert "Gaussian in one experiment and Bounded in another" in fault


@pytest.mark.parametrize("arguments, sentence", [
    ({"model": "q' = v"}, "the model is a str"), ({"experiments": []}, "there is no experiment"),
    ({"experiments": ["slide.csv"]}, "experiment 1 is a str, not an Experiment"),
])
def test_wrong_kinds_of_things_are_named(arguments, sentence):
    assert any(sentence in fault for fault in faults(**arguments))


def test_all_faults_of_a_problem_come_in_one_error():
    run = di.Experiment(T, {"w": T}, {"positon": T}, initial={"z": 0}, name="a")
    found = faults(experiments=[run], parameters=[di.Parameter("mass", 1.0, lower=3, upper=2, scale=-1),
                                                  di.Parameter("dragg", 0.1), di.InitialState("vv", 0.0)])
    expected = ["input 'u' is not in the record", "'w' is not an input", "'positon' is not an output",
                "'z' in `initial`", "lies above upper", "scale", "'dragg' is not a parameter", "'drag' has no entry",
                "'vv' is not a state"]
    for part in expected:
        assert any(part in fault for fault in found), part
    text = str(di.ProblemError(found))
    assert text.startswith(f"{len(found)} faults:\n- ")


def test_fewer_data_than_unknowns_are_refused_with_both_numbers():
    short = di.Experiment([0.0, 1.0, 2.0], {"u": [1, 2, 3]}, {"position": [0.0, np.nan, 1.0]})
    (fault,) = faults(experiments=[short])
    assert "4 unknowns (mass, drag, q(0), v(0)) cannot be found from 2 measured values" in fault
    di.Problem(MODEL, [short], [GOOD[0], di.Parameter("drag", 0.1, prior=di.Prior(0.1, 0.1)),
                                di.InitialState("q", 0.0, free=False), di.InitialState("v", 0.0, prior=di.Prior(0, 1))])


# unknowns find their place


def test_unknowns_parameters_first_then_initial_states():
    problem = di.Problem(MODEL, [RUN], GOOD)
    assert problem.names == ("mass", "drag", "q(0)", "v(0)")
    p, x0 = problem.parameters_and_initial_state(np.array([1.0, 2.0, 3.0, 4.0]), 0)
    order = [MODEL.parameters.index(n) for n in ("mass", "drag")]
    assert list(p[order]) == [1, 2] and list(x0) == [3, 4]


def test_held_values_are_not_unknown_and_are_reported():
    run = di.Experiment(T, {"u": T}, {"position": T}, initial={"q": 0.5})
    problem = di.Problem(MODEL, [run], [di.Parameter("mass", 2.0, free=False), GOOD[1],
                                        di.InitialState("v", 1.5, free=False)])
    assert problem.names == ("drag",)
    assert problem.fixed_values() == {"mass": 2.0, "q(0)": 0.5, "v(0)": 1.5}
    p, x0 = problem.parameters_and_initial_state(np.array([7.0]), 0)
    assert dict(zip(MODEL.parameters, p, strict=True)) == {"mass": 2.0, "drag": 7.0}
    assert list(x0) == [0.5, 1.5]


def test_shared_and_own_unknowns_of_two_records():
    second = di.Experiment(T, {"u": T}, {"position": T}, initial={"v": 0.25}, name="b")
    problem = di.Problem(MODEL, [RUN, second], [GOOD[0], di.Parameter("drag", 0.1, shared=False),
                                                di.InitialState("q", 0.0, shared=True)])
    assert problem.names == ("mass", "drag[a]", "drag[b]", "q(0)", "v(0)[a]")
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    for e, (drag, v) in enumerate([(2.0, 5.0), (3.0, 0.25)]):
        p, x0 = problem.parameters_and_initial_state(values, e)
        assert dict(zip(MODEL.parameters, p, strict=True)) == {"mass": 1.0, "drag": drag}
        assert list(x0) == [4.0, v]
    assert problem.fixed_values() == {"v(0)[b]": 0.25}


def test_records_without_names_are_numbered():
    bare = di.Experiment(T, {"u": T}, {"position": T})
    assert [e.name for e in di.Problem(MODEL, [bare, bare], GOOD).experiments] == ["experiment 1", "experiment 2"]


def test_one_record_need_not_be_a_list():
    assert len(di.Problem(MODEL, RUN, GOOD).experiments) == 1


def test_hash_follows_what_the_answer_depends_on():
    base = di.Problem(MODEL, [RUN], GOOD)
    assert base.content_hash() == di.Problem(MODEL, [RUN], GOOD).content_hash()
    moved = RUN.outputs["position"].copy()
    moved[3] += 1e-12
    sized = {"position": di.Gaussian(1)}
    others = [base.replace(parameters=parameter(start=1.1)),
              base.replace(experiments=[di.Experiment(T, RUN.inputs, {"position": moved}, name="a")]),
              base.replace(experiments=[di.Experiment(T, RUN.inputs, RUN.outputs, sized, name="a")]),
              base.replace(experiments=[di.Experiment(T, RUN.inputs, RUN.outputs, hold="linear", name="a")]),
              base.replace(experiments=[di.Experiment(T, RUN.inputs, RUN.outputs, initial={"q": 0}, name="a")])]
    assert len({p.content_hash() for p in [base, *others]}) == 6


def test_known_std_is_one_number_per_sample():
    run = di.Experiment(T, {"u": T}, {"position": T, "speed": T}, {"position": di.Gaussian(0.5)})
    assert list(given_std(run, "position")) == [0.5] * 11
    assert given_std(run, "speed") is None


@pytest.mark.parametrize("size", [1e-300, 1e-121, 2e151, 1e300])
def test_a_signal_whose_squares_are_no_numbers_is_refused_by_name(size):
    """It was told that the derivatives at the start are not finite, or a warning of NumPy came out."""
    time = np.linspace(0, 3, 40)
    decay = di.EquationModel(states={"x": "-k*x"})
    record = di.Experiment(time, outputs={"x": size * np.exp(-time)})
    with pytest.raises(di.ProblemError, match=r"'x' is .* at its largest, .* another unit"):
        di.Problem(decay, [record], [di.Parameter("k", 0.5), di.InitialState("x", size)])


@pytest.mark.parametrize("size", [1e-115, 9e150])
def test_a_signal_whose_squares_are_numbers_is_fitted(size):
    time = np.linspace(0, 3, 40)
    noisy = size * np.exp(-time) * (1 + 0.01 * np.random.default_rng(0).standard_normal(40))
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [di.Experiment(time, outputs={"x": noisy})],
                         [di.Parameter("k", 0.5), di.InitialState("x", size)])
    for method in ("least_squares", "single_shooting", None):
        assert di.identify(problem, method, progress=False).values["k"] == pytest.approx(1, abs=0.02)


def test_zeros_small_records_beside_large_ones_and_stated_noise_are_no_matter_of_size():
    model, time = di.EquationModel(states={"x": "-k*x"}), np.linspace(0, 3, 40)
    tiny = di.Experiment(time, outputs={"x": 1e-200 * np.exp(-time)}, name="tiny")
    for records in ([di.Experiment(time, outputs={"x": np.zeros(40)})],
                    [tiny, di.Experiment(time, outputs={"x": np.exp(-time)}, name="plain")],
                    [di.Experiment(time, outputs={"x": 1e-200 * np.exp(-time)}, noise={"x": di.Gaussian(0.1)})]):
        di.Problem(model, records, [di.Parameter("k", 0.5), di.InitialState("x", 1.0, shared=False)])
