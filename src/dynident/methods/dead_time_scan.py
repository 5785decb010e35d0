"""Dead time scan: where should an unknown dead time begin?

The cost has its valley where the delayed input overlaps with what it causes; from outside of it no derivative leads there. So
the dead times that their bounds allow are tried one after the other, each with a few iterations of the other unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.errors import NotSupported, SimulationDiverged
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.linalg.finite_problem import Variables
from dynident.methods.noise_estimation import initial_noise_std
from dynident.methods.substeps import choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.tolerances import DEAD_TIME_GAIN
from dynident.transcription.shooting import Shooting

TRIALS = 32  # dead times between the bounds
TRIAL_ITERATIONS = 4  # of the other unknowns at each
SHARE_OF_RECORD = 0.25  # without an upper bound: of the shortest record, up to which a dead time is looked for


@dataclass(frozen=True)
class DeadTimeScan:
    """The problem with other starts of its dead times, and what to say about it."""

    problem: Problem
    note: str = ""


def dead_time_unknowns(problem: Problem) -> list[int]:
    """Unknowns that are part of a dead time."""
    model = problem.model
    if not isinstance(model, EquationModel) or not model.delays:
        return []
    p = ca.SX.sym("p", len(model.parameters))
    late = ca.vertcat(*(delay.dead_time(p) for delay in model.delays))
    names = {name for name, used in zip(model.parameters, ca.which_depends(late, p, 1, False), strict=True) if used}
    return [i for i, u in enumerate(problem.unknowns) if not u.initial and u.quantity in names]


def refuse_unknown_dead_times(problem: Problem, method: str) -> None:
    """For a method whose grid stands still."""
    if unknown := [problem.unknowns[i].name for i in dead_time_unknowns(problem)]:
        raise NotSupported(f"{method} takes dead times that are known, since its grid stands still, but {', '.join(unknown)} "
                           "is unknown. Fit it by multiple_shooting(), or fix it (free=False).")


def scan_dead_times(problem: Problem) -> DeadTimeScan:
    """Better starts of the dead times, where there are clearly better ones than those of the user."""
    places = dead_time_unknowns(problem)
    if not places:
        return DeadTimeScan(problem)
    noise_std, one = initial_noise_std(problem), [1] * len(problem.experiments)

    def shooting(substeps: int) -> Shooting:
        return Shooting(problem, RUNGE_KUTTA, one, substeps, noise_std)

    try:
        finite = shooting(choose_substeps(shooting)[0])
    except SimulationDiverged:
        return DeadTimeScan(problem)
    start, notes, moved = finite.start(), [], {}
    for i in places:
        low, high = _range(problem, i)
        own = finite.coordinates.values(start.unknowns)[i]
        trials = np.linspace(low, high, TRIALS)
        costs = np.array([_cost_at(finite, start, places, i, each) for each in (own, *trials)])
        best = int(np.argmin(costs))
        if best == 0 or not costs[best] < (1 - DEAD_TIME_GAIN) * costs[0]:
            continue
        found = trials[best - 1]
        unknown = problem.unknowns[i]
        notes.append(f"{unknown.name} was looked for from {low:.4g} to {high:.4g}, and the fit began at {found:.4g} instead of "
                     f"{own:.4g}")
        moved[unknown.quantity] = float(found)
        start = _with_value(finite, start, i, float(found))
    if not moved:
        return DeadTimeScan(problem)
    parameters = [replace(it, start=moved[it.name]) if isinstance(it, Parameter) and it.name in moved else it
                  for it in problem.parameters]
    return DeadTimeScan(problem.replace(parameters=parameters), f"Dead time: {'; '.join(notes)}.")


def past_note(problem: Problem) -> tuple[str, ...]:
    """What is assumed of delayed inputs before the records, where nothing was said."""
    if not isinstance(problem.model, EquationModel) or not problem.model.delays:
        return ()
    late = dict.fromkeys(problem.model.inputs[delay.input] for delay in problem.model.delays)
    open_ended = [name for name in late if any(name not in e.before for e in problem.experiments)]
    if not open_ended:
        return ()
    return (f"Before the record {', '.join(open_ended)} is taken as at the first sample, for as long as the dead time lasts; "
            "if it was not, say it with Experiment(before={...}).",)


def _range(problem: Problem, i: int) -> tuple[float, float]:
    unknown = problem.unknowns[i]
    shortest = min(float(problem.experiments[e].time[-1] - problem.experiments[e].time[0]) for e in unknown.experiments)
    low = unknown.lower if np.isfinite(unknown.lower) else 0.0
    far = max(2 * float(unknown.start or 0.0), low + SHARE_OF_RECORD * shortest)
    high = unknown.upper if np.isfinite(unknown.upper) else far
    return low if low > 0 or not unknown.log else high / TRIALS, min(high, low + shortest)


def _with_value(finite: Shooting, point: Variables, i: int, value: float) -> Variables:
    values = finite.coordinates.values(point.unknowns)
    values[i] = value
    return replace(point, unknowns=finite.coordinates.coordinates(values))


def _cost_at(finite: Shooting, start: Variables, held: list[int], i: int, value: float) -> float:
    """After a few iterations of all that is no dead time."""
    point = _with_value(finite, start, i, value)
    lower, upper = finite.coordinates.lower.copy(), finite.coordinates.upper.copy()
    lower[held] = upper[held] = point.unknowns[held]
    try:
        return LevenbergMarquardt(TRIAL_ITERATIONS).solve(finite.with_bounds(lower, upper), point, None).evaluation.cost
    except SimulationDiverged:
        return np.inf
