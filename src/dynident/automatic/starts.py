"""Starts: where rounds of restarts begin, spread over decades around the user's own start; the same for the same seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.transcription.initial_guess import states_from_measurements

STARTS_PER_ROUND = 8
START_DECADES = (1.0, 2.0, 3.0)  # to either side of the start, round by round
WHOLE = 300.0  # decades: as far as the bounds reach, where a likelihood has several maxima
FIRST_STATE_DECADES = 1.0  # to either side of 1, of first states that nothing shows
SIGNED_ROUNDS = 4  # each so many-th round leaves the signs open, where bounds do


@dataclass(frozen=True)
class Start:
    """Values to begin with, where they are not those of the problem: parameters, and first states that nothing shows."""

    parameters: Mapping[str, float] = field(default_factory=dict)
    first_states: Mapping[str, float] = field(default_factory=dict)
    signed: bool = False  # without logarithms, since signs are open


def round_starts(problem: Problem, seed: int, number: int, count: int = STARTS_PER_ROUND,
                 distances: Sequence[float] = START_DECADES) -> list[Start]:
    """Sobol points of one round; every second one also draws the first states that nothing shows."""
    from scipy.stats import qmc  # here, because it takes half a second to load

    moved = [p for p in problem.parameters if isinstance(p, Parameter) and p.free and p.start is not None]
    decades, signed = distances[number % len(distances)], number % SIGNED_ROUNDS == SIGNED_ROUNDS - 1
    rng = np.random.default_rng([seed, number])
    blind = blind_states(problem)
    points = qmc.Sobol(max(1, len(moved)), scramble=True, rng=rng).random(count)
    found = []
    for k, row in enumerate(points):
        place = {p.name: _drawn(p, float(u), WHOLE if problem.has_noise_formulas and _bounded(p) else decades, signed)
                 for p, u in zip(moved, row, strict=False)}
        first = {s: float(10 ** rng.uniform(-FIRST_STATE_DECADES, FIRST_STATE_DECADES)) for s in blind} if k % 2 else {}
        found.append(Start(place, first, signed and any(v <= 0 for v in place.values())))
    return found


def blind_states(problem: Problem) -> list[str]:
    """First states that are unknown, that nothing shows, and that begin at 0, which may be a place where nothing moves."""
    declared = {it.state: it for it in problem.parameters if isinstance(it, InitialState)}
    free = {u.quantity for u in problem.unknowns if u.initial}
    e = problem.experiments[0]
    seen = states_from_measurements(problem.model, e, np.array([e.start]))[0]
    return [s for s, value in zip(problem.model.states, seen, strict=True)
            if np.isnan(value) and s in free and not (s in declared and declared[s].start)]


def _drawn(p: Parameter, u: float, decades: float, signed: bool) -> float:
    """A value some decades around the start, u in (0, 1), within the bounds; of either sign where the start has none."""
    start = float(p.start or 0.0)
    size = abs(start) or p.scale or _extent(p) or 1.0
    if p.lower < 0 < p.upper and not p.log and (start == 0 or signed):
        sign, u = (1.0, 2 * u - 1) if u > 0.5 else (-1.0, 1 - 2 * u)
    else:
        sign = float(np.sign(start)) or (1.0 if p.upper > 0 else -1.0)
    near, far = (p.lower, p.upper) if sign > 0 else (-p.upper, -p.lower)  # bounds of the size
    low = max(size * 10**-decades, near)
    high = max(min(size * 10**decades, far), low)
    return float(np.clip(sign * low * (high / low) ** u, p.lower, p.upper))


def _bounded(p: Parameter) -> bool:
    return p.lower > 0 and bool(np.isfinite(p.upper))


def _extent(p: Parameter) -> float:
    span = p.upper - p.lower
    return float(span / 10) if np.isfinite(span) else 0.0
