"""`dynident robot`: an arm's parameters from its URDF and a record, without a problem file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import GOOD, INTERRUPTED, NOT_GOOD, Stop, Strict, exit_code, fit_problem, page, print_error, print_why

Arm = Annotated[Path, typer.Argument(metavar="ARM.urdf", help="The robot's description.", show_default=False)]
Records = Annotated[list[Path], typer.Argument(metavar="RECORD.csv...", show_default=False, help=(
    "Records to estimate from, with the columns t, q1, ..., dq1, ... and tau1, ... (or i1, ... with --gains); joints' names do "
    "as well as numbers."))]
Validate = Annotated[list[Path] | None, typer.Option("--validate", metavar="RECORD.csv", help=(
    "A record to predict, not to fit."))]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the result goes: a folder of its own.")]
Gains = Annotated[str, typer.Option("--gains", metavar="NUMBERS", help=(
    "Drive gains in N m/A, by commas, where currents were recorded."))]
Friction = Annotated[str, typer.Option("--friction", metavar="LAWS", help=(
    "Laws by commas, or auto: chosen on what is left out."))]
Motors = Annotated[bool, typer.Option("--motor-inertia/--no-motor-inertia", help="Estimate the inertia of the motors too.")]
Degrees = Annotated[bool, typer.Option("--degrees", help="Positions and velocities are in degrees.")]
Filter = Annotated[str, typer.Option("--filter", metavar="HZ", help="Cut-off of the motion's zero-phase filter, or auto.")]
Instruments = Annotated[bool, typer.Option("--instruments", help=(
    "Instrumental variables and the test whether noise in the motion biases the fit; by columns q1_command, ... if any."))]
Lock = Annotated[list[str] | None, typer.Option("--lock", metavar="JOINT", help="A joint that stands still, at zero.")]
Tool = Annotated[str, typer.Option("--tool", metavar="LINK", help="Only joints on the way to that link move.")]


def run(arm: Arm, records: Records, validate: Validate = None, out: Out = Path("results"), gains: Gains = "",
        friction: Friction = "coulomb,viscous,offset", motor_inertia: Motors = True, degrees: Degrees = False,
        filter: Filter = "auto", instruments: Instruments = False, lock: Lock = None, tool: Tool = "", strict: Strict = False
        ) -> None:
    """Identify a robot arm and write the result: estimate.json, report.html, and the arm as robot.urdf.

    Example: dynident robot arm.urdf excitation.csv --validate point_to_point.csv --out results/
    """
    import dataclasses

    from dynident.errors import DynidentError
    from dynident.io.readers.robot_record import read_robot
    from dynident.io.results.result_folder import reserve_folder, write
    from dynident.methods.presets import method_from
    from dynident.problem.problem import Problem
    from dynident.report.terminal import print_estimate
    from dynident.robots.model import RobotModel

    laws = "auto" if friction.strip() == "auto" else [law.strip() for law in friction.split(",") if law.strip()]
    model = RobotModel(arm, friction=laws, motor_inertia=motor_inertia, lock=lock or [], tool=tool or None)
    factors = numbers(gains, "--gains") or None
    runs, others = ([read_robot(path, model, gains=factors, degrees=degrees) for path in paths]
                    for paths in (records, validate or []))
    cutoff = filter if filter == "auto" else numbers(filter, "--filter")[0]
    with reserve_folder(out):
        estimate, code = fit_problem(Problem(model, runs), method_from(
            {"kind": "inverse_dynamics", "filter": cutoff, "instruments": instruments}))
        for other in others:
            estimate = dataclasses.replace(estimate, validations=(*estimate.validations, estimate.validate(other)))
        write(estimate, out)
    print_estimate(estimate, page())
    for validation in estimate.validations:
        rms = ", ".join(f"{name} {value:.3g}" for name, value in validation.rmse.items())
        print(f"\n{validation.experiment}, not fitted: RMS {rms}. {validation.notes[0]}")
    try:
        print(f"\nWritten to {out}, the arm as {estimate.to_urdf(out / 'robot.urdf')}; open {out / 'report.html'}.")
    except DynidentError as reason:
        print(f"\nWritten to {out}; open {out / 'report.html'}. No URDF: {reason}")
    code = exit_code(estimate, code == INTERRUPTED, strict)
    if code == NOT_GOOD:
        print_error(f"The fit did not converge; the best point was written to {out}, marked as such.")
    print_why(code, f"verdict {estimate.verdict.grade}; the result was written.")
    if code != GOOD:
        raise Stop(code)


def numbers(text: str, option: str) -> list[float]:
    """Numbers by commas."""
    from dynident.errors import ProblemError

    try:
        return [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise ProblemError(f"{option} {text}: write numbers, separated by commas.") from None
