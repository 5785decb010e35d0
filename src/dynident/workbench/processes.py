"""Processes: the workers behind the server; one answers while somebody looks, one works; each can be replaced."""

from __future__ import annotations

import itertools
import queue
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynident._util.new_process import own_environment, python_module
from dynident._util.operating_system import how_it_ended, own_process_group
from dynident.workbench.wire import Message, read_message, write_message

START_SECONDS = 60.0  # s; a worker that is not ready by then never will be
LIVE_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ProcessEnded(Exception):
    """The process ended in the middle of its work, or was ended because it took too long."""


class TooSlow(ProcessEnded):
    """It was ended because it took too long."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Who waits for an answer of which process."""

    process: subprocess.Popen[bytes]
    answers: queue.Queue[Message | None]
    heard: Callable[[dict[str, Any]], object] | None


class PageWorker:
    """One process, its pipe, and who waits for which answer. It is started when first needed, and again after its end."""

    def __init__(self, environment: dict[str, str] | None = None):
        self.environment = environment or {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()  # one request after the other
        self.starting = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting: dict[int, Waiting] = {}
        self.generation = 0  # how often it was started: what an earlier one was told is lost
        self.current = 0

    def start(self) -> None:
        """Begin to load, without waiting for it."""
        with self.starting:
            if self.process is not None and self.process.poll() is None:
                return
            self.process = subprocess.Popen(python_module("dynident.workbench.worker"), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, env={**own_environment(), **self.environment},
                                            **own_process_group())
            self.generation += 1
            threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def call(self, message: dict[str, Any], seconds: float | None,
             heard: Callable[[dict[str, Any]], object] | None = None) -> Message:
        """The answer; what is told on the way goes to `heard`. Raises ProcessEnded, and TooSlow after so many seconds."""
        with self.lock:
            self.start()
            number, answers = next(self.numbers), queue.Queue[Message | None]()
            process = self.process
            assert process is not None and process.stdin is not None
            self.waiting[number], self.current = Waiting(process, answers, heard), number
            try:
                write_message(process.stdin, {**message, "number": number})
                answer = answers.get(timeout=seconds)
            except queue.Empty:
                self.kill()
                raise TooSlow(f"no answer within {seconds:g} s") from None
            except OSError:
                answer = None
            finally:
                self.waiting.pop(number, None)
                self.current = 0
            if answer is None:
                code = process.wait()
                raise ProcessEnded(how_it_ended(code))
            return answer

    def stop(self) -> None:
        """Interrupt the work at hand, as Ctrl-C does: what there is so far is kept."""
        process, number = self.process, self.current
        if process is not None and process.stdin is not None and number:
            try:
                write_message(process.stdin, {"call": "stop", "number": number})
            except OSError:  # it has just ended
                return

    def kill(self) -> None:
        """End it at once; nothing is kept."""
        process = self.process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End it, and do not start it again."""
        self.kill()
        if self.process is not None:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        continue

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        try:
            while (message := read_message(process.stdout)) is not None:
                one = self.waiting.get(message[0].get("number", 0))
                if one is not None and "event" not in message[0]:
                    one.answers.put(message)
                elif one is not None and one.heard is not None:
                    one.heard(message[0])
        except (OSError, ValueError):  # the pipe was closed under it
            pass
        for one in list(self.waiting.values()):
            if one.process is process:
                one.answers.put(None)
