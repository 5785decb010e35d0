"""Waterfall: the costs at which several starts ended, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate, StartResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-3  # relative: costs this close form one step of the waterfall


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Ends that have a cost, in order; starts that could not be fitted at all are only counted."""

    rank: np.ndarray
    cost: np.ndarray
    converged: np.ndarray  # bool
    sentence: str
    lost: int = 0  # starts that could not be fitted at all


def waterfall(starts: Sequence[StartResult]) -> Waterfall:
    ended = sorted((s for s in starts if np.isfinite(s.cost)), key=lambda s: s.cost)
    cost = np.array([s.cost for s in ended], float)
    reached = int(np.sum(cost <= cost[0] * (1 + SAME))) if cost.size else 0
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
