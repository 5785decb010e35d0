"""Trace check: is what was traced what the function computes?"""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import casadi
import numpy as np

from dynident.models.function_trace import BLACK_BOX, definition_place
from dynident.tolerances import TRACE_TOLERANCE

POINTS = 12  # random ones, of three sizes
SEED = 20240229


def trace_faults(called: str, function: Callable[..., Any], arguments: Any, found: Mapping[str, casadi.SX], by_casadi: bool
                 ) -> list[str]:
    """Where function and trace differ; and that the function cannot be asked, where it raises at every point.

    `by_casadi`: it was called with CasADi's own symbols, and may need them (casadi.jacobian), so that numbers say nothing.
    """
    scopes = (arguments.x, arguments.u, arguments.p)
    inputs = [arguments.t, *(casadi.vertcat(*scope.symbols.values()) for scope in scopes)]
    if any("(" in symbol.name() for each in found.values() for symbol in casadi.symvar(each)):
        return []  # a delayed input, which numbers do not have
    trace = casadi.Function("trace", inputs, [casadi.vertcat(*found.values())])
    rng, compared, last = np.random.default_rng(SEED), 0, ""
    for k in range(POINTS):
        values = [_point(rng, scope.symbols, arguments.constants, k, scope is arguments.p) for scope in scopes]
        t = float(rng.uniform(0, 3))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                said = _numbers(function(t, *(s.numbers(v) for s, v in zip(scopes, values, strict=True))), found)
                again = _numbers(function(t, *(s.numbers(v) for s, v in zip(scopes, values, strict=True))), found)
            except Exception as error:  # whatever it raises outside of its domain
                if _raised_by_casadi(error):
                    return []  # written for symbols (it takes derivatives, say): there is no function beside its trace
                last = f"{type(error).__name__}: {str(error).rstrip('.')}"
                continue
        traced = np.asarray(trace(t, *(list(v.values()) for v in values))).ravel()
        compared += 1
        for name, by_function, twice, by_trace in zip(found, said, again, traced, strict=True):
            if math.isfinite(by_function) and not abs(by_function - by_trace) <= TRACE_TOLERANCE * (1 + abs(by_function)):
                other = "" if by_function == twice else ", and called again it gives another value"
                return [f"{called}, {definition_place(function)}: '{name}' is {by_function:.9g} by the function and "
                        f"{by_trace:.9g} by its trace{other}. It hangs on something that is no argument (a counter, random "
                        f"numbers, the clock). {BLACK_BOX}"]
    if compared or by_casadi:
        return []
    return [f"{called}, {definition_place(function)}: it could not be compared with its trace, since it raises {last} at every "
            f"point that was tried. {BLACK_BOX}"]


def _raised_by_casadi(error: BaseException) -> bool:
    return any(frame.f_globals.get("__name__", "").partition(".")[0] == "casadi"
               for frame, _ in traceback.walk_tb(error.__traceback__))


def _point(rng: np.random.Generator, names: Iterable[str], constants: Mapping[str, float], k: int, positive: bool
           ) -> dict[str, float]:
    size = (1.0, 0.3, 3.0)[k % 3]
    drawn = {name: size * float(rng.normal()) for name in names}
    if positive and k % 2:
        drawn = {name: abs(value) + 0.1 for name, value in drawn.items()}
    return {name: constants.get(name, value) for name, value in drawn.items()}


def _numbers(returned: Any, found: Mapping[str, casadi.SX]) -> list[float]:
    if isinstance(returned, Mapping):
        return [float(np.ravel(returned[name])[0]) for name in found]
    if isinstance(returned, (list, tuple)):
        return [float(np.ravel(np.asarray(each))[0]) for each in returned]
    return [float(each) for each in np.ravel(np.asarray(returned))]
