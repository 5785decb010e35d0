"""Verdict: how often is it wrong, on ends of fits with known truth?

    python benchmarks/verdict.py                  fits what is missing of the held-out third, then prints the tables
    python benchmarks/verdict.py run --from 0     the whole population; stopped and started again, it goes on
    python benchmarks/verdict.py table            tables of what is on disk, of the two thirds that thresholds were tuned on
    python benchmarks/verdict.py table --held-out those of the third that was not looked at before
    python benchmarks/verdict.py record       their grades for the manual's table (explain/verdict), in verdict_ends.csv
    python benchmarks/verdict.py ladder           wrong minima after automatic(): with which code do they leave?
    python benchmarks/verdict.py prediction       right axes with noise behind the input, by prediction error

An end is a model, a record and fitted values. The truth is simulated by a model that may hold an effect more than the fitted
one, in graded severity; noise is white, slow (AR(1) of 0.9 and 0.97), drifting, quantised, or has outliers; 12 to 10,000
samples, evenly sampled, with gaps or uneven; one and several outputs and experiments; the noise's std given right, wrong by 2
to 10 times, or not. Wrong minima are ends of fits from far starts whose sum of squares is more than 1.5 times that of the fit
from the truth.

What is beyond the noise: the fitted model's output is farther from the true one than 0.7 of the noise's rms (a sum of squares
that is 1.5 times as large). Signals are kept in results/verdict, so that a changed rule is judged without fitting again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import SMOKE, Line, Result, main, size

import dynident as di
from dynident.methods.open_loop import open_loop_residuals
from dynident.statistics.verdict import Verdict
from dynident.verbs.judge import judge_estimate

STORE = (Path(tempfile.mkdtemp()) if SMOKE else Path("results")) / "verdict"
ENDS = size(10_300, 6)
TUNED = size(6000, 3)  # thresholds were tuned on ends below this number; the others are held out
CHUNK = size(50, 6)
LADDER = size(60, 1)
PREDICTIONS = size(60, 1)
WRONG_MINIMUM = 1.5  # times the sum of squares of the fit from the truth
BEYOND = 0.7  # of the noise's rms
RUNS_AWAY = 1e6  # a true model that leaves this is none
KINDS = ("right", "wrong minimum", "wrong structure")
NOISES = ("white", "AR 0.9", "AR 0.97", "drift", "quantised", "outliers")
SLOW = ("AR 0.9", "AR 0.97", "drift")
PARTS = ("run", "table", "record", "ladder", "prediction")
RECORDED = Path(__file__).parent / "verdict_ends.csv"  # held-out ends with their grades; a test judges some of them anew
TO_THE_NOISE = ("A", "A~", "A!")


@dataclass(frozen=True)
class Family:
    """A model, and the same with one effect more whose size is `extra`."""

    states: dict[str, str]
    richer: dict[str, str]  # with `extra`
    outputs: dict[str, str]
    truth: dict[str, float]
    initial: dict[str, float]
    end: float
    driven: bool = True
    extra: float = 1.0  # at severity 1

    @property
    def inputs(self) -> list[str]:
        return ["u"] if self.driven else []

    @cache  # noqa: B019 a dozen of them
    def model(self) -> di.EquationModel:
        return di.EquationModel(states=self.states, outputs=self.outputs, inputs=self.inputs)

    @cache  # noqa: B019
    def true_model(self) -> di.EquationModel:
        return di.EquationModel(states=self.richer, outputs=self.outputs, inputs=self.inputs)

    def __hash__(self) -> int:
        return id(self)


FAMILIES = {
    "lag": Family({"x": "(g*u - x)/T"}, {"x": "(g*tanh(extra*u)/extra - x)/T"}, {"x": "x"}, {"g": 2.0, "T": 0.5}, {"x": 0.0},
                  10.0, extra=1.2),
    "second lag": Family({"x": "(g*u - x)/T"}, {"x": "(w - x)/T", "w": "(g*u - w)/(extra*T)"}, {"x": "x"}, {"g": 2.0, "T": 0.5},
                         {"x": 0.0}, 10.0, extra=0.6),
    "oscillator": Family({"q": "v", "v": "g*u - d*v - k*q"}, {"q": "v", "v": "g*u - d*v - k*q - extra*q**3"}, {"q": "q"},
                         {"g": 3.0, "d": 0.4, "k": 9.0}, {"q": 0.0, "v": 0.0}, 12.0, extra=12.0),
    "friction": Family({"q": "v", "v": "g*u - d*v - k*q"}, {"q": "v", "v": "g*u - d*v - k*q - extra*tanh(v/0.02)"}, {"q": "q"},
                       {"g": 3.0, "d": 0.4, "k": 9.0}, {"q": 0.0, "v": 0.0}, 12.0, extra=0.8),
    "axis": Family({"q": "v", "v": "g*u - d*v"}, {"q": "v", "v": "g*u - d*v - extra*tanh(v/0.02)"}, {"q": "q"},
                   {"g": 3.0, "d": 1.0}, {"q": 0.0, "v": 0.0}, 12.0, extra=1.0),
    "two outputs": Family({"q": "v", "v": "g*u - d*v - k*q"}, {"q": "v", "v": "g*u - d*v*(1 + extra*abs(v)) - k*q"},
                          {"q": "q", "v": "v"}, {"g": 3.0, "d": 0.5, "k": 6.0}, {"q": 0.0, "v": 0.0}, 12.0, extra=1.5),
    "missing mode": Family({"q": "v", "v": "g*u - d*v - k*q"},
                           {"q": "v", "v": "g*u - d*v - k*q + extra*(z - q)", "z": "w", "w": "40*(q - z) - 0.3*w"}, {"q": "q"},
                           {"g": 3.0, "d": 0.4, "k": 9.0}, {"q": 0.0, "v": 0.0}, 12.0, extra=6.0),
    "pendulum": Family({"a": "w", "w": "-k*sin(a) - d*w"}, {"a": "w", "w": "-k*sin(a) - d*w - extra*w*abs(w)"}, {"a": "a"},
                       {"k": 9.0, "d": 0.15}, {"a": 1.4, "w": 0.0}, 10.0, driven=False, extra=0.4),
    "predator": Family({"x": "a*x - b*x*y", "y": "c*x*y - e*y"},
                       {"x": "a*x - b*x*y/(1 + extra*x)", "y": "c*x*y/(1 + extra*x) - e*y"}, {"x": "x", "y": "y"},
                       {"a": 1.0, "b": 1.0, "c": 0.8, "e": 0.9}, {"x": 1.5, "y": 0.7}, 20.0, driven=False, extra=0.35),
    "growth": Family({"x": "r*x*(1 - x/K)"}, {"x": "r*x*(1 - (x/K)**extra)"}, {"x": "x"}, {"r": 1.0, "K": 2.0}, {"x": 0.1},
                     10.0, driven=False, extra=2.5),
    "van der Pol": Family({"x": "y", "y": "m*(1 - x**2)*y - k*x"}, {"x": "y", "y": "m*(1 - x**2)*y - k*x - extra*x**3"},
                          {"x": "x"}, {"m": 1.0, "k": 2.0}, {"x": 1.0, "y": 0.0}, 15.0,
                          driven=False, extra=0.8),
    "decay": Family({"x": "-k*x"}, {"x": "-k*x*(1 + extra*x)"}, {"x": "x"}, {"k": 0.6}, {"x": 1.0}, 8.0, driven=False,
                    extra=3.0),
}


@dataclass(frozen=True)
class Case:
    """What is drawn for one end; the same for the same number."""

    number: int
    family: str
    kind: str
    noise: str
    samples: int
    experiments: int
    level: float  # noise over signal, std
    given: float  # given std over the true one; 0: not given
    severity: float
    gaps: bool
    uneven: bool


def case(number: int) -> Case:
    rng = np.random.default_rng([20, number])
    kind = str(rng.choice(KINDS, p=[0.5, 0.2, 0.3]))
    family = str(rng.choice([name for name in FAMILIES if kind != "wrong minimum" or name in FAR]))
    samples = int(rng.choice([12, 20, 35, 60, 100, 200, 400, 1000, 3000, 10_000],
                             p=[0.05, 0.06, 0.08, 0.12, 0.17, 0.2, 0.16, 0.11, 0.04, 0.01]))
    given = float(rng.choice([0.0, 1.0, 0.1, 0.2, 0.5, 2.0, 5.0], p=[0.42, 0.38, 0.03, 0.05, 0.05, 0.04, 0.03]))
    noise = str(rng.choice(NOISES, p=[0.4, 0.15, 0.1, 0.07, 0.15, 0.13]))
    return Case(number, family, kind, noise, samples, int(rng.choice([1, 1, 1, 2, 3])) if samples <= 1000 else 1,
                float(10 ** rng.uniform(-3, -1)), given, float(10 ** rng.uniform(-1.7, 0.3)), bool(rng.random() < 0.15),
                bool(rng.random() < 0.12))


FAR: dict[str, tuple[float, float]] = {  # families with wrong minima, and by which factors a start is off then
    "oscillator": (1.6, 6.0), "pendulum": (1.3, 4.0), "predator": (1.3, 4.0), "van der Pol": (1.4, 5.0),
    "missing mode": (1.6, 6.0), "two outputs": (1.6, 6.0), "friction": (1.6, 6.0)}


# records


def times(case: Case, end: float, rng: np.random.Generator) -> np.ndarray:
    time = np.linspace(0, end, case.samples)
    if case.uneven:
        time[1:-1] += rng.uniform(-0.4, 0.4, case.samples - 2) * (time[1] - time[0])
    return time


def noise_of(kind: str, clean: np.ndarray, std: float, rng: np.random.Generator) -> np.ndarray:
    """Measured values of a clean signal."""
    n, e = clean.size, rng.normal(0, 1, clean.size)
    if kind.startswith("AR"):
        pole = float(kind.split()[1])
        e = np.sqrt(1 - pole**2) * e
        e[0] /= np.sqrt(1 - pole**2)
        for k in range(1, n):
            e[k] += pole * e[k - 1]
    elif kind == "drift":
        walk = np.cumsum(e) / np.sqrt(n)
        e = walk - np.mean(walk) + 0.3 * rng.normal(0, 1, n)
    elif kind == "quantised":
        step = std * np.sqrt(12)
        return np.round(clean / step) * step
    elif kind == "outliers":
        e[rng.random(n) < 0.02] *= 10
    return clean + std * e


@dataclass(frozen=True, eq=False)
class End:
    """A fit with what is known about it."""

    case: Case
    estimate: di.Estimate
    label: str
    error: float  # rms of fitted minus true output over the noise's rms, of the worst signal


def make(number: int) -> End | None:
    """The end of a case; None where the fit does not end where it was meant to."""
    it, family = case(number), FAMILIES[case(number).family]
    rng = np.random.default_rng([21, number])
    richer = it.kind == "wrong structure"
    true_model = family.true_model() if richer else family.model()
    spread = {p: float(v * np.exp(rng.normal(0, 0.15))) for p, v in family.truth.items()}
    records, clean, rms = [], [], []
    for e in range(it.experiments):
        time = times(it, family.end, rng)
        inputs = {"u": input_signal(time, rng)} if family.driven else {}
        values = {**spread, **({"extra": family.extra * it.severity} if richer else {})}
        values |= {f"{s}(0)": family.initial.get(s, 0.0) * (1 + 0.1 * e) for s in true_model.states}
        run = di.simulate(true_model, values, di.Experiment(time, inputs=inputs), substeps=substeps_for(time))
        truth = {name: np.asarray(run.outputs[name]) for name in family.outputs}
        if not all(np.max(np.abs(y)) < RUNS_AWAY for y in truth.values()):
            return None
        std = {name: max(it.level * float(np.std(y)), 1e-9) for name, y in truth.items()}
        measured = {name: noise_of(it.noise, y, std[name], rng) for name, y in truth.items()}
        rms.append({name: max(float(np.sqrt(np.mean((measured[name] - y) ** 2))), 1e-12) for name, y in truth.items()})
        if it.gaps:
            measured = {name: np.where(rng.random(y.size) < 0.15, np.nan, y) for name, y in measured.items()}
        said = {name: di.Gaussian(std[name] * it.given) for name in truth} if it.given else {}
        records.append(di.Experiment(time, inputs=inputs, outputs=measured, noise=said, name=f"run {e + 1}"))
        clean.append(truth)
    best = fitted(family, records, spread, 1.05)
    if best is None or not best.converged:
        return None
    if it.kind == "wrong minimum":
        best = elsewhere(family, records, spread, best, rng, FAR[it.family])
        if best is None:
            return None
    simulated = open_loop_residuals(best.problem, best.values, substeps=max(1, int(best.counts.get("substeps", 1))))
    if simulated is None:
        return None
    error = max(float(np.sqrt(np.nanmean((own[name] - (np.asarray(r.outputs[name]) - y[name])) ** 2)) / left[name])
                for r, own, y, left in zip(records, simulated, clean, rms, strict=True) for name in y)
    return End(it, best, it.kind, error)


def substeps_for(time: np.ndarray) -> int:
    return int(np.clip(np.ceil(np.max(np.diff(time)) / 0.02), 1, 50))


def input_signal(time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:
        return np.sum([a * np.sin(w * time + p) for a, w, p in zip(
            rng.uniform(0.2, 0.8, 4), rng.uniform(0.3, 6, 4), rng.uniform(0, 6, 4), strict=True)], axis=0)
    levels = rng.uniform(-1, 1, 40)
    return levels[np.minimum((time / (time[-1] / 39)).astype(int), 39)]


def fitted(family: Family, records: list[di.Experiment], starts: dict[str, float], off: float) -> di.Estimate | None:
    unknowns = [di.Parameter(p, off * v) for p, v in starts.items()]
    unknowns += [di.InitialState(s, family.initial[s]) for s in family.states]
    try:
        return di.identify(di.Problem(family.model(), records, unknowns), di.single_shooting(), progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate
    except di.DynidentError:
        return None


def elsewhere(family: Family, records: list[di.Experiment], truth: dict[str, float], best: di.Estimate,
              rng: np.random.Generator, factors: tuple[float, float]) -> di.Estimate | None:
    """The end of a fit from far, where its sum of squares is that of a wrong minimum; ten starts."""
    for _ in range(size(6, 2)):
        away = {p: float(v * np.exp(rng.choice([-1, 1]) * np.log(rng.uniform(*factors)))) for p, v in truth.items()}
        other = fitted(family, records, away, 1.0)
        if other is not None and other.converged and squares(other) > WRONG_MINIMUM * squares(best):
            return other
    return None


def squares(estimate: di.Estimate) -> float:
    """Over the spread of each signal, whatever the noise is said to be."""
    return float(sum(np.nansum(r**2) / np.nanvar(np.asarray(e.outputs[name])) for e, own in
                     zip(estimate.problem.experiments, estimate.residuals, strict=True) for name, r in own.items()))


# the population on disk


def chunk_path(k: int) -> Path:
    return STORE / f"ends-{k:03d}.npz"


def run_missing(begin: int) -> None:
    """Every end from this number on that is not on disk."""
    STORE.mkdir(parents=True, exist_ok=True)
    for k in range(begin // CHUNK, -(-ENDS // CHUNK)):
        if not chunk_path(k).exists():
            made = [pack(end) for n in range(k * CHUNK, (k + 1) * CHUNK) if (end := make(n)) is not None]
            arrays = {f"{i}.{name}": array for i, (_, own) in enumerate(made) for name, array in own.items()}
            part = chunk_path(k).with_suffix(".part.npz")
            np.savez_compressed(part, about=json.dumps([about for about, _ in made]), **arrays)
            part.replace(chunk_path(k))
            print(f"\r{(k + 1) * CHUNK} cases", end="", file=sys.stderr, flush=True)


def pack(end: End) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the rule needs of an end, as data."""
    problem, arrays = end.estimate.problem, {}
    for e, (experiment, residuals) in enumerate(zip(problem.experiments, end.estimate.residuals, strict=True)):
        arrays[f"time{e}"] = np.asarray(experiment.time)
        arrays |= {f"u{e}.{name}": np.asarray(u) for name, u in experiment.inputs.items()}
        for name, r in residuals.items():
            arrays |= {f"y{e}.{name}": np.asarray(experiment.outputs[name]), f"r{e}.{name}": np.asarray(r),
                       f"m{e}.{name}": np.asarray(end.estimate.trajectories[e].outputs[name])}
            std = experiment.noise[name].std  # type: ignore[union-attr]
            arrays |= {f"s{e}.{name}": np.asarray(std)} if std is not None else {}
    about = {**end.case.__dict__, "label": end.label, "error": end.error, "values": dict(end.estimate.values),
             "substeps": int(end.estimate.counts.get("substeps", 1))}
    return about, arrays


@dataclass(frozen=True)
class Judged:
    case: Case
    label: str
    error: float
    verdict: Verdict

    @property
    def grade(self) -> str:
        return str(self.verdict.grade)

    @property
    def wrong(self) -> bool:
        """By more than the noise."""
        return self.label != "right" and self.error > BEYOND


def judged(held_out: bool) -> Iterator[Judged]:
    """Every end on disk of one part, under the rule as it is now."""
    for path in sorted(STORE.glob("ends-???.npz")):
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[int, dict[str, np.ndarray]] = {}
            for key in file.files:
                if key != "about":
                    i, _, name = key.partition(".")
                    arrays.setdefault(int(i), {})[name] = file[key]
            for i, about in enumerate(json.loads(str(file["about"]))):
                if (about["number"] >= TUNED) == held_out:
                    it = case(about["number"])
                    yield Judged(it, about["label"], about["error"], judge_estimate(unpack(it, about, arrays[i])))


def unpack(it: Case, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> di.Estimate:
    """The estimate again, as far as a verdict asks for it."""
    from dynident.estimate.estimate import Trajectory
    from dynident.statistics.covariance import Covariance

    family, records, residuals, trajectories = FAMILIES[it.family], [], [], []
    for e in range(it.experiments):
        outputs = {name: arrays[f"y{e}.{name}"] for name in family.outputs}
        noise = {name: di.Gaussian(float(arrays[f"s{e}.{name}"])) for name in outputs if f"s{e}.{name}" in arrays}
        records.append(di.Experiment(arrays[f"time{e}"], {n: arrays[f"u{e}.{n}"] for n in family.inputs}, outputs, noise,
                                     name=f"run {e + 1}"))
        residuals.append({name: arrays[f"r{e}.{name}"] for name in outputs})
        trajectories.append(Trajectory(f"run {e + 1}", arrays[f"time{e}"], {}, {n: arrays[f"m{e}.{n}"] for n in outputs}))
    problem = di.Problem(family.model(), records, [*(di.Parameter(p, v) for p, v in family.truth.items()),
                                                    *(di.InitialState(s, family.initial[s]) for s in family.states)])
    unknowns = np.array([about["values"][name] for name in problem.names])
    return di.Estimate(problem, di.single_shooting(), about["values"], Covariance(problem.names, unknowns,
                       np.eye(unknowns.size)), True, "Converged.", 1.0, tuple(trajectories), tuple(residuals))


# tables


def confusion(found: list[Judged]) -> str:
    grades = ("A", "A~", "A!", "B~", "B", "C", "D", "?")
    rows: dict[str, list[Judged]] = {}
    for each in found:
        what = each.label if each.label == "right" or each.wrong else f"{each.label}, within the noise"
        slow, long = "slow" if each.case.noise in SLOW else "white", "60+" if each.case.samples >= 60 else "<60"
        rows.setdefault(f"{what}; {slow}; {long}", []).append(each)
    head = f"{'':52s}" + "".join(f"{g:>6s}" for g in grades) + "   all"
    lines = [head]
    for name in sorted(rows):
        counts = Counter(each.grade for each in rows[name])
        lines.append(f"{name:52s}" + "".join(f"{counts[g]:6d}" for g in grades) + f"{len(rows[name]):6d}")
    return "\n".join(lines)


def record(found: list[Judged]) -> None:
    """What the manual's table is made of, one line an end."""
    lines = ["number,label,beyond the noise,noise,samples,grade"]
    lines += [f"{j.case.number},{j.label},{'yes' if j.wrong else 'no'},{'slow' if j.case.noise in SLOW else 'white'},"
              f"{j.case.samples},{j.grade}" for j in found]
    RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def share(found: list[Judged], of: Callable[[Judged], bool], which: Callable[[Judged], bool]) -> tuple[int, int]:
    among = [each for each in found if of(each)]
    return sum(which(each) for each in among), len(among)


def target_lines(found: list[Judged]) -> list[Line]:
    def line(what: str, limit: float, of: Callable[[Judged], bool], which: Callable[[Judged], bool]) -> Line:
        count, total = share(found, of, which)
        rate = count / max(total, 1)
        return Line(what, f"{count} of {total} ({100 * rate:.2f} %)", f"<= {100 * limit:g} %", rate <= limit)

    bad = ("C", "D")
    return [
        line("wrong minimum or structure beyond the noise called to the noise", 0.005, lambda j: j.wrong,
             lambda j: j.grade in TO_THE_NOISE),
        line("right model called C or D, but for slow noise", 0.005,
             lambda j: j.label == "right" and j.case.noise not in SLOW, lambda j: j.grade in bad),
        line("right model with slow noise called C or D", 0.02, lambda j: j.label == "right" and j.case.noise in SLOW,
             lambda j: j.grade in bad),
        line("not judged (?), 60 samples and more", 0.02, lambda j: j.case.samples >= 60, lambda j: j.grade == "?")]


def kept(name: str, make: Callable[[], Any]) -> Any:
    """What was found before under this name, or is found now and kept."""
    file = STORE / f"{name}.json"
    if not file.exists():
        STORE.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(make()), encoding="utf-8")
        part.replace(file)
    return json.loads(file.read_text(encoding="utf-8"))


# after the ladder


def ladder() -> list[Line]:
    """Ends of automatic() from the far starts of wrong minima: where it ends wrong, with which code does it leave?"""
    wrong, silent, ran, number = 0, 0, 0, 0
    while ran < LADDER and number < 40 * LADDER:
        number += 1
        it = case(100_000 + number)
        if it.kind != "wrong minimum" or it.samples > 400 or it.noise in SLOW or it.given not in (0.0, 1.0):
            continue
        found = kept(f"ladder-{number:04d}", partial(ladder_end, 100_000 + number))
        if found is None:
            continue
        ran += 1
        wrong += found[0]
        silent += found[0] and found[1] == 0
    return [Line("fits by automatic() from starts with a wrong minimum", str(ran)),
            Line("that end wrong", str(wrong)),
            Line("and leave with 0", f"{silent} of {ran} ({100 * silent / max(ran, 1):.1f} %)", "<= 2 %",
                 silent <= 0.02 * max(ran, 1))]


def ladder_end(number: int) -> tuple[bool, int] | None:
    end = make(number)
    if end is None:
        return None
    family = FAMILIES[case(number).family]
    begun = [di.Parameter(p, float(end.estimate.values[p])) for p in family.truth]  # the wrong minimum itself
    problem = end.estimate.problem.replace(parameters=[*begun, *(di.InitialState(s, family.initial[s]) for s in family.states)])
    right = least_squares_of_truth(end, family, number)
    try:
        estimate = di.identify(problem, progress=False)
    except di.NotConverged as stopped:
        if stopped.estimate is None:
            return None
        return squares(stopped.estimate) > WRONG_MINIMUM * right, 1 if not stopped.estimate.believed else (
            stopped.estimate.verdict.exit_code())
    return squares(estimate) > WRONG_MINIMUM * right, estimate.verdict.exit_code()


def least_squares_of_truth(end: End, family: Family, number: int) -> float:
    """Sum of squares of the fit from the truth, on the record of a wrong minimum."""
    rng = np.random.default_rng([21, number])
    spread = {p: float(v * np.exp(rng.normal(0, 0.15))) for p, v in family.truth.items()}
    best = fitted(family, list(end.estimate.problem.experiments), spread, 1.05)
    return np.inf if best is None else squares(best)


# prediction


def prediction() -> list[Line]:
    """Integrating axes that noise behind the input drives away from their simulation; right models, by prediction error."""
    model = di.EquationModel(states={"q": "v", "v": "g*u - d*v"}, inputs=["u"], outputs={"q": "q"})
    grades = Counter(kept(f"prediction-{number:03d}", partial(predicted_grade, model, number)) for number in range(PREDICTIONS))
    wrong = grades["C"] + grades["D"]
    listed = ", ".join(f"{grade} {count}" for grade, count in sorted(grades.items()))
    return [Line("right axis with noise behind its input called C or D", f"{wrong} of {PREDICTIONS} ({listed})", "<= 2 %",
                 wrong <= 0.02 * PREDICTIONS)]


def predicted_grade(model: di.EquationModel, number: int) -> str:
    rng = np.random.default_rng([22, number])
    time = np.linspace(0, 10, int(rng.choice([101, 201, 401])))
    u = input_signal(time, rng)
    acts = u + rng.normal(0, rng.uniform(0.05, 0.3), time.size)
    truth = {"g": 3.0, "d": 1.0, "q(0)": 0.0, "v(0)": 0.0}
    run = di.simulate(model, truth, di.Experiment(time, inputs={"u": acts}), substeps=4)
    y = np.asarray(run.outputs["q"]) + rng.normal(0, 0.002, time.size)
    problem = di.Problem(model, [di.Experiment(time, {"u": u}, {"q": y})], [di.Parameter("g", 2.5), di.Parameter("d", 0.8)],
                         process_noise={"u": di.Gaussian()})
    try:
        return str(di.identify(problem, progress=False).verdict.grade)
    except di.NotConverged:
        return "not converged"


def run() -> Result:
    run_missing(TUNED)
    lines = target_lines(list(judged(held_out=True)))
    return Result("Verdict", "Ends of fits with known truth; the third that no threshold was tuned on.",
                  [*lines, *ladder(), *prediction()])


def command(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("--from", type=int, default=TUNED, dest="begin")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args(arguments)
    if options.what == "run":
        run_missing(options.begin)
    if options.what in ("ladder", "prediction"):
        print(*(ladder() if options.what == "ladder" else prediction()), sep="\n")
        return 0
    found = list(judged(options.held_out or options.what == "record"))
    if options.what == "record":
        record(found)
    print(confusion(found), *target_lines(found), sep="\n")
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] and sys.argv[1] in PARTS:
        sys.exit(command(sys.argv[1:]))
    main(run)
