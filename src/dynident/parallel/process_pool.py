"""Process pool: processes of this machine that survive the death of one of them; why a task failed, and whether to retry."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynident._util.new_process import OwnContext
from dynident._util.operating_system import available_cores, blocked_interrupts, end_when_told, ignore_interrupts
from dynident.errors import DynidentError, ProblemError

if TYPE_CHECKING:
    from pebble import ProcessPool  # elsewhere where it is used, because most fits start no process

MAX_BROKEN_POOLS = 3  # in a row, without a single task done: then it is no accident
LOOK_AGAIN = 0.2  # s: whether the pool broke while its last tasks were waited for
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # one each: the workers fill the cores
TRIED_BEFORE = "KilledWorker"  # Dask's name for a task whose workers died again and again: it has tried elsewhere itself


def process_pool(workers: int | None = None) -> PoolExecutor:
    """An executor over processes of this machine.

    A worker that is killed costs its task and no other. In a script, what runs belongs below `if __name__ == "__main__":`,
    since each worker reads the script again. See the manual, howto/scripts.

    Parameters
    ----------
    workers : int, optional
        Number of processes; that of the cores unless given.

    Returns
    -------
    PoolExecutor
        A `concurrent.futures.Executor`, to be used in a `with` statement.

    Raises
    ------
    ProblemError
        For a number of workers below 1.

    Examples
    --------
    >>> import dynident as di
    >>> with di.process_pool(workers=1) as executor:
    ...     print(executor.workers)
    1
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ProblemError(f"workers = {workers!r}; give a whole number from 1 on.")
    return PoolExecutor(workers or available_cores())


class PoolExecutor(Executor):
    """A `concurrent.futures.Executor` over pebble's pool; can also end a task that runs over its time."""

    def __init__(self, workers: int):
        self.workers = workers
        self._pool: ProcessPool | None = None
        self._context = OwnContext()
        self._pending: set[Future] = set()
        self._temporary: Path | None = None  # where the workers' temporary files are: one that is killed leaves them behind
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
        try:
            while wait and not cancel_futures and self._pending and self._pool is not None and self._pool.active:
                concurrent.futures.wait(list(self._pending), timeout=LOOK_AGAIN)
        finally:
            self.abort()

    def abort(self) -> None:
        """End all tasks and their processes at once; what is submitted afterwards gets new ones."""
        pool, self._pool = self._pool, None
        self._pending.clear()
        try:
            if pool is not None:
                pool.stop()  # nothing new
                self._context.terminate_all()  # before their locks and pipes go, which `join` would take away first
                pool.join()
        finally:
            self._clear()

    def _clear(self) -> None:
        folder, self._temporary = self._temporary, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        self.shutdown(cancel_futures=kind is not None)
        return None

    def _schedule(self, limit: float | None, fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Future:
        if self._closed:
            raise RuntimeError("this executor was shut down; make another with di.process_pool().")
        future = self._active_pool().schedule(fn, args=args, kwargs=kwargs, timeout=limit)
        self._pending.add(future)
        future.add_done_callback(self._note_end)
        return future

    def _active_pool(self) -> ProcessPool:
        """The pool; a new one where it broke, which it does when an idle worker is killed."""
        if self._pool is not None and not self._pool.active:
            self.abort()
            self._broken_pools += 1
            if self._broken_pools >= MAX_BROKEN_POOLS:
                raise WorkerLost("Worker processes die as soon as they are started. In a script, put what runs below "
                                 '`if __name__ == "__main__":`, since each worker reads the script again; else the '
                                 "machine may be out of memory.")
        if self._pool is None:
            from pebble import ProcessPool

            self._temporary = Path(tempfile.mkdtemp(prefix="dynident-workers-"))
            made = ProcessPool(self.workers, context=self._context, initializer=_initialize_worker,
                               initargs=(str(self._temporary),))
            with blocked_interrupts():  # its threads start the processes, which are silent from their first moment on
                assert made.active  # asked so, it starts
            self._pool = made
        return self._pool

    def _note_end(self, future: Future) -> None:
        self._pending.discard(future)
        if not future.cancelled() and future.exception() is None:
            self._broken_pools = 0


def _initialize_worker(temporary: str) -> None:
    """In a new worker: Ctrl-C is for the main process, and the end of that is the end of this; temporary files, those of a
    compiler too, are where the main process clears them away."""
    ignore_interrupts()
    end_when_told()
    tempfile.tempdir = os.environ["TMPDIR"] = temporary
    if "numpy" not in sys.modules:
        os.environ.update({name: os.environ.get(name, "1") for name in THREAD_VARIABLES})
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class WorkerLost(DynidentError):
    """The processes that worked on a task ended before the task did."""


def is_lost(error: BaseException) -> bool:
    """Whether the worker is gone, by no fault that the task itself could report."""
    from pebble import ProcessExpired

    return isinstance(error, (ProcessExpired, BrokenExecutor, CancelledError)) or type(error).__name__ == TRIED_BEFORE


def should_retry(error: BaseException) -> bool:
    """After a lost worker; what the task says itself (an error of ours, with its reason) would be said again."""
    return is_lost(error) and type(error).__name__ != TRIED_BEFORE


def is_transient(error: BaseException) -> bool:
    """As above, and whatever was not foreseen: a full memory, a network drive that was away, a task over its time."""
    return should_retry(error) or not (isinstance(error, DynidentError) or is_lost(error))


def describe(error: BaseException, attempts: int, limit: float | None = None) -> str:
    """Why it failed, as a sentence for a table."""
    from pebble import ProcessExpired

    times = f" in {attempts} attempts" if attempts > 1 else ""
    if isinstance(error, ProcessExpired):
        code = error.exitcode
        how = f" (signal {-code})" if code < 0 else f" (exit code {code})" if code else ""
        return f"The worker process was killed or crashed{how}{times}."
    if isinstance(error, BrokenExecutor):
        return (f"The worker processes ended before they began a task{times}. In a script, put what runs below "
                '`if __name__ == "__main__":`, since each worker reads the script again.')
    if is_lost(error):
        return f"The worker process was killed or crashed{times}."
    if isinstance(error, TimeoutError):
        within = f" of {limit:g} s" if limit is not None else ""
        return f"It ran over its time limit{within}{times}."
    if isinstance(error, DynidentError):
        return str(error)
    return f"{type(error).__name__}: {error}{times}."
