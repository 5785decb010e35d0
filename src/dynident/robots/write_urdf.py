"""Write URDF: how do identified parameters get back into the robot's file?

Only inertias, joint friction and the type of locked joints change; all else of the file stays as it was. What fixed joints weld
together is written into the link that carries it. What URDF cannot hold stands in a TOML file beside it (`drive_file.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np

from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError
from dynident.robots.drive_file import write_drives
from dynident.robots.kinematic_tree import inertia_matrix
from dynident.robots.model import RobotModel

IN_DYNAMICS = {"Fc": "friction", "Fv": "damping"}  # what URDF's <dynamics> can hold
ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def write_urdf(arm: RobotModel, parameters: Mapping[str, float], path: str | Path) -> Path:
    """Write the arm's file with these parameters (all inertial ones by name, friction where there is some).

    Motor inertia, gravity and friction laws other than Coulomb's and viscous go to a TOML file beside
    it. Masses that no body has are refused.
    """
    path = Path(path)
    _refuse(arm, parameters)
    root = xml.fromstring(arm.urdf.text.encode())
    links = {element.get("name"): element for element in root.findall("link")}
    joints = {element.get("name"): element for element in root.findall("joint")}
    for k, body in enumerate(arm.tree.bodies):
        ten = np.array([parameters[name] for name in arm.inertial_names[10 * k:10 * k + 10]])
        _set_inertial(links[body.link], ten)
        for welded in body.welded:
            _remove(links[welded], "inertial")
    moving = {body.joint.name for body in arm.tree.bodies}
    for joint in arm.urdf.joints:
        if joint.kind != "fixed" and joint.name not in moving:
            joints[joint.name].set("type", "fixed")
    for k, name in enumerate(arm.joints):
        _set_dynamics(joints[name], {key: parameters[f"{prefix}_{k + 1}"] for prefix, key in IN_DYNAMICS.items()
                                     if f"{prefix}_{k + 1}" in arm.drive_names})
    with atomic_write(path) as aside:
        xml.ElementTree(root).write(aside, encoding="utf-8", xml_declaration=True)
    write_drives(path, arm.joints, arm.friction, {name: parameters[name] for name in arm.drive_names},
                 sign_velocity=arm.sign_velocity, gravity=arm.gravity)
    return path


def _refuse(arm: RobotModel, parameters: Mapping[str, float]) -> None:
    positions = arm.definition()["lock"]
    if isinstance(positions, Mapping) and any(positions.values()):
        raise NotSupported("Joints that are locked away from zero have no place in a URDF; lock them at zero, or write the arm "
                           "without locks.")
    light = [str(k + 1) for k in range(len(arm.tree.bodies)) if not parameters[f"m_{k + 1}"] > 0]
    if light:
        raise ProblemError(f"the mass of link {', '.join(light)} is not positive, so it has no centre. Identify with "
                           "consistent=True, which needs Clarabel: pip install \"dynident[robots]\".")


def _set_inertial(link: xml.Element, ten: np.ndarray) -> None:
    """Mass, centre and the inertia about it, along the link's axes."""
    mass, centre = float(ten[0]), ten[1:4] / ten[0]
    about_centre = inertia_matrix(ten) - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    _remove(link, "inertial")
    inertial = xml.SubElement(link, "inertial")
    xml.SubElement(inertial, "origin", {"xyz": " ".join(repr(float(c)) for c in centre), "rpy": "0 0 0"})
    xml.SubElement(inertial, "mass", {"value": repr(mass)})
    moments = about_centre[np.triu_indices(3)]
    xml.SubElement(inertial, "inertia", {key: repr(float(v)) for key, v in zip(ENTRIES, moments, strict=True)})


def _set_dynamics(joint: xml.Element, values: Mapping[str, float]) -> None:
    if values:
        dynamics = joint.find("dynamics")
        dynamics = xml.SubElement(joint, "dynamics") if dynamics is None else dynamics
        for key, value in values.items():
            dynamics.set(key, repr(float(value)))


def _remove(element: xml.Element, tag: str) -> None:
    for child in element.findall(tag):
        element.remove(child)
