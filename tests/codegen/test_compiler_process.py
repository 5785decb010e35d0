"""Is a compiler that hangs ended with all that it started, and named?"""

from __future__ import annotations

import logging
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

import dynident as di
from dynident._util.operating_system import session_cpu_seconds
from dynident.codegen import compiler, compiler_process
from dynident.codegen.compiler_process import run_compiler

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not say who uses CPU time")


def script(folder: Path, text: str) -> str:
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@needs_proc
def test_one_that_uses_no_cpu_time_is_ended_with_its_children(tmp_path):
    cc = script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    run = run_compiler([cc], "a model", limit=60, idle=1)
    assert time.monotonic() - began < 20
    assert "hung" in run.failure and cc in run.failure
    child = int((tmp_path / "child").read_text())
    time.sleep(0.1)
    assert not alive(child)


def test_one_that_takes_too_long_is_ended_and_announced(tmp_path, caplog):
    cc = script(tmp_path, "while :; do :; done")
    with caplog.at_level(logging.WARNING, "dynident"):
        run = run_compiler([cc], "a model (12 lines of C)", limit=1.5, long=0.5)
    assert "more than 2 s" in run.failure
    assert any("Still compiling a model (12 lines of C)" in record.getMessage() for record in caplog.records)


def test_what_it_says_is_the_failure_and_a_full_folder_is_called_that(tmp_path):
    assert run_compiler([script(tmp_path, "echo 'kernel.c:1: no such thing' >&2; exit 1")], "a model", 10).failure == (
        "kernel.c:1: no such thing")
    full = run_compiler([script(tmp_path, "echo 'fatal error: cc.s: No space left on device' >&2; exit 1")], "a model", 10)
    assert "is full" in full.failure
    assert run_compiler([str(tmp_path / "none")], "a model", 10).failure.endswith("No such file or directory")
    assert run_compiler([script(tmp_path, "exit 0")], "a model", 10).failure == ""


@needs_proc
def test_cpu_time_of_a_session_is_counted():
    before = session_cpu_seconds(os.getsid(0))
    assert before is not None and before >= 0


@needs_proc
def test_a_fit_goes_on_interpreted_where_the_compiler_hangs(tmp_path, monkeypatch, caplog):
    cc = script(tmp_path, "sleep 60")
    monkeypatch.setattr(compiler_process, "IDLE", 0.5)
    monkeypatch.setattr(run_compiler, "__defaults__", (0.5, 10.0))
    monkeypatch.setenv("DYNIDENT_CC", cc)
    monkeypatch.setenv("DYNIDENT_CACHE", str(tmp_path / "cache"))
    compiler._compiler_for.cache_clear()
    compiler._installed.cache_clear()
    model = di.EquationModel(states={"x": "-k_of_a_compiler_that_hangs*x"})
    t = np.linspace(0, 1, 11)
    run = di.Experiment(t, outputs={"x": np.exp(-2 * t)}, initial={"x": 1.0})
    with caplog.at_level(logging.WARNING, "dynident"):
        found = di.identify(di.Problem(model, [run], [di.Parameter(model.parameters[0], start=1.5)]), di.single_shooting())
    compiler._compiler_for.cache_clear()
    compiler._installed.cache_clear()
    assert found.values[model.parameters[0]] == pytest.approx(2, rel=1e-4)
    assert any("hung" in record.getMessage() for record in caplog.records)
