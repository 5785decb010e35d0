"""Temporary directories: where is an FMU unpacked, and who clears away what a process that was killed has left there?

Each process has folders of its own and removes them at its end. A worker that is killed cannot; but then nobody holds
the lock in its folder any more, and the next process to unpack or to end, the one that started the worker at the latest,
removes the folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

PREFIX = "dynident-fmu-"
LOCK = ".in-use"
_locks: dict[Path, IO[bytes]] = {}  # the locks of this process's own folders


def new_folder(label: str) -> Path:
    """An empty folder that is gone when this process is."""
    remove_abandoned()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{label}-"))
        lock = (folder / LOCK).open("wb")
        if _try_lock(lock, without_locks=True) and (folder / LOCK).exists():
            break
        lock.close()  # somebody took it for abandoned between the two lines above
    _locks[folder] = lock
    util.Finalize(None, remove_folder, (folder,), exitpriority=0)  # unlike atexit, this runs in workers that end by themselves
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder of this process."""
    lock = _locks.pop(folder, None)
    if lock is not None:
        if fcntl is None:
            lock.close()
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def remove_abandoned() -> None:
    """Remove folders of this user whose processes have ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder not in _locks and not folder.is_symlink() and _is_own(folder) and (folder / LOCK).is_file():
                _remove_unless_locked(folder)


def _remove_unless_locked(folder: Path) -> None:
    if fcntl is None:
        (folder / LOCK).unlink()  # fails while its process has it open
        shutil.rmtree(folder, ignore_errors=True)
        return
    with (folder / LOCK).open("rb") as lock:
        if _try_lock(lock, without_locks=False):
            shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


def _try_lock(lock: IO[bytes], without_locks: bool) -> bool:
    """Whether the lock was free and is ours now; it is given back when the file is closed or the process ends.

    `without_locks` is the answer on a disk that knows no locks: there, nobody's folder is taken for abandoned.
    """
    if fcntl is None:
        return without_locks
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True


atexit.register(remove_abandoned)  # the workers of this process have ended before it
