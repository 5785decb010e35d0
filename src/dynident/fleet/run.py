"""Run: fit every record of a fleet, keep what is done, and go on from there the next time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from dynident._util.lock import exclusive
from dynident._util.progress import reporter
from dynident.codegen.compiler import COMPILE_LIMIT
from dynident.errors import NotConverged, ProblemError
from dynident.fleet.answer import SharedAnswer, answer_of
from dynident.fleet.file import read_fleet
from dynident.fleet.page import PAGE, fleet_html
from dynident.fleet.progress import Progress, line
from dynident.fleet.question import Fleet
from dynident.fleet.records import Record
from dynident.fleet.result import FleetResult, result_of
from dynident.fleet.shared import SharedSearch, fingerprint_of
from dynident.fleet.store import FILE, Store, failed
from dynident.fleet.table import TABLE, TABLE_TO_LOOK_AT, Rows, write_tables
from dynident.fleet.task import FAILED, Found, fit_record
from dynident.fmu.loop_kernel import kernel
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
    each `Progress`, or False for silence.
    """
    wanted = asked if isinstance(asked, Fleet) else read_fleet(asked)
    out = Path(out)
    with _kept_for_fleet(out), reporter(progress, line) as tell, closing(Store(out, wanted.content_hash())) as store:
        run = _Run(wanted, store, executor, tell)
        stopped, shared = False, None
        try:
            run.alone(retry_failed)
            shared = run.together() if wanted.shared else None
        except KeyboardInterrupt:
            stopped = True
        rows = Rows(store, wanted.records, run.reported, shared)
        write_tables(rows, out)
        result = result_of(wanted, rows, out, shared, stopped, run.notes)
        fleet_html(result, out / PAGE)
        return result


@contextmanager
def _kept_for_fleet(folder: Path) -> Iterator[None]:
    """Hold the folder; refuse one that holds something else."""
    with exclusive(folder):
        others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and p.name not in OURS)
        if others and not (folder / FILE).exists():
            some = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
            raise ProblemError(f"{folder} holds other files ({some}) and no results of a fleet. Results want a folder of "
                               "their own; name a new or an empty one.")
        yield


class _Run:
    """The passes of one run: each record by itself, then on request those for the shared parameters."""

    def __init__(self, wanted: Fleet, store: Store, executor: Executor | None, tell: Callable[..., object]):
        self.fleet, self.store, self.executor, self.tell = wanted, store, executor, tell
        self.workers: int | None = 1 if executor is None else getattr(executor, "workers", None)
        self.notes: list[str] = []
        self.reported = 0  # the pass whose results are shown

    def alone(self, retry_failed: bool) -> None:
        """Fit the records that are new, have changed, or on request have failed."""
        known = self.store.stamps(0)
        again = [r.name for r in self.fleet.records if r.name in known and (
            (retry_failed and known[r.name][0] == FAILED) or _changed(r, *known[r.name][1:]))]
        self.store.forget(0, again)
        listed = {record.name for record in self.fleet.records}
        gone = [name for name in known if name not in listed]
        if gone:
            self.store.forget(0, gone)
            self.notes.append(f"{len(gone):,} records of the last run are no longer there, and were left out.")
        done = len(known) - len(again) - len(gone)
        if done:
            self.notes.append(f"{done:,} of {len(self.fleet.records):,} records were done before, and were not repeated.")
        finished = set(known) - set(again)
        self.run_pass(0, fit_record, ((r,) for r in self.fleet.records if r.name not in finished))

    def together(self) -> SharedAnswer | None:
        search = SharedSearch(self.fleet, self.store, self.run_pass)
        try:
            state = search.go(fingerprint_of(self.store, self.fleet.records))
        except NotConverged as nothing:
            self.notes.append(str(nothing))
            return None
        if not state.accepted:
            self.notes.append(f"Shared parameters: {state.finished}")
            return None
        self.reported = state.accepted
        return answer_of(search, state)

    def run_pass(self, number: int, function: Callable[..., Found], tasks: Iterable[tuple]) -> None:
        """Fit what a pass still lacks, and keep each result as it comes."""
        statuses = self.store.statuses(number)
        what = f"pass {number}" if number else "records"
        count = Progress(what, len(self.fleet.records), len(statuses), sum(s == FAILED for s in statuses.values()), 0,
                         workers=self.workers)

        def under_way(running: int) -> None:
            nonlocal count
            count = replace(count, running=min(running, self.workers or running))
            self.tell(count)

        self.tell(count)
        with closing(self._endings(function, iter(tasks), under_way)) as endings:
            for ended in endings:
                record, found = ended.task[0], ended.value
                if ended.error is not None:
                    found = _failed(record, describe(ended.error, ended.attempts, self.fleet.timeout))
                self.store.keep(number, record.name, found)
                count = replace(count, done=count.done + 1, here=count.here + 1,
                                failed=count.failed + (found.status == FAILED))
                self.tell(count)

    def _endings(self, function: Callable[..., Found], tasks: Iterator[tuple], under_way: Callable[[int], object]
                 ) -> Generator[TaskOutcome]:
        """With a time limit one record goes ahead, with time to compile, so that this does not count for the others."""
        limit = self.fleet.timeout
        groups: list[tuple[Iterable[tuple], float | None]] = [(tasks, limit)]
        if limit is not None:
            first = next(tasks, None)
            groups = [([first] if first is not None else [], limit + _to_compile(self.fleet.model)), (tasks, limit)]
        for own, seconds in groups:
            with closing(as_completed(function, self.fleet.question, own, self.executor, again=is_transient,
                                     retries=self.fleet.retries, limit=None if seconds is None else seconds + GRACE,
                                     handed_out=under_way)) as endings:
                yield from endings


def _to_compile(model: Model) -> float:
    """Seconds that compiling may take in the first record. Of an FMU only the loop around it is compiled, and here."""
    if isinstance(model, EquationModel):
        return COMPILE_LIMIT
    kernel()
    return 0.0


def _changed(record: Record, stamp: str, fingerprint: str) -> bool:
    """The stamp is cheap to compare; only where it differs is the content read."""
    try:
        return record.stamp() != stamp and record.fingerprint() != fingerprint
    except OSError:
        return False  # it was there when it was listed; what was found stays


def _failed(record: Record, reason: str) -> Found:
    stamp = fingerprint = ""
    with suppress(OSError):
        stamp, fingerprint = record.stamp(), record.fingerprint()
    return failed(reason, stamp, fingerprint)
