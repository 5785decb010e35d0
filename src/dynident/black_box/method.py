"""Method: least squares on simulations alone, for models that show no equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynident.black_box.result import black_box_estimate
from dynident.black_box.run import run
from dynident.black_box.setup import BlackBoxProblem, BlackBoxTranscription
from dynident.errors import ProblemError, SimulationDiverged, StartDiverged
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.capabilities import CONDITIONS, Capabilities, Support, check_supports, refuse_robust_loss
from dynident.methods.direct import check_integrator, with_iterations
from dynident.methods.method import Method
from dynident.methods.options import (
    check_options,
    documented,
    is_whole,
    known_integrator,
    loss_option,
    max_iterations_option,
    option,
    substeps_option,
)
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem


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
        return Capabilities(black_boxes=Support.YES, settable_states=Support.YES, hybrid_models=Support.YES,
                            models_without_states=Support.YES, dead_times=Support.YES, discrete_time=Support.YES,
                            constraints=Support.YES, robust_losses=Support.YES, filtered_outputs=Support.YES, **CONDITIONS,
                            instead={"state_bounds": "full_discretization() on equations, which hands them to Ipopt"})

    @property
    def simulation_integrator(self) -> str:
        return self.integrator

    def objective_key(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def check_supports(self, problem: Problem) -> None:
        check_supports(problem, self.kind, self.capabilities)
        refuse_robust_loss(problem, self.loss)
        if isinstance(problem.model, EquationModel):  # an FMU brings its own
            check_integrator(problem, integrator_named(self.integrator))
        if self.global_search:
            _refuse_open_bounds(problem)

    def simulated_problem(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> BlackBoxProblem:
        return BlackBoxTranscription.of(self, problem).transcribe(problem, substeps, noise_std)

    def for_initial_states(self, least_iterations: int) -> Method | None:
        return with_iterations(self, least_iterations)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        return black_box_estimate(self, run(BlackBoxTranscription.of(self, problem, executor), report))


def _refuse_open_bounds(problem: Problem) -> None:
    """A search needs a box; where it looks among logarithms, one above zero."""
    open_ended = [u.name for u in problem.unknowns if not np.isfinite(u.upper - u.lower) or (u.log and u.lower <= 0)]
    if open_ended:
        raise ProblemError(f"A search needs bounds on both sides; give lower and upper for {', '.join(open_ended)}.")


def linearize_by_differences(problem: Problem) -> tuple[BlackBoxProblem, ResidualJacobian]:
    """The finite problem of simulations, and its residuals and their differences at the start values."""
    try:
        finite = BlackBoxTranscription.of(LeastSquares(), problem).at_start()
        return finite, finite.linearization(finite.start())
    except SimulationDiverged as bad:
        raise StartDiverged(f"At the start values {bad}. Choose other start values.", bad.lost) from None
