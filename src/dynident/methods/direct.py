"""Direct methods: transcribe, solve, ask what the answer is worth; shooting and full discretization differ in the first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dynident.errors import NotSupported, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.integrators import discretization_scheme, integrator_named
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.events import require_events
from dynident.integrators.scheme import Adaptive, AnyIntegrator, Integrator, Multistep
from dynident.linalg.finite_problem import FiniteProblem
from dynident.methods.capabilities import CONDITIONS, Capabilities, Support, check_supports, refuse_robust_loss
from dynident.methods.dead_time_scan import past_note, refuse_unknown_dead_times, scan_dead_times
from dynident.methods.direct_estimate import fit
from dynident.methods.integrator_choice import EXPLICIT, OWN_STEPS, measured_start_advice, stiff_advice
from dynident.methods.method import Method
from dynident.methods.options import (
    AUTOMATIC,
    check_options,
    documented,
    known_or_automatic_integrator,
    loss_option,
    max_iterations_option,
    option,
    plain_options,
    substeps_option,
    unchecked,
    whole_number,
)
from dynident.methods.program_solvers import PROGRAM_SOLVERS, hessian_faults, hessian_option, program_solver
from dynident.problem.problem import Problem
from dynident.solvers import SOLVERS
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import FOR_CURVES
from dynident.solvers.solver_result import Solver
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.transcription.shooting import Shooting, default_segments, segment_starts
from dynident.transcription.transcribed_problem import TranscribedProblem


def known_solver(name: str, value: Any) -> list[str]:
    known = isinstance(value, str) and value in ("auto", *SOLVERS)
    return [] if known else [f"There is no {name} '{value}'.{did_you_mean(str(value), SOLVERS)}"]


def automatic_integrator_option() -> Any:
    return option(AUTOMATIC, 'How the model is integrated: a name from the table of integrators; "auto" takes runge_kutta, or '
                  "radau5 where the model is stiff.", known_or_automatic_integrator)


def solver_option(auto: str) -> Any:
    return option("auto", f'A name from the table of solvers; "auto" takes {auto}.', known_solver)


def known_guess(name: str, value: Any) -> list[str]:
    good = value is None or isinstance(value, (Estimate, Mapping)) or (isinstance(value, str) and value == "measured")
    return [] if good else [f'{name} = {value!r}; give an estimate, a table with "time" and states, or "measured".']


def initial_guess_option() -> Any:
    return option(None, 'Where to begin: an estimate, a table with "time" and columns of states (and values of unknowns), or '
                  '"measured": states as the record shows them. None: the method finds its own.', known_guess)


def options_with_guess(method: Any) -> dict[str, Any]:
    """As plain data, without a trajectory to begin at: signals have no place in a table of options."""
    plain = method.initial_guess is None or isinstance(method.initial_guess, str)
    return plain_options(method, () if plain else ("initial_guess",))


class DirectMethod(Method):
    """What all direct methods share: options in, one outer loop, an estimate out."""

    loss: str
    max_iterations: int
    substeps: int | str
    solver: str
    initial_guess: Any

    @abstractmethod
    def make_integrator(self) -> AnyIntegrator:
        """The integrator that its options name."""

    @abstractmethod
    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> TranscribedProblem:
        """The finite problem, for so many steps between samples and these standard deviations of the noise."""

    @abstractmethod
    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        """The same problem by shooting, whose residuals and Jacobian the statistics read."""

    @abstractmethod
    def make_solver(self, finite: Any) -> Solver:
        """The solver that its options name, for this finite problem."""

    @abstractmethod
    def advice(self, problem: Problem) -> list[str]:
        """What to try where it does not converge, each a clause."""

    def objective_key(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def options(self) -> dict[str, Any]:
        return options_with_guess(self)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        if self.initial_guess is None:
            scan = scan_dead_times(problem)
            estimate, said = fit(self, scan.problem, report), (*filter(None, [scan.note]), *past_note(problem))
            problem = problem.with_noise_of(estimate.problem)
            return replace(estimate, problem=problem, notes=(*said, *estimate.notes)) if said else estimate
        from dynident.methods.start_trajectory import fit_from, start_trajectory  # which stands on this file

        return fit_from(self, problem, start_trajectory(self.initial_guess, problem), report)


class ShootingMethod(DirectMethod):
    """Shooting with one or many segments per record."""

    integrator: str
    hessian: str | None

    @property
    def capabilities(self) -> Capabilities:
        yes, formulas = Support.YES, Support.YES if self.kind == SingleShooting.kind else Support.NO
        return Capabilities(settable_states=yes, hybrid_models=yes, models_without_states=yes, constraints=yes, dead_times=yes,
                            discrete_time=yes, robust_losses=yes, noise_formulas=formulas, **CONDITIONS,
                            instead={"state_bounds": "full_discretization(), which hands them to Ipopt"})

    @property
    def chooses_integrator(self) -> bool:
        return self.integrator == AUTOMATIC

    @property
    def simulation_integrator(self) -> str:
        return EXPLICIT if self.chooses_integrator else self.integrator

    def check_supports(self, problem: Problem) -> None:
        check_supports(problem, self.kind, self.capabilities)
        refuse_robust_loss(problem, self.loss)
        check_integrator(problem, self.make_integrator())
        check_solver(problem, self.solver)
        for each in problem.experiments:
            nodes = each.samples + (each.start < each.time[0])  # as on the grid of the record
            segment_starts(nodes, self.segments_for(each.samples), each.name)

    def make_integrator(self) -> Integrator:
        return integrator_named(self.simulation_integrator)

    def simulated_problem(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        return self.transcribe(problem, substeps, noise_std).whole_records()

    @abstractmethod
    def segments_for(self, samples: int) -> int:
        """Into how many segments a record is cut."""

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        segments = [self.segments_for(e.samples) for e in problem.experiments]
        return Shooting(problem, self.make_integrator(), segments, substeps, noise_std, self.loss)

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        return self.transcribe(problem, substeps, noise_std)

    def make_solver(self, finite: Shooting) -> Solver:
        if self.solver in PROGRAM_SOLVERS:
            return program_solver(self.solver, self.hessian or "gauss_newton", self.max_iterations)  # an exact one costs passes
        return solver_for(self.solver, finite, self.max_iterations, finite.problem)

    def for_initial_states(self, least_iterations: int) -> Method | None:
        return with_iterations(self, least_iterations)


@documented
@dataclass(frozen=True)
class SingleShooting(ShootingMethod):
    """One simulation per record from the initial state; small and exact, but needs a fair start.

    Minimises the sum of squared weighted residuals over parameters and initial states. See the manual,
    methods/single_shooting.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem, di.single_shooting()).values['k']:.2f}")
    0.50
    """

    integrator: str = automatic_integrator_option()
    substeps: int | str = substeps_option()
    solver: str = solver_option("Levenberg-Marquardt, or Gauss-Newton with constraints")
    loss: str = loss_option()
    max_iterations: int = max_iterations_option()
    initial_guess: Any = initial_guess_option()
    hessian: str | None = hessian_option()
    kind: ClassVar[str] = "single_shooting"

    def __post_init__(self) -> None:
        check_options(self, hessian_faults(self))

    def segments_for(self, samples: int) -> int:
        return 1

    def advice(self, problem: Problem) -> list[str]:
        return [*measured_start_advice(problem), *stiff_advice(self, problem)]


@documented
@dataclass(frozen=True)
class MultipleShooting(ShootingMethod):
    """Each record cut into segments that start from the measurements and must meet in the end; for poor starts.

    The states at the starts of the segments are unknowns too, and matching conditions close the gaps (Bock 1981). See
    the manual, methods/multiple_shooting.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem, di.multiple_shooting(segments=2)).values['k']:.2f}")
    0.50
    """

    segments: int | None = option(None, "Segments per record; None takes about 20, fewer for short records.",
                                  whole_number(1, None))
    integrator: str = automatic_integrator_option()
    substeps: int | str = substeps_option()
    solver: str = solver_option("Gauss-Newton, or Levenberg-Marquardt where nothing has to meet")
    loss: str = loss_option()
    max_iterations: int = max_iterations_option()
    initial_guess: Any = initial_guess_option()
    hessian: str | None = hessian_option()
    kind: ClassVar[str] = "multiple_shooting"

    def __post_init__(self) -> None:
        check_options(self, hessian_faults(self))

    def segments_for(self, samples: int) -> int:
        return default_segments(samples) if self.segments is None else self.segments

    def advice(self, problem: Problem) -> list[str]:
        return [*(measured_start_advice(problem) if self.segments == 1 else []), *stiff_advice(self, problem)]


@documented
@dataclass(frozen=True)
class FullDiscretizationMethod(DirectMethod):
    """States at every grid point as unknowns, a scheme as equalities; for the poorest starts and stiff models.

    See the manual, methods/full_discretization.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem, di.full_discretization()).values['k']:.2f}")
    0.50
    """

    integrator: str = option(AUTOMATIC, 'A scheme with fixed steps, a name from the table of integrators, multistep ones too; '
                             '"auto" takes hermite_simpson, or radau where the model is stiff.', unchecked)
    degree: int | None = option(None, 'Of the polynomials of "radau" and "gauss_legendre".', unchecked)
    substeps: int | str = substeps_option()
    solver: str = solver_option("the structured Gauss-Newton method, or Ipopt with constraints")
    hessian: str | None = hessian_option()
    loss: str = loss_option()
    max_iterations: int = max_iterations_option()
    initial_guess: Any = initial_guess_option()
    kind: ClassVar[str] = "full_discretization"

    def __post_init__(self) -> None:
        chosen = self.make_integrator()
        check_options(self, [*hessian_faults(self), *([
            f"integrator '{self.integrator}' chooses its own steps; full discretization needs one with fixed steps."]
            if isinstance(chosen, Adaptive) else [])])

    @property
    def capabilities(self) -> Capabilities:
        program, sparse = self.solver in ("auto", *PROGRAM_SOLVERS), self.solver in PROGRAM_SOLVERS
        return Capabilities(constraints=Support.YES, state_bounds=Support.YES if program else Support.NO,
                            robust_losses=Support.YES, dead_times=Support.YES,
                            experiment_constants=Support.YES, priors_on_logarithms=Support.YES,
                            nonlinear_algebraic_variables=Support.NO if sparse else Support.YES)

    def check_supports(self, problem: Problem) -> None:
        takes = self.capabilities
        refuse_unknown_dead_times(problem, self.kind)
        check_supports(problem, self.kind, replace(takes, state_bounds=Support.YES))
        if takes.state_bounds is Support.NO:  # it is the solver that does not take them
            check_supports(problem, self.solver, replace(takes, instead={"state_bounds": 'solver="ipopt"'}))
            check_solver(problem, self.solver)

    usual_integrator, stiff_integrator = "hermite_simpson", "radau"

    @property
    def chooses_integrator(self) -> bool:
        return self.integrator == AUTOMATIC

    @property
    def simulation_integrator(self) -> str:
        return RADAU5.name if self.integrator == self.stiff_integrator else EXPLICIT

    def make_integrator(self) -> AnyIntegrator:
        return discretization_scheme(self.usual_integrator if self.chooses_integrator else self.integrator, self.degree)

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> FullDiscretization:
        integrator = self.make_integrator()
        assert not isinstance(integrator, Adaptive)
        return FullDiscretization(problem, integrator, substeps, noise_std, self.loss)

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        integrator = self.make_integrator()
        whole = isinstance(integrator, Multistep)  # which begins anew with each segment
        segments = [1 if whole else default_segments(e.samples) for e in problem.experiments]
        return Shooting(problem, integrator, segments, substeps, noise_std, self.loss)

    def make_solver(self, finite: FullDiscretization) -> Solver:
        suited = "ipopt" if finite.problem.constraints else "gauss_newton"
        name = suited if self.solver == "auto" else self.solver
        if name in PROGRAM_SOLVERS:
            return program_solver(name, self.hessian, self.max_iterations)
        return solver_for(name, finite, self.max_iterations, finite.problem)

    def advice(self, problem: Problem) -> list[str]:
        return [OWN_STEPS] * (self.integrator == self.stiff_integrator)


def with_iterations(method: Any, least: int) -> Any:
    """The method with so many iterations or more: few may have been wanted of a fit alone."""
    return replace(method, max_iterations=max(method.max_iterations, least))


def check_integrator(problem: Problem, integrator: Integrator) -> None:
    """For a method that simulates: not every integrator can end a step at an event."""
    if problem.model.hybrid:
        require_events(integrator)


def check_solver(problem: Problem, name: str) -> None:
    """For the solvers that a direct method can be given: one of them takes constraints."""
    if problem.constraints and name not in ("auto", "gauss_newton", *PROGRAM_SOLVERS):
        raise NotSupported(f"{name} takes bounds on parameters, but no other constraints; use solver=\"gauss_newton\".")


def solver_for(name: str, finite: FiniteProblem, max_iterations: int, problem: Problem) -> Solver:
    """The named solver, or the one that suits the problem."""
    if name == "auto":
        name = "gauss_newton" if finite.equality_count or problem.constraints else "levenberg_marquardt"
    if not problem.constraints:
        static = not problem.model.states and name == "levenberg_marquardt"  # iterations cost next to nothing
        return SOLVERS[name](max_iterations=max_iterations, **(FOR_CURVES if static else {}))
    check_solver(problem, name)
    return constrained_solver(problem, finite, max_iterations)


def constrained_solver(problem: Problem, finite: FiniteProblem, max_iterations: int) -> Solver:
    """Gauss-Newton with the problem's constraints between parameters."""
    return GaussNewton(max_iterations, parameter_constraints(problem, finite.coordinates))
