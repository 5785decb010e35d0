"""Does Ctrl-C end a command with one line, at whatever moment it comes, the loading of dynident itself included?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dynident
from dynident.codegen.compiler import compiler
from dynident.demo import copy_to

BEGIN = """
import sys
from dynident.__main__ import main
print("loaded", flush=True)
sys.argv = ["dynident", *sys.argv[1:]]
main()
"""
COMMANDS = {"check": ["check", "servo.toml"], "fit": ["fit", "servo.toml", "--out", "results"],
            "compare": ["compare", "servo.toml", "--methods", "single_shooting,multiple_shooting"],
            "simulate": ["simulate", "servo.toml", "--out", "simulated.csv"],
            "design": ["design", "design.toml", "--at-start", "--out", "plan"],
            "fleet": ["fleet", "fleet.toml", "--out", "fleet"],
            "fmu": ["fit", "fmu.toml", "--allow-code", "--out", "fmu"]}
DESIGN = '\n[design]\nsignal = "piecewise_linear"\nconstraints = ["abs(u) <= 1"]\n'
FLEET = """[fleet]
records = "record_*.csv"
[model]
states = { x = "-k*x" }
[record]
time = "t"
outputs.x = { column = "x", gaussian = 0.01 }
[parameters]
k = { start = 3.0 }
[initial_states]
x = { start = 1 }
"""
FMU = """[model]
fmu = "lag.fmu"
[[experiment]]
file = "lag.csv"
time = "t"
inputs = ["u"]
outputs.y = { column = "y", gaussian = 0.01 }
[parameters]
gain = { start = 1.0 }
tau = { start = 2.0 }
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent in another way there")


def prepare(folder: Path, command: str) -> None:
    """The files that a command is given."""
    copy_to(folder)
    t, draw = np.linspace(0, 5, 201), np.random.default_rng(1)
    if command == "design":
        (folder / "design.toml").write_text((folder / "servo.toml").read_text() + DESIGN)
    if command == "fleet":
        (folder / "fleet.toml").write_text(FLEET)
        for k in range(60):
            x = np.exp(-(0.8 + 0.01 * k) * t) + 0.01 * draw.normal(size=t.size)
            np.savetxt(folder / f"record_{k:02d}.csv", np.column_stack([t, x]), delimiter=",", header="t,x", comments="")
    if command == "fmu":
        from dynident.fmu.export import export_fmu

        lag = dynident.EquationModel(states={"x": "(gain*u - x)/tau"}, outputs={"y": "x"}, inputs=["u"], name="lag")
        export_fmu(lag, folder / "lag.fmu", {"gain": 2.0, "tau": 0.5, "x(0)": 0.0})
        u = np.sign(np.sin(2 * t))
        y = dynident.simulate(lag, {"gain": 2.0, "tau": 0.5, "x(0)": 0}, dynident.Experiment(t, {"u": u})).outputs["y"]
        np.savetxt(folder / "lag.csv", np.column_stack([t, u, y + 0.01 * draw.normal(size=t.size)]), delimiter=",",
                   header="t,u,y", comments="")
        (folder / "fmu.toml").write_text(FMU)


def interrupted(folder: Path, words: list[str], wait: float) -> tuple[int, str]:
    """Exit code and complaints of a command that is interrupted so many seconds after it began to load."""
    own = folder / "temporary"
    own.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1]), "TMPDIR": str(own)}
    run = subprocess.Popen([sys.executable, "-c", BEGIN, *words], cwd=folder, env=environment, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "loaded\n"
    time.sleep(wait)
    run.send_signal(signal.SIGINT)
    _, complaints = run.communicate(timeout=60)
    until = time.monotonic() + 10  # processes that leave with their parent need a moment on a busy machine
    while (left := processes_with(f"TMPDIR={own}")) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left, f"left behind: {left}"
    assert [path.name for path in own.iterdir()] == [], "folders left behind"
    return run.returncode, complaints


def processes_with(word: str) -> list[str]:
    """Commands of the processes that have this in their environment; none where the system does not tell."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80])
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def ends_in_one_line(folder: Path, words: list[str], wait: float) -> None:
    code, complaints = interrupted(folder, words, wait)
    assert "Traceback" not in complaints and "Exception ignored" not in complaints, complaints
    assert code in (0, 130), complaints  # 0: it had done its work before
    if code == 130:
        assert sum("Stopped" in line or "interrupted" in line.lower() for line in complaints.splitlines()) >= 1, complaints


@pytest.mark.parametrize(("command", "wait"), [("check", 0.0), ("fit", 0.05), ("fit", 0.3), ("compare", 0.7), ("design", 0.9),
                                               ("fleet", 0.8), ("fmu", 0.9)])
def test_ctrl_c_is_one_line_from_the_first_import_on(tmp_path, command, wait):
    if command == "fmu" and compiler() is None:
        pytest.skip("an FMU is made by a compiler")
    prepare(tmp_path, command)
    ends_in_one_line(tmp_path, COMMANDS[command], wait)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_is_one_line_at_any_moment(tmp_path, command):
    rng = np.random.default_rng(len(command))
    prepare(tmp_path, command)
    for wait in rng.uniform(0, 3, 40):
        ends_in_one_line(tmp_path, COMMANDS[command], wait)
