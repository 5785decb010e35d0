"""Who is at work in this folder: one run at a time."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dynident.errors import DynidentError

LOCK = ".lock"
ATTEMPTS = 3  # a lock that comes and goes this often belongs to somebody who is at work

_held: set[Path] = set()  # by this process; tells a lock of ours from one left by a dead process with the same id


class InUse(DynidentError):
    """Another run is at work in this folder."""


@contextmanager
def exclusive(folder: str | Path) -> Iterator[None]:
    """Hold the folder for this run; a second run refuses until the first ends. A dead run's lock is taken over.

    The folder is made if need be, and taken away again if it was made in vain.
    """
    folder = Path(folder)
    made_here = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder.resolve() / LOCK
        _take(lock, folder)
    except OSError as error:
        raise DynidentError(f"{folder} cannot be used for results: {error.strerror or error}. "
                            "Choose another folder.") from error
    _held.add(lock)
    try:
        yield
    finally:
        _held.discard(lock)
        lock.unlink(missing_ok=True)
        if made_here:
            with suppress(OSError):  # not empty: it holds a result
                folder.rmdir()


def _take(lock: Path, folder: Path) -> None:
    mine = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    for _ in range(ATTEMPTS):
        try:
            with lock.open("x", encoding="utf-8") as file:  # fails if it exists: the one atomic question
                file.write(mine)
            return
        except FileExistsError:
            _remove_if_dead(lock, folder)
    raise InUse(f"{folder} is in use by other runs; wait for them, or choose another folder.")


def _remove_if_dead(lock: Path, folder: Path) -> None:
    try:
        text = lock.read_text(encoding="utf-8")
    except FileNotFoundError:
        return  # its owner has just finished
    owner = _owner(text)
    if owner is None or not _is_dead(*owner, lock):
        who = f"process {owner[0]} on {owner[1]}" if owner else "another process"
        raise InUse(f"{folder} is in use by {who}. Wait for it, or choose another folder. "
                    f"If no run is at work there, delete {folder / LOCK}.")
    aside = lock.with_name(f"{LOCK}.{os.getpid()}")
    with suppress(FileNotFoundError):  # somebody else has cleared it away
        os.replace(lock, aside)
        if aside.read_text(encoding="utf-8") != text:  # not the lock we judged: a new owner came in between
            os.replace(aside, lock)
            raise InUse(f"{folder} has just been taken by another run; choose another folder.")
        aside.unlink()


def _owner(text: str) -> tuple[int, str] | None:
    with suppress(ValueError, KeyError, TypeError):
        said = json.loads(text)
        return int(said["pid"]), str(said["host"])
    return None


def _is_dead(pid: int, host: str, lock: Path) -> bool:
    if host != socket.gethostname():
        return False  # a process on another machine cannot be asked
    return lock not in _held if pid == os.getpid() else not _is_running(pid)


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":  # there, signal 0 is Ctrl-C
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
        if handle:
            ctypes.windll.kernel32.CloseHandle(handle)
        return bool(handle)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
