"""CSV: read a text file of numbers into an Experiment, fast where it is clean and exact where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dynident.io.readers.build_experiment import to_experiment
from dynident.io.readers.columns import Column, Inputs, Outputs, ReadRequest, existing_file, locate_columns
from dynident.io.readers.csv_arrow import read_fast
from dynident.io.readers.csv_strict import raise_with_lines, read_carefully
from dynident.io.readers.sniff import sniff
from dynident.io.readers.value_checks import value_faults
from dynident.problem.experiment import Experiment


def read_csv(path: str | Path, *, time: Column | None = None, inputs: Inputs = (), outputs: Outputs = (),
             hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
             start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
             time_unit: str | None = None, sample_time: float | None = None, separator: str | None = None,
             decimal: str | None = None, mode: str = "") -> Experiment:
    """Read one record from a text file; columns are named by their header or by their position, counted from 0.

    `inputs=["u"]` or `{"u": "column"}`; `outputs={"y": Gaussian(0.1)}`, `{"y": ("column", Gaussian(0.1))}`,
    `{"y": ("column", Gaussian, "column of its std")}`, or `{"y": "column"}` and a list of names, whose noise is
    then estimated.
    An empty cell, NaN or NA is a missing sample in an output and an error in an input. Separator, decimal sign,
    encoding and header are found by looking; `notes` of the experiment say what was found beyond the plain case.
    A header such as 't [ms]' gives time in seconds; `time_unit` says it where the header does not. `units` are the
    units wanted, `{"y": "m", "time": "h"}`: a column whose header differs is converted. `sample_time` makes the time
    of a file that has no such column. `mode` is the one in which a hybrid model begins.
    """
    file = existing_file(path)
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    request.check(file.name)
    dialect = sniff(file, request.names(), separator, decimal)
    found = locate_columns(request, dialect.header, dialect.units, file.name, dialect.doubt)
    wanted = sorted({place.column for place in found})
    values = read_fast(file, dialect, wanted)
    notes = list(dialect.notes)
    if values is None:
        values, more = read_carefully(file, dialect, found)
        notes += more
    elif faults := value_faults(found, values):
        raise_with_lines(file, dialect, faults)
    return to_experiment(request, found, values, file.name, notes)
