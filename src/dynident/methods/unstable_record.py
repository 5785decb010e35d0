"""Unstable record: do segments not come to meet because differences between two states grow along the record?

Inner nodes are eliminated along time, so that rounding grows as these differences do: an arm that stands upright is lost after
some ten seconds, whatever its parameters.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.methods.direct_steps import DirectSetup, OuterState
from dynident.status import Status, StatusCode
from dynident.tolerances import MODEST_GROWTH, UNRESOLVED_GROWTH

STUCK = (StatusCode.NO_PROGRESS, StatusCode.ITERATION_LIMIT, StatusCode.WANDERING)


def blame_instability(setup: DirectSetup, state: OuterState) -> OuterState:
    """Where segments do not come to meet: is it that the model is unstable along a record? The elimination of the nodes goes
    along time, so that rounding grows as differences between two states do."""
    if state.solved is None or state.converged or state.solved.result.reason.code not in STUCK:
        return state
    result, finite = state.solved.result, state.solved.finite
    if not finite.equality_count:
        return state
    try:
        chains = finite.linearize(result.point).chains
    except SimulationDiverged:
        return state
    growths = [log_growth(chain.transition[:, :, :chain.transition.shape[1]]) for chain in chains]
    worst = int(np.argmax(growths))
    if growths[worst] < np.log(UNRESOLVED_GROWTH):
        return state
    experiment = setup.problem.experiments[worst]
    length = float(experiment.time[-1] - experiment.time[0])
    why = Status.of(StatusCode.UNSTABLE_RECORD, reason=result.reason, record=experiment.name, growth=np.exp(growths[worst]),
                    seconds=length * np.log(MODEST_GROWTH) / growths[worst])
    return state.with_result(replace(result, reason=why))


def log_growth(transitions: np.ndarray) -> float:
    """Logarithm of how much a difference between two states grows at the most along a chain of transitions (links, nx, nx)."""
    frame, total = np.eye(transitions.shape[1]), np.zeros(transitions.shape[1])
    for transition in transitions:
        frame, triangle = np.linalg.qr(transition @ frame)
        with np.errstate(divide="ignore"):
            total += np.log(np.abs(np.diag(triangle)))
    return float(np.max(total, initial=0.0))
