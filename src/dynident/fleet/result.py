"""Fleet result: all values of a fleet side by side and as tables on disk, outlier machines, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dynident._util.atomic import atomic_write
from dynident._util.data_classes import short_fields
from dynident.fleet.fleet import Fleet
from dynident.fleet.outliers import Outlier, RobustCentre, find_outliers
from dynident.fleet.records import FleetRecord
from dynident.fleet.shared_estimate import SharedEstimate
from dynident.fleet.store import FleetStore
from dynident.fleet.task import CONVERGED, FAILED, TaskResult
from dynident.fleet.variable_projection import ReducedRecord
from dynident.problem.parameter import InitialState, Parameter
from dynident.report.result_table import with_interval
from dynident.report.terminal import plain_table
from dynident.statistics.verdict import SEVERITY, Grade, Verdict

OUTLIERS_SHOWN = 10  # outliers and failures on the terminal; the page lists all
TABLE = "fleet.parquet"
TABLE_TO_LOOK_AT = "fleet.csv"
CHUNK_ROWS = 500  # rows in memory
ABOUT = ("record", "machine", "time", "grade", "verdict", "status", "reason")
ENDINGS = ("", "_std", "_low", "_high")  # columns of one unknown


@dataclass(frozen=True)
class FailedRecord:
    """A record without an estimate, and why."""

    record: str
    machine: str
    status: str
    reason: str


@dataclass(frozen=True, eq=False)
class FleetResult:
    """What a run over a fleet found; the table with everything is `fleet.parquet` in the folder.

    See the manual, howto/fleets.

    Attributes
    ----------
    folder : Path
        Of the results.
    total : int
        Number of records of the fleet.
    records : tuple of str
        Those with an estimate that converged, in the order of their names.
    machines : tuple of str
        Of each of these.
    times : tuple
        Of each of these.
    names : tuple of str
        Unknowns that each record has.
    units : mapping of str to str
        By unknown.
    values : mapping of str to array, (records,)
        Per unknown, NaN where a record has none.
    std : mapping of str to array, (records,)
        Standard deviations, likewise.
    centres : mapping of str to RobustCentre
        Per unknown the middle of the fleet, and how far machines differ beyond their errors.
    outliers : tuple of Outlier
        Records and machines far from the others.
    failures : tuple of FailedRecord
        Records without an estimate, with the reason.
    shared : SharedEstimate or None
        Of parameters that the whole fleet shares.
    stopped : bool
        Whether Ctrl-C ended the run.
    notes : tuple of str
        What the reader must know beside the numbers, as sentences.
    grades : tuple of str
        Of the verdicts on `records`.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]}, name="a")
    >>> result = di.fleet(di.Fleet(decay, [record], [di.Parameter("k", start=1, lower=0)]), "results", progress=False)
    >>> print(result.headline)
    1 of 1 records fitted.
    """

    folder: Path
    total: int
    records: tuple[str, ...]  # those with an estimate that converged, in the order of their names
    machines: tuple[str, ...]
    times: tuple[Any, ...]
    names: tuple[str, ...]  # of the unknowns that each record has
    units: Mapping[str, str]
    values: Mapping[str, np.ndarray]  # per unknown (records,), NaN where a record has none
    std: Mapping[str, np.ndarray]
    centres: Mapping[str, RobustCentre]
    outliers: tuple[Outlier, ...]
    failures: tuple[FailedRecord, ...]
    shared: SharedEstimate | None
    stopped: bool
    notes: tuple[str, ...]
    grades: tuple[str, ...] = ()  # of the verdicts on `records`

    __repr__ = short_fields

    @property
    def verdict_line(self) -> str:
        """How many records are described how well, the best first; empty without any."""
        counts = {grade: self.grades.count(grade) for grade in SEVERITY[1:] + SEVERITY[:1] if grade in self.grades}
        listed = ", ".join(f"[{grade}] {count:,}" for grade, count in counts.items())
        return f"Verdicts: {listed}." if listed else ""

    @property
    def strict_exit_code(self) -> int:
        """What `--strict` leaves with: 4 where a record is not described, 3 where one is in doubt, else 0."""
        return max((Verdict(Grade(grade), "").exit_code(strict=True) for grade in self.grades), default=0)

    @property
    def good(self) -> bool:
        """Every record has an estimate, and so have the shared values."""
        return not self.stopped and not self.failures and len(self.records) == self.total and (
            self.shared is None or self.shared.converged)

    @property
    def headline(self) -> str:
        """How many records have an estimate, in one sentence."""
        machines = len({m for m in self.machines if m})
        of = f" of {machines:,} machines" if machines else ""
        failed = f"; {len(self.failures):,} without a result" if self.failures else ""
        ahead = self.total - len(self.records) - len(self.failures)
        stopped = f"; stopped with {ahead:,} still to do" if self.stopped or ahead else ""
        return f"{len(self.records):,} of {self.total:,} records{of} fitted{failed}{stopped}."

    def __str__(self) -> str:
        parts = [*([self.verdict_line] if self.grades else []), self.headline, *self.notes]
        if self.shared is not None:
            parts += ["", _shared_text(self.shared)]
        if self.names:
            parts += ["", plain_table(["name", "middle", "spread", "usual error", "unit"], self.summary())]
        parts += ["", *_listed("Outliers:", [s.sentence(self.units.get(s.parameter, "")) for s in self.outliers],
                               "No outliers.")]
        parts += _listed("No result:", [f"{f.record}: {f.reason}" for f in self.failures], "")
        return "\n".join(parts)

    def summary(self) -> list[list[str]]:
        """Per unknown: the middle of the fleet, how far machines differ, and how well one is usually known."""
        rows = []
        for name in self.names:
            std = self.std[name][np.isfinite(self.std[name])]
            usual = f"{np.median(std):.2g}" if std.size else ""
            centre = self.centres.get(name)
            if centre is None:
                known = self.values[name][np.isfinite(self.values[name])]
                rows.append([name, f"{np.median(known):.5g}" if known.size else "", "", usual, self.units.get(name, "")])
            else:
                spread = f"{centre.spread:.2g}" if centre.spread > 0 else "none beyond the errors"
                rows.append([name, f"{centre.middle:.5g}", spread, usual, self.units.get(name, "")])
        return rows


def _listed(heading: str, sentences: Sequence[str], nothing: str) -> list[str]:
    if not sentences:
        return [nothing] if nothing else []
    more = len(sentences) - OUTLIERS_SHOWN
    rest = [f"  and {more:,} more; the page lists all."] if more > 0 else []
    return [heading, *(f"  {s}" for s in sentences[:OUTLIERS_SHOWN]), *rest]


def _shared_text(shared: SharedEstimate) -> str:
    rows = [[name, *value_and_interval(shared, i), shared.units[i], shared.remarks[i]]
            for i, name in enumerate(shared.names)]
    return "\n".join([f"Shared by {shared.records:,} records. {shared.status}",
                      plain_table(["name", "value", "95 % interval", "unit", "remark"], rows), shared.agreement,
                      shared.meaning])


def value_and_interval(shared: SharedEstimate, i: int) -> tuple[str, str]:
    value, low, high = float(shared.values[i]), float(shared.low[i]), float(shared.high[i])
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{value:.5g}", "open"
    return with_interval(value, low, high)


def build_result(fleet: Fleet, rows: FleetRows, folder: Path, shared: SharedEstimate | None, stopped: bool,
              notes: Sequence[str]) -> FleetResult:
    """Read the table once, keeping numbers only."""
    names = rows.layout.unknowns
    kept: list[tuple[str, str, Any, str]] = []
    numbers: list[list[float]] = []
    failures = []
    for row in rows:
        if row["status"] != CONVERGED:
            failures.append(FailedRecord(row["record"], row["machine"] or "", row["status"], row["reason"]))
            continue
        kept.append((row["record"], row["machine"] or "", row["time"], row["grade"] or "?"))
        numbers.append([_float(row[f"{name}{ending}"]) for name in names for ending in ("", "_std")])
    figures = np.array(numbers, float).reshape(len(kept), 2 * len(names))
    values = {name: figures[:, 2 * i] for i, name in enumerate(names)}
    std = {name: figures[:, 2 * i + 1] for i, name in enumerate(names)}
    records, machines, times, grades = ([k[i] for k in kept] for i in range(4))
    declared = {(p.name if isinstance(p, Parameter) else f"{p.state}(0)"): p for p in fleet.parameters
                if isinstance(p, (Parameter, InitialState))}
    found: list[Outlier] = []
    centres: dict[str, RobustCentre] = {}
    for name in names:
        if name not in declared:  # initial states differ from record to record, and say nothing about a machine
            continue
        own, centre = find_outliers(name, machines, records, values[name], std[name], declared[name].log)
        found += own
        centres |= {name: centre} if centre is not None else {}
    found.sort(key=lambda it: (bool(it.record), -abs(it.away)))
    return FleetResult(folder, len(fleet.records), tuple(records), tuple(machines), tuple(times), names,
                       {name: p.unit for name, p in declared.items() if p.unit}, values, std, centres, tuple(found),
                       tuple(failures), shared, stopped, tuple(notes), tuple(grades))


def _float(value: Any) -> float:
    return np.nan if value is None else float(value)


@dataclass(frozen=True, eq=False)
class FleetTableLayout:
    """Which columns there are, and of which kind."""

    unknowns: tuple[str, ...]
    numbers: tuple[str, ...]  # cost, reduced_chi2, ...
    shared: tuple[str, ...]
    dated: bool  # time is a date and not a number

    def schema(self) -> pa.Schema:
        when = pa.timestamp("us") if self.dated else pa.float64()
        about = [(name, when if name == "time" else pa.string()) for name in ABOUT]
        figures = [f"{name}{ending}" for name in (*self.shared, *self.unknowns) for ending in ENDINGS]
        figures += [f"{name}_alone{ending}" for name in self.shared for ending in ENDINGS[:2]]
        figures += ["disagreement"] * bool(self.shared)
        return pa.schema([*about, *((name, pa.float64()) for name in (*figures, *self.numbers)), ("remarks", pa.string()),
                          ("notes", pa.string())])


class FleetRows:
    """The rows of a fleet, made anew each time they are asked for."""

    def __init__(self, store: FleetStore, records: Sequence[FleetRecord], number: int, shared: SharedEstimate | None):
        self.store, self.records, self.number, self.shared = store, {r.name: r for r in records}, number, shared
        self.layout = self._layout()

    def _layout(self) -> FleetTableLayout:
        unknowns: dict[str, None] = {}
        numbers: dict[str, None] = {}
        for _, it in self._results():
            unknowns |= dict.fromkeys(it.values)
            numbers |= dict.fromkeys(it.numbers)
        return FleetTableLayout(tuple(unknowns), tuple(sorted(numbers)), self.shared.names if self.shared else (),
                      any(isinstance(r.time, datetime) for r in self.records.values()))

    def _results(self) -> Iterator[tuple[FleetRecord, TaskResult]]:
        """Of records that the fleet has now; one that failed in the last pass is told as such."""
        for name, it in self.store.results(self.number, arrays=self.shared is not None):
            if name in self.records:
                yield self.records[name], it

    def __iter__(self) -> Iterator[dict[str, Any]]:
        blank = dict.fromkeys(self.layout.schema().names)
        for record, it in self._results():
            row: dict[str, Any] = {**blank, "record": record.name, "machine": record.machine or None, "time": record.time,
                                   "grade": it.grade or None, "verdict": it.verdict or None, "status": it.status,
                                   "reason": it.reason, **it.numbers}
            row["remarks"] = "; ".join(f"{name} {remark}" for name, remark in it.remarks.items()) or None
            row["notes"] = " ".join(it.notes) or None
            wider = self._wider(it) if self.shared else dict.fromkeys(it.values, 1.0)
            for name, value in it.values.items():
                factor = wider[name]
                row |= {name: value, f"{name}_std": it.std[name] * factor,
                        f"{name}_low": value + factor * (it.low[name] - value),
                        f"{name}_high": value + factor * (it.high[name] - value)}
            yield row | (self._of_shared(record, it) if self.shared else {})

    def _wider(self, it: TaskResult) -> Mapping[str, float]:
        """How much wider intervals become because the shared values are not known exactly either."""
        factors = dict.fromkeys(it.values, 1.0)
        if self.shared is None or "follow" not in it.arrays:
            return factors
        follow = ReducedRecord.from_arrays(it.arrays).follow
        more = np.einsum("ij,jk,ik->i", follow, self.shared.covariance, follow)
        for name, added in zip(it.values, more, strict=True):
            std = it.std[name]
            factors[name] = float(np.sqrt(1 + added / std**2)) if np.isfinite(std) and std > 0 else 1.0
        return factors

    def _of_shared(self, record: FleetRecord, it: TaskResult) -> dict[str, Any]:
        assert self.shared is not None
        row: dict[str, Any] = {}
        alone = self.store.result(0, record.name)
        for i, name in enumerate(self.shared.names):
            if it.status != FAILED:
                row |= {name: float(self.shared.values[i]), f"{name}_std": self.shared.std(name),
                        f"{name}_low": float(self.shared.low[i]), f"{name}_high": float(self.shared.high[i])}
            if alone is not None and name in alone.values:
                row |= {f"{name}_alone": alone.values[name], f"{name}_alone_std": alone.std[name]}
        if "rows" in it.arrays:
            left = it.arrays["rows"][:, -1]
            row["disagreement"] = float(left @ left) / len(self.shared.names)
        return row

    def batches(self) -> Iterator[pa.RecordBatch]:
        schema, waiting = self.layout.schema(), []
        for row in self:
            waiting.append({key: _cell(value) for key, value in row.items()})
            if len(waiting) == CHUNK_ROWS:
                yield pa.RecordBatch.from_pylist(waiting, schema)
                waiting = []
        if waiting:
            yield pa.RecordBatch.from_pylist(waiting, schema)


def _cell(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def write_tables(rows: FleetRows, folder: Path) -> None:
    """Both files, each whole or not at all."""
    schema = rows.layout.schema()
    with (atomic_write(folder / TABLE) as one, atomic_write(folder / TABLE_TO_LOOK_AT) as other,
          pyarrow.parquet.ParquetWriter(one, schema) as parquet, pyarrow.csv.CSVWriter(other, schema) as text):
        for batch in rows.batches():
            parquet.write_batch(batch)
            text.write_batch(batch)
