"""Which parameters has a robot arm? From its URDF and one record to a file that a controller can use.

A simulated six-axis arm stands for yours: its file is wrong by some kilograms, its record is noisy. Replace `record(...)` by
`di.read_robot("excitation.csv", arm, gains=[...])`.
"""

import sys
from pathlib import Path

import casadi as ca
import numpy as np

import dynident as di

SHORT = "--short" in sys.argv
FILE = di.RobotModel(di.library.six_axis_urdf(), motor_inertia=True)
TRUE = FILE.nominal_inertial()
TRUE |= {"m_3": 7.0, "hx_2": 2.7, "hz_5": 0.05}  # what the file does not know: a heavier elbow, cables
TRUE |= {name: {"Fc": 6.0, "Fv": 4.0, "Ia": 0.8}[name[:2]] / int(name[3]) for name in FILE.drive_names}


def record(plan, name, seed):
    """What the controller would log: positions, velocities and noisy torques along the plan."""
    time = np.arange(0, plan.duration, 0.01)
    q, dq, ddq = plan.motion(time)
    symbols = [ca.SX.sym(kind, FILE.dof) for kind in ("q", "dq", "ddq")]
    tau = np.array(ca.Function("tau", symbols, [FILE.torques(*symbols, TRUE)]).map(time.size)(q.T, dq.T, ddq.T))
    rng = np.random.default_rng(seed)
    tau += rng.normal(0, 0.03, tau.shape) * tau.std(axis=1, keepdims=True)
    n = range(FILE.dof)
    return di.Experiment(time, inputs={f"tau{k + 1}": tau[k] for k in n}, hold="linear", name=name,
                         outputs={**{f"q{k + 1}": q[:, k] for k in n}, **{f"dq{k + 1}": dq[:, k] for k in n}})


# 1. A motion that tells much, within the limits of the file
plan = di.excitation(FILE, duration=20, harmonics=3 if SHORT else 5)
print(plan)
plan.to_csv("excitation.csv")

# 2. Inverse dynamics
run = record(plan, "excitation", 1)
estimate = di.identify(di.Problem(FILE, [run]), di.inverse_dynamics())
for parameter in estimate.base[:6]:
    print(" ", parameter)
for joint in estimate.robot.errors:
    print(f"  {joint.joint}: RMS {joint.rms:.3g} N m, with the file's inertias {joint.rms_nominal:.3g}")

# 3. Another motion, not fitted
other = record(di.excitation(FILE, duration=12, harmonics=3, seed=7), "another motion", 2)
validation = estimate.validate(other)
print(validation.notes[0])

# 4. Back into a URDF, where every mass is one that a body could have
try:
    estimate.to_urdf("identified.urdf")
except di.ProblemError as reason:
    print(reason)  # without Clarabel a fitted mass need not be positive
written = Path("identified.urdf").exists()

inside = [b.interval[0] <= sum(c * TRUE[n] for n, c in b.coefficients.items()) <= b.interval[1] for b in estimate.base]
predicted = min(validation.fit.values())
print(f"{sum(inside)} of {len(inside)} intervals hold the truth; the other motion is predicted by {predicted:.1f} % or better.")
