"""Bootstrap: what refits to resampled data say about an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import short_text
from dynident.statistics.uncertainty import LEVEL, Uncertainty, check_single_kind, index_of


@dataclass(frozen=True, eq=False)
class Bootstrap(Uncertainty):
    """Refits to resampled data, as an uncertainty.

    See the manual, explain/intervals.

    Attributes
    ----------
    names : tuple of str
        The unknowns.
    estimated : array, (unknowns,)
        The estimate.
    samples : array, (repeats, unknowns)
        The refits.
    resampling : str
        What new data were drawn from: "parametric" or "residual_block".
    failed : int
        Refits that did not converge and are left out.
    fixed : mapping of str to float
        Quantities that were not estimated.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> di.bootstrap(estimate, repeats=50).samples.shape
    (50, 2)
    """

    names: tuple[str, ...]
    estimated: np.ndarray  # (unknowns,)
    samples: np.ndarray  # (repeats, unknowns)
    resampling: str  # "parametric" or "residual_block": what new data were drawn from
    failed: int
    fixed: Mapping[str, float]

    @property
    def meaning(self) -> str:
        """What the intervals mean, and how many refits failed."""
        drawn = ("normal errors of the standard deviation found" if self.resampling == "parametric" else
                 "blocks of the residuals themselves, so that their correlation in time is kept")
        return (f"The interval holds the given share of {len(self.samples)} refits to data that were resampled from "
                f"the fitted model with {drawn}; {self.failed} refits failed and are left out.")

    def std(self, name: str, kind: str | None = None) -> float:
        """Standard deviation of the refits."""
        check_single_kind(kind)
        return 0.0 if name in self.fixed else float(np.std(self.samples[:, index_of(name, self.names)], ddof=1))

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """Percentiles of the refits, mirrored at the estimate (the basic bootstrap), so that a bias is not doubled."""
        check_single_kind(kind)
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        i = index_of(name, self.names)
        low, high = np.quantile(self.samples[:, i], [(1 - level) / 2, (1 + level) / 2])
        return float(2 * self.estimated[i] - high), float(2 * self.estimated[i] - low)

    def bias(self, name: str) -> float:
        """Mean of the refits minus the estimate."""
        i = index_of(name, self.names)
        return float(np.mean(self.samples[:, i]) - self.estimated[i])

    def remark(self, name: str) -> str:
        return "fixed" if name in self.fixed else ""

    def correlation(self, kind: str | None = None) -> np.ndarray:
        check_single_kind(kind)
        return np.atleast_2d(np.corrcoef(self.samples.T))

    def covariance(self) -> np.ndarray:
        return np.atleast_2d(np.cov(self.samples.T))

    def __repr__(self) -> str:
        return short_text(self)

    def __str__(self) -> str:
        rows = [[name, f"{value:.6g}", f"{self.std(name):.3g}", f"{self.bias(name):.2g}",
                 "[{:.6g}, {:.6g}]".format(*self.interval(name))]
                for name, value in zip(self.names, self.estimated, strict=True)]
        table = hooks.call("text_table", ["name", "value", "std", "bias", "95% interval"], rows)
        return f"{table}\n\n{self.meaning}"
