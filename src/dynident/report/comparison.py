"""What do several estimates say side by side, do they agree, and where did their starts end (waterfall)?"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident.errors import DynidentError, ProblemError
from dynident.estimate.estimate import Estimate, StartResult
from dynident.methods.ranking import best_of, best_per_objective, comparable_cost, same_optimum
from dynident.report.result_table import ResultRow, convergence, fits, format_number, percent, result_rows, seconds
from dynident.tolerances import SAME_NUMBER
from dynident.verbs.compare import Comparison

ABSENT = "-"
REACHED = "reached the best"
NARROW = 19  # columns; three such cells and the names fit into 80


@dataclass(frozen=True)
class ComparisonLine:
    """One line of the table: what it is about, and one cell per estimate; a cell may hold two lines of text."""

    name: str
    cells: tuple[str, ...]
    warned: tuple[bool, ...]  # which of the cells need a second look
    ends_group: bool = False


@dataclass(frozen=True)
class Effort:
    """What something cost or took: a number per estimate, NaN where it does not apply, and the same as text."""

    name: str
    numbers: tuple[float, ...]
    said: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Ends that have a cost, in order; starts that could not be fitted at all are only counted."""

    rank: np.ndarray
    cost: np.ndarray
    converged: np.ndarray  # bool
    sentence: str
    lost: int = 0  # starts that could not be fitted at all


def waterfall(starts: Sequence[StartResult], best: StartResult | None = None) -> Waterfall:
    """Counted from the best of these starts, or from a better one that another method found."""
    own = best_of(starts)
    ended = sorted((s for s in starts if np.isfinite(s.criterion)), key=lambda s: s.criterion)
    reference = best or own
    cost = np.array([comparable_cost(s, reference) for s in ended] if reference else [], float)
    reached = sum(same_optimum(s, own) for s in ended)
    lost = len(starts) - len(ended)
    said = f"{reached} of {len(starts)} starts ended at the lowest cost"
    said += f"; {lost} could not be fitted at all." if lost else "."
    return Waterfall(np.arange(1, len(ended) + 1), cost, np.array([s.converged for s in ended], bool), said, lost)


@dataclass(frozen=True)
class ComparisonTable:
    """Several estimates side by side; `rows` are by label, then by name."""

    labels: tuple[str, ...]
    lines: tuple[ComparisonLine, ...]
    rows: Mapping[str, Mapping[str, ResultRow]]
    agrees: bool
    agreement: str  # the same as a sentence
    meanings: tuple[str, ...]
    efforts: tuple[Effort, ...] = ()
    falls: Mapping[str, Waterfall] = field(default_factory=dict)  # by label, of those with several starts
    failed: Mapping[str, str] = field(default_factory=dict)  # by label, why a method has no estimate

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for rows in self.rows.values() for name in rows))


def build_comparison(estimates: Mapping[str, Estimate]) -> ComparisonTable:
    """Put the estimates side by side; labels are the keys. What `compare` gives also says which methods have none."""
    _require_labelled(estimates)
    failed = estimates.failed if isinstance(estimates, Comparison) else {}
    if not estimates:
        why = "".join(f" {label}: {reason}" for label, reason in failed.items())
        raise DynidentError(f"there is nothing to compare: no method gave an estimate.{why}" if failed else
                            "there is nothing to compare; give at least one estimate, as {'label': estimate}.")
    rows = {label: {row.name: row for row in result_rows(estimate)} for label, estimate in estimates.items()}
    names = list(dict.fromkeys(name for by_name in rows.values() for name in by_name))
    drifting = {label: _drifting(estimate) for label, estimate in estimates.items()}
    outlier = _outlier(rows, estimates, drifting)
    among = {label: e for label, e in estimates.items() if label != outlier}
    outsiders = {label: _outside(label, rows, estimates if label == outlier else among, drifting) for label in estimates}
    lines = [ComparisonLine("status", tuple(convergence(e)[0].rstrip(".") for e in estimates.values()),
                  tuple(not e.converged for e in estimates.values()), ends_group=True)]
    lines += [ComparisonLine(_titled(name, rows), tuple(_cell(by_name.get(name)) for by_name in rows.values()),
                   tuple(name in outside for outside in outsiders.values()), ends_group=name == names[-1])
              for name in names]
    lines += [ComparisonLine("agrees", tuple(_answer(outsiders[label], len(estimates)) for label in estimates),
                   tuple(bool(outside) for outside in outsiders.values()), ends_group=True)]
    agrees, sentence = _agreement(rows, estimates, outsiders, drifting, outlier)
    held = list(estimates.values())
    efforts = _efforts(held)
    lines += [*_fit_lines(held), *(ComparisonLine(each.name, each.said, (False,) * len(held)) for each in efforts)]
    return ComparisonTable(tuple(estimates), tuple(lines), rows, agrees, sentence,
                      tuple(dict.fromkeys(e.uncertainty.meaning for e in held)), tuple(efforts),
                      {label: waterfall(estimates[label].starts, best) for label, best in best_per_objective(estimates).items()
                       if best is not None}, failed)


def _require_labelled(estimates: Any) -> None:
    if isinstance(estimates, Mapping):
        wrong = [f"'{label}' is a {type(e).__name__}" for label, e in estimates.items() if not isinstance(e, Estimate)]
    else:
        wrong = [f"it is a {type(estimates).__name__}"]
    if wrong:
        raise ProblemError("a comparison takes estimates by label, {'label': estimate}, or what compare() gives; "
                           f"{', '.join(wrong)}.")


def _titled(name: str, rows: Mapping[str, Mapping[str, ResultRow]]) -> str:
    unit = next((by_name[name].unit for by_name in rows.values() if name in by_name and by_name[name].unit), "")
    return f"{name} ({unit})" if unit else name


def _cell(row: ResultRow | None) -> str:
    return ABSENT if row is None else f"{row.value}\n{row.interval}"


def _answer(outside: list[str], estimates: int) -> str:
    if estimates == 1:
        return ABSENT
    return textwrap.fill(f"no: {', '.join(outside)}", NARROW) if outside else "yes"


def _fit_lines(estimates: Sequence[Estimate]) -> list[ComparisonLine]:
    outputs = dict.fromkeys(output for e in estimates for output in fits(e))
    return [ComparisonLine(f"fit {output}", tuple(percent(fits(e)[output]) if output in fits(e) else ABSENT for e in estimates),
                 (False,) * len(estimates)) for output in outputs]


def _efforts(estimates: Sequence[Estimate]) -> list[Effort]:
    """What there is to say of any of them, in the order of the table."""
    def told(name: str, ask: Callable[[Estimate], float | None], say: Callable[[float], str]) -> Effort | None:
        found = [ask(e) for e in estimates]
        numbers = tuple(math.nan if number is None else float(number) for number in found)
        return None if all(map(math.isnan, numbers)) else Effort(
            name, numbers, tuple(ABSENT if math.isnan(number) else say(number) for number in numbers))

    def count(key: str) -> Callable[[Estimate], float | None]:
        return lambda e: e.counts.get(key)

    ranked = [best_of(e.starts) is not None for e in estimates]  # a method that proves bounds has no cost
    shares = [e.counts["reached the best"] / len(e.starts) if r else math.nan for e, r in zip(estimates, ranked, strict=True)]
    reached = Effort(REACHED, tuple(shares), tuple(f"{e.counts['reached the best']} of {len(e.starts)}" if r else ABSENT
                                                   for e, r in zip(estimates, ranked, strict=True)))
    asked = [told("cost", lambda e: e.cost, format_number),
             reached if any(ranked) else None,
             told("variables", count("variables"), "{:.0f}".format),
             told("equalities", count("equalities"), "{:.0f}".format),
             told("density Jacobian", lambda e: e.statistics.get("density_jacobian"), "{:.2g}".format),
             told("density Hessian", lambda e: e.statistics.get("density_hessian"), "{:.2g}".format),
             told("iterations", count("iterations"), "{:.0f}".format),
             told("time", lambda e: sum(e.times.values()) if e.times else None, seconds)]
    return [effort for effort in asked if effort is not None]


def _drifting(estimate: Estimate) -> frozenset[str]:
    """Parameters whose value is that of one time: they may drift, and the others of that name may not."""
    may = estimate.smoothed.drifting if estimate.smoothed is not None else ()
    return frozenset(u.name for u in estimate.problem.unknowns if u.quantity in may)


def _outside(label: str, rows: Mapping[str, Mapping[str, ResultRow]], estimates: Mapping[str, Estimate],
             drifting: Mapping[str, frozenset[str]]) -> list[str]:
    """Names on which another, converged estimate says something else of the same thing."""
    others = [other for other in estimates if other != label and estimates[other].converged]
    return [name for name, row in rows[label].items() if not row.held and any(
        name in rows[other] and (name in drifting[label]) == (name in drifting[other]) and _apart(row, rows[other][name])
        for other in others)]


def _outlier(rows: Mapping[str, Mapping[str, ResultRow]], estimates: Mapping[str, Estimate],
             drifting: Mapping[str, frozenset[str]]) -> str:
    """The one estimate without which all others agree; empty where there is none, or more than one could be it."""
    judged = {label: e for label, e in estimates.items() if e.converged}
    found = []
    for label in judged if len(judged) > 2 else ():
        others = {other: e for other, e in judged.items() if other != label}
        if _outside(label, rows, judged, drifting) and not any(_outside(o, rows, others, drifting) for o in others):
            found.append(label)
    return found[0] if len(found) == 1 else ""


def _apart(one: ResultRow, other: ResultRow) -> bool:
    """Whether the wider interval excludes the value of the narrower one.

    Of two methods on the same data, one may know less; its own value then need not lie in the interval of the other. Where one
    interval is withheld the other judges; where both are, the numbers have to be the same.
    """
    if one.held or other.held:
        return not one.held and _excludes(other, one.number)
    if one.without_interval and other.without_interval:
        return not abs(one.number - other.number) <= SAME_NUMBER * max(abs(one.number), abs(other.number))
    if one.without_interval or other.without_interval:
        known, unknown = (other, one) if one.without_interval else (one, other)
        return _excludes(known, unknown.number)
    wider, narrower = (one, other) if one.high - one.low >= other.high - other.low else (other, one)
    return _excludes(wider, narrower.number) or _excludes(narrower, narrower.number)


def _excludes(row: ResultRow, number: float) -> bool:
    return not row.held and not row.low <= number <= row.high


def _agreement(rows: Mapping[str, Mapping[str, ResultRow]], estimates: Mapping[str, Estimate],
               outsiders: Mapping[str, list[str]], drifting: Mapping[str, frozenset[str]], outlier: str) -> tuple[bool, str]:
    judged = [label for label, estimate in estimates.items() if estimate.converged]
    left_out = [label for label in estimates if label not in judged]
    omitted = f" Not converged, and therefore not counted: {', '.join(left_out)}." if left_out else ""
    if len(judged) < 2:
        return False, f"There are fewer than two converged estimates to compare.{omitted}"
    omitted += _not_judged(judged, rows, drifting)
    if outlier:
        return False, (f"{outlier} does NOT agree with the others on {', '.join(outsiders[outlier])}; the other "
                       f"{len(judged) - 1} agree with each other.{omitted}")
    apart = list(dict.fromkeys(name for label in judged for name in outsiders[label]))
    if apart:
        withheld = any(row.without_interval for label in judged for row in rows[label].values() if row.name in apart)
        why = ("numbers differ, or lie outside of another's interval" if withheld else
               "a value lies outside of another's interval that is no narrower than its own")
        return False, f"They do NOT agree on {', '.join(apart)}: {why}.{omitted}"
    found = _of_one_thing([rows[label] for label in judged], [drifting[label] for label in judged])
    if not any(len(alike) > 1 for _, alike in found):
        return False, f"There is nothing that could be compared.{omitted}"
    share, name = _largest_difference(found)
    everywhere = not any(_excludes(other, row.number) for _, alike in found for row in alike if not row.held for other in alike)
    withheld = any(row.without_interval for _, alike in found for row in alike)
    how = ("every value lies within all of the intervals" if everywhere else
           f"where no interval is given, the values differ by less than {100 * SAME_NUMBER:g} % or lie within the others'"
           if withheld else "where intervals differ in width, the wider one holds the value of the narrower one")
    detail = (f" The largest difference is {100 * share:.1f} % of the narrowest half interval ({name})."
              if name and everywhere else "")
    return True, f"They agree: {how}.{detail}{omitted}"


def _not_judged(judged: Sequence[str], rows: Mapping[str, Mapping[str, ResultRow]],
                drifting: Mapping[str, frozenset[str]]) -> str:
    """Parameters that may drift in some of the estimates, and stand still in others."""
    said = ""
    for name in dict.fromkeys(name for label in judged for name in rows[label]):
        may = [label for label in judged if name in drifting[label]]
        if 0 < len(may) < sum(name in rows[label] for label in judged):
            said += (f" {name} may drift in {', '.join(may)}: its value there is that at the begin of the record, and is not "
                     "compared with what the others say of the whole.")
    return said


def _of_one_thing(rows: Sequence[Mapping[str, ResultRow]], drifting: Sequence[frozenset[str]]
                  ) -> list[tuple[str, list[ResultRow]]]:
    """By name, what the estimates say of the same thing: parameters that may drift apart from those that stand still."""
    found: dict[tuple[str, bool], list[ResultRow]] = {}
    for own, may in zip(rows, drifting, strict=True):
        for name, row in own.items():
            found.setdefault((name, name in may), []).append(row)
    return [(name, alike) for (name, _), alike in found.items()]


def _largest_difference(found: Sequence[tuple[str, list[ResultRow]]]) -> tuple[float, str]:
    largest, where = -math.inf, ""
    for name, alike in found:
        free = [row for row in alike if not row.held]
        widths = [row.high - row.low for row in free if not row.open and row.high > row.low]
        if len(free) > 1 and widths:
            share = (max(r.number for r in free) - min(r.number for r in free)) / (min(widths) / 2)
            if share > largest:
                largest, where = share, name
    return largest, where
