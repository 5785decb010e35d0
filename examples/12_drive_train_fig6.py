"""Which inertia, damping and breakaway torque can this drive train have at all? Figure 6 of the verified paper.

A drive train sticks and slips; only an encoder of 4,096 counts watches it. Its breakaway torque may change at every
standstill. The record is simulated (closed form), so that the truth is known: alpha = -4.5, beta = 65. Three runs over
80 s, at most 1,000 boxes, three times: as published (Rauh, Senkel, Aschemann), by their step and the rules (10) to (13) with
M = 50 boxes and M_v = 20 slices of the velocity per sample; by their step with what their text leaves free; and as this toolkit
does unless told otherwise. Dotted: where the breakaway torque is set back to its first range. Takes minutes; `--short` shows
half a cycle.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dynident as di
from dynident.papers.drive_train import drive_train, drive_train_record, driving_cycles

short = "--short" in sys.argv
time, torque = driving_cycles(0.0, 4.0) if short else driving_cycles(40.0, 80.0)
rig = drive_train_record(time, torque)
first = {"alpha": (-6, 0), "beta": (10, 1000), "T_Fs": (0, 0.3)}  # the first box
problem = di.Problem(drive_train(), [rig.experiment], [
    di.Parameter(name, start=(low + high) / 2, lower=low, upper=high) for name, (low, high) in first.items()])

common = {"max_boxes": 40 if short else 1000, "passes": 1 if short else 3, "reset": {"T_Fs": "speed"}}
freedom = {"strategy": "influence", "factored_step": True, "standstill_barrier": True, "free_room": True}
ways = {"as published": {"algorithm": "paper", "subdivisions": 50, "velocity_subdivisions": 20},
        "with its freedom": {"algorithm": "paper", "subdivisions": common["max_boxes"] // 4, **freedom},
        "default": {"algorithm": "recursive"}}
found = {label: di.identify(problem, di.set_membership(**options, **common)) for label, options in ways.items()}

truth = {"alpha": rig.truth.alpha, "beta": rig.truth.beta, "T_Fs": rig.breakaway}
labels = {"alpha": r"$\alpha$ in 1/s", "beta": r"$\beta$ in 1/(kg m$^2$)", "T_Fs": r"$T_{F,s}$ in N m"}
figure, axes = plt.subplots(3, common["passes"], sharex=True, squeeze=False, figsize=(11, 6.5), layout="constrained")
for colour, (label, estimate) in zip(("#f2c14e", "#8fb996", "#3a6ea5"), found.items(), strict=True):
    for column, band in zip(axes.T, estimate.uncertainty.bands, strict=True):
        column[0].set_title(f"run {band.run}" + (", closer" if band.run > 1 else ""))
        for axis, name in zip(column, truth, strict=True):
            axis.fill_between(band.time, band.low[name], band.high[name], color=colour, linewidth=0, label=label)
            axis.margins(x=0)
for column, band in zip(axes.T, found["default"].uncertainty.bands, strict=True):
    for axis, name in zip(column, truth, strict=True):
        axis.plot(band.time, band.time * 0 + truth[name], "k", linewidth=0.7, label="truth")
    for reset in band.resets:
        column[2].axvline(reset, color="k", linestyle=":", linewidth=0.8)
    column[2].set_ylim(*first["T_Fs"])
    column[2].set_xlabel("time in s")
for row, (name, label) in zip(axes, labels.items(), strict=True):
    row[0].set_ylabel(label)
    row[0].set_ylim(*first[name])
axes[1, 0].set_yscale("log")  # the first box holds two decades of beta
axes[0, 0].legend(loc="upper right" if not short else "lower left", fontsize="small")
figure.savefig("fig6.png", dpi=120)

for label, estimate in found.items():
    last = estimate.uncertainty.bands[-1]
    kept = all(last.low[name][-1] <= truth[name] <= last.high[name][-1] for name in ("alpha", "beta"))
    low, high = estimate.uncertainty.interval("beta")
    print(f"{label}: beta lies between {low:.2f} and {high:.2f}, proved; the truth, 65, is inside: {kept}.")
