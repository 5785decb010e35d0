"""Post-fit checks (prior-data conflict, heteroscedasticity): where do the data contradict what was said or assumed about
priors and noise?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynident.problem.problem import Problem, given_std
from dynident.statistics.covariance import Covariance
from dynident.statistics.distributions import f_quantile, normal_quantile
from dynident.statistics.residual_tests import CONFIDENCE, FEWEST_SAMPLES

PRIOR_DECIDES = 1e-3  # what the data leave of a prior's variance; less, and they have no say that it could contradict
SPREADS_DIFFER = 1.5  # times; records nearer than that weigh about right together, and slow noise alone may do as much
LISTED = 4  # records named in a note; of more, the quietest and the loudest


def prior_conflicts(problem: Problem, values: Mapping[str, float], uncertainty: Covariance) -> list[str]:
    """Priors that the data contradict: standardised residuals beyond their 99 % band, all priors together."""
    told = [u for u in problem.unknowns if u.prior is not None]
    notes = []
    for u in told:
        assert u.prior is not None  # chosen so
        i = uncertainty.names.index(u.name)
        away = abs(values[u.name] - u.prior.mean) / u.prior.std
        left = 1 - float(uncertainty.matrix[i, i]) / u.prior.std**2  # variance of that, for a prior that is right
        if not left > PRIOR_DECIDES or away / np.sqrt(left) <= normal_quantile(1 - (1 - CONFIDENCE) / (2 * len(told))):
            continue
        notes.append(f"The data contradict the prior of {u.name}: {values[u.name]:.4g} is {away:.2g} of the prior's standard "
                     f"deviations away from its mean {u.prior.mean:.4g}. The prior or the model is wrong, and the interval "
                     "believes both.")
    return notes


def unequal_noise(problem: Problem, residuals: Sequence[Mapping[str, np.ndarray]], sizes: Mapping[str, float],
                 unknowns: int) -> list[str]:
    """Outputs whose noise is estimated as one size, though it clearly differs between records (F test of the extremes)."""
    left = max(1 - unknowns / max(problem.measured_values, 1), 1e-3)  # of a degree of freedom, per measured value
    notes = []
    for output in sizes:
        spreads: dict[str, tuple[float, float]] = {}  # record -> std, degrees of freedom
        for experiment, own in zip(problem.experiments, residuals, strict=True):
            there = own[output][np.isfinite(own[output])] if output in own else np.zeros(0)
            if there.size >= FEWEST_SAMPLES and given_std(experiment, output) is None:
                spreads[experiment.label] = float(np.sqrt(np.mean(there**2) / left)), left * there.size
        if len(spreads) < 2:
            continue
        by_size = sorted(spreads, key=lambda name: spreads[name][0])
        (low, low_dof), (high, high_dof) = spreads[by_size[0]], spreads[by_size[-1]]
        pairs = len(spreads) * (len(spreads) - 1) / 2
        limit = np.sqrt(f_quantile(1 - (1 - CONFIDENCE) / (2 * pairs), high_dof, low_dof))
        if high <= max(limit, SPREADS_DIFFER) * low:
            continue
        named = by_size if len(by_size) <= LISTED else [by_size[0], by_size[-1]]
        listed = ", ".join(f"{spreads[name][0]:.3g} in {name}" for name in named)
        notes.append(f"The noise of {output} is estimated as one size for all records, {sizes[output]:.3g}, but their "
                     f"residuals spread differently: {listed}. The quiet records weigh too little and the intervals are not "
                     "right; give each record its own std, Gaussian(std).")
    return notes
