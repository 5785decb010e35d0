"""The drive train rig: bounds of the recursion, of the batch and of the published method, each tuned, at the same CPU time.

All three get the same search over options of their own: the same number of trials on a record that is not used afterwards,
begun with the best setting that we know of. Where time is left a trial takes more passes, then more boxes; else it changes
one or two options of the best setting so far. All are told the CPU time (`time_limit`) and may go over the record until it is
up: at the end of a pass what is proved is the answer, in the batch at any time after the first pass. For each CPU time the
setting with the smallest volume that kept within it is then run on three rigs, with three records each: random errors, random
breakaway torques. What is compared are volumes and widths of what is proved, in the same CPU time; nothing is divided by the
first box. The published step runs array by array in this package, the recursion in one fused loop, so that a part of the
difference is the code and not the method.

Then the whole of Fig. 6 (three runs over 8,000 samples, 1,000 boxes), and the two-exponential problem of the literature.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from timing import Line, Result, main, once, size, spoken

import dynident as di
from dynident.papers.drive_train import COUNTS, RigRecord, RigTruth, drive_train, drive_train_record, driving_cycles

FIGURE_BOXES, RUNS = size((1000, 3), (4, 1))
FIGURE_SIX = size((40.0, 80.0), (40.0, 40.2))  # s, of its record
WELL_UNDER_A_MINUTE = 45.0  # s of CPU time, for the whole of Fig. 6
TOLERANCE = size(0.005, 0.2)  # of the two exponentials
BOUNDS = {"alpha": (-6.0, 0.0), "beta": (10.0, 1000.0), "T_Fs": (0.0, 0.3)}
TARGETS = {"recursive": 5.0, "batch": 40.0}  # times the width at the same CPU time
GOOD_HULL = {"p1": (0.328125, 0.777344), "p2": (0.150391, 0.533203)}
DATA = Path(__file__).parents[1] / "tests" / "data" / "two_exponential.csv"

BUDGETS = size((1.0, 5.0, 25.0), (5.0,))  # s of CPU time
TRIALS = size(12, 1)  # of the search, for each method
SECONDS = size(16.0, 0.3)  # of a record: two driving cycles
RIGS = size(((-4.5, 65.0), (-2.5, 150.0), (-5.5, 40.0)), ((-4.5, 65.0),))  # alpha, beta
SEEDS = {budget: size((1, 2, 3), (1,)) for budget in BUDGETS}  # of errors and breakaway torques
TUNED_ON = (0, 100)  # rig and seed of the search
TOLD = 0.8  # of a CPU time is what a method is told: a step that has begun is finished
KEPT_WITHIN = 0.85  # of a CPU time that the search must keep to: other records take a little longer
TIME_LEFT = 0.5  # of a CPU time: a setting that takes less is tried with what uses more
UNTIL_THE_TIME = 100  # passes: more than any method makes in the longest CPU time
BOX_COUNTS = (6, 12, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400)
FIRST = {  # the best setting that we know of, for one second
    "recursive": {"max_boxes": 25, "passes": 1, "subdivisions": None, "strategy": "influence", "order": 3},
    "batch": {"max_boxes": 12, "passes": 1, "subdivisions": None, "strategy": "influence", "order": 3},
    "paper": {"max_boxes": 100, "passes": 1, "subdivisions": 25, "velocity_subdivisions": 0, "v_bar": None,
              "strategy": "influence", "factored_step": True, "standstill_barrier": True, "free_room": True}}
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "recursive": {"max_boxes": BOX_COUNTS, "passes": (1, 3, UNTIL_THE_TIME), "subdivisions": (None, 2, 10, 50, 250),
                  "strategy": ("influence", "widest", "around_zero"), "order": (1, 2, 3, 5)},
    "batch": {"max_boxes": BOX_COUNTS, "passes": (1, 3, UNTIL_THE_TIME), "subdivisions": (None, 2, 10, 50, 250),
              "strategy": ("influence", "widest", "around_zero"), "order": (2, 3, 5, 8)},
    "paper": {"max_boxes": BOX_COUNTS, "passes": (1, 3, UNTIL_THE_TIME), "subdivisions": (2, 10, 25, 50, 250),
              "velocity_subdivisions": (0, 2, 5, 20), "v_bar": (None, 0.005, 0.02, 0.1),
              "strategy": ("influence", "paper", "widest"), "factored_step": (True, False),
              "standstill_barrier": (True, False), "free_room": (True, False)}}

Options = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One run: what it cost and what it proved; infinite widths where it took too long or the search lost the truth."""

    options: Options
    limit: float  # s of CPU time that it was given
    seconds: float
    widths: np.ndarray  # of alpha, beta, T_Fs

    @property
    def volume(self) -> float:
        return float(np.prod(self.widths))

    def is_known_at(self, budget: float) -> bool:
        """Whether a trial with this CPU time would tell more: passes until the time is up are others in another time."""
        shaped_by_time = self.options["passes"] == UNTIL_THE_TIME
        return (self.limit == budget or self.seconds < TOLD * min(self.limit, budget)
                or (self.limit > budget and not shaped_by_time))


class OutOfTime(Exception):
    """The CPU time is used up."""


def make_record(rig: int, seed: int) -> tuple[di.Problem, RigRecord]:
    """A rig with random breakaway torques and random errors within half a count."""
    rng = np.random.default_rng([rig, seed])
    truth = RigTruth(*RIGS[rig], tuple(rng.uniform(0.08, 0.16, 4)))
    time, torque = driving_cycles(0.0, SECONDS)
    radius = np.pi / COUNTS
    made = drive_train_record(time, torque, truth, radius=radius * (1 + 1e-9), noise=rng.uniform(-radius, radius, time.size))
    problem = di.Problem(drive_train(), [made.experiment], [
        di.Parameter(name, 0.5 * (a + b), a, b) for name, (a, b) in BOUNDS.items()])
    return problem, made


def try_options(algorithm: str, options: Options, rig: int, seed: int, limit: float, patience: float = 1.2) -> Trial:
    """A run with `limit` seconds of CPU time, given up after `patience` times that; raises where the truth is lost."""
    problem, made = make_record(rig, seed)
    given = {key: value for key, value in options.items() if key != "v_bar" or options["velocity_subdivisions"]}
    method = di.set_membership(algorithm=algorithm, reset={"T_Fs": "speed"}, time_limit=TOLD * limit, **given)

    def give_up(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, give_up)
    began = process_time()
    signal.setitimer(signal.ITIMER_PROF, patience * limit + 0.1)
    try:
        found = di.identify(problem, method, progress=False).uncertainty
    except OutOfTime:
        return Trial(options, limit, np.inf, np.full(3, np.inf))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    spent = process_time() - began
    ends = {"alpha": found.interval("alpha"), "beta": found.interval("beta"), "T_Fs": last_breakaway(found, made)}
    moving = np.flatnonzero(made.mode)
    true = {"alpha": made.truth.alpha, "beta": made.truth.beta, "T_Fs": made.breakaway[moving[-1] if moving.size else 0]}
    for name, (low, high) in ends.items():
        if not low - 1e-9 <= true[name] <= high + 1e-9:
            raise AssertionError(f"{algorithm} {options}: the truth of {name} is lost")
    return Trial(options, limit, spent, np.array([high - low for low, high in ends.values()]))


def last_breakaway(found: Any, made: RigRecord) -> tuple[float, float]:
    """Bounds of the breakaway torque in the last motion: the narrowest that a method has at any sample of it.

    Which samples these are is taken from the truth, since the published method calls the rig moving while it may rest.
    """
    moving = np.flatnonzero(made.mode)
    if not moving.size:
        return found.interval("T_Fs")
    begin = int(np.flatnonzero(made.breakaway == made.breakaway[moving[-1]])[0])  # since the standstill in which it changed
    band = found.bands[-1]
    low, high = band.low["T_Fs"][begin:moving[-1] + 1], band.high["T_Fs"][begin:moving[-1] + 1]
    k = int(np.argmin(high - low))
    given = found.interval("T_Fs")
    return given if given[1] - given[0] < high[k] - low[k] else (float(low[k]), float(high[k]))


def best_within(trials: Sequence[Trial], budget: float, share: float = KEPT_WITHIN) -> Trial | None:
    kept = [own for own in trials if own.seconds <= share * budget]
    return min(kept, key=lambda own: own.volume) if kept else None


def uses_more_time(options: Options) -> list[Options]:
    """What a setting becomes where time is left: passes until it is up, then more boxes, then both."""
    boxes = BOX_COUNTS[min(BOX_COUNTS.index(options["max_boxes"]) + 2, len(BOX_COUNTS) - 1)]
    return [options | {"passes": UNTIL_THE_TIME}, options | {"max_boxes": boxes},
            options | {"passes": UNTIL_THE_TIME, "max_boxes": boxes}]


def tune(algorithm: str) -> list[Trial]:
    """The same search for every method: the CPU times in turn, each with a change of the best setting so far."""
    rng, space = np.random.default_rng(7), SPACES[algorithm]
    try_options(algorithm, FIRST[algorithm], *TUNED_ON, BUDGETS[0])  # builds and compiles what later trials find ready
    trials = [try_options(algorithm, FIRST[algorithm], *TUNED_ON, BUDGETS[-1])]
    for k in range(TRIALS - 1):
        budget = BUDGETS[k % len(BUDGETS)]
        best = best_within(trials, budget)
        options = dict((best or min(trials, key=lambda own: own.seconds)).options)
        tried = [own.options for own in trials if own.is_known_at(budget)]
        if best is not None and best.seconds < TIME_LEFT * budget:
            options = next((more for more in uses_more_time(options) if more not in tried), options)
        while options in tried:  # one option, often two; a neighbour in the list of choices, mostly
            for key in rng.choice(list(space), int(rng.integers(1, 3)), replace=False):
                choices = space[key]
                near = choices.index(options[key]) + int(rng.choice([-1, 1]))
                options[key] = choices[int(rng.integers(len(choices))) if rng.random() < 0.3 else near % len(choices)]
        trials.append(try_options(algorithm, options, *TUNED_ON, budget))
    return trials


def judged(algorithm: str) -> dict[float, list[Trial]]:
    """By CPU time: the tuned setting on all rigs and records."""
    trials, found = tune(algorithm), {}
    for budget in BUDGETS:
        best = best_within(trials, budget)
        if best is None:
            continue
        found[budget] = [try_options(algorithm, best.options, rig, seed, budget, patience=1.5)
                         for rig in range(len(RIGS)) for seed in SEEDS[budget]]
    return found


def spoken_options(options: Options) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items())


def against_the_paper() -> list[Line]:
    found, lines = {algorithm: judged(algorithm) for algorithm in SPACES}, []
    for budget in BUDGETS:
        for algorithm, own in found.items():
            label = f"{budget:g} s, {algorithm}"
            if budget not in own:
                lines.append(Line(f"{label}: widths of {', '.join(BOUNDS)}", "no setting of the search kept within the time"))
                continue
            widths = np.array([trial.widths for trial in own[budget]])
            cpu = [trial.seconds for trial in own[budget]]
            lines.append(Line(f"{label}: widths of {', '.join(BOUNDS)}, medians ({spoken_options(own[budget][0].options)})",
                              ", ".join(f"{w:.3g}" for w in np.median(widths, axis=0))
                              + f"; {min(cpu):.2g} to {max(cpu):.2g} s"))
            if algorithm in TARGETS and budget in found["paper"]:
                lines += _ratio_lines(label, TARGETS[algorithm], own[budget], found["paper"][budget])
    return lines


def _ratio_lines(label: str, target: float, own: Sequence[Trial], paper: Sequence[Trial]) -> list[Line]:
    """Of each record, published over own: the median and the ends."""
    widths = np.array([theirs.widths / ours.widths for ours, theirs in zip(own, paper, strict=True)])
    volumes = np.array([theirs.volume / ours.volume for ours, theirs in zip(own, paper, strict=True)])
    lines = [Line(f"{label}: {name}, published width / own", _spread(ratio), f">= {target:g}", np.median(ratio) >= target)
             for name, ratio in zip(BOUNDS, widths.T, strict=True)]
    return [*lines, Line(f"{label}: published volume / own", _spread(volumes))]


def _spread(ratios: np.ndarray) -> str:
    with np.errstate(invalid="ignore"):
        return f"{np.median(ratios):.3g} ({np.min(ratios):.3g} to {np.max(ratios):.3g})"


def two_exponentials() -> list[Line]:
    table = np.genfromtxt(DATA, delimiter=",", names=True)
    run_ = di.Experiment(time=np.append(0, table["t"]), initial={"x1": 1.0, "x2": 1.0},
                         outputs={"y": np.append(np.nan, 0.5 * (table["y_hi"] + table["y_lo"]))},
                         noise={"y": di.Bounded(np.append(1.0, 0.5 * (table["y_hi"] - table["y_lo"])))})
    model = di.EquationModel(states={"x1": "-p1*x1", "x2": "-p2*x2"}, outputs={"y": "20*x1 - 8*x2"})
    problem = di.Problem(model, [run_], [di.Parameter("p1", 0.5, 0, 1), di.Parameter("p2", 0.5, 0, 1)])
    seconds, estimate = once(lambda: di.identify(problem, di.set_membership(tolerance=TOLERANCE), progress=False))
    worst = max(float(np.diff(estimate.uncertainty.interval(n))[0]) / (b - a) for n, (a, b) in GOOD_HULL.items())
    return [Line("two exponentials: width of the hull / published hull", f"{worst:.3f}", "<= 1.02", worst <= 1.02),
            Line("two exponentials: CPU time", spoken(seconds))]


def figure_six() -> list[Line]:
    rig = drive_train_record(*driving_cycles(*FIGURE_SIX))
    problem = di.Problem(drive_train(), [rig.experiment], [
        di.Parameter(name, 0.5 * (a + b), a, b) for name, (a, b) in BOUNDS.items()])
    method = di.set_membership(algorithm="recursive", max_boxes=FIGURE_BOXES, passes=RUNS, reset={"T_Fs": "speed"})
    seconds, estimate = once(lambda: di.identify(problem, method, progress=False))
    widths = [float(np.diff(estimate.uncertainty.interval(name))[0]) for name in BOUNDS]
    return [Line(f"Fig. 6, {RUNS} runs, {FIGURE_BOXES:,} boxes: CPU time", spoken(seconds), f"<= {WELL_UNDER_A_MINUTE:g} s",
                 seconds <= WELL_UNDER_A_MINUTE),
            Line("Fig. 6: widths of " + ", ".join(BOUNDS), ", ".join(f"{w:.2g}" for w in widths))]


def run() -> Result:
    return Result("Verified identification",
                  f"Records of {SECONDS:g} s ({round(100 * SECONDS):,} samples), {len(RIGS)} rigs, "
                  + ", ".join(f"at {budget:g} s {len(seeds)}" for budget, seeds in SEEDS.items()) + " records each; "
                  f"{TRIALS} trials of the search for each method.",
                  [*against_the_paper(), *figure_six(), *two_exponentials()],
                  ["Widths and volumes are those of what is proved; ratios are taken record by record, at the same CPU time."])


if __name__ == "__main__":
    main(run)
