"""Waterfall: the costs at which several starts ended, best first.

Costs are drawn so that they compare: where the noise is given, as they are; where each end has noise sizes of its own, and
for filters, as the cost of the best plus twice what the log-likelihood is lower by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate, StartResult
from dynident.methods.ranking import best_of, comparable_cost, same_optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Ends that have a cost, in order; starts that could not be fitted at all are only counted."""

    rank: np.ndarray
    cost: np.ndarray
    converged: np.ndarray  # bool
    sentence: str
    lost: int = 0  # starts that could not be fitted at all


def waterfall(starts: Sequence[StartResult], best: StartResult | None = None) -> Waterfall:
    """Counted from the best of these starts, or from a better one that another method found."""
    own = best_of(starts)
    ended = sorted((s for s in starts if np.isfinite(s.criterion)), key=lambda s: s.criterion)
    reference = best or own
    cost = np.array([comparable_cost(s, reference) for s in ended] if reference else [], float)
    reached = sum(same_optimum(s, own) for s in ended)
    lost = len(starts) - len(ended)
    said = f"{reached} of {len(starts)} starts ended at the lowest cost"
    said += f"; {lost} could not be fitted at all." if lost else "."
    return Waterfall(np.arange(1, len(ended) + 1), cost, np.array([s.converged for s in ended], bool), said, lost)


def waterfall_figure(estimate: Estimate) -> Figure:
    """The costs of all starts as a matplotlib figure."""
    import matplotlib.pyplot as plt

    if not estimate.starts:
        raise DynidentError("this estimate comes from one start; use multistart(...) to draw several.")
    steps = waterfall(estimate.starts)
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.plot(steps.rank, steps.cost, color="0.8", lw=1, zorder=0)
    for name, marker, shown in (("converged", "o", steps.converged), ("not converged", "x", ~steps.converged)):
        axes.plot(steps.rank[shown], steps.cost[shown], marker, ms=5, label=name)
    axes.set(xlabel="start, best first", ylabel="cost", yscale="log" if np.all(steps.cost > 0) else "linear",
             title=steps.sentence)
    axes.legend(frameon=False)
    return figure
