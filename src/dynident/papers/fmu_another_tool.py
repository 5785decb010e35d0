"""FMU paper, Table 1 through an FMU that another tool wrote: the delta robot as a slave of pythonfmu, in plain Python."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dynident as di
from dynident._util.progress import Tell
from dynident.papers.delta_robot import TABLE_1
from dynident.papers.fmu_items import NOISE, parameter, robot_torques
from dynident.papers.outcome import Outcome, compared, not_reproduced

# The robot by the same mechanics, written anew with tuples and `math`: what is compared is the tool, not the formulas.
SLAVE = '''
from math import cos, pi, sin, sqrt, tanh

from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

OFFSET, UPPER, LOWER, RATIO, GRAVITY = 0.12, 0.30, 0.80, 22.0, 9.81
STARTS = {starts}


def plus(*vectors): return tuple(map(sum, zip(*vectors)))
def times(s, a): return tuple(s * x for x in a)
def dot(a, b): return sum(x * y for x, y in zip(a, b))
def cross(a, b): return (a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0])


def torques(q, v, a, p):
    turn = [(cos(2*pi*k/3), sin(2*pi*k/3)) for k in range(3)]
    elbow = [(c*(OFFSET + UPPER*cos(x)), s*(OFFSET + UPPER*cos(x)), -UPPER*sin(x)) for (c, s), x in zip(turn, q)]
    path = [(-UPPER*c*sin(x), -UPPER*s*sin(x), -UPPER*cos(x)) for (c, s), x in zip(turn, q)]
    bend = [(-UPPER*c*cos(x), -UPPER*s*cos(x), UPPER*sin(x)) for (c, s), x in zip(turn, q)]
    b, c = plus(elbow[1], times(-1, elbow[0])), plus(elbow[2], times(-1, elbow[0]))
    n = cross(b, c)
    size = dot(n, n)
    centre = times(1/(2*size), plus(times(dot(c, c), cross(n, b)), times(dot(b, b), cross(c, n))))
    place = plus(elbow[0], centre, times(-sqrt(LOWER**2 - dot(centre, centre))/sqrt(size), n))
    rod = [plus(place, times(-1, e)) for e in elbow]
    column = [cross(rod[1], rod[2]), cross(rod[2], rod[0]), cross(rod[0], rod[1])]
    det = dot(rod[0], column[0])
    inverse = lambda r: times(1/det, plus(*[times(r[k], column[k]) for k in range(3)]))
    lever = [dot(r, e) for r, e in zip(rod, path)]
    speed = inverse([lever[k]*v[k] for k in range(3)])
    push = [plus(times(a[k], path[k]), times(v[k]**2, bend[k])) for k in range(3)]
    slip = [plus(speed, times(-v[k], path[k])) for k in range(3)]
    up = (0.0, 0.0, GRAVITY)
    pull = plus(inverse([dot(rod[k], push[k]) - dot(slip[k], slip[k]) for k in range(3)]), up)
    lower, upper, plate = p["lower_arm_mass"], p["upper_arm_mass"], p["base_plate_mass"]
    at_plate = plus(times(plate + lower, pull), times(lower/6, plus(*push, times(3, up))))
    found = []
    for k in range(3):
        at_elbow = times(lower, plus(times(1/3, plus(push[k], up)), times(1/6, pull)))
        load = (lever[k]*dot(column[k], at_plate)/det + dot(path[k], at_elbow) + upper*UPPER**2/3*a[k]
                - upper*GRAVITY*UPPER/2*cos(q[k]))
        e, w = p["efficiency"], RATIO*v[k]
        share = (1/e + e)/2 + (1/e - e)/2*tanh(load*v[k])
        found.append(p["inertia"]*RATIO*a[k] + load*share/RATIO + p["coulomb"]*tanh(w/0.5) + p["viscous"]*w)
    return found


class DeltaRobot(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        for name, value in STARTS.items():
            setattr(self, name, value)
            self.register_variable(Real(name, causality=Fmi2Causality.parameter, variability=Fmi2Variability.tunable))
        for what in ("position", "velocity", "acceleration"):
            for i in (1, 2, 3):
                setattr(self, f"{{what}}_{{i}}", 0.5 if what == "position" else 0.0)
                self.register_variable(Real(f"{{what}}_{{i}}", causality=Fmi2Causality.input))
        for i in (1, 2, 3):
            self.register_variable(Real(f"torque_{{i}}", causality=Fmi2Causality.output, getter=lambda i=i: self.torque(i)))

    def torque(self, i):
        q, v, a = ([getattr(self, f"{{what}}_{{k}}") for k in (1, 2, 3)] for what in ("position", "velocity", "acceleration"))
        return torques(q, v, a, {{name: getattr(self, name) for name in STARTS}})[i - 1]

    def do_step(self, now, step):
        return True
'''


def another_tool(quick: bool, tell: Tell) -> Outcome:
    """Seven parameters through pythonfmu's FMU, and the same record by our own model without one."""
    theirs = "FMUs of any tool that writes FMI 2.0 for Co-Simulation"
    try:
        import fmpy  # noqa: F401
        from pythonfmu.builder import FmuBuilder
    except ImportError as missing:
        return not_reproduced(theirs, f"{missing.name} is not installed; pip install dynident[fmu] pythonfmu")
    record = robot_torques(157 if quick else 626)
    unknowns = [parameter(n) for n in TABLE_1]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "delta_robot.py")
        script.write_text(SLAVE.format(starts={n: start for n, (start, _) in TABLE_1.items()}), encoding="utf-8")
        tell("built by pythonfmu")
        fmu = Path(FmuBuilder.build_FMU(script, dest=folder))
        foreign = di.identify(di.Problem(di.FmuModel(fmu), [record], unknowns), progress=False)
    tell("by equations")
    own = _by_equations(record)
    rows, inside = [], 0
    for name, (start, value) in TABLE_1.items():
        low, high = foreign.uncertainty.interval(name)
        inside += low <= value <= high
        rows.append((name, start, value, foreign.values[name], (high - low) / 2, own.values[name]))
    off = max(abs(foreign.values[n] - own.values[n]) / own.uncertainty.std(n) for n in TABLE_1)
    return compared(
        off < 0.05, theirs,
        f"an FMU by pythonfmu, in plain Python: {inside} of 7 values inside our 95 % intervals ({NOISE:g} N m of noise, "
        f"{record.samples} samples), at most {_rounded(off)} standard errors from those by equations",
        f"values by the FMU and by equations differ by {off:.2g} standard errors",
        ("parameter", "start", "Table 1", "through pythonfmu", "+-", "by equations"), rows,
        partial(_draw_tools, rows), "the same mechanics written anew, and the same values as by "
        "equations, so that what lies outside of an interval is the noise's; Modelica tools were not to be had")


def _by_equations(record: di.Experiment) -> di.Estimate:
    from dynident.papers.delta_robot import delta_robot

    return di.identify(di.Problem(delta_robot(), [record], [parameter(n, start) for n, (start, _) in TABLE_1.items()]),
                       progress=False)


def _rounded(off: float) -> str:
    return "0.001" if off < 0.001 else f"{off:.3f}"


def _draw_tools(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis, at = figure.subplots(), np.arange(len(rows))
    axis.errorbar(at, [row[3] / row[2] for row in rows], [row[4] / row[2] for row in rows], fmt="o", capsize=4,
                  label="through pythonfmu")
    axis.plot(at, [row[5] / row[2] for row in rows], "k_", ms=14, label="by equations")
    axis.set_xticks(at, [row[0] for row in rows], rotation=30)
    axis.set_ylabel("over Table 1")
    axis.legend(frameon=False)
