"""Plans stay what they are: criterion, predicted standard deviations and inputs against a stored table.

One case per kind of signal, criterion, constraint and model. Costs are held to 1e-6 (SLSQP ends at 1e-10). At an optimum the
cost is flat, so that inputs are known to the square root of that only: they are held to a hundredth of their largest value,
and predicted standard deviations to a thousandth. A change that is meant rewrites the table:
`python tests/design/test_frozen_plans.py`, with the reason in the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynident as di
from dynident.papers.drive_train import drive_train as drive_train_model

TABLE = Path(__file__).with_name("frozen_plans.json")
COST, STD, INPUT = 1e-6, 1e-3, 1e-2  # of the larger of 1 and the cost; relative; of the largest value
WAYPOINTS = 9  # places along a record at which its inputs are stored


def first_order(noise: Any = None) -> di.Problem:
    model = di.EquationModel(states={"x": "-a*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 4, 41)
    run = di.Experiment(time, {"u": np.sin(time)}, {"y": 0 * time}, {"y": noise or di.Gaussian(0.1)}, {"x": 0.0})
    return di.Problem(model, [run], [di.Parameter("a", 0.8), di.Parameter("b", 1.2)])


def two_inputs() -> di.Problem:
    model = di.EquationModel(states={"x": "-a*x + b*u + c*w"}, inputs=["u", "w"], outputs={"y": "x"})
    time = np.linspace(0, 2, 41)
    run = di.Experiment(time, {"u": 0 * time, "w": 0 * time}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    return di.Problem(model, [run], [di.Parameter(n, 1.0) for n in "abc"])


def axis(inertia: str = "M", names: tuple[str, ...] = ("M", "Fv", "Fc"), **options: Any) -> di.Problem:
    model = di.EquationModel(states={"q": "v", "v": f"(35.15*u - Fv*v - Fc*tanh(v/0.02))/({inertia})"},
                             outputs={"position": "q"}, inputs=["u"])
    time = np.arange(0, 1.5, 0.01)
    run = di.Experiment(time, {"u": 1.5 * np.sin(2 * np.pi * time)}, {"position": 0 * time}, {"position": di.Gaussian(1e-3)},
                        {"q": 0.0, "v": 0.0}, hold="linear")
    values = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "m1": 50.0, "m2": 50.0}
    return di.Problem(model, [run], [di.Parameter(n, values[n], lower=1, upper=500) for n in names], **options)


def estimated_axis() -> di.Estimate:
    problem = axis()
    (run,) = problem.experiments
    y = di.simulate(problem.model, {"M": 95.0, "Fv": 200.0, "Fc": 20.0}, run).outputs["position"]
    y = y + 1e-3 * np.random.default_rng(1).standard_normal(y.size)
    measured = di.Experiment(run.time, run.inputs, {"position": y}, run.noise, run.initial, hold="linear")
    return di.identify(problem.replace(experiments=[measured]), progress=False)


def cart() -> di.Problem:
    model = di.EquationModel(states={"x": "u", "angle": "rate", "rate": "-p*angle - d*rate - k*u"}, inputs=["u"],
                             outputs={"angle": "angle"})
    time = np.linspace(0, 4, 81)
    run = di.Experiment(time, {"u": 0 * time}, {"angle": 0 * time}, {"angle": di.Gaussian(0.01)},
                        {"x": 0.0, "angle": 0.0, "rate": 0.0})
    return di.Problem(model, [run], [di.Parameter("p", 9.0), di.Parameter("d", 0.3), di.Parameter("k", 1.0)])


def drive_train() -> di.Problem:
    time = np.arange(401) * 0.02
    run = di.Experiment(time, {"torque": 0 * time}, {"angle": 0 * time}, {"angle": di.Bounded(np.pi / 4096)},
                        {"angle": 0.0, "speed": 0.0})
    return di.Problem(drive_train_model(), [run], [
        di.Parameter("alpha", -4.5), di.Parameter("beta", 65.0), di.Parameter("T_Fs", 0.12, free=False)])


def plan(known: di.Problem | di.Estimate, signal: Any, criterion: Any = None, constraints: Any = (), **options: Any) -> di.Plan:
    return di.design_input(known, signal, criterion, constraints, progress=False, **options)


U = ["abs(u) <= 1"]
SELECTIVE = di.criteria.Selective("alpha", lambda t: 15 * (t / 8) ** 2 * (3 - t / 4), {"alpha": 0.01, "beta": 10.0}, 0.01)
CASES: dict[str, Callable[[], di.Plan]] = {
    "bernstein A": lambda: plan(first_order(), di.signals.Bernstein(4), "A", U, starts=2),
    "piecewise constant D": lambda: plan(first_order(), di.signals.PiecewiseConstant(6), "D", U, starts=2, seed=3),
    "multisine E": lambda: plan(first_order(), di.signals.Multisine(3), "E", U, starts=2),
    "chirp, free duration": lambda: plan(first_order(), di.signals.Chirp(0.1, 2.0), "D", U, duration=(3.0, 4.0), starts=2,
                                         use_records=False),
    "piecewise linear modified E": lambda: plan(first_order(), di.signals.PiecewiseLinear(5), "modified_E", U, starts=2,
                                                use_records=False),
    "motion profile": lambda: plan(cart(), di.signals.MotionProfile(jerk=5.0, acceleration=1.0, velocity=0.5), None,
                                   ["abs(x) <= 0.4"], starts=2, use_records=False),
    "two inputs, one given": lambda: plan(two_inputs(), {"u": di.signals.PiecewiseConstant(4), "w": di.signals.Given(0.5)},
                                          "A", U, starts=2, use_records=False),
    "two records": lambda: plan(two_inputs(), di.signals.PiecewiseConstant(3), "D", [*U, "abs(w) <= 1"], records=2, starts=2,
                                use_records=False),
    "free duration": lambda: plan(first_order(), di.signals.PiecewiseConstant(4), "D", U, duration=(1.0, 2.0), starts=2),
    "constraints of all kinds": lambda: plan(
        axis(), di.signals.PiecewiseLinear(8), "std:M",
        ["abs(u) <= 2.5", "abs(v) <= 0.25", "abs(q) <= 0.08", "abs(der_u) <= 60", "abs(der_v) <= 1.5"], starts=1,
        terminal_constraints=["v == 0"]),
    "from an estimate": lambda: plan(estimated_axis(), di.signals.PiecewiseLinear(5), "std:Fc",
                                     ["abs(u) <= 4", "abs(v) <= 0.4"], starts=2, duration=1.0, sample_time=0.02),
    "tied parameters": lambda: plan(axis("m1 + m2", ("m1", "m2", "Fv", "Fc"), constraints=["m1 == m2"]),
                                    di.signals.PiecewiseLinear(5), "D", ["abs(u) <= 4"], starts=1),
    "robust, average in a box": lambda: plan(first_order(), di.signals.PiecewiseConstant(4), "D", U, robust="average",
                                             box={"a": (0.4, 1.6)}, samples=3, starts=2),
    "robust, worst of the ellipsoid": lambda: plan(first_order(), di.signals.PiecewiseConstant(4), "A", U, robust="worst",
                                                   samples=3, starts=2),
    "bounded noise, wanted a": lambda: plan(first_order(di.Bounded(0.2)), di.signals.PiecewiseConstant(4), None, U, starts=2,
                                            parameters=["a"], use_records=False),
    "mode of a hybrid model, selective": lambda: plan(drive_train(), di.signals.Bernstein(4), SELECTIVE, ["torque <= 0.6"],
                                                      mode="forward", use_records=False, amplitude=0.3, starts=1),
    "mode of a hybrid model, std": lambda: plan(drive_train(), di.signals.Bernstein(4), "std:beta",
                                                ["torque <= 0.6", "angle <= 15", "speed <= 6"], mode="forward",
                                                use_records=False, amplitude=0.3, starts=1),
}


def as_table(found: di.Plan) -> dict[str, Any]:
    records = [{"duration": r.duration, "inputs": {n: waypoints(u).tolist() for n, u in r.inputs.items()}}
               for r in found.records]
    return {"cost": found.cost, "std_before": dict(found.std_before), "std_after": dict(found.std_after),
            "width_after": dict(found.width_after), "converged": found.converged, "records": records,
            "status": str(found.status), "notes": len(found.notes)}


def waypoints(values: np.ndarray) -> np.ndarray:
    return np.asarray(values)[np.linspace(0, len(values) - 1, WAYPOINTS).astype(int)]


def distance(mine: dict[str, list[float]], stored: dict[str, list[float]], sign: int) -> float:
    """Of the largest value; where u and -u tell the same, rounding decides which of the two is found."""
    return max(float(np.max(np.abs(sign * np.array(mine[n]) - u)) / np.max(np.abs(u))) for n, u in stored.items())


@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_the_stored_one(case):
    found, stored = as_table(CASES[case]()), json.loads(TABLE.read_text())[case]
    assert found["cost"] == pytest.approx(stored["cost"], abs=COST * max(1.0, abs(stored["cost"])))
    for key in ("std_before", "std_after", "width_after"):
        assert found[key] == pytest.approx(stored[key], rel=STD), key
    for mine, its in zip(found["records"], stored["records"], strict=True):
        assert mine["duration"] == pytest.approx(its["duration"], rel=1e-9)
        assert min(distance(mine["inputs"], its["inputs"], sign) for sign in (1, -1)) <= INPUT
    assert {k: found[k] for k in ("converged", "status", "notes")} == {k: stored[k] for k in ("converged", "status", "notes")}


if __name__ == "__main__":
    TABLE.write_text(json.dumps({name: as_table(make()) for name, make in CASES.items()}, indent=1) + "\n")
