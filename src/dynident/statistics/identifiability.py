"""Identifiability: what can the data determine, and which parameters cannot be told apart?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.errors import DynidentError
from dynident.linalg.rank import truncated_svd, unit_columns
from dynident.statistics.identifiable_combinations import identifiable_combinations
from dynident.tolerances import NULL_SPACE_COMPONENT, SINGULAR_VALUE

COLLINEAR = 10.0  # condition index from which columns are near-collinear: two that correlate by 0.98 (Brun et al. 2001)
TAKES_PART = 0.25  # of the largest entry of a weak direction; parameters above it are named as its group


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
    tied: tuple[tuple[str, ...], ...]  # the undetermined names by independent group
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
        tied=tuple(tied for tied, _ in words), combinations=tuple(text for _, text in words),
        groups=_groups(names, unit, s[:rank], svd.row_basis),
        std=std, relative_std=relative)


def _groups(names: tuple[str, ...], unit: np.ndarray, s: np.ndarray, right: np.ndarray) -> tuple[CollinearGroup, ...]:
    """One group per weak direction: the parameters that take part in it."""
    groups: list[tuple[int, ...]] = []
    for value, direction in zip(s, right, strict=True):
        if value * COLLINEAR < s[0]:
            weight = np.abs(direction)
            members = tuple(np.flatnonzero(weight >= TAKES_PART * weight.max()).tolist())
            if members not in groups:
                groups.append(members)
    found = []
    for members in groups:
        smallest = np.linalg.svd(np.linalg.qr(unit[:, list(members)], mode="r"), compute_uv=False)[-1]
        found.append(CollinearGroup(tuple(names[i] for i in members), float(1 / max(smallest, np.finfo(float).tiny))))
    return tuple(found)
