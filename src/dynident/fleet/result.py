"""Fleet result: all values of a fleet side by side, outlier machines, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynident.fleet.fleet import Fleet
from dynident.fleet.outliers import Outlier, RobustCentre, find_outliers
from dynident.fleet.shared_estimate import SharedEstimate
from dynident.fleet.table import FleetRows
from dynident.fleet.task import CONVERGED
from dynident.problem.parameter import InitialState, Parameter
from dynident.report.number_format import with_interval
from dynident.report.summaries import plain_table

LISTED = 10  # outliers and failures on the terminal; the page lists all


@dataclass(frozen=True)
class FailedRecord:
    """A record without an estimate, and why."""

    record: str
    machine: str
    status: str
    reason: str


@dataclass(frozen=True, eq=False)
class FleetResult:
    """What a run over a fleet found; the table with everything is `fleet.parquet` in the folder."""

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

    @property
    def good(self) -> bool:
        """Every record has an estimate, and so have the shared values."""
        return not self.stopped and not self.failures and len(self.records) == self.total and (
            self.shared is None or self.shared.converged)

    @property
    def headline(self) -> str:
        machines = len({m for m in self.machines if m})
        of = f" of {machines:,} machines" if machines else ""
        failed = f"; {len(self.failures):,} without a result" if self.failures else ""
        ahead = self.total - len(self.records) - len(self.failures)
        stopped = f"; stopped with {ahead:,} still to do" if self.stopped or ahead else ""
        return f"{len(self.records):,} of {self.total:,} records{of} fitted{failed}{stopped}."

    def __str__(self) -> str:
        parts = [self.headline, *self.notes]
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
    more = len(sentences) - LISTED
    rest = [f"  and {more:,} more; the page lists all."] if more > 0 else []
    return [heading, *(f"  {s}" for s in sentences[:LISTED]), *rest]


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
    kept: list[tuple[str, str, Any]] = []
    numbers: list[list[float]] = []
    failures = []
    for row in rows:
        if row["status"] != CONVERGED:
            failures.append(FailedRecord(row["record"], row["machine"] or "", row["status"], row["reason"]))
            continue
        kept.append((row["record"], row["machine"] or "", row["time"]))
        numbers.append([_float(row[f"{name}{ending}"]) for name in names for ending in ("", "_std")])
    figures = np.array(numbers, float).reshape(len(kept), 2 * len(names))
    values = {name: figures[:, 2 * i] for i, name in enumerate(names)}
    std = {name: figures[:, 2 * i + 1] for i, name in enumerate(names)}
    records, machines, times = ([k[i] for k in kept] for i in range(3))
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
                       tuple(failures), shared, stopped, tuple(notes))


def _float(value: Any) -> float:
    return np.nan if value is None else float(value)
