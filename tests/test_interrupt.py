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
            "design": ["design", "servo.toml", "--at-start"]}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent in another way there")


def interrupted(folder: Path, words: list[str], wait: float) -> tuple[int, str]:
    """Exit code and complaints of a command that is interrupted so many seconds after it began to load."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    run = subprocess.Popen([sys.executable, "-c", BEGIN, *words], cwd=folder, env=environment, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "loaded\n"
    time.sleep(wait)
    run.send_signal(signal.SIGINT)
    _, complaints = run.communicate(timeout=60)
    return run.returncode, complaints


def ends_in_one_line(folder: Path, words: list[str], wait: float) -> None:
    code, complaints = interrupted(folder, words, wait)
    assert "Traceback" not in complaints and "Exception ignored" not in complaints, complaints
    assert code in (0, 130), complaints  # 0: it had done its work before
    if code == 130:
        assert sum("Stopped" in line or "interrupted" in line.lower() for line in complaints.splitlines()) >= 1, complaints


@pytest.mark.parametrize(("command", "wait"), [("check", 0.0), ("fit", 0.05), ("fit", 0.3), ("compare", 0.7)])
def test_ctrl_c_is_one_line_from_the_first_import_on(tmp_path, command, wait):
    copy_to(tmp_path)
    ends_in_one_line(tmp_path, COMMANDS[command], wait)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_is_one_line_at_any_moment(tmp_path, command):
    rng = np.random.default_rng(len(command))
    copy_to(tmp_path)
    for wait in rng.uniform(0, 3, 40):
        ends_in_one_line(tmp_path, COMMANDS[command], wait)
