"""Information: how well does the model fit for the number of unknowns it spends?

Convention: the full Gaussian log-likelihood, constants included, so that values compare between tools and between
models of the same data. A std that is estimated enters at its maximum-likelihood value sqrt(RSS / n) and counts as one
more unknown. AIC = 2k - 2L, AICc = AIC + 2k(k + 1)/(n - k - 1), BIC = k log n - 2L.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynident.problem.problem import Problem, given_std


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
    return information_criteria({key: np.concatenate(parts) for key, parts in columns.items()},
                       {key: None if parts is None else np.concatenate(parts) for key, parts in levels.items()},
                       len(problem.unknowns) - fixed)
