"""Filters and long records: do time and memory grow with the samples, or faster?"""

from __future__ import annotations

from kalman_belt_drive import NOISE, PROCESS, problem_of
from timing import Line, Result, growth, in_fresh_process, main, once, peak_bytes, size, spoken

import dynident as di

SAMPLES = size((100_000, 1_000_000, 10_000_000), (200, 400))
PART = size(100_000, 200)  # samples per call
LINEAR = (0.9, 1.1)  # slope of log time over log samples
MEMORY = 1.3  # peak of the longest over that of the shortest: streamed, so it does not grow


def streamed(samples: int) -> list[float]:
    """Seconds in the filter, and the peak of memory, over a record that arrives in parts."""
    problem = problem_of(PART)
    method, record = di.kalman(process_noise=PROCESS), problem.experiments[0]
    method.start(problem).run(record)  # pays for the memory that all parts use again; it is no matter of growth
    filter = method.start(problem)
    noise = {name: di.Gaussian(std) for name, std in NOISE.items()}
    seconds = 0.0
    length = record.time[-1] + 1e-3
    for k in range(int(samples) // PART):
        part = di.Experiment(record.time + k * length, record.inputs, record.outputs, noise)  # the same again
        took, _ = once(lambda part=part: filter.run(part))
        seconds += took
    return [seconds, peak_bytes()]


def run() -> Result:
    found = {n: in_fresh_process(__file__, "--streamed", n) for n in SAMPLES}
    slope = growth(SAMPLES, [found[n][0] for n in SAMPLES])
    memory = found[SAMPLES[-1]][1] / found[SAMPLES[0]][1]
    lines = [Line(f"{n} samples, streamed", f"{spoken(found[n][0])}, {found[n][1] / 2**20:.0f} MiB at most")
             for n in SAMPLES]
    lines += [Line("growth of time (1 is linear)", f"{slope:.2f}", f"{LINEAR[0]} to {LINEAR[1]}",
                   LINEAR[0] <= slope <= LINEAR[1]),
              Line(f"peak of memory, {SAMPLES[-1]} over {SAMPLES[0]} samples", f"{memory:.2f}", f"at most {MEMORY}",
                   memory <= MEMORY)]
    setting = f"Belt drive, parts of {PART} samples, one compiled call each."
    return Result("Kalman filters on long records", setting, lines)


if __name__ == "__main__":
    main(run, streamed=streamed)
