"""The live view: samples from a file or a pipe, malformed lines survived, state kept and resumed; C from the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynident as di
from dynident.io.readers.columns import ReadRequest
from dynident.io.readers.stream import Lines

PROBLEM = """
[model]
states = { q = "v", v = "F - k*q - d*v" }
outputs = { position = "q" }
inputs = ["F"]

[[experiment]]
file = "run.csv"
time = "t"
inputs = { F = "force" }
outputs.position = { column = "pos", gaussian = 0.02 }

[parameters]
k = { start = 6.0, lower = 0 }
d = { start = 0.8 }

[initial_states]
q = { start = 1.0 }
v = { start = 0.0 }

[method]
kind = "kalman"
integrator = "heun"
process_noise = { v = 0.01 }
"""


@pytest.fixture
def folder(tmp_path):
    model = di.EquationModel(states={"q": "v", "v": "F - k*q - d*v"}, outputs={"position": "q"}, inputs=["F"])
    t = np.arange(400) * 0.02
    force = np.sign(np.sin(3 * t))
    run = di.simulate(model, {"k": 4.0, "d": 0.4, "q(0)": 1.0, "v(0)": 0.0}, di.Experiment(t, {"F": force}))
    y = run.outputs["position"] + 0.02 * np.random.default_rng(1).standard_normal(t.size)
    rows = ["t,force,pos", *(f"{a:.6f},{b:g},{c:.8f}" for a, b, c in zip(t, force, y, strict=True))]
    (tmp_path / "run.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


def dynident(folder, *words, **options):
    source = str(Path(di.__file__).parents[1])  # the package under test, from whatever folder
    return subprocess.run([sys.executable, "-m", "dynident", *words], cwd=folder, capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": source}, **options)


def wanted(inputs=None, outputs=None, **units):
    """Columns of a stream, and the units in which the problem works."""
    return ReadRequest("t", inputs or {}, outputs or {}, "zero", {}, None, None, units, None, None)


def test_malformed_lines_are_said_skipped_and_counted():
    said = []
    lines = Lines(wanted({"F": "force"}, {"position": "pos"}), said.append)
    text = ["t;force;pos\n", "0;1;2\n", "junk\n", "0.1;x;2\n", "0.2;1;\n", "0.15;1;2\n", "0.3;nan;2\n", "0.4;1;inf\n",
            "\n", "0.5;1;3\n"]
    samples = list(lines.samples(text))
    assert [s.time for s in samples] == [0, 0.2, 0.5] and np.isnan(samples[1].outputs["position"])
    assert lines.skipped == 5 == len(said)
    assert "line 4: 'x' in column 'force' is not a number" in said[1]
    with pytest.raises(di.ProblemError, match="no column 'pos'"):
        list(Lines(wanted(outputs={"position": "pos"}), said.append).samples(["t,poss\n"]))


def test_units_in_the_header_of_a_stream_are_converted_to_those_of_the_problem():
    request = wanted({"F": "force"}, {"position": "pos"}, time="s", F="N", position="m")
    header, row = "t [ms];force [kN];pos [mm]\n", "4031;0,002;1,5\n"  # commas are decimal where they end no field
    (sample,) = Lines(request, print).samples([header, row])
    assert (sample.time, sample.inputs, sample.outputs) == (4.031, {"F": 2.0}, {"position": 0.0015})
    (plain,) = Lines(request, print).samples(["t;force;pos\n", "4;2;1\n"])
    assert (plain.time, plain.inputs["F"], plain.outputs["position"]) == (4.0, 2.0, 1.0)
    with pytest.raises(di.ProblemError, match="is in rad, but m is asked for"):
        list(Lines(request, print).samples(["t;force;pos [rad]\n"]))


@pytest.mark.parametrize("change", [None, ('inputs = ["F"]', 'inputs = ["F"]\nunits = { position = "m" }')],
                         ids=["unit of the record", "unit of the model"])
def test_watch_converts_as_the_records_of_the_problem_file_are(folder, change):
    rows = (folder / "run.csv").read_text().splitlines()
    both = "file = \"run.csv\"\ntime = \"t\"\nunits = { position = \"m\" }"
    (folder / "problem.toml").write_text(PROBLEM.replace(*change) if change else PROBLEM.replace(
        "file = \"run.csv\"\ntime = \"t\"", both))
    scaled = ["t [ms],force,pos [mm]"]
    for t, force, position in (row.split(",") for row in rows[1:]):
        scaled.append(f"{1e3 * float(t):.3f},{force},{1e3 * float(position):.5f}")
    (folder / "scaled.csv").write_text("\n".join(scaled) + "\n")
    plain, other = (dynident(folder, "watch", "problem.toml", "--fresh", "--from", name).stdout
                    for name in ("run.csv", "scaled.csv"))
    assert "t = 7.98: q = " in plain and other == plain


def test_watch_reads_a_pipe_survives_a_bad_line_and_resumes(folder):
    rows = (folder / "run.csv").read_text().splitlines(keepends=True)
    first = "".join([*rows[:200], "0.1,broken\n"])
    run = dynident(folder, "watch", "problem.toml", input=first)
    assert run.returncode == 0, run.stderr
    assert "199 samples, 1 line skipped" in run.stdout and "skipped" in run.stderr
    again = dynident(folder, "watch", "problem.toml", "--from", "run.csv")
    assert "Resumed" in again.stderr and "201 samples, 0 lines skipped" in again.stdout
    assert "199 samples were passed over, up to t = 3.96" in again.stderr and "--fresh" in again.stderr
    whole = dynident(folder, "watch", "problem.toml", "--from", "run.csv", "--fresh")
    assert [line for line in again.stdout.splitlines() if line.startswith("t = 7.98")] == [
        line for line in whole.stdout.splitlines() if line.startswith("t = 7.98")] != []


def test_watch_keeps_up_with_a_file_that_grows_and_keeps_its_state_when_it_is_ended(folder):
    rows = (folder / "run.csv").read_text().splitlines(keepends=True)
    grows, source = folder / "grows.csv", str(Path(di.__file__).parents[1])
    grows.write_text("".join(rows[:200]))
    words = [sys.executable, "-m", "dynident", "watch", "problem.toml", "--from", "grows.csv", "--follow"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": source}) as run:
        assert any(line.startswith("t = 3.96: ") for line in run.stdout)  # shown though nothing follows yet
        with grows.open("a") as file:
            file.write("".join(rows[200:]))
        assert any(line.startswith("t = 7.98: ") for line in run.stdout)
        run.terminate()
        rest = run.stdout.read()
    assert "400 samples, 0 lines skipped; the filter's state is in problem.watch.npz" in rest


def test_watch_makes_the_folder_of_its_state_and_refuses_one_in_its_place(folder):
    run = dynident(folder, "watch", "problem.toml", "--from", "run.csv", "--state", "new/kept")
    assert run.returncode == 0 and (folder / "new" / "kept").is_file()
    run = dynident(folder, "watch", "problem.toml", "--from", "run.csv", "--state", "new")
    assert run.returncode == 2 and "--state new is a folder; name a file in it." in run.stderr and not run.stdout


def test_watch_needs_a_filter(folder):
    (folder / "problem.toml").write_text(PROBLEM.split("[method]")[0] + '[method]\nkind = "single_shooting"\n')
    run = dynident(folder, "watch", "problem.toml", "--from", "run.csv")
    assert run.returncode == 2 and "watch needs a filter" in run.stderr


def test_filter_of_a_result_is_written_as_c(folder):
    assert dynident(folder, "fit", "problem.toml", "--out", "results").returncode == 0
    run = dynident(folder, "export", "c", "results", "--target", "filter", "--name", "axis")
    assert run.returncode == 0, run.stderr
    assert "axis_update" in (folder / "results" / "axis.h").read_text()
