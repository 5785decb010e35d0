"""Tasks: one function for many tasks, here or on an executor; a lost worker costs one more try, not the run.

The one place through which every verb that takes `executor=` hands out its work. What the tasks have in common travels
as a payload (a broadcast): serialised once, sent with each task under the hash of its content, and unpacked once per process.
Nothing compiled travels: a model is text, built again from its definition, and finds its compiled kernels in the cache on
disk. Only a few tasks are handed out ahead of those that are done, so that thousands need no memory.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from dynident.errors import DynidentError
from dynident.parallel.process_pool import PoolExecutor, WorkerLost, describe, is_lost, should_retry

RETRIES = 1  # of a task whose worker was lost, or of a record whose task did not come to its end
IN_FLIGHT = 1000  # tasks handed out and not yet done, where it is not known how many workers there are
IN_FLIGHT_PER_WORKER = 2  # tasks, so that none has to wait for its next; more would have to be called back
Function = Callable[..., Any]  # takes what is common, then the parts of a task
CACHED = 4  # payloads per process; a run has one or two
_unpacked: OrderedDict[str, Any] = OrderedDict()
casadi_lock = threading.RLock()  # CasADi crashes where two threads of a process use it: they take turns


@dataclass(frozen=True, eq=False)
class TaskOutcome:
    """A task that is over: its value, or the error that it ended with."""

    number: int  # its place in the order given
    task: tuple
    value: Any = None
    error: BaseException | None = None
    attempts: int = 1


def map_ordered(function: Function, common: Any, tasks: Iterable[tuple], executor: Executor | None,
                thread_safe: bool = False) -> Generator[Any]:
    """Values in the order of the tasks; an error of a task is raised when its turn comes.

    `thread_safe`: threads of one process may run the function at the same time; see `casadi_lock`.
    """
    early: dict[int, TaskOutcome] = {}
    turn = 0
    with closing(as_completed(function, common, tasks, executor, thread_safe=thread_safe)) as endings:
        for ended in endings:
            early[ended.number] = ended
            while turn in early:
                now = early.pop(turn)
                turn += 1
                if now.error is not None:
                    raise describe_loss(now.error, now.attempts)
                yield now.value


def as_completed(function: Function, common: Any, tasks: Iterable[tuple], executor: Executor | None, *,
                again: Callable[[BaseException], bool] = should_retry, retries: int = RETRIES,
                limit: float | None = None, thread_safe: bool = False,
                handed_out: Callable[[int], object] = lambda count: None) -> Generator[TaskOutcome]:
    """Tasks in the order in which they end, tried again up to `retries` times where `again` says so.

    `limit` (s) ends a task that hangs, where the executor can do that. `handed_out` is told how many are under way.
    """
    if executor is None:
        for number, task in enumerate(tasks):
            handed_out(1)
            yield _run_here(function, common, number, task, again, retries)
        return
    work = _TasksInFlight(executor, function, pack(common), limit, thread_safe)
    waiting = enumerate(tasks)
    try:
        while True:
            while len(work.in_flight) < work.max_in_flight and (upcoming := next(waiting, None)) is not None:
                work.start(*upcoming, attempt=1)
            if not work.in_flight:
                return
            handed_out(len(work.in_flight))
            for future in wait(work.in_flight, return_when=FIRST_COMPLETED).done:
                number, task, attempt = work.in_flight.pop(future)
                error = CancelledError() if future.cancelled() else future.exception()
                if error is not None and attempt <= retries and again(error):
                    work.start(number, task, attempt + 1)
                else:
                    yield TaskOutcome(number, task, None if error else future.result(), error, attempt)
    finally:
        for future in work.in_flight:
            future.cancel()


class _TasksInFlight:
    """Tasks that were handed to an executor and are not yet back."""

    def __init__(self, executor: Executor, function: Function, common: Payload, limit: float | None,
                 thread_safe: bool):
        self.arguments = function, common, thread_safe
        self.in_flight: dict[Future, tuple[int, tuple, int]] = {}
        ours = executor if isinstance(executor, PoolExecutor) else None  # owns its processes, and can end a task that hangs
        self.max_in_flight = IN_FLIGHT if ours is None else IN_FLIGHT_PER_WORKER * ours.workers + 1
        self.submit = executor.submit if limit is None or ours is None else partial(ours.submit_within, limit)

    def start(self, number: int, task: tuple, attempt: int) -> None:
        try:
            future = self.submit(_run_in_worker, *self.arguments, task, attempt)  # no attempt looks like another
        except BrokenExecutor as broken:
            raise WorkerLost("A worker process was killed, and this executor does not survive that. Use di.process_pool() or a "
                             "Dask cluster, which do.") from broken
        self.in_flight[future] = number, task, attempt


def _run_in_worker(function: Function, common: Payload, thread_safe: bool, task: tuple, attempt: int) -> Any:
    """Runs in the worker."""
    content = common.unpack()
    with nullcontext() if thread_safe else casadi_lock:
        return function(content, *task)


def _run_here(function: Function, common: Any, number: int, task: tuple, again: Callable[[BaseException], bool],
          retries: int) -> TaskOutcome:
    for attempt in range(1, retries + 2):
        try:
            return TaskOutcome(number, task, function(common, *task), None, attempt)
        except Exception as error:
            failed = error
            if not again(error):
                break
    return TaskOutcome(number, task, None, failed, attempt)


def describe_loss(error: BaseException, attempts: int) -> BaseException:
    """The error as it is, or as a sentence where a worker was lost."""
    if isinstance(error, DynidentError) or not is_lost(error):
        return error
    return WorkerLost(describe(error, attempts))


@dataclass(frozen=True)
class Payload:
    """Content of all tasks, serialised: bytes and their hash."""

    digest: str
    content: bytes

    def unpack(self) -> Any:
        """The content; the same object for every task of this process."""
        with casadi_lock:
            if self.digest not in _unpacked:
                _unpacked[self.digest] = pickle.loads(self.content)
                while len(_unpacked) > CACHED:
                    _unpacked.popitem(last=False)
            _unpacked.move_to_end(self.digest)
            return _unpacked[self.digest]


def pack(content: Any) -> Payload:
    """Serialise once what all tasks share."""
    written = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return Payload(hashlib.sha256(written).hexdigest(), written)
