"""Belt drive of the filter paper: how fast is a filter over 10^5 samples, beside peers and beside its own exported C?

Six augmented states, two outputs, Runge-Kutta. All ways filter the same record and must agree. filterpy and dynamax are
not installed with dynident: `make bench` does so, or name a Python that has them in DYNIDENT_PEERS; without them the table
says so.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from kalman_peers import by_numpy, timed
from timing import Line, Result, best, in_fresh_process, main, of_peer, once, size, spoken

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.kalman.backend import AdjointState, FilterBackend, backend_for
from dynident.kalman.export_c import write_filter
from dynident.kalman.method import KalmanMethod, MovingHorizon
from dynident.kalman.setup import FilterSetup, build_setup
from dynident.models.library import TYPICAL, belt_drive

SAMPLES = size(100_000, 400)
SHORT = size(2_000, 200)  # samples for ways that take a tenth of a millisecond each
HORIZON_SAMPLES = size(20_000, 200)
WINDOW = size(1_000, 50)  # sample at which Ipopt's window begins
TRUTH = TYPICAL["belt_drive"]
NOISE = {"motor_angle": 3e-5, "motor_speed": 0.1}
PROCESS = {"omega": 1e-2, "v": 1e-3}
AGREE = 1e-6  # relative, of the last estimate between ways
PEERS = Path(__file__).with_name("kalman_peers.py")


def problem_of(samples: int) -> di.Problem:
    t = np.arange(samples) * 1e-3
    torque = 2 * np.sign(np.sin(2 * np.pi * 1.3 * t)) + 0.5 * np.sin(2 * np.pi * 15 * t)
    rest = {"phi": 0.0, "z": 0.0, "omega": 0.0, "v": 0.0}
    run = di.simulate(belt_drive(), dict(TRUTH), di.Experiment(t, {"tau": torque}, initial=rest), substeps=2)
    rng = np.random.default_rng(0)
    seen = {name: run.outputs[name] + std * rng.standard_normal(samples) for name, std in NOISE.items()}
    record = di.Experiment(t, {"tau": torque}, seen, {n: di.Gaussian(s) for n, s in NOISE.items()}, initial=rest)
    held = [di.Parameter(name, start=value, free=False) for name, value in TRUTH.items() if name not in ("c_spec", "d")]
    return di.Problem(belt_drive(), [record], [*held, di.Parameter("c_spec", start=0.8 * TRUTH["c_spec"], lower=0),
                                               di.Parameter("d", start=1.5 * TRUTH["d"], lower=0)])


def setup(samples: int, **options) -> FilterSetup:
    made = MovingHorizon if "horizon" in options else KalmanMethod
    return build_setup(made(**{"process_noise": PROCESS, **options}), problem_of(samples))


def initialize(backend: FilterBackend, its: FilterSetup) -> np.ndarray:
    record = its.records[0]
    start, std = np.concatenate([record.initial, its.theta]), np.concatenate([record.initial_std, its.theta_std])
    return backend.initialize(start, np.diag(std**2), record.start, record.inputs[0])

def per_step(its: FilterSetup, repeats: int = 5, smoother: bool = False) -> tuple[float, np.ndarray]:
    """CPU seconds per sample of a whole record, and the last estimate."""
    backend, n = backend_for(its), its.augmented.size
    last: list[np.ndarray] = []

    def run() -> None:
        done = backend.filter_record(initialize(backend, its), its.records[0], smoother)
        if done.smoother_data is not None:
            backend.smooth(done.samples, done.smoother_data, AdjointState.zero(n))
        last[:] = [done.samples[-1, :n].copy()]

    seconds = best(run, repeats)
    return seconds / len(its.records[0].time), last[0]


def without_compiler(samples: int) -> list[float]:
    """In a process of its own, since a compiler once found stays found."""
    seconds, last = per_step(setup(int(samples)), 3)
    return [seconds, *last]


def case_of(its: FilterSetup) -> dict[str, Any]:
    """The same record, model, noise and start as plain numbers, for others."""
    record = its.records[0]
    return {"h": 1e-3, "parameters": dict(TRUTH), "start": [*record.initial, *its.theta],
            "std": [*record.initial_std, *its.theta_std], "q": its.q.tolist(), "r": record.variance[0].tolist(),
            "inputs": record.inputs[:, 0].tolist(), "outputs": record.outputs.tolist()}


def exported(its: FilterSetup) -> tuple[float, np.ndarray]:
    """The exported C compiled with -O2, called in a C loop; seconds per sample and the last estimate."""
    loop = """
#include "belt.h"
int run(long n, const double *t, const double *u, const double *y, double *last) {
  belt_filter f; belt_result r; long k; int i;
  belt_init(&f);
  for (k = 0; k < n; k++) if (belt_update(&f, t[k], u + k, y + 2 * k, &r)) return 1;
  for (i = 0; i < 4; i++) last[i] = r.state[i];
  for (i = 0; i < 2; i++) last[4 + i] = r.parameter[i];
  return 0;
}
"""
    with tempfile.TemporaryDirectory() as folder:
        write_filter(its, folder, "belt")
        Path(folder, "loop.c").write_text(loop)
        cc = compiler()
        assert cc is not None
        subprocess.run([cc, "-std=c99", "-O2", "-fPIC", "-shared", "belt.c", "loop.c", "-o", "belt.so", "-lm"],
                       cwd=folder, check=True)
        library = ctypes.CDLL(str(Path(folder, "belt.so")))
    record, last = its.records[0], np.empty(6)
    library.run.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4]
    arrays = [record.time, record.inputs, record.outputs, last]

    def run() -> None:
        assert library.run(len(record.time), *[a.ctypes.data for a in arrays]) == 0

    return best(run, 5) / len(record.time), last


def one_update() -> float:
    """Seconds of `filter.update` from Python."""
    problem = problem_of(SHORT)
    record = problem.experiments[0]
    filter = di.kalman(process_noise=PROCESS).start(problem)
    rows = list(zip(record.time.tolist(), record.inputs["tau"].tolist(), record.outputs["motor_angle"].tolist(),
                    record.outputs["motor_speed"].tolist(), strict=True))
    times = []
    for begin in range(0, SHORT, 200):
        part = rows[begin:begin + 200]
        times.append(once(lambda part=part: [filter.update(t, (u,), (a, b)) for t, u, a, b in part])[0])
    return min(times) / 200


def ipopt_window(its: FilterSetup, horizon: int = 10) -> float:
    """Seconds to solve one window of the same length in Ipopt (warm start, Gauss-Newton Hessian is not used)."""
    import casadi as ca

    from dynident.kalman.model_functions import measurement_function, next_states, symbols

    s = symbols(its.augmented)
    nxt = next_states(its.augmented, its.integrator, s)
    step = ca.Function("step", [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]], [ca.vertcat(nxt, s["a"][4:])])
    look = ca.Function("look", [s["t"], s["a"], s["u0"], s["p"]], [measurement_function(its.augmented, s)])
    record = its.records[0]
    x, prior, weight = ca.SX.sym("x", 6, horizon + 1), ca.SX.sym("prior", 6), ca.SX.sym("W", 6, 6)
    u, y = ca.SX.sym("u", 1, horizon + 1), ca.SX.sym("y", 2, horizon + 1)
    std = np.sqrt(record.variance[0])
    cost = ca.sumsqr(weight @ (x[:, 0] - prior))
    equal = []
    for k in range(horizon + 1):
        cost += ca.sumsqr((y[:, k] - look(0, x[:, k], u[:, k], its.fixed)) / std)
        if k:
            moved = step(0, 1e-3, x[:, k - 1], u[:, k - 1], u[:, k - 1], its.fixed)
            noisy = np.flatnonzero(its.q > 0)
            quiet = np.flatnonzero(its.q == 0)
            cost += ca.sumsqr((x[noisy.tolist(), k] - moved[noisy.tolist()]) / np.sqrt(its.q[noisy] * 1e-3))
            equal.append(x[quiet.tolist(), k] - moved[quiet.tolist()])
    solver = ca.nlpsol("mhe", "ipopt", {"x": ca.vec(x), "f": cost, "g": ca.vertcat(*equal),
                                        "p": ca.vertcat(prior, ca.vec(weight), ca.vec(u), ca.vec(y))},
                       {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes",
                        "ipopt.warm_start_init_point": "yes", "ipopt.mu_init": 1e-6})
    backend = backend_for(its)
    done = backend.filter_record(initialize(backend, its), record)
    samples, first = done.samples, WINDOW
    _, P = backend.estimate(done.memory)
    W = np.linalg.inv(np.linalg.cholesky(P + 1e-18 * np.diag(np.diag(P))))
    guess = samples[first:first + horizon + 1, :6].T
    data = np.concatenate([samples[first, :6], W.ravel(order="F"), record.inputs[first:first + horizon + 1].ravel(),
                           record.outputs[first:first + horizon + 1].ravel()])
    return best(lambda: solver(x0=guess.ravel(order="F"), p=data, lbg=0, ubg=0), 3)


def beside(name: str, answer: dict[str, Any] | str, ours: float, reference: np.ndarray, target: float) -> Line:
    """A line with the ratio to another way that came to the same estimate, or why there is none."""
    if isinstance(answer, str):
        return Line(f"{name} / ours", f"not run: {answer}", f"at least {target:g}")
    off = float(np.max(np.abs(np.array(answer["last"]) / reference - 1)))
    assert off < AGREE, f"{name} disagrees by {off:.1e}"
    return Line(f"{name} ({spoken(answer['seconds'])} a step) / ours", f"{answer['seconds'] / ours:.0f}",
                f"at least {target:g}", answer["seconds"] / ours >= target)


def at_most(what: str, value: float, target: float) -> Line:
    return Line(what, f"{value:.2f}", f"at most {target:g}", value <= target)


def at_least(what: str, value: float, target: float) -> Line:
    return Line(what, f"{value:.3g}", f"at least {target:g}", value >= target)


def run() -> Result:
    whole, short = setup(SAMPLES), setup(SHORT)
    plain, _ = per_step(setup(SAMPLES, covariance_update="plain"))
    ours, reference = per_step(whole)
    _, reference_short = per_step(short, 1)
    free_of_compiler, *_ = in_fresh_process(__file__, "--interpreted", size(20_000, 100), environment={"DYNIDENT_CC": "none"})
    few, many = case_of(short), case_of(whole)
    by_hand = timed(by_numpy(few), few)
    in_c, last_c = exported(whole)
    assert np.max(np.abs(last_c / reference - 1)) < AGREE
    update = one_update()
    horizon, _ = per_step(setup(HORIZON_SAMPLES, horizon=10), 3)
    lines = [
        Line("whole record, Joseph form, per step", spoken(ours)),
        beside("NumPy loop", by_hand, ours, reference_short, 350),
        beside("filterpy", of_peer(PEERS, "filterpy", few), ours, reference_short, 400),
        beside("dynamax", of_peer(PEERS, "dynamax", many), ours, reference, 12),
        at_most("ours / exported C with -O2", ours / in_c, 2),
        Line("whole record without a compiler, per step", spoken(free_of_compiler)),
        at_least("NumPy loop / ours without a compiler", by_hand["seconds"] / free_of_compiler, 8),
        Line("filter.update from Python", spoken(update), "at most 10 us", update <= 10e-6),
        at_most("Joseph / plain", ours / plain, 1.2),
        Line("square root / plain", f"{per_step(setup(SAMPLES, covariance_update='square_root'))[0] / plain:.2f}"),
        at_most("unscented / extended", per_step(setup(SAMPLES, filter="unscented"))[0] / plain, 4.5),
        at_most("filter and smoother / extended", per_step(whole, 3, smoother=True)[0] / plain, 3.2),
        at_most("moving horizon of 10 / extended", horizon / plain, 150),
        at_least("the same horizon in Ipopt / ours", ipopt_window(setup(HORIZON_SAMPLES)) / horizon, 80),
    ]
    return Result("Kalman filters on the belt drive", f"6 augmented states, 2 outputs, {SAMPLES} samples at 1 kHz, "
                  "Runge-Kutta; CPU time of one thread, best of several.", lines)


if __name__ == "__main__":
    main(run, interpreted=without_compiler)
