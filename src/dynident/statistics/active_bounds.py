"""Active bounds and constraints: what holds an estimate, how far may it be off the truth, and what would follow it?

The fit says that the true value lies where the condition holds with equality, or further inside. How far inside is told by
the fit without that condition; how the other unknowns follow, by the linearised problem with it moved. Both together widen
the intervals of the others to the side to which they would go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.linalg.rank import truncated_svd
from dynident.problem.parameter import Transforms
from dynident.problem.problem import Problem
from dynident.statistics.autocorrelation import ColouredNoise, coloured_noise, effective_dof, series_of
from dynident.statistics.distributions import student_quantile
from dynident.statistics.error_propagation import (
    FEWEST_DOF,
    EstimatorGain,
    FullRankGain,
    JacobianQR,
    estimator_gain,
    independent_noise,
)
from dynident.statistics.quantisation import QuantisedNoise, Quantiser
from dynident.tolerances import INTEGRATION_TOLERANCE, NULL_SPACE_COMPONENT, SINGULAR_VALUE
from dynident.transcription.parameter_constraints import parameter_constraints

NOTICED = 0.1  # of the half width that an unknown has anyhow; one that follows by less is not named
NO_ERROR = 1e6  # how many times more exactly a constraint says what the data say


@dataclass(frozen=True, eq=False)
class BoundRelaxation:
    """What an active condition leaves open: a length inwards with its standard deviation, and what follows per unit of it."""

    text: str  # the name of the unknown whose bound it is, or the constraint as it was written
    sensitivity: np.ndarray  # (unknowns,) change of each per unit inwards; zero for an unknown on its own bound
    std: Mapping[str, float]  # kind -> of the length, if the condition were released; infinite where nothing tells
    dof: Mapping[str, float]  # kind -> degrees of freedom of that
    span: float = np.inf  # to the condition's other side
    straight: bool = False  # simulations confirm that the others follow in a straight line all the way to there

    def inward_extent(self, level: float, kind: str) -> float:
        """How far inside the truth may lie at a level, to one side."""
        std, dof = self.std.get(kind, np.inf), self.dof.get(kind, np.inf)
        if not np.isfinite(std):  # nothing tells how far; a line to the other bound is no bound on a product
            return self.span if self.straight else np.inf
        return float(min(student_quantile(level, dof) * std if dof > 0 else np.inf, self.span))

    def effect_on(self, i: int, level: float, kind: str) -> float:
        """How far one unknown would follow, with its sign."""
        return float(self.sensitivity[i] * self.inward_extent(level, kind)) if self.sensitivity[i] else 0.0


@dataclass(frozen=True, eq=False)
class ActiveInequality:
    """An inequality that holds the estimate, and the row of the linearised problem that says so."""

    text: str
    row: int
    inward: np.ndarray  # (unknowns,) its derivative in the user's units, towards where it holds nothing
    weight: float  # the row is the derivative times this; negative where inwards is the other way
    span: float = np.inf


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """The errors behind a linearised fit: what `inequality_relaxation` needs to ask again without one of its rows."""

    jacobian: BlockRows
    scales: np.ndarray
    experiment: np.ndarray
    variance: np.ndarray  # (rows,) of independent errors
    dof: float
    noise: ColouredNoise | None  # as autocorrelated as the residuals are
    one_minus_leverage: np.ndarray  # (rows,) one minus the leverage
    enough: bool = True  # degrees of freedom for a noise model

    def with_factors(self, factors: Mapping[str, tuple[np.ndarray, float, float]]) -> NoiseModel:
        """Errors as large as residuals show, by output, where these are not of the given size (`given_noise_factors`)."""
        if not factors:
            return self
        variance = self.variance.copy()
        for rows, factor, _ in factors.values():
            variance[rows] = factor**2
        return replace(self, variance=variance, dof=sum(dof for _, _, dof in factors.values()))

    def with_simulation_error(self, shift: float) -> NoiseModel:
        """With the standard errors, for residuals of size one, by which a simulation's own error may move the estimate.

        An error that goes one way all along a record may move an estimate as far as independent ones of that size do.
        """
        measured = self.experiment >= 0
        if not np.any(self.variance[measured] < (shift / INTEGRATION_TOLERANCE) ** 2) or not np.isfinite(shift):
            return self
        return replace(self, variance=np.where(measured, self.variance + shift**2, self.variance))


def check_active(names: Sequence[str], active: Iterable[str]) -> None:
    """Only unknowns can end on a bound."""
    for name in active:
        if name not in names:
            raise ProblemError(f"'{name}' is said to be on a bound, but is not an unknown.{did_you_mean(name, names)}")


def noise_model_of(problem: Problem, linearization: ResidualJacobian, scales: np.ndarray, fitted: BlockRows,
                   noise_estimated: bool, quantisers: Mapping[tuple[int, int], Quantiser], with_colour: bool) -> NoiseModel:
    """What the residuals say about the errors; `fitted` (rows, rank) spans what the fit explains."""
    rows = linearization.rows
    one_minus_leverage = 1 - fitted.row_squares
    variance, dof = independent_noise(problem, linearization, one_minus_leverage, noise_estimated)
    series = series_of(rows)
    enough = bool(series) and all(np.sum(one_minus_leverage[s.rows]) > FEWEST_DOF for s in series)  # for a noise model
    noise = coloured_noise(linearization.residuals, rows, fitted) if enough and with_colour else None
    if noise is not None and quantisers:
        noise = QuantisedNoise.of(noise, linearization.residuals, rows, quantisers, one_minus_leverage)
    return NoiseModel(linearization.blocks, scales, rows.experiment, variance, dof, noise, one_minus_leverage, enough)


def finite_bounds(problem: Problem) -> dict[str, tuple[float, float]]:
    """Of the unknowns that have any."""
    return {u.name: (float(u.lower), float(u.upper)) for u in problem.unknowns
            if np.isfinite(u.lower) or np.isfinite(u.upper)}


def bound_sensitivity(sensitivity: JacobianQR, fit: EstimatorGain | FullRankGain, j: int, side: str, known: bool) -> np.ndarray:
    """(unknowns,) how the fitted ones make up for unknown j going inwards by a unit, the others on bounds held."""
    slope = -fit.gain @ (sensitivity.triangle[:, j] * sensitivity.lengths[j])
    if not known:  # what goes on without end must not be rounding
        slope[np.abs(slope) * sensitivity.lengths < NULL_SPACE_COMPONENT * sensitivity.lengths[j]] = 0.0
    slope[j] = 0.0
    return np.asarray(slope if side == "lower" else -slope)


def relax_bounds(problem: Problem, sensitivities: Mapping[str, np.ndarray], bound_std: Mapping[str, Mapping[str, float]],
              dof: float = np.inf, corrected_dof: np.ndarray | None = None) -> list[BoundRelaxation]:
    """What each unknown on a bound leaves open for the others; `slopes` by its name, per unit inwards."""
    found = []
    for name, slope in sensitivities.items():
        j = problem.names.index(name)
        own_dof = {"plain": dof} | ({} if corrected_dof is None else {"corrected": float(corrected_dof[j])})
        room = problem.unknowns[j].upper - problem.unknowns[j].lower
        found.append(BoundRelaxation(name, slope, {kind: std[name] for kind, std in bound_std.items()}, own_dof, float(room)))
    return found


def inequality_relaxation(limit: ActiveInequality, sensitivity: JacobianQR, fit: EstimatorGain | FullRankGain,
                          free: Sequence[int], errors: NoiseModel, smallest: float = SINGULAR_VALUE) -> BoundRelaxation:
    """The same for an inequality: its row says where the unknowns go, the problem without it how far."""
    touched, row = sensitivity.basis.part(np.array([limit.row]))
    slope = fit.gain[:, touched] @ row[0] * limit.weight
    without = JacobianQR.of(errors.jacobian.without_row(limit.row), errors.scales, errors.experiment)
    released = estimator_gain(without, free, smallest)
    move = limit.inward @ released.gain  # (k,) how errors move the length
    own = np.zeros_like(limit.inward)
    own[list(free)] = limit.inward[list(free)] / without.lengths[list(free)]
    seen = own @ ((released.gain * without.lengths[:, None]) @ without.triangle)
    if np.linalg.norm(own - seen) > NULL_SPACE_COMPONENT * np.linalg.norm(own):
        slope[np.abs(slope) * sensitivity.lengths < NULL_SPACE_COMPONENT * np.max(np.abs(slope) * sensitivity.lengths)] = 0.0
        return BoundRelaxation(limit.text, slope, {}, {}, limit.span)
    std = {"plain": float(np.sqrt(move @ without.covariance(errors.variance).dense() @ move))}
    dof = {"plain": errors.dof}
    if errors.noise is not None:
        std["corrected"] = float(np.sqrt(move @ without.coloured_covariance(errors.noise).dense() @ move))
        dof["corrected"] = float(effective_dof(errors.noise, without.basis, lambda some: move[None, some],
                                               errors.one_minus_leverage)[0])
    return BoundRelaxation(limit.text, slope, std, dof, limit.span)


@dataclass(frozen=True, eq=False)
class ActiveConstraints:
    """Constraints that hold with equality where the solver ended."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (constraints, unknowns), in the user's units
    texts: tuple[str, ...] = ()
    inward: np.ndarray = field(default_factory=lambda: np.zeros(0))  # 1 at a lower limit, -1 at an upper one, 0: an equality
    room: np.ndarray = field(default_factory=lambda: np.zeros(0))  # between the two limits

    @classmethod
    def at(cls, problem: Problem, coordinates: Transforms, unknowns: np.ndarray) -> ActiveConstraints:
        """Those that are active at solver coordinates; equalities are so anywhere."""
        if not problem.constraints:  # the rule, and nothing is built for it
            return cls()
        between = parameter_constraints(problem, coordinates)
        values, jacobian = between.at(unknowns)
        on = np.flatnonzero(between.active(unknowns) | (between.lower == between.upper))
        lower, upper = between.lower[on], between.upper[on]
        nearer = np.where(values[on] - lower <= upper - values[on], 1.0, -1.0)
        return cls((jacobian / coordinates.derivative(unknowns))[on], tuple(between.texts[i] for i in on),
                   np.where(lower == upper, 0.0, nearer), upper - lower)

    def equalities(self) -> ActiveConstraints:
        """Those alone that hold wherever the estimate ends."""
        equal = np.flatnonzero(self.inward == 0)
        return ActiveConstraints(self.rows[equal], tuple(self.texts[i] for i in equal), self.inward[equal], self.room[equal])

    def weights(self, lengths: np.ndarray, exact: float = NO_ERROR) -> np.ndarray:
        """What makes each row so many times as exact as measurements whose weighted sensitivities have these lengths."""
        std = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1), 0.0)  # of each unknown alone
        effect = np.abs(self.rows) @ std
        return exact / np.where(effect > 0, effect, 1.0)

    def append_as_measurements(self, at: ResidualJacobian, exact: float = NO_ERROR
                               ) -> tuple[ResidualJacobian, list[ActiveInequality]]:
        """The same as measurements beside the others, so many times as exact, and which rows are inequalities."""
        if not self.texts:
            return at, []
        weights = self.weights(np.where(at.blocks.column_peaks > 0, at.blocks.column_lengths, 0.0), exact)
        none = np.full(len(self.texts), -1)
        index = (np.concatenate([own, none]) for own in (at.rows.experiment, at.rows.output, at.rows.sample))
        tied = replace(at, residuals=np.append(at.residuals, np.zeros(len(self.texts))), rows=ResidualIndex(*index),
                       blocks=at.blocks.followed_by(self.rows * weights[:, None]))
        return tied, [ActiveInequality(text, at.residuals.size + i, side * self.rows[i], side * weights[i], float(self.room[i]))
                      for i, (text, side) in enumerate(zip(self.texts, self.inward, strict=True)) if side]


def count_fixed(active_bounds: np.ndarray, constraints: ActiveConstraints | None) -> int:
    """How many unknowns bounds and constraints fix: they cost the data no degree of freedom."""
    free = np.flatnonzero(active_bounds == 0)
    if constraints is None or not constraints.texts or not free.size:
        return int(active_bounds.size - free.size)
    rows = constraints.rows[:, free]
    lengths = np.linalg.norm(rows, axis=1)
    rank = truncated_svd((rows[lengths > 0] / lengths[lengths > 0, None]).T).rank if np.any(lengths > 0) else 0
    return int(active_bounds.size - free.size + rank)
