"""Which records a fleet has, and what is said about a fleet file that is wrong."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import fleets
import numpy as np
import pytest

import dynident as di
from dynident.fleet.records import parse_time, records_in_index, records_matching


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("t\n")


def test_pattern_gives_machine_and_time(tmp_path):
    touched(tmp_path, "data/a_1/2026-03-02.csv", "data/a_1/2026-03-01T12:30.csv", "data/b/20260304.csv", "data/b/x.txt")
    found = records_matching("data/{machine}/{time}.csv", tmp_path)
    assert [(r.machine, r.time) for r in found] == [("a_1", datetime(2026, 3, 1, 12, 30)), ("a_1", datetime(2026, 3, 2)),
                                                    ("b", datetime(2026, 3, 4))]
    assert found[0].name == "data/a_1/2026-03-01T12:30.csv"


def test_pattern_may_repeat_a_part_and_hold_stars(tmp_path):
    touched(tmp_path, "deep/er/m1/m1_7.csv", "deep/er/m1/m2_8.csv", "m3/m3_9.csv")
    found = records_matching("**/{machine}/{machine}_{time}.csv", tmp_path)
    assert [(r.machine, r.time) for r in found] == [("m1", 7.0), ("m3", 9.0)]
    assert len(records_matching("*/m?_*.csv", tmp_path)) == 1


def test_records_of_files_are_read_in_the_units_of_the_model(tmp_path):
    columns = fleets.record(0)
    fleets.write(tmp_path / "a.csv", {"t": columns["t"], "u [mV]": 1000 * columns["u"], "y": columns["y"]})
    model = di.EquationModel(states={"x": "(g*u - x)/T"}, outputs={"y": "x"}, inputs=["u"], units={"u": "V"})
    fleet = di.Fleet(model, "*.csv", fleets.PARAMETERS, reading=fleets.READING, folder=tmp_path)
    (run,) = fleet.problem(fleet.records[0]).experiments
    np.testing.assert_allclose(run.inputs["u"], columns["u"], rtol=1e-11)  # the file keeps 12 digits
    assert run.units["u"] == "V" and "'u' was converted from mV to V, the unit of the model." in run.notes


def test_faults_of_a_pattern_are_said(tmp_path):
    touched(tmp_path, "a_soon.csv")
    with pytest.raises(di.ProblemError, match="no file fits"):
        records_matching("b*.csv", tmp_path)
    with pytest.raises(di.ProblemError, match=r"\{plant\}"):
        records_matching("{plant}.csv", tmp_path)
    with pytest.raises(di.ProblemError, match="'soon' is neither a date"):
        records_matching("{machine}_{time}.csv", tmp_path)


def test_moments_are_dates_numbers_or_nothing():
    assert parse_time("2026-03-01T12:00+02:00") == datetime(2026, 3, 1, 10)
    assert parse_time("3.5") == 3.5
    assert parse_time("") is None


def test_index_lists_records_with_its_own_names_of_columns(tmp_path):
    touched(tmp_path, "x/1.csv", "x/2.csv")
    (tmp_path / "index.csv").write_text("path;id;when\nx/2.csv;B;2026-01-02\nx/1.csv;A;2026-01-01\n")
    names = {"file": "path", "machine": "id", "time": "when"}
    found = records_in_index(tmp_path / "index.csv", names, tmp_path)
    assert [(r.name, r.machine) for r in found] == [("x/1.csv", "A"), ("x/2.csv", "B")]
    with pytest.raises(di.ProblemError, match="no column 'machin'"):
        records_in_index(tmp_path / "index.csv", {**names, "machine": "machin"}, tmp_path)


def test_all_faults_of_an_index_are_listed_with_their_lines(tmp_path):
    touched(tmp_path, "1.csv")
    (tmp_path / "index.csv").write_text("file,time\n1.csv,2026-01-01\nnot_there.csv,2026-01-02\n1.csv,yesterday\n")
    with pytest.raises(di.ProblemError) as error:
        records_in_index(tmp_path / "index.csv", {"file": "file", "machine": "machine", "time": "time"}, tmp_path)
    said = str(error.value)
    assert "line 3" in said and "not_there.csv" in said
    assert "line 4: the time 'yesterday'" in said
    assert "lists '1.csv' 2 times" in said


def fleet_text(**changes: str) -> str:
    text = fleets.TOML
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return text


def test_all_faults_of_a_fleet_file_are_said_at_once(tmp_path):
    text = fleet_text(a=('time = "t"', 'tiem = "t"'), b=("start = 1.0, lower = 0.01", "start = 0.0, lower = 0.01"),
                      c=('records = "data/{machine}_{time}.csv"', 'record = "*.csv"\ntimeout = -1\nretries = "no"'))
    (tmp_path / "fleet.toml").write_text(text)
    with pytest.raises(di.ProblemError) as error:
        di.read_fleet(tmp_path / "fleet.toml")
    said = str(error.value)
    assert "record.tiem: this key has no meaning here. Did you mean 'time'?" in said
    assert "fleet.record: this key has no meaning here. Did you mean 'records'?" in said
    assert "parameters.T.start: start = 0 lies outside" in said
    assert "fleet.timeout: is -1, but must be positive" in said
    assert "fleet.retries: must be a whole number" in said
    assert "line 8" in said


def test_records_and_index_exclude_each_other(tmp_path):
    (tmp_path / "fleet.toml").write_text(fleet_text(a=("[fleet]", '[fleet]\nindex = "i.csv"')))
    with pytest.raises(di.ProblemError, match="exactly one of records and index"):
        di.read_fleet(tmp_path / "fleet.toml")


def test_records_outside_of_the_folder_need_a_flag(tmp_path):
    fleets.made(tmp_path / "other", 1, 1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "fleet.toml").write_text(fleet_text(a=("data/{m", "../other/data/{m")))
    with pytest.raises(di.ProblemError, match="--allow-outside"):
        di.read_fleet(tmp_path / "own" / "fleet.toml")
    assert len(di.read_fleet(tmp_path / "own" / "fleet.toml", allow_outside=True).records) == 1
    (tmp_path / "own" / "data").mkdir()
    (tmp_path / "own" / "data" / "m1_2026-01-01.csv").symlink_to(tmp_path / "other" / "data" / "m00_2026-01-01.csv")
    (tmp_path / "own" / "fleet.toml").write_text(fleets.TOML)
    with pytest.raises(di.ProblemError, match="leaves the folder"):
        di.read_fleet(tmp_path / "own" / "fleet.toml")


def test_names_of_experiments_in_memory_must_differ():
    data = fleets.record(0)
    run = di.Experiment(data["t"], {"u": data["u"]}, {"y": data["y"]}, name="a")
    with pytest.raises(di.ProblemError, match="2 records are called 'a'"):
        di.Fleet(fleets.LAG, [run, run], fleets.PARAMETERS)
    with pytest.raises(di.ProblemError, match="needs a name"):
        di.Fleet(fleets.LAG, [run.with_name("")], fleets.PARAMETERS)
    with pytest.raises(di.ProblemError, match="no record"):
        di.Fleet(fleets.LAG, [], fleets.PARAMETERS)


def test_every_key_of_a_fleet_file_is_explained():
    from dynident.io.problem_file.schema import FleetTable, RecordTable

    page = (Path(__file__).parents[2] / "docs" / "reference" / "fleet_file.md").read_text(encoding="utf-8")
    missing = [key for key in {*FleetTable.model_fields, *RecordTable.model_fields} if f"`{key}`" not in page]
    assert not missing
