"""Does the page get what it asks for, and is it what the command line gives? Without a browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from bench import connected, running

import dynident as di
from dynident.cli import main
from dynident.codegen.compiler import compiler
from dynident.demo import copy_to
from dynident.fmu.export import export_fmu
from dynident.io.readers.tables import READERS
from dynident.methods.presets import METHODS
from dynident.workbench import routes
from dynident.workbench.folder import RECORDS
from dynident.workbench.session import Refused
from dynident.workbench.spectrum import amplitude_spectra

BOEHM = Path(__file__).parents[1] / "data" / "petab" / "Boehm_JProteomeRes2014"

ENDLESS = {"kind": "multistart", "starts": 5000, "method": {"kind": "single_shooting"}}
HOSTILE = '<img src=x onerror=alert(1)> "y"\' ]'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    copy_to(folder)
    with running(folder) as server:
        one = connected(server)
        one.folder = folder
        yield one


@pytest.fixture
def servo(page):
    """The demo, opened anew from an untouched file."""
    for name in ("servo.toml", "slide.csv", "slide_validation.csv"):
        (page.folder / name).unlink(missing_ok=True)
    copy_to(page.folder)
    shutil.rmtree(page.folder / "results", ignore_errors=True)
    assert page.call("POST", "/api/open", {"file": "servo.toml"})[0] == 200
    return page


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(each) for each in arguments])
    return end.value.code


def test_a_problem_is_described_with_its_records_and_unknowns(servo):
    state = servo.state()
    assert (state["file"], state["dirty"], state["description"]["faults"]) == ("servo.toml", False, [])
    assert [(r["name"], r["kind"], r["samples"]) for r in state["description"]["records"]] == [
        ("strokes", "experiment", 2001), ("sines", "validation", 2001)]
    first = state["description"]["quantities"][0]
    assert [first[key] for key in ("name", "start", "lower", "upper", "unit", "free")] == ["M", 50, 1, 500, "kg", True]


def test_the_spectrum_is_that_of_the_record_and_of_the_curve(servo):
    view = {"record": 0, "width": 800, "values": {}}
    head, (frequency, measured, simulated, *_) = servo.columns("/api/simulate", {**view, "spectrum": True})
    run = di.read_problem(servo.folder / "servo.toml").problem.experiments[0]
    exact, (expected,) = amplitude_spectra(np.asarray(run.time), [np.asarray(run.outputs["position"])], 200)
    assert head["outputs"][0] == "position"
    np.testing.assert_array_equal(frequency, exact)
    np.testing.assert_array_equal(measured, expected)
    assert np.isfinite(simulated).all() and not np.array_equal(simulated, measured)


def test_the_curve_is_that_of_simulate(servo):
    values = {"M": 80.0, "Fv": 150.0, "Fc": 12.0, "offset": -1.0}
    view = {"record": 0, "width": 4000, "values": values}
    head, (t, position, velocity, left_position, _) = servo.columns("/api/simulate", view)
    said = di.read_problem(servo.folder / "servo.toml")
    exact = di.simulate(said.problem.model, values, said.problem.experiments[0])
    assert t == pytest.approx(exact.time)
    assert position == pytest.approx(exact.outputs["position"], abs=1e-6)
    assert velocity == pytest.approx(exact.outputs["velocity"], abs=1e-5)
    measured = said.problem.experiments[0].outputs["position"]
    assert left_position == pytest.approx(measured - position)
    assert head["fit"]["position"] == pytest.approx(100 * (1 - np.linalg.norm(measured - position)
                                                           / np.linalg.norm(measured - measured.mean())))
    assert not head["coarse"]


def test_record_and_curve_are_thinned_by_the_same_pixels(servo):
    view = {"record": 1, "width": 120, "from": 1.0, "to": 9.0}
    _, (t, *measured) = servo.columns("/api/record", view)
    head, (t_curve, *_) = servo.columns("/api/simulate", {**view, "values": {}})
    assert len(t) == 240
    assert np.array_equal(t, t_curve)
    assert len(measured) == 3
    assert head["rows"] == 240


def test_an_edit_is_in_the_text_and_undo_takes_it_back(servo):
    before = servo.state()
    after = servo.edit({"path": ["parameters", "M", "start"], "value": 77.0})
    assert (after["dirty"], after["description"]["quantities"][0]["start"]) == (True, 77.0)
    back = servo.call("POST", "/api/undo", {"revision": after["revision"]})[1]
    assert (back["text"], back["dirty"]) == (before["text"], False)
    again = servo.call("POST", "/api/redo", {"revision": back["revision"]})[1]
    assert again["text"] == after["text"]


def test_saving_keeps_comments_and_gives_a_file_that_the_command_line_takes(servo):
    text = (servo.folder / "servo.toml").read_text()
    servo.edit({"path": ["parameters", "M", "start"], "value": 60.25})
    status, state = servo.call("POST", "/api/save", {})
    assert (status, state["dirty"]) == (200, False)
    assert (servo.folder / "servo.toml").read_text() == text.replace("start = 50", "start = 60.25")
    assert di.read_problem(servo.folder / "servo.toml").problem.parameters[0].start == 60.25


@pytest.mark.parametrize("name", ["../x.toml", "x.csv", ".x.toml", "a/b.toml", "servo", "slide.csv"])
def test_saving_elsewhere_than_beside_the_problem_is_refused(servo, name):
    assert servo.call("POST", "/api/save", {"as": name})[0] == 422
    assert not (servo.folder.parent / "x.toml").exists()


def test_saving_under_another_name_never_overwrites(servo):
    (servo.folder / "taken.toml").write_text("x = 1\n")
    assert servo.call("POST", "/api/save", {"as": "taken.toml"})[0] == 409
    assert (servo.folder / "taken.toml").read_text() == "x = 1\n"
    assert servo.call("POST", "/api/save", {"as": "other.toml"})[1]["file"] == "other.toml"


def test_two_tabs_do_not_overwrite_each_other(servo):
    other = connected(servo.server)
    seen = servo.state()["revision"]
    other.edit({"path": ["parameters", "M", "start"], "value": 61.0})
    late = {"revision": seen, "edits": [{"path": ["parameters", "Fv", "start"], "value": 1}]}
    status, answer = servo.call("PATCH", "/api/problem", late)
    assert status == 409
    assert "another tab" in answer["says"]
    told = servo.heard(lambda event: event["event"] == "changed" and event["revision"] == answer["revision"])
    assert told
    assert servo.edit({"path": ["parameters", "Fv", "start"], "value": 90.0})["description"]["quantities"][1]["start"] == 90


def test_a_file_that_changed_on_disk_is_said_and_not_overwritten(servo):
    file = servo.folder / "servo.toml"
    file.write_text(file.read_text().replace("upper = 500", "upper = 400"))
    assert servo.state()["stale"]
    servo.edit({"path": ["parameters", "M", "start"], "value": 61.0})
    status, answer = servo.call("POST", "/api/save", {})
    assert (status, answer["stale"]) == (409, True)
    assert "upper = 400" in file.read_text()
    state = servo.call("POST", "/api/reload", {})[1]
    assert (state["stale"], state["dirty"], state["description"]["quantities"][0]["upper"]) == (False, False, 400)
    assert state["undo"] >= 2  # what was not saved can be had back


def test_faults_come_with_their_line_and_the_record_stays(servo):
    state = servo.edit({"path": ["model", "states", "v"], "value": "(gain*u - Fv*v"})
    (fault,) = [one for one in state["description"]["faults"] if "bracket" in one]
    assert fault.startswith("servo.toml, line ")
    assert "quantities" not in state["description"]
    head, _ = servo.columns("/api/record", {"record": 0, "width": 100})
    assert head["outputs"] == ["position", "velocity"]
    status, answer = servo.call("POST", "/api/simulate", {"record": 0, "width": 100, "values": {}})
    assert status == 422
    assert "bracket" in answer["says"]


def test_equations_have_their_faults_by_line_while_they_are_typed(servo):
    model = {"states": {"q": "v", "v": "(u - d*v - k*q/m"}, "outputs": {"y": "q"}, "inputs": ["u"]}
    answer = servo.call("POST", "/api/equations", {"model": model})[1]
    assert [(one["part"], one["name"]) for one in answer["line_faults"]] == [("states", "v")]
    assert answer["formulas"]["states"]["v"] is None
    model["states"]["v"] = "(u - d*v - k*q)/m"
    answer = servo.call("POST", "/api/equations", {"model": model})[1]
    assert (answer["line_faults"], answer["parameters"]) == ([], ["d", "k", "m"])
    assert answer["formulas"]["states"]["v"][0] == "math"


def test_every_template_is_a_model_that_can_be_read(servo):
    templates = servo.call("GET", "/api/templates")[1]["templates"]
    assert len(templates) >= 5
    for one in templates:
        model = di.EquationModel.from_definition({"kind": "equations", **one["model"]})
        assert set(model.parameters) == set(one["parameters"])


def test_a_fit_of_the_page_is_the_fit_of_the_command_line_bit_for_bit(servo, tmp_path, capsys):
    ended = servo.job("fit")
    assert ended["state"] == "done"
    folder = servo.folder / "results" / "servo-fit-001"
    assert run("fit", servo.folder / "servo.toml", "--out", tmp_path / "cli") == 0
    ours, theirs = (json.loads((one / "estimate.json").read_text()) for one in (folder, tmp_path / "cli"))
    for one in (ours, theirs):
        del one["counts"]["compiled kernels"]  # of the first to run, where the cache is still empty
    for key in ("values", "cost", "uncertainty", "statistics", "counts", "verdict", "notes"):
        assert ours[key] == theirs[key], key
    assert (folder / "problem_as_given.toml").read_bytes() == (servo.folder / "servo.toml").read_bytes()
    assert (folder / "trajectories.csv").read_bytes() == (tmp_path / "cli" / "trajectories.csv").read_bytes()
    assert {path.name for path in folder.iterdir()} == {path.name for path in (tmp_path / "cli").iterdir()}
    assert di.load(folder).values == ours["values"]
    state = servo.state()
    assert [(one["label"], one["grade"], one["fresh"]) for one in state["results"]] == [("fit 1", "A", True)]
    details = ended["answer"]["details"]
    assert [row["name"] for row in details["rows"]][:4] == ["M", "Fv", "Fc", "offset"]
    assert details["validations"][0]["record"] == "sines"
    assert details["residuals"][0]["inputs"]["u"]["band"] > 0
    assert servo.call("POST", "/api/result", {"result": "servo-fit-001"})[1]["details"]["values"] == details["values"]
    edited = servo.edit({"path": ["parameters", "M", "start"], "value": 51})
    assert not edited["results"][0]["fresh"]
    back = servo.edit({"path": ["parameters", "M", "start"], "value": 50}, {"path": ["design", "signal"], "value": "multisine"})
    assert back["results"][0]["fresh"]  # a plan of the next experiment is no other question
    assert "servo-fit-002" in edited["commands"]["shell"]


def test_check_profile_validation_and_plan_are_those_of_the_commands(servo):
    assert servo.job("check")["answer"]["check"]["ok"]
    servo.job("fit")
    profile = servo.job("profile", result="servo-fit-001", names=["Fc"])["answer"]["profile"]
    low, high = profile["curves"]["Fc"]["low"], profile["curves"]["Fc"]["high"]
    assert low < 20 < high
    validated = servo.job("validate", result="servo-fit-001")["answer"]["details"]["validations"]
    assert [one["record"] for one in validated] == ["sines"]
    table = {"signal": {"kind": "piecewise_constant", "pieces": 3}, "constraints": ["abs(u) <= 1"], "duration": 1.0,
             "sample_time": 0.05, "starts": 1}
    servo.edit({"path": ["design"], "value": table})
    plan = servo.job("design", result="servo-fit-001")["answer"]["plan"]
    assert all(row["after"] < row["before"] for row in plan["rows"])
    assert all(one["holds"] for one in plan["limits"])
    assert (servo.folder / "next_input.csv").read_text().startswith('"time","u"')


def test_a_stop_keeps_the_best_point_in_an_ordinary_folder(servo):
    servo.edit({"path": ["method"], "value": ENDLESS})
    status, begun = servo.call("POST", "/api/jobs", {"kind": "fit"})
    assert status == 200
    assert servo.call("POST", "/api/jobs", {"kind": "check"})[0] == 409
    own = begun["job"]["id"]
    servo.heard(lambda event: event.get("job") == own and event.get("says", {}).get("event") == "iteration")
    assert servo.call("POST", "/api/stop", {})[0] == 200
    ended = servo.ended(begun["job"]["id"])
    assert ended["state"] == "stopped", ended["answer"]
    saved = di.load(servo.folder / "results" / begun["job"]["result"])
    assert saved.counts["interrupted"]
    assert servo.state()["job"] is None


def test_a_job_whose_process_is_killed_says_so_and_the_next_one_runs(servo):
    servo.edit({"path": ["method"], "value": ENDLESS})
    _, begun = servo.call("POST", "/api/jobs", {"kind": "fit"})
    servo.heard(lambda event: event["event"] == "progress" and event["job"] == begun["job"]["id"])
    assert servo.call("POST", "/api/stop", {"hard": True})[0] == 200
    ended = servo.ended(begun["job"]["id"])
    assert ended["state"] == "failed"
    assert "start the job again" in ended["answer"]["faults"][0]
    servo.edit({"path": ["method"], "value": {"kind": "multiple_shooting"}})
    assert servo.job("check")["state"] == "done"


def test_a_killed_live_worker_is_replaced_and_the_curve_comes_again(servo):
    view = {"record": 0, "width": 100, "values": {"M": 80}}
    _, before = servo.columns("/api/simulate", view)
    os.kill(servo.server.session.live.process.pid, signal.SIGKILL)
    servo.server.session.live.process.wait()
    _, after = servo.columns("/api/simulate", view)
    assert np.array_equal(before[1], after[1])


def test_a_curve_that_runs_away_is_said_with_the_reason(servo):
    status, answer = servo.call("POST", "/api/simulate", {"record": 0, "width": 100, "values": {"Fv": -1e7}})
    assert (status, answer["diverged"]) == (422, True)
    assert "finite" in answer["says"]


def test_a_curve_that_takes_too_long_ends_its_process_not_the_page(servo, monkeypatch):
    view = {"record": 0, "width": 100, "values": {}}
    servo.columns("/api/simulate", view)
    monkeypatch.setattr("dynident.workbench.session.LIVE_SECONDS", 0.3)
    os.kill(servo.server.session.live.process.pid, signal.SIGSTOP)  # as one that never comes to an end
    status, answer = servo.call("POST", "/api/simulate", view)
    assert status == 504
    assert "last good curve" in answer["says"]
    monkeypatch.undo()
    assert servo.columns("/api/simulate", view)


@pytest.mark.parametrize("request_", [
    {"record": 9}, {"record": -1}, {"record": "0"}, {"width": 1e3}, {"width": True}, {"from": "a"}, {"to": [1]},
    {"values": {"M": "x"}}, {"values": {"M": True}}, {"values": [1]}, {"values": None}], ids=str)
def test_requests_that_make_no_sense_are_refused_in_a_sentence(servo, request_):
    status, answer = servo.call("POST", "/api/simulate", {"record": 0, "width": 100, "values": {}} | request_)
    assert status == 422
    assert answer["says"]


def test_a_record_becomes_a_problem_with_guessed_roles(servo):
    rows = [f"{k};{k % 3},5;{k / 10:.1f}\n".replace(".", ",") for k in range(30)]
    (servo.folder / "rig.csv").write_text("t [ms];u [V];angle [rad]\n" + "".join(rows))
    status, state = servo.call("POST", "/api/open", {"file": "rig.csv"})
    assert status == 200
    assert (state["file"], state["on_disk"], state["dirty"]) == ("rig.toml", False, True)
    assert state["description"]["content"]["experiment"] == [{"file": "rig.csv", "time": "t", "inputs": {"u": "u"},
                                                             "outputs": {"angle": "angle"}}]
    record = state["description"]["records"][0]
    assert (record["readable"], record["samples"], record["to"]) == (True, 30, pytest.approx(0.029))
    assert not (servo.folder / "rig.toml").exists()
    preview = servo.call("POST", "/api/preview", {"file": "rig.csv"})[1]
    assert [(c["name"], c["unit"], c["role"]) for c in preview["columns"]] == [
        ("t", "ms", "time"), ("u", "V", "input"), ("angle", "rad", "output")]
    assert len(preview["rows"]) == 20


FLEET = """\
# one axis, many days
[model]
states = { x = "-k*x" }
[record]
time = "t"
outputs = ["x"]
[fleet]
records = "days/{time}.csv"
[parameters]
k = { start = 1 }  # 1/s
"""


def test_one_record_of_a_fleet_opens_as_a_problem(servo):
    (servo.folder / "days").mkdir(exist_ok=True)
    (servo.folder / "days" / "1.csv").write_text("t,x\n0,1.0\n1,0.61\n2,0.37\n3,0.22\n")
    (servo.folder / "fleet.toml").write_text(FLEET)
    status, answer = servo.call("POST", "/api/open", {"file": "fleet.toml"})
    assert status == 422
    assert "--record FILE" in answer["says"]
    servo.server.session.open_file("fleet.toml", "days/1.csv")
    state = servo.state()
    assert (state["file"], state["description"]["faults"]) == ("fleet-1.toml", [])
    assert [r["samples"] for r in state["description"]["records"]] == [4]
    assert state["text"].startswith("# one axis, many days\n")
    assert "k = { start = 1 }  # 1/s" in state["text"]
    for record in ("../days/1.csv", "nowhere.csv"):
        with pytest.raises(Refused):
            servo.server.session.open_file("fleet.toml", record)


def test_a_hostile_column_name_is_a_name(servo):
    header = '"t","' + HOSTILE.replace('"', '""') + '"\n'
    (servo.folder / "hostile.csv").write_text(header + "".join(f"{k},{k}\n" for k in range(5)))
    state = servo.call("POST", "/api/open", {"file": "hostile.csv"})[1]
    (table,) = state["description"]["content"]["experiment"]
    assert list(table["outputs"].values()) == [HOSTILE]
    assert all(name.replace("_", "").isalnum() for name in table["outputs"])
    _, content, headers = servo.send("GET", "/api/state")
    assert headers["Content-Type"] == "application/json"
    assert HOSTILE in json.loads(content)["text"].replace('\\"', '"')


def test_windows_of_a_record_are_fitted_and_validated_apart(servo):
    state = servo.edit({"path": ["experiment", 0, "window"], "value": [0.0, 6.0]},
                       {"path": ["validation", 0, "window"], "value": [6.0, 10.0]})
    fitted, judged = state["description"]["records"]
    assert (fitted["to"], judged["from"]) == (6.0, 6.0)
    whole, (t, *_) = servo.columns("/api/record", {"record": 0, "width": 4000, "whole": True})
    assert (t[-1], whole["samples"]) == (10.0, 2001)
    state = servo.edit({"path": ["experiment", 0, "window"], "value": [5.0, 1.0]})
    assert "no sample lies between 5 and 1" in state["description"]["faults"][0]


def test_python_models_need_the_command_line_and_no_page_can_allow_them(servo):
    (servo.folder / "evil.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').write_text('')\n")
    state = servo.call("POST", "/api/text", {"revision": servo.state()["revision"], "text": 'model = { python = "evil.py:m" }\n'
                       '[[experiment]]\nfile = "slide.csv"\ntime = "t"\noutputs = ["q"]\n'})[1]
    assert "--allow-code" in state["description"]["faults"][0]
    assert state["code"] is None
    assert servo.call("POST", "/api/consent", {"sha256": "0" * 64})[0] == 409
    assert servo.job("check")["state"] == "failed"
    assert not (servo.folder / "ran").exists()


def test_an_fmu_runs_after_a_consent_to_its_very_content(servo):
    fmu = servo.folder / "plant.fmu"
    fmu.write_bytes(b"not really an archive")
    state = servo.call("POST", "/api/text", {"revision": servo.state()["revision"], "text": 'model = { fmu = "plant.fmu" }\n'
                       '[[experiment]]\nfile = "slide.csv"\ntime = "t"\noutputs = ["q"]\n'})[1]
    assert (state["code"]["file"], state["code"]["bytes"]) == ("plant.fmu", 21)
    assert "native code" in state["description"]["faults"][0]
    assert servo.call("POST", "/api/consent", {"sha256": "0" * 64})[0] == 409
    state = servo.call("POST", "/api/consent", {"sha256": state["code"]["sha256"]})[1]
    assert state["code"] is None
    assert "native code" not in state["description"]["faults"][0]  # it was opened now, and found to be no FMU
    fmu.write_bytes(b"another one")
    assert servo.state()["code"]["sha256"] != ""


def test_a_real_fmu_follows_the_sliders_after_the_consent(servo):
    if compiler() is None:
        pytest.skip("there is no C compiler to make an FMU with")
    pytest.importorskip("fmpy")
    lag = di.EquationModel(states={"x": "(gain*u - x)/tau"}, inputs=["u"], outputs={"y": "x"}, name="lag")
    export_fmu(lag, servo.folder / "lag.fmu", {"gain": 2.0, "tau": 0.5, "x(0)": 0.0})
    (servo.folder / "lag.csv").write_text("t,u,y\n" + "".join(f"{k / 10},1,{k / 30}\n" for k in range(30)))
    text = ('model = { fmu = "lag.fmu" }\n[parameters]\ngain = { start = 2.0 }\ntau = { start = 0.5, lower = 0.01 }\n'
            '[[experiment]]\nfile = "lag.csv"\ntime = "t"\ninputs = ["u"]\noutputs = ["y"]\n')
    state = servo.call("POST", "/api/text", {"revision": servo.state()["revision"], "text": text})[1]
    state = servo.call("POST", "/api/consent", {"sha256": state["code"]["sha256"]})[1]
    assert state["description"]["faults"] == []
    for gain in (2.0, 3.0):
        _, (t, y, *_) = servo.columns("/api/simulate", {"record": 0, "width": 100, "values": {"gain": gain}})
        assert y == pytest.approx(gain * (1 - np.exp(-t / 0.5)), abs=1e-3)


def test_a_consent_to_an_fmu_allows_no_other_code(servo):
    """A result in the folder may bring code along that nobody was asked about."""
    if compiler() is None:
        pytest.skip("there is no C compiler to make an FMU with")
    pytest.importorskip("fmpy")
    lag = di.EquationModel(states={"x": "(gain*u - x)/tau"}, inputs=["u"], outputs={"y": "x"}, name="lag")
    export_fmu(lag, servo.folder / "lag.fmu", {"gain": 2.0, "tau": 0.4, "x(0)": 0.0})  # no FMU of the test before
    t = np.arange(30) / 10
    y = 2 * (1 - np.exp(-t / 0.4)) + 0.01 * np.sin(99 * t)
    record = di.Experiment(t, {"u": np.ones(30)}, {"y": y}, {"y": di.Gaussian(0.01)})
    (servo.folder / "lag.csv").write_text("t,u,y\n" + "".join(f"{k / 10},1,{k / 30}\n" for k in range(30)))
    problem = di.Problem(di.FmuModel(servo.folder / "lag.fmu"), [record], [di.Parameter("gain", start=1.5)])
    saved = di.identify(problem, progress=False).save(servo.folder / "results" / "servo-fit-001")
    (saved / "problem_as_given.toml").write_text("")
    text = ('model = { fmu = "lag.fmu" }\n[parameters]\ngain = { start = 2.0 }\n'
            '[[experiment]]\nfile = "lag.csv"\ntime = "t"\ninputs = ["u"]\noutputs = ["y"]\n')
    state = servo.call("POST", "/api/text", {"revision": servo.state()["revision"], "text": text})[1]
    servo.call("POST", "/api/consent", {"sha256": state["code"]["sha256"]})
    assert servo.call("POST", "/api/result", {"result": "servo-fit-001"})[0] == 200  # the same FMU, wherever it lies
    evil = servo.folder / "results" / "servo-fit-001" / "evil.py"
    evil.write_text("import pathlib\npathlib.Path(__file__).with_name('ran').write_text('')\n")
    asked = (saved / "problem.toml").read_text()
    (saved / "problem.toml").write_text('model = { python = "evil.py:m" }\n' + asked[asked.index("[[experiment"):])
    for job in ("profile", "validate", "design"):
        assert servo.job(job, result="servo-fit-001")["state"] == "failed"
    assert not evil.with_name("ran").exists()


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", '{"verdict": "A", "counts": 3, "values": [1], "cost": {}}', "NaN"])
def test_a_result_of_any_content_is_listed_or_not_and_stops_no_page(servo, content):
    folder = servo.folder / "results" / "servo-fit-001"
    folder.mkdir(parents=True)
    (folder / "problem_as_given.toml").write_text("")
    (folder / "estimate.json").write_text(content)
    listed = servo.state()["results"]
    assert all(one["values"] == {} and one["grade"] == "" and one["cost"] is None for one in listed)


def test_files_that_are_listed_are_those_that_have_a_reader():
    assert set(RECORDS) == set(READERS)


def test_other_files_than_text_have_a_preview(servo):
    np.savez(servo.folder / "rig.npz", t=np.arange(5.0), u=np.ones(5), y=np.zeros(5))
    preview = servo.call("POST", "/api/preview", {"file": "rig.npz"})[1]
    assert [(c["name"], c["role"]) for c in preview["columns"]] == [("t", "time"), ("u", "input"), ("y", "output")]
    assert preview["rows"][4] == ["4.0", "1.0", "0.0"]
    state = servo.call("POST", "/api/open", {"file": "rig.npz"})[1]
    assert state["description"]["records"][0]["samples"] == 5


def test_a_problem_of_petab_becomes_one_of_ours_in_a_new_folder(servo):
    pytest.importorskip("yaml")
    shutil.copytree(BOEHM, servo.folder / "boehm")
    (servo.folder / "other.yaml").write_text("nothing: of ours\n")
    name = "boehm/Boehm_JProteomeRes2014.yaml"
    files = servo.call("GET", "/api/files")[1]["files"]
    assert name in files and "other.yaml" not in files
    for times in ("", "-2"):
        state = servo.call("POST", "/api/open", {"file": name})[1]
        assert (state["file"], state["description"]["faults"], state["dirty"]) == ("Boehm_JProteomeRes2014.toml", [], False)
        written = servo.folder / "boehm" / f"Boehm_JProteomeRes2014-dynident{times}" / "Boehm_JProteomeRes2014.toml"
        assert di.read_problem(written).problem.names == di.read_petab(servo.folder / name).names
    _, (_, simulated, *_) = servo.columns("/api/simulate", {"record": 0, "width": 100, "values": {}})
    assert np.isfinite(simulated).all()


def test_a_robot_is_opened_and_its_joints_follow_the_sliders(servo):
    (servo.folder / "arm.urdf").write_text(di.library.two_link_urdf())
    (servo.folder / "arm.csv").write_text("t,tau1,tau2,q1,q2\n" + "".join(f"{k / 100},1,0,0,{k / 1000}\n" for k in range(20)))
    (servo.folder / "arm.toml").write_text(
        '[model]\nrobot = { urdf = "arm.urdf", friction = ["viscous"] }\n[parameters]\nFv_1 = { start = 2.0 }\n'
        '[[experiment]]\nfile = "arm.csv"\ntime = "t"\ninputs = ["tau1", "tau2"]\noutputs = ["q1", "q2"]\n')
    state = servo.call("POST", "/api/open", {"file": "arm.toml"})[1]
    assert state["description"]["faults"] == [] and state["description"]["model"] == "RobotModel"
    view = {"record": 0, "width": 100}
    name = state["description"]["quantities"][0]["name"]
    first, second = (servo.columns("/api/simulate", {**view, "values": {name: value}})[1][1] for value in (1.0, 2.0))
    assert np.isfinite(first).all() and not np.array_equal(first, second)


def test_runs_in_one_file_are_records_of_one_table(servo):
    (servo.folder / "runs.csv").write_text("run,t,y\n" + "".join(f"{run},{k},{k + run}\n" for run in (1, 2) for k in range(4)))
    text = ('model = { states = { x = "a" }, outputs = { y = "x" } }\nparameters = { a = { start = 1 } }\n'
            '[[experiment]]\nfile = "runs.csv"\ntime = "t"\noutputs = ["y"]\nsplit = "run"\n')
    state = servo.call("POST", "/api/text", {"revision": servo.state()["revision"], "text": text})[1]
    assert [(r["kind"], r["place"], r["samples"]) for r in state["description"]["records"]] == [("experiment", 0, 4)] * 2
    _, (_, simulated, _) = servo.columns("/api/simulate", {"record": 1, "width": 100, "values": {"a": 1.0}})
    assert np.diff(simulated) == pytest.approx([1, 1, 1])


def test_methods_of_the_page_are_those_of_the_registry():
    assert set(routes.METHODS) == set(METHODS)


def test_the_same_in_python_runs_and_gives_the_same(servo, monkeypatch, capsys):
    monkeypatch.chdir(servo.folder)
    found = servo.state()["commands"]
    names: dict = {}
    exec(found["python"], names)
    assert names["estimate"].verdict.grade == "A"
    assert (servo.folder / "results" / "servo-fit-001" / "estimate.json").is_file()


def test_a_million_samples_are_thinned_in_the_worker(servo):
    t = np.arange(1_000_000) * 1e-3
    np.savetxt(servo.folder / "long.csv", np.column_stack([t, np.sin(t)]), delimiter=",", header="t,y", comments="", fmt="%.6g")
    servo.call("POST", "/api/open", {"file": "long.csv"})
    head, (_, y) = servo.columns("/api/record", {"record": 0, "width": 1000})
    assert (head["rows"], head["samples"]) == (2000, 1_000_000)
    assert (y.min(), y.max()) == (-1.0, 1.0)
    began = time.perf_counter()
    head, _ = servo.columns("/api/record", {"record": 0, "width": 1000, "from": 500.0, "to": 500.5})
    assert head["rows"] < 600
    assert time.perf_counter() - began < 30  # read once, and kept
