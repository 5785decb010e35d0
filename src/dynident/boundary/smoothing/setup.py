"""Setup: a problem and its weights as the problem that a smoother solves.

Parameters that may drift become states; weights of measurements become standard deviations, weights of the first state
become priors. What remains is an ordinary problem, and a weight per state for the model's errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.boundary.smoothing.correlation import (
    ErrorCorrelation,
    InitialWeight,
    correlated,
    correlation_faults,
    measured_together_faults,
)
from dynident.boundary.smoothing.method import BoundaryValueMethod
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.methods import noise_estimation
from dynident.methods.capabilities import check_supports
from dynident.methods.outer_loop import Listener
from dynident.methods.start_trajectory import StartTrajectory, start_trajectory
from dynident.models.augmented import disturbed_states
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian, Noise
from dynident.problem.parameter import InitialState, Parameter, Prior, Transforms
from dynident.problem.problem import Problem
from dynident.solvers.solver_result import SolverResult
from dynident.statistics.residual_tests import follows_data
from dynident.transcription.initial_guess import start_values
from dynident.transcription.objective import Objective

SAME_TIME = 1e-6  # of the longest interval; a shooting point this close to a sample is that sample
GAP = 3.0  # times the usual distance between two samples of a signal; beyond it something is missing
USUAL_ERROR = 0.01  # of a state's typical size: what unknown model errors add up to over a record where nothing is said


@dataclass(frozen=True, eq=False)
class SmoothingSetup:
    """The user's problem, the one that is solved in its place, and the weights of the model's errors."""

    problem: Problem
    method: BoundaryValueMethod
    inner: Problem
    weights: Mapping[str, float]  # W by state of the inner model, finite ones only
    drifting: tuple[str, ...]  # parameters that are states of the inner model
    initial_weight: InitialWeight  # of first values that go together
    report: Callable[..., object] = lambda *_: None  # is told of each iteration

    @property
    def correlation(self) -> ErrorCorrelation:
        """Which errors go together."""
        m = self.method
        return ErrorCorrelation(m.process_correlation, m.measurement_correlation, m.initial_correlation)

    @property
    def substeps(self) -> int | None:
        """Steps between two samples; None where they are to be found."""
        return None if self.method.substeps == "auto" else int(self.method.substeps)

    @functools.cached_property
    def first_noise_std(self) -> dict[str, float]:
        """Outputs of the inner problem whose std is estimated, and a first value."""
        return noise_estimation.initial_noise_std(self.inner)

    @functools.cached_property
    def listener(self) -> Listener:
        return Listener(self.report, tuple(self.place()))

    @property
    def weights_are_variances(self) -> bool:
        """All weights are inverse variances that were given."""
        return not self.first_noise_std and self.method.measurement_noise is None

    def expects(self, finite: WeakConstraintProblem, outcome: SolverResult) -> bool:
        """The weights are variances, and the sum of squares is not larger than these let expect."""
        return self.weights_are_variances and follows_data(
            outcome.evaluation.cost, finite.residual_count - len(finite.names))

    def transcribe(self, substeps: int, noise_std: Mapping[str, float]) -> WeakConstraintProblem:
        """The inner problem on a grid, in the user's coordinates."""
        return WeakConstraintProblem(self.inner, self.method.make_integrator(), substeps, noise_std, self.weights,
                                     self.correlation)

    def logarithmic(self, inner: Problem | None = None) -> Problem:
        """The inner problem, or one like it, with logarithms of parameters that are positive at the start and may stay so."""
        inner = inner or self.inner
        states = self.problem.model.states

        def positive(it: Parameter | InitialState) -> bool:
            parameter = isinstance(it, Parameter) or it.state not in states
            return parameter and it.free and it.start is not None and it.start > 0 and it.upper > 0

        return inner.replace(parameters=[replace(it, log=True) if positive(it) else it for it in inner.parameters])

    def begin(self, coordinates: Transforms) -> np.ndarray:
        """The user's start in coordinates of an attempt; where these are logarithms, without its signs."""
        start = start_values(self.inner)
        return coordinates.coordinates(np.where(coordinates.log, np.abs(start), start))

    def begin_along(self) -> StartTrajectory | None:
        """Where the user begins, with the states of the inner model; None where the record says it."""
        if self.method.initial_guess is None or isinstance(self.method.initial_guess, str):
            return None
        said = start_trajectory(self.method.initial_guess, self.problem)
        names = dict(zip(self.problem.names, (self.inner.unknowns[i].name for i in self.place()), strict=True))
        start = dict(zip(self.problem.names, start_values(self.problem), strict=True))
        still = {u.quantity: float(said.values.get(u.name, start[u.name])) for u in self.problem.unknowns
                 if u.quantity in self.drifting}
        states = [np.column_stack([course, *(np.full(len(course), still[name]) for name in self.drifting)])
                  for course in said.states]
        return StartTrajectory({names[n]: v for n, v in said.values.items() if n in names}, said.times, states)

    def place(self) -> np.ndarray:
        """Index of each unknown of the user's problem among those of the inner one."""
        inner = {(u.quantity, u.experiments): i for i, u in enumerate(self.inner.unknowns)}
        return np.array([inner[u.quantity, u.experiments] for u in self.problem.unknowns], dtype=int)

    def printed(self) -> list[str]:
        """The names of the inner unknowns as the user knows them."""
        own = {(u.quantity, u.experiments): u.name for u in self.problem.unknowns}
        return [own[u.quantity, u.experiments] for u in self.inner.unknowns]


def setup_of(method: BoundaryValueMethod, problem: Problem) -> SmoothingSetup:
    """Resolve every default; all faults of names are listed at once."""
    check_supports(problem, method.kind, method.capabilities)
    _refuse_several(method, len(problem.experiments))
    model = problem.model
    assert isinstance(model, EquationModel)
    free = tuple(p.name for p in problem.parameters if isinstance(p, Parameter) and p.free)
    faults = _name_faults(method, problem, free)
    if faults:
        raise ProblemError(faults)
    factor = method.weight_factor
    weights = {name: w * factor if name in model.states else w for name, w in model_weights(method, problem).items()}
    drifting = tuple(name for name in free if np.isfinite(weights.get(name, np.inf)))
    augmented = with_parameters_as_states(model, drifting)
    experiments = [_weighted(method, e) for e in problem.experiments]
    parameters = _declared(method, problem, drifting)
    inner = problem.replace(model=augmented, experiments=experiments, parameters=parameters, process_noise={})
    finite = {n: w for n, w in weights.items() if np.isfinite(w)}
    faults = correlation_faults("process_correlation", method.process_correlation, [n for n in model.states if n in finite],
                                "state with process noise")
    if faults:
        raise ProblemError(faults)
    first = InitialWeight.of(method.initial_correlation, method.initial_noise, _starts(problem))
    return SmoothingSetup(problem, method, first.measured_at_begin(inner), finite, drifting, first)


def _starts(problem: Problem) -> dict[str, float]:
    """Start values by state or parameter, where they are given."""
    return {it.name if isinstance(it, Parameter) else it.state: float(it.start) for it in problem.parameters
            if it.start is not None}


def with_parameters_as_states(model: EquationModel, names: Sequence[str]) -> EquationModel:
    """The augmented state of (3.3): the named parameters stand behind the states, and stand still."""
    return _augmented(model, tuple(names)) if names else model


@functools.lru_cache(maxsize=32)
def _augmented(model: EquationModel, names: tuple[str, ...]) -> EquationModel:
    """Kept for the next fit of the same model, whose reading it would be."""
    said = model.definition()
    said["states"] = {**said["states"], **dict.fromkeys(names, "0")}
    said["parameters"] = [name for name in said["parameters"] if name not in names]
    return EquationModel.from_definition(said)


def _refuse_several(method: BoundaryValueMethod, experiments: int) -> None:
    """One boundary value problem has one time."""
    if experiments > 1 and method.refine:
        raise NotSupported(f"refine = true solves the boundary value problem of one experiment, but there are "
                           f"{experiments}. Leave refine out: the smoother takes any number.")
    if experiments > 1 and method.solver != "smoother":
        raise NotSupported(f"solver = \"{method.solver}\" takes one experiment, but there are {experiments}: one "
                           "boundary value problem has one time. Use solver=\"smoother\", which takes any number.")


def _name_faults(method: BoundaryValueMethod, problem: Problem, free: tuple[str, ...]) -> list[str]:
    model, known = problem.model, (*problem.model.states, *free)
    faults = []
    for option in ("process_noise", "initial_noise"):
        said = getattr(method, option)
        for name in said if isinstance(said, Mapping) else ():
            if name in model.parameters and name not in free:
                faults.append(f"{option} names '{name}', which is fixed (free=False); let it free, or leave it out.")
            elif name not in known:
                faults.append(f"{option} names '{name}', which is neither a state nor a parameter."
                              f"{did_you_mean(name, known)}")
    if isinstance(method.measurement_noise, Mapping):
        faults += [f"measurement_noise names '{name}', which is not an output.{did_you_mean(name, model.outputs)}"
                   for name in method.measurement_noise if name not in model.outputs]
        seen = {name for e in problem.experiments for name in e.outputs}
        faults += [f"measurement_noise says nothing about the measured output '{name}'; add it, or give one number for all."
                   for name in sorted(seen - set(method.measurement_noise))]
    measured = tuple(dict.fromkeys(name for e in problem.experiments for name in e.outputs))
    faults += correlation_faults("measurement_correlation", method.measurement_correlation, measured, "measured output")
    faults += measured_together_faults(problem.experiments, method.measurement_correlation,
                                       method.measurement_noise is not None)
    faults += correlation_faults("initial_correlation", method.initial_correlation, tuple(method.initial_noise),
                                 "name in initial_noise")
    if method.initial_correlation:
        faults += [f"initial_correlation: {e.label} has no sample at its start, t = {e.start:g}; leave it out."
                   for e in problem.experiments if e.start < e.time[0]]
    if method.shooting_points is not None:
        shooting_nodes(np.asarray(problem.experiments[0].time, dtype=float), method.shooting_points, faults)
    for name in method.initial_noise:
        declared = next((p for p in problem.parameters if name == (p.name if isinstance(p, Parameter) else p.state)), None)
        if declared is not None and declared.prior is not None:
            faults.append(f"initial_noise and a prior both speak of '{name}'; keep one of the two.")
        if name in model.states:
            if any(name in e.initial for e in problem.experiments) or (declared is not None and not declared.free):
                faults.append(f"initial_noise names '{name}', whose initial value is known; leave it out.")
            elif declared is None or declared.start is None:
                faults.append(f"initial_noise of '{name}' pulls towards a start value that is not given; add "
                              f"InitialState('{name}', start=...).")
    return faults


def shooting_nodes(time: np.ndarray, said: int | Sequence[float] | None, faults: list[str]) -> np.ndarray:
    """Nodes at which segments begin, and the last one; the first is one of them whatever is said."""
    last = len(time) - 1
    if said is None:
        return np.arange(len(time))
    if isinstance(said, (int, np.integer)):
        if said > last:
            faults.append(f"shooting_points = {said}, but the record has {last} intervals.")
        return np.unique(np.round(np.linspace(0, last, min(int(said), last) + 1)).astype(int))
    wanted = np.asarray(said, dtype=float)
    near = np.clip(np.searchsorted(time, wanted), 0, last)
    near = np.where((near > 0) & (np.abs(time[np.maximum(near - 1, 0)] - wanted) < np.abs(time[near] - wanted)), near - 1, near)
    off = np.abs(time[near] - wanted) > SAME_TIME * np.max(np.diff(time), initial=0.0)
    faults += [f"shooting_points names t = {t:g}, which is no time of a sample." for t in wanted[off]]
    return np.union1d([0, last], near)


def model_weights(method: BoundaryValueMethod, problem: Problem) -> dict[str, float]:
    """W by state, and by parameter where one may drift: 1/variance, infinite where there is no process noise."""
    states, said = problem.model.states, method.process_noise
    if said is not None:
        given = said if isinstance(said, Mapping) else dict.fromkeys(states, said)
        return {name: 1 / float(std) ** 2 if std > 0 else np.inf for name, std in given.items()}
    stated = {name: noise.std for name, noise in problem.process_noise.items()}
    scale = Objective(problem.replace(process_noise={})).state_scale
    longest = max(float(e.time[-1] - e.time[0]) for e in problem.experiments)
    usual = {name: longest / (USUAL_ERROR * scale[states.index(name)]) ** 2 if longest > 0 else np.inf
             for name in stated or disturbed_states(problem.model)}
    return {name: weight if (std := stated.get(name)) is None else 1 / float(np.asarray(std)) ** 2
            for name, weight in usual.items()}


def _weighted(method: BoundaryValueMethod, experiment: Experiment) -> Experiment:
    """The record with the standard deviations of `measurement_noise`; by its share of time where the integral counts."""
    levels: dict[str, Noise] = {}
    for name, given in dict(experiment.noise).items():
        if method.measurement_noise is not None:
            share = shares(experiment, name) if method.measurements == "continuous" else np.ones(experiment.samples)
            levels[name] = Gaussian(method.measurement_std(name) / np.sqrt(share))
        elif method.measurements == "continuous":
            raise ProblemError("measurements = \"continuous\" weighs the integral over time, for which the std of a sample "
                               "says nothing; give measurement_noise too.")
        else:
            levels[name] = given
    return replace(experiment, noise=levels)


def stretches(time: np.ndarray) -> np.ndarray:
    """Which intervals between the samples of one signal belong to its course; where several are missing, none is known."""
    gaps = np.diff(time)
    return gaps <= GAP * np.median(gaps) if gaps.size else np.zeros(0, bool)


def shares(experiment: Experiment, output: str) -> np.ndarray:
    """By the trapezoidal rule, the time that each sample of a signal stands for; 1 where there is no interval beside it.

    The signal's own samples count: others, that are there for other signals, do not make it less.
    """
    seen = np.flatnonzero(np.isfinite(experiment.outputs[output]))
    time, found = np.asarray(experiment.time, dtype=float)[seen], np.ones(experiment.samples)
    half = np.where(stretches(time), np.diff(time), 0.0) / 2
    own = np.append(half, 0.0) + np.append(0.0, half)
    found[seen] = np.where(own > 0, own, 1.0 if time.size < 2 else 2 * np.median(half))
    return found


def _declared(method: BoundaryValueMethod, problem: Problem, drifting: tuple[str, ...]) -> list[Parameter | InitialState]:
    """Parameters and initial states of the inner problem, with `initial_noise` as priors."""
    found: list[Parameter | InitialState] = []
    for it in problem.parameters:
        name = it.name if isinstance(it, Parameter) else it.state
        if name in method.initial_noise and name not in correlated(method.initial_correlation):
            it = replace(it, prior=Prior(float(it.start), float(method.initial_noise[name])))  # type: ignore[arg-type]
        if isinstance(it, Parameter) and name in drifting:
            it = InitialState(name, it.start, it.lower, it.upper, it.scale, it.log, it.unit, True, it.shared, it.prior)
        found.append(it)
    return found
