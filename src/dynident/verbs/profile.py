"""Profile: refits along one unknown at a time, to both sides, until the fit is significantly worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import Variables
from dynident.methods.noise_estimation import outputs_with_unknown_noise
from dynident.methods.refit import Refit, refuse_other_sums
from dynident.parallel.tasks import map_ordered
from dynident.statistics.covariance import Covariance, covariance_from
from dynident.statistics.profile_likelihood import Profile, ProfileCurve, threshold_root
from dynident.tolerances import FLAT_PROFILE, PROFILE_DISTANCE, PROFILE_FALL, PROFILE_SHORTEST_STEP, PROFILE_STEP_TOLERANCE
from dynident.verbs.structural_identifiability import shown_by_model

ROOT_STEP = 0.9  # how much the root of the rise should grow from point to point
OVERSHOOT = 2.2  # times the wanted growth; more is halved, so that a curve has no blind stretch
MAX_STEP_GROWTH = 4.0  # of a step, at the most, where the profile is flat
FIRST_PROFILE_STEP = 0.05  # of the magnitude: the first step where the data give no standard deviation
MAX_PROFILE_POINTS = 80  # to one side


@single_thread()
def profile(estimate: Estimate, names: str | Sequence[str] | None = None, level: float = 0.99,
            executor: Executor | None = None) -> Profile:
    """Profile likelihoods of some unknowns: intervals without the linearisation, and which unknowns compensate each other.

    Each point is a refit of all other unknowns, warm-started along the path. See the manual, methods/profile.

    Parameters
    ----------
    estimate : Estimate
        A converged one by a least-squares method.
    names : str or sequence of str, optional
        Unknowns to profile; all, if left out.
    level : float, default 0.99
        Confidence level up to which curves are traced.
    executor : concurrent.futures.Executor, optional
        Runs the two sides of each unknown side by side.

    Returns
    -------
    Profile
        Curves, intervals and a statement on the identifiability of each unknown.

    Raises
    ------
    ProblemError
        For names that are no unknowns, a level that is no probability, and an estimate that did not converge.
    NotSupported
        For an estimate by a method that does not simulate whole records, such as a filter, and one by a robust loss.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> low, high = di.profile(estimate, "k").interval("k")
    >>> print(f"{low:.2f} to {high:.2f}")
    0.48 to 0.52
    """
    if not estimate.converged:
        raise ProblemError("A profile starts from an optimum, and this estimate did not converge.")
    refuse_other_sums(estimate, "profile")
    known = estimate.problem.names
    wanted = _unknowns_to_profile(known, names, level)
    base, effects = _base(estimate)
    tasks = [(name, side, threshold_root(base, name, level)) for name in wanted for side in (-1, 1)]
    sides = list(map_ordered(_side, (estimate, base), tasks, executor))
    values = np.array([float(estimate.values[n]) for n in known])
    curves, notes = {}, []
    for name, below, above in zip(wanted, sides[::2], sides[1::2], strict=True):
        curves[name] = _joined(estimate, name, values, below, above)
        if np.min(curves[name].rise) < -PROFILE_FALL:
            notes.append(f"Along the profile of {name} a point was found that describes the data better than the "
                         f"estimate (by {-np.min(curves[name].rise):.3g} in the weighted sum of squares): the estimate "
                         "is a local optimum. Fit again from there, or with multistart().")
    return Profile(known, values, effects, curves, base, level,
                   tuple(u.name for u in estimate.problem.unknowns if u.log), tuple(notes))


def _unknowns_to_profile(known: Sequence[str], names: Any, level: Any) -> list[str]:
    """The unknowns to profile, or all that is wrong with what was asked."""
    if not isinstance(names, (str, Iterable, type(None))):
        raise ProblemError(f"names = {names!r}; give the name of an unknown or a list of names, or leave it out for all of "
                           f"them: {', '.join(known)}.")
    wanted = [names] if isinstance(names, str) else list(known if names is None else names)
    faults = [f"'{n}' is not an unknown of this estimate.{did_you_mean(str(n), known)}" for n in wanted if n not in known]
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        faults.append(f"level = {level!r} is not a probability; use for instance level=0.95.")
    if faults:
        raise ProblemError(faults)
    return wanted


def _base(estimate: Estimate) -> tuple[Covariance, np.ndarray]:
    """The linearised covariance, and the length of each unknown's effect on the weighted residuals."""
    refit = Refit(estimate, "profile")
    at = refit.finite.linearization(refit.point)
    lengths = at.blocks.column_lengths
    known = estimate.uncertainty.linearized
    if known is None:
        known = covariance_from(estimate.problem, at, {}, noise_estimated=bool(outputs_with_unknown_noise(estimate.problem)))
    return known, lengths


@dataclass(frozen=True, eq=False)
class _Side:
    """One half of a curve, from the estimate outwards and without it."""

    rise: np.ndarray  # (points,)
    path: np.ndarray  # (points, unknowns) values
    end: str
    runs: int


def _side(common: tuple[Estimate, Covariance], name: str, side: int, target: float) -> _Side:
    walk = _ProfileWalk.of(*common, name, side, target)
    state = _WalkState((_ProfilePoint(walk.refit.point, 0.0),), walk.first_step, name in common[1].unidentifiable)
    for _ in range(MAX_PROFILE_POINTS):
        state = walk.advance(state)
        if state.end:
            break
    return walk.side_of(state)


@dataclass(frozen=True, eq=False)
class _ProfilePoint:
    """The others refitted at one value of the unknown."""

    at: Variables
    rise: float
    partner_held: bool = False  # whether another unknown came to rest on a bound in this refit


@dataclass(frozen=True, eq=False)
class _WalkState:
    """How far a walk has come: points from the estimate on, the next step, and why it ended."""

    points: tuple[_ProfilePoint, ...]
    step: float
    flat: bool  # so far; what the data determine rises, whatever bound is met on the way
    end: str = ""


@dataclass(frozen=True, eq=False)
class _ProfileWalk:
    """Steps of one unknown in solver coordinates, each followed by a refit of the others."""

    refit: Refit
    index: int
    side: int
    target: float  # root of the rise at which it has gone far enough
    lowest: float  # cost of the estimate
    limit: float  # the bound of the unknown on this side
    first_step: float
    farthest: float
    tangent: np.ndarray  # (unknowns,) how the others follow at first, per unit of the held coordinate
    resting: np.ndarray  # (unknowns,) -1, 0, 1: on which bounds the estimate rests

    @classmethod
    def of(cls, estimate: Estimate, base: Covariance, name: str, side: int, target: float) -> _ProfileWalk:
        refit, index = Refit(estimate, "profile", PROFILE_STEP_TOLERANCE), estimate.problem.names.index(name)
        c, here = refit.box, refit.point.unknowns[index]
        slope = c.derivative(refit.point.unknowns)
        std = base.std(name, "plain") / slope[index]
        size = float(c.scale[index]) if np.isfinite(c.scale[index]) else max(abs(here), 1.0)
        first = float(ROOT_STEP * std) if np.isfinite(std) and std > 0 else FIRST_PROFILE_STEP * size
        resting = np.array([{"lower": -1, "upper": 1}.get(base.active.get(n, ""), 0) for n in base.names])
        limit, lowest = (c.lower if side < 0 else c.upper)[index], refit.finite.evaluate(refit.point).cost
        return cls(refit, index, side, target, lowest, limit, first, PROFILE_DISTANCE * max(size, abs(here)),
                   _tangent(base, slope, index), resting)

    def advance(self, state: _WalkState) -> _WalkState:
        """One refit further, with a shorter step where that rose too steeply, or the end."""
        last = state.points[-1]
        room = self.side * (self.limit - last.at.unknowns[self.index])
        if room <= 0:
            return replace(state, end="bound")
        step = min(state.step, room)
        found = self.refit_beside(state, step)
        grown = np.nan if found is None else _root(found.rise) - _root(last.rise)
        if found is None or grown > OVERSHOOT * ROOT_STEP:
            return replace(state, step=step / 2, end="wall" if step / 2 < PROFILE_SHORTEST_STEP * self.first_step else "")
        if state.flat and last.rise < FLAT_PROFILE <= found.rise and found.partner_held:
            return replace(state, end="partner")
        reached = _root(found.rise) >= self.target
        beyond = abs(found.at.unknowns[self.index] - state.points[0].at.unknowns[self.index]) > self.farthest
        longer = float(np.clip(ROOT_STEP / max(grown, ROOT_STEP / MAX_STEP_GROWTH), 1 / MAX_STEP_GROWTH, MAX_STEP_GROWTH))
        return _WalkState((*state.points, found), step * longer, found.rise < FLAT_PROFILE,
                          "reached" if reached else "far" if beyond else "")

    def refit_beside(self, state: _WalkState, step: float) -> _ProfilePoint | None:
        """The refit one step on, or None where there is none."""
        c, last = self.refit.box, state.points[-1].at
        moved = np.clip(last.unknowns + self.side * step * self.direction(state), c.lower, c.upper)
        moved[self.index] = np.clip(last.unknowns[self.index] + self.side * step, c.lower[self.index], c.upper[self.index])
        unmoved = np.where(np.arange(moved.size) == self.index, moved, last.unknowns)
        for start in (Variables(moved, last.nodes), Variables(unmoved, last.nodes)):
            try:
                outcome = self.refit.solve_with_fixed(self.index, start)
            except SimulationDiverged:
                continue
            if outcome.converged:
                active = outcome.active_bounds
                met = (active != 0) & (active != self.resting)  # those of the estimate hold the data's optimum too
                held = bool(np.any(np.delete(met, self.index)))
                return _ProfilePoint(outcome.point, outcome.evaluation.cost - self.lowest, held)
        return None

    def direction(self, state: _WalkState) -> np.ndarray:
        """Per unit of the held coordinate: the last secant, or the tangent at the estimate."""
        if len(state.points) < 2:
            return self.tangent
        change = state.points[-1].at.unknowns - state.points[-2].at.unknowns
        return change / change[self.index]

    def side_of(self, state: _WalkState) -> _Side:
        own = state.points[1:]
        coordinates = np.array([each.at.unknowns for each in own]).reshape(len(own), len(self.refit.values))
        return _Side(np.array([each.rise for each in own]), self.refit.box.values(coordinates), state.end or "far",
                     self.refit.runs)


def _tangent(base: Covariance, slope: np.ndarray, index: int) -> np.ndarray:
    """How the others follow at first: a column of the covariance, per unit of the held coordinate."""
    column = base.matrix[:, index] / slope
    own = column[index]
    return column / own if own > 0 and np.all(np.isfinite(column)) else np.eye(len(column))[index]


def _root(rise: float) -> float:
    return float(np.sqrt(max(rise, 0.0)))


def _joined(estimate: Estimate, name: str, values: np.ndarray, below: _Side, above: _Side) -> ProfileCurve:
    i = estimate.problem.names.index(name)
    path = np.vstack([below.path[::-1], values, above.path])
    curve = ProfileCurve(path[:, i], np.concatenate([below.rise[::-1], [0.0], above.rise]), path, (below.end, above.end), None,
                  below.runs + above.runs)
    if not curve.flat:
        return curve
    try:
        shows = shown_by_model(estimate.problem, values, name)
    except NotSupported:
        shows = None
    return replace(curve, model_shows_it=shows)
