"""Isolated: simulate an FMU in a process of its own, and outlive whatever it does there."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynident.fmu.library import SimulationFailed
from dynident.fmu.loop import Course
from dynident.fmu.plan import Plan
from dynident.fmu.wire import COURSE, receive, send

START_LIMIT = 60.0  # seconds for the process and the FMU's code to be loaded
COURSES_KEPT = 32
# Ctrl-C is for the session, which ends its processes itself; from the first moment on, before any code of ours runs there
OUT_OF_REACH: dict[str, Any] = {"process_group": 0}
if sys.platform == "win32":
    OUT_OF_REACH = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


class IsolatedSimulator:
    """The same calls as Simulator; a crash or a hang is a failed simulation, and the next call starts a new process."""

    def __init__(self, plan: Plan, limit: float):
        self.plan, self.limit = plan, limit
        self.process: subprocess.Popen | None = None
        self.notes: list[str] = []
        self.log: list[str] = []
        self.courses: list[Course] = []
        self.answered = 0  # simulations that this process has finished
        self.most = sys.maxsize  # simulations for which one process is used

    def run(self, values: np.ndarray, course: Course, states: bool = False, slopes: Sequence[int] = ()) -> np.ndarray:
        try:
            return self._run(values, course, states, slopes)
        except SimulationFailed as error:
            if not error.crash or error.hung or not self.answered:
                raise
            return self._again(values, course, states, slopes)

    def _again(self, values: np.ndarray, course: Course, states: bool, slopes: Sequence[int]) -> np.ndarray:
        """In a fresh process after a crash in a used one: perhaps it was not the values, but what came before."""
        survived = self.answered
        resets = self.plan.reset and survived == 1  # it died where reset is tried
        before = self.plan
        self.plan = before.without_reset() if resets else before
        try:
            outputs = self._run(values, course, states, slopes)
        except SimulationFailed:
            self.plan = before  # it was the values
            raise
        if resets:
            self.notes.append(f"{self.plan.file} did not survive a reset: each simulation uses a fresh instance.")
        else:
            self.most = max(1, survived // 2)
            self.notes.append(f"{self.plan.file} crashed in simulation {survived + 1} of a process, but not in a fresh one: "
                              f"its process is replaced {'each time' if self.most == 1 else f'every {self.most} times'}.")
        return outputs

    def _run(self, values: np.ndarray, course: Course, states: bool, slopes: Sequence[int]) -> np.ndarray:
        try:
            return self._asked(values, course, states, slopes)
        except SimulationFailed:
            raise
        except BaseException:  # Ctrl-C: an answer that still comes would be taken for that of the next question
            self._end()
            raise

    def _asked(self, values: np.ndarray, course: Course, states: bool, slopes: Sequence[int]) -> np.ndarray:
        if self.answered >= self.most:
            self.close()
        if self.process is None:
            self._start()
        try:
            number = self._send_course(course)
            self._send({"do": "run", "course": number, "states": states, "slopes": list(slopes)},
                       [np.ascontiguousarray(values, dtype=float)])
        except OSError:
            raise self._crashed() from None
        message, arrays = self._receive(self.limit)
        self._listen(message)
        self.answered += 1
        return arrays[0]

    def messages(self) -> tuple[str, ...]:
        return tuple(self.log)

    def close(self) -> None:
        if self.process is not None:
            process, self.process = self.process, None
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()  # type: ignore[union-attr]
            self.words.close()

    def _start(self) -> None:
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen([sys.executable, "-m", "dynident.fmu.worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.words, env=environment, **OUT_OF_REACH)
        self.courses, self.answered = [], 0
        self.answers: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self.process.stdout, self.answers), daemon=True).start()
        try:
            self._send({"do": "open", "plan": self.plan.to_data()})
        except OSError:
            raise self._crashed() from None
        try:
            self._receive(START_LIMIT)
        except SimulationFailed:
            self._end()  # a process without an FMU answers nothing
            raise

    def _send(self, message: dict[str, Any], arrays: Any = ()) -> None:
        assert self.process is not None and self.process.stdin is not None
        send(self.process.stdin, message, arrays)  # type: ignore[arg-type]

    def _send_course(self, course: Course) -> int:
        for number, known in enumerate(self.courses):
            if known is course:
                return number
        keep = len(self.courses) < COURSES_KEPT
        self.courses = [*self.courses, course] if keep else [course]
        number = len(self.courses) - 1
        self._send({"do": "course", "course": number, "keep": keep}, [getattr(course, name) for name in COURSE])
        return number

    def _receive(self, limit: float) -> tuple[dict[str, Any], list[np.ndarray]]:
        try:
            answer = self.answers.get(timeout=limit)
        except queue.Empty:
            self._end()
            raise SimulationFailed(f"{self.plan.file} did not answer within {limit:g} s and was stopped. Give it more "
                                   "time with time_limit=, if it is slow rather than stuck.", crash=True, hung=True
                                   ) from None
        if answer is None:
            raise self._crashed()
        message, arrays = answer
        if not message["good"]:
            self._listen(message)
            raise SimulationFailed(message["sentence"], float(message["time"]), useless=message["useless"])
        return message, arrays

    def _listen(self, message: dict[str, Any]) -> None:
        self.notes += message.get("notes", ())
        self.log = list(message.get("log", self.log))

    def _crashed(self) -> SimulationFailed:
        assert self.process is not None
        try:
            code = self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        last = self._last_words()
        self._end()
        if code < 0:
            try:
                why = f"crashed ({signal.strsignal(-code) or signal.Signals(-code).name})"
            except ValueError:
                why = f"crashed (signal {-code})"
        else:
            why = f"ended its process (exit code {code})"
        return SimulationFailed(f"{self.plan.file} {why}; its process was started again.{last}", crash=True)

    def _last_words(self) -> str:
        self.words.seek(0, os.SEEK_END)
        self.words.seek(max(0, self.words.tell() - 2000))
        lines = [line for line in self.words.read().decode(errors="replace").splitlines() if line.strip()]
        self.log = [*self.log, *lines]
        return f" Its last words: {lines[-1].strip()[:200]}" if lines else ""

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            self.process = None
            self.words.close()


def _read(stream: Any, answers: queue.SimpleQueue) -> None:
    """Puts each answer into the queue, and None at the end; a queue can be waited for with a limit everywhere."""
    try:
        while True:
            answers.put(receive(stream))
    except (EOFError, OSError, ValueError):
        answers.put(None)
