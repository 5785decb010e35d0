"""Robot URDF: an estimated arm as the file that controllers and simulators read."""

from __future__ import annotations

from pathlib import Path

from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.robots.model import RobotModel
from dynident.robots.write_urdf import write_urdf


def estimate_to_urdf(estimate: Estimate, path: str | Path) -> Path:
    if estimate.robot is None:
        raise NotSupported("Only estimates of inverse_dynamics() on a RobotModel can be written as a URDF.")
    return write_urdf(RobotModel.from_definition(estimate.robot.robot), estimate.robot.parameters, path)
