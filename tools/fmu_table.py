"""Which FMUs of which tools were simulated and fitted? Tries every FMU below some folders and writes the table of the manual.

    python tools/fmu_table.py FOLDER [FOLDER ...] [--trials FILE] [--out docs/methods/fmu_tools.md]

Each trial has a process of its own. FMPy simulates first; then dynident, whose outputs are compared; then the parameter that
acts most is estimated from a record that dynident simulated with it, with noise of a hundredth of the signal, from a start 5
% off. Inputs come from NAME_in.csv beside the FMU where there is one (the form of the FMI cross-check), else they swing or
switch around their start values. An FMU in a folder called `me` or `cs` is tried by that interface alone; one that has both
is fitted by both to the same record, and the answers are compared. Every trial is kept in the file of `--trials`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

KINDS = {"model_exchange": "ModelExchange", "co_simulation": "CoSimulation"}
SHORT = {"model_exchange": "ME", "co_simulation": "CS"}
SAMPLES = 101
LIMIT = 150  # seconds of the processor for one trial, all that it starts included
PATIENCE = 1500  # seconds of the clock for one, on a busy machine
SLOW = 60.0  # seconds of the clock for one simulation; of an FMU that takes longer a part of the time is simulated
PART = 0.02  # of it
SAME = 0.01  # rms difference over the range of a signal; events fall between samples
NOISE, OFF = 0.01, 1.05
NEAR = 1.005  # times the truth: where both interfaces begin that are compared, so that one minimum is meant
MOST_TRIED = 25  # parameters that are moved to see which acts most
EARLIER = 0.8  # of the time, where the FMU asks to end before
AGREE = 0.1  # standard errors between the answers of the two interfaces
MARK = "@@@"
HEAD = """# Which FMUs were tried

Made by `python tools/fmu_table.py` on Linux (x86-64). The FMUs are not part of this project: the Reference FMUs of the
Modelica Association, built from their source, and some of the FMI cross-check. Per tool and interface: how many were tried,
how many FMPy simulates, how many dynident simulates, of how many both simulate the outputs are the same (rms within 1 % of
the range, by the same inputs at the same samples; or so up to one sample later, where FMPy gives outputs with the input
before), from how many simulated records a parameter came back (converged, within four standard errors), how many have no
parameter that acts on an output, and of how many FMUs with both interfaces the two answers agree within 0.1 standard errors.
The fit begins 5 % off; where it ends in another minimum (what switches has many), once more 0.5 % off, which is said.
"source" are FMUs that bring source code only, which FMPy does not run; "unknown" are those that name no tool, or are refused
before that is read. A trial that takes more than {limit} s of the processor, all its simulations and its fit together, is
given up.

| tool | FMI | interface | tried | FMPy | dynident | same | fitted | nothing to fit | CS = ME | what was not |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
NOTHING = "no parameter acts on an output"
FROM_NEARBY = "well from 0.5 % off"


def times_of(path: Path) -> np.ndarray:
    import fmpy

    experiment = fmpy.read_model_description(str(path), validate=False).defaultExperiment
    begin = float(getattr(experiment, "startTime", None) or 0.0)
    end = float(getattr(experiment, "stopTime", None) or begin + 1.0)
    return np.linspace(begin, min(end, begin + 100.0) if end > begin else begin + 1.0, SAMPLES)


def given_inputs(path: Path):
    """As a table with a column of times first; None for an FMU without inputs."""
    import fmpy
    from fmpy.util import read_csv

    file = path.with_name(f"{path.stem}_in.csv")
    if file.exists():  # some of these change parameters on the way, which no record can
        table = read_csv(str(file))
        known = {v.name: v for v in fmpy.read_model_description(str(path), validate=False).modelVariables}
        names = [n for n in table.dtype.names[1:] if n in known and known[n].causality == "input"]
        return table[[table.dtype.names[0], *names]] if names else None
    variables = [v for v in fmpy.read_model_description(str(path), validate=False).modelVariables
                 if v.causality == "input" and v.type not in ("String", "Binary", "Clock") and not v.dimensions]
    if not variables:
        return None
    t = times_of(path)
    phase = 6 * np.pi * (t - t[0]) / (t[-1] - t[0])
    signals = [np.sin(phase) if v.type in ("Real", "Float64", "Float32") and v.variability != "discrete" else np.sin(phase) > 0
               for v in variables]
    starts = [_number(v.start) if v.type not in ("Boolean",) else 0.0 for v in variables]
    return np.array(list(zip(t, *(start + s for start, s in zip(starts, signals, strict=True)), strict=True)), dtype=[
        ("time", float), *((v.name, float if v.type in ("Real", "Float64", "Float32") else int) for v in variables)])


def inputs_at(path: Path, t: np.ndarray):
    """Their values at these times."""
    given = given_inputs(path)
    if given is None:
        return None
    time, *names = given.dtype.names
    place = np.clip(np.searchsorted(given[time], t + 1e-12, side="right") - 1, 0, None)
    columns = [given[n][place] if given[n].dtype.kind in "iub" else np.interp(t, given[time], given[n]) for n in names]
    return np.array(list(zip(t, *columns, strict=True)), dtype=given.dtype)


def _number(text) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0


def by_fmpy(path: Path, kind: str, end: str = "") -> dict:
    """At the samples that dynident simulated, whose last is given, with the inputs there: what lies between is no question."""
    import fmpy

    t = times_of(path)
    t = np.linspace(t[0], float(end), SAMPLES) if end else t
    found = fmpy.simulate_fmu(str(path), validate=False, start_time=t[0], stop_time=t[-1], output_interval=t[1] - t[0],
                              fmi_type=KINDS[kind], input=inputs_at(path, t), relative_tolerance=1e-8, timeout=LIMIT / 2)
    return {"t": found["time"].tolist(), "y": {n: found[n].astype(float).tolist() for n in found.dtype.names[1:]
                                              if found[n].ndim == 1 and found[n].dtype.kind in "fiub"}}


def by_dynident(path: Path, kind: str) -> dict:
    model, record, outputs = simulated(path, kind, times_of(path))
    found = {"t": record.time.tolist(), "y": {n: y.tolist() for n, y in outputs.items()}}
    return found | {"fit": fitted(model, *measured(path, model, record, outputs))}


def measured(path: Path, model, record, outputs):
    """What the model itself does, by Model Exchange, where a Co-Simulation with errors of its own offers that as well."""
    import dynident as di

    if model.kind == "co_simulation" and "model_exchange" in model.description.interfaces:
        try:
            return simulated(path, "model_exchange", record.time)[1:]
        except di.DynidentError:
            pass
    return record, outputs


def simulated(path: Path, kind: str, t: np.ndarray):
    """Model, record of inputs and outputs; by the integrator that goes through, and not beyond where the FMU asks to end."""
    import dynident as di

    whole, began = t.size == SAMPLES and t[-1] == times_of(path)[-1], time.monotonic()
    for integrator in ("runge_kutta", "radau", "cvodes") if kind == "model_exchange" else ("runge_kutta",):
        try:
            model = di.FmuModel(path, kind=kind, integrator=integrator, time_limit=LIMIT / 3, outputs=_outputs(path))
            record = record_of(model, path, t)
            _once(model, record)
            if whole and time.monotonic() - began > SLOW:
                return simulated(path, kind, t[0] + PART * (t - t[0]))
            outputs = di.simulate(model, {}, record).outputs
            break
        except di.DynidentError as error:
            if whole and "did not answer" in str(error):
                return simulated(path, kind, t[0] + PART * (t - t[0]))
            if "asked to end" in str(error) and t.size == SAMPLES:
                return simulated(path, kind, t[:int(EARLIER * SAMPLES)])
            if integrator == "cvodes" or kind != "model_exchange":
                raise
    return model, record, outputs


def _once(model, record) -> None:
    """One simulation without sub-steps, to see how long it takes."""
    from dynident.integrators.grid import grid_of

    model.record_simulator((), "runge_kutta" if model.kind != "model_exchange" else model.options["integrator"]).run(
        np.zeros(len(model.parameters)), np.zeros(len(model.states)), grid_of(model, record, 1, True))


def _outputs(path: Path) -> list[str] | None:
    """What is measured where the FMU declares no output: its first state, or else its first real variable."""
    from dynident.fmu.description import read_description

    d = read_description(path)
    if any(v.causality == "output" for v in d.variables.values()):
        return None
    return [next(iter(d.states), None) or next(n for n, v in d.variables.items() if v.real and v.causality == "local")]


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
    """Nothing where a parameter came back, or why none did; from nearby where another minimum lay in between."""
    why = fitted_from(model, record, outputs, OFF)
    near = fitted_from(model, record, outputs, NEAR) if why and why != NOTHING else why
    return why if near else why and f"{FROM_NEARBY}; from {100 * (OFF - 1):g} % off: {why}"


def fitted_from(model, record, outputs, beside: float) -> str:
    import dynident as di

    asked = problem_of(model, record, outputs, beside)
    if asked is None:
        return NOTHING
    name, true = asked.names[0], model.description.variables[asked.names[0]].start
    try:
        found = di.identify(asked, di.least_squares(), progress=False)
    except di.NotConverged as bad:
        return f"{name}: {bad.estimate.status}"
    errors = abs(found.values[name] - true) / found.uncertainty.std(name)
    return "" if errors < 4 else f"{name} came back {errors:.1f} standard errors off"


def off(value: float, beside: float = OFF) -> float:
    """A start beside the truth."""
    return beside * value if value else beside - 1


def problem_of(model, record, outputs, beside: float = OFF):
    """A noisy record and the parameter that acts most on it, with a start beside the truth; None where none does."""
    import dynident as di

    seen = {n: y for n, y in outputs.items() if np.all(np.isfinite(y)) and model.description.variables[n].real}
    size = {n: float(np.ptp(y) or np.max(np.abs(y)) or 1.0) for n, y in seen.items()}
    effect = {}
    until = time.monotonic() + LIMIT / 3
    for name in model.parameters[:MOST_TRIED]:
        if time.monotonic() > until and effect:
            break
        start = model.description.variables[name].start
        try:
            moved = di.simulate(model, {name: off(start)}, record).outputs
        except di.DynidentError:
            continue
        effect[name] = max((float(np.sqrt(np.mean((moved[n] - y) ** 2))) / size[n] for n, y in seen.items()
                            if np.all(np.isfinite(moved[n]))), default=0.0)
    if not effect or max(effect.values()) < NOISE / 3:
        return None
    most = max(effect, key=effect.get)
    draw = np.random.default_rng(1)
    noisy = {n: y + NOISE * size[n] * draw.normal(size=y.size) for n, y in seen.items()}
    noisy_record = di.Experiment(record.time, record.inputs, noisy, {n: di.Gaussian(NOISE * size[n]) for n in seen},
                             hold=record.hold)
    return di.Problem(model, [noisy_record], [di.Parameter(most, start=off(model.description.variables[most].start, beside))])


def by_both(path: Path, kind: str) -> dict:
    """How far the answers of the two interfaces are apart, in standard errors, fitted to one record."""
    import dynident as di

    model, record, outputs = simulated(path, "model_exchange", times_of(path))
    asked = problem_of(model, record, outputs, NEAR)
    if asked is None:
        return {"error": NOTHING}
    other = di.FmuModel(path, kind="co_simulation", outputs=list(model.outputs), time_limit=LIMIT / 3)
    found = [di.identify(di.Problem(each, asked.experiments, asked.parameters), di.least_squares(), progress=False)
             for each in (model, other)]
    name = asked.names[0]
    return {"apart": abs(found[0].values[name] - found[1].values[name]) / found[0].uncertainty.std(name)}


def trial(who: str, path: Path, kind: str, *more: str) -> dict:
    """What one process finds; it and what it starts may take so much time of the processor."""
    from dynident._util.operating_system import end_session, own_session, session_cpu_seconds

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "--trial", who, kind, str(path.resolve()), *more]
        with Path(folder, "said").open("w+", errors="replace") as said:
            run = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL, cwd=folder, **own_session())
            until = time.monotonic() + PATIENCE
            while run.poll() is None:
                time.sleep(0.1)
                used = session_cpu_seconds(run.pid)
                if time.monotonic() > until or (used is not None and used > LIMIT):
                    end_session(run)
                    return {"error": f"takes more than {LIMIT} s"}
            said.seek(0)
            lines = [line for line in said.read().splitlines() if line.startswith(MARK)]
    return json.loads(lines[-1][len(MARK):]) if lines else {"error": f"the process ended with code {run.returncode}"}


def same(theirs: dict, ours: dict) -> bool:
    """Or the same half a sample or one later: FMPy steps and pairs outputs with the input of the sample before."""
    for name, values in ours["y"].items():
        if name in theirs["y"]:
            other = np.interp(ours["t"], theirs["t"], theirs["y"][name])
            scale = np.ptp(theirs["y"][name]) or np.max(np.abs(other)) or 1.0
            own = np.array(values)
            later = ((own, other), (own[:-1], other[1:]), ((own[:-1] + own[1:]) / 2, other[1:]))
            if min(np.sqrt(np.mean((a - b) ** 2)) for a, b in later) > SAME * scale:
                return False
    return True


def trials_of(path: Path) -> list[tuple[str, str, str, str]]:
    """What is to be tried: path, tool, version, interface; one without interface where it is refused before that is read."""
    from dynident.errors import DynidentError
    from dynident.fmu.description import read_description

    try:
        d = read_description(path)
    except DynidentError:
        return [(str(path), "unknown", "", "")]
    only = {"me": "model_exchange", "cs": "co_simulation"}
    said = next((only[part] for part in path.parts if part in only), None)
    kinds = [kind for kind in d.interfaces if said in (None, kind)]
    source = ", source" if kinds and d.interfaces[kinds[0]].build is not None else ""
    return [(str(path), f"{d.tool or 'unknown'}{source}", f"{d.version}.0", kind) for kind in kinds]


def tried(name: str, tool: str, version: str, kind: str) -> dict:
    """One row of trials: what was asked, and what came of it."""
    from dynident.fmu.description import read_description

    asked, path = {"path": name, "tool": tool, "version": version, "kind": kind}, Path(name)
    if not kind:
        return asked | {"ours": trial("dynident", path, "auto").get("error", "")}
    ours = trial("dynident", path, kind)
    theirs = trial("fmpy", path, kind, *([str(ours["t"][-1])] if "t" in ours and len(ours["t"]) == SAMPLES else []))
    found = {"theirs": theirs.get("error", ""), "ours": ours.get("error", ""), "fit": ours.get("fit", "")}
    if not (found["theirs"] or found["ours"]):
        found["same"] = same(theirs, ours)
    if kind == "co_simulation" and not found["ours"] and len(read_description(path).interfaces) > 1:
        found["apart"] = trial("both", path, kind).get("apart")
    return asked | found


def why_not(row: dict) -> str:
    """Why a trial is not all that it could be; nothing where it is."""
    if row["ours"] or row.get("same") is False:
        return row["ours"] or "outputs differ"
    if row["fit"] and row["fit"] != NOTHING:
        return row["fit"]
    apart = row.get("apart")
    return f"CS and ME {apart:.2g} standard errors apart" if apart is not None and apart > AGREE else ""


def table(rows: list[dict]) -> str:
    """By tool, version and interface, what was tried and what of it went well."""
    groups: dict = defaultdict(list)
    for row in rows:
        groups[row["tool"], row["version"], SHORT.get(row["kind"], "")].append(row)
    lines = []
    for (tool, version, kind), members in sorted(groups.items()):
        fmpy, ours = [[m for m in members if m.get(who) == ""] for who in ("theirs", "ours")]
        both, compared = [m for m in ours if "same" in m], [m for m in members if m.get("apart") is not None]
        notes: dict[str, str] = {}
        for m in members:
            if text := re.sub(r"/\S*/", "", why_not(m).split("\n")[0])[:110].replace("|", "/"):
                notes.setdefault(text, Path(m["path"]).stem)
        agree = f"{sum(m['apart'] <= AGREE for m in compared)} of {len(compared)}" if compared else ""
        well = sum(not m["fit"] or m["fit"].startswith(FROM_NEARBY) for m in ours)
        lines.append(f"| {tool} | {version} | {kind} | {len(members)} | {len(fmpy)} | {len(ours)} | "
                     f"{sum(m['same'] for m in both)} of {len(both)} | {well} | "
                     f"{sum(m['fit'] == NOTHING for m in ours)} | {agree} | "
                     f"{'; '.join(f'{name}: {text}' for text, name in notes.items())} |")
    return "\n".join(lines) + "\n"


def carried_out(folders: list[Path], kept: Path | None) -> list[dict]:
    """Every trial of these folders, those that a file holds from earlier runs as they were; new ones are added to it."""
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    known = {(row["path"], row["kind"]) for row in rows}
    for path in sorted(path.resolve() for folder in folders for path in folder.rglob("*.fmu")):
        for asked in trials_of(path):
            if (asked[0], asked[3]) in known:
                continue
            rows.append(tried(*asked))
            print(path.stem, asked[3], why_not(rows[-1]) or "well", sep=" | ", flush=True)
            if kept:
                with kept.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--trials", type=Path, help="a file that keeps each trial, so that a run goes on where one was stopped")
    parser.add_argument("--trial", nargs="+")
    given = parser.parse_args()
    if given.trial:
        who, kind, path, *more = given.trial
        try:
            found = {"fmpy": by_fmpy, "dynident": by_dynident, "both": by_both}[who](Path(path), kind, *more)
        except Exception as error:  # whatever an FMU does to a reader is a row of the table
            found = {"error": f"{type(error).__name__}: {error}"}
        print(f"\n{MARK}{json.dumps(found)}", flush=True)
        os._exit(0)  # no code of the FMU at the end
    text = HEAD.format(limit=LIMIT) + table(carried_out(given.folders, given.trials))
    if given.out:
        given.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
