"""A saved result comes back the same, holds no code, and is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import dynident.demo
from dynident._util.atomic import InUse, NotWritten, exclusive
from dynident.errors import DynidentError, NotSupported, ProblemError
from dynident.estimate.estimate import Estimate, Iteration, Trajectory, validation_metrics
from dynident.integrators.propagation import propagator_for
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.io.results.estimate_json import RESULT_FORMAT, checksum
from dynident.io.results.fit_folder import fit_to_folder
from dynident.io.results.result_folder import load, reserve_folder, save, write_report
from dynident.methods.presets import multiple_shooting, single_shooting
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.statistics.covariance import Covariance
from dynident.verbs.simulate import simulate


def made_by_hand(experiments: int = 2, **changes) -> Estimate:
    """A decay, measured in several records of different length; the second lacks one output and some samples."""
    model = EquationModel(states={"x": "-k*x + u"}, outputs={"x": "x", "double": "2*x"}, inputs=["u"])
    records = []
    for number in range(experiments):
        time = np.linspace(0, 1, 5 + number)
        x = np.exp(-time) + 0.01 * np.sin(40 * time)
        x[2] = np.nan
        outputs = {"x": x} if number else {"x": x, "double": 2 * np.exp(-time)}
        records.append(Experiment(time, {"u": 0 * time}, outputs, {"x": Gaussian(0.01)}, name=f"run {number + 1}"))
    problem = Problem(model, records, [Parameter("k", start=2, lower=0, unit="1/s"), InitialState("x", start=1.0)])
    values = {name: 1.0 + 0.1 * i for i, name in enumerate(problem.names)}
    size = len(values)
    trajectories = tuple(Trajectory(e.name, e.time, {"x": np.exp(-e.time)},
                                    {"x": np.exp(-e.time), "double": 2 * np.exp(-e.time)}) for e in problem.experiments)
    residuals = tuple({name: y - t.outputs[name] for name, y in e.outputs.items()}
                      for e, t in zip(problem.experiments, trajectories, strict=True))
    uncertainty = Covariance(problem.names, np.array(list(values.values())), 1e-4 * np.eye(size),
                             unidentifiable=("x(0)[run 2]",))
    made = Estimate(
        problem, multiple_shooting(segments=3), values, uncertainty, converged=True, status="Found.", cost=1 / 3,
        trajectories=trajectories, residuals=residuals, noise_std={"x": 0.01}, notes=("A note with \"quotes\" and µ.",),
        history=(Iteration(0, math.inf, 0.0), Iteration(1, 1 / 3, math.nan, 1e-9, (1.0, 2.0))),
        counts={"iterations": 1}, times={"solve": 0.25}, statistics={"chi2": math.nan, "fit_x": -math.inf})
    return replace(made, **changes)


def content(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_page_is_called_by_the_problem_file_where_the_model_has_no_name(tmp_path):
    demo = Path(dynident.demo.__file__).parent
    for file in ("slide.csv", "slide_validation.csv"):
        shutil.copy(demo / file, tmp_path)
    text = (demo / "servo.toml").read_text(encoding="utf-8").replace('name = "Servo axis with friction"\n', "")
    (tmp_path / "press.toml").write_text(text, encoding="utf-8")
    said = read_problem(tmp_path / "press.toml")
    fit_to_folder(said, said.method, tmp_path / "out", text.encode(), lambda *_: None, "press.toml")
    assert "<h1>press.toml</h1>" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    write_report(load(tmp_path / "out"), tmp_path / "out")
    assert "<h1>press.toml</h1>" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_everything_comes_back_to_the_last_bit(tmp_path):
    made = made_by_hand()
    back = load(save(made, tmp_path / "r"))
    assert back.values == made.values and list(back.values) == list(made.values)
    for field in ("converged", "status", "cost", "notes", "counts", "times", "noise_std", "method"):
        assert getattr(back, field) == getattr(made, field), field
    np.testing.assert_equal(back.statistics, made.statistics)
    np.testing.assert_equal([vars(i) for i in back.history], [vars(i) for i in made.history])
    for name in made.problem.names:
        assert back.uncertainty.interval(name) == made.uncertainty.interval(name)
    assert back.uncertainty.remark("x(0)[run 2]") == "unidentifiable"
    for old, new in zip(made.trajectories, back.trajectories, strict=True):
        assert new.experiment == old.experiment
        np.testing.assert_equal((new.time, dict(new.states), dict(new.outputs)),
                                (old.time, dict(old.states), dict(old.outputs)))
    np.testing.assert_equal(back.residuals, made.residuals)
    assert back.problem.content_hash() == made.problem.content_hash()


def test_a_problem_of_whole_numbers_and_numpy_numbers_is_recognised_as_the_one_that_was_fitted(tmp_path):
    made = made_by_hand()
    parameters = [Parameter("k", start=np.float64(2), lower=0, upper=np.inf), InitialState("x", start=1)]
    made = replace(made, problem=made.problem.replace(parameters=parameters))
    assert load(save(made, tmp_path / "r")).notes == made.notes


def test_loading_simulates_nothing(tmp_path, monkeypatch):
    save(made_by_hand(), tmp_path / "r")
    for march in (propagator_for, simulate):
        monkeypatch.setattr(sys.modules[march.__module__], march.__name__, lambda *_: pytest.fail("it was simulated"))
    load(tmp_path / "r")


def test_json_is_standard_and_says_what_made_it(tmp_path):
    save(made_by_hand(), tmp_path / "r")

    def refuse(word):
        pytest.fail(f"{word} is not JSON")

    data = json.loads((tmp_path / "r" / "estimate.json").read_text(), parse_constant=refuse)
    assert data["format"] == RESULT_FORMAT
    assert data["statistics"] == {"chi2": "nan", "fit_x": "-inf"}
    assert set(data["versions"]) == {"dynident", "casadi", "numpy", "python"}
    assert data["method"] == {"kind": "multiple_shooting", "segments": 3} | data["method"]
    assert data["intervals"]["of"]["x(0)[run 2]"] == ["-inf", "inf"]
    assert len(data["problem_hash"]) == 64


def test_csv_and_parquet_say_the_same_and_leave_what_was_not_measured_empty(tmp_path):
    made = made_by_hand()
    folder = save(made, tmp_path / "r")
    lines = (folder / "trajectories.csv").read_text().splitlines()
    table = pyarrow.parquet.read_table(folder / "trajectories.parquet")
    header = [cell.strip('"') for cell in lines[0].split(",")]
    assert header == table.column_names
    assert header[:2] == ["experiment", "time"]
    assert {"input.u", "state.x", "output.double", "measured.x", "residual.x"} <= set(header)
    assert len(lines) - 1 == table.num_rows == 5 + 6
    for line, row in zip(lines[1:], table.to_pylist(), strict=True):
        cells = dict(zip(header, line.split(","), strict=True))
        assert cells.pop("experiment").strip('"') == row.pop("experiment")
        assert {k: float(v) if v else None for k, v in cells.items()} == row
    assert table["measured.x"][2].as_py() is None and table["residual.double"][5].as_py() is None


def test_nothing_in_the_folder_is_code_and_all_of_it_is_listed(tmp_path):
    folder = save(made_by_hand(), tmp_path / "r")
    names = {path.name for path in folder.iterdir()}
    assert {"estimate.json", "trajectories.csv", "trajectories.parquet", "problem.toml", "report.html"} <= names
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".csv", ".parquet", ".toml", ".html"}
    assert set(json.loads((folder / "estimate.json").read_text())["files"]) == names - {"report.html", "estimate.json"}


def test_result_of_a_newer_format_is_refused_with_the_version(tmp_path):
    path = save(made_by_hand(), tmp_path / "r") / "estimate.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({"format": RESULT_FORMAT + 1, "versions": {**data["versions"], "dynident": "7.1"}}))
    told = rf"format {RESULT_FORMAT + 1} by dynident 7\.1.*reads format {RESULT_FORMAT}.*Update"
    with pytest.raises(NotSupported, match=told):
        load(tmp_path / "r")


def test_result_of_an_older_format_is_refused_with_a_way_out(tmp_path):
    path = save(made_by_hand(), tmp_path / "r") / "estimate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    told = rf"estimate\.json was written in format 1 .*reads format {RESULT_FORMAT}\. Fit again"
    with pytest.raises(NotSupported, match=told):
        load(tmp_path / "r")


def edited(folder: Path, change) -> None:
    """What a person with an editor does."""
    data = json.loads((folder / "estimate.json").read_text())
    change(data)
    (folder / "estimate.json").write_text(json.dumps(data))


def resigned(folder: Path, change) -> None:
    """What a program does that knows about checksums: the schema alone is left to refuse it."""
    edited(folder, change)
    edited(folder, lambda d: d.update(checksums={key: checksum(value) for key, value in d.items() if key != "checksums"}))


def spoilt(path: Path) -> Path:
    path.write_bytes(b"PAR1 no more")
    return path


@pytest.mark.parametrize(("damage", "sentence"), [
    (lambda f: (f / "estimate.json").unlink(), "holds no result: there is no estimate.json"),
    (lambda f: (f / "estimate.json").write_text("{\"format\": 1, "), "estimate.json is damaged: it is not JSON"),
    (lambda f: (f / "estimate.json").write_bytes(b"\xff\xfe\x00"), "estimate.json is damaged"),
    (lambda f: (f / "estimate.json").write_text("[]"), "estimate.json is damaged"),
    (lambda f: (f / "estimate.json").write_text(json.dumps({"format": RESULT_FORMAT})), "values: it is missing."),
    (lambda f: (f / "trajectories.parquet").unlink(), "not complete: trajectories.parquet is missing"),
    (lambda f: (f / "problem.toml").unlink(), "not complete: problem.toml is missing"),
    (lambda f: (f / "trajectories.parquet").write_bytes(b"PAR1 no more"),
     "trajectories.parquet was changed after it was written"),
    (lambda f: resigned(f, lambda d: d["files"].update({"trajectories.parquet": checksum(spoilt(f / "trajectories.parquet"))})),
     "not a readable Parquet file"),
    (lambda f: (f / "trajectories.csv").write_text("time\n1\n"), "trajectories.csv was changed after it was written"),
    (lambda f: resigned(f, lambda d: d["files"].pop("trajectories.parquet")), "files does not name trajectories.parquet"),
    (lambda f: (f / "estimate.json").write_text("[" * 100_000), "nested deeper than a result can be"),
    (lambda f: edited(f, lambda d: d["values"].update(k=1.23)), "estimate.json was changed after it was written: values does"),
    (lambda f: edited(f, lambda d: d["uncertainty"]["matrix"][0].reverse()), "uncertainty does not fit its checksum"),
    *[(lambda f, stated=stated: edited(f, lambda d: d.update(format=stated)),
       f"format: {stated!r} is not the number of a format")
      for stated in ("99", True, 0, -5, 2.5, None)],
    (lambda f: resigned(f, lambda d: d["values"].pop("k")), "values: nothing is said of 'k'"),
    (lambda f: resigned(f, lambda d: d["values"].update(k="nan")), "values.k: nan is not a number that a fit can end at"),
    (lambda f: resigned(f, lambda d: d["noise_std"].update(x=-1.0)), "noise_std.x: -1.0 is negative"),
    (lambda f: resigned(f, lambda d: d["uncertainty"]["matrix"].pop()), "uncertainty.matrix: its shape (2, 3) does not fit 3"),
    (lambda f: resigned(f, lambda d: d["uncertainty"]["matrix"][0].__setitem__(0, -1.0)), "a variance in it is negative"),
    (lambda f: resigned(f, lambda d: d["uncertainty"]["names"].reverse()), "uncertainty.names: "),
])
def test_missing_and_damaged_files_are_said_in_a_sentence(tmp_path, damage, sentence):
    folder = save(made_by_hand(), tmp_path / "r")
    damage(folder)
    with pytest.raises(ProblemError) as caught:
        load(folder)
    assert sentence in str(caught.value)


def test_damaged_uncertainty_is_said_in_a_sentence(tmp_path):
    path = save(made_by_hand(), tmp_path / "r") / "estimate.json"
    data = json.loads(path.read_text())
    del data["uncertainty"]["matrix"]
    path.write_text(json.dumps(data))
    with pytest.raises(ProblemError, match=r"estimate\.json is damaged[\s\S]*matrix: it is missing"):
        load(tmp_path / "r")


def test_problem_changed_after_the_fit_is_met_with_a_note(tmp_path):
    folder = save(made_by_hand(), tmp_path / "r")
    assert len(load(folder).notes) == 1
    text = (folder / "problem.toml").read_text()
    assert "lower = 0" in text
    (folder / "problem.toml").write_text(text.replace("lower = 0", "lower = 0.5", 1))
    assert "not the one that was fitted" in load(folder).notes[0]


def test_full_disk_leaves_the_old_result_intact(tmp_path, monkeypatch):
    folder = save(made_by_hand(), tmp_path / "r")
    before = content(folder)

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dynident.io.results.result_folder.write_csv", no_space)
    with pytest.raises(NotWritten, match="No space left on device"):
        save(made_by_hand(converged=False, status="Worse."), folder)
    assert content(folder) == before
    assert load(folder).status == "Found."


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are set in another way there")
def test_writing_that_really_fails_leaves_the_old_result_intact(tmp_path):
    """A child process may write 600 bytes per file: the same error path as a full disk, through the whole stack."""
    folder = save(made_by_hand(), tmp_path / "r")
    before = content(folder)
    limited = ("import resource, sys; sys.path[:0] = sys.argv[2:]; from test_results import made_by_hand, save\n"
               "newer = made_by_hand(status='Newer.'); resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
               "save(newer, sys.argv[1])")
    paths = [str(Path(__file__).parent), str(Path(dynident.__file__).parents[1])]
    done = subprocess.run([sys.executable, "-c", limited, str(folder), *paths], capture_output=True, text=True,
                          check=False)
    assert "NotWritten" in done.stderr and "What was there before is intact" in done.stderr
    assert content(folder) == before


def test_failing_report_does_not_lose_the_result(tmp_path, monkeypatch):
    folder = save(made_by_hand(), tmp_path / "r")
    monkeypatch.setattr("dynident.io.results.result_folder.write_report", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(made_by_hand(status="Newer."), folder)
    assert load(folder).status == "Newer."
    assert not (folder / "report.html").exists()  # an old page beside a new result would lie


def test_files_of_the_older_result_go_and_those_of_the_user_stay(tmp_path):
    folder = save(made_by_hand(experiments=3), tmp_path / "r")
    (folder / "my_notes.txt").write_text("mine")
    save(made_by_hand(experiments=1), folder)
    listed = set(json.loads((folder / "estimate.json").read_text())["files"])
    assert {path.name for path in folder.iterdir()} == listed | {"estimate.json", "report.html", "my_notes.txt"}


def test_list_of_files_that_points_out_of_the_folder_is_not_followed(tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    folder = save(made_by_hand(), tmp_path / "r")
    data = json.loads((folder / "estimate.json").read_text())
    (folder / "estimate.json").write_text(json.dumps(data | {"files": [*data["files"], "../victim.txt", str(victim)]}))
    save(made_by_hand(), folder)
    assert victim.read_text() == "mine"


def test_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "problem.toml").write_text("the user's own problem")
    with pytest.raises(ProblemError, match=r"holds other files \(problem\.toml\) and no result"):
        save(made_by_hand(), tmp_path)
    assert content(tmp_path) == {"problem.toml": b"the user's own problem"}


def test_second_run_into_the_folder_refuses_while_the_first_is_at_work(tmp_path):
    with reserve_folder(tmp_path / "r"), pytest.raises(InUse):
        save(made_by_hand(), tmp_path / "r")
    save(made_by_hand(), tmp_path / "r")
    with exclusive(tmp_path / "r"):
        assert load(tmp_path / "r").status == "Found."  # reading is not disturbed


def test_result_that_was_cut_short_while_moving_is_completed_on_reading(tmp_path):
    folder, newer = save(made_by_hand(), tmp_path / "r"), save(made_by_hand(status="Newer."), tmp_path / "n")
    (newer / "report.html").unlink()
    newer.rename(folder / ".ready")  # as a process leaves it that is killed right after its decision
    assert load(folder).status == "Newer."


def test_unknown_kind_of_uncertainty_is_refused_on_saving(tmp_path):
    class Odd:
        meaning = "none"

        def interval(self, name, level=0.95):
            return 0.0, 1.0

        def remark(self, name):
            return ""

    with pytest.raises(DynidentError, match="type Odd cannot be saved"):
        save(made_by_hand(uncertainty=Odd()), tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("method", [single_shooting(), multiple_shooting(),
                                    multiple_shooting(segments=3, loss="huber")])
def test_method_and_its_options_come_back(tmp_path, method):
    assert load(save(made_by_hand(method=method), tmp_path / "r")).method == method


def test_validations_come_back_with_their_signals(tmp_path):
    made = made_by_hand(experiments=1)
    time = np.linspace(0, 1, 30)
    record = Experiment(time, {"u": 0 * time}, {"x": np.exp(-time)}, name="other")
    validation = validation_metrics(record, Trajectory("other", time, {"x": time}, {"x": 1 - time}), {"x": 0.01})
    back = load(save(replace(made, validations=(validation, validation)), tmp_path / "r")).validations
    assert len(back) == 2  # the same name twice is no confusion
    for its in back:
        assert its.experiment == its.trajectory.experiment == "other" and its.fit == validation.fit
        assert [str(test) for test in its.tests] == [str(test) for test in validation.tests]
        np.testing.assert_equal(its.residuals, validation.residuals)
        np.testing.assert_equal((its.trajectory.time, its.trajectory.outputs), (time, {"x": 1 - time}))
    assert (tmp_path / "r" / "estimate.json").stat().st_size < 20_000  # signals belong into tables


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
@pytest.mark.parametrize("what", ["pipe", "link in a circle", "long name"])
def test_what_is_no_file_is_not_waited_for(tmp_path, what):
    folder = save(made_by_hand(), tmp_path / "r")
    for name in ("estimate.json", "problem.toml", "trajectories.parquet"):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        if what == "pipe":
            os.mkfifo(folder / name)
        else:
            (folder / name).symlink_to(name if "link" in what else f"{'a' * 250}/{'b' * 256}")
        with pytest.raises(DynidentError):
            load(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(kept)
    assert load(folder).status == "Found."


def test_names_that_no_disk_holds_are_faults(tmp_path):
    folder = save(made_by_hand(), tmp_path / "r")
    data = json.loads((folder / "estimate.json").read_text())
    data["files"] = {"a" * 5000 if name == "trajectories.csv" else name: stated for name, stated in data["files"].items()}
    data["checksums"]["files"] = checksum(data["files"])
    (folder / "estimate.json").write_text(json.dumps(data))
    with pytest.raises(ProblemError, match="is not complete: aaa"):
        load(folder)


def mutated(content: bytes, rng) -> bytes:
    """One byte changed, or some left out, doubled or put in."""
    k, m = rng.integers(0, len(content) + 1, 2)
    other = bytes(rng.integers(0, 256, rng.integers(1, 4), dtype="u1"))
    return [content[:k] + other + content[k + len(other):], content[:min(k, m)] + content[max(k, m):],
            content[:max(k, m)] + content[min(k, m):], content[:k] + other + content[k:]][rng.integers(4)]


def all_mutations_are_seen(folder: Path, count: int, seed: int) -> None:
    """Whatever happens to a file of a result: an error of ours, a note, or the same values as before."""
    rng = np.random.default_rng(seed)
    whole, before = content(folder), load(folder)
    plain = write_problem(before.problem, None, folder.parent / "plain.toml").read_text()
    names = sorted(set(whole) - {"report.html"})
    seen = 0
    for _ in range(count):
        name = names[rng.integers(len(names))]
        (folder / name).write_bytes(mutated(whole[name], rng))
        try:
            after = load(folder)
        except DynidentError as error:
            seen += name in str(error) or "estimate.json" in str(error) or "problem" in str(error)
        else:
            same = (after.values == before.values and after.uncertainty.interval("k") == before.uncertainty.interval("k"))
            noted = "not the one that was fitted" in (after.notes or ("",))[0]
            assert same and (noted or plain == write_problem(after.problem, None, folder.parent / "plain.toml").read_text())
        (folder / name).write_bytes(whole[name])
    assert seen > count / 2


def test_mutations_of_a_saved_folder_give_no_raw_error_and_no_changed_value(tmp_path):
    all_mutations_are_seen(save(made_by_hand(), tmp_path / "r"), 200, 1)


@pytest.mark.slow
def test_two_thousand_mutations_of_a_saved_folder_give_no_raw_error_and_no_changed_value(tmp_path):
    all_mutations_are_seen(save(made_by_hand(experiments=3), tmp_path / "r"), 2000, 2)
