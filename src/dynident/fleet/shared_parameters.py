"""Shared parameters: which values suit the whole fleet best? A two-level (hierarchical) Gauss-Newton method.

Each pass fits every record with the shared parameters fixed, eliminates its own unknowns, and adds a small triangle to the
sum; a damped Gauss-Newton step of the shared parameters follows, and the next pass tells whether it helped (the trust region
on the cost of `solvers/globalization.py`). The first values come from the fits of the records one by one, each weighted
with what it tells. Memory does not grow with the number of records, and since the sum is taken in the order of the records'
names, the result does not depend on who fitted what and when.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from dynident._util.codec import decode, to_json
from dynident.errors import NotConverged
from dynident.fleet.fleet import Fleet, TaskSpec
from dynident.fleet.records import FleetRecord
from dynident.fleet.store import FleetStore
from dynident.fleet.task import CONVERGED, TaskResult, fingerprint, fit, task_result
from dynident.fleet.variable_projection import ReducedRecord, reduce_record, with_fixed, with_noise, with_starts
from dynident.linalg.arrowhead import ArrowheadBlock, ArrowheadLeastSquares
from dynident.linalg.bounded_least_squares import bounded_least_squares
from dynident.methods.outer_loop import OuterLoop
from dynident.problem.parameter import Parameter, Transforms
from dynident.solvers.globalization import FIRST_DAMPING, Damping
from dynident.status import Status
from dynident.tolerances import (
    RANK_DAMPING,
    SHARED_COST_ROUNDING,
    SHARED_STALLED_STEP_TOLERANCE,
    SHARED_STEP_TOLERANCE,
)

UNDAMPED = Damping(0.0)  # the first step is taken in full: where all records agree it is the last one
MAX_PASSES = 40
MAX_REJECTED = 8  # steps in a row
REJECTED_FOR_LOST_RECORDS = 3  # steps, before records that fail at the new values are left out

RunPass = Callable[[int, Callable[..., TaskResult], Iterable[tuple]], None]


def fit_with_shared(spec: TaskSpec, record: FleetRecord, shared: dict[str, float], own: dict[str, float],
                    noise: dict[str, float]) -> TaskResult:
    """One record with the shared parameters fixed: its own optimum, and what it says about the shared ones."""
    began = time.perf_counter()
    read = fingerprint(record)
    free = with_noise(spec.problem(record), noise)
    estimate = fit(spec, with_starts(with_fixed(free, shared), own), record.name)
    arrays = reduce_record(spec, free, estimate).arrays() if estimate.converged else {}
    return task_result(estimate, arrays, read, time.perf_counter() - began)


@dataclass(frozen=True)
class SharedState:
    """Where the search for the shared values stands; kept in the store after every pass."""

    records: str  # which records it is about; another set begins anew
    trial: int  # pass under way
    at: tuple[float, ...]  # solver coordinates of the trial
    accepted: int = 0  # the last pass that lowered the cost; 0 for none
    accepted_at: tuple[float, ...] = ()
    damping: Damping = UNDAMPED
    rejected: int = 0
    finished: str = ""  # a sentence
    converged: bool = False

    def ended(self, reason: Status, interrupted: bool) -> SharedState | None:
        """An interrupted pass goes on in the next run: it has no result."""
        return None

    def finish(self, why: str, converged: bool) -> SharedState:
        sentence = (f"Converged {why}." if converged else
                    f"Did not converge: stopped {why}. The best values so far are kept.")
        return replace(self, finished=sentence, converged=converged)


@dataclass(frozen=True, eq=False)
class RecordSum:
    """The sum over the records of a pass, in solver coordinates."""

    rows: np.ndarray  # (shared, shared + 1)
    cost: float
    freedom: int
    scores: np.ndarray  # (shared, shared): sum of each record's own gradient times itself
    cost_if_separate: float  # fall of the cost if each record had its own shared values
    members: frozenset[str]

    @property
    def variance(self) -> float:
        """Of a weighted residual; 1 where the noise is as large as given."""
        return self.cost / max(1, self.freedom - self.rows.shape[0])


@dataclass(frozen=True, eq=False)
class SharedParameterSolver:
    """What stays the same in all passes over the fleet; `run_pass` completes one of them, on whatever executor."""

    fleet: Fleet
    store: FleetStore
    run_pass: RunPass
    parameters: tuple[Parameter, ...] = field(init=False)
    coordinates: Transforms = field(init=False)

    def __post_init__(self) -> None:
        declared = {p.name: p for p in self.fleet.parameters if isinstance(p, Parameter)}
        object.__setattr__(self, "parameters", tuple(declared[name] for name in self.fleet.shared))
        object.__setattr__(self, "coordinates", _coordinates(self.parameters))

    def solve(self, records: str) -> SharedState:
        """From where the last run stopped, or anew; `records` is a fingerprint of the set of records."""
        state = resume(self, records) or initial_state(self, records)
        return PASSES.run(self, state)

    def sum_records(self, number: int, at: np.ndarray | None, only: frozenset[str] | None = None) -> RecordSum:
        """Add up a pass whose records were linearised `at` the shared values; None: each at values of its own."""
        size = len(self.parameters)
        rows, scores = np.zeros((0, size + 1)), np.zeros((size, size))
        cost, fall, freedom, members = 0.0, 0.0, 0, []
        for record, result in self.store.results(number):
            if "rows" not in result.arrays or (only is not None and record not in only):
                continue
            reduced = ReducedRecord.from_arrays(result.arrays)
            own = self._in_coordinates(reduced, at)
            rows = _stack_triangle(rows, own)
            gradient = own[:, :-1].T @ own[:, -1]
            scores += np.outer(gradient, gradient)
            cost, fall, freedom = cost + reduced.cost, fall + float(own[:, -1] @ own[:, -1]), freedom + reduced.freedom
            members.append(record)
        prior = self._prior_rows(at)
        rows = _stack_triangle(rows, prior) if len(prior) else rows
        return RecordSum(_pad_rows(rows, size), cost + float(prior[:, -1] @ prior[:, -1]), freedom, scores, fall,
                         frozenset(members))

    def _in_coordinates(self, record: ReducedRecord, at: np.ndarray | None) -> np.ndarray:
        """Rows in solver coordinates: of an increment from `at`, or of the coordinates themselves."""
        R, residual = record.rows[:, :-1] * np.where(self.coordinates.log, record.at, 1.0), record.rows[:, -1]
        if at is None:
            residual = residual - R @ self.coordinates.coordinates(record.at)
        return np.column_stack([R, residual])

    def _prior_rows(self, at: np.ndarray | None) -> np.ndarray:
        """Rows of what is known beforehand: of an increment from `at`, or of the coordinates themselves."""
        rows, log = [], self.coordinates.log
        for i, p in enumerate(self.parameters):
            if p.prior is None:
                continue
            value = p.prior.mean if at is None else float(self.coordinates.values(at)[i])
            row = np.zeros(len(log) + 1)
            row[i] = (value if log[i] else 1.0) / p.prior.std
            row[-1] = (value - p.prior.mean) / p.prior.std
            if at is None:
                row[-1] -= row[i] * (np.log(value) if log[i] else value)
            rows.append(row)
        return np.array(rows).reshape(len(rows), len(log) + 1)

    def damped_step(self, rows: np.ndarray, at: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        """The step within the bounds, and the predicted reduction of the cost."""
        size = len(self.parameters)
        lengths = np.linalg.norm(rows[:, :-1], axis=0)
        lengths = np.where(lengths > 0, lengths, 1.0)
        damped = np.column_stack([np.diag(np.sqrt(damping + RANK_DAMPING) * lengths), np.zeros(size)])
        R = _pad_rows(_stack_triangle(rows, damped), size)
        arrow = ArrowheadLeastSquares(size, (), ArrowheadBlock(np.arange(size), R))
        step, _ = bounded_least_squares(arrow, np.minimum(self.coordinates.lower - at, 0),
                                    np.maximum(self.coordinates.upper - at, 0))
        return step, predicted_reduction(rows, step)


def predicted_reduction(rows: np.ndarray, step: np.ndarray) -> float:
    after = rows[:, :-1] @ step + rows[:, -1]
    return float(rows[:, -1] @ rows[:, -1] - after @ after)


# the steps of a pass, each from one state to the next


def resume(solver: SharedParameterSolver, records: str) -> SharedState | None:
    """Where the last run over the same records stopped."""
    kept = solver.store.about("shared")
    if kept is None:
        return None
    state: SharedState = decode(SharedState, json.loads(kept), str(solver.store.path))
    if state.records == records:
        return state
    solver.store.keep_passes(set())
    return None


def initial_state(solver: SharedParameterSolver, records: str) -> SharedState:
    """The values that the records give by themselves, each weighted with what it tells."""
    alone = solver.sum_records(0, None)
    if not alone.members:
        raise NotConverged("No record could be fitted by itself, so there is nothing to begin with for the shared "
                           "parameters. The table says why.")
    begin = solver.coordinates.coordinates(np.array([p.start for p in solver.parameters], float))
    rows = np.column_stack([alone.rows[:, :-1], alone.rows[:, -1] + alone.rows[:, :-1] @ begin])
    step, _ = solver.damped_step(rows, begin, 0.0)
    return save(solver, SharedState(records, 1, tuple(float(x) for x in begin + step)))


def fit_records(solver: SharedParameterSolver, state: SharedState) -> SharedState:
    """Every record that the pass still lacks, with the shared values of the trial."""
    solver.run_pass(state.trial, fit_with_shared, _tasks(solver, state))
    return state


def _tasks(solver: SharedParameterSolver, state: SharedState) -> Iterable[tuple]:
    values = solver.coordinates.values(np.array(state.at))
    shared = dict(zip(solver.fleet.shared, (float(v) for v in values), strict=True))
    done = solver.store.statuses(state.trial)
    for record in solver.fleet.records:
        if record.name in done:
            continue
        alone, before = solver.store.result(0, record.name), solver.store.result(state.accepted, record.name)
        best = next((it for it in (before, alone) if it is not None and it.values), None)
        own = {} if best is None else {n: v for n, v in best.values.items() if n not in shared and np.isfinite(v)}
        noise = next((it.noise for it in (alone, before) if it is not None and it.status == CONVERGED), {})
        yield record, shared, own, dict(noise)


def accept_or_reject(solver: SharedParameterSolver, state: SharedState) -> SharedState:
    """What follows from a pass that is complete. Records that fail at new values reject these first, and may be lost later."""
    at, accepted_at, damping = np.array(state.at), np.array(state.accepted_at), state.damping
    trial = solver.sum_records(state.trial, at)
    if not trial.members:
        return _reject(solver, state, None) if state.accepted else state.finish(
            "no record could be fitted with the shared values", False)
    if state.accepted:
        before = solver.sum_records(state.accepted, accepted_at)
        lost = before.members - trial.members
        if lost and state.rejected < REJECTED_FOR_LOST_RECORDS:
            return _reject(solver, state, before.members)
        before = solver.sum_records(state.accepted, accepted_at, only=trial.members) if lost else before
        trial = solver.sum_records(state.trial, at, only=before.members)
        predicted = max(0.0, predicted_reduction(before.rows, at - accepted_at))
        reduction = before.cost - trial.cost + SHARED_COST_ROUNDING * before.cost
        if not damping.accepts(reduction, predicted):
            return _reject(solver, state, before.members)
        damping = damping.accepted(reduction, predicted)
    state = replace(state, accepted=state.trial, accepted_at=state.at, damping=damping, rejected=0)
    return _propose(solver, state, trial)


def _reject(solver: SharedParameterSolver, state: SharedState, members: frozenset[str] | None) -> SharedState:
    damping = state.damping.rejected()
    damping = replace(damping, amount=max(damping.amount, FIRST_DAMPING))  # one that is felt: a trial is a pass over the fleet
    state = replace(state, damping=damping, rejected=state.rejected + 1)
    return _propose(solver, state, solver.sum_records(state.accepted, np.array(state.accepted_at), only=members))


def _propose(solver: SharedParameterSolver, state: SharedState, known: RecordSum) -> SharedState:
    """The next trial, or the end."""
    at = np.array(state.accepted_at)
    _, reduction = solver.damped_step(known.rows, at, 0.0)
    remaining = float(np.sqrt(max(reduction, 0.0) / max(known.variance, np.finfo(float).tiny)))  # standard errors
    if remaining <= SHARED_STEP_TOLERANCE:
        return state.finish(f"after {state.trial} {'pass' if state.trial == 1 else 'passes'} over the fleet", True)
    if state.rejected > MAX_REJECTED:
        return state.finish("as no step lowers the cost any more", remaining <= SHARED_STALLED_STEP_TOLERANCE)
    if state.trial >= MAX_PASSES:
        return state.finish(f"after {MAX_PASSES} passes over the fleet", False)
    damping = state.damping if state.rejected else state.damping.near_optimum(remaining)
    step, _ = solver.damped_step(known.rows, at, damping.amount)
    return replace(state, trial=state.trial + 1, at=tuple(float(x) for x in at + step), damping=damping)


def save(solver: SharedParameterSolver, state: SharedState) -> SharedState:
    """The state first, then the passes that it no longer needs: a run that is killed between the two loses nothing."""
    solver.store.tell(shared=to_json(state))
    solver.store.keep_passes({state.accepted} if state.finished else {state.accepted, state.trial})
    return state


PASSES: OuterLoop[SharedParameterSolver, SharedState] = OuterLoop(
    (), (fit_records, accept_or_reject, save), (), lambda solver, state: bool(state.finished))


def _coordinates(parameters: tuple[Parameter, ...]) -> Transforms:
    log = np.array([p.log for p in parameters], bool)
    lower, upper = (np.array(ends, float) for ends in ([p.lower for p in parameters], [p.upper for p in parameters]))
    plain = Transforms(log, lower, upper, np.full(log.size, np.nan))
    with np.errstate(divide="ignore"):  # the logarithm of a lower bound of zero is minus infinity
        lower, upper = plain.coordinates(np.where(log, np.maximum(lower, 0), lower)), plain.coordinates(upper)
    return replace(plain, lower=lower, upper=upper)


def _stack_triangle(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Rows with the same sum of squares, as few as there are shared parameters; what no step can change is left out."""
    return np.asarray(np.linalg.qr(np.vstack([rows, more]), mode="r"))[:rows.shape[1] - 1]


def _pad_rows(rows: np.ndarray, size: int) -> np.ndarray:
    padded = np.zeros((size, size + 1))
    padded[:len(rows)] = rows
    return padded
