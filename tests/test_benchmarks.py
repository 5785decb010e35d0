"""Does every benchmark still run, with the smallest size of everything, and fill its table? Nothing is measured here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynident.codegen.compiler import compiler

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py") if re.search(r"^    main\(run\b", path.read_text(), re.MULTILINE))
NEEDS_COMPILER = {"gauss_newton_pass", "emps_fit", "kalman_belt_drive", "fmu_delta_robot", "boundary_value_starts"}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run as module

    return module


def smoke(name: str) -> dict:
    """The table of a benchmark, run in a process of its own as `make bench` does."""
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(BENCHMARKS / f"{name}.py"), "--json"], capture_output=True, text=True,
                          check=False, env={**os.environ, **single, "DYNIDENT_BENCH_SMOKE": "1"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs_and_fills_its_table(name):
    if name in NEEDS_COMPILER and compiler() is None:
        pytest.skip("compares with C")
    if name == "fmu_delta_robot":
        pytest.importorskip("fmpy")
    table = smoke(name)
    assert table["title"] and table["setting"] and table["lines"]
    assert all(line["what"] and line["found"] for line in table["lines"])


def test_make_bench_runs_every_benchmark(run):
    assert sorted(run.BENCHMARKS) == NAMES


def test_a_table_takes_the_place_of_its_older_one(run, tmp_path):
    file = tmp_path / "RESULTS.md"
    run.keep(file, "growth", "## Growth\n\nslow")
    run.keep(file, "start_up", "## Start-up\n\nfine")
    run.keep(file, "growth", "## Growth\n\nquick")
    assert run.kept(file) == {"growth": "## Growth\n\nquick", "start_up": "## Start-up\n\nfine"}
    assert "`fleet`" in file.read_text().split("No results here yet of: ")[1]
