"""Extended and iterated filter over a whole record in CasADi's own machine; the twin of the record loop in filter_record.c.

A step of the filter is one symbolic function, repeated a hundred times in a call: ten microseconds a step instead of half a
millisecond in NumPy.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dynident.codegen.expression_graph import cheapest_jacobian
from dynident.kalman.backend import NOT_FINITE, NOT_POSITIVE, TIME_GOES_BACK, FilterLayout, FilterStopped
from dynident.kalman.filter_common import STEP_COUNT_ROUNDING, FilterState
from dynident.kalman.model_functions import measurement_function, next_states, symbols
from dynident.kalman.setup import FilterExperiment, FilterSetup

CHUNK_STEPS = 100  # steps per call; long enough to hide the call, short enough to build at once


class RecordLoop:
    """The filter as one function of `CHUNK_STEPS` steps."""

    def __init__(self, setup: FilterSetup):
        self.layout, self.setup, self.settings = FilterLayout(setup), setup, setup.settings()
        self.chunk = _build_chunk(setup, self.layout)

    def run(self, state: FilterState, record: FilterExperiment) -> tuple[np.ndarray, FilterState]:
        """(samples, fields of `layout.sample`), and the state after the last."""
        columns, sample_of = self._columns(state, record)
        upper = np.triu_indices(self.layout.n)
        whole = np.concatenate([state.x, state.P[upper]])
        out = np.empty((len(columns), self.layout.sample_size))
        filled, fixed = np.zeros((CHUNK_STEPS, columns.shape[1])), np.tile(self.settings["p"], (CHUNK_STEPS, 1))
        wholes, fields = np.empty((CHUNK_STEPS, whole.size)), np.empty((CHUNK_STEPS, out.shape[1]))
        buffers: Any
        buffers, evaluate = self.chunk.buffer()  # a row of ours is a column of CasADi's: the same memory
        for place, array in enumerate((whole, filled, fixed)):
            buffers.set_arg(place, memoryview(array))  # type: ignore[arg-type]
        for place, array in enumerate((wholes, fields)):
            buffers.set_res(place, memoryview(array))  # type: ignore[arg-type]
        for k in range(0, len(columns), CHUNK_STEPS):
            part = columns[k:k + CHUNK_STEPS]
            filled[:] = part[-1]  # a step of length zero without a measurement changes nothing
            filled[:, 1] = 0
            filled[:, -1 - self.layout.ny:] = 0
            filled[:len(part)] = part
            evaluate()
            whole[:] = wholes[len(part) - 1]
            out[k:k + len(part)] = fields[:len(part)]
        last = np.flatnonzero(np.diff(sample_of, append=sample_of[-1] + 1))  # the last step before each sample
        samples = out[last]
        self._check(record, samples)
        P = np.zeros((self.layout.n, self.layout.n))
        P[upper] = whole[self.layout.n:]
        return samples, FilterState(float(record.time[-1]), True, record.inputs[-1].copy(), whole[:self.layout.n].copy(),
                                    P + np.triu(P, 1).T)

    def _check(self, record: FilterExperiment, samples: np.ndarray) -> None:
        fields = self.layout.sample
        bad = ~np.all(np.isfinite(samples[:, fields["x"]]), axis=1)
        negative = np.any(samples[:, fields["variance"]] < 0, axis=1)
        for fault, where in ((NOT_POSITIVE, negative & ~bad), (NOT_FINITE, bad)):
            if np.any(where):
                k = int(np.argmax(where))
                raise FilterStopped(fault, k, float(record.time[k]), record.name, self.setup.method)

    def _columns(self, state: FilterState, record: FilterExperiment) -> tuple[np.ndarray, np.ndarray]:
        """One row per step (t, h, u0, u1, time and inputs at its end, y, r, share of the noise, mask), and its sample."""
        before = np.concatenate([[state.t if state.started else record.time[0]], record.time[:-1]])
        u_before = np.vstack([state.u if state.started else record.inputs[0], record.inputs[:-1]])
        gaps = record.time - before
        if np.any(gaps < 0):
            back_at = int(np.argmax(gaps < 0))
            raise FilterStopped(TIME_GOES_BACK, back_at, float(record.time[back_at]), record.name, self.setup.method)
        counts = np.maximum(1, np.ceil(gaps / self.setup.max_step * (1 - STEP_COUNT_ROUNDING))).astype(int)
        k = np.repeat(np.arange(len(gaps)), counts)
        m = np.arange(k.size) - np.repeat(np.cumsum(counts) - counts, counts)
        h = (gaps / counts)[k]
        slope = (record.first_order_hold * (record.inputs - u_before))[k] / counts[k][:, None]
        u0 = u_before[k] + m[:, None] * slope
        there = np.isfinite(record.outputs)
        mask = (there[k] & (m == counts[k] - 1)[:, None]).astype(float)
        variance = np.broadcast_to(record.variance, record.outputs.shape)
        share = np.where(gaps > 0, 1 / counts, 0.0)[k] if self.settings["per_sample"] else h
        columns = np.column_stack([before[k] + m * h, h, u0, u0 + slope, record.time[k], record.inputs[k],
                                   np.where(there, record.outputs, 0.0)[k], variance[k], share, mask])
        return columns, k


def _build_chunk(setup: FilterSetup, layout: FilterLayout) -> ca.Function:
    """(mean and covariance, columns, fixed parameters) -> the same after every step, and the fields of a sample."""
    n, nu, ny = layout.n, layout.nu, layout.ny
    s = symbols(setup.augmented)
    column = {"t": 1, "h": 1, "u0": nu, "u1": nu, "at": 1, "u": nu, "y": ny, "r": ny, "share": 1, "mask": ny}
    c = {name: ca.SX.sym(name, size) for name, size in column.items()}
    x, packed = ca.SX.sym("x", n), ca.SX.sym("P", n * (n + 1) // 2)
    P = _unpacked(packed, n)
    P, x_next = _predict(setup, {**s, **{k: c[k] for k in ("t", "h", "u0", "u1")}, "a": x}, P, c["share"])
    x_new, P_new, fields = _update(setup, s, c, x_next, P)
    x_new, projected = _project(setup, x_new, P_new)
    upper = [P_new[i, j] for i in range(n) for j in range(i, n)]
    found = ca.vertcat(x_new, ca.diag(P_new), *fields, projected)
    step = ca.Function("step", [ca.vertcat(x, packed), ca.vertcat(*c.values()), s["p"]],
                       ca.cse([ca.vertcat(x_new, *upper), found]))
    return step.mapaccum(CHUNK_STEPS)


def _unpacked(packed: ca.SX, n: int) -> ca.SX:
    P, at = ca.SX(n, n), 0
    for i in range(n):
        for j in range(i, n):
            P[i, j] = P[j, i] = packed[at]
            at += 1
    return P


def _predict(setup: FilterSetup, s: dict[str, ca.SX], P: ca.SX, share: ca.SX) -> tuple[ca.SX, ca.SX]:
    nx, n = len(setup.augmented.model.states), setup.augmented.size
    nxt = next_states(setup.augmented, setup.integrator, s)
    F = ca.sparsify(cheapest_jacobian(nxt, s["a"]))
    M = F @ P
    after = ca.SX(P)
    for i in range(nx):  # parameters stand still: only the states' rows change
        for j in range(i, n):
            after[i, j] = ca.dot(M[i, :], F[j, :]) if j < nx else M[i, j]
            after[j, i] = after[i, j]
    for i in map(int, np.flatnonzero(setup.q)):
        after[i, i] += setup.q[i] * share
    return after, ca.vertcat(nxt, s["a"][nx:])


def _update(setup: FilterSetup, s: dict[str, ca.SX], c: dict[str, ca.SX], x: ca.SX, P: ca.SX
              ) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
    """One measurement after another, in the form that was asked for; a missing one has no gain."""
    ny, gate = len(setup.augmented.model.outputs), setup.method.gate
    y = measurement_function(setup.augmented, s)
    outputs = ca.Function("outputs", [s["a"], s["t"], s["u0"], s["p"]], [y, ca.sparsify(ca.jacobian(y, s["a"]))])
    iterations = setup.method.iterations if setup.method.filter == "iterated" else 1
    first_x, first_P, at = x, P, x
    whitened, used, predicted, logs = [], [], ca.SX(0), ca.SX(0)
    for iteration in range(iterations):
        output, H = outputs(at, c["at"], c["u"], s["p"])
        x, P = first_x, first_P
        for j in range(ny):
            h = H[j, :].T
            innovation = c["y"][j] - output[j] - ca.dot(h, x - at)
            d = P @ h
            v = ca.dot(h, d) + c["r"][j]
            if iteration == 0:
                inside = innovation**2 <= gate**2 * v if gate else ca.SX(1)
                used.append(c["mask"][j] * (2 - inside))
                whitened.append(ca.if_else(used[j] == 1, innovation / ca.sqrt(v), np.nan))
                logs = logs + ca.if_else(used[j] == 1, ca.log(2 * np.pi * v), 0)
            k = ((used[j] == 1) / v) * d
            x, P = x + k * innovation, _covariance_update(setup.method.covariance_update, P, h, d, k, c["r"][j])
        predicted = output if iteration == 0 else predicted
        at = x
    squared = ca.sum1(ca.vertcat(*[ca.if_else(used[j] == 1, whitened[j] ** 2, 0) for j in range(ny)]))
    return x, P, [predicted, *whitened, *used, squared, -0.5 * (logs + squared)]


def _covariance_update(update: str, P: ca.SX, h: ca.SX, d: ca.SX, k: ca.SX, r: ca.SX) -> ca.SX:
    """Entry by entry above the diagonal; in Joseph form, (I - k h') P (I - k h')' + r k k'."""
    left = r * k - (d - k * ca.dot(h, d)) if update == "joseph" else ca.SX(k.shape[0], 1)
    after = ca.SX(P)
    for i in range(k.numel()):
        for j in range(i, k.numel()):
            after[i, j] = after[j, i] = P[i, j] - k[i] * d[j] + left[i] * k[j]
    return after


def _project(setup: FilterSetup, x: ca.SX, P: ca.SX) -> tuple[ca.SX, ca.SX]:
    nx, settings = len(setup.augmented.model.states), setup.settings()
    moved = ca.SX(0)
    for place, (low, high) in enumerate(zip(settings["lower"], settings["upper"], strict=True)):
        row = nx + place
        if not (np.isfinite(low) or np.isfinite(high)):
            continue
        bound = ca.fmin(ca.fmax(x[row], low), high)
        outside = ca.logic_and(bound != x[row], P[row, row] > 0)
        here = ca.if_else(outside, bound, x[row])
        x = x + P[:, row] * ca.if_else(outside, (bound - x[row]) / P[row, row], 0)
        x[row] = here
        moved = moved + outside
    return x, moved
