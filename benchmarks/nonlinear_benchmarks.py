"""Real records of nonlinearbenchmark.org: the default on physical models, beside published black-box baselines.

Fitted on the estimation record by `identify(problem)`, without a method; free-run simulation of the test record, whose first
samples serve for the initial state alone. Baselines: the best of ten methods of Champneys et al. (2024). The records are read
from beside the project (`../shared/data`), or from the folder that DYNIDENT_BENCHMARK_DATA names, and are not part of it.

Cuts are those of the official loader (nonlinear_benchmarks). EMPS: its two records as they are. Silverbox: the multisine is
samples 40,650 to 127,400, its first three quarters to estimate and the rest to test; the arrow is samples 100 to 40,575,
"without extrapolation" its first 32,000. Cascaded tanks: `cascaded_tanks/dataBenchmark.csv` with the columns of the published
file (uEst, uVal, yEst, yVal, every 4 s). Coupled drives: no record of them was at hand.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from timing import SMOKE, Line, Result, main, once, ratio_text

import dynident as di
from dynident.models import library

DATA = Path(os.environ.get("DYNIDENT_BENCHMARK_DATA", Path(__file__).parents[2] / "shared" / "data"))
TANKS_SAMPLE_TIME = 4.0  # s
EMPS_GAIN = 35.15065188248547  # N/V
MOST_CPU = {"emps": 2, "silverbox": 2, "cascaded_tanks": 20}  # times the plain fit
RATE = 1e7 / 2**14  # Hz, of the Silverbox
EMPS_FIRST, SILVERBOX_FIRST, TANKS_FIRST = 20, 50, 5  # samples of the test record for its initial state


def rows(name: str) -> np.ndarray:
    return np.genfromtxt(DATA / name, delimiter=",", names=True)


def test_error(estimate: di.Estimate, record: di.Experiment, first: int) -> float:
    """RMS of the free run after the first samples, from an initial state that these say, parameters held."""
    output = next(iter(record.outputs))
    held = [di.Parameter(p, float(estimate.values[p]), free=False) for p in estimate.problem.model.parameters]
    begin = di.identify(di.Problem(estimate.problem.model, [record.window(record.time[0], record.time[first - 1])], held),
                        di.single_shooting(), progress=False)
    values = {name: float(value) for name, value in begin.values.items()}
    free_run = di.simulate(estimate.problem.model, values, record, substeps=4).outputs[output]
    return float(np.sqrt(np.mean((record.outputs[output][first:] - free_run[first:]) ** 2)))


def emps() -> tuple[di.Problem, list[tuple[str, di.Experiment, int, float, str]]]:
    def record(name: str) -> di.Experiment:
        table = rows(f"emps/{name}.csv")
        return di.Experiment(table["t"], {"u": table["vir"]}, {"position": 1e3 * table["qm"]})

    model = library.servo_axis(gain=EMPS_GAIN, v_smooth=1e-3)
    in_mm = di.EquationModel(states={"q": "v", "v": f"({EMPS_GAIN}*u - Fv*v - Fc*tanh(v/1e-3) - offset)/M"},
                             outputs={"position": "1000*q"}, inputs=["u"], parameters=list(model.parameters))
    starts = {"M": 100.0, "Fv": 100.0, "Fc": 10.0, "offset": 0.0}
    return di.Problem(in_mm, [record("DATA_EMPS")], [di.Parameter(n, v) for n, v in starts.items()]), [
        ("EMPS, pulses", record("DATA_EMPS_PULSES"), EMPS_FIRST, 74.0, "mm")]


def silverbox() -> tuple[di.Problem, list[tuple[str, di.Experiment, int, float, str]]]:
    table = rows("silverbox/SNLS80mV.csv")

    def record(begin: int, end: int) -> di.Experiment:
        return di.Experiment(np.arange(end - begin) / RATE, {"u": table["V1"][begin:end]}, {"mV": 1e3 * table["V2"][begin:end]},
                             hold="linear")

    model = di.EquationModel(states={"y": "v", "v": "k*(u - uo) - d*v - w2*y - b*y**3 - a*y**2"},
                             outputs={"mV": "1000*(y + yo)"}, inputs=["u"],
                             parameters=["k", "d", "w2", "b", "a", "uo", "yo"])
    unknowns = [*(di.Parameter(n, 1e5) for n in ("k", "w2", "b")), di.Parameter("d", 100.0), di.Parameter("a", 0.0, scale=1e4),
                di.Parameter("uo", 0.0, scale=0.01), di.Parameter("yo", 0.0, scale=0.01)]
    first, last = 40650, 127400  # of the multisine
    cut = first + int(0.75 * (last - first))
    return di.Problem(model, [record(first, cut)], unknowns), [
        ("Silverbox, multisine", record(cut, last), SILVERBOX_FIRST, 1.49, "mV"),
        ("Silverbox, arrow", record(100, 40575), SILVERBOX_FIRST, 2.39, "mV"),
        ("Silverbox, arrow without extrapolation", record(100, 32100), SILVERBOX_FIRST, 0.947, "mV")]


def cascaded_tanks() -> tuple[di.Problem, list[tuple[str, di.Experiment, int, float, str]]]:
    """Two tanks, Torricelli's law with outlets that need not be at level 0; of what the first spills the second gets a part."""
    table = rows("cascaded_tanks/dataBenchmark.csv")

    def record(of: str) -> di.Experiment:
        u, y = (table[f"{name}{of}"][np.isfinite(table[f"{name}{of}"])] for name in "uy")
        return di.Experiment(TANKS_SAMPLE_TIME * np.arange(y.size), {"u": u}, {"level": y})

    out = {tank: f"sqrt(maximum(h{tank} + c{tank}, 1e-3))" for tank in "12"}
    spill = {tank: f"maximum(h{tank} - H{tank}, 0)" for tank in "12"}
    model = di.EquationModel(
        states={"h1": f"k4*u + k5 - k1*{out['1']} - {spill['1']}",
                "h2": f"k2*{out['1']} - k3*{out['2']} + q*{spill['1']} - {spill['2']}"},
        outputs={"level": "h2"}, inputs=["u"], parameters=["k1", "k2", "k3", "k4", "k5", "q", "H1", "H2", "c1", "c2"])
    unknowns = [*(di.Parameter(k, 0.05) for k in ("k1", "k2", "k3", "k4")), di.Parameter("k5", 0.0, scale=0.01),
                di.Parameter("q", 0.5, lower=0, upper=2), di.Parameter("H1", 10.0, lower=5, upper=20),
                di.Parameter("H2", 10.0, lower=5, upper=12), *(di.Parameter(c, 0.0, lower=-1, upper=2) for c in ("c1", "c2"))]
    return di.Problem(model, [record("Est")], unknowns), [("Cascaded tanks", record("Val"), TANKS_FIRST, 0.396, "V")]


def run() -> Result:
    lines = []
    for make in (emps, silverbox, cascaded_tanks):
        if SMOKE or not (DATA / make.__name__).exists():
            lines.append(Line(make.__name__, "not run" if SMOKE else "not at hand"))
            continue
        problem, tests = make()
        fitted(problem, None)  # loads and compiles
        plain, _ = once(lambda problem=problem: fitted(problem, di.multiple_shooting()))
        spent, estimate = once(lambda problem=problem: fitted(problem, None))
        most = MOST_CPU[make.__name__]
        lines.append(Line(f"{make.__name__}: CPU over the plain fit", ratio_text(spent / plain), f"<= {most}",
                          spent <= most * plain))
        lines.append(Line(f"{make.__name__}: believed", f"{estimate.believed}: {estimate.belief_reason}"))
        for what, record, first, baseline, unit in tests:
            error = test_error(estimate, record, first)
            lines.append(Line(f"{what}, {len(estimate.problem.model.parameters)} parameters", f"{error:.3g} {unit}",
                              f"< {baseline:g} {unit}", error < baseline))
    return Result("Real records", "Free-run RMSE on test records; targets are the best published black-box baselines.", lines)


def fitted(problem: di.Problem, method: object) -> di.Estimate:
    try:
        return di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        assert stopped.estimate is not None
        return stopped.estimate


if __name__ == "__main__":
    main(run)
