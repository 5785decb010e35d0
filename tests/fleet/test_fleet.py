"""Fleets: the same table whoever fits, nothing done twice, and faults that stay where they are."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import fleets
import numpy as np
import pyarrow.parquet as parquet
import pytest

import dynident as di
from dynident._util.atomic import InUse
from dynident.cli import main
from dynident.errors import DynidentError
from dynident.fleet.fleet import derive_seed
from dynident.fleet.records import FleetRecord
from dynident.fleet.result import TABLE, TABLE_TO_LOOK_AT
from dynident.fleet.store import FILE, FleetStore


@pytest.fixture(scope="module")
def pool():
    with di.process_pool(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def fleet_file(tmp_path_factory):
    """Six machines, four days; one record cannot be read."""
    file = fleets.made(tmp_path_factory.mktemp("fleet"), 6, 4)
    (file.parent / "data" / "m99_2026-01-01.csv").write_text("t,u\n0,1\n1,1\n")
    return file


@pytest.fixture(scope="module")
def alone(fleet_file, tmp_path_factory):
    """The run in this process, to which the others are compared."""
    return di.fleet(fleet_file, tmp_path_factory.mktemp("alone") / "results", progress=False)


def tables(folder: Path) -> tuple[bytes, object]:
    return (folder / TABLE_TO_LOOK_AT).read_bytes(), parquet.read_table(folder / TABLE)


def same_tables(a: Path, b: Path) -> bool:
    (text_a, table_a), (text_b, table_b) = tables(a), tables(b)
    return text_a == text_b and table_a.equals(table_b)


def seconds(folder: Path, number: int = 0) -> dict[str, float]:
    """When-independent proof of who was fitted: the time that each fit took is never the same twice."""
    with sqlite3.connect(folder / FILE) as base:
        return dict(base.execute("SELECT record, json_extract(said, '$.seconds') FROM result WHERE pass = ?", (number,)))


def test_every_record_is_fitted_and_what_failed_is_listed_with_its_reason(alone):
    assert len(alone.records) == 24 and alone.total == 25
    assert np.all(np.abs(alone.values["g"] - 2.0) < 0.2)
    (failure,) = alone.failures
    assert failure.machine == "m99" and "no column 'y'" in failure.reason
    assert not alone.good
    text = (alone.folder / "fleet.csv").read_text()
    assert text.startswith('"record","machine","time","grade","verdict","status","reason","T","T_std","T_low","T_high","g"')
    page = (alone.folder / "fleet.html").read_text(encoding="utf-8")
    assert "no column" in page and alone.verdict_line in page
    assert str(alone).startswith("Verdicts: [A] ") and len(alone.grades) == 24


def test_estimates_are_those_of_single_fits(alone, fleet_file):
    asked = di.read_fleet(fleet_file)
    k = 7
    (record,) = [r for r in asked.records if r.name == alone.records[k]]
    single = di.identify(asked.problem(record), di.single_shooting(), progress=False)
    assert single.values["T"] == alone.values["T"][k]
    assert single.uncertainty.std("T") == alone.std["T"][k]


def test_two_processes_give_the_same_table(alone, fleet_file, pool, tmp_path):
    di.fleet(fleet_file, tmp_path / "results", executor=pool, progress=False)
    assert same_tables(alone.folder, tmp_path / "results")


def test_dask_cluster_with_a_worker_killed_in_mid_run_gives_the_same_table(alone, fleet_file, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask needs distributed: pip install dynident[dask]")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                                  host="127.0.0.1") as cluster, distributed.Client(cluster) as client:
        killed = []

        def watch(progress) -> None:
            if progress.done >= 5 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        di.fleet(fleet_file, tmp_path / "results", executor=client.get_executor(pure=False), progress=watch)
        assert killed
        assert killed[0] not in client.run(os.getpid).values()
        assert same_tables(alone.folder, tmp_path / "results")
        with pytest.raises(SystemExit) as left:
            main(["fleet", str(fleet_file), "--out", str(tmp_path / "again"), "--dask", cluster.scheduler_address])
        assert left.value.code == 1  # for the record that cannot be read
        assert same_tables(alone.folder, tmp_path / "again")
        method = di.multistart(di.single_shooting(), starts=4)
        problem = di.Problem(fleets.LAG, [di.Experiment(**columns(fleets.record(5)))], fleets.PARAMETERS)
        one, many = (di.identify(problem, method, executor=e, progress=False) for e in (None, client.get_executor()))
        assert one.starts == many.starts and one.values == many.values


def columns(record) -> dict:
    return {"time": record["t"], "inputs": {"u": record["u"]}, "outputs": {"y": record["y"]},
            "noise": {"y": di.Gaussian(fleets.STD)}, "initial": {"x": 0.0}}


def test_main_process_killed_leaves_no_orphans_and_the_next_run_goes_on(fleet_file, alone, tmp_path):
    many = tmp_path / "many"
    file = fleets.made(many, 8, 5)
    out = tmp_path / "results"
    mark = f"DYNIDENT_TEST_{os.getpid()}_{time.monotonic_ns()}"
    environment = {**os.environ, mark: "1", "PYTHONPATH": str(Path(di.__file__).parents[1])}
    command = [sys.executable, "-m", "dynident", "fleet", str(file), "--out", str(out), "--workers", "2"]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while _done(out) < 8 and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    run.kill()
    run.wait()
    before = seconds(out)
    assert 8 <= len(before) < 40
    while _processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _processes_with(mark)
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    after = seconds(out)
    assert len(after) == 40
    assert {name: after[name] for name in before} == before
    whole = di.fleet(file, tmp_path / "whole", progress=False)
    assert whole.good and same_tables(whole.folder, out)


def _done(out: Path) -> int:
    try:
        with sqlite3.connect(f"file:{out / FILE}?mode=ro", uri=True) as base:
            return base.execute("SELECT count(*) FROM result").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def _processes_with(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if mark.encode() in environment and state != "Z":
            found.append(process.name)
    return found


def test_ctrl_c_keeps_what_is_done_and_says_so(tmp_path):
    file = fleets.made(tmp_path, 8, 20)
    out = tmp_path / "results"
    command = [sys.executable, "-m", "dynident", "fleet", str(file), "--out", str(out), "--workers", "2"]
    run = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(di.__file__).parents[1])},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's & ignores it
    while _done(out) < 5 and run.poll() is None:
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    said, complaints = run.communicate(timeout=60)
    print(time.monotonic() - began, "s from Ctrl-C to the end")
    assert run.returncode == 130, complaints
    assert "still to do" in said and "Stopped by Ctrl-C" in complaints
    assert "records: " in complaints and " failed  " in complaints  # plain lines, as this is no terminal
    table = parquet.read_table(out / TABLE)
    assert 5 <= table.num_rows < 160
    assert set(table["status"].to_pylist()) == {"converged"}
    assert "Stopped before all records were fitted" in (out / "fleet.html").read_text(encoding="utf-8")


def small(method=None, **fields) -> di.Fleet:
    runs = [di.Experiment(**columns(fleets.record(k)), name=f"run {k}") for k in range(6)]
    return di.Fleet(fleets.LAG, runs, fleets.PARAMETERS, method or di.single_shooting(), **fields)


def test_record_that_kills_its_worker_is_recorded_and_the_rest_goes_on(pool, tmp_path):
    found = di.fleet(small(fleets.Kills("run 3")), tmp_path / "r", executor=pool, progress=False)
    (failure,) = found.failures
    assert failure.record == "run 3" and "killed or crashed (signal 9) in 2 attempts" in failure.reason
    assert len(found.records) == 5


def test_record_that_hangs_is_recorded_and_the_rest_goes_on(pool, tmp_path):
    asked = small(fleets.Hangs("run 3"), timeout=5.0, retries=0)  # room for the others on a busy machine
    found = di.fleet(asked, tmp_path / "r", executor=pool, progress=False)
    (failure,) = found.failures
    assert failure.record == "run 3" and "time limit of 5 s" in failure.reason
    assert len(found.records) == 5


def test_unforeseen_error_is_tried_again_as_often_as_asked(tmp_path):
    found = di.fleet(small(fleets.Raises("run 0"), retries=2), tmp_path / "r", progress=False)
    assert found.failures[0].reason == "ZeroDivisionError: by accident in 3 attempts."


def test_fit_over_its_time_is_ended_where_processes_cannot_be(tmp_path):
    found = di.fleet(small(timeout=1e-9), tmp_path / "r", progress=False)
    assert len(found.failures) == 6
    assert "time limit" in found.failures[0].reason


def test_second_run_repeats_nothing_new_records_are_added_and_changed_ones_fitted_again(tmp_path):
    file = fleets.made(tmp_path, 3, 2)
    out = tmp_path / "results"
    di.fleet(file, out, progress=False)
    before = seconds(out)
    again = di.fleet(file, out, progress=False)
    assert seconds(out) == before and "6 of 6 records were done before" in again.notes[0]
    os.utime(tmp_path / "data" / "m00_2026-01-01.csv")  # touched, but not changed
    fleets.write(tmp_path / "data" / "m01_2026-01-01.csv", fleets.record(77))
    fleets.write(tmp_path / "data" / "m07_2026-01-01.csv", fleets.record(78))
    (tmp_path / "data" / "m02_2026-01-02.csv").unlink()
    last = di.fleet(file, out, progress=False)
    after = seconds(out)
    changed = {name for name in before if name in after and after[name] != before[name]}
    assert changed == {"data/m01_2026-01-01.csv"}
    assert set(after) - set(before) == {"data/m07_2026-01-01.csv"}
    assert len(last.records) == 6
    assert any("1 records of the last run are no longer there" in note for note in last.notes)


def test_failed_records_are_tried_again_on_request_only(tmp_path):
    file = fleets.made(tmp_path, 2, 1)
    bad = tmp_path / "data" / "m09_2026-01-01.csv"
    bad.write_text("nonsense")
    out = tmp_path / "results"
    assert len(di.fleet(file, out, progress=False).failures) == 1
    before = seconds(out)
    assert len(di.fleet(file, out, progress=False).failures) == 1
    assert len(di.fleet(file, out, progress=False, retry_failed=True).failures) == 1
    after = seconds(out)
    assert all(after[name] == before[name] for name in before if "m09" not in name)


def test_folder_of_another_question_is_refused(tmp_path):
    out = tmp_path / "r"
    di.fleet(small(), out, progress=False)
    other = small(di.multiple_shooting(segments=3))
    with pytest.raises(di.ProblemError, match="results of another fleet"):
        di.fleet(other, out, progress=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(di.ProblemError, match="holds other files"):
        di.fleet(small(), tmp_path / "full", progress=False)


def test_second_run_in_the_same_folder_refuses(tmp_path):
    out = tmp_path / "r"
    refused = []

    def watch(progress) -> None:
        if progress.done == 1:
            with pytest.raises(InUse, match="in use"):
                di.fleet(small(), out, progress=False)
            refused.append(True)

    assert di.fleet(small(), out, progress=watch).good
    assert refused


def test_full_disk_is_a_clean_error_and_the_store_stays_intact(tmp_path, monkeypatch):
    out = tmp_path / "r"
    full = FleetStore.__init__

    def small_disk(self, folder, question_hash):
        full(self, folder, question_hash)
        pages = self.base.execute("PRAGMA page_count").fetchone()[0]
        self.base.execute(f"PRAGMA max_page_count={pages + 3}")  # SQLite then meets the same error as on a full disk

    with monkeypatch.context() as limited:
        limited.setattr(FleetStore, "__init__", small_disk)
        with pytest.raises(DynidentError, match="Free some space"):
            di.fleet(small(), out, progress=False)
    kept = seconds(out)
    assert 0 < len(kept) < 6
    with sqlite3.connect(out / FILE) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert di.fleet(small(), out, progress=False).good
    after = seconds(out)
    assert {name: after[name] for name in kept} == kept


def test_seeds_differ_from_record_to_record_and_not_from_run_to_run(tmp_path):
    assert derive_seed(0, "a") == derive_seed(0, "a")
    assert len({derive_seed(0, "a"), derive_seed(0, "b"), derive_seed(1, "a")}) == 3
    spec = small(di.multistart(di.single_shooting(), starts=3)).task_spec
    problem = spec.problem(FleetRecord("run 0", experiment=di.Experiment(**columns(fleets.record(0)), name="run 0")))
    methods = [spec.method_for(problem, name) for name in ("run 0", "run 1", "run 0")]
    assert methods[0].seed != methods[1].seed and methods[0] == methods[2]


def test_results_hold_no_pickle(alone):
    with sqlite3.connect(alone.folder / FILE) as base:
        (arrays,) = base.execute("SELECT arrays FROM result WHERE status = 'converged' LIMIT 1").fetchone()
    import io
    with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
        assert file["covariance"].shape == (2, 2)


def test_result_of_a_newer_format_is_refused(tmp_path):
    out = tmp_path / "r"
    di.fleet(small(), out, progress=False)
    with sqlite3.connect(out / FILE) as base:
        base.execute("UPDATE about SET value = '99' WHERE key = 'format'")
    with pytest.raises(di.NotSupported, match="format 99"):
        di.fleet(small(), out, progress=False)


def test_command_line_writes_and_repeats_nothing(tmp_path, capsys):
    file = fleets.made(tmp_path, 5, 1, odd={3: {"g": 4.0}})
    with pytest.raises(SystemExit) as left:
        main(["fleet", str(file), "--out", str(tmp_path / "r"), "--workers", "1"])
    said = capsys.readouterr()
    assert not left.value.code, said.err
    assert "5 of 5 records of 5 machines fitted." in said.out
    with pytest.raises(SystemExit) as left:
        main(["fleet", str(file), "--out", str(tmp_path / "r"), "--workers", "1", "--dask", "tcp://127.0.0.1:1"])
    assert left.value.code == 2
    shutil.rmtree(tmp_path / "r")
