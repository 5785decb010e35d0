"""Saddles: does the cost fall beside an end, in any direction that the data can see?

At a saddle point every first derivative vanishes, so that every test of a small step is passed: two decays that begin at one
rate keep it, both, where the record has two. Second derivatives tell. Half the Hessian of a sum of squares is J'J plus the
residuals times their own second derivatives, here by differences of J'r, each row weighed as a robust loss does. A step of one
along a direction changes the residuals by as much as is left over, or an unknown by its size, whichever comes first: so a bend
is measured in what it can gain. What bends down is walked along to either side, and only a simulation that costs less proves a
saddle.

What is left at a saddle is no noise, so that ends which leave noise alone are not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import Evaluation, ResidualJacobian, Variables
from dynident.problem.noise import loss_and_weights
from dynident.problem.problem import Problem
from dynident.statistics.residual_statistics import lag_one
from dynident.statistics.residual_tests import follows_data
from dynident.tolerances import BENDS_DOWN, LAG_ONE_WHITE, SAME_MISFIT
from dynident.transcription.transcribed_problem import SimulatedProblem

CURVATURE_STEP = 1e-3  # of a step of one, over which J'r is differenced
SADDLE_STEPS = (1.0, 0.3, 0.1)  # how far along what bends down
MOST_DIRECTIONS = 30  # each takes a simulation with sensitivities; with more the test would cost more than the fit
NAMED_SHARE = 0.3  # of the largest part of a direction: unknowns that it is said to run along
ALIKE_SHARE = 0.9  # of the largest part of a direction: so large are parts that rounding may call the largest
ON_BOUND_SHARE = 1e-9  # of an unknown's size


@dataclass(frozen=True, eq=False)
class Beside:
    """A place beside a saddle at which the cost is lower."""

    values: np.ndarray  # (unknowns,)
    names: tuple[str, ...]  # of the unknowns that the way there moves


def is_asked(problem: Problem, finite: SimulatedProblem) -> bool:
    """Whether the test suits the problem: few unknowns, cheap derivatives, and weights that stay."""
    return (0 < len(problem.names) <= MOST_DIRECTIONS and finite.jacobian_is_cheap and not problem.constraints
            and not problem.weighs_by_model)


def leaves_more_than_noise(at: Evaluation, freedom: int, estimated: bool) -> bool:
    """By the size of residuals where standard deviations are given; where they are estimated, by neighbours that correlate."""
    if not estimated:
        return not follows_data(at.squares, freedom)
    return any(lag_one(series[series != 0]) > LAG_ONE_WHITE for own in at.weighted_residuals for series in own.T)


def lower_beside(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian) -> Beside | None:
    """The lowest place along what bends down at a point of one simulation per record; None where nothing lower is found."""
    begin, coordinates = at.values, finite.coordinates
    best, found = _cost(finite, begin), None
    for direction in falling_directions(problem, finite, at).T:
        for step in (sign * size for size in SADDLE_STEPS for sign in (1, -1)):
            values = _within(problem, begin, begin + step * direction)
            values = np.where(coordinates.log & (values * begin <= 0), SADDLE_STEPS[-1] * begin, values)
            if (cost := _cost(finite, values)) < best * (1 - SAME_MISFIT):  # of two sides that are alike the first
                best, found = cost, values
    if found is None:
        return None
    moved = np.abs(found - begin) / _sizes(problem, begin)
    names = tuple(n for n, share in zip(problem.names, moved, strict=True) if share >= NAMED_SHARE * np.max(moved))
    return Beside(found, names)


def falling_directions(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian) -> np.ndarray:
    """(unknowns, directions) along which the cost bends down, steps of one; none where it bends up all around."""
    residuals, jacobian = _weighed(finite, at)
    moves, left = _moves(problem, at.values, residuals, jacobian), float(residuals @ residuals)
    none = np.zeros((len(at.values), 0))
    if not moves.size or not left > 0 or not np.all(np.isfinite(moves)):
        return none
    gradient, bends = jacobian.T @ residuals, np.empty((moves.shape[1], moves.shape[1]))
    for k, move in enumerate(moves.T):
        try:
            there = finite.linearization(_point(finite, _within(problem, at.values, at.values + CURVATURE_STEP * move)))
        except SimulationDiverged:
            return none
        residuals, jacobian = _weighed(finite, there)
        bends[:, k] = moves.T @ (jacobian.T @ residuals - gradient) / CURVATURE_STEP / left
    if not np.all(np.isfinite(bends)):
        return none
    curvature, along = np.linalg.eigh((bends + bends.T) / 2)
    return _oriented(moves @ along[:, curvature < -BENDS_DOWN])


def _oriented(directions: np.ndarray) -> np.ndarray:
    """With a first sign that does not turn on rounding: the first of the largest parts is positive."""
    shares = np.abs(directions) / np.maximum(np.max(np.abs(directions), axis=0, initial=0.0), np.finfo(float).tiny)
    first = np.argmax(shares >= ALIKE_SHARE, axis=0)
    return np.asarray(directions * np.where(directions[first, np.arange(directions.shape[1])] < 0, -1.0, 1.0))


def _weighed(finite: SimulatedProblem, at: ResidualJacobian) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and their Jacobian of the least squares problem that stands for the loss at a point; priors are as they are."""
    factors = np.where(at.rows.experiment < 0, 1.0, loss_and_weights(at.residuals, finite.loss)[1])
    return at.residuals * factors, at.jacobian * factors[:, None]


def _moves(problem: Problem, values: np.ndarray, residuals: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """(unknowns, moves): steps of one that span all that may move, those on a bound inwards.

    An unknown that its bound holds, since the cost rises inwards, does not move.
    """
    sizes, left = _sizes(problem, values), float(np.linalg.norm(residuals))
    lower, upper = _bounds(problem)
    inward = (values <= lower + ON_BOUND_SHARE * sizes).astype(float) - (values >= upper - ON_BOUND_SHARE * sizes)
    scaled = jacobian * sizes
    rises = inward * (scaled.T @ residuals) > BENDS_DOWN * left**2
    seen, directions = np.linalg.eigh(scaled[:, inward == 0].T @ scaled[:, inward == 0])
    inner = np.zeros((sizes.size, seen.size))
    inner[inward == 0] = directions * _shares(left, np.sqrt(np.maximum(seen, 0.0)))
    edge = np.diag(inward * _shares(left, np.linalg.norm(scaled, axis=0)))[:, (inward != 0) & ~rises & (lower < upper)]
    return np.asarray(sizes[:, None] * np.hstack([inner, edge]))


def _shares(left: float, changes: np.ndarray) -> np.ndarray:
    """How far to go where a step of a whole size changes the residuals by so much: by as much as is left over at the most."""
    return left / np.maximum(changes, left)


def _sizes(problem: Problem, values: np.ndarray) -> np.ndarray:
    return np.array([abs(v) or u.scale or 1.0 for v, u in zip(values, problem.unknowns, strict=True)], float)


def _bounds(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    return np.array([u.lower for u in problem.unknowns], float), np.array([u.upper for u in problem.unknowns], float)


def _within(problem: Problem, begin: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Within the bounds; what did not move stays to the last bit."""
    return np.where(values == begin, begin, np.clip(values, *_bounds(problem)))


def _point(finite: SimulatedProblem, values: np.ndarray) -> Variables:
    return Variables(finite.coordinates.coordinates(values), finite.start().nodes)


def _cost(finite: SimulatedProblem, values: np.ndarray) -> float:
    try:
        return float(finite.evaluate(_point(finite, values)).cost)
    except SimulationDiverged:
        return float("inf")
