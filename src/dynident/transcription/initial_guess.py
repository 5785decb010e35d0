"""Initial guess: states and unknowns to begin with, read off the measurements where they show them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.errors import NotSupported
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.problem import Problem

WINDOW = 25  # samples to either side from which a value and a slope are read; 50 ms at 1 kHz
NARROWEST = 3  # samples to either side, where the signal bends too much for more
BENT = 1.5  # times the noise: a parabola that misses by more cannot follow the signal over its window
AT_ONCE = 4096  # times fitted together; their windows fit into the cache
ALIKE = 1e-9  # of a sampling interval; times that far apart ask for the same parabola
WORTHWHILE = 200  # times that lie alike among their neighbours; fewer are as quickly fitted each on its own


@dataclass(frozen=True, eq=False)
class ObservedState:
    """How a state can be seen: output = gain * state + offset, or as the slope of such an output."""

    output: str
    gain: float
    offset: float
    slope: bool


def observed_states(model: Model) -> dict[int, ObservedState]:
    """For each state that the outputs show directly or by their slope: where to look; only equations tell."""
    return _sights(model) if isinstance(model, EquationModel) else {}


@functools.lru_cache(maxsize=64)  # asked for each time a problem is discretized anew
def _sights(model: EquationModel) -> dict[int, ObservedState]:
    seen = _direct(model)
    try:
        positions, velocities = model.position_velocity()
    except NotSupported:
        positions, velocities = _chains(model)
    for q, v in zip(positions, velocities, strict=True):
        if q in seen and v not in seen and not seen[q].slope:
            seen[v] = ObservedState(seen[q].output, seen[q].gain, 0.0, True)
    return seen


def _symbols(model: EquationModel) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    return (ca.SX.sym("t"), ca.SX.sym("x", len(model.states)), ca.SX.sym("u", len(model.inputs)),
            ca.SX.sym("p", len(model.parameters)))


def _direct(model: EquationModel) -> dict[int, ObservedState]:
    t, x, u, p = _symbols(model)
    y = model.output(t, x, u, p)
    seen: dict[int, ObservedState] = {}
    for j, name in enumerate(model.outputs):
        gradient = ca.jacobian(y[j], x)
        shown = gradient.sparsity().get_col()
        constant = not any(ca.which_depends(y[j], ca.vertcat(t, u, p), 1, False)) and not ca.symvar(gradient)
        if len(shown) == 1 and constant and shown[0] not in seen:
            gain = float(ca.evalf(gradient[0, shown[0]]))
            offset = float(ca.evalf(ca.substitute(y[j], x, ca.DM.zeros(x.shape))))
            if gain != 0:
                seen[shown[0]] = ObservedState(name, gain, offset, False)
    return seen


def _chains(model: EquationModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """States whose rate is exactly another state, in every mode in which they move."""
    t, x, u, p = _symbols(model)
    rates = [model.mode(name).rate(t, x, u, p) for name in model.modes]
    pairs = []
    for i in range(len(model.states)):
        moving = [rate[i] for rate in rates if not rate[i].is_zero()]
        for k in range(len(model.states)):
            if i != k and moving and all(ca.is_equal(rate, x[k]) for rate in moving):
                pairs.append((i, k))
    return tuple(i for i, _ in pairs), tuple(k for _, k in pairs)


def states_from_measurements(model: Model, experiment: Experiment, times: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """States read off the record at some times, (times, states); NaN where the record does not show them."""
    guess = np.full((len(times), len(model.states)), np.nan)
    read: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # value and slope of an output; both may show a state
    jumps = isinstance(model, EquationModel) and model.hybrid
    for state, sight in observed_states(model).items():
        y = np.asarray(experiment.outputs.get(sight.output, ()), float)
        present = np.isfinite(y)
        if np.count_nonzero(present) > int(sight.slope):
            if sight.output not in read:
                read[sight.output] = _read_off(np.asarray(experiment.time)[present], y[present], np.asarray(times), window,
                                               jumps)
            value, slope = read[sight.output]
            guess[:, state] = slope / sight.gain if sight.slope else (value - sight.offset) / sight.gain
    return guess


def _read_off(t: np.ndarray, y: np.ndarray, times: np.ndarray, window: int, jumps: bool
              ) -> tuple[np.ndarray, np.ndarray]:
    """Value and slope at each time, over the widest window in which the signal bends no more than the noise hides.

    Where a slope jumps (a ball bounces) no window around it does; there, one that lies before or behind may.
    """
    windows = [window]
    while windows[-1] // 2 >= NARROWEST:
        windows.append(windows[-1] // 2)
    sides = [(each, side) for each in windows for side in (-1, 1) if jumps]
    values, slopes, misses = zip(*(_local_fit(t, y, times, each, side)
                                   for each, side in [*((each, 0) for each in windows), *sides]), strict=True)
    follows = np.array(misses) <= BENT * np.median(misses[len(windows) - 1])  # (windows, times)
    follows[len(windows) - 1] |= ~np.any(follows, axis=0)
    chosen, each = np.argmax(follows, axis=0), np.arange(len(times))
    return np.array(values)[chosen, each], np.array(slopes)[chosen, each]


def _local_fit(t: np.ndarray, y: np.ndarray, times: np.ndarray, window: int, side: int = 0
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value and slope at each time of a parabola through its neighbours (a line or a point where there are few).

    And by how much it misses them (rms). Neighbours to both sides, or those before (side = -1) or behind (1).
    """
    width = min(2 * window + 1, len(t))
    near = np.clip(np.searchsorted(t, times) - width // 2 + side * (width // 2), 0, len(t) - width)
    found = np.empty((3, len(times)))
    neighbours = np.lib.stride_tricks.sliding_window_view(y, width)
    others = np.ones(len(times), bool)
    for alike in _alike(t, times, near):
        tau = t[near[alike[0]] + np.arange(width)] - times[alike[0]]
        for part in _parts(alike):
            found[:, part] = _one_parabola(tau, neighbours[near[part]])
        others[alike] = False
    for part in _parts(np.flatnonzero(others)):
        tau = t[near[part, None] + np.arange(width)] - times[part, None]
        found[:, part] = _parabolas(tau, neighbours[near[part]])
    return found[0], found[1], found[2]


def _parts(which: np.ndarray) -> list[np.ndarray]:
    return [which[begin:begin + AT_ONCE] for begin in range(0, len(which), AT_ONCE)]


def _alike(t: np.ndarray, times: np.ndarray, near: np.ndarray) -> list[np.ndarray]:
    """Which of the times lie alike among their neighbours, group by group; none in a record with uneven steps."""
    if len(times) < WORTHWHILE or len(t) < 2 or np.ptp(np.diff(t)) > ALIKE * (t[1] - t[0]):
        return []
    _, group, size = np.unique(np.round((times - t[near]) / ((t[1] - t[0]) * ALIKE)), return_inverse=True, return_counts=True)
    return [np.flatnonzero(group == k) for k in np.flatnonzero(size >= WORTHWHILE)]


def _basis(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Powers of the distances to the neighbours (..., width) in units of the farthest, that unit, and the degree."""
    degree = min(2, tau.shape[-1] - 1)
    reach = np.max(np.abs(tau), axis=-1, keepdims=True)
    tau = tau / np.where(reach > 0, reach, 1.0)
    return np.stack([tau**power for power in range(degree + 1)], axis=-1), reach[..., 0], degree


def _one_parabola(tau: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Value, slope and miss (3, times) where the distances (width,) are the same for all: a filter of the signal."""
    basis, reach, degree = _basis(tau)
    orthogonal, triangle = np.linalg.qr(basis)
    along = neighbours @ orthogonal
    fit = np.linalg.solve(triangle, along.T)
    missed = neighbours - along @ orthogonal.T
    miss = np.sqrt(np.einsum("ij,ij->i", missed, missed) / max(1, len(tau) - degree - 1))
    return np.stack([fit[0], fit[1] / reach if degree else np.zeros_like(miss), miss])


def _parabolas(tau: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """The same with distances (times, width) of each time's own."""
    basis, reach, degree = _basis(tau)  # (times, width, degree + 1)
    across = basis.swapaxes(1, 2)
    fit = np.linalg.solve(across @ basis, across @ neighbours[:, :, None])[:, :, 0]
    missed = neighbours - (basis @ fit[:, :, None])[:, :, 0]
    miss = np.sqrt(np.sum(missed**2, axis=1) / max(1, tau.shape[1] - degree - 1))
    return np.stack([fit[:, 0], fit[:, 1] / reach if degree else np.zeros_like(miss), miss])


def start_values(problem: Problem) -> np.ndarray:
    """Start of every unknown; initial states without one come from the measurements, or are 0 where these are blind."""
    start = np.array([np.nan if u.start is None else u.start for u in problem.unknowns], dtype=float)

    @functools.cache
    def first_states(e: int) -> np.ndarray:
        experiment = problem.experiments[e]
        window = int(np.clip(experiment.samples // 20, 1, WINDOW))
        return states_from_measurements(problem.model, experiment, np.array([experiment.start]), window)[0]

    for i, unknown in enumerate(problem.unknowns):
        if not np.isnan(start[i]):
            continue
        state = problem.model.states.index(unknown.quantity)
        readings = [first_states(e)[state] for e in unknown.experiments]
        seen = [r for r in readings if np.isfinite(r)]
        guess = float(np.mean(seen)) if seen else 0.0
        if unknown.log and guess <= 0:
            guess = unknown.scale or 1.0
        start[i] = np.clip(guess, unknown.lower, unknown.upper)
    return start
