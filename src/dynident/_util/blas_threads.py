"""BLAS threads: our matrices are tall and thin, and waking threads for them costs more than it brings.

OpenBLAS shares out any product of more than some ten thousand numbers. On arrays as small as ours two threads take twice the
CPU of one and no less time; whoever has many fits runs them in processes. The number of threads belongs to the user's process,
so it is changed only while a fit is at work, and put back. Another BLAS than those that NumPy and SciPy bring along is let be.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")
ONLY_IF_LOADED = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0)

_lock = threading.Lock()
_before: list[int] = []  # numbers of threads to put back
_inside = 0  # fits at work, in whichever thread


@contextmanager
def single_thread() -> Iterator[None]:
    """One thread within; the outermost of several at once puts back what was."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside
    with _lock:
        if not _inside:
            _before[:] = [ask() for ask, _ in _controls()]
            for _, say in _controls():
                say(1)
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if not _inside:
            for (_, say), count in zip(_controls(), _before, strict=True):
                say(count)


@functools.cache
def _controls() -> tuple[tuple[Callable[[], int], Callable[[int], object]], ...]:
    """Of each OpenBLAS that is loaded: how to ask for its number of threads, and how to say it."""
    found = []
    for path in _libraries():
        try:
            library = ctypes.CDLL(str(path), mode=ONLY_IF_LOADED)
        except OSError:  # not loaded
            continue
        for name in NAMES:
            ask, say = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
            if ask is not None and say is not None:
                say.restype = None
                found.append((ask, say))
                break
    return tuple(found)


def _libraries() -> list[Path]:
    """Where wheels of NumPy and SciPy keep their OpenBLAS."""
    paths: list[Path] = []
    for name in ("numpy", "scipy"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            package = Path(spec.origin).parent
            for folder in (package.parent / f"{name}.libs", package / ".dylibs"):
                paths += sorted(folder.glob("*openblas*")) if folder.is_dir() else []
    return paths
