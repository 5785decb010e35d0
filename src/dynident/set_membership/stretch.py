"""Stretch: consecutive samples of a record in one mode, and what the flow says of the outputs there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.lohner import ROUNDING, CellRows, LohnerFlow, OutputEnclosure, midpoint_radius
from dynident.set_membership.flows.taylor_model_flow import TaylorModelFlow
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.setup import BoundedRecord


@dataclass(frozen=True, eq=False)
class SampleStretch:
    """Consecutive samples in one mode."""

    flow: LohnerFlow | TaylorModelFlow
    record: BoundedRecord  # or a part of one
    known: Interval | None = None  # (samples, states)
    substeps: tuple[int, ...] = ()  # per step; one where nothing is said

    @property
    def samples(self) -> int:
        return self.record.samples

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, samples: int) -> OutputEnclosure:
        """Rows of the first samples over boxes (unknowns, boxes); where times are open, of all cells of their windows."""
        if self.record.windows is not None:
            return self._enclose_windows(lo, hi, self.record.part(0, samples))
        known = None if self.known is None else (self.known[0][:samples], self.known[1][:samples])
        return self.flow.enclose_outputs(lo, hi, self.record.steps[:samples], self.substeps, known)

    def _enclose_windows(self, lo: np.ndarray, hi: np.ndarray, record: BoundedRecord) -> OutputEnclosure:
        """A sample lies in one of the cells of its window: a row per cell, with what the output changes within it."""
        assert isinstance(self.flow, LohnerFlow) and record.windows is not None  # as the setup asks for
        parts = [step.subdivide(self.substeps[j] if self.substeps else 1) for j, step in enumerate(record.steps)]
        begins = np.concatenate([[0], np.cumsum([len(each) for each in parts])])
        listed = [part for each in parts for part in each]
        nodes, change = self.flow.enclose_cells(lo, hi, listed)
        first, last = begins[record.windows[:, 0]], begins[record.windows[:, 1]]
        cells = [np.arange(a, max(b, a + 1)) for a, b in zip(first, last, strict=True)]
        chosen, sizes = np.concatenate(cells), np.array([len(own) for own in cells])
        owner = np.repeat(np.arange(len(cells)), sizes)
        moves = (last > first)[owner][:, None, None]  # a sample whose time is exact has no cell
        shift, wide = midpoint_radius(change)
        offset = nodes.offset[chosen] + np.where(moves, shift[chosen], 0.0)
        error = nodes.error[chosen] + np.where(moves, wide[chosen], 0.0) + ROUNDING * np.abs(offset)
        about = CellRows(np.concatenate([[0], np.cumsum(sizes)[:-1]]), owner, nodes, np.array([first, last]).T,
                         self.flow.continuous_outputs)
        return replace(nodes, a=nodes.a[chosen], offset=offset, error=error * (1 + ROUNDING), cells=about)
