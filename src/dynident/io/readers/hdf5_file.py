"""HDF5 files: datasets as columns, called by their path; and MAT files of version 7.3, which are HDF5 inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.array_files import NoArray, columns_of
from dynident.io.readers.table_columns import TableColumns

INSTALL = "needs h5py, which is not installed: pip install 'dynident[hdf5]'."
UNITS = ("units", "unit", "Units", "Unit")  # attributes that name the unit of a dataset


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
