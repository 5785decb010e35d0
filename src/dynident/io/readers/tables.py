"""Tables: choose the reader by the name of the file, or by what a table in memory is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.columns import Column, InputColumns, OutputColumns, ReadRequest, existing_file
from dynident.io.readers.csv import read_csv, text_columns
from dynident.io.readers.own_clocks import CLOCK
from dynident.io.readers.table_columns import Split, TableColumns, read_one, read_runs
from dynident.problem.experiment import Experiment


def read_parquet(path: str | Path, *, time: Column | None = None, inputs: InputColumns = (), outputs: OutputColumns = (),
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
        Known initial states, in the units of the model.
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
    return read_one(request, _opened(path, request, "parquet"))


def read_mat(path: str | Path, *, time: Column | None = None, inputs: InputColumns = (), outputs: OutputColumns = (),
             hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
             start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
             time_unit: str | None = None, sample_time: float | None = None, mode: str = "") -> Experiment:
    """Read one record from the variables of a MAT file; one of version 7.3 needs the extra `hdf5`.

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
        Known initial states, in the units of the model.
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
        For a MAT file of version 7.3 where h5py is not installed.

    Examples
    --------
    >>> import dynident as di
    >>> import scipy.io
    >>> scipy.io.savemat("record.mat", {"run": {"t": [0.0, 0.5, 1.0], "y": [1.0, 0.8, 0.6]}})
    >>> di.read_mat("record.mat", time="run.t", outputs={"y": "run.y"}).samples
    3
    """
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    return read_one(request, _opened(path, request, "mat"))


def read_excel(path: str | Path, *, sheet: str | int | None = None, **columns: Any) -> Experiment:
    """One record from a sheet of a workbook, the first unless another is named."""
    request = ReadRequest(**columns)
    return read_one(request, _opened(path, request, "excel", {"sheet": sheet}))


def read_hdf5(path: str | Path, **columns: Any) -> Experiment:
    """One record from the datasets of an HDF5 file."""
    request = ReadRequest(**columns)
    return read_one(request, _opened(path, request, "hdf5"))


def read_npz(path: str | Path, **columns: Any) -> Experiment:
    """One record from the arrays of an npz file."""
    request = ReadRequest(**columns)
    return read_one(request, _opened(path, request, "npz"))


def read_feather(path: str | Path, **columns: Any) -> Experiment:
    """One record from a Feather (Arrow) file."""
    request = ReadRequest(**columns)
    return read_one(request, _opened(path, request, "feather"))


def read_mf4(path: str | Path, **columns: Any) -> Experiment:
    """One record from the channels of an MF4 (MDF) file, each with its own clock."""
    return records_of(path, None, columns)[0]


def read_tdms(path: str | Path, **columns: Any) -> Experiment:
    """One record from the channels of a TDMS file."""
    return records_of(path, None, columns)[0]


def read_ros(path: str | Path, **columns: Any) -> Experiment:
    """One record from the messages of a ROS bag, each topic with its own clock."""
    return records_of(path, None, columns)[0]


def _opened(path: str | Path, request: ReadRequest, kind: str, options: Mapping[str, Any] | None = None) -> TableColumns:
    """The columns of a file, after a look at what is asked of it."""
    file = existing_file(path)
    request.check(file.name)
    if kind in CLOCKED:
        from dynident.io.readers import measurement_files, ros_bag

        clocked: dict[str, Callable[[Path, ReadRequest], TableColumns]] = {
            "mf4": measurement_files.mf4_columns, "tdms": measurement_files.tdms_columns, "ros": ros_bag.ros_columns}
        return clocked[kind](file, request)
    return columns_in(file, kind, request.names(), options)


def columns_in(file: Path, kind: str, names: Collection[str] = (), options: Mapping[str, Any] | None = None) -> TableColumns:
    """The columns of a file; the packages that read it are loaded now and not before."""
    from dynident.io.readers import array_files, arrow_tables, excel

    if kind in CLOCKED:
        raise NotSupported(f"{file.name}: its signals have clocks of their own, and only tables are looked at here. Name the "
                           "signals in a problem file by hand.")
    if kind == "excel":
        return excel.excel_columns(file, names, **(options or {}))
    openers: dict[str, Callable[[Path], TableColumns]] = {
        "parquet": arrow_tables.parquet_columns, "feather": arrow_tables.feather_columns, "mat": array_files.mat_columns,
        "npz": array_files.npz_columns, "hdf5": array_files.hdf5_columns}
    return openers[kind](file)


def open_table(path: str | Path, options: Mapping[str, Any] | None = None) -> TableColumns:
    """The columns of a file, before anybody says what they are."""
    reader, anything = reader_of(path, options or {}), ReadRequest(sample_time=1.0)
    if reader is read_csv:
        return text_columns(path, anything, **(options or {}))
    if reader not in KIND_OF:
        raise NotSupported(f"{Path(path).name}: the reader {reader.__name__} does not list the columns of a file.")
    return columns_in(existing_file(path), KIND_OF[reader], (), options)


READERS: dict[str, Callable[..., Experiment]] = {
    ".csv": read_csv, ".txt": read_csv, ".tsv": read_csv, ".dat": read_csv, ".asc": read_csv,
    ".parquet": read_parquet, ".pq": read_parquet, ".feather": read_feather, ".arrow": read_feather,
    ".mat": read_mat, ".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5,
    ".xlsx": read_excel, ".xlsm": read_excel, ".xlsb": read_excel, ".xls": read_excel, ".ods": read_excel,
    ".mf4": read_mf4, ".mdf": read_mf4, ".tdms": read_tdms, ".mcap": read_ros, ".bag": read_ros, ".db3": read_ros}
KIND_OF = {read_parquet: "parquet", read_feather: "feather", read_mat: "mat", read_npz: "npz", read_hdf5: "hdf5",
           read_excel: "excel", read_mf4: "mf4", read_tdms: "tdms", read_ros: "ros"}  # whose tables can be split, beside text
CLOCKED = ("mf4", "tdms", "ros")  # kinds whose signals bring their times along, so that time may be left out
OWN_CLOCK = (read_mf4, read_tdms, read_ros)
OPTIONS = {"separator": (read_csv,), "decimal": (read_csv,), "sheet": (read_excel,)}  # that belong to some files only
BELONG_TO = {"separator": "text files", "decimal": "text files", "sheet": "workbooks"}


def ending(path: str | Path) -> str:
    """By what a reader is chosen: how the name ends, before it was packed."""
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def reader_of(path: str | Path, columns: Mapping[str, Any]) -> Callable[..., Experiment]:
    """The reader of a file, after a look at whether it takes these options."""
    name, suffix = Path(path).name, ending(path)
    packed = name.lower().endswith(".gz")
    if suffix not in READERS or (packed and READERS[suffix] is not read_csv):
        shown = f"{suffix}.gz" if packed else suffix
        raise NotSupported(f"{name}: there is no reader for '{shown}' files. Known: {', '.join(READERS)}. "
                           "Use read_csv for any other text file.")
    reader = READERS[suffix]
    strangers = sorted(key for key, readers in OPTIONS.items() if key in columns and reader not in readers)
    if strangers:
        raise ProblemError(f"{name}: {' and '.join(strangers)} belong to {BELONG_TO[strangers[0]]}; remove them.")
    return reader


def read_table(path: str | Path, **columns: Any) -> Experiment:
    r"""Read one record with the reader that fits the end of the file's name.

    Text (also packed by gzip), Parquet, Feather, MAT and npz are read as they are; workbooks, HDF5, MF4, TDMS and ROS bags with
    an extra package, which the error names. See the manual, howto/read_records.

    Parameters
    ----------
    path : str or Path
        The file.
    **columns : object
        The arguments of `read_csv`; of a workbook also `sheet`, the name of a sheet or its number counted from 0; of any file
        also `prepare`, a list of steps such as `[crop(2, 9), lowpass(20)]`.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    NotSupported
        For a file name that ends in nothing known, and where a package is not installed.
    ProblemError
        As the reader does.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> _ = Path("record.csv").write_text("t,y\n0,1.0\n1,0.8\n")
    >>> di.read_table("record.csv", time="t", outputs=["y"]).samples
    2
    """
    return records_of(path, None, columns)[0]


def records_of(table: Any, split: Split, columns: Mapping[str, Any]) -> list[Experiment]:
    """The runs of a file or of a table in memory, prepared; one where `split` is None."""
    steps = columns.get("prepare") or ()
    found = _runs(table, split, {key: value for key, value in columns.items() if key != "prepare"})
    return [run.prepared(steps) for run in found] if steps else found


def _runs(table: Any, split: Split, columns: Mapping[str, Any]) -> list[Experiment]:
    if not isinstance(table, (str, Path)):
        from dynident.io.readers.arrow_tables import frame_columns

        if strangers := sorted(OPTIONS.keys() & columns.keys()):
            raise ProblemError(f"{' and '.join(strangers)} belong to files; remove them.")
        request = ReadRequest(**columns)
        request.check("table")
        return read_runs(request, frame_columns(table), split)
    reader = reader_of(table, columns)
    if reader in OWN_CLOCK and columns.get("time") is None and columns.get("sample_time") is None:
        columns = {**columns, "time": CLOCK}
    if split is None and reader not in OWN_CLOCK:
        return [reader(table, **columns)]
    options = {key: columns[key] for key in OPTIONS if key in columns}
    request = ReadRequest(**{key: value for key, value in columns.items() if key not in options})
    if reader is read_csv:
        return read_runs(request, text_columns(table, request, **options), split)
    if reader not in KIND_OF:
        raise NotSupported(f"{Path(table).name}: the reader {reader.__name__} does not split a table into runs.")
    return read_runs(request, _opened(table, request, KIND_OF[reader], options), split)


def from_table(table: Any, split: Split, columns: Mapping[str, Any]) -> Any:
    """What `Experiment.from_table` does: a record, or one per run where they are to be told apart."""
    found = records_of(table, split, columns)
    return found[0] if split is None else found
