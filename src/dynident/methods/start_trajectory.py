"""Start trajectory: a direct method that begins along given states, not at what the measurements show.

Values of the unknowns, one per experiment where each has its own, and the course of the states, on any grid: from an
estimate, from a smoother, from a table. The outer loop is that of every direct method; only its first steps differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import Variables
from dynident.methods.direct_estimate import noted_estimate
from dynident.methods.direct_loop import DIRECT_LOOP, run_direct
from dynident.methods.direct_steps import DirectSetup, OuterState, Solved, refusal, transcribe
from dynident.methods.outer_loop import OuterLoop
from dynident.methods.substeps import choose_substeps
from dynident.problem.problem import Problem
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status


@dataclass(frozen=True, eq=False)
class StartTrajectory:
    """Where a fit begins: values by printed name, and per experiment the times and states (times, states) of a course.

    Unknowns without a value begin where the problem says. Without times the states begin where the method itself puts them.
    """

    values: Mapping[str, float]
    times: Sequence[np.ndarray] = field(default=())
    states: Sequence[np.ndarray] = field(default=())

    @classmethod
    def of(cls, estimate: Estimate) -> StartTrajectory:
        """Where an estimate ended: its values and trajectories."""
        names = estimate.problem.model.states
        states = [np.array([t.states[n] for n in names]).reshape(len(names), len(t.time)).T for t in estimate.trajectories]
        return cls({n: float(estimate.values[n]) for n in estimate.problem.names},
                   [np.asarray(t.time) for t in estimate.trajectories], states)

    def unknowns(self, finite: Any) -> np.ndarray:
        """In coordinates of a finite problem, within its bounds."""
        c = finite.coordinates
        values = np.array([self.values.get(name, own) for name, own in
                           zip(finite.names, finite.objective.start_values, strict=True)], float)
        smallest = np.finfo(float).tiny  # a logarithm has no place for zero
        return np.clip(c.coordinates(np.where(c.log, np.maximum(values, smallest), values)), c.lower, c.upper)

    def variables(self, finite: Any) -> Variables:
        """The point of a finite problem that lies along the course."""
        unknowns = self.unknowns(finite)
        if not self.times or not finite.problem.model.states:
            return Variables(unknowns, finite.start().nodes)
        return finite.from_states(unknowns, list(self.times), list(self.states))


def start_trajectory(guess: Any, problem: Problem) -> StartTrajectory:
    """From an estimate, from a table that holds for every experiment, or from what the record shows."""
    if isinstance(guess, Estimate):
        return StartTrajectory.of(guess)
    if isinstance(guess, str):
        return StartTrajectory({})
    states = problem.model.states
    lacking = [name for name in ("time", *states) if name not in guess]
    unknown = [name for name in guess if name not in ("time", *states, *problem.names)]
    faults = [f"initial_guess has no column '{name}'; it needs time and every state." for name in lacking]
    faults += [f"initial_guess names '{name}', which is neither a state nor an unknown.{did_you_mean(name, problem.names)}"
               for name in unknown]
    if faults:
        raise ProblemError(faults)
    time, several = np.asarray(guess["time"], float), len(problem.experiments)
    course = np.column_stack([np.broadcast_to(np.asarray(guess[name], float), time.shape) for name in states])
    first = {u.name: float(np.interp(problem.experiments[u.experiments[0]].start, time, course[:, states.index(u.quantity)]))
             for u in problem.unknowns if u.initial}
    own = {name: float(guess[name]) for name in problem.names if name in guess}
    return StartTrajectory({**first, **own}, [time] * several, [course] * several)


def fit_from(method: Any, problem: Problem, begin: StartTrajectory, report: Callable[..., object]) -> Estimate:
    """The estimate of a direct method that begins along a trajectory; as `direct.fit` in everything else."""
    loop: OuterLoop[DirectSetup, OuterState] = replace(DIRECT_LOOP, prepare=(
        partial(choose_substeps_along, begin), transcribe, partial(begin_along, begin)))
    return noted_estimate(*run_direct(method, problem, report, loop, begin.variables))


def choose_substeps_along(begin: StartTrajectory, setup: DirectSetup, state: OuterState) -> OuterState:
    """Good enough along the trajectory; one step where it cannot be simulated, which the solver will find out."""
    if not setup.automatic or state.substeps_known:
        return state
    make = setup.shooting_with(state.noise_std)
    try:
        return replace(state, substeps=choose_substeps(make, begin.variables(make(1)))[0])
    except SimulationDiverged:
        return state


def begin_along(begin: StartTrajectory, setup: DirectSetup, state: OuterState) -> OuterState:
    """The point of the trajectory as the start; refused where the model is not finite there."""
    finite = state.finite
    start = begin.variables(finite)
    try:
        evaluation = finite.evaluate(start)
    except SimulationDiverged as bad:
        raise refusal(setup, finite, start, bad) from None
    held = np.zeros(len(finite.names), int)
    there = SolverResult(start, evaluation, False, Status("at the start"), (), held)
    return replace(state, start=start, variables=start, best=Solved(finite, there, state.substeps, state.noise_std))
