"""Curve starts: of many places, the best to begin from, for models without states, whose simulations cost next to nothing.

What a curve is linear in, amplitudes and offsets, need not be guessed: at given rates, periods and places it follows from
linear least squares (separable least squares, variable projection; Golub and Pereyra 1973). So a few hundred places in the
others alone are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident.automatic.simulation_route import start_of
from dynident.automatic.starts import Start, round_starts
from dynident.methods.open_loop import linear_in, misfit, open_loop_residuals
from dynident.problem.problem import Problem, given_std
from dynident.transcription.initial_guess import start_values

CURVE_CANDIDATES = 256  # that are looked at in a round
GOING_ON = 8  # of them, from which a fit begins
CURVE_START_DECADES = (1.0, 0.5, 2.0)  # to either side of the start, round by round


def curve_starts(problem: Problem, loss: str, seed: int, number: int, kept: float = 0.0) -> list[Start]:
    """The best of many places of one round, with all that the curve is linear in solved for; the same for the same seed.

    `kept`: share of the unknowns, others at each place, that stay where the problem starts.
    """
    linear, rng = linear_unknowns(problem), np.random.default_rng([seed, number])
    seen: list[tuple[float, int, Start]] = []
    for drawn in round_starts(problem, seed, number, CURVE_CANDIDATES, CURVE_START_DECADES):
        start = replace(drawn, parameters={p: v for p, v in drawn.parameters.items() if rng.random() >= kept})
        values = projected(problem, _values(problem, start), linear)
        residuals = None if values is None else open_loop_residuals(problem, values)
        if values is not None and residuals is not None:
            place = replace(start_of(problem, values), signed=True)  # an amplitude may change its sign
            seen.append((misfit(problem, residuals, values, loss).value, len(seen), place))
    return [place for _, _, place in sorted(seen)[:GOING_ON]]


def _values(problem: Problem, start: Start) -> dict[str, float]:
    given = dict(zip(problem.names, (float(v) for v in start_values(problem)), strict=True))
    return {u.name: start.parameters.get(u.quantity, given[u.name]) for u in problem.unknowns}


def linear_unknowns(problem: Problem) -> tuple[str, ...]:
    """Unknowns in which the curve is linear, all together: each joins those before it where none bends another's line."""
    found: tuple[str, ...] = ()
    for unknown in problem.unknowns:
        if linear_in(problem, (*found, unknown.name)):
            found = (*found, unknown.name)
    return found


def projected(problem: Problem, values: Mapping[str, float], linear: Sequence[str]) -> dict[str, float] | None:
    """Values with the linear unknowns by least squares, within their bounds; None where the curve is not finite."""
    if not linear:
        return dict(values)
    rest = {**values, **dict.fromkeys(linear, 0.0)}
    at_zero = _weighted(problem, rest)
    columns = [_weighted(problem, {**rest, name: 1.0}) for name in linear]
    if at_zero is None or any(column is None for column in columns):
        return None
    matrix = np.column_stack([at_zero - column for column in columns if column is not None])  # residuals: measured minus curve
    scale = np.linalg.norm(matrix, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    try:
        solved = np.linalg.lstsq(matrix / scale, at_zero, rcond=None)[0] / scale
    except np.linalg.LinAlgError:
        return None
    bounds = {u.name: (u.lower, u.upper) for u in problem.unknowns}
    return {**values, **{name: float(np.clip(v, *bounds[name])) for name, v in zip(linear, solved, strict=True)}}


def _weighted(problem: Problem, values: Mapping[str, float]) -> np.ndarray | None:
    """All residuals in a row, in standard deviations where these are given; None where the curve is not finite."""
    residuals = open_loop_residuals(problem, values)
    if residuals is None:
        return None
    parts = []
    for experiment, own in zip(problem.experiments, residuals, strict=True):
        for name, r in own.items():
            std = given_std(experiment, name)
            parts.append((r if std is None else r / std)[np.isfinite(r)])
    return np.concatenate(parts)
