"""Result of a black box: the estimate of its last round, with the simulations, the time and the notes of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dynident.black_box.run import BlackBoxRun
from dynident.estimate.estimate import Estimate

if TYPE_CHECKING:
    from dynident.black_box.method import LeastSquares


def black_box_estimate(method: LeastSquares, done: BlackBoxRun) -> Estimate:
    estimate, cache = done.estimate, done.transcription.cache
    return replace(estimate, method=method, counts={**estimate.counts, "simulations": cache.simulations},
                   times={**estimate.times, "fit": estimate.times["fit"] + done.seconds_of_search},
                   notes=(*estimate.notes, *done.notes, *cache.notes))
