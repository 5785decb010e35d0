"""Least squares on simulations alone, for models that show no equations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dynident.black_box.evaluation_cache import EvaluationCache
from dynident.black_box.finite_differences import SEED
from dynident.black_box.setup import BlackBoxProblem, SimulatorIntegrator
from dynident.errors import DynidentError, ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import FiniteProblem, ResidualJacobian, Variables
from dynident.methods import noise_estimation
from dynident.methods.capabilities import Capabilities, Support, check_supports
from dynident.methods.direct import (
    check_integrator,
    constrained_solver,
    fit,
    loss_option,
    max_iterations_option,
    substeps_option,
    with_iterations,
)
from dynident.methods.method import Method
from dynident.methods.options import check_options, documented, is_whole, known_integrator, option
from dynident.methods.substeps import choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.solver_result import Solver
from dynident.transcription.simulators import declared_names, simulator_for

FAILED_COST = 1e6  # times the cost at the start: what a failed simulation counts in the global search
MAX_MEMBERS_PER_UNKNOWN = 10  # of the searching population, where evaluations allow
MIN_MEMBERS_PER_UNKNOWN = 4  # per unknown
MIN_GENERATIONS = 5  # evaluations are spent on that many rather than on more members


def search_effort(name: str, value: Any) -> list[str]:
    good = is_whole(value) and value >= 0
    return [] if good else [f"{name} = {value!r}; give a number of simulations, or 0 for no search."]


@documented
@dataclass(frozen=True)
class LeastSquares(Method):
    """Simulations and finite differences only: for FMUs, and for any model as a check; optionally after a global search.

    See the manual, methods/least_squares.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem, di.least_squares()).values['k']:.2f}")
    0.50
    """

    global_search: int = option(0, "Simulations to spend on a global search between the bounds before; 0: none.", search_effort)
    integrator: str = option("runge_kutta", "For models with equations; an FMU brings its own.", known_integrator)
    substeps: int | str = substeps_option()
    loss: str = loss_option()
    max_iterations: int = max_iterations_option()
    kind: ClassVar[str] = "least_squares"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(black_boxes=Support.YES, hybrid_models=Support.YES, models_without_states=Support.YES,
                            constraints=Support.YES, robust_losses=Support.YES, nonlinear_algebraic_variables=Support.YES,
                            instead={"state_bounds": "full_discretization() on equations, which hands them to Ipopt"})

    @property
    def simulation_integrator(self) -> str:
        return self.integrator

    def objective_key(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def check_supports(self, problem: Problem) -> None:
        check_supports(problem, self.kind, self.capabilities)
        if isinstance(problem.model, EquationModel):  # an FMU brings its own
            check_integrator(problem, integrator_named(self.integrator))
        if self.global_search:
            _refuse_open_bounds(problem)

    def for_initial_states(self, least_iterations: int) -> Method | None:
        return with_iterations(self, least_iterations)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        began = time.perf_counter()
        given = BlackBoxTranscription.of(self, problem, executor)
        start, notes = search_globally(given) if self.global_search else (given, ())
        searched = time.perf_counter() - began
        estimate = fit(start, problem, report)
        again, more = recheck_derivatives(start, estimate)
        if again is not None:
            estimate = fit(again, problem, report)
        counts = {**estimate.counts, "simulations": given.cache.simulations}
        times = {**estimate.times, "fit": estimate.times["fit"] + searched}
        return replace(estimate, method=self, counts=counts, times=times,
                       notes=(*estimate.notes, *notes, *more, *given.cache.notes))


@dataclass(frozen=True, eq=False)
class BlackBoxTranscription:
    """One way to fit a problem: its options, what has been simulated so far, and from where to begin."""

    method: LeastSquares
    problem: Problem
    cache: EvaluationCache
    start_values: tuple[float, ...] | None = None  # None: those of the problem

    @classmethod
    def of(cls, method: LeastSquares, problem: Problem, executor: Executor | None = None) -> BlackBoxTranscription:
        simulator = simulator_for(problem.model, method.integrator, declared_names(problem))
        return cls(method, problem, EvaluationCache(problem, simulator, executor))

    def with_start(self, values: np.ndarray) -> BlackBoxTranscription:
        return replace(self, start_values=tuple(float(v) for v in values))

    @property
    def loss(self) -> str:
        return self.method.loss

    @property
    def max_iterations(self) -> int:
        return self.method.max_iterations

    @property
    def substeps(self) -> int | str:
        return self.method.substeps

    def make_integrator(self) -> Any:
        return SimulatorIntegrator(self.cache.simulator.integrator)

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> BlackBoxProblem:
        return BlackBoxProblem(problem, self.cache, substeps, noise_std, self.loss, self.start_values)

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> BlackBoxProblem:
        return self.transcribe(problem, substeps, noise_std)

    def make_solver(self, finite: FiniteProblem) -> Solver:
        if self.problem.constraints:
            return constrained_solver(self.problem, finite, self.method.max_iterations)
        return LevenbergMarquardt(max_iterations=self.method.max_iterations)

    def advice(self, problem: Problem) -> list[str]:
        stiff = self.cache.simulator.stiff_alternative
        return [*([f"try {stiff} if the model is stiff"] if stiff else []),
                "search between the bounds first with least_squares(global_search=1000)"]

    def at_start(self) -> BlackBoxProblem:
        """The finite problem with the steps that its start asks for; raises SimulationDiverged."""
        noise_std, substeps = noise_estimation.initial_noise_std(self.problem), self.substeps
        if substeps == "auto":
            substeps, _ = choose_substeps(lambda n: self.transcribe_by_shooting(self.problem, n, noise_std))
        return self.transcribe(self.problem, int(substeps), noise_std)


def linearize_by_differences(problem: Problem) -> ResidualJacobian:
    """Residuals and their differences at the start values."""
    try:
        finite = BlackBoxTranscription.of(LeastSquares(), problem).at_start()
        return finite.linearization(finite.start())
    except SimulationDiverged as bad:
        raise ProblemError(f"At the start values {bad}. Choose other start values.") from None


def recheck_derivatives(transcription: BlackBoxTranscription, estimate: Estimate
                        ) -> tuple[BlackBoxTranscription | None, tuple[str, ...]]:
    """How to go on where derivatives by the model, right at first, are wrong at the end: from there, by differences."""
    if estimate.counts.get("interrupted"):
        return None, ()
    problem = transcription.problem
    values = np.array([estimate.values[name] for name in problem.names])
    finite = transcription.transcribe(problem, estimate.counts["substeps"], noise_estimation.initial_noise_std(problem))
    try:
        right = finite.recheck_derivatives(Variables(finite.coordinates.coordinates(values), ()))
    except DynidentError:  # where nothing more can be simulated, nothing more can be said
        return None, ()
    except KeyboardInterrupt:
        return None, ("Whether its own derivatives are right at the end was not looked at (stopped by the user).",)
    if right:
        return None, ()
    return transcription.with_start(values), (
        "The fit went on by differences from where the model's own derivatives were found wrong.",)


def _refuse_open_bounds(problem: Problem) -> None:
    """A search needs a box; where it looks among logarithms, one above zero."""
    open_ended = [u.name for u in problem.unknowns if not np.isfinite(u.upper - u.lower) or (u.log and u.lower <= 0)]
    if open_ended:
        raise ProblemError(f"A search needs bounds on both sides; give lower and upper for {', '.join(open_ended)}.")


def search_globally(transcription: BlackBoxTranscription) -> tuple[BlackBoxTranscription, tuple[str, ...]]:
    """Differential evolution between the bounds; a rough start is all that is asked of it."""
    from scipy.optimize import differential_evolution

    try:
        finite = transcription.at_start()
    except SimulationDiverged:  # no steps can be chosen there; the fit says so
        return transcription, ()
    lower, upper = finite.coordinates.lower, finite.coordinates.upper
    start = finite.start()
    try:
        worst = FAILED_COST * finite.evaluate(start).cost
    except SimulationDiverged:
        worst = float(np.finfo(float).max)

    def cost(xi: np.ndarray) -> float:
        try:
            return finite.evaluate(Variables(np.asarray(xi, float), ())).cost
        except SimulationDiverged:
            return worst if np.isfinite(worst) else float(np.finfo(float).max)

    count, evaluations = len(finite.names), transcription.method.global_search
    members = int(np.clip(evaluations // (MIN_GENERATIONS * count), MIN_MEMBERS_PER_UNKNOWN, MAX_MEMBERS_PER_UNKNOWN))
    generations = max(1, evaluations // (members * count) - 1)
    found = differential_evolution(cost, list(zip(lower, upper, strict=True)), maxiter=generations, popsize=members,
                                   rng=SEED, polish=False, x0=start.unknowns)
    note = (f"A search between the bounds ({found.nfev} simulations, differential evolution) gave the start; the best point "
            "of a search is not proved to be the global one.")
    return transcription.with_start(finite.coordinates.values(np.asarray(found.x, float))), (note,)
