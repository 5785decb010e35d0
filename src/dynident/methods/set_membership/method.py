"""Set membership: the option object behind the preset, and which algorithm answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.enclosure import Refutation
from dynident.estimate.estimate import Estimate
from dynident.integrators.verified.boxes import Boxes
from dynident.integrators.verified.flow import FlowChoice
from dynident.integrators.verified.hybrid_step import HybridStep
from dynident.integrators.verified.tube import Tube
from dynident.integrators.verified.united_step import UnitedStep
from dynident.methods.set_membership.answer import Answer, assembled
from dynident.methods.set_membership.inversion import (
    Effort,
    Stretch,
    first_inconsistent,
    invert,
    smallest_inflation,
)
from dynident.methods.set_membership.observer import Budget, Observer, Passage, Reset, standing_modes
from dynident.methods.set_membership.question import Question, question_of
from dynident.methods.set_membership.splitting import Strategy, strategy_from
from dynident.methods.set_membership.windows import WindowSolver, windows_of
from dynident.problem.problem import Problem

ALGORITHMS = ("auto", "batch", "recursive", "paper")
WINDOW_ORDER = 5  # of the Taylor polynomial in a window
STEP_ORDER = 3  # of that in a step of the recursion
SUBSTEPS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class SetMembership:
    """Bounds outside of which no value explains the data; see `presets.set_membership` for the options."""

    algorithm: str = "auto"
    cap: int = 300
    subdivisions: int | None = None
    velocity_subdivisions: int = 0
    velocity: str = ""
    runs: int = 1
    reset: Mapping[str, str] = field(default_factory=dict)
    standstill_time: float = 0.0
    forgive: int = 0
    input_error: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.02
    order: int | None = None
    proved: bool = False
    strategy: Strategy | str | None = None

    kind = "set_membership"

    def __post_init__(self) -> None:
        faults = []
        if self.algorithm not in ALGORITHMS:
            faults.append(f"algorithm = '{self.algorithm}' is not known.{did_you_mean(self.algorithm, ALGORITHMS)}")
        for name, least in (("cap", 1), ("runs", 1), ("forgive", 0), ("velocity_subdivisions", 0)):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < least:
                faults.append(f"{name} = {getattr(self, name)!r} must be a whole number of at least {least}.")
        if self.subdivisions is not None and self.subdivisions < 0:
            faults.append(f"subdivisions = {self.subdivisions} must not be negative.")
        if not 0 < self.tolerance < 1:
            faults.append(f"tolerance = {self.tolerance} is a share of the first box; use for instance 0.02.")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        """What was set, as in a [method] table; a strategy written in Python has no name there."""
        told = {name: getattr(self, name) for name in (
            "algorithm", "cap", "subdivisions", "velocity_subdivisions", "velocity", "runs", "standstill_time",
            "forgive", "tolerance", "order", "proved") if getattr(self, name) not in (None, "")}
        told |= {name: dict(getattr(self, name)) for name in ("reset", "input_error") if getattr(self, name)}
        return {"kind": self.kind, **told}

    def identify(self, problem: Problem, executor: Executor | None = None,
                 tell: Callable[..., object] = lambda *_: None) -> Estimate:
        began = time.perf_counter()
        question = question_of(problem, dict(self.input_error), self.proved)
        algorithm = "batch" if self.algorithm == "auto" else self.algorithm  # by far the tightest per second
        smooth = algorithm == "batch" and not question.model.hybrid
        if self.forgive and not smooth:
            raise NotSupported("forgive counts samples over a whole record, which a recursion along it cannot. It works "
                               "with algorithm=\"batch\" and a model without modes; else widen the bound on the errors.")
        answer = _batch(self, question) if smooth else _recursive(self, question, algorithm)
        return assembled(question, self, algorithm, answer, time.perf_counter() - began)


def _batch(method: SetMembership, question: Question) -> Answer:
    """Set inversion over the whole of each record in turn; each starts from what those before it left."""
    low, high = question.low.copy(), question.high.copy()
    model = question.model
    tube = Tube(question.automaton.layout, model.rate, model.output, method.order or 8, method.proved)
    answer = Answer(low, high, {tube.flow.whole.rigour, tube.output.rigour})
    paving = len(question.problem.unknowns) <= 2 and len(question.records) == 1
    for e, record in enumerate(question.records):
        lo, hi = question.box(e, low, high)
        count = _substeps(tube, record.steps[0], lo, hi)
        stretch = Stretch(tube, record.steps, record.low, record.high, substeps=count)
        effort = Effort(boxes=20_000 if paving else method.cap, tolerance=method.tolerance, forgive=method.forgive,
                        paving=paving, rounds=40 if paving else 20)
        found = invert(stretch, lo, hi, effort)
        hull = found.hull()
        if hull is None:
            when = float(record.time[first_inconsistent(stretch, lo, hi, effort)])
            return answer.refuted(Refutation(record.label, when, smallest_inflation(stretch, lo, hi, effort)))
        rows, source = question.unknown_rows(e)
        low[source] = np.maximum(low[source], hull[0][rows])
        high[source] = np.minimum(high[source], hull[1][rows])
        if paving:
            answer.outer, answer.inner = (
                np.array([part[0][rows], part[1][rows]]) for part in (found.outer, found.inner))
        answer.centres.append(0.5 * (hull[0] + hull[1]))
    answer.low, answer.high = low, high
    return answer


def _substeps(tube: Tube, step: Any, lo: np.ndarray, hi: np.ndarray) -> int:
    """The fewest parts of a step for which a first enclosure exists."""
    for count in SUBSTEPS:
        rows = tube.rows(lo[:, None], hi[:, None], (step, step), count)
        if np.all(np.isfinite(rows.doubt)):
            return count
    return SUBSTEPS[-1]


def _observer(method: SetMembership, question: Question, algorithm: str) -> Observer:
    model, paper = question.model, algorithm == "paper"
    resets = tuple(_reset(method, question, name, signal, paper) for name, signal in method.reset.items())
    cuts = method.subdivisions if method.subdivisions is not None else (50 if paper else max(method.cap // 4, 1))
    sliced = model.states.index(method.velocity) if method.velocity else len(model.states) - 1
    budget = Budget(method.cap, cuts, method.velocity_subdivisions, sliced, overfull=paper)
    strategy = strategy_from(method.strategy, "paper" if paper else "influence")
    step = UnitedStep(question.automaton, model) if paper else HybridStep(question.automaton, FlowChoice(
        method.order or STEP_ORDER))
    return Observer(model, step, strategy, budget, backward=not paper, resets=resets)


def _reset(method: SetMembership, question: Question, name: str, signal: str, pieces: bool) -> Reset:
    model = question.model
    if name not in model.parameters:
        raise ProblemError(f"reset names '{name}', which is not a parameter.{did_you_mean(name, model.parameters)}")
    if signal not in model.outputs:
        raise ProblemError(f"reset of '{name}' waits for '{signal}', which is not an output of the model."
                           f"{did_you_mean(signal, model.outputs)}")
    output = model.outputs.index(signal)
    modes = standing_modes(model, output)
    if not modes:
        raise ProblemError(f"reset of '{name}' waits for '{signal}' to stand still, but it moves in every mode.")
    return Reset(model.parameters.index(name), output, method.standstill_time, pieces, modes)


def _recursive(method: SetMembership, question: Question, algorithm: str) -> Answer:
    """Runs over the records, one after another, each beginning with what is known by then."""
    observer = _observer(method, question, algorithm)
    answer = Answer(question.low.copy(), question.high.copy(), {observer.step.rigour})
    changing = {question.model.parameters.index(name) for name in method.reset}
    for run in range(method.runs):
        for e, record in enumerate(question.records):
            lo, hi = question.box(e, answer.low, answer.high)
            first = Boxes(lo[:, None], hi[:, None], np.zeros(1, int))
            passage = observer.run(first, record)
            answer.add_band(question, e, run, passage)
            if passage.empty_at is not None:
                return answer.refuted(Refutation(record.label, float(record.time[passage.empty_at])))
            _learn(answer, question, e, passage, changing)
            if algorithm == "batch":
                _by_windows(method, question, answer, e, passage, changing)
            if answer.refutation is not None:
                return answer
    return answer


def _by_windows(method: SetMembership, question: Question, answer: Answer, e: int, passage: Passage,
                changing: set[int]) -> None:
    """Each stretch of motion as a whole; what one leaves of the parameters is where the next begins."""
    n = question.automaton.layout.states
    still = {k for k, law in enumerate(question.automaton.modes) if law.rate_is_zero}
    rows, source = question.unknown_rows(e)
    for window in windows_of(passage, still):
        lo, hi = question.box(e, answer.low, answer.high)
        own = [*range(n), *(n + k for k in changing)]
        at = [window.begin] * n + [window.end - 1] * len(changing)
        lo[own], hi[own] = passage.low[at, own], passage.high[at, own]
        found = WindowSolver(question, e, window, passage, method.order or WINDOW_ORDER).narrowed(lo, hi)
        if found is None:
            answer.refuted(Refutation(question.records[e].label, float(question.records[e].time[window.end - 1])))
            return
        for row, k in zip(rows, source, strict=True):
            if row >= n and row - n in changing:
                answer.last_motion[int(k)] = float(found[0][row]), float(found[1][row])
            elif row >= n:
                answer.low[k], answer.high[k] = max(answer.low[k], found[0][row]), min(answer.high[k], found[1][row])


def _learn(answer: Answer, question: Question, e: int, passage: Passage, changing: set[int]) -> None:
    """Take over what a passage proved; a parameter that is reset keeps its first range, and is told beside it."""
    n = question.automaton.layout.states
    standing = sum(1 << k for k, law in enumerate(question.automaton.modes) if law.rate_is_zero)
    rows, source = question.unknown_rows(e)
    for row, k in zip(rows, source, strict=True):
        if row < n:
            answer.low[k] = max(answer.low[k], passage.low[0, row])
            answer.high[k] = min(answer.high[k], passage.high[0, row])
        elif row - n in changing:
            answer.last_motion[int(k)] = _in_last_motion(passage, row, standing)
        else:
            answer.low[k] = max(answer.low[k], passage.low[-1, row])
            answer.high[k] = min(answer.high[k], passage.high[-1, row])
    answer.boxes = passage.boxes


def _in_last_motion(passage: Passage, row: int, standing: int) -> tuple[float, float]:
    """The narrowest bounds of a parameter between the two resets around the last motion."""
    end = passage.reached()
    moving = np.flatnonzero(passage.modes[:end] & ~standing)
    last = int(moving[-1]) if moving.size else end - 1
    begin = max((k for k in passage.resets if k <= last), default=0)
    end = min((k for k in passage.resets if k > last), default=end)
    k = begin + int(np.argmin(passage.high[begin:end, row] - passage.low[begin:end, row]))
    return float(passage.low[k, row]), float(passage.high[k, row])
