"""Compiler: C source in, loaded library out; compiled once and kept on disk by content.

Where there is no working C compiler, `load_library` returns None and the caller uses CasADi's own machine. This is
said once in the log. Set DYNIDENT_CC to choose a compiler, DYNIDENT_CC=none to do without, DYNIDENT_CACHE to move the
cache.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger("dynident")

FLAGS = ("-O2", "-ftree-vectorize", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
LINK = ("-Wl,-Bsymbolic",) if sys.platform.startswith("linux") else ()  # a kernel's names must not meet libc's
COMPILE_LIMIT = 600  # seconds; a model that takes longer is better off in CasADi's own machine

seconds_compiling = 0.0  # in this process, so that a result can say where its time went
libraries_compiled = 0


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    given = os.environ.get("DYNIDENT_CACHE")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dynident"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dynident"


@functools.cache
def _compiler_for(choice: str) -> str | None:
    if choice.lower() == "none":
        logger.info("No compiler is used (DYNIDENT_CC=none): models run in CasADi's own machine, 10 to 50 times slower.")
        return None
    for name in [choice] if choice else [os.environ.get("CC", ""), "cc", "gcc", "clang"]:
        found = shutil.which(name) if name else None
        if found and _works(found):
            return found
    said = f"The compiler '{choice}' does not work" if choice else "No C compiler was found"
    logger.warning("%s: models run in CasADi's own machine, 10 to 50 times slower.", said)
    return None


def compiler() -> str | None:
    """Path of the C compiler, or None."""
    return _compiler_for(os.environ.get("DYNIDENT_CC", ""))


def _works(path: str) -> bool:
    """Compiles and links a trivial library; a compiler without its headers or linker is none."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <math.h>\ndouble probe(double x) { return exp(x); }\n")
        run = subprocess.run([path, *FLAGS, *LINK, str(source), "-o", str(Path(folder, "probe.so")), "-lm"],
                             capture_output=True, timeout=60, check=False)
        return run.returncode == 0


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
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]


@functools.lru_cache(maxsize=256)
def _opened(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def load_library(key: str, source: Callable[[], str]) -> ctypes.CDLL | None:
    """The compiled form of `source()`, from the cache where it is there.

    `key` must determine the source (it is hashed with compiler, flags and machine), so that a second run neither
    generates nor compiles anything.
    """
    cc = compiler()
    if cc is None:
        return None
    words = (key, cc, _version(cc), _machine(), *FLAGS, *LINK)
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()
    path = cache_folder() / f"{digest[:40]}.so"
    if path.exists():
        try:
            return _opened(str(path))
        except OSError:
            path.unlink(missing_ok=True)  # damaged: made again
    return _opened(str(path)) if _compile(cc, source(), path) else None


def _compile(cc: str, text: str, path: Path) -> bool:
    """Compile aside and rename: two processes that make the same kernel do not meet half a file."""
    global seconds_compiling, libraries_compiled
    began = time.perf_counter()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        source, made = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        source.write_text(text)
        try:
            run = subprocess.run([cc, *FLAGS, *LINK, str(source), "-o", str(made), "-lm"],
                                 capture_output=True, text=True, timeout=COMPILE_LIMIT, check=False)
            failure = run.stderr.strip().split("\n")[0] if run.returncode else ""
        except subprocess.TimeoutExpired:
            failure = f"more than {COMPILE_LIMIT} s"
        if failure:
            logger.warning("A kernel could not be compiled (%s); CasADi's own machine is used for it.", failure)
            return False
        os.replace(made, path)
    seconds_compiling += time.perf_counter() - began
    libraries_compiled += 1
    return True
