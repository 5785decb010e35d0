"""Growth: how do time and memory grow with samples, segments, experiments and unknowns?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from timing import Line, Result, best, growth, in_fresh_process, main, peak_bytes, size, spoken

import dynident as di
from dynident.integrators import integrator_named
from dynident.linalg.condensing import CondensedProblem
from dynident.transcription.shooting import Shooting

SAMPLES = size((1_000, 10_000, 100_000, 1_000_000), (50, 100))
SEGMENTS = size((1, 10, 100, 1_000), (1, 2))
SAMPLES_PER_SEGMENT = size(1_000, 50)
SAMPLES_TO_CUT = size(100_001, 101)
EXPERIMENTS = size((10, 30, 100, 300, 1_000), (1, 2))
FITTED = size((10, 30, 100, 300, 1_000), (1, 2))
SAMPLES_PER_EXPERIMENT = size(200, 50)
PARAMETERS = size((2, 8, 32, 64, 128, 200), (1, 2))
STATES = size((2, 8, 32, 64, 128, 200), (2, 3))
LINEAR = (0.9, 1.1)  # slope of log cost over log size
SQUARE = (0.0, 2.1)  # of what a triangle of n columns asks for, with a fixed number of rows
LARGE = 30  # times the smallest size: from there the fixed cost of a call is gone
TRUTH = {"m": 1.0, "d": 0.4, "k": 5.0}
NOISE = 0.01


def oscillator_record(samples: int, seed: int = 0) -> di.Experiment:
    """A driven mass on a spring, sampled at 50 Hz, with noise; its exact answer by the state transition matrix."""
    rng = np.random.default_rng(seed)
    time, force = 0.02 * np.arange(samples), rng.normal(size=samples)
    quiet = di.Experiment(time=time, inputs={"F": force}, outputs={}, initial={"x": 0.3, "v": 0.0})
    x = di.simulate(di.library.mass_spring_damper(), TRUTH, quiet, substeps=1).states["x"]
    return di.Experiment(time=time, inputs={"F": force}, outputs={"position": x + NOISE * rng.normal(size=samples)},
                         noise={"position": di.Gaussian(NOISE)}, name=f"run {seed}")


def oscillator_problem(records: Sequence[di.Experiment]) -> di.Problem:
    return di.Problem(di.library.mass_spring_damper(), records,
                      [di.Parameter(name, start=1.1 * value, lower=0.01, upper=100.0) for name, value in TRUTH.items()])


def shooting(problem: di.Problem, segments: int) -> Shooting:
    return Shooting(problem, integrator_named("runge_kutta"), [segments] * len(problem.experiments), 1, {})


def one_pass(finite: Shooting) -> Callable[[], object]:
    """A Gauss-Newton pass with its step: what every iteration costs."""
    point = finite.start()

    def call() -> object:
        linear = finite.linearize(replace(point))  # another object: a point that it has not seen
        reduced = CondensedProblem(linear)
        step = reduced.rows.with_damping(1e-3 * reduced.rows.column_norms).solve()
        return reduced.expand(step)

    return call


def chain_problem(parameters: int) -> di.Problem:
    """One state and many parameters: x' = u - sum of p_i tanh(i x)/i."""
    names = [f"p{i}" for i in range(1, parameters + 1)]
    model = di.EquationModel(states={"x": "u - (" + " + ".join(f"p{i}*tanh({i}*x)/{i}"
                                                                for i in range(1, parameters + 1)) + ")"},
                             outputs={"y": "x"}, inputs=["u"], parameters=names)
    rng = np.random.default_rng(1)
    time, u = 0.02 * np.arange(2_000), rng.normal(size=2_000)
    record = di.Experiment(time=time, inputs={"u": u}, outputs={"y": rng.normal(size=2_000)},
                           noise={"y": di.Gaussian(1.0)})
    return di.Problem(model, [record], [di.Parameter(name, start=1.0) for name in names])


def rod_problem(states: int) -> di.Problem:
    """Heat in a rod of so many points, driven at one end and measured in the middle; all first temperatures are unknown."""
    names = [f"T{i}" for i in range(states)]
    rate = {name: f"k*({'u' if i == 0 else names[i - 1]} - 2*{name} + {names[i + 1] if i + 1 < states else name})"
            for i, name in enumerate(names)}
    model = di.EquationModel(states=rate, outputs={"y": names[states // 2]}, inputs=["u"], parameters=["k"])
    rng = np.random.default_rng(1)
    time = 0.1 * np.arange(2_000)
    record = di.Experiment(time, inputs={"u": rng.normal(size=time.size)}, outputs={"y": rng.normal(size=time.size)},
                           noise={"y": di.Gaussian(1.0)})
    return di.Problem(model, [record], [di.Parameter("k", start=1.0)])


def memory(samples: int, segments: int, experiments: int) -> int:
    """Bytes held at the most by this process after a fit."""
    problem = oscillator_problem([oscillator_record(samples, seed) for seed in range(experiments)])
    di.identify(problem, di.multiple_shooting(segments=segments, substeps=1), progress=False)
    return peak_bytes()


def seconds_of_a_fit(samples: int, segments: int, experiments: int) -> float:
    problem = oscillator_problem([oscillator_record(samples, seed) for seed in range(experiments)])
    return best(lambda: di.identify(problem, di.multiple_shooting(segments=segments, substeps=1), progress=False), 1)


def line(what: str, sizes: Sequence[int], costs: Sequence[float], spoken_as: Callable[[float], str] = spoken,
         promised: tuple[float, float] = LINEAR) -> Line:
    """The slope over the sizes at which the fixed cost is gone; all costs are shown."""
    kept = [i for i, size in enumerate(sizes) if size >= LARGE * sizes[0] or i >= len(sizes) - 2]
    slope = growth([sizes[i] for i in kept], [costs[i] for i in kept])
    shown = ", ".join(f"{size:,}: {spoken_as(cost)}" for size, cost in zip(sizes, costs, strict=True))
    return Line(what, f"slope {slope:.2f} ({shown})", f"{promised[0]:g} to {promised[1]:g}",
                promised[0] <= slope <= promised[1])


def megabytes(size: float) -> str:
    return f"{size / 1e6:.3g} MB"


def memory_line(what: str, sizes: Sequence[int], shape: Callable[[int], tuple[int, int, int]]) -> Line:
    """Memory beyond that of a tiny fit, which is the interpreter and its libraries."""
    base = in_fresh_process(__file__, "--memory", 20, 1, 1)
    return line(what, sizes, [max(in_fresh_process(__file__, "--memory", *shape(size)) - base, 1) for size in sizes],
                megabytes)


def cut_line() -> Line:
    """The same record in more and more segments."""
    problem = oscillator_problem([oscillator_record(SAMPLES_TO_CUT)])
    costs = [best(one_pass(shooting(problem, n)), 5) for n in SEGMENTS]
    shown = ", ".join(f"{n:,}: {spoken(cost)}" for n, cost in zip(SEGMENTS, costs, strict=True))
    return Line(f"{SAMPLES_TO_CUT:,} samples cut into segments, time of a pass", f"{costs[-1] / costs[0]:.2f} times from "
                f"first to last ({shown})")


def pass_times(problems: Iterable[di.Problem], segments: Sequence[int]) -> list[float]:
    return [best(one_pass(shooting(problem, n)), 5) for problem, n in zip(problems, segments, strict=True)]


def run() -> Result:
    records = [[oscillator_record(SAMPLES_PER_EXPERIMENT, seed) for seed in range(n)] for n in EXPERIMENTS]
    lines = [
        line("samples, time of a pass", SAMPLES,
             pass_times((oscillator_problem([oscillator_record(n)]) for n in SAMPLES), [1] * len(SAMPLES))),
        line("samples, time of a whole fit, 20 segments", SAMPLES,
             [in_fresh_process(__file__, "--seconds", n, 20, 1) for n in SAMPLES]),
        memory_line("samples, memory of a whole fit", SAMPLES, lambda n: (n, 20, 1)),
        line(f"segments of {SAMPLES_PER_SEGMENT:,} samples, time of a pass", SEGMENTS,
             pass_times((oscillator_problem([oscillator_record(n * SAMPLES_PER_SEGMENT + 1)]) for n in SEGMENTS), SEGMENTS)),
        memory_line("segments, memory of a whole fit", SEGMENTS, lambda n: (n * SAMPLES_PER_SEGMENT + 1, n, 1)),
        cut_line(),
        line(f"experiments of {SAMPLES_PER_EXPERIMENT} samples, time of a pass", EXPERIMENTS,
             pass_times(map(oscillator_problem, records), [1] * len(EXPERIMENTS))),
        line("experiments, time of a whole fit", FITTED, [in_fresh_process(__file__, "--seconds", SAMPLES_PER_EXPERIMENT, 1,
                                                                           n) for n in FITTED]),
        memory_line("experiments, memory of a whole fit", FITTED, lambda n: (SAMPLES_PER_EXPERIMENT, 1, n)),
        line("parameters, time of a pass", PARAMETERS, pass_times(map(chain_problem, PARAMETERS), [1] * len(PARAMETERS)),
             promised=SQUARE),
        line("states, time of a pass with the derivatives by all first states", STATES,
             pass_times(map(rod_problem, STATES), [1] * len(STATES)), promised=SQUARE)]
    return Result("Growth", "Mass on a spring, 3 parameters and 2 initial states per experiment. A pass is a simulation "
                  "with sensitivities, its reduction and the step; slopes of log cost over log size, from sizes at which "
                  "the fixed cost of a call is gone.", lines)


if __name__ == "__main__":
    main(run, memory=memory, seconds=seconds_of_a_fit)
