"""Threads of BLAS: one while a fit is at work, and what the user had before and after."""

import ast
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.linalg import lapack  # noqa: F401  # loads the BLAS of SciPy

import dynident as di
from dynident._util import blas_threads
from problems import MACHINES


@pytest.fixture
def two_threads():
    """As many as a user may have asked for; put back at the end."""
    controls = blas_threads.loaded()
    if not controls:
        pytest.skip("this NumPy brings no OpenBLAS along")
    before = {path: ask() for path, (ask, _) in controls.items()}
    for _, say in controls.values():
        say(2)
    yield lambda: [ask() for ask, _ in blas_threads.loaded().values()]
    for path, count in before.items():
        controls[path][1](count)


def test_a_fit_takes_one_thread_and_puts_back_what_was(two_threads):
    before, seen = two_threads(), []
    if set(before) != {2}:
        pytest.skip("this machine has one core")
    di.identify(MACHINES["servo_axis"].problem(seed=3), di.single_shooting(), progress=lambda _: seen.append(two_threads()))
    assert seen and all(set(counts) == {1} for counts in seen)
    assert two_threads() == before


IPOPT_IN_A_FRESH_PROCESS = """
import dynident as di
from dynident._util import blas_threads
from problems import MACHINES
counts = lambda: {path.parent.name: ask() for path, (ask, _) in blas_threads.loaded().items()}
seen = []
def tell(progress): seen.append(counts())
di.identify(MACHINES["servo_axis"].problem(seed=3), di.multiple_shooting(solver="ipopt"), progress=tell)
print(sorted(seen[-1].items()), sorted(counts().items()))
"""


def test_the_blas_that_comes_with_ipopt_takes_one_thread_from_its_first_fit_on(two_threads):
    """It is loaded in the midst of that fit, when the number of threads of the others has been said already."""
    run = subprocess.run([sys.executable, "-c", IPOPT_IN_A_FRESH_PROCESS], capture_output=True, text=True, check=True,
                         env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)})
    within, after = (dict(ast.literal_eval(each + "]")) for each in run.stdout.strip().split("]")[:2])
    if "casadi" not in after:
        pytest.skip("this CasADi brings no OpenBLAS along")
    assert within["casadi"] == 1
    assert after["casadi"] == 2


WITHOUT_A_FIT = {
    "check": lambda problem: di.check(problem),
    "structural_identifiability": lambda problem: di.structural_identifiability(
        problem.model, {p.name: p.start for p in problem.parameters}, duration=1.0),
    "solve_bvp": lambda problem: di.solve_bvp(lambda t, y: [y[1], -y[0]], lambda a, b: [a[0], b[0] - 1], [0.0, 1.0],
                                              [[0.0, 1.0], [1.0, 1.0]])}


@pytest.mark.parametrize("verb", WITHOUT_A_FIT)
def test_work_that_is_no_fit_takes_one_thread_too(verb, monkeypatch):
    entered = []
    monkeypatch.setattr(blas_threads, "_enter", lambda look_again: entered.append(verb))
    monkeypatch.setattr(blas_threads, "_leave", lambda: None)
    WITHOUT_A_FIT[verb](MACHINES["servo_axis"].problem(seed=3))
    assert entered


def test_what_was_is_put_back_by_the_last_of_several_at_once(two_threads):
    before, ready, done = two_threads(), threading.Barrier(2), threading.Barrier(2)

    def first():
        with blas_threads.single_thread():
            ready.wait()
        done.wait()

    other = threading.Thread(target=first)
    other.start()
    with blas_threads.single_thread():
        ready.wait()
        done.wait()
        assert set(two_threads()) == {1}
    other.join()
    assert two_threads() == before


def test_an_error_puts_back_what_was(two_threads):
    before = two_threads()
    with pytest.raises(np.linalg.LinAlgError), blas_threads.single_thread():
        np.linalg.inv(np.zeros((2, 2)))
    assert two_threads() == before


def test_threads_are_put_back_where_looking_for_libraries_fails(two_threads, monkeypatch):
    """By Ctrl-C, say; whoever failed to enter does not leave, and the next one must put back all the same."""
    def interrupted():
        raise KeyboardInterrupt

    before = two_threads()
    with monkeypatch.context() as patched:
        patched.setattr(blas_threads, "loaded", interrupted)
        with pytest.raises(KeyboardInterrupt), blas_threads.single_thread(look_again=True):
            pass
    with blas_threads.single_thread():
        assert set(two_threads()) == {1}
    assert two_threads() == before


def test_a_library_that_nobody_loaded_is_not_loaded_to_ask_it(monkeypatch):
    """Windows cannot open a library only if it is loaded, and would load CasADi's BLAS for every fit."""
    import ctypes
    from pathlib import Path
    from types import SimpleNamespace

    from dynident._util import operating_system

    opened = []
    for handle in (None, 4096):
        kernel = SimpleNamespace(GetModuleHandleW=lambda name, handle=handle: handle)
        monkeypatch.setattr(operating_system, "system", lambda: "windows")
        monkeypatch.setattr(ctypes, "WinDLL", lambda name, kernel=kernel: kernel, raising=False)
        monkeypatch.setattr(ctypes, "CDLL", lambda name: opened.append(name) or "library")
        assert operating_system.library_if_loaded(Path("openblas.dll")) == (None if handle is None else "library")
    assert opened == ["openblas.dll"]
