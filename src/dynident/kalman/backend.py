"""Backend: the contract of a filter loop, what it keeps and gives per sample, and which one this machine can have.

A backend holds no state. What a filter knows is its *memory*, a flat array that `initialize` makes, `filter_record` takes
and gives back, and an `updater` goes on with in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident.errors import DynidentError
from dynident.kalman.method import FilterMethod
from dynident.kalman.setup import FilterExperiment, FilterSetup

NOT_FINITE, NOT_POSITIVE, TIME_GOES_BACK = 1, 2, 3  # as in filter_common.c; 0 is no fault
FAULTS = {NOT_FINITE: "the estimate is no longer finite", NOT_POSITIVE: "the covariance is no longer positive",
          TIME_GOES_BACK: "time goes back"}
WAY_OUT = {NOT_FINITE: "Use a stabler integrator or more substeps, a smaller initial_std, or more process noise.",
           NOT_POSITIVE: "Use {another}, more substeps, or give the states some process noise.",
           TIME_GOES_BACK: "Give samples in the order of time."}


class FilterStopped(DynidentError):
    """The filter could not go on; `sample` is where."""

    def __init__(self, fault: int, sample: int, time: float, record: str, method: FilterMethod):
        self.fault, self.sample, self.time = fault, sample, time
        another = ('filter="extended"' if method.filter == "unscented" else 'covariance_update="square_root"'
                   if method.covariance_update != "square_root" else "a smaller initial_std")
        super().__init__(f"At t = {time:g} in '{record}' {FAULTS[fault]}. {WAY_OUT[fault].format(another=another)}")


class FilterLayout:
    """Where each part of the kernels' structs stands in its flat array."""

    def __init__(self, setup: FilterSetup):
        model = setup.augmented.model
        nx, nt, n = len(model.states), len(setup.augmented.free), setup.augmented.size
        nu, ny, np_ = len(model.inputs), len(model.outputs), len(model.parameters)
        self.n, self.nx, self.nu, self.ny = n, nx, nu, ny
        self.settings = _slices(p=max(np_, 1), q=n, per_sample=1, lower=max(nt, 1), upper=max(nt, 1),
                                first_order_hold=max(nu, 1), max_step=1, gate=1)
        self.sample = _slices(x=n, variance=n, predicted=ny, whitened=ny, used=ny, nis=1, loglik=1, projected=1)
        self.smoother_data = _slices(P=n * n, A=nx * n, h=ny * n, c=ny * n, e=ny)

    @property
    def sample_size(self) -> int:
        return self.sample["projected"].stop

    def pack_settings(self, setup: FilterSetup) -> np.ndarray:
        """What the kernels are told once, as their flat array."""
        packed = np.zeros(self.settings["gate"].stop)
        for name, value in setup.settings().items():
            values = np.atleast_1d(np.asarray(value, float))
            packed[self.settings[name].start:self.settings[name].start + values.size] = values
        return packed


def _slices(**lengths: int) -> dict[str, slice]:
    ends = np.cumsum(list(lengths.values()))
    return {name: slice(int(end) - length, int(end)) for (name, length), end in zip(lengths.items(), ends, strict=True)}


@dataclass(frozen=True, eq=False)
class AdjointState:
    """What all that comes after says about a state: x - P vector is its mean, P - P matrix P its covariance."""

    vector: np.ndarray  # (size,)
    matrix: np.ndarray  # (size, size)

    @classmethod
    def zero(cls, size: int) -> AdjointState:
        """Nothing comes after."""
        return cls(np.zeros(size), np.zeros((size, size)))


@dataclass(frozen=True, eq=False)
class FilteredSamples:
    """A record as the filter went over it."""

    samples: np.ndarray  # (samples, fields of `layout.sample`)
    smoother_data: np.ndarray | None  # (samples, fields of `layout.smoother_data`)
    memory: np.ndarray  # after the last sample


@dataclass(frozen=True, eq=False)
class SmoothedSamples:
    """A record with the whole of it known."""

    states: np.ndarray  # (samples, size)
    variances: np.ndarray  # (samples, size)
    P_first: np.ndarray  # (size, size) covariance at the first sample
    start: AdjointState  # what the record says about where it started


class FilterBackend(Protocol):
    """One filter loop. `x` and `P` are in the filter's coordinates; a fault raises FilterStopped."""

    layout: FilterLayout

    def initialize(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> np.ndarray:
        """A memory that knows only this; t: the time at which x holds (the first sample's where None)."""
        ...

    def filter_record(self, memory: np.ndarray, record: FilterExperiment, for_smoother: bool = False) -> FilteredSamples:
        """All samples of a record; `memory` stays as it is."""
        ...

    def smooth(self, samples: np.ndarray, smoother_data: np.ndarray, future: AdjointState) -> SmoothedSamples:
        """Back over a record (RTS smoother); `future` is what comes after it."""
        ...

    def updater(self, memory: np.ndarray, first_order_hold: np.ndarray, packed: np.ndarray, out: np.ndarray
                ) -> Callable[[], int]:
        """A function that takes the sample in `packed` (t, inputs, outputs, variances), goes on in `memory`, fills `out`
        with the fields of `layout.sample` and returns a fault, or 0."""
        ...

    def estimate(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        ...


def backend_for(setup: FilterSetup) -> FilterBackend:
    """The fastest backend that this machine can have; a model without equations has no compiled one."""
    from dynident.kalman.compiled_filter import CompiledFilter, library_for

    library = library_for(setup) if setup.simulated is None else None
    return interpreted_backend(setup) if library is None else CompiledFilter(setup, library)


def interpreted_backend(setup: FilterSetup) -> FilterBackend:
    """The same filter without a compiler."""
    from dynident.kalman.interpreted_filter import InterpretedFilter

    return InterpretedFilter(setup)
