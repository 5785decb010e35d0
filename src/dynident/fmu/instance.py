"""FMI instance: an FMU's code loaded into this process, and one instance of it through its life."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident._util.operating_system import c_runtime
from dynident.errors import DynidentError
from dynident.fmu.simulation_spec import ReferenceGroup, SimulationSpec, group_references
from dynident.fmu.stepping_compiled import stepping_library

STATUS = ("OK", "warning", "discard", "error", "fatal error", "pending")  # of FMI, in the order of its codes
TERMINATED2 = 3  # fmi2Terminated, a kind of status
INSTANCE_NAME = b"dynident"
MAX_MESSAGES = 1000  # of an instance that are kept

pointer, real, size, number, flag = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t, ctypes.c_int, ctypes.c_ubyte
LOG2 = ctypes.CFUNCTYPE(None, pointer, ctypes.c_char_p, number, ctypes.c_char_p, ctypes.c_char_p)
LOG3 = ctypes.CFUNCTYPE(None, pointer, number, ctypes.c_char_p, ctypes.c_char_p)


class SimulationFailed(DynidentError):
    """One simulation came to no good end; the sentence says where. `time` is NaN outside of the course of time.

    `crash`: its process is gone; `hung`: because it was stopped; `useless`: no other values will do better, since the
    code cannot even be loaded.
    """

    def __init__(self, sentence: str, time: float = float("nan"), crash: bool = False, useless: bool = False,
                 hung: bool = False):
        super().__init__(sentence)
        self.time, self.crash, self.useless, self.hung = time, crash, useless, hung


class _Callbacks2(ctypes.Structure):
    _fields_ = [("logger", pointer), ("allocate", pointer), ("free", pointer), ("finished", pointer),
                ("environment", pointer)]


class FmuInstance:
    """One instance of an FMU; `reset` brings it to the begin of a simulation, or makes it where there is none."""

    def __init__(self, spec: SimulationSpec):
        self.spec, self.folder = spec, Path(spec.folder)
        self.version, self.exchange = spec.version, spec.exchange
        try:
            self.library = ctypes.CDLL(str(self.folder / spec.library))
        except OSError as error:
            raise SimulationFailed(f"The code of {spec.file} cannot be loaded: {error}. A library or a "
                                   "licence that it needs may be missing.", useless=True) from error
        self.functions: dict[str, Any] = {}
        self.messages: list[str] = []
        self._keep_alive = self._make_logger()
        self.handle: int | None = None
        self.used = False  # has been simulated since it was made or reset

    # functions by name

    def function(self, name: str, *arguments: Any, result: Any = number, needed: bool = True) -> Any:
        """A function of the FMU by name; without one that is `needed` nothing can be simulated."""
        if name not in self.functions:
            full = f"fmi{self.version}{name}"
            prefixed = f"{self.spec.identifier}_{full}"
            found = getattr(self.library, full, None) or getattr(self.library, prefixed, None)
            if found is None:
                raise SimulationFailed(f"{self.spec.file} lacks the function {full}, which FMI "
                                       f"{self.version}.0 asks for.", useless=needed)
            found.argtypes, found.restype = list(arguments), result
            self.functions[name] = found
        return self.functions[name]

    def address(self, name: str, needed: bool = True) -> int:
        return ctypes.cast(self.function(name, needed=needed), pointer).value or 0

    def call(self, name: str, *arguments: Any, types: Sequence[Any] = ()) -> int:
        status = self.function(name, pointer, *types)(self.handle, *arguments)
        if status > 1 or status < 0:
            word = STATUS[status] if 0 <= status < len(STATUS) else str(status)
            raise SimulationFailed(f"fmi{self.version}{name} returned '{word}'.{self.last_message()}")
        return status

    # life

    def instantiate(self) -> None:
        name, token = INSTANCE_NAME, self.spec.token.encode()
        resources = self.folder / "resources"
        if self.version == 2:
            text = ctypes.c_char_p
            make = self.function("Instantiate", text, number, text, text, pointer, number, number, result=pointer)
            self.handle = make(name, 0 if self.exchange else 1, token, resources.as_uri().encode(),
                               ctypes.addressof(self._callbacks), 0, 0)
        else:
            where = f"{resources}{os.sep}".encode()
            texts = [ctypes.c_char_p] * 3
            if self.exchange:
                make = self.function("InstantiateModelExchange", *texts, flag, flag, pointer, pointer, result=pointer)
                self.handle = make(name, token, where, 0, 0, None, self._log)
            else:
                make = self.function("InstantiateCoSimulation", *texts, flag, flag, flag, flag, pointer, size, pointer,
                                     pointer, pointer, result=pointer)
                self.handle = make(name, token, where, 0, 0, 0, 0, None, 0, None, self._log, None)
        if not self.handle:
            raise SimulationFailed(f"{self.spec.file} refused to be instantiated; a licence or a resource may "
                                   f"be missing.{self.last_message()}")
        self.used = False

    def free(self) -> None:
        if self.handle:
            self.function("FreeInstance", pointer, result=None)(self.handle)
            self.handle = None

    def reset(self) -> None:
        if self.handle is None:
            self.instantiate()
        elif self.used:
            self.call("Reset")
            self.used = False

    def initialize(self, begin: float, end: float | None, values: Sequence[tuple[ReferenceGroup, np.ndarray]]) -> None:
        """From a clean instance to the begin of the simulation; `values` are set before initialisation."""
        given = [1, self.spec.tolerance, begin, int(end is not None), end or 0.0]
        self.used = True
        for name, text in self.spec.texts.items():
            self.set_text(self.spec.variables[name].reference, text)
        for group, vector in values:
            self.set(group, vector)
        if self.version == 2:
            self.call("SetupExperiment", *given, types=(number, real, real, number, real))
            self.call("EnterInitializationMode")
        else:
            self.call("EnterInitializationMode", *given, types=(flag, real, real, flag, real))

    def leave_initialization(self) -> None:
        self.call("ExitInitializationMode")

    def terminate(self) -> None:
        self.call("Terminate")

    def asked_to_end(self, status: int) -> bool:
        """Whether a communication step of FMI 2.0 that was discarded says that the simulation is over."""
        if self.version != 2 or STATUS[status:status + 1] != ("discard",):
            return False
        over = number()
        try:
            told = self.function("GetBooleanStatus", pointer, number, pointer, needed=False)
        except SimulationFailed:
            return False
        return told(self.handle, TERMINATED2, ctypes.addressof(over)) == 0 and bool(over.value)

    # values

    def set(self, group: ReferenceGroup, vector: np.ndarray) -> None:
        group.to_buffer(vector)
        self._access(f"Set{group.function}", group)

    def get(self, group: ReferenceGroup, vector: np.ndarray) -> None:
        self._access(f"Get{group.function}", group)
        group.from_buffer(vector)

    def set_text(self, reference: int, text: str) -> None:
        where, data = np.array([reference], np.uint32), (ctypes.c_char_p * 1)(text.encode())
        given = (where.ctypes.data, 1, ctypes.addressof(data), *(() if self.version == 2 else (1,)))
        self.call("SetString", *given, types=(pointer, size, pointer, *(() if self.version == 2 else (size,))))

    def _access(self, name: str, group: ReferenceGroup) -> None:
        where, count, data = group.references.ctypes.data, group.references.size, group.buffer.ctypes.data
        if self.version == 2:
            self.call(name, where, count, data, types=(pointer, size, pointer))
        else:
            self.call(name, where, count, data, group.buffer.size, types=(pointer, size, pointer, size))

    def references(self, names: Sequence[str]) -> tuple[ReferenceGroup, ...]:
        variables = self.spec.variables
        return group_references([variables[n] for n in names], self.version, variables, self.spec.constants)

    # the message log

    def _make_logger(self) -> list[Any]:
        compiled = stepping_library()
        if compiled is not None:
            self._log = ctypes.cast(compiled[f"dynident_fmu_log{self.version}"], pointer).value
            kept: list[Any] = []
        elif self.version == 2:
            kept = [LOG2(lambda _, __, status, ___, text: self._append_message(status, text))]
            self._log = ctypes.cast(kept[0], pointer).value
        else:
            kept = [LOG3(lambda _, status, __, text: self._append_message(status, text))]
            self._log = ctypes.cast(kept[0], pointer).value
        runtime = c_runtime()
        self._callbacks = _Callbacks2(self._log, ctypes.cast(runtime.calloc, pointer).value,
                                      ctypes.cast(runtime.free, pointer).value, None, None)
        return kept

    def _append_message(self, status: int, text: bytes | None) -> None:
        if text and status >= 1 and len(self.messages) < MAX_MESSAGES:
            self.messages.append(text.decode(errors="replace"))

    def log(self) -> tuple[str, ...]:
        """What the FMU said so far, warnings and worse."""
        compiled = stepping_library()
        if compiled is not None:
            text = compiled.dynident_fmu_log() or b""
            compiled.dynident_fmu_log_clear()
            self.messages = (self.messages + text.decode(errors="replace").splitlines())[-MAX_MESSAGES:]
        return tuple(self.messages)

    def last_message(self) -> str:
        messages = self.log()
        return f" It says: {messages[-1].strip()}" if messages else ""
