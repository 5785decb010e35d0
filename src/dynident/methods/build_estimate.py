"""Build estimate: from what a solver found to an estimate with its uncertainty, information criteria and notes.

Information criteria (AIC, BIC): the full Gaussian log-likelihood, constants included, so that values compare between tools
and between models of the same data. A std that is estimated enters at its maximum-likelihood value sqrt(RSS / n) and counts
as one more unknown. AIC = 2k - 2L, AICc = AIC + 2k(k + 1)/(n - k - 1), BIC = k log n - 2L.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate, Trajectory, fit_percent
from dynident.integrators.propagation import Propagation, mode_names
from dynident.linalg.finite_problem import ResidualJacobian, Variables
from dynident.methods.indistinguishable import confirmed_by_simulation
from dynident.methods.noise_estimation import estimate_noise_std, signal_std
from dynident.methods.rank_by_differences import covariance_by_differences
from dynident.methods.substeps import IntegrationError
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import LogNormal, logarithmic_mean, loss_and_weights
from dynident.problem.problem import Problem, given_std
from dynident.solvers.solver_result import Iteration, SolverResult
from dynident.statistics.active_bounds import ActiveConstraints, count_fixed
from dynident.statistics.autocorrelation import series_of
from dynident.statistics.covariance import Covariance, covariance_from
from dynident.statistics.distributions import f_quantile, normal_quantile
from dynident.statistics.quantisation import Quantiser, quantisers_of
from dynident.statistics.residual_statistics import pooled_independent_share, robust_std
from dynident.statistics.residual_tests import CONFIDENCE, FEWEST_TESTED, MOST_OUTLIERS, noise_level, outliers
from dynident.statistics.uncertainty import Uncertainty
from dynident.status import Status, fit_status
from dynident.tolerances import (
    INTEGRATION_TOLERANCE,
    INTEGRATION_WRONG,
    RESIDUAL_ROUNDING,
    SIMULATION_ROUNDING,
    SINGULAR_VALUE,
    SINGULAR_VALUE_EXACT,
)
from dynident.transcription.transcribed_problem import SimulatedProblem

ROBUSTLY = ("the model is right, nearly linear over the interval, and disturbed by independent errors that lie evenly about "
            "zero; they need not be normal, since the {loss} loss gives little weight to those far out")
PRIOR_DECIDES = 1e-3  # what the data leave of a prior's variance; less, and they have no say that it could contradict
STD_RATIO = 1.5  # times; records nearer than that weigh about right together, and slow noise alone may do as much
RECORDS_NAMED = 4  # records named in a note; of more, the quietest and the loudest


def build_estimate(problem: Problem, method: Any, values: Mapping[str, float], uncertainty: Uncertainty,
                   trajectories: tuple[Trajectory, ...], residuals: tuple[Mapping[str, np.ndarray], ...], *, converged: bool,
                   status: Status, cost: float = math.nan, noise_std: Mapping[str, float] | None = None,
                   notes: Sequence[str] = (), history: tuple[Iteration, ...] = (), counts: Mapping[str, int],
                   times: Mapping[str, float] | None = None, statistics: Mapping[str, float] | None = None,
                   interrupted: bool = False, **parts: Any) -> Estimate:
    """The estimate of any method: what all of them say in the same way is added here.

    `values` are those of the unknowns; `cost` is NaN where nothing was fitted, as in a proof; `noise_std` are those
    standard deviations that were estimated, or None where errors have none; `parts` what only some methods have
    (`filtered`, `smoothed`).
    """
    fits = {} if math.isnan(cost) else fit_percents(problem, trajectories)
    return Estimate(
        problem=problem, method=method, values={**values, **problem.fixed_values()}, uncertainty=uncertainty,
        converged=converged, status=status, cost=cost, trajectories=trajectories, residuals=residuals,
        noise_std={} if noise_std is None else all_noise_std(problem, noise_std),
        notes=(*notes, *problem.notes, *algebraic_notes(problem, values, trajectories)), history=history,
        counts={**counts, **({"interrupted": 1} if interrupted else {})}, times=times or {},
        statistics={**(statistics or {}), **fits}, **parts)


def algebraic_notes(problem: Problem, values: Mapping[str, float], trajectories: Sequence[Trajectory]) -> list[str]:
    """The consistent first values of algebraic variables, which nobody gave."""
    model = problem.model
    if not isinstance(model, EquationModel) or model.algebraic_system is None:
        return []
    unknowns = np.array([values[name] for name in problem.names])
    found = []
    for e, (experiment, path) in enumerate(zip(problem.experiments, trajectories, strict=False)):
        x, u = (np.array([of[name][0] for name in names]) for of, names in
                ((path.states, model.states), (experiment.inputs, model.inputs)))
        p = problem.parameters_at(unknowns, e)
        z = model.algebraic_system.solve(float(path.time[0]), x, u, p)
        named = ", ".join(f"{name} = {value:.6g}" for name, value in zip(model.algebraic, z, strict=True))
        found.append(f"{named} in '{experiment.name}'" if len(problem.experiments) > 1 else named)
    shown = [*found[:RECORDS_NAMED], *([f"{len(found) - RECORDS_NAMED} more records"] if len(found) > RECORDS_NAMED else [])]
    return [f"Consistent with the algebraic equations at the first sample: {'; '.join(shown)}."] if found else []


Reweighted = Callable[[Mapping[str, float]], tuple[SimulatedProblem, Variables]]


def build_direct_estimate(problem: Problem, method: Any, finite: SimulatedProblem, outcome: SolverResult,
                          noise_std: Mapping[str, float], error: IntegrationError, counts: Mapping[str, int],
                          times: Mapping[str, float], solver: str = "",
                          constraints: ActiveConstraints | None = None, reweighted: Reweighted | None = None) -> Estimate:
    """Everything that follows from the point which the solver of a direct method found.

    `reweighted` makes the same problem and point with other estimated standard deviations: those of a fit that did not
    converge are a first guess, and directions that the data do not see take no degree of freedom.
    """
    began = time.perf_counter()
    propagated = finite.run_with_all_outputs(outcome.point)
    problem = with_model_weights(problem, finite, propagated)
    trajectories, residuals = trajectories_of(problem, finite, propagated)
    at = finite.linearization(outcome.point)
    active = {name: "lower" if side < 0 else "upper"
              for name, side in zip(problem.names, outcome.active_bounds, strict=True) if side}
    quantisers = quantisers_of(problem, residuals)
    shift = max(error.shift, rounding_shift(problem, noise_std))
    uncertainty = linearized_uncertainty(problem, finite, at, active, noise_std, constraints, quantisers, shift)
    fixed = count_fixed(outcome.active_bounds, constraints) + undetermined_directions(uncertainty)
    if noise_std and reweighted is not None and (undetermined_directions(uncertainty) or not outcome.converged):
        noise_std = estimate_noise_std(problem, at, dict(noise_std), finite.loss != "squared", fixed)
        finite, point = reweighted(noise_std)
        at = finite.linearization(point)
        shift = max(error.shift, rounding_shift(problem, noise_std))
        uncertainty = linearized_uncertainty(problem, finite, at, active, noise_std, constraints, quantisers, shift)
    uncertainty = confirmed_by_simulation(problem, uncertainty, at.values, active, outcome.converged)
    if finite.loss != "squared" and uncertainty.default_kind == "plain":
        uncertainty = replace(uncertainty, assumed=ROBUSTLY.format(loss=finite.loss))
    values = dict(zip(problem.names, (float(v) for v in at.values), strict=True))
    plain = finite.loss == "squared" and not problem.weighs_by_model
    cost = float(at.residuals @ at.residuals) if plain else outcome.evaluation.cost
    notes = direct_notes(problem, finite, at, uncertainty, noise_std, fixed)
    notes += [*integration_notes(problem, finite, at, noise_std, error), *finite.notes]
    notes += prior_conflicts(problem, values, uncertainty)
    if finite.loss == "squared":  # a few samples far out say nothing about the noise of a record
        notes += unequal_noise(problem, residuals, noise_std, len(problem.names) - fixed)
    return build_estimate(
        problem, method, values, uncertainty, trajectories, residuals, converged=outcome.converged, cost=cost,
        status=fit_status(outcome.reason, outcome.converged, solver), noise_std=noise_std, notes=notes, history=outcome.history,
        counts=counts, times={**times, "statistics": time.perf_counter() - began}, interrupted=outcome.interrupted,
        statistics=information_criteria_of(problem, residuals, fixed=fixed))


def linearized_uncertainty(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian, active: Mapping[str, str],
                           noise_std: Mapping[str, float], constraints: ActiveConstraints | None,
                           quantisers: Mapping[tuple[int, int], Quantiser], shift: float) -> Covariance:
    """The covariance at a point; `shift` as `simulation_error` of `covariance_from`."""
    tied, limits = (constraints or ActiveConstraints()).append_as_measurements(robust_linearization(at, finite.loss))
    return covariance_by_differences(
        finite, at, lambda smallest: covariance_from(
            problem, tied, active, noise_estimated=bool(noise_std), smallest=smallest, limits=limits, on_demand=True,
            quantisers=quantisers, robust=finite.loss != "squared", simulation_error=shift),
        SINGULAR_VALUE if finite.simulation_noise else SINGULAR_VALUE_EXACT)


def undetermined_directions(uncertainty: Covariance) -> int:
    """How many directions the data do not see; along them nothing is fitted."""
    return 0 if uncertainty.null_space is None else uncertainty.null_space.shape[1]


def rounding_shift(problem: Problem, noise_std: Mapping[str, float]) -> float:
    """Standard errors, for residuals of size one, by which rounding may move an estimate: felt where there is no noise."""
    return max((SIMULATION_ROUNDING * RESIDUAL_ROUNDING * signal_std(problem, name) / std for name, std in noise_std.items()),
               default=0.0)


def integration_notes(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian, noise_std: Mapping[str, float],
                      error: IntegrationError) -> list[str]:
    """By how much the error of the integrator may move the estimate, where that is more than nothing."""
    measured = at.residuals[at.rows.output >= 0]
    level = float(np.sqrt(np.mean(measured**2))) if measured.size and noise_std else 1.0
    moved = error.shift / max(level, rounding_shift(problem, noise_std)) if np.isfinite(error.relative) else np.inf
    if not moved > INTEGRATION_TOLERANCE:
        return []
    steps = f"with {finite.substeps} sub-steps of {finite.integrator.name}"
    if moved > INTEGRATION_WRONG and error.relative <= 1:
        return ["The residuals are smaller than the error of the integrator, which may move the estimate by up to "
                f"{moved:.2g} of their standard errors {steps}; the intervals allow for it."]
    return [f"The integrator's error may move the estimate by up to {moved:.2g} standard errors {steps}; use more sub-steps or "
            "a scheme of higher order."]


def with_model_weights(problem: Problem, finite: SimulatedProblem, propagated: list[Propagation]) -> Problem:
    """The problem with the standard deviations that formulas and log-normal errors have at the solution."""
    if not problem.weighs_by_model:
        return problem
    return problem.with_noise_at([
        {} if record.model_weights is None else record.model_weights.std_in_units(out.outputs)
        for record, out in zip(finite.records, propagated, strict=True)])


def trajectories_of(problem: Problem, finite: SimulatedProblem, propagated: list[Propagation]
                    ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """States and outputs at the samples, and measured minus model."""
    offsets = [record.grid.offset for record in finite.records]
    return trajectories_from(problem, [out.states[k:] for k, out in zip(offsets, propagated, strict=True)],
                             [out.outputs[k:] for k, out in zip(offsets, propagated, strict=True)],
                             [mode_names(problem.model, out, k) for k, out in zip(offsets, propagated, strict=True)])


def trajectories_from(problem: Problem, states: Sequence[np.ndarray], outputs: Sequence[np.ndarray],
                      modes: Sequence[np.ndarray | None] | None = None
                      ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """By name, of (samples, states) and (samples, outputs) per experiment; and measured minus model."""
    model, trajectories, residuals = problem.model, [], []
    for e, experiment in enumerate(problem.experiments):
        trajectories.append(Trajectory(experiment.name, np.asarray(experiment.time),
                                       {n: states[e][:, i].copy() for i, n in enumerate(model.states)},
                                       {n: outputs[e][:, j].copy() for j, n in enumerate(model.outputs)},
                                       modes[e] if modes else None))
        residuals.append({n: np.asarray(y) - trajectories[-1].outputs[n] for n, y in experiment.outputs.items()})
    return tuple(trajectories), tuple(residuals)


def robust_linearization(at: ResidualJacobian, loss: str) -> ResidualJacobian:
    """For a robust loss, the least squares problem with the covariance of that estimator (Huber's formula)."""
    if loss == "squared":
        return at
    _, factor = loss_and_weights(at.residuals, loss)
    step = 1e-4
    influence = at.residuals * factor**2

    def influence_function(r: np.ndarray) -> np.ndarray:
        return r * loss_and_weights(r, loss)[1] ** 2

    change = influence_function(at.residuals + step) - influence_function(at.residuals - step)
    derivative = float(np.mean(change / (2 * step)))
    freedom = max(1, at.residuals.size - at.values.size)
    std = np.sqrt(float(influence @ influence) / freedom) / max(derivative, 1e-3)
    return replace(at, residuals=influence / (max(derivative, 1e-3) * std),
                   blocks=at.blocks.with_columns(np.full(at.values.size, 1 / std)))


def all_noise_std(problem: Problem, noise_std: Mapping[str, float]) -> dict[str, float]:
    """One number per output with a measured value: given, estimated, or the mean of a given series."""
    levels = {}
    for name in problem.model.outputs:
        given = [given_std(e, name) for e in problem.experiments
                 if name in e.outputs and np.any(np.isfinite(e.outputs[name]))]
        known = [np.mean(g) for g in given if g is not None]
        if given:
            levels[name] = float(noise_std[name] if name in noise_std else np.mean(known))
    return levels


def fit_percents(problem: Problem, trajectories: tuple[Trajectory, ...]) -> dict[str, float]:
    """Fit % per output over all records together."""
    fit = {}
    for name in problem.model.outputs:
        pairs = [(np.asarray(e.outputs[name]), t.outputs[name])
                 for e, t in zip(problem.experiments, trajectories, strict=True) if name in e.outputs]
        if pairs:
            fit[f"fit_{name}"] = fit_percent(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    return fit


def direct_notes(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian, uncertainty: Covariance,
                 noise_std: Mapping[str, float], fixed: int = 0) -> list[str]:
    """What the reader must know beside the numbers, most important first; `fixed` as in `information_criteria_of`."""
    notes = [as_sentence(words) for words in uncertainty.combinations]
    notes += active_bound_notes(uncertainty)
    notes += [f"{name} is practically unidentifiable (unbounded interval): these data hardly determine it."
              for name in uncertainty.practically_unidentifiable]
    measured = at.rows.output >= 0
    far = outliers(at.residuals[measured], "the residuals", 1.0)
    if not noise_std and not problem.has_noise_formulas:
        seen = at.residuals[measured]
        squares = float(seen @ seen) if finite.loss == "squared" else seen.size * robust_std(seen) ** 2
        few = not far.passed and far.value <= MOST_OUTLIERS * seen.size
        series = series_of(at.rows) if uncertainty.default_kind == "corrected" else ()
        alike = pooled_independent_share([own.in_order(at.residuals) for own in series])
        test = noise_level(squares, seen.size - at.values.size + fixed, outlying=few, independent=alike)
        if not test.passed:
            notes.append(as_sentence(test.sentence))
    if uncertainty.default_kind == "corrected":
        notes.append(f"The residuals are autocorrelated ({uncertainty.reason}): what is printed of intervals is corrected for "
                     "it.")
    if not far.passed:
        weighed = (f"{far.value:.0f} of {np.sum(measured)} residuals lie beyond 4 standard deviations; "
                   f"the {finite.loss} loss gives them little weight")
        notes.append(as_sentence(far.sentence if finite.loss == "squared" else weighed))
    notes += [note for e in problem.experiments for note in e.notes]
    return notes


def active_bound_notes(uncertainty: Covariance) -> list[str]:
    """Which bounds and inequalities hold the estimate, and whose intervals know of it."""
    notes = []
    for loose in uncertainty.bound_relaxations:
        side, others = uncertainty.active.get(loose.text), uncertainty.affected_unknowns(loose)
        begin = (f"{loose.text} is at its {side} bound (active); an interval of it is one-sided" if side else
                 f"The constraint '{loose.text}' holds the estimate as if it were an equality")
        which = "the interval of {} allows" if len(others) == 1 else "the intervals of {} allow"
        allows = f", and {which.format(', '.join(others))} for values inside of it" if others else ""
        determined = np.isfinite(loose.std.get(uncertainty.default_kind, np.inf)) or not others
        notes.append(f"{begin}{allows}." + ("" if determined else f" The data do not tell it apart from {', '.join(others)}."))
    return notes


def as_sentence(words: str) -> str:
    """Words as a sentence of their own; they must not begin with a name, which would become another one."""
    return f"{words[0].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def information_criteria(residuals: Mapping[str, np.ndarray], noise: Mapping[str, np.ndarray | float | None],
                unknowns: int) -> dict[str, float]:
    """Criteria and chi-square from residuals per output in measured units (NaN = missing).

    `noise` gives the std per output (a number or one per sample), None where it is estimated. An output with estimated
    std adds to chi2 just what it adds to dof: its noise was chosen so, and says nothing about the fit.
    """
    likelihood, chi2, estimated, given, count = 0.0, 0.0, 0, 0, 0
    for name, residual in residuals.items():
        there = np.isfinite(residual)
        r, n = residual[there], int(np.sum(there))
        count += n
        std = noise.get(name)
        if n == 0:
            continue
        if std is None:
            estimated += 1
            rss = float(r @ r)
            likelihood += -0.5 * n * (np.log(2 * np.pi * rss / n) + 1) if rss > 0 else np.inf
        else:
            given += n
            s = np.broadcast_to(np.asarray(std, float), residual.shape)[there]
            own = float(np.sum((r / s) ** 2))
            chi2 += own
            likelihood += -0.5 * (own + n * np.log(2 * np.pi)) - float(np.sum(np.log(s)))
    dof = count - unknowns
    share = dof / count if count else 0.0
    chi2 += (count - given) * share
    k = unknowns + estimated
    aic = 2 * k - 2 * likelihood
    return {"log_likelihood": float(likelihood), "aic": float(aic),
            "aicc": float(aic + 2 * k * (k + 1) / (count - k - 1)) if count > k + 1 else np.inf,
            "bic": float(k * np.log(max(count, 1)) - 2 * likelihood), "chi2": float(chi2), "dof": float(dof),
            "reduced_chi2": float(chi2 / dof) if dof > 0 else np.inf}


def information_criteria_of(problem: Problem, residuals: Sequence[Mapping[str, np.ndarray]], fixed: int = 0
                            ) -> dict[str, float]:
    """The same for a fitted problem; `residuals` per experiment, `fixed` unknowns ended on a bound and cost nothing."""
    columns: dict[str, list[np.ndarray]] = {}
    levels: dict[str, list[np.ndarray] | None] = {}
    for experiment, own in zip(problem.experiments, residuals, strict=True):
        for output, residual in own.items():
            std = given_std(experiment, output)
            key = output if std is None else f"{output}, given"
            columns.setdefault(key, []).append(np.asarray(residual, float))
            if std is None:
                levels[key] = None
            else:
                known = levels.setdefault(key, [])
                assert known is not None  # the key says that the std is given
                known.append(std)
    found = information_criteria({key: np.concatenate(parts) for key, parts in columns.items()},
                       {key: None if parts is None else np.concatenate(parts) for key, parts in levels.items()},
                       len(problem.unknowns) - fixed)
    more = sum(_slope_of_logarithms(experiment, own) for experiment, own in zip(problem.experiments, residuals, strict=True))
    return {name: value + more * {"log_likelihood": 1, "aic": -2, "aicc": -2, "bic": -2}.get(name, 0)
            for name, value in found.items()} if more else found


def _slope_of_logarithms(experiment: Experiment, residuals: Mapping[str, np.ndarray]) -> float:
    """What the likelihood of log-normal errors has beside that of normal errors whose weighted residuals are the same."""
    total = 0.0
    for output, residual in residuals.items():
        if isinstance(experiment.noise[output], LogNormal):
            m = np.asarray(experiment.outputs[output], float)
            seen = np.isfinite(m)
            total += float(np.sum(np.log(logarithmic_mean((m - residual)[seen], m[seen]) / m[seen])))
    return total


def prior_conflicts(problem: Problem, values: Mapping[str, float], uncertainty: Covariance) -> list[str]:
    """Priors that the data contradict: standardised residuals beyond their 99 % band, all priors together."""
    with_prior = [u for u in problem.unknowns if u.prior is not None]
    notes = []
    for u in with_prior:
        assert u.prior is not None  # chosen so
        i = uncertainty.names.index(u.name)
        away = abs(u.prior.residual(values[u.name]))
        left = 1 - float(uncertainty.matrix[i, i]) * u.prior.derivative(values[u.name]) ** 2  # variance, for a right prior
        if not left > PRIOR_DECIDES or away / np.sqrt(left) <= normal_quantile(1 - (1 - CONFIDENCE) / (2 * len(with_prior))):
            continue
        notes.append(f"The data contradict the prior of {u.name}: {values[u.name]:.4g} is {away:.2g} of the prior's standard "
                     f"deviations away from its mean {u.prior.center:.4g}. The prior or the model is wrong, and the interval "
                     "believes both.")
    return notes


def unequal_noise(problem: Problem, residuals: Sequence[Mapping[str, np.ndarray]], noise_std: Mapping[str, float],
                 unknowns: int) -> list[str]:
    """Outputs whose noise is estimated as one size, though it clearly differs between records: heteroscedastic
    errors, by an F test of the extremes."""
    left = max(1 - unknowns / max(problem.measured_values, 1), 1e-3)  # of a degree of freedom, per measured value
    spread: dict[str, tuple[float, str]] = {}  # output -> largest over smallest, and what it is where
    for output in noise_std:
        record_std: dict[str, tuple[float, float]] = {}  # record -> std, degrees of freedom
        for experiment, own in zip(problem.experiments, residuals, strict=True):
            there = own[output][np.isfinite(own[output])] if output in own else np.zeros(0)
            if there.size >= FEWEST_TESTED and given_std(experiment, output) is None:
                record_std[experiment.label] = float(np.sqrt(np.mean(there**2) / left)), left * there.size
        if len(record_std) < 2:
            continue
        by_std = sorted(record_std, key=lambda name: record_std[name][0])
        (low, low_dof), (high, high_dof) = record_std[by_std[0]], record_std[by_std[-1]]
        pairs = len(record_std) * (len(record_std) - 1) / 2
        limit = np.sqrt(f_quantile(1 - (1 - CONFIDENCE) / (2 * pairs), high_dof, low_dof))
        if high > max(limit, STD_RATIO) * low:
            named = by_std if len(by_std) <= RECORDS_NAMED else [by_std[0], by_std[-1]]
            spread[output] = high / low, ", ".join(f"{record_std[name][0]:.3g} in {name}" for name in named)
    if not spread:
        return []
    worst = sorted(spread, key=lambda name: spread[name][0], reverse=True)[:RECORDS_NAMED]
    listed = "; ".join(f"{name}: {spread[name][1]} (estimated {noise_std[name]:.3g})" for name in worst)
    more = f"; and {len(spread) - len(worst)} more" if len(spread) > len(worst) else ""
    return [f"The noise of {', '.join(spread)} is estimated as one size for all records, but their residuals spread "
            f"differently ({listed}{more}). The quiet records weigh too little and the intervals are not "
            "right; give each record its own std, Gaussian(std)."]
