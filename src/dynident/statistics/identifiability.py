"""Identifiability: what can these data determine, which parameters cannot be told apart, and which could no experiment ever?

Practical at a point with the data at hand; structural (`StructuralIdentifiability`) of the model itself: an overparametrised
model has directions that no experiment can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, subspace_angles

from dynident.errors import DynidentError
from dynident.linalg.rank import truncated_svd, unit_columns
from dynident.problem.problem import Problem
from dynident.statistics.identifiable_combinations import identifiable_combinations
from dynident.tolerances import (
    COLLINEAR,
    NEGLIGIBLE_COEFFICIENT,
    NULL_SPACE_COMPONENT,
    SAME_SUBSPACE,
    SINGULAR_VALUE,
    UNIDENTIFIABLE_FACTOR,
    UNIDENTIFIABLE_STD,
    UNSURE_STD,
)

if TYPE_CHECKING:
    from dynident.statistics.covariance import Covariance

TAKES_PART = 0.25  # of the largest entry of a weak direction; parameters above it are named as its group
ROUND = 1e-4  # a coefficient this close to a whole number is written as one


@dataclass(frozen=True)
class CollinearGroup:
    """Parameters whose effects nearly cancel; their errors are `index` times those of orthogonal effects."""

    names: tuple[str, ...]
    index: float  # collinearity index: 1 / smallest singular value of the group's columns of length one

    def __str__(self) -> str:
        return f"{' and '.join(self.names)} are hard to tell apart (collinearity index {self.index:.3g})"


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Rank, undetermined combinations, collinear groups and standard deviations, none of it dependent on units."""

    names: tuple[str, ...]
    rank: int
    singular_values: np.ndarray  # (unknowns,) of the sensitivities with columns of length one, largest first
    condition: float  # largest over smallest; infinite where the rank is deficient
    null_space: np.ndarray  # (unknowns, unknowns - rank) directions in the user's units that change nothing
    no_effect: tuple[str, ...]
    unidentifiable: tuple[str, ...]  # names that take part in an undetermined direction (those without effect included)
    unidentifiable_groups: tuple[tuple[str, ...], ...]  # the undetermined names by independent group
    combinations: tuple[str, ...]  # what of each group is determined, in words
    groups: tuple[CollinearGroup, ...]  # nearly, not exactly, undetermined
    std: np.ndarray  # (unknowns,) for residuals of standard deviation one; infinite where undetermined
    relative_std: np.ndarray  # std / |value|; infinite where the value is zero

    @property
    def complete(self) -> bool:
        return not self.unidentifiable

    def __str__(self) -> str:
        lines = [f"the data determine {self.rank} of {len(self.names)} unknowns (condition {self.condition:.3g})"]
        return "\n".join([*lines, *self.combinations, *map(str, self.groups)])


def identifiability(names: Sequence[str], values: np.ndarray, scales: np.ndarray, jacobian: np.ndarray,
                    smallest: float = SINGULAR_VALUE) -> Identifiability:
    """Judge sensitivities (residuals, unknowns) of residuals that are in units of their standard deviation.

    `scales` holds a typical magnitude per unknown, NaN where none is known. `smallest` is the relative singular value
    that counts as zero: raise it to about the relative error of the derivatives where these are finite differences.
    """
    names = tuple(names)
    values = np.asarray(values, float)
    jacobian = np.asarray(jacobian, float)
    bad = [name for name, column in zip(names, jacobian.T, strict=True) if not np.all(np.isfinite(column))]
    if bad:
        here = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, values, strict=True))
        raise DynidentError(f"the sensitivity to {', '.join(bad)} is not finite; the model cannot be differentiated "
                            f"at these values ({here}). Start elsewhere, or narrow the bounds.")
    unit, norms, dead = unit_columns(jacobian, scales)
    svd = truncated_svd(np.asarray(np.linalg.qr(unit, mode="r")), smallest, null_space=True)
    s, rank, null = svd.singular_values, svd.rank, svd.null_space  # in units of 1/norms
    touched = np.sqrt(np.sum(null**2, axis=1)) > NULL_SPACE_COMPONENT
    spread = np.sqrt(np.sum(svd.scaled_directions**2, axis=1)) / norms
    std = np.where(touched, np.inf, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(values == 0, np.inf, std / np.abs(values))
    words = identifiable_combinations(names, values, null, norms)
    return Identifiability(
        names=names, rank=rank, singular_values=s, null_space=null / norms[:, None],
        condition=float(s[0] / s[-1]) if len(names) and rank == len(names) else (np.inf if len(names) else 1.0),
        no_effect=tuple(n for n, d in zip(names, dead, strict=True) if d),
        unidentifiable=tuple(n for n, t in zip(names, touched, strict=True) if t),
        unidentifiable_groups=tuple(tied for tied, _ in words), combinations=tuple(text for _, text in words),
        groups=_groups(names, unit, s[:rank], svd.row_basis),
        std=std, relative_std=relative)


def _groups(names: tuple[str, ...], unit: np.ndarray, s: np.ndarray, right: np.ndarray) -> tuple[CollinearGroup, ...]:
    """One group per weak direction: the parameters that take part in it."""
    groups: list[tuple[int, ...]] = []
    for value, direction in zip(s, right, strict=True):
        if value * COLLINEAR < s[0]:
            weight = np.abs(direction)
            members = tuple(np.flatnonzero(weight >= TAKES_PART * weight.max()).tolist())
            if len(members) > 1 and members not in groups:  # one alone is weak beside others, and parallel to none
                groups.append(members)
    found = []
    for members in groups:
        smallest = np.linalg.svd(np.linalg.qr(unit[:, list(members)], mode="r"), compute_uv=False)[-1]
        found.append(CollinearGroup(tuple(names[i] for i in members), float(1 / max(smallest, np.finfo(float).tiny))))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class StructuralIdentifiability:
    """Generic rank of the sensitivities, found at random values with rich random inputs: a property of the model itself.

    Local: it does not see that two distant sets of values may give the same outputs. With probability one it errs only towards
    'unidentifiable', where the inputs or the time were too poor. See the manual, explain/identifiability.

    Attributes
    ----------
    names : tuple of str
        Parameters, and initial states that are not known.
    rank : int
        How many independent combinations the outputs determine.
    unidentifiable : tuple of str
        Names that are not determined by themselves.
    groups : tuple of tuple of str
        These by independent group.
    combinations : tuple of str
        What of each group is determined, in words.
    base : tuple of str
        Base parameters where the relations are linear with fixed coefficients, else nothing.
    weakest : float
        Smallest singular value that counts, relative; close to 1e-8 the answer is not sure.
    jumps : tuple of str
        Names with a piecewise constant effect: seen by differences, and by no derivative.

    Examples
    --------
    >>> import dynident as di
    >>> model = di.EquationModel(states={"x": "-a*b*x"})
    >>> found = di.structural_identifiability(model, {"a": 1, "b": 2}, duration=2)
    >>> found.identifiable, found.rank, found.names
    (False, 2, ('a', 'b', 'x(0)'))
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
        """Whether all unknowns are determined."""
        return self.rank == len(self.names)

    def shows(self, name: str) -> bool:
        """Whether an unknown is determined by itself."""
        return name not in self.unidentifiable

    def __str__(self) -> str:
        jumps = [f"{', '.join(self.jumps)}: piecewise constant effect, seen by no derivative, where inputs are held between "
                 "samples or a condition stands inside of where()."] if self.jumps else []
        if self.identifiable:
            return "\n".join([f"The model shows all {len(self.names)} unknowns: {', '.join(self.names)}. An input that is rich "
                              "enough can tell them apart.", *jumps])
        lines = [f"The model shows {self.rank} of {len(self.names)} unknowns; no input can tell the rest apart:",
                 *(f"  {words}" for words in self.combinations)]
        return "\n".join([*lines, *jumps, *([f"  base parameters: {', '.join(self.base)}"] if self.base else [])])


def structural_identifiability_from(names: Sequence[str], points: Sequence[np.ndarray], jacobians: Sequence[np.ndarray],
                                    sizes: np.ndarray) -> StructuralIdentifiability:
    """From Jacobians (rows, unknowns) at several points of equal rank; what is hidden is said by who has verified it."""
    seen = [identifiability(names, point, sizes, J) for point, J in zip(points, jacobians, strict=True)]
    best = max(range(len(seen)), key=lambda i: (seen[i].rank, _weakest(seen[i])))
    known = seen[best]
    equal = [each for each in seen if each.rank == known.rank]
    return StructuralIdentifiability(known.names, known.rank, known.unidentifiable, (), (),
                                     _base(known, jacobians[best]) if _fixed_ties(equal) else (), _weakest(known))


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
            if abs(share[i, j]) > NEGLIGIBLE_COEFFICIENT:
                terms.append(_term(share[i, j] * lengths[other] / lengths[own], known.names[other]))
        words.append("".join(terms))
    return tuple(words)


def _term(coefficient: float, name: str) -> str:
    size = abs(coefficient)
    whole = round(size)
    text = f"{whole:d}" if whole and abs(size - whole) < ROUND * whole else f"{size:.4g}"
    return f"{' - ' if coefficient < 0 else ' + '}{'' if text == '1' else f'{text} '}{name}"


def find_practically_unidentifiable(problem: Problem, covariance: Covariance) -> tuple[str, ...]:
    """Unknowns whose standard deviation reaches beyond anything that a linearisation can speak of.

    The value alone is no measure: where the data do not hold it, the fit carries it about one std away.
    """
    found = []
    for u, value in zip(problem.unknowns, covariance.values, strict=True):
        std = covariance.std(u.name)
        if u.name in covariance.active or u.name in covariance.unidentifiable or not np.isfinite(std):
            continue
        expected = u.scale if u.scale is not None else abs(u.start) if u.start else np.inf  # inf: nothing was expected
        wide = std > u.upper - u.lower  # the bounds say more than the data
        far = (std > np.log(UNIDENTIFIABLE_FACTOR) * value if u.log
               else std > UNIDENTIFIABLE_STD * expected and std > UNSURE_STD * abs(value))
        if wide or far:
            found.append(u.name)
    return tuple(found)


def typical_values(problem: Problem, values: np.ndarray) -> np.ndarray:
    """(unknowns,) the user's scale, or the larger of start and value; NaN where neither tells a magnitude."""
    sizes = [u.scale if u.scale is not None else (max(abs(u.start), abs(v)) if u.start else np.nan)
             for u, v in zip(problem.unknowns, values, strict=True)]
    return np.array(sizes, float)
