"""How is a result kept on disk, as plain data?

A result is a folder: `estimate.json` (values, uncertainty, how they were found), `trajectories.parquet` and
`trajectories.csv` (the same table twice: one to load, one to look at), `validations.parquet` if there are any,
`problem.toml` with its data (as it was run), `parameters.ssv` where the model is an FMU, and `report.html`; from the
command line also `problem_as_given.toml`, the user's own file. Nothing in it is code. The files
replace those of an older result together, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynident._util.atomic import atomic_replace, atomic_write, finish_replacing
from dynident._util.lock import exclusive
from dynident.errors import DynidentError, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.io.results.estimate_json import method_data, read_saved, to_text
from dynident.io.results.export import parameter_set
from dynident.io.results.signal_tables import (
    estimate_table,
    filtered_table,
    smoothed_table,
    validation_table,
    write_csv,
    write_parquet,
)
from dynident.problem.model import nominal_values

ESTIMATE, PROBLEM, REPORT = "estimate.json", "problem.toml", "report.html"
TABLE, TABLE_TO_LOOK_AT = "trajectories.parquet", "trajectories.csv"
VALIDATIONS = "validations.parquet"
FILTERED, SMOOTHED = "filtered.parquet", "smoothed.parquet"
PARAMETERS = "parameters.ssv"
AS_GIVEN = "problem_as_given.toml"  # tells how the columns of the user's own records are called


def save(estimate: Estimate, folder: str | Path) -> Path:
    """Write the result into a folder of its own, in place of an older result; returns the folder."""
    with reserved(folder):
        return write(estimate, folder)


@contextmanager
def reserved(folder: str | Path) -> Iterator[None]:
    """Keep a folder for one result from the start of a fit to its end; refuses at once what would fail at the end."""
    folder = Path(folder)
    with exclusive(folder):
        finish_replacing(folder)
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if others and ESTIMATE not in others:
            some = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
            raise ProblemError(f"{folder} holds other files ({some}) and no result. Results want a folder of its own; "
                               "name a new or an empty one.")
        yield


def write(estimate: Estimate, folder: str | Path, as_given: bytes | None = None) -> Path:
    """The writing itself, for a caller who has reserved the folder; `as_given` is the problem file it came from.

    The report comes last and by itself: should it fail, the result is on disk.
    """
    folder = Path(folder)
    older = _files_of(folder)
    with atomic_replace(folder) as aside:
        write_problem(estimate.problem, method_data(estimate.method), aside / PROBLEM)
        table = estimate_table(estimate)
        write_parquet(table, aside / TABLE)
        write_csv(table, aside / TABLE_TO_LOOK_AT)
        if estimate.validations:
            write_parquet(validation_table(estimate.validations), aside / VALIDATIONS)
        if estimate.filtered is not None:
            write_parquet(filtered_table(estimate.filtered), aside / FILTERED)
        if estimate.smoothed is not None:
            write_parquet(smoothed_table(estimate.smoothed), aside / SMOOTHED)
        if nominal_values(estimate.problem.model):  # an FMU wants its parameters back
            (aside / PARAMETERS).write_bytes(parameter_set(estimate))
        if as_given is not None:
            (aside / AS_GIVEN).write_bytes(as_given)
        files = sorted([*(path.name for path in aside.iterdir()), ESTIMATE])
        (aside / ESTIMATE).write_text(to_text(estimate, files, _hash_of(aside / PROBLEM)), encoding="utf-8")
    for name in {*older, REPORT} - set(files):
        (folder / name).unlink(missing_ok=True)
    write_report(estimate, folder)
    return folder


def write_report(estimate: Estimate, folder: str | Path) -> Path:
    """The page of a result, made anew from the estimate."""
    from dynident.report import html  # plotly takes a while to import, and reading a result needs none of it

    page = Path(folder) / REPORT
    with atomic_write(page) as aside:
        html(estimate, aside)
    return page


def _hash_of(problem_file: Path) -> str:
    try:
        return read_problem(problem_file).problem.content_hash()
    except DynidentError:
        return ""  # the fit must not be lost for it; load() will say what is wrong with the file


def _files_of(folder: Path) -> tuple[str, ...]:
    """The files of the result that is there now, if there is one that can be read."""
    try:
        listed = read_saved(folder / ESTIMATE).files
    except DynidentError:
        return ()
    return tuple(name for name in listed if Path(name).name == name)  # a list that points elsewhere is not followed
