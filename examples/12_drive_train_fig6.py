"""Which inertia, damping and breakaway torque can this drive train have at all? Figure 6 of the verified paper.

A drive train sticks and slips; only an encoder of 4,096 counts watches it. Its breakaway torque may change at every
standstill. The record is simulated (closed form), so that the truth is known: alpha = -4.5, beta = 65. Three runs over
80 s, M = 50 as published (Rauh, Senkel, Aschemann), at most 1,000 boxes. Takes half a minute; `--short` shows half a cycle.
The slices M_v of the velocity are not needed: each measurement narrows all unknowns backward. Dotted: where the breakaway
torque is set back.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dynident as di

short = "--short" in sys.argv
time, torque = di.library.driving_cycles(0.0, 4.0) if short else di.library.driving_cycles(40.0, 80.0)
rig = di.library.drive_train_record(time, torque)
problem = di.Problem(di.library.drive_train(), [rig.experiment], [
    di.Parameter("alpha", start=-3, lower=-6, upper=0), di.Parameter("beta", start=100, lower=10, upper=1000),
    di.Parameter("T_Fs", start=0.1, lower=0, upper=0.3)])

method = di.set_membership(algorithm="recursive", cap=40 if short else 1000, subdivisions=50,
                           runs=1 if short else 3, reset={"T_Fs": "speed"})
estimate = di.identify(problem, method)

bands = estimate.uncertainty.bands
figure, axes = plt.subplots(3, len(bands), sharex=True, sharey="row", squeeze=False, figsize=(10, 6))
truth = {"alpha": rig.truth.alpha, "beta": rig.truth.beta, "T_Fs": rig.breakaway}
for column, band in zip(axes.T, bands, strict=True):
    column[0].set_title(f"run {band.run}")
    for axis, name in zip(column, truth, strict=True):
        axis.fill_between(band.time, band.low[name], band.high[name], alpha=0.4)
        axis.plot(band.time, band.time * 0 + truth[name], "k", linewidth=0.8)
        axis.set_ylabel(name)
    for reset in band.resets:
        column[2].axvline(reset, color="k", linestyle=":", linewidth=0.6)
figure.savefig("fig6.png", dpi=120)

kept = all(low[-1] <= value <= high[-1] for name, value in (("alpha", -4.5), ("beta", 65.0))
           for low, high in [(bands[-1].low[name], bands[-1].high[name])])
low, high = estimate.uncertainty.interval("beta")
print(f"beta lies between {low:.2f} and {high:.2f}, proved; the truth, 65, is inside: {kept}.")
