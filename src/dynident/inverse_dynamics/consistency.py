"""Physical consistency: the nearest parameters that bodies of positive mass density could have.

A body's pseudo-inertia, the 4x4 matrix [tr(I)/2 1 - I, h; h', m], is positive definite if and only if some density makes its
ten parameters (Wensing, Kim, Slotine, IEEE RA-L 3, 2018). The nearest set in the sense of the torques is a semidefinite
program; Clarabel solves it. Without Clarabel the violations are only reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dynident.errors import NotSupported
from dynident.robots.model import RobotModel
from dynident.tolerances import IMPOSSIBLE_BODY

INSTALL = "Physical consistency needs the package Clarabel: pip install \"dynident[robots]\"."
CONSISTENCY_MARGIN = 1e-6  # of a link's own scale: so far from zero eigenvalues stay positive in a file with ten digits
TOWARDS_NOMINAL = 1e-8  # weight of staying near the file's values, which decides what the torques do not


@dataclass(frozen=True, eq=False)
class ConsistentParameters:
    """All inertial and drive parameters by name, possible for real bodies, and whether the solver got there."""

    values: Mapping[str, float]
    solved: bool
    status: str


def pseudo_inertia(ten: Sequence[float] | np.ndarray) -> np.ndarray:
    """(4, 4) of mass, first moments and inertia about the frame's origin."""
    m, h = ten[0], np.asarray(ten[1:4], float)
    inertia = np.array([[ten[4], ten[5], ten[6]], [ten[5], ten[7], ten[8]], [ten[6], ten[8], ten[9]]], float)
    return np.block([[np.trace(inertia) / 2 * np.eye(3) - inertia, h[:, None]], [h[None], np.array([[m]])]])


def impossible_links(arm: RobotModel, values: Mapping[str, float]) -> tuple[int, ...]:
    """Numbers of the links whose pseudo-inertia has a negative eigenvalue."""
    found = []
    for k in range(len(arm.tree.bodies)):
        eigenvalues = np.linalg.eigvalsh(pseudo_inertia([values[n] for n in arm.inertial_names[10 * k:10 * k + 10]]))
        if eigenvalues[0] < -IMPOSSIBLE_BODY * max(eigenvalues[-1], np.finfo(float).tiny):
            found.append(k + 1)
    return tuple(found)


def have_clarabel() -> bool:
    import importlib.util

    return importlib.util.find_spec("clarabel") is not None


def consistent_parameters(arm: RobotModel, fitted: Mapping[str, float], jacobian: np.ndarray,
                          towards_file: float = TOWARDS_NOMINAL, held: Collection[str] = ()) -> ConsistentParameters:
    """The possible parameters whose torques are nearest to those of `fitted`.

    `jacobian` (rows, arm.parameters) is that of the weighted torques. Dry, viscous and motor inertia are not negative.
    Distances of inertias to the file's, and of drives to the fitted ones, count `towards_file` times as much as torques do, in
    the mean of all parameters. What is `held` stays at its fitted value, and links of which all is held are left alone.
    """
    try:
        import clarabel
    except ImportError:
        raise NotSupported(INSTALL) from None
    names = (*arm.inertial_names, *arm.drive_names)
    nominal = np.array([*arm.nominal_inertial().values(), *(fitted[n] for n in arm.drive_names)])  # a file knows no friction
    scale = _scales(arm, nominal)
    spread = np.zeros((len(arm.parameters), len(names)))  # parameters that act, out of all
    for i, name in enumerate(arm.parameters):
        spread[i, names.index(name)] = 1.0
    triangle = np.linalg.qr(jacobian, mode="r") @ spread * scale  # per scaled parameter
    start = np.array([fitted.get(n, v) for n, v in zip(names, nominal, strict=True)]) / scale
    weight = float(np.trace(triangle.T @ triangle)) / len(names)
    hessian = triangle.T @ triangle / weight + towards_file * np.eye(len(names))
    linear = -(triangle.T @ triangle / weight) @ start - towards_file * nominal / scale
    kept = [i for i, name in enumerate(names) if name in held]
    links = [k for k in range(len(arm.tree.bodies)) if not held
             or any(n in arm.parameters and n not in held for n in arm.inertial_names[10 * k:10 * k + 10])]
    signed = [i for i, n in enumerate(names) if n.startswith(("Fc_", "Fv_", "Ia_")) and i not in kept]
    rows, rhs, cones = _cones(clarabel, links, signed, len(names), scale)
    if kept:
        rows, rhs = np.vstack([np.eye(len(names))[kept], rows]), np.concatenate([start[kept], rhs])
        cones = [clarabel.ZeroConeT(len(kept)), *cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, tolerance, 1e-10)
    solution = clarabel.DefaultSolver(sparse.csc_matrix(np.triu(hessian)), linear, sparse.csc_matrix(rows), rhs, cones,
                                      settings).solve()
    values = dict(zip(names, map(float, np.array(solution.x) * scale), strict=True))
    values |= {names[i]: float(start[i] * scale[i]) for i in kept}  # to the last digit
    impossible = [link for link in impossible_links(arm, values) if link - 1 in links]
    solved = str(solution.status) in ("Solved", "AlmostSolved") and not impossible
    return ConsistentParameters(values, solved, str(solution.status))


def _scales(arm: RobotModel, nominal: np.ndarray) -> np.ndarray:
    """Typical sizes: of an arm's masses, moments and inertias; of drives their own, whatever their unit."""
    links = nominal[:10 * len(arm.tree.bodies)].reshape(-1, 10)
    kinds = [links[:, :1], links[:, 1:4], links[:, 4:]]
    sizes = [max(float(np.max(np.abs(part))), 1e-3) for part in kinds]
    return np.array([sizes[0], *[sizes[1]] * 3, *[sizes[2]] * 6] * len(links)
                    + [max(1.0, abs(value)) for value in nominal[links.size:]])


def _cones(clarabel: Any, links: Sequence[int], signed: Sequence[int], count: int, scale: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """rhs - rows @ x in the cones: each pseudo-inertia of these links positive, these friction and motors not negative."""
    rows, rhs, cones = [np.zeros((0, count))], [np.zeros(0)], []
    if signed:
        rows.append(-np.eye(count)[signed])
        rhs.append(np.zeros(len(signed)))
        cones.append(clarabel.NonnegativeConeT(len(signed)))
    lengths = np.array([1.0, 1.0, 1.0, 0.0])  # a length per entry makes the eigenvalues of one size
    for k in links:
        unit = np.sqrt(scale[10 * k + 4] / scale[10 * k])  # radius of gyration
        balance = np.diag(np.where(lengths, 1 / unit, 1.0)) / np.sqrt(scale[10 * k])
        block = np.zeros((10, count))
        for i in range(10):
            column = np.zeros(10)
            column[i] = scale[10 * k + i]
            block[:, 10 * k + i] = -_svec(balance @ pseudo_inertia(column) @ balance)
        rows.append(block)
        rhs.append(-CONSISTENCY_MARGIN * _svec(np.eye(4)))
        cones.append(clarabel.PSDTriangleConeT(4))
    return np.vstack(rows), np.concatenate(rhs), cones


def _svec(matrix: np.ndarray) -> np.ndarray:
    """(10,) upper triangle, column by column, off-diagonal entries times sqrt(2)."""
    return np.array([matrix[i, j] * (1.0 if i == j else np.sqrt(2.0)) for j in range(4) for i in range(j + 1)])
