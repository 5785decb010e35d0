"""Kinematic tree: which bodies move against each other, once all that is fixed is welded together?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.robots.urdf import MOVING, Inertial, Urdf, UrdfJoint

EXACT_ANGLE = 1e-10  # an entry of a rotation this close to 0 or 1 is one: files write 1.57079632679 for a right angle
INERTIAL_PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")


@dataclass(frozen=True, eq=False)
class Body:
    """One moving body and the joint that carries it; its frame is the joint's.

    `inertial` (10,) are mass, first moments h = m c and the inertia about the frame's origin: torques are linear in them.
    """

    link: str  # the URDF's link
    joint: UrdfJoint
    parent: int  # index of a body, -1: the base
    rotation: np.ndarray  # (3, 3) of the frame at position zero, in the parent's
    position: np.ndarray  # (3,) of its origin
    axis: np.ndarray  # (3,) in the body's own frame
    prismatic: bool
    coordinate: int  # which joint coordinate moves it
    multiplier: float  # of that coordinate; 1 unless it mimics
    offset: float
    inertial: np.ndarray  # (10,)
    welded: tuple[str, ...]  # links that are fixed to it


@dataclass(frozen=True, eq=False)
class KinematicTree:
    """Bodies, each after its parent; `joints` are those that move on their own, in the order of the coordinates."""

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[UrdfJoint, ...]
    base: np.ndarray  # (10,) inertial parameters of what does not move

    @property
    def dof(self) -> int:
        return len(self.joints)

    @property
    def inertial(self) -> np.ndarray:
        """(bodies * 10,) all inertial parameters, body by body."""
        return np.concatenate([body.inertial for body in self.bodies]) if self.bodies else np.zeros(0)


def kinematic_tree(urdf: Urdf, tool: str | None = None, lock: Mapping[str, float] | Sequence[str] = ()) -> KinematicTree:
    """The tree of a robot; `lock` are joints that stay where they are (at zero, or at the given position).

    With `tool`, only joints between the base and that link move; the others are locked at zero.
    """
    positions = _locked(urdf, tool, lock)
    order = _depth_first(urdf)
    moving = [j for j in order if j.kind in MOVING and j.mimic is None and j.name not in positions]
    if not moving:
        raise ProblemError(f"{urdf.source}: no joint is left that moves.")
    number = {joint.name: i for i, joint in enumerate(moving)}
    place: dict[str, tuple[int, np.ndarray, np.ndarray]] = {urdf.root: (-1, np.eye(3), np.zeros(3))}  # body, pose in it
    bodies: list[dict] = []
    base = inertial_parameters(urdf.links[urdf.root])
    for joint in order:
        parent, turn, shift = place[joint.parent]
        rotation, position = turn @ rotation_of(joint.rpy), shift + turn @ np.array(joint.xyz)
        leader = joint.name if joint.mimic is None else joint.mimic.joint
        if joint.kind in MOVING and leader in number:
            place[joint.child] = (len(bodies), np.eye(3), np.zeros(3))
            multiplier, offset = (1.0, 0.0) if joint.mimic is None else (joint.mimic.multiplier, joint.mimic.offset)
            bodies.append({"link": joint.child, "joint": joint, "parent": parent, "rotation": rotation, "position": position,
                           "axis": np.array(joint.axis), "prismatic": joint.kind == "prismatic",
                           "coordinate": number[leader], "multiplier": multiplier, "offset": offset,
                           "inertial": inertial_parameters(urdf.links[joint.child]), "welded": ()})
            continue
        rotation, position = _displaced(joint, rotation, position, positions)
        place[joint.child] = (parent, rotation, position)
        carried = move_inertial(inertial_parameters(urdf.links[joint.child]), rotation, position)
        if parent < 0:
            base = base + carried
        else:
            bodies[parent]["inertial"] = bodies[parent]["inertial"] + carried
            bodies[parent]["welded"] = (*bodies[parent]["welded"], joint.child)
    return KinematicTree(urdf.name, tuple(Body(**body) for body in bodies), tuple(moving), base)


def _locked(urdf: Urdf, tool: str | None, lock: Mapping[str, float] | Sequence[str]) -> dict[str, float]:
    """Joints that stay, with their positions."""
    if isinstance(lock, str):
        raise ProblemError(f"lock is a list of joints; write lock=[{lock!r}].")
    given = {str(k): float(v) for k, v in lock.items()} if isinstance(lock, Mapping) else dict.fromkeys(map(str, lock), 0.0)
    names = [joint.name for joint in urdf.joints]
    faults = [f"lock: there is no joint '{name}'.{did_you_mean(name, names)}" for name in given if name not in names]
    faults += [f"lock: '{j.name}' follows '{j.mimic.joint}'; lock that one." for j in urdf.joints
               if j.mimic and j.name in given]
    if tool is not None and tool not in urdf.links:
        faults.append(f"tool: there is no link '{tool}'.{did_you_mean(tool, urdf.links)}")
    if faults:
        raise ProblemError(faults)
    if tool is not None:
        above = {joint.child: joint for joint in urdf.joints}
        chain, link = set(), tool
        while link in above:
            chain.add(above[link].name)
            link = above[link].parent
        given = {**{j.name: 0.0 for j in urdf.joints if j.kind in MOVING and j.name not in chain and j.mimic is None}, **given}
    return given


def _depth_first(urdf: Urdf) -> list[UrdfJoint]:
    """Joints along the chain; where it branches, in the order of the file."""
    below: dict[str, list[UrdfJoint]] = {}
    for joint in urdf.joints:
        below.setdefault(joint.parent, []).append(joint)
    order: list[UrdfJoint] = []
    ahead = below.get(urdf.root, [])[::-1]
    while ahead:
        joint = ahead.pop()
        order.append(joint)
        ahead += below.get(joint.child, [])[::-1]
    return order


def _displaced(joint: UrdfJoint, rotation: np.ndarray, position: np.ndarray, positions: Mapping[str, float]
               ) -> tuple[np.ndarray, np.ndarray]:
    """The pose of a joint that does not move, at the position in which it is locked."""
    if joint.kind == "fixed":
        return rotation, position
    value = (positions[joint.name] if joint.mimic is None
             else joint.mimic.multiplier * positions[joint.mimic.joint] + joint.mimic.offset)
    axis = np.array(joint.axis)
    if joint.kind == "prismatic":
        return rotation, position + rotation @ axis * value
    return rotation @ rotation_about(axis, value), position


# rotations and inertias


def rotation_of(rpy: Sequence[float]) -> np.ndarray:
    """Roll, pitch, yaw about fixed axes: Rz(yaw) Ry(pitch) Rx(roll)."""
    (sr, sp, sy), (cr, cp, cy) = (tuple(map(f, rpy)) for f in (math.sin, math.cos))
    return exact(np.array([[cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
                           [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr], [-sp, cp * sr, cp * cr]]))


def rotation_about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    k = cross_matrix(axis)
    return exact(np.eye(3) + math.sin(angle) * k + (1 - math.cos(angle)) * k @ k)


def exact(rotation: np.ndarray) -> np.ndarray:
    """Right angles that a file rounds, made right: what cancels must not leave 1e-12 of itself in every equation."""
    nearest = np.round(rotation)
    return np.where(np.abs(rotation - nearest) < EXACT_ANGLE, nearest, rotation)


def cross_matrix(v: np.ndarray) -> np.ndarray:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def inertia_matrix(inertial: np.ndarray) -> np.ndarray:
    """(3, 3) of the ten parameters."""
    ixx, ixy, ixz, iyy, iyz, izz = inertial[4:]
    return np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])


def inertial_parameters(it: Inertial | None) -> np.ndarray:
    """(10,) about the origin of the link's frame; zeros for a link without mass."""
    if it is None:
        return np.zeros(10)
    ixx, ixy, ixz, iyy, iyz, izz = it.inertia
    centred = np.array([it.mass, 0, 0, 0, ixx, ixy, ixz, iyy, iyz, izz], float)
    return move_inertial(centred, rotation_of(it.rpy), np.array(it.xyz))


def move_inertial(inertial: np.ndarray, rotation: np.ndarray, position: np.ndarray) -> np.ndarray:
    """(10,) the same body seen from a frame in which its own frame has this pose (Steiner's theorem)."""
    mass, h = inertial[0], rotation @ inertial[1:4]
    s, p = cross_matrix(h), cross_matrix(position)
    moved = rotation @ inertia_matrix(inertial) @ rotation.T - s @ p - p @ s - mass * p @ p
    return np.array([mass, *(h + mass * position), *moved[np.triu_indices(3)]])
