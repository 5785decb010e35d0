"""What can be learnt about a real two-link robot from one motion, and does it predict another?

The record is a double pendulum with two motors, design A of the acrobot and pendubot of DFKI (BSD-3-Clause): angles,
velocities and torques over 10 s at 500 Hz. As in Sec. V-B of the direct-methods paper, states at all grid points are
unknowns and the trapezoidal rule connects them; another motion validates (Figs. 6 and 7 there). Say where the records are:

    python examples/10_real_double_pendulum.py path/to/double_pendulum

or set DYNIDENT_DOUBLE_PENDULUM, or put the folder at ../shared/data/double_pendulum beside the project.

Ten parameters of the usual model are more than a motion can tell; the eight below are what it can: inertias J1 (with all
that link 1 carries) and J2, first moments mr1 and mr2, viscous and dry friction per joint. A model that is off by a few
percent cannot be simulated for 10 s without running away, so the record is cut into windows of one second, each with its
own initial state.
"""

import os
import sys
from pathlib import Path

import numpy as np

import dynident as di
from dynident.papers.direct_studies import double_pendulum

beside = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "double_pendulum"
folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DYNIDENT_DOUBLE_PENDULUM", beside))
FITTED, OTHER = (f"design_A.0_20220815_sys_id_trajectory_{number}.csv" for number in ("00", "11"))
WINDOW = 1.0  # s
if not (folder / FITTED).is_file():
    print("The double pendulum's records are not here; see the first lines of this file for where to get them.")
    sys.exit()

pendulum = double_pendulum()


def windows(file: str) -> list[di.Experiment]:
    """The record in pieces of one second; the size of the errors is estimated per signal."""
    record = di.read_csv(folder / file, time="time", inputs={"tau1": "tau_meas1", "tau2": "tau_meas2"}, hold="linear",
                         outputs={"angle1": "pos_meas1", "angle2": "pos_meas2", "speed1": "vel_meas1",
                                  "speed2": "vel_meas2"})
    begins = np.arange(record.time[0], record.time[-1] - 0.9 * WINDOW, WINDOW)
    return [record.window(t, t + WINDOW).with_name(f"{t:.0f} s") for t in begins]


problem = di.Problem(pendulum, windows(FITTED), [
    di.Parameter("J1", start=0.05, lower=1e-4, upper=1, unit="kg m^2"),
    di.Parameter("J2", start=0.02, lower=1e-4, upper=1, unit="kg m^2"),
    di.Parameter("mr1", start=0.2, lower=0, upper=2, unit="kg m"),
    di.Parameter("mr2", start=0.1, lower=0, upper=2, unit="kg m"),
    di.Parameter("b1", start=0.01, lower=0, upper=1, unit="N m s"),
    di.Parameter("b2", start=0.01, lower=0, upper=1, unit="N m s"),
    di.Parameter("c1", start=0.05, lower=0, upper=1, unit="N m"),
    di.Parameter("c2", start=0.05, lower=0, upper=1, unit="N m")])
estimate = di.identify(problem, di.full_discretization("trapezoid", substeps=1))

print(estimate.status)
for name in pendulum.parameters:
    low, high = estimate.uncertainty.interval(name)
    print(f"  {name:4s} {estimate.values[name]:8.4f}   95 % interval [{low:.4f}, {high:.4f}]")
print("Published with the record: mr1 = m1 r1 + m2 l1 = 0.349, mr2 = m2 r2 = 0.111 kg m.")
validations = [estimate.validate(window) for window in windows(OTHER)]
for name in pendulum.outputs:
    own = estimate.statistics[f"fit_{name}"]
    print(f"{name}: fit {own:.1f} % on the motion that was fitted, {np.median([v.fit[name] for v in validations]):.1f} % "
          "(median over windows) on the other")
