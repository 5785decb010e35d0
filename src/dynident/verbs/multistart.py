"""Multi-start: the same method from many start points, and how often they find the same optimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dynident.errors import DynidentError, NotConverged, ProblemError, SimulatorLost, StartDiverged
from dynident.estimate.estimate import Estimate, StartResult
from dynident.methods.capabilities import Capabilities
from dynident.methods.method import Method
from dynident.methods.options import check_options, documented, option, unchecked, whole_number
from dynident.methods.presets import method_from
from dynident.methods.ranking import best_of, criterion, rank, same_optimum
from dynident.parallel.process_pool import describe, is_lost
from dynident.parallel.tasks import as_completed
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.status import Status, StatusCode


def start_points_given(name: str, value: Any) -> list[str]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        return [f"{name} = {value!r}; give a list of tables from name to start value."]
    return [f"{name}[{k}] is {place!r}; give a table from name to start value."
            for k, place in enumerate(value) if not isinstance(place, Mapping)]


@documented
@dataclass(frozen=True)
class MultiStart(Method):
    """Any method from many start points inside the bounds; says how often the best optimum was found.

    The problem's own start is the first of them. Seeds are derived per run, so that one worker and many give the same. See
    the manual, methods/multistart.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0, upper=5)])
    >>> estimate = di.identify(problem, di.multistart(di.single_shooting(), starts=3))
    >>> print(len(estimate.starts), f"{estimate.values['k']:.2f}")
    3 0.50
    """

    method: Any = option(None, "The method, its name or its [method] table; None: multiple_shooting.", unchecked)
    starts: int = option(20, "Points by Latin hypercube inside the bounds of the parameters.", whole_number(1))
    seed: int = option(0, "Of the points.", whole_number(0))
    points: Sequence[Mapping[str, float]] = option(
        (), "Start values by name, in their units, where they are to be these.", start_points_given)
    kind: ClassVar[str] = "multistart"

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "method", method_from(self.method or "multiple_shooting"))
        object.__setattr__(self, "points", tuple(self.points))

    def options(self) -> dict[str, Any]:
        given = {"points": [dict(p) for p in self.points]} if self.points else {}
        return {"kind": self.kind, "starts": self.starts, "seed": self.seed, "method": self.method.options(), **given}

    @property
    def capabilities(self) -> Capabilities:
        return self.method.capabilities

    @property
    def inner_method(self) -> Method:
        return self.method.inner_method

    @property
    def simulation_integrator(self) -> str:
        return self.method.simulation_integrator

    def objective_key(self) -> dict[str, Any]:
        return self.method.objective_key()

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        start_places = self.start_places(problem)
        began = time.perf_counter()
        results: dict[int, StartResult] = {}
        best: tuple[tuple[bool, float, int], Estimate] | None = None
        with suppress(KeyboardInterrupt), closing(self.ends(problem, start_places, executor, report)) as ends:
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
            kind = StartDiverged if all(r.status.code is StatusCode.START_DIVERGED for r in results.values()) else ProblemError
            raise kind(f"None of {len(results)} starts could be fitted: {reasons}")
        others = max(0.0, time.perf_counter() - began - sum(best[1].times.values()))
        timed = replace(best[1], times={**best[1].times, "other starts": others})
        return self.summarise(problem, timed, [results[k] for k in sorted(results)], len(start_places))

    def start_places(self, problem: Problem) -> list[Mapping[str, float]]:
        """Where the starts are; a wrong name is said before the first fit."""
        start_places = list(self.points) or [{}, *start_points(problem, self.starts - 1, self.seed)]
        for place in start_places:
            with_start(problem, place)
        return start_places

    def check_supports(self, problem: Problem) -> None:
        """A place that is none, or what the method has against the problem: it would say so at each."""
        self.method.check_supports(with_start(problem, self.start_places(problem)[0]))

    def ends(self, problem: Problem, start_places: Sequence[Mapping[str, float]], executor: Executor | None,
             report: Callable[..., object]) -> Generator[tuple[int, StartResult, Estimate | None]]:
        """Starts as they end, whatever their end; one whose workers were lost is a result too."""
        common = self.method, problem, report if executor is None else None
        with closing(as_completed(run_start, common, [(dict(place),) for place in start_places], executor)) as endings:
            for ended in endings:
                if ended.error is None:
                    yield ended.number, *ended.value
                elif is_lost(ended.error):
                    begin = _start_values(with_start(problem, ended.task[0]))
                    why = Status(describe(ended.error, ended.attempts), StatusCode.SIMULATOR_LOST)
                    yield ended.number, StartResult(begin, {}, float("inf"), False, why), None
                else:
                    raise ended.error

    def summarise(self, problem: Problem, best: Estimate, results: Sequence[StartResult], asked: int) -> Estimate:
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
        asked_for = problem.with_noise_of(best.problem)
        return replace(best, problem=asked_for, method=replace(self, method=best.method), starts=tuple(results),
                       converged=best.converged and whole,
                       status=Status(f"{share}. {best.status.replace(' from one start', '')}",
                                     best.status.code if whole else StatusCode.INTERRUPTED),
                       counts=counts if whole else {**counts, "interrupted": 1})


def check_starts(starts: Any) -> None:
    if faults := whole_number(1)("starts", starts):
        raise ProblemError(faults)


def _start_values(problem: Problem) -> dict[str, float]:
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


def with_start(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem with other start values; names as in `problem.names`."""
    known = {p.name for p in problem.parameters if isinstance(p, Parameter)}

    def moved(p: Parameter | InitialState) -> Parameter | InitialState:
        if isinstance(p, Parameter) and p.free and p.name in values:
            return replace(p, start=float(np.clip(values[p.name], p.lower, p.upper)))
        return p

    unknown = [n for n in values if n not in known and n not in problem.names]
    if unknown:
        raise ProblemError(f"a start names '{unknown[0]}', which is not an unknown of the problem.")
    return problem.replace(parameters=tuple(moved(p) for p in problem.parameters))


def failed_start(reason: DynidentError) -> Status:
    """Why nothing was searched from a start."""
    lost = isinstance(reason, SimulatorLost) or (isinstance(reason, StartDiverged) and reason.lost)
    code = (StatusCode.SIMULATOR_LOST if lost else
            StatusCode.START_DIVERGED if isinstance(reason, StartDiverged) else StatusCode.START_REFUSED)
    return Status(str(reason), code)


def run_start(common: tuple[Method, Problem, Callable[..., object] | None], place: Mapping[str, float]
              ) -> tuple[StartResult, Estimate | None]:
    """One start, and what is compared of it; a start that fails is a result too."""
    method, problem, report = common
    problem = with_start(problem, place)
    begin = _start_values(problem)
    try:
        e = method.identify(problem, None, report or (lambda _: None))
    except NotConverged as stopped:
        if stopped.estimate is None:
            return StartResult(begin, {}, float("inf"), False, failed_start(stopped)), None
        e = stopped.estimate
    except DynidentError as reason:
        return StartResult(begin, {}, float("inf"), False, failed_start(reason)), None
    values = {n: float(e.values[n]) for n in problem.names}
    return StartResult(begin, values, e.cost, e.converged, e.status, criterion(e)), e
