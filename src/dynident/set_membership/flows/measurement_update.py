"""Pieces: boxes at the end of a step, and what a measurement there leaves of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, Step, gathered, rows_of
from dynident.set_membership.flows.interval_automaton import Automaton
from dynident.set_membership.flows.mode_flow import ModeFlow
from dynident.set_membership.intervals.arithmetic import Ends


@dataclass(frozen=True, eq=False)
class Piece:
    """Boxes after a step, with the rows they came from where one flow leads from these to those."""

    ends: Boxes
    flow: ModeFlow | None = None
    rows: Ends | None = None


@dataclass(frozen=True, eq=False)
class Sample:
    """What was measured at the end of a step."""

    step: Step  # that begins here: time and inputs
    low: np.ndarray  # (outputs,); -inf where nothing was measured
    high: np.ndarray

    @property
    def empty(self) -> bool:
        return not np.isfinite(self.low).any()


def measured(pieces: Iterable[Piece], automaton: Automaton, sample: Sample, backward: bool) -> Boxes:
    """Only what a sample leaves; `backward`, also of the parameters."""
    done = []
    for piece in pieces:
        if not piece.ends.count:
            continue
        if not sample.empty:
            piece = fitting(piece, automaton, sample)
            piece = narrowed(piece, automaton.layout.states) if backward else piece
        done.append(piece.ends)
    return gathered(done, automaton.layout.unknowns)


def fitting(piece: Piece, automaton: Automaton, sample: Sample) -> Piece:
    """The piece without what the outputs exclude."""
    unknowns = automaton.layout.unknowns
    rows = rows_of(automaton.layout, piece.ends.lo, piece.ends.hi, sample.step)
    lo, hi = automaton.output.contract(*rows, sample.low[:, None], sample.high[:, None])
    fits = np.all(lo[:unknowns] <= hi[:unknowns], axis=0)
    ends = Boxes(lo[:unknowns, fits], hi[:unknowns, fits], piece.ends.mode[fits])
    return replace(piece, ends=ends, rows=None if piece.rows is None else (piece.rows[0][:, fits],
                                                                          piece.rows[1][:, fits]))


def narrowed(piece: Piece, layout_states: int) -> Piece:
    """Backward: no parameters or ends without a way from where the boxes came from to where they are."""
    if piece.flow is None or piece.rows is None or piece.flow.still or not piece.ends.count:
        return piece
    n, k = layout_states, piece.ends.lo.shape[0]
    lo, hi = piece.rows[0].copy(), piece.rows[1].copy()
    lo[n:k], hi[n:k] = piece.ends.lo[n:], piece.ends.hi[n:]
    (low, high), end = piece.flow.narrow(lo, hi, (piece.ends.lo[:n], piece.ends.hi[:n]))
    fits = np.all(low <= high, axis=0) & np.all(end[0] <= end[1], axis=0)
    ends = replace(piece.ends, lo=np.concatenate([end[0], low[n:]]), hi=np.concatenate([end[1], high[n:]]))
    return Piece(ends.where(fits))
