"""Fisher scoring: the criterion of the innovations with gradient and information, and its minimum by damped steps.

Likelihood (prediction error): L = 1/2 sum(e^2/S + log S), H = sum(de de'/S + 1/2 dS dS'/S^2), the expected Hessian. Where the
noise of an output is open, log S is left out of as many first values as initial states are free: these meet them exactly.
Total least squares (errors of input sensors): 1/2 sum w^2 with w = e/sqrt(S) and noises that are given; H = sum(dw dw').
The term log S pulls a parameter towards smaller variances, which is right where the noise is process noise, and a bias where
the input's own error stands in the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynident.kalman.prediction_error.innovations import RecordInnovations, run_innovations
from dynident.kalman.prediction_error.setup import PredictionSetup
from dynident.solvers.globalization import FIRST_DAMPING, MOST_DAMPING, Damping
from dynident.solvers.solver_result import Iteration
from dynident.tolerances import SCORING_DECREMENT, SCORING_STALLED, SMALLEST_EIGENVALUE

INITIAL_DAMPING = Damping(FIRST_DAMPING)
SLOW_SCORING = 0.1  # of a decrement that one step leaves: above it, near a minimum, the Hessian replaces its expectation
NEAR_MINIMUM = 1.0  # squared standard errors from a minimum: near it
LEAST_SECANT = 1e-8  # cosine between a step and what the Hessian misses along it; less says nothing about the Hessian
DIFFERENCE_STEP = 1e-2  # standard errors, for the Hessian from exact gradients
LIKELIHOOD, TOTAL_LEAST_SQUARES = "likelihood", "total_least_squares"


@dataclass(frozen=True, eq=False)
class InnovationCriterion:
    """The criterion at a point, with what is said of it."""

    value: float  # infinite where the filter breaks down
    gradient: np.ndarray
    information: np.ndarray
    scores: tuple[np.ndarray, ...]  # per record (samples, theta): the gradient sample by sample
    innovations: tuple[RecordInnovations, ...]  # at the samples
    attenuation: np.ndarray  # (theta,) 1/2 sum dS/S


def evaluate(setup: PredictionSetup, theta: np.ndarray, kind: str = LIKELIHOOD, derivatives: bool = True
             ) -> InnovationCriterion:
    """Over all records, with the priors of the unknowns."""
    size = theta.size
    setup.passes["jacobians" if derivatives else "simulations"] += 1
    value, gradient, information = _priors(setup, theta)
    if setup.tilt is not None:
        value, gradient = value + float(setup.tilt @ theta), gradient + setup.tilt
    pull, scores, innovations = np.zeros(size), [], []
    with np.errstate(all="ignore"):
        for e in range(len(setup.records)):
            at = _record_innovations(setup, theta, e, derivatives)
            innovations.append(at)
            z = at.e / np.sqrt(at.s)
            logs = setup.records[e].counted if kind == LIKELIHOOD else np.zeros(z.shape)  # whose log S counts
            value += 0.5 * float(np.sum(z**2)) + 0.5 * float(np.sum(logs * np.log(at.s)))
            if not np.isfinite(value) or np.any(at.s <= 0):
                return InnovationCriterion(np.inf, gradient, information, (), (), pull)
            if derivatives:
                de, ds = at.de / np.sqrt(at.s)[..., None], at.ds / at.s[..., None]
                own = z[..., None] * de + 0.5 * ds * (logs - z**2)[..., None]
                scores.append(np.sum(own, axis=1))
                gradient += np.sum(scores[-1], axis=0)
                flat = (de if kind == LIKELIHOOD else de - 0.5 * ds * z[..., None]).reshape(z.size, size)
                information += flat.T @ flat
                if kind == LIKELIHOOD:
                    spread = (logs[..., None] * ds).reshape(z.size, size)
                    information += 0.5 * spread.T @ spread
                pull += 0.5 * np.sum(logs[..., None] * ds, axis=(0, 1))
    finite = np.all(np.isfinite(gradient)) and np.all(np.isfinite(information))
    return InnovationCriterion(value if finite else np.inf, gradient, information, tuple(scores), tuple(innovations), pull)


def _record_innovations(setup: PredictionSetup, theta: np.ndarray, e: int, derivatives: bool) -> RecordInnovations:
    """At the samples of one record, differentiated in all of theta."""
    problem, record, size = setup.problem, setup.records[e], theta.size
    p, x0 = problem.parameters_and_initial_state(setup.values(theta), e)
    binding, slopes, noises = problem.bindings[e], setup.slopes(theta), setup.model.noises
    dp, dx, dn = np.zeros((size, p.size)), np.zeros((size, x0.size)), np.zeros((size, noises))
    for seeds, unknown in ((dp, binding.parameter_unknown), (dx, binding.initial_unknown)):
        at = np.flatnonzero(unknown >= 0)
        seeds[unknown[at], at] = slopes[unknown[at]]
    at = np.flatnonzero(record.open_noise >= 0)
    dn[setup.unknowns + record.open_noise[at], at] = 1.0
    count = size if derivatives else 0
    found = run_innovations(setup.model, record.columns, p, setup.noise_of(theta, e), x0, dp[:count], dn[:count], dx[:count])
    rows = record.sample_rows
    return RecordInnovations(*(getattr(found, name)[rows] for name in ("e", "s", "de", "ds", "mean", "variance")))


def prior_information(setup: PredictionSetup, theta: np.ndarray) -> np.ndarray:
    """What the priors add to the information."""
    return _priors(setup, theta)[2]


def _priors(setup: PredictionSetup, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    value, gradient, information = 0.0, np.zeros(theta.size), np.zeros((theta.size, theta.size))
    values, slopes = setup.values(theta), setup.slopes(theta)
    for i, unknown in enumerate(setup.problem.unknowns):
        if unknown.prior is not None:
            off, slope = unknown.prior.residual(values[i]), slopes[i] * unknown.prior.derivative(values[i])
            value += 0.5 * off**2
            gradient[i] += off * slope
            information[i, i] += slope**2
    if setup.held is not None:
        n = setup.unknowns
        beyond, rows = setup.held.rows(theta[:n])
        value += 0.5 * float(beyond @ beyond)
        gradient[:n] += rows.T @ beyond
        information[:n, :n] += rows.T @ rows
    return value, gradient, information


@dataclass(frozen=True, eq=False)
class KeptHessian:
    """A Hessian by differences of gradients, which costs two passes for each entry, carried on along the steps that follow."""

    free: np.ndarray  # of theta: the entries that it is of
    matrix: np.ndarray
    slow: bool = False  # a step by it, carried on, gained little: then it is taken anew

    def along(self, step: np.ndarray, change: np.ndarray) -> KeptHessian:
        """With the symmetric rank-one update by the change of the gradient over a step (Nocedal and Wright, 6.2)."""
        step, change = step[self.free], change[self.free]
        missed = change - self.matrix @ step
        share = float(missed @ step)
        if abs(share) <= LEAST_SECANT * np.linalg.norm(missed) * np.linalg.norm(step) or not np.all(np.isfinite(missed)):
            return self
        return replace(self, matrix=self.matrix + np.outer(missed, missed) / share)


@dataclass(frozen=True, eq=False)
class ScoringState:
    """Where the search is."""

    theta: np.ndarray
    at: InnovationCriterion
    damping: Damping = INITIAL_DAMPING  # of the information's diagonal
    decrement: float = np.inf  # g' H^-1 g: twice what the criterion can still fall, in squared standard errors
    converged: bool = False
    stalled: bool = False
    history: tuple[Iteration, ...] = ()
    kept: KeptHessian | None = None


def minimise(setup: PredictionSetup, theta: np.ndarray, lower: np.ndarray, upper: np.ndarray, moving: np.ndarray,
             kind: str = LIKELIHOOD, most: int = 100, tell: Callable[..., object] = lambda _: None) -> ScoringState:
    """Damped scoring within bounds; only the `moving` entries of theta change."""
    theta = np.clip(theta, lower, upper)
    state = ScoringState(theta, evaluate(setup, theta, kind))
    for number in range(most):
        if not np.isfinite(state.at.value) or setup.spent:
            break
        free = moving & ~on_bound(state, lower, upper)
        before, state = state.decrement, replace(state, decrement=_decrement(state.at, free))
        done = Iteration(number, 2 * state.at.value, float(np.sqrt(state.decrement)))
        state = replace(state, history=(*state.history, done))
        tell(done)
        if state.decrement < SCORING_DECREMENT:
            return replace(state, converged=True)
        state = _with_hessian(setup, state, free, kind, slow=SLOW_SCORING * before < state.decrement < NEAR_MINIMUM)
        H = state.at.information[np.ix_(free, free)] if state.kept is None else _positive(state.kept.matrix, state.at, free)
        state = _step(setup, state, lower, upper, free, H, kind)
        if state.stalled:
            return replace(state, converged=state.decrement < SCORING_STALLED)
    return state


def on_bound(state: ScoringState, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Entries that rest on a bound and would leave it outwards."""
    return ((state.theta <= lower) & (state.at.gradient > 0)) | ((state.theta >= upper) & (state.at.gradient < 0))


def hessian(setup: PredictionSetup, state: ScoringState, free: np.ndarray, kind: str) -> np.ndarray:
    """Of the criterion in the `free` entries of theta, by differences of its exact gradient."""
    where = np.flatnonzero(free)
    std = np.sqrt(np.maximum(np.diag(inverse_information(state.at.information[np.ix_(free, free)])), np.finfo(float).tiny))
    rows = []
    for i, size in zip(where, DIFFERENCE_STEP * std, strict=True):
        step = np.zeros(state.theta.size)
        step[i] = size
        ahead, behind = (evaluate(setup, state.theta + side * step, kind).gradient[where] for side in (1, -1))
        rows.append((ahead - behind) / (2 * size))
    found = np.array(rows).reshape(where.size, where.size)
    return (found + found.T) / 2


def _with_hessian(setup: PredictionSetup, state: ScoringState, free: np.ndarray, kind: str, slow: bool) -> ScoringState:
    """With a Hessian where the expected one gains little, with none where that serves or none can be had.

    One that is kept is carried on, and taken anew where two steps in a row by it gain little.
    """
    kept = state.kept if state.kept is not None and np.array_equal(state.kept.free, free) else None
    if kept is not None and not (slow and kept.slow):
        return replace(state, kept=replace(kept, slow=slow))
    found = hessian(setup, state, free, kind) if slow else np.array([np.nan])
    return replace(state, kept=KeptHessian(free, found) if np.all(np.isfinite(found)) else None)


def _positive(found: np.ndarray, at: InnovationCriterion, free: np.ndarray) -> np.ndarray:
    """A Hessian with the sign of negative curvatures turned."""
    size = np.sqrt(np.maximum(np.diag(at.information)[free], np.finfo(float).tiny))
    w, V = np.linalg.eigh(found / size / size[:, None])
    return (V * np.maximum(np.abs(w), SMALLEST_EIGENVALUE)) @ V.T * size * size[:, None]


def _step(setup: PredictionSetup, state: ScoringState, lower: np.ndarray, upper: np.ndarray, free: np.ndarray, H: np.ndarray,
          kind: str) -> ScoringState:
    """The next point: a trust region on the criterion, by the rule of all damped searches (`solvers/globalization.py`)."""
    g, diagonal = state.at.gradient[free], np.diag(state.at.information)[free]
    diagonal = diagonal + SMALLEST_EIGENVALUE * max(float(np.max(diagonal, initial=0.0)), np.finfo(float).tiny)
    damping = state.damping
    while damping.amount < MOST_DAMPING:
        theta = state.theta.copy()
        theta[free] -= np.linalg.solve(H + np.diag(damping.amount * diagonal), g)
        theta = np.clip(theta, lower, upper)
        step = theta[free] - state.theta[free]
        predicted = -float(g @ step + 0.5 * step @ H @ step)
        reduction = state.at.value - evaluate(setup, theta, kind, derivatives=False).value
        if reduction > 0 and damping.accepts(reduction, predicted):
            at = evaluate(setup, theta, kind)
            if np.isfinite(at.value):
                kept = state.kept and state.kept.along(theta - state.theta, at.gradient - state.at.gradient)
                return replace(state, theta=theta, at=at, damping=damping.accepted(reduction, predicted), kept=kept)
        damping = damping.rejected()
    return replace(state, stalled=True)


def _decrement(at: InnovationCriterion, free: np.ndarray) -> float:
    g = at.gradient[free]
    return float(g @ inverse_information(at.information[np.ix_(free, free)]) @ g)


def inverse_information(H: np.ndarray) -> np.ndarray:
    """Within the directions that are determined; scaled first, since unknowns have units."""
    size = np.sqrt(np.maximum(np.diag(H), 0.0))
    size = np.where(size > 0, size, 1.0)
    w, V = np.linalg.eigh(H / size / size[:, None])
    kept = w > SMALLEST_EIGENVALUE * max(float(np.max(w, initial=0.0)), np.finfo(float).tiny)
    return (V[:, kept] / w[kept]) @ V[:, kept].T / size / size[:, None]
