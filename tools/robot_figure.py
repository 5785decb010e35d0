"""Robot figure: torques of a simulated arm, measured, fitted and as the robot's file predicts them, as SVG for the manual.

    python tools/robot_figure.py docs/_static
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

EXAMPLE = Path(__file__).parents[1] / "examples" / "21_robot_arm.py"


def main(folder: Path) -> None:
    os.chdir(tempfile.mkdtemp())
    sys.argv = [str(EXAMPLE)]
    known = runpy.run_path(str(EXAMPLE))
    estimate, validation = known["estimate"], known["validation"]
    matplotlib.rcParams.update({"svg.hashsalt": "dynident", "font.size": 9, "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), width_ratios=(2, 2, 1.3), layout="constrained")
    for axis, name in zip(axes, ("tau2", "tau5"), strict=False):
        time, model = validation.trajectory.time, validation.trajectory.outputs[name]
        axis.plot(time, model + validation.residuals[name], ".", ms=2.5, color="#8494a4", label="measured")
        axis.plot(time, model, color="#2f78bd", lw=1.2, label="predicted")
        axis.set(xlabel="t / s", title=f"{name} on a motion that was not fitted", ylabel="N m")
        axis.legend(frameon=False)
    errors = estimate.robot.errors
    place = range(len(errors))
    axes[2].barh([k + 0.2 for k in place], [e.rms_nominal for e in errors], 0.38, color="#c3ccd6", label="file's inertias")
    axes[2].barh([k - 0.2 for k in place], [e.rms for e in errors], 0.38, color="#2f78bd", label="identified")
    axes[2].set(yticks=list(place), yticklabels=[e.joint for e in errors], xlabel="RMS / N m", title="errors of torques")
    axes[2].set_xscale("log")
    axes[2].invert_yaxis()
    axes[2].legend(frameon=False)
    figure.savefig(folder / "robot_torques.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
