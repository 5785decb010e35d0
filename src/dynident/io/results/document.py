"""What stands in estimate.json, and how an estimate gets there and back.

Everything of an estimate that is neither the problem (problem.toml) nor a signal (trajectories.parquet). A newer
format than ours is refused, never guessed. `intervals` is there for other readers; ours uses `uncertainty`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from dynident import __version__
from dynident._util.plain import to_json
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.enclosure import Enclosure
from dynident.estimate.estimate import Estimate, Iteration, StartResult, Trajectory
from dynident.estimate.filter_covariance import FilterCovariance
from dynident.estimate.validation import Validation
from dynident.statistics.bootstrap_result import Bootstrap
from dynident.statistics.covariance import Covariance
from dynident.statistics.profile_likelihood import Profile
from dynident.statistics.uncertainty import Uncertainty

FORMAT = 1
LEVEL = 0.95  # of the intervals that are written for other readers
KEPT_IN_TABLES = ("trajectory", "residuals")  # of a validation: signals, too long for JSON
WAY_OUT = "Take the folder from a backup, or fit again."

UNCERTAINTIES: dict[str, Any] = {  # by the `kind` in their data
    "bootstrap": Bootstrap, "covariance": Covariance, "enclosure": Enclosure, "profile": Profile,
    "state_covariance": FilterCovariance}


class Step(BaseModel):
    """One `Iteration`."""

    number: int
    cost: float
    step: float
    mismatch: float
    values: tuple[float, ...]


class Start(BaseModel):
    """One `StartResult`."""

    start: dict[str, float]
    values: dict[str, float]
    cost: float
    converged: bool
    status: str
    criterion: float = math.nan  # results of older versions have none


class Saved(BaseModel):
    """The content of estimate.json; texts such as "inf" are read as the numbers they stand for."""

    format: int
    values: dict[str, float]
    uncertainty: dict[str, Any]
    converged: bool
    status: str
    cost: float
    method: dict[str, Any]
    noise_std: dict[str, float]
    notes: tuple[str, ...]
    statistics: dict[str, float]
    counts: dict[str, int]
    times: dict[str, float]
    validations: tuple[dict[str, Any], ...]
    history: tuple[Step, ...]
    starts: tuple[Start, ...] = ()
    problem_hash: str
    written_problem_hash: str
    versions: dict[str, str]
    files: tuple[str, ...]


def to_text(estimate: Estimate, files: Sequence[str], written_problem_hash: str) -> str:
    """The estimate as JSON; `files` are the names of all files of this result.

    Two hashes: of the problem that was fitted, and of what a reader finds in the folder. They differ in what is not
    worth a warning, such as the type of a number.
    """
    intervals = {name: estimate.uncertainty.interval(name, LEVEL) for name in estimate.problem.names}
    return to_json({
        "format": FORMAT,
        "converged": estimate.converged, "status": estimate.status, "cost": estimate.cost,
        "values": estimate.values, "intervals": {"level": LEVEL, "of": intervals},
        "uncertainty": _uncertainty_data(estimate.uncertainty), "method": method_data(estimate.method),
        "noise_std": estimate.noise_std, "notes": estimate.notes, "statistics": estimate.statistics,
        "counts": estimate.counts, "times": estimate.times,
        "validations": [_validation_data(validation) for validation in estimate.validations],
        "history": [dataclasses.asdict(iteration) for iteration in estimate.history],
        "starts": [dataclasses.asdict(start) for start in estimate.starts],
        "problem_hash": estimate.problem.content_hash(), "written_problem_hash": written_problem_hash,
        "versions": versions(), "files": files}) + "\n"


def read_saved(path: Path) -> Saved:
    """What the file says, checked."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProblemError(f"{path.parent} holds no result: there is no {path.name} in it. "
                           "A result is what `dynident fit --out` or estimate.save() writes.") from None
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ProblemError(f"{path} is damaged: it is not JSON ({error}). {WAY_OUT}") from error
    stated = data.get("format") if isinstance(data, dict) else None
    if isinstance(stated, int) and stated > FORMAT:
        writer = data.get("versions", {}).get("dynident", "a later version")
        raise NotSupported(f"{path} was written in format {stated} by dynident {writer}; this is dynident "
                           f"{__version__}, which reads up to format {FORMAT}. Update dynident to read it.")
    try:
        return Saved.model_validate(data)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}" for fault in error.errors()]
        raise ProblemError([f"{path} is damaged. {WAY_OUT}", *faults]) from error


def starts_of(saved: Saved) -> tuple[StartResult, ...]:
    return tuple(StartResult(**start.model_dump()) for start in saved.starts)


def history_of(saved: Saved) -> tuple[Iteration, ...]:
    return tuple(Iteration(**step.model_dump()) for step in saved.history)


def _validation_data(validation: Validation) -> dict[str, Any]:
    return {key: value for key, value in validation.to_data().items() if key not in KEPT_IN_TABLES}


def validations_of(saved: Saved, signals: Sequence[tuple[Trajectory, dict[str, np.ndarray]]]) -> tuple[Validation, ...]:
    """The validations, with their signals put back."""
    def whole(data: dict[str, Any], trajectory: Trajectory, residuals: dict[str, np.ndarray]) -> Validation:
        named = dataclasses.replace(trajectory, experiment=data["experiment"])
        return Validation.from_data({**data, "trajectory": vars(named), "residuals": residuals})

    return tuple(whole(data, *its) for data, its in zip(saved.validations, signals, strict=True))


def uncertainty_of(saved: Saved) -> Uncertainty:
    kind = saved.uncertainty.get("kind")
    if kind not in UNCERTAINTIES:
        raise NotSupported(f"this result holds an uncertainty of kind '{kind}', which dynident "
                           f"{__version__} cannot read. Known: {', '.join(UNCERTAINTIES)}.")
    return UNCERTAINTIES[kind].from_data(saved.uncertainty)


def _uncertainty_data(uncertainty: Any) -> dict[str, Any]:
    if not hasattr(uncertainty, "to_data"):
        raise NotSupported(f"an uncertainty of type {type(uncertainty).__name__} cannot be saved yet.")
    return uncertainty.to_data()


def method_data(method: Any) -> dict[str, Any]:
    """The options of a method as a [method] table: its kind and whatever was set."""
    return method.options()


def method_of(saved: Saved) -> Any:
    from dynident.methods.presets import method_from

    return method_from(saved.method)


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    return {"dynident": __version__, "casadi": version("casadi"), "numpy": version("numpy"),
            "python": platform.python_version()}
