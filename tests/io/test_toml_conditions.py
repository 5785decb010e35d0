"""Conditions in problem files: constants, groups, formulas, rest, log-normal errors and priors on scales, with their lines."""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di

FILE = """[model]
states = { A = "-k1*A + k2*B", B = "k1*A - k2*B" }

[[experiment]]
file = "one.csv"
name = "one"
time = "t"
outputs.A = { column = "A", log_normal = "s" }
outputs.B = { column = "B", gaussian = "a*(1 + B)" }
initial = { A = "dose*f", B = 0.2 }
constants = { dose = 1.0 }
group = "blue"

[[experiment]]
file = "two.csv"
name = "two"
time = "t"
outputs.A = { column = "A", log_normal = 0.1 }
initial = { B = 0.2 }
constants = { dose = 3.0 }
group = "red"

[experiment.steady]
initial = { A = "dose" }
constants = { dose = 2.0 }

[parameters]
k1 = { start = 0.5, lower = 0, per = "group" }
k2 = { start = 0.5, lower = 0, prior = { mean = -0.3, std = 0.2, on = "log10" } }
f = { start = 1.0 }
s = { start = 0.1, lower = 1e-3, log = true }
a = { start = 0.1, lower = 1e-3, log = true }
"""
RECORD = "t,A,B\n0,1,0.2\n1,0.6,0.6\n1,0.62,0.58\n2,0.5,0.7\n"


def written(tmp_path, text: str = FILE):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(RECORD)
    path = tmp_path / "problem.toml"
    path.write_text(text)
    return path


def test_everything_that_python_says_a_file_says(tmp_path):
    problem = di.read_problem(written(tmp_path)).problem
    first, second = problem.experiments
    assert problem.names == ("k1[blue]", "k1[red]", "k2", "f", "s", "a")
    assert first.noise["A"] == di.LogNormal("s") and first.noise["B"] == di.Gaussian("a*(1 + B)")
    assert (first.initial, first.constants, first.group) == ({"A": "dose*f", "B": 0.2}, {"dose": 1.0}, "blue")
    assert second.steady == di.SteadyState({"A": "dose"}, {"dose": 2.0}) and second.noise["A"] == di.LogNormal(0.1)
    assert np.array_equal(first.time, [0, 1, 1, 2])
    assert next(u for u in problem.unknowns if u.name == "k2").prior == di.Prior(-0.3, 0.2, on="log10")


def test_a_written_file_reads_as_the_same_problem(tmp_path):
    problem = di.read_problem(written(tmp_path)).problem
    again = di.read_problem(di.write_problem(problem, None, tmp_path / "again.toml")).problem
    assert again.content_hash() == problem.content_hash()


def test_initial_may_be_the_word_steady(tmp_path):
    text = FILE.replace('initial = { B = 0.2 }', 'initial = "steady"').replace("[experiment.steady]\n", "").replace(
        'initial = { A = "dose" }\nconstants = { dose = 2.0 }\n', "")
    assert di.read_problem(written(tmp_path, text)).problem.experiments[1].steady == di.SteadyState()


@pytest.mark.parametrize(("right", "wrong", "line", "said"), [
    ('A = "dose*f"', 'A = "dose*g"', 10, "'g' is neither a parameter nor a constant"),
    ('"a*(1 + B)"', '"b*(1 + B)"', 9, "'b' is neither a parameter nor a constant"),
    ('gaussian = "a*(1 + B)"', 'gaussian = "a*", log_normal = 1', 9, "remove gaussian and bounded"),
    ('constants = { dose = 1.0 }', 'constants = { dose = "much" }', 11, "must be a number"),
    ('per = "group"', 'per = "day"', 28, 'write "experiment" or "group"'),
    ('on = "log10"', 'on = "log2"', 29, "not on 'log2'"),
    ('initial = { A = "dose" }', 'initial = { C = 1 }', 24, "'C' begins on its way to rest, but is not a state"),
    ('constants = { dose = 2.0 }', 'constant = { dose = 2.0 }', 25, "Did you mean 'constants'?"),
    ('constants = { dose = 3.0 }', 'constants = { B = 3.0 }', 20, "'B' is a constant of the experiment, but a state")])
def test_faults_name_their_line(tmp_path, right, wrong, line, said):
    assert FILE.count(right) == 1
    with pytest.raises(di.ProblemError) as caught:
        di.read_problem(written(tmp_path, FILE.replace(right, wrong)))
    assert any(f"line {line}:" in fault and said in fault for fault in caught.value.faults), caught.value.faults
