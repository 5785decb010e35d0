"""Problem files: what they hold, what is refused and where, and that a written one says the same."""

import hashlib
import importlib.util
import os
import py_compile
import re

import numpy as np
import pytest

import dynident as di
from dynident.errors import ProblemError
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.io.problem_file.write import line_of, to_toml
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Bounded, Gaussian
from dynident.problem.parameter import InitialState, Parameter, Prior
from dynident.problem.problem import Problem

DRIVE = """\
[model]
inputs = ["u"]
constants = { gain = 35.15 }
states  = { q = "v", v = "(gain*u - Fv*v - Fc*tanh(v/0.01) - offset) / M" }
outputs = { position = "q" }

[[experiment]]
file = "slide.csv"
time = "t"
inputs = ["u"]
outputs.position = { column = "q", gaussian = 1e-4 }

[parameters]
M  = { start = 50, lower = 1, upper = 500, unit = "kg" }
Fv = { start = 100, lower = 0, upper = 1000 }
Fc = { start = 10, lower = 0, upper = 200 }
offset = { start = 0 }

[initial_states]
q = { start = 0.0 }
v = { start = 0.0, free = false }

[method]
kind = "multiple_shooting"
segments = 20
"""
SLIDE = "t,u,q,s\n" + "".join(f"{k / 10},{k % 3},{k * k / 100},{1 + k}\n" for k in range(12))


@pytest.fixture
def drive(tmp_path):
    """Write drive.toml with some lines replaced, and its data."""
    def write(*changes, text=DRIVE):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        folder = tmp_path / "drive"
        folder.mkdir(exist_ok=True)
        (folder / "slide.csv").write_text(SLIDE)
        path = folder / "drive.toml"
        path.write_text(text)
        return path
    return write


def faults(path, **flags):
    with pytest.raises(ProblemError) as error:
        read_problem(path, **flags)
    return error.value.faults


def test_the_file_of_the_design_is_read(drive):
    read = read_problem(drive())
    problem = read.problem
    assert set(problem.model.parameters) == {"M", "Fv", "Fc", "offset"}
    assert problem.parameters[0] == Parameter("M", 50, lower=1, upper=500, unit="kg")
    assert problem.parameters[-1] == InitialState("v", start=0.0, free=False)
    assert problem.experiments[0].noise["position"] == Gaussian(1e-4)
    assert problem.experiments[0].samples == 12
    assert (read.method, read.validation, read.path.name) == (
        {"kind": "multiple_shooting", "segments": 20}, (), "drive.toml")


def test_method_and_initial_states_may_be_left_out(drive):
    text = DRIVE[:DRIVE.index("[initial_states]")]
    assert read_problem(drive(text=text)).method == {}


@pytest.mark.parametrize(("written", "noise"), [
    ("gaussian = true", Gaussian()), ("gaussian = 2", Gaussian(2)), ("bounded = 0.5", Bounded(0.5)),
    ('gaussian = { column = "s" }', Gaussian(np.arange(1.0, 13))),
    ("gaussian = 2, bounded = 5", Gaussian(2, bound=5.0)), ("gaussian = true, bounded = 5", Gaussian(bound=5.0)),
    ('gaussian = { column = "s" }, bounded = 20', Gaussian(np.arange(1.0, 13), bound=20.0)),
    ("bounded = { column = 3 }", Bounded(np.arange(1.0, 13)))])
def test_every_assumption_about_errors_can_be_written(drive, written, noise):
    read = read_problem(drive(("gaussian = 1e-4", written)))
    assert read.problem.experiments[0].noise["position"] == noise


def test_all_keys_of_an_experiment_reach_the_reader(drive):
    path = drive(('inputs = ["u"]\noutputs.', 'inputs = { u = 1 }\nhold = "linear"\nname = "run A"\nstart = 0.0\n'
                  'separator = ","\ndecimal = "."\ntime_unit = "ms"\nunits = { position = "m" }\noutputs.'))
    run = read_problem(path).problem.experiments[0]
    assert (run.hold, run.name, run.start, run.units["position"]) == ({"u": "linear"}, "run A", 0.0, "m")
    assert run.time[-1] == 0.0011


IN_UNITS = ('outputs = { position = "q" }', 'outputs = { position = "q" }\nunits = { u = "V", position = "m" }')


def in_millis(path, error="s"):
    """The data of a problem in mV and mm; the columns are called as before."""
    columns = np.genfromtxt(path.with_name("slide.csv"), delimiter=",", names=True)
    rows = [f"{t},{1000 * u:.17g},{1000 * q:.17g},{s}" for t, u, q, s in columns]
    path.with_name("slide.csv").write_text("\n".join([f"t,u [mV],q [mm],{error}", *rows]) + "\n")
    return path


@pytest.mark.parametrize("noise, said, expected", [
    ("gaussian = true", "", Gaussian()), ('gaussian = { column = "s" }', "", Gaussian(np.arange(1.0, 13) / 1000)),
    ("gaussian = 2, bounded = 3", 'units = { position = "mm" }\n', Gaussian(0.002, bound=0.003)),
    ("gaussian = 2", 'units = { position = "m" }\n', Gaussian(2)),
    ("bounded = 0.5", 'units = { position = "mm" }\n', Bounded(0.0005))])
def test_a_record_in_other_units_is_converted_to_those_of_the_model_with_a_note(drive, noise, said, expected):
    plain = read_problem(drive()).problem.experiments[0]
    path = in_millis(drive(IN_UNITS, ("gaussian = 1e-4", noise), ("outputs.position", said + "outputs.position")))
    run = read_problem(path).problem.experiments[0]
    np.testing.assert_allclose(run.inputs["u"], plain.inputs["u"], rtol=1e-15)
    np.testing.assert_allclose(run.outputs["position"], plain.outputs["position"], rtol=1e-15)
    assert (run.units["u"], run.units["position"], run.noise["position"]) == ("V", "m", expected)
    assert "'u' was converted from mV to V, the unit of the model." in run.notes


def test_a_number_that_could_be_in_the_unit_of_the_header_or_of_the_model_is_asked_about(drive):
    (fault,) = faults(in_millis(drive(IN_UNITS)))
    assert "'position' is in mm in the header, but in m in the model; is the size of its error (0.0001)" in fault
    assert 'units = { position = "mm" } or { position = "m" }' in fault


def test_a_record_in_a_unit_of_another_kind_is_refused_with_both_named(drive):
    path = drive((IN_UNITS[0], IN_UNITS[1].replace('"V"', '"kg"')), ("gaussian = 1e-4", "gaussian = true"))
    (fault,) = faults(in_millis(path))
    assert "'u' is in mV in experiment, but in kg in the model, and there is no factor" in fault


def test_a_window_takes_a_part_of_a_record(drive):
    known = ('[initial_states]\nq = { start = 0.0 }\nv = { start = 0.0, free = false }\n', "")
    window = ('time = "t"', 'time = "t"\nwindow = [0.3, 0.8]\ninitial = { q = 0.0, v = 0.0 }')
    record = read_problem(drive(window, known)).problem.experiments[0]
    assert record.time.tolist() == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    assert not record.initial  # it was known where the record begins, not here


@pytest.mark.parametrize(("window", "says"), [("[5, 6]", "no sample lies between 5 and 6"), ("[1]", "must be two times"),
                                              ("[1, 2, 3]", "must be two times"), ('["a", 1]', "must be a number"),
                                              ("3", "must be two times")])
def test_a_window_that_is_none_is_refused(drive, window, says):
    with pytest.raises(ProblemError, match=says):
        read_problem(drive(('time = "t"', f'time = "t"\nwindow = {window}')))


def test_records_for_validation_are_held_back(drive):
    path = drive(("[parameters]", '[[validation]]\nfile = "slide.csv"\ntime = "t"\ninputs = ["u"]\n'
                                  'outputs = { position = "q" }\n\n[parameters]'))
    read = read_problem(path)
    assert len(read.problem.experiments) == len(read.validation) == 1
    assert read.validation[0].noise["position"] == Gaussian()


def test_all_faults_are_listed_at_once_with_line_and_path(drive):
    path = drive(("lower = 1,", "lower = 600,"), ("start = 100, lower", "start = -5, lower"),
                 ("upper = 200", "uper = 200"),
                 ("offset = { start = 0 }", 'offset = { start = "zero" }'), ('time = "t"', "tiem = 1"),
                 ("gaussian = 1e-4", "gaussian = -1"))
    assert set(faults(path)) == {
        "drive.toml, line 14: parameters.M.lower: lower = 600 lies above upper = 500; swap them.",
        "drive.toml, line 15: parameters.Fv.start: start = -5 lies outside of its bounds [0, 1000]; start inside, or "
        "widen them.",
        "drive.toml, line 16: parameters.Fc.uper: this key has no meaning here. Did you mean 'upper'?",
        "drive.toml, line 17: parameters.offset.start: must be a number, not 'zero'.",
        "drive.toml, line 9: experiment[0].tiem: this key has no meaning here. Did you mean 'time'?",
        "drive.toml, line 11: experiment[0].outputs.position.gaussian: is -1, but must be positive."}


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("[method]", "[metod]", "drive.toml, line 23: metod: this key has no meaning here. Did you mean 'method'?"),
    ('kind = "multiple_shooting"', "", "drive.toml, line 23: method.kind: is required, but not given. Add it, as kind = ..."),
    ('file = "slide.csv"', "", "drive.toml, line 7: experiment[0].file: is required, but not given. Add it, as file = ..."),
    ("start = 50,", "", "drive.toml, line 14: parameters.M.start: is required, but not given. Add it, as start = 1.0."),
    ("M  = { start = 50, lower = 1, upper = 500, unit = \"kg\" }", "M = 50",
     "drive.toml, line 14: parameters.M: must be a table, not 50. Write M = { start = 1.0 }, or M = { start = 1.0, lower = 0, "
     "upper = 10 }."),
    ("free = false", 'free = "no"', "drive.toml, line 21: initial_states.v.free: must be true or false, not 'no'."),
    ("start = 0.0, free", "free",
     "drive.toml, line 21: initial_states.v: is fixed (free=False) but has no start value."),
    ("start = 0 }", "start = 0, prior = { mean = 0, sd = 1, std = 1 } }",
     "drive.toml, line 17: parameters.offset.prior.sd: this key has no meaning here. Did you mean 'std'?"),
    ("start = 0 }", "start = true }", "drive.toml, line 17: parameters.offset.start: must be a number, not true."),
    ("gaussian = 1e-4", 'gaussian = 1, bounded = { column = "q" }',
     "drive.toml, line 11: experiment[0].outputs.position: has gaussian and bounds per sample; beside gaussian, bounded "
     "is one number."),
    ("gaussian = 1e-4", 'gauss = 1', "drive.toml, line 11: experiment[0].outputs.position.gauss: this key has no "
                                     "meaning here. Did you mean 'gaussian'?"),
    ('inputs = ["u"]\noutputs.', 'inputs = "u"\noutputs.',
     "drive.toml, line 10: experiment[0].inputs: must be a list of names or a table from name to column, not 'u'."),
    ('time = "t"', 'time = "t"\nhold = "cubic"',
     'drive.toml, line 10: experiment[0].hold: must be "zero", "linear" or a table from input to one of them, not '
     "'cubic'."),
    ("constants = { gain = 35.15 }", 'constants = { gain = "35" }',
     "drive.toml, line 3: model.constants.gain: must be a number, not '35'."),
    ("states ", "fmu = 'pump.fmu'\nstates ",
     "drive.toml, line 1: model: needs exactly one of states, next, transfer_function, simulator, python, robot and fmu, "
     "but has states and fmu."),
])
def test_each_fault_is_one_sentence_with_its_place(drive, old, new, fault):
    assert fault in faults(drive((old, new)))


@pytest.mark.parametrize("method, said", [
    ('kind = "foo"', "line 23: method: There is no method 'foo'. Known: automatic, single_shooting"),
    ('kind = "multiple_shooting"\nsegments = "5"', "line 25: method.segments: segments = '5'; give a whole number"),
    ('kind = "multiple_shooting"\nsegments = true', "line 25: method.segments: segments = True; give a whole number"),
    ('kind = "multiple_shooting"\nsegmnts = 5', "line 23: method: method 'multiple_shooting' has no option 'segmnts'"),
    ('kind = "full_discretization"\nintegrator = "cvodes"',
     "line 25: method.integrator: integrator 'cvodes' chooses its own steps"),
    ('kind = "full_discretization"\nintegrator = "radau"\ndegree = "3"', "line 26: method.degree: degree = '3'; use 1 to"),
    ('kind = "single_shooting"\nloss = ["huber"]', "line 23: method: There is no loss '['huber']'"),
    ('kind = "multistart"\nmethod = 5', "a method is made by one of automatic, single_shooting"),
    ('kind = "multistart"\npoints = [5]', "line 25: method.points: points[0] is 5; give a table"),
    ('kind = "set_membership"\nreset = 5', "line 25: method.reset: reset = 5; give a table from parameter"),
])
def test_faults_of_the_method_are_found_when_the_file_is_read(drive, method, said):
    (fault,) = faults(drive(('kind = "multiple_shooting"\nsegments = 20', method)))
    assert said in fault and fault.startswith("drive.toml, line ")


def test_faults_of_method_and_data_are_listed_together(drive):
    path = drive(("segments = 20", "segments = 0"), ('"slide.csv"', '"slid.csv"'))
    assert len(faults(path)) == 2


def test_faults_of_model_and_data_are_listed_together(drive):
    told = faults(drive(('v = "(gain', 'v = "(gain(1)'), ('time = "t"', 'time = "tt"')))
    assert any(fault.startswith("drive.toml, line 1: model: ") for fault in told)
    assert any("line 8: experiment[0].file: slide.csv has no column 'tt'." in fault for fault in told)


def test_faults_of_the_whole_problem_name_the_file(drive):
    told = faults(drive(("Fc = { start = 10, lower = 0, upper = 200 }\n", "")))
    assert told[0].startswith("drive.toml: the model's parameter 'Fc' has no entry")


def test_a_file_that_is_not_toml_says_where(drive):
    assert "drive.toml is not valid TOML" in faults(drive(text="[model\n"))[0]
    assert "at line 1" in faults(drive(text="[model\n"))[0]


def test_code_in_equations_is_not_run(drive, tmp_path):
    told = faults(drive(('v = "(gain', "v = \"__import__('os').mkdir('harm') + (gain")))
    assert told and not (tmp_path / "drive" / "harm").exists()


def test_data_outside_of_the_folder_needs_a_flag(drive, tmp_path):
    (tmp_path / "outside.csv").write_text(SLIDE)
    for name in ("../outside.csv", str(tmp_path / "outside.csv"), "linked.csv"):
        path = drive(("slide.csv", name))
        if name == "linked.csv" and not (path.parent / name).is_symlink():
            os.symlink(tmp_path / "outside.csv", path.parent / name)
        (fault,) = faults(path)
        assert f"drive.toml, line 8: experiment[0].file: '{name}' leaves the folder of the problem." in fault
        assert read_problem(path, allow_outside=True).problem.experiments[0].samples == 12


def test_data_in_a_folder_below_is_allowed(drive):
    path = drive(("slide.csv", "data/slide.csv"))
    (path.parent / "data").mkdir()
    (path.parent / "slide.csv").rename(path.parent / "data" / "slide.csv")
    assert read_problem(path).problem.experiments[0].samples == 12


PYTHON_MODEL = """from dynident.models.equations import EquationModel
drive = EquationModel(states={'q': 'v', 'v': '(u - Fv*v - Fc*tanh(v/0.01) - offset) / M'},
                      outputs={'position': 'q'}, inputs=['u'])
"""


def test_python_models_run_only_if_allowed(drive):
    text = DRIVE[DRIVE.index("[[experiment]]"):]
    path = drive(text='[model]\npython = "drive.py:drive"\n\n' + text)
    (path.parent / "drive.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n" + PYTHON_MODEL)
    (fault,) = faults(path)
    assert "allow_code=True" in fault and not (path.parent / "ran").exists()
    assert read_problem(path, allow_code=True).problem.model.states == ("q", "v")


def test_compiled_code_beside_a_python_model_is_not_run_in_its_place(drive):
    """Python's loader takes what lies in __pycache__ where that says it need not be compared: nobody was asked about it."""
    text = DRIVE[DRIVE.index("[[experiment]]"):]
    path = drive(text='[model]\npython = "drive.py:drive"\n\n' + text)
    model, other, ran = (path.parent / name for name in ("drive.py", "other.py", "ran"))
    model.write_text(PYTHON_MODEL)
    other.write_text(f"open({str(ran)!r}, 'w').close()\n" + PYTHON_MODEL)
    py_compile.compile(str(other), importlib.util.cache_from_source(str(model)), doraise=True,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    for allowed in (True, [hashlib.sha256(model.read_bytes()).hexdigest()]):
        assert read_problem(path, allow_code=allowed).problem.model.states == ("q", "v")
        assert not ran.exists()
    assert "allow_code=True" in faults(path, allow_code=[hashlib.sha256(other.read_bytes()).hexdigest()])[0]


def test_a_python_model_that_is_none_is_refused(drive):
    path = drive(text='[model]\npython = "drive.py:drive"\n\n' + DRIVE[DRIVE.index("[[experiment]]"):])
    (path.parent / "drive.py").write_text("drive = 3\n")
    assert "'drive.py:drive' is int, not a model." in faults(path, allow_code=True)[0]
    (path.parent / "drive.py").write_text("1 / 0\n")
    assert "drive.py raised ZeroDivisionError" in faults(path, allow_code=True)[0]


def test_an_fmu_that_is_not_there_is_named_with_its_line(drive):
    path = drive(text='[model]\nfmu = "pump.fmu"\n\n' + DRIVE[DRIVE.index("[[experiment]]"):])
    with pytest.raises(ProblemError, match=r"line 2: model\.fmu: there is no file '.*pump\.fmu'"):
        read_problem(path)


# Writing


def awkward_problem():
    rng = np.random.default_rng(4)
    model = EquationModel(states={"x": "-k*x + b*u + w", "z": "x - z/tau"}, outputs={"y": "x", "time": "z", "u": "u"},
                          inputs=["u"], constants={"w": 0.1 + 0.2}, units={"k": "1/s"}, name='a "strange" \\ name\n')
    time = np.cumsum(rng.uniform(0.01, 1.0, 40)) / 3
    y = rng.normal(size=40) * 10.0 ** rng.integers(-140, 140, 40)
    y[[0, 7]] = np.nan
    first = Experiment(time, {"u": rng.normal(size=40) * 10.0 ** rng.integers(-300, 300, 40)},
                       {"y": y, "time": rng.normal(size=40), "u": rng.normal(size=40)},
                       {"y": Gaussian(rng.uniform(1e-9, 1, 40)), "time": Bounded(0.1 + 0.2)}, {"z": 1 / 3},
                       hold="linear", name="run, \"A\"", units={"y": "m", "time": "s"})
    second = Experiment(time[:5], {"u": np.zeros(5)}, {"y": np.arange(5.0)}, {"y": Gaussian(0.7)}, {"z": 0.0})
    return Problem(model, [first, second], [
        Parameter("k", 1 / 3, lower=0.0, upper=1e300, log=True, unit="1/s", prior=Prior(0.1 + 0.2, 5e-324)),
        Parameter("b", -0.0, free=False), Parameter("tau", 2.0, lower=1e-300, scale=0.1, shared=False),
        InitialState("x", start=None, upper=7.0)], ["k >= 1e-3*b", '-1 <= x <= 1', "k**2 == 0.30000000000000004"])


def test_a_written_problem_reads_as_the_same_problem_to_the_last_bit(tmp_path):
    problem = awkward_problem()
    method = {"kind": "multistart", "starts": 3, "points": [{"k": 0.1 + 0.2}], "method": {"kind": "single_shooting"}}
    path = write_problem(problem, method, tmp_path / "saved" / "problem.toml", validation=[problem.experiments[1]])
    again = read_problem(path)
    assert again.problem.content_hash() == problem.content_hash()
    assert again.problem.model == problem.model
    assert again.problem.parameters == problem.parameters
    assert again.problem.constraints == problem.constraints
    assert again.method == method
    for ours, theirs in zip(problem.experiments, again.problem.experiments, strict=True):
        np.testing.assert_array_equal(ours.time, theirs.time)
        for field in ("name", "start", "units", "hold", "noise", "initial", "mode"):
            assert getattr(ours, field) == getattr(theirs, field)
        for signals in ("inputs", "outputs"):
            np.testing.assert_equal(dict(getattr(ours, signals)), dict(getattr(theirs, signals)))
    np.testing.assert_array_equal(again.validation[0].outputs["y"], np.arange(5.0))


def test_a_written_problem_takes_its_data_along(tmp_path):
    write_problem(awkward_problem(), {}, tmp_path / "problem.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "problem.experiment-1.csv", "problem.experiment-2.csv", "problem.toml"]


@pytest.mark.parametrize("method, table", [
    (di.single_shooting(), di.single_shooting().options()),
    ("single_shooting", {"kind": "single_shooting"}),
    ({"kind": "kalman", "smoother": True}, {"kind": "kalman", "smoother": True}),
    (di.multistart("single_shooting", starts=3), di.multistart("single_shooting", starts=3).options()),
    (None, {}), ({}, {})], ids=str)
def test_a_method_is_written_however_identify_takes_it(tmp_path, method, table):
    again = read_problem(write_problem(awkward_problem(), method, tmp_path / "problem.toml"))
    assert again.method == table


def test_units_of_what_is_not_in_the_record_do_not_make_the_file_unreadable(tmp_path):
    run = Experiment([0.0, 1.0], outputs={"x": [1.0, 0.5]}, units={"x": "mm", "speed": "m/s"})
    problem = Problem(EquationModel(states={"x": "-k*x"}), run, [Parameter("k", 1.0)])
    again = read_problem(write_problem(problem, None, tmp_path / "problem.toml")).problem
    assert again.experiments[0].units == {"x": "mm"}


def test_a_method_that_does_not_exist_is_not_written(tmp_path):
    with pytest.raises(ProblemError, match="There is no method 'single'"):
        write_problem(awkward_problem(), "single", tmp_path / "problem.toml")
    assert not list(tmp_path.iterdir())


def test_text_survives_writing():
    import tomllib
    strange = "".join(map(chr, range(1, 0x180))) + '"\\\u2028🦉'
    content = {"a b": {"k.e\"y": strange, "": [1, 2.5, True, "x"], "n": -float("inf"), "t": {"u": {"v": 1e16}}},
               "list": [{"x": 1}, {"x": {}}], "texts": ["a == 2*b", strange], "number": 0.1, "none": []}
    assert tomllib.loads(to_toml(content)) == content


def test_lines_are_found_through_headings_dots_and_quotes():
    text = '[a]\nx = 1\n[[b]]\ny.z = { w = 1 }\n[[b]]\n# y = 0\n"y" = 2\n[c.d]\ne = 1\n'
    expected = {("a", "x"): 2, ("a",): 1, ("b", 0, "y", "z", "w"): 4, ("b", 1, "y"): 7, ("b", 1): 5, ("c", "d", "e"): 9,
                ("nothing",): None}
    assert {path: line_of(text, path) for path in expected} == expected


def test_algebraic_variables_are_read_and_written(drive, tmp_path):
    path = drive(('v = "(gain*u - Fv*v - Fc*tanh(v/0.01) - offset) / M" }',
                  'v = "a" }\nalgebraic = { a = "M*a - gain*u + Fv*v + Fc*tanh(v/0.01) + offset" }\nguesses = { a = 0.5 }'))
    problem = read_problem(path).problem
    assert problem.model.algebraic == ("a",)
    again = read_problem(write_problem(problem, None, tmp_path / "again.toml")).problem
    assert again.model == problem.model


ARM = """\
[model]
robot = { urdf = "arm.urdf", friction = ["viscous"], sign_velocity = 0.1 }

[[experiment]]
file = "run.csv"
time = "t"
inputs = ["tau1", "tau2"]
outputs = ["q1", "q2", "dq1", "dq2"]

[parameters]
Fv_1 = { start = 2.0 }
hx_2 = {}

[method]
kind = "multiple_shooting"
"""


def test_a_robot_is_read_and_written_with_its_description(tmp_path):
    (tmp_path / "arm.urdf").write_text(di.library.two_link_urdf())
    (tmp_path / "run.csv").write_text("t,tau1,tau2,q1,q2,dq1,dq2\n" + "".join(
        f"{k / 100},{np.sin(k)},{np.cos(k)},0,{k / 1000},0,0.1\n" for k in range(20)))
    (tmp_path / "arm.toml").write_text(ARM)
    problem = read_problem(tmp_path / "arm.toml").problem
    assert isinstance(problem.model, di.RobotModel) and problem.model.friction == (("viscous",), ("viscous",))
    assert problem.parameters[1].start == problem.model.nominal_values["hx_2"].start  # the file's own
    again = read_problem(write_problem(problem, {}, tmp_path / "again" / "problem.toml")).problem
    assert again.model.definition() | {"source": ""} == problem.model.definition() | {"source": ""}


def test_faults_of_a_robot_table_are_located(tmp_path):
    (tmp_path / "run.csv").write_text("t,tau1\n0,1\n1,2\n")
    (tmp_path / "arm.toml").write_text(ARM.replace('urdf = "arm.urdf", friction', 'urfd = "arm.urdf", friction'))
    with pytest.raises(ProblemError, match=r"line 2.*'urfd' has no meaning.*Did you mean 'urdf'") as refused:
        read_problem(tmp_path / "arm.toml")
    assert "urdf is missing" in str(refused.value)


RUNS = """
[model]
states = { x = "-k*x" }
[[experiment]]
file = "runs.csv"
time = "t"
outputs = ["x"]
split = SPLIT
[parameters]
k = { start = 1 }
"""


@pytest.mark.parametrize(("split", "names"), [('"run"', ["run 1", "run 2"]), ("{ gap = 2 }", ["part 1", "part 2"])])
def test_one_file_with_several_runs_gives_an_experiment_for_each(tmp_path, split, names):
    (tmp_path / "runs.csv").write_text("t,x,run\n0,1,1\n1,0.6,1\n10,1,2\n11,0.6,2\n")
    (tmp_path / "runs.toml").write_text(RUNS.replace("SPLIT", split))
    assert [run.name for run in read_problem(tmp_path / "runs.toml").problem.experiments] == names


def test_a_split_that_means_nothing_is_refused_with_its_line(tmp_path):
    (tmp_path / "runs.toml").write_text(RUNS.replace("SPLIT", "{ gpa = 2 }"))
    with pytest.raises(ProblemError, match=r"runs.toml, line 8: experiment\[0\].split: must be a column, or { gap = seconds }"):
        read_problem(tmp_path / "runs.toml")


@pytest.mark.parametrize("name", ["a" * 5000, "a\\u0000b", "circle.csv", "pipe.csv"])
def test_names_that_no_disk_holds_and_what_is_no_file_are_said(drive, tmp_path, name):
    (tmp_path / "circle.csv").symlink_to("circle.csv")
    if name == "pipe.csv":
        os.mkfifo(tmp_path / name)  # reading it would wait forever
    fmu = re.sub(r"(?m)^(constants|states).*\n", "", DRIVE).replace("[model]", f'[model]\nfmu = "{name}"')
    for text in (DRIVE.replace('"slide.csv"', f'"{name}"'), fmu):
        with pytest.raises(ProblemError, match=r"there is no file|is no name of a file|does not exist"):
            read_problem(drive(text=text), allow_code=True)
