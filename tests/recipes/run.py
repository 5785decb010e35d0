"""Use each toy as a user would; the first argument names one. Run beside a copy of dynident to which they were added."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import numpy as np

import dynident as di


def decay() -> di.Problem:
    time = np.linspace(0, 2, 41)
    y = np.exp(-0.7 * time) + 1e-3 * np.sin(40 * time)
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    return di.Problem(model, [di.Experiment(time, {}, {"y": y}, {"y": di.Gaussian(1e-3)}, {"x": 1.0})],
                      [di.Parameter("k", 0.3, 0.1, 1.1)])


def integrator() -> None:
    errors = []
    for substeps in (1, 2):
        time = np.linspace(0, 1, 11)
        x = di.simulate(decay().model, {"k": 2.0}, di.Experiment(time, initial={"x": 1.0}), integrator="midpoint",
                        substeps=substeps).states["x"]
        errors.append(abs(x[-1] - np.exp(-2.0)))
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.3, errors
    assert di.identify(decay(), di.single_shooting(integrator="midpoint"), progress=False).converged


def solver() -> None:
    estimate = di.identify(decay(), di.single_shooting(solver="cautious"), progress=False)
    assert estimate.converged and abs(estimate.values["k"] - 0.7) < 0.01


def transcription() -> None:
    from dynident.methods.counted import MADE

    estimate = di.identify(decay(), {"kind": "counted"}, progress=False)
    assert estimate.converged and abs(estimate.values["k"] - 0.7) < 0.01
    assert sum(len(each.linearized) for each in MADE) >= 2


def method() -> None:
    estimate = di.identify(decay(), {"kind": "grid_search", "points": 201}, progress=False)
    assert abs(estimate.values["k"] - 0.7) <= 0.005
    assert di.compare(decay(), ["grid_search", "single_shooting"], progress=False)
    printed = _command("methods", "grid_search")
    assert "How many points." in printed


def uncertainty() -> None:
    estimate = di.identify(decay(), "grid_search", progress=False)
    assert "on a grid" in str(estimate)
    estimate.save("grid")
    assert di.load("grid").uncertainty.interval("k") == estimate.uncertainty.interval("k")


def section() -> None:
    di.report.html(di.identify(decay(), progress=False), "page.html")
    assert "41 samples went into this toy section." in Path("page.html").read_text()


def command() -> None:
    Path("record.csv").write_text("t,y\n0,1\n1,2\n2,3\n")
    assert _command("count", "record.csv") == "3 samples\n"


def reader() -> None:
    Path("record.json").write_text(json.dumps({"t": [0, 1, 2], "y": [1.0, 2.0, 3.0]}))
    assert di.read_table("record.json", time="t", outputs=["y"]).samples == 3


def library_model() -> None:
    model, values = di.library.bucket(), di.library.TYPICAL["bucket"]
    time = np.linspace(0, 1, 11)
    level = di.simulate(model, values, di.Experiment(time, {"inflow": 0 * time}, initial={"level": 1.0})).states["level"]
    assert abs(level[-1] - 0.25) < 1e-6  # (1 - k t/2)^2


def _command(*words: str) -> str:
    import contextlib
    import io

    from dynident.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(list(words))
    return out.getvalue()


if __name__ == "__main__":
    said = {}
    for name in sys.argv[1:]:
        try:
            globals()[name]()
            said[name] = ""
        except Exception:
            said[name] = traceback.format_exc()
    print("\n" + json.dumps(said))
