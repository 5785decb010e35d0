"""Which FMUs of which tools were simulated and fitted? Tries every FMU below some folders and writes the table of the manual.

    python tools/fmu_table.py FOLDER [FOLDER ...] [--out docs/methods/fmu_tools.md]

Each trial has a process of its own. FMPy simulates first; then dynident, whose outputs are compared; then a parameter is
estimated from a record that dynident simulated with it, with noise of a hundredth of the signal, from a start 5 % off. Inputs
come from NAME_in.csv beside the FMU where there is one (the form of the FMI cross-check), else they rest at their start values.
An FMU in a folder called `me` or `cs` is tried by that interface alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

KINDS = {"model_exchange": "ModelExchange", "co_simulation": "CoSimulation"}
SHORT = {"model_exchange": "ME", "co_simulation": "CS"}
SAMPLES = 101
LIMIT = 90  # seconds for one trial
SAME = 0.01  # rms difference over the range of a signal; events fall between samples
NOISE, OFF = 0.01, 1.05
MOST_TRIED = 8  # parameters that are moved until one is seen
MARK = "@@@"
HEAD = """# Which FMUs were tried

Made by `python tools/fmu_table.py` on Linux (x86-64). The FMUs are not part of this project: the Reference FMUs of the Modelica
Association, built from their source, and some of the FMI cross-check. Per tool and interface: how many were tried, how many
FMPy simulates, how many dynident simulates, of how many both simulate the outputs are the same (rms within 1 % of the range,
events between samples included), and from how many simulated records a parameter came back (converged, within four standard
errors).
"source" are FMUs that bring source code only, which FMPy does not run. A trial that takes more than 90 s, all its simulations
and its fit together, is given up; the machine was busy with other work.

| tool | FMI | interface | tried | FMPy | dynident | same | fitted | what was not |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def times_of(path: Path) -> np.ndarray:
    import fmpy

    experiment = fmpy.read_model_description(str(path), validate=False).defaultExperiment
    begin = float(getattr(experiment, "startTime", None) or 0.0)
    end = float(getattr(experiment, "stopTime", None) or begin + 1.0)
    return np.linspace(begin, min(end, begin + 100.0) if end > begin else begin + 1.0, SAMPLES)


def given_inputs(path: Path):
    from fmpy.util import read_csv

    file = path.with_name(f"{path.stem}_in.csv")
    return read_csv(str(file)) if file.exists() else None


def by_fmpy(path: Path, kind: str) -> dict:
    import fmpy

    t = times_of(path)
    found = fmpy.simulate_fmu(str(path), validate=False, start_time=t[0], stop_time=t[-1], output_interval=t[1] - t[0],
                              fmi_type=KINDS[kind], input=given_inputs(path), relative_tolerance=1e-8, timeout=LIMIT / 2)
    return {"t": found["time"].tolist(), "y": {n: found[n].astype(float).tolist() for n in found.dtype.names[1:]
                                              if found[n].ndim == 1 and found[n].dtype.kind in "fiub"}}


def by_dynident(path: Path, kind: str) -> dict:
    import dynident as di

    t = times_of(path)
    found: dict = {}
    for integrator in ("runge_kutta", "radau", "cvodes") if kind == "model_exchange" else ("runge_kutta",):
        try:
            model = di.FmuModel(path, kind=kind, integrator=integrator, time_limit=LIMIT / 3)
            record = record_of(model, path, t)
            outputs = di.simulate(model, {}, record).outputs
            break
        except di.ProblemError as error:
            if "declares no output" in str(error):
                model = di.FmuModel(path, kind=kind, outputs=[_first_signal(path, kind)])
                record = record_of(model, path, t)
                outputs = di.simulate(model, {}, record).outputs
                break
            if integrator == "cvodes" or kind != "model_exchange":
                raise
    found = {"t": t.tolist(), "y": {n: y.tolist() for n, y in outputs.items()}, "tool": model.description.tool,
             "version": model.description.version}
    return found | {"fit": fitted(model, record, outputs)}


def _first_signal(path: Path, kind: str) -> str:
    from dynident.fmu.description import read_description

    d = read_description(path)
    return next(iter(d.states), None) or next(n for n, v in d.variables.items() if v.real and v.causality == "local")


def record_of(model, path: Path, t: np.ndarray, outputs=None, noise=None):
    import dynident as di

    given, inputs, hold = given_inputs(path), {}, {}
    for name in model.inputs:
        hold[name] = "zero" if name in model.stepwise else "linear"
        if given is None or name not in given.dtype.names:
            inputs[name] = np.full(t.size, model.description.variables[name].start or 0.0)
        elif hold[name] == "zero":
            places = np.searchsorted(given[given.dtype.names[0]], t + 1e-12, side="right") - 1
            inputs[name] = given[name][np.clip(places, 0, None)].astype(float)
        else:
            inputs[name] = np.interp(t, given[given.dtype.names[0]], given[name].astype(float))
    return di.Experiment(t, inputs, outputs or {}, noise or {}, **({"hold": hold} if hold else {}))


def fitted(model, record, outputs) -> str:
    """The parameter that came back, or why none did."""
    import dynident as di

    moving = {n: y for n, y in outputs.items()
              if np.ptp(y) > 0 and np.all(np.isfinite(y)) and model.description.variables[n].real}
    seen = None
    for name in model.parameters[:MOST_TRIED]:
        start = model.description.variables[name].start
        try:
            moved = di.simulate(model, {name: OFF * start}, record).outputs if start else outputs
        except di.DynidentError:
            continue
        if any(np.sqrt(np.mean((moved[n] - y) ** 2)) > NOISE * np.ptp(y) / 3 for n, y in moving.items()):
            seen = name
            break
    if seen is None:
        return "no parameter of the first ones acts on an output"
    draw = np.random.default_rng(1)
    noisy = {n: y + NOISE * np.ptp(y) * draw.normal(size=y.size) for n, y in moving.items()}
    std = {n: di.Gaussian(NOISE * np.ptp(y)) for n, y in moving.items()}
    measured = di.Experiment(record.time, record.inputs, noisy, std, hold=record.hold)
    true = model.description.variables[seen].start
    problem = di.Problem(model, [measured], [di.Parameter(seen, start=OFF * true)])
    try:
        found = di.identify(problem, di.least_squares(), progress=False)
    except di.NotConverged as bad:
        return f"{seen}: {bad.estimate.status}"
    off = abs(found.values[seen] - true) / found.uncertainty.std(seen)
    return "" if off < 4 else f"{seen} came back {off:.1f} standard errors off"


def trial(who: str, path: Path, kind: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "--trial", who, kind, str(path.resolve())]
        try:
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, cwd=folder,
                                 check=False)
        except subprocess.TimeoutExpired:
            return {"error": f"takes more than {LIMIT} s"}
    lines = [line for line in run.stdout.splitlines() if line.startswith(MARK)]
    return json.loads(lines[-1][len(MARK):]) if lines else {"error": f"the process ended with code {run.returncode}"}


def same(theirs: dict, ours: dict) -> bool:
    for name, values in ours["y"].items():
        if name in theirs["y"]:
            other = np.interp(ours["t"], theirs["t"], theirs["y"][name])
            scale = np.ptp(other) or np.max(np.abs(other)) or 1.0
            if np.sqrt(np.mean((np.array(values) - other) ** 2)) > SAME * scale:
                return False
    return True


def rows(files: list[Path]) -> str:
    from dynident.errors import DynidentError
    from dynident.fmu.description import read_description

    counts: dict = defaultdict(lambda: [0, 0, 0, 0, 0, 0, {}])
    for path in files:
        try:
            d = read_description(path)
        except DynidentError as error:
            counts[path.parent.parent.parent.name, "", ""][0] += 1
            counts[path.parent.parent.parent.name, "", ""][6].setdefault(str(error)[:90], path.stem)
            continue
        only = {"me": "model_exchange", "cs": "co_simulation"}
        said = next((only[part] for part in path.parts if part in only), None)
        for kind, interface in d.interfaces.items():
            if said not in (None, kind):
                continue
            source = ", source" if interface.build is not None else ""
            row = counts[f"{d.tool or 'unknown'}{source}", f"{d.version}.0", SHORT[kind]]
            theirs, ours = trial("fmpy", path, kind), trial("dynident", path, kind)
            both = "error" not in theirs and "error" not in ours
            agree = both and same(theirs, ours)
            fit = "" if "error" in ours else ours["fit"]
            here, there = "error" not in ours, "error" not in theirs
            for place, yes in enumerate((True, there, here, both, agree, here and not fit)):
                row[place] += bool(yes)
            why = ours.get("error") or ("" if agree or not both else "outputs differ") or fit
            if why:
                row[6].setdefault(why.split("\n")[0][:110], path.stem)
            print(path.stem, kind, theirs.get("error", "ok")[:60], ours.get("error", "ok")[:90], agree, fit, sep=" | ",
                  flush=True)
    lines = []
    for (tool, version, kind), (tried, fmpy, ours, both, agree, fit, why) in sorted(counts.items()):
        notes = "; ".join(f"{name}: {text}" for text, name in why.items()).replace("|", "/")
        lines.append(f"| {tool} | {version} | {kind} | {tried} | {fmpy} | {ours} | {agree} of {both} | {fit} | {notes} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--trial", nargs=3)
    given = parser.parse_args()
    if given.trial:
        who, kind, path = given.trial
        try:
            found = (by_fmpy if who == "fmpy" else by_dynident)(Path(path), kind)
        except Exception as error:  # whatever an FMU does to a reader is a row of the table
            found = {"error": f"{type(error).__name__}: {error}"}
        print(f"\n{MARK}{json.dumps(found)}", flush=True)
        os._exit(0)  # no code of the FMU at the end
    text = HEAD + rows(sorted(path for folder in given.folders for path in folder.rglob("*.fmu")))
    if given.out:
        given.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
