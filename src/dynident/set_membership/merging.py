"""Merging: how are there fewer boxes, at little cost, and never across modes?"""

from __future__ import annotations

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, gathered

BITS = 10  # per row of a Morton code: neighbours at a thousandth of the spread are neighbours in the list
MOST_ROUNDS = 40


def merged(boxes: Boxes, cap: int, first_width: np.ndarray) -> Boxes:
    """At most `cap` boxes (or one per mode): neighbours in Morton order are joined, cheapest first."""
    for _ in range(MOST_ROUNDS):
        if boxes.count <= max(cap, 1):
            return boxes
        before = boxes.count
        boxes = _one_round(boxes, before - cap, first_width)
        if boxes.count == before:
            return boxes
    return boxes


def _one_round(boxes: Boxes, surplus: int, first_width: np.ndarray) -> Boxes:
    boxes = boxes.where(np.lexsort((_morton(boxes), boxes.mode)))
    lo, hi = np.minimum(boxes.lo[:, :-1], boxes.lo[:, 1:]), np.maximum(boxes.hi[:, :-1], boxes.hi[:, 1:])
    width = (boxes.hi - boxes.lo) / first_width[:, None]
    with np.errstate(invalid="ignore"):  # what is infinite before and after has not grown
        growth = np.nan_to_num((hi - lo) / first_width[:, None] - np.maximum(width[:, :-1], width[:, 1:]), nan=0.0)
    cost = np.sum(growth, axis=0)
    cost[boxes.mode[:-1] != boxes.mode[1:]] = np.inf
    chosen = _apart(cost, surplus)
    if not chosen.size:
        return boxes
    joined = Boxes(lo[:, chosen], hi[:, chosen], boxes.mode[chosen])
    kept = np.ones(boxes.count, bool)
    kept[chosen] = kept[chosen + 1] = False
    return gathered([boxes.where(kept), joined], boxes.lo.shape[0])


def _apart(cost: np.ndarray, surplus: int) -> np.ndarray:
    """Positions of the cheapest pairs that share no box: each is cheaper than both of its neighbours."""
    left, right = np.append(np.inf, cost[:-1]), np.append(cost[1:], np.inf)
    order = np.arange(cost.size)
    lowest = np.isfinite(cost) & ((cost < left) | ((cost == left) & (order % 2 == 0))) & (
        (cost < right) | ((cost == right) & (order % 2 == 0)))
    pairs = np.flatnonzero(lowest)
    pairs = pairs[np.concatenate([[True], np.diff(pairs) > 1])] if pairs.size else pairs
    return pairs if pairs.size <= surplus else pairs[np.argpartition(cost[pairs], surplus)[:surplus]]


def _morton(boxes: Boxes) -> np.ndarray:
    """One number per box in which the bits of all its (moving) midpoints alternate."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (boxes.lo + boxes.hi)  # no number where a box has no end
    low, high = middle.min(axis=1), middle.max(axis=1)
    rows = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))[-6:]  # six rows of ten bits fill a code
    code = np.zeros(boxes.count, np.int64)
    for place, row in enumerate(rows):
        cell = ((middle[row] - low[row]) / (high[row] - low[row]) * (2**BITS - 1)).astype(np.int64)
        for bit in range(BITS):
            code |= ((cell >> bit) & 1) << (bit * len(rows) + place)
    return code
