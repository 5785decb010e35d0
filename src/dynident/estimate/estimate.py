"""Estimate: what a method gives back, and how well it predicts a record that it was not fitted to (validation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import data_frame, short_fields, short_text
from dynident.estimate.filter_result import FilterResult
from dynident.estimate.robot_result import BaseParameter, RobotResult
from dynident.estimate.smoother_result import SmootherResult
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem, given_std
from dynident.solvers.solver_result import Iteration
from dynident.statistics.residual_statistics import independent_share, lag_one
from dynident.statistics.residual_tests import (
    FEWEST_TESTED,
    ResidualTest,
    noise_as_fitted,
    noise_level,
    residual_tests,
    whiteness,
)
from dynident.statistics.uncertainty import Uncertainty
from dynident.statistics.verdict import Verdict
from dynident.status import Status


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States and outputs of the model at the samples of one experiment.

    See the manual, reference/results.

    Attributes
    ----------
    experiment : str
        Name of the record.
    time : array, (samples,)
        As in the record.
    states : mapping of str to array, (samples,)
        By name.
    outputs : mapping of str to array, (samples,)
        By name, without noise.
    modes : array of str, (samples,), or None
        The mode that holds from each sample on; None without modes.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> run = di.simulate(decay, {"k": 0.5, "x(0)": 1}, di.Experiment([0, 1, 2]))
    >>> print(run.outputs["x"].round(3))
    [1.    0.607 0.368]
    """

    experiment: str
    time: np.ndarray  # (samples,)
    states: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    modes: np.ndarray | None = None  # (samples,) text: the mode that holds from each sample on; None without modes

    def __repr__(self) -> str:
        return short_fields(self)


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


@dataclass(frozen=True)
class StageResult:
    """What one stage of the ladder took and where it ended; costs are minus twice the log-likelihood, NaN without an end."""

    stage: str
    jacobians: int  # simulations with sensitivities
    simulations: int
    cost: float  # of the best end of this stage
    best_cost: float  # of all stages so far
    believed: bool  # what the stage's best end leaves over is noise
    status: Status

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status.from_text(self.status))


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method gives back: values with their uncertainty, how they were found, and what the model does there.

    See the manual, reference/results.

    Attributes
    ----------
    problem : Problem
        What was asked.
    method : method
        The options by which it was found.
    values : mapping of str to float
        Estimated and fixed quantities by printed name: "M", "Fc[warm]", "q(0)".
    uncertainty : Uncertainty
        Answers `interval(name, level=0.95)`, `std(name)` and `meaning`; a `Covariance` for least-squares methods.
    converged : bool
        Whether an optimum was reached.
    status : Status
        A sentence, with a `code` that a program can branch on.
    cost : float
        Sum of squared residuals, each divided by its standard deviation, and of priors.
    trajectories : tuple of Trajectory
        One per experiment.
    residuals : tuple of mapping of str to array
        Per experiment: measured - model, NaN where nothing was measured.
    noise_std : mapping of str to float
        Standard deviation of the errors per output, given or estimated; the mean where it varies.
    notes : tuple of str
        Warnings and remarks, each a sentence, most important first.
    history : tuple of Iteration
        Cost, step and values of each iteration.
    counts : mapping of str to int
        Iterations, simulations, unknowns, ...
    times : mapping of str to float
        Seconds by part of the work.
    statistics : mapping of str to float
        chi2, dof, reduced_chi2, aic, aicc, bic, log_likelihood, and fit_<output> in percent.
    validations : tuple of Validation
        Those that were made with it.
    starts : tuple of StartResult
        All starts, where there were several.
    stages : tuple of StageResult
        Stages of `automatic`, in order.
    arrived_by : str
        The stage that ended here.
    believed : bool or None
        Whether this is taken for the right minimum, by what is left over; None where nobody asked.
    belief_reason : str
        Why, a sentence.
    filtered : FilterResult or None
        What was known at each sample, from a method that goes along time.
    smoothed : SmootherResult or None
        Smoothed states and model errors, from a method that estimates them.
    criterion : str
        "output error", "prediction error" or "errors in variables", where a method chooses one.
    process_noise : mapping of str to float
        By state or input: standard deviation of what disturbs the model in one second, given or found.
    input_noise : mapping of str to float
        By input: standard deviation of its sensor, given or found.
    robot : RobotResult or None
        Base parameters and what else torques say about an arm.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> low, high = estimate.uncertainty.interval("k")
    >>> print(f"k = {estimate.values['k']:.2f}, 95 % interval {low:.2f} to {high:.2f}")
    k = 0.50, 95 % interval 0.48 to 0.52
    """

    problem: Problem
    method: Any  # the frozen option object that found it
    values: Mapping[str, float]  # estimated and fixed quantities by printed name
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
    stages: tuple[StageResult, ...] = ()  # of the ladder, in order, where there was one
    arrived_by: str = ""  # the stage of the ladder that ended here
    believed: bool | None = None  # whether this is the right minimum, by what is left over; None: not asked
    belief_reason: str = ""  # why, in a sentence
    filtered: FilterResult | None = None  # what was known at each sample, where the method goes along time
    smoothed: SmootherResult | None = None  # where the model errs, where the method lets it
    criterion: str = ""  # "output error", "prediction error" or "errors in variables", where a method chooses one
    process_noise: Mapping[str, float] = field(default_factory=dict)  # by state or input: what disturbs, given or found
    input_noise: Mapping[str, float] = field(default_factory=dict)  # by input: std of its sensor, given or found
    robot: RobotResult | None = None  # what torques say about an arm

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status.from_text(self.status))

    def __str__(self) -> str:
        return str(hooks.call("estimate_text", self))

    def __repr__(self) -> str:
        return short_text(self)

    def _repr_html_(self) -> str:
        return str(hooks.call("estimate_html", self))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the model, with these values, describes the records: a grade and a sentence, made when first asked for."""
        return cast("Verdict", hooks.call("judge_estimate", self))

    def summary(self) -> str:
        """How the fit ended, one line per quantity and the fit per output: what fits on half a screen."""
        return str(hooks.call("estimate_summary", self))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """By printed name: value, std, low and high of the 95 % interval, unit, whether it was fixed, and a remark."""
        return cast("dict[str, dict[str, Any]]", hooks.call("estimate_dict", self))

    def to_pandas(self) -> Any:
        """The same as a DataFrame with one row per quantity; needs pandas."""
        return data_frame(self.to_dict())

    def plot(self, **options: Any) -> Any:
        """Measured against fitted signals and residuals, as a matplotlib figure."""
        return hooks.call("estimate_figure", self, **options)

    def open_loop_residuals(self) -> tuple[Mapping[str, np.ndarray], ...]:
        """Measured minus what the model does from its initial state with the inputs alone, per experiment.

        The same as `residuals` for a direct method that converged; those of a filter are of predictions, those of a smoother
        of a model that may err. Raises ProblemError where the model cannot be simulated at these values.
        """
        return cast("tuple[Mapping[str, np.ndarray], ...]", hooks.call("open_loop_residuals", self))

    def validate(self, experiment: Experiment) -> Validation:
        """Fit and residual tests on a record that was not fitted."""
        return cast("Validation", hooks.call("validate", self, experiment))

    @property
    def base(self) -> tuple[BaseParameter, ...]:
        """The combinations of a robot's parameters that its torques tell; empty for all else."""
        return () if self.robot is None else self.robot.base

    def to_urdf(self, path: str | Path) -> Path:
        """Write the robot with its estimated parameters; what URDF cannot hold goes into a TOML file beside it."""
        return Path(hooks.call("to_urdf", self, path))

    def save(self, folder: str | Path) -> Path:
        """Write the result as data (JSON, CSV, Parquet, TOML, HTML) into a folder."""
        return Path(hooks.call("save", self, folder))


@dataclass(frozen=True, eq=False)
class Validation:
    """How well a fitted model predicts a record that it was not fitted to.

    See the manual, start.

    Attributes
    ----------
    experiment : str
        Name of the record.
    fit : mapping of str to float
        Per output, in percent: 100 is perfect, 0 no better than the mean; NaN where the measured signal never moves.
    rmse : mapping of str to float
        Root mean square error per output, in its unit.
    tests : tuple of ResidualTest
        Noise level, whiteness, and correlation with the inputs.
    trajectory : Trajectory
        What the model does on this record.
    residuals : mapping of str to array
        Measured - model, NaN where nothing was measured.
    notes : tuple of str
        What the reader must know beside the numbers, as sentences.
    ahead : mapping of int to mapping of str to float
        Fit per output by the number of samples that are predicted ahead (1, 10, 100) from what a filter knew then; empty where
        the model has no filter. `fit` is that of a simulation of the whole record.
    attainable : mapping of str to float
        Fit per output that a perfect model reaches, given the noise of the record or of the fit; none where neither is known.
    verdict : Verdict or None
        Whether the model predicts this record: a grade and a sentence, with one for each output in its `parts`.
    predicted : bool
        Whether trajectory, residuals, tests and verdict are those of predictions from sample to sample, by the fit's filter.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> other = di.Experiment([0, 2, 4], outputs={"x": [2.0, 0.73, 0.28]}, name="other")
    >>> print(f"{estimate.validate(other).fit['x']:.0f} %")
    99 %
    """

    experiment: str
    fit: Mapping[str, float]  # per output, percent; NaN where the measured signal never moves
    rmse: Mapping[str, float]  # per output, in its unit
    tests: tuple[ResidualTest, ...]
    trajectory: Trajectory
    residuals: Mapping[str, np.ndarray]  # measured - model, NaN where not measured
    notes: tuple[str, ...] = ()  # what the reader must know beside the numbers, as sentences
    ahead: Mapping[int, Mapping[str, float]] = field(default_factory=dict)  # fit by samples predicted ahead, per output
    attainable: Mapping[str, float] = field(default_factory=dict)  # fit that errors as large as the noise leave, per output
    verdict: Verdict | None = None  # None: made by hand
    predicted: bool = False  # trajectory, residuals and tests are those of predictions from sample to sample

    def __post_init__(self) -> None:
        object.__setattr__(self, "ahead", {int(k): dict(by) for k, by in self.ahead.items()})  # text in a saved result

    @property
    def ahead_sentences(self) -> tuple[str, ...]:
        """Per output, how well it is predicted over some samples and over the whole record."""
        steps = {name: ", ".join(f"{by[name]:.2f} % over {k}" for k, by in self.ahead.items()) for name in self.fit}
        return tuple(f"{name}: predicted ahead {said} samples; {self.fit[name]:.2f} % simulated"
                     for name, said in steps.items() if said)

    def _allowed(self, name: str) -> str:
        return f" (the noise allows {self.attainable[name]:.2f} %)" if np.isfinite(self.attainable.get(name, np.nan)) else ""

    def __repr__(self) -> str:
        return short_text(self)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """By output: fit in percent and rms error in its unit."""
        return {name: {"fit": float(self.fit[name]), "rmse": float(self.rmse[name])} for name in self.fit}

    def to_pandas(self) -> Any:
        """The same as a DataFrame with one row per output; needs pandas."""
        return data_frame(self.to_dict())

    def __str__(self) -> str:
        lines = [str(self.verdict)] if self.verdict is not None else []
        lines += [f"{self.experiment}:"]
        lines += [f"  {name}: fit {self.fit[name]:.2f} %{self._allowed(name)}, rms error {self.rmse[name]:.4g}"
                  for name in self.fit]
        lines += [f"  {sentence}" for sentence in self.ahead_sentences]
        lines += [f"  {test}" for test in self.tests]
        lines += [f"  note {note}" for note in self.notes]
        return "\n".join(lines)


def validation_metrics(experiment: Experiment, trajectory: Trajectory, noise_std: Mapping[str, float], dof: float = np.inf
                       ) -> Validation:
    """Compare a record with what the model did on it.

    Where the record gives no noise level, its residuals are compared with the fit's `noise_std` per output (known with
    `dof` degrees of freedom, infinite where it was given), and judged by their own spread otherwise.
    """
    residuals = {name: np.asarray(y, float) - trajectory.outputs[name] for name, y in experiment.outputs.items()}
    tests: list[ResidualTest] = []
    inputs = {name: np.asarray(u, float) for name, u in experiment.inputs.items()}
    for name, residual in residuals.items():
        given = given_std(experiment, name)
        there = np.isfinite(residual)
        if given is not None and np.any(there):
            scaled = residual / given
            alike = 1.0 if whiteness(scaled).passed else independent_share(lag_one(scaled))
            tests.append(noise_level(float(np.nansum(scaled**2)), float(np.sum(there)), name, independent=alike))
        elif noise_std.get(name) and np.sum(there) >= FEWEST_TESTED:
            tests.append(noise_as_fitted(residual, noise_std[name], dof, name))
        tests += residual_tests(residual, name, given, inputs)
    return Validation(
        experiment=experiment.label, tests=tuple(tests), trajectory=trajectory, residuals=residuals,
        fit={name: fit_percent(np.asarray(y, float), trajectory.outputs[name])
             for name, y in experiment.outputs.items()},
        attainable=attainable_fit([experiment], noise_std),
        rmse={name: float(np.sqrt(np.nanmean(r**2))) if np.any(np.isfinite(r)) else np.nan
              for name, r in residuals.items()})


def attainable_fit(experiments: Sequence[Experiment], noise_std: Mapping[str, float]) -> dict[str, float]:
    """What the noise of the records, or else that of the fit, leaves of 100 %; at least 0, which the mean reaches."""
    found = {}
    for name in dict.fromkeys(name for e in experiments for name in e.outputs):
        holders = [e for e in experiments if name in e.outputs]
        measured = np.concatenate([np.asarray(e.outputs[name], float) for e in holders])
        stds = [given_std(e, name) for e in holders]
        std = np.concatenate([np.full(e.samples, noise_std.get(name, np.nan)) if given is None else given
                              for e, given in zip(holders, stds, strict=True)])
        there = np.isfinite(measured)
        swing = float(np.linalg.norm(measured[there] - np.mean(measured[there]))) if np.any(there) else 0.0
        if swing > 0 and np.all(np.isfinite(std[there])):
            found[name] = max(0.0, 100 * (1 - float(np.linalg.norm(std[there])) / swing))
    return found


def fit_percent(measured: np.ndarray, model: np.ndarray) -> float:
    """100 (1 - |measured - model| / |measured - mean|) over the samples present, as MATLAB's compare computes it.

    100 is perfect, 0 no better than the mean, negative worse; NaN where the measured signal never moves.
    """
    measured, model = np.asarray(measured, float), np.asarray(model, float)
    there = np.isfinite(measured)
    y = measured[there]
    swing = float(np.linalg.norm(y - np.mean(y))) if y.size else 0.0
    return 100 * (1 - float(np.linalg.norm(y - model[there])) / swing) if swing > 0 else np.nan
