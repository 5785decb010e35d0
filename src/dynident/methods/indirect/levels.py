"""Levels: standard deviations of measurements that the user did not size, where the model may err too.

What a residual lacks of a measurement error is what the smoothed output is unsure of: the mean of residual^2 + variance is the
next guess of the size (expectation maximisation; Shumway and Stoffer 1982).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynident.discretizations.finite import Point
from dynident.discretizations.smoothing import Smoothing
from dynident.methods.indirect.setup import Setup
from dynident.methods.indirect.spread import Spreads
from dynident.methods.noise import VANISHING, spread
from dynident.problem.problem import known_std

SETTLED = 1e-3  # relative change of an estimated size that no longer matters


def better_sizes(setup: Setup, finite: Smoothing, point: Point, used: Mapping[str, float]) -> dict[str, float] | None:
    """New sizes, or None where there are none to estimate or they have settled."""
    if not used:
        return None
    evaluation = finite.evaluate(point)
    variances = Spreads(finite, point).output_variances()  # in units of the std that was used
    sizes = {}
    for name, std in used.items():
        column = setup.problem.model.outputs.index(name)
        squares, count = 0.0, 0
        for e, experiment in enumerate(setup.inner.experiments):
            if name in experiment.noise and known_std(experiment, name) is None:
                seen = finite.records[e].weight[:, column] > 0
                squares += float(np.sum(evaluation.rhs[e][seen, column] ** 2 + variances[e][seen, column]))
                count += int(np.sum(seen))
        size = std * np.sqrt(squares / count) if count else std
        sizes[name] = max(float(size), VANISHING * spread(setup.problem, name))
    change = max(abs(np.log(sizes[name] / used[name])) for name in sizes)
    return sizes if change > SETTLED else None
