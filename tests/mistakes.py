# ruff: noqa: E501  one mistake, one line
"""Mistakes: what users do wrong in models, records, problems, method options, problem files and on the command line.

`python tests/mistakes.py` prints what each of them is answered with; `python tests/mistakes.py --write` keeps it in
docs/reference/messages.md, which `test_messages.py` compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dynident as di

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "messages.md"
T = np.linspace(0, 5, 51)
Y = np.exp(-T)


@dataclass(frozen=True)
class Mistake:
    """Something wrong, and words of the answer: where it is, and what to do about it."""

    kind: str
    what: str  # as the user wrote it
    do: Callable[[], Any]
    place: str
    way_out: str


MISTAKES: list[Mistake] = []


def mistake(kind: str, what: str, place: str, way_out: str, do: Callable[[], Any]) -> None:
    MISTAKES.append(Mistake(kind, what, do, place, way_out))


# -- models

def model(what: str, place: str, way_out: str, **parts: Any) -> None:
    mistake("model", what, place, way_out, lambda: di.EquationModel(**parts))


model('states={"x": "-k*x^2"}', "x", "**", states={"x": "-k*x^2"})
model('states={"x": "-k*(x + 1"}', "x", "(", states={"x": "-k*(x + 1"})
model('states={"x": "-k*x)"}', "x", ")", states={"x": "-k*x)"})
model('states={"x": "2k*x"}', "x", "2*k", states={"x": "2k*x"})
model('states={"x": "-k*x +"}', "x", "Complete it", states={"x": "-k*x +"})
model('states={"x": ""}', "x", "Write 0", states={"x": ""})
model('states={"x": "-k x"}', "x", "write *", states={"x": "-k x"})
model('states={"x": "sgn(x)*k"}', "sgn", "sign", states={"x": "sgn(x)*k"})
model('states={"x": "np.sin(x)"}', "np", "sin", states={"x": "np.sin(x)"})
model('states={"x": "k*sine(x)"}', "sine", "sin", states={"x": "k*sine(x)"})
model('states={"x": "arctan(x)*k"}', "arctan", "atan", states={"x": "arctan(x)*k"})
model('states={"x": "k*sin()"}', "sin", "takes 1 argument", states={"x": "k*sin()"})
model('states={"x": "k*atan2(x)"}', "atan2", "takes 2 arguments", states={"x": "k*atan2(x)"})
model('states={"x": "k if x > 0 else 0"}', "x", "where", states={"x": "k if x > 0 else 0"})
model('states={"x": "x > 0"}', "x", "where", states={"x": "x > 0"})
model('states={"x": "-k*x[0]"}', "x", "a name of its own", states={"x": "-k*x[0]"})
model('states={"x": "-k*x", "t": "1"}', "t", "Choose another", states={"x": "-k*x", "t": "1"})
model('states={"x-1": "-k"}', "x-1", "a letter, then letters", states={"x-1": "-k"})
model('states={"2x": "-k"}', "2x", "a letter, then letters", states={"2x": "-k"})
model('states={"lambda": "-k"}', "lambda", "no word of Python's own", states={"lambda": "-k"})
model('states={"x": "-k*x"}, inputs=["x"]', "x", "rename one", states={"x": "-k*x"}, inputs=["x"])
model('states={"x": "-k*x"}, inputs="u"', "inputs", "list", states={"x": "-k*x"}, inputs="u")
model('states={"x": "-k*x"}, inputs=["u"]', "u", "or remove it", states={"x": "-k*x"}, inputs=["u"])
model('states={"x": "-k*x"}, constants={"g": "9.81"}', "g", "number", states={"x": "-g*x"}, constants={"g": "9.81"})
model('states={"x": "-k*x"}, parameters=["k", "m"]', "m", "or remove it", states={"x": "-k*x"}, parameters=["k", "m"])
model('states={"x": "-k*x"}, parameters=["c"]', "k", "Known: t, x, c", states={"x": "-k*x"}, parameters=["c"])
model('states={"x": "-k*a"}, definitions={"a": "b", "b": "a"}', "a", "must not use", states={"x": "-k*a"}, definitions={"a": "b", "b": "a"})
model('states={"x": "-k*x"}, units={"x": "metre"}', "metre", "write m", states={"x": "-k*x"}, units={"x": "metre"})
model('states={"x": "-k*x"}, units={"x": "kgs"}', "kgs", "write kg", states={"x": "-k*x"}, units={"x": "kgs"})
model("states={}, outputs={}", "state", "needs at least one", states={}, outputs={})
model('states={"x": None}', "x", 'such as "-k*x/m"', states={"x": None})
model('states=["x"]', "x", "rate", states=["x"])
model('outputs={"y": "z"}, parameters=["k"]', "z", "Known: t, x, k", states={"x": "-k*x"}, outputs={"y": "z"}, parameters=["k"])
mistake("model", "rate that returns too few values", "rate", "Return one for each", lambda: di.EquationModel(
    states=["x", "v"], rate=lambda t, x, u, p: [x.v]))
mistake("model", "rate that reads a state which is none", "x.y", "Known: x", lambda: di.EquationModel(
    states=["x"], rate=lambda t, x, u, p: [x.y]))
mistake("model", "rate that takes two arguments", "rate", "4 were given", lambda: di.EquationModel(
    states=["x"], rate=lambda t, x: [x.x]))
mistake("model", "rate that returns text", "rate", "expression", lambda: di.EquationModel(
    states=["x"], rate=lambda t, x, u, p: ["-k*x"]))

# -- records

DECAY = di.EquationModel(states={"x": "-k*x"})
DRIVEN = di.EquationModel(states={"x": "-k*x + b*u"}, inputs=["u"])


def record(what: str, place: str, way_out: str, *words: Any, **parts: Any) -> None:
    mistake("record", what, place, way_out, lambda: di.Experiment(*words, **parts))


record("time goes back", "time", "Sort the record", [0, 2, 1], outputs={"x": [1, 2, 3]})
record("time stands still while an input moves", "time", "split the record", [0, 1, 1], inputs={"u": [0, 0, 1]}, outputs={"x": [1, 2, 3]})
record("log-normal errors of a value that is not positive", "x", "NaN", [0, 1], outputs={"x": [1, -2]},
       noise={"x": di.LogNormal(0.1)})
record("a steady state per state", "x", "SteadyState", [0, 1], outputs={"x": [1, 2]}, initial={"x": "steady"})
record("time with NaN", "time", "Leave that sample out", [0, np.nan, 1], outputs={"x": [1, 2, 3]})
record("empty time", "time", "Give at least one", [], outputs={"x": []})
record("output shorter than time", "x", "one value for each", [0, 1, 2], outputs={"x": [1, 2]})
record("input shorter than time", "u", "one value for each", [0, 1, 2], inputs={"u": [1]}, outputs={"x": [1, 2, 3]})
record("input with NaN", "u", "Fill the gap", [0, 1, 2], inputs={"u": [1, np.nan, 2]}, outputs={"x": [1, 2, 3]})
record("infinite output", "x", "write NaN", [0, 1, 2], outputs={"x": [1, np.inf, 3]})
record("output as text", "x", "NaN", [0, 1, 2], outputs={"x": ["a", "b", "c"]})
record("two columns in one output", "x", "each column", [0, 1, 2], outputs={"x": [[1, 2], [3, 4], [5, 6]]})
record("noise of an unknown output", "y", "Known: x", [0, 1, 2], outputs={"x": [1, 2, 3]}, noise={"y": di.Gaussian(0.1)})
record("noise as a number", "x", "Gaussian", [0, 1, 2], outputs={"x": [1, 2, 3]}, noise={"x": 0.1})
mistake("record", "Gaussian(0)", "std", "Leave it out", lambda: di.Gaussian(0))
mistake("record", "Gaussian(-1)", "std", "Leave it out", lambda: di.Experiment([0, 1], outputs={"x": [1, 2]}, noise={"x": di.Gaussian(-1)}))
record("hold='cubic'", "hold", "linear", [0, 1, 2], inputs={"u": [1, 2, 3]}, outputs={"x": [1, 2, 3]}, hold="cubic")
record("initial as a list", "x", "number", [0, 1, 2], outputs={"x": [1, 2, 3]}, initial={"x": [1]})
record("start after the first sample", "start", "at which the initial state holds", [0, 1, 2], outputs={"x": [1, 2, 3]}, start=1.5)


def table(what: str, place: str, way_out: str, text: str, **options: Any) -> None:
    def read() -> Any:
        Path("run.csv").write_text(text)
        return di.read_csv("run.csv", **{"time": "t", "outputs": ["x"], **options})

    mistake("record", what, place, way_out, read)


table("a column that is not there", "velocity", "x", "t,x\n0,1\n1,2\n", outputs=["velocity"])
table("a column with another case", "X", "x", "t,x\n0,1\n1,2\n", outputs=["X"])
table("a word among the numbers", "line 3", "leave the cell empty", "t,x\n0,1\n1,off\n2,3\n")
table("a row with too few cells", "line 3", "Complete or delete", "t,x,u\n0,1,2\n1,2\n2,3,4\n", inputs=["u"])
table("time goes back in a file", "line", "Sort the file", "t,x\n0,1\n2,2\n1,3\n")
table("an empty file", "run.csv", "Export it again", "")
table("a header alone", "run.csv", "Export it again", "t,x\n")
table("no time column", "t", "Known: time", "time,x\n0,1\n1,2\n")
mistake("record", "a file that is not there", "nowhere.csv", "Check the path", lambda: di.read_csv("nowhere.csv", time="t", outputs=["x"]))
mistake("record", "a folder as a file", "folder", "name a file in it", lambda: (Path("folder").mkdir(exist_ok=True),
                                                             di.read_csv("folder", time="t", outputs=["x"])))
table("a date of another kind", "line 3", "all alike", "t,x\n2024-05-01T12:00:00Z,1\n2024-05-01T12:00:01,2\n")
table("times of day", "line 2", "dates", "t,x\n12:00:00,1\n12:00:01,2\n")
mistake("record", "a kind of file that nobody reads", "run.docx", "Known", lambda: di.read_table("run.docx", time="t"))
mistake("record", "a list as a table", "list", "data frame", lambda: di.Experiment.from_table([1, 2], time="t"))
mistake("record", 'split={"gap": 0}', "split", "seconds", lambda: di.Experiment.from_table(
    {"t": [0, 1], "x": [1, 2]}, time="t", outputs=["x"], split={"gap": 0}))
mistake("record", "a run column that is not there", "rnu", "run", lambda: di.Experiment.from_table(
    {"t": [0, 1], "x": [1, 2], "run": [1, 1]}, time="t", outputs=["x"], split="rnu"))
record_of = {"time": T, "outputs": {"x": Y}}
mistake("record", "prepare with a step that is none", "lowpas", "lowpass", lambda: di.Experiment(**record_of).prepared([{"lowpas": 1}]))
mistake("record", "lowpass above half the sampling rate", "half the sampling rate", "5", lambda: di.Experiment(**record_of).prepared([di.lowpass(8)]))
mistake("record", "crop after a filter", "crop", "before", lambda: di.Experiment(**record_of).prepared([di.lowpass(1), di.crop(1, 2)]))
mistake("record", "resample to more than was measured", "0.1 apart", "more", lambda: di.Experiment(**record_of).prepared([di.resample(0.01)]))

# -- problems

RUN = di.Experiment(T, outputs={"x": Y}, initial={"x": 1.0})


def problem(what: str, place: str, way_out: str, make: Callable[[], Any]) -> None:
    mistake("problem", what, place, way_out, make)


problem("no record", "experiment", "give at least one", lambda: di.Problem(DECAY, [], [di.Parameter("k", 1)]))
problem("a parameter that is not said", "k", "Parameter", lambda: di.Problem(DECAY, [RUN], []))
problem("a parameter of another model", "kk", "k", lambda: di.Problem(DECAY, [RUN], [di.Parameter("kk", 1)]))
problem("a parameter twice", "k", "Keep one", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1), di.Parameter("k", 2)]))
problem("lower above upper", "k", "swap", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1, 2, 0)]))
problem("start outside of its bounds", "k", "bounds", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 5, 0, 2)]))
problem("start as text", "k", "number", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", "1")]))
problem("start NaN", "k", "finite", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", np.nan)]))
problem("log=True with a negative start", "k", "positive", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", -1, log=True)]))
problem("scale of 0", "k", "positive", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1, scale=0)]))
problem("prior with a std of 0", "k", "positive", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1, prior=di.Prior(1, 0))]))
problem("prior as a pair", "k", "Prior(", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1, prior=(1, 0.1))]))
problem("an initial state of no state", "y", "x", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1), di.InitialState("y", 0)]))
problem("an output that the model does not have", "y", "x", lambda: di.Problem(
    DECAY, [di.Experiment(T, outputs={"y": Y})], [di.Parameter("k", 1)]))
problem("an input that the record does not have", "u", "Give it with the record", lambda: di.Problem(
    DRIVEN, [RUN], [di.Parameter("k", 1), di.Parameter("b", 1)]))
problem("a mapping of starts", "k", "Parameter", lambda: di.Problem(DECAY, [RUN], {"k": 1}))
problem("fewer values than unknowns", "", "Fix some of them", lambda: di.Problem(
    di.EquationModel(states={"x": "-k*x + a + b + c"}), [di.Experiment([0, 1], outputs={"x": [1, 2]})],
    [di.Parameter(name, 1) for name in "kabc"]))
problem("a constraint that cannot be read", "k <", "write one comparison", lambda: di.Problem(DECAY, [RUN], [di.Parameter("k", 1)], constraints=["k <"]))
problem("a constraint of an unknown name", "m", "k", lambda: di.Problem(
    DECAY, [RUN], [di.Parameter("k", 1)], constraints=["m > 0"]))
problem("units of the record and the model differ", "x", "convert the record", lambda: di.Problem(
    di.EquationModel(states={"x": "-k*x"}, units={"x": "m"}), [di.Experiment(T, outputs={"x": Y}, units={"x": "s"})],
    [di.Parameter("k", 1)]))
problem("division by zero at the start", "m = 0", "Choose other start values", lambda: di.identify(di.Problem(
    di.EquationModel(states={"x": "-k*x/m"}), [RUN], [di.Parameter("k", 1), di.Parameter("m", 0)]), "single_shooting",
    progress=False))

# -- methods and verbs

KNOWN = di.Problem(DECAY, [RUN], [di.Parameter("k", 0.5)])


def method(what: str, place: str, way_out: str, make: Callable[[], Any]) -> None:
    mistake("method", what, place, way_out, make)


method("identify(problem, 'multiple_shoting')", "multiple_shoting", "multiple_shooting",
       lambda: di.identify(KNOWN, "multiple_shoting", progress=False))
method("multiple_shooting(segment=5)", "segment", "segments", lambda: di.multiple_shooting(segment=5))
method("multiple_shooting(segments=0)", "segments", "from 1 on", lambda: di.identify(KNOWN, di.multiple_shooting(segments=0), progress=False))
method("multiple_shooting(segments=1000)", "segments", "use 1 to 50", lambda: di.identify(
    KNOWN, di.multiple_shooting(segments=1000), progress=False))
method("multiple_shooting(segments='many')", "segments", "a whole number", lambda: di.identify(
    KNOWN, di.multiple_shooting(segments="many"), progress=False))
method("single_shooting(integrator='rk45')", "rk45", "runge_kutta", lambda: di.identify(
    KNOWN, di.single_shooting(integrator="rk45"), progress=False))
method("single_shooting(loss='absolute')", "absolute", "huber", lambda: di.identify(
    KNOWN, di.single_shooting(loss="absolute"), progress=False))
method("single_shooting(max_iterations=-1)", "max_iterations", "from 1 on", lambda: di.identify(
    KNOWN, di.single_shooting(max_iterations=-1), progress=False))
method("identify(model)", "Problem", "di.Problem(model", lambda: di.identify(DECAY, progress=False))
method("identify(problem, 5)", "5", "method", lambda: di.identify(KNOWN, 5, progress=False))
method("set_membership() on Gaussian noise", "x", "Bounded", lambda: di.identify(di.Problem(
    DECAY, [di.Experiment(T, outputs={"x": Y}, noise={"x": di.Gaussian(0.1)}, initial={"x": 1.0})], [di.Parameter("k", 1, 0, 2)]),
    di.set_membership(), progress=False))
method("set_membership() without bounds", "k", "bound", lambda: di.identify(di.Problem(
    DECAY, [di.Experiment(T, outputs={"x": Y}, noise={"x": di.Bounded(0.1)}, initial={"x": 1.0})], [di.Parameter("k", 1)]),
    di.set_membership(), progress=False))
method("multistart(starts=0)", "starts", "from 1 on", lambda: di.identify(
    di.Problem(DECAY, [RUN], [di.Parameter("k", 1, 0, 2)]), di.multistart(di.single_shooting(), starts=0), progress=False))
method("multistart without bounds", "k", "bound", lambda: di.identify(KNOWN, di.multistart(di.single_shooting()), progress=False))
method("inverse_dynamics() of equations", "inverse_dynamics", "use multiple_shooting()", lambda: di.identify(KNOWN, di.inverse_dynamics(), progress=False))
method("simulate with a missing value", "k", "Give it", lambda: di.simulate(DECAY, {}, RUN))
method("simulate with a value too many", "m", "k", lambda: di.simulate(DECAY, {"k": 1, "m": 2}, RUN))
method("simulate(integrator='euler2')", "euler2", "euler", lambda: di.simulate(DECAY, {"k": 1}, RUN, integrator="euler2"))
method("compare with one unknown method", "gauss", "Known: automatic", lambda: di.compare(KNOWN, ["gauss"]))
method("structural_identifiability with duration 0", "duration", "positive",
       lambda: di.structural_identifiability(DECAY, {"k": 1}, duration=0))
method("structural_identifiability without values", "k", "Give", lambda: di.structural_identifiability(DECAY, {}, duration=1))


def fitted() -> di.Estimate:
    return di.identify(KNOWN, "single_shooting", progress=False)


method("estimate.uncertainty.interval('m')", "m", "k", lambda: fitted().uncertainty.interval("m"))
method("estimate.validate(a record without the output)", "x", "Known: x", lambda: fitted().validate(di.Experiment(T, outputs={"y": Y})))
method("profile of an unknown name", "m", "k", lambda: di.profile(fitted(), ["m"]))
method("bootstrap with 0 repeats", "repeats", "at least 20", lambda: di.bootstrap(fitted(), repeats=0))
method("load of a folder that is not there", "nowhere", "dynident fit --out", lambda: di.load("nowhere"))

# -- problem files and the command line

GOOD = """[model]
states = { x = "-k*x" }

[[experiment]]
file = "run.csv"
time = "t"
outputs = ["x"]
initial = { x = 1.0 }

[parameters]
k = { start = 0.5, lower = 0, upper = 5 }
"""


def problem_file(what: str, place: str, way_out: str, old: str, new: str) -> None:
    def read() -> Any:
        assert old in GOOD
        Path("run.csv").write_text("t,x\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in zip(T, Y, strict=True)))
        Path("problem.toml").write_text(GOOD.replace(old, new))
        return di.read_problem("problem.toml")

    mistake("problem file", what, place, way_out, read)


problem_file("[experiment] in place of [[experiment]]", "line 4", "[[experiment]]", "[[experiment]]", "[experiment]")
problem_file("a bracket that is not closed", "line 7", "Close the bracket that line 7 opens", 'outputs = ["x"]', 'outputs = ["x"')
problem_file("a quotation mark that is not closed", "line 2", "Close the quotation mark", '"-k*x" }', '"-k*x }')
problem_file("[modle]", "modle", "model", "[model]", "[modle]")
problem_file("state = { ... }", "state", "states", "states =", "state =")
problem_file("begin = 0.5", "begin", "start", "start = 0.5", "begin = 0.5")
problem_file("start = 'half'", "k", "number", "start = 0.5", 'start = "half"')
problem_file("k = true", "k", "start =", "k = { start = 0.5, lower = 0, upper = 5 }", "k = true")
problem_file("a file that is not there", "runs.csv", "Did you mean", '"run.csv"', '"runs.csv"')
problem_file("a file outside of the folder", "../run.csv", "allow", '"run.csv"', '"../run.csv"')
problem_file("a column that is not there", "position", "x", 'outputs = ["x"]', 'outputs = ["position"]')
problem_file("a key twice", "line", "keep one", 'time = "t"', 'time = "t"\ntime = "s"')
problem_file("an equation that cannot be read", "x", "Close it", '"-k*x"', '"-k*(x"')
problem_file("an unknown parameter", "m", "k", "k = {", "m = {")
problem_file("no [model]", "model", "Add a table [model]", GOOD[:GOOD.index("[[exp")], "")
problem_file("no [parameters]", "k", "add Parameter", GOOD[GOOD.index("[parameters]"):], "")
problem_file("an unknown method", "newton", "multiple_shooting", "[parameters]", '[method]\nkind = "newton"\n\n[parameters]')
problem_file("an unknown option of a method", "segment", "segments", "[parameters]",
             '[method]\nkind = "multiple_shooting"\nsegment = 5\n\n[parameters]')
problem_file("a method without a kind", "kind", "Add it", "[parameters]", "[method]\nsegments = 5\n\n[parameters]")
problem_file("an initial state as an unknown word", "line", "Declare", "initial = { x = 1.0 }", 'initial = { x = "rest" }')
problem_file("time that is a number", "run.csv", "columns count", 'time = "t"', "time = 3")
problem_file("noise as an unknown word", "line", "Declare", 'outputs = ["x"]', 'outputs.x = { column = "x", gaussian = "small" }')
problem_file("a constraint that cannot be read", "k >", "write one comparison", "[model]", 'constraints = ["k >"]\n\n[model]')


def command(what: str, place: str, way_out: str) -> None:
    def call() -> Any:
        Path("run.csv").write_text("t,x\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in zip(T, Y, strict=True)))
        Path("problem.toml").write_text(GOOD)
        Path("empty.toml").write_text("")
        Path("broken.toml").write_text("[model\n")
        return run_command(what.split()[1:])

    mistake("command line", what, place, way_out, call)


class CommandAnswer(Exception):
    """A command that left with a code other than 0, and what it printed."""


def run_command(words: list[str]) -> None:
    from dynident.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code
    if code:
        raise CommandAnswer(f"exit code {code}\n{out.getvalue()}")


command("dynident fti problem.toml", "fti", "fit")
command("dynident fit", "PROBLEM.toml", "-h")
command("dynident fit nowhere.toml", "nowhere.toml", "Did you mean")
command("dynident fit run.csv", "run.csv", "dynident init")
command("dynident fit empty.toml", "empty.toml", "Add a table [model]")
command("dynident fit broken.toml", "broken.toml", "Close the bracket")
command("dynident fit problem.toml --methd single_shooting", "--methd", "--method")
command("dynident fit problem.toml --method newton", "newton", "Known: automatic")
command("dynident fit problem.toml --out", "--out", "requires an argument")
command("dynident check problem.toml extra", "extra", "dynident check -h")
command("dynident validate nowhere", "RECORD", "-h")
command("dynident validate nowhere run.csv", "nowhere", "fit --out")
command("dynident report nowhere", "nowhere", "dynident fit --out")
command("dynident simulate problem.toml --values k", "--values", "-h")
command("dynident methods newton", "newton", "Known: automatic")
command("dynident compare problem.toml --methods single_shooting,newton", "newton", "Known: automatic")
command("dynident profile nowhere", "nowhere", "Check the path")
command("dynident fleet nowhere.toml", "nowhere.toml", "Did you mean")
command("dynident design nowhere.toml", "nowhere.toml", "Did you mean")
command("dynident init", "init", "dynident init data.csv")
command("dynident init run.csv --model tnak", "tnak", "tank")


# -- what is printed

def answer(it: Mistake) -> tuple[type[BaseException] | None, str]:
    """The kind of error and its words; warnings that were given instead stand for silence."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        os.chdir(folder)
        try:
            it.do()
        except Exception as error:
            return type(error), _without_places(str(error), folder)
        finally:
            os.chdir(here)
    return None, ""


def _without_places(text: str, folder: str) -> str:
    for place in (str(Path(folder).resolve()), folder):
        text = text.replace(place, ".")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip()


def page() -> str:
    lines = ["# What mistakes are answered with", "",
             f"{len(MISTAKES)} mistakes and what is printed; each answer names the place, the reason and, where there is one, the way "
             "out. `tests/test_messages.py` keeps this page current.", ""]
    kind = ""
    for it in MISTAKES:
        if it.kind != kind:
            kind = it.kind
            lines += [f"## {kind.capitalize()}", ""]
        text = answer(it)[1]
        lines += [f"**{it.what.strip()}**", "", "```text", text or "(nothing)", "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        for it in MISTAKES:
            error, text = answer(it)
            name = "-" if error is None else error.__name__
            bad = [w for w in (it.place, it.way_out) if w not in text]
            print(f"### {it.kind}: {it.what}\n[{name}] {text}{'   <<<< MISSING ' + str(bad) if bad or not text else ''}\n")
