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
            _set_safe_path(before)


def _set_safe_path(value: str | None) -> None:
    if value is None:
        os.environ.pop(SAFE_PATH, None)
    else:
        os.environ[SAFE_PATH] = value


class OwnProcess(SpawnProcess):
    """A process of `multiprocessing` that begins so; where it then looks is what its parent tells it.

    What it starts in turn, a simulator of the user's say, finds the environment of the parent: a script its own folder.
    """

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._safe_path = os.environ.get(SAFE_PATH)  # of the parent

    def start(self) -> None:
        with without_current_folder():
            super().start()

    def run(self) -> None:
        _set_safe_path(self._safe_path)
        super().run()


class OwnContext(SpawnContext):
    """What pools ask for processes, those that take the place of a dead one included; it knows all that are there.

    As `multiprocessing.get_context("spawn")`, with processes that load nothing from the current folder.
    """

    def __init__(self) -> None:
        self._made: WeakSet[OwnProcess] = WeakSet()

    def Process(self, *arguments: Any, **options: Any) -> OwnProcess:  # type: ignore[override]
        with _changing:  # so that it sees the environment that no start changes
            made = OwnProcess(*arguments, **options)
            self._made.add(made)
        return made

    def terminate_all(self) -> None:
        """Tell its processes to end. One that is about to begin would complain of locks and pipes that are gone by then."""
        with _changing:
            made = list(self._made)
        for process in made:
            if process.pid is not None:
                process.terminate()
