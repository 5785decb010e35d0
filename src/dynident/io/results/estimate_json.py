"""What stands in estimate.json, and how an estimate gets there and back.

Everything of an estimate that is neither the problem (problem.toml) nor a signal (trajectories.parquet). Another format than
ours is refused, never guessed. `intervals` is there for other readers; ours uses `uncertainty`. `files` holds a checksum of
each file of the result and `checksums` one of each key of this one, so that what was damaged or edited is seen and named; a
checksum proves nothing about who wrote it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dynident import __version__
from dynident._util.codec import decode, encode, to_json
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.enclosure import Enclosure
from dynident.estimate.estimate import Estimate, Iteration, StageResult, StartResult, Trajectory, Validation
from dynident.estimate.filter_result import FilterCovariance
from dynident.estimate.robot_result import RobotResult
from dynident.io.results.signal_tables import WAY_OUT
from dynident.methods.presets import method_from
from dynident.problem.problem import Problem
from dynident.statistics.bootstrap_result import Bootstrap
from dynident.statistics.covariance import Covariance
from dynident.statistics.profile_likelihood import Profile
from dynident.statistics.uncertainty import LEVEL, Uncertainty
from dynident.statistics.verdict import Verdict
from dynident.status import Status

RESULT_FORMAT = 4
CHECKSUM_LENGTH = 32  # hexadecimal digits of SHA-256
IN_TABLES = ("trajectory", "residuals")  # of a validation: signals, too long for JSON

UNCERTAINTIES: Mapping[str, type[Uncertainty]] = {  # by the `kind` that stands beside their fields
    "bootstrap": Bootstrap, "covariance": Covariance, "enclosure": Enclosure, "profile": Profile,
    "filter_covariance": FilterCovariance}


@dataclass(frozen=True, eq=False)
class SavedIntervals:
    """Intervals of the unknowns, for readers who want no more."""

    level: float
    of: Mapping[str, tuple[float, float]]
    withheld: tuple[str, ...] = ()  # those that the verdict says mean nothing: the model does not describe the record


@dataclass(frozen=True, eq=False)
class SavedEstimate:
    """The content of estimate.json."""

    format: int
    verdict: Verdict  # for other readers; ours judges again
    converged: bool
    status: Status
    cost: float
    values: Mapping[str, float]
    intervals: SavedIntervals
    uncertainty: Mapping[str, Any]  # `kind`, and the fields of that class
    method: Mapping[str, Any]  # as a [method] table
    noise_std: Mapping[str, float]
    notes: tuple[str, ...]
    statistics: Mapping[str, float]
    counts: Mapping[str, int]
    times: Mapping[str, float]
    validations: tuple[Mapping[str, Any], ...]  # without their signals
    history: tuple[Iteration, ...]
    starts: tuple[StartResult, ...]
    stages: tuple[StageResult, ...]
    arrived_by: str
    believed: bool | None
    belief_reason: str
    problem_hash: str
    written_problem_hash: str
    versions: Mapping[str, str]
    files: Mapping[str, str]  # all others of the result, with their checksums
    checksums: Mapping[str, str]  # of each other key of this file
    problem_file: str = ""  # name of the user's file, if it came from one
    robot: RobotResult | None = None
    criterion: str = ""
    process_noise: Mapping[str, float] = field(default_factory=dict)
    input_noise: Mapping[str, float] = field(default_factory=dict)
    edited: tuple[str, ...] = field(default=(), metadata={"saved": False})  # keys whose checksums do not fit


def checksum(content: Path | Any) -> str:
    """Of a file, or of anything that JSON can hold."""
    data = content.read_bytes() if isinstance(content, Path) else json.dumps(content, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:CHECKSUM_LENGTH]


def to_text(estimate: Estimate, files: Mapping[str, str], written_problem_hash: str, problem_file: str = "") -> str:
    """The estimate as JSON; `files` are all other files of this result with their checksums.

    Two hashes: of the problem that was fitted, and of what a reader finds in the folder. They differ in what is not
    worth a warning, such as the type of a number.
    """
    intervals = {name: estimate.uncertainty.interval(name, LEVEL) for name in estimate.problem.names}
    withheld = tuple(name for name, ends in intervals.items()
                     if estimate.verdict.withholds_intervals and np.all(np.isfinite(ends)))
    data = encode(SavedEstimate(
        format=RESULT_FORMAT, verdict=estimate.verdict, converged=estimate.converged,
        status=estimate.status, cost=estimate.cost, values=estimate.values,
        intervals=SavedIntervals(LEVEL, {name: ends for name, ends in intervals.items() if name not in withheld}, withheld),
        uncertainty=_encode_uncertainty(estimate.uncertainty),
        method=method_data(estimate.method), noise_std=estimate.noise_std, notes=estimate.notes,
        statistics=estimate.statistics, counts=estimate.counts, times=estimate.times,
        validations=tuple(encode(validation, IN_TABLES) for validation in estimate.validations),
        history=estimate.history, starts=estimate.starts, stages=estimate.stages, arrived_by=estimate.arrived_by,
        believed=estimate.believed, belief_reason=estimate.belief_reason, problem_hash=estimate.problem.content_hash(),
        written_problem_hash=written_problem_hash, versions=versions(), files=files, checksums={},
        problem_file=problem_file, robot=estimate.robot, criterion=estimate.criterion, process_noise=estimate.process_noise,
        input_noise=estimate.input_noise))
    del data["checksums"]
    return to_json(data | {"checksums": {key: checksum(value) for key, value in data.items()}}) + "\n"


def read_saved(path: Path) -> SavedEstimate:
    """What the file says, checked."""
    try:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise ProblemError(f"{path} is no file that can be read: it is a folder, a pipe or a broken link. {WAY_OUT}")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProblemError(f"{path.parent} holds no result: there is no {path.name} in it. "
                           "A result is what `dynident fit --out` or estimate.save() writes.") from None
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ProblemError(f"{path} is damaged: it is not JSON ({error}). {WAY_OUT}") from error
    except RecursionError:
        raise ProblemError(f"{path} is damaged: its content is nested deeper than a result can be. {WAY_OUT}") from None
    if isinstance(data, dict):
        _check_format(path, data)
    saved = decode(SavedEstimate, data, str(path), WAY_OUT)
    return replace(saved, edited=tuple(  # type: ignore[no-any-return]
        key for key, value in data.items() if key != "checksums" and saved.checksums.get(key) != checksum(value)))


def check_unedited(saved: SavedEstimate, source: str) -> None:
    """Refuse what was changed by hand or by a fault of the disk, with the names of the keys."""
    if saved.edited:
        one = len(saved.edited) == 1
        raise ProblemError(f"{source} was changed after it was written: {', '.join(saved.edited)} "
                           f"{'does' if one else 'do'} not fit {'its checksum' if one else 'their checksums'}. {WAY_OUT}")


def check_against_problem(saved: SavedEstimate, uncertainty: Uncertainty, problem: Problem, source: str) -> None:
    """Values and intervals are those of the unknowns of the problem, in its order and of fitting shapes."""
    faults = [f"values: nothing is said of '{name}', an unknown of the problem." for name in problem.names
              if name not in saved.values]
    faults += [f"values.{name}: {value} is not a number that a fit can end at." for name, value in saved.values.items()
               if saved.converged and np.isnan(value) and not isinstance(uncertainty, Enclosure)]
    faults += [f"{key}.{name}: {value} is negative." for key in ("noise_std", "counts", "times")
               for name, value in getattr(saved, key).items() if value < 0]
    if tuple(uncertainty.names) != tuple(problem.names):
        faults.append(f"uncertainty.names: {', '.join(uncertainty.names)} where the problem has {', '.join(problem.names)}.")
    else:
        faults += _shape_faults(uncertainty, len(problem.names))
    if faults:
        raise ProblemError([f"{source} is damaged. {WAY_OUT}", *faults])


SHAPES: Mapping[type, Mapping[str, str]] = {  # n: unknowns; *: any number
    Covariance: {"values": "n", "matrix": "nn", "corrected": "nn", "corrected_dof": "n", "null_space": "n*"},
    FilterCovariance: {"mean": "n", "matrix": "nn", "coordinates": "n"},
    Bootstrap: {"estimated": "n", "samples": "*n"},
    Profile: {"estimated": "n"},
    Enclosure: {"low": "n", "high": "n", "outer": "2n*", "inner": "2n*", "last": "2n*"},
}


def _shape_faults(uncertainty: Uncertainty, count: int) -> list[str]:
    faults = []
    for name, letters in SHAPES.get(type(uncertainty), {}).items():
        value = getattr(uncertainty, name)
        if value is None:
            continue
        found, wanted = np.shape(value), tuple({"n": count, "2": 2}.get(letter) for letter in letters)
        empty = 0 in found and name in ("outer", "inner", "last")
        if not empty and (len(found) != len(wanted) or any(w not in (None, f) for f, w in zip(found, wanted, strict=True))):
            faults.append(f"uncertainty.{name}: its shape {found} does not fit {count} unknowns.")
        elif letters == "nn" and np.any(np.diagonal(value) < 0):
            faults.append(f"uncertainty.{name}: a variance in it is negative.")
    return faults


def _check_format(path: Path, data: Mapping[str, Any]) -> None:
    stated, made_with = data.get("format"), data.get("versions")
    writer = made_with.get("dynident", "?") if isinstance(made_with, dict) else "?"
    if "format" in data and (isinstance(stated, bool) or not isinstance(stated, int) or stated < 1):
        raise ProblemError(f"{path} is damaged: format: {stated!r} is not the number of a format. {WAY_OUT}")
    if isinstance(stated, int) and stated > RESULT_FORMAT:
        raise NotSupported(f"{path} was written in format {stated} by dynident {writer}; this is dynident "
                           f"{__version__}, which reads format {RESULT_FORMAT}. Update dynident to read it.")
    if isinstance(stated, int) and stated < RESULT_FORMAT:
        raise NotSupported(f"{path} was written in format {stated} by dynident {writer}; this is dynident "
                           f"{__version__}, which reads format {RESULT_FORMAT}. "
                           "Fit again: the problem lies in the same folder.")


def read_validations(saved: SavedEstimate, signals: Sequence[tuple[Trajectory, dict[str, np.ndarray]]], source: str
                     ) -> tuple[Validation, ...]:
    """The validations, with their signals put back."""
    return tuple(decode(Validation, data, source, WAY_OUT, residuals=residuals,
                        trajectory=replace(trajectory, experiment=str(data.get("experiment"))))
                 for data, (trajectory, residuals) in zip(saved.validations, signals, strict=True))


def read_uncertainty(saved: SavedEstimate, source: str) -> Uncertainty:
    kind = str(saved.uncertainty.get("kind"))
    if kind not in UNCERTAINTIES:
        raise NotSupported(f"{source} holds an uncertainty of kind '{kind}', which dynident "
                           f"{__version__} cannot read. Known: {', '.join(UNCERTAINTIES)}.")
    fields = {name: value for name, value in saved.uncertainty.items() if name != "kind"}
    return decode(UNCERTAINTIES[kind], fields, source, WAY_OUT)  # type: ignore[no-any-return]


def _encode_uncertainty(uncertainty: Uncertainty) -> dict[str, Any]:
    kinds = {made: kind for kind, made in UNCERTAINTIES.items()}
    if type(uncertainty) not in kinds:
        raise NotSupported(f"an uncertainty of type {type(uncertainty).__name__} cannot be saved yet.")
    return {"kind": kinds[type(uncertainty)], **encode(uncertainty)}


def method_data(method: Any) -> dict[str, Any]:
    """The options of a method as a [method] table: its kind and whatever was set."""
    return dict(method.options())


def read_method(saved: SavedEstimate) -> Any:
    return method_from(dict(saved.method))


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    return {"dynident": __version__, "casadi": version("casadi"), "numpy": version("numpy"),
            "python": platform.python_version()}
