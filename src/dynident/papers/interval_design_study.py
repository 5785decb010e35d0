"""Interval paper, (19) and Fig. 9: when does an input by (19) tighten beta, and when does it widen it?

Two things answer that, and both are measured: the exact set of all parameters that a record allows, which knows the input
alone, and the enclosure of it with a number of boxes, which knows the method too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import dynident as di
from dynident._util.progress import Tell
from dynident.papers.drive_train import RigTruth, drive_train, drive_train_record, driving_cycles
from dynident.papers.interval_items import ENCODER, FREEDOM, identified, repeated, smooth_way, widths
from dynident.papers.outcome import Outcome, compared

TRUTH = (-4.5, 65.0, 0.12)  # alpha, beta, T_Fs
PARAMETER_STEPS = (1e-4, 1e-3, 1e-5)  # of alpha, beta and T_Fs: the angle's second order is below 1e-5 of its first there
WEIGHTS = {"i = 1 (alpha), as in Fig. 8": ("alpha", {"alpha": 0.01, "beta": 10.0}),
           "i = 2 (beta)": ("beta", {"beta": 0.01, "alpha": 10.0})}


@dataclass(frozen=True)
class DesignedInput:
    """An input by (19), and what its record can tell of beta."""

    distance: float  # rad, of the reference
    limit: float  # N m
    weights: str
    exact: float  # width of beta over the exact set
    tracking: float  # the same of the input that only tracks that reference
    top_speed: float  # rad/s


def exact_width(torque: np.ndarray) -> float:
    """Width of beta over all alpha, beta, T_Fs and first angles that keep each sample within its bound, in first order.

    One cycle and the standstill after it; a linear program each way. The set is so small (beta to 0.5 %) that its
    curvature does not show in the digits that are printed.
    """
    from scipy.optimize import linprog

    driven = repeated(torque, 1)
    time = np.arange(driven.size) * 0.01
    columns = []
    for i, step in enumerate(PARAMETER_STEPS):
        ends = [drive_train_record(time, driven, _truth(i, sign * step)).angle for sign in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    sensitivities = np.array([*columns, np.ones(time.size)]).T
    scale = np.abs(sensitivities).max(axis=0)
    both = np.vstack([sensitivities / scale, -sensitivities / scale])
    found = linprog(-np.eye(4)[1], A_ub=both, b_ub=np.full(len(both), ENCODER), bounds=(None, None))
    return float(-2 * found.fun / scale[1])


def _truth(index: int, change: float) -> RigTruth:
    alpha, beta, breakaway = (value + (change if k == index else 0.0) for k, value in enumerate(TRUTH))
    return RigTruth(alpha, beta, (breakaway,))


def designed(distance: float, limit: float, target: str, weights: dict[str, float] | None) -> np.ndarray | None:
    """Torque of a Bernstein polynomial of order five by (19), or by tracking alone; None where sliding cannot be kept."""
    time = np.arange(801) * 0.01
    record = di.Experiment(time, {"torque": 0 * time}, {"angle": 0 * time}, {"angle": di.Bounded(ENCODER)},
                           {"angle": 0.0, "speed": 0.0})
    problem = di.Problem(drive_train(), [record], [di.Parameter("alpha", TRUTH[0]), di.Parameter("beta", TRUTH[1]),
                                                   di.Parameter("T_Fs", TRUTH[2], free=False)])
    reference = partial(smooth_way, distance=distance)
    criterion = (di.criteria.Selective(target, reference, weights, epsilon=0.01) if weights
                 else di.criteria.Selective(target, reference))
    try:
        plan = di.design_input(problem, di.signals.Bernstein(5), criterion, [f"torque <= {limit}"], mode="forward",
                               use_records=False, amplitude=0.3, starts=1)
    except di.NotConverged:
        return None
    return np.asarray(plan.inputs["torque"])


def inputs_over(distances: tuple[float, ...], limits: tuple[float, ...], tell: Tell) -> list[DesignedInput]:
    """Every reference with every limit and both targets of (19); those that leave the sliding mode are left out."""
    found = []
    for distance in distances:
        followed = designed(distance, max(limits), "alpha", None)
        tracking = exact_width(followed) if followed is not None else np.nan
        for limit, (name, (target, weights)) in product(limits, WEIGHTS.items()):
            tell(f"{distance:g} rad, {limit:g} N m, {name}")
            torque = designed(distance, limit, target, weights)
            if torque is not None:
                speed = drive_train_record(np.arange(801) * 0.01, torque).speed
                found.append(DesignedInput(distance, limit, name, exact_width(torque), tracking, float(np.max(speed))))
    return found


def gains_by_boxes(torques: dict[str, np.ndarray], boxes: tuple[int, ...], cycles: int, tell: Tell
                   ) -> list[tuple[str, int, float, float]]:
    """Method, boxes, width of beta with the cycle of Fig. 6 and with (19)."""
    rows = []
    ways: dict[str, tuple[str, dict[str, Any]]] = {"the paper's method": ("paper", FREEDOM), "our recursion": ("recursive", {})}
    for way, count in product(ways, boxes):
        tell(f"{way}, {count} boxes")
        algorithm, options = ways[way]
        width = []
        for torque in torques.values():
            driven = repeated(torque, cycles)
            rig = drive_train_record(np.arange(driven.size) * 0.01, driven)
            width.append(widths(identified(rig, algorithm, max_boxes=count, subdivisions=50, **options))["beta"])
        rows.append((way, count, width[0], width[1]))
    return rows


def why_19(quick: bool, tell: Tell) -> Outcome:
    """Does (19) tighten beta? By the exact set over references, limits and targets; by enclosures over boxes."""
    cycle = driving_cycles(0.0, 8.0)[1]
    before = exact_width(cycle)
    found = inputs_over((5.0, 15.0) if quick else (5.0, 10.0, 15.0, 30.0), (0.3, 0.6) if quick else (0.3, 0.6, 1.2), tell)
    of_paper = designed(15.0, 0.6, *WEIGHTS["i = 1 (alpha), as in Fig. 8"])
    assert of_paper is not None
    own = exact_width(of_paper)
    boxes = gains_by_boxes({"Fig. 6": cycle, "(19)": of_paper}, (40, 100) if quick else (40, 100, 200, 400), 1 if quick else 2,
                           tell)
    tighter = {name: [before / d.exact for d in found if d.weights == name] for name in WEIGHTS}
    wider = sorted(d.exact / d.tracking for d in found if d.weights == "i = 2 (beta)" and np.isfinite(d.tracking))
    tie = _rank_correlation([d.top_speed for d in found], [d.exact for d in found])
    wins = sum(d.exact < before for d in found)
    rows = [*((f"exact set, {d.distance:g} rad, {d.limit:g} N m, {d.weights}", before, d.exact, before / d.exact, d.top_speed)
              for d in found), *((f"{way}, {count} boxes", a, b, a / b, "") for way, count, a, b in boxes)]
    said = "; ".join(f"{way} with {count} boxes {a / b:.2g} times" for way, count, a, b in boxes)
    return compared(
        wins == len(found) and all(a > b for _, _, a, b in boxes), "beta is identified significantly sharper with (19)",
        "over the exact set beta is as tight as with the cycle of Fig. 6 times "
        + ", ".join(f"{min(g):.2g} to {max(g):.2g} with {name}" for name, g in tighter.items() if g)
        + f" ({wins} of {len(found)} inputs tighter); with the weights of Fig. 8, 15 rad and 0.6 N m {before / own:.2g} times; "
        f"its enclosures: {said}",
        f"what tightens beta is speed, as far as reference and limit allow it (rank correlation of top speed and exact width "
        f"{tie:.2f}), which i = 1 seeks and i = 2 avoids (with it the exact set is {wider[0]:.2g} to {wider[-1]:.2g} times "
        "that of tracking alone); what an enclosure gains or loses beyond the exact set is due to its number of boxes",
        ("set and input", "width of beta, Fig. 6", "with (19)", "times as tight", "top speed in rad/s"), rows,
        partial(_draw, before, found, boxes))


def _rank_correlation(a: list[float], b: list[float]) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def _draw(before: float, found: list[DesignedInput], boxes: list[tuple[str, int, float, float]], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    for k, name in enumerate(WEIGHTS):
        mine = [d for d in found if d.weights == name]
        left.loglog([d.top_speed for d in mine], [d.exact for d in mine], "o", color=f"C{k}", label=name)
    left.axhline(before, color="k", ls="--", lw=0.8, label="cycle of Fig. 6")
    left.set(xlabel="top speed (rad/s)", ylabel="width of beta, exact set")
    left.legend(frameon=False, fontsize="small")
    for way in dict.fromkeys(row[0] for row in boxes):
        mine_boxes = [row for row in boxes if row[0] == way]
        right.loglog([row[1] for row in mine_boxes], [row[2] / row[3] for row in mine_boxes], "o-", label=way)
    right.axhline(1, color="k", lw=0.8)
    right.set(xlabel="boxes", ylabel="times as tight with (19) as with Fig. 6")
    right.legend(frameon=False, fontsize="small")
