"""Sub-steps: how many steps between samples until the integrator's error no longer moves the estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.propagation import Propagation
from dynident.integrators.scheme import Adaptive
from dynident.linalg.chain_qr import follow_links
from dynident.linalg.finite_problem import Variables
from dynident.tolerances import INTEGRATION_EXACT, INTEGRATION_TOLERANCE
from dynident.transcription.simulators import HALVINGS_TO_STALL, SimulatorIntegrator, halving_stalls
from dynident.transcription.transcribed_problem import SimulatedProblem

MAX_SUBSTEPS = 64  # between two samples


@dataclass(frozen=True)
class IntegrationError:
    """What halved steps change: relative to what is harmless, and as it is."""

    relative: float = 0.0  # 1 is just good enough
    shift: float = 0.0  # standard errors, for residuals of size one; an estimate cannot move by more


def integration_error(finite: SimulatedProblem, finer: SimulatedProblem, point: Variables, level: float = 1.0,
                      linked: bool = False) -> IntegrationError:
    """Length of the change in the weighted outputs when each step is halved; infinite where a simulation diverges.

    `level` is the size of the weighted residuals where they are smaller than the noise that was given. `linked` carries
    the change at the end of each segment on through the following ones, as at a solution, where segments meet: the
    result is then that of a single segment, however the record is cut. Raises SimulationDiverged where the simulation itself is
    lost, which no other number of steps will mend.
    """
    return _against_harmless(*weighted_change(finite, finer, point, linked), level)


def _against_harmless(change: float, size: float, level: float) -> IntegrationError:
    if change == 0:
        return IntegrationError(0.0, 0.0)  # of outputs that are exactly zero, too
    with np.errstate(over="ignore", invalid="ignore"):
        length = change / max(INTEGRATION_TOLERANCE * level, INTEGRATION_EXACT * size)
    return IntegrationError(float(length) if np.isfinite(length) else np.inf, change)


def weighted_change(finite: SimulatedProblem, finer: SimulatedProblem, point: Variables, linked: bool) -> tuple[float, float]:
    """Length of the change in the weighted outputs from one problem to the other, and their own; as `integration_error`."""
    carried = linked and finite.equality_count > 0
    try:
        coarse = finite.run(point, carried)
    except SimulationDiverged as bad:
        if bad.lost:
            raise
        return np.inf, 0.0
    try:
        fine = finer.run(point, False)
    except SimulationDiverged:
        return np.inf, 0.0
    change = size = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # far from a solution signals may grow without bounds
        for record, a, b in zip(finite.records, coarse, fine, strict=True):
            seen = record.weight > 0
            moved = b.outputs - a.outputs
            if carried:
                moved = moved + _carried_on(a, b, record.segment_starts)
            change += float(np.sum((moved[seen] * record.weight[seen]) ** 2))
            size += float(np.sum((b.outputs[seen] * record.weight[seen]) ** 2))
        return float(np.sqrt(change)), float(np.sqrt(size))


def _carried_on(coarse: Propagation, fine: Propagation, first: np.ndarray) -> np.ndarray:
    """Change of the outputs in each segment by what the segments before it changed at their ends, to first order."""
    assert coarse.jacobian is not None and coarse.end_jacobian is not None
    nx, n = coarse.states.shape[1], coarse.jacobian.shape[2]
    drift = follow_links(coarse.end_jacobian, np.zeros(nx), np.zeros(n - nx), fine.end_states - coarse.end_states)
    lengths = first[1:] - first[:-1]
    at_nodes = np.repeat(drift, np.append(lengths[:-1], lengths[-1] + 1), axis=0)  # of the segment that a node is in
    return np.einsum("kyi,ki->ky", coarse.jacobian[:, :, :nx], at_nodes)


def choose_substeps(make: Callable[[int], SimulatedProblem], point: Variables | None = None, level: float = 1.0,
                    linked: bool = False) -> tuple[int, float]:
    """The smallest number of sub-steps (1, 2, 4, ...) that is good enough at a point, or at the start, and its error."""
    count, error = choose_accurate_substeps(make, point, level, linked)
    return count, error.relative


def choose_accurate_substeps(make: Callable[[int], SimulatedProblem], point: Variables | None, level: float, linked: bool
                             ) -> tuple[int, IntegrationError]:
    """The same with all that is known of the error."""
    count, finite = 1, make(1)
    if isinstance(finite.integrator, Adaptive):
        return 1, IntegrationError()
    hidden, changes = isinstance(finite.integrator, SimulatorIntegrator) and finite.integrator.hidden, []
    while True:
        finer = finite.with_substeps(2 * count)
        change, size = weighted_change(finite, finer, finite.start() if point is None else point, linked)
        error = _against_harmless(change, size, level)
        changes.append(change / size if size > 0 else np.inf)
        if error.relative <= 1 or count == MAX_SUBSTEPS:
            return count, error
        if hidden and halving_stalls(changes):  # noise of a solver inside: no more steps than where it began
            return count // 2 ** (HALVINGS_TO_STALL - 1), error
        count, finite = 2 * count, finer
