"""Robot record: a controller's log becomes positions, velocities and torques of an arm's joints, in its order and units.

Columns are found by number (`q1`, `dq1`, `tau1`, `i1`) or by the joints' names. What betrays a mistake is looked for in the
numbers: degrees leave the joints' limits, a velocity that belongs to another joint is not the derivative of its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.io.readers.columns import existing_file
from dynident.io.readers.csv import read_csv
from dynident.io.readers.dialect import sniff
from dynident.problem.experiment import Experiment
from dynident.robots.model import RobotModel

# kind -> how a column of joint number k, or of the joint called name, may be called
CALLED = {
    "q": ("q{k}", "q_{k}", "pos{k}", "position{k}", "q_{name}", "{name}", "{name}_position", "{name}_pos", "position_{name}"),
    "dq": ("dq{k}", "qd{k}", "dq_{k}", "vel{k}", "velocity{k}", "dq_{name}", "qd_{name}", "{name}_velocity", "{name}_vel",
           "velocity_{name}"),
    "tau": ("tau{k}", "tau_{k}", "torque{k}", "effort{k}", "tau_{name}", "{name}_torque", "{name}_effort", "effort_{name}"),
    "command": ("q{k}_command", "q_command{k}", "q{k}_cmd", "q_cmd{k}", "q{k}_desired", "q{k}_ref", "q_ref{k}", "q{k}_target",
                "target_q{k}", "{name}_command", "{name}_cmd", "{name}_desired", "{name}_ref", "{name}_target"),
    "i": ("i{k}", "i_{k}", "current{k}", "i_{name}", "{name}_current", "current_{name}"),
}
TIMES = ("t", "time", "stamp", "timestamp", "t_s", "seconds")
BEYOND = 1.5  # of a joint's limit; a reading further out is not of this joint, or not in rad
DEGREES = 3.0  # of a joint's limit; a reading further out is in degrees, if it fits as such
SAME_SIGNAL, OTHER_SIGNAL = 0.9, 0.5  # correlation of a velocity with the derivative of a position
SAME_RATE = 2.0  # times; a velocity that differs from the derivative by more is in another unit
DERIVATIVE_AGREEMENT = 0.3  # relative; noise in a derivative hides no unit


def read_robot(path: str | Path, arm: RobotModel, *, gains: Sequence[float] | Mapping[str, float] | None = None,
               columns: Mapping[str, str] | None = None, time: str | None = None, degrees: bool = False, hold: str = "linear",
               name: str | None = None) -> Experiment:
    r"""Read the record of an arm: inputs `tau1`, ..., outputs `q1`, ...; where there are any, `dq1`, ... and `q1_command`, ....

    See the manual, methods/inverse_dynamics.

    Parameters
    ----------
    path : str or Path
        A text file, as for `read_csv`; columns are found by number (`q1`, `dq1`, `tau1`, `i1`, and `q1_command` or `q1_ref` for
        the positions that a controller asked for) or by the names of the joints.
    arm : RobotModel
        The robot, for its joints and their limits.
    gains : sequence of float, or mapping of str to float, optional
        Drive gains in N m/A, in the order of the joints or by joint; they make torques of motor currents.
    columns : mapping of str to str, optional
        What a column is called where it is not found: `{"q1": "shoulder angle"}`.
    time : str, optional
        Column of the time; found by its name unless given.
    degrees : bool, default False
        Whether positions and velocities of revolute joints are in degrees; they are converted to radians.
    hold : str, default "linear"
        How torques go on between samples: "linear" where they were measured, "zero" for commands that a drive holds.
    name : str, optional
        Of the experiment; that of the file unless given.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    ProblemError
        For columns that are missing, readings in degrees that nobody announced, and joints in another order.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> arm = di.RobotModel(di.library.two_link_urdf())
    >>> _ = Path("log.csv").write_text("t,turn,tilt,i1,i2\n0,0,0,1,2\n1,0.1,0.2,1,2\n2,0.2,0.4,1,2\n")
    >>> di.read_robot("log.csv", arm, gains=[10, 5]).inputs["tau2"].tolist()
    [10.0, 10.0, 10.0]
    """
    file = existing_file(path)
    header = [title.split("[")[0].strip() for title in sniff(file, ()).header]
    found, faults = _find(arm, header, dict(columns or {}), file.name, gains)
    when = time or next((title for title in header if title.lower() in TIMES), None)
    if when is None:
        faults.append(f"{file.name}: no column is called {', '.join(TIMES[:3])}; say which is time with time=\"...\".")
    if faults:
        raise ProblemError(faults)
    inputs = {k: v for k, v in found.items() if k.startswith(("tau", "i", "command"))}
    read = read_csv(file, time=when, inputs={_input_name(k): v for k, v in inputs.items()},
                    outputs={k: v for k, v in found.items() if k not in inputs},
                    hold=hold, name=name or file.stem)
    run = _in_torques(_in_radians(read, arm, degrees), arm, gains, hold)
    if faults := [*_range_faults(run, arm, degrees), *_rate_faults(run, arm)]:
        raise ProblemError([f"{file.name}: {fault}" for fault in faults])
    return run


def _find(arm: RobotModel, header: Sequence[str], given: Mapping[str, str], source: str, gains: Any
          ) -> tuple[dict[str, str], list[str]]:
    """Columns by our names, and what is missing."""
    lower = {title.lower(): title for title in header}
    found = {f"command{key[1:].removesuffix('_command')}" if key.endswith("_command") else key: v for key, v in given.items()}
    for kind, patterns in CALLED.items():
        for k, joint in enumerate(arm.joints, 1):
            names = [pattern.format(k=k, name=joint).lower() for pattern in patterns]
            match = next((lower[n] for n in names if n in lower), None)
            if match is not None:
                found.setdefault(f"{kind}{k}", match)
    n = range(1, arm.dof + 1)
    faults = [f"{source}: no column for the position of joint {k} ({arm.joints[k - 1]}) was found; call it q{k} or "
              f"{arm.joints[k - 1]}, or say columns={{\"q{k}\": \"...\"}}." for k in n if f"q{k}" not in found]
    torques, currents = ([k for k in n if f"{kind}{k}" in found] for kind in ("tau", "i"))
    if len(torques) == arm.dof:
        found = {key: v for key, v in found.items() if not key.startswith("i")}
    elif len(currents) == arm.dof and gains is None:
        faults.append(f"{source} holds motor currents ({found['i1']}, ...) and no torques. Give the drive gains in N m/A, "
                      f"as in gains=[{', '.join('...' for _ in n)}] (--gains on the command line); they are "
                      "in the maker's data sheet.")
    elif len(currents) < arm.dof:
        missing = [k for k in n if k not in (torques or currents)]
        faults.append(f"{source}: no torque of joint {', '.join(map(str, missing))} was found; call the columns tau1, ..., or "
                      "i1, ... for currents.")
    for kind in ("dq", "command"):
        if not all(f"{kind}{k}" in found for k in n):  # some alone are of no use
            found = {key: v for key, v in found.items() if not key.startswith(kind)}
    return found, faults


def _input_name(found: str) -> str:
    """tau1 and i1 as they are, command1 as q1_command."""
    return f"q{found.removeprefix('command')}_command" if found.startswith("command") else found


def _in_torques(run: Experiment, arm: RobotModel, gains: Any, hold: str) -> Experiment:
    if "tau1" in run.inputs:
        return run
    values = _drive_gains(gains, arm)
    torques = {f"tau{k}": values[k - 1] * run.inputs[f"i{k}"] for k in range(1, arm.dof + 1)}
    commands = {name: run.inputs[name] for name in arm.commands if name in run.inputs}
    return replace(run, inputs={**torques, **commands}, hold=hold,
                   units={n: u for n, u in run.units.items() if n not in run.inputs})


def _drive_gains(gains: Any, arm: RobotModel) -> list[float]:
    """One for each joint, in the order of the arm."""
    if isinstance(gains, Mapping):
        numbers = {str(k): k for k in range(1, arm.dof + 1)} | {joint: k for k, joint in enumerate(arm.joints, 1)}
        if faults := [f"gains: there is no joint '{name}'.{did_you_mean(str(name), arm.joints)}" for name in gains
                      if str(name) not in numbers]:
            raise ProblemError(faults)
        given = {numbers[str(name)]: gain for name, gain in gains.items()}
        gains = [given.get(k, "missing") for k in numbers.values()][:arm.dof]
    try:
        values = np.asarray(gains, float)
        good = values.shape == (arm.dof,) and bool(np.all(np.isfinite(values) & (values != 0)))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ProblemError(f"gains = {gains!r}; give one number for each of the {arm.dof} joints ({', '.join(arm.joints)}), "
                           "finite and not zero, in N m/A.")
    return list(map(float, values))


def _in_radians(run: Experiment, arm: RobotModel, degrees: bool) -> Experiment:
    if not degrees:
        return run
    turning = {kind.format(k=k) for k, joint in enumerate(arm.tree.joints, 1) if joint.kind != "prismatic"
               for kind in ("q{k}", "dq{k}", "q{k}_command")}
    return replace(run, outputs={n: np.deg2rad(y) if n in turning else y for n, y in run.outputs.items()},
                   inputs={n: np.deg2rad(u) if n in turning else u for n, u in run.inputs.items()},
                   units={n: u for n, u in run.units.items() if n not in turning})


def _range_faults(run: Experiment, arm: RobotModel, degrees: bool) -> list[str]:
    """Positions outside of the joints' limits; inside of them if they were degrees, that is what they are."""
    beyond = []
    for k, joint in enumerate(arm.tree.joints, 1):
        limit = max(abs(joint.lower), abs(joint.upper))
        limit = 4 * np.pi if not np.isfinite(limit) and joint.kind != "prismatic" else limit
        reach = float(np.nanmax(np.abs(run.outputs[f"q{k}"])))
        if reach > BEYOND * limit:
            beyond.append((k, joint, reach, limit))
    if not beyond:
        return []
    k, joint, reach, limit = max(beyond, key=lambda it: it[2] / it[3])
    unit = "m" if joint.kind == "prismatic" else "rad"
    stated = np.isfinite(max(abs(joint.lower), abs(joint.upper)))
    said = f"q{k} ({joint.name}) reaches {reach:.3g} {unit}, and " + (
        f"its limit is {limit:.3g}" if stated else f"no arm turns its joints by more than {limit:.3g}")
    fits = all(np.deg2rad(r) <= BEYOND * top for _, j, r, top in beyond if j.kind != "prismatic")
    if not degrees and (reach > DEGREES * limit or not stated) and fits and joint.kind != "prismatic":
        return [f"{said}: these look like degrees. Say degrees=True (--degrees on the command line)."]
    return [f"{said}. Is the order of the columns that of the arm ({', '.join(arm.joints)})? Name columns by joints, or say "
            "columns={...}."]


def _rate_faults(run: Experiment, arm: RobotModel) -> list[str]:
    """Velocities that are the derivative of another joint's position, or of their own in another unit or against its sense."""
    n = range(1, arm.dof + 1)
    if "dq1" not in run.outputs:
        return []
    rates = {k: np.gradient(run.outputs[f"q{k}"], np.asarray(run.time)) for k in n}
    faults: list[str] = []
    odd: dict[str, list[str]] = {}  # what is odd, and of which joints
    for k in n:
        measured = run.outputs[f"dq{k}"]
        own, times = _likeness(measured, rates[k])
        other = max((j for j in n if j != k), key=lambda j: _likeness(measured, rates[j])[0], default=None)
        if own < OTHER_SIGNAL and other is not None and _likeness(measured, rates[other])[0] > SAME_SIGNAL:
            faults.append(f"dq{k} is the derivative of q{other}, not of q{k}: the columns are in different orders. Name them "
                          f"by joints ({', '.join(arm.joints)}), or say columns={{...}}.")
        elif own > SAME_SIGNAL and not 1 / SAME_RATE < times < SAME_RATE:
            odd.setdefault(_unit_fault(times), []).append(f"dq{k}")
        elif own < -SAME_SIGNAL:
            odd.setdefault("the derivative of its position with the other sign. Turn one of them round in the file.",
                           []).append(f"dq{k}")
    return faults + [f"{', '.join(names)} {'is' if len(names) == 1 else 'are each'} {what}" for what, names in odd.items()]


def _unit_fault(times: float) -> str:
    """What a velocity is that is so many times the derivative of its position."""
    degree = float(np.rad2deg(1.0))
    if abs(times / degree - 1) < DERIVATIVE_AGREEMENT:
        return ("about 57 times the derivative of its position: these velocities look like degrees per second, the positions "
                "like radians. Convert them in the file.")
    if abs(times * degree - 1) < DERIVATIVE_AGREEMENT:
        return ("about 1/57 of the derivative of its position: these positions look like degrees, the velocities like radians "
                "per second. Convert them in the file.")
    return (f"about {float(f'{times:.1g}'):g} times the derivative of its position: one of the two has "
            "another unit, or the time is not in seconds. Convert them in the file.")


def _likeness(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Correlation of two signals, and how many times as large the first one is."""
    there = np.isfinite(a) & np.isfinite(b)
    a, b = a[there] - np.mean(a[there]), b[there] - np.mean(b[there])
    sizes = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    return (float(a @ b) / (sizes[0] * sizes[1]), sizes[0] / sizes[1]) if min(sizes) > 0 else (1.0, 1.0)
