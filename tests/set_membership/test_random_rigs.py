"""Is the truth ever lost? Random smooth plants, records, unknowns and options in the batch; its bounds must hold the truth."""

from importlib.util import find_spec

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")
QUICK, ALL = 40, 500  # 20 more of random hybrid rigs are in test_interval_observer.py
PLANTS = {  # equations, outputs, values, initial states
    "decay": ({"x": "-k*x + b*u"}, {"y": "x"}, {"k": 1.3, "b": 0.7}, {"x": 1.0}),
    "oscillator": ({"x": "v", "v": "-k*x - d*v + u"}, {"y": "x"}, {"k": 4.0, "d": 0.5}, {"x": 1.0, "v": 0.0}),
    "stiffly scaled": ({"x": "v", "v": "-k*x - d*v + 1000*u"}, {"y": "x"}, {"k": 900.0, "d": 10.0}, {"x": 1.0, "v": 0.0}),
    "pendulum": ({"q": "w", "w": "-p*sin(q) - d*w"}, {"angle": "q"}, {"p": 9.0, "d": 0.3}, {"q": 0.8, "w": 0.0}),
    "prey": ({"n": "a*n - b*n*m", "m": "b*n*m - c*m"}, {"n": "n", "m": "m"}, {"a": 1.0, "b": 0.5, "c": 0.8},
             {"n": 2.0, "m": 1.0}),
    "enzyme": ({"s": "-V*s/(K + s)"}, {"s": "s"}, {"V": 1.0, "K": 0.5}, {"s": 2.0}),
    "tank": ({"h": "u - a*sqrt(h)"}, {"h": "h"}, {"a": 0.6}, {"h": 2.0}),
    "friction": ({"v": "(u - F*tanh(v/0.5) - d*v)/m"}, {"v": "v"}, {"F": 0.3, "d": 0.2, "m": 1.2}, {"v": 0.2}),
}


def random_case(seed):
    """A problem, a method and the truth."""
    rng = np.random.default_rng(seed)
    rates, outputs, values, initial = PLANTS[list(PLANTS)[seed % len(PLANTS)]]
    model = di.EquationModel(states=rates, outputs=outputs, inputs=["u"] if any("u" in rate for rate in rates.values()) else [])
    fast = 0.1 if "k" in values and values["k"] > 100 else 1.0
    times = np.append(0, np.cumsum(fast * rng.uniform(0.02, 0.4, int(rng.integers(4, 8)))))
    inputs = {"u": rng.uniform(0.2, 1.0, times.size)} if model.inputs else {}
    truth = {name: value * rng.uniform(0.8, 1.25) for name, value in values.items()}
    hold = str(rng.choice(["zero", "linear"]))
    jitter = 0.01 * fast if rng.random() < 0.2 else 0.0
    taken = times + rng.uniform(-jitter, jitter, times.size) * (times > 0)
    fine = np.unique(np.concatenate([times, taken]))
    along = {n: np.interp(fine, times, u) if hold == "linear" else u[np.searchsorted(times, fine, side="right") - 1]
             for n, u in inputs.items()}
    if hold == "linear" and taken[-1] > times[-1]:  # behind the last sample inputs stay
        along = {n: np.where(fine > times[-1], inputs[n][-1], u) for n, u in along.items()}
    course = di.simulate(model, truth, di.Experiment(fine, along, initial=initial, hold=hold), substeps=100)
    radius = {name: float(rng.choice([0.002, 0.02]) * np.ptp(course.outputs[name]) + 1e-6) for name in outputs}
    outliers = int(rng.random() < 0.15)
    measured = {}
    for name, size in radius.items():
        error = size * (rng.choice([-1.0, 1.0], times.size) if rng.random() < 0.3 else rng.uniform(-1, 1, times.size))
        measured[name] = course.outputs[name][np.searchsorted(fine, taken)] + error
    if outliers:
        wrong = int(rng.integers(1, times.size))
        for name in measured:
            measured[name][wrong] += 50 * radius[name]
    free = rng.random() < 0.3 and not jitter  # an unknown initial state
    state = next(iter(initial))
    record = di.Experiment(times, inputs, measured, {n: di.Bounded(r * (1 + 1e-6)) for n, r in radius.items()}, hold=hold,
                           initial={n: v for n, v in initial.items() if not free or n != state}, time_radius=jitter)
    unknowns = [di.Parameter(n, v, v * rng.uniform(0.5, 0.95), v * rng.uniform(1.05, 2)) for n, v in truth.items()]
    if free:
        unknowns.append(di.InitialState(state, initial[state], lower=0.8 * initial[state], upper=1.3 * initial[state]))
        truth[f"{state}(0)"] = initial[state]
    options = {"max_boxes": int(rng.choice([8, 16])), "tolerance": float(rng.choice([0.1, 0.3])), "max_outliers": outliers,
               "order": int(rng.choice([2, 4, 8]))}
    return di.Problem(model, [record], unknowns), di.set_membership(**options), truth


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < QUICK else pytest.mark.slow) for s in range(ALL)])
def test_the_batch_keeps_the_truth_of_a_random_plant(seed):
    problem, method, truth = random_case(seed)
    found = di.identify(problem, method, progress=False).uncertainty
    assert not found.empty
    for name, value in truth.items():
        low, high = found.interval(name)
        slack = 1e-8 * abs(value)  # the simulated truth itself is rounded, and its steps are finite
        assert low - slack <= value <= high + slack, name
    if found.outer.shape[2] + found.inner.shape[2]:
        boxes, point = np.concatenate([found.outer, found.inner], axis=2), np.array([[truth[n]] for n in found.names])
        near = 1e-8 * np.abs(point)
        assert np.any(np.all((boxes[0] - near <= point) & (point <= boxes[1] + near), axis=0))
