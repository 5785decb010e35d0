"""Levels: standard deviations of measurements that the user did not size, where the model may err too.

What a residual lacks of a measurement error is what the smoothed output is unsure of: the mean of residual^2 + variance is the
next guess of the size (expectation maximisation; Shumway and Stoffer 1982). Such steps shrink by a factor that may be close
to one: a short step is no sign that the goal is near. The factor is read off two steps in a row, says how far the way still is,
and then the whole of it is gone at once (Aitken).
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

SETTLED = 0.01  # of a size that is estimated: so much of the way left no longer matters
VAGUE = 1.0  # standard error of a size's logarithm; a size known to a factor of e only is not known
LEAST_SEEN = 1e-9  # of a size; two steps shorter than that differ by rounding
FARTHEST = 10.0  # times larger or smaller in one round, unless a plain step goes farther


class Levels:
    """Sizes that are estimated, round by round."""

    def __init__(self, setup: Setup):
        self.setup = setup
        self.last: np.ndarray | None = None  # the last plain step, in logarithms

    def better(self, finite: Smoothing, point: Point, used: Mapping[str, float]) -> dict[str, float] | None:
        """New sizes, or None where there are none to estimate or they have settled."""
        if not used:
            return None
        found = _next_sizes(self.setup, finite, point, used)
        step = np.array([np.log(found[name] / used[name]) for name in used])
        length, before, self.last = float(np.linalg.norm(step)), self.last, step
        if length == 0:  # as small as sizes get; a short step says nothing: on the way to a size of none, steps vanish too
            return None
        if before is None or np.linalg.norm(before) < LEAST_SEEN:
            return found
        factor = length / float(np.linalg.norm(before))
        if factor < 1 - self.least_told(finite) and length * factor / (1 - factor) <= SETTLED:
            return None
        reach = min(1 / (1 - factor) if factor < 1 else np.inf, max(1.0, np.log(FARTHEST) / length))
        self.last = None  # a long step is followed by two plain ones
        smallest = {name: VANISHING * spread(self.setup.problem, name) for name in used}
        return {name: max(float(used[name] * np.exp(reach * s)), smallest[name]) for name, s in zip(used, step, strict=True)}

    def least_told(self, finite: Smoothing) -> float:
        """1 - factor where the data tell the logarithm of a size to VAGUE: it is the share of 2 N, what they would tell if
        the model could not err, that they do tell (the missing information principle)."""
        return 1 / (2 * finite.residual_count * VAGUE**2)


def _next_sizes(setup: Setup, finite: Smoothing, point: Point, used: Mapping[str, float]) -> dict[str, float]:
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
    return sizes
