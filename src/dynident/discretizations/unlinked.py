"""Unlinked: the segments of a shooting problem each for itself, from the measurements; an easier problem to begin with.

Nothing has to meet, and the nodes stay where the record put them. Errors of the start cannot grow along the record, so
the parameters fall into place from far away; what noise in the nodes costs, the linked problem corrects afterwards.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.discretizations.finite import Evaluation, Linear, Point
from dynident.discretizations.shooting import Shooting


class Unlinked:
    """A shooting problem without its matching conditions."""

    equality_count = 0

    def __init__(self, shooting: Shooting):
        self.shooting = shooting
        self.names, self.coordinates = shooting.names, shooting.coordinates
        self.residual_count, self.floor, self.node_norm = shooting.residual_count, shooting.floor, shooting.node_norm
        self.cheap_slopes = shooting.cheap_slopes

    @property
    def noise(self) -> float:
        return self.shooting.noise

    def start(self) -> Point:
        return self.shooting.start()

    def evaluate(self, point: Point) -> Evaluation:
        return _without_defects(self.shooting.evaluate(point))

    def linearize(self, point: Point) -> Linear:
        linear = self.shooting.linearize(point)
        chains = tuple(replace(c, link=np.zeros_like(c.link), defect=np.zeros_like(c.defect)) for c in linear.chains)
        return replace(linear, evaluation=_without_defects(linear.evaluation), chains=chains)


def _without_defects(evaluation: Evaluation) -> Evaluation:
    """The mismatch stays, for whoever watches."""
    return replace(evaluation, defects=tuple(np.zeros_like(d) for d in evaluation.defects))
