"""Batched function: one function evaluated for many columns of arguments, compiled once whatever their number."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import casadi as ca
import numpy as np

from dynident.codegen.c_source import c_source
from dynident.codegen.compiler import load_library

# One loop per function: pointers of the arguments move by a stride, 0 for what is the same in all columns.
LOOP = """
void {name}_columns(long long count, const double **arg, const long long *step, double **res, const long long *width) {{
  const double *a[{n_in}]; double *r[{n_out}]; long long k; int i;
  for (k = 0; k < count; k++) {{
    for (i = 0; i < {n_in}; i++) a[i] = arg[i] + k * step[i];
    for (i = 0; i < {n_out}; i++) r[i] = res[i] + k * width[i];
    {name}(a, r, 0, 0, 0);
  }}
}}
"""
COLUMNS_WORTH_A_THREAD = 20_000  # columns; below it a thread costs more than it saves


class BatchedFunction:
    """Functions by name; results come as (columns, nonzeros), a sparse matrix as its nonzeros column by column."""

    def __init__(self, key: str, functions: Callable[[], Sequence[ca.Function]]):
        made: list[ca.Function] = []

        def source() -> str:
            made.extend(functions())
            loops = (LOOP.format(name=f.name(), n_in=max(1, f.n_in()), n_out=f.n_out()) for f in made)
            return c_source(made) + "\n".join(loops)

        self.library = load_library(f"mapped {key} casadi {ca.__version__} {LOOP}", source)  # type: ignore[attr-defined]
        self.functions = {f.name(): f for f in (made or functions())}

    def __call__(self, name: str, arguments: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
        """`arguments`: (count, size) where they differ from column to column, (size,) where they do not."""
        f = self.functions[name]
        if self.library is None:
            return self._interpreted(f, arguments, count)
        arrays = [np.ascontiguousarray(a, dtype=float) for a in arguments]
        step = [0 if a.ndim == 1 else a.shape[1] for a in arrays]
        results = [np.empty((count, f.nnz_out(i))) for i in range(f.n_out())]
        loop = getattr(self.library, f"{name}_columns")

        def run(begin: int, end: int) -> None:
            pointers = (ctypes.c_void_p * max(1, len(arrays)))(*[
                a.ctypes.data + 8 * begin * s for a, s in zip(arrays, step, strict=True)])
            places = (ctypes.c_void_p * len(results))(*[r.ctypes.data + 8 * begin * r.shape[1] for r in results])
            loop(ctypes.c_longlong(end - begin), pointers, (ctypes.c_longlong * max(1, len(step)))(*step), places,
                 (ctypes.c_longlong * len(results))(*[r.shape[1] for r in results]))

        threads = min(cpu_count() or 1, count // COLUMNS_WORTH_A_THREAD)
        if threads < 2:
            run(0, count)
        else:  # the compiled functions keep nothing between calls, so that threads may share them
            edges = np.linspace(0, count, threads + 1).astype(int)
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(run, edges[:-1].tolist(), edges[1:].tolist()))
        return results

    def _interpreted(self, f: ca.Function, arguments: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
        columns = []
        for i, a in enumerate(arguments):
            wide = a if a.ndim == 2 else np.tile(a, (count, 1))
            columns.append(ca.DM(f.size1_in(i), count) if f.size1_in(i) == 0 else wide.T)
        results = f.map(count).call(columns)
        return [np.asarray(ca.DM(r).nonzeros()).reshape(count, f.nnz_out(i)) for i, r in enumerate(results)]
