"""The EMPS fit: how long does a whole fit of a real record take, and how long with scipy to the same cost?

The record is not part of the project (see examples/06_real_servo_emps.py): set DYNIDENT_EMPS to the folder that holds
DATA_EMPS.csv, or put it at ../shared/data/emps beside the project.
"""

from __future__ import annotations

import bisect
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from timing import SMOKE, Line, Result, in_fresh_process, main, once, ratio_text, spoken

import dynident as di
from dynident.integrators.propagation import CompiledPropagator

GAIN = 35.15065188248547  # N/V, as published with the record
SMOOTH = 2e-3  # m/s: the published simulation spreads the sign as tanh(1e4 v/Fc)
PUBLISHED = {"M": 95.1089, "Fv": 203.5034, "Fc": 20.3935, "offset": -3.1648}  # by inverse dynamics: where to begin
SUBSTEPS = 10
FASTER_THAN_SCIPY = 100.0
SAME_COST = 1e-6  # relative


def folder() -> Path:
    beside = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "emps"
    return Path(os.environ.get("DYNIDENT_EMPS", beside))


def emps_problem() -> di.Problem:
    record = di.read_csv(folder() / "DATA_EMPS.csv", time="t", inputs={"u": "vir"}, outputs={"position": "qm"}
                         ) if not SMOKE else stand_in()
    bounds = {"M": (1, 1000), "Fv": (0, 1000), "Fc": (0, 1000), "offset": (-np.inf, np.inf)}
    return di.Problem(di.library.servo_axis(gain=GAIN, v_smooth=SMOOTH), [record], [
        di.Parameter(name, start=start, lower=bounds[name][0], upper=bounds[name][1])
        for name, start in PUBLISHED.items()])


def stand_in(samples: int = 100) -> di.Experiment:
    """A simulated record of the same axis, for a smoke run without the real one."""
    t = 1e-3 * np.arange(samples)
    u = 2 * np.sign(np.sin(60 * t))
    position = di.simulate(di.library.servo_axis(gain=GAIN, v_smooth=SMOOTH), PUBLISHED, di.Experiment(
        t, {"u": u}, initial={"q": 0.0, "v": 0.0})).outputs["position"]
    return di.Experiment(t, {"u": u}, {"position": position + 1e-6 * np.random.default_rng(0).standard_normal(samples)})


def fit() -> dict[str, Any]:
    """One fit with its report in this process, and where the wall time went."""
    integrating = [0.0]
    march = CompiledPropagator.run

    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return march(*arguments, **named)
        finally:
            integrating[0] += time.perf_counter() - began

    CompiledPropagator.run = timed  # type: ignore[method-assign]
    method, identify, page = di.single_shooting(substeps=SUBSTEPS), di.identify, di.report.html  # loaded before the clock
    began = time.perf_counter()
    problem = emps_problem()
    read = time.perf_counter() - began
    cpu, estimate = once(lambda: identify(problem, method, progress=False))
    reported = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        page(estimate, Path(place, "report.html"))
    residuals = estimate.residuals[0]["position"]
    return {"read": read, "compile": estimate.times["compile"], "integrate": integrating[0],
            "solve": estimate.times["fit"] + estimate.times["statistics"] - integrating[0],
            "report": time.perf_counter() - reported, "cpu": cpu, "squares": float(residuals @ residuals),
            "rmse": float(np.sqrt(np.mean(residuals**2))), "iterations": estimate.counts["iterations"]}


def scipy_simulation(problem: di.Problem) -> Callable[[np.ndarray], np.ndarray]:
    """Positions for (M, Fv, Fc, offset, q(0), v(0)), as one writes it with scipy."""
    record = problem.experiments[0]
    times, u = np.asarray(record.time).tolist(), np.asarray(record.inputs["u"]).tolist()

    def positions(unknowns: np.ndarray) -> np.ndarray:
        M, Fv, Fc, offset, q, v = unknowns.tolist()

        def rate(t: float, x: np.ndarray) -> tuple[float, float]:
            drive = GAIN * u[min(bisect.bisect_right(times, t), len(u)) - 1]
            return x[1], (drive - Fv * x[1] - Fc * math.tanh(x[1] / SMOOTH) - offset) / M

        return solve_ivp(rate, (times[0], times[-1]), [q, v], method="LSODA", t_eval=times, rtol=1e-6, atol=1e-9).y[0]

    return positions


def our_simulation(problem: di.Problem) -> Callable[[np.ndarray], np.ndarray]:
    """The same positions by a fixed-step loop in C, to count what scipy's solver would ask for."""
    from dynident.integrators import integrator_named
    from dynident.transcription.shooting import Shooting

    finite = Shooting(problem, integrator_named("runge_kutta"), [1], SUBSTEPS, {"position": 1.0})
    point = finite.start()

    def positions(unknowns: np.ndarray) -> np.ndarray:
        moved = point.step_along(unknowns - point.unknowns, point.nodes)
        return finite.run(moved, False)[0].outputs[:, 0].copy()

    return positions


def simulations_to(problem: di.Problem, squares: float) -> tuple[int, float]:
    """How many simulations scipy's least_squares takes until it is as good as we are, and how good it ends."""
    measured = np.asarray(problem.experiments[0].outputs["position"])
    simulate, calls, arrived = our_simulation(problem), [0], [0]

    def residuals(unknowns: np.ndarray) -> np.ndarray:
        calls[0] += 1
        found = measured - simulate(unknowns)
        if not arrived[0] and found @ found <= (1 + SAME_COST) * squares:
            arrived[0] = calls[0]
        return found

    start = np.array([*PUBLISHED.values(), measured[0], 0.0])
    lower = [1, 0, 0, -np.inf, -np.inf, -np.inf]
    end = least_squares(residuals, start, bounds=(lower, np.inf), x_scale="jac")
    return arrived[0] or calls[0], 2 * float(end.cost)


def run() -> Result:
    if not SMOKE and not (folder() / "DATA_EMPS.csv").is_file():
        return Result("The EMPS fit", "Not measured: the record is not here; see the first lines of emps_fit.py.", [])
    with tempfile.TemporaryDirectory() as cache:
        cold = in_fresh_process(__file__, "--fit", environment={"DYNIDENT_CACHE": cache})
        ours = in_fresh_process(__file__, "--fit", environment={"DYNIDENT_CACHE": cache})
    problem = emps_problem()
    simulations, squares = simulations_to(problem, ours["squares"])
    each = once(lambda: scipy_simulation(problem)(np.array([*PUBLISHED.values(), 0.0, 0.0])))[0]
    scipy = each * simulations
    same = squares <= (1 + SAME_COST) * ours["squares"]
    reached = "to the same cost" if same else f"and ends {squares / ours['squares'] - 1:.1g} above our cost"
    ratio = scipy / ours["cpu"]
    spent = [Line(f"of it: {part}", spoken(ours[part]) + (f", {spoken(cold[part])} in the first run" if part == "compile"
                                                        else "")) for part in
             ("read", "compile", "integrate", "solve", "report")]
    samples = len(problem.experiments[0].time)
    return Result("The EMPS fit", f"{samples:,} samples, {SUBSTEPS} sub-steps, 6 unknowns, single shooting from the published "
                  "parameters.", [
                      Line("dynident, CPU time of the fit with its uncertainty", f"{spoken(ours['cpu'])}, "
                           f"{ours['iterations']} iterations, {1e3 * ours['rmse']:.3f} mm"),
                      *spent,
                      Line(f"scipy least_squares over solve_ivp (LSODA), {simulations} simulations {reached}",
                           f"{spoken(scipy)}, {ratio_text(ratio)} times ours", f"at least {FASTER_THAN_SCIPY:g} times",
                           ratio >= FASTER_THAN_SCIPY)],
                  [f"scipy is extrapolated: one simulation takes {spoken(each)}, and the number of simulations is counted "
                   "by running the same least_squares call on a faster simulation of the same model. The parts are wall "
                   "time of the second run; 'solve' holds everything of the fit that is neither compiling nor "
                   "integrating, the uncertainty included."])


if __name__ == "__main__":
    main(run, fit=fit)
