"""FiniteProblem: what remains of a problem once time is gone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Rows:
    """Which measured value each residual belongs to (arrays of equal length, one entry per residual).

    Priors are residuals too; they stand at the end with experiment = -1, output = -1 and sample = unknown's index.
    """

    experiment: np.ndarray  # index into problem.experiments
    output: np.ndarray  # index into problem.model.outputs
    sample: np.ndarray  # index into experiment.time

    @property
    def count(self) -> int:
        return int(self.experiment.size)


@dataclass(frozen=True, eq=False)
class Linearization:
    """Residuals and their total derivative with respect to the unknowns of the problem, inner nodes eliminated.

    The values are those of the problem itself (not logarithms, not scaled), so that the covariance that follows is in
    the user's units. residual = (model - measured) / std, with the std that was used (given or estimated).
    """

    values: np.ndarray  # (unknowns,) in problem.names order
    residuals: np.ndarray  # (rows,)
    jacobian: np.ndarray  # (rows, unknowns)
    rows: Rows
