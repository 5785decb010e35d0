"""Covariance: which confidence interval does the linearised problem give for each unknown?

The covariance matrix is the inverse of the Fisher information (Cramer-Rao); its ellipsoid is the linearised confidence region.
From the residuals' Jacobian; `hessian_covariance.py` has the same from a factor of the Hessian, where the model may err too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.linalg.block_qr import by_blocks
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.linalg.rank import tolerance_for_growing_rows
from dynident.problem.problem import Problem
from dynident.statistics.active_bounds import (
    NOTICED,
    ActiveInequality,
    BoundRelaxation,
    NoiseModel,
    bound_sensitivity,
    check_active,
    finite_bounds,
    inequality_relaxation,
    noise_model_of,
    relax_bounds,
)
from dynident.statistics.autocorrelation import ColouredNoise, Series, effective_dof, series_of
from dynident.statistics.distributions import student_quantile
from dynident.statistics.error_propagation import (
    JacobianQR,
    among_all,
    estimator_gain,
    given_noise_factors,
    noise_free,
    released_std,
    std_as_given,
    with_released,
)
from dynident.statistics.identifiability import find_practically_unidentifiable, identifiability, typical_values
from dynident.statistics.quantisation import QuantisedNoise, Quantiser
from dynident.statistics.residual_tests import CONFIDENCE, ResidualTest, surely_not_white, whiteness
from dynident.statistics.uncertainty import INTERVAL_ENDS, Uncertainty, check_level, index_of
from dynident.tolerances import NO_WIDTH, NOISE_FREE, QUANTISATION_NOTICED, SINGULAR_VALUE

KINDS = ("plain", "corrected")
MANY_SERIES = 10  # residual series; at the level of so few Ljung-Box rejects white ones up to four times too often, and no more


@dataclass(frozen=True, eq=False)
class Covariance(Uncertainty):
    """Intervals from the linearised least-squares problem, for independent errors and corrected for autocorrelated residuals.

    Matrices hold the covariance within what the data determine, in the user's units; an unknown at an active bound is fixed
    there and has zero rows. See the manual, explain/intervals.

    Attributes
    ----------
    names : tuple of str
        The unknowns, in the order of all matrices.
    values : array, (unknowns,)
        The estimate.
    matrix : array, (unknowns, unknowns)
        Covariance for independent errors.
    dof : float
        Degrees of freedom of the noise estimate; infinite where every standard deviation was given.
    own_dof : array, (unknowns,), or None
        Degrees of freedom of each variance, where several noises are estimated and weigh differently; None: `dof` for all.
    corrected : array, (unknowns, unknowns), or None
        Covariance for errors as autocorrelated as the residuals are.
    corrected_dof : array, (unknowns,), or None
        Degrees of freedom that correlated noise leaves, per unknown.
    default_kind : str
        Which of the two `interval` uses: "plain" or "corrected".
    reason : str
        The reason for it, a sentence.
    active : mapping of str to str
        Unknowns at a bound: "lower" or "upper".
    std_if_released : mapping
        Per kind and name, the standard deviation that an unknown at a bound would have without it.
    bound_relaxations : tuple of BoundRelaxation
        What each active bound and inequality adds to the intervals of the others.
    unidentifiable : tuple of str
        Unknowns that take part in a direction which the data do not determine.
    combinations : tuple of str
        What of these is determined, in words.
    null_space : array, (unknowns, k), or None
        The undetermined directions.
    practically_unidentifiable : tuple of str
        Determined on paper, far beyond the range in which the linearised model holds.
    logarithmic : tuple of str
        Unknowns whose intervals are built in the logarithm.
    fixed : mapping of str to float
        Quantities that were not estimated.
    assumed : str
        Other assumptions than a model that is right, as they end the sentence of `meaning`.
    bounds : mapping of str to pair of float
        Of the unknowns that have finite ones; no interval leaves them.
    noise_factors : mapping of str to float
        By output: the std that white residuals show, over the given one, where the intervals go by the residuals.
    given_std : mapping of str to float
        Standard deviations of the unknowns for errors of the given size, where the intervals go by the residuals.
    deferred : callable or None
        Makes the same with its corrected part, where that was not worth its time unasked.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> covariance = estimate.uncertainty
    >>> print(covariance.names, f"{covariance.std('k'):.3f}")
    ('k', 'x(0)') 0.010
    """

    names: tuple[str, ...]
    values: np.ndarray  # (unknowns,)
    matrix: np.ndarray = by_blocks()  # noqa: RUF009 (unknowns, unknowns), independent errors
    dof: float = np.inf  # of the noise estimate; infinite where every std was given
    own_dof: np.ndarray | None = None  # (unknowns,): of each variance, where several noises weigh differently in it
    corrected: np.ndarray | None = by_blocks(None)  # noqa: RUF009 (unknowns, unknowns), errors as autocorrelated as the residuals
    corrected_dof: np.ndarray | None = None  # (unknowns,): what the correlated noise leaves, differs per unknown
    default_kind: str = "plain"  # which of the two `interval` uses by default
    reason: str = ""  # the reason for it, a sentence
    active: Mapping[str, str] = field(default_factory=dict)  # name -> "lower" or "upper"
    std_if_released: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # kind -> name -> std if released
    bound_relaxations: tuple[BoundRelaxation, ...] = ()  # of each active bound and inequality
    unidentifiable: tuple[str, ...] = ()  # names that take part in a direction which the data do not see
    combinations: tuple[str, ...] = ()  # what of these is determined, in words
    null_space: np.ndarray | None = None  # (unknowns, k) the directions themselves
    practically_unidentifiable: tuple[str, ...] = ()  # determined on paper, far beyond the linear range
    logarithmic: tuple[str, ...] = ()  # intervals of these are built in the logarithm
    fixed: Mapping[str, float] = field(default_factory=dict)
    assumed: str = ""  # other assumptions than a model that is right, as they end the sentence of `meaning`
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # no interval leaves them
    noise_factors: Mapping[str, float] = field(default_factory=dict)  # output -> std that residuals show over the given one
    given_std: Mapping[str, float] = field(default_factory=dict)  # name -> std for errors as given, beside `noise_factors`
    deferred: Callable[[], Covariance] | None = field(default=None, repr=False, metadata={"saved": False})
    # makes the same with its corrected part, where that was not worth its time unasked

    @cached_property
    def completed(self) -> Covariance:
        """With all that is computed on demand."""
        if self.deferred is None:
            return self
        whole = self.deferred()
        straight = {known.text for known in self.bound_relaxations if known.straight}
        relaxations = tuple(replace(each, straight=each.text in straight) for each in whole.bound_relaxations)
        return replace(self, corrected=whole.corrected, corrected_dof=whole.corrected_dof, deferred=None,
                       std_if_released=whole.std_if_released, bound_relaxations=relaxations)

    def __getstate__(self) -> dict[str, Any]:
        """To be sent or kept: complete, without what it was computed from."""
        return {f.name: getattr(self.completed, f.name) for f in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @property
    def meaning(self) -> str:
        """What the interval means, and under which assumptions."""
        if self.assumed:
            return f"In repeated experiments the interval holds the true value with the stated probability, if {self.assumed}."
        given = np.isinf(self.dof)
        noise = "of the given standard deviation" if given else "whose standard deviation is estimated from the residuals"
        if self.noise_factors:
            listed = ", ".join(f"{factor:.2g} times for {name}" for name, factor in self.noise_factors.items())
            noise = f"as large as the residuals show, not as given ({listed})"
        if self.default_kind == "corrected":
            errors = f"measurement errors that are correlated in time as the residuals are ({self.reason})"
        else:
            errors = f"independent normal measurement errors {noise}"
        return ("In repeated experiments the interval holds the true value with the stated probability, if the model "
                f"is right, nearly linear over the interval, and disturbed by {errors}.")

    def std(self, name: str, kind: str | None = None) -> float:
        """Standard deviation; infinite where undetermined, zero where fixed; on a bound: if it were released.

        Of the others it is that with all unknowns on bounds fixed there; `interval` allows for their relaxation.
        """
        kind = self._kind(kind)
        if (own := self._holding(kind)) is not self:
            return own.std(name, kind)
        if name in self.fixed:
            return 0.0
        i = index_of(name, self._places)
        if name in self.active:
            return float(self.std_if_released.get(kind, {}).get(name, np.inf))
        if name in self.unidentifiable or name in self.practically_unidentifiable:
            return np.inf
        variance = self._variances(kind)[i]
        return float(np.sqrt(variance)) if 0 <= variance < np.inf else np.inf  # negative: far from an optimum, by rounding

    def interval(self, name: str, level: float = 0.95, kind: str | None = None) -> tuple[float, float]:
        """(low, high) from the t distribution; one-sided on a bound; infinite ends where the data cannot bound it.

        What another unknown on a bound, or an inequality, leaves open adds to the side to which this one would follow.
        """
        check_level(level)
        kind = self._kind(kind)
        if (own := self._holding(kind)) is not self:
            return own.interval(name, level, kind)
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        i = index_of(name, self._places)
        value, std = float(self.values[i]), self.std(name, kind)
        side = self.active.get(name)
        reach = self._quantile(i, level if side else (1 + level) / 2, kind) * std if np.isfinite(std) else np.inf
        shifts = [loose.effect_on(i, level, kind) for loose in self.bound_relaxations]
        if reach < NO_WIDTH * max(map(abs, shifts), default=0.0):
            reach = 0.0
        below, above = reach - sum(min(s, 0.0) for s in shifts), reach + sum(max(s, 0.0) for s in shifts)
        if name in self.logarithmic:
            with np.errstate(over="ignore"):
                low, high = value * np.exp(-below / value), value * np.exp(above / value)
            low = low if np.isfinite(below) else -np.inf
        else:
            low, high = value - below, value + above
        return self._within_bounds(name, value if side == "lower" else float(low), value if side == "upper" else float(high))

    def _within_bounds(self, name: str, low: float, high: float) -> tuple[float, float]:
        """An end that the data set beyond a bound lies on it; one that they do not set stays open."""
        lower, upper = self.bounds.get(name, (-np.inf, np.inf))
        return (max(low, lower) if np.isfinite(low) else low), (min(high, upper) if np.isfinite(high) else high)

    def remark(self, name: str) -> str:
        """A few words for the table, or nothing."""
        if name in self.fixed:
            return "fixed"
        index_of(name, self._places)
        if name in self.active:
            return f"at its {self.active[name]} bound"
        if name in self.unidentifiable:
            return "unidentifiable"
        if name in self.practically_unidentifiable:
            return "practically unidentifiable"
        ends, limits = self.interval(name), self.bounds.get(name, (-np.inf, np.inf))
        cut = [side for side, end, bound in zip(("lower", "upper"), ends, limits, strict=True) if end == bound]
        return f"{INTERVAL_ENDS} at its {' and '.join(cut)} bound" if cut else ""

    def affected_unknowns(self, loose: BoundRelaxation) -> tuple[str, ...]:
        """Unknowns whose intervals are noticeably wider for what an active condition leaves open."""
        kind, found = self._kind(None), []
        for i, name in enumerate(self.names):
            std = 0.0 if name in self.active else self.std(name)
            if abs(loose.effect_on(i, 0.95, kind)) > NOTICED * std * self._quantile(i, 0.975, kind):
                found.append(name)
        return tuple(found)

    def correlation(self, kind: str | None = None) -> np.ndarray:
        """(unknowns, unknowns); NaN in the rows of unknowns that are undetermined or fixed on a bound."""
        kind = self._kind(kind)
        matrix = getattr(own := self._holding(kind), own._field(kind))
        known = np.array([n not in self.unidentifiable and n not in self.active for n in self.names], bool)
        std = np.sqrt(np.where(known & (np.diag(matrix) > 0), np.diag(matrix), np.nan))
        return np.asarray(matrix / std / std[:, None])

    def covariance(self) -> np.ndarray:
        return self.matrix

    @property
    def linearized(self) -> Covariance:
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """Independent errors, and errors as autocorrelated as the residuals are where these can be had."""
        return KINDS if self._has_corrected or self.deferred is not None else KINDS[:1]

    def _kind(self, kind: str | None) -> str:
        kind = self.default_kind if kind is None else kind
        if kind not in KINDS:
            raise ProblemError(f"kind = '{kind}' is not known; use \"plain\" or \"corrected\".")
        if kind not in self.kinds:
            raise ProblemError("this covariance holds no corrected intervals; use kind=\"plain\".")
        return kind

    def _holding(self, kind: str) -> Covariance:
        """This one, or the complete one where that alone holds the kind."""
        return self.completed if kind == "corrected" and not self._has_corrected else self

    @property
    def _has_corrected(self) -> bool:
        return vars(self)["corrected"] is not None

    def _field(self, kind: str) -> str:
        return "corrected" if kind == "corrected" and self._has_corrected else "matrix"

    def _variances(self, kind: str) -> np.ndarray:
        """(unknowns,), without the rest of the matrix."""
        return np.asarray(vars(self)[self._field(kind)].diagonal())

    def _quantile(self, i: int, probability: float, kind: str) -> float:
        own = self.corrected_dof if kind == "corrected" and self.corrected_dof is not None else self.own_dof
        dof = self.dof if own is None else float(own[i])
        return student_quantile(probability, dof) if dof > 0 else np.inf


def covariance_from(problem: Problem, linearization: ResidualJacobian, active: Mapping[str, str], noise_estimated: bool,
                    smallest: float = SINGULAR_VALUE, limits: Sequence[ActiveInequality] = (), on_demand: bool = False,
                    quantisers: Mapping[tuple[int, int], Quantiser] | None = None, robust: bool = False,
                    simulation_error: float = 0.0) -> Covariance:
    """The covariance at a fitted point; `active` names the unknowns that ended on a bound ("lower" or "upper").

    `noise_estimated` says that the residuals were divided by an estimated std; the size of each such output's noise is
    then taken from its residuals, and the quantiles from the t distribution. `smallest` as in `identifiability`. `limits`
    are the inequalities among the linearization's rows. `on_demand`: where no residual series is autocorrelated, so that the
    plain interval is printed, the corrected ones are computed when they are asked for. `quantisers`: series, by experiment and
    output, whose errors are those of rounding. `robust`: of a robust loss, whose linearization has its residuals' size already.
    `simulation_error`: standard errors, for residuals of size one, by which the error of the simulation may move the estimate.
    """
    names, values = problem.names, np.asarray(linearization.values, float)
    check_active(names, active)
    free = [i for i, name in enumerate(names) if name not in active]
    scales = typical_values(problem, values)
    sensitivity = JacobianQR.of(linearization.blocks, scales, linearization.rows.experiment, values)
    fit = estimator_gain(sensitivity, free, smallest)
    released = {name: estimator_gain(sensitivity, sorted([*free, names.index(name)]), smallest) for name in active}
    errors, factors, failed = _error_model(problem, linearization, scales, fit.fitted_subspace(sensitivity.basis),
                                           noise_estimated, quantisers or {}, on_demand, robust, simulation_error)
    score_covariances = {"plain": sensitivity.covariance(errors.variance)}
    corrected_dof = None
    if errors.noise is not None:
        score_covariances["corrected"] = sensitivity.coloured_covariance(errors.noise)
        corrected_dof = effective_dof(errors.noise, sensitivity.basis, with_released(
            fit, {names.index(name): r for name, r in released.items()}), errors.one_minus_leverage)
    matrices: dict[str, Any] = {kind: fit.covariance(meat) for kind, meat in score_covariances.items()}
    default_kind, reason = _which(problem, failed, errors.noise, {kind: m.diagonal() for kind, m in matrices.items()})
    unidentifiable, combinations, null = _undetermined(problem, values, free, scales, sensitivity, smallest) if (
        not fit.complete) else ((), (), np.zeros((len(names), 0)))
    bound_std = {kind: {n: released_std(r, meat.dense(), names.index(n)) for n, r in released.items()} if released else {}
                 for kind, meat in score_covariances.items()}
    sensitivities = {n: bound_sensitivity(sensitivity, fit, names.index(n), side, bool(released[n].determined[names.index(n)]))
              for n, side in active.items()}
    made = partial(
        Covariance, names=names, values=values, matrix=matrices["plain"], dof=errors.dof, active=dict(active),
        corrected=matrices.get("corrected"), corrected_dof=corrected_dof, default_kind=default_kind, reason=reason,
        bound_relaxations=(*relax_bounds(problem, sensitivities, bound_std, errors.dof, corrected_dof),
                *(inequality_relaxation(limit, sensitivity, fit, free, errors, smallest) for limit in limits)),
        unidentifiable=unidentifiable, combinations=combinations, null_space=null, std_if_released=bound_std,
        logarithmic=tuple(u.name for u in problem.unknowns if u.log), fixed=problem.fixed_values(),
        bounds=finite_bounds(problem), noise_factors={output: factor for output, (_, factor, _) in factors.items()},
        given_std=std_as_given(names, sensitivity, fit, released) if factors else {},
        deferred=(partial(covariance_from, problem, linearization, active, noise_estimated, smallest, limits, robust=robust,
                          simulation_error=simulation_error)
                  if errors.noise is None and errors.enough and not failed else None))
    return made(practically_unidentifiable=find_practically_unidentifiable(problem, made()))  # a copy would make it dense


def _error_model(problem: Problem, linearization: ResidualJacobian, scales: np.ndarray, fitted: BlockRows,
                 noise_estimated: bool, quantisers: Mapping[tuple[int, int], Quantiser], on_demand: bool, robust: bool,
                 simulation_error: float) -> tuple[NoiseModel, dict[str, tuple[np.ndarray, float, float]], list[ResidualTest]]:
    """The noise of the residuals, by output the factor on a given std where white residuals show another, and the
    series that are not white; arguments as those of `covariance_from`."""
    clean = noise_free(linearization, simulation_error if noise_estimated else NOISE_FREE)
    failed = [] if clean else _not_white(problem, linearization)
    errors = noise_model_of(problem, linearization, scales, fitted, noise_estimated, quantisers,
                            with_colour=bool(failed or quantisers) or not on_demand)
    factors: dict[str, tuple[np.ndarray, float, float]] = {}
    if not noise_estimated and not failed and not robust:
        factors = given_noise_factors(problem, linearization, errors.one_minus_leverage)
        errors = errors.with_factors(factors)
    return errors.with_simulation_error(simulation_error), factors, failed


def _undetermined(problem: Problem, values: np.ndarray, free: list[int], scales: np.ndarray, sensitivity: JacobianQR,
                  smallest: float) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """Names that take part in a direction which the data do not see, what of them is determined, and the directions."""
    compact = sensitivity.triangle[:, free] * sensitivity.lengths[free]
    known = identifiability([problem.names[i] for i in free], values[free], scales[free], compact,
                            tolerance_for_growing_rows(sensitivity.unit, free, smallest))
    return known.unidentifiable, known.combinations, among_all(known.null_space, free, len(values))


def _not_white(problem: Problem, linearization: ResidualJacobian) -> list[ResidualTest]:
    """Tests of whiteness that a residual series does not pass; of many series one that is sure at the level of all."""
    series = [(s, s.in_order(linearization.residuals)) for s in series_of(linearization.rows)]
    confidence = 1 - (1 - CONFIDENCE) / max(len(series), 1)  # a hundred series are still one fit
    tests = ((whiteness(own, _label(problem, s), confidence=confidence), own) for s, own in series)
    return [test for test, own in tests if not test.passed and (len(series) < MANY_SERIES or surely_not_white(own, confidence))]


def _which(problem: Problem, failed: list[ResidualTest], noise: ColouredNoise | None, spread: Mapping[str, np.ndarray]
           ) -> tuple[str, str]:
    """Which interval is printed, and why: the corrected one where whiteness is rejected in any series, or rounding widens it.

    `spread` are the variances of the unknowns, by kind.
    """
    if isinstance(noise, QuantisedNoise) and noise.quantisers:
        named = ", ".join(f"{_label(problem, noise.series[i])} is read in steps of {quantiser.step:.3g}"
                          for i, (quantiser, _) in noise.quantisers.items())
        if failed or np.any(spread["corrected"] > QUANTISATION_NOTICED**2 * spread["plain"]):
            return "corrected", f"{named}, and rounding errs alike where the signal is alike"
    if not failed:
        return "plain", "no autocorrelation was found in the residuals"
    worst = max(failed, key=lambda test: test.value)
    if noise is None:
        return "plain", f"{worst.sentence}; the record is too short for a noise model, so this could not be corrected"
    slow = "; they drift as slowly as the record is long, so even the corrected interval may be too narrow"
    return "corrected", worst.sentence + (slow if noise.drifting else "")


def _label(problem: Problem, series: Series) -> str:
    output = problem.model.outputs[series.output]
    return f"{output} in {problem.experiments[series.experiment].name}" if len(problem.experiments) > 1 else output
