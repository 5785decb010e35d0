"""Slopes: derivatives of a simulation from the directional derivatives of an FMU, without differences."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from dynident.fmu.library import Instance, SimulationFailed
from dynident.fmu.loop import Course, Ports, failed, for_c
from dynident.fmu.loop_kernel import kernel
from dynident.fmu.plan import Plan


class _Slopes(ctypes.Structure):
    _fields_ = [("columns", ctypes.c_longlong), *[(n, ctypes.c_void_p) for n in (
        "states", "rates", "outputs", "by", "initial", "derivative")]]


def drive_with_slopes(instance: Instance, ports: Ports, course: Course, plan: Plan, columns: Sequence[int],
                      outputs: np.ndarray) -> np.ndarray:
    """Fill `outputs` (nodes, outputs) and give their derivatives (nodes, columns, outputs) by what is written at these
    places; raises SimulationFailed."""
    compiled = kernel()
    if compiled is None or not plan.slopes:
        raise SimulationFailed(f"{plan.file} gives no slopes here.")
    names = [plan.written[i] for i in columns]
    states = np.array(plan.state_references, np.uint32)
    rates = np.array(plan.rate_references, np.uint32)
    measured = np.array([plan.variables[n].reference for n in plan.outputs], np.uint32)
    by = np.array([plan.variables[n].reference for n in names], np.uint32)
    initial = np.array([plan.state_references.index(int(r)) if r in plan.state_references else -1 for r in by], np.int64)
    fmu, path, _alive = for_c(instance, ports, course, course.substeps, True)
    own = _Slopes(len(names), *(a.ctypes.data for a in (states, rates, measured, by, initial)),
                  instance.address("GetDirectionalDerivative", needed=False))
    slopes = np.full((course.time.size, len(names), len(plan.outputs)), np.nan)
    bad = np.zeros(3, np.int64)
    good = compiled.dynident_fmu_slopes(*map(ctypes.addressof, (fmu, path, own)), outputs.ctypes.data, slopes.ctypes.data,
                                        bad.ctypes.data)
    if not good:
        raise failed(instance, course, *map(int, bad))
    return slopes
