"""Store: results as they come, each complete or absent, whatever happens to the run.

One SQLite file in write-ahead mode, one commit per finished task. Arrays are kept as .npz without pickle. The folder
knows the hash of its task and takes results of no other.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynident import __version__
from dynident._util.atomic import NotWritten
from dynident._util.codec import encode
from dynident.errors import DynidentError, NotSupported, ProblemError
from dynident.fleet.task import TaskResult

STORE_FORMAT = 1
FILE = "fleet.sqlite"
TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS result (
  pass INTEGER NOT NULL, record TEXT NOT NULL, status TEXT NOT NULL, said TEXT NOT NULL, arrays BLOB NOT NULL,
  PRIMARY KEY (pass, record)) WITHOUT ROWID;
"""
BINARY = ("arrays",)  # of a result: kept apart from the text


class FleetStore:
    """The results of one fleet in one folder; the caller holds the folder (see `exclusive`)."""

    def __init__(self, folder: Path, spec_hash: str):
        self.path = folder / FILE
        fresh = not self.path.exists()
        with self._errors_in_words():
            self.base = sqlite3.connect(self.path, isolation_level=None)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=NORMAL")  # a kill loses nothing; a power cut the last few at most
            self.base.executescript(TABLES)
            if fresh or self.about("question") is None:
                self.tell(format=str(STORE_FORMAT), question=spec_hash, version=__version__)
        try:
            self._check(folder, spec_hash)
        except DynidentError:
            self.close()
            raise

    def _check(self, folder: Path, spec_hash: str) -> None:
        stated = int(self.about("format") or 0)
        if stated > STORE_FORMAT:
            raise NotSupported(f"{self.path} was written in format {stated} by dynident {self.about('version')}; this is "
                               f"dynident {__version__}, which reads up to format {STORE_FORMAT}. Update dynident to read it.")
        if self.about("question") != spec_hash:
            raise ProblemError(f"{folder} holds the results of another fleet: its model, parameters, method, [record] or "
                               "shared parameters are not these. Choose another folder, or delete this one.")

    def about(self, key: str) -> str | None:
        with self._errors_in_words():
            row = self.base.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def tell(self, **facts: str) -> None:
        """Keep facts about the run, all of them or none."""
        with self._committed() as base:
            base.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", list(facts.items()))

    def keep(self, number: int, record: str, result: TaskResult) -> None:
        """One result of a pass; a second one for the same record changes nothing."""
        said = {key: value for key, value in vars(result).items() if key not in BINARY}
        row = number, record, result.status, json.dumps(encode(said), ensure_ascii=False), _pack_arrays(result.arrays)
        with self._committed() as base:
            base.execute("INSERT OR IGNORE INTO result VALUES (?, ?, ?, ?, ?)", row)

    def forget(self, number: int, records: list[str] | None = None) -> None:
        """Remove some or all results of a pass."""
        with self._committed() as base:
            if records is None:
                base.execute("DELETE FROM result WHERE pass = ?", (number,))
            else:
                base.executemany("DELETE FROM result WHERE pass = ? AND record = ?", [(number, r) for r in records])

    def keep_passes(self, numbers: set[int]) -> None:
        """Remove all passes but these and the first, in which each record was fitted by itself."""
        kept = sorted({0, *numbers})
        with self._committed() as base:
            base.execute(f"DELETE FROM result WHERE pass NOT IN ({', '.join('?' * len(kept))})", kept)

    def stamps(self, number: int) -> dict[str, tuple[str, str, str]]:
        """Per record of a pass: its status, and stamp and fingerprint of what was read."""
        with self._errors_in_words():
            rows = self.base.execute("SELECT record, status, json_extract(said, '$.stamp'), "
                                     "json_extract(said, '$.fingerprint') FROM result WHERE pass = ?", (number,))
            return {record: (status, stamp, fingerprint) for record, status, stamp, fingerprint in rows}

    def statuses(self, number: int) -> dict[str, str]:
        with self._errors_in_words():
            return dict(self.base.execute("SELECT record, status FROM result WHERE pass = ?", (number,)))

    def results(self, number: int, arrays: bool = True) -> Iterator[tuple[str, TaskResult]]:
        """The results of a pass in the order of the records' names, one at a time; without arrays where not wanted."""
        wanted = "arrays" if arrays else "x''"
        with self._errors_in_words():
            cursor = self.base.execute(f"SELECT record, said, {wanted} FROM result WHERE pass = ? ORDER BY record",
                                       (number,))
            for record, said, packed in cursor:
                yield record, _read_result(said, packed)

    def result(self, number: int, record: str) -> TaskResult | None:
        with self._errors_in_words():
            row = self.base.execute("SELECT said, arrays FROM result WHERE pass = ? AND record = ?",
                                    (number, record)).fetchone()
        return _read_result(*row) if row else None

    def close(self) -> None:
        self.base.close()

    @contextmanager
    def _committed(self) -> Iterator[sqlite3.Connection]:
        with self._errors_in_words():
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield self.base
                self.base.execute("COMMIT")
            except BaseException:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "full" in str(error) or "disk I/O" in str(error):
                raise NotWritten(f"{self.path} could not be written: {error}. All results that were reported as done are "
                                 "kept. Free some space and start the same command again: it goes on from there."
                                 ) from error
            raise DynidentError(f"{self.path} cannot be used: {error}. Take the folder from a backup, or choose another "
                                "one.") from error


def _pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    if not arrays:
        return b""
    content = io.BytesIO()
    numbers: dict[str, Any] = {name: np.asarray(array, float) for name, array in arrays.items()}  # so there is no pickle
    np.savez(content, **numbers)
    return content.getvalue()


def _read_result(said: str, arrays: bytes) -> TaskResult:
    data: dict[str, Any] = json.loads(said)
    for key in ("values", "std", "low", "high", "noise", "numbers"):
        data[key] = {name: float(value) for name, value in data[key].items()}
    data["notes"] = tuple(data["notes"])
    known = {f.name for f in dataclasses.fields(TaskResult)}
    read: dict[str, np.ndarray] = {}
    if arrays:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            read = {name: file[name] for name in file.files}
    return TaskResult(**{key: value for key, value in data.items() if key in known}, arrays=read)
