"""Objective value: what do given values of the unknowns cost, and in which direction does the cost fall?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident._util.data_classes import short_fields
from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.methods.capabilities import CONDITIONS, Capabilities, Support, check_supports
from dynident.methods.exact_shooting import likely_shooting
from dynident.models.equations import EquationModel
from dynident.problem.noise import Bounded, LogNormal
from dynident.problem.problem import Problem

TAKES = Capabilities(hybrid_models=Support.YES, models_without_states=Support.YES, dead_times=Support.YES,
                     discrete_time=Support.YES, constraints=Support.YES, state_bounds=Support.YES,
                     noise_formulas=Support.YES, **CONDITIONS)


@dataclass(frozen=True, eq=False)
class ObjectiveValue:
    """The objective of a problem at given values: what a maximum of the posterior minimises.

    See the manual, howto/objective.

    Attributes
    ----------
    value : float
        Minus the log-likelihood and the log-density of the priors.
    log_likelihood : float
        Natural logarithm of the probability density of the measured values, all constants included.
    prior : float
        Natural logarithm of the density of the priors, each on its own scale; 0 without priors.
    chi2 : float
        Sum of the squared weighted residuals.
    residuals : tuple of mapping of str to array
        Per experiment and output (model - measured) / std at the samples, of logarithms where errors are log-normal; NaN where
        nothing was measured.
    gradient : mapping of str to float
        d value / d unknown, by name, in the unit of the unknown.
    noise_std : mapping of str to float
        Standard deviations that nobody stated, by output: those that are most likely at these values.
    simulations : tuple of mapping of str to array
        Per experiment the model's outputs at the samples, standard deviations that are formulas among them.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2], outputs={"x": [1.0, 0.6, 0.4]}, initial={"x": 1}, noise={"x": di.Gaussian(0.1)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> isinstance(di.objective(problem, {"k": 0.5}), di.ObjectiveValue)
    True
    """

    value: float
    log_likelihood: float
    prior: float
    chi2: float
    residuals: tuple[Mapping[str, np.ndarray], ...]
    gradient: Mapping[str, float]
    noise_std: Mapping[str, float]
    simulations: tuple[Mapping[str, np.ndarray], ...]

    def __repr__(self) -> str:
        return short_fields(self)


def objective(problem: Problem, values: Mapping[str, float]) -> ObjectiveValue:
    """What given values of the unknowns cost: log-likelihood, chi-square, priors, residuals and gradient; nothing is fitted.

    See the manual, howto/objective.

    Parameters
    ----------
    problem : Problem
        Of equations.
    values : mapping of str to float
        Of all unknowns, in their units, by the names of `problem.names`; others are refused, except those that the problem
        holds.

    Returns
    -------
    ObjectiveValue
        By an integrator with error control, where the model lets it.

    Raises
    ------
    ProblemError
        For values that are missing or name no unknown, and for a simulation that does not stay finite.
    NotSupported
        For models without equations.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2], outputs={"x": [1.0, 0.6, 0.4]}, initial={"x": 1}, noise={"x": di.Gaussian("s")})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0), di.Parameter("s", start=0.1, lower=0)])
    >>> at = di.objective(problem, {"k": 0.5, "s": 0.1})
    >>> print(f"{at.log_likelihood:.3f}, chi2 {at.chi2:.3f}, slope along s {at.gradient['s']:.1f}")
    4.097, chi2 0.107, slope along s 28.9
    """
    unknowns = _checked(problem, values)
    check_supports(problem, "objective", TAKES, fits=False)
    try:
        return _evaluated(problem, unknowns)
    except SimulationDiverged as bad:
        listed = ", ".join(f"{name} = {value:.4g}" for name, value in zip(problem.names, unknowns, strict=True))
        raise ProblemError(f"At {listed} there is no objective: {str(bad).rstrip('.')}. Choose other values.") from None


def _checked(problem: Problem, values: Mapping[str, float]) -> np.ndarray:
    if not isinstance(problem, Problem):
        raise ProblemError(f"objective takes a Problem, not {type(problem).__name__}.")
    if not isinstance(problem.model, EquationModel):
        raise NotSupported(f"objective needs a model with equations, not {type(problem.model).__name__}.")
    held = {*problem.fixed_parameters(), *problem.fixed_values()}
    faults = [f"'{name}' is not an unknown of the problem.{did_you_mean(name, problem.names)}"
              for name in values if name not in problem.names and name not in held]
    faults += [f"there is no value of '{name}'.{did_you_mean(name, [n for n in values if n not in problem.names])}"
               for name in problem.names if name not in values]
    found = []
    for name in problem.names:
        try:
            found.append(float(values.get(name, 0.0)))
        except (TypeError, ValueError):
            found.append(math.nan)
        if not math.isfinite(found[-1]):
            faults.append(f"'{name}' is {values[name]!r}; give a finite number.")
    if faults:
        raise ProblemError(faults)
    return np.array(found, float)


def _evaluated(problem: Problem, unknowns: np.ndarray) -> ObjectiveValue:
    finite, point, left_open = likely_shooting(problem, unknowns)
    evaluation, at = finite.evaluate(point), finite.linearization(point)
    prior = sum(u.prior.log_density(float(unknowns[i])) for i, u in enumerate(problem.unknowns) if u.prior is not None)
    chi2 = evaluation.squares - float(evaluation.prior @ evaluation.prior)
    likelihood = -0.5 * (chi2 + evaluation.log_std + _given_logarithms(problem, left_open))
    gradient = at.jacobian.T @ at.residuals
    residuals, simulations = [], []
    outputs = [out.outputs[record.grid.offset:] for record, out in zip(
        finite.records, finite.run_with_all_outputs(point), strict=True)]
    for e, (experiment, record) in enumerate(zip(problem.experiments, finite.records, strict=True)):
        rows = evaluation.weighted_residuals[e][record.grid.offset:]
        residuals.append({name: np.where(np.isfinite(y), rows[:, problem.model.outputs.index(name)], np.nan)
                          for name, y in experiment.outputs.items()})
        simulations.append({name: outputs[e][:, j].copy() for j, name in enumerate(problem.model.outputs)})
    return ObjectiveValue(-(likelihood + prior), likelihood, float(prior), chi2, tuple(residuals),
                          dict(zip(problem.names, (float(g) for g in gradient), strict=True)), left_open, tuple(simulations))


def _given_logarithms(problem: Problem, left_open: Mapping[str, float]) -> float:
    """What minus twice the log-likelihood has beside squares and formulas: log(2 pi s^2); of log-normal errors a slope, too."""
    total = 0.0
    for e, experiment in enumerate(problem.experiments):
        for name, y in experiment.outputs.items():
            noise, seen = experiment.noise[name], np.isfinite(np.asarray(y, float))
            assert not isinstance(noise, Bounded)  # refused before
            total += int(np.sum(seen)) * math.log(2 * math.pi)
            if name not in problem.noise_outputs[e]:
                std = left_open[name] if noise.std is None else np.asarray(noise.std, float)
                total += 2 * float(np.sum(np.log(np.broadcast_to(std, seen.shape)[seen])))
            if isinstance(noise, LogNormal):
                total += 2 * float(np.sum(np.log(np.asarray(y, float)[seen])))
    return total
