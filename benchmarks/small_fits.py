"""Small fits: what does a fit of 30 to 200 samples cost whose simulations take microseconds, and a record of a fleet?"""

from __future__ import annotations

from growth import oscillator_problem, oscillator_record
from timing import Line, Result, best, main, size, spoken

import dynident as di
from dynident.statistics.uncertainty import LEVEL

SAMPLES = size((30, 100, 200), (50,))
FLEET_SAMPLES = size(401, 50)
SINGLE, MULTIPLE, RECORD = 3e-3, 5e-3, 6e-3  # seconds of CPU
METHODS = {"single shooting": (di.single_shooting(), SINGLE), "multiple shooting": (di.multiple_shooting(), MULTIPLE)}


def fit(problem: di.Problem, method) -> dict[str, tuple[float, float]]:
    """The intervals of a record that nobody has looked at before: nothing is known of it from the last fit."""
    estimate = di.identify(problem.replace(experiments=problem.experiments), method, progress=False)
    return {name: estimate.uncertainty.interval(name, LEVEL) for name in problem.names}


def run() -> Result:
    lines = []
    for samples in SAMPLES:
        problem = oscillator_problem([oscillator_record(samples)])
        for name, (method, limit) in METHODS.items():
            seconds = best(lambda problem=problem, method=method: fit(problem, method))
            lines.append(Line(f"{samples} samples by {name}", f"{spoken(seconds)} of CPU, {seconds / limit:.2f} of the limit",
                              f"at most {spoken(limit)}", seconds <= limit))
    record = oscillator_problem([oscillator_record(FLEET_SAMPLES)])
    seconds = best(lambda: fit(record, di.multiple_shooting()))
    lines.append(Line(f"a record of {FLEET_SAMPLES} samples by multiple shooting, with its intervals",
                      f"{spoken(seconds)} of CPU, {seconds / RECORD:.2f} of the limit; 10^6 of them take "
                      f"{seconds * 1e6 / 3600:.1f} hours", f"at most {spoken(RECORD)}", seconds <= RECORD))
    return Result("Small fits", "Mass on a spring, 3 parameters and 2 initial states, kernels compiled before; from a "
                  "record to its intervals, the model being the same.", lines)


if __name__ == "__main__":
    main(run)
