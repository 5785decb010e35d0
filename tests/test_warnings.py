"""Do warnings of Python, NumPy and CasADi stay inside? What users read are sentences of dynident."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import dynident as di

T = np.linspace(0, 5, 51)
DECAY = np.exp(-T) + 0.01 * np.random.default_rng(0).normal(size=T.size)
RAW = re.compile(r"[A-Za-z]+Warning\b|WARNING|Traceback|casadi|numpy", re.IGNORECASE)
AWKWARD = {  # rates, what was measured, its noise, start of k, x(0)
    "dead channel": ("-k*x", np.zeros(T.size), None, 1.0, 0.0), "constant": ("-k*x", np.full(T.size, 3.0), None, 1.0, 3.0),
    "huge": ("-k*x", 1e150 * DECAY, None, 1.0, 1e150), "tiny noise": ("-k*x", DECAY, 1e-300, 1.0, 1.0),
    "blow-up": ("k*x**2", np.exp(T), 0.01, 5.0, 1.0), "no logarithm": ("-log(k)*x", DECAY, 0.01, -1.0, 1.0),
    "root of less than nothing": ("-sqrt(x)*k", DECAY, 0.01, 1.0, 1.0), "division by zero": ("-x/k", DECAY, 0.01, 0.0, 1.0),
    "mostly missing": ("-k*x", np.where(T > 1, np.nan, DECAY), None, 1.0, 1.0), "stiff": ("-k*(x - 1)", DECAY, 0.01, 1e9, 3.0)}
METHODS = {"single_shooting": di.single_shooting(), "least_squares": di.least_squares(), "kalman": di.kalman(),
           "full_discretization": di.full_discretization()}


def problem(case):
    rate, y, noise, start, x0 = AWKWARD[case]
    given = {} if noise is None else {"x": di.Gaussian(noise)}
    return di.Problem(di.EquationModel(states={"x": rate}), [di.Experiment(T, {}, {"x": y}, given)],
                      [di.Parameter("k", start=start), di.InitialState("x", start=x0)])


@pytest.mark.parametrize("case", AWKWARD)
def test_no_warning_of_a_library_comes_out_of_the_functions(case, capfd):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        asked = problem(case)
        for work in (lambda: di.check(asked), *(lambda m=m: di.identify(asked, m, progress=False) for m in METHODS.values())):
            try:
                str(work())
            except di.DynidentError as said:
                str(said)
    assert [str(w.message) for w in met if w.category is not UserWarning] == []
    printed = "".join(capfd.readouterr())
    assert not RAW.search(printed), printed


COMMANDS = {"check": ["check", "p.toml"], "fit": ["fit", "p.toml", "--out", "r"],
            "simulate": ["simulate", "p.toml", "--out", "s.csv"]}


@pytest.mark.parametrize(("case", "command"), [("tiny noise", "check"), ("huge", "fit"), ("stiff", "simulate")])
def test_no_warning_of_a_library_comes_out_of_a_command(tmp_path, case, command):
    """With all warnings of Python on, which shows those that are filtered by default too."""
    di.write_problem(problem(case), None, tmp_path / "p.toml")
    environment = {**os.environ, "PYTHONPATH": str(Path(di.__file__).parents[1]), "PYTHONWARNINGS": "always"}
    run = subprocess.run([sys.executable, "-m", "dynident", *COMMANDS[command]], cwd=tmp_path, env=environment,
                         capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1, 2, 3, 4), run.stderr
    assert not RAW.search(run.stderr), run.stderr


def test_a_warning_of_ours_is_a_line_of_the_command(capfd):
    from dynident.cli import _say_warning

    _say_warning(UserWarning("Halving the steps still changes the simulation."), UserWarning, "simulate.py", 3)
    _say_warning(RuntimeWarning("overflow encountered in square"), RuntimeWarning, "x.py", 7)
    assert capfd.readouterr().err == "dynident: Halving the steps still changes the simulation.\n"


@pytest.mark.parametrize("text", ["1is 2", "1if k else 2", "'\\d'", "0x1for k in k", "-" * 20_000 + "1", "1" + "+1" * 2_400])
@pytest.mark.parametrize("place", ["equation", "constraint"])
def test_what_python_warns_of_in_a_formula_is_refused_with_a_sentence(text, place):
    """And what its reader cannot hold; a constraint of signs alone was a MemoryError."""
    rate, constraint = (f"-k*x*({text})", "k >= 0") if place == "equation" else ("-k*x", f"{text} <= k")
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            di.Problem(di.EquationModel(states={"x": rate}), [di.Experiment(T, {}, {"x": DECAY})], [di.Parameter("k", start=1)],
                       [constraint])
        except di.ProblemError as said:
            assert str(said)
        else:
            assert "+1" in text  # long, and nothing is wrong with it
    assert not met
