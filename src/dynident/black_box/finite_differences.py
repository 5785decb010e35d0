"""Columns: differences of simulations around a point, each above the simulation's own noise where any step is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.black_box.difference_steps import LARGEST_STEP, ORDER, SPACING, relative_noise, relative_steps, shows_noise
from dynident.errors import SimulationDiverged

Outputs = tuple[np.ndarray, ...]  # per experiment (nodes, outputs)

SEED = 1  # the direction in which the noise is looked for is the same in every run
NARROWER = (1.0, 1e-2, 1e-4)  # of the usual spacing, where that meets what is not finite or is no noise
LASTING = 20.0  # what falls by less, where one looks a hundred times closer, is noise all the same
MOST_ALONE = 4  # unknowns that are moved alone where all together fail
SHORTER = (1e-2, 1e-4)  # of a step that meets nothing finite on either side
SEEN = 4.0  # times the noise: a smaller change of the outputs is none that was seen
LOOKS = 1e-3  # of the size, and of the way that may be gone: steps in between, for a change that was not seen
CLOSER = 4.0  # how many times shorter the second of two differences is that shows what the first is wrong by


@dataclass(frozen=True, eq=False)
class Around:
    """A point, what was simulated there, and how far each unknown may be moved from it."""

    values: np.ndarray
    base: Outputs
    size: np.ndarray  # of each unknown
    reach: np.ndarray  # the longest step of each
    lower: np.ndarray
    upper: np.ndarray
    simulate: Callable[[Sequence[np.ndarray]], list[Outputs | SimulationDiverged]]
    weighted: Callable[[Outputs], np.ndarray]

    def length(self, outputs: Outputs) -> float:
        return float(np.linalg.norm(self.weighted(outputs)))

    def apart(self, one: Outputs, other: Outputs) -> float:
        return float(np.linalg.norm(self.weighted(one) - self.weighted(other)))


@dataclass(frozen=True, eq=False)
class Column:
    """A derivative by one unknown, and lengths of what is wrong with it."""

    slope: Outputs
    length: float
    noise: float  # by the noise of the simulation
    bend: float  # by the curvature over the step, as far as it can be guessed

    @property
    def seen(self) -> bool:
        return self.length > SEEN * self.noise


class NoNoise(SimulationDiverged):
    """Nothing is finite close to a point at which the simulation is."""

    def __init__(self, beside: np.ndarray, bad: SimulationDiverged):
        super().__init__(bad.time, bad.node)
        self.beside, self.args = beside, bad.args


def measured_noise(around: Around) -> float:
    """Relative, along a line on which all unknowns move; raises NoNoise where that meets no finite simulations at all."""
    count = around.values.size
    failed: list[tuple[np.ndarray, SimulationDiverged]] = []
    draw = np.random.default_rng(SEED)
    together = draw.choice([-1.0, 1.0], count) * draw.uniform(0.5, 1.0, count) / np.sqrt(max(1, count))
    for direction in (together, *(np.eye(count)[:MOST_ALONE] if count > 1 else ())):
        before: float | None = None
        for closer in NARROWER:
            row = _row(around, closer * SPACING * around.size * direction, failed)
            if row is None:
                continue
            level = relative_noise(row)
            if before is not None and level > before / LASTING:
                return before
            before = level
            if shows_noise(row):
                break
        if before is not None:
            return before
    raise NoNoise(*failed[0])


def _row(around: Around, step: np.ndarray, failed: list[tuple[np.ndarray, SimulationDiverged]]) -> list[np.ndarray] | None:
    """Outputs at equal distances, or the other way; None, and where it failed, if both ways meet what is not finite."""
    for sign in (1.0, -1.0):
        rows = [around.values + k * _within(around, sign * step) for k in range(ORDER + 1)]
        found = around.simulate(rows[-1:])  # the farthest first: if it fails, it has cost but one
        found = found if isinstance(found[0], SimulationDiverged) else around.simulate(rows)
        bad = [(at, f) for at, f in zip(rows[-len(found):], found, strict=True) if isinstance(f, SimulationDiverged)]
        if not bad:
            return [around.weighted(f) for f in found if not isinstance(f, SimulationDiverged)]
        failed.append(bad[-1])
    return None


def _within(around: Around, step: np.ndarray) -> np.ndarray:
    """Turned round or shortened where a bound is in the way."""
    up, down = (around.upper - around.values) / ORDER, (around.values - around.lower) / ORDER
    ahead, back = np.where(step > 0, up, down), np.where(step > 0, down, up)
    turned = (np.abs(step) > ahead) & (back > ahead)
    return np.where(turned, -np.sign(step) * np.minimum(np.abs(step), back), np.sign(step) * np.minimum(np.abs(step), ahead))


def columns(around: Around, noise: float, steps: np.ndarray, both: np.ndarray, which: Sequence[int]) -> dict[int, Column]:
    """Of these unknowns; what is not seen is tried again at once with longer steps."""
    tried = {i: float(steps[i]) for i in which}
    found = _columns(around, noise, tried, both)
    for shorter in SHORTER:  # the point itself is finite, but nothing on either side
        found |= _columns(around, noise, {i: shorter * tried[i] for i in which if isinstance(found[i], SimulationDiverged)}, both)
    good = {i: c for i, c in found.items() if not isinstance(c, SimulationDiverged)}
    for c in found.values():
        if isinstance(c, SimulationDiverged):
            raise c
    while longer := {i: step for i in which if not good[i].seen and (step := _longer(around, i, tried[i]))}:
        tried |= longer
        for i, c in _columns(around, noise, longer, np.ones(len(around.values), bool)).items():
            if not isinstance(c, SimulationDiverged) and (c.seen or c.noise < good[i].noise):
                good[i] = c
    return good


def _longer(around: Around, i: int, step: float) -> float:
    """The next longer step to look with; 0 where there is none."""
    size, reach = float(around.size[i]), float(around.reach[i])
    ladder = (LOOKS * size, LARGEST_STEP * size, LOOKS * reach, reach)
    return min((s for s in ladder if step * 1.01 < s <= reach), default=0.0)


def _columns(around: Around, noise: float, steps: dict[int, float], both: np.ndarray) -> dict[int, Column | SimulationDiverged]:
    """Differences by steps, two-sided where asked for and possible; one side alone where the other is not finite."""
    unit, values = np.eye(around.values.size), around.values
    up = {i: values[i] + s <= around.upper[i] for i, s in steps.items()}
    down = {i: values[i] - s >= around.lower[i] for i, s in steps.items()}
    sign = {i: 1.0 if up[i] or not down[i] else -1.0 for i in steps}
    two_sided = [i for i in steps if both[i] and up[i] and down[i]]
    ahead = {i: values + sign[i] * s * unit[i] for i, s in steps.items()}
    back = {i: values - steps[i] * unit[i] for i in two_sided}
    run = around.simulate([*ahead.values(), *back.values()])
    first, second = dict(zip(steps, run, strict=False)), dict(zip(two_sided, run[len(steps):], strict=True))
    lost = [i for i in steps if isinstance(first[i], SimulationDiverged) and i not in second]
    others = around.simulate([values - sign[i] * steps[i] * unit[i] for i in lost])
    made: dict[int, Column | SimulationDiverged] = {}
    for i in steps:
        one, other = (values[i], around.base), (values[i], around.base)
        if not isinstance(there := first[i], SimulationDiverged):
            one = ahead[i][i], there
        if i in second and not isinstance(behind := second[i], SimulationDiverged):
            other = back[i][i], behind
        if i in lost and not isinstance(turned := others[lost.index(i)], SimulationDiverged):
            one = values[i] - sign[i] * steps[i], turned
        bad = first[i]
        made[i] = _column(around, noise, i, one, other) if one[0] != other[0] else (
            bad if isinstance(bad, SimulationDiverged) else SimulationDiverged(np.nan, 0, what="a step is lost in rounding"))
    return made


def _column(around: Around, noise: float, i: int, one: tuple[float, Outputs], other: tuple[float, Outputs]) -> Column:
    distance, middle = float(one[0] - other[0]), around.values[i]
    with np.errstate(invalid="ignore"):  # outputs that nobody measures need not be finite
        slope = tuple((a - b) / distance for a, b in zip(one[1], other[1], strict=True))
    length, relative = around.length(slope), abs(distance) / around.size[i]
    two_sided = one[0] != middle and other[0] != middle
    return Column(slope, length, np.sqrt(2) * noise * around.length(around.base) / abs(distance),
                  length * ((relative / 2) ** 2 if two_sided else relative))


def closer_look(around: Around, noise: float, i: int, column: Column) -> Column | None:
    """A column whose error is measured: the difference by a fourth of a step against that by the whole one."""
    whole = max(around.length(around.base), np.finfo(float).tiny)
    (relative,), _ = relative_steps(noise, np.array([column.length * around.size[i] / whole]), two_sided=True)
    room = min(around.upper[i] - around.values[i], around.values[i] - around.lower[i])
    step = float(relative * around.size[i])
    step = min(step, room) if room > step / CLOSER else step
    both = np.ones(around.values.size, bool)
    long, short = (_columns(around, noise, {i: s}, both)[i] for s in (step, step / CLOSER))
    if isinstance(long, SimulationDiverged) or isinstance(short, SimulationDiverged):
        return None
    return Column(short.slope, short.length, short.noise, around.apart(long.slope, short.slope) / 2)
