"""Arrival: from how far does a method find the right minimum of a plant with hidden states, and does it know?

    python benchmarks/arrival.py                                   the table of what is on disk, or of a short selection
    python benchmarks/arrival.py run --starts 5 --cases all        all of it; stopped and started again, it goes on
    python benchmarks/arrival.py run --methods scipy --plants lorenz,nerve --starts 1
    python benchmarks/arrival.py run --held-back                   the plants that were not looked at while tuning
    python benchmarks/arrival.py run --methods "scipy,scipy multistart,compiled,opty" --factors 30     peers (arrival_peers.py)
    python benchmarks/arrival.py wrong                             models that lack something: never believed, and soon stopped
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
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plants
from arrival_peers import PEERS, by_peer
from timing import SMOKE, Line, Result, main, once, size

import dynident as di
from dynident.methods.open_loop import open_loop_residuals

STORE = (Path(tempfile.mkdtemp()) if SMOKE else Path("results")) / "arrival.jsonl"
CHI_SQUARE_ROOM = 10.0  # above the optimum, within which an end is that optimum
STANDARD_ERRORS = 4.0
SHORT_FIT = 0.3  # CPU seconds, below which a fit is timed three times
IDENTIFIABLE = 0.3  # of the truth: a larger standard error says that the record does not show a parameter
METHODS = {"automatic": lambda: di.automatic(), "multiple_shooting": lambda: di.multiple_shooting(),
           "full_discretization": lambda: di.full_discretization(), "boundary_value": lambda: di.boundary_value(),
           "single_shooting": lambda: di.single_shooting()}
CASES = {"given": (True, False), "unknown": (False, False), "given, bounds": (True, True), "unknown, bounds": (False, True)}
WRONG_CASES = size(((5, 0, True), (5, 0, False), (30, 1, True), (100, 2, False)), ((5, 0, True),))
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
    fitted(problem, di.multiple_shooting())  # whatever is compiled and read once, before a clock runs
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
    if method in PEERS:
        values, spent = by_peer(method, plant, factor, start, given, bounds, equal_seconds(plant, factor, start, case))
        estimate = None
    else:
        spent, estimate = quickest(lambda: fitted(plants.problem(plant, factor, start, given, bounds), METHODS[method]()))
        values = None if estimate is None else dict(estimate.values)
    if values is None:
        return Run(method, plant, factor, start, case, False, np.inf, None, False, "refused", spent, 0)
    chi = chi_square_of(plant, values, 1 if estimate is None else int(estimate.counts.get("substeps", 1)))
    return Run(method, plant, factor, start, case, arrived(plant, values, chi), chi - optimum(plant)[0],
               None if estimate is None else estimate.believed, True if estimate is None else estimate.converged,
               "" if estimate is None else estimate.arrived_by, spent,
               0 if estimate is None else int(estimate.counts.get("jacobians", 0)))


def quickest(fit: Callable[[], di.Estimate | None]) -> tuple[float, di.Estimate | None]:
    """CPU seconds of a fit and its estimate; of a short one the best of three, since other work on the machine only adds."""
    spent, estimate = once(fit)
    return (min(spent, *(once(fit)[0] for _ in range(2))) if spent < SHORT_FIT else spent), estimate


def equal_seconds(plant: str, factor: int, start: int, case: str) -> float:
    """CPU that automatic took for the same problem; it is run where that is not on disk."""
    key = "automatic", plant, factor, start, case
    known = stored()
    return (known[key] if key in known else run_one(*key)).seconds


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
                for name in names:
                    for method in options.methods.split(","):  # side by side, since other work on the machine comes and goes
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


# wrong models


def wrong_models() -> Result:
    """The default on records of plants by models that lack something, from three starts, with given and unknown noise."""
    warnings.filterwarnings("ignore")
    lines = []
    for name in plants.WRONG:
        believed, ratios, stages = 0, [], set()
        for factor, number, given in WRONG_CASES:
            problem = plants.wrong_problem(name, factor, number, given)
            for method in (None, di.multiple_shooting()):
                fitted(problem, method)  # loads and compiles
            plain, _ = once(lambda problem=problem: fitted(problem, di.multiple_shooting()))
            spent, estimate = once(lambda problem=problem: fitted(problem, None))
            believed += estimate is None or bool(estimate.believed)
            ratios.append(spent / plain)
            stages.add(0 if estimate is None else len(estimate.stages))
        lines.append(Line(f"{name}: CPU over the plain fit, {len(ratios)} runs, largest", f"{max(ratios):.1f}", "<= 20",
                          max(ratios) <= 20))
        lines.append(Line(f"{name}: believed", f"{believed} of {len(ratios)}, after {min(stages)} to {max(stages)} stages", "0",
                          not believed))
    return Result("Wrong models", "Records of plants, fitted by models that lack something.", lines)


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
    parser.add_argument("what", choices=["run", "table", "wrong"])
    parser.add_argument("--methods", default=",".join(SHORT["methods"]))
    parser.add_argument("--plants", default="")
    parser.add_argument("--factors", default=",".join(map(str, plants.FACTORS)))
    parser.add_argument("--starts", type=int, default=SHORT["starts"])
    parser.add_argument("--first", type=int, default=0, help="number of the first start")
    parser.add_argument("--cases", default=";".join(SHORT["cases"]), help=f"all, or some of {'; '.join(CASES)}")
    parser.add_argument("--held-back", action="store_true")
    return parser.parse_args(words)


def run() -> Result:
    """The table of all that is on disk; where there is nothing, a short selection is run first."""
    if not stored():
        run_missing(parsed(["run", *size([], ["--plants", "nerve", "--factors", "5"])]))
    return table()


def command() -> None:
    """`run`, `table` or `wrong`, as the first lines of this file say."""
    options = parsed(sys.argv[1:])
    if options.what == "run":
        run_missing(options)
    print((wrong_models() if options.what == "wrong" else table()).markdown())


if __name__ == "__main__":
    if sys.argv[1:2] in (["run"], ["table"], ["wrong"]):
        sys.exit(command())
    main(run)
