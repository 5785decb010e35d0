"""Small fits: what does a fit of 30 to 200 samples cost whose simulations take microseconds, and a record of a fleet?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from growth import oscillator_problem, oscillator_record
from timing import Line, Result, best, main, size, spoken

import dynident as di
import fleet
from dynident.methods.integrator_choice import check_integrator_at
from dynident.statistics.uncertainty import LEVEL

SAMPLES = size((30, 100, 200), (50,))
FLEET_SAMPLES = size(401, 50)
SINGLE, MULTIPLE, RECORD = 3e-3, 5e-3, 6e-3  # seconds of CPU
CHECK = 0.05  # of a fit
RECORDS = size(4, 1)  # of the fleet; their fits take more or fewer iterations
METHODS = {"single shooting": (di.single_shooting(), SINGLE), "multiple shooting": (di.multiple_shooting(), MULTIPLE)}


def fit(problem: di.Problem, method) -> dict[str, tuple[float, float]]:
    """The intervals of a record that nobody has looked at before: nothing is known of it from the last fit."""
    estimate = di.identify(problem.replace(experiments=problem.experiments), method, progress=False)
    return {name: estimate.uncertainty.interval(name, LEVEL) for name in problem.names}


def check(problem: di.Problem, method) -> float:
    """CPU seconds of the check by an independent integrator, where a fit makes it."""
    estimate = di.identify(problem, method, progress=False)
    shooting = replace(method, integrator="runge_kutta").transcribe_by_shooting(problem, estimate.counts["substeps"], {})
    unknowns = shooting.coordinates.coordinates(np.array([estimate.values[name] for name in problem.names]))
    paths = estimate.trajectories
    point = shooting.from_states(unknowns, [path.time for path in paths],
                                 [np.column_stack(list(path.states.values())) for path in paths])
    shooting.run(point, True)  # as it stands after a fit
    return best(lambda: check_integrator_at(shooting, point, 1.0))


def check_line(what: str, problem: di.Problem, method, seconds: float) -> Line:
    share = check(problem, method) / seconds
    return Line(f"{what}: the check by another integrator", f"{spoken(share * seconds)}, {share:.1%} of the fit",
                f"at most {CHECK:.0%}", share <= CHECK)


def record_lines() -> list[Line]:
    """A record of a fleet: the mass on a spring, and the axis of `benchmarks/fleet.py` with its 4 parameters."""
    method, lines = di.multiple_shooting(), []
    axes = [di.Problem(fleet.model(), [fleet.measured(k)], fleet.parameters()) for k in range(RECORDS)]
    for what, problems in (("mass on a spring", [oscillator_problem([oscillator_record(FLEET_SAMPLES)])]),
                           ("axis with dry friction, 4 parameters", axes)):
        seconds = float(np.mean([best(lambda problem=problem: fit(problem, method)) for problem in problems]))
        name = f"a record of {len(problems[0].experiments[0].time)} samples ({what}) by multiple shooting, with its intervals"
        lines.append(Line(name, f"{spoken(seconds)} of CPU, {seconds / RECORD:.2f} of the limit; 10^6 of them take "
                          f"{seconds * 1e6 / 3600:.1f} hours", f"at most {spoken(RECORD)}", seconds <= RECORD))
        lines.append(check_line(f"a record ({what})", problems[0], method, seconds))
    return lines


def run() -> Result:
    lines = []
    for samples in SAMPLES:
        problem = oscillator_problem([oscillator_record(samples)])
        for name, (method, limit) in METHODS.items():
            seconds = best(lambda problem=problem, method=method: fit(problem, method))
            lines.append(Line(f"{samples} samples by {name}", f"{spoken(seconds)} of CPU, {seconds / limit:.2f} of the limit",
                              f"at most {spoken(limit)}", seconds <= limit))
            lines.append(check_line(f"{samples} samples by {name}", problem, method, seconds))
    lines += record_lines()
    return Result("Small fits", "Mass on a spring, 3 parameters and 2 initial states, kernels compiled before; from a "
                  "record to its intervals, the model being the same.", lines)


if __name__ == "__main__":
    main(run)
