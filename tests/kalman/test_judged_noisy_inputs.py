"""Is a right model called right where a sensor of its input errs, or its loop is closed, and a wrong one still wrong?"""

from __future__ import annotations

import numpy as np
import pytest
from noisy_plants import oscillator, tank

import dynident as di
from dynident.kalman.prediction_error import innovations

FED_THROUGH = {"a": 1.0, "b": 2.0, "d": 0.7}


def lag_with_feedthrough(seed, hold="zero", kind="sensor", samples=300):
    """x' = -a x + b u, y = x + d u, as of an acceleration: the error of the input's sensor is in y's prediction at once."""
    rng, step = np.random.default_rng(seed), 0.1
    u = np.repeat(rng.choice([-1.0, 1.0], samples // 6 + 1), 6)[:samples] + 0.3 * rng.normal(size=samples)
    felt = u + 0.2 * rng.normal(size=samples) * (kind == "behind")
    x, fade = np.zeros(samples), np.exp(-step)
    for k in range(samples - 1):
        slope = (felt[k + 1] - felt[k]) / step if hold == "linear" else 0.0
        rest = 2.0 * (felt[k] - slope)
        x[k + 1] = fade * (x[k] - rest) + rest + 2.0 * slope * step
    model = di.EquationModel(states={"x": "-a*x + b*u"}, inputs=["u"], outputs={"y": "x + d*u"})
    sensed = kind == "sensor"
    record = di.Experiment(step * np.arange(samples), {"u": u + 0.2 * rng.normal(size=samples) * sensed},
                           {"y": x + 0.7 * felt + 0.02 * rng.normal(size=samples)},
                           {"y": di.Gaussian(0.02)} | ({"u": di.Gaussian(0.2)} if sensed else {}), hold=hold)
    return di.Problem(model, [record], [di.Parameter(n, 1.4 * v) for n, v in FED_THROUGH.items()],
                      process_noise={} if sensed else {"u": di.Gaussian()})


def level_in_loop(seed, kind, samples=300):
    """A level that a PI controller holds by what its sensor says: the input of a sample holds the error of that sample."""
    rng, h, integral, rows = np.random.default_rng(seed), 1.5, 0.0, []
    for k in range(samples):
        seen = h + 5e-3 * rng.normal()
        missing = 2.0 + 0.8 * np.sign(np.sin(0.06 * k) + 1e-9) - seen
        u, integral = max(0.0, 3.0 * missing + 0.1 * integral), integral + missing
        rows.append((u + 0.15 * rng.normal() * (kind == "sensor"), seen))
        for _ in range(5):
            h += 0.2 * (0.05 * u - 0.08 * np.sqrt(max(h, 1e-6))) + np.sqrt(0.2) * 0.01 * rng.normal() * (kind == "process")
    u, seen = np.array(rows).T
    model = di.EquationModel(states={"h": "c*u - a*sqrt(h)"}, inputs=["u"], outputs=["h"])
    record = di.Experiment(np.arange(float(samples)), {"u": u}, {"h": seen},
                           {"h": di.Gaussian()} | ({"u": di.Gaussian(0.15)} if kind == "sensor" else {}))
    return di.Problem(model, [record], [di.Parameter("c", 0.06), di.Parameter("a", 0.1)],
                      process_noise={"h": di.Gaussian()} if kind == "process" else {})


@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.parametrize("kind", ["sensor", "behind"])
def test_intervals_hold_the_truth_where_an_output_feels_a_noisy_input_at_once(hold, kind):
    inside, trials = 0, 15 * len(FED_THROUGH)
    for seed in range(15):
        found = di.identify(lag_with_feedthrough(seed, hold, kind, 600), "prediction_error", progress=False)
        assert found.criterion == ("errors in variables" if kind == "sensor" else "prediction error")
        inside += sum(low <= v <= high for n, v in FED_THROUGH.items() for low, high in [found.uncertainty.interval(n)])
    assert inside >= 0.95 * trials - 3 * np.sqrt(trials * 0.95 * 0.05)


def line(seed, stated=True):
    """A curve without states: the error of the abscissa's sensor is in the ordinate at once, and nowhere else."""
    rng, u = np.random.default_rng(seed), np.random.default_rng(seed + 1000).normal(size=200)
    noise = {"y": di.Gaussian(0.05)} | ({"u": di.Gaussian(0.3)} if stated else {})
    record = di.Experiment(np.arange(200.0), {"u": u + 0.3 * rng.normal(size=200)},
                           {"y": 0.7 * u + 0.2 + 0.05 * rng.normal(size=200)}, noise)
    model = di.EquationModel(states={}, inputs=["u"], outputs={"y": "d*u + c"})
    return di.Problem(model, [record], [di.Parameter("d", 1.0), di.Parameter("c", 0.0)])


def demings_line(record):
    """Slope and offset in closed form, by the ratio of the two variances."""
    x, y, ratio = np.array(record.inputs["u"]), np.array(record.outputs["y"]), (0.05 / 0.3) ** 2
    xx, yy, xy = np.var(x), np.var(y), np.mean((x - x.mean()) * (y - y.mean()))
    slope = (yy - ratio * xx + np.sqrt((yy - ratio * xx) ** 2 + 4 * ratio * xy**2)) / (2 * xy)
    return slope, y.mean() - slope * x.mean()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_line_through_noisy_abscissas_is_demings(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(innovations, "_library", lambda model: None)
    for seed in range(3 if compiled else 1):
        problem = line(seed)
        found, (slope, offset) = di.identify(problem, progress=False), demings_line(problem.experiments[0])
        assert found.criterion == "errors in variables"
        assert found.values["d"] == pytest.approx(slope, abs=1e-4 * found.uncertainty.std("d"))
        assert found.values["c"] == pytest.approx(offset, abs=1e-4 * found.uncertainty.std("c"))


def test_intervals_of_such_a_line_hold_it():
    inside = 0
    for seed in range(40):
        found = di.identify(line(seed), progress=False)
        inside += sum(low <= v <= high for n, v in (("d", 0.7), ("c", 0.2)) for low, high in [found.uncertainty.interval(n)])
    assert inside >= 0.95 * 80 - 3 * np.sqrt(80 * 0.95 * 0.05)


def test_a_curve_of_which_no_noise_is_stated_stays_with_output_error():
    without = line(0, stated=False)
    assert di.identify(without, progress=False).criterion == "output error"
    still = di.Experiment(np.arange(9.0), outputs={"y": 1.0 + 0.1 * np.cos(np.arange(9.0) ** 2)}, noise={"y": di.Gaussian(0.1)})
    curve = di.Problem(di.EquationModel(states={}, outputs={"y": "c + 0*t"}), [still], [di.Parameter("c", 0.5)])
    assert di.identify(curve, "prediction_error", progress=False).criterion == "output error"


RIGHT = {"line": line, "tank": lambda seed: tank(seed, "sensor")[0], "oscillator": lambda seed: oscillator(seed, "sensor")[0],
         "fed through": lag_with_feedthrough, "fed through, linear": lambda seed: lag_with_feedthrough(seed, "linear"),
         "loop, sensor": lambda seed: level_in_loop(seed, "sensor"),
         "loop, process": lambda seed: level_in_loop(seed, "process")}


@pytest.mark.parametrize("plant", RIGHT)
def test_of_a_right_model_it_is_not_said_that_it_misses_an_effect(plant):
    """Predictions and recorded input share the error of the sensor; in a loop the input follows what was measured."""
    grades = [di.identify(RIGHT[plant](seed), "prediction_error", progress=False).verdict.grade for seed in range(6)]
    assert sum(grade.startswith("A") for grade in grades) >= 5


@pytest.mark.parametrize("plant", ["tank", "loop, sensor"])
def test_a_model_that_misses_an_effect_is_still_seen_behind_a_noisy_input(plant):
    """An outlet that does not know of the level."""
    model, seen = di.EquationModel(states={"h": "c*u - a + 0*h"}, inputs=["u"], outputs=["h"]), 0
    for seed in range(5):
        try:
            found = di.identify(RIGHT[plant](seed).replace(model=model), "prediction_error", progress=False)
        except di.NotConverged as end:
            found = end.estimate
        seen += not found.verdict.grade.startswith("A")
    assert seen >= 4
