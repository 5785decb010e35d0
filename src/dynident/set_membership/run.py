"""Run: from a problem and the options to an estimate, in the batch (set inversion) or recursively.

Recursive set membership goes through hybrid records by boxes along time; in the batch, each stretch of motion is also inverted
as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.enclosure import Band, Refutation
from dynident.estimate.estimate import Estimate
from dynident.methods.capabilities import check_supports
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.set_membership.batch import PROVED_POINTS, invert_batch, smallest_inflation, with_feasible_points
from dynident.set_membership.bisection import resolve_strategy
from dynident.set_membership.feasible_points import PointSearch
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.flows.hybrid_step import HybridStep, RelaxedStep
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.flows.mode_flow import FlowOptions
from dynident.set_membership.hybrid_points import HybridFits
from dynident.set_membership.inflation import inflate_bounds, largest_refuted_factor
from dynident.set_membership.interval_observer import (
    BoxBudget,
    IntervalObserver,
    ObserverResult,
    ObserverVariant,
    StandstillReset,
    VerifiedStep,
    short_standstills,
    standing_modes,
    whole_range,
)
from dynident.set_membership.motion_windows import MotionWindows, Window, WindowOptions, last_motion_span, standing_mask
from dynident.set_membership.result import BoxLimit, SetMembershipResult, build_set_estimate
from dynident.set_membership.setup import SetMembershipSetup, TimeLimit, make_setup
from dynident.tolerances import HYBRID_INFLATION_RATIO, INFLATION_RATIO

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

WINDOW_ORDER = 5  # of the Taylor polynomial in a window
STEP_ORDER = 3  # of that in a step
PAPER_VARIANTS = {"paper": "dynident.papers.union_of_modes:PUBLISHED"}  # loaded when asked for
MOST_FOLLOWED = 5000  # samples of hybrid records through which points are followed: hundreds of points, several times
INFLATION_BOXES = 30  # boxes while looking for the smallest inflation, which takes several runs
INFLATION_SLICES, INFLATION_ROUNDS = 8, 6  # of a window, likewise


def run(method: SetMembership, problem: Problem) -> Estimate:
    """Smooth models in the batch by set inversion; all others along the record."""
    began, cpu = time.perf_counter(), time.process_time()
    setup, algorithm = _checked_setup(method, problem)
    setup = replace(setup, limit=TimeLimit(method.time_limit, cpu))
    smooth = algorithm == "batch" and not setup.model.hybrid

    def solve(own: SetMembershipSetup) -> SetMembershipResult:
        return invert_batch(method, own) if smooth else run_recursive(method, own, algorithm)

    result = replace(solve(setup), inflation=_stated_inflation(method))
    if setup.limit.reached:
        result = replace(result, limited_by=setup.limit)
    if result.refutation is not None and method.inflate == "auto":
        exact = smooth and not method.max_outliers and all(record.windows is None for record in setup.records)
        least = result.refutation.inflation or 1.0
        feasible = smallest_inflation(method, setup, least) if exact and np.isfinite(least) else None
        setup, result = inflate_bounds(solve, setup, result, feasible, INFLATION_RATIO if smooth else HYBRID_INFLATION_RATIO)
    if algorithm == "recursive" and not setup.model.hybrid and result.refutation is None:
        result = with_feasible_points(method, setup, result)
    if setup.model.hybrid and algorithm != "paper" and not method.reset and result.refutation is None:
        result = _with_hybrid_points(method, setup, result)
    return build_set_estimate(setup, method, algorithm, result, time.perf_counter() - began)


def _with_hybrid_points(method: SetMembership, setup: SetMembershipSetup, result: SetMembershipResult) -> SetMembershipResult:
    """The result with points between its bounds that are proved to explain all records through their modes."""
    if setup.limit.reached or sum(record.samples for record in setup.records) > MOST_FOLLOWED:
        return result
    step = HybridStep(setup.automaton, FlowOptions(method.order or WINDOW_ORDER))
    fits = HybridFits(setup, step, result.high - result.low, method.max_outliers)
    points = PointSearch(fits, method.max_outliers).find(result.low, result.high)
    return replace(result, points=points, points_by=PROVED_POINTS)


def _stated_inflation(method: SetMembership) -> float:
    return 1.0 if isinstance(method.inflate, str) else float(method.inflate)


def check_setup(method: SetMembership, problem: Problem) -> None:
    """Raise what there is to say against the problem before anything is computed."""
    setup, algorithm = _checked_setup(method, problem)
    if algorithm != "batch" or setup.model.hybrid:
        make_observer(method, setup, algorithm)


def _checked_setup(method: SetMembership, problem: Problem) -> tuple[SetMembershipSetup, str]:
    """The setup, and the name of the algorithm."""
    check_supports(problem, method.kind, method.capabilities)
    setup = make_setup(problem, method.input_error, method.rigorous, _stated_inflation(method))
    algorithm = "batch" if method.algorithm == "auto" else method.algorithm  # by far the tightest per second
    states = setup.model.states
    if method.velocity and method.velocity not in states:
        raise ProblemError(f"velocity = '{method.velocity}' is not a state.{did_you_mean(method.velocity, states)}")
    if method.reset and algorithm == "batch" and not setup.model.hybrid:
        raise NotSupported("reset needs a model with modes, one of them at rest: this one has none, and its parameters "
                           "stay the same all along. Leave reset out, or cut the record where a parameter changes.")
    uncertain = any(record.windows is not None for record in setup.records)
    if uncertain and (algorithm != "batch" or setup.model.hybrid or method.taylor_degree > 1):
        raise NotSupported("times that are known within a radius (time_radius) are taken in the batch, for models without "
                           "modes and with taylor_degree=1. Else widen the bounds by what the signal moves in it.")
    if method.max_outliers and algorithm == "paper":
        raise NotSupported("the published algorithm allows no outliers. Use algorithm=\"recursive\" or \"batch\".")
    return setup, algorithm


def make_observer(method: SetMembership, setup: SetMembershipSetup, algorithm: str) -> IntervalObserver:
    """The observer that the options ask for; a published variant is found by its name."""
    model = setup.model
    published = algorithm in PAPER_VARIANTS
    variant: ObserverVariant = resolve_name(PAPER_VARIANTS[algorithm]) if published else _default_variant(method)
    resets = tuple(_make_reset(method, setup, name, signal) for name, signal in method.reset.items())
    bisections = method.subdivisions if method.subdivisions is not None else variant.bisections
    sliced = model.states.index(method.velocity) if method.velocity else len(model.states) - 1
    budget = BoxBudget(method.max_boxes, bisections, method.velocity_subdivisions, method.v_bar, sliced,
                       variant.bisect_when_full and not method.free_room)
    strategy = resolve_strategy(method.strategy, variant.strategy)
    options = {"factored": method.factored_step, "barrier": method.standstill_barrier} if published else {}
    return IntervalObserver(model, variant.make_step(setup.automaton, model, **options), strategy, budget, variant.backward,
                            resets, variant.renew)


def _default_variant(method: SetMembership) -> ObserverVariant:
    """Boxes split at guards, and contracted backward; with outliers, once for each number of them."""
    def make_step(automaton: IntervalAutomaton, model: EquationModel) -> VerifiedStep:
        made = HybridStep(automaton, FlowOptions(method.order or STEP_ORDER))
        return RelaxedStep(made, method.max_outliers) if method.max_outliers else made

    return ObserverVariant(make_step, "influence", max(method.max_boxes // 4, 1), whole_range, bisect_when_full=False,
                           backward=True)


def _make_reset(method: SetMembership, setup: SetMembershipSetup, name: str, signal: str) -> StandstillReset:
    model = setup.model
    if name not in model.parameters:
        raise ProblemError(f"reset names '{name}', which is not a parameter.{did_you_mean(name, model.parameters)}")
    if signal not in model.outputs:
        raise ProblemError(f"reset of '{name}' waits for '{signal}', which is not an output of the model."
                           f"{did_you_mean(signal, model.outputs)}")
    output = model.outputs.index(signal)
    modes = standing_modes(model, output)
    if not modes:
        raise ProblemError(f"reset of '{name}' waits for '{signal}' to stand still, but it moves in every mode.")
    return StandstillReset(model.parameters.index(name), output, method.standstill_time, modes)


def run_recursive(method: SetMembership, setup: SetMembershipSetup, algorithm: str) -> SetMembershipResult:
    """Passes over the records, one after another, each beginning with what is known by then."""
    observer = make_observer(method, setup, algorithm)
    result = SetMembershipResult(setup.low, setup.high, frozenset({observer.step.guarantee}))
    for number in range(method.passes):
        before = result.last_motion
        for e in range(len(setup.records)):
            if number and setup.limit.reached:  # what is said of the last motion is said of the last record
                return replace(result, last_motion=before)
            result = _update_by_record(method, observer, setup, algorithm, result, e, number)
            if result.refutation is not None:
                return result
        result = replace(result, last_motion=_narrower(before, result.last_motion))
    return result


def _narrower(before: Mapping[int, tuple[float, float]], after: Mapping[int, tuple[float, float]]
              ) -> dict[int, tuple[float, float]]:
    """Of what two passes proved of a parameter in the last motion; a pass that was cut short proves less.

    Not their common part: a later pass may find that the last motion began later.
    """
    return {k: min(before.get(k, own), own, key=lambda ends: ends[1] - ends[0]) for k, own in after.items()}


def _update_by_record(method: SetMembership, observer: IntervalObserver, setup: SetMembershipSetup, algorithm: str,
                      result: SetMembershipResult, e: int, number: int) -> SetMembershipResult:
    """What one record leaves of the bounds, in one pass."""
    changing = frozenset(setup.model.parameters.index(name) for name in method.reset)
    observed = observer.run(_single_box(*setup.box(e, result.low, result.high)), setup.records[e])
    full = np.flatnonzero(observed.count[:observed.covered] >= method.max_boxes)
    result = replace(result, bands=(*result.bands, _band(setup, e, number, observed)),
                     limited_by=_box_limit(method, setup, e, full) if full.size else result.limited_by)
    motion = MotionWindows(setup, e, observed, changing,
                           WindowOptions(method.order or WINDOW_ORDER, method.taylor_degree))
    found = motion.contract(result.low, result.high) if algorithm == "batch" and not method.max_outliers else None
    if found is not None and found.refuted_at is not None:
        return _refute(method, result, observer, motion, found.refuted_at, found.window)
    if observed.empty_at is not None:
        return _refute(method, result, observer, motion, observed.empty_at)
    result = _with_observer_bounds(result, setup, e, observed, changing)
    if found is None:
        return result
    return replace(result, low=np.maximum(result.low, found.low), high=np.minimum(result.high, found.high),
                   last_motion={**result.last_motion, **found.last_motion})


def _box_limit(method: SetMembership, setup: SetMembershipSetup, e: int, full: np.ndarray) -> BoxLimit:
    record = setup.records[e]
    return BoxLimit(method.max_boxes, f"the list was full at {full.size:,} of {record.samples:,} samples of {record.label}, "
                    f"first at t = {record.time[full[0]]:g}", 2 * method.max_boxes)


def _band(setup: SetMembershipSetup, e: int, number: int, observed: ObserverResult) -> Band:
    """The bounds over time, for the report."""
    model, record, end = setup.model, setup.records[e], observed.covered
    names = (*model.states, *model.parameters)
    return Band(record.label, record.time[:end], {n: observed.low[:end, i] for i, n in enumerate(names)},
                {n: observed.high[:end, i] for i, n in enumerate(names)}, observed.count[:end], observed.modes[:end],
                tuple(model.modes) if model.hybrid else (), tuple(float(record.time[k]) for k in observed.resets),
                number + 1)


def _single_box(lo: np.ndarray, hi: np.ndarray) -> Boxes:
    return Boxes(lo[:, None], hi[:, None], np.zeros(1, int))


def _refute(method: SetMembership, result: SetMembershipResult, observer: IntervalObserver, motion: MotionWindows, sample: int,
            window: Window | None = None) -> SetMembershipResult:
    """The result where nothing fits from a sample on; `window` is the stretch of motion that says so, if one does."""
    record = motion.setup.records[motion.experiment]
    inflation = _largest_refuted_inflation(observer, motion, window)
    return replace(result, notes=(*result.notes, *short_standstills(observer, record, sample)),
                   refutation=Refutation(record.label, float(record.time[sample]), inflation, method.max_outliers))


def _largest_refuted_inflation(observer: IntervalObserver, motion: MotionWindows, window: Window | None) -> float | None:
    """The largest factor on all radii with which this record alone is still refuted, by fewer boxes; None if it is not.

    Of windows only the one that was refuted is looked at.
    """
    setup, e = motion.setup, motion.experiment
    quick = replace(observer, budget=replace(
        observer.budget, max_boxes=min(observer.budget.max_boxes, INFLATION_BOXES)))
    end = setup.records[e].samples if window is None else window.end

    def refuted(factor: float) -> bool:
        wider = setup.with_inflated_bounds(factor)
        record = wider.records[e].part(0, end)
        observed = quick.run(_single_box(*wider.box(e, wider.low, wider.high)), record)
        if observed.empty_at is not None or window is None:
            return observed.empty_at is not None
        records = tuple(record if k == e else other for k, other in enumerate(wider.records))
        again = replace(motion, setup=replace(wider, records=records), observed=observed,
                        options=replace(motion.options, max_slices=INFLATION_SLICES, max_rounds=INFLATION_ROUNDS))
        return any(again.is_refuted(part, wider.low, wider.high) for part in again.windows()
                   if part.end > window.begin)

    found = largest_refuted_factor(refuted, HYBRID_INFLATION_RATIO, grow=4.0)
    return found if found > 1 else None


def _with_observer_bounds(result: SetMembershipResult, setup: SetMembershipSetup, e: int, observed: ObserverResult,
                          changing: frozenset[int]) -> SetMembershipResult:
    """With what the observer proved; a parameter that is reset keeps its first range, its last one stands beside it."""
    n = setup.automaton.layout.states
    standing = standing_mask(setup.automaton)
    low, high, last_motion = result.low.copy(), result.high.copy(), dict(result.last_motion)
    for row, k in zip(*setup.unknown_rows(e), strict=True):
        if row >= n and row - n in changing:
            last_motion[int(k)] = _bounds_in_last_motion(observed, row, standing)
            continue
        sample = 0 if row < n else -1  # initial states are those of the first sample
        low[k] = max(low[k], observed.low[sample, row])
        high[k] = min(high[k], observed.high[sample, row])
    return replace(result, low=low, high=high, last_motion=last_motion, boxes=observed.boxes)


def _bounds_in_last_motion(observed: ObserverResult, row: int, standing: int) -> tuple[float, float]:
    """The narrowest bounds of a parameter between the two resets around the last motion."""
    begin, end = last_motion_span(observed, standing)
    k = begin + int(np.argmin(observed.high[begin:end, row] - observed.low[begin:end, row]))
    return float(observed.low[k, row]), float(observed.high[k, row])
