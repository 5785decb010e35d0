# ruff: noqa: E501  one status, one line
"""Status examples: a small run that ends with each status."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import casadi
import numpy as np

import dynident as di
from dynident import status
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.errors import SimulatorLost
from dynident.solvers.gauss_newton import LEVENBERG, UNSCALED_ITERATIONS
from dynident.solvers.globalization import NaturalMonotonicity
from dynident.solvers.least_squares import LeastSquaresLoop, outcome_of
from dynident.status import Status, StatusCode, fit_status
from dynident.tolerances import UNBOUNDED_STEP

T = np.linspace(0, 5, 51)
NOISE = 0.01 * np.random.default_rng(0).standard_normal(T.size)


def record(y: np.ndarray, noise: di.Gaussian | di.Bounded | None = None, **initial: float) -> di.Experiment:
    return di.Experiment(T, outputs={"x": y}, noise={"x": noise or di.Gaussian(0.01)}, initial=initial)


def decay(*unknowns: di.Parameter, y: np.ndarray | None = None, rate: str = "-k*x", noise: di.Gaussian | di.Bounded | None = None,
          constraints: tuple[str, ...] = ()) -> di.Problem:
    return di.Problem(di.EquationModel(states={"x": rate}), [record(np.exp(-T) + NOISE if y is None else y, noise, x=1.0)],
                      list(unknowns or (di.Parameter("k", 0.5),)), constraints=constraints)


def ended(problem: di.Problem, method: object, **options: object) -> Status:
    """The status of a run, converged or not."""
    try:
        return di.identify(problem, method, **{"progress": False, **options}).status
    except di.NotConverged as stopped:
        assert stopped.estimate is not None
        return stopped.estimate.status


def twins() -> di.Problem:
    """Two decays that begin at one rate: the cost bends down where the two rates part."""
    model = di.EquationModel(states={"x": "-k1*x", "y": "-k2*y"}, outputs={"sum": "x + y"})
    run = di.Experiment(T, outputs={"sum": np.exp(-0.5 * T) + np.exp(-4 * T) + NOISE}, initial={"x": 1.0, "y": 1.0})
    return di.Problem(model, [run], [di.Parameter("k1", 2.0), di.Parameter("k2", 2.0)])


def few_samples() -> di.Problem:
    run = di.Experiment([0, 1, 2, 3], outputs={"x": [1, 0.61, 0.37, 0.22]}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    return di.Problem(di.EquationModel(states={"x": "-k*x"}), [run], [di.Parameter("k", 0.5)])


def spring(*start: float) -> di.Problem:
    """With a negative mass at the start mass, stiffness and damping grow together, and let it stand still."""
    model = di.EquationModel(states={"y": "v", "v": "(u - b*v - k*y)/m"}, outputs={"position": "y"}, inputs=["u"],
                             parameters=["m", "k", "b"])
    time = np.linspace(0, 10, 101)
    still = di.Experiment(time, {"u": np.sin(0.8 * time) + np.sin(1.2 * time)}, {}, hold="linear", initial={"y": 0, "v": 0})
    clean = di.simulate(model, {"m": 1, "k": 1, "b": 1}, still, substeps=8).outputs["position"]
    run = di.Experiment(time, still.inputs, {"position": clean + 0.01 * np.random.default_rng(0).standard_normal(101)},
                        {"position": di.Gaussian(0.01)}, hold="linear")
    return di.Problem(model, [run], [di.InitialState("y", start=0.0), di.InitialState("v", start=0.0),
                                     *(di.Parameter(n, start=value) for n, value in zip("mkb", start, strict=True))])


def shaken(seed: int = 1, known: bool = True, **start: float) -> di.Problem:
    """The same mass at twice the time, with errors of 0.01."""
    time = np.linspace(0, 10, 101)
    force = {"u": np.sin(0.8 * time) + np.sin(1.2 * time)} if known else {"u": 2 * np.sin(2.1 * time) + np.sin(3.7 * time)}
    model = spring(1, 1, 1).model
    clean = di.simulate(model, {**dict.fromkeys("mkb", 1.0), "y(0)": 0.0, "v(0)": 0.0}, di.Experiment(time, force), substeps=20)
    y = clean.outputs["position"] + 0.01 * np.random.default_rng(seed).standard_normal(time.size)
    run = di.Experiment(time, force, {"position": y}, {"position": di.Gaussian(0.01 if known else None)})
    return di.Problem(model, [run], [di.Parameter(name, start=value) for name, value in start.items()])


def saturated() -> di.Problem:
    """A record of a pure decay: the rate saturates nowhere, so that the best K is infinite."""
    return di.Problem(di.EquationModel(states={"x": "-V*x/(K + x)"}), [record(np.exp(-0.8 * T) + NOISE)], [di.Parameter("V", 1.0), di.Parameter("K", 1.0)])


def binding() -> di.Problem:
    """Steps of the fixed-step Radau scheme have a second root here, which is no motion of the model."""
    model = di.EquationModel(states={"A": "-0.01*A - 1e4*A*B", "B": "-1e4*A*B", "C": "1e4*A*B - k2*C"}, outputs={"C": "C"})
    quiet = di.Experiment(np.linspace(0, 10, 51), initial={"A": 1.0, "B": 0.8, "C": 0.0})
    clean = di.simulate(model, {"k2": 1.0}, quiet, integrator="radau5").outputs["C"]
    run = di.Experiment(quiet.time, outputs={"C": clean + NOISE}, noise={"C": di.Gaussian(0.01)}, initial=quiet.initial)
    return di.Problem(model, [run], [di.Parameter("k2", start=0.8, lower=8e-4)])


def walled() -> di.Problem:
    """The optimum lies where the output is not defined."""
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x + 1e-9*sqrt(1 - k)"})
    run = di.Experiment(T, outputs={"y": np.exp(-2 * T) + NOISE}, noise={"y": di.Gaussian(0.01)}, initial={"x": 1.0})
    return di.Problem(model, [run], [di.Parameter("k", 0.3)])


def upright() -> di.Problem:
    """A pendulum that is held upright, and a small torque that the model does not know: differences grow without end.

    That something is said about its first angle forbids to cut the record into pieces."""
    model = di.EquationModel(states={"q": "v", "v": "g*sin(q) - c*tanh(v/0.01) + u"}, inputs=["u"], outputs=["q", "v"], parameters=["g", "c"])
    t, rng = np.arange(0, 20, 0.02), np.random.default_rng(0)
    q, v = 0.5 * np.sin(1.3 * t) + 0.3 * np.sin(0.7 * t), 0.65 * np.cos(1.3 * t) + 0.21 * np.cos(0.7 * t)
    torque = -0.845 * np.sin(1.3 * t) - 0.147 * np.sin(0.7 * t) - 9.81 * np.sin(q) + np.tanh(v / 0.01) + 0.3 * np.sin(3 * t)
    seen = {"q": q + 1e-3 * rng.normal(size=t.size), "v": v + 1e-3 * rng.normal(size=t.size)}
    run = di.Experiment(t, inputs={"u": torque}, outputs=seen, hold="linear", name="upright")
    return di.Problem(model, [run], [di.Parameter("g", 9.0), di.Parameter("c", 0.8), di.InitialState("q", start=0.0)])


class Gone:
    """A simulator that is there at the start, and then no more."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, t: np.ndarray, u: object, p: dict[str, float]) -> dict[str, np.ndarray]:
        self.calls += 1
        if self.calls > 20:
            raise SimulatorLost("the machine behind it was switched off.")
        return {"x": np.exp(-p["k"] * t)}


def lost() -> Status:
    run = di.Experiment(T, outputs={"x": np.exp(-T) + NOISE}, noise={"x": di.Gaussian(0.01)})
    return ended(di.Problem(di.SimulatorModel(Gone(), ["k"], ["x"]), [run], [di.Parameter("k", 0.3)]), di.least_squares())


def begun_badly() -> Status:
    run = di.Experiment(T, outputs={"x": np.exp(-T) + NOISE}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    problem = di.Problem(di.EquationModel(states={"x": "-x + a*x**3"}), [run], [di.Parameter("a", -0.1)])
    starts = di.multistart(di.single_shooting(), points=[{"a": -0.1}, {"a": 60.0}])
    return di.identify(problem, starts, progress=False).starts[1].status


def picky() -> Status:
    """A simulator that answers wrongly at one of two starts."""
    def simulate(t: np.ndarray, u: object, p: dict[str, float]) -> dict[str, np.ndarray]:
        return {"x": np.exp(-p["k"] * t)[:None if p["k"] < 4 else -1]}

    run = di.Experiment(T, outputs={"x": np.exp(-T) + NOISE}, noise={"x": di.Gaussian(0.01)})
    problem = di.Problem(di.SimulatorModel(simulate, ["k"], ["x"]), [run], [di.Parameter("k", 0.3)])
    starts = di.multistart(di.least_squares(), points=[{"k": 0.3}, {"k": 5.0}])
    return di.identify(problem, starts, progress=False).starts[1].status


def without_scaling() -> Status:
    """The first of two runs of generalised Gauss-Newton, which the second, with scaled steps, takes over from."""
    finite = di.single_shooting().transcribe(saturated(), 1, {"x": 0.01})
    loop = LeastSquaresLoop(NaturalMonotonicity(), LEVENBERG, UNSCALED_ITERATIONS, max_newton_step=UNBOUNDED_STEP)
    return fit_status(outcome_of(finite, loop.run(finite, finite.start())).reason, False, "without scaling")


def boundary_layer(t: object, y: list[casadi.SX]) -> list[casadi.SX]:
    return [y[1], 1e6 * y[0]]


def bratu(t: object, y: list[casadi.SX]) -> list[casadi.SX]:
    return [y[1], -3.4 * casadi.exp(y[0])]


def ends(first: float, last: float) -> Callable[..., list[casadi.SX]]:
    return lambda a, b: [a[0] - first, b[0] - last]


def stop(_: object) -> None:
    raise KeyboardInterrupt


BOX = di.Parameter("k", 1, 0.1, 3)
EXAMPLES: dict[StatusCode, Callable[[], Status]] = {
    StatusCode.CONVERGED: lambda: ended(decay(), di.single_shooting()),
    StatusCode.CONVERGED_IDENTIFIABLE: lambda: ended(decay(di.Parameter("k", 0.5), di.Parameter("c", 1.0), rate="-k*x*tanh(c)"), di.least_squares()),
    StatusCode.CONVERGED_PERTURBED_START: lambda: ended(decay(di.Parameter("a", 0.0), rate="-a**2*x"), di.single_shooting()),
    StatusCode.CONVERGED_BESIDE_SADDLE: lambda: ended(twins(), di.single_shooting()),
    StatusCode.SIMULATION_NOISE: lambda: ended(decay(y=np.where(T > 0, 0.0, 1.0)), di.single_shooting()),
    StatusCode.FILTERED: lambda: ended(decay(), di.kalman()),
    StatusCode.FILTERED_UNJUDGED: lambda: ended(few_samples(), di.kalman()),
    StatusCode.FILTERED_INCONSISTENT: lambda: ended(decay(y=np.exp(-T) + 0.1 * np.sin(7 * T)), di.kalman()),
    StatusCode.ENCLOSED: lambda: ended(decay(BOX, noise=di.Bounded(0.05)), di.set_membership()),
    StatusCode.ENCLOSED_BOX_LIMIT: lambda: ended(decay(BOX, noise=di.Bounded(0.05)), di.set_membership(max_boxes=4, algorithm="recursive")),
    StatusCode.REFUTED: lambda: ended(decay(BOX, noise=di.Bounded(0.001), y=np.exp(-T) + 0.3 * np.sin(T)), di.set_membership()),
    StatusCode.ITERATION_LIMIT: lambda: ended(decay(), di.single_shooting(max_iterations=1)),
    StatusCode.INTERRUPTED: lambda: ended(decay(), di.single_shooting(), progress=stop),
    StatusCode.INFEASIBLE_CONSTRAINTS: lambda: ended(decay(di.Parameter("k", 1.0, 0, 2), constraints=("k >= 3",)), di.full_discretization()),
    StatusCode.PIECEWISE_CONSTANT: lambda: ended(decay(di.Parameter("k", 0.5), di.Parameter("s", 2.03), rate="-k*x*where(t > s, 2, 1)"), di.single_shooting()),
    StatusCode.CONVERGED_LIMIT_CASE: lambda: ended(saturated(), di.single_shooting()),
    StatusCode.CONVERGED_ROUTES_AGREE: lambda: ended(decay(), di.automatic(method=di.multiple_shooting(max_iterations=3))),
    StatusCode.DIVERGED: lambda: ended(decay(y=np.where(T > 0, 0.0, 1.0), rate="-k*x**2"), di.full_discretization(max_iterations=4)),
    StatusCode.START_REFUSED: picky,
    StatusCode.WANDERING: without_scaling,
    StatusCode.SIMULATOR_LOST: lost,
    StatusCode.START_DIVERGED: begun_badly,
    StatusCode.NO_PROGRESS: lambda: ended(walled(), di.single_shooting()),
    StatusCode.NOISE_NOT_CONVERGED: lambda: ended(shaken(0, False, m=2.0, k=2.0, b=2.0), di.boundary_value(process_noise={"v": 100.0}, max_restarts=0)),
    StatusCode.INTEGRATOR_WRONG: lambda: ended(binding(), di.single_shooting(integrator="radau", substeps=1)),
    StatusCode.NOT_A_MINIMUM: lambda: ended(shaken(m=-3.0, k=-3.0, b=-3.0), di.boundary_value(process_noise={"v": 1.0, "y": 1.0, "k": 1.0}, substeps=1, solver="davidenko")),
    StatusCode.SINGULAR: lambda: di.solve_bvp(lambda t, y: [y[1], 1.0], lambda a, b: [a[1], b[1] - 1], (0, 1), [0, 0]).status,
    StatusCode.MESH_LIMIT: lambda: di.solve_bvp(boundary_layer, ends(1, 0), (0, 1), [0, 0], nodes=20).status,
    StatusCode.INNER_LOOP_FAILED: lambda: di.solve_bvp(bratu, ends(0, 0), (0, 1), [0, 0], method=Davidenko(first=1e-3, shortest=1e-2)).status,
    StatusCode.FILTER_STOPPED: lambda: ended(decay(rate="-k*x**3", y=np.full(T.size, 1e6)), di.kalman(integrator="runge_kutta")),
    StatusCode.FILTER_DIVERGED: lambda: ended(decay(rate="k*x", y=np.exp(3 * np.sin(3 * T)), noise=di.Gaussian(1e-4)), di.kalman(process_noise={"x": 0.0})),
    StatusCode.OUTSIDE_BOUNDS: lambda: ended(decay(di.Parameter("k", 0.4, 0.1, 0.5)), di.boundary_value(solver="davidenko", process_noise={"x": 0.5})),
    StatusCode.SOLVER_FAILED: lambda: ended(walled(), di.single_shooting(solver="sqp")),
    StatusCode.UNSTABLE_RECORD: lambda: ended(upright(), di.multiple_shooting()),
    StatusCode.UNKNOWN: lambda: replace(di.identify(decay(), di.single_shooting(), progress=False), status="Ended by hand.").status,
    StatusCode.UNBOUNDED_MINIMUM: lambda: ended(spring(-0.7, 4.5, 0.66), di.multiple_shooting()),
}

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "statuses.md"
HEAD = """# How a run can end

`estimate.status` is a sentence, and `estimate.status.code` one of these words, which a program can branch on. Each but one
is produced by a small run of `tests/status_examples.py`, which a test repeats: `wandering` by a solver alone, since a method goes
on from it with scaled steps. `converged_no_progress` is the one without: whether a run ends with it turns on rounding.

| code | meaning |
| --- | --- |
"""


def page() -> str:
    """The table of the manual, from the codes and their comments."""
    source = Path(status.__file__).read_text()
    said = {name: words or "" for name, words in re.findall(r"^    ([A-Z_]+) = \"\w+\"(?:  # (.*))?$", source, re.MULTILINE)}
    rows = [f"| `{code.value}` | {said[code.name] or code.value.replace('_', ' ')} |"
            for code in StatusCode]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
