"""Compiled filter: the C text of a filter around generated model functions, its library, and calls into it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import casadi as ca
import numpy as np

from dynident.codegen.c_source import c_source, kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.kalman.backend import (
    NOT_POSITIVE,
    AdjointState,
    FilteredSamples,
    FilterLayout,
    FilterStopped,
    SmoothedSamples,
)
from dynident.kalman.method import COVARIANCE_UPDATES
from dynident.kalman.model_functions import (
    functions_without_derivatives,
    output_jacobian,
    sparsity_tables,
    step_jacobian_by_rows,
    step_jacobian_scalar,
)
from dynident.kalman.setup import FilterExperiment, FilterSetup

SCALAR_FUNCTIONS, SIMD_FUNCTIONS = "elementary.c", "elementary_simd.c"  # tanh of our own, for a number or for several
FILTER_SOURCE_VERSION = 7  # part of the cache's key: raise it when `source_text` makes another text of the same recipe
UNUSED = re.compile(r"^CASADI_SYMBOL_EXPORT [^\n]*\}\n|^CASADI_SYMBOL_EXPORT .*?^\}\n"
                    r"|^static const casadi_int casadi_s.*?;\n", re.MULTILINE | re.DOTALL)


def compile_time_sizes(setup: FilterSetup) -> dict[str, int]:
    """Sizes and choices that the kernels are compiled for."""
    method, model = setup.method, setup.augmented.model
    iterations = method.iterations if method.filter in ("iterated", "horizon") else 1
    return {"NX": len(model.states), "NT": len(setup.augmented.free), "NU": len(model.inputs),
            "NY": len(model.outputs), "NP": len(model.parameters),
            "FORM": COVARIANCE_UPDATES.index(method.covariance_update), "ITERATIONS": iterations,
            "HORIZON": method.horizon if method.filter == "horizon" else 0}


def memory_size(setup: FilterSetup) -> int:
    """Numbers in the kernels' memory: time, whether it started, inputs, mean, covariance, a window if there is one."""
    layout, nodes = FilterLayout(setup), setup.method.horizon + 1
    n, nu, ny = layout.n, max(layout.nu, 1), max(layout.ny, 1)
    plain = 2 + nu + n + n * n
    return plain if setup.method.filter != "horizon" else plain + 1 + nodes * (1 + nu + 3 * ny + n) + n * n


def filter_text(*names: str) -> str:
    """Kernels of this folder, one behind the other."""
    return kernel_text(*(f"kalman/{name}" for name in names))


def update_kernels(filter_kind: str) -> tuple[str, ...]:
    """The kernel texts that make a filter, in the order in which they need each other."""
    own = {"unscented": ("filter_unscented.c",), "horizon": ("filter_adjoint.c", "filter_linear.c", "filter_horizon.c")}
    return ("filter_common.c", *own.get(filter_kind, ("filter_linear.c", "filter_extended.c")), "filter_initialize.c")


def record_kernels(filter_kind: str) -> tuple[str, ...]:
    """The same with the loop over a record and the smoother."""
    own = update_kernels(filter_kind)
    return (*own, *([] if "filter_adjoint.c" in own else ["filter_adjoint.c"]), "filter_record.c")


def source_text(setup: FilterSetup, names: tuple[str, ...], more: Sequence[ca.Function] = (), lane: int | None = None
                ) -> str:
    """The whole text of a filter; `more` functions are generated with it, `lane` 1 makes it plain C99."""
    augmented, integrator = setup.augmented, setup.integrator
    unscented = setup.method.filter == "unscented"
    if unscented:
        functions, step = functions_without_derivatives(augmented, integrator), ""
    else:
        scalar = lane == 1 or integrator.linearly_implicit  # whose derivative is no sum of rows
        functions, step = (step_jacobian_scalar if scalar else step_jacobian_by_rows)(augmented, integrator)
        functions = [*functions, output_jacobian(augmented)]
    generated = _static_source([*functions, *more], SIMD_FUNCTIONS if unscented and lane != 1 else SCALAR_FUNCTIONS)
    choices = {**compile_time_sizes(setup), **({} if lane is None else {"LANE": lane})}
    sizes = "\n".join(f"#define {name} {value}" for name, value in choices.items())
    return "\n".join([sizes, filter_text("filter_simd.c"), generated, sparsity_tables(augmented), step,
                      filter_text(*names)])


def _static_source(functions: Sequence[ca.Function], elementary: str) -> str:
    """Generated functions, all static so that they are inlined into the loop, without what only CasADi would ask of them;
    with our own tanh in front where they use one."""
    text = re.sub(r"^casadi_real casadi_", "static casadi_real casadi_", UNUSED.sub("", c_source(functions)),
                  flags=re.MULTILINE)
    names = "\n".join(f"#define {f.name()} casadi_f{k}" for k, f in enumerate(functions))
    front = kernel_text(elementary) if "tanh(" in text else ""
    return f"{front}\n{text}\n{names}"


@dataclass(frozen=True)
class FilterRecipe:
    """A setup on its way through a cache; equal where the source text would be."""

    key: str
    setup: FilterSetup = field(compare=False)


def library_for(setup: FilterSetup) -> ctypes.CDLL | None:
    """The compiled filter, or None where there is no compiler."""
    return _library(FilterRecipe(f"{setup.augmented.key()} {setup.integrator.name} {setup.method.filter} "
                                 f"{compile_time_sizes(setup)}", setup))


@remembered(maxsize=64)
def _library(recipe: FilterRecipe) -> ctypes.CDLL | None:
    names = record_kernels(recipe.setup.method.filter)
    text = filter_text("filter_simd.c", *names) + kernel_text(SCALAR_FUNCTIONS, SIMD_FUNCTIONS)
    key = (f"filter {FILTER_SOURCE_VERSION} {hashlib.sha256(text.encode()).hexdigest()} casadi {version('casadi')} "
           f"{recipe.key}")
    library = load_library(key, lambda: source_text(recipe.setup, names))
    return None if library is None else declare_arguments(library)


def declare_arguments(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_double
    library.dynident_filter_record.argtypes = [size, *[pointer] * 6, size, *[pointer] * 3]
    library.dynident_filter_update.argtypes = [pointer] * 4
    library.dynident_filter_initialize.argtypes = [pointer, number, number, *[pointer] * 3]
    library.dynident_filter_estimate.argtypes = [pointer] * 3
    library.dynident_filter_estimate.restype = None
    library.dynident_filter_sizes.argtypes = [pointer]
    library.dynident_filter_sizes.restype = None
    library.dynident_filter_smooth.argtypes = [size, *[pointer] * 7]
    return library


class CompiledFilter:
    """The backend in C."""

    def __init__(self, setup: FilterSetup, library: ctypes.CDLL):
        self.layout, self.setup, self.library = FilterLayout(setup), setup, library
        sizes = np.zeros(4, np.int64)
        library.dynident_filter_sizes(sizes.ctypes.data)
        self.memory_size, settings_size, sample_size, self.smoother_data_size = (int(size) for size in sizes)
        self.settings = self.layout.pack_settings(setup)
        assert settings_size == self.settings.size and sample_size == self.layout.sample_size

    def initialize(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> np.ndarray:
        memory = np.zeros(self.memory_size)
        x, P = np.ascontiguousarray(x, float), np.ascontiguousarray(P, float)
        inputs = np.zeros(max(self.layout.nu, 1)) if u is None else np.ascontiguousarray(u, float)
        since = 0.0 if t is None else t
        if self.library.dynident_filter_initialize(memory.ctypes.data, since, float(t is not None), inputs.ctypes.data,
                                                   x.ctypes.data, P.ctypes.data):
            raise FilterStopped(NOT_POSITIVE, 0, since, "the start", self.setup.method)
        return memory

    def filter_record(self, memory: np.ndarray, record: FilterExperiment, for_smoother: bool = False) -> FilteredSamples:
        samples = len(record.time)
        out = np.empty((samples, self.layout.sample_size))
        smoother_data = np.empty((samples, self.smoother_data_size)) if for_smoother else None
        where, after = ctypes.c_longlong(0), memory.copy()
        arrays = [after, self._settings_with(record.first_order_hold), record.time, record.inputs,
                  record.outputs, np.ascontiguousarray(record.variance)]
        fault = self.library.dynident_filter_record(
            samples, *[a.ctypes.data for a in arrays], len(record.variance), out.ctypes.data,
            None if smoother_data is None else smoother_data.ctypes.data, ctypes.byref(where))
        if fault:
            raise FilterStopped(fault, where.value, float(record.time[where.value]), record.name, self.setup.method)
        return FilteredSamples(out, smoother_data, after)

    def smooth(self, samples: np.ndarray, smoother_data: np.ndarray, future: AdjointState) -> SmoothedSamples:
        n = self.layout.n
        xs, vs, P = np.empty((len(samples), n)), np.empty((len(samples), n)), np.empty((n, n))
        vector, matrix = np.array(future.vector, float), np.array(future.matrix, float)
        fault = self.library.dynident_filter_smooth(len(samples), *[a.ctypes.data for a in (
            samples, smoother_data, xs, vs, P, vector, matrix)])
        if fault:
            raise FilterStopped(fault, 0, np.nan, "the smoother", self.setup.method)
        return SmoothedSamples(xs, vs, P, AdjointState(vector, matrix))

    def updater(self, memory: np.ndarray, first_order_hold: np.ndarray, packed: np.ndarray, out: np.ndarray
                ) -> Callable[[], int]:
        arrays = memory, self._settings_with(first_order_hold), packed, out
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]  # which keep their arrays alive
        return functools.partial(self.library.dynident_filter_update, *pointers)

    def _settings_with(self, first_order_hold: np.ndarray) -> np.ndarray:
        settings = self.settings.copy()
        settings[self.layout.settings["first_order_hold"]][:first_order_hold.size] = first_order_hold
        return settings

    def estimate(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, P = np.empty(self.layout.n), np.empty((self.layout.n, self.layout.n))
        self.library.dynident_filter_estimate(memory.ctypes.data, x.ctypes.data, P.ctypes.data)
        return x, P
