"""Threads of BLAS: one while a fit is at work, and what the user had before and after."""

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
    controls = blas_threads._controls()
    if not controls:
        pytest.skip("this NumPy brings no OpenBLAS along")
    before = [ask() for ask, _ in controls]
    for _, say in controls:
        say(2)
    yield lambda: [ask() for ask, _ in controls]
    for (_, say), count in zip(controls, before, strict=True):
        say(count)


def test_a_fit_takes_one_thread_and_puts_back_what_was(two_threads):
    before, seen = two_threads(), []
    if set(before) != {2}:
        pytest.skip("this machine has one core")
    di.identify(MACHINES["servo_axis"].problem(seed=3), di.single_shooting(), progress=lambda _: seen.append(two_threads()))
    assert seen and all(set(counts) == {1} for counts in seen)
    assert two_threads() == before


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
