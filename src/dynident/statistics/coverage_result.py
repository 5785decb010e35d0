"""Coverage: how often do the printed intervals hold the truth, where the truth is known?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import short_text
from dynident.statistics.distributions import normal_quantile
from dynident.statistics.uncertainty import LEVEL, index_of


@dataclass(frozen=True, eq=False)
class Coverage:
    """Refits to records that were simulated with known values and noises: intervals that held them, and errors.

    See the manual, explain/coverage.

    Attributes
    ----------
    names : tuple of str
        The unknowns.
    truth : array, (unknowns,)
        The values that the records were simulated with.
    inside : array of bool, (refits, unknowns)
        Whether the interval of a refit held the truth.
    errors : array, (refits, unknowns)
        Value minus truth, in standard errors as the refit states them; NaN where it states none.
    failed : int
        Refits that did not converge and are left out.
    level : float
        Probability of the intervals.
    drawn : str
        Which noises the records were drawn with, as a sentence.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> found = di.coverage(di.identify(problem, "multiple_shooting"), repeats=40)
    >>> found.share("k") > 0.8
    True
    """

    names: tuple[str, ...]
    truth: np.ndarray  # (unknowns,)
    inside: np.ndarray  # (refits, unknowns) bool
    errors: np.ndarray  # (refits, unknowns) in standard errors
    failed: int
    level: float = LEVEL
    drawn: str = ""

    def share(self, name: str) -> float:
        """Of the refits, whose interval held the truth."""
        return float(np.mean(self.inside[:, index_of(name, self.names)]))

    def share_interval(self, name: str) -> tuple[float, float]:
        """95 % interval of that share, which so many refits leave open (Wilson)."""
        n, share, z = len(self.inside), self.share(name), normal_quantile(0.975)
        middle, reach = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        return float((middle - reach) / (1 + z**2 / n)), float((middle + reach) / (1 + z**2 / n))

    def bias(self, name: str) -> float:
        """Mean error in standard errors."""
        return float(np.nanmean(self.errors[:, index_of(name, self.names)]))

    def believed(self, name: str) -> bool:
        """Whether the stated probability lies within what the refits leave open."""
        low, high = self.share_interval(name)
        return low <= self.level <= high

    def __repr__(self) -> str:
        return short_text(self)

    def __str__(self) -> str:
        rows = []
        for name, value in zip(self.names, self.truth, strict=True):
            low, high = self.share_interval(name)
            verdict = "" if self.believed(name) else "too narrow" if high < self.level else "too wide"
            rows.append([name, f"{value:.6g}", f"{100 * self.share(name):.1f} %", f"{100 * low:.0f} to {100 * high:.0f} %",
                         f"{self.bias(name):+.2f}", verdict])
        table = hooks.call("text_table", ["name", "truth", "held", "as far as this tells", "bias", "intervals"], rows)
        failed = f" {self.failed} refits did not converge and are left out." if self.failed else ""
        return (f"Of {len(self.inside)} refits, how often the {100 * self.level:g} % interval held the truth; bias in standard "
                f"errors:\n{table}\n\n{self.drawn}{failed}")
