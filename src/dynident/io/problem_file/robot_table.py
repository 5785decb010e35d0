"""Robot table: an arm in a problem file, `robot = { urdf = "arm.urdf", ... }`, read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynident._util.atomic import atomic_write
from dynident.errors import ProblemError, did_you_mean
from dynident.robots.model import RobotModel

OPTIONS = ("tool", "lock", "friction", "motor_inertia", "offset", "gravity", "sign_velocity", "values")  # of RobotModel


def read_robot_table(said: Mapping[str, Any], inside: Callable[[str], Path]) -> RobotModel:
    """The arm that a table describes; `inside` finds a file beside the problem file."""
    known = ("urdf", *OPTIONS)
    faults = [f"'{key}' has no meaning for a robot.{did_you_mean(key, known)}" for key in said if key not in known]
    if not isinstance(said.get("urdf"), str):
        faults.append("urdf is missing; name the file that describes the robot, as in robot = { urdf = \"arm.urdf\" }.")
    if faults:
        raise ProblemError(faults)
    return RobotModel(inside(said["urdf"]), **{key: value for key, value in said.items() if key != "urdf"})


def write_robot_table(arm: RobotModel, path: Path) -> dict[str, Any]:
    """The table of an arm, whose description is written beside the problem file."""
    definition, file = arm.definition(), path.with_name(f"{path.stem}.urdf")
    with atomic_write(file) as aside:
        aside.write_text(definition["urdf"], encoding="utf-8")
    given = {key: definition[key] for key in OPTIONS if definition[key] not in (None, {}, [], False)}
    return {"robot": {"urdf": file.name, **given}}
