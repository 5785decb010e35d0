"""CVODE: an adaptive stiff solver for Model Exchange, to check the fixed steps; slow, since it calls back into Python.

It is CVODE of SUNDIALS (variable-order BDF) in the library that FMPy brings along. Each step of the loop begins anew:
inputs bend at samples, and events cut where they like.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from dynident.errors import NotSupported

TOLERANCE = 1e-10  # relative, and absolute as a share of the size of each state
SMALLEST_NOMINAL = 1e-3  # of a state in the absolute tolerance; the FMU's nominal values are often 1 whatever the state is
MOST_STEPS = 100_000  # inside of one step of the loop

Rates = Callable[[float, np.ndarray], np.ndarray]


class CvodeSolver:
    """CVODE from a state at a time to the state a step later; `rates` raises what it likes where the model fails.

    A handle of a solver in C, which calls back for states and rates: it is made at the first step.
    """

    def __init__(self) -> None:
        self.rates: Rates = lambda _, x: x
        self.x, self.time = np.zeros(0), 0.0
        self.failure: Exception | None = None
        self.solver: Any = None

    def step(self, rates: Rates, now: float, h: float, x: np.ndarray) -> np.ndarray | None:
        """None where the solver gave up."""
        self.rates, self.x, self.failure = rates, x.copy(), None
        if self.solver is None:
            self.solver = self._create(now)
        self.solver.reset(now)
        try:
            self.solver.step(now, now + h)
        except RuntimeError:
            if self.failure is None:
                return None
        if self.failure is not None:
            raise self.failure
        return self.x.copy()

    def _create(self, now: float) -> Any:
        try:
            from fmpy.sundials import CVodeSolver
        except Exception as error:  # the library may be missing for this platform
            raise NotSupported(f"integrator = \"cvodes\" needs the SUNDIALS library of FMPy, which cannot be loaded here: "
                               f"{error}. Use \"radau\".") from error
        return CVodeSolver(nx=self.x.size, nz=0, get_x=self._get, set_x=self._set, get_dx=self._get_rates,
                           get_z=lambda *_: 0, get_nominals=self._nominals, set_time=self._set_time, input=None,
                           startTime=now, relativeTolerance=TOLERANCE, maxNumSteps=MOST_STEPS)

    def _view(self, data: Any, count: int) -> np.ndarray:
        return np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_double)), (count,))

    def _get(self, data: Any, count: int) -> None:
        self._view(data, count)[:] = self.x

    def _set(self, data: Any, count: int) -> None:
        self.x[:] = self._view(data, count)

    def _nominals(self, data: Any, count: int) -> None:
        self._view(data, count)[:] = np.maximum(np.abs(self.x), SMALLEST_NOMINAL)

    def _set_time(self, now: float) -> None:
        self.time = now

    def _get_rates(self, data: Any, count: int) -> None:
        try:
            self._view(data, count)[:] = self.rates(self.time, self.x.copy())
        except Exception as error:  # must not pass through the solver's C code
            self.failure = self.failure or error
            self._view(data, count)[:] = np.nan
