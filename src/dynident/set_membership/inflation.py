"""Inflation: by how much must all bounds on the errors grow for something to fit?

Tight bounds are refuted by a model that is a little wrong. Between the largest factor that is proved to leave nothing and the
smallest one that is found to leave something lies the inflation that a record asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynident.set_membership.result import SetMembershipResult
from dynident.set_membership.setup import SetMembershipSetup
from dynident.tolerances import INFLATION_RATIO

MAX_INFLATION = 1024.0  # bounds that would have to grow by more say nothing about the errors
Solve = Callable[[SetMembershipSetup], SetMembershipResult]


def largest_refuted_factor(refuted: Callable[[float], bool], close: float = INFLATION_RATIO, grow: float = 2.0) -> float:
    """The largest factor, to a ratio of `close`, at which what is refuted at 1 still is; infinite beyond 1024."""
    least, fits = 1.0, grow
    while refuted(fits):
        least, fits = fits, grow * fits
        if fits > MAX_INFLATION:
            return float("inf")
    while fits > close * least:
        tried = float(np.sqrt(least * fits))
        if refuted(tried):
            least = tried
        else:
            fits = tried
    return least


def inflate_bounds(solve: Solve, setup: SetMembershipSetup, refuted: SetMembershipResult, feasible: float | None, close: float
                   ) -> tuple[SetMembershipSetup, SetMembershipResult]:
    """The setup and what it leaves with all radii grown just so far that something is left; `refuted` is what they left before.

    `feasible` is a factor with which a point is proved to fit, if one is known; else factors are tried in a ratio of `close`,
    from the largest one that is proved to leave nothing. A result that is still refuted beyond 1024 times is returned as it is.
    """
    given = refuted.refutation
    assert given is not None  # nothing else is inflated
    least = given.inflation or 1.0
    factor = feasible if feasible is not None else least * close
    while factor <= MAX_INFLATION:
        wider = setup.with_inflated_bounds(factor)
        found = solve(wider)
        if found.refutation is None:
            return wider, replace(found, inflation=factor, refuted_as_given=replace(given, inflation=least))
        least = factor * (found.refutation.inflation or 1.0)
        factor = least * close
    return setup, refuted
