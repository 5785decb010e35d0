"""Drive file: how is what URDF cannot hold (friction laws, motor inertias, gravity) kept in a TOML file beside it?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynident._util.atomic import atomic_write
from dynident.errors import ProblemError

FIRST_LINE = "# What URDF cannot hold: friction laws and motor inertias, by joint."
MOTOR_INERTIA = "Ia"  # the inertia of a motor and its gear, seen at the joint


def drive_file(urdf: str | Path) -> Path:
    """identified.toml beside identified.urdf"""
    return Path(urdf).with_suffix(".toml")


def write_drives(path: str | Path, joints: Sequence[str], friction: Sequence[Sequence[str]], values: Mapping[str, float], *,
                 sign_velocity: float, gravity: Sequence[float]) -> None:
    """Friction laws and drive parameters, joint by joint; `values` by name, as Fc_2."""
    lines = [FIRST_LINE, f"sign_velocity = {sign_velocity!r}", f"gravity = {[float(g) for g in gravity]!r}", ""]
    for k, (name, laws) in enumerate(zip(joints, friction, strict=True), 1):
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f'[joint."{quoted}"]', f"friction = [{', '.join(f'{law!r}' for law in laws)}]".replace("'", '"')]
        lines += [f"{n} = {float(value)!r}" for n, value in values.items() if n.rpartition("_")[2] == str(k)] + [""]
    with atomic_write(drive_file(path)) as aside:
        aside.write_text("\n".join(lines), encoding="utf-8")


def read_drives(path: str | Path, known: Sequence[str]) -> dict[str, Any]:
    """Options of a `RobotModel` from the file beside this URDF, whose moving joints are `known`."""
    place = drive_file(path)
    try:
        given = tomllib.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProblemError(f"{place} does not exist; to_urdf writes it beside {Path(path).name}. Keep both files together, or "
                           "take the URDF alone: RobotModel(path).") from None
    except (OSError, ValueError) as error:
        raise ProblemError(f"{place.name} cannot be read: {error}.") from None
    tables = given.pop("joint", {})
    odd = [] if isinstance(tables, dict) and all(isinstance(t, dict) for t in tables.values()) else ["joint"]
    odd += sorted(given.keys() - {"sign_velocity", "gravity"})
    if odd:
        raise ProblemError(f"{place.name}: '{odd[0]}' is not what to_urdf writes: sign_velocity, gravity and a table "
                           "[joint.\"NAME\"] for each joint.")
    faults = [f"{place.name}: joint '{name}' does not move in {Path(path).name}, whose joints are {', '.join(known)}."
              for name in tables if name not in known]
    faults += [f"{place.name}: joint '{name}' moves in {Path(path).name} and is missing here. Add it, or write both files anew."
               for name in known if name not in tables]
    values: dict[str, float] = {}
    for name, table in tables.items():
        for key, value in table.items():
            if key == "friction":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                faults.append(f"{place.name}, joint '{name}': {key} = {value!r} is no number.")
            values[key] = value
    if faults:
        raise ProblemError(faults)
    return {**given, "friction": {name: table.get("friction", []) for name, table in tables.items()}, "values": values,
            "motor_inertia": any(name.startswith(f"{MOTOR_INERTIA}_") for name in values)}
