"""Estimate: what a method gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dynident._util import hooks
from dynident.estimate.filter_result import FilterResult
from dynident.estimate.smoother_result import SmootherResult
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem
from dynident.solvers.solver_result import Iteration
from dynident.statistics.uncertainty import Uncertainty
from dynident.status import Status

if TYPE_CHECKING:
    from dynident.estimate.validation import Validation


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What the model does at the estimate, at the samples of one experiment."""

    experiment: str
    time: np.ndarray  # (samples,)
    states: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    modes: np.ndarray | None = None  # (samples,) text: the mode that holds from each sample on; None without modes


@dataclass(frozen=True)
class StartResult:
    """Where one of several starts began and ended; cost is infinite where it could not be fitted at all.

    `criterion` is what ends are ranked by: minus twice the log-likelihood, up to what all of them have in common. It is the
    cost itself where the noise is given, and unless said otherwise.
    """

    start: Mapping[str, float]
    values: Mapping[str, float]
    cost: float
    converged: bool
    status: Status
    criterion: float = np.nan

    def __post_init__(self) -> None:
        if np.isnan(self.criterion):
            object.__setattr__(self, "criterion", float("inf") if np.isnan(self.cost) else self.cost)
        object.__setattr__(self, "status", Status.from_text(self.status))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with their uncertainty, how they were found, and what the model does there."""

    problem: Problem
    method: Any  # the frozen option object that found it
    values: Mapping[str, float]  # estimated and held quantities by printed name
    uncertainty: Uncertainty
    converged: bool
    status: Status  # a sentence, with a code that a program can branch on
    cost: float  # sum of squared residuals, each divided by its std; with priors
    trajectories: tuple[Trajectory, ...]  # one per experiment
    residuals: tuple[Mapping[str, np.ndarray], ...]  # per experiment: measured - model, NaN where not measured
    noise_std: Mapping[str, float] = field(default_factory=dict)  # per output; mean where it varies; estimated or given
    notes: tuple[str, ...] = ()  # warnings and remarks, each a sentence, most important first
    history: tuple[Iteration, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # iterations, simulations, jacobians, ...
    times: Mapping[str, float] = field(default_factory=dict)  # seconds: compile, integrate, solve, ...
    statistics: Mapping[str, float] = field(default_factory=dict)  # aic, bic, chi2, dof, reduced_chi2, fit_<output>
    validations: tuple[Any, ...] = ()  # Validation objects made of this estimate
    starts: tuple[StartResult, ...] = ()  # all starts, where there were several
    filtered: FilterResult | None = None  # what was known at each sample, where the method goes along time
    smoothed: SmootherResult | None = None  # where the model errs, where the method lets it

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status.from_text(self.status))

    def __str__(self) -> str:
        return str(hooks.call("estimate_text", self))

    def _repr_html_(self) -> str:
        return str(hooks.call("estimate_html", self))

    def plot(self, **options: Any) -> Any:
        """Measured against fitted signals and residuals, as a matplotlib figure."""
        return hooks.call("estimate_figure", self, **options)

    def validate(self, experiment: Experiment) -> Validation:
        """Fit and residual tests on a record that was not fitted."""
        return cast("Validation", hooks.call("validate", self, experiment))

    def save(self, folder: str | Path) -> Path:
        """Write the result as data (JSON, CSV, Parquet, TOML, HTML) into a folder."""
        return Path(hooks.call("save", self, folder))
