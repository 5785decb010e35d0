"""Innovations: prediction errors of one record by an extended Kalman filter, their variances, and the derivatives of both.

Parameters are constants of the filter. Errors of inputs are states of it that live for one sample: `w0` holds over the
interval, `w1` is that of the next sample, which is there where an output depends on the input at once or the input moves
linearly. So a disturbance acts through df/du over the whole sample, and an output that depends on a noisy input is correlated
with what follows. White noise of a state is integrated over a sub-step by Simpson's rule, (F D F' + 4 G D G' + D) h/6, where F
is the transition over the step and G = (3 I + 6 F - F F)/8 that over half of it. Measurements are taken one after another, so
that innovations are independent; the covariance is kept in Joseph form, since initial states are known exactly (they are
unknowns), where a square root has no derivative.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from dataclasses import dataclass, field
from importlib.metadata import version

import casadi as ca
import numpy as np

from dynident.codegen.c_source import flags_by_size, kernel_text, static_source
from dynident.codegen.compiler import load_library, remembered
from dynident.integrators.scheme import Explicit, StepFunction
from dynident.kalman.prediction_error.innovations_interpreted import run_interpreted
from dynident.models.equations import EquationModel

INNOVATIONS_SOURCE_VERSION = 3  # part of the cache's key: raise it when `_functions` makes other functions of the same model


@dataclass(frozen=True)
class InnovationModel:
    """A model, where it is disturbed, and how it is stepped; equal where the compiled loop would be."""

    key: str  # the model's hash
    integrator_name: str
    states: tuple[int, ...]  # that white noise disturbs
    inputs: tuple[int, ...]  # with an error: of their sensor, or of what acts behind them
    both_ends: bool  # whether the error at the end of an interval is a state too
    model: EquationModel = field(compare=False)
    integrator: Explicit = field(compare=False)

    @property
    def size(self) -> int:
        """Entries of the filter's state."""
        return len(self.model.states) + len(self.inputs) * (1 + self.both_ends)

    @property
    def memory(self) -> int:
        """Numbers that go from row to row: the mean, and the covariance's upper triangle."""
        return self.size + self.size * (self.size + 1) // 2

    @property
    def noises(self) -> int:
        return len(self.states) + len(self.inputs) + len(self.model.outputs)

    @property
    def columns(self) -> dict[str, int]:
        """What a row says, and in how many numbers."""
        nu, ny, nw = len(self.model.inputs), len(self.model.outputs), len(self.inputs)
        return {"t": 1, "h": 1, "from": nw, "to": nw, "u0": nu, "u1": nu, "at": 1, "u": nu, "y": ny, "r": ny, "w": nw,
                "first": 1, "mask": ny}

    def column_of(self, name: str) -> int:
        """Where in a row something stands."""
        names = list(self.columns)
        return sum(self.columns[other] for other in names[:names.index(name)])


@dataclass(frozen=True, eq=False)
class RecordInnovations:
    """Per row and output: innovation and variance, (rows, outputs), and their derivatives, (rows, outputs, directions)."""

    e: np.ndarray
    s: np.ndarray
    de: np.ndarray
    ds: np.ndarray
    mean: np.ndarray  # (rows, size) after the measurement
    variance: np.ndarray  # (rows, size)


def run_innovations(model: InnovationModel, columns: np.ndarray, p: np.ndarray, noise: np.ndarray, initial: np.ndarray,
                    dp: np.ndarray, dnoise: np.ndarray, dinitial: np.ndarray) -> RecordInnovations:
    """Over one record; `noise` holds logarithms of standard deviations, seeds are (directions, ...)."""
    z = np.zeros(model.memory)
    z[:initial.size] = initial
    dz = np.zeros((len(dp), z.size))
    dz[:, :initial.size] = dinitial
    library = _library(model)
    ny = len(model.model.outputs)
    seeds = [np.ascontiguousarray(a, float) for a in (dp, dnoise)]
    arguments = (np.ascontiguousarray(columns), np.ascontiguousarray(p, float), np.ascontiguousarray(noise, float),
                 seeds[0], seeds[1], z, dz)
    out, dout, course = (
        run_interpreted(*_functions(model), *arguments) if library is None else _run_compiled(library, 2 * ny, *arguments))
    dout = np.moveaxis(dout, 1, 2)  # (rows, 2 outputs, directions)
    n = model.size
    diagonal = n + np.cumsum([0, *range(n, 1, -1)])
    return RecordInnovations(out[:, :ny], out[:, ny:], dout[:, :ny], dout[:, ny:], course[:, :n], course[:, diagonal])


def _run_compiled(library: ctypes.CDLL, ne: int, columns: np.ndarray, p: np.ndarray, noise: np.ndarray,
                  dp: np.ndarray, dnoise: np.ndarray, z: np.ndarray, dz: np.ndarray) -> tuple[np.ndarray, ...]:
    rows, directions = len(columns), len(dp)
    out, dout, course = np.empty((rows, ne)), np.empty((rows, directions, ne)), np.empty((rows, z.size))
    library.dynident_innovations(rows, directions, *[a.ctypes.data for a in (columns, p, noise, dp, dnoise, z, dz, out, dout,
                                                                             course)])
    return out, dout, course


@remembered(maxsize=32)
def _library(model: InnovationModel) -> ctypes.CDLL | None:
    kernel = kernel_text("kalman/prediction_error/innovations.c")
    key = (f"innovations {INNOVATIONS_SOURCE_VERSION} {hashlib.sha256(kernel.encode()).hexdigest()} "
           f"casadi {version('casadi')} {model.key} {model.integrator_name} {model.states} {model.inputs} {model.both_ends}")

    def source() -> str:
        step, forward = _functions(model)
        sizes = {"NP": len(model.model.parameters), "NZ": model.memory, "NE": 2 * len(model.model.outputs),
                 "NC": sum(model.columns.values()), "NOISES": model.noises}
        return "\n".join([*(f"#define {name} {value}" for name, value in sizes.items()),
                          static_source([step, forward]), kernel])

    library = load_library(key, source, flags_by_size)
    if library is not None:
        library.dynident_innovations.argtypes = [ctypes.c_longlong] * 2 + [ctypes.c_void_p] * 10
        library.dynident_innovations.restype = None
    return library


# the step as symbols


@functools.lru_cache(maxsize=32)
def _functions(model: InnovationModel) -> tuple[ca.Function, ca.Function]:
    """(memory, row, parameters, noises) -> the next memory and (innovations, variances); and the derivative along a seed."""
    c = {name: ca.SX.sym(name, size) for name, size in model.columns.items()}
    z, p = ca.SX.sym("z", model.memory), ca.SX.sym("p", len(model.model.parameters))
    noise = ca.SX.sym("noise", model.noises)
    x, P = z[:model.size], _unpacked(z[model.size:], model.size)
    x, P = _renew(model, c, x, P, noise)
    x, P = _predict(model, c, x, P, p, noise)
    x, P, e, s = _update(model, c, x, P, p, noise)
    packed = [P[i, j] for i in range(model.size) for j in range(i, model.size)]
    results = ca.cse([ca.vertcat(x, *packed), ca.vertcat(e, s)])
    row, of = ca.vertcat(*c.values()), ca.vertcat(z, p, noise)
    seeds = [ca.SX.sym("d", v.shape[0]) for v in (z, p, noise)]
    along = [ca.jtimes(result, of, ca.vertcat(*seeds)) for result in results]
    dense = lambda parts: [ca.densify(part) for part in parts]  # noqa: E731
    return (ca.Function("dyn_step", [z, row, p, noise], dense(results)),
            ca.Function("dyn_forward", [z, row, p, noise, *seeds], dense(ca.cse(along))))


def _unpacked(packed: ca.SX, n: int) -> ca.SX:
    P, at = ca.SX(n, n), 0
    for i in range(n):
        for j in range(i, n):
            P[i, j] = P[j, i] = packed[at]
            at += 1
    return P


def _renew(model: InnovationModel, c: dict[str, ca.SX], x: ca.SX, P: ca.SX, noise: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Where an interval begins, the error at its end becomes that at its begin, and a new one is drawn."""
    nx, nw, n = len(model.model.states), len(model.inputs), model.size
    if not nw:
        return x, P
    moved = ca.SX(n, n)
    moved[:nx, :nx] = ca.SX.eye(nx)
    if model.both_ends:
        moved[nx:nx + nw, nx + nw:] = ca.SX.eye(nw)
    fresh = ca.SX(n, n)
    for k in range(nw):
        fresh[n - nw + k, n - nw + k] = c["w"][k] * ca.exp(2 * noise[len(model.states) + k])
    first = c["first"]
    return (first * (moved @ x) + (1 - first) * x,
            ca.densify(first * (moved @ P @ moved.T + fresh) + (1 - first) * P))


def _predict(model: InnovationModel, c: dict[str, ca.SX], x: ca.SX, P: ca.SX, p: ca.SX, noise: ca.SX) -> tuple[ca.SX, ca.SX]:
    its, nx, nw = model.model, len(model.model.states), len(model.inputs)
    state = ca.SX.sym("x", model.size)
    begin, end = state[nx:nx + nw], state[model.size - nw:]
    u0, u1 = ca.SX(c["u0"]), ca.SX(c["u1"])
    for k, index in enumerate(model.inputs):
        u0[index] += begin[k] + c["from"][k] * (end[k] - begin[k])
        u1[index] += begin[k] + c["to"][k] * (end[k] - begin[k])
    positions, velocities = its.position_velocity() if model.integrator.position_velocity else ((), ())
    after = model.integrator.next_state(StepFunction(its.rate, c["t"], c["h"], state[:nx], u0, u1, p, positions, velocities))
    after = ca.vertcat(after, state[nx:]) if nw else after  # a slice behind the only entry of a vector is not empty
    F = ca.jacobian(after, state)
    after, F = ca.substitute([after, F], [state], [x])
    D = ca.SX(model.size, model.size)
    for k, index in enumerate(model.states):
        D[index, index] = ca.exp(2 * noise[k]) * c["h"] / 6
    G = (3 * ca.SX.eye(model.size) + 6 * F - F @ F) / 8  # over half of the step, to its third order
    P = F @ (P + D) @ F.T + 4 * G @ D @ G.T + D
    return after, P


def _update(model: InnovationModel, c: dict[str, ca.SX], x: ca.SX, P: ca.SX, p: ca.SX, noise: ca.SX
            ) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    """One measurement after another, linearised at the prediction; a missing one has no gain and variance 1."""
    its, nx, nw, n = model.model, len(model.model.states), len(model.inputs), model.size
    state = ca.SX.sym("x", n)
    u = ca.SX(c["u"])
    for k, index in enumerate(model.inputs):
        u[index] += state[n - nw + k] if model.both_ends else 0
    y = ca.vertcat(its.output(c["at"], state[:nx], u, p))
    y, H = ca.substitute([y, ca.jacobian(y, state)], [state], [x])
    predicted, innovations, variances = x, [], []
    for j in range(len(its.outputs)):
        h, there = H[j, :].T, c["mask"][j]
        r = c["r"][j] * ca.exp(2 * noise[len(model.states) + nw + j])
        e = c["y"][j] - y[j] - ca.dot(h, x - predicted)
        d = P @ h
        s = ca.dot(h, d) + r
        gain = there * d / s
        W = ca.SX.eye(n) - gain @ h.T
        x, P = x + gain * e, W @ P @ W.T + there * r * gain @ gain.T
        innovations.append(there * e)
        variances.append(there * s + (1 - there))
    return x, P, ca.vertcat(*innovations), ca.vertcat(*variances)
