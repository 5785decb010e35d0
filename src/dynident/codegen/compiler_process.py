"""Compiler process: run a compiler, say what takes long, and end one that hangs together with everything that it started.

`gcc` is a driver: killed alone, it leaves `cc1` behind, which goes on for minutes. So a compiler has a session of its own, and
what is ended is its whole process group.
"""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynident._util.operating_system import end_session, own_session, session_cpu_seconds

logger = logging.getLogger("dynident")

LONG = 10.0  # seconds; from then on the user is told what is being compiled
IDLE = 20.0  # seconds without any CPU time: it waits for something that will not come
LOOK = 1.0  # seconds between two looks
FULL = "No space left"  # how compilers and the system say it, in every language that we set


@dataclass(frozen=True)
class CompilerRun:
    """How a compiler ended: nothing to say, or why there is no result."""

    failure: str = ""


def run_compiler(command: Sequence[str], what: str, limit: float, idle: float = IDLE, long: float = LONG) -> CompilerRun:
    """Run it to its end, or to that of our patience: `limit` seconds in all, `idle` seconds without CPU time."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}, **own_session())
    except OSError as reason:
        return CompilerRun(no_space() if reason.errno == errno.ENOSPC else f"{command[0]}: {reason.strerror}")
    try:
        return _watched(process, command[0], what, limit, idle, long)
    finally:
        if process.poll() is None:  # Ctrl-C too ends it
            end_session(process)


def _watched(process: subprocess.Popen[str], compiler: str, what: str, limit: float, idle: float, long: float) -> CompilerRun:
    began = busy = time.monotonic()
    used, told = -1.0, False
    while True:
        try:
            _, said = process.communicate(timeout=min(LOOK, idle / 4, limit))
            return CompilerRun(_in_words(process.returncode, said, compiler))
        except subprocess.TimeoutExpired:
            pass
        now, cpu = time.monotonic(), session_cpu_seconds(process.pid)
        if cpu is None or cpu > used:
            used, busy = cpu or 0.0, now
        if not told and now - began >= long:
            told = True
            logger.warning("Still compiling %s (%s, %.0f s so far).", what, compiler, now - began)
        if now - busy >= idle:
            return _ended(process, f"{compiler} hung: no CPU time for {idle:.0f} s; ended with all that it had started")
        if now - began >= limit:
            return _ended(process, f"{compiler} took more than {limit:.0f} s; ended with all that it had started")


def _ended(process: subprocess.Popen[str], why: str) -> CompilerRun:
    end_session(process)
    return CompilerRun(why)


def _in_words(code: int, said: str, compiler: str) -> str:
    if code == 0:
        return ""
    if FULL in said:
        return no_space()
    lines = said.strip().split("\n")
    return next((line for line in lines if "error" in line), lines[0]) or f"{compiler} ended with code {code}"


def no_space(folder: str | Path | None = None) -> str:
    """A compiler writes beside its result also to the temporary folder of the system."""
    return f"the folder {folder or tempfile.gettempdir()} is full"
