"""`dynident design` and `dynident profile`: from a problem file to an input that a controller can read."""

import numpy as np
import pytest

import dynident as di
from dynident.cli import main
from dynident.demo import copy_to

DESIGN = """
[design]
signal = { kind = "piecewise_linear", pieces = 6 }
criterion = "std:M"
constraints = ["abs(u) <= 5", "abs(v) <= 0.4"]
duration = 1
starts = 1
"""


@pytest.fixture
def problem(tmp_path):
    file, *_ = copy_to(tmp_path / "axis")
    file.write_text(file.read_text() + DESIGN)
    return file


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


def test_design_writes_the_input_and_prints_its_predicted_std(problem, tmp_path, capsys):
    out = tmp_path / "next.csv"
    assert run("design", problem, "--out", out) == 0
    printed, told = capsys.readouterr()
    assert "std before" in printed and "holds" in printed
    assert "start 1 of 1" in told and "inputs tried" in told
    rows = np.genfromtxt(out, delimiter=",", names=True)
    assert rows["time"][-1] == pytest.approx(1.0) and np.max(np.abs(rows["u"])) <= 5
    assert di.read_csv(out, time="time", inputs=["u"]).samples == rows.size


def test_design_of_a_saved_result_needs_no_fit(problem, tmp_path, capsys):
    assert run("fit", problem, "--out", tmp_path / "results") == 0
    assert run("design", tmp_path / "results", "--out", tmp_path / "next.csv") == 0
    assert "criterion std of M" in capsys.readouterr().out


def test_design_without_its_table_says_what_to_add(tmp_path, capsys):
    file, *_ = copy_to(tmp_path / "axis")
    assert run("design", file, "--at-start") == 2
    assert "no [design] table" in capsys.readouterr().err


@pytest.mark.parametrize(("line", "said"), [
    ('constraintz = ["abs(u) <= 5"]', "Did you mean 'constraints'"), ('criterion = "G"', "no criterion 'G'"),
    ('constraints = ["abs(w) <= 5"]', "w"), ('duration = "long"', "must be a number")])
def test_faults_of_the_design_table_are_named(tmp_path, capsys, line, said):
    file, *_ = copy_to(tmp_path / "axis")
    file.write_text(file.read_text() + '\n[design]\nsignal = "bernstein"\n' + line + "\n")
    assert run("design", file, "--at-start") == 2
    assert said in capsys.readouterr().err


def test_profile_prints_verdicts_and_draws(problem, tmp_path, capsys):
    assert run("profile", problem, "--name", "Fc", "--out", tmp_path / "fc.png") == 0
    assert "identifiable" in capsys.readouterr().out
    assert (tmp_path / "fc.png").stat().st_size > 1000


FAULTY = """
[design]
signal = { kind = "piecewise_lin", pieces = 6 }
"""


@pytest.mark.parametrize("command", ["check", "design"])
def test_a_design_that_cannot_be_is_refused_before_any_fit(tmp_path, capsys, monkeypatch, command):
    def no_fit(*_, **__):
        raise AssertionError("it was fitted")

    monkeypatch.setattr("dynident.verbs.identify", no_fit)
    file, *_ = copy_to(tmp_path / "axis")
    text = file.read_text()
    file.write_text(text + FAULTY)
    assert run(command, file) == 2
    assert "there is no signal 'piecewise_lin'. Did you mean 'piecewise_linear'?" in capsys.readouterr().err
    file.write_text(text + DESIGN + 'robust = "often"\nparameters = ["m"]\namplitude = -1\nsamples = -1\n')
    assert run(command, file) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in ("robust = 'often'", "names 'm'", "amplitude is -1", "samples = -1"))


def test_check_is_content_with_a_design_that_can_be(problem, capsys):
    assert run("check", problem) == 0


@pytest.mark.parametrize(("out", "said"), [("p.xyz", "End it with .png, .pdf or .svg"), ("folder", "is a folder")])
def test_profile_judges_its_file_before_it_computes(problem, tmp_path, capsys, monkeypatch, out, said):
    def no_fit(*_, **__):
        raise AssertionError("it was fitted")

    monkeypatch.setattr("dynident.verbs.identify", no_fit)
    (tmp_path / "folder.png").mkdir()
    name = tmp_path / (out if out == "p.xyz" else "folder.png")
    assert run("profile", problem, "--out", name) == 2
    assert said in capsys.readouterr().err


def test_profile_makes_the_folder_of_its_file(problem, tmp_path):
    assert run("profile", problem, "--name", "Fc", "--out", tmp_path / "new" / "fc.svg") == 0
    assert (tmp_path / "new" / "fc.svg").is_file()
