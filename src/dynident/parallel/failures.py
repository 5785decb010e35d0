"""Failures: why did a task not come to its end, is that transient, and is it worth a retry?"""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, CancelledError

from pebble import ProcessExpired

from dynident.errors import DynidentError

TRIED_BEFORE = "KilledWorker"  # Dask's name for a task whose workers died again and again: it has tried elsewhere itself


class WorkerLost(DynidentError):
    """The processes that worked on a task ended before the task did."""


def is_lost(error: BaseException) -> bool:
    """Whether the worker is gone, by no fault that the task itself could report."""
    return isinstance(error, (ProcessExpired, BrokenExecutor, CancelledError)) or type(error).__name__ == TRIED_BEFORE


def should_retry(error: BaseException) -> bool:
    """After a lost worker; what the task says itself (an error of ours, with its reason) would be said again."""
    return is_lost(error) and type(error).__name__ != TRIED_BEFORE


def is_transient(error: BaseException) -> bool:
    """As above, and whatever was not foreseen: a full memory, a network drive that was away, a task over its time."""
    return should_retry(error) or not (isinstance(error, DynidentError) or is_lost(error))


def describe(error: BaseException, attempts: int, limit: float | None = None) -> str:
    """Why it failed, as a sentence for a table."""
    times = f" in {attempts} attempts" if attempts > 1 else ""
    if isinstance(error, ProcessExpired):
        code = getattr(error, "exitcode", None)
        how = f" (signal {-code})" if isinstance(code, int) and code < 0 else f" (exit code {code})" if code else ""
        return f"The worker process was killed or crashed{how}{times}."
    if isinstance(error, BrokenExecutor):
        return (f"The worker processes ended before they began a task{times}. In a script, put what runs below "
                '`if __name__ == "__main__":`, since each worker reads the script anew.')
    if is_lost(error):
        return f"The worker process was killed or crashed{times}."
    if isinstance(error, TimeoutError):
        within = f" of {limit:g} s" if limit is not None else ""
        return f"It ran over its time limit{within}{times}."
    if isinstance(error, DynidentError):
        return str(error)
    return f"{type(error).__name__}: {error}{times}."
