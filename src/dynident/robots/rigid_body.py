"""Rigid body dynamics as expressions: recursive Newton-Euler, composite rigid body, regressor.

All quantities of a body stand in its own frame, about the frame's origin; so every torque is linear in the ten inertial
parameters of each body (Featherstone, Rigid Body Dynamics Algorithms; Khalil and Dombre, ch. 9).
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.robots.kinematic_tree import Body, KinematicTree

GRAVITY = (0.0, 0.0, -9.81)  # m/s^2, along the axes of the base


@dataclass(frozen=True, eq=False)
class _Link:
    """A body's inertial parameters as expressions, and its pose in its parent."""

    mass: ca.SX
    h: ca.SX  # (3, 1) first moments
    inertia: ca.SX  # (3, 3) about the origin
    turn: ca.SX  # (3, 3) its vectors into the parent's frame
    shift: ca.SX  # (3, 1) its origin in the parent's frame


def newton_euler(tree: KinematicTree, q: ca.SX, dq: ca.SX, ddq: ca.SX, inertial: ca.SX,
                     gravity: tuple[float, float, float] = GRAVITY) -> ca.SX:
    """(dof, 1) joint torques (forces of prismatic joints) by the recursive Newton-Euler algorithm.

    `inertial` (10 bodies, 1) are the inertial parameters. Gravity enters as an acceleration of the base.
    """
    links = _links(tree, q, inertial)
    turning: list[ca.SX] = []
    turning_rate: list[ca.SX] = []
    acceleration: list[ca.SX] = []
    forces: list[ca.SX] = []
    moments: list[ca.SX] = []
    for body, link in zip(tree.bodies, links, strict=True):
        w, wd, a = ((ca.SX(3, 1), ca.SX(3, 1), ca.SX(-np.array(gravity))) if body.parent < 0 else
                    (turning[body.parent], turning_rate[body.parent], acceleration[body.parent]))
        rate, rate_change = body.multiplier * dq[body.coordinate], body.multiplier * ddq[body.coordinate]
        axis, back = ca.SX(ca.DM(body.axis)), link.turn.T
        carried = back @ w
        at_origin = back @ (a + ca.cross(wd, link.shift) + ca.cross(w, ca.cross(w, link.shift)))
        if body.prismatic:
            w, wd = carried, back @ wd
            a = at_origin + axis * rate_change + 2 * ca.cross(carried, axis * rate)
        else:
            w, wd = carried + axis * rate, back @ wd + axis * rate_change + ca.cross(carried, axis * rate)
            a = at_origin
        turning.append(w)
        turning_rate.append(wd)
        acceleration.append(a)
        forces.append(link.mass * a + ca.cross(wd, link.h) + ca.cross(w, ca.cross(w, link.h)))
        spin = link.inertia @ w
        moments.append(link.inertia @ wd + ca.cross(w, spin) + ca.cross(link.h, a))
    return _joint_torques(tree, links, forces, moments)


def _joint_torques(tree: KinematicTree, links: list[_Link], forces: list[ca.SX], moments: list[ca.SX]) -> ca.SX:
    """From the tips to the base: each joint carries its body's wrench and those of all behind it."""
    torque = ca.SX(tree.dof, 1)
    for i in reversed(range(len(tree.bodies))):
        body, link = tree.bodies[i], links[i]
        along = forces[i] if body.prismatic else moments[i]
        torque[body.coordinate] += body.multiplier * ca.dot(ca.SX(ca.DM(body.axis)), along)
        if body.parent >= 0:
            force = link.turn @ forces[i]
            forces[body.parent] = forces[body.parent] + force
            moments[body.parent] = moments[body.parent] + link.turn @ moments[i] + ca.cross(link.shift, force)
    return torque


def mass_matrix(tree: KinematicTree, q: ca.SX, inertial: ca.SX) -> ca.SX:
    """(dof, dof) joint space inertia by the composite rigid body algorithm."""
    links = _links(tree, q, inertial)
    composite = [(link.mass, link.h, link.inertia) for link in links]
    for i in reversed(range(len(tree.bodies))):
        parent = tree.bodies[i].parent
        if parent >= 0:
            moved = _seen_from_parent(*composite[i], links[i])
            composite[parent] = tuple(a + b for a, b in zip(composite[parent], moved, strict=True))  # type: ignore[assignment]
    matrix = ca.SX(tree.dof, tree.dof)
    for i, body in enumerate(tree.bodies):
        mass, h, inertia = composite[i]
        axis = ca.SX(ca.DM(body.axis))
        force, moment = (mass * axis, ca.cross(h, axis)) if body.prismatic else (ca.cross(axis, h), inertia @ axis)
        j = i
        while j >= 0:
            other = tree.bodies[j]
            entry = (body.multiplier * other.multiplier
                     * ca.dot(ca.SX(ca.DM(other.axis)), force if other.prismatic else moment))
            matrix[body.coordinate, other.coordinate] += entry
            if j != i:
                matrix[other.coordinate, body.coordinate] += entry
            force = links[j].turn @ force
            moment = links[j].turn @ moment + ca.cross(links[j].shift, force)
            j = other.parent
    return matrix


def regressor(tree: KinematicTree, q: ca.SX, dq: ca.SX, ddq: ca.SX, gravity: tuple[float, float, float] = GRAVITY) -> ca.SX:
    """(dof, 10 bodies): torques = regressor @ inertial parameters."""
    inertial = ca.SX.sym("inertial", 10 * len(tree.bodies))
    return ca.jacobian(newton_euler(tree, q, dq, ddq, inertial, gravity), inertial)


def origin_positions(tree: KinematicTree, q: ca.SX) -> ca.SX:
    """(3, bodies) where the origins of the bodies are, in the frame of the base."""
    found: list[tuple[ca.SX, ca.SX]] = []
    for body, link in zip(tree.bodies, _links(tree, q, ca.SX(10 * len(tree.bodies), 1)), strict=True):
        turn, place = (ca.SX.eye(3), ca.SX(3, 1)) if body.parent < 0 else found[body.parent]
        found.append((turn @ link.turn, place + turn @ link.shift))
    return ca.horzcat(*(place for _, place in found))


def _links(tree: KinematicTree, q: ca.SX, inertial: ca.SX) -> list[_Link]:
    return [_link(body, q, inertial[10 * i:10 * i + 10]) for i, body in enumerate(tree.bodies)]


def _link(body: Body, q: ca.SX, p: ca.SX) -> _Link:
    position = body.multiplier * q[body.coordinate] + body.offset
    rotation, shift = ca.SX(ca.sparsify(ca.DM(body.rotation))), ca.SX(ca.DM(body.position))
    axis = ca.DM(body.axis)
    if body.prismatic:
        turn, shift = rotation, shift + rotation @ ca.SX(axis) * position
    else:
        along = ca.sparsify(axis @ axis.T)
        across = ca.sparsify(ca.DM.eye(3) - along)
        turn = rotation @ (along + ca.cos(position) * across + ca.sin(position) * ca.sparsify(ca.skew(axis)))
    inertia = ca.vertcat(ca.horzcat(p[4], p[5], p[6]), ca.horzcat(p[5], p[7], p[8]), ca.horzcat(p[6], p[8], p[9]))
    return _Link(p[0], p[1:4], inertia, turn, shift)


def _seen_from_parent(mass: ca.SX, h: ca.SX, inertia: ca.SX, link: _Link) -> tuple[ca.SX, ca.SX, ca.SX]:
    """Mass, first moments and inertia of a body about the origin of its parent (Steiner's theorem)."""
    turned = link.turn @ h
    s, p = ca.skew(turned), ca.skew(link.shift)
    return mass, turned + mass * link.shift, link.turn @ inertia @ link.turn.T - s @ p - p @ s - mass * (p @ p)
