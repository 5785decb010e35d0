"""Thesis, Chapters 5 and 6: settings of Davidenko's method, both error estimates, the linear test, and the error codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import dynident as di
from dynident._util.progress import Tell
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.papers.flexible_rotor import one_mass
from dynident.papers.outcome import Outcome, compared


def _runs(settings: dict[str, dict[str, Any]], tell: Tell) -> list[tuple[Any, ...]]:
    """Iterations and Jacobians of one mass from the starts of (7.6), by setting."""
    study, rows = one_mass(), []
    for name, options in settings.items():
        for number in "123":
            tell(f"{name}, start {number}")
            e = study.fit(study.starts[number], "davidenko", solver_options=options, max_iterations=2000)
            rows.append((name, number, e.converged, e.counts["iterations"], e.counts["jacobians"]))
    return rows


def _counts(rows: list[tuple[Any, ...]], name: str) -> str:
    return ", ".join(f"{row[3]}/{row[4]}" if row[2] else "no" for row in rows if row[0] == name)


def _draw_runs(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis = figure.subplots()
    for k, name in enumerate(dict.fromkeys(row[0] for row in rows)):
        mine = [row for row in rows if row[0] == name]
        axis.bar(np.arange(len(mine)) + 0.3 * k, [row[3] for row in mine], 0.28, label=name)
    axis.set_xticks(np.arange(3) + 0.15, [f"start {n}" for n in "123"])
    axis.set_ylabel("iterations")
    axis.legend(frameon=False)


def fig_6_2(quick: bool, tell: Tell) -> Outcome:
    """EA = ER = 0.005 against 0.05: more iterations and more Jacobians."""
    right, small = "EA = ER = 0.05", "EA = ER = 0.005"
    rows = _runs({right: {}, small: {"absolute": 0.005, "relative": 0.005}}, tell)
    pairs = list(zip([r for r in rows if r[0] == right], [r for r in rows if r[0] == small], strict=True))
    return compared(
        all(a[2] and b[2] and b[3] > a[3] and b[4] >= a[4] for a, b in pairs),
        "tolerances of 0.005 instead of 0.05 result in more iterations and more Jacobian evaluations",
        f"iterations/Jacobians from three starts: {_counts(rows, right)} with 0.05, {_counts(rows, small)} with 0.005",
        "smaller tolerances do not cost more", ("setting", "start", "converged", "iterations", "Jacobians"), rows,
        partial(_draw_runs, rows))


def estimates(quick: bool, tell: Tell) -> Outcome:
    """The trapezoid's estimate (5.18) to (5.21) against Kramer's (5.16), which has to wait for steps before."""
    rows = _runs({"trapezoid": {}, "kramer": {"estimate": "kramer"}}, tell)
    fewer = [a[3] <= b[3] or not b[2] for a, b in zip([r for r in rows if r[0] == "trapezoid"],
                                                      [r for r in rows if r[0] == "kramer"], strict=True)]
    return compared(
        all(fewer), "Kramer's estimate has to wait for three iterates; the trapezoid's does not and is used",
        f"iterations/Jacobians from three starts: trapezoid {_counts(rows, 'trapezoid')}; Kramer {_counts(rows, 'kramer')}",
        "Kramer's estimate needs fewer iterations from some start",
        ("estimate", "start", "converged", "iterations", "Jacobians"), rows, partial(_draw_runs, rows),
        "the trapezoid's is the better choice")


def linear_test(quick: bool, tell: Tell) -> Outcome:
    """y1' = y2, y2' = -16 pi^2 y1 from y = 0, against y1 = sin(4 pi t)/2; Figs. 6.3 and 6.4. (6.4) is lost: ends chosen."""
    pi = np.pi
    found = di.solve_bvp(lambda t, y: [y[1], -16 * pi**2 * y[0]], lambda a, b: [a[0], b[1] - 2 * pi],
                         np.linspace(0, 1, 101).tolist(), guess=[0.0, 0.0], method=Davidenko())
    exact = np.sin(4 * pi * found.time) / 2
    error = float(np.max(np.abs(found.values[:, 0] - exact)))
    rows = list(zip(found.time, found.values[:, 0], exact, found.values[:, 0] - exact, strict=True))
    return compared(
        found.converged and error < 1e-5, "solved after 46 iterations; a figure of the error (its numbers are lost)",
        f"solved after {len(found.history)} iterations; error {'below 1e-9' if error < 1e-9 else f'{error:.0e}'}",
        "the problem is not solved",
        ("time", "y1", "exact", "error"), rows, partial(_draw_linear, rows), "the solution to its tolerance")


def _draw_linear(rows: list[tuple[Any, ...]], figure: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    time, y, exact, error = (np.array(column) for column in zip(*rows, strict=True))
    above.plot(time, exact, color="0.7", lw=3, label="exact")
    above.plot(time, y, lw=1, label="computed")
    above.legend(frameon=False)
    below.plot(time, error)
    below.set(ylabel="error", xlabel="t")


def table_6_1(quick: bool, tell: Tell) -> Outcome:
    """Problems that provoke the codes, and what comes back."""
    def code(ask: Any) -> int:
        try:
            return int(ask().code)
        except di.ProblemError as refused:
            return 121 if "121" in str(refused) else -1

    line, mesh = (lambda t, y: [y[1], -y[0]]), [0.0, 1.0]
    asked = {
        0: lambda: di.solve_bvp(line, lambda a, b: [a[0], b[0] - 1], mesh, guess=[0.5, 1.0]),
        121: lambda: di.solve_bvp(line, lambda a, b: [a[0], b[0] - 1], mesh, guess=[0.5, 1.0], output=[0.2, 0.8]),
        231: lambda: di.solve_bvp(lambda t, y: [y[1], -10 * di.maths.exp(y[0])], lambda a, b: [a[0], b[0] - 1], mesh,
                                  guess=[0.5, 1.0], method=Davidenko(max_iterations=2)),
        260: lambda: di.solve_bvp(lambda t, y: [y[1], 0 * y[0] + 1], lambda a, b: [a[1], b[1]], mesh, guess=[0.0, 0.0])}
    rows = [(wanted, code(ask)) for wanted, ask in asked.items()]
    got = [a for a, b in rows if a == b]
    return compared(
        len(got) == len(rows), "0, 121, 231, 232, 250, 260, and a warning above a condition number of 1e8",
        f"codes provoked: {', '.join(map(str, got))}; 232 and 250 are tried in the tests of the root finders",
        f"other codes came back: {rows}", ("code", "came back"), rows, None, "the codes that a user can provoke")
