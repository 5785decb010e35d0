"""Singular inertia: is there a joint whose torque nothing resists, so that no acceleration follows from it?

A link that is a point on its joint's axis, or two massless links whose tip is stretched out: forward dynamics divide by zero
there. Inverse dynamics do not mind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from dynident.tolerances import NO_INERTIA, SINGULAR_INERTIA

if TYPE_CHECKING:
    from dynident.robots.model import RobotModel

POSITIONS_TRIED = 5  # positions of one's own, beside those that are given


def unresisted_joint(arm: RobotModel, values: Mapping[str, float], positions: np.ndarray) -> str:
    """A sentence that names the joint and the way out; empty where every joint moves some inertia at all these positions.

    `positions` (n, dof) are those of a record or of a start; a few more are tried, for what is singular everywhere.
    """
    q = ca.SX.sym("q", arm.dof)
    own = np.random.default_rng(0).uniform(-1.5, 1.5, (POSITIONS_TRIED, arm.dof))
    tried = np.vstack([own, positions[np.all(np.isfinite(positions), axis=1)]])
    function = ca.Function("mass_matrix", [q], [ca.densify(arm.mass_matrix(q, values))])
    matrices = np.array(function.map(len(tried))(tried.T)).reshape(arm.dof, len(tried), arm.dof).transpose(1, 0, 2)
    size = np.sqrt(np.max(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), axis=0))  # per joint, over all positions
    of_links = np.max(arm.tree.inertial.reshape(-1, 10)[:, [4, 7, 9]], initial=0.0)  # about their own frames
    if not np.all(size**2 > NO_INERTIA * max(of_links, np.max(size**2, initial=0.0))):
        return _sentence(arm, int(np.argmin(size)), "")
    eigenvalues, vectors = np.linalg.eigh(matrices / size / size[:, None])
    smallest = np.argmin(np.abs(eigenvalues), axis=1)
    rows = np.flatnonzero(np.abs(eigenvalues[np.arange(len(tried)), smallest]) < SINGULAR_INERTIA)
    if not rows.size:
        return ""
    there = int(rows[0])
    joint = int(np.argmax(np.abs(vectors[there][:, smallest[there]])))
    everywhere = rows.size == len(tried)
    return _sentence(arm, joint, "" if everywhere else f" at q = {', '.join(f'{v:.4g}' for v in tried[there])}")


def _sentence(arm: RobotModel, joint: int, where: str) -> str:
    name, number = arm.joints[joint], joint + 1
    link = next(body.link for body in arm.tree.bodies if body.coordinate == joint)
    return (f"{arm.name}: nothing resists the torque of joint {number} ('{name}'){where}: with these values the inertia that "
            f"it moves is zero, so no acceleration follows. Give link '{link}' or what hangs on it an inertia about that "
            f"joint, give the joint a motor (motor_inertia=True and a value of Ia_{number}), or lock it.")
