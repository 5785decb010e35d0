"""Tables: read Parquet and MAT files into an Experiment, and choose the reader by the name of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.build_experiment import to_experiment
from dynident.io.readers.columns import (
    TIME,
    Column,
    ColumnRef,
    Inputs,
    Outputs,
    ReadRequest,
    existing_file,
    fault_sentences,
    locate_columns,
    value_faults,
)
from dynident.io.readers.csv import read_csv
from dynident.problem.experiment import Experiment


def read_parquet(path: str | Path, *, time: Column | None = None, inputs: Inputs = (), outputs: Outputs = (),
                 hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
                 start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
                 time_unit: str | None = None, sample_time: float | None = None, mode: str = "") -> Experiment:
    """Read one record from a Parquet file.

    A time column of timestamps is counted in seconds from its first. See the manual, howto/read_records.

    Parameters
    ----------
    path : str or Path
        The file.
    time : str or int, optional
        Column of the time.
    inputs : sequence of str, or mapping of str to column, default ()
        As in `read_csv`.
    outputs : sequence of str, or mapping, default ()
        As in `read_csv`.
    hold : str or mapping of str to str, default "zero"
        How inputs move between samples: "zero" (constant) or "linear".
    initial : mapping of str to float, optional
        Known initial states.
    start : float, optional
        Time at which the initial state holds, in seconds; the first sample unless given.
    name : str, optional
        Of the experiment; that of the file unless given.
    units : mapping of str to str, optional
        Units wanted; a column whose header differs is converted.
    time_unit : str, optional
        Unit of the time column, where the header does not say it.
    sample_time : float, optional
        Makes the time of a file that has no such column, in seconds.
    mode : str, default ""
        In which mode a hybrid model begins.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    ProblemError
        With every column that is missing or holds no numbers.

    Examples
    --------
    >>> import dynident as di
    >>> import pyarrow, pyarrow.parquet
    >>> pyarrow.parquet.write_table(pyarrow.table({"t": [0.0, 0.5, 1.0], "y": [1.0, 0.8, 0.6]}), "record.parquet")
    >>> di.read_parquet("record.parquet", time="t", outputs=["y"]).samples
    3
    """
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    return _read(path, request, _parquet_columns)


def read_mat(path: str | Path, *, time: Column | None = None, inputs: Inputs = (), outputs: Outputs = (),
             hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
             start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
             time_unit: str | None = None, sample_time: float | None = None, mode: str = "") -> Experiment:
    """Read one record from the variables of a MAT file (up to version 7).

    A field of a struct is called "run.t", a column of a matrix "X[0]", counted from 0. See the manual, howto/read_records.

    Parameters
    ----------
    path : str or Path
        The file.
    time : str or int, optional
        Variable of the time.
    inputs : sequence of str, or mapping of str to column, default ()
        As in `read_csv`.
    outputs : sequence of str, or mapping, default ()
        As in `read_csv`.
    hold : str or mapping of str to str, default "zero"
        How inputs move between samples: "zero" (constant) or "linear".
    initial : mapping of str to float, optional
        Known initial states.
    start : float, optional
        Time at which the initial state holds, in seconds; the first sample unless given.
    name : str, optional
        Of the experiment; that of the file unless given.
    units : mapping of str to str, optional
        Units of the signals.
    time_unit : str, optional
        Unit of the time, if not seconds.
    sample_time : float, optional
        Makes the time of a file that has no such variable, in seconds.
    mode : str, default ""
        In which mode a hybrid model begins.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    ProblemError
        With every variable that is missing or holds no numbers.
    NotSupported
        For a MAT file of version 7.3.

    Examples
    --------
    >>> import dynident as di
    >>> import scipy.io
    >>> scipy.io.savemat("record.mat", {"run": {"t": [0.0, 0.5, 1.0], "y": [1.0, 0.8, 0.6]}})
    >>> di.read_mat("record.mat", time="run.t", outputs={"y": "run.y"}).samples
    3
    """
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    return _read(path, request, _mat_columns)


def read_table(path: str | Path, **columns: Any) -> Experiment:
    r"""Read one record with the reader that fits the end of the file's name.

    See the manual, howto/read_records.

    Parameters
    ----------
    path : str or Path
        The file: CSV or other text, Parquet, MAT.
    **columns : object
        The arguments of `read_csv`.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    ProblemError
        For a file name that ends in nothing known, and as the reader does.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> _ = Path("record.csv").write_text("t,y\n0,1.0\n1,0.8\n")
    >>> di.read_table("record.csv", time="t", outputs=["y"]).samples
    2
    """
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        raise NotSupported(f"{Path(path).name}: there is no reader for '{suffix}' files. Known: {', '.join(READERS)}. "
                           "Use read_csv for any other text file.")
    reader = READERS[suffix]
    if reader is not read_csv and (of_text := {"separator", "decimal"} & columns.keys()):
        raise ProblemError(f"{Path(path).name}: {' and '.join(sorted(of_text))} belong to text files; remove them.")
    return reader(path, **columns)


READERS: dict[str, Callable[..., Experiment]] = {
    ".csv": read_csv, ".txt": read_csv, ".tsv": read_csv, ".dat": read_csv, ".asc": read_csv,
    ".parquet": read_parquet, ".pq": read_parquet, ".mat": read_mat}


@dataclass(frozen=True)
class _Columns:
    """A file's columns: their headers, and how to get the values of some of them."""

    headers: Sequence[str]
    values: Callable[[Sequence[ColumnRef]], dict[int, np.ndarray]]
    units: Sequence[str] | None  # beside the headers; None where not even these name a unit
    unusable: Mapping[str, str] = field(default_factory=dict)  # what has a name and is no column, and why


def _read(path: str | Path, request: ReadRequest, open_columns: Callable[[Path], _Columns]) -> Experiment:
    file = existing_file(path)
    request.check(file.name)
    columns = open_columns(file)
    found = locate_columns(request, columns.headers, columns.units, file.name, unusable=columns.unusable)
    values = columns.values(found)
    if faults := value_faults(found, values):
        raise ProblemError(fault_sentences(faults, lambda row: f"{file.name}, row {row + 1}"))
    return to_experiment(request, found, values, file.name)


def _parquet_columns(path: Path) -> _Columns:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path, memory_map=True)
    except pa.ArrowInvalid as error:
        raise ProblemError(f"{path.name} is not a readable Parquet file: {str(error).splitlines()[0]}") from error
    schema = file.schema_arrow

    def values(found: Sequence[ColumnRef]) -> dict[int, np.ndarray]:
        fine = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
        faults = [f"{path.name}: column '{place.header}' holds {schema.field(place.column).type}, not numbers."
                  for place in found if not any(kind(schema.field(place.column).type) for kind in fine)
                  and not (place.role == TIME and pa.types.is_timestamp(schema.field(place.column).type))]
        if faults:
            raise ProblemError(faults)
        return _from_batches(file, {place.column: schema.names[place.column] for place in found})

    return _Columns(schema.names, values, [""] * len(schema.names))


def _from_batches(file: Any, wanted: Mapping[int, str]) -> dict[int, np.ndarray]:
    """Fill one array per column batch by batch, so that the file is never held twice."""
    import pyarrow as pa

    columns = {k: np.empty(file.metadata.num_rows) for k in wanted}
    first: dict[int, int] = {}
    row = 0
    for batch in file.iter_batches(columns=sorted(set(wanted.values()))):
        for k, name in wanted.items():
            values = batch.column(name)
            if pa.types.is_timestamp(values.type):  # subtract before leaving the integers: nanoseconds survive
                counts = values.cast(pa.timestamp("ns")).cast(pa.int64())
                first.setdefault(k, counts[0].as_py() or 0)
                values = pa.compute.divide(pa.compute.subtract(counts, first[k]).cast(pa.float64(), safe=False), 1e9)
            columns[k][row:row + len(values)] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        row += len(batch)
    return columns


def _mat_columns(path: Path) -> _Columns:
    import scipy.io

    try:
        variables = scipy.io.loadmat(path, squeeze_me=True, struct_as_record=False, chars_as_strings=True)
    except NotImplementedError as error:
        raise NotSupported(f"{path.name} is a MAT file of version 7.3, which is not read. In MATLAB, save it with "
                           f"save('{path.name}', '-v7').") from error
    except Exception as error:  # scipy raises many kinds on a damaged file
        raise ProblemError(f"{path.name} is not a readable MAT file: {error}.") from error
    found: dict[str, np.ndarray] = {}
    unusable: dict[str, str] = {}
    for name, value in variables.items():
        if not name.startswith("__"):
            _flatten(name, value, found, unusable)
    return _Columns(list(found), lambda places: {place.column: list(found.values())[place.column] for place in places},
                    None, unusable)  # the [0] of a matrix is an index and no unit


def _flatten(name: str, value: Any, found: dict[str, np.ndarray], unusable: dict[str, str]) -> None:
    """Add the numeric vectors in a variable under their names; of all others the reason why they are none."""
    if hasattr(value, "_fieldnames"):
        for below in value._fieldnames:
            _flatten(f"{name}.{below}", getattr(value, below), found, unusable)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim > 2:
        unusable[name] = f"variable '{name}' {_no_column(array)}"
    elif array.ndim == 2:
        for k in range(array.shape[1]):
            found[f"{name}[{k}]"] = np.array(array[:, k], dtype=float)
    else:
        found[name] = np.array(np.atleast_1d(array), dtype=float)


def _no_column(array: np.ndarray) -> str:
    if array.dtype.kind == "c":
        return "holds complex numbers; save their real part, their size or their angle."
    if array.dtype.kind in "US":
        return "holds text, not numbers."
    if array.dtype.kind in "biuf":
        return f"has {array.ndim} dimensions; save the vectors or the matrix in it as variables of their own."
    if array.size and hasattr(array.flat[0], "_fieldnames"):
        return f"is an array of {array.size} structs; save the one that you mean as a variable of its own."
    return "is a cell array or an object; save the vectors in it as variables of their own."
