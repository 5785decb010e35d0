"""Interpreted: the filter without a C compiler; the extended one in CasADi's own machine, the others step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from dynident.kernels.jacobian import cheapest_jacobian
from dynident.methods.kalman import stages
from dynident.methods.kalman.engine import Later, Layout, Smoothed, Stopped
from dynident.methods.kalman.setup import Record, Setup
from dynident.methods.kalman.stepwise import SquareRoot, Stepwise, back

CHUNK = 100  # steps per call; long enough to hide the call, short enough to build at once


class InterpretedEngine:
    """Keeps mean and covariance as arrays; a chunk of steps per call where the filter is a formula."""

    def __init__(self, setup: Setup):
        self.layout, self.setup = Layout(setup), setup
        self.settings = setup.settings()
        self.stepwise = (SquareRoot if setup.method.covariance_update == "square_root" else Stepwise)(setup, self.layout)
        self.t, self.started, self.u = 0.0, False, np.zeros(self.layout.nu)
        self.x, self.P = np.zeros(self.layout.n), np.zeros((self.layout.n, self.layout.n))
        self._chunk: ca.Function | None = None

    def begin(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> None:
        kept = self.stepwise.kept(np.asarray(P, float))
        self.t, self.started = 0.0 if t is None else t, t is not None
        if kept is None:
            raise Stopped(2, 0, self.t, "the start", self.setup.method)
        self.x, self.P = np.array(x, float), kept
        self.u = np.zeros(self.layout.nu) if u is None else np.array(u, float)

    def hold(self, linear: np.ndarray) -> None:
        self.stepwise.linear = linear

    def record(self, record: Record, links: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        method = self.setup.method
        if method.filter in ("extended", "iterated") and method.covariance_update != "square_root" and not links:
            return self._in_chunks(record), None
        out = np.empty((len(record.time), self.layout.sample["projected"].stop))
        more = np.empty((len(record.time), self.layout.link["e"].stop)) if links else None
        for k, t in enumerate(record.time):
            variance = record.variance[k if len(record.variance) > 1 else 0]
            link = None if more is None else more[k]
            fault = self._one(t, record.inputs[k], record.outputs[k], variance, out[k], link)
            if fault:
                raise Stopped(fault, k, float(t), record.name, method)
        return out, more

    def smooth(self, samples: np.ndarray, links: np.ndarray, later: Later) -> Smoothed:
        return back(self.layout, samples, links, later, together=self.setup.method.filter == "unscented")

    def updater(self, packed: np.ndarray, out: np.ndarray) -> Callable[[], int]:
        nu, ny = self.layout.nu, self.layout.ny
        u, y, r = packed[1:1 + nu], packed[1 + nu:1 + nu + ny], packed[1 + nu + ny:]
        return lambda: self._one(float(packed[0]), u, y, r, out, None)

    def present(self) -> tuple[np.ndarray, np.ndarray]:
        return self.x.copy(), self.stepwise.full(self.P).copy()

    def memory(self) -> np.ndarray:
        return np.concatenate([[self.t, float(self.started)], self.u, self.x, self.P.ravel()])

    def remember(self, memory: np.ndarray) -> None:
        nu, n = self.layout.nu, self.layout.n
        self.t, self.started = float(memory[0]), bool(memory[1])
        self.u, self.x = memory[2:2 + nu].copy(), memory[2 + nu:2 + nu + n].copy()
        self.P = memory[2 + nu + n:].reshape(n, n).copy()

    def _one(self, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray, out: np.ndarray,
             link: np.ndarray | None) -> int:
        if self.started and t < self.t:
            return 3
        state = self.stepwise.update(self.x, self.P, self.t if self.started else t, t, self.u if self.started else u, u,
                                     y, r, out, link)
        if state is None:
            return 2
        self.x, self.P = state
        self.t, self.started, self.u = t, True, np.array(u, float)
        return 0 if np.all(np.isfinite(out[self.layout.sample["x"]])) else 1

    # whole records

    def _in_chunks(self, record: Record) -> np.ndarray:
        if self._chunk is None:
            self._chunk = _accumulated(self.setup, self.layout)
        columns, sample_of = self._columns(record)
        upper = np.triu_indices(self.layout.n)
        whole = np.concatenate([self.x, self.P[upper]])
        out = np.empty((len(columns), self.layout.sample["projected"].stop))
        filled, held = np.zeros((CHUNK, columns.shape[1])), np.tile(self.settings["p"], (CHUNK, 1))
        wholes, fields = np.empty((CHUNK, whole.size)), np.empty((CHUNK, out.shape[1]))
        buffers: Any
        buffers, evaluate = self._chunk.buffer()  # a row of ours is a column of CasADi's: the same memory
        for place, array in enumerate((whole, filled, held)):
            buffers.set_arg(place, memoryview(array))  # type: ignore[arg-type]
        for place, array in enumerate((wholes, fields)):
            buffers.set_res(place, memoryview(array))  # type: ignore[arg-type]
        for k in range(0, len(columns), CHUNK):
            part = columns[k:k + CHUNK]
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
        self.x = whole[:self.layout.n].copy()
        self.P = np.zeros((self.layout.n, self.layout.n))
        self.P[upper] = whole[self.layout.n:]
        self.P = self.P + np.triu(self.P, 1).T
        self.t, self.started, self.u = float(record.time[-1]), True, record.inputs[-1].copy()
        return samples

    def _check(self, record: Record, samples: np.ndarray) -> None:
        fields = self.layout.sample
        bad = ~np.all(np.isfinite(samples[:, fields["x"]]), axis=1)
        negative = np.any(samples[:, fields["variance"]] < 0, axis=1)
        for fault, where in ((2, negative & ~bad), (1, bad)):
            if np.any(where):
                k = int(np.argmax(where))
                raise Stopped(fault, k, float(record.time[k]), record.name, self.setup.method)

    def _columns(self, record: Record) -> tuple[np.ndarray, np.ndarray]:
        """One row per step (t, h, u0, u1, time and inputs at its end, y, r, noise share, mask), and its sample."""
        before = np.concatenate([[self.t if self.started else record.time[0]], record.time[:-1]])
        u_before = np.vstack([self.u if self.started else record.inputs[0], record.inputs[:-1]])
        gaps = record.time - before
        if np.any(gaps < 0):
            back_at = int(np.argmax(gaps < 0))
            raise Stopped(3, back_at, float(record.time[back_at]), record.name, self.setup.method)
        counts = np.maximum(1, np.ceil(gaps / self.setup.longest * (1 - 1e-6))).astype(int)
        k = np.repeat(np.arange(len(gaps)), counts)
        m = np.arange(k.size) - np.repeat(np.cumsum(counts) - counts, counts)
        h = (gaps / counts)[k]
        slope = (self.stepwise.linear * (record.inputs - u_before))[k] / counts[k][:, None]
        u0 = u_before[k] + m[:, None] * slope
        there = np.isfinite(record.outputs)
        mask = (there[k] & (m == counts[k] - 1)[:, None]).astype(float)
        variance = np.broadcast_to(record.variance, record.outputs.shape)
        share = np.where(gaps > 0, 1 / counts, 0.0)[k] if self.settings["per_sample"] else h
        columns = np.column_stack([before[k] + m * h, h, u0, u0 + slope, record.time[k], record.inputs[k],
                                   np.where(there, record.outputs, 0.0)[k], variance[k], share, mask])
        return columns, k


def _accumulated(setup: Setup, layout: Layout) -> ca.Function:
    """(mean and covariance, columns, held parameters) -> the same after every step, and the fields of a sample."""
    n, nu, ny = layout.n, layout.nu, layout.ny
    s = stages.symbols(setup.augmented)
    column = {"t": 1, "h": 1, "u0": nu, "u1": nu, "at": 1, "u": nu, "y": ny, "r": ny, "share": 1, "mask": ny}
    c = {name: ca.SX.sym(name, size) for name, size in column.items()}
    x, packed = ca.SX.sym("x", n), ca.SX.sym("P", n * (n + 1) // 2)
    P = _unpacked(packed, n)
    P, x_next = _foreseen(setup, {**s, **{k: c[k] for k in ("t", "h", "u0", "u1")}, "a": x}, P, c["share"])
    x_new, P_new, fields = _measured(setup, s, c, x_next, P)
    x_new, projected = _put_back(setup, x_new, P_new)
    upper = [P_new[i, j] for i in range(n) for j in range(i, n)]
    found = ca.vertcat(x_new, ca.diag(P_new), *fields, projected)
    step = ca.Function("step", [ca.vertcat(x, packed), ca.vertcat(*c.values()), s["p"]],
                       ca.cse([ca.vertcat(x_new, *upper), found]))
    return step.mapaccum(CHUNK)


def _unpacked(packed: ca.SX, n: int) -> ca.SX:
    P, at = ca.SX(n, n), 0
    for i in range(n):
        for j in range(i, n):
            P[i, j] = P[j, i] = packed[at]
            at += 1
    return P


def _foreseen(setup: Setup, s: dict[str, ca.SX], P: ca.SX, share: ca.SX) -> tuple[ca.SX, ca.SX]:
    nx, n = len(setup.augmented.model.states), setup.augmented.size
    nxt = stages.next_states(setup.augmented, setup.integrator, s)
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


def _measured(setup: Setup, s: dict[str, ca.SX], c: dict[str, ca.SX], x: ca.SX, P: ca.SX
              ) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
    """Scalar after scalar, in the form that was asked for; a missing one has no gain."""
    ny, gate = len(setup.augmented.model.outputs), setup.method.gate
    y = stages.outputs(setup.augmented, s)
    look = ca.Function("look", [s["a"], s["t"], s["u0"], s["p"]], [y, ca.sparsify(ca.jacobian(y, s["a"]))])
    iterations = setup.method.iterations if setup.method.filter == "iterated" else 1
    first_x, first_P, at = x, P, x
    whitened, used, predicted, logs = [], [], ca.SX(0), ca.SX(0)
    for iteration in range(iterations):
        seen, H = look(at, c["at"], c["u"], s["p"])
        x, P = first_x, first_P
        for j in range(ny):
            h = H[j, :].T
            innovation = c["y"][j] - seen[j] - ca.dot(h, x - at)
            d = P @ h
            v = ca.dot(h, d) + c["r"][j]
            if iteration == 0:
                inside = innovation**2 <= gate**2 * v if gate else ca.SX(1)
                used.append(c["mask"][j] * (2 - inside))
                whitened.append(ca.if_else(used[j] == 1, innovation / ca.sqrt(v), np.nan))
                logs = logs + ca.if_else(used[j] == 1, ca.log(2 * np.pi * v), 0)
            k = ((used[j] == 1) / v) * d
            x, P = x + k * innovation, _absorbed(setup.method.covariance_update, P, h, d, k, c["r"][j])
        predicted = seen if iteration == 0 else predicted
        at = x
    squared = ca.sum1(ca.vertcat(*[ca.if_else(used[j] == 1, whitened[j] ** 2, 0) for j in range(ny)]))
    return x, P, [predicted, *whitened, *used, squared, -0.5 * (logs + squared)]


def _absorbed(form: str, P: ca.SX, h: ca.SX, d: ca.SX, k: ca.SX, r: ca.SX) -> ca.SX:
    """Entry by entry above the diagonal; by the formula of Joseph, (I - k h') P (I - k h')' + r k k'."""
    left = r * k - (d - k * ca.dot(h, d)) if form == "joseph" else ca.SX(k.shape[0], 1)
    after = ca.SX(P)
    for i in range(k.numel()):
        for j in range(i, k.numel()):
            after[i, j] = after[j, i] = P[i, j] - k[i] * d[j] + left[i] * k[j]
    return after


def _put_back(setup: Setup, x: ca.SX, P: ca.SX) -> tuple[ca.SX, ca.SX]:
    nx, told = len(setup.augmented.model.states), setup.settings()
    moved = ca.SX(0)
    for place, (low, high) in enumerate(zip(told["lower"], told["upper"], strict=True)):
        row = nx + place
        if not (np.isfinite(low) or np.isfinite(high)):
            continue
        wanted = ca.fmin(ca.fmax(x[row], low), high)
        outside = ca.logic_and(wanted != x[row], P[row, row] > 0)
        here = ca.if_else(outside, wanted, x[row])
        x = x + P[:, row] * ca.if_else(outside, (wanted - x[row]) / P[row, row], 0)
        x[row] = here
        moved = moved + outside
    return x, moved
