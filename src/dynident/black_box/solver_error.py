"""Solver error: does the solver hidden inside of a simulator move the estimate, and how tight must its tolerance be?

At the solution the outputs are simulated once more with a tenth of the tolerance. What changes there is fitted by the
derivatives at hand: that is how far the estimate would move. Where it is too far, the tolerance is tightened until the next
tenth does nothing any more, and the fit goes on from where it is. Where the model can be integrated by us too, the same is
asked of that, and what no tolerance mends (fixed steps inside) is mended so: the fit goes on by our integrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.black_box.evaluation_cache import EvaluationCache
from dynident.black_box.finite_differences import SimulatedOutputs
from dynident.black_box.setup import BlackBoxProblem, BlackBoxTranscription
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import Variables
from dynident.linalg.rank import pseudo_inverse
from dynident.methods import noise_estimation
from dynident.tolerances import SOLVER_ERROR_HARMLESS
from dynident.transcription.simulators import Simulator

VISIBLE_SUBSTEPS = 16, 32  # per sample, by an integrator of ours: two that must agree before they judge another
MAX_REFITS = 3


@dataclass(frozen=True, eq=False)
class SolverError:
    """What is known at a solution about the solver inside: by how much it may be wrong, and how to go on."""

    again: BlackBoxTranscription | None = None  # with a tighter tolerance, from the solution
    notes: tuple[str, ...] = ()


def check_solver(transcription: BlackBoxTranscription, estimate: Estimate) -> SolverError:
    """At an estimate that converged, or that no step lowers any more, which may be the solver's fault as well; a tolerance
    that the user gave is judged and kept."""
    simulator = transcription.cache.simulator
    if not simulator.hidden_solver or estimate.counts.get("interrupted"):
        return SolverError()
    try:
        point = _SolutionPoint.of(transcription, estimate)
        found = _tightened(point, transcription) if estimate.converged else SolverError()
        if found.again is not None:
            return found
        other = _by_visible_solver(point, transcription)
        return replace(other, notes=(*found.notes, *other.notes))
    except DynidentError:  # where nothing more can be simulated, nothing more can be said
        return SolverError()


def _tightened(point: _SolutionPoint, transcription: BlackBoxTranscription) -> SolverError:
    used = simulator = transcription.cache.simulator
    before, first = point.base, 0.0
    while (tighter := simulator.with_tighter_tolerance()) is not None:
        after = point.simulate(tighter)
        moved = point.shift(before, after)
        first = first or moved
        if moved <= SOLVER_ERROR_HARMLESS:
            break
        if used.keeps_tolerance:
            return SolverError(notes=(f"A tenth of the given tolerance would move the estimate by {moved:.2g} standard errors: "
                                      "give less, or leave it out.",))
        simulator, before = tighter, after
    if simulator is used:
        return SolverError()
    end = "" if tighter is not None else " No tolerance that a solver meets brings that below 0.1 standard errors."
    note = (f"The tolerance of the solver inside was tightened, since a tenth of it moved the estimate by {first:.2g} standard "
            f"errors, and the fit was repeated.{end}")
    cache = EvaluationCache(transcription.problem, simulator, transcription.cache.executor)
    return SolverError(replace(transcription, cache=cache).with_start(point.values), (note,))


def _by_visible_solver(point: _SolutionPoint, transcription: BlackBoxTranscription) -> SolverError:
    """What the same model by an integrator of ours says; where that is something else, the fit goes on by it."""
    used = transcription.cache.simulator
    other = used.with_visible_solver()
    if other is None:
        return SolverError()
    coarse, fine = (point.simulate(other, substeps) for substeps in VISIBLE_SUBSTEPS)
    moved = point.shift(point.base, fine)
    if point.shift(coarse, fine) > SOLVER_ERROR_HARMLESS / 2 or moved <= SOLVER_ERROR_HARMLESS:
        return SolverError()
    if used.keeps_tolerance:
        return SolverError(notes=(
            f"By Model Exchange, which the FMU offers too, the estimate would lie up to {moved:.2g} standard errors elsewhere: "
            "the solver inside of its Co-Simulation errs by that much. Leave the tolerance out, or use "
            "kind=\"model_exchange\".",))
    problem = transcription.problem.replace(model=other.model)
    again = replace(transcription, problem=problem, cache=EvaluationCache(problem, other, transcription.cache.executor))
    return SolverError(again.with_start(point.values), (
        f"The solver inside of the FMU's Co-Simulation errs by up to {moved:.2g} standard errors, which no tolerance mends: "
        "the fit was repeated by Model Exchange, which the FMU offers too. A tolerance of yours keeps it at Co-Simulation.",))


@dataclass(frozen=True, eq=False)
class _SolutionPoint:
    """Outputs and derivatives at a solution."""

    values: np.ndarray
    finite: BlackBoxProblem
    base: SimulatedOutputs
    gain: np.ndarray  # (unknowns, weighted outputs): how a change of the outputs moves the unknowns ...
    std: np.ndarray  # ... and their standard errors

    @classmethod
    def of(cls, transcription: BlackBoxTranscription, estimate: Estimate) -> _SolutionPoint:
        problem = transcription.problem
        values = np.array([estimate.values[name] for name in problem.names])
        noise_std = {n: estimate.noise_std.get(n, s) for n, s in noise_estimation.initial_noise_std(problem).items()}
        finite = transcription.transcribe(problem, estimate.counts["substeps"], noise_std)
        at = finite.linearization(Variables(finite.coordinates.coordinates(values), ()))
        gain = pseudo_inverse(at.jacobian)
        measured = sum(int(np.count_nonzero(r.weight > 0)) for r in finite.records)  # priors stand behind them
        return cls(values, finite, finite.cache.at(values, finite.grids), gain[:, :measured], np.linalg.norm(gain, axis=1))

    def simulate(self, simulator: Simulator, substeps: int | None = None) -> SimulatedOutputs:
        grids = self.finite.grids if substeps is None else [g.with_substeps(substeps) for g in self.finite.grids]
        each = [self.finite.problem.parameters_and_initial_state(self.values, e) for e in range(len(grids))]
        return tuple(simulator.run(p, x0, grid)[0].copy() for (p, x0), grid in zip(each, grids, strict=True))

    def shift(self, before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> float:
        """By how many standard errors an unknown would move, the one that moves most."""
        change = np.concatenate([((b - a) * r.weight)[r.weight > 0] for a, b, r in zip(before, after, self.finite.records,
                                                                                   strict=True)])
        known = self.std > 0
        return float(np.max(np.abs(self.gain @ change)[known] / self.std[known], initial=0.0))
