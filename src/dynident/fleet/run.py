"""Run: fit every record of a fleet, keep what is done, and go on from there the next time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dynident._util.lock import exclusive
from dynident._util.progress import reporter
from dynident.codegen.compiler import COMPILE_LIMIT
from dynident.errors import NotConverged, ProblemError
from dynident.fleet.file import read_fleet
from dynident.fleet.fleet import Fleet
from dynident.fleet.page import PAGE, write_fleet_page
from dynident.fleet.progress import FleetProgress, line
from dynident.fleet.records import FleetRecord
from dynident.fleet.result import FleetResult, build_result
from dynident.fleet.shared_estimate import SharedEstimate, shared_estimate
from dynident.fleet.shared_parameters import SharedParameterSolver
from dynident.fleet.store import FILE, FleetStore
from dynident.fleet.table import TABLE, TABLE_TO_LOOK_AT, FleetRows, write_tables
from dynident.fleet.task import FAILED, TaskResult, failed_result, fit_record
from dynident.fmu.stepping_compiled import stepping_library
from dynident.models.equations import EquationModel
from dynident.parallel.failures import describe, is_transient
from dynident.parallel.tasks import TaskOutcome, as_completed
from dynident.problem.model import Model

GRACE = 1.0  # s beyond the time limit in which a fit can end by itself; then its process is ended
OURS = (FILE, f"{FILE}-wal", f"{FILE}-shm", TABLE, TABLE_TO_LOOK_AT, PAGE)


def fleet(asked: Fleet | str | Path, out: str | Path, executor: Executor | None = None,
          progress: Callable[..., object] | bool | None = None, retry_failed: bool = False) -> FleetResult:
    """Fit all records of a fleet (or of a fleet file) and write `fleet.parquet`, `fleet.csv` and `fleet.html` into `out`.

    What is in `out` already is not repeated; a record that has changed since is. After Ctrl-C the result so far is
    returned, marked as `stopped`. `retry_failed` tries records again that had failed. `progress` takes a callable for
    each `FleetProgress`, or False for silence.
    """
    wanted = asked if isinstance(asked, Fleet) else read_fleet(asked)
    out = Path(out)
    with _folder_of_fleet(out), reporter(progress, line) as tell, closing(FleetStore(out, wanted.content_hash())) as store:
        run = FleetRun(wanted, store, executor, tell)
        remaining, notes = run.forget_stale(retry_failed)
        stopped, shared = False, SharedFit()
        try:
            run.run_pass(0, fit_record, ((record,) for record in remaining))
            shared = run.fit_shared() if wanted.shared else shared
        except KeyboardInterrupt:
            stopped = True
        rows = FleetRows(store, wanted.records, shared.reported, shared.estimate)
        write_tables(rows, out)
        result = build_result(wanted, rows, out, shared.estimate, stopped, (*notes, *shared.notes))
        write_fleet_page(result, out / PAGE)
        return result


@contextmanager
def _folder_of_fleet(folder: Path) -> Iterator[None]:
    """Hold the folder; refuse one that holds something else."""
    with exclusive(folder):
        others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and p.name not in OURS)
        if others and not (folder / FILE).exists():
            some = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
            raise ProblemError(f"{folder} holds other files ({some}) and no results of a fleet. Results want a folder of "
                               "their own; name a new or an empty one.")
        yield


@dataclass(frozen=True, eq=False)
class SharedFit:
    """What came of the passes for the shared parameters."""

    estimate: SharedEstimate | None = None
    reported: int = 0  # the pass whose results are shown; 0: each record by itself
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FleetRun:
    """One run: its passes fit each record by itself, then on request with the shared parameters fixed."""

    fleet: Fleet
    store: FleetStore
    executor: Executor | None
    tell: Callable[..., object]

    @property
    def workers(self) -> int | None:
        """None where the executor does not say how many it has."""
        return 1 if self.executor is None else getattr(self.executor, "workers", None)

    def forget_stale(self, retry_failed: bool) -> tuple[list[FleetRecord], list[str]]:
        """Records to fit, since they are new, have changed, or on request have failed; and notes about the others."""
        known, notes = self.store.stamps(0), []
        again = [r.name for r in self.fleet.records if r.name in known and (
            (retry_failed and known[r.name][0] == FAILED) or _has_changed(r, *known[r.name][1:]))]
        self.store.forget(0, again)
        listed = {record.name for record in self.fleet.records}
        gone = [name for name in known if name not in listed]
        if gone:
            self.store.forget(0, gone)
            notes.append(f"{len(gone):,} records of the last run are no longer there, and were left out.")
        done = len(known) - len(again) - len(gone)
        if done:
            notes.append(f"{done:,} of {len(self.fleet.records):,} records were done before, and were not repeated.")
        finished = set(known) - set(again)
        return [record for record in self.fleet.records if record.name not in finished], notes

    def fit_shared(self) -> SharedFit:
        solver = SharedParameterSolver(self.fleet, self.store, self.run_pass)
        try:
            state = solver.solve(_records_fingerprint(self.store, self.fleet.records))
        except NotConverged as nothing:
            return SharedFit(notes=(str(nothing),))
        if not state.accepted:
            return SharedFit(notes=(f"Shared parameters: {state.finished}",))
        return SharedFit(shared_estimate(solver, state), state.accepted)

    def run_pass(self, number: int, function: Callable[..., TaskResult], tasks: Iterable[tuple]) -> None:
        """Fit what a pass still lacks, and keep each result as it comes."""
        statuses = self.store.statuses(number)
        what = f"pass {number}" if number else "records"
        count = FleetProgress(what, len(self.fleet.records), len(statuses), sum(s == FAILED for s in statuses.values()), 0,
                              workers=self.workers)

        def under_way(running: int) -> None:
            nonlocal count
            count = replace(count, running=min(running, self.workers or running))
            self.tell(count)

        self.tell(count)
        with closing(self._completed_tasks(function, iter(tasks), under_way)) as endings:
            for ended in endings:
                record, result = ended.task[0], ended.value
                if ended.error is not None:
                    result = _failed_result(record, describe(ended.error, ended.attempts, self.fleet.timeout))
                self.store.keep(number, record.name, result)
                count = replace(count, done=count.done + 1, here=count.here + 1,
                                failed=count.failed + (result.status == FAILED))
                self.tell(count)

    def _completed_tasks(self, function: Callable[..., TaskResult], tasks: Iterator[tuple],
                         under_way: Callable[[int], object]) -> Generator[TaskOutcome]:
        """With a time limit one record goes ahead, with time to compile, so that this does not count for the others."""
        limit = self.fleet.timeout
        groups: list[tuple[Iterable[tuple], float | None]] = [(tasks, limit)]
        if limit is not None:
            first = next(tasks, None)
            groups = [([first] if first is not None else [], limit + _compile_allowance(self.fleet.model)), (tasks, limit)]
        for own, seconds in groups:
            with closing(as_completed(function, self.fleet.task_spec, own, self.executor, again=is_transient,
                                     retries=self.fleet.retries, limit=None if seconds is None else seconds + GRACE,
                                     handed_out=under_way)) as endings:
                yield from endings


def _compile_allowance(model: Model) -> float:
    """Seconds that compiling may take in the first record. Of an FMU only the loop around it is compiled, and here."""
    if isinstance(model, EquationModel):
        return COMPILE_LIMIT
    stepping_library()
    return 0.0


def _has_changed(record: FleetRecord, stamp: str, fingerprint: str) -> bool:
    """The stamp is cheap to compare; only where it differs is the content read."""
    try:
        return record.stamp() != stamp and record.fingerprint() != fingerprint
    except OSError:
        return False  # it was there when it was listed; what was found stays


def _records_fingerprint(store: FleetStore, records: Iterable[FleetRecord]) -> str:
    """Of the records as they were read in the first pass."""
    known = store.stamps(0)
    digest = hashlib.sha256()
    for record in records:
        _, _, content = known.get(record.name, ("", "", ""))
        digest.update(f"{record.name}\0{content}\0".encode())
    return digest.hexdigest()


def _failed_result(record: FleetRecord, reason: str) -> TaskResult:
    stamp = fingerprint = ""
    with suppress(OSError):
        stamp, fingerprint = record.stamp(), record.fingerprint()
    return failed_result(reason, stamp, fingerprint)
