"""Adaptive pool: when does it pay to simulate on several processes of this machine, and how many does it take?

Only a simulator that runs in processes of its own gains from threads here. Another process costs its start once, so short
simulations stay where they are. The numbers are the same either way.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dynident.parallel.process_pool import available_cores

PROCESS_START = 0.5  # seconds until another process has loaded the code and is ready, on a slow machine
REPEATS = 5  # how often a set of columns is asked for again; a fit takes that many iterations at least


class AdaptivePool:
    """Runs tasks one after the other until it is known how long one takes, then on as many processes as pay.

    `seconds` is what one task is known to take; without it, the shortest so far.
    """

    def __init__(self, own_process: bool, processes: int | None = None, seconds: float = math.inf):
        alone = multiprocessing.parent_process() is None  # a worker among others takes no more than its own core
        self.own_process, self.most = own_process, processes or (available_cores() if alone else 1)
        self.seconds = seconds  # of one task
        self.begun = False  # the first task starts a process, and says nothing about those after it
        self.used = 1  # processes
        self._threads: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results in the order of the tasks."""
        done: list[Any] = []
        while len(done) < len(tasks):
            waiting = tasks[len(done):]
            if self.processes_for(len(waiting)) > 1:
                return done + self._run_threads(function, waiting)
            began = time.perf_counter()
            done.append(function(waiting[0]))
            if self.begun:
                self.seconds = min(self.seconds, time.perf_counter() - began)
            self.begun = True
        return done

    def processes_for(self, tasks: int) -> int:
        """How many processes shorten this set of tasks, counting that others like it follow."""
        together = min(self.most, tasks)
        if not self.own_process or together < 2 or not math.isfinite(self.seconds):
            return 1
        if self._threads is not None:
            return together
        saved = self.seconds * (tasks - math.ceil(tasks / together)) * REPEATS
        return together if saved > PROCESS_START else 1

    def _run_threads(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.most, "simulation")
        self.used = max(self.used, min(self.most, len(tasks)))
        return list(self._threads.map(function, tasks))

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"Simulations ran on {self.used} processes side by side, since one takes {self.seconds:.2g} s.",
                ) if self.used > 1 else ()
