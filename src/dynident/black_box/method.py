"""Black box: least squares on simulations alone, for models that show no equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dynident.black_box.problem import BlackBox, BlackBoxScheme, Simulation
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
from dynident.methods.options import check_options, is_whole, known_integrator, option
from dynident.methods.substeps import choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.transcription.simulators import declared_in, runner_for

SEED = 1  # the search is repeatable
BAD = 1e6  # times the cost at the start: what a failed simulation counts in the search
PER_UNKNOWN = 10  # members of the searching population per unknown, where evaluations allow


def search_effort(name: str, value: Any) -> list[str]:
    good = is_whole(value) and value >= 0
    return [] if good else [f"{name} = {value!r}; give a number of simulations, or 0 for no search."]


@dataclass(frozen=True)
class LeastSquares(Method):
    """Simulations and differences only: for FMUs, and for any model as a check; optionally after a global search."""

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
                            constraints=Support.YES, robust_losses=Support.YES,
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
            _refuse_open_ends(problem)

    def for_initial_states(self, least_iterations: int) -> Method | None:
        return with_iterations(self, least_iterations)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        way = _Transcription(self, problem, executor)
        estimate = fit(way, problem, report)  # type: ignore[arg-type]
        if not estimate.counts.get("interrupted") and way.refuted(estimate):
            estimate = fit(way, problem, report)  # type: ignore[arg-type]
        counts = {**estimate.counts, "simulations": way.box.simulations}
        return replace(estimate, method=self, counts=counts,
                       notes=(*estimate.notes, *way.notes, *way.box.notes))


def differences_at_start(problem: Problem) -> ResidualJacobian:
    """Residuals and their differences at the start values."""
    way = _Transcription(LeastSquares(), problem, None)
    sizes = noise_estimation.initial_noise_std(problem)
    try:
        substeps, _ = choose_substeps(lambda n: way.transcribe_by_shooting(problem, n, sizes))
        finite = way.transcribe_by_shooting(problem, substeps, sizes)
        return finite.linearization(finite.start())
    except SimulationDiverged as bad:
        raise ProblemError(f"At the start values {bad}. Choose other start values.") from None


def _refuse_open_ends(problem: Problem) -> None:
    """A search needs a box; where it looks among logarithms, one above zero."""
    open_ended = [u.name for u in problem.unknowns if not np.isfinite(u.upper - u.lower) or (u.log and u.lower <= 0)]
    if open_ended:
        raise ProblemError(f"A search needs bounds on both sides; give lower and upper for {', '.join(open_ended)}.")


class _Transcription:
    """One run: keeps the box, so that a change of weights repeats no simulation."""

    def __init__(self, method: LeastSquares, problem: Problem, executor: Executor | None):
        self.method, self.loss, self.problem = method, method.loss, problem
        self.box = BlackBox(problem, runner_for(problem.model, method.integrator, declared_in(problem)), executor)
        self.notes: list[str] = []
        self.searched: Variables | None = None

    def make_integrator(self) -> Any:
        return BlackBoxScheme(self.box.runner.scheme)

    @property
    def max_iterations(self) -> int:
        return self.method.max_iterations

    @property
    def substeps(self) -> int | str:
        return self.method.substeps

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Simulation:
        made = Simulation(problem, self.box, substeps, noise_std, self.loss)
        if self.method.global_search and self.searched is None:
            self.searched = self._search(made)
        if self.searched is not None:
            made.frame.start_values = made.coordinates.values(self.searched.unknowns)
        return made

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Any:
        return Simulation(problem, self.box, substeps, noise_std, self.loss)

    def make_solver(self, finite: FiniteProblem) -> Any:
        if self.problem.constraints:
            return constrained_solver(self.problem, finite, self.method.max_iterations)
        return LevenbergMarquardt(iterations=self.method.max_iterations)

    def refuted(self, estimate: Estimate) -> bool:
        """Whether derivatives by the model, right at first, are wrong where the fit ended; it then goes on from there."""
        values = np.array([estimate.values[name] for name in self.problem.names])
        finite = self.transcribe_by_shooting(self.problem, estimate.counts["substeps"], noise_estimation.initial_noise_std(self.problem))
        point = Variables(finite.coordinates.coordinates(values), ())
        try:
            found = finite.refuted(point)
        except DynidentError:  # where nothing more can be simulated, nothing more can be said
            return False
        except KeyboardInterrupt:
            self.notes.append("Whether its own derivatives are right at the end was not looked at (stopped by the user).")
            return False
        if found:
            self.searched = point
            self.notes.append("The fit went on by differences from where the model's own derivatives were found wrong.")
        return found

    def advice(self, problem: Problem) -> list[str]:
        stiff = self.box.runner.if_stiff
        return [*([f"try {stiff} if the model is stiff"] if stiff else []),
                "search between the bounds first with least_squares(global_search=1000)"]

    def _search(self, finite: Simulation) -> Variables:
        """Differential evolution between the bounds; a rough start is all that is asked of it."""
        from scipy.optimize import differential_evolution

        lower, upper = finite.coordinates.lower, finite.coordinates.upper
        start = finite.start()
        try:
            worst = BAD * finite.evaluate(start).cost
        except SimulationDiverged:
            worst = np.inf

        def cost(xi: np.ndarray) -> float:
            try:
                return finite.evaluate(Variables(np.asarray(xi, float), ())).cost
            except SimulationDiverged:
                return worst if np.isfinite(worst) else float(np.finfo(float).max)

        count = len(finite.names)
        members = int(np.clip(self.method.global_search // (5 * count), 4, PER_UNKNOWN))
        rounds = max(1, self.method.global_search // (members * count) - 1)
        found = differential_evolution(cost, list(zip(lower, upper, strict=True)), maxiter=rounds, popsize=members,
                                       rng=SEED, polish=False, x0=start.unknowns)
        self.notes.append(f"A search between the bounds ({found.nfev} simulations, differential evolution) gave the "
                          "start; the best point of a search is not proved to be the global one.")
        return Variables(np.asarray(found.x, float), ())
