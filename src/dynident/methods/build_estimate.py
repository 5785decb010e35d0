"""Build estimate: from what a solver found to an estimate with its uncertainty, statistics and notes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.validation import fit_percent
from dynident.integrators.propagation import Propagation, mode_names
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.active_constraints import ActiveConstraints, count_fixed
from dynident.methods.post_fit_checks import prior_conflicts, unequal_noise
from dynident.methods.substeps import HARMLESS
from dynident.problem.losses import loss_and_weights
from dynident.problem.problem import Problem, given_std
from dynident.solvers.solver_result import Iteration, SolverResult
from dynident.statistics.covariance import Covariance, covariance_from
from dynident.statistics.information_criteria import information_criteria_of
from dynident.statistics.residual_tests import noise_level, outliers
from dynident.statistics.uncertainty import Uncertainty
from dynident.status import Status, fit_status
from dynident.tolerances import SINGULAR_VALUE, SINGULAR_VALUE_EXACT
from dynident.transcription.shooting import Shooting

ROBUSTLY = ("the model is right, nearly linear over the interval, and disturbed by independent errors that lie evenly about "
            "zero; they need not be normal, since the {loss} loss gives little weight to those far out")


def build_estimate(problem: Problem, method: Any, values: Mapping[str, float], uncertainty: Uncertainty,
                   trajectories: tuple[Trajectory, ...], residuals: tuple[Mapping[str, np.ndarray], ...], *, converged: bool,
                   status: Status, cost: float, noise_std: Mapping[str, float], notes: Sequence[str] = (),
                   history: tuple[Iteration, ...] = (), counts: Mapping[str, int], times: Mapping[str, float],
                   statistics: Mapping[str, float], interrupted: bool = False, **parts: Any) -> Estimate:
    """The estimate of any method that fits: what all of them say in the same way is added here.

    `values` are those of the unknowns, `noise_std` those standard deviations that were estimated, `parts` what only some
    methods have (`filtered`, `smoothed`).
    """
    return Estimate(
        problem=problem, method=method, values={**values, **problem.fixed_values()}, uncertainty=uncertainty,
        converged=converged, status=status, cost=cost, trajectories=trajectories, residuals=residuals,
        noise_std=all_noise_std(problem, noise_std), notes=tuple(notes), history=history,
        counts={**counts, **({"interrupted": 1} if interrupted else {})}, times=times,
        statistics={**statistics, **fit_percents(problem, trajectories)}, **parts)


def build_direct_estimate(problem: Problem, method: Any, finite: Shooting, outcome: SolverResult, sizes: Mapping[str, float],
                          error: float, counts: Mapping[str, int], times: Mapping[str, float], solver: str = "",
                          tight: ActiveConstraints | None = None) -> Estimate:
    """Everything that follows from the point which the solver of a direct method found."""
    began = time.perf_counter()
    trajectories, residuals = trajectories_of(problem, finite, finite.run_with_all_outputs(outcome.point))
    at = finite.linearization(outcome.point)
    active = {name: "lower" if side < 0 else "upper" for name, side in zip(problem.names, outcome.held, strict=True) if side}
    tied, limits = (tight or ActiveConstraints()).append_as_measurements(robust_linearization(at, finite.loss))
    uncertainty = covariance_from(problem, tied, active, noise_estimated=bool(sizes),
                                  smallest=SINGULAR_VALUE if finite.simulation_noise else SINGULAR_VALUE_EXACT, limits=limits)
    fixed = count_fixed(outcome.held, tight)
    if finite.loss != "squared" and uncertainty.default_kind == "plain":
        uncertainty = replace(uncertainty, assumed=ROBUSTLY.format(loss=finite.loss))
    values = dict(zip(problem.names, (float(v) for v in at.values), strict=True))
    cost = float(at.residuals @ at.residuals) if finite.loss == "squared" else outcome.evaluation.cost
    notes = direct_notes(problem, finite, at, uncertainty, sizes, error, fixed)
    notes += prior_conflicts(problem, values, uncertainty)
    if finite.loss == "squared":  # a few samples far out say nothing about the noise of a record
        notes += unequal_noise(problem, residuals, sizes, len(problem.names) - fixed)
    return build_estimate(
        problem, method, values, uncertainty, trajectories, residuals, converged=outcome.converged, cost=cost,
        status=fit_status(outcome.reason, outcome.converged, solver), noise_std=sizes, notes=notes, history=outcome.history,
        counts=counts, times={**times, "statistics": time.perf_counter() - began}, interrupted=outcome.interrupted,
        statistics=information_criteria_of(problem, residuals, fixed=fixed))


def trajectories_of(problem: Problem, finite: Shooting, marched: list[Propagation]
                    ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """States and outputs at the samples, and measured minus model."""
    model = problem.model
    trajectories, residuals = [], []
    for record, out, experiment in zip(finite.records, marched, problem.experiments, strict=True):
        states, outputs = out.states[record.grid.offset:], out.outputs[record.grid.offset:]
        trajectories.append(Trajectory(experiment.name, np.asarray(experiment.time),
                                       {n: states[:, i].copy() for i, n in enumerate(model.states)},
                                       {n: outputs[:, j].copy() for j, n in enumerate(model.outputs)},
                                       mode_names(model, out, record.grid.offset)))
        residuals.append({n: np.asarray(experiment.outputs[n]) - trajectories[-1].outputs[n] for n in experiment.outputs})
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

    slope = float(np.mean((influence_function(at.residuals + step) - influence_function(at.residuals - step)) / (2 * step)))
    freedom = max(1, at.residuals.size - at.jacobian.shape[1])
    spread = np.sqrt(float(influence @ influence) / freedom) / max(slope, 1e-3)
    return replace(at, residuals=influence / (max(slope, 1e-3) * spread), jacobian=at.jacobian / spread)


def all_noise_std(problem: Problem, sizes: Mapping[str, float]) -> dict[str, float]:
    """One number per output with a measured value: given, estimated, or the mean of a given series."""
    levels = {}
    for name in problem.model.outputs:
        given = [given_std(e, name) for e in problem.experiments
                 if name in e.outputs and np.any(np.isfinite(e.outputs[name]))]
        known = [np.mean(g) for g in given if g is not None]
        if given:
            levels[name] = float(sizes[name] if name in sizes else np.mean(known))
    return levels


def fit_percents(problem: Problem, trajectories: tuple[Trajectory, ...]) -> dict[str, float]:
    """Fit % per output over all records together."""
    found = {}
    for name in problem.model.outputs:
        pairs = [(np.asarray(e.outputs[name]), t.outputs[name])
                 for e, t in zip(problem.experiments, trajectories, strict=True) if name in e.outputs]
        if pairs:
            found[f"fit_{name}"] = fit_percent(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    return found


def direct_notes(problem: Problem, finite: Shooting, at: ResidualJacobian, uncertainty: Covariance, sizes: Mapping[str, float],
            error: float, fixed: int = 0) -> list[str]:
    """What the reader must know beside the numbers, most important first; `fixed` as in `information_of`."""
    notes = [as_sentence(words) for words in uncertainty.combinations]
    notes += active_bound_notes(uncertainty)
    notes += [f"{name} is practically unidentifiable (unbounded interval): these data hardly tell it."
              for name in uncertainty.practically_unidentifiable]
    measured = at.rows.output >= 0
    if not sizes:
        seen = at.residuals[measured]
        test = noise_level(float(seen @ seen), seen.size - at.jacobian.shape[1] + fixed)
        if not test.passed:
            notes.append(as_sentence(test.sentence))
    if uncertainty.default_kind == "corrected":
        notes.append(f"The residuals are autocorrelated ({uncertainty.reason}): the corrected intervals are printed.")
    far = outliers(at.residuals[measured], "the residuals", 1.0)
    if not far.passed:
        weighed = (f"{far.value:.0f} of {np.sum(measured)} residuals lie beyond 4 standard deviations; "
                   f"the {finite.loss} loss gives them little weight")
        notes.append(as_sentence(far.sentence if finite.loss == "squared" else weighed))
    if error > 1:
        notes.append(f"The integrator's error may move the estimate by up to {HARMLESS * error:.2g} standard errors "
                     f"with {finite.substeps} sub-steps of {finite.integrator.name}; use more sub-steps or a scheme of "
                     "higher order.")
    notes += [note for e in problem.experiments for note in e.notes]
    return notes


def active_bound_notes(uncertainty: Covariance) -> list[str]:
    """Which bounds and inequalities hold the estimate, and whose intervals know of it."""
    notes = []
    for loose in uncertainty.bound_relaxations:
        side, others = uncertainty.active.get(loose.text), uncertainty.affected_unknowns(loose)
        begin = (f"{loose.text} is at its {side} bound (active); its interval is one-sided" if side else
                 f"The constraint '{loose.text}' holds the estimate as if it were an equality")
        which = "the interval of {} allows" if len(others) == 1 else "the intervals of {} allow"
        allows = f", and {which.format(', '.join(others))} for values inside of it" if others else ""
        told = np.isfinite(loose.std.get(uncertainty.default_kind, np.inf)) or not others
        notes.append(f"{begin}{allows}." + ("" if told else f" The data do not tell it apart from {', '.join(others)}."))
    return notes


def as_sentence(words: str) -> str:
    """Words as a sentence of their own; they must not begin with a name, which would become another one."""
    return f"{words[0].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
