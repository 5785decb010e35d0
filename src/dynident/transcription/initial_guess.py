"""Initial guess: states and unknowns to begin with, read off the measurements where they show them.

States by local parabolas; parameters by gradient matching: over windows of time the change of each state is compared with
the integral of its rate, with states from the measurements. Nothing is simulated, so that nothing can become unstable
however far off the parameters are, and rates are often nearly linear in them. Noise in the states biases the answer: it is
a start, not an estimate.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import casadi as ca
import numpy as np

from dynident.errors import NotSupported
from dynident.integrators.grid import grid_of
from dynident.integrators.step_functions import symbols
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.parameter import Transforms
from dynident.problem.problem import Problem
from dynident.transcription.simulators import SimulatedModel

SLOPE_WINDOW = 25  # samples to either side from which a value and a slope are read; 50 ms at 1 kHz
NARROWEST = 3  # samples to either side, where the signal bends too much for more
BENT = 1.5  # times the noise: a parabola that misses by more cannot follow the signal over its window
BATCH = 4096  # times fitted together; their windows fit into the cache
COINCIDENT_TIMES = 1e-9  # of a sampling interval; times that far apart ask for the same parabola
WORTHWHILE = 200  # times that lie alike among their neighbours; fewer are as quickly fitted each on its own
MIN_WINDOWS = 40  # at least, in a record
MATCHING_EVALUATIONS = 200
READINGS_KEPT = 6  # of one record: first state, scales and starts of two models


@dataclass(frozen=True, eq=False)
class ObservedState:
    """How a state can be seen: output = gain * state + offset, or as the slope of such an output."""

    output: str
    gain: float
    offset: float
    derivative: bool


def observed_states(model: Model) -> dict[int, ObservedState]:
    """For each state that the outputs show directly or by their slope: where to look; of other models than equations, states
    that are outputs under another name."""
    if isinstance(model, SimulatedModel):
        names = model.states
        return {names.index(state): ObservedState(shown, 1.0, 0.0, False) for state, shown in model.shown_states.items()}
    return _sights(model) if isinstance(model, EquationModel) else {}


@functools.lru_cache(maxsize=64)  # asked for each time a problem is discretized anew
def _sights(model: EquationModel) -> dict[int, ObservedState]:
    model = model.undelayed
    seen = _direct(model)
    if model.sample_time is not None:
        return seen  # the slope of an output says nothing about a map
    try:
        positions, velocities = model.position_velocity()
    except NotSupported:
        positions, velocities = _chains(model)
    for q, v in zip(positions, velocities, strict=True):
        if q in seen and v not in seen and not seen[q].derivative:
            seen[v] = ObservedState(seen[q].output, seen[q].gain, 0.0, True)
    return seen


def _symbols(model: EquationModel) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    return (ca.SX.sym("t"), ca.SX.sym("x", len(model.states)), ca.SX.sym("u", len(model.inputs)),
            ca.SX.sym("p", len(model.parameters)))


def _direct(model: EquationModel) -> dict[int, ObservedState]:
    t, x, u, p = _symbols(model)
    z = ca.SX.sym("z", len(model.algebraic))
    system = model.algebraic_system
    y = model.output(t, x, u, p) if system is None else system.measured(t, x, z, u, p)
    seen: dict[int, ObservedState] = {}
    for j, name in enumerate(model.outputs):
        gradient = ca.jacobian(y[j], x)
        shown = gradient.sparsity().get_col()
        constant = not any(ca.which_depends(y[j], ca.vertcat(t, u, p, z), 1, False)) and not ca.symvar(gradient)
        if len(shown) == 1 and constant and shown[0] not in seen:
            gain = float(ca.evalf(gradient[0, shown[0]]))
            offset = float(ca.evalf(ca.substitute(y[j], x, ca.DM.zeros(x.shape))))
            if gain != 0:
                seen[shown[0]] = ObservedState(name, gain, offset, False)
    return seen


def _chains(model: EquationModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """States whose rate is exactly another state, in every mode in which they move."""
    t, x, u, p = _symbols(model)
    system, z = model.algebraic_system, ca.SX.sym("z", len(model.algebraic))
    if model.hybrid:
        rates = [model.mode(name).rate(t, x, u, p) for name in model.modes]
    else:
        rates = [model.rate(t, x, u, p) if system is None else system.motion(t, x, z, u, p)]
    pairs = []
    for i in range(len(model.states)):
        moving = [rate[i] for rate in rates if not rate[i].is_zero()]
        for k in range(len(model.states)):
            if i != k and moving and all(ca.is_equal(rate, x[k]) for rate in moving):
                pairs.append((i, k))
    return tuple(i for i, _ in pairs), tuple(k for _, k in pairs)


_readings: WeakKeyDictionary[Experiment, dict[tuple, np.ndarray]] = WeakKeyDictionary()


def states_from_measurements(model: Model, experiment: Experiment, times: np.ndarray, window: int = SLOPE_WINDOW) -> np.ndarray:
    """States read off the record at some times, (times, states); NaN where the record does not show them.

    Kept as long as the record lives: whoever begins at many starts reads the same record each time.
    """
    known = _readings.setdefault(experiment, {})
    key = model, window, np.asarray(times, float).tobytes()
    if key not in known:
        while len(known) >= READINGS_KEPT:
            known.pop(next(iter(known)))
        known[key] = _read_states(model, experiment, times, window)
    return known[key].copy()


def _read_states(model: Model, experiment: Experiment, times: np.ndarray, window: int) -> np.ndarray:
    guess = np.full((len(times), len(model.states)), np.nan)
    read: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # value and slope of an output; both may show a state
    jumps = isinstance(model, EquationModel) and model.hybrid
    for state, sight in observed_states(model).items():
        y = np.asarray(experiment.outputs.get(sight.output, ()), float)
        present = np.isfinite(y)
        if np.count_nonzero(present) > int(sight.derivative):
            if sight.output not in read:
                t, seen = _without_repeats(np.asarray(experiment.time)[present], y[present])
                read[sight.output] = _read_off(t, seen, np.asarray(times), window, jumps)
            value, slope = read[sight.output]
            guess[:, state] = slope / sight.gain if sight.derivative else (value - sight.offset) / sight.gain
    return guess


def _without_repeats(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each time once, with the mean of what was measured then."""
    if t.size < 2 or np.all(np.diff(t) > 0):
        return t, y
    once, which, count = np.unique(t, return_inverse=True, return_counts=True)
    return once, np.bincount(which, y) / count


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
    return [which[begin:begin + BATCH] for begin in range(0, len(which), BATCH)]


def _alike(t: np.ndarray, times: np.ndarray, near: np.ndarray) -> list[np.ndarray]:
    """Which of the times lie alike among their neighbours, group by group; none in a record with uneven steps."""
    if len(times) < WORTHWHILE or len(t) < 2 or np.ptp(np.diff(t)) > COINCIDENT_TIMES * (t[1] - t[0]):
        return []
    apart = np.round((times - t[near]) / ((t[1] - t[0]) * COINCIDENT_TIMES))
    _, group, size = np.unique(apart, return_inverse=True, return_counts=True)
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
        window = int(np.clip(experiment.samples // 20, 1, SLOPE_WINDOW))
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


def gradient_matching_start(problem: Problem, coordinates: Transforms, start: np.ndarray) -> np.ndarray | None:
    """Coordinates of the unknowns, with parameters that match; None where the records do not show every state."""
    records = [_MatchedRecord(problem, e) for e in range(len(problem.experiments))]
    moved = np.array([not u.initial for u in problem.unknowns], dtype=bool)
    if not np.any(moved) or not all(np.all(np.isfinite(s.states)) for s in records):
        return None

    def with_parameters(part: np.ndarray) -> np.ndarray:
        full = start.copy()
        full[moved] = part
        return full

    def residuals(part: np.ndarray) -> np.ndarray:
        values = coordinates.values(with_parameters(part))
        return np.concatenate([s.residuals(problem.parameters_at(values, e)) for e, s in enumerate(records)])

    def jacobian(part: np.ndarray) -> np.ndarray:
        xi = with_parameters(part)
        values, by = coordinates.values(xi), coordinates.derivative(xi)
        blocks = []
        for e, s in enumerate(records):
            rows = s.jacobian(problem.parameters_at(values, e))
            unknown = problem.bindings[e].parameter_unknown
            block = np.zeros((len(rows), len(values)))
            block[:, unknown[unknown >= 0]] = rows[:, unknown >= 0]
            blocks.append(block * by)
        return np.vstack(blocks)[:, moved]

    from scipy.optimize import least_squares  # here, because it takes a while to load, and few fits ask for it

    low, high = coordinates.lower[moved], coordinates.upper[moved]
    inside = np.clip(start[moved], low, high)
    with np.errstate(all="ignore"):
        if not np.all(np.isfinite(residuals(inside))):
            return None
        try:
            fit = least_squares(residuals, inside, jacobian, bounds=(low, high), x_scale="jac", loss="linear",
                                max_nfev=MATCHING_EVALUATIONS)
        except (ValueError, np.linalg.LinAlgError):  # it stepped to where a rate is not finite; there is no start from here
            return None
    return with_parameters(fit.x) if np.all(np.isfinite(fit.x)) else None


class _MatchedRecord:
    """One record: states at the samples, and how far their changes over windows are from what the rates say."""

    def __init__(self, problem: Problem, e: int):
        model, experiment = problem.model, problem.experiments[e]
        self.grid = grid_of(model, experiment)
        samples = self.grid.nodes
        self.window = int(np.clip(samples // MIN_WINDOWS, 1, SLOPE_WINDOW))
        self.states = states_from_measurements(model, experiment, self.grid.time, self.window)
        s = symbols(model)
        t, x, u, p = s["t"], s["x"], s["u0"], s["p"]
        rate = model.undelayed.rate(t, x, u, p)
        depending = [i for i in range(len(model.states)) if any(ca.which_depends(rate[i], p, 1, False))]  # by parameters
        self.depending, rate = depending, rate[depending]
        self.rate = ca.Function("rate", [t, x, u, p], [ca.densify(rate)]).map(samples - 1)
        jacobian = ca.densify(ca.vec(ca.jacobian(rate, p)))
        self.rate_jacobian = ca.Function("rate_jacobian", [t, x, u, p], [jacobian]).map(samples - 1)
        change = self._windows(np.diff(self.states[:, depending], axis=0))
        scale = np.sqrt(np.mean(change**2, axis=0))
        self.change, self.scale = change, np.where(scale > 0, scale, 1.0)

    def _windows(self, steps: np.ndarray) -> np.ndarray:
        """Sums over windows of what happens in the intervals, (windows, ...)."""
        total = np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])
        return total[self.window:] - total[:-self.window]

    def _integral(self, function: ca.Function, p: np.ndarray) -> np.ndarray:
        g, x = self.grid, self.states
        at = [function(g.time[None, k:len(x) - 1 + k], x[k:len(x) - 1 + k].T, u.T, p) for k, u in
              ((0, g.u_begin), (1, g.u_end))]
        return np.diff(g.time)[:, None] / 2 * (np.asarray(at[0]) + np.asarray(at[1])).T

    def residuals(self, p: np.ndarray) -> np.ndarray:
        return ((self._windows(self._integral(self.rate, p)) - self.change) / self.scale).ravel()

    def jacobian(self, p: np.ndarray) -> np.ndarray:
        """(windows x states, parameters)"""
        steps = self._integral(self.rate_jacobian, p).reshape(len(self.states) - 1, p.size, len(self.depending)).swapaxes(1, 2)
        return (self._windows(steps) / self.scale[:, None]).reshape(-1, p.size)
