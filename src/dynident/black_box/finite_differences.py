"""Finite differences: derivatives of simulations around a point, each above the noise of the simulation itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.black_box.difference_steps import LARGEST_STEP, ORDER, SPACING, estimate_noise, is_noise, optimal_steps
from dynident.errors import SimulationDiverged

Outputs = tuple[np.ndarray, ...]  # per experiment (nodes, outputs)

SEED = 1  # the direction in which the noise is looked for is the same in every run
CLOSER_LINES = (1.0, 1e-2, 1e-4)  # of the usual spacing, where that meets what is not finite or is no noise
LASTING_NOISE = 20.0  # what falls by less, where one looks a hundred times closer, is noise all the same
MOST_ALONE = 4  # unknowns that are moved alone where all together fail
SHORTER_STEPS = (1e-2, 1e-4)  # of a step that meets nothing finite on either side
SEEN_ABOVE_NOISE = 4.0  # times the noise: a smaller change of the outputs is none that was seen
LONGER_STEP = 1e-3  # of the size, and of the way that may be gone: steps in between, for a change that was not seen
STEP_RATIO = 4.0  # how many times shorter the second of two differences is that shows what the first is wrong by


@dataclass(frozen=True, eq=False)
class DifferencePoint:
    """A point, what was simulated there, and how far each unknown may be moved from it."""

    values: np.ndarray
    base: Outputs
    size: np.ndarray  # of each unknown
    longest_step: np.ndarray  # of each unknown
    lower: np.ndarray
    upper: np.ndarray
    simulate: Callable[[Sequence[np.ndarray]], list[Outputs | SimulationDiverged]]
    weighted: Callable[[Outputs], np.ndarray]

    def length(self, outputs: Outputs) -> float:
        return float(np.linalg.norm(self.weighted(outputs)))

    def distance(self, one: Outputs, other: Outputs) -> float:
        return float(np.linalg.norm(self.weighted(one) - self.weighted(other)))


@dataclass(frozen=True, eq=False)
class FiniteDifference:
    """A derivative by one unknown, and lengths of what is wrong with it."""

    derivative: Outputs
    length: float
    noise: float  # error by the noise of the simulation
    truncation: float  # truncation error: by the curvature over the step, as far as it can be guessed

    @property
    def seen(self) -> bool:
        return self.length > SEEN_ABOVE_NOISE * self.noise


class NoFiniteNeighbour(Exception):
    """Nothing is finite close to a point at which the simulation is; `beside` is where it failed, and how."""

    def __init__(self, beside: np.ndarray, bad: SimulationDiverged):
        super().__init__(str(bad))
        self.beside = beside


def measure_noise(point: DifferencePoint) -> float:
    """Relative, along a line on which all unknowns move; raises NoFiniteNeighbour where that meets none that is finite."""
    count = point.values.size
    failed: list[tuple[np.ndarray, SimulationDiverged]] = []
    draw = np.random.default_rng(SEED)
    together = draw.choice([-1.0, 1.0], count) * draw.uniform(0.5, 1.0, count) / np.sqrt(max(1, count))
    for direction in (together, *(np.eye(count)[:MOST_ALONE] if count > 1 else ())):
        before: float | None = None
        for closer in CLOSER_LINES:
            line = _simulate_line(point, closer * SPACING * point.size * direction, failed)
            if line is None:
                continue
            level = estimate_noise(line)
            if before is not None and level > before / LASTING_NOISE:
                return before
            before = level
            if is_noise(line):
                break
        if before is not None:
            return before
    raise NoFiniteNeighbour(*failed[0])


def _simulate_line(point: DifferencePoint, step: np.ndarray, failed: list[tuple[np.ndarray, SimulationDiverged]]
                   ) -> list[np.ndarray] | None:
    """Outputs at equal distances, or the other way; None, and where it failed, if both ways meet what is not finite."""
    for sign in (1.0, -1.0):
        rows = [point.values + k * _inside_bounds(point, sign * step) for k in range(ORDER + 1)]
        found = point.simulate(rows[-1:])  # the farthest first: if it fails, it has cost but one
        found = found if isinstance(found[0], SimulationDiverged) else point.simulate(rows)
        bad = [(at, f) for at, f in zip(rows[-len(found):], found, strict=True) if isinstance(f, SimulationDiverged)]
        if not bad:
            return [point.weighted(f) for f in found if not isinstance(f, SimulationDiverged)]
        failed.append(bad[-1])
    return None


def _inside_bounds(point: DifferencePoint, step: np.ndarray) -> np.ndarray:
    """Turned round or shortened where a bound is in the way."""
    up, down = (point.upper - point.values) / ORDER, (point.values - point.lower) / ORDER
    ahead, back = np.where(step > 0, up, down), np.where(step > 0, down, up)
    turned = (np.abs(step) > ahead) & (back > ahead)
    return np.where(turned, -np.sign(step) * np.minimum(np.abs(step), back), np.sign(step) * np.minimum(np.abs(step), ahead))


def difference_columns(point: DifferencePoint, noise: float, steps: np.ndarray, both: np.ndarray, which: Sequence[int]
                       ) -> dict[int, FiniteDifference]:
    """Of these unknowns; what is not seen is tried again at once with longer steps."""
    tried = {i: float(steps[i]) for i in which}
    found = _differences(point, noise, tried, both)
    for shorter in SHORTER_STEPS:  # the point itself is finite, but nothing on either side
        lost = {i: shorter * tried[i] for i in which if isinstance(found[i], SimulationDiverged)}
        found |= _differences(point, noise, lost, both)
    good = {i: c for i, c in found.items() if not isinstance(c, SimulationDiverged)}
    for c in found.values():
        if isinstance(c, SimulationDiverged):
            raise c
    while longer := {i: step for i in which if not good[i].seen and (step := _next_longer_step(point, i, tried[i]))}:
        tried |= longer
        for i, c in _differences(point, noise, longer, np.ones(len(point.values), bool)).items():
            if not isinstance(c, SimulationDiverged) and (c.seen or c.noise < good[i].noise):
                good[i] = c
    return good


def _next_longer_step(point: DifferencePoint, i: int, step: float) -> float:
    """The next longer step to look with; 0 where there is none."""
    size, longest = float(point.size[i]), float(point.longest_step[i])
    ladder = (LONGER_STEP * size, LARGEST_STEP * size, LONGER_STEP * longest, longest)
    return min((s for s in ladder if step * 1.01 < s <= longest), default=0.0)


def _differences(point: DifferencePoint, noise: float, steps: dict[int, float], both: np.ndarray
                 ) -> dict[int, FiniteDifference | SimulationDiverged]:
    """By these steps: central differences where asked for and possible; one side alone where the other is not finite."""
    unit, values = np.eye(point.values.size), point.values
    up = {i: values[i] + s <= point.upper[i] for i, s in steps.items()}
    down = {i: values[i] - s >= point.lower[i] for i, s in steps.items()}
    sign = {i: 1.0 if up[i] or not down[i] else -1.0 for i in steps}
    two_sided = [i for i in steps if both[i] and up[i] and down[i]]
    ahead = {i: values + sign[i] * s * unit[i] for i, s in steps.items()}
    back = {i: values - steps[i] * unit[i] for i in two_sided}
    run = point.simulate([*ahead.values(), *back.values()])
    first, second = dict(zip(steps, run, strict=False)), dict(zip(two_sided, run[len(steps):], strict=True))
    lost = [i for i in steps if isinstance(first[i], SimulationDiverged) and i not in second]
    others = point.simulate([values - sign[i] * steps[i] * unit[i] for i in lost])
    made: dict[int, FiniteDifference | SimulationDiverged] = {}
    for i in steps:
        one, other = (values[i], point.base), (values[i], point.base)
        if not isinstance(there := first[i], SimulationDiverged):
            one = ahead[i][i], there
        if i in second and not isinstance(behind := second[i], SimulationDiverged):
            other = back[i][i], behind
        if i in lost and not isinstance(turned := others[lost.index(i)], SimulationDiverged):
            one = values[i] - sign[i] * steps[i], turned
        bad = first[i]
        made[i] = _quotient(point, noise, i, one, other) if one[0] != other[0] else (
            bad if isinstance(bad, SimulationDiverged) else SimulationDiverged(np.nan, 0, what="a step is lost in rounding"))
    return made


def _quotient(point: DifferencePoint, noise: float, i: int, one: tuple[float, Outputs], other: tuple[float, Outputs]
              ) -> FiniteDifference:
    distance, middle = float(one[0] - other[0]), point.values[i]
    with np.errstate(invalid="ignore"):  # outputs that nobody measures need not be finite
        derivative = tuple((a - b) / distance for a, b in zip(one[1], other[1], strict=True))
    length, relative = point.length(derivative), abs(distance) / point.size[i]
    central = one[0] != middle and other[0] != middle
    return FiniteDifference(derivative, length, np.sqrt(2) * noise * point.length(point.base) / abs(distance),
                            length * ((relative / 2) ** 2 if central else relative))


def refine_difference(point: DifferencePoint, noise: float, i: int, column: FiniteDifference) -> FiniteDifference | None:
    """A column whose truncation error is measured: the difference by a fourth of a step against that by the whole one."""
    whole = max(point.length(point.base), np.finfo(float).tiny)
    (relative,), _ = optimal_steps(noise, np.array([column.length * point.size[i] / whole]), two_sided=True)
    room = min(point.upper[i] - point.values[i], point.values[i] - point.lower[i])
    step = float(relative * point.size[i])
    step = min(step, room) if room > step / STEP_RATIO else step
    both = np.ones(point.values.size, bool)
    long, short = (_differences(point, noise, {i: s}, both)[i] for s in (step, step / STEP_RATIO))
    if isinstance(long, SimulationDiverged) or isinstance(short, SimulationDiverged):
        return None
    return FiniteDifference(short.derivative, short.length, short.noise, point.distance(long.derivative, short.derivative) / 2)
