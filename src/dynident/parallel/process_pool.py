"""Process pool: processes of this machine that outlive the death of one of them, and never outlive the run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from pebble import ProcessPool

from dynident.errors import ProblemError
from dynident.parallel.failures import WorkerLost

MAX_BROKEN_POOLS = 3  # in a row, without a single task done: then it is no accident
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # one each: the workers fill the cores


def process_pool(workers: int | None = None) -> PoolExecutor:
    """An executor over processes of this machine, as many as it has cores unless said.

    A worker that is killed costs its task and no other. In a script, what runs belongs below
    `if __name__ == "__main__":`, since each worker reads the script anew.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ProblemError(f"workers = {workers!r}; give a whole number from 1 on.")
    return PoolExecutor(workers or available_cores())


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PoolExecutor(Executor):
    """A `concurrent.futures.Executor` over pebble's pool; can also end a task that runs over its time."""

    def __init__(self, workers: int):
        self.workers = workers
        self._pool: ProcessPool | None = None
        self._broken_pools = 0
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        return self._schedule(None, fn, args, kwargs)

    def submit_within(self, seconds: float, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """As `submit`; a task that takes longer ends with TimeoutError, and its worker is replaced."""
        return self._schedule(seconds, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish what was submitted, or with `wait=False` or `cancel_futures=True` end it at once."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if wait and not cancel_futures:
            pool.close()
        else:
            pool.stop()
        pool.join()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        self.shutdown(cancel_futures=kind is not None)
        return None

    def _schedule(self, limit: float | None, fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Future:
        if self._closed:
            raise RuntimeError("this executor was shut down; make another with di.process_pool().")
        future = self._active_pool().schedule(fn, args=args, kwargs=kwargs, timeout=limit)
        future.add_done_callback(self._count_success)
        return future

    def _active_pool(self) -> ProcessPool:
        """The pool; a new one where it broke, which it does when an idle worker is killed."""
        if self._pool is not None and not self._pool.active:
            self._pool.stop()
            self._pool.join()
            self._pool = None
            self._broken_pools += 1
            if self._broken_pools >= MAX_BROKEN_POOLS:
                raise WorkerLost("Worker processes die as soon as they are started. In a script, put what runs below "
                                 '`if __name__ == "__main__":`, since each worker reads the script anew; else the '
                                 "machine may be out of memory.")
        if self._pool is None:
            self._pool = ProcessPool(self.workers, context=multiprocessing.get_context("spawn"), initializer=_initialize_worker)
        return self._pool

    def _count_success(self, future: Future) -> None:
        if not future.cancelled() and future.exception() is None:
            self._broken_pools = 0


def _initialize_worker() -> None:
    """In a new worker: Ctrl-C is for the main process, and the end of that is the end of this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "numpy" not in sys.modules:
        os.environ.update({name: os.environ.get(name, "1") for name in THREAD_VARIABLES})
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
