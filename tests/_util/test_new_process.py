"""Claims about new processes: the folder in which a command runs holds data, whatever its files are called."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynident
from dynident._util.new_process import SAFE_PATH, without_current_folder
from dynident.codegen.compiler import compiler

PLANTED = ("multiprocessing", "numpy", "json", "socket", "pickle", "casadi", "dynident")
STARTS = {
    "pool": "with di.process_pool(1) as pool: assert pool.submit(abs, -3).result() == 3",
    "replaced worker": """with di.process_pool(1) as pool:
        try: pool.submit_within(1.0, time.sleep, 60).result()
        except TimeoutError: pass
        assert pool.submit(abs, -3).result() == 3""",
    "isolated call": "from dynident.models.isolated_call import IsolatedFunction\n    "
                     "assert IsolatedFunction(abs, 60.0)(-3) == 3",
    "FMU": "di.simulate(di.FmuModel(sys.argv[1]), {}, di.Experiment([0.0, 1.0], {'u': [0.0, 0.0]}))",
    "workbench": "from dynident.workbench.processes import PageWorker\n    worker = PageWorker()\n    worker.start()\n    "
                 "time.sleep(3)\n    assert worker.process.poll() is None\n    worker.kill()",
}


@pytest.mark.parametrize("what", STARTS)
def test_modules_in_the_current_folder_are_not_run(tmp_path, what):
    """As of the command `dynident`, which Python starts without that folder; the processes that it starts did look there."""
    folder, script = tmp_path / "sent", tmp_path / "scripts" / "command.py"
    folder.mkdir()
    script.parent.mkdir()
    script.write_text(f"import sys, time\nimport dynident as di\nif __name__ == '__main__':\n    {STARTS[what]}\n")
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    words = [sys.executable, str(script)]
    if what == "FMU":
        if compiler() is None:
            pytest.skip("an FMU is made by a compiler")
        from dynident.fmu.export import export_fmu

        lag = dynident.EquationModel(states={"x": "(u - x)/tau"}, outputs={"y": "x"}, inputs=["u"])
        words.append(str(export_fmu(lag, tmp_path / "lag.fmu", {"tau": 0.5, "x(0)": 0.0})))
    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert run.returncode == 0, run.stderr


def test_the_environment_is_as_before(monkeypatch):
    for before in (None, "0"):
        monkeypatch.delenv(SAFE_PATH, raising=False) if before is None else monkeypatch.setenv(SAFE_PATH, before)
        with without_current_folder():
            assert os.environ[SAFE_PATH] == "1"
        assert os.environ.get(SAFE_PATH) == before


SIMULATOR = """
import subprocess, sys
from pathlib import Path
import dynident as di
from dynident.models.isolated_call import IsolatedFunction

def run(script):
    return subprocess.run([sys.executable, script], capture_output=True, text=True).stdout

if __name__ == "__main__":
    with di.process_pool(1) as pool:
        assert pool.submit(run, sys.argv[1]).result().strip() == "3"
    assert IsolatedFunction(run, 60.0)(sys.argv[1]).strip() == "3"
"""


def test_what_a_worker_starts_finds_the_modules_beside_it(tmp_path):
    """A simulator that is a program of its own, in Python: its modules lie beside it, and it is run in workers."""
    (tmp_path / "helper.py").write_text("value = 3\n")
    (tmp_path / "simulator.py").write_text("import helper\nprint(helper.value)\n")
    (tmp_path / "command.py").write_text(SIMULATOR)
    environment = {**os.environ, "PYTHONPATH": str(Path(dynident.__file__).parents[1])}
    environment.pop(SAFE_PATH, None)
    run = subprocess.run([sys.executable, str(tmp_path / "command.py"), str(tmp_path / "simulator.py")], env=environment,
                         capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr


def test_no_process_is_started_in_another_way():
    """`sys.executable` and `get_context` look in the current folder first; both have one home."""
    root = Path(dynident.__file__).parent
    for path in root.rglob("*.py"):
        if path.name != "new_process.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            assert not names & {"executable", "get_context"}, path
