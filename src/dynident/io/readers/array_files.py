"""Array files: variables of MAT and npz files as columns, and datasets of HDF5 by their path; MAT 7.3 is HDF5 inside."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.columns import TIME, ColumnRef
from dynident.io.readers.table_columns import TableColumns, TableValues
from dynident.problem.experiment import DATES, DURATIONS, to_seconds

INSTALL = "needs h5py, which is not installed: pip install 'dynident[hdf5]'."
UNITS = ("units", "unit", "Units", "Unit")  # attributes that name the unit of a dataset
MAT_7_3 = b"\x89HDF\r\n\x1a\n"  # as every HDF5 file begins, after the 512 bytes of a MAT header


def mat_columns(path: Path) -> TableColumns:
    import scipy.io

    with path.open("rb") as file:
        head = file.read(512 + len(MAT_7_3))
    if head.startswith(MAT_7_3) or head.endswith(MAT_7_3):
        return mat_7_3_columns(path)
    try:
        variables = scipy.io.loadmat(path, squeeze_me=True, struct_as_record=False, chars_as_strings=True)
    except Exception as error:  # scipy raises many kinds on a damaged file
        raise ProblemError(f"{path.name} is not a readable MAT file: {error}.") from error
    return columns_of(path.name, {name: value for name, value in variables.items() if not name.startswith("__")})


def npz_columns(path: Path) -> TableColumns:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ProblemError(f"{path.name} is not a readable npz file: it holds one array; use numpy.savez.")
            variables: dict[str, Any] = {}
            for name in archive.files:
                try:
                    variables[name] = archive[name]
                except ValueError as error:  # Python objects, which would run code when loaded
                    variables[name] = NoArray(f"cannot be loaded ({str(error).rstrip('.')}); save arrays of numbers.")
    except ProblemError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ProblemError(f"{path.name} is not a readable npz file: {str(error).rstrip('.')}.") from error
    return columns_of(path.name, variables)


class NoArray(str):
    """Why a variable is no array."""


def columns_of(source: str, variables: Mapping[str, Any], flatten: Callable[..., None] | None = None,
               units: Mapping[str, str] | None = None) -> TableColumns:
    """The numeric vectors among variables; `units` by the name of a column, where the file says any."""
    found: dict[str, np.ndarray] = {}
    unusable: dict[str, str] = {}
    for name, value in variables.items():
        (flatten or add_vectors)(name, value, found, unusable)
    arrays = list(found.values())

    def values(places: Sequence[ColumnRef], runs: np.ndarray | None) -> TableValues:
        columns, dates = {}, {}
        for place in places:
            array = arrays[place.column]
            if array.dtype.kind in DATES + DURATIONS:
                if place.role != TIME:
                    raise ProblemError(f"{source}: variable '{place.header}' holds dates, not numbers.")
                if array.dtype.kind == DATES:
                    dates[place.column] = str(array.flat[0]) if array.size else ""
                counted = to_seconds(array)
                if counted is None:
                    raise ProblemError(f"{source}: variable '{place.header}' holds {array.dtype}, which has no length in "
                                       "seconds; save seconds.")
                array = counted
            columns[place.column] = np.array(array, dtype=float)
        _refuse_lengths(source, places, columns)
        return TableValues(columns, dates)

    return TableColumns(source, list(found), values, None if units is None else [units.get(name, "") for name in found],
                        lambda k: np.array([*arrays[k].tolist(), None], dtype=object)[:-1], unusable)


def _refuse_lengths(source: str, places: Sequence[ColumnRef], columns: Mapping[int, np.ndarray]) -> None:
    """Vectors of one record are equally long."""
    time = next((place for place in places if place.role == TIME), places[0] if places else None)
    if time is None:
        return
    size = columns[time.column].size
    what = "time" if time.role == TIME else f"'{time.signal}'"
    faults = [f"{source}: '{place.signal}' has {columns[place.column].size} samples, {what} has {size}."
              for place in places if columns[place.column].size != size]
    if faults:
        raise ProblemError(faults)


def add_vectors(name: str, value: Any, found: dict[str, np.ndarray], unusable: dict[str, str]) -> None:
    """Add the numeric vectors in a variable under their names; of all others the reason why they are none."""
    if isinstance(value, NoArray):
        unusable[name] = f"variable '{name}' {value}"
        return
    if hasattr(value, "_fieldnames"):
        for below in value._fieldnames:
            add_vectors(f"{name}.{below}", getattr(value, below), found, unusable)
        return
    array = np.asarray(value)
    if array.dtype.names:
        for below in array.dtype.names:
            add_vectors(f"{name}.{below}", array[below], found, unusable)
    elif array.dtype.kind not in "biuf" + DATES + DURATIONS or array.ndim > 2:
        unusable[name] = f"variable '{name}' {_no_column(array)}"
    elif array.ndim == 2:
        for k in range(array.shape[1]):
            found[f"{name}[{k}]"] = array[:, k]
    else:
        found[name] = np.atleast_1d(array)


def _no_column(array: np.ndarray) -> str:
    if array.dtype.kind == "c":
        return "holds complex numbers; save their real part, their size or their angle."
    if array.dtype.kind in "USO" and array.size and isinstance(array.flat[0], (str, bytes)):
        return "holds text, not numbers."
    if array.dtype.kind in "biuf":
        return f"has {array.ndim} dimensions; save the vectors or the matrix in it as variables of their own."
    if array.size and hasattr(array.flat[0], "_fieldnames"):
        return f"is an array of {array.size} structs; save the one that you mean as a variable of its own."
    return "is a cell array or an object; save the vectors in it as variables of their own."


def hdf5_columns(path: Path) -> TableColumns:
    """Datasets by their path, as in "run/t"; a column of a matrix "run/X[0]", a field of a compound "run/table.t"."""
    variables: dict[str, Any] = {}
    units: dict[str, str] = {}
    with _opened(path, "HDF5", INSTALL) as (h5py, file):
        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                variables[name] = _dataset(h5py, item)
                unit = next((_text(item.attrs[key]) for key in UNITS if key in item.attrs), "")
                units.update({name: unit} if unit else {})

        file.visititems(visit)
    return columns_of(path.name, variables, units=units or None)


def mat_7_3_columns(path: Path) -> TableColumns:
    """As MATLAB shows them: arrays are stored transposed, structs as groups."""
    variables: dict[str, Any] = {}
    with _opened(path, "MAT", f"of version 7.3 {INSTALL[:-1]}; or save it in MATLAB with save('{path.name}', '-v7').") as (
            h5py, file):
        for name, item in file.items():
            if not name.startswith("#"):  # what cell arrays and objects refer to
                _add_matlab(h5py, name, item, variables)
    return columns_of(path.name, variables)


@contextmanager
def _opened(path: Path, kind: str, install: str) -> Iterator[tuple[Any, Any]]:
    try:
        import h5py
    except ImportError:
        raise NotSupported(f"{path.name}: reading {'an' if kind == 'HDF5' else 'a'} {kind} file {install}") from None
    try:
        with h5py.File(path, "r") as file:
            yield h5py, file
    except (OSError, RuntimeError, KeyError) as error:
        said = str(error).split("(")[-1].rstrip(").") or type(error).__name__
        raise ProblemError(f"{path.name} is not a readable {kind} file: {said}.") from error


def _dataset(h5py: Any, item: Any) -> Any:
    if item.shape is None:
        return NoArray("is empty.")
    if h5py.check_ref_dtype(item.dtype) is not None:
        return NoArray("holds references to other datasets; name these.")
    if h5py.check_string_dtype(item.dtype) is not None:
        return NoArray("holds text, not numbers.")
    return np.squeeze(item[()]) if item.ndim > 1 and 1 in item.shape else item[()]


def _add_matlab(h5py: Any, name: str, item: Any, variables: dict[str, Any]) -> None:
    """Add a variable of MATLAB, or the fields of a struct under their names."""
    kind = _text(item.attrs.get("MATLAB_class", ""))
    if isinstance(item, h5py.Group):
        if kind not in ("struct", ""):
            variables[name] = NoArray(f"is a {kind} of MATLAB; save the vectors in it as variables of their own.")
            return
        for below, inside in item.items():
            _add_matlab(h5py, f"{name}.{below}", inside, variables)
    elif kind == "char":
        variables[name] = NoArray("holds text, not numbers.")
    elif h5py.check_ref_dtype(item.dtype) is not None:
        what = "a cell array" if kind == "cell" else "an array of structs"
        variables[name] = NoArray(f"is {what}; save the vectors in it as variables of their own.")
    elif item.dtype.names:
        variables[name] = NoArray("holds complex numbers; save their real part, their size or their angle.")
    elif item.attrs.get("MATLAB_empty", 0):
        variables[name] = np.zeros(0)
    else:
        variables[name] = np.squeeze(item[()].T)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
