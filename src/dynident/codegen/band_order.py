"""Band order: in which order do the states couple to near neighbours only, so that elimination stays within a band?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORTH_A_BAND = 0.5  # of the matrix; a wider band is not worth its indices


@dataclass(frozen=True)
class BandOrder:
    """The place of each state, and how far entries lie below and above the diagonal then."""

    place: tuple[int, ...]
    lower: int
    upper: int


def band_order(size: int, places: Sequence[tuple[int, int]], squared: bool = False) -> BandOrder:
    """By reverse Cuthill-McKee; as they stand, in a full band, where that is not narrow. `squared`: of the square."""
    full = BandOrder(tuple(range(size)), max(size - 1, 0), max(size - 1, 0))
    if size < 3:
        return full
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    rows, columns = np.array([*places, *((i, i) for i in range(size))]).T
    pattern = coo_array((np.ones(rows.size), (rows, columns)), shape=(size, size)).tocsr()
    pattern = pattern @ pattern if squared else pattern
    order = reverse_cuthill_mckee((pattern + pattern.T).tocsr())
    place = np.empty(size, int)
    place[order] = np.arange(size)
    entries = pattern.tocoo()
    below = place[entries.row] - place[entries.col]
    lower, upper = int(max(below.max(), 0)), int(max((-below).max(), 0))
    if 2 * lower + upper + 1 > WORTH_A_BAND * size:
        return full
    return BandOrder(tuple(int(k) for k in place), lower, upper)
