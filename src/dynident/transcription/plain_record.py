"""Plain record: what of a shooting problem can a compiled step of a solver take whole?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynident.integrators.propagation import CompiledPropagator
from dynident.linalg.finite_problem import PlainRecord

if TYPE_CHECKING:
    from dynident.transcription.shooting import Shooting

LARGEST_PLAIN_RECORD = 200_000  # derivatives; of larger records Python's part in a step is small, and memory counts


def relaxed_record(shooting: Shooting, nodes: np.ndarray, free_nodes: bool, unknown: np.ndarray) -> PlainRecord | None:
    """The only record with inner nodes (segments - 1, states) that need not meet; None where it takes more than that.

    `unknown` of each segment's numbers where nodes are free, else of the record's.
    """
    objective, record, binding = shooting.objective, shooting.records[0], shooting.problem.bindings[0]
    propagator, model = shooting.propagator, shooting.problem.model
    plain = len(shooting.records) == 1 and shooting.loss == "squared" and not objective.priors and record.model_weights is None
    if not plain or binding.first_state is not None or not isinstance(propagator, CompiledPropagator) or (
            shooting.simulation_noise or not propagator.derivatives or record.grid.filters):
        return None
    nx, n = len(model.states), len(model.states) + objective.free.size
    if record.measured.size * n > LARGEST_PLAIN_RECORD:
        return None
    return PlainRecord(propagator.march_address, record.grid, record.segment_starts, (nx, n - nx, len(model.outputs)),
                       record.measured, record.weight, objective.state_scale, binding.parameters,
                       np.concatenate([binding.initial[None], nodes]), binding.places, len(objective.names), free_nodes,
                       np.ascontiguousarray(np.atleast_2d(unknown), np.int64))
