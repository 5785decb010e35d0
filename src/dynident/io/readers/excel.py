"""Excel sheets: columns of xlsx, xlsm, xlsb, xls and ods workbooks; faults name the sheet and its row."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.io.readers.columns import LONGEST_QUOTE, TIME, ColumnRef, Fault, fault_sentences, value_faults
from dynident.io.readers.dates import has_zone, is_date
from dynident.io.readers.dialect import HEAD_LINES, MISSING, layout_of
from dynident.io.readers.table_columns import TableColumns, TableValues

INSTALL = "reading a workbook needs python-calamine, which is not installed: pip install 'dynident[excel]'."


def excel_columns(path: Path, names: Collection[str], sheet: str | int | None = None) -> TableColumns:
    """The columns of a sheet, the first unless one is named; `names` are columns that are expected, which tells the header."""
    title, rows = _sheet(path, sheet)
    source = f"{path.name}, sheet '{title}'"
    if not any(any(cell != "" for cell in row) for row in rows):
        raise ProblemError(f"{source} is empty. Export it again.")
    texts = ["\t".join(_text(cell) for cell in row) for row in rows[:HEAD_LINES]]
    layout = layout_of(source, texts, names, "\t", "row")
    body = rows[layout.data_line - 1:]
    numbers = [k for k, row in enumerate(body, layout.data_line) if any(cell != "" for cell in row)]  # rows as Excel counts
    body = [row for row in body if any(cell != "" for cell in row)]

    def place(row: int) -> str:
        return f"{source}, row {numbers[row]}"

    def values(found: Sequence[ColumnRef], runs: np.ndarray | None) -> TableValues:
        columns, dates, faults = {}, {}, []
        for ref in found:
            cells = [row[ref.column] for row in body]
            if all(cell == "" for cell in cells):
                raise ProblemError(f"{source}: column '{ref.header}' is empty. If it holds formulas, open the workbook and "
                                   "save it: their values are stored only then.")
            if ref.role == TIME and (kind := _kind_of_time(cells)):
                columns[ref.column], bad = _counted(cells, kind)
                if kind is datetime.datetime:
                    dates[ref.column] = next(cell for cell in cells if isinstance(cell, kind)).isoformat()
            else:
                columns[ref.column], bad = _numbers(cells)
            if bad:
                faults.append(_no_number(ref, cells, bad))
        unreadable = {ref.column: [k for k in range(len(body)) if np.isnan(columns[ref.column][k]) and not _empty(
            body[k][ref.column])] for ref in found} if faults else None
        faults += value_faults(found, columns, unreadable, runs)
        if faults:
            raise ProblemError(fault_sentences(faults, place))
        return TableValues(columns, dates, checked=True)

    return TableColumns(source, layout.header, values, layout.units,
                        lambda k: np.array([*(row[k] for row in body), None], dtype=object)[:-1], notes=layout.notes,
                        doubt=layout.doubt, place=place)


def _no_number(ref: ColumnRef, cells: Sequence[Any], bad: Sequence[int]) -> Fault:
    shown = _text(cells[bad[0]])[:LONGEST_QUOTE]
    return Fault(bad[0], len(bad), f"column '{ref.header}' holds '{shown}', which is not a number. Correct it, or leave the "
                                   "cell empty if the sample is missing.")


def _sheet(path: Path, sheet: str | int | None) -> tuple[str, list[list[Any]]]:
    try:
        import python_calamine
    except ImportError:
        raise NotSupported(f"{path.name}: {INSTALL}") from None
    try:
        book = python_calamine.CalamineWorkbook.from_path(path)
        titles = book.sheet_names
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise ProblemError(f"{path.name} is not a readable workbook: {str(error).rstrip('.')}.") from error
    if not titles:
        raise ProblemError(f"{path.name} has no sheet.")
    if isinstance(sheet, int) and not 0 <= sheet < len(titles):
        raise ProblemError(f"{path.name} has no sheet {sheet}; its {len(titles)} sheets count from 0.")
    if isinstance(sheet, str) and sheet not in titles:
        raise ProblemError(f"{path.name} has no sheet '{sheet}'.{did_you_mean(sheet, titles)}")
    title = titles[sheet or 0] if not isinstance(sheet, str) else sheet
    try:
        rows = book.get_sheet_by_name(title).to_python(skip_empty_area=False)
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise ProblemError(f"{path.name}, sheet '{title}' is not readable: {str(error).rstrip('.')}.") from error
    return title, rows


def _text(cell: Any) -> str:
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    return " ".join(str(cell).split())


def _empty(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in MISSING


def _numbers(cells: Sequence[Any]) -> tuple[np.ndarray, list[int]]:
    """The numbers, NaN where there is none, and the rows of what is neither a number nor empty."""
    bad = []
    values = np.full(len(cells), np.nan)
    for k, cell in enumerate(cells):
        if isinstance(cell, (int, float)):
            values[k] = cell
        elif not _empty(cell):
            bad.append(k)
    return values, bad


def _kind_of_time(cells: Sequence[Any]) -> type | None:
    """How the first time is given, if not as a number."""
    first = next((cell for cell in cells if not _empty(cell)), None)
    if isinstance(first, str) and is_date(first):
        return str
    return next((kind for kind in (datetime.datetime, datetime.date, datetime.timedelta, datetime.time)
                 if isinstance(first, kind)), None)


def _counted(cells: Sequence[Any], kind: type) -> tuple[np.ndarray, list[int]]:
    """Dates in seconds from the first, durations and times of day in seconds; rows of what is something else."""
    bad = []
    moments: list[datetime.timedelta | None] = []
    epoch: Any = None
    for k, cell in enumerate(cells):
        moment: datetime.timedelta | None = None
        if isinstance(cell, str) and kind is str and is_date(cell):
            cell = datetime.datetime.fromisoformat(cell.strip().replace(",", ".").replace("z", "Z"))
            cell = cell.astimezone(datetime.UTC).replace(tzinfo=None) if has_zone(str(cells[k])) else cell
        if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
            cell = datetime.datetime.combine(cell, datetime.time())
        if isinstance(cell, datetime.datetime):
            epoch = epoch or cell
            moment = cell - epoch
        elif isinstance(cell, datetime.time):
            moment = datetime.datetime.combine(datetime.date.min, cell) - datetime.datetime.min
        elif isinstance(cell, datetime.timedelta):
            moment = cell
        elif not _empty(cell):
            bad.append(k)
        moments.append(moment)
    micro = datetime.timedelta(microseconds=1)
    return np.array([np.nan if m is None else (m // micro) / 1e6 for m in moments]), bad
