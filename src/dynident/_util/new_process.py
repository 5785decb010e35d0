"""New process: how is Python started so that it loads nothing from the folder in which it is started?

Python looks for modules in the current folder first, even for those of its own library (`python -m`, `python -c`, and so
every process of `multiprocessing`). That folder may hold what somebody sent: a `numpy.py` beside a problem file would run.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any
from weakref import WeakSet

SAFE_PATH = "PYTHONSAFEPATH"  # what Python reads in place of its option -P
_changing = threading.Lock()  # the environment belongs to all threads, and so do lists of processes


def python_module(name: str) -> list[str]:
    """The command that runs a module in a process of its own."""
    return [sys.executable, "-P", "-m", name]


def own_environment() -> dict[str, str]:
    """The environment for it, in which it finds what this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@contextlib.contextmanager
def without_current_folder() -> Iterator[None]:
    """A Python that is started within looks for modules where they are installed, and nowhere else before it is told."""
    with _changing:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            os.environ.pop(SAFE_PATH)
            if before is not None:
                os.environ[SAFE_PATH] = before


class OwnProcess(SpawnProcess):
    """A process of `multiprocessing` that begins so; where it then looks is what its parent tells it."""

    def start(self) -> None:
        with without_current_folder():
            super().start()


class OwnContext(SpawnContext):
    """What pools ask for processes, those that take the place of a dead one included; it knows all that are there.

    As `multiprocessing.get_context("spawn")`, with processes that load nothing from the current folder.
    """

    def __init__(self) -> None:
        self._made: WeakSet[OwnProcess] = WeakSet()

    def Process(self, *arguments: Any, **options: Any) -> OwnProcess:  # type: ignore[override]
        made = OwnProcess(*arguments, **options)
        with _changing:
            self._made.add(made)
        return made

    def terminate_all(self) -> None:
        """Tell its processes to end. One that is about to begin would complain of locks and pipes that are gone by then."""
        with _changing:
            made = list(self._made)
        for process in made:
            if process.pid is not None:
                process.terminate()
