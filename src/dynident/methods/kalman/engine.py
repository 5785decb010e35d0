"""Engine: the filter in C around generated stage functions, a record or a sample per call."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

import casadi as ca
import numpy as np

from dynident.errors import DynidentError
from dynident.kernels.compiler import load_library
from dynident.kernels.generate import c_source, kernel_text
from dynident.methods.kalman.options import COVARIANCE_UPDATES, KalmanMethod
from dynident.methods.kalman.rows import outputs_with_slopes, step_one_by_one, step_with_rows, tables
from dynident.methods.kalman.setup import Record, Setup
from dynident.methods.kalman.stages import stage_functions

ONE_BY_ONE, AT_ONCE = "elementary.c", "elementary_wide.c"  # functions of our own, for a number or for several
SOURCE_VERSION = 4  # part of the cache's key: raise it when `source_text` makes another text of the same recipe
UNUSED = re.compile(r"^CASADI_SYMBOL_EXPORT [^\n]*\}\n|^CASADI_SYMBOL_EXPORT .*?^\}\n"
                    r"|^static const casadi_int casadi_s.*?;\n", re.MULTILINE | re.DOTALL)
FAULTS = {1: "the estimate is no longer finite", 2: "the covariance is no longer positive", 3: "time goes back"}
WAY_OUT = {1: "Use a stabler integrator or more substeps, a smaller initial_std, or more process noise.",
           2: "Use {another}, more substeps, or give the states some process noise.",
           3: "Give samples in the order of time."}


class Stopped(DynidentError):
    """The filter could not go on; `sample` is where."""

    def __init__(self, fault: int, sample: int, time: float, record: str, method: KalmanMethod):
        self.fault, self.sample, self.time = fault, sample, time
        another = ('filter="extended"' if method.filter == "unscented" else 'covariance_update="square_root"'
                   if method.covariance_update != "square_root" else "a smaller initial_std")
        super().__init__(f"At t = {time:g} in '{record}' {FAULTS[fault]}. {WAY_OUT[fault].format(another=another)}")


class Layout:
    """Where each part of the kernels' structs stands in its flat array."""

    def __init__(self, setup: Setup):
        model = setup.augmented.model
        nx, nt, n = len(model.states), len(setup.augmented.free), setup.augmented.size
        nu, ny, np_ = len(model.inputs), len(model.outputs), len(model.parameters)
        self.n, self.nx, self.nu, self.ny = n, nx, nu, ny
        self.settings = _slices(p=max(np_, 1), q=n, per_sample=1, lower=max(nt, 1), upper=max(nt, 1),
                                linear=max(nu, 1), longest=1, gate=1)
        self.sample = _slices(x=n, variance=n, predicted=ny, whitened=ny, used=ny, nis=1, loglik=1, projected=1)
        self.link = _slices(P=n * n, A=nx * n, h=ny * n, c=ny * n, e=ny)

    def packed_settings(self, setup: Setup) -> np.ndarray:
        packed = np.zeros(self.settings["gate"].stop)
        for name, value in setup.settings().items():
            values = np.atleast_1d(np.asarray(value, float))
            packed[self.settings[name].start:self.settings[name].start + values.size] = values
        return packed


def _slices(**lengths: int) -> dict[str, slice]:
    found, at = {}, 0
    for name, length in lengths.items():
        found[name] = slice(at, at + length)
        at += length
    return found


@dataclass(frozen=True, eq=False)
class Later:
    """What all that comes after says about a state: x - P vector is its mean, P - P matrix P its covariance."""

    vector: np.ndarray  # (size,)
    matrix: np.ndarray  # (size, size)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A record with the whole of it known."""

    states: np.ndarray  # (samples, size)
    variances: np.ndarray  # (samples, size)
    P_first: np.ndarray  # (size, size) covariance at the first sample
    start: Later  # what the record says about where it started


class Engine(Protocol):
    """One filter: where it stands, and how it goes on. `x` and `P` are in the filter's coordinates."""

    layout: Layout

    def begin(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> None:
        """Forget everything; t: the time at which x holds (the first sample's where None)."""
        ...

    def hold(self, linear: np.ndarray) -> None:
        """How inputs move from here on: 1 linearly, 0 held."""
        ...

    def record(self, record: Record, links: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """(samples, fields of `layout.sample`) and, where asked for, what a smoother needs; raises Stopped."""
        ...

    def smooth(self, samples: np.ndarray, links: np.ndarray, later: Later) -> Smoothed:
        """Back over a record; `later` is what comes after it."""
        ...

    def updater(self, packed: np.ndarray, out: np.ndarray) -> Callable[[], int]:
        """A function that takes the sample in `packed` (t, inputs, outputs, variances), fills `out` with the fields of
        `layout.sample` and returns a fault, or 0."""
        ...

    def present(self) -> tuple[np.ndarray, np.ndarray]: ...

    def memory(self) -> np.ndarray:
        """Everything remembered, as numbers that `remember` takes back."""
        ...

    def remember(self, memory: np.ndarray) -> None: ...


def engine_for(setup: Setup) -> Engine:
    """The fastest engine that this machine can have."""
    library = _library(_Recipe(setup))
    if library is not None:
        return CompiledEngine(setup, library)
    return interpreted_engine(setup)


def interpreted_engine(setup: Setup) -> Engine:
    """The same filter without a compiler."""
    from dynident.methods.kalman.interpreted import InterpretedEngine
    from dynident.methods.kalman.interpreted_horizon import InterpretedHorizon

    return InterpretedHorizon(setup) if setup.method.filter == "horizon" else InterpretedEngine(setup)


class _Recipe:
    """Carries a setup through the cache below; equal where the source text would be."""

    def __init__(self, setup: Setup):
        self.setup = setup
        self.key = f"{setup.augmented.key()} {setup.integrator.name} {setup.method.filter} {defines(setup)}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recipe) and other.key == self.key


def defines(setup: Setup) -> dict[str, int]:
    """Sizes and choices that the kernels are compiled for."""
    method, model = setup.method, setup.augmented.model
    iterations = {"iterated": method.iterations, "horizon": method.iterations}.get(method.filter, 1)
    return {"NX": len(model.states), "NT": len(setup.augmented.free), "NU": len(model.inputs),
            "NY": len(model.outputs), "NP": len(model.parameters),
            "FORM": COVARIANCE_UPDATES.index(method.covariance_update), "ITERATIONS": iterations,
            "HORIZON": method.horizon if method.filter == "horizon" else 0}


def memory_size(setup: Setup) -> int:
    """Numbers in the kernels' memory: time, whether it started, inputs, mean, covariance, a window if there is one."""
    layout, nodes = Layout(setup), setup.method.horizon + 1
    n, nu, ny = layout.n, max(layout.nu, 1), max(layout.ny, 1)
    plain = 2 + nu + n + n * n
    return plain if setup.method.filter != "horizon" else plain + 1 + nodes * (1 + nu + 3 * ny + n) + n * n


def parts(filter_kind: str) -> tuple[str, ...]:
    """The kernel texts that make a filter, in the order in which they need each other."""
    own = {"unscented": ("filter_unscented.c",), "horizon": ("filter_adjoint.c", "filter_linear.c", "filter_horizon.c")}
    return ("filter_common.c", *own.get(filter_kind, ("filter_linear.c", "filter_extended.c")), "filter_begin.c")


def with_record_loop(filter_kind: str) -> tuple[str, ...]:
    own = parts(filter_kind)
    return (*own, *([] if "filter_adjoint.c" in own else ["filter_adjoint.c"]), "filter_record.c")


def source_text(setup: Setup, names: tuple[str, ...], more: Sequence[ca.Function] = (), lane: int | None = None) -> str:
    """The whole text of a filter; `more` functions are generated with it, `lane` 1 makes it plain C99."""
    augmented, integrator = setup.augmented, setup.integrator
    over_points = setup.method.filter == "unscented"
    if over_points:
        functions, rows = stage_functions(augmented, integrator), ""
    else:
        functions, rows = (step_one_by_one if lane == 1 else step_with_rows)(augmented, integrator)
        functions = [*functions, outputs_with_slopes(augmented)]
    generated = private_source([*functions, *more], AT_ONCE if over_points and lane != 1 else ONE_BY_ONE)
    choices = {**defines(setup), **({} if lane is None else {"LANE": lane})}
    sizes = "\n".join(f"#define {name} {value}" for name, value in choices.items())
    return "\n".join([sizes, kernel_text("filter_lanes.c"), generated, tables(augmented), rows, kernel_text(*names)])


def private_source(functions: Sequence[ca.Function], elementary: str) -> str:
    """Generated functions, all static so that they melt into the loop, without what only CasADi would ask of them; with
    our own tanh in front where they use one."""
    text = re.sub(r"^casadi_real casadi_", "static casadi_real casadi_", UNUSED.sub("", c_source(functions)),
                  flags=re.MULTILINE)
    names = "\n".join(f"#define {f.name()} casadi_f{k}" for k, f in enumerate(functions))
    front = kernel_text(elementary) if "tanh(" in text else ""
    return f"{front}\n{text}\n{names}"


@functools.lru_cache(maxsize=64)
def _library(recipe: _Recipe) -> ctypes.CDLL | None:
    names = with_record_loop(recipe.setup.method.filter)
    text = hashlib.sha256(kernel_text("filter_lanes.c", *names, ONE_BY_ONE, AT_ONCE).encode()).hexdigest()
    key = f"filter {SOURCE_VERSION} {text} casadi {version('casadi')} {recipe.key}"
    library = load_library(key, lambda: source_text(recipe.setup, names))
    if library is not None:
        declare(library)
    return library


def declare(library: ctypes.CDLL) -> None:
    pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_double
    library.dynident_filter_record.argtypes = [size, *[pointer] * 6, size, *[pointer] * 3]
    library.dynident_filter_update.argtypes = [pointer] * 4
    library.dynident_filter_begin.argtypes = [pointer, number, number, *[pointer] * 3]
    library.dynident_filter_present.argtypes = [pointer] * 3
    library.dynident_filter_present.restype = None
    library.dynident_filter_sizes.argtypes = [pointer]
    library.dynident_filter_sizes.restype = None
    library.dynident_filter_smooth.argtypes = [size, *[pointer] * 7]


class CompiledEngine:
    """The C library with its memory; one thread at a time."""

    def __init__(self, setup: Setup, library: ctypes.CDLL):
        self.layout, self.method = Layout(setup), setup.method
        self.library = library
        sizes = np.zeros(4, np.int64)
        library.dynident_filter_sizes(sizes.ctypes.data)
        self._memory = np.zeros(sizes[0])
        self.settings = self.layout.packed_settings(setup)
        self.sample_size, self.link_size = int(sizes[2]), int(sizes[3])
        assert sizes[1] == self.settings.size and self.sample_size == self.layout.sample["projected"].stop
        self._addresses = self._memory.ctypes.data, self.settings.ctypes.data

    def begin(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> None:
        x, P = np.ascontiguousarray(x, float), np.ascontiguousarray(P, float)
        held = np.zeros(max(self.layout.nu, 1)) if u is None else np.ascontiguousarray(u, float)
        since = 0.0 if t is None else t
        if self.library.dynident_filter_begin(self._addresses[0], since, float(t is not None), held.ctypes.data,
                                              x.ctypes.data, P.ctypes.data):
            raise Stopped(2, 0, since, "the start", self.method)

    def hold(self, linear: np.ndarray) -> None:
        self.settings[self.layout.settings["linear"]][:linear.size] = linear

    def record(self, record: Record, links: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        samples = len(record.time)
        out = np.empty((samples, self.sample_size))
        more = np.empty((samples, self.link_size)) if links else None
        where = ctypes.c_longlong(0)
        arrays = [record.time, record.inputs, record.outputs, np.ascontiguousarray(record.variance)]
        fault = self.library.dynident_filter_record(
            samples, *self._addresses, *[a.ctypes.data for a in arrays], len(record.variance), out.ctypes.data,
            None if more is None else more.ctypes.data, ctypes.byref(where))
        if fault:
            raise Stopped(fault, where.value, float(record.time[where.value]), record.name, self.method)
        return out, more

    def smooth(self, samples: np.ndarray, links: np.ndarray, later: Later) -> Smoothed:
        n = self.layout.n
        xs, vs, P = np.empty((len(samples), n)), np.empty((len(samples), n)), np.empty((n, n))
        vector, matrix = np.array(later.vector, float), np.array(later.matrix, float)
        fault = self.library.dynident_filter_smooth(len(samples), *[a.ctypes.data for a in (
            samples, links, xs, vs, P, vector, matrix)])
        if fault:
            raise Stopped(fault, 0, np.nan, "the smoother", self.method)
        return Smoothed(xs, vs, P, Later(vector, matrix))

    def updater(self, packed: np.ndarray, out: np.ndarray) -> Callable[[], int]:
        pointers = [ctypes.c_void_p(a) for a in (*self._addresses, packed.ctypes.data, out.ctypes.data)]
        return functools.partial(self.library.dynident_filter_update, *pointers)

    def present(self) -> tuple[np.ndarray, np.ndarray]:
        x, P = np.empty(self.layout.n), np.empty((self.layout.n, self.layout.n))
        self.library.dynident_filter_present(self._addresses[0], x.ctypes.data, P.ctypes.data)
        return x, P

    def memory(self) -> np.ndarray:
        return self._memory.copy()

    def remember(self, memory: np.ndarray) -> None:
        self._memory[:] = memory
