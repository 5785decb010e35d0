"""Multi-start: the same method from many start points, and how often they find the same optimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.errors import DynidentError, NotConverged, ProblemError
from dynident.estimate.estimate import Estimate, StartResult
from dynident.methods.direct import whole
from dynident.methods.method import Method, minimised, refuse
from dynident.methods.ranking import best_of, criterion, rank, same_optimum
from dynident.parallel.failures import describe, is_lost
from dynident.parallel.tasks import as_completed
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem


@dataclass(frozen=True)
class MultiStart:
    """Wraps a method: `starts` points by Latin hypercube inside the bounds of the parameters, or given `points`.

    The problem's own start is the first of them. Seeds are derived per run, so that one worker and many give the same.
    """

    method: Method
    starts: int = 20
    seed: int = 0
    points: tuple[Mapping[str, float], ...] = ()

    def __post_init__(self) -> None:
        check_starts(self.starts)
        faults = [] if whole(self.seed) and self.seed >= 0 else [
            f"seed = {self.seed!r}; give a whole number from 0 on."]
        faults += [f"points[{k}] is {place!r}; give a table from name to start value."
                  for k, place in enumerate(self.points) if not isinstance(place, Mapping)]
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        inner = self.method.options()
        given = {"points": [dict(p) for p in self.points]} if self.points else {}
        return {"kind": "multistart", "starts": self.starts, "seed": self.seed, "method": inner, **given}

    def minimises(self) -> dict[str, Any]:
        return minimised(self.method)

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        places = self.refuse(problem)
        began = time.perf_counter()
        results: dict[int, StartResult] = {}
        best: tuple[tuple[bool, float, int], Estimate] | None = None
        with suppress(KeyboardInterrupt), closing(self.ends(problem, places, executor, tell)) as ends:
            for number, result, estimate in ends:  # one estimate is kept, however many starts there are
                results[number] = result
                place_in_row = *rank(result), number  # of equals the earlier start, in whichever order they end
                if estimate is not None and (best is None or place_in_row < best[0]):
                    best = place_in_row, estimate
                if estimate is not None and estimate.counts.get("interrupted"):
                    break
        if best is None:
            if not results:
                raise KeyboardInterrupt
            reasons = "; ".join(sorted({r.status for r in results.values()}))
            raise ProblemError(f"None of {len(results)} starts could be fitted: {reasons}")
        others = max(0.0, time.perf_counter() - began - sum(best[1].times.values()))
        timed = replace(best[1], times={**best[1].times, "other starts": others})
        return self.named(problem, timed, [results[k] for k in sorted(results)], len(places))

    def places(self, problem: Problem) -> list[Mapping[str, float]]:
        """Where the starts are; a wrong name is said before the first fit."""
        places = list(self.points) or [{}, *start_points(problem, self.starts - 1, self.seed)]
        for place in places:
            started(problem, place)
        return places

    def refuse(self, problem: Problem) -> list[Mapping[str, float]]:
        """The places, if they are some and the method takes the problem: one that does not would say so at each."""
        places = self.places(problem)
        refuse(self.method, started(problem, places[0]))
        return places

    def ends(self, problem: Problem, places: Sequence[Mapping[str, float]], executor: Executor | None,
             tell: Callable[..., object]) -> Generator[tuple[int, StartResult, Estimate | None]]:
        """Starts as they end, whatever their end; one whose workers were lost is a result too."""
        common = self.method, problem, tell if executor is None else None
        with closing(as_completed(run_start, common, [(dict(place),) for place in places], executor)) as endings:
            for ended in endings:
                if ended.error is None:
                    yield ended.number, *ended.value
                elif is_lost(ended.error):
                    begin = _begin(started(problem, ended.task[0]))
                    why = describe(ended.error, ended.attempts)
                    yield ended.number, StartResult(begin, {}, float("inf"), False, why), None
                else:
                    raise ended.error

    def named(self, problem: Problem, best: Estimate, results: Sequence[StartResult], asked: int) -> Estimate:
        """The best estimate, saying how many starts led there."""
        lowest = best_of(results)
        reached = sum(r.converged and same_optimum(r, lowest) for r in results)
        failed = sum(not r.converged for r in results)
        share = f"Best found {reached} of {len(results)} times" if lowest is not None else (
            f"Begun {len(results)} times, without a cost by which the ends could be ranked")
        share += f", {failed} starts did not converge" if failed else ""
        whole = len(results) == asked
        if not whole:
            share += f"; stopped by the user after {len(results)} of {asked} starts"
        counts = {**best.counts, "starts": len(results), "reached the best": reached}
        return replace(best, problem=problem, method=self, starts=tuple(results), converged=best.converged and whole,
                       status=f"{share}. {best.status.replace(' from one start', '')}",
                       counts=counts if whole else {**counts, "interrupted": 1})


def check_starts(starts: Any) -> None:
    if not whole(starts) or starts < 1:
        raise ProblemError(f"starts = {starts!r}; give a whole number from 1 on.")


def _begin(problem: Problem) -> dict[str, float]:
    return {p.name: float(p.start or 0.0) for p in problem.parameters if isinstance(p, Parameter) and p.free}


def start_points(problem: Problem, count: int, seed: int) -> list[dict[str, float]]:
    """Latin hypercube over the free parameters, logarithmic where the parameter is."""
    free = [p for p in problem.parameters if isinstance(p, Parameter) and p.free]
    faults = [f"multistart needs bounds for '{p.name}' to spread its starts; give lower and upper, or points=[...]."
              for p in free if not (np.isfinite(p.lower) and np.isfinite(p.upper))]
    faults += [f"multistart spreads '{p.name}' by its logarithm, so its lower bound must be positive."
               for p in free if p.log and p.lower <= 0]
    if faults:
        raise ProblemError(faults)
    if not free or count < 1:
        return []
    from scipy.stats import qmc  # here, because it takes half a second to load

    unit = qmc.LatinHypercube(len(free), rng=np.random.default_rng(seed)).random(count)
    points = []
    for row in unit:
        place = {}
        for p, share in zip(free, row, strict=True):
            low, high = (np.log(p.lower), np.log(p.upper)) if p.log else (p.lower, p.upper)
            value = low + share * (high - low)
            place[p.name] = float(np.exp(value) if p.log else value)
        points.append(place)
    return points


def started(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem with other start values; names as in `problem.names`."""
    known = {p.name for p in problem.parameters if isinstance(p, Parameter)}

    def moved(p: Parameter | InitialState) -> Parameter | InitialState:
        if isinstance(p, Parameter) and p.free and p.name in values:
            return replace(p, start=float(np.clip(values[p.name], p.lower, p.upper)))
        return p

    unknown = [n for n in values if n not in known and n not in problem.names]
    if unknown:
        raise ProblemError(f"a start names '{unknown[0]}', which is not an unknown of the problem.")
    return problem.changed(parameters=tuple(moved(p) for p in problem.parameters))


def run_start(common: tuple[Method, Problem, Callable[..., object] | None], place: Mapping[str, float]
              ) -> tuple[StartResult, Estimate | None]:
    """One start, and what is compared of it; a start that fails is a result too."""
    method, problem, tell = common
    problem = started(problem, place)
    begin = _begin(problem)
    try:
        e = method.identify(problem, None, tell or (lambda _: None))
    except NotConverged as stopped:
        if stopped.estimate is None:
            return StartResult(begin, {}, float("inf"), False, str(stopped)), None
        e = stopped.estimate
    except DynidentError as reason:
        return StartResult(begin, {}, float("inf"), False, str(reason)), None
    values = {n: float(e.values[n]) for n in problem.names}
    return StartResult(begin, values, e.cost, e.converged, e.status, criterion(e)), e
