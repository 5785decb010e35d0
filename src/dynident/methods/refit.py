"""Refit: the same finite problem again and again from an estimate, with an unknown held or with other data."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynident.errors import NotSupported, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import Variables
from dynident.methods.capabilities import CONDITIONS, Capabilities, Support, check_supports
from dynident.methods.noise_estimation import outputs_with_unknown_noise
from dynident.models.equations import EquationModel
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.solver_result import Solver, SolverResult
from dynident.tolerances import STEP_TOLERANCE
from dynident.transcription.shooting import Shooting, default_segments

GENTLE = 1e-9  # damping of a start that is known to be close
MAX_REFIT_ITERATIONS = 50
TAKES = Capabilities(black_boxes=Support.YES, settable_states=Support.YES, hybrid_models=Support.YES,
                     models_without_states=Support.YES, dead_times=Support.YES, discrete_time=Support.YES,
                     filtered_outputs=Support.YES, noise_formulas=Support.YES, **CONDITIONS,
                     instead={"constraints": "the interval of the estimate, which knows the constraint"})


class Refit:
    """The least squares problem behind an estimate, solved from a known point; weights and steps stay as they are.

    One simulation per record where that is possible at the estimate, else the segments of multiple shooting.
    """

    def __init__(self, estimate: Estimate, what: str, step_tolerance: float = STEP_TOLERANCE):
        problem = estimate.problem
        refuse_other_sums(estimate, what)
        check_supports(problem, what, TAKES)
        if estimate.method.objective_key().get("loss", "squared") != "squared":
            raise NotSupported(f"{what} rests on the likelihood of normal errors; fit with loss=\"squared\" first.")
        self.estimate, self.problem, self.step_tolerance = estimate, problem, step_tolerance
        self.finite: Any  # by shooting, or of a black box
        self.values = np.array([float(estimate.values[name]) for name in problem.names])
        if not isinstance(problem.model, EquationModel) or problem.filtered_outputs:
            self.finite, self.point = self._transcribe_black_box()
            self.box = self.finite.coordinates
            return
        self.finite, self.point = self._transcribe([1] * len(problem.experiments))
        try:
            self.finite.evaluate(self.point)
        except SimulationDiverged:
            self.finite, self.point = self._transcribe([default_segments(e.samples) for e in problem.experiments])
        self.box = self.finite.coordinates

    def _transcribe_black_box(self) -> tuple[Any, Variables]:
        """By the method that simulated the box."""
        noise_std = {name: self.estimate.noise_std[name] for name in outputs_with_unknown_noise(self.problem)}
        substeps = int(self.estimate.counts.get("substeps", 1))
        finite: Any = self.estimate.method.inner_method.simulated_problem(self.problem, substeps, noise_std)
        return finite, Variables(finite.coordinates.coordinates(self.values), finite.start().nodes)

    def _transcribe(self, segments: Sequence[int]) -> tuple[Shooting, Variables]:
        estimate = self.estimate
        noise_std = {name: estimate.noise_std[name] for name in outputs_with_unknown_noise(self.problem)}
        integrator = integrator_named(estimate.method.simulation_integrator)
        finite = Shooting(self.problem, integrator, segments, int(estimate.counts.get("substeps", 1)), noise_std)
        nodes = []
        for record, trajectory in zip(finite.records, estimate.trajectories, strict=True):
            named = self.problem.model.states
            states = np.array([trajectory.states[name] for name in named]).reshape(len(named), len(trajectory.time)).T
            nodes.append(states[record.segment_starts[1:-1] - record.grid.offset])
        return finite, Variables(finite.coordinates.coordinates(self.values), tuple(nodes))

    @property
    def runs(self) -> int:
        """Simulations so far, with and without derivatives."""
        return sum(self.finite.counts.values())

    def make_solver(self) -> Solver:
        if self.finite.equality_count:
            return GaussNewton(max_iterations=MAX_REFIT_ITERATIONS)
        return LevenbergMarquardt(max_iterations=MAX_REFIT_ITERATIONS, step_tolerance=self.step_tolerance, damping=GENTLE)

    def solve(self, start: Variables) -> SolverResult:
        """Solve with all unknowns free within their bounds."""
        return self.make_solver().solve(self.finite, start)

    def solve_with_fixed(self, index: int, start: Variables) -> SolverResult:
        """Solve with one unknown resting where the start has it; bounds that meet hold it, so nothing is compiled."""
        lower, upper = self.box.lower.copy(), self.box.upper.copy()
        lower[index] = upper[index] = start.unknowns[index]
        return self.make_solver().solve(self.finite.with_bounds(lower, upper), start)

    def with_data(self, outputs: Sequence[dict[str, np.ndarray]]) -> Refit:
        """The same with other measured values; what was missing stays missing."""
        changed = copy.copy(self)
        changed.finite = self.finite.with_data(outputs)
        return changed


def refuse_other_sums(estimate: Estimate, what: str) -> None:
    """Refits simulate whole records under a model that is right; an estimate that rests on anything else is not theirs."""
    if estimate.smoothed is not None:
        drifting = ", ".join(estimate.smoothed.drifting)
        why = "lets the model err" + (f" and {drifting} drift" if drifting else "")
    elif estimate.filtered is not None:
        why = "comes from a filter, which corrects the states at each sample"
    elif np.isnan(estimate.cost):
        why = "proves bounds and minimises nothing"
    else:
        return
    raise NotSupported(f"{what} fits again by simulating whole records, under a model without errors; this estimate {why}, so "
                       "that the refits would be those of another method. Its own interval, estimate.uncertainty, knows what "
                       "it rests on; or fit by multiple_shooting(), and ask that estimate.")
