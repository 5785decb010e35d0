"""Direct estimate: run a direct method, and build the estimate from its last state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dynident.errors import SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import Variables
from dynident.methods.build_estimate import build_direct_estimate
from dynident.methods.direct_loop import run_direct
from dynident.methods.direct_steps import DirectSetup, OuterState, Transcription, refusal
from dynident.methods.substeps import IntegrationError
from dynident.problem.problem import Problem
from dynident.solvers.solver_result import SolverResult
from dynident.statistics.active_bounds import ActiveConstraints
from dynident.status import Status, StatusCode
from dynident.transcription.transcribed_problem import SimulatedProblem


def fit(method: Transcription, problem: Problem, report: Callable[..., object]) -> Estimate:
    """The estimate of a direct method, converged or not; `report` takes each iteration."""
    return noted_estimate(*run_direct(method, problem, report))


def noted_estimate(setup: DirectSetup, state: OuterState) -> Estimate:
    """With what there is to say about the integrator; an interrupt now stops nothing that is solved, a second one does."""
    try:
        estimate = direct_estimate(setup, state)
    except KeyboardInterrupt:
        if (ended := state.ended(Status.of(StatusCode.INTERRUPTED), True)) is None:
            raise
        estimate = direct_estimate(setup, ended)
    return replace(estimate, notes=(*estimate.notes, state.note)) if state.note else estimate


def direct_estimate(setup: DirectSetup, state: OuterState) -> Estimate:
    """What follows from the last state, with the final weights."""
    assert state.solved is not None
    solved, times = state.solved, state.log.times()
    finite, result = solved.finite, replace(solved.result, history=state.log.history)
    again = finite
    if (solved.substeps, solved.noise_std) != (state.substeps, state.noise_std):
        again = setup.method.transcribe(setup.problem, state.substeps, state.noise_std)
    counts = {**state.log.counts, "compiled kernels": state.log.compiled_libraries, "substeps": state.substeps,
              "variables": len(finite.names) + finite.equality_count, "equalities": finite.equality_count}

    def build(result: SolverResult, simulated: tuple[SimulatedProblem, Variables] | None = None) -> Estimate:
        def reweighted(noise_std: Mapping[str, float]) -> tuple[SimulatedProblem, Variables]:
            other = setup.method.transcribe(setup.problem, state.substeps, noise_std)
            return other.to_shooting(other.transfer(result.point, finite))

        shooting, point = simulated or again.to_shooting(again.transfer(result.point, finite))
        return build_direct_estimate(
            setup.problem, setup.method, shooting, replace(result, point=point), state.noise_std,
            IntegrationError(state.integration_error, state.integration_shift), counts, times, state.solver,
            ActiveConstraints.at(setup.problem, finite.coordinates, result.point.unknowns), reweighted)

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
