"""BLAS threads: our matrices are tall and thin, and waking threads for them costs more than it brings.

OpenBLAS shares out any product of more than some ten thousand numbers. On arrays as small as ours two threads take twice the
CPU of one and no less time, and where cores are shared they wait for each other; whoever has many fits runs them in processes.
The number of threads belongs to the user's process, so it is changed only while one of our verbs is at work, and put back.
Another BLAS than those that NumPy, SciPy and CasADi bring along is let be.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from dynident._util.operating_system import library_if_loaded

NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")

Control: TypeAlias = tuple[Callable[[], int], Callable[[int], object]]  # asks for the number of threads, says it

_lock = threading.Lock()
_controls: dict[Path, Control] = {}  # of each OpenBLAS that is loaded
_before: dict[Path, int] = {}  # numbers of threads to put back
_inside = 0  # fits at work, in whichever thread
_modules = 0  # that were imported when libraries were last looked for


@contextmanager
def single_thread(look_again: bool = False) -> Iterator[None]:
    """One thread within; the outermost of several at once puts back what was.

    `look_again`: a library may have come without an import, as CasADi's comes with the first program that is given to Ipopt.
    """
    _enter(look_again)
    try:
        yield
    finally:
        _leave()


def _enter(look_again: bool) -> None:
    global _inside, _modules
    with _lock:
        _inside += 1
        try:
            if look_again or _modules != len(sys.modules):
                _modules = len(sys.modules)
                loaded()
            for path, (ask, say) in _controls.items():
                if path not in _before:
                    _before[path] = ask()
                    say(1)
        except BaseException:  # Ctrl-C too: nobody will leave
            _put_back()
            raise


def _leave() -> None:
    with _lock:
        _put_back()


def _put_back() -> None:
    global _inside
    _inside -= 1
    if not _inside:
        for path, count in _before.items():
            _controls[path][1](count)
        _before.clear()


def loaded() -> dict[Path, Control]:
    """Of each OpenBLAS that is loaded by now: how to ask for its number of threads, and how to say it."""
    for path in _libraries():
        if path in _controls:
            continue
        library = library_if_loaded(path)
        if library is None:
            continue
        for name in NAMES:
            ask, say = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
            if ask is not None and say is not None:
                say.restype = None
                _controls[path] = ask, say
                break
    return _controls


@functools.cache
def _libraries() -> tuple[Path, ...]:
    """Where wheels of NumPy, SciPy and CasADi keep their OpenBLAS."""
    paths: list[Path] = []
    for name in ("numpy", "scipy", "casadi"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            package = Path(spec.origin).parent
            for folder in (package.parent / f"{name}.libs", package / ".dylibs", package):
                paths += sorted(folder.glob("*openblas*")) if folder.is_dir() else []
    return tuple(paths)
