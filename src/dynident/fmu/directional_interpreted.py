"""Directional derivatives in Python: directional.c without a compiler; the same arithmetic in the same order and bits.

Model Exchange by Runge-Kutta together with the derivatives of states and outputs by parameters and initial states. No
events: where one comes, the derivative jumps in a way that the FMU does not tell.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.fmu.instance import FmuInstance, pointer, size
from dynident.fmu.model_exchange_interpreted import ExchangeState, ModelExchange
from dynident.fmu.simulation_spec import DirectionalReferences, FmuInputs, StepSettings, ValueReferences
from dynident.fmu.stepping_compiled import StepCall, StepFailure
from dynident.fmu.stepping_interpreted import InstanceCalls, StepStopped

RUNGE_KUTTA_STAGES = (0.0, 0.5, 0.5, 1.0)  # of the step


def differentiate_exchange(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs,
                           directions: DirectionalReferences, outputs: np.ndarray, derivatives: np.ndarray
                           ) -> StepFailure | None:
    """Fill `outputs` (nodes, outputs) and `derivatives` (nodes, columns, outputs); dynident_fmu_directional of
    directional.c."""
    loop, node = ModelExchange(InstanceCalls(instance, references, inputs), StepSettings(True, "runge_kutta")), 0
    try:
        with np.errstate(all="ignore"):
            state = loop.initial_state()
            S = np.zeros((directions.by.size, state.x.size))
            S[directions.initial >= 0, directions.initial[directions.initial >= 0]] = 1.0
            for node in range(inputs.time.size):
                if node:
                    state, S = _through_interval(loop, state, S, directions, node - 1)
                if state.next_event <= inputs.time[node]:
                    raise StepStopped(StepCall.EVENTFUL)
                state = loop.sample(state, node, outputs)
                for j in range(len(S)) if inputs.output_mask[node] else ():
                    derivatives[node, j] = directional_derivative(loop, directions.outputs, directions, j, S[j])
    except StepStopped as end:
        return StepFailure(node, end.call, end.status)
    return None


def _through_interval(loop: ModelExchange, state: ExchangeState, S: np.ndarray, directions: DirectionalReferences, k: int
                      ) -> tuple[ExchangeState, np.ndarray]:
    begin, end, count = (float(v) for v in (*loop.calls.inputs.time[k:k + 2], loop.calls.inputs.substeps[k]))
    h, x = (end - begin) / count, state.x
    for i in range(int(count) if x.size else 0):
        x, S = step_with_derivatives(loop, k, begin + i * h, h, x, S, directions)
    return replace(state, x=x), S


def directional_derivative(loop: ModelExchange, unknown: np.ndarray, directions: DirectionalReferences, column: int,
                           S: np.ndarray) -> np.ndarray:
    """The derivative of `unknown` along a column: along the states by S, and along a parameter by 1."""
    parameter = directions.initial[column] < 0
    known = np.append(directions.states, directions.by[column:column + 1]) if parameter else directions.states
    seed, result = np.append(S, 1.0), np.zeros(unknown.size)
    if unknown.size and known.size:
        version = loop.calls.instance.version
        counts = ((), ()) if version == 2 else ((known.size,), (unknown.size,))
        types = (pointer, size) * 2 + ((pointer,) * 2 if version == 2 else (pointer, size) * 2)
        loop.calls.call(StepCall.DIRECTIONAL, "GetDirectionalDerivative", unknown.ctypes.data, unknown.size,
                        known.ctypes.data, known.size, seed.ctypes.data, *counts[0], result.ctypes.data, *counts[1],
                        types=types)
    return result


def step_with_derivatives(loop: ModelExchange, k: int, now: float, h: float, x: np.ndarray, S: np.ndarray,
                          directions: DirectionalReferences) -> tuple[np.ndarray, np.ndarray]:
    """One Runge-Kutta step of x and of all columns S (columns, states): S_j' = (df/dx) S_j + df/dp_j."""
    rates: list[np.ndarray] = []
    sensitivity_rates: list[np.ndarray] = []
    for a, share in enumerate(RUNGE_KUTTA_STAGES):
        at = x + (share * h) * rates[-1] if a else x
        stage = S + (share * h) * sensitivity_rates[-1] if a else S
        rates.append(loop.rates(k, now + share * h, at))
        sensitivity_rates.append(np.array([directional_derivative(loop, directions.rates, directions, j, stage[j])
                                           for j in range(len(S))]))
    x, S = (of + (h / 6.0) * ((d[0] + d[3]) + 2.0 * (d[1] + d[2])) for of, d in ((x, rates), (S, sensitivity_rates)))
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(S))):
        raise StepStopped(StepCall.STATE_NOT_FINITE, int(np.argmin(np.append(np.isfinite(x), False))))
    return x, S
