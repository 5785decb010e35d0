"""Structural: which parameters could no experiment ever tell apart, and what of them is determined?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, subspace_angles

from dynident.statistics.identifiability import Identifiability

SAME_SUBSPACE = 1e-4  # rad; directions that agree at random points this closely do not depend on the values
NEGLIGIBLE = 1e-6  # coefficient, in units of the columns' lengths, that is rounding
ROUND = 1e-4  # a coefficient this close to a whole number is written as one


@dataclass(frozen=True, eq=False)
class StructuralIdentifiability:
    """Generic rank of the sensitivities, found at random values with rich random inputs: true of the model itself.

    Local: it does not see that two distant sets of values may give the same outputs. With probability one it errs only
    towards 'unidentifiable', where the inputs or the time were too poor.
    """

    names: tuple[str, ...]
    rank: int
    unidentifiable: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]  # the undetermined names by independent group
    combinations: tuple[str, ...]  # what of each group is determined, in words
    base: tuple[str, ...]  # base parameters where the ties are linear with fixed coefficients, else nothing
    weakest: float  # smallest singular value that counts, relative; close to 1e-8 the verdict is not sure
    jumps: tuple[str, ...] = ()  # names that act in jumps only: seen by differences, and by no derivative

    @property
    def identifiable(self) -> bool:
        return self.rank == len(self.names)

    def shows(self, name: str) -> bool:
        return name not in self.unidentifiable

    def __str__(self) -> str:
        jumps = [f"{', '.join(self.jumps)}: seen in jumps only, by no derivative, where inputs are held between samples or a "
                 "condition stands inside of where()."] if self.jumps else []
        if self.identifiable:
            return "\n".join([f"The model shows all {len(self.names)} unknowns: {', '.join(self.names)}. An input that is rich "
                              "enough can tell them apart.", *jumps])
        lines = [f"The model shows {self.rank} of {len(self.names)} unknowns; no input can tell the rest apart:",
                 *(f"  {words}" for words in self.combinations)]
        return "\n".join([*lines, *jumps, *([f"  base parameters: {', '.join(self.base)}"] if self.base else [])])


def structural_identifiability_from(seen: Sequence[tuple[Identifiability, np.ndarray]]) -> StructuralIdentifiability:
    """From what was found at several random points, each with its Jacobian (rows, unknowns)."""
    best, jacobian = max(seen, key=lambda each: (each[0].rank, _weakest(each[0])))
    equal = [(known, J) for known, J in seen if known.rank == best.rank]
    return StructuralIdentifiability(best.names, best.rank, best.unidentifiable, best.tied, best.combinations,
                     _base(best, jacobian) if _fixed_ties([known for known, _ in equal]) else (), _weakest(best))


def _weakest(known: Identifiability) -> float:
    s = known.singular_values[:known.rank]
    return float(s[-1] / s[0]) if s.size else 1.0


def _fixed_ties(points: Sequence[Identifiability]) -> bool:
    """Whether the directions that change nothing are the same at all points: ties that are linear."""
    touched = [points[0].names.index(name) for name in points[0].unidentifiable]
    first = points[0].null_space[touched]
    if not first.size or len(points) < 2:
        return False
    unit = np.linalg.norm(first, axis=1)[:, None]  # units taken out, the same at all points
    angles = [subspace_angles(first / unit, other.null_space[touched] / unit) for other in points[1:]]
    return all(float(np.max(angle)) < SAME_SUBSPACE for angle in angles)


def _base(known: Identifiability, jacobian: np.ndarray) -> tuple[str, ...]:
    """Independent columns by pivoting; each base parameter takes up the dependent ones with their coefficients."""
    lengths = np.linalg.norm(jacobian, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    _, R, order = qr(jacobian / lengths, mode="economic", pivoting=True)
    rank = known.rank
    share = np.linalg.solve(R[:rank, :rank], R[:rank, rank:])  # (rank, dependent), columns of length one
    words = []
    for i, own in enumerate(order[:rank]):
        terms = [known.names[own]]
        for j, other in enumerate(order[rank:]):
            if abs(share[i, j]) > NEGLIGIBLE:
                terms.append(_term(share[i, j] * lengths[other] / lengths[own], known.names[other]))
        words.append("".join(terms))
    return tuple(words)


def _term(coefficient: float, name: str) -> str:
    size = abs(coefficient)
    whole = round(size)
    text = f"{whole:d}" if whole and abs(size - whole) < ROUND * whole else f"{size:.4g}"
    return f"{' - ' if coefficient < 0 else ' + '}{'' if text == '1' else f'{text} '}{name}"
