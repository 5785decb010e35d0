"""Noise where it acts: do intervals hold the truth with noise in the sensor of an input, behind it, in the model, or nowhere?

    python benchmarks/noise.py                                       the table of what is on disk; a few records if none is
    python benchmarks/noise.py store --records 100                   all of it; stopped and started again, it goes on
    python benchmarks/noise.py store --kinds both --plants vehicle --first 200 --records 5
    python benchmarks/noise.py store --peers boundary_value kalman   the joint smoother and the augmented filter beside it
    python benchmarks/noise.py store --factor 5                      starts from farther away: does it arrive?
    python benchmarks/noise.py drive                                 ten records of a drive in its loop, stated and not
    python benchmarks/noise.py table                                 what is on disk

Plants of `noise_plants.py`: those of `plants.py` that have inputs, without three_tanks, whose transfer function four sets of
positive parameters have in common, and three in closed loops. Every noise is drawn where it is, from the truth. Fitted by
`identify(problem)`, which takes the criterion that the problem states (none and quantised state nothing); beside it output
error, which takes inputs and model as exact. Quantised: outputs are rounded to 3.5 standard deviations of the noise of the
sensor, at a random phase. Results are lines of JSON in results/noise.jsonl, one a record.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from noise_plants import (
    KINDS,
    LOOPS,
    NAMES,
    START_FACTOR,
    drive_in_position_loop,
    initial_states,
    noisy_problem,
    record_of_loop,
)
from timing import SMOKE, Line, Result, main, size

import dynident as di

STORE = (Path(tempfile.mkdtemp()) if SMOKE else Path("results")) / "noise.jsonl"
FIRST = 100  # number of the first record: those below were looked at while the method was made
EXCHANGEABLE = {"battery": (("R1", "C1"), ("R2", "C2"))}  # which of two equal parts has which name, no record tells
FAR = 5.0  # starts off by up to so much: does it arrive where the start off by 2 does?
ARRIVED = 0.3  # standard errors
DRIVE, DRIVE_RECORDS, DRIVE_SAMPLES = "drive in its loop", size(10, 1), size(3000, 400)


def nearest_name(plant: str, found: di.Estimate, truth: dict[str, float]) -> dict[str, float]:
    """The truth, exchangeable parts named as the fit has them."""
    first, second = EXCHANGEABLE.get(plant, ((), ()))
    swapped = {**truth, **{a: truth[b] for a, b in zip((*first, *second), (*second, *first), strict=True)}}
    return min(truth, swapped, key=lambda values: sum(np.log(found.values[n] / values[n])**2 for n in (*first, *second)))


def fit(problem: di.Problem, plant: str, truth: dict[str, float], initial: dict[str, float], method: str | None) -> dict:
    began = time.process_time()
    try:
        found = di.identify(problem, method, progress=False)
    except di.DynidentError:
        return {"converged": False, "cpu": time.process_time() - began}
    truth = nearest_name(plant, found, truth)
    ends = {n: found.uncertainty.interval(n) for n in truth if n in problem.names}
    return {"converged": True, "cpu": time.process_time() - began, "criterion": found.criterion,
            "inside": {n: bool(low <= truth[n] <= high) for n, (low, high) in ends.items()},
            "first states": {n: bool(low <= v <= high) for n, v in initial.items() if n in problem.names
                             for low, high in [found.uncertainty.interval(n)]},
            "error": {n: float((found.values[n] - truth[n]) / found.uncertainty.std(n)) for n in ends}}


# the records that are done


def read() -> list[dict]:
    return [json.loads(line) for line in STORE.read_text().splitlines() if line.endswith("}")] if STORE.exists() else []


def keep(row: dict) -> None:
    STORE.parent.mkdir(parents=True, exist_ok=True)
    with STORE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def run_missing(names: Sequence[str], kinds: Sequence[str], seeds: Iterable[int], factor: float, peers: Sequence[str]) -> None:
    """One row a record and start; a peer that is asked for later gets a row of its own."""
    done = {(r["plant"], r["kind"], r["seed"], r["factor"], method)
            for r in read() for method, found in r.items() if isinstance(found, dict)}
    for seed in seeds:
        for name in names:
            for kind in kinds:
                missing = [m for m in ("identify", *peers) if (name, kind, seed, factor, m) not in done]
                if missing:
                    problem, truth = noisy_problem(name, kind, seed, factor)
                    exact = problem.with_output_noise_only()
                    first = initial_states(name)
                    keep({"plant": name, "kind": kind, "seed": seed, "factor": factor} | {
                        m: fit(problem, name, truth, first, None) if m == "identify" else fit(exact, name, truth, first, m)
                        for m in missing})


def run_drive(records: int) -> None:
    """The two-mass drive, 3 s a record, rounded encoders and a noisy current; with that stated, and with nothing stated."""
    done = {r["seed"] for r in read() if r["plant"] == DRIVE}
    for seed in (s for s in range(records) if s not in done):
        it = drive_in_position_loop(DRIVE_SAMPLES)
        record, problem, _, truth = record_of_loop(it, DRIVE, "sensor", np.random.default_rng(seed))
        begin = [di.Parameter(n, 1.4 * v) for n, v in truth.items()]
        stated = problem.replace(experiments=[record], parameters=begin)
        silent = stated.with_output_noise_only()
        first = {f"{s}(0)": v for s, v in it.initial.items()}
        keep({"plant": DRIVE, "kind": "", "seed": seed, "factor": 1.4, "stated": fit(stated, DRIVE, truth, first, None),
              "silent": fit(silent, DRIVE, truth, first, None),
              "multiple_shooting": fit(silent, DRIVE, truth, first, "multiple_shooting")})


# the table


@dataclass(frozen=True)
class Summary:
    """Intervals that hold the truth, fits that ended, and how far off a parameter is in the median."""

    share: float
    intervals: int
    ended: int
    fits: int
    bias: float  # standard errors, the median over parameters of that over records
    scatter: float  # what the bias would be if there were none, for so few records
    cpu: float

    @property
    def own_bias(self) -> float:
        """What is left of the bias without the scatter of the records."""
        return float(np.sqrt(max(self.bias**2 - self.scatter**2, 0.0)))

    def tells(self, low: float, high: float) -> bool:
        """Whether so many intervals tell: the share lies within the limits, or farther off than twice its own spread."""
        spread = 2 * np.sqrt(self.share * (1 - self.share) / self.intervals + 1 / self.intervals**2)
        return bool(low <= self.share <= high or self.share + spread < low or self.share - spread > high)

    @property
    def words(self) -> str:
        return (f"{100 * self.share:.1f} % of {self.intervals}, {self.ended} of {self.fits} fits ended, median CPU "
                f"{self.cpu:.2g} s")


def summary(fits: list[tuple[str, dict]]) -> Summary:
    good = [(plant, f) for plant, f in fits if f["converged"]]
    inside = [v for _, f in good for v in f["inside"].values()]
    errors = defaultdict(list)
    for plant, f in good:
        for n, v in f["error"].items():
            errors[plant, n].append(v)
    bias = np.median([abs(np.median(v)) for v in errors.values()]) if errors else np.nan
    share = float(np.mean(inside)) if inside else np.nan
    scatter = np.median([0.6745 * np.sqrt(np.pi / (2 * len(v) + np.pi - 2)) for v in errors.values()]) if errors else np.nan
    return Summary(share, len(inside), len(good), len(fits), float(bias), float(scatter),
                   float(np.median([f["cpu"] for _, f in fits])))


def by_method(rows: Iterable[dict], key: Callable[[dict], object]) -> dict[tuple, list[tuple[str, dict]]]:
    cells = defaultdict(list)
    for row in rows:
        for method in (name for name, found in row.items() if isinstance(found, dict)):
            cells[key(row), method].append((row["plant"], row[method]))
    return cells


TARGETS = {"quantised": (0.90, 1.0)}  # of the others: 92 to 97 %
MOST_BIAS = 0.3  # standard errors
TITLES = {"multiple_shooting": "output error", "boundary_value": "joint smoother", "kalman": "augmented filter"}


def table() -> Result:
    """Of what is on disk."""
    rows = read()
    near = [row for row in rows if row["factor"] == START_FACTOR]
    lines = [line for (kind, method), fits in sorted(by_method(near, lambda row: row["kind"]).items(), key=_order)
             for line in _lines(kind, method, fits)]
    lines += [Line(f"{where}, {TITLES.get(method, method)}: intervals that hold the truth", summary(fits).words)
              for (where, method), fits in sorted(by_method(near, _loop_or_not).items()) if method == "identify"]
    lines += _arrivals(rows)
    drives = by_method([row for row in rows if row["plant"] == DRIVE], lambda row: DRIVE)
    lines += [Line(f"{DRIVE}, {TITLES.get(method, method)}: intervals that hold the truth", summary(fits).words)
              for (_, method), fits in drives.items()]
    names = {row["plant"] for row in near}
    return Result("Noise where it acts",
                  f"{len(names)} plants, {len(names & set(LOOPS))} of them in closed loops, {len(near)} rows, starts off by up "
                  f"to {START_FACTOR:g}; `python benchmarks/noise.py store` adds records and goes on where it was "
                  "stopped.", lines)


def _order(cell: tuple) -> tuple:
    (kind, method), _ = cell
    return KINDS.index(kind), method != "identify", method


def _loop_or_not(row: dict) -> str:
    return "closed loops" if row["plant"] in LOOPS else "open loop"


def _lines(kind: str, method: str, fits: list[tuple[str, dict]]) -> list[Line]:
    found, (low, high) = summary(fits), TARGETS.get(kind, (0.92, 0.97))
    asked, title = method == "identify" and bool(found.intervals), TITLES.get(method, method)
    wanted = f"{100 * low:.0f} to {100 * high:.0f} %" if asked else ""
    told = asked and found.tells(low, high)
    lines = [Line(f"{kind}, {title}: intervals that hold the truth", found.words, wanted,
                  low <= found.share <= high if told else None)]
    said = f"{found.own_bias:.2f} standard errors ({found.bias:.2f}, of which the scatter of records makes {found.scatter:.2f})"
    first = [v for _, found in fits if found["converged"] for v in found["first states"].values()]
    if asked and first:
        held = f"{100 * np.mean(first):.1f} % of {len(first)}"
        lines.append(Line(f"{kind}, {title}: intervals that hold a first state", held))
    bias = Line(f"{kind}, {title}: median bias of a parameter", said, f"below {MOST_BIAS}",
                found.own_bias < MOST_BIAS if found.scatter < MOST_BIAS else None)
    return [*lines, bias] if asked else lines


def _arrivals(rows: list[dict]) -> list[Line]:
    """From far away: where all parameters end at what the near start leads to, or nearer to the truth."""
    fits = {(r["plant"], r["kind"], r["seed"], r["factor"]): r["identify"] for r in rows if "identify" in r}
    pairs = [(found, fits[*key, START_FACTOR]) for (*key, factor), found in fits.items()
             if factor == FAR and (*key, START_FACTOR) in fits]
    if not pairs:
        return []
    there = sum(_same(far, close) for far, close in pairs)
    return [Line(f"starts off by up to {FAR:g}: end where those off by {START_FACTOR:g} end", f"{there} of {len(pairs)}; "
                 f"{sum(far['converged'] for far, _ in pairs)} and {sum(close['converged'] for _, close in pairs)} ended")]


def _same(far: dict, near: dict) -> bool:
    return far["converged"] and near["converged"] and all(
        abs(far["error"][n] - near["error"][n]) < ARRIVED for n in near["error"])


def run() -> Result:
    """The table of all that is on disk; of a short selection, which is run, where there is nothing."""
    if read():
        return table()
    seeds = range(FIRST, FIRST + size(3, 1))
    run_missing(size(NAMES, NAMES[:1]), size(KINDS, KINDS[:2]), seeds, START_FACTOR, ("multiple_shooting",))
    run_missing(size(NAMES, NAMES[:1]), size(("sensor", "behind", "process", "both"), KINDS[:1]), seeds[:1], FAR, ())
    if not SMOKE:
        run_drive(DRIVE_RECORDS)
    return table()


def command(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("store", "drive", "table"))
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--first", type=int, default=FIRST, help="number of the first record")
    parser.add_argument("--plants", nargs="*", default=NAMES)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--peers", nargs="*", default=("multiple_shooting",))
    parser.add_argument("--factor", type=float, default=START_FACTOR)
    given = parser.parse_args(words)
    if given.part == "store":
        run_missing(given.plants, given.kinds, range(given.first, given.first + given.records), given.factor, given.peers)
    if given.part == "drive":
        run_drive(DRIVE_RECORDS)
    print(table().markdown())
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] in (["store"], ["drive"], ["table"]):
        sys.exit(command(sys.argv[1:]))
    main(run)
