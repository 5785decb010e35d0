"""Loop kernel: the compiled loop of fmu.c, where this machine can have it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from importlib import resources

from dynident.codegen.compiler import load_library


def kernel() -> ctypes.CDLL | None:
    return _kernel(os.environ.get("DYNIDENT_CC", ""))


@functools.cache
def _kernel(_: str) -> ctypes.CDLL | None:
    parts = resources.files("dynident.codegen")
    text = "".join(parts.joinpath(name).read_text() for name in ("fmu.c", "fmu_model_exchange.c", "fmu_directional.c"))
    library = load_library(f"fmu {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer, real, number = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
        library.dynident_fmu_cosimulate.argtypes = [pointer, pointer, real, real, number, real, pointer, pointer]
        library.dynident_fmu_exchange.argtypes = [pointer, pointer, number, number, pointer, pointer]
        library.dynident_fmu_slopes.argtypes = [pointer] * 6
        library.dynident_fmu_log.restype = ctypes.c_char_p
        library.dynident_fmu_log_clear.restype = None
    return library
