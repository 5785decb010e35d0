"""Shared: which values of the shared parameters suit the whole fleet best?

Each pass fits every record with the shared parameters held, eliminates its own unknowns, and adds a small triangle to the
sum; a damped Gauss-Newton step of the shared parameters follows. The first values come from the fits of the records one
by one, each weighted with what it tells. Memory does not grow with the number of records, and since the sum is taken in
the order of the records' names, the result does not depend on who fitted what and when.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dynident.errors import NotConverged
from dynident.fleet.linear import Eliminated, begun_at, eliminated, held_at, with_noise
from dynident.fleet.question import Fleet, Question
from dynident.fleet.records import Record
from dynident.fleet.store import Store
from dynident.fleet.task import CONVERGED, Found, fitted, found, seen
from dynident.linalg.arrowhead import ArrowheadLeastSquares, Block
from dynident.linalg.bounded_least_squares import bounded_least_squares
from dynident.problem.parameter import Parameter

SETTLED = 1e-2  # standard errors that the shared parameters may be away from their optimum
NEARLY_SETTLED = 0.1  # the same where no step helps any more
FIRST_DAMPING = 1e-3  # after a step that did not help
TINY_DAMPING = 1e-11  # of a column: keeps a direction that no record sees where it is
MOST_PASSES = 40
MOST_REJECTED = 8  # steps in a row
PATIENCE = 3  # rejected steps before records that fail at the new values are left out

RunPass = Callable[[int, Callable[..., Found], Iterable[tuple]], None]


def fit_with_shared(question: Question, record: Record, shared: dict[str, float], own: dict[str, float],
                    noise: dict[str, float]) -> Found:
    """One record with the shared parameters held: its own optimum, and what it says about the shared ones."""
    began = time.perf_counter()
    stamp, fingerprint = seen(record)
    free = with_noise(question.problem(record), noise)
    estimate = fitted(question, begun_at(held_at(free, shared), own), record.name)
    arrays = eliminated(question, free, estimate).arrays() if estimate.converged else {}
    return found(estimate, arrays, stamp, fingerprint, time.perf_counter() - began)


@dataclass(frozen=True)
class State:
    """Where the search for the shared values stands; kept in the store after every pass."""

    records: str  # which records it is about; another set begins anew
    trial: int  # pass under way
    at: tuple[float, ...]  # solver coordinates of the trial
    accepted: int = 0  # the last pass that lowered the cost; 0 for none
    accepted_at: tuple[float, ...] = ()
    damping: float = 0.0
    rejected: int = 0
    finished: str = ""  # a sentence
    converged: bool = False


@dataclass(frozen=True, eq=False)
class Gathered:
    """The sum over the records of a pass, in solver coordinates."""

    rows: np.ndarray  # (shared, shared + 1)
    cost: float
    freedom: int
    scores: np.ndarray  # (shared, shared): sum of each record's own gradient times itself
    apart: float  # fall of the cost if each record had its own shared values
    members: frozenset[str]

    @property
    def variance(self) -> float:
        """Of a weighted residual; 1 where the noise is as large as said."""
        return self.cost / max(1, self.freedom - self.rows.shape[0])


class SharedSearch:
    """The passes over the fleet; `run_pass` completes one of them, on whatever executor."""

    def __init__(self, fleet: Fleet, store: Store, run_pass: RunPass):
        self.fleet, self.store, self.run_pass = fleet, store, run_pass
        declared = {p.name: p for p in fleet.parameters if isinstance(p, Parameter)}
        self.parameters = [declared[name] for name in fleet.shared]
        self.log = np.array([p.log for p in self.parameters], bool)
        self.lower, self.upper = (self.coordinates(np.array([getattr(p, end) for p in self.parameters], float))
                                  for end in ("lower", "upper"))

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(self.log, np.log(np.where(self.log, np.maximum(values, 0), 1.0)), values)

    def values(self, at: np.ndarray) -> np.ndarray:
        return np.where(self.log, np.exp(np.where(self.log, at, 0.0)), at)

    def go(self, records: str) -> State:
        """`records` is a fingerprint of the set of records."""
        state = self._kept(records) or self._begun(records)
        while not state.finished:
            self.run_pass(state.trial, fit_with_shared, self._tasks(state))
            state = self._judged(state)
            self.store.tell(shared=json.dumps(asdict(state)))
        return state

    def _kept(self, records: str) -> State | None:
        said = self.store.about("shared")
        if said is None:
            return None
        data = json.loads(said)
        state = State(**{**data, "at": tuple(data["at"]), "accepted_at": tuple(data["accepted_at"])})
        if state.records == records:
            return state
        for number in {state.trial, state.accepted} - {0}:
            self.store.forget(number)
        return None

    def _begun(self, records: str) -> State:
        known = self.gathered(0, apart=True)
        if not known.members:
            raise NotConverged("No record could be fitted by itself, so there is nothing to begin with for the shared "
                               "parameters. The table says why.")
        begin = self.coordinates(np.array([p.start for p in self.parameters], float))
        rows = np.column_stack([known.rows[:, :-1], known.rows[:, -1] + known.rows[:, :-1] @ begin])
        state = State(records, 1, tuple(float(x) for x in begin + self._step(rows, begin, 0.0)[0]))
        self.store.tell(shared=json.dumps(asdict(state)))
        return state

    def _tasks(self, state: State) -> Iterable[tuple]:
        shared = dict(zip(self.fleet.shared, (float(v) for v in self.values(np.array(state.at))), strict=True))
        done = self.store.statuses(state.trial)
        for record in self.fleet.records:
            if record.name in done:
                continue
            alone, before = self.store.result(0, record.name), self.store.result(state.accepted, record.name)
            best = next((it for it in (before, alone) if it is not None and it.values), None)
            own = {} if best is None else {n: v for n, v in best.values.items() if n not in shared and np.isfinite(v)}
            noise = next((it.noise for it in (alone, before) if it is not None and it.status == CONVERGED), {})
            yield record, shared, own, dict(noise)

    def gathered(self, number: int, only: frozenset[str] | None = None, apart: bool = False) -> Gathered:
        """Add up a pass; with `apart` the records were linearised at values of their own."""
        size = len(self.log)
        rows, scores = np.zeros((0, size + 1)), np.zeros((size, size))
        cost, fall, freedom, members = 0.0, 0.0, 0, []
        for record, it in self.store.results(number):
            if "rows" not in it.arrays or (only is not None and record not in only):
                continue
            e = Eliminated.from_arrays(it.arrays)
            own = self._in_coordinates(e, apart)
            rows = _triangle(rows, own)
            gradient = own[:, :-1].T @ own[:, -1]
            scores += np.outer(gradient, gradient)
            cost, fall, freedom = cost + e.cost, fall + float(own[:, -1] @ own[:, -1]), freedom + e.freedom
            members.append(record)
        before = self._priors(None if apart else self._at(number))
        rows = _triangle(rows, before) if len(before) else rows
        return Gathered(_whole(rows, size), cost + float(before[:, -1] @ before[:, -1]), freedom, scores, fall,
                        frozenset(members))

    def _priors(self, at: np.ndarray | None) -> np.ndarray:
        """Rows of what is known beforehand: of an increment from `at`, or of the coordinates themselves."""
        rows = []
        for i, p in enumerate(self.parameters):
            if p.prior is None:
                continue
            value = p.prior.mean if at is None else float(self.values(at)[i])
            row = np.zeros(len(self.log) + 1)
            row[i] = (value if self.log[i] else 1.0) / p.prior.std
            row[-1] = (value - p.prior.mean) / p.prior.std
            if at is None:
                row[-1] -= row[i] * (np.log(value) if self.log[i] else value)
            rows.append(row)
        return np.array(rows).reshape(len(rows), len(self.log) + 1)

    def _at(self, number: int) -> np.ndarray:
        data = json.loads(self.store.about("shared") or "{}")
        return np.array(data["at"] if data["trial"] == number else data["accepted_at"])

    def _in_coordinates(self, e: Eliminated, apart: bool) -> np.ndarray:
        """Rows in solver coordinates: of an increment, or with `apart` of the coordinates themselves."""
        slope = np.where(self.log, e.at, 1.0)
        R, residual = e.rows[:, :-1] * slope, e.rows[:, -1]
        if apart:
            residual = residual - R @ self.coordinates(e.at)
        return np.column_stack([R, residual])

    def _step(self, rows: np.ndarray, at: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        """The step within the bounds, and the fall of the cost that it promises."""
        size = len(self.log)
        lengths = np.linalg.norm(rows[:, :-1], axis=0)
        lengths = np.where(lengths > 0, lengths, 1.0)
        damped = np.column_stack([np.diag(np.sqrt(damping + TINY_DAMPING**2) * lengths), np.zeros(size)])
        R = _whole(_triangle(rows, damped), size)
        arrow = ArrowheadLeastSquares(size, (), Block(np.arange(size), R))
        step, _ = bounded_least_squares(arrow, np.minimum(self.lower - at, 0), np.maximum(self.upper - at, 0))
        after = rows[:, :-1] @ step + rows[:, -1]
        return step, float(rows[:, -1] @ rows[:, -1] - after @ after)

    def _judged(self, state: State) -> State:
        """What follows from a pass that is complete."""
        trial = self.gathered(state.trial)
        if not trial.members:
            return self._refused(state, frozenset()) if state.accepted else self._ended(
                state, "no record could be fitted with the shared values", False)
        if state.accepted:
            before = self.gathered(state.accepted)
            lost = before.members - trial.members
            if lost and state.rejected < PATIENCE:
                return self._refused(state, before.members)
            before = self.gathered(state.accepted, only=trial.members) if lost else before
            trial = self.gathered(state.trial, only=before.members)
            if trial.cost > before.cost * (1 + 1e-12):
                return self._refused(state, before.members)
            self.store.forget(state.accepted)
        state = replace(state, accepted=state.trial, accepted_at=state.at, damping=state.damping / 10, rejected=0)
        return self._next(state, trial)

    def _refused(self, state: State, members: frozenset[str]) -> State:
        self.store.forget(state.trial)
        state = replace(state, damping=max(10 * state.damping, FIRST_DAMPING), rejected=state.rejected + 1)
        self.store.tell(shared=json.dumps(asdict(state)))
        return self._next(state, self.gathered(state.accepted, only=members or None))

    def _next(self, state: State, known: Gathered) -> State:
        at = np.array(state.accepted_at)
        free, fall = self._step(known.rows, at, 0.0)
        away = float(np.sqrt(max(fall, 0.0) / max(known.variance, np.finfo(float).tiny)))
        if away <= SETTLED:
            return self._ended(state, f"after {state.trial} {'pass' if state.trial == 1 else 'passes'} over the fleet", True)
        if state.rejected > MOST_REJECTED:
            return self._ended(state, "as no step lowers the cost any more", away <= NEARLY_SETTLED)
        if state.trial >= MOST_PASSES:
            return self._ended(state, f"after {MOST_PASSES} passes over the fleet", False)
        step = free if state.damping < FIRST_DAMPING / 10 else self._step(known.rows, at, state.damping)[0]
        return replace(state, trial=state.trial + 1, at=tuple(float(x) for x in at + step))

    def _ended(self, state: State, why: str, converged: bool) -> State:
        said = f"Converged {why}." if converged else f"Did not converge: stopped {why}. The best values so far are kept."
        return replace(state, finished=said, converged=converged)


def _triangle(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Rows with the same sum of squares, as few as there are shared parameters; what no step can change is left out."""
    return np.asarray(np.linalg.qr(np.vstack([rows, more]), mode="r"))[:rows.shape[1] - 1]


def _whole(rows: np.ndarray, size: int) -> np.ndarray:
    made = np.zeros((size, size + 1))
    made[:len(rows)] = rows
    return made


def fingerprint_of(store: Store, records: Iterable[Record]) -> str:
    """Of the records as they were read in the first pass."""
    known = store.stamps(0)
    digest = hashlib.sha256()
    for record in records:
        said: Any = known.get(record.name, ("", "", ""))
        digest.update(f"{record.name}\0{said[2]}\0".encode())
    return digest.hexdigest()
