"""Interpreted filter: the backend without a compiler, a sample at a time; the extended filter a hundred steps at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dynident.kalman import filter_extended, filter_horizon, filter_unscented
from dynident.kalman.backend import AdjointState, FilteredSamples, FilterStopped, SmoothedSamples
from dynident.kalman.filter_adjoint import smooth
from dynident.kalman.filter_common import FilterFault, FilterModel, FilterState
from dynident.kalman.filter_record import RecordLoop
from dynident.kalman.setup import FilterExperiment, FilterSetup

UPDATES: dict[str, Callable[..., Any]] = {
    "extended": filter_extended.update, "iterated": filter_extended.update, "unscented": filter_unscented.update,
    "horizon": filter_horizon.update}  # by the option `filter`


class InterpretedFilter:
    """The backend in NumPy and, for whole records of the extended filter, in CasADi's own machine."""

    def __init__(self, setup: FilterSetup):
        self.setup, self.model = setup, FilterModel.of(setup)
        self.layout = self.model.layout
        self.update = UPDATES[setup.method.filter]

    @cached_property
    def record_loop(self) -> RecordLoop:
        return RecordLoop(self.setup)

    def initialize(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> np.ndarray:
        make = (filter_horizon if self.setup.method.filter == "horizon" else filter_extended).initial_state
        try:
            return self._packed(make(self.model, x, P, t, u))
        except FilterFault as fault:
            raise FilterStopped(fault.code, 0, 0.0 if t is None else t, "the start", self.setup.method) from None

    def filter_record(self, memory: np.ndarray, record: FilterExperiment, for_smoother: bool = False) -> FilteredSamples:
        method = self.setup.method
        symbolic = self.setup.simulated is None and not for_smoother
        if symbolic and method.filter in ("extended", "iterated") and method.covariance_update != "square_root":
            samples, state = self.record_loop.run(FilterState.from_array(self.layout, memory), record)
            return FilteredSamples(samples, None, state.to_array())
        model, state = self.model.with_hold(record.first_order_hold), self._state(memory)
        rows, variance = [], np.broadcast_to(record.variance, record.outputs.shape)
        for k, t in enumerate(record.time):
            try:
                step = self.update(model, state, float(t), record.inputs[k], record.outputs[k], variance[k])
            except FilterFault as fault:
                raise FilterStopped(fault.code, k, float(t), record.name, method) from None
            rows.append(step)
            state = step.state
        return FilteredSamples(np.array([step.sample for step in rows]),
                               np.array([step.smoother_data for step in rows]) if for_smoother else None,
                               self._packed(state))

    def smooth(self, samples: np.ndarray, smoother_data: np.ndarray, future: AdjointState) -> SmoothedSamples:
        return smooth(self.layout, samples, smoother_data, future, jointly=self.setup.method.filter == "unscented")

    def updater(self, memory: np.ndarray, first_order_hold: np.ndarray, packed: np.ndarray, out: np.ndarray
                ) -> Callable[[], int]:
        model = self.model.with_hold(first_order_hold)
        u, y, r = np.split(packed[1:], np.cumsum([self.layout.nu, self.layout.ny]))  # views, not copies

        def take_sample() -> int:
            try:
                step = self.update(model, self._state(memory), float(packed[0]), u, y, r)
            except FilterFault as fault:
                return fault.code
            out[:], memory[:] = step.sample, self._packed(step.state)
            return 0

        return take_sample

    def estimate(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state: Any = self._state(memory)
        form = filter_extended.FORMS[self.setup.method.covariance_update]
        if isinstance(state, FilterState):
            return state.x, form.full(state.P)
        return (state.window[-1].at if state.window else state.x), form.full(state.P_newest)

    def _state(self, memory: np.ndarray) -> Any:
        if self.setup.method.filter == "horizon":
            return filter_horizon.HorizonState.from_array(self.layout, self.setup.method.horizon, memory)
        return FilterState.from_array(self.layout, memory)

    def _packed(self, state: Any) -> np.ndarray:
        return state.to_array(self.layout, self.setup.method.horizon) if self.setup.method.filter == "horizon" else (
            state.to_array())
