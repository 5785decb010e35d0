"""Covariance from the Hessian: which interval does a minimum promise where the model may err too?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.problem.problem import Problem
from dynident.statistics.active_bounds import finite_bounds, relax_bounds
from dynident.statistics.covariance import (
    Covariance,
    typical_values,
)
from dynident.statistics.error_propagation import among_all
from dynident.statistics.identifiability import find_practically_unidentifiable, identifiability
from dynident.tolerances import NULL_SPACE_COMPONENT, SINGULAR_VALUE


def covariance_from_hessian_factor(problem: Problem, values: np.ndarray, triangle: np.ndarray, active: Mapping[str, str],
                                   assumed: str, score_covariance: np.ndarray | None = None, smallest: float = SINGULAR_VALUE,
                                   own_dof: np.ndarray | None = None) -> Covariance:
    """The covariance at a minimum; `triangle` (rows, unknowns) is a factor of half the Hessian in the user's units.

    Where weights are inverse variances that is all (the inverse Fisher information). Where they are not, `score_covariance`
    (unknowns, unknowns) is the covariance of the gradient, the meat of a sandwich whose bread is the inverse Hessian.
    `assumed` completes 'In repeated experiments ..., if'; `own_dof` (unknowns,) are the degrees of freedom of each variance.
    """
    names = problem.names
    free = [i for i, name in enumerate(names) if name not in active]
    scales = typical_values(problem, values)
    known = identifiability([names[i] for i in free], values[free], scales[free], triangle[:, free], smallest)
    matrix = np.zeros((len(names), len(names)))
    matrix[np.ix_(free, free)] = _inverse(triangle[:, free], smallest, _part(score_covariance, free))
    answer = _inverse(triangle[:, free], smallest, None) @ triangle[:, free].T
    null = among_all(known.null_space, free, len(names))
    released, sensitivities = {}, {}
    for name, side in active.items():
        sensitivities[name] = np.zeros(len(names))
        sensitivities[name][free] = answer @ triangle[:, names.index(name)] * (-1 if side == "lower" else 1)
        effects = np.linalg.norm(triangle * sensitivities[name], axis=0)
        sensitivities[name][effects < NULL_SPACE_COMPONENT * np.max(effects, initial=0.0)] = 0.0
        which = sorted([*free, names.index(name)])
        spread = _inverse(triangle[:, which], smallest, _part(score_covariance, which))
        at = which.index(names.index(name))
        alone = identifiability([names[i] for i in which], values[which], scales[which], triangle[:, which], smallest)
        released[name] = np.inf if name in alone.unidentifiable else float(np.sqrt(spread[at, at]))
    covariance = Covariance(
        names=names, values=values, matrix=matrix, active=dict(active), std_if_released={"plain": released},
        bound_relaxations=tuple(relax_bounds(problem, sensitivities, {"plain": released})),
        unidentifiable=known.unidentifiable, combinations=known.combinations, null_space=null, assumed=assumed, own_dof=own_dof,
        logarithmic=tuple(u.name for u in problem.unknowns if u.log), fixed=problem.fixed_values(),
        bounds=finite_bounds(problem))
    return replace(covariance, practically_unidentifiable=find_practically_unidentifiable(problem, covariance))


def _part(score_covariance: np.ndarray | None, which: list[int]) -> np.ndarray | None:
    return None if score_covariance is None else score_covariance[np.ix_(which, which)]


def _inverse(triangle: np.ndarray, smallest: float, score_covariance: np.ndarray | None) -> np.ndarray:
    """(T'T)^-1, or (T'T)^-1 score_covariance (T'T)^-1, within what the rows determine."""
    lengths = column_lengths(triangle)
    directions = truncated_svd(triangle / lengths, smallest).scaled_directions
    inverse = directions @ directions.T / lengths / lengths[:, None]
    return inverse if score_covariance is None else inverse @ score_covariance @ inverse
