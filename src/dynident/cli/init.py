"""`dynident init`: a first script for what is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Urdf = Annotated[Path, typer.Option("--urdf", metavar="ARM.urdf", show_default=False, help="The robot's description.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE.py", help="Where the script goes.")]

SCRIPT = '''"""Which parameters has {name}? {dof} joints: {joints}."""

import dynident as di

arm = di.RobotModel({urdf!r}, motor_inertia=True, friction="auto")
# plan = di.excitation(arm, duration=20, harmonics=5)          # a motion that tells much, within the file's limits
# plan.to_csv("excitation_plan.csv")
run = di.read_robot("excitation.csv", arm)                      # t, q1.., dq1.., tau1..; gains=[...] for currents i1..
estimate = di.identify(di.Problem(arm, [run]), di.inverse_dynamics())
print(estimate)
for parameter in estimate.base:
    print(parameter)
print(estimate.validate(di.read_robot("point_to_point.csv", arm)))
estimate.save("results")
estimate.to_urdf("identified.urdf")
'''


def run(urdf: Urdf, out: Out = Path("identify_robot.py")) -> None:
    """Write a script that identifies a robot arm, and say which columns its records need.

    Example: dynident init --urdf arm.urdf
    """
    from dynident.errors import ProblemError
    from dynident.robots.model import RobotModel

    arm = RobotModel(urdf)
    if out.exists():
        raise ProblemError(f"{out} is there already; name another file with --out.")
    out.write_text(SCRIPT.format(name=arm.name, dof=arm.dof, joints=", ".join(arm.joints), urdf=str(urdf)), encoding="utf-8")
    print(arm)
    columns = ", ".join(["t", *(f"q{k + 1}" for k in range(arm.dof)), *arm.inputs])
    print(f"\nWritten to {out}. Its records need the columns {columns}; velocities dq1, ... help; joints' names do as well.")
