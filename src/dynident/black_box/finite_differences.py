"""Finite differences: derivatives of simulations around a point, by steps that are above the noise of the simulation itself.

The noise is measured, not guessed: ECnoise of J. J. Moré and S. M. Wild, "Estimating computational noise", SIAM J. Sci.
Comput. 33 (2011) 1292-1314: seven simulations along a line, whose sixth differences hold no smooth part any more. The step
then balances noise against truncation error, as in their "Estimating derivatives of noisy simulations", ACM Trans. Math.
Softw. 38 (2012) 19.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.tolerances import SEEN_ABOVE_NOISE

NOISE_DIFFERENCE_ORDER = 6  # of the differences that show the noise
SPACING = 1e-4  # relative: wide enough for an adaptive solver to change its steps, narrow enough for smoothness
MIN_NOISE = 1e-16  # relative; below it stands only rounding
ROUNDING_NOISE = 1e-14  # relative; that little noise is nobody's fault and needs no second look
MAX_NOISE = 1e-3  # relative; more is rather a jump of the model between two of the simulations
COMPARED_ORDERS, NOISE_RATIO = 3, 4.0  # the last orders of differences that must show the same noise, and by which factor
KINK_FRACTION = 0.05  # of all: what shows in so few is a kink
CENTRAL_DIFFERENCE_FROM = 1e-4  # relative step beyond which the curvature shows in forward differences
MAX_STEP = 0.05  # relative
MIN_STEP = 1e-9  # relative
SimulatedOutputs = tuple[np.ndarray, ...]  # per experiment (nodes, outputs)
DIFFERENCE_SEED = 1  # the direction in which noise is looked for, and the global search, are the same in every run
LINE_REFINEMENTS = (1.0, 1e-2, 1e-4)  # of the usual spacing, where that meets what is not finite or is no noise
LASTING_NOISE = 20.0  # what falls by less, where one looks a hundred times closer, is noise all the same
MAX_SINGLE_DIRECTIONS = 4  # unknowns that are moved alone where all together fail
STEP_REDUCTIONS = (1e-2, 1e-4)  # of a step that meets nothing finite on either side
LONGER_STEP = 1e-3  # of the size, and of the way that may be gone: steps in between, for a change that was not seen
STEP_RATIO = 4.0  # how many times shorter the second of two differences is that shows what the first is wrong by


def estimate_noise(line: Sequence[np.ndarray]) -> float:
    """ECnoise: the noise of simulations at equally spaced points of a line, as a fraction of the size of the outputs."""
    return _noise_by_order(line)[-1]


def is_noise(line: Sequence[np.ndarray]) -> bool:
    """Whether it is noise that the highest differences hold, and neither a smooth part, which lower ones hold more of, nor
    a kink or a jump, as where an event passes a sample: that shows in few samples only."""
    levels = _noise_by_order(line)[-COMPARED_ORDERS:]
    alike = max(levels) <= min(NOISE_RATIO * min(levels), MAX_NOISE)
    return levels[-1] <= ROUNDING_NOISE or (alike and not _in_few_samples(line))


def _in_few_samples(line: Sequence[np.ndarray]) -> bool:
    squares = np.sort(np.diff(np.stack(line), n=NOISE_DIFFERENCE_ORDER, axis=0)[0] ** 2)
    most = squares[:int((1 - KINK_FRACTION) * squares.size)]
    return float(np.sum(most)) < float(np.sum(squares)) / NOISE_RATIO**2 and squares.size > 1 / KINK_FRACTION


def _noise_by_order(line: Sequence[np.ndarray]) -> list[float]:
    """What the differences of each order would say the noise is."""
    table = np.stack(line)
    size = max(float(np.linalg.norm(outputs)) for outputs in table)
    found = []
    for order in range(1, NOISE_DIFFERENCE_ORDER + 1):
        table = np.diff(table, axis=0)
        factor = math.factorial(order) / math.sqrt(math.factorial(2 * order))  # gamma_k = (k!)^2 / (2k)!
        level = factor * float(np.linalg.norm(table)) / math.sqrt(len(table))
        found.append(max(MIN_NOISE, level / size if size > 0 else 0.0))
    return found


def optimal_steps(noise: float, influence: np.ndarray, two_sided: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Step per parameter relative to its size, and where it must be a central difference; with `two_sided` everywhere.

    `influence` is the change of the outputs that the derivative predicts for a change of the parameter by its own size,
    as a fraction of the size of the outputs; the curvature is taken to act over the same distance.
    """
    quotient = noise / np.maximum(influence, noise)
    forward = 2 * np.sqrt(quotient)  # 2 noise / h = h / 2
    central = np.cbrt(3 * quotient)  # noise / h = h^2 / 3
    both = (forward > CENTRAL_DIFFERENCE_FROM) | two_sided
    return np.clip(np.where(both, central, forward), MIN_STEP, MAX_STEP), both


@dataclass(frozen=True, eq=False)
class DifferencePoint:
    """A point, what was simulated there, and how far each unknown may be moved from it."""

    values: np.ndarray
    base: SimulatedOutputs
    size: np.ndarray  # of each unknown
    longest_step: np.ndarray  # of each unknown
    lower: np.ndarray
    upper: np.ndarray
    simulate: Callable[[Sequence[np.ndarray]], list[SimulatedOutputs | SimulationDiverged]]
    weighted: Callable[[SimulatedOutputs], np.ndarray]

    def length(self, outputs: SimulatedOutputs) -> float:
        return float(np.linalg.norm(self.weighted(outputs)))

    def distance(self, one: SimulatedOutputs, other: SimulatedOutputs) -> float:
        return float(np.linalg.norm(self.weighted(one) - self.weighted(other)))


@dataclass(frozen=True, eq=False)
class FiniteDifference:
    """A derivative by one unknown, and lengths of what is wrong with it."""

    derivative: SimulatedOutputs
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
    draw = np.random.default_rng(DIFFERENCE_SEED)
    together = draw.choice([-1.0, 1.0], count) * draw.uniform(0.5, 1.0, count) / np.sqrt(max(1, count))
    for direction in (together, *(np.eye(count)[:MAX_SINGLE_DIRECTIONS] if count > 1 else ())):
        before: float | None = None
        for closer in LINE_REFINEMENTS:
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
        rows = [point.values + k * _inside_bounds(point, sign * step) for k in range(NOISE_DIFFERENCE_ORDER + 1)]
        found = point.simulate(rows[-1:])  # the farthest first: if it fails, it has cost but one
        found = found if isinstance(found[0], SimulationDiverged) else point.simulate(rows)
        bad = [(at, f) for at, f in zip(rows[-len(found):], found, strict=True) if isinstance(f, SimulationDiverged)]
        if not bad:
            return [point.weighted(f) for f in found if not isinstance(f, SimulationDiverged)]
        failed.append(bad[-1])
    return None


def _inside_bounds(point: DifferencePoint, step: np.ndarray) -> np.ndarray:
    """Turned round or shortened where a bound is in the way."""
    up, down = (point.upper - point.values) / NOISE_DIFFERENCE_ORDER, (point.values - point.lower) / NOISE_DIFFERENCE_ORDER
    ahead, back = np.where(step > 0, up, down), np.where(step > 0, down, up)
    turned = (np.abs(step) > ahead) & (back > ahead)
    return np.where(turned, -np.sign(step) * np.minimum(np.abs(step), back), np.sign(step) * np.minimum(np.abs(step), ahead))


def difference_columns(point: DifferencePoint, noise: float, steps: np.ndarray, both: np.ndarray, which: Sequence[int]
                       ) -> dict[int, FiniteDifference]:
    """Of these unknowns; what is not seen is tried again at once with longer steps."""
    tried = {i: float(steps[i]) for i in which}
    found = _differences(point, noise, tried, both)
    for shorter in STEP_REDUCTIONS:  # the point itself is finite, but nothing on either side
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
    ladder = (LONGER_STEP * size, MAX_STEP * size, LONGER_STEP * longest, longest)
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


def _quotient(point: DifferencePoint, noise: float, i: int, one: tuple[float, SimulatedOutputs],
              other: tuple[float, SimulatedOutputs]) -> FiniteDifference:
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
