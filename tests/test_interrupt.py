"""Does Ctrl-C end a command with one line, at whatever moment it comes, the loading of dynident itself included?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dynident
from dynident.codegen.compiler import compiler
from dynident.demo import copy_to

SITE = """
import os
import signal
import sys

mark, package = os.environ.pop("DYNIDENT_TEST_BEGUN", ""), os.path.join("dynident", "__init__.py")
lines = []
if mark:  # and none for what the command starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore Ctrl-C

    def first_lines(frame, event, argument):
        if frame.f_code.co_name != "<module>" or not frame.f_code.co_filename.endswith(package):
            return None
        lines.append(event)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or len(lines) > 12:
            sys.settrace(None)
            open(mark, "w").close()
        return first_lines

    sys.settrace(first_lines)
"""  # says when the package has run its first lines: a dozen without an import that takes time
COMMANDS = {"check": ["check", "servo.toml"], "fit": ["fit", "servo.toml", "--out", "results"],
            "compare": ["compare", "servo.toml", "--methods", "single_shooting,multiple_shooting"],
            "simulate": ["simulate", "servo.toml", "--out", "simulated.csv"],
            "design": ["design", "design.toml", "--at-start", "--out", "plan"],
            "fleet": ["fleet", "fleet.toml", "--out", "fleet"],
            "fmu": ["fit", "fmu.toml", "--allow-code", "--out", "fmu"]}
PROGRESS = re.compile(r"(.*  )?iteration +\d+  cost |start \d+ of \d+  |records: \d+ of \d+ done  ")  # said before the signal
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
        for k in range(30):
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


@dataclass(frozen=True)
class Ending:
    """How a command ended that was interrupted."""

    code: int
    complaints: str
    seconds: float  # from the signal on
    cpu: float  # seconds of the command itself from the signal on, which a busy machine does not make longer
    processes: tuple[str, ...]  # left behind
    folders: tuple[str, ...]  # likewise, where temporary ones go

    @property
    def clean(self) -> bool:
        """Done before the signal came, or one line and 130; nothing left behind."""
        lines = [line for line in self.complaints.splitlines() if line.strip() and not PROGRESS.match(line)]
        said = len(lines) == 1 and ("Stopped" in lines[0] or "interrupted" in lines[0].lower())
        return not (self.processes or self.folders) and ((self.code == 0 and not lines) or (self.code == 130 and said))


def interrupted(folder: Path, words: list[str], wait: float) -> Ending:
    """A command interrupted as by a terminal, itself and all that it started, so long after the package's first lines."""
    own, site, mark = folder / "temporary", folder / "site", folder / "begun"
    own.mkdir(exist_ok=True)
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    mark.unlink(missing_ok=True)
    found = os.pathsep.join([str(site), str(Path(dynident.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": found, "TMPDIR": str(own), "DYNIDENT_TEST_BEGUN": str(mark)}
    with (folder / "said").open("w+b") as said, (folder / "complained").open("w+b") as complained:
        run = subprocess.Popen([sys.executable, "-m", "dynident", *words], cwd=folder, env=environment, stdout=said,
                               stderr=complained, process_group=0)
        while not mark.exists() and run.poll() is None:
            time.sleep(0.001)
        time.sleep(wait)
        before, begin = cpu_of(run.pid), time.monotonic()
        os.killpg(run.pid, signal.SIGINT)  # Popen's own would reap it where it is over already
        os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)  # it is over, and still tells what it took
        seconds, cpu = time.monotonic() - begin, cpu_of(run.pid) - before
        run.wait()
    until = time.monotonic() + 10  # processes that leave with their parent need a moment on a busy machine
    while (left := processes_with(f"TMPDIR={own}")) and time.monotonic() < until:
        time.sleep(0.1)
    folders = tuple(path.name for path in own.iterdir())
    return Ending(run.returncode, (folder / "complained").read_text(errors="replace"), seconds, cpu, tuple(left), folders)


def cpu_of(process: int) -> float:
    """Seconds that a process has worked, without those that it started; NaN where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return float("nan")
    return sum(int(fields[k]) for k in (11, 12)) / os.sysconf("SC_CLK_TCK")


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
    ending = interrupted(folder, words, wait)
    assert ending.clean, ending


@pytest.mark.parametrize(("command", "wait"), [("check", 0.0), ("check", 0.005), ("fit", 0.05), ("fit", 0.3), ("compare", 0.7),
                                               ("design", 0.9), ("fleet", 0.8), ("fmu", 0.9)])
def test_ctrl_c_is_one_line_from_the_first_import_on(tmp_path, command, wait):
    if command == "fmu" and compiler() is None:
        pytest.skip("an FMU is made by a compiler")
    prepare(tmp_path, command)
    ends_in_one_line(tmp_path, COMMANDS[command], wait)


def test_ctrl_c_inside_of_an_exec_is_130_too(tmp_path):
    """CPython (3.11 to 3.13) remembers that it left one, and then ends by the signal, whoever has caught it since."""
    (tmp_path / "command.py").write_text("import dynident.cli\nfrom dynident.__main__ import main\n"
                                         "dynident.cli.main = lambda: exec('raise KeyboardInterrupt')\nmain()\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, env=environment, check=False, capture_output=True,
                         text=True)
    assert run.returncode == 130 and len(run.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_is_one_line_at_any_moment(tmp_path, command):
    rng = np.random.default_rng(len(command))
    prepare(tmp_path, command)
    for wait in rng.uniform(0, 3, 40):
        ends_in_one_line(tmp_path, COMMANDS[command], wait)
