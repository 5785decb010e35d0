"""Arrival: from how far does a method find the right minimum of a plant with hidden states, and does it know?

    python benchmarks/arrival.py                                   runs what is missing of a short selection, prints the table
    python benchmarks/arrival.py run --starts 5 --cases all        all of it; stopped and started again, it goes on
    python benchmarks/arrival.py run --methods scipy --plants lorenz,nerve --starts 1
    python benchmarks/arrival.py run --held-back                   the plants that were not looked at while tuning
    python benchmarks/arrival.py table                             what is on disk

Every plant of `plants.py`, starts off by factors of 5, 30 and 100 in every parameter, with given and unknown noise, with and
without bounds. A run has arrived where its cost, one simulation per record with the true noise, lies at most 10 in chi-square
above that of a fit started at the truth, or where all parameters that can be identified lie within four standard errors of the
truth. Results are lines of JSON in results/arrival.jsonl, one a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plants
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from timing import SMOKE, Line, Result, main, size

import dynident as di
from dynident.methods.open_loop import open_loop_residuals

STORE = (Path(tempfile.mkdtemp()) if SMOKE else Path("results")) / "arrival.jsonl"
CHI_SQUARE_ROOM = 10.0  # above the optimum, within which an end is that optimum
STANDARD_ERRORS = 4.0
IDENTIFIABLE = 0.3  # of the truth: a larger standard error says that the record does not show a parameter
SCIPY_SECONDS = 60.0  # CPU, after which a fit by scipy is taken as it stands
METHODS = {"automatic": lambda: di.automatic(), "multiple_shooting": lambda: di.multiple_shooting(),
           "full_discretization": lambda: di.full_discretization(), "boundary_value": lambda: di.boundary_value(),
           "single_shooting": lambda: di.single_shooting()}
PEERS = ("scipy", "scipy multistart")
CASES = {"given": (True, False), "unknown": (False, False), "given, bounds": (True, True), "unknown, bounds": (False, True)}
SHORT = {"methods": ("automatic", "multiple_shooting"), "starts": 1, "cases": ("given",)}


@dataclass(frozen=True)
class Run:
    """One fit and what became of it."""

    method: str
    plant: str
    factor: int
    start: int
    case: str
    arrived: bool
    excess: float  # of chi-square over the optimum
    believed: bool | None
    converged: bool
    by: str
    seconds: float  # CPU
    jacobians: int

    @property
    def key(self) -> tuple:
        return self.method, self.plant, self.factor, self.start, self.case


# scoring


@cache
def optimum(name: str) -> tuple[float, dict[str, tuple[float, float]]]:
    """Chi-square of the fit that was started at the truth, and parameters with their standard errors where identifiable."""
    problem = plants.problem_at_truth(name)
    estimate = fitted(problem, di.single_shooting())
    assert estimate is not None
    truth = plants.plant(name).truth
    known = {p: (value, estimate.uncertainty.std(p)) for p, value in truth.items()
             if estimate.uncertainty.std(p) <= IDENTIFIABLE * abs(value)}
    return chi_square(name, estimate), known


def fitted(problem: di.Problem, method: Any) -> di.Estimate | None:
    try:
        return di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate
    except di.DynidentError:
        return None


def chi_square(name: str, estimate: di.Estimate) -> float:
    return chi_square_of(name, dict(estimate.values), int(estimate.counts.get("substeps", 1)))


def chi_square_of(name: str, values: dict[str, float], substeps: int = 4) -> float:
    """One simulation over the record, with the noise that is in it."""
    problem, std = plants.problem_at_truth(name), plants.noise_std(name)
    residuals = open_loop_residuals(problem, values, substeps=max(4, substeps))
    if residuals is None:
        return np.inf
    return float(sum(np.sum((r / std[out]) ** 2) for own in residuals for out, r in own.items()))


def arrived(name: str, values: dict[str, float], chi: float) -> bool:
    best, known = optimum(name)
    near = all(abs(values[p] - truth) <= STANDARD_ERRORS * error for p, (truth, error) in known.items())
    return chi - best <= CHI_SQUARE_ROOM or (near and np.isfinite(chi) and chi - best <= 0.1 * best)


# running


def run_one(method: str, plant: str, factor: int, start: int, case: str) -> Run:
    given, bounds = CASES[case]
    optimum(plant)  # before the clock runs; it compiles, too
    began = time.process_time()
    if method in PEERS:
        values = by_scipy(plant, factor, start, given, bounds, method == "scipy multistart")
        spent, estimate = time.process_time() - began, None
    else:
        estimate = fitted(plants.problem(plant, factor, start, given, bounds), METHODS[method]())
        spent = time.process_time() - began
        values = None if estimate is None else dict(estimate.values)
    if values is None:
        return Run(method, plant, factor, start, case, False, np.inf, None, False, "refused", spent, 0)
    chi = chi_square_of(plant, values, 1 if estimate is None else int(estimate.counts.get("substeps", 1)))
    return Run(method, plant, factor, start, case, arrived(plant, values, chi), chi - optimum(plant)[0],
               None if estimate is None else estimate.believed, True if estimate is None else estimate.converged,
               "" if estimate is None else estimate.arrived_by, spent,
               0 if estimate is None else int(estimate.counts.get("jacobians", 0)))


class OutOfTime(Exception):
    """The CPU that a peer may take is spent."""


def by_scipy(name: str, factor: int, start: int, given: bool, bounds: bool, many: bool) -> dict[str, float] | None:
    """least_squares over solve_ivp (LSODA), parameters and unknown first states, as one would write it; with `many`, from
    further starts as long as the time lasts."""
    it, run = plants.plant(name), plants.record(name, given)
    free = [s for s in it.states if s not in it.known]
    limit, best = time.process_time() + SCIPY_SECONDS, (np.inf, None)
    codes = [compile(text, name, "eval") for text in it.states.values()]
    seen = {out: compile(text, name, "eval") for out, text in it.outputs.items()}

    def residuals(z: np.ndarray) -> np.ndarray:
        nonlocal best
        if time.process_time() > limit:
            raise OutOfTime
        fixed = {**plants.NAMESPACE, **it.constants, **dict(zip(it.truth, z, strict=False))}
        x0 = [z[len(it.truth) + free.index(s)] if s in free else it.initial[s] for s in it.states]

        def rate(t: float, x: np.ndarray) -> list[float]:
            k = min(max(int(np.searchsorted(it.time, t, side="right")) - 1, 0), it.time.size - 1)
            names = {**fixed, **{u: v[k] for u, v in it.inputs.items()}, "t": t, **dict(zip(it.states, x, strict=True))}
            return [eval(code, {"__builtins__": {}}, names) for code in codes]

        step = it.time[1] - it.time[0] if it.inputs else np.inf
        ran = solve_ivp(rate, (it.time[0], it.time[-1]), x0, "LSODA", it.time, rtol=1e-6, atol=1e-8, max_step=step)
        if not ran.success or ran.y.shape[1] != it.time.size or not np.all(np.isfinite(ran.y)):
            return np.full(sum(y.size for y in run.outputs.values()), 1e3)
        names = {**fixed, **it.inputs, **dict(zip(it.states, ran.y, strict=True)), "t": it.time}
        found = np.concatenate([(eval(code, {"__builtins__": {}}, names) - run.outputs[out]) / np.std(run.outputs[out])
                                for out, code in seen.items()])
        if (cost := float(found @ found)) < best[0]:
            best = cost, z.copy()
        return found

    rng = np.random.default_rng([7, start, factor])
    for attempt in range(1000 if many else 1):
        begin = plants.start(name, factor, start)
        away = rng.uniform(-1, 1, len(begin)) if attempt else np.zeros(len(begin))
        shown = {text: float(run.outputs[out][0]) for out, text in it.outputs.items()}  # states that are measured themselves
        z = np.array([*(v * factor**a for v, a in zip(begin.values(), away, strict=True)), *(shown.get(s, 0.0) for s in free)])
        box = [(v / plants.BOUND, v * plants.BOUND) for v in it.truth.values()] if bounds else []
        low, high = np.full(z.size, -np.inf), np.full(z.size, np.inf)
        for i, (a, b) in enumerate(box):
            low[i], high[i] = min(a, b), max(a, b)
        try:
            least_squares(residuals, np.clip(z, low, high), bounds=(low, high), x_scale="jac", max_nfev=200)
        except OutOfTime:
            break
        except (ValueError, FloatingPointError, ZeroDivisionError, OverflowError):
            continue
    if best[1] is None:
        return None
    return {**dict(zip(it.truth, best[1], strict=False)),
            **{f"{s}(0)": float(best[1][len(it.truth) + i]) for i, s in enumerate(free)}}


def stored() -> dict[tuple, Run]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {run.key: run for run in (Run(**json.loads(line)) for line in lines)}


def wanted(options: argparse.Namespace) -> Iterator[tuple]:
    names = options.plants.split(",") if options.plants else [
        name for name in plants.PLANTS if (name in plants.HELD_BACK) == options.held_back]
    cases = list(CASES) if options.cases == "all" else options.cases.split(";")
    for start in range(options.first, options.first + options.starts):
        for factor in map(int, options.factors.split(",")):
            for case in cases:
                for method in options.methods.split(","):
                    for name in names:
                        yield method, name, factor, start, case


def run_missing(options: argparse.Namespace) -> None:
    """What is not on disk yet."""
    warnings.filterwarnings("ignore")
    STORE.parent.mkdir(exist_ok=True)
    done = stored()
    for key in wanted(options):
        if key not in done:
            one = run_one(*key)
            with STORE.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")
            print(f"{' '.join(map(str, key))}: {'arrived' if one.arrived else 'MISSED'}, believed {one.believed}, {one.by}, "
                  f"{one.seconds:.2f} s", file=sys.stderr, flush=True)


# the table


def table() -> Result:
    runs = list(stored().values())
    lines = []
    for group, held in (("", False), ("held back: ", True)):
        own = [run for run in runs if (run.plant in plants.HELD_BACK) == held]
        for method in [m for m in (*METHODS, *PEERS) if any(run.method == m for run in own)]:
            for factor in plants.FACTORS:
                some = [run for run in own if run.method == method and run.factor == factor]
                lines += _arrivals(f"{group}{method}, factor {factor}", some, method == "automatic" and factor == 100)
        lines += _automatic(group, [run for run in own if run.method == "automatic"], own)
    return Result("Arrival", f"{len({run.plant for run in runs})} plants of which a part of the states is measured, "
                  f"{len(runs)} runs; arrived: at most {CHI_SQUARE_ROOM:g} in chi-square above the fit from the truth.", lines)


def _arrivals(what: str, runs: list[Run], promised: bool) -> list[Line]:
    if not runs:
        return []
    share = sum(run.arrived for run in runs) / len(runs)
    found = f"{sum(run.arrived for run in runs)} of {len(runs)} arrived, median {np.median([r.seconds for r in runs]):.2f} s"
    return [Line(what, found, ">= 97 %" if promised else "", share >= 0.97 if promised else None)]


def _automatic(group: str, runs: list[Run], others: list[Run]) -> list[Line]:
    if not runs:
        return []
    there = [run for run in runs if run.arrived]
    believed = sum(bool(run.believed) for run in there) / max(1, len(there))
    silent = sum(bool(run.believed) and not run.arrived for run in runs) / len(runs)
    plain = {run.key[1:]: run for run in others if run.method == "multiple_shooting" and run.arrived}
    ratios = [run.seconds / plain[run.key[1:]].seconds for run in runs if run.by == "plain" and run.key[1:] in plain]
    stages = {stage: sum(run.by.split(" ")[0].strip(",") == stage for run in there)
              for stage in ("plain", "smooth", "second", "climb", "restart")}
    lines = [Line(f"{group}believed where it arrived", f"{100 * believed:.1f} %", ">= 95 %", believed >= 0.95),
             Line(f"{group}silent misses", f"{100 * silent:.2f} % of {len(runs)}", "<= 0.5 %", silent <= 0.005),
             Line(f"{group}arrived by stage", ", ".join(f"{stage} {n}" for stage, n in stages.items() if n))]
    if ratios:
        median, most = np.median(ratios), np.quantile(ratios, 0.9)
        lines += [Line(f"{group}CPU over multiple shooting where that arrives, median of {len(ratios)}", f"{median:.2f}",
                       "<= 1.15", median <= 1.15), Line(f"{group}the same, 90 %", f"{most:.2f}", "<= 1.3", most <= 1.3)]
    return lines


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="From how far does a method find the right minimum?")
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--methods", default=",".join(SHORT["methods"]))
    parser.add_argument("--plants", default="")
    parser.add_argument("--factors", default=",".join(map(str, plants.FACTORS)))
    parser.add_argument("--starts", type=int, default=SHORT["starts"])
    parser.add_argument("--first", type=int, default=0, help="number of the first start")
    parser.add_argument("--cases", default=";".join(SHORT["cases"]), help=f"all, or some of {'; '.join(CASES)}")
    parser.add_argument("--held-back", action="store_true")
    return parser.parse_args(words)


def run() -> Result:
    """What is missing of the short selection, and the table of all that is on disk."""
    run_missing(parsed(["run", *size([], ["--plants", "nerve", "--factors", "5"])]))
    return table()


def command() -> None:
    """`run` or `table`, as the first lines of this file say."""
    options = parsed(sys.argv[1:])
    if options.what == "run":
        run_missing(options)
    print(table().markdown())


if __name__ == "__main__":
    if sys.argv[1:2] in (["run"], ["table"]):
        sys.exit(command())
    main(run)
