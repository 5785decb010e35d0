"""Direct: transcribe, solve, ask how far to trust it; shooting and full discretization differ in the transcription."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Adaptive, Integrator
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.methods import noise_estimation
from dynident.methods.active_constraints import ActiveConstraints
from dynident.methods.build_estimate import assemble
from dynident.methods.outer_loop import DIRECT_LOOP, DirectSetup, OuterState, Transcription, initial_state, refusal
from dynident.methods.restraints import (
    constrained_solver,
    refuse_integrator,
    refuse_solver,
    refuse_state_bounds,
    refuse_without_states,
)
from dynident.models.equations import EquationModel
from dynident.problem.losses import check_loss
from dynident.problem.problem import Problem
from dynident.solvers import SOLVERS
from dynident.solvers.nlp import HESSIANS
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status, StatusCode
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.shooting import Shooting, default_segments, segment_starts


@dataclass(frozen=True)
class ShootingMethod:
    """Shooting with one or many segments per record.

    `segments`: None chooses about 20, fewer for short records; 1 is single shooting. `integrator`: see INTEGRATORS.
    `substeps`: steps between two samples, or "auto". `solver`: "auto", or a name from SOLVERS. `loss`: "squared", or
    "huber", "soft_l1", "cauchy" for records with outliers.
    """

    kind: str
    segments: int | None = None
    integrator: str = "runge_kutta"
    substeps: int | str = "auto"
    solver_name: str = "auto"
    loss: str = "squared"
    iterations: int = 200

    def __post_init__(self) -> None:
        integrator_named(self.integrator)
        faults = option_faults(self.loss, self.solver_name, self.iterations, substeps=self.substeps)
        if self.segments is not None and (not whole(self.segments) or self.segments < 1):
            faults.append(f"segments = {self.segments!r}; give a whole number from 1 on.")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        fixed = ("segments",) if self.kind == "single_shooting" else ()  # what the name says already
        return plain_options(self, fixed)

    def minimises(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        self.refuse(problem)
        return fit(self, problem, tell)

    def refuse(self, problem: Problem) -> None:
        check_problem(problem, self.kind)
        refuse_state_bounds(problem, self.kind, "full_discretization(), which hands them to Ipopt")
        refuse_integrator(problem, self.integrate())
        refuse_solver(problem, self.solver_name)
        for each in problem.experiments:
            nodes = each.samples + (each.start < each.time[0])  # as on the grid of the record
            segment_starts(nodes, self.segments_for(each.samples), each.name)

    def integrate(self) -> Integrator:
        return integrator_named(self.integrator)

    def steps(self) -> int | str:
        return self.substeps

    def segments_for(self, samples: int) -> int:
        if self.segments is not None:
            return self.segments
        return default_segments(samples)

    def finite(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        segments = [self.segments_for(e.samples) for e in problem.experiments]
        return Shooting(problem, self.integrate(), segments, substeps, noise_std, self.loss)

    shooting = finite

    def solver(self, finite: Shooting) -> Any:
        return solver_for(self.solver_name, finite, self.iterations, finite.problem)

    def advice(self, problem: Problem) -> list[str]:
        ways = ["use multiple_shooting(), which starts from the measurements"] if self.segments == 1 else []
        if not isinstance(self.integrate(), Adaptive) and not problem.model.hybrid:  # events take an explicit scheme
            ways.append('try integrator="cvodes" or "radau" if the model is stiff')
        return ways


@dataclass(frozen=True)
class FullDiscretizationMethod:
    """All states at all grid points as unknowns, a one-step scheme as equalities.

    `scheme`: any integrator with fixed steps; `degree` for "radau" and "gauss_legendre". `steps_per_sample`: grid
    intervals between two samples, or "auto". `solver`: "auto" takes the structured Gauss-Newton method, or Ipopt where the
    problem has constraints; `hessian` for "ipopt" and "sqp": "exact", "gauss_newton", "limited_memory" (Ipopt only).
    """

    scheme: str = "hermite_simpson"
    degree: int | None = None
    steps_per_sample: int | str = "auto"
    solver_name: str = "auto"
    hessian: str | None = None
    loss: str = "squared"
    iterations: int = 200
    kind: str = "full_discretization"

    def __post_init__(self) -> None:
        faults = option_faults(self.loss, self.solver_name, self.iterations, steps_per_sample=self.steps_per_sample)
        if self.hessian is not None and self.hessian not in HESSIANS:
            faults.append(f"There is no Hessian '{self.hessian}'.{did_you_mean(self.hessian, HESSIANS)}")
        if isinstance(integrator_named(self.scheme, self.degree), Adaptive):
            faults.append(f"scheme '{self.scheme}' chooses its own steps; full discretization needs one with fixed steps.")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        return plain_options(self)

    def minimises(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        self.refuse(problem)
        return fit(self, problem, tell)

    def refuse(self, problem: Problem) -> None:
        check_problem(problem, self.kind, one_mode=True)
        refuse_without_states(problem, self.kind)
        if self.solver_name not in ("auto", "ipopt", "sqp"):
            refuse_state_bounds(problem, self.solver_name, "solver=\"ipopt\"")
            refuse_solver(problem, self.solver_name)

    def integrate(self) -> Integrator:
        return integrator_named(self.scheme, self.degree)

    def steps(self) -> int | str:
        return self.steps_per_sample

    def finite(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> FullDiscretization:
        scheme = self.integrate()
        assert not isinstance(scheme, Adaptive)
        return FullDiscretization(problem, scheme, substeps, noise_std, self.loss)

    def shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Shooting:
        return Shooting(problem, self.integrate(), self._segments(problem), substeps, noise_std, self.loss)

    def _segments(self, problem: Problem) -> list[int]:
        return [ShootingMethod("shooting").segments_for(e.samples) for e in problem.experiments]

    def solver(self, finite: FullDiscretization) -> Any:
        name = self.solver_name
        if name == "auto":
            name = "ipopt" if finite.problem.constraints else "gauss_newton"
        if name in ("ipopt", "sqp"):
            return SOLVERS[name](**({"hessian": self.hessian} if self.hessian else {}), iterations=self.iterations)
        return solver_for(name, finite, self.iterations, finite.problem)

    def advice(self, problem: Problem) -> list[str]:
        return []


def fit(method: Transcription, problem: Problem, report: Callable[..., object]) -> Estimate:
    """The estimate of a direct method, converged or not; `report` takes each iteration."""
    setup = DirectSetup(problem, method, report)
    return direct_estimate(setup, DIRECT_LOOP.run(setup, initial_state(setup)))


def direct_estimate(setup: DirectSetup, state: OuterState) -> Estimate:
    """What follows from the last state, with the final weights."""
    assert state.solved is not None
    solved, times = state.solved, state.log.times()
    finite, result = solved.finite, replace(solved.result, history=state.log.history)
    again = finite
    if (solved.substeps, solved.noise_std) != (state.substeps, state.noise_std):
        again = setup.method.finite(setup.problem, state.substeps, state.noise_std)
    counts = {**state.log.counts, "compiled kernels": state.log.compiled_libraries, "substeps": state.substeps,
              "variables": len(finite.names) + finite.equality_count, "equalities": finite.equality_count}

    def build(result: SolverResult, simulated: tuple[Shooting, Variables] | None = None) -> Estimate:
        shooting, point = simulated or again.to_shooting(again.transfer(result.point, finite))
        return assemble(setup.problem, setup.method, shooting, replace(result, point=point), state.noise_std,
                        state.integration_error, counts, times, state.solver,
                        ActiveConstraints.at(setup.problem, finite.coordinates, result.point.unknowns))

    try:
        return build(result, state.simulated if again is finite else None)
    except SimulationDiverged as bad:  # states that fit no trajectory of the model
        if result.converged:
            raise
        why = Status.of(StatusCode.DIVERGED, reason=result.reason, why=bad)
        try:
            return build(replace(result, point=finite.start(), reason=why))
        except SimulationDiverged as bad:
            raise refusal(setup, finite, finite.start(), bad) from None


def check_problem(problem: Problem, kind: str, one_mode: bool = False) -> None:
    if not isinstance(problem.model, EquationModel):
        raise NotSupported(f"{kind} needs a model with equations, not a {type(problem.model).__name__}.")
    if one_mode and problem.model.hybrid:
        modes = ", ".join(f"'{name}'" for name in problem.model.modes)
        raise NotSupported(f"{kind} needs a model with one mode, but this one has {modes}. Methods that follow the modes: "
                           "single_shooting(), multiple_shooting() and least_squares().")
    noise_estimation.require_gaussian(problem, kind)


def solver_for(name: str, finite: FiniteProblem, iterations: int, problem: Problem) -> Any:
    """The named solver, or the one that suits the problem."""
    if name == "auto":
        name = "gauss_newton" if finite.equality_count or problem.constraints else "levenberg_marquardt"
    if not problem.constraints:
        return SOLVERS[name](iterations=iterations)
    refuse_solver(problem, name)
    return constrained_solver(problem, finite, iterations)


def plain_options(method: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options as plain data, under the names by which a preset takes them."""
    named = {("solver" if key == "solver_name" else key): value for key, value in asdict(method).items()}
    return {"kind": named.pop("kind"), **{k: v for k, v in named.items() if v is not None and k not in without}}


def option_faults(loss: str, solver: str, iterations: Any, **steps: Any) -> list[str]:
    """What is wrong with the options that all direct methods share."""
    check_loss(loss)
    faults = []
    for name, value in steps.items():
        if value != "auto" and (not whole(value) or value < 1):
            faults.append(f'{name} = {value!r}; give a whole number from 1 on, or "auto".')
    if solver not in ("auto", *SOLVERS):
        faults.append(f"There is no solver '{solver}'.{did_you_mean(solver, SOLVERS)}")
    if not whole(iterations) or iterations < 1:
        faults.append(f"iterations = {iterations!r}; give a whole number from 1 on.")
    return faults


def whole(value: Any) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
