"""Isolated call: how is a user's function run in a process of its own, so that a crash or a hang is an answer and no end?"""

from __future__ import annotations

import importlib.util
import pickle
import threading
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from dynident._util.new_process import OwnContext
from dynident._util.operating_system import blocked_interrupts, ignore_interrupts
from dynident.errors import ProblemError, SimulatorLost

MAX_CRASHES = 3  # at different values; then the function, or the FMU, is called broken
LAST_WORDS = 1.0  # seconds that a process has to end by itself


class CallFailed(Exception):
    """What a function raised in its process, or that the process ended; `crash`: it is lost."""

    def __init__(self, what: str, crash: bool = False):
        super().__init__(what)
        self.crash = crash


def packed(function: Callable[..., Any] | None) -> bytes:
    """A function as bytes for another process; by cloudpickle where that is installed, since lambdas need it."""
    try:
        if importlib.util.find_spec("cloudpickle") is not None:
            import cloudpickle

            return cloudpickle.dumps(function)
        return pickle.dumps(function)
    except Exception as error:  # whatever an object inside of it raises
        raise ProblemError(f"the function {getattr(function, '__name__', '')} cannot be sent to another process "
                           f"({type(error).__name__}: {str(error).rstrip('.')}). Define it at the top of a file, without what "
                           "it holds open, or install cloudpickle.") from error


def unpacked(content: bytes) -> Any:
    return pickle.loads(content)


def _serve(connection: Connection, content: bytes) -> None:
    ignore_interrupts()
    function = unpacked(content)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, function(*arguments)))
        except Exception as error:
            connection.send((False, f"{type(error).__name__}: {error}"))


class _Worker:
    """One process and the way to it."""

    def __init__(self, content: bytes):
        context = OwnContext()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, content), daemon=True)
        with blocked_interrupts():
            self.process.start()
        theirs.close()

    def call(self, arguments: tuple[Any, ...], limit: float) -> Any:
        try:
            self.connection.send(arguments)
            if not self.connection.poll(limit):
                raise CallFailed(f"it gave no answer in {limit:g} s and was ended", crash=True)
            good, answer = self.connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self.process.join(LAST_WORDS)
            raise CallFailed(f"its process ended (code {self.process.exitcode})", crash=True) from error
        if not good:
            raise CallFailed(answer)
        return answer

    def end(self) -> None:
        self.connection.close()
        self.process.join(LAST_WORDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(LAST_WORDS)


class IsolatedFunction:
    """A function in processes of its own, one per thread that calls it at a time; they end with it."""

    def __init__(self, function: Callable[..., Any], limit: float):
        self.content, self.limit = packed(function), limit
        self.idle: list[_Worker] = []
        self.lock, self.crashes = threading.Lock(), 0
        self._finalizer = weakref.finalize(self, _end_all, self.idle)

    def __call__(self, *arguments: Any) -> Any:
        with self.lock:
            worker = self.idle.pop() if self.idle else None
        worker = worker or _Worker(self.content)
        try:
            answer = worker.call(arguments, self.limit)
        except CallFailed as failure:
            if not failure.crash:
                self._put_back(worker)
                raise
            worker.process.kill()
            worker.end()
            with self.lock:
                self.crashes += 1
                if self.crashes >= MAX_CRASHES:
                    raise SimulatorLost(f"the simulator was lost {self.crashes} times and is given up: {failure}") from None
            raise
        except BaseException:  # Ctrl-C: nobody waits for its answer any more
            worker.process.kill()
            worker.end()
            raise
        self._put_back(worker)
        return answer

    def _put_back(self, worker: _Worker) -> None:
        with self.lock:
            self.idle.append(worker)


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().end()
