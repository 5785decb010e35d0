"""Run: read a fleet file, fit every record, keep what is done, and go on from there the next time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from dynident._util.atomic import exclusive
from dynident._util.progress import reporter
from dynident.codegen.compiler import COMPILE_LIMIT
from dynident.errors import NotConverged, ProblemError
from dynident.fleet.fleet import Fleet
from dynident.fleet.page import PAGE, write_fleet_page
from dynident.fleet.records import FleetRecord, records_in_index, records_matching
from dynident.fleet.result import TABLE, TABLE_TO_LOOK_AT, FleetResult, FleetRows, build_result, write_tables
from dynident.fleet.shared_estimate import SharedEstimate, shared_estimate
from dynident.fleet.shared_parameters import SharedParameterSolver
from dynident.fleet.store import FILE, FleetStore
from dynident.fleet.task import FAILED, TaskResult, fit_record
from dynident.fmu.stepping_compiled import stepping_library
from dynident.io.problem_file.faults import validate_table
from dynident.io.problem_file.read import Reader, parse_file
from dynident.io.problem_file.schema import FleetFileTable, FleetTable
from dynident.models.equations import EquationModel
from dynident.parallel.process_pool import PoolExecutor, describe, is_transient
from dynident.parallel.tasks import TaskOutcome, as_completed
from dynident.problem.model import Model

GRACE = 1.0  # s beyond the time limit in which a fit can end by itself; then its process is ended
OURS = (FILE, f"{FILE}-wal", f"{FILE}-shm", TABLE, TABLE_TO_LOOK_AT, PAGE)
HOUR, MINUTE = 3600.0, 60.0  # s


def fleet(asked: Fleet | str | Path, out: str | Path, executor: Executor | None = None,
          progress: Callable[..., object] | bool | None = None, retry_failed: bool = False) -> FleetResult:
    """Fit all records of a fleet and write `fleet.parquet`, `fleet.csv` and `fleet.html`.

    What is in the folder already is not repeated; a record that has changed since is. See the manual, howto/fleets.

    Parameters
    ----------
    asked : Fleet, str or Path
        The fleet, or a fleet file.
    out : str or Path
        Folder of the results.
    executor : concurrent.futures.Executor, optional
        Runs the records side by side.
    progress : callable or bool, optional
        Called with each `FleetProgress`; False for silence.
    retry_failed : bool, default False
        Whether records are tried again that had failed.

    Returns
    -------
    FleetResult
        Values of all records, their distribution, outliers and failures; after Ctrl-C what there is so far, marked as
        `stopped`.

    Raises
    ------
    ProblemError
        For a folder that holds something else, and for a fleet file that is wrong.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> records = [di.Experiment([0, 1, 2, 3], outputs={"x": x}, name=name) for name, x in
    ...            {"a": [1.0, 0.61, 0.37, 0.22], "b": [1.0, 0.37, 0.14, 0.05]}.items()]
    >>> result = di.fleet(di.Fleet(decay, records, [di.Parameter("k", start=1, lower=0)]), "results", progress=False)
    >>> print(result.values["k"].round(1))
    [0.5 1. ]
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
            if isinstance(executor, PoolExecutor):
                executor.abort()  # what would still be computed is not waited for, and the tables want the processor
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
        return 1 if self.executor is None else self.executor.workers if isinstance(self.executor, PoolExecutor) else None

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
    return TaskResult(FAILED, reason, stamp=stamp, fingerprint=fingerprint)


def read_fleet(path: str | Path, *, allow_outside: bool = False, allow_code: bool = False) -> Fleet:
    r"""Read a fleet file (TOML) and list its records.

    See the manual, reference/fleet_file.

    Parameters
    ----------
    path : str or Path
        The file.
    allow_outside : bool, default False
        Whether records may lie outside of the folder of the file.
    allow_code : bool, default False
        Whether code that the file brings along may be run: the native code of an FMU, or a model in a Python file.

    Returns
    -------
    Fleet
        What the file asks for.

    Raises
    ------
    ProblemError
        With all faults at once, each with its line and key.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> _ = Path("day1.csv").write_text("t,x\n0,1.0\n1,0.61\n2,0.37\n")
    >>> _ = Path("fleet.toml").write_text('''
    ... model = { states = { x = "-k*x" } }
    ... record = { time = "t", outputs = ["x"] }
    ... fleet = { records = "day*.csv" }
    ... parameters = { k = { start = 1 } }
    ... ''')
    >>> len(di.read_fleet("fleet.toml").records)
    1
    """
    file, located, content = parse_file(path)
    tables = validate_table(content, located, FleetFileTable)
    reader = Reader(file, located, allow_outside, allow_code)
    model = reader.model(tables.model, list(tables.record.outputs))
    key = "records" if tables.fleet.index is None else "index"
    try:
        records = _records(tables.fleet, reader)
    except ProblemError as error:
        records = ()
        reader.faults += [located.fault(("fleet", key), fault) for fault in error.faults]
    if reader.faults or model is None:
        raise ProblemError(reader.faults)
    try:
        return Fleet(model, records, tables.unknowns(), tables.method.model_dump() if tables.method else None,
                     tables.record.request(), tables.constraints, tables.fleet.shared, tables.fleet.timeout,
                     tables.fleet.retries, reader.folder)
    except ProblemError as error:
        raise ProblemError([f"{file.name}: {fault}" for fault in error.faults]) from None


def _records(table: FleetTable, reader: Reader) -> tuple[FleetRecord, ...]:
    if table.index is not None:
        found = records_in_index(reader.inside(table.index), table.columns.model_dump(), reader.folder)
    else:
        pattern = table.records or ""
        leaves = PurePosixPath(pattern).is_absolute() or PureWindowsPath(pattern).drive or ".." in Path(pattern).parts
        if leaves and not reader.allow_outside:
            raise ProblemError(f"'{pattern}' leaves the folder of the fleet. Move the records beside the fleet file, or "
                               "allow it with allow_outside=True (--allow-outside).")
        found = records_matching(pattern, reader.folder)
    if not reader.allow_outside:
        outside = [r.name for r in found if r.file and not r.file.resolve().is_relative_to(reader.folder)]
        if outside:
            raise ProblemError(f"'{outside[0]}' leaves the folder of the fleet ({len(outside)} such records). Move them "
                               "beside the fleet file, or allow it with allow_outside=True (--allow-outside).")
    return found


@dataclass(frozen=True)
class FleetProgress:
    """Counts of one pass over the fleet."""

    what: str  # which pass
    total: int
    done: int  # failed ones included
    failed: int
    running: int  # on a worker; where it is not known how many these are, handed out
    here: int = 0  # done in this run, from which the time left follows
    workers: int | None = None

    def line(self, seconds: float) -> str:
        left = self.total - self.done
        rate = self.here / seconds if seconds > 0 else 0.0
        ahead = f"  {format_duration(left / rate)} left" if rate > 0 and left else ""
        under_way = f"{self.running} running" if self.workers is not None else f"{self.running:,} handed out"
        return (f"{self.what}: {self.done:,} of {self.total:,} done  {self.failed:,} failed  {under_way}  "
                f"{format_duration(seconds)}{ahead}")


def format_duration(seconds: float) -> str:
    """A duration as one says it."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min {int(seconds % MINUTE):02d} s"
    return f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE):02d} min"


def line(progress: FleetProgress, seconds: float) -> str:
    return progress.line(seconds)
