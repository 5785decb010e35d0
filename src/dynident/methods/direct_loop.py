"""Direct loop: the steps of a direct method in their order, with the integrator chosen before them and checked after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dynident._util.frozen import changed
from dynident.errors import SimulationDiverged
from dynident.integrators.adaptive import RADAU5
from dynident.linalg.finite_problem import Variables
from dynident.methods.direct_steps import (
    DirectSetup,
    OuterState,
    Transcription,
    check_start,
    choose_first_substeps,
    count_rounds,
    escape_stationary_start,
    finished,
    initial_state,
    refine,
    relax,
    residual_level,
    reweight,
    safeguard,
    solve,
    solve_from,
    transcribe,
)
from dynident.methods.integrator_choice import check_integrator_at, choose_again, choose_integrator
from dynident.methods.noise_estimation import initial_noise_std
from dynident.methods.outer_loop import OuterLoop
from dynident.methods.saddles import is_asked, leaves_more_than_noise, lower_beside
from dynident.methods.unstable_records import blame_instability
from dynident.problem.problem import Problem
from dynident.solvers.safeguards import escapes
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    INTEGRATION_ELSEWHERE,
    INTEGRATION_FOOLED,
    INTEGRATION_TOLERANCE,
    INTEGRATION_WRONG,
)
from dynident.transcription.shooting import Shooting


def escape_saddle(setup: DirectSetup, state: OuterState) -> OuterState:
    """In the first round, solve again from beside an end that leaves more than noise, where the cost falls beside it."""
    if state.rounds != 1 or not state.converged:
        return state
    assert state.solved is not None and state.simulated is not None
    (shooting, there), finite, reached = state.simulated, state.finite, state.solved.result
    freedom = finite.residual_count - len(finite.names)
    if not (is_asked(setup.problem, shooting) and leaves_more_than_noise(reached.evaluation, freedom, bool(state.noise_std))):
        return state
    whole = shooting.whole_records()
    before = dict(whole.counts)
    beside = lower_beside(setup.problem, whole, shooting.linearization(there))
    state = changed(state, log=state.log.with_counts({key: n - before[key] for key, n in whole.counts.items()}))
    if beside is None:
        return state
    begun = Variables(finite.coordinates.coordinates(beside.values), whole.start().nodes)
    try:
        runs = whole.run(begun, False)
        begun = finite.from_states(begun.unknowns, [r.grid.time for r in whole.records], [run.states for run in runs])
        result, state = solve_from(setup, state, begun)
    except SimulationDiverged:
        return state
    if not escapes(finite, reached, result):
        return state
    return replace(state.with_result(result), saddle=", ".join(beside.names), simulated=finite.to_shooting(result.point))


def check_integrator(setup: DirectSetup, state: OuterState) -> OuterState:
    """By an independent one, at the solution: a trajectory that is not the model's stops the word converged."""
    if not state.converged:
        return state
    assert state.solved is not None and state.simulated is not None
    shooting, there = state.simulated
    if state.noise_std:
        shooting = setup.shooting_with(state.noise_std)(state.substeps)  # the weights may just have changed
    result = state.solved.result
    level = 1.0 if state.noise_std else residual_level(state.finite, result.evaluation.squares)
    check = check_integrator_at(shooting, there, level)
    state = changed(state, note=" ".join(filter(None, [state.note, check.note])))
    elsewhere = check.relative > INTEGRATION_ELSEWHERE or check.error > INTEGRATION_FOOLED * state.integration_error
    if not (check.error > 1 and elsewhere):
        return state
    moved = INTEGRATION_TOLERANCE * check.error
    state = changed(state, integration_error=check.error, integration_shift=max(state.integration_shift, moved * level))
    if moved <= INTEGRATION_WRONG:
        return state
    why = Status.of(StatusCode.INTEGRATOR_WRONG, reason=result.reason, integrator=shooting.integrator.name, other=RADAU5.name,
                    moved=moved)
    return state.with_result(replace(result, converged=False, reason=why))


DIRECT_LOOP: OuterLoop[DirectSetup, OuterState] = OuterLoop(
    prepare=(choose_first_substeps, transcribe, check_start, relax),
    round=(transcribe, solve, escape_stationary_start, escape_saddle, reweight, refine),
    conclude=(count_rounds, blame_instability, check_integrator, safeguard), finished=finished)


def run_direct(method: Transcription, problem: Problem, report: Callable[..., object],
               loop: OuterLoop[DirectSetup, OuterState] | None = None,
               begin: Callable[[Shooting], Variables] = Shooting.start) -> tuple[DirectSetup, OuterState]:
    """The last state of a fit; where the integrator is left to us, it is chosen at the start and again at the solution."""
    loop = loop or DIRECT_LOOP
    chosen = choose_integrator(method, problem, initial_noise_std(problem), begin)
    setup = DirectSetup(problem, chosen.method, report)
    state = loop.run(setup, initial_state(setup, chosen.substeps, chosen.note))
    if chosen.substeps is None or not state.converged or state.simulated is None:
        return setup, state
    other = choose_again(chosen, problem, state.noise_std, state.substeps, state.integration_error, state.simulated[1])
    if other is None:
        return setup, state
    setup = DirectSetup(problem, other.method, report)
    return setup, loop.run(setup, initial_state(setup, None, other.note))
