"""Does each branch for Linux, macOS and Windows say what its system needs? The system is said to be another one."""

from __future__ import annotations

import ast
import ctypes
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dynident._util import operating_system as system

SOURCE = Path(system.__file__).parents[1]
NAMES = {"linux": "linux", "darwin": "macos", "win32": "windows", "freebsd14": "linux"}
HOME_ONLY = {"fcntl", "msvcrt", "select", "signal", "resource", "pwd", "grp", "pty", "termios"}  # modules
HOME_ONLY_CALLS = {"os.kill", "os.killpg", "os.getuid", "os.fork", "os.setsid", "os.sched_getaffinity",
                   "os.name", "os.uname", "sys.platform", "ctypes.windll", "ctypes.WinDLL", "signal.signal"}


@pytest.fixture(params=NAMES)
def on(request, monkeypatch):
    monkeypatch.setattr(sys, "platform", request.param)
    return NAMES[request.param]


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.fixture
def macos(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")


def an_ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_system_is_one_of_three(on):
    assert system.system() == on


def test_a_library_is_named_and_built_as_the_system_wants(on, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert system.library_suffix() == {"linux": ".so", "macos": ".dylib", "windows": ".dll"}[on]
    assert ("-fPIC" in system.library_flags()) == (on != "windows")
    assert system.library_flags()[0] == ("-mcpu=native" if on == "macos" else "-march=native")
    assert bool(system.link_flags()) == (on == "linux")


def test_a_cache_has_the_place_that_users_of_the_system_know(on, monkeypatch, tmp_path):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    place = {"linux": ".cache", "macos": "Library/Caches", "windows": "AppData/Local"}[on]
    assert system.cache_home() == tmp_path / place
    for unusable in ("", "relative/folder"):  # which would be a cache in whatever folder one works in
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        monkeypatch.setenv("LOCALAPPDATA", unusable)
        assert system.cache_home() == tmp_path / place


def test_what_others_could_have_written_is_told(monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    assert system.open_to_others(tmp_path) == ""
    tmp_path.chmod(0o770)
    assert "others may write to it (mode 770" in system.open_to_others(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert "belongs to another user" in system.open_to_others(tmp_path)
    monkeypatch.setattr(sys, "platform", "win32")
    assert system.open_to_others(tmp_path) == ""


def test_ctrl_c_does_not_reach_a_process_of_its_own_group(on):
    assert system.own_process_group() == ({"creationflags": 0x200} if on == "windows" else {"process_group": 0})


def test_a_session_is_ended_with_all_that_it_started(tmp_path):
    inner = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); " \
            f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE, text=True, **system.own_session())
    process.stdout.readline()
    assert system.session_cpu_seconds(process.pid) is None or system.session_cpu_seconds(process.pid) >= 0
    system.end_session(process)
    assert process.poll() is not None
    child = int((tmp_path / "pid").read_text())
    stopped = time.monotonic() + 5
    while system.is_running(child) and not is_zombie(child) and time.monotonic() < stopped:
        time.sleep(0.01)
    assert not system.is_running(child) or is_zombie(child)


def is_zombie(pid: int) -> bool:
    """Ended, and nobody has asked how."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_windows_ends_a_tree_of_processes_by_its_own_tool(windows, monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command))
    system.end_session(SimpleNamespace(pid=7, communicate=lambda timeout: None))
    assert asked == [["taskkill", "/T", "/F", "/PID", "7"]]
    assert system.own_session() == {"creationflags": 0x200}


def test_where_nobody_says_the_cpu_time_of_others_it_is_unknown(on):
    assert (system.session_cpu_seconds(os.getsid(0)) is None) == (on != "linux")


def test_a_second_lock_on_a_file_is_refused(tmp_path):
    with (tmp_path / "lock").open("wb") as first, (tmp_path / "lock").open("wb") as second:
        assert system.try_lock(first) is True
        assert system.try_lock(second) is False


def test_windows_has_no_such_lock_and_keeps_open_files_instead(windows, tmp_path):
    with (tmp_path / "lock").open("wb") as file:
        assert system.try_lock(file) is None
    assert not system.open_files_can_be_removed()
    assert system.is_own(tmp_path)


def test_a_process_that_has_ended_is_not_running():
    assert system.is_running(os.getpid())
    assert not system.is_running(an_ended_process())


@pytest.mark.parametrize(("handle", "error", "exit_code", "running"), [
    (0, 87, 0, False), (0, 5, 0, True), (7, 0, 259, True), (7, 0, 1, False)])  # 87: no such process; 5: somebody else's
def test_windows_is_asked_by_a_handle(windows, monkeypatch, handle, error, exit_code, running):
    closed = []

    def exit_code_of(_, code):
        code._obj.value = exit_code
        return 1

    kernel = SimpleNamespace(OpenProcess=lambda *_: handle, GetExitCodeProcess=exit_code_of, CloseHandle=closed.append)
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: kernel, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: error, raising=False)
    assert system.is_running(4711) is running
    assert closed == ([handle] if handle else [])


def test_a_worker_sees_that_its_parent_is_gone(on, monkeypatch):
    gone = an_ended_process()
    monkeypatch.setattr(system, "_is_running_on_windows", lambda pid: pid == os.getppid())
    assert not system.is_orphan_of(os.getppid())
    assert system.is_orphan_of(gone)


def test_the_end_of_a_process_is_said_in_the_words_of_the_system(on):
    assert system.how_it_ended(-11) == "crashed (Segmentation fault)"
    assert system.how_it_ended(3) == "ended its process (exit code 3)"
    crash = "crashed (access violation)" if on == "windows" else "ended its process (exit code 3221225477)"
    assert system.how_it_ended(0xC0000005) == crash


def test_cores_are_counted_where_affinity_is_unknown(macos, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert system.available_cores() == os.cpu_count()


def test_a_pipe_is_asked_before_it_is_read(on):
    read, write = os.pipe()
    assert system.can_be_read(read, 0.0) == (on == "windows")  # which cannot be asked: there, reading waits
    os.write(write, b"1\n")
    assert system.can_be_read(read, 1.0)
    os.close(read)
    os.close(write)


def test_the_c_runtime_of_windows_is_asked_for_by_name(windows, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    assert system.c_runtime() == "msvcrt"


def test_nobody_else_asks_which_system_this_is():
    strays = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == Path(system.__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            modules |= {node.module} if isinstance(node, ast.ImportFrom) else set()
            if modules & HOME_ONLY or (isinstance(node, ast.Attribute) and ast.unparse(node) in HOME_ONLY_CALLS):
                strays.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert strays == []


SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def until_interrupted(seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
    pytest.fail("Ctrl-C did not come")


def interrupted_module(folder, monkeypatch):
    """A module during whose loading Ctrl-C comes."""
    (folder / "interrupted_while_loading.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nloaded = True\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "interrupted_while_loading", raising=False)


@SIGNALS
def test_ctrl_c_waits_for_an_import_and_then_comes(tmp_path, monkeypatch):
    interrupted_module(tmp_path, monkeypatch)
    monkeypatch.setattr(system, "IMPORT_PATIENCE", 60.0)
    with system.noted_interrupts() as seen, pytest.raises(KeyboardInterrupt):
        import interrupted_while_loading

        assert interrupted_while_loading.loaded
        until_interrupted()
    assert len(seen) >= 2 and sys.modules["interrupted_while_loading"].loaded


@SIGNALS
def test_an_import_that_takes_too_long_is_interrupted(tmp_path, monkeypatch):
    interrupted_module(tmp_path, monkeypatch)
    monkeypatch.setattr(system, "IMPORT_PATIENCE", 0.0)
    with system.noted_interrupts(), pytest.raises(KeyboardInterrupt):
        import interrupted_while_loading  # noqa: F401
    assert "interrupted_while_loading" not in sys.modules


@SIGNALS
def test_ctrl_c_in_a_destructor_is_not_lost(capsys):
    class Interrupted:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    with system.noted_interrupts(), pytest.raises(KeyboardInterrupt):
        Interrupted()
        until_interrupted()
    assert "Exception ignored" not in capsys.readouterr().err
    assert sys.unraisablehook is hook and signal.getsignal(signal.SIGINT) is handler
