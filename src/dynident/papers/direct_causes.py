"""Direct-methods paper, Fig. 3: what makes few multinodes fail there: the solver, its start, its box, its patience?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dynident._util.progress import Tell
from dynident.papers.direct_studies import BEST, CONTINUOUS, solved
from dynident.papers.outcome import Outcome, compared
from dynident.papers.robot_study import robot_problem, robot_record
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.sqp import Sqp

NEAR_BEST = 10 * BEST  # J that counts as the valley's: BFGS comes down its flat floor slowly
CLEAR = 0.25  # of the fits: few multinodes fail, many do not
FEW, MANY = (2, 5, 8), (60, 300, None)  # multinodes; None is full discretization


@dataclass(frozen=True)
class FitSetting:
    """What the paper leaves open: one departure from the first at a time."""

    name: str
    solver: Callable[[], Any]
    factor: float = 10.0  # starts lie within it, either way
    box: float = 20.0  # bounds lie at the truth times and over it


def bfgs(rounds: int = 200) -> Sqp:
    """As far as the paper says: BFGS, which begins with the identity."""
    return Sqp(rounds, "bfgs", "identity")


def settings(quick: bool) -> tuple[FitSetting, ...]:
    """The first is the paper's as far as it is told; its iterations, its box and its starts are not."""
    rounds = 600 if quick else 1000
    return (FitSetting("BFGS, starts within a factor of 10, box of 20, 200 iterations", bfgs),
            FitSetting("Gauss-Newton", lambda: GaussNewton(200)),
            FitSetting("starts within a factor of 3", bfgs, factor=3.0),
            FitSetting("box of 1000", bfgs, box=1000.0),
            FitSetting(f"{rounds} iterations", partial(bfgs, rounds)),
            *(() if quick else (
                FitSetting("box of 3 and starts in it", bfgs, factor=3.0, box=3.0),
                FitSetting(f"starts within a factor of 3, {rounds} iterations", partial(bfgs, rounds), factor=3.0))))


def causes(quick: bool, tell: Tell) -> Outcome:
    """Share of fits that reach the valley, by few and by many multinodes, one departure at a time."""
    record, rows = robot_record(), list[Any]()
    few, many = ((5,), (None,)) if quick else (FEW, MANY)
    for setting in settings(quick):
        for seed in range(1 if quick else 4):
            problem = robot_problem(record, seed, setting.factor, setting.box)
            for m in (*few, *many):
                tell(f"{setting.name}, start {seed}, " + (f"M = {m}" if m else "full discretization"))
                rows.append((setting.name, seed, m or "full", *solved(problem, m, setting.solver())))
    names = list(dict.fromkeys(row[0] for row in rows))
    shares = {name: (_reached(rows, name, few), _reached(rows, name, many)) for name in names}
    first, *others = names
    best = {name: sum(n for n, _ in pair) / sum(n for _, n in pair) for name, pair in shares.items()}
    change = sorted(others, key=lambda name: abs(best[name] - best[first]))
    gap = {name: many_of[0] / many_of[1] - few_of[0] / few_of[1] for name, (few_of, many_of) in shares.items()}
    return compared(
        gap[first] > CLEAR, "few multinodes end in bad local minima, many and full discretization do not (Figs. 2 and 3)",
        f"fits that end at J below {NEAR_BEST:.0e}, few multinodes / many: " + "; ".join(
            f"{name} {a[0]} of {a[1]} / {b[0]} of {b[1]}" for name, (a, b) in shares.items()),
        f"with {first} {100 * best[first]:.0f} % arrive whatever M is; most is changed by "
        + ", ".join(f"{name} ({100 * best[name]:.0f} %)" for name in change[:-4:-1])
        + f", least by {change[0]} ({100 * best[change[0]]:.0f} %); over all settings few multinodes arrive in "
        f"{sum(a[0] for a, _ in shares.values())} and many in {sum(b[0] for _, b in shares.values())} of "
        f"{sum(a[1] for a, _ in shares.values())} fits",
        ("setting", "start", "M", "J", "largest gap"), rows, partial(_draw_causes, shares),
        "with BFGS from the identity, by a margin of a quarter of the fits, which is ours")


def _reached(rows: list[tuple[Any, ...]], name: str, nodes: tuple[int | None, ...]) -> tuple[int, int]:
    mine = [row for row in rows if row[0] == name and row[2] in {m or "full" for m in nodes}]
    return sum(row[3] < NEAR_BEST and row[4] < CONTINUOUS for row in mine), len(mine)


def _draw_causes(shares: dict[str, tuple[tuple[int, int], tuple[int, int]]], figure: Any) -> None:
    axis, at = figure.subplots(), np.arange(len(shares))
    for k, label in enumerate(("few multinodes", "many, or full discretization")):
        axis.barh(at + 0.2 * (2 * k - 1), [100 * pair[k][0] / pair[k][1] for pair in shares.values()], 0.38, label=label)
    axis.set_yticks(at, list(shares), fontsize="small")
    axis.invert_yaxis()
    axis.set(xlabel=f"fits with J below {NEAR_BEST:.0e}, in %", xlim=(0, 100))
    axis.legend(frameon=False)
