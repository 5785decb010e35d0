"""`dynident init`: what is guessed of a record, and that the file which is written can be fitted."""

import re
import tomllib

import numpy as np
import pytest

import dynident as di
from dynident.cli import main
from dynident.io.problem_file.first_draft import choose_model, guess_columns, noise_floor
from dynident.models.library import EXAMPLES, example_values

FITTED = ("tank", "servo_axis", "pendulum", "rc_circuit", "consecutive_reactions")  # the others are fitted by another test


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(*words):
    try:
        return main(list(words)) or 0
    except SystemExit as end:
        return end.code or 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_every_model_is_a_problem_that_can_be_read(here, name):
    assert shell("init", "--example", name) == 0
    problem = di.read_problem(f"{name}.toml").problem
    (record,) = problem.experiments
    assert record.samples == EXAMPLES[name].samples and set(record.outputs) == set(EXAMPLES[name].noise)
    assert dict(record.initial) == {state: float(value) for state, value in EXAMPLES[name].initial.items()}


@pytest.mark.parametrize("name", FITTED)
def test_example_is_fitted_by_the_command(here, name):
    shell("init", "--example", name)
    assert shell("fit", f"{name}.toml", "--out", "results") == 0
    estimate, truth = di.load("results"), example_values(name)
    for unknown in estimate.problem.names:
        low, high = estimate.uncertainty.interval(unknown)
        assert abs(estimate.values[unknown] - truth[unknown]) < 2 * (high - low) / 1.96


def test_every_guess_has_its_comment(here, capsys):
    shell("init", "--example", "tank")
    text = (here / "tank.toml").read_text()
    assert "a tank with a hole" in text
    for key in ("states", "outputs", "inputs", "parameters", "constants", "units", "time", "inputs.q", "outputs.level", "hold"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{key} = ")]
        assert "  # " in line, line
    assert re.search(r"outputs.level = .*noise floor about 0.00[23]", text)  # 0.003 was added
    assert "201 samples, 2 apart" in text
    assert "truth is known: A = 0.024, a = 8.5e-05" in capsys.readouterr().out


def test_own_record_gets_the_model_whose_signals_fit(here, capsys):
    """Columns called otherwise, in other units: a level in cm beside an inflow."""
    shell("init", "--example", "tank", "--out", "example.toml")
    rows = (here / "example.csv").read_text().splitlines()[1:]
    cells = [row.split(",") for row in rows]
    lines = [f"{t};{float(h) * 100:.5f};{float(q) * 1000};note" for t, q, h in cells]
    (here / "log.csv").write_text("time [s];Fuellstand [cm];pump [l/s];remark\n" + "\n".join(lines) + "\n")
    text = (here / "log.csv").read_text().replace("[l/s]", "[m^3/s]")
    lines = [line.split(";") for line in text.splitlines()]
    (here / "log.csv").write_text("\n".join(";".join([*line[:2], line[2] if k == 0 else str(float(line[2]) / 1000), line[3]])
                                            for k, line in enumerate(lines)) + "\n")
    assert shell("init", "log.csv") == 0
    said = tomllib.loads((here / "log.toml").read_text())
    assert said["model"]["name"] == "tank"
    assert said["experiment"][0]["outputs"] == {"level": "Fuellstand [cm]"}
    assert said["experiment"][0]["inputs"] == {"q": "pump [m^3/s]"} and said["experiment"][0]["hold"] == "zero"
    assert "Columns that are not used: remark." in (here / "log.toml").read_text()
    assert shell("fit", "log.toml", "--out", "results") == 0
    assert di.load("results").values["A"] == pytest.approx(example_values("tank")["A"], rel=0.05)


def test_time_is_found_without_a_name_and_missing_time_is_said(here):
    t = np.arange(50) * 0.1
    (here / "a.csv").write_text("".join(f"{x},{np.sin(x)}\n" for x in t.tolist()))
    guess = guess_columns(here / "a.csv")
    assert guess.time is not None and guess.time.values[3] == pytest.approx(0.3)
    (here / "b.csv").write_text("y\n" + "".join(f"{np.sin(x)}\n" for x in t.tolist()))
    assert shell("init", "b.csv", "--model", "pendulum") == 0
    assert "sample_time = 1.0  # GUESS" in (here / "b.toml").read_text()
    assert di.read_problem(here / "b.toml").problem.experiments[0].samples == 50


def test_record_without_units_gets_a_model_too(here):
    t = np.arange(200) * 0.1
    u = np.where(np.sin(t) > 0, 1.0, 0.0)
    (here / "run.csv").write_text("t,u,y\n" + "".join(f"{a},{b},{c}\n" for a, b, c in zip(
        t.tolist(), u.tolist(), (0.3 * t).tolist(), strict=True)))
    guess = guess_columns(here / "run.csv")
    assert [(column.name, column.is_input) for column in guess.columns] == [("u", True), ("y", False)]
    assert choose_model(guess).columns.keys() >= {"u"}
    assert shell("init", "run.csv") == 0
    assert di.read_problem(here / "run.toml").problem.experiments


def test_columns_that_say_nothing_are_said_to_do_so(here, capsys):
    rows = "".join(f"{k} {np.cos(k)} 5 {np.sin(k)} 7\n" for k in range(40))
    (here / "bare.txt").write_text(rows)
    assert shell("init", "bare.txt") == 0
    assert "No name and no unit says what bare.txt is of" in capsys.readouterr().out
    assert "for want of a better GUESS" in (here / "bare.toml").read_text()
    assert di.read_problem(here / "bare.toml").problem.experiments[0].samples == 40


def test_a_measurement_is_no_input_where_nothing_says_so(here):
    t = np.arange(50) * 0.1
    rows = "".join(f"{x},{np.sin(x)},{np.cos(x)},{np.sin(2 * x)}\n" for x in t.tolist())
    (here / "run.csv").write_text("t,a1,a2,a3\n" + rows)
    assert choose_model(guess_columns(here / "run.csv")).model.inputs == ()


def test_units_that_do_not_fit_the_model_are_left_open(here):
    (here / "run.csv").write_text("t [s],u [V],y [m]\n" + "".join(f"{k},{k // 20 % 2},{k}\n" for k in range(60)))
    assert shell("init", "run.csv", "--model", "dead_time_process", "--column", "u=u", "--column", "y=y") == 0
    problem = di.read_problem(here / "run.toml").problem
    assert "y" not in problem.model.units and problem.experiments[0].units["y"] == "m"


def test_noise_floor_is_that_of_the_noise():
    t = np.linspace(0, 10, 5000)
    noise = np.random.default_rng(2).standard_normal(t.size)
    assert noise_floor(np.sin(3 * t) + 0.05 * noise) == pytest.approx(0.05, rel=0.05)


def test_list_names_every_model(here, capsys):
    assert shell("init", "--list") == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{listed}" for name in EXAMPLES) and "rc (rc_circuit)" in listed


def test_short_names_are_known(here):
    assert shell("init", "--example", "axis") == 0
    assert (here / "servo_axis.toml").is_file()


@pytest.mark.parametrize(("words", "said"), [
    ([], "init takes one of a record, --example, --list and --urdf, but was given none"),
    (["run.csv", "--list"], "was given a record and --list"),
    (["nowhere.csv"], "there is no file 'nowhere.csv'"),
    (["run.csv", "--model", "tnak"], "the library has no model 'tnak'. Did you mean 'tank'?"),
    (["run.csv", "--model", "tank", "--column", "q=pmup"], "--column q=pmup: run.csv has no column of numbers 'pmup'"),
    (["run.csv", "--model", "tank", "--column", "x=y"], "tank has no signal 'x'"),
    (["run.csv", "--model", "tank"], "tank needs a column for q, and run.csv has y. Say which it is with --column"),
    (["run.csv", "--model", "pendulum", "--out", "taken.toml"], "taken.toml is there already; name another file with --out"),
    (["text.csv"], "text.csv has no column of numbers beside time")])
def test_what_cannot_be_begun_is_answered(here, capsys, words, said):
    (here / "run.csv").write_text("t,y\n" + "".join(f"{k},{np.sin(k)}\n" for k in range(30)))
    (here / "text.csv").write_text("t,y\n0,a\n1,b\n")
    (here / "taken.toml").write_text("")
    assert shell("init", *words) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert (here / "taken.toml").read_text() == ""


@pytest.mark.parametrize("name", ["run.mf4", "run.tdms", "run.mcap"])
def test_signals_with_clocks_of_their_own_are_no_table(here, capsys, name):
    (here / name).write_bytes(b"anything")
    assert shell("init", name) == 2
    assert "its signals have clocks of their own" in " ".join(capsys.readouterr().err.split())
