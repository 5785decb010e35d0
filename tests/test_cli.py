"""What the shell gets: exit codes, sentences on stderr, results on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dynident.estimate.estimate
import dynident.verbs.check
import dynident.verbs.identify
from dynident.cli import COMMANDS, main
from dynident.codegen.compiler import compiler
from dynident.errors import NotConverged, NotSupported
from dynident.io.results.result_folder import load, reserve_folder
from dynident.methods.options import option_rows
from dynident.methods.presets import METHODS, method_class

PROBLEM = """
[model]
states = { x = "-k*x + u" }
outputs = { level = "x" }
inputs = ["u"]

[[experiment]]
file = "record.csv"
time = "t"
inputs = ["u"]
outputs.level = { column = "x", gaussian = 0.01 }

[parameters]
k = { start = 0.5, lower = 0, upper = 10 }

[initial_states]
x = { start = 0.9 }

[method]
kind = "multiple_shooting"
segments = 4
"""
RATE = 1.7


def record(samples: int = 101, seed: int = 0) -> str:
    """x' = -RATE*x with x(0) = 1, and noise."""
    t = np.linspace(0, 2, samples)
    x = np.exp(-RATE * t) + 0.01 * np.random.default_rng(seed).standard_normal(samples)
    return "\n".join(["t,u,x", *(f"{a!r},0,{b!r}" for a, b in zip(t.tolist(), x.tolist(), strict=True))])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "problem.toml").write_text(PROBLEM)
    (tmp_path / "record.csv").write_text(record())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return left.value.code


def in_a_shell(*arguments: str) -> subprocess.Popen:
    """As a person starts it: Ctrl-C works, also where the tests themselves run in the background and ignore it."""
    found_by = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}  # wherever the tests were started
    return subprocess.Popen([sys.executable, "-c", "from dynident.cli import main; main()", *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=found_by,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_fit_writes_a_result_and_leaves_with_0(folder, capsys):
    assert run("fit", "problem.toml", "--out", "results") == 0
    estimate = load("results")
    low, high = estimate.uncertainty.interval("k", 0.9999)
    assert estimate.converged and low < RATE < high
    assert (folder / "results" / "report.html").stat().st_size > 1000
    assert "Written to results" in capsys.readouterr().out


def test_fit_with_constraints_is_written_and_read_again(folder):
    (folder / "problem.toml").write_text('constraints = ["k >= 2"]\n' + PROBLEM)
    assert run("fit", "problem.toml") == 3  # so far from what the record says that the verdict is C
    estimate = load(folder / "results")
    assert [c.text for c in estimate.problem.constraints] == ["k >= 2"]
    assert not [note for note in estimate.notes if "changed after the fit" in note]
    assert abs(estimate.values["k"] - 2) < 1e-6


def test_fit_leaves_by_its_verdict(folder, capsys):
    """FINDINGS B1: it was 0 for every fit that converged, however bad."""
    (folder / "problem.toml").write_text(PROBLEM.replace("start = 0.5, lower = 0", "start = 8, lower = 7"))
    assert run("fit", "problem.toml", "--out", "results") == 4
    said = capsys.readouterr()
    assert said.out.startswith("[D] Does NOT describe the record") and "Converged" in said.out
    assert "exit code 4: verdict D" in said.err
    saved = json.loads((folder / "results" / "estimate.json").read_text())["verdict"]
    assert saved["grade"] == "D" and saved["sentence"] == load("results").verdict.sentence
    assert 'class="verdict red"' in (folder / "results" / "report.html").read_text()


def test_strict_turns_amber_into_3(folder, monkeypatch):
    from dynident.statistics.verdict import Grade, Verdict

    somewhat = Verdict(Grade.SMALL_REMAINDER, "Somewhat.")
    monkeypatch.setattr("dynident.verbs.judged_signals.pool_verdicts", lambda *parts: somewhat)
    assert run("fit", "problem.toml", "--out", "results") == 0
    assert run("fit", "problem.toml", "--out", "results", "--strict") == 3


def test_fit_that_does_not_converge_leaves_with_1_and_writes_a_marked_result(folder, capsys):
    (folder / "problem.toml").write_text(PROBLEM.replace("segments = 4", "segments = 4\nmax_iterations = 1"))
    assert run("fit", "problem.toml", "--out", "results") == 1
    said = capsys.readouterr()
    assert "did not converge" in said.err and "NOT CONVERGED" in said.out
    assert not load("results").converged
    assert "NOT CONVERGED" in (folder / "results" / "report.html").read_text()


def test_validation_that_fails_is_a_note_and_does_not_lose_the_fit(folder, monkeypatch):
    (folder / "problem.toml").write_text(PROBLEM + PROBLEM[PROBLEM.index("[[exp"):PROBLEM.index("[par")].replace(
        "[[experiment]]", '[[validation]]\nname = "kept"'))

    def fails(estimate, experiment):
        raise NotConverged("no initial state was found")

    monkeypatch.setattr(dynident.estimate.estimate.Estimate, "validate", fails)
    assert run("fit", "problem.toml", "--out", "results") == 0
    assert "validation on 'kept' failed: no initial state" in load("results").notes[-1]


def test_failure_without_a_point_leaves_with_1_and_no_folder(folder, capsys, monkeypatch):
    def nothing_found(*args, **options):
        raise NotConverged("Every start failed.")

    monkeypatch.setattr(dynident.verbs.identify, "identify", nothing_found)
    assert run("fit", "problem.toml", "--out", "results") == 1
    assert capsys.readouterr().err == "dynident: Every start failed.\n"
    assert not (folder / "results").exists()


@pytest.mark.parametrize(("change", "sentence"), [
    (("lower = 0", "lower = 20"), "lower = 20 lies above upper = 10"),
    (("record.csv", "recrod.csv"), "Did you mean 'record.csv'?"),
    (("[parameters]", "[paramters]"), "paramters"),
    (('"-k*x + u"', "\"__import__('os').system('true')\""), "__import__"),
    (('kind = "multiple_shooting"', 'kind = "multiple_shotting"'), "multiple_shooting"),
    (("segments = 4", "segmnets = 4"), "segments"),
    (("[model]", "[model"), "not valid TOML"),
])
def test_bad_input_leaves_with_2_and_a_sentence_and_no_result(folder, capsys, change, sentence):
    (folder / "problem.toml").write_text(PROBLEM.replace(*change))
    assert run("fit", "problem.toml", "--out", "results") == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("dynident: ")
    assert sentence in said.err and "Traceback" not in said.err
    assert not (folder / "results").exists()


def test_debug_shows_the_traceback_wherever_it_is_said(folder, capsys):
    for arguments in (["--debug", "check", "none.toml"], ["check", "none.toml", "--debug"]):
        assert run(*arguments) == 2
        assert "Traceback" in capsys.readouterr().err


def test_a_fault_of_ours_leaves_with_70_and_says_how_to_see_more(folder, capsys, monkeypatch):
    monkeypatch.setattr(dynident.verbs.check, "check", lambda problem: 1 / 0)
    assert run("check", "problem.toml") == 70
    said = capsys.readouterr().err
    assert "--debug" in said and "ZeroDivisionError" in said and "Traceback" not in said


def test_ctrl_c_saves_the_best_point_so_far_and_leaves_with_130(folder):
    substeps = 100_000 if compiler() else 2_000  # CasADi's own machine is some 50 times slower
    slow = PROBLEM.replace('kind = "multiple_shooting"\nsegments = 4', f'kind = "single_shooting"\nsubsteps = {substeps}')
    (folder / "problem.toml").write_text(slow)
    fit = in_a_shell("fit", "problem.toml", "--out", "results")
    assert fit.stderr is not None
    for line in fit.stderr:
        if line.startswith("iteration"):  # the start point is known by now, and the end is seconds away
            break
    time.sleep(0.3)  # as a person would; in the middle of an iteration
    fit.send_signal(signal.SIGINT)
    out, err = fit.communicate(timeout=60)
    assert fit.returncode == 130, err
    assert "Stopped by Ctrl-C" in err and "Traceback" not in err and "NOT CONVERGED" in out
    estimate = load("results")
    assert not estimate.converged and estimate.counts["interrupted"] == 1
    assert not (folder / "results" / ".lock").exists()


def test_ctrl_c_before_the_first_point_leaves_with_130_and_nothing(folder, capsys, monkeypatch):
    def pressed(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(dynident.verbs.identify, "identify", pressed)
    assert run("fit", "problem.toml", "--out", "results") == 130
    assert "no file is half written" in capsys.readouterr().err
    assert not (folder / "results").exists()


def test_second_fit_into_the_folder_refuses_while_the_first_runs(folder, capsys):
    with reserve_folder(folder / "results"):
        assert run("fit", "problem.toml", "--out", "results") == 2
    assert "in use by process" in capsys.readouterr().err


@pytest.mark.parametrize(("change", "code"), [
    (("", ""), 0), (("segments = 4", "max_iterations = 1"), 1), (("k*x", "k**x("), 2)])
def test_exit_codes_reach_the_shell_and_a_log_gets_plain_lines(folder, change, code):
    (folder / "problem.toml").write_text(PROBLEM.replace(*change))
    fit = in_a_shell("fit", "problem.toml", "--out", "results")
    out, err = fit.communicate(timeout=60)
    assert fit.returncode == code, err
    assert "\x1b" not in out + err
    assert ("iteration    0" in err) == (code != 2)


def test_usage_errors_leave_with_2(capsys):
    assert run("fitt", "problem.toml") == 2
    assert "fit" in capsys.readouterr().err
    assert run("fit") == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_an_example(command, capsys):
    assert run(command, "--help") == 0
    assert f"Example: dynident {command}" in capsys.readouterr().out


def test_version_names_what_it_computes_with(capsys):
    assert run("--version") == 0
    said = capsys.readouterr().out
    assert all(name in said for name in (f"dynident {dynident.__version__}", "casadi", "numpy", "python"))


def test_check_prints_and_leaves_with_0_or_1(folder, capsys):
    assert run("check", "problem.toml") == 0
    assert "input stays at 0" in capsys.readouterr().out
    (folder / "problem.toml").write_text(PROBLEM.replace("-k*x + u", "-k*c*x + u").replace(
        "k = {", "c = { start = 1, lower = 0, upper = 10 }\nk = {"))
    assert run("check", "problem.toml") == 1  # only the product can be seen


@pytest.mark.parametrize("method, sentence", [
    ('kind = "foo"', "There is no method 'foo'"),
    ('kind = "multistart"\nmethod = { kind = "single_shooting" }', "multistart needs bounds for 'k'"),
    ('kind = "least_squares"\nloss = ["huber"]', "There is no loss"),
    ('kind = "single_shooting"', "takes constraints between parameters, but no bounds on states"),
])
def test_check_looks_at_the_method_too(folder, capsys, method, sentence):
    text = PROBLEM.replace('kind = "multiple_shooting"\nsegments = 4', method).replace(", upper = 10", "")
    (folder / "problem.toml").write_text('constraints = ["x <= 2"]\n' + text)
    for command in ("check", "fit"):
        assert run(command, "problem.toml") == 2
        assert sentence in capsys.readouterr().err


HYBRID = PROBLEM.replace('states = { x = "-k*x + u" }', """states = ["x"]
modes = { fast = { rate = { x = "-k*x + u" } }, slow = { rate = { x = "-k*x/2 + u" } } }
transitions = [{ source = "fast", target = "slow", when = "x < 0.3" }]""")


@pytest.mark.parametrize("method, sentence", [
    ('kind = "kalman"', "kalman needs a model with one mode"),
    ('kind = "boundary_value"', "boundary_value needs a model with one mode"),
    ('kind = "set_membership"', "set_membership needs a bound on the errors of level, but these are Gaussian"),
    ('kind = "multiple_shooting"\nintegrator = "radau"', "'radau' cannot follow the modes"),
])
def test_check_says_what_a_method_has_against_modes(folder, capsys, method, sentence):
    (folder / "problem.toml").write_text(HYBRID.replace('kind = "multiple_shooting"\nsegments = 4', method))
    for command in ("check", "fit"):
        assert run(command, "problem.toml") == 2
        assert sentence in capsys.readouterr().err


def test_method_on_the_command_line_replaces_that_of_the_file(folder):
    run("fit", "problem.toml", "--out", "results", "--method", "single_shooting")
    assert json.loads((folder / "results" / "estimate.json").read_text())["method"]["kind"] == "single_shooting"
    run("fit", "problem.toml", "--out", "results", "--method", "multiple_shooting")
    assert json.loads((folder / "results" / "estimate.json").read_text())["method"]["segments"] == 4


def test_unknown_method_is_refused_before_anything_is_fitted(folder, capsys):
    assert run("compare", "problem.toml", "--methods", "single_shooting,simgle_shooting") == 2
    assert "Did you mean 'single_shooting'?" in capsys.readouterr().err


def test_compare_puts_methods_side_by_side_and_keeps_their_results(folder, capsys):
    assert run("compare", "problem.toml", "--methods", "single_shooting, multiple_shooting", "--out", "all") == 0
    said = capsys.readouterr().out
    assert "single_shooting" in said and "multiple_shooting" in said
    one, other = load("all/single_shooting"), load("all/multiple_shooting")
    assert one.values["k"] == pytest.approx(other.values["k"], abs=0.01 * one.uncertainty.std("k"))


def test_method_that_cannot_does_not_end_the_comparison(folder, capsys, monkeypatch):
    identify = dynident.verbs.identify.identify

    def only_many_segments(problem, method, *options):
        if method.kind == "single_shooting":
            raise NotSupported("this model is too wild for one segment")
        return identify(problem, method, *options)

    monkeypatch.setattr("dynident.verbs.compare.identify", only_many_segments)
    assert run("compare", "problem.toml", "--methods", "single_shooting,multiple_shooting") == 1
    said = capsys.readouterr()
    assert "too wild" in said.out and "multiple_shooting" in said.out  # one table says it all
    assert "Without an answer: single_shooting." in said.err
    assert run("compare", "problem.toml", "--methods", "single_shooting") == 2
    assert "too wild" in capsys.readouterr().err


def test_simulate_writes_what_the_model_does_at_the_given_values(folder):
    assert run("simulate", "problem.toml", "--out", "sim.csv", "--set", "k=2", "--set", "x(0)=3") == 0
    rows = [line.split(",") for line in Path("sim.csv").read_text().splitlines()]
    columns = {name.strip('"'): np.array([float(row[k]) for row in rows[1:]])
               for k, name in enumerate(rows[0]) if "experiment" not in name}
    np.testing.assert_allclose(columns["state.x"], 3 * np.exp(-2 * columns["time"]), atol=1e-6)
    np.testing.assert_allclose(columns["residual.level"], columns["measured.level"] - columns["output.level"],
                               rtol=0, atol=1e-12)


@pytest.mark.parametrize(("given", "sentence"), [
    (["--set", "kk=2"], "Did you mean 'k'?"), (["--set", "k"], "NAME=VALUE"), (["--set", "k=two"], "not a number"),
    (["--set", "k=nan"], "not a finite number"), (["--out", "sim.txt"], ".csv or .parquet")])
def test_simulate_refuses_what_it_cannot_read(folder, capsys, given, sentence):
    assert run("simulate", "problem.toml", "--out", "sim.csv", *given) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("sim.csv").exists()


def test_validate_reads_columns_as_the_first_experiment_and_adds_to_the_result(folder, capsys):
    run("fit", "problem.toml", "--out", "results")
    Path("other.csv").write_text(record(seed=5))
    for _ in range(2):  # the same record twice is one validation
        assert run("validate", "results", "other.csv") == 0
        (validation,) = load("results").validations
        assert validation.fit["level"] > 80
    assert "other" in Path("results/report.html").read_text()


def test_validate_names_columns_that_are_missing_and_takes_others_by_name(folder, capsys):
    run("fit", "problem.toml", "--out", "results")
    Path("other.csv").write_text(record(seed=5).replace("t,u,x", "t,u,height"))
    assert run("validate", "results", "other.csv") == 2
    said = capsys.readouterr().err
    assert "--column NAME=COLUMN" in said and "2 faults" not in said  # one column is missing, which is one fault
    assert run("validate", "results", "other.csv", "--column", "levle=height") == 2
    assert "Did you mean 'level'?" in capsys.readouterr().err
    assert run("validate", "results", "other.csv", "--column", "level=height") == 0


def test_problem_file_in_a_result_that_was_broken_is_said_in_a_sentence(folder, capsys):
    run("fit", "problem.toml", "--out", "results")
    Path("results/problem_as_given.toml").write_text("[[experiment]]\nfile = 3\n")
    assert run("validate", "results", "record.csv") == 2
    assert "was changed after the fit" in capsys.readouterr().err


def test_terminal_without_special_characters_is_no_error(folder):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", "from dynident.cli import main; main()", "fit", "problem.toml"],
                          env=ascii_only, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_report_makes_the_page_again(folder, capsys):
    run("fit", "problem.toml", "--out", "results")
    Path("results/report.html").unlink()
    assert run("report", "results") == 0
    assert Path("results/report.html").stat().st_size > 1000
    assert run("report", "nowhere") == 2
    assert "holds no result" in capsys.readouterr().err
    assert not Path("nowhere").exists()


def test_result_never_overwrites_the_problem_it_came_from(folder, capsys):
    assert run("fit", "problem.toml", "--out", ".") == 2
    assert "holds other files" in capsys.readouterr().err
    assert (folder / "problem.toml").read_text() == PROBLEM


def test_data_outside_and_python_models_need_their_flags(folder, tmp_path_factory, capsys):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "record.csv"
    elsewhere.write_text(record())
    (folder / "problem.toml").write_text(PROBLEM.replace("record.csv", elsewhere.as_posix()))
    assert run("check", "problem.toml") == 2
    assert "--allow-outside" in capsys.readouterr().err
    assert run("check", "problem.toml", "--allow-outside") == 0
    (folder / "decay.py").write_text(
        "from dynident import EquationModel\n"
        "decay = EquationModel(states={'x': '-k*x + u'}, outputs={'level': 'x'}, inputs=['u'])\n")
    model = PROBLEM[PROBLEM.index("[model]"):PROBLEM.index("[[experiment]]")]
    (folder / "problem.toml").write_text(PROBLEM.replace(model, '[model]\npython = "decay.py:decay"\n'))
    assert run("check", "problem.toml") == 2
    assert "--allow-code" in capsys.readouterr().err
    assert run("fit", "problem.toml", "--out", "results", "--allow-code") == 0
    assert load("results").converged  # the result holds equations, and needs no flag


@pytest.mark.parametrize("name", METHODS)
def test_methods_lists_each_option_with_its_line_of_documentation(name, capsys):
    assert run("methods", name) == 0
    shown = capsys.readouterr().out
    for row in option_rows(method_class(name)):
        assert f"{row.name} = {row.default!r}" in shown and row.doc in shown


def test_methods_names_the_nearest_of_a_misspelt_name(capsys):
    assert run("methods", "multiple_shoting") == 2
    assert "multiple_shooting" in capsys.readouterr().err


STEERING = "\x1b]0;OWNED\x07\x1b[2J\r\u202e\x9b"  # a title, a clean screen, the begin of the line, right to left, a C1 sequence
STEERED = {
    "a file that is not there": ('[model]\nstates = {{ x = "-x" }}\n[[experiment]]\nfile = "no{0}.csv"\n', ["check"]),
    "a key": ('[model]\n"foo{0}" = 1\n', ["check"]),
    "a state": ('[model]\nstates = {{ "x{0}" = "-x" }}\n[[experiment]]\nfile = "run.csv"\ntime = "t"\n', ["check"]),
    "a method": ('[model]\nstates = {{ x = "-x" }}\n[method]\nkind = "x{0}"\n[[experiment]]\nfile = "run.csv"\ntime = "t"\n'
                 'outputs.x = {{ column = "x", gaussian = 0.1 }}\n', ["fit", "--out", "results"]),
    "a record": ('[model]\nstates = {{ x = "-k*x" }}\n[[experiment]]\nname = "run{0}"\nfile = "run.csv"\ntime = "t"\n'
                 'outputs.x = {{ column = "x", gaussian = 0.1 }}\n[parameters]\nk = {{ start = 1.0, unit = "1{0}" }}\n'
                 '[initial_states]\nx = {{ start = 1.0 }}\n', ["simulate", "--out", "simulated.csv"]),
}


@pytest.mark.parametrize("what", [*STEERED, "a column"])
def test_no_text_from_a_file_steers_the_terminal(what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    head = f'"y{STEERING}"'.replace("\r", "") if what == "a column" else "x"
    Path("run.csv").write_text(f"t,{head}\n" + "".join(f"{k / 10},{1 - k / 20}\n" for k in range(11)), encoding="utf-8")
    if what == "a column":
        run("init", "run.csv", "--out", "first.toml")
    else:
        text, (command, *options) = STEERED[what]
        escaped = "".join(f"\\u{ord(c):04x}" for c in STEERING)
        Path("steering.toml").write_text(text.format(escaped))
        run(command, "steering.toml", *options)
    said = "".join(capsys.readouterr())
    assert [c for c in said if not c.isprintable() and c not in "\n\t"] == []
    assert "OWNED" in said  # it was said, and is readable
