"""Operating system: what Linux, macOS and Windows do differently about locks, signals, processes, pipes and libraries.

The one place that asks which system this is. Each function has its branches side by side, so that a reader can check the
one that he cannot run; the tests take every branch by saying that the system is another one.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import platform
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal

System = Literal["linux", "macos", "windows"]
OTHERS_WRITE = 0o022  # of a file's mode: its group or everybody may write
MOST_SYMBOLIC_LINKS = 40  # on the way to a file, as many as Linux follows
IMPORT_PATIENCE, INTERRUPT_AGAIN = 0.5, 0.01  # s: how long Ctrl-C waits for an import, and how often it asks
QUERY_PROCESS, STILL_ACTIVE = 0x1000, 259  # of Windows: the right to ask about a process, and its exit code until it ends
ACCESS_DENIED = 5  # of Windows: the error of whoever has no such right
FATAL_STATUS = 0xC0000000  # of Windows: exit codes from here on are exceptions that nobody caught
STATUS_NAMES = {0xC0000005: "access violation", 0xC000001D: "illegal instruction", 0xC0000094: "integer division by zero",
                0xC00000FD: "stack overflow", 0xC0000409: "stack buffer overrun"}


def system() -> System:
    """Which of the three; what is neither Windows nor macOS has the calls of Linux or says that it lacks them."""
    return "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"


# Locks and files


def try_lock(file: IO[bytes]) -> bool | None:
    """Whether the lock was free and is ours now; it is given back when the file is closed or the process ends.

    None where there is nothing to ask: on Windows, and on a disk that knows no locks.
    """
    if system() == "windows":
        return None  # a file that is open cannot be removed there, which serves as well
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def open_files_can_be_removed() -> bool:
    return system() != "windows"


def is_own(path: Path) -> bool:
    """Whether this user made it. Windows has a folder for temporary files per user."""
    return system() == "windows" or path.stat().st_uid == os.getuid()


def open_to_others(path: Path) -> str:
    """Why somebody else than this user could have put something there, in a few words; "" where nobody could.

    Windows keeps the folders of a user to that user; what he opens to others there is not asked for.
    """
    if system() == "windows":
        return ""
    found = path.stat()
    if found.st_uid != os.getuid():
        return f"it belongs to another user (number {found.st_uid})"
    if found.st_mode & OTHERS_WRITE:
        return f"others may write to it (mode {found.st_mode & 0o777:o}; chmod go-w closes it)"
    return ""


def replaceable_by_others(path: Path) -> str:
    """Why somebody else than this user could put something else in the place of a file or folder; "" where nobody could.

    Who may write to a folder may rename what lies in it, unless only owners may (the sticky bit, as of /tmp). Asked of every
    folder on the way, links followed one by one.
    """
    if system() == "windows":
        return ""
    at, waiting, links = Path(path.absolute().anchor), [*reversed(path.absolute().parts[1:])], 0
    trusted = {0, os.getuid(), at.stat().st_uid}  # whoever has the root of the disk, in a container too, has it all
    while waiting:
        found, entry = at.stat(), at / waiting.pop()
        if found.st_uid not in trusted:
            return f"{at}, in which it lies, belongs to another user (number {found.st_uid})"
        if found.st_mode & OTHERS_WRITE and not (found.st_mode & stat.S_ISVTX or _is_private_group(found)):
            return f"others may write to {at}, in which it lies (mode {found.st_mode & 0o777:o}; chmod go-w closes it)"
        if not os.path.lexists(entry):
            return ""  # whoever makes it here is this user
        if not entry.is_symlink():
            at = at.parent if entry.name == ".." else entry
            continue
        links, target = links + 1, Path(os.readlink(entry))
        if links > MOST_SYMBOLIC_LINKS or entry.lstat().st_uid not in trusted:
            return f"{entry} is a link of another user or leads round in a circle"
        waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        at = Path(target.anchor) if target.is_absolute() else at
    return ""


def _is_private_group(found: os.stat_result) -> bool:
    """Whether only the group may write that has this user alone as its member, as many systems give each user one."""
    import grp
    import pwd

    if found.st_mode & stat.S_IWOTH:
        return False
    try:
        group, user = grp.getgrgid(found.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and {*group.gr_mem} <= {user.pw_name}


def library_if_loaded(path: Path) -> ctypes.CDLL | None:
    """A library that this process has loaded already; None where it has not."""
    if system() == "windows":  # which has no way to open one only then
        kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
        kernel.GetModuleHandleW.argtypes, kernel.GetModuleHandleW.restype = [ctypes.c_wchar_p], ctypes.c_void_p
        if not kernel.GetModuleHandleW(str(path)):
            return None
        return ctypes.CDLL(str(path))
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def cache_home() -> Path:
    """Where programs of this user keep what they can make again; an empty or relative variable counts as not set."""
    if system() == "windows":
        return _absolute("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    if system() == "macos":
        return Path.home() / "Library" / "Caches"
    return _absolute("XDG_CACHE_HOME") or Path.home() / ".cache"


def _absolute(variable: str) -> Path | None:
    given = Path(os.environ.get(variable, ""))
    return given if given.is_absolute() else None


# Signals and processes


def ignore_interrupts() -> None:
    """In a worker: Ctrl-C means the main process, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def interrupts_raise() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt again, unless whoever started this process lets it ignore them."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def blocked_interrupts() -> Iterator[None]:
    """What is started within, processes by threads too, never sees Ctrl-C: it is for this process, which gets it afterwards."""
    if system() == "windows":
        yield
        return
    from multiprocessing import resource_tracker

    from dynident._util.new_process import without_current_folder

    with without_current_folder():
        resource_tracker.ensure_running()  # which would unblock them itself, did it begin to run within
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def noted_interrupts(leaving: bool = False) -> Iterator[list[int]]:
    """Within, every Ctrl-C is also put into the list: libraries that check arguments in C turn one into an error of theirs.

    One that comes while a module is loaded waits for its end, at most `IMPORT_PATIENCE`: compiled modules make "cannot be
    imported" of it, and go on. One that was raised where Python can only print it (a destructor) is raised once more.
    `leaving`: afterwards there is nothing left to interrupt.
    """
    seen: list[int] = []
    waits: list[float] = []  # when those came that wait for an import

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if _imports(frame):
            waits.append(time.monotonic())
            if waits[-1] - waits[0] < IMPORT_PATIENCE:
                _interrupt_later()
                return
        waits.clear()
        signal.default_int_handler(number, frame)

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            _interrupt_later()
        else:
            before(what)

    before = sys.unraisablehook
    ours = (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    if ours:
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGINT, handler)
    try:
        yield seen
    finally:
        if ours and signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, signal.SIG_IGN if leaving else signal.default_int_handler)
            sys.unraisablehook = before


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being loaded."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _interrupt_later() -> None:
    again = threading.Timer(INTERRUPT_AGAIN, _thread.interrupt_main)
    again.daemon = True
    again.start()


def end_when_told() -> None:
    """In a worker: SIGTERM ends it at once, in the midst of a compiled call too, where a handler in Python would wait."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def terminate_like_interrupt() -> None:
    """Whoever ends this process politely wants its state kept, as after Ctrl-C. Windows never asks politely."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def own_process_group() -> dict[str, Any]:
    """Arguments of Popen with which Ctrl-C does not reach a process, from its first moment on."""
    if system() == "windows":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200)}
    return {"process_group": 0}


def own_session() -> dict[str, Any]:
    """Arguments of Popen for a process that `end_session` can end together with all that it starts."""
    return own_process_group() if system() == "windows" else {"start_new_session": True}


def end_session(process: subprocess.Popen[str]) -> None:
    """Kill a process that was started with `own_session`, and all that it has started."""
    if system() == "windows":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=5)


def session_cpu_seconds(session: int) -> float | None:
    """CPU time of all processes of a session; None where there is no /proc to read it from, as on macOS and Windows."""
    if system() != "linux" or not Path("/proc/self/stat").exists():
        return None
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:  # state, ppid, pgrp, session, ..., utime, stime, cutime, cstime from 11 on
                total += sum(int(ticks) for ticks in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def is_running(pid: int) -> bool:
    """Whether there is a process with this number."""
    if system() == "windows":  # where signal 0 is Ctrl-C
        return _is_running_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _is_running_on_windows(pid: int) -> bool:
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    handle = kernel.OpenProcess(QUERY_PROCESS, False, pid)  # of a handle 32 bits count, on 64-bit Windows too
    if not handle:
        return ctypes.get_last_error() == ACCESS_DENIED  # type: ignore[attr-defined]  # there is one, and it is somebody else's
    code = ctypes.c_ulong()
    asked = kernel.GetExitCodeProcess(handle, ctypes.byref(code))  # a process that has ended exists while others hold it
    kernel.CloseHandle(handle)
    return not asked or code.value == STILL_ACTIVE


def is_orphan_of(parent: int) -> bool:
    """Whether the process that started this one has ended. Windows keeps the dead parent's number."""
    return not is_running(parent) if system() == "windows" else os.getppid() != parent


def how_it_ended(code: int) -> str:
    """An exit code in words: by a signal, by an exception of Windows, or by itself."""
    if code < 0:
        try:
            return f"crashed ({signal.strsignal(-code) or signal.Signals(-code).name})"
        except ValueError:
            return f"crashed (signal {-code})"
    if system() == "windows" and code >= FATAL_STATUS:
        return f"crashed ({STATUS_NAMES.get(code, f'status {code:#x}')})"
    return f"ended its process (exit code {code})"


def available_cores() -> int:
    """Cores that this process may use; only Linux knows of fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_be_read(descriptor: int, seconds: float) -> bool:
    """Whether a pipe has something, or its end, within so many seconds. Windows can ask sockets only: there, one reads and
    waits."""
    if system() == "windows":
        return True
    import select

    return bool(select.select([descriptor], [], [], seconds)[0])


# Shared libraries


def library_suffix() -> str:
    return {"windows": ".dll", "macos": ".dylib", "linux": ".so"}[system()]


def c_runtime() -> ctypes.CDLL:
    """The C library that holds calloc and free."""
    return ctypes.CDLL("msvcrt") if system() == "windows" else ctypes.CDLL(None)


def library_flags() -> tuple[str, ...]:
    """Flags of gcc and clang for a library that runs on this machine only."""
    arm = platform.machine().lower() in ("arm64", "aarch64")
    native = "-mcpu=native" if system() == "macos" and arm else "-march=native"  # Apple's clang knows no other on ARM
    return (native, "-shared") if system() == "windows" else (native, "-fPIC", "-shared")


def link_flags() -> tuple[str, ...]:
    """On Linux a library's own names would give way to those of the program, libc's included; elsewhere they do not."""
    return ("-Wl,-Bsymbolic",) if system() == "linux" else ()
