"""Ranking of local minima: which of several ends is the best, and which of them are the same optimum?

Costs of two ends are sums of the same size only where the noise is given. Where its size is estimated, each end has its own,
and every cost is the number of degrees of freedom, however bad the fit. So ends are ranked by minus twice the
log-likelihood, up to what all of them have in common: the cost, plus 2 log(std) for each measured value whose std is estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dynident.estimate.estimate import Estimate, StartResult
from dynident.methods.noise_estimation import FIRST_NOISE_FRACTION, outputs_with_unknown_noise, signal_std
from dynident.problem.noise import loss_and_weights
from dynident.problem.problem import given_std
from dynident.tolerances import SAME_OPTIMUM, STEP_TOLERANCE

SMALLEST_NOISE_FRACTION = FIRST_NOISE_FRACTION * STEP_TOLERANCE  # of a signal's spread: what solvers leave of exact data


def criterion(estimate: Estimate) -> float:
    """By what an estimate is ranked among those that minimise the same; the lower the better, infinite where unknown.

    A filter's cost is the sum of its squared innovations over variances that it chooses itself, so that its own
    log-likelihood takes the place of it. Weights that the user gives are the same at all ends, and nothing is added.
    """
    if estimate.filtered is not None:
        found = -2 * float(estimate.filtered.loglik)
    elif "measurement_noise" in estimate.method.objective_key():
        found = float(estimate.cost)
    else:
        found = float(estimate.cost) + sum(_cost_of_estimated_noise(estimate, name)
                                           for name in outputs_with_unknown_noise(estimate.problem))
    return np.inf if np.isnan(found) else found


def _cost_of_estimated_noise(estimate: Estimate, output: str) -> float:
    """What an estimated noise size adds to the cost; one that is next to nothing counts as FINEST, in both."""
    own = [np.asarray(residuals[output], float) for experiment, residuals in
           zip(estimate.problem.experiments, estimate.residuals, strict=True)
           if output in residuals and given_std(experiment, output) is None]
    r = np.concatenate(own) if own else np.zeros(0)
    r = r[np.isfinite(r)]
    if not r.size:
        return 0.0
    std, finest = estimate.noise_std[output], SMALLEST_NOISE_FRACTION * signal_std(estimate.problem, output)
    loss = estimate.method.objective_key().get("loss", "squared")
    change = loss_and_weights(r / finest, loss)[0] - loss_and_weights(r / std, loss)[0] if std < finest else 0.0
    return change + 2 * r.size * float(np.log(max(std, finest)))


def rank(end: StartResult) -> tuple[bool, float]:
    """Smaller is better: converged ones first, then by criterion."""
    return not end.converged, end.criterion


def best_of(ends: Iterable[StartResult]) -> StartResult | None:
    """None where none has a cost."""
    return min((end for end in ends if np.isfinite(end.criterion)), key=rank, default=None)


def same_optimum(end: StartResult, best: StartResult | None) -> bool:
    """Whether an end is the same optimum as the best one."""
    return best is not None and end.converged >= best.converged and bool(
        end.criterion - best.criterion <= SAME_OPTIMUM * max(best.cost, 1.0))


def comparable_cost(end: StartResult, best: StartResult) -> float:
    """The cost of the best, plus what the end is worse by, as twice a difference of log-likelihoods.

    This is the end's own cost where the noise is given.
    """
    return (best.cost - best.criterion) + end.criterion


def best_per_objective(estimates: Mapping[str, Estimate]) -> dict[str, StartResult | None]:
    """Per label the best end of all estimates that minimise the same sum over the same data."""
    def alike(one: Estimate, other: Estimate) -> bool:
        return one is other or (one.method.objective_key() == other.method.objective_key() and (
            one.problem is other.problem or one.problem.content_hash() == other.problem.content_hash()))

    return {label: best_of(end for other in estimates.values() if other.starts and alike(one, other) for end in other.starts)
            for label, one in estimates.items() if one.starts}
