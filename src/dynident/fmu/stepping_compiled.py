"""Compiled stepping: the loops in C and what they need to know of an instance, where this machine has a compiler.

`stepping.c` (Co-Simulation), `model_exchange.c` and `directional.c` each have a twin in Python beside them that does the
same without one: `stepping_interpreted.py`, `model_exchange_interpreted.py`, `directional_interpreted.py`.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from enum import IntEnum
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynident.codegen.compiler import load_library, remembered
from dynident.fmu.simulation_spec import (
    SCHEMES,
    CommunicationSteps,
    DirectionalReferences,
    FmuInputs,
    ReferenceGroup,
    StepSettings,
    ValueReferences,
)

if TYPE_CHECKING:
    from dynident.fmu.instance import FmuInstance

C_FILES = ("stepping.c", "model_exchange.c", "directional.c")  # one text, in this order
ASKED_TO_END = -1  # in the place of a status: a step of FMI 3.0 asks for the end beside its status
# functions of Model Exchange in FMI 2.0 and 3.0, in the order of the fields of `Fmu` in stepping.c
EXCHANGE_FUNCTIONS = {
    2: ("SetTime", "SetContinuousStates", "GetContinuousStates", "GetDerivatives", "GetEventIndicators",
        "CompletedIntegratorStep", "EnterEventMode", "NewDiscreteStates", "EnterContinuousTimeMode"),
    3: ("SetTime", "SetContinuousStates", "GetContinuousStates", "GetContinuousStateDerivatives",
        "GetEventIndicators", "CompletedIntegratorStep", "EnterEventMode", "UpdateDiscreteStates",
        "EnterContinuousTimeMode")}


class StepCall(IntEnum):
    """What a simulation ended in: a call of FMI, or what is none; the codes of stepping.c."""

    SET = 1
    GET = 2
    STEP = 3
    TIME = 4
    STATES = 5
    RATES = 6
    INDICATORS = 7
    COMPLETED = 8
    EVENT = 9
    DISCRETE = 10
    CONTINUOUS = 11
    TERMINATED = 12
    NEWTON = 13
    NOT_FINITE = 14
    STATE_NOT_FINITE = 15
    ENDLESS = 16
    MEMORY = 17
    GAVE_UP = 18
    EVENTFUL = 19
    DIRECTIONAL = 20


class StepFailure(NamedTuple):
    """Where a simulation ended: the node on the way to which it did, what was called, and what that returned."""

    node: int
    call: StepCall
    status: int  # of FMI; with the two NOT_FINITE the column or the state


def _failure(good: int, bad: np.ndarray) -> StepFailure | None:
    return None if good else StepFailure(int(bad[0]), StepCall(int(bad[1])), int(bad[2]))


def stepping_library() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    return _library()


@remembered()
def _library() -> ctypes.CDLL | None:
    parts = resources.files("dynident.fmu")
    text = "".join(parts.joinpath(name).read_text() for name in C_FILES)
    library = load_library(f"fmu {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer, real, number = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
        library.dynident_fmu_cosimulate.argtypes = [pointer, pointer, real, real, number, real, pointer, pointer]
        library.dynident_fmu_exchange.argtypes = [pointer, pointer, number, number, pointer, pointer, pointer]
        library.dynident_fmu_directional.argtypes = [pointer] * 6
        library.dynident_fmu_log.restype = ctypes.c_char_p
        library.dynident_fmu_log_clear.restype = None
    return library


class _CGroup(ctypes.Structure):
    """`Group` of stepping.c."""

    _fields_ = [("kind", ctypes.c_longlong), ("references", ctypes.c_longlong), ("values", ctypes.c_longlong),
                ("reference", ctypes.c_void_p), ("column", ctypes.c_void_p), ("base", ctypes.c_void_p),
                ("buffer", ctypes.c_void_p), ("call", ctypes.c_void_p), ("event_only", ctypes.c_longlong)]


class _CFmu(ctypes.Structure):
    """`Fmu` of stepping.c."""

    _fields_ = [("instance", ctypes.c_void_p), *[(n, ctypes.c_longlong) for n in (
        "version", "states", "indicators", "input_groups", "output_groups", "inputs", "outputs", "needs_completed")],
        *[(n, ctypes.c_void_p) for n in (
            "input", "output", "do_step", "set_time", "set_states", "get_states", "get_rates", "get_indicators",
            "completed", "enter_event", "discrete", "enter_continuous")]]


class _CInputs(ctypes.Structure):
    """`Inputs` of stepping.c."""

    _fields_ = [("nodes", ctypes.c_longlong), *[(n, ctypes.c_void_p) for n in (
        "time", "substeps", "u_begin", "u_end", "u_node", "output_mask")],
        ("finite_mask_columns", ctypes.c_longlong), ("finite_mask", ctypes.c_void_p)]


class _CDirections(ctypes.Structure):
    """`Directions` of directional.c."""

    _fields_ = [("columns", ctypes.c_longlong), *[(n, ctypes.c_void_p) for n in (
        "states", "rates", "outputs", "by", "initial", "derivative")]]


def simulate_compiled(compiled: ctypes.CDLL, instance: FmuInstance, references: ValueReferences, inputs: FmuInputs,
                      steps: CommunicationSteps, settings: StepSettings, outputs: np.ndarray,
                      first_states: np.ndarray | None = None) -> StepFailure | None:
    """Fill `outputs` (nodes, outputs); by Model Exchange from `first_states` where they are given."""
    fmu, path, _alive = _structures(instance, references, inputs, steps.counts, settings.exchange)
    bad = np.zeros(3, np.int64)
    if settings.exchange:
        good = compiled.dynident_fmu_exchange(
            ctypes.addressof(fmu), ctypes.addressof(path), SCHEMES.index(settings.scheme), int(settings.input_events),
            None if first_states is None else first_states.ctypes.data, outputs.ctypes.data, bad.ctypes.data)
    else:
        good = compiled.dynident_fmu_cosimulate(
            ctypes.addressof(fmu), ctypes.addressof(path), steps.settle_first, steps.settle, int(settings.input_at_end),
            steps.equal, outputs.ctypes.data, bad.ctypes.data)
    return _failure(good, bad)


def differentiate_compiled(compiled: ctypes.CDLL, instance: FmuInstance, references: ValueReferences, inputs: FmuInputs,
                           directions: DirectionalReferences, outputs: np.ndarray, derivatives: np.ndarray
                           ) -> StepFailure | None:
    """Fill `outputs` (nodes, outputs) and `derivatives` (nodes, columns, outputs)."""
    fmu, path, _alive = _structures(instance, references, inputs, inputs.substeps, True)
    own = _CDirections(directions.by.size, *(a.ctypes.data for a in (
                           directions.states, directions.rates, directions.outputs, directions.by, directions.initial)),
                       instance.address("GetDirectionalDerivative", needed=False))
    bad = np.zeros(3, np.int64)
    good = compiled.dynident_fmu_directional(*map(ctypes.addressof, (fmu, path, own)), outputs.ctypes.data,
                                             derivatives.ctypes.data, bad.ctypes.data)
    return _failure(good, bad)


def _structures(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, steps: np.ndarray, exchange: bool
                ) -> tuple[_CFmu, _CInputs, list]:
    """Instance and inputs as the structures of stepping.c, and what must live as long as they do."""
    groups = [_c_groups(some, [instance.address(f"{verb}{g.function}") for g in some])
              for verb, some in (("Set", references.inputs), ("Get", references.outputs))]
    fmu = _CFmu(instance.handle, instance.version, references.states, references.indicators, len(references.inputs),
                len(references.outputs), references.input_count, references.output_count,
                int(references.needs_completed), *map(ctypes.addressof, groups))
    if exchange:
        for field, name in zip([f[0] for f in _CFmu._fields_[12:]], EXCHANGE_FUNCTIONS[instance.version], strict=True):
            setattr(fmu, field, instance.address(name))
    else:
        fmu.do_step = instance.address("DoStep")
    arrays = [inputs.time, steps, inputs.u_begin, inputs.u_end, inputs.u_node, inputs.output_mask]
    mask = inputs.finite_mask
    path = _CInputs(inputs.time.size, *[a.ctypes.data for a in arrays], mask.shape[1], mask.ctypes.data)
    return fmu, path, [groups, arrays, mask]


def _c_groups(groups: Sequence[ReferenceGroup], calls: Sequence[int]) -> ctypes.Array:
    array = (_CGroup * max(1, len(groups)))()
    for c, group, call in zip(array, groups, calls, strict=False):
        c.kind, c.references, c.values = group.code, group.references.size, group.column.size
        c.reference, c.column = group.references.ctypes.data, group.column.ctypes.data
        c.base, c.buffer, c.call = group.base.ctypes.data, group.buffer.ctypes.data, call
        c.event_only = int(group.event_only)
    return array
