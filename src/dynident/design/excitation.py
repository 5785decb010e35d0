"""Excitation: the motion of an arm that tells most about its parameters, within the limits of its joints.

A finite Fourier series per joint, at rest at both ends (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997). The
criterion is the log determinant of the information about the base parameters; its gradient is exact, by reverse
differentiation of the regressor along the motion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from scipy.optimize import minimize

from dynident._util import hooks
from dynident._util.blas_threads import single_thread
from dynident.errors import ProblemError, did_you_mean
from dynident.inverse_dynamics.base_parameters import below_noise, choose_base
from dynident.inverse_dynamics.setup import torque_record
from dynident.problem.experiment import Experiment
from dynident.robots import rigid_body
from dynident.robots.model import RobotModel
from dynident.tolerances import SINGULAR_VALUE

SAMPLES_PER_HARMONIC = 20  # of the highest one, while searching; limits are checked on a grid that is ten times finer
SMOOTH_SIGN = 0.1  # rad/s; Coulomb's corner, rounded for the search
PENALTIES = (1e2, 1e4, 1e6)  # weight of squared relative violations, one search after the other
MOST_ITERATIONS = 150  # of each search
RANDOM_TRIALS = 20  # motions to compare with; the best of them is the start
ACCELERATION_PER_VELOCITY = 5.0  # 1/s; URDF has no limit of accelerations
KEPT_BACK = 0.05  # of a range of torques or boxes, while searching: a penalty stops a little outside
BEST_TORQUES = 1e-3  # noise of torques over their size, at best: what shows less is no parameter to plan for
CRITERIA = ("log det", "condition")
CriterionFunction = Callable[[np.ndarray], tuple[float, np.ndarray]]  # of a scaled regressor: value to lower, and its gradient
LIMITS = ("position", "velocity", "acceleration", "torque")


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion for a controller: coefficients of its Fourier series, and its criterion beside those of random motions."""

    joints: tuple[str, ...]
    duration: float  # s, one period
    harmonics: int
    coefficients: np.ndarray  # (joints, 1 + 2 (harmonics - 1)): centre, then the free sine and cosine amplitudes
    log_det: float  # of the scaled information
    condition: float  # of the regressor with columns of length one
    random_log_det: tuple[float, ...]  # of random motions within the same limits
    random_condition: tuple[float, ...]
    others: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by name: log det and condition of other motions
    notes: tuple[str, ...] = ()

    def motion(self, time: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities and accelerations, each (times, joints); the motion repeats after its duration."""
        bases = fourier_basis(np.asarray(time, float), self.duration, self.harmonics)
        q, dq, ddq = (basis @ self.coefficients.T for basis in bases)
        return q, dq, ddq

    def to_csv(self, path: str | Path, rate: float = 100.0) -> Path:
        """One period for the controller: t, q1, ..., dq1, ..., ddq1, ..., `rate` rows a second."""
        time = np.arange(round(self.duration * rate) + 1) / rate
        columns = dict(zip((f"{kind}{k + 1}" for kind in ("q", "dq", "ddq") for k in range(len(self.joints))),
                           np.hstack(self.motion(time)).T, strict=True))
        hooks.call("write_columns", {"t": time, **columns}, path)
        return Path(path)

    def __str__(self) -> str:
        middle = float(np.median(self.random_condition))
        lines = [f"Excitation of {len(self.joints)} joints: {self.duration:g} s, {self.harmonics} harmonics",
                 f"  scaled condition {self.condition:.3g} (random motions: median {middle:.3g}, best "
                 f"{min(self.random_condition):.3g})",
                 f"  log det {self.log_det:.4g} (random motions: median {np.median(self.random_log_det):.4g}, best "
                 f"{max(self.random_log_det):.4g})"]
        lines += [f"  {name}: scaled condition {condition:.3g}, log det {log_det:.4g}"
                  for name, (log_det, condition) in self.others.items()]
        return "\n".join([*lines, *(f"  note {note}" for note in self.notes)])


def fourier_basis(time: np.ndarray, duration: float, harmonics: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(times, 1 + 2 (harmonics - 1)) for positions, velocities, accelerations; the first harmonic makes both ends rest.

    q' = sum a_l cos(l w t) + b_l sin(l w t) with sum a_l = 0 and sum l b_l = 0: velocity and acceleration vanish at 0.
    """
    w, order = 2 * np.pi / duration, np.arange(1, harmonics + 1)
    s, c = np.sin(w * np.outer(time, order)), np.cos(w * np.outer(time, order))
    of_a = s / (w * order), c, -s * (w * order)
    of_b = -c / (w * order), s, c * (w * order)
    found = []
    for k, (a, b) in enumerate(zip(of_a, of_b, strict=True)):
        found.append(np.hstack([np.full((time.size, 1), float(k == 0)), a[:, 1:] - a[:, :1],
                                b[:, 1:] - b[:, :1] * order[1:]]))
    return found[0], found[1], found[2]


def excitation(arm: RobotModel, *, duration: float = 20.0, harmonics: int = 5, limits: Mapping[str, Any] | None = None,
               workspace: Mapping[str, Sequence[Sequence[float]]] | None = None, margin: float = 0.9, seed: int = 0,
               compare: Mapping[str, Experiment | Excitation] | None = None, criterion: str = "log det") -> Excitation:
    """A motion that is most informative about an arm's parameters, within the limits of its joints.

    See the manual, methods/inverse_dynamics.

    Parameters
    ----------
    arm : RobotModel
        The robot.
    duration : float, default 20.0
        Of one period, in seconds.
    harmonics : int, default 5
        Of the Fourier series of each joint.
    limits : mapping of str to float or sequence of float, optional
        "position", "velocity", "acceleration" and "torque", each a number or one per joint (positions may be pairs),
        in SI units. What is left out is taken from the URDF, accelerations as five times the velocity limit per second.
    workspace : mapping of str to three pairs of float, optional
        Keeps the origin of a link's frame in a box along the axes of the base, in m:
        `{"flange": [(-1, 1), (-1, 1), (0.2, 2)]}`.
    margin : float, default 0.9
        Fraction of each limit that is used.
    seed : int, default 0
        Of the random motions that it is compared with.
    compare : mapping of str to Experiment or Excitation, optional
        Other motions of the same arm by name, as published ones or the one used so far, whose criteria are printed too, with
        as many samples as the plan's: a record with positions `q1`, ... (and velocities), or another plan.
    criterion : str, default "log det"
        "log det" of the information, for which large motions win; or "condition", for columns of the regressor that differ
        in direction whatever their length: from the plan of the first, the summed variances of parameters in units of what
        each alone would have fall further.

    Returns
    -------
    Excitation
        Coefficients, `motion(time)`, `to_csv(path)`, and its criterion beside those of random motions.

    Raises
    ------
    ProblemError
        For arguments that make no sense, and for limits that the URDF does not give.

    Examples
    --------
    >>> import dynident as di
    >>> plan = di.excitation(di.RobotModel(di.library.two_link_urdf()), duration=10, harmonics=3)
    >>> plan.condition < min(plan.random_condition) * 1.5
    True
    """
    if criterion not in CRITERIA:
        raise ProblemError(f"criterion = {criterion!r}; there are {' and '.join(map(repr, CRITERIA))}.")
    if harmonics < 2 or duration <= 0 or not 0 < margin <= 1:
        raise ProblemError(f"harmonics = {harmonics}, duration = {duration}, margin = {margin}; ask for two harmonics or more, "
                           "a positive duration, and a margin up to 1.")
    with single_thread():  # tall and thin factors, for which BLAS would wake its threads thousands of times
        return _optimized(arm, duration, harmonics, limits or {}, workspace or {}, margin, seed, compare or {}, criterion)


def _optimized(arm: RobotModel, duration: float, harmonics: int, limits: Mapping[str, Any], workspace: Mapping[str, Any],
               margin: float, seed: int, compare: Mapping[str, Experiment | Excitation], criterion: str) -> Excitation:
    search = _Search.of(arm, duration, harmonics, joint_limits(arm, limits), workspace, margin)
    motions = {name: _sampled(arm, other, len(search.bases[0])) for name, other in compare.items()}
    trials = [search.feasible(search.random(np.random.default_rng([seed, k]))) for k in range(RANDOM_TRIALS)]
    base = search.base_columns(trials)
    scales = search.column_lengths(trials, base)
    scores = [search.quality(x, base, scales) for x in trials]
    x = trials[int(np.argmax([log_det for log_det, _ in scores]))]
    for value in (log_volume, log_variances)[:1 + (criterion == "condition")]:
        for weight in PENALTIES:
            x = minimize(search.cost, x, args=(base, scales, weight, value), jac=True, method="L-BFGS-B",
                         options={"maxiter": MOST_ITERATIONS}).x
    x = search.feasible(x)
    log_det, condition = search.quality(x, base, scales)
    notes = search.violations(x)
    return Excitation(arm.joints, float(duration), harmonics, x.reshape(arm.dof, -1), log_det, condition,
                      tuple(s[0] for s in scores), tuple(s[1] for s in scores),
                      {name: search.quality_along(motion, base, scales) for name, motion in motions.items()}, notes)


def joint_limits(arm: RobotModel, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """(joints, 2) lowest and highest of each kind; what neither the file nor the caller says is asked for."""
    faults = [f"limits: '{key}' is none of {', '.join(LIMITS)}." for key in given if key not in LIMITS]
    joints = arm.tree.joints
    found = {"position": np.array([[j.lower, j.upper] if np.isfinite(j.upper - j.lower) else [-np.pi, np.pi] for j in joints]),
             "velocity": np.array([[-j.velocity, j.velocity] for j in joints]),
             "torque": np.array([[-j.effort, j.effort] for j in joints])}
    for key, value in given.items():
        if key in LIMITS:
            array = np.asarray(value, float)
            array = array if array.ndim == 2 else np.stack([-np.abs(array), np.abs(array)], axis=-1)
            try:
                found[key] = np.array(np.broadcast_to(array, (arm.dof, 2)))
            except ValueError:
                faults.append(f"limits: '{key}' has the shape {np.shape(value)}; give one number, or one per joint.")
    open_ended = [j.name for j, (_, top) in zip(joints, found["velocity"], strict=True) if not np.isfinite(top)]
    if open_ended:
        faults.append(f"{arm.urdf.source} gives no velocity limit for {', '.join(open_ended)}, and a motion without one would "
                      "be as fast as it likes; say limits={\"velocity\": ...}.")
    endless = [j.name for j in joints if j.kind == "prismatic" and not np.isfinite(j.upper - j.lower)]
    if endless and "position" not in given:
        faults.append(f"{arm.urdf.source} gives no range for the prismatic joint {', '.join(endless)}; say "
                      "limits={\"position\": ...}.")
    if faults:
        raise ProblemError(faults)
    found.setdefault("acceleration", ACCELERATION_PER_VELOCITY * found["velocity"])
    return found


def log_volume(matrix: np.ndarray) -> tuple[float, np.ndarray]:
    """Minus the log determinant of matrix' matrix, and its gradient."""
    q, triangle = np.linalg.qr(matrix)
    diagonal, n = np.abs(np.diag(triangle)), matrix.shape[1]
    inverse = np.linalg.solve(triangle + SINGULAR_VALUE * np.max(diagonal) * np.eye(n), np.eye(n))
    return -2 * float(np.sum(np.log(np.maximum(diagonal, np.finfo(float).tiny)))), -2 * (q @ inverse.T)


def log_variances(matrix: np.ndarray) -> tuple[float, np.ndarray]:
    """Logarithm of the summed variances of parameters whose columns have length one, and its gradient.

    It is smooth, and bounds the condition: with n columns of length one condition^2 <= n times that sum.
    """
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(float).tiny)
    unit = matrix / lengths
    left, s, right = np.linalg.svd(unit, full_matrices=False)
    s = np.maximum(s, SINGULAR_VALUE * s[0])
    total = float(np.sum(s**-2))
    slope = -2 * (left * s**-3) @ right / total
    return np.log(total), (slope - unit * np.sum(unit * slope, axis=0)) / lengths


@dataclass(frozen=True, eq=False)
class _Search:
    """Criterion and limits of a motion as functions of its coefficients, with their gradients."""

    arm: RobotModel
    bases: tuple[np.ndarray, np.ndarray, np.ndarray]  # while searching
    fine: tuple[np.ndarray, np.ndarray, np.ndarray]  # to check
    limits: Mapping[str, np.ndarray]  # (joints, 2), margin included
    weights: np.ndarray  # (joints,) one over the size of each joint's torque
    regressor: ca.Function  # (q, dq, ddq) -> (joints, parameters)
    adjoint: ca.Function  # (q, dq, ddq, cotangents) -> gradients of their product
    others: ca.Function  # (q, dq, ddq) -> what else is limited: torques, coordinates of links
    others_adjoint: ca.Function
    bounds: np.ndarray  # (others, 2)
    labels: tuple[str, ...]

    @classmethod
    def of(cls, arm: RobotModel, duration: float, harmonics: int, limits: Mapping[str, np.ndarray],
           workspace: Mapping[str, Sequence[Sequence[float]]], margin: float) -> _Search:
        count = SAMPLES_PER_HARMONIC * harmonics
        bases, fine = (fourier_basis(np.arange(n) * duration / n, duration, harmonics) for n in (count, 10 * count))
        centre = limits["position"].mean(axis=1, keepdims=True)
        narrow = {key: margin * pairs if key != "position" else centre + margin * (pairs - centre)
                  for key, pairs in limits.items()}
        q, dq, ddq = (ca.SX.sym(name, arm.dof) for name in ("q", "dq", "ddq"))
        regressor, torque = _smooth_functions(arm, q, dq, ddq)
        boxes, labels, box_bounds = _boxes(arm, q, workspace)
        limited = [k for k in range(arm.dof) if np.isfinite(narrow["torque"][k, 1])]
        others = ca.vertcat(*(torque[k] for k in limited), *boxes)
        bounds = np.vstack([narrow["torque"][limited], box_bounds]) if others.shape[0] else np.zeros((0, 2))
        middle = bounds.mean(axis=1, keepdims=True)
        bounds = middle + (bounds - middle) / (1 + KEPT_BACK)
        cotangent, other = ca.SX.sym("L", *regressor.shape), ca.SX.sym("l", others.shape[0])
        motion = ca.vertcat(q, dq, ddq)
        size = narrow["torque"][:, 1]
        return cls(arm, bases, fine, narrow, 1 / np.where(np.isfinite(size), size, 1.0),
                   ca.Function("Y", [q, dq, ddq], [ca.densify(regressor)]),
                   ca.Function("Yr", [q, dq, ddq, cotangent],
                               [ca.densify(ca.gradient(ca.dot(ca.densify(regressor), cotangent), motion))]),
                   ca.Function("o", [q, dq, ddq], [ca.densify(others)]),
                   ca.Function("or", [q, dq, ddq, other], [ca.densify(ca.gradient(ca.dot(others, other), motion))]),
                   bounds, (*(f"the torque of joint {k + 1}" for k in limited), *labels))

    def motion(self, x: np.ndarray, fine: bool = False) -> list[np.ndarray]:
        return [basis @ x.reshape(self.arm.dof, -1).T for basis in (self.fine if fine else self.bases)]

    def rows(self, x: np.ndarray) -> np.ndarray:
        """(samples, joints, parameters) weighted."""
        return self.rows_along(self.motion(x))

    def rows_along(self, motion: Sequence[np.ndarray]) -> np.ndarray:
        """The same of positions, velocities and accelerations (samples, joints)."""
        n = len(motion[0])
        flat = np.array(self.regressor.map(n)(*(m.T for m in motion)))
        return flat.reshape(self.arm.dof, n, -1).transpose(1, 0, 2) * self.weights[:, None]

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Coefficients of a motion that uses its ranges, before it is made to keep them."""
        width = self.bases[0].shape[1]
        x = rng.normal(size=(self.arm.dof, width)) / np.maximum(np.max(np.abs(self.bases[1]), axis=0), 1e-9)
        x *= self.limits["velocity"][:, 1:]
        x[:, 0] = rng.uniform(*(self.limits["position"] * 0.5 + 0.25 * self.limits["position"].sum(axis=1, keepdims=True)).T)
        return x.ravel()

    def feasible(self, x: np.ndarray) -> np.ndarray:
        """The same motion, smaller about its centre, so that positions, velocities and accelerations keep their limits."""
        y = x.reshape(self.arm.dof, -1).copy()
        ranges = self.limits["position"]
        y[:, 0] = np.clip(y[:, 0], *(0.9 * ranges + 0.05 * ranges.sum(axis=1, keepdims=True)).T)
        swing = y.copy()
        swing[:, 0] = 0
        for basis, key in zip(self.fine, ("position", "velocity", "acceleration"), strict=True):
            moved = basis @ swing.T
            low, high = (self.limits[key] - (y[:, :1] if key == "position" else 0.0)).T
            reach = np.maximum(np.max(moved / high, axis=0), np.max(moved / low, axis=0))
            swing /= np.maximum(reach, 1.0)[:, None]
        swing[:, 0] = y[:, 0]
        return swing.ravel()

    def base_columns(self, trials: Sequence[np.ndarray]) -> np.ndarray:
        """Parameters that some motion tells, dependent ones left out."""
        stacked = np.concatenate([self.rows(x).reshape(-1, len(self.arm.parameters)) for x in trials[:5]])
        tolerance = below_noise(np.sqrt(len(stacked)) / BEST_TORQUES)
        return choose_base(self.arm.parameters, stacked, tolerance).independent

    def column_lengths(self, trials: Sequence[np.ndarray], base: np.ndarray) -> np.ndarray:
        lengths = [np.linalg.norm(self.rows(x).reshape(-1, len(self.arm.parameters))[:, base], axis=0) for x in trials]
        return np.maximum(np.median(lengths, axis=0), np.finfo(float).tiny)

    def quality(self, x: np.ndarray, base: np.ndarray, scales: np.ndarray) -> tuple[float, float]:
        """Log determinant of the scaled information, and the condition with columns of length one."""
        return self.quality_along(self.motion(x), base, scales)

    def quality_along(self, motion: Sequence[np.ndarray], base: np.ndarray, scales: np.ndarray) -> tuple[float, float]:
        """The same of any motion; one that leaves some base parameter without effect has an infinite condition."""
        matrix = self.rows_along(motion).reshape(-1, len(self.arm.parameters))[:, base] / scales
        singular = np.linalg.svd(matrix, compute_uv=False)
        lengths = np.linalg.norm(matrix, axis=0)
        unit = np.linalg.svd(matrix / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
        condition = float(unit[0] / unit[-1]) if unit[-1] > 0 else np.inf
        return 2 * float(np.sum(np.log(np.maximum(singular, np.finfo(float).tiny)))), condition

    def cost(self, x: np.ndarray, base: np.ndarray, scales: np.ndarray, weight: float, criterion: CriterionFunction
             ) -> tuple[float, np.ndarray]:
        """A criterion of the scaled regressor plus squared violations, and the gradient."""
        motion, rows = self.motion(x), self.rows(x)
        n, dof = rows.shape[:2]
        matrix = rows.reshape(n * dof, -1)[:, base] / scales
        own, slope = criterion(matrix)
        cotangent = np.zeros((n * dof, rows.shape[2]))
        cotangent[:, base] = slope / scales
        cotangent = cotangent.reshape(n, dof, -1) * self.weights[:, None]
        columns = cotangent.transpose(1, 0, 2).reshape(dof, -1)
        along = np.array(self.adjoint.map(n)(*(m.T for m in motion), columns))  # (3 dof, n)
        violated, pull = self._violation(motion)
        gradient = sum(basis.T @ (along[k * dof:(k + 1) * dof].T + weight * pull[k]) for k, basis in enumerate(self.bases))
        return own + weight * violated, np.asarray(gradient).T.ravel()

    def _violation(self, motion: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Mean squared relative violation of all limits, and its gradient by the motion."""
        n, dof = motion[0].shape
        total, pull = 0.0, []
        for signal, key in zip(motion, ("position", "velocity", "acceleration"), strict=True):
            size, excess = _excess(signal, self.limits[key])
            total += float(np.mean(excess**2))
            pull.append(2 * excess / size / excess.size)
        if len(self.bounds):
            values = np.array(self.others.map(n)(*(m.T for m in motion))).T
            size, excess = _excess(values, self.bounds)
            total += float(np.mean(excess**2))
            back = np.array(self.others_adjoint.map(n)(*(m.T for m in motion), (2 * excess / size / excess.size).T))
            pull = [p + back[k * dof:(k + 1) * dof].T for k, p in enumerate(pull)]
        return total, pull

    def violations(self, x: np.ndarray) -> tuple[str, ...]:
        """What of torques and workspace is not kept, each a sentence."""
        if not len(self.bounds):
            return ()
        motion = self.motion(x, fine=True)
        values = np.array(self.others.map(len(motion[0]))(*(m.T for m in motion))).T
        half = (self.bounds[:, 1] - self.bounds[:, 0]) / 2
        low, high = self.bounds[:, 0] - KEPT_BACK * half, self.bounds[:, 1] + KEPT_BACK * half
        return tuple(f"{label} leaves its limits: from {least:.4g} to {most:.4g}, allowed {a:.4g} to {b:.4g}."
                     for label, least, most, a, b in zip(self.labels, values.min(axis=0), values.max(axis=0), low, high,
                                                         strict=True) if least < a or most > b)


def _sampled(arm: RobotModel, other: Experiment | Excitation, count: int) -> list[np.ndarray]:
    """Positions, velocities and accelerations of another motion at so many samples; a record's are smoothed as for a fit."""
    if isinstance(other, Excitation):
        if len(other.joints) != arm.dof:
            raise ProblemError(f"compare: a plan for {len(other.joints)} joints is none for an arm with {arm.dof}.")
        return list(other.motion(np.arange(count) * other.duration / count))
    if not isinstance(other, Experiment):
        raise ProblemError(f"compare: give a record (Experiment) or a plan (Excitation), not a {type(other).__name__}.")
    still = replace(other, inputs=dict.fromkeys(arm.inputs, np.zeros(other.samples)), hold="linear", noise={}, units={})
    motion = torque_record(arm, still, "auto", 1).motion
    at = np.linspace(0, motion.time.size - 1, count).astype(int)
    return [motion.q[at], motion.dq[at], motion.ddq[at]]


def _excess(signal: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half the width of each range, and how far a signal (n, k) is outside of it, relative to that; signed."""
    size = (limits[:, 1] - limits[:, 0]) / 2
    return size, (np.maximum(signal - limits[:, 1], 0) - np.maximum(limits[:, 0] - signal, 0)) / size


def _smooth_functions(arm: RobotModel, q: ca.SX, dq: ca.SX, ddq: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Regressor of all parameters at nominal values, and torques, with Coulomb's corner rounded."""
    smooth = RobotModel.from_definition(arm.definition() | {"sign_velocity": SMOOTH_SIGN})
    p = {name: ca.SX.sym(name) for name in smooth.parameters}
    torque = smooth.torques(q, dq, ddq, p)
    symbols, nominal = ca.vertcat(*p.values()), ca.DM([smooth.nominal_values[name].start for name in smooth.parameters])
    return (ca.substitute(ca.jacobian(torque, symbols), symbols, nominal), ca.substitute(torque, symbols, nominal))


def _boxes(arm: RobotModel, q: ca.SX, workspace: Mapping[str, Sequence[Sequence[float]]]
           ) -> tuple[list[ca.SX], list[str], np.ndarray]:
    """Coordinates of links that must stay in boxes, what to call them, and their ranges."""
    links = [body.link for body in arm.tree.bodies]
    faults = [f"workspace: there is no moving link '{name}'.{did_you_mean(name, links)}" for name in workspace
              if name not in links]
    faults += [f"workspace: the box of '{name}' is three pairs (lowest, highest), along x, y and z."
               for name, box in workspace.items() if np.shape(box) != (3, 2)]
    if faults:
        raise ProblemError(faults)
    places = rigid_body.origin_positions(arm.tree, q)
    coordinates = [places[i, links.index(name)] for name in workspace for i in range(3)]
    labels = [f"{axis} of {name}" for name in workspace for axis in "xyz"]
    return coordinates, labels, np.array([pair for box in workspace.values() for pair in box], float).reshape(-1, 2)
