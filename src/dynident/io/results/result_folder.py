"""Result folder: how is a result kept on disk, as plain data, and how does it become an estimate again without a new fit?

A result is a folder: `estimate.json` (values, uncertainty, how they were found), `trajectories.parquet` and
`trajectories.csv` (the same table twice: one to load, one to look at), `validations.parquet` if there are any,
`problem.toml` with its data (as it was run), `parameters.ssv` where the model is an FMU, and `report.html`; from the
command line also `problem_as_given.toml`, the user's own file. Nothing in it is code. The files
replace those of an older result together, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dynident._util.atomic import atomic_replace, atomic_write, exclusive, finish_replacing, is_half_replaced
from dynident.errors import DynidentError, ProblemError
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.fmu.model import KIND as FMU
from dynident.io.problem_file.read import read_problem, write_problem
from dynident.io.results.estimate_json import (
    SavedEstimate,
    check_against_problem,
    check_unedited,
    checksum,
    method_data,
    read_method,
    read_saved,
    read_uncertainty,
    read_validations,
    to_text,
)
from dynident.io.results.export import parameter_set
from dynident.io.results.signal_tables import (
    WAY_OUT,
    estimate_table,
    filtered_table,
    read_filtered,
    read_signals,
    read_smoothed,
    smoothed_table,
    validation_table,
    write_csv,
    write_parquet,
)
from dynident.models.equations import KIND as EQUATIONS
from dynident.problem.problem import Problem

ESTIMATE, PROBLEM, REPORT = "estimate.json", "problem.toml", "report.html"
AGAIN = {EQUATIONS: f"dynident fit {PROBLEM} --out again",  # by kind of the model: what makes the result again, in its folder
         FMU: f"dynident fit {PROBLEM} --out again --allow-code"}
TABLE, TABLE_TO_LOOK_AT = "trajectories.parquet", "trajectories.csv"
VALIDATIONS = "validations.parquet"
FILTERED, SMOOTHED = "filtered.parquet", "smoothed.parquet"
PARAMETERS = "parameters.ssv"
AS_GIVEN = "problem_as_given.toml"  # tells how the columns of the user's own records are called


def save(estimate: Estimate, folder: str | Path) -> Path:
    """Write the result into a folder of its own, in place of an older result; returns the folder."""
    with reserve_folder(folder):
        return write(estimate, folder)


@contextmanager
def reserve_folder(folder: str | Path) -> Iterator[None]:
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


def write(estimate: Estimate, folder: str | Path, as_given: bytes | None = None, problem_file: str = "") -> Path:
    """The writing itself, for a caller who has reserved the folder; `as_given` is the problem file it came from, by its name.

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
        if estimate.problem.model.nominal_values:  # an FMU wants its parameters back
            (aside / PARAMETERS).write_bytes(parameter_set(estimate))
        if as_given is not None:
            (aside / AS_GIVEN).write_bytes(as_given)
        files = {path.name: checksum(path) for path in sorted(aside.iterdir())}
        (aside / ESTIMATE).write_text(to_text(estimate, files, _hash_of(aside / PROBLEM), problem_file), encoding="utf-8")
    for name in {*older, REPORT} - {*files, ESTIMATE}:
        (folder / name).unlink(missing_ok=True)
    write_report(estimate, folder, problem_file)
    return folder


def write_report(estimate: Estimate, folder: str | Path, problem_file: str | None = None) -> Path:
    """The page of a result, made anew from the estimate; a model without a name has that of the problem file in the heading."""
    from dynident.report import html  # takes a while to import, and reading a result needs none of it

    page = Path(folder) / REPORT
    file = read_saved(Path(folder) / ESTIMATE).problem_file if problem_file is None else problem_file
    model = estimate.problem.model.definition()
    with atomic_write(page) as aside:
        html(estimate, aside, name=str(model.get("name") or file), command=AGAIN.get(model.get("kind", ""), ""))
    return page


def _hash_of(problem_file: Path) -> str:
    try:
        return read_problem(problem_file, allow_code=True).problem.content_hash()  # which we wrote a moment ago
    except DynidentError:
        return ""  # the fit must not be lost for it; load() will say what is wrong with the file


def _files_of(folder: Path) -> tuple[str, ...]:
    """The files of the result that is there now, if there is one that can be read."""
    try:
        listed = read_saved(folder / ESTIMATE).files
    except DynidentError:
        return ()
    return tuple(name for name in listed if Path(name).name == name)  # a list that points elsewhere is not followed


def load(folder: str | Path, *, allow_code: bool | Sequence[str] = False) -> Estimate:
    """The estimate as `estimate.save` wrote it; nothing is simulated.

    See the manual, reference/results.

    Parameters
    ----------
    folder : str or Path
        Of one result.
    allow_code : bool or sequence of str, default False
        Whether the model may be code that lies in the folder, an FMU say; a result that somebody sent is data otherwise. Or
        the SHA-256 checksums (hexadecimal) of the files that may.

    Returns
    -------
    Estimate
        Equal to the saved one to the last bit; a note says so where its problem was changed since.

    Raises
    ------
    ProblemError
        For a folder without a result, or with one that was damaged or edited: the file and the key are named.
    NotSupported
        For a result in another version of the format.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> di.load(estimate.save("results")).values == estimate.values
    True
    """
    folder = Path(folder)
    if is_half_replaced(folder):
        with exclusive(folder):
            finish_replacing(folder)
    source = str(folder / ESTIMATE)
    saved = read_saved(folder / ESTIMATE)
    uncertainty = read_uncertainty(saved, source)
    check_unedited(saved, source)
    _check_files(folder, saved)
    problem = read_problem(folder / PROBLEM, allow_code=allow_code).problem
    check_against_problem(saved, uncertainty, problem, source)
    signals = read_signals(folder / TABLE, {e.name: tuple(e.outputs) for e in problem.experiments})
    _check_rows(folder / TABLE, signals, problem)
    validated = {str(k): tuple(data.get("fit") or ()) for k, data in enumerate(saved.validations)}
    validation_signals = read_signals(folder / VALIDATIONS, validated) if validated else []
    return Estimate(
        problem=problem, method=read_method(saved), values=saved.values, uncertainty=uncertainty,
        converged=saved.converged, status=saved.status, cost=saved.cost,
        trajectories=tuple(trajectory for trajectory, _ in signals),
        residuals=tuple(residuals for _, residuals in signals), noise_std=saved.noise_std,
        notes=_notes(saved, problem), history=saved.history, starts=saved.starts, stages=saved.stages,
        arrived_by=saved.arrived_by, believed=saved.believed, belief_reason=saved.belief_reason, counts=saved.counts,
        times=saved.times, statistics=saved.statistics, robot=saved.robot,
        criterion=saved.criterion, process_noise=saved.process_noise, input_noise=saved.input_noise,
        validations=read_validations(saved, validation_signals, source),
        filtered=read_filtered(folder / FILTERED) if FILTERED in saved.files else None,
        smoothed=read_smoothed(folder / SMOOTHED) if SMOOTHED in saved.files else None)


def _check_files(folder: Path, saved: SavedEstimate) -> None:
    """All files of the result are there and hold what was written; problem and records may be edited, which is noted."""
    outside = [name for name in saved.files if Path(name).name != name]
    missing = [name for name in saved.files if name not in outside and not os.path.isfile(folder / name)]
    if outside or missing:
        name = ", ".join(missing or outside)
        raise ProblemError(f"the result in {folder} is not complete: {name} {'is' if len(missing or outside) == 1 else 'are'} "
                           f"{'missing' if missing else 'not of this folder'}. {WAY_OUT}")
    for name in (PROBLEM, TABLE):
        if name not in saved.files:
            raise ProblemError(f"{folder / ESTIMATE} is damaged: files does not name {name}. {WAY_OUT}")
    for name, stated in saved.files.items():
        if not _is_editable(name) and checksum(folder / name) != stated:
            raise ProblemError(f"{folder / name} was changed after it was written: its checksum is not the one that {ESTIMATE} "
                               f"states (files.{name}). {WAY_OUT}")


def _check_rows(table: Path, signals: Sequence[tuple[Trajectory, Mapping[str, np.ndarray]]], problem: Problem) -> None:
    for (trajectory, _), experiment in zip(signals, problem.experiments, strict=True):
        if len(trajectory.time) != len(experiment.time):
            raise ProblemError(f"{table} has {len(trajectory.time):,} rows of {experiment.name} where its record has "
                               f"{len(experiment.time):,} samples: one of them was changed after the fit. {WAY_OUT}")


def _is_editable(name: str) -> bool:
    """The problem with its records, and the user's own file: they are read with their own checks and compared by content."""
    return name in (PROBLEM, AS_GIVEN) or (name.startswith(f"{Path(PROBLEM).stem}.") and name.endswith(".csv"))


def _notes(saved: SavedEstimate, problem: Problem) -> tuple[str, ...]:
    if problem.content_hash() in (saved.problem_hash, saved.written_problem_hash):
        return saved.notes
    return (f"The problem beside this result ({PROBLEM} or its data) is not the one that was fitted: it was changed "
            "after the fit. Values and intervals belong to the older problem.", *saved.notes)
