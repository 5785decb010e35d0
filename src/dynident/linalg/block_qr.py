"""Block QR: the orthogonal factors of a Jacobian of many experiments, without what one cannot know of another.

Columns that touch one experiment only (its initial states, parameters of its own) are reflected within its rows; the
others meet afterwards. The cost is linear in the number of experiments, and the basis is zero where it can be.
"""

from __future__ import annotations

import numpy as np

Part = tuple[np.ndarray, np.ndarray]  # rows, and the columns of a basis that are not zero in them


def block_qr(jacobian: np.ndarray, experiment: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[Part, ...]]:
    """An orthonormal basis (rows, k), a factor (k, columns) with jacobian = basis @ factor, and the parts of the basis.

    `experiment` (rows,) says to which one each row belongs, -1 for rows of none (priors, constraints).
    """
    owner, home = _owners(jacobian, experiment)
    shared = np.flatnonzero(owner < 0)
    tops, rests = [], []
    for e in np.unique(home):
        rows, own = np.flatnonzero(home == e), np.flatnonzero(owner == e) if e >= 0 else np.zeros(0, int)
        Q, R = np.linalg.qr(jacobian[np.ix_(rows, np.append(own, shared))])
        top = min(own.size, R.shape[0])
        tops.append((rows, own, Q[:, :top], R[:top]))
        rests.append((Q[:, top:], R[top:, own.size:]))
    meeting, last = np.linalg.qr(np.vstack([np.zeros((0, shared.size)), *[rest for _, rest in rests]]))
    first = sum(top.shape[0] for *_, top in tops)
    basis = np.zeros((jacobian.shape[0], first + last.shape[0]))
    factor = np.zeros((basis.shape[1], jacobian.shape[1]))
    factor[first:, shared] = last
    parts = []
    at = below = 0
    for (rows, own, Q, R), (Q_rest, rest) in zip(tops, rests, strict=True):
        basis[rows, at:at + len(R)] = Q
        basis[rows, first:] = Q_rest @ meeting[below:below + len(rest)]
        factor[at:at + len(R), np.append(own, shared)] = R
        parts.append((rows, np.append(np.arange(at, at + len(R)), np.arange(first, basis.shape[1]))))
        at, below = at + len(R), below + len(rest)
    return basis, factor, tuple(parts)


def _owners(jacobian: np.ndarray, experiment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per column the one experiment that it touches (-1: several or none), per row the experiment where it is reflected."""
    owner = np.full(jacobian.shape[1], -1)
    users = np.zeros(jacobian.shape[1], int)
    for e in np.unique(experiment[experiment >= 0]):
        used = np.any(jacobian[experiment == e] != 0, axis=0)
        users += used
        owner[used] = e
    owner[users != 1] = -1
    home = experiment.copy()
    for row in np.flatnonzero(experiment < 0):
        touched = np.flatnonzero(jacobian[row])
        mine = np.unique(owner[touched][owner[touched] >= 0])
        if mine.size == 1:
            home[row] = mine[0]
        elif mine.size:  # a row that ties experiments together: what it ties is shared
            owner[touched] = -1
    return owner, home
