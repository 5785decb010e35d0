"""Work on executors: in order, the same wherever it is done, and a lost worker costs one more try."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import workloads

import dynident as di
from dynident.parallel.process_pool import WorkerLost, describe
from dynident.parallel.tasks import as_completed, map_ordered
from problems import MACHINES


@pytest.fixture(scope="module")
def pool():
    with di.process_pool(2) as executor:
        yield executor


def test_values_come_in_the_order_of_the_tasks(pool):
    tasks = [(k,) for k in range(200)]
    wanted = [1 + k * k for k in range(200)]
    assert list(map_ordered(workloads.plus_square, 1, tasks, None)) == wanted
    assert list(map_ordered(workloads.plus_square, 1, tasks, pool)) == wanted


def test_task_of_a_killed_worker_is_done_by_another(pool, tmp_path):
    tasks = [(k, 3) for k in range(8)]
    assert list(map_ordered(workloads.dies_the_first_time, str(tmp_path), tasks, pool)) == list(range(8))
    assert (tmp_path / "died").exists()


def test_tasks_that_are_ended_leave_no_temporary_folder_behind(tmp_path, monkeypatch):
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    with di.process_pool(1) as executor:
        executor.submit(workloads.hangs_in_a_temporary_folder, str(tmp_path), 0)
        until = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert len(list(own.glob("*/*"))) == 1  # the folder of the workers, and in it that of the task
        executor.abort()
        assert list(own.iterdir()) == []
        assert executor.submit(workloads.plus_square, 1, 2).result(60) == 5  # what is submitted afterwards gets new processes
    assert list(own.iterdir()) == []


def test_task_that_kills_every_worker_is_given_up_and_the_others_go_on(pool):
    ended = list(as_completed(workloads.always_dies, None, [(k, 2) for k in range(8)], pool))
    assert sorted(e.value for e in ended if e.error is None) == [0, 1, 3, 4, 5, 6, 7]
    (lost,) = [e for e in ended if e.error is not None]
    assert lost.task == (2, 2)
    assert lost.attempts == 2
    assert "killed or crashed (signal 9) in 2 attempts" in describe(lost.error, lost.attempts)
    with pytest.raises(WorkerLost, match="killed or crashed"):
        list(map_ordered(workloads.always_dies, None, [(2, 2)], pool))


def test_task_that_hangs_is_ended_and_its_worker_replaced(pool):
    ended = list(as_completed(workloads.hangs, None, [(k, 1) for k in range(4)], pool, limit=0.5))
    assert sorted(e.value for e in ended if e.error is None) == [0, 2, 3]
    (late,) = [e for e in ended if e.error is not None]
    assert "ran over its time limit of 0.5 s" in describe(late.error, late.attempts, 0.5)


def test_pool_whose_idle_workers_were_killed_works_again(pool):
    workers = {pid for pid, _ in map_ordered(workloads.unpacked_here, "idle", [()] * 20, pool)}
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)  # until the pool has seen it
    assert list(map_ordered(workloads.plus_square, 0, [(3,)], pool)) == [9]


def test_what_tasks_share_is_unpacked_once_per_process(pool):
    seen = set(map_ordered(workloads.unpacked_here, np.arange(1000.0), [()] * 40, pool))
    assert len(seen) == len({pid for pid, _ in seen})


def test_errors_of_a_task_are_raised_as_they_are(pool):
    with pytest.raises(TypeError):
        list(map_ordered(workloads.plus_square, 1, [("a",)], pool))


def test_executor_that_does_not_survive_a_killed_worker_says_so():
    spawned = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as fragile, pytest.raises(WorkerLost, match=r"di\.process_pool"):
        list(map_ordered(workloads.always_dies, None, [(0, 0)], fragile))


def test_workers_that_are_about_to_begin_when_a_pool_ends_say_nothing(tmp_path):
    """They load for a while, and what they are to read is gone by then: a traceback each, on the user's terminal."""
    script = tmp_path / "ends.py"
    script.write_text("""import multiprocessing, os, signal, sys, time
import dynident as di
def stays(mark):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its end takes three seconds
    open(mark, "w").write(str(os.getpid()))
    time.sleep(60)
if __name__ == "__main__":
    pool = di.process_pool(2)
    future = pool.submit(stays, sys.argv[1])
    while not (os.path.exists(sys.argv[1]) and len(multiprocessing.active_children()) == 2):
        time.sleep(0.01)
    time.sleep(0.5)  # the other one has begun as well
    children = multiprocessing.active_children
    one, = (child for child in children() if str(child.pid) != open(sys.argv[1]).read())
    one.kill()
    while len(children()) < 2 or one.pid in [child.pid for child in children()]:
        time.sleep(0.01)
    pool.abort()
""")
    environment = {**os.environ, "PYTHONPATH": str(Path(di.__file__).parents[1])}
    run = subprocess.run([sys.executable, str(script), str(tmp_path / "mark")], capture_output=True, text=True, env=environment,
                         check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_pool_that_was_ended_is_left_without_waiting():
    with di.process_pool(1) as own:
        lost = own.submit(time.sleep, 600)
        own.abort()
    assert not lost.done() or lost.exception() is not None


def test_number_of_workers_is_checked():
    with pytest.raises(di.ProblemError, match="workers = 0"):
        di.process_pool(0)


def test_model_that_arrives_twice_is_built_once():
    model = MACHINES["pendulum"].model
    content = pickle.dumps(model)
    assert pickle.loads(content) is pickle.loads(content)
    assert pickle.loads(content) == model
    assert b"casadi" not in content  # text and numbers travel, nothing compiled


def pendulum() -> di.Problem:
    machine = MACHINES["pendulum"]
    parameters = machine.parameters(**{n: {"lower": 0.5 * abs(v) - 1, "upper": 2 * abs(v) + 1}
                                       for n, v in machine.truth.items()})
    return di.Problem(machine.model, [machine.record(1)], parameters)


def same(a: di.Estimate, b: di.Estimate) -> bool:
    return a.values == b.values and a.cost == b.cost and a.starts == b.starts


def test_starts_profiles_repeats_and_comparisons_are_the_same_on_two_workers(pool):
    problem = pendulum()
    method = di.multistart(di.single_shooting(), starts=5)
    alone, together = (di.identify(problem, method, executor=e, progress=False) for e in (None, pool))
    assert same(alone, together)
    name = problem.names[0]
    one, two = (di.profile(alone, name, executor=e) for e in (None, pool))
    assert np.array_equal(one.curves[name].rise, two.curves[name].rise)
    drawn = [di.bootstrap(alone, repeats=20, executor=e).samples for e in (None, pool)]
    assert np.array_equal(*drawn)
    found = [di.compare(problem, ["single_shooting", "multiple_shooting"], executor=e, progress=False)
             for e in (None, pool)]
    assert list(found[0]) == list(found[1])
    assert all(same(found[0][label], found[1][label]) for label in found[0])
    differences = [di.identify(problem, di.least_squares(), executor=e, progress=False) for e in (None, pool)]
    assert same(*differences)


def test_threads_take_turns_and_give_the_same():
    problem, method = pendulum(), di.multistart(di.single_shooting(), starts=4)
    with ThreadPoolExecutor(2) as threads:
        assert same(di.identify(problem, method, executor=threads, progress=False),
                    di.identify(problem, method, progress=False))


def test_start_whose_workers_are_lost_is_a_start_that_failed(pool, monkeypatch):
    from dynident.verbs import multistart

    monkeypatch.setattr(multistart, "run_start", workloads_start)
    found = di.identify(pendulum(), di.multistart(di.single_shooting(), starts=3), executor=pool, progress=False)
    assert [s.converged for s in found.starts].count(False) == 1
    assert next(s.status.code for s in found.starts if not s.converged) == "simulator_lost"
    assert "1 starts did not converge" in found.status


def workloads_start(common, place):
    from dynident.verbs.multistart import run_start

    if not place:  # the problem's own start
        os.kill(os.getpid(), signal.SIGKILL)
    return run_start(common, place)


def test_script_without_a_main_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import math
        import dynident as di
        from dynident.parallel.tasks import map_ordered
        with di.process_pool(1) as pool:
            print(list(map_ordered(math.hypot, 3, [(4,)], pool)))
        """))
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=_environment())
    assert run.returncode != 0
    assert '`if __name__ == "__main__":`' in run.stderr


def test_mpi_gives_the_same(tmp_path):
    pytest.importorskip("mpi4py", reason="MPI needs mpi4py: pip install dynident[mpi]")
    if shutil.which("mpiexec") is None:
        pytest.skip("no mpiexec on this machine")
    script = tmp_path / "starts.py"
    script.write_text(textwrap.dedent("""
        import sys
        from mpi4py.futures import MPIPoolExecutor
        sys.path[:0] = sys.argv[1:]
        import dynident as di
        from test_tasks import pendulum, same
        if __name__ == "__main__":
            method = di.multistart(di.single_shooting(), starts=4)
            with MPIPoolExecutor() as ranks:
                found = di.identify(pendulum(), method, executor=ranks, progress=False)
            print("the same:", same(found, di.identify(pendulum(), method, progress=False)))
        """))
    here = Path(__file__).parent
    run = subprocess.run(["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-m",
                          "mpi4py.futures", str(script), str(here), str(here.parent)],
                         capture_output=True, text=True, timeout=120, env=_environment())
    if run.returncode and ("unrecognized" in run.stderr.lower() or "unknown option" in run.stderr.lower()):
        pytest.skip("this mpiexec takes other options")
    assert "the same: True" in run.stdout, run.stderr[-2000:]


def _environment() -> dict[str, str]:
    source = str(Path(di.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_worker_sees_no_ctrl_c_and_ends_at_once_when_told(tmp_path, monkeypatch):
    with di.process_pool(1) as executor:
        assert executor.submit(workloads.signals_of_a_worker).result(60) == (True, True)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])  # here it is heard
        executor.submit(workloads.computes_in_one_call, str(tmp_path / "begun"))
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        kill, killed = os.kill, []
        monkeypatch.setattr(os, "kill", lambda pid, number: (killed.append(number), kill(pid, number))[1])
        executor.abort()
    assert signal.SIGKILL not in killed  # which comes after three seconds in which nothing else has helped
