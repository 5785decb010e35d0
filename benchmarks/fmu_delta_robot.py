"""FMU: the calling loop beside a bare C loop and beside fmpy, and the whole delta robot estimation beside scipy."""

from __future__ import annotations

import ctypes
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fmpy
import numpy as np
import scipy.optimize
from timing import Line, Result, best, main, once, spoken

import dynident as di
from dynident.integrators.grid import grid_of
from dynident.kernels.compiler import load_library
from dynident.models.fmu.export import export_fmu
from dynident.models.fmu.library import Instance
from dynident.models.library.delta_robot import TABLE_1, delta_robot, pick_and_place

NOISE = 0.05
TRUE = {name: estimate for name, (_, estimate) in TABLE_1.items()}
START = {name: start for name, (start, _) in TABLE_1.items()}
OUTPUTS = ["torque_1", "torque_2", "torque_3"]
BARE_LOOP = """
#include <stddef.h>
typedef int (*Access)(void *, const unsigned *, size_t, double *);
typedef int (*Step)(void *, double, double, int);
void bare_loop(void *c, Access set, Step step, Access get, const unsigned *in, size_t nu, const unsigned *out,
               size_t ny, long n, const double *t, double *u, double *y) {
  long k;
  for (k = 0; k + 1 < n; k++) {
    set(c, in, nu, u + (k + 1) * nu);
    step(c, t[k], t[k + 1] - t[k], 1);
    get(c, out, ny, y + (k + 1) * ny);
  }
}
"""


def bare_loop(model: di.FmuModel, grid) -> float:
    """CPU seconds of set, step, get in C and nothing else, instance and all."""
    instance = Instance(model._plan(tuple(TRUE)))
    library = load_library("bare fmu loop 1", lambda: BARE_LOOP)
    call = library.bare_loop
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    call.argtypes = [pointer] * 5 + [size, pointer, size, ctypes.c_long, pointer, pointer, pointer]
    call.restype = None
    (inputs,), (outputs,), (written,) = (instance.slots(n) for n in (model.inputs, model.outputs, tuple(TRUE)))
    values, y = np.array(list(TRUE.values())), np.zeros((grid.nodes, len(model.outputs)))

    def run() -> None:
        instance.reset()
        instance.initialize(0.0, float(grid.time[-1]), [(written, values)])
        instance.leave_initialization()
        call(instance.handle, *(instance.address(n) for n in ("SetReal", "DoStep", "GetReal")),
             inputs.references.ctypes.data, inputs.references.size, outputs.references.ctypes.data,
             outputs.references.size, grid.nodes, grid.time.ctypes.data, grid.u_node.ctypes.data, y.ctypes.data)
        instance.terminate()

    return best(run)


def peer(path: str, description, time_, rows, values) -> np.ndarray:
    found = fmpy.simulate_fmu(path, model_description=description, fmi_type="CoSimulation", start_time=0.0,
                              stop_time=time_[-1], step_size=time_[1], output_interval=time_[1], input=rows,
                              output=OUTPUTS, start_values=dict(zip(TRUE, values, strict=True)), validate=False)
    return np.column_stack([found[n] for n in OUTPUTS])


def estimate_by_scipy(path, description, time_, rows, measured) -> tuple[float, np.ndarray]:
    def residual(scaled: np.ndarray) -> np.ndarray:
        y = peer(path, description, time_, rows, scaled * np.array(list(START.values())))
        return ((y[:len(measured)] - measured[:len(y)]) / NOISE).ravel()

    lower = [0.3 if n == "efficiency" else 0.0 for n in TRUE]
    upper = [1.0 + 1e-12 if n == "efficiency" else np.inf for n in TRUE]
    begin = np.full(7, 1 - 1e-9)  # strictly inside of the bounds, as scipy asks
    seconds, found = once(lambda: scipy.optimize.least_squares(residual, begin, bounds=(lower, upper)))
    return seconds, found.x * np.array(list(START.values()))


def wall(problem, executor) -> float:
    began = time.perf_counter()
    di.identify(problem, di.least_squares(), executor=executor, progress=False)
    return time.perf_counter() - began


def run() -> Result:
    folder = tempfile.TemporaryDirectory()
    path = export_fmu(delta_robot(), Path(folder.name, "delta.fmu"), START)
    time_, inputs = pick_and_place()
    clean = di.simulate(delta_robot(), TRUE, di.Experiment(time_, inputs), substeps=1).outputs
    rng = np.random.default_rng(7)
    noisy = {n: y + NOISE * rng.normal(size=y.size) for n, y in clean.items()}
    record = di.Experiment(time_, inputs, noisy, {n: di.Gaussian(NOISE) for n in noisy})
    rows = np.zeros(time_.size, dtype=[("time", float), *((n, float) for n in inputs)])
    rows["time"] = time_
    for name, column in inputs.items():
        rows[name] = column

    steps, values = time_.size, np.array(list(TRUE.values()))
    loops = {}
    for alignment in ("feedthrough", "sampled"):
        model = di.FmuModel(path, kind="co_simulation", alignment=alignment, trusted=True)
        grid = grid_of(model, record, 1, True)
        simulator = model.simulator(tuple(TRUE))
        loops[alignment] = best(lambda s=simulator, g=grid: s.run(values, g)) / steps
    bare = bare_loop(model, grid) / steps
    unpacked, description = fmpy.extract(str(path)), fmpy.read_model_description(str(path))
    by_fmpy = best(lambda: peer(unpacked, description, time_, rows, values), repeats=3) / steps

    unknowns = [di.Parameter(n, lower=0.3 if n == "efficiency" else 0.0, upper=1.0 if n == "efficiency" else np.inf)
                for n in TRUE]
    problem = di.Problem(di.FmuModel(path, kind="co_simulation", trusted=True), [record], unknowns)
    ours_seconds, ours = once(lambda: di.identify(problem, di.least_squares(), progress=False))
    measured = np.column_stack([noisy[n] for n in OUTPUTS])
    scipy_seconds, theirs = estimate_by_scipy(unpacked, description, time_, rows, measured)
    std = np.array([ours.uncertainty.std(n) for n in TRUE])
    miss = [float(np.max(np.abs(np.asarray(v) - values) / std)) for v in ([ours.values[n] for n in TRUE], theirs)]

    slow = di.Problem(di.FmuModel(path, kind="co_simulation"), [_long(record, 20)], unknowns)
    with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(1) as single:
        pairs = [(wall(slow, single), wall(slow, pool)) for _ in range(3)]
    speed_up = min(a for a, _ in pairs) / min(b for _, b in pairs)
    folder.cleanup()
    return Result(
        "FMU: delta robot", f"FMI 2.0 Co-Simulation, {steps} steps, 9 inputs, 3 outputs, 7 parameters.", [
            Line("a step beside a bare C loop (set, step, get)", f"{loops['feedthrough'] / bare:.2f} times "
                 f"({spoken(loops['feedthrough'])} against {spoken(bare)})", "at most 1.5",
                 loops["feedthrough"] <= 1.5 * bare),
            Line("an aligned step (with the tiny one) beside the bare loop", f"{loops['sampled'] / bare:.2f} times"),
            Line("a step beside fmpy.simulate_fmu", f"{by_fmpy / loops['sampled']:.0f} times faster "
                 f"({spoken(by_fmpy)})", "at least 50", by_fmpy >= 50 * loops["sampled"]),
            Line("the estimation beside scipy on simulate_fmu", f"{scipy_seconds / ours_seconds:.0f} times faster "
                 f"({spoken(ours_seconds)} against {spoken(scipy_seconds)})", "at least 40",
                 scipy_seconds >= 40 * ours_seconds),
            Line("largest error in standard errors, ours and scipy on simulate_fmu",
                 f"{miss[0]:.1f} and {miss[1]:.0f}"),
            Line("differences on 2 processes beside 1 (wall clock)", f"{speed_up:.2f} times faster", "at least 1.7",
                 speed_up >= 1.7)],
        ["Wall clock of two processes needs two idle processors; on a busy machine it says little."])


def _long(record: di.Experiment, times: int) -> di.Experiment:
    """The record repeated, so that simulating outweighs everything else."""
    step = record.time[1]
    t = np.arange(times * record.samples) * step
    return di.Experiment(t, {n: np.tile(u, times) for n, u in record.inputs.items()},
                         {n: np.tile(y, times) for n, y in record.outputs.items()}, record.noise)


if __name__ == "__main__":
    main(run)
