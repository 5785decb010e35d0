"""How does a likelihood profile look: one curve per unknown, and who follows it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynident.report.plots import FITTED, MEASURED, SECOND, STYLE
from dynident.statistics.profile_likelihood import LEVEL, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def profile_figure(profile: Profile) -> Figure:
    """Above: rise of the sum of squares with the threshold and the linearised parabola; below: the path of partners."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        columns = len(profile.curves)
        figure, grid = plt.subplots(2, columns, figsize=(0.6 + 3.0 * columns, 4.6), sharex="col", squeeze=False)
        for (name, curve), (above, below) in zip(profile.curves.items(), grid.T, strict=True):
            i = profile.names.index(name)
            limit = profile.reach(name, LEVEL) ** 2
            above.plot(curve.values, curve.rise, "o-", color=FITTED, ms=3, lw=1.4)
            if np.isfinite(limit):
                above.axhline(limit, color=SECOND, lw=1, ls="--")
            std = profile.base.std(name)
            if np.isfinite(std) and std > 0:
                fine = np.linspace(curve.values[0], curve.values[-1], 200)
                parabola = ((fine - profile.estimated[i]) / std) ** 2
                inside = parabola <= 1.5 * max(float(np.max(curve.rise)), limit if np.isfinite(limit) else 0.0)
                above.plot(fine[inside], parabola[inside], color=MEASURED, lw=1, zorder=1)
            above.set_title(name.replace("$", r"\$"))
            for partner in profile.partners(name)[:3]:
                j = profile.names.index(partner)
                change = (curve.path[:, j] - profile.estimated[j]) / (abs(profile.estimated[j]) or 1.0)
                below.plot(curve.values, change, ".-", ms=3, lw=1, label=partner)
            if below.lines:
                below.legend(fontsize=7)
            below.set_xlabel(name.replace("$", r"\$"))
        grid[0, 0].set_ylabel("rise of the sum of squares")
        grid[1, 0].set_ylabel("others, relative change")
    return figure
