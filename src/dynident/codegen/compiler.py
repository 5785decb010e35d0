"""Compiler: C source in, loaded library out; compiled once and kept on disk by content.

Where there is no working C compiler, `load_library` returns None and the caller uses CasADi's own machine. This is
said once in the log. Set DYNIDENT_CC to choose a compiler, DYNIDENT_CC=none to do without, DYNIDENT_CFLAGS for flags after
ours (`-march=x86-64 -ffp-contract=off` rounds as other processors do), DYNIDENT_CACHE to move the cache.

In the cache a library is named after the hash of its own bytes, and a short file named after what it was made from
says which library that is. Both are written aside and renamed, so that two processes that make the same kernel do not
meet half a file; the bytes are hashed again before they are loaded, since the linker crashes on a file cut short.
What is loaded is run: a folder or file that somebody else could have written is not used.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynident._util.operating_system import (
    cache_home,
    library_flags,
    library_suffix,
    link_flags,
    open_to_others,
    replaceable_by_others,
)
from dynident.codegen.compiler_process import no_space, run_compiler

logger = logging.getLogger("dynident")

FLAGS = ("-O2", "-ftree-vectorize", "-fno-math-errno", "-fno-trapping-math", *library_flags())
LINK = link_flags()
PROBE_LIMIT = 60  # seconds; for one line of C
VERSION_LIMIT = 10  # seconds; a compiler that does not even say its version in that time hangs
COMPILE_LIMIT = 600  # seconds; longer is worse than CasADi's own machine; Dymola's FMUs of 40,000 lines take 20

Flags = tuple[str, ...] | Callable[[str], tuple[str, ...]]  # the latter of the source

CODE_SUFFIX = ".code"
NAME_LENGTH = 40  # of a hash in hexadecimal digits; enough never to meet another

seconds_compiling = 0.0  # in this process, so that a result can say where its time went
libraries_compiled = 0
_served: set[str] = set()  # choices of a compiler (DYNIDENT_CC) of which kernels came from the cache
_own_folder: list[Path] = []  # a cache of this process, where that on disk cannot be written


def cache_folder() -> Path:
    """Where compiled kernels are kept; never below the current folder, which may hold what others sent."""
    given = Path(os.environ.get("DYNIDENT_CACHE", ""))
    if given.is_absolute():
        return given
    folder = cache_home() / "dynident"
    if given.parts:
        _say_relative(str(given), str(folder))
    return folder


@functools.cache
def _say_relative(given: str, folder: str) -> None:
    logger.warning("DYNIDENT_CACHE=%s is no absolute path and counts as not set: compiled kernels are kept in %s.",
                   given, folder)


def compiler() -> str | None:
    """Path of a C compiler that works, or None."""
    return _compiler_for(os.environ.get("DYNIDENT_CC", ""))


def kernels_run() -> bool:
    """Whether kernels run as machine code here: some were in the cache, or a compiler works, which takes a while to try."""
    return os.environ.get("DYNIDENT_CC", "") in _served or compiler() is not None


@functools.cache
def _compiler_for(choice: str) -> str | None:
    fault = ""
    for found in _installed(choice):
        fault = _fault(found)
        if not fault:
            return found
    slower = "models run in CasADi's own machine, 10 to 50 times slower."
    if choice.lower() == "none":
        logger.info("No compiler is used (DYNIDENT_CC=none): %s", slower)
    else:
        said = f"The compiler '{choice}' does not work" if choice else "No C compiler was found"
        logger.warning("%s%s: %s", said, f" ({fault})" if fault else "", slower)
    return None


@functools.cache
def _installed(choice: str) -> tuple[str, ...]:
    """Compilers on this machine that may or may not work, the first the preferred one."""
    if choice.lower() == "none":
        return ()
    names = [choice] if choice else [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return tuple(dict.fromkeys(found for found in (shutil.which(name) for name in names if name) if found))


def _fault(path: str) -> str:
    """Why a compiler does not make a trivial library, or nothing; one without its headers or linker is none."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <math.h>\ndouble probe(double x) { return exp(x); }\n")
            return _failure(path, source, Path(folder, "probe.so"), PROBE_LIMIT)
    except OSError as reason:  # no folder to work in
        return no_space() if reason.errno in (errno.ENOSPC, errno.ENOENT, None) else str(reason)


def _flags(more_flags: tuple[str, ...]) -> tuple[str, ...]:
    """Ours, the user's, and what this kernel cannot do without; the last wins."""
    return (*FLAGS, *shlex.split(os.environ.get("DYNIDENT_CFLAGS", "")), *more_flags)


def _failure(cc: str, source: Path, made: Path, limit: float, more_flags: tuple[str, ...] = ()) -> str:
    """Compile a file; what went wrong in a few words, or nothing."""
    command = [cc, *_flags(more_flags), *LINK, str(source), "-o", str(made), "-lm"]
    lines = source.read_text().count("\n")
    run = run_compiler(command, f"a model ({lines:,} lines of C)", limit)
    return run.failure or ("" if made.exists() else f"{cc} wrote nothing")


@functools.cache
def _machine() -> str:
    """What -march=native depends on, so that a cache on a network drive serves unlike machines."""
    words = [platform.machine(), platform.processor(), platform.system()]
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        words += [line for line in cpuinfo.read_text().split("\n") if line.startswith(("flags", "model name"))][:2]
    return " ".join(words)


@functools.cache
def _version(path: str) -> str:
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=VERSION_LIMIT,
                             check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.split("\n")[0]


_environment = getattr(os.environ, "_data", os.environ)  # the dictionary behind it: to ask for what is not there takes it 2 us
_CHOICE = tuple(getattr(os.environ, "encodekey", str)(name) for name in ("DYNIDENT_CC", "DYNIDENT_CFLAGS"))


def compiler_choice() -> tuple[Any, Any]:
    """What the environment says of the compiler and its flags, as it is kept there."""
    return _environment.get(_CHOICE[0]), _environment.get(_CHOICE[1])


def remembered(maxsize: int | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Memory of a function that loads kernels: one answer for each compiler and its flags, `DYNIDENT_CC` and `DYNIDENT_CFLAGS`.

    A process whose choice of compiler changes must not go on with what another compiler gave, or did not give.
    """
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.lru_cache(maxsize=maxsize)
        def kept(_choice: tuple[str | None, ...], *arguments: Any) -> Any:
            return function(*arguments)

        @functools.wraps(function)
        def asked(*arguments: Any) -> Any:
            return kept(compiler_choice(), *arguments)

        asked.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return asked
    return decorate


@functools.lru_cache(maxsize=256)
def _opened(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def load_library(key: str, source: Callable[[], str], more_flags: Flags = ()) -> ctypes.CDLL | None:
    """The compiled form of `source()`, from the cache where it is there.

    `key` must determine the source (it is hashed with compiler, flags and machine), so that a second run neither
    generates nor compiles anything. `more_flags` come after all others and win over them; they may follow from the source.
    """
    global seconds_compiling
    folders = _readable_caches()
    choice = os.environ.get("DYNIDENT_CC", "")
    for cc in _installed(choice):
        for folder in folders:
            found = _kept(folder, _digest(key, cc, more_flags))
            if found is not None:
                _served.add(choice)
                return found
    began = time.perf_counter()
    working = compiler()
    library = None if working is None else _compile(working, source(), _digest(key, working, more_flags), more_flags)
    seconds_compiling += time.perf_counter() - began
    return library


def cached_code(key: str, make: Callable[[], bytes]) -> bytes:
    """Code of Python as bytes, from the cache by the rules of all that is kept here; `key` must determine it."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:NAME_LENGTH]
    for folder in _readable_caches():
        with suppress(OSError):
            if (found := _kept_path(folder, digest, CODE_SUFFIX)) is not None:
                return found.read_bytes()
    code = make()
    with suppress(OSError):  # a full disk: it is made again next time
        target = _writable_cache()
        with tempfile.TemporaryDirectory(dir=target) as name:
            made = Path(name, f"code{CODE_SUFFIX}")
            made.write_bytes(code)
            _store(made, Path(name, "note.txt"), digest, target)
    return code


def _readable_caches() -> list[Path]:
    return [*_own_folder] if _cache_fault(cache_folder()) else [cache_folder(), *_own_folder]


def cached_build(key: str, cc: str, build: Callable[[Path], None]) -> Path:
    """A library that `build` writes to the path it is given, from the cache where it is there; by the rules of all that is
    kept here. `key` must determine it together with the compiler. What `build` raises goes through."""
    digest = _digest(key, cc, ())
    for folder in _readable_caches():
        if (found := _kept_path(folder, digest)) is not None:
            return found
    target = _writable_cache()
    with tempfile.TemporaryDirectory(dir=target) as name:
        made = Path(name, f"library{library_suffix()}")
        build(made)
        return _store(made, Path(name, "note.txt"), digest, target)


def _digest(key: str, cc: str, more_flags: Flags) -> str:
    chosen = (more_flags.__name__,) if callable(more_flags) else more_flags
    words = (key, cc, _version(cc), _machine(), *_flags(chosen), *LINK)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:NAME_LENGTH]


def _kept(folder: Path, digest: str) -> ctypes.CDLL | None:
    """The library in a cache, opened; None where there is none that can be."""
    try:
        path = _kept_path(folder, digest)
        return None if path is None else _opened(str(path))
    except OSError:
        return None


def _kept_path(folder: Path, digest: str, suffix: str = library_suffix()) -> Path | None:
    """The library in a cache, or None where it is not there or not what it was when it was written."""
    try:
        note = Path(folder, f"{digest}.txt")
        content = note.read_text().strip()
        path = Path(folder, f"{content}{suffix}")
        if path.parent != folder or open_to_others(note) or open_to_others(path) or _content(path) != content:
            return None
        return path
    except (OSError, UnicodeDecodeError, ValueError):
        return None


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:NAME_LENGTH]


def _compile(cc: str, text: str, digest: str, more_flags: Flags) -> ctypes.CDLL | None:
    global libraries_compiled
    try:
        chosen = more_flags(text) if callable(more_flags) else more_flags
        library, failure = _made(cc, text, digest, _writable_cache(), chosen)
    except OSError as reason:  # the disk is full, or a folder from which nothing may be run
        library, failure = None, no_space(_writable_cache()) if reason.errno == errno.ENOSPC else str(reason)
    if library is None:
        logger.warning("A kernel could not be compiled (%s); CasADi's own machine is used for it.", failure)
    else:
        libraries_compiled += 1
    return library


def _made(cc: str, text: str, digest: str, target: Path, more_flags: tuple[str, ...]
          ) -> tuple[ctypes.CDLL | None, str]:
    """A new library in the cache, or why there is none."""
    with tempfile.TemporaryDirectory(dir=target) as folder:
        source, made, note = (Path(folder, f"kernel{suffix}") for suffix in (".c", library_suffix(), ".txt"))
        source.write_text(text)
        failure = _failure(cc, source, made, COMPILE_LIMIT, more_flags)
        if failure:
            return None, failure
        stored = _store(made, note, digest, target)
    return _opened(str(stored)), ""


def _store(made: Path, note: Path, digest: str, target: Path) -> Path:
    """A new library into the cache, under the hash of its content, and the note that says which it is."""
    content = _content(made)
    note.write_text(content)
    for file in (made, note):
        file.chmod(0o700)  # whatever the umask lets others do
    stored = target / f"{content}{made.suffix}"
    os.replace(made, stored)
    os.replace(note, target / f"{digest}.txt")
    return stored


def _cache_fault(folder: Path) -> str:
    """Why a folder that is there is not one to load code from, or nothing."""
    try:
        return open_to_others(folder) or replaceable_by_others(folder)
    except OSError:  # it is not there: nothing lies in it either
        return ""


def _writable_cache() -> Path:
    """The cache, or a private folder that lasts as long as this process; said once in the log."""
    if _own_folder:
        return _own_folder[0]
    folder = cache_folder()
    try:
        for each in (*reversed(folder.parents), folder):  # whatever the umask lets others do
            each.mkdir(exist_ok=True, mode=0o700)
        fault = _cache_fault(folder)
        if not fault:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError as reason:
        fault = f"it cannot be written ({reason.strerror})"
    logger.warning("Compiled kernels are kept for this run only, since %s is not a folder to load code from: %s. "
                   "DYNIDENT_CACHE chooses another folder.", folder, fault)
    _own_folder.append(Path(tempfile.mkdtemp(prefix="dynident-")))
    atexit.register(shutil.rmtree, _own_folder[0], ignore_errors=True)
    return _own_folder[0]
