"""Motion windows: stretches of a hybrid record in one moving mode, each inverted all samples at once.

The recursion proves in which stretches every possible state moves in one mode, and bounds the state there. Each such
window is then a smooth problem: its flow is linear in most unknowns, the curving ones are sliced, and linear programs
with proved bounds (`VerifiedLinearProgram`) contract all of them together.

beta*(u - T) is bilinear in beta and T, but linear in beta and w = beta*T. Where a parameter acts only through its product
with another one, the product takes its place (`reparametrize`), and bounds of the parameter follow from those of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import casadi
import numpy as np

from dynident.set_membership.batch import bisect_first_true
from dynident.set_membership.bisection import bisect_ends
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.flows.lohner import ROUNDING, OutputEnclosure
from dynident.set_membership.flows.taylor_model_flow import make_flow
from dynident.set_membership.interval_observer import ObserverResult
from dynident.set_membership.intervals.arithmetic import Interval, intersect, mul, round_down, round_up
from dynident.set_membership.setup import SetMembershipSetup
from dynident.set_membership.stretch import SampleStretch
from dynident.set_membership.verified_lp import VerifiedLinearProgram
from dynident.tolerances import HULL_SHRINKAGE, KNOWN_RADIUS

MIN_WINDOW = 20  # samples: a shorter window says little
FIRST_WINDOW_SAMPLES = 40
MAX_FURTHER_ROUNDS = 4  # where fewer samples have already left little
MAX_LP_SAMPLES = 60  # of a window that a linear program looks at, spread evenly


@dataclass(frozen=True, eq=False)
class ReparametrizedMode:
    """A rate and an output in which some parameters are replaced by their product with another one."""

    rate: casadi.Function
    output: casadi.Function
    products: dict[int, int]  # parameter -> the factor that it is multiplied by
    curving: np.ndarray  # (states + parameters,): whether the Jacobian of the rate depends on it


def reparametrize(rate: casadi.Function, output: casadi.Function, positive: np.ndarray) -> ReparametrizedMode:
    """The mode with every possible product put in; `positive` are parameters that are so for certain."""
    t, x, u, p = (casadi.SX.sym(n, rate.size1_in(k)) for k, n in enumerate("txup"))
    f, y = rate(t, x, u, p), output(t, x, u, p)
    products: dict[int, int] = {}
    for k in range(p.numel()):
        slope = casadi.jacobian(f, p[k])
        if casadi.depends_on(slope, p[k]) or casadi.depends_on(y, p[k]):
            continue
        factor = next((j for j in range(p.numel()) if j != k and positive[j] and j not in products
                       and k not in products.values() and _is_only_factor(slope, p, j)), None)
        if factor is not None:
            products[k] = factor
            f = casadi.substitute(f, p[k], 0) + p[k] * casadi.jacobian(slope, p[factor])
    unknowns = casadi.vertcat(x, p)
    curvature = casadi.vec(casadi.jacobian(f, unknowns))
    curving = np.array([casadi.depends_on(curvature, unknowns[k]) for k in range(unknowns.numel())], bool)
    return ReparametrizedMode(casadi.Function("rate", [t, x, u, p], [casadi.densify(f)]), output, products, curving)


def _is_only_factor(slope: casadi.SX, p: casadi.SX, j: int) -> bool:
    """Whether slope = p[j] * (something without parameters)."""
    second = casadi.jacobian(slope, p[j])
    rest = casadi.simplify(casadi.substitute(slope, p[j], 0))
    return bool(second.nnz()) and not casadi.depends_on(second, p) and casadi.densify(rest).is_zero()


@dataclass(frozen=True, eq=False)
class Window:
    """Samples begin ... end of a record in one mode."""

    begin: int
    end: int
    mode: int


def find_windows(observed: ObserverResult, still: set[int]) -> Iterator[Window]:
    """Longest stretches in which every box stayed in one and the same moving mode."""
    begin = None
    single = (observed.modes & (observed.modes - 1)) == 0
    for k in range(1, observed.covered + 1):
        stays = (k < observed.covered and bool(observed.single_mode[k]) and bool(single[k]) and bool(single[k - 1])
                 and observed.modes[k] == observed.modes[k - 1])
        if stays and begin is None:
            begin = k - 1
        elif not stays and begin is not None:
            mode = int(observed.modes[k - 1]).bit_length() - 1
            if k - begin >= MIN_WINDOW and mode not in still:
                yield Window(begin, k, mode)
            begin = None


def standing_mask(automaton: IntervalAutomaton) -> int:
    """Bit mask of the modes in which nothing moves."""
    return sum(1 << k for k, law in enumerate(automaton.modes) if law.rate_is_zero)


def last_motion_span(observed: ObserverResult, standing: int) -> tuple[int, int]:
    """First sample and end of the stretch between two resets in which the last motion lies."""
    end = observed.covered
    moving = np.flatnonzero(observed.modes[:end] & ~standing)
    last = int(moving[-1]) if moving.size else end - 1
    return max((k for k in observed.resets if k <= last), default=0), min((k for k in observed.resets if k > last), default=end)


@dataclass(frozen=True)
class WindowOptions:
    """How a window is followed: order of the Taylor polynomial in time, degree of that in the unknowns; and how hard."""

    order: int = 5
    taylor_degree: int = 1
    max_slices: int = 32  # along parameters in which the flow bends
    max_rounds: int = 12


@dataclass(frozen=True, eq=False)
class WindowSlices:
    """What is left of a window's box: boxes in the products, and bounds of the parameters that these replaced."""

    boxes: Interval
    own: Interval


class WindowSolver:
    """One window of one experiment."""

    def __init__(self, setup: SetMembershipSetup, experiment: int, window: Window, observed: ObserverResult,
                 options: WindowOptions):
        self.states = setup.automaton.layout.states
        record = setup.records[experiment]
        law = setup.automaton.modes[window.mode]
        n, self.options, self.limit = self.states, options, setup.limit
        positive = observed.low[window.begin, n:] > 0
        self.mode: ReparametrizedMode = reparametrize(law.rate, setup.model.output, positive)
        flow = make_flow(setup.automaton.layout, self.mode.rate, self.mode.output, options.order, options.taylor_degree,
                         setup.automaton.rigorous)
        part = slice(window.begin, window.end)
        self.stretch = SampleStretch(flow, record.part(window.begin, window.end),
                                     (observed.low[part, :n], observed.high[part, :n]))

    def contract(self, lo: np.ndarray, hi: np.ndarray) -> Interval | None:
        """Bounds (states at the begin, parameters) that the window leaves of [lo, hi]; None if nothing."""
        found = self.contract_slices(lo, hi, self.stretch.samples)
        return None if found is None else self._from_products(found.boxes, found.own)

    def contract_slices(self, lo: np.ndarray, hi: np.ndarray, end: int, start: WindowSlices | None = None
                        ) -> WindowSlices | None:
        """What the first `end` samples leave of [lo, hi]; `start` is what fewer of them left, if that is known."""
        boxes, own = self._to_products(lo[:, None], hi[:, None])
        samples = min(FIRST_WINDOW_SAMPLES, end)
        if start is not None:
            boxes, own, samples = intersect(start.boxes, boxes), intersect(start.own, own), end
            left = np.all(boxes[0] <= boxes[1], axis=0) & np.all(own[0] <= own[1], axis=0)
            boxes, own = (boxes[0][:, left], boxes[1][:, left]), (own[0][:, left], own[1][:, left])
        for _ in range(self.options.max_rounds if start is None else MAX_FURTHER_ROUNDS):
            if not boxes[0].shape[1]:
                return None
            before = _hull_widths(boxes, own)
            if self.limit.reached:  # what is left by now holds
                break
            rows = self.stretch.enclose_outputs(*boxes, samples)
            boxes, own = self._contract_each_slice(rows, boxes, own, samples)
            if not boxes[0].shape[1]:
                return None
            converged = np.all(_hull_widths(boxes, own) >= HULL_SHRINKAGE * before)
            if samples == end and converged and 2 * boxes[0].shape[1] > self.options.max_slices:
                break
            samples = min(end, 2 * samples)
            boxes, own = self._bisect_slices(boxes, own)
        return WindowSlices(boxes, own)

    def _to_products(self, lo: np.ndarray, hi: np.ndarray) -> tuple[Interval, Interval]:
        """Boxes in the products, and the bounds of the parameters that these replaced."""
        low, high = lo.copy(), hi.copy()
        rows = [self.states + k for k in self.mode.products]
        for k, j in self.mode.products.items():
            low[self.states + k], high[self.states + k] = mul(
                (lo[self.states + k], hi[self.states + k]), (lo[self.states + j], hi[self.states + j]))
        return (low, high), (lo[rows], hi[rows])

    def _from_products(self, boxes: Interval, own: Interval) -> Interval:
        low, high = boxes[0].min(axis=1), boxes[1].max(axis=1)
        for place, k in enumerate(self.mode.products):
            low[self.states + k], high[self.states + k] = own[0][place].min(), own[1][place].max()
        return low, high

    def _contract_each_slice(self, rows: OutputEnclosure, boxes: Interval, own: Interval, samples: int
                             ) -> tuple[Interval, Interval]:
        """Slices that cannot fit are dropped, the others contracted in every direction."""
        programs = [self._linear_program(rows, own, b, samples) for b in range(boxes[0].shape[1])]
        left = [b for b, program in enumerate(programs) if self.limit.reached or not program.inflation_bound() > 0]
        low, high = boxes[0][:, left].copy(), boxes[1][:, left].copy()
        own_low, own_high = own[0][:, left].copy(), own[1][:, left].copy()
        kept = np.ones(len(left), bool)
        for place, b in enumerate(left):
            if self.limit.reached:
                break
            self._contract_slice(programs[b], rows, b, place, (low, high), (own_low, own_high))
            kept[place] = bool(np.all(low[:, place] <= high[:, place]) and np.all(
                own_low[:, place] <= own_high[:, place]))
        return (low[:, kept], high[:, kept]), (own_low[:, kept], own_high[:, kept])

    def _linear_program(self, rows: OutputEnclosure, own: Interval, box: int, samples: int) -> VerifiedLinearProgram:
        """Measurements, and T low <= product/factor <= T high as inequalities."""
        chosen = np.unique(np.linspace(0, samples - 1, min(samples, MAX_LP_SAMPLES)).astype(int))
        part = OutputEnclosure(rows.centre, rows.radius, rows.a[chosen], rows.offset[chosen], rows.error[chosen],
                               rows.low[chosen], rows.high[chosen])
        low, high = self.stretch.record.low[:, chosen], self.stretch.record.high[:, chosen]
        a, b = [], []
        for place, (k, j) in enumerate(self.mode.products.items()):
            for sign, bound in ((1.0, own[1][place, box]), (-1.0, own[0][place, box])):
                line, value = self._ratio_line(rows, box, k, j, sign, bound)
                a.append(line)
                b.append(value)
        also = (np.array(a), np.array(b)) if a else None
        return VerifiedLinearProgram(part, low, high, box, also=also)

    def _ratio_line(self, rows: OutputEnclosure, box: int, k: int, j: int, sign: float, bound: float
                    ) -> tuple[np.ndarray, float]:
        """sign*(product - bound*factor) <= 0 as a line in q - q_c, its constant rounded up."""
        line = np.zeros(rows.centre.shape[0])
        line[self.states + k], line[self.states + j] = sign, -sign * bound
        product, factor = rows.centre[self.states + k, box], rows.centre[self.states + j, box]
        value = -sign * (product - bound * factor)
        return line, float(value + ROUNDING * (abs(product) + abs(bound * factor)))

    def _contract_slice(self, program: VerifiedLinearProgram, rows: OutputEnclosure, box: int, place: int, ends: Interval,
                        own: Interval) -> None:
        size = rows.centre.shape[0]
        for i in range(size):
            if rows.radius[i, box] <= KNOWN_RADIUS:
                continue
            axis = np.zeros(size)
            axis[i] = 1.0
            centre = rows.centre[i, box]
            ends[0][i, place] = max(ends[0][i, place], float(round_down(centre + program.lower_bound(axis))))
            ends[1][i, place] = min(ends[1][i, place], float(round_up(centre - program.lower_bound(-axis))))
        for spot, (k, j) in enumerate(self.mode.products.items()):
            self._contract_factor(program, rows, box, place, ends, own, spot, k, j)

    def _contract_factor(self, program: VerifiedLinearProgram, rows: OutputEnclosure, box: int, place: int, ends: Interval,
                         own: Interval, spot: int, k: int, j: int) -> None:
        """product - bound*factor >= gap leaves T >= bound + gap/factor for every factor in its bounds."""
        largest = ends[1][self.states + j, place]
        for side, sign in ((0, 1.0), (1, -1.0)):
            bound = own[side][spot, place]
            line, value = self._ratio_line(rows, box, k, j, sign, bound)
            gap = float(round_down(program.lower_bound(line) - value - 2 * ROUNDING * abs(value)))
            if gap > 0:
                moved = round_down(round_down(gap / largest) * (1 - ROUNDING))
                own[side][spot, place] = round_down(bound + moved) if side == 0 else round_up(bound - moved)

    def _bisect_slices(self, boxes: Interval, own: Interval) -> tuple[Interval, Interval]:
        """Halve every slice along its widest curving parameter, while there is room."""
        low, high = boxes
        rows = self.states + np.flatnonzero(self.mode.curving[self.states:])
        if not rows.size or 2 * low.shape[1] > self.options.max_slices:
            return boxes, own
        first = (high[rows] - low[rows]).max(axis=1)
        widest = rows[np.argmax((high[rows] - low[rows]) / np.where(first > 0, first, 1)[:, None], axis=0)]
        each = np.arange(low.shape[1])
        halves = bisect_ends(boxes, each, widest, 0.5 * (low[widest, each] + high[widest, each]))
        return halves, (np.tile(own[0], 2), np.tile(own[1], 2))


def _hull_widths(boxes: Interval, own: Interval) -> np.ndarray:
    """Widths of the hull of all slices."""
    return np.concatenate([boxes[1].max(axis=1) - boxes[0].min(axis=1), own[1].max(axis=1) - own[0].min(axis=1)])


@dataclass(frozen=True, eq=False)
class MotionWindows:
    """One record through which the observer went: its windows, solved one after another, forward in time.

    A window that ends at a sample is judged by what samples up to it say, so that the first sample with which nothing
    fits any more can be named. Nothing from behind it is used.
    """

    setup: SetMembershipSetup
    experiment: int
    observed: ObserverResult
    changing: frozenset[int]  # parameters that are reset at standstill
    options: WindowOptions

    def windows(self) -> list[Window]:
        return list(find_windows(self.observed, {k for k in range(len(self.setup.automaton.modes)) if self._standing >> k & 1}))

    @property
    def _standing(self) -> int:
        return standing_mask(self.setup.automaton)

    def contract(self, low: np.ndarray, high: np.ndarray) -> WindowsResult:
        """Bounds of the problem's unknowns after all windows, or the first sample that nothing fits."""
        last: dict[int, tuple[float, float]] = {}
        done = 0
        for window in self.windows():
            if self.setup.limit.reached:
                break
            crossing = self._first_crossing(low, high, done, window.end)
            if crossing is not None:
                return WindowsResult(low, high, last, crossing)
            found = self._solver(window).contract(*self._box(window, window.end, low, high))
            if found is None:
                return WindowsResult(low, high, last, self._first_refuted(window, low, high), window)
            in_last_motion = window.begin >= last_motion_span(self.observed, self._standing)[0]
            low, high, last = self._with_window(found, low, high, last, in_last_motion)
            done = window.end
        return WindowsResult(low, high, last, self._first_crossing(low, high, done, self.observed.covered))

    def is_refuted(self, window: Window, low: np.ndarray, high: np.ndarray) -> bool:
        return self._solver(window).contract(*self._box(window, window.end, low, high)) is None

    def _solver(self, window: Window) -> WindowSolver:
        return WindowSolver(self.setup, self.experiment, window, self.observed, self.options)

    def _box(self, window: Window, end: int, low: np.ndarray, high: np.ndarray) -> Interval:
        """States at its begin, parameters as the last sample before `end` leaves them."""
        n = self.setup.automaton.layout.states
        own = n + np.array(sorted(self.changing), int)
        lo, hi = self.setup.box(self.experiment, low, high)
        lo[own], hi[own] = -np.inf, np.inf
        lo[n:] = np.maximum(lo[n:], self.observed.low[end - 1, n:])
        hi[n:] = np.minimum(hi[n:], self.observed.high[end - 1, n:])
        lo[:n], hi[:n] = self.observed.low[window.begin, :n], self.observed.high[window.begin, :n]
        return lo, hi

    def _with_window(self, found: Interval, low: np.ndarray, high: np.ndarray, last: dict[int, tuple[float, float]],
                     in_last_motion: bool) -> tuple[np.ndarray, np.ndarray, dict[int, tuple[float, float]]]:
        """Bounds of all unknowns, and those of reset parameters in the last motion, with what a window left."""
        n, low, high, last = self.setup.automaton.layout.states, low.copy(), high.copy(), dict(last)
        for row, k in zip(*self.setup.unknown_rows(self.experiment), strict=True):
            if row >= n and row - n in self.changing:
                if not in_last_motion:  # an earlier one, whose value may be another
                    continue
                last[int(k)] = float(found[0][row]), float(found[1][row])
            elif row >= n:
                low[k], high[k] = max(low[k], found[0][row]), min(high[k], found[1][row])
        return low, high, last

    def _first_crossing(self, low: np.ndarray, high: np.ndarray, begin: int, end: int) -> int | None:
        """The first sample at which the boxes leave nothing of the given bounds."""
        n = self.setup.automaton.layout.states
        rows, source = self.setup.unknown_rows(self.experiment)
        kept = [row >= n and row - n not in self.changing for row in rows]
        rows, source = rows[kept], source[kept]
        apart = (self.observed.low[begin:end, rows] > high[source]) | (self.observed.high[begin:end, rows] < low[source])
        found = np.flatnonzero(apart.any(axis=1))
        return begin + int(found[0]) if found.size else None

    def _first_refuted(self, window: Window, low: np.ndarray, high: np.ndarray) -> int:
        """The last sample of the shortest beginning of the window that is refuted, found by halving."""
        solver = self._solver(window)
        left: WindowSlices | None = None  # what the longest beginning left that is not refuted

        def refuted(last: int) -> bool:
            nonlocal left
            found = solver.contract_slices(*self._box(window, last + 1, low, high), last + 1 - window.begin, left)
            left = left if found is None else found
            return found is None

        return bisect_first_true(refuted, window.begin, window.end - 1)


@dataclass(frozen=True, eq=False)
class WindowsResult:
    """What windows leave of the problem's unknowns."""

    low: np.ndarray
    high: np.ndarray
    last_motion: dict[int, tuple[float, float]]  # of parameters that are reset, where a window lies in the last motion
    refuted_at: int | None = None  # the first sample with which nothing fits any more
    window: Window | None = None  # that said so
