"""Arrowhead library: the compiled loops of arrowhead least squares and of steps within bounds, made once for all models."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Any

import numpy as np

from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library
from dynident.codegen.pointers import address


@functools.cache
def arrowhead_library() -> ctypes.CDLL | None:
    text = kernel_text("vectors.c", "householder.c", "arrowhead.c", "bounded_step.c")
    library = load_library(f"arrowhead {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer: Any = ctypes.c_void_p
        stack: list[Any] = [ctypes.c_longlong, ctypes.c_int, ctypes.c_int, pointer]
        library.dynident_arrowhead_reduce.argtypes = [ctypes.c_longlong, *[ctypes.c_int] * 3, *[pointer] * 5]
        library.dynident_arrowhead_solve.argtypes = [*stack, *[pointer] * 4]
        library.dynident_arrowhead_solve_transposed.argtypes = [*stack, pointer, pointer]
        library.dynident_arrowhead_small_diagonal.argtypes = [*stack, pointer, pointer, ctypes.c_double]
        library.dynident_damped_step.argtypes = [*stack, *[pointer] * 3, ctypes.c_int, *[pointer] * 3, ctypes.c_double,
                                                 *[pointer] * 4]
        for call in (library.dynident_arrowhead_squares, library.dynident_arrowhead_left):
            call.argtypes, call.restype = [*stack, *[pointer] * 3], ctypes.c_double
    return library


def reduce_blocks(library: ctypes.CDLL, blocks: int, m: int, k: int, shared: int, rows: int, own: int, lengths: int,
            top: np.ndarray | None, border: np.ndarray) -> None:
    """Rows (blocks, m, own + shared + 1) to `top`, (blocks, own, ...), and what is left joined to the border."""
    into = 0 if top is None else address(top)
    if library.dynident_arrowhead_reduce(blocks, m, k, shared, rows, own, lengths, into, address(border)):
        raise MemoryError("the elimination of unknowns is out of memory")


def raise_if_singular(singular: int) -> None:
    """As NumPy says it."""
    if singular:
        raise np.linalg.LinAlgError("Singular matrix")
