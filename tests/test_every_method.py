"""Does every method still give the answer that is written down, on every machine that it takes?

`tests/data/every_method.json` holds values, 95 % intervals and costs. Values and interval ends are compared to a thousandth
of the standard error (of the half width, where a set is proved), costs to a millionth, so that the table holds on every
processor; rows that need more room stand in LOOSER with their reason. A change that alters an answer on purpose writes the
rows anew and gives the reason in its commit:

    python tests/test_every_method.py --write                      all rows
    python tests/test_every_method.py --write multiple_shooting    those of one method
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import dynident as di
from problems import MACHINES, bellman, gas_oil, lotka_volterra, lynx_and_hare, pinene

TABLE = Path(__file__).parent / "data" / "every_method.json"
RADII = 4.0  # standard deviations of the noise: the bound that errors of a bounded machine never exceed here

METHODS = {
    "automatic": di.automatic(),
    "single_shooting": di.single_shooting(),
    "single_shooting, gauss_newton": di.single_shooting(solver="gauss_newton"),
    "multiple_shooting": di.multiple_shooting(),
    "multiple_shooting, huber": di.multiple_shooting(loss="huber"),
    "multiple_shooting, cvodes": di.multiple_shooting(integrator="cvodes"),
    "full_discretization": di.full_discretization(),
    "full_discretization, ipopt": di.full_discretization(solver="ipopt", max_iterations=1000),  # pinene: 105 to 211
    "least_squares": di.least_squares(),
    "kalman": di.kalman(),
    "kalman, unscented": di.kalman(filter="unscented"),
    "kalman, smoother": di.kalman(smoother=True),
    "moving_horizon": di.moving_horizon(),
    "boundary_value": di.boundary_value(),
    "prediction_error": di.prediction_error(),
    "prediction_error, process noise": di.prediction_error(process_noise="estimate"),
    "multistart": di.multistart(di.multiple_shooting(), starts=4),
    "set_membership": di.set_membership(),
}
PUBLISHED = {"lynx_and_hare": lambda: lynx_and_hare(True), "bellman": bellman, "lotka_volterra": lotka_volterra,
             "gas_oil": gas_oil, "pinene": pinene}
FLAT = "the process noise is found by maximum likelihood, to the tolerance of a search in a flat valley"
PASSES = "the noises are found by passes that end at a hundredth of a standard error, one more or less by the last bit"
LOOSER = {  # (method, machine): times the usual tolerance of the cost and of values, and why
    ("kalman", "pinene"): (100, 5, FLAT), ("kalman, smoother", "pinene"): (100, 5, FLAT),
    ("moving_horizon", "pinene"): (1000, 10, FLAT),
    **{("prediction_error, process noise", machine): (1000, 10, PASSES) for machine in (*MACHINES, *PUBLISHED)},
}


def bounded(name: str) -> di.Problem:
    """A machine whose errors are cut off at a bound, unknowns within a tenth of the truth."""
    machine = MACHINES[name]
    rng = np.random.default_rng(0)
    measured = {n: y + machine.std[n] * np.clip(rng.standard_normal(y.size), -RADII, RADII)
                for n, y in machine.outputs().items()}
    run = di.Experiment(machine.time, machine.inputs, measured, hold=machine.hold, initial=machine.initial,
                        noise={n: di.Bounded(RADII * s) for n, s in machine.std.items()})
    return di.Problem(machine.model, [run], unknowns_within(name, 1.1))


def between_bounds(name: str) -> di.Problem:
    """A machine whose unknowns lie between bounds, initial states given: from there starts can be drawn."""
    machine = MACHINES[name]
    return di.Problem(machine.model, [machine.record(3, initial=machine.initial)], unknowns_within(name, 3.0))


def unknowns_within(name: str, factor: float) -> list[di.Parameter]:
    """From a factor below the truth to a factor above it, beginning between the truth and the upper end."""
    truth = MACHINES[name].truth
    return [di.Parameter(n, start=v * factor**0.5, lower=min(v / factor, factor * v), upper=max(v / factor, factor * v))
            for n, v in truth.items()]


def problem_of(method: str, machine: str) -> di.Problem:
    if machine in PUBLISHED:
        return PUBLISHED[machine]()
    if method == "set_membership":
        return bounded(machine)
    if method == "multistart":
        return between_bounds(machine)
    return MACHINES[machine].problem(seed=3)


def answer(method: str, machine: str) -> dict:
    """A row of the table."""
    try:
        estimate = di.identify(problem_of(method, machine), METHODS[method], progress=False)
        converged = True
    except (di.NotSupported, di.ProblemError):
        return {"refused": True}
    except di.NotConverged as end:
        estimate, converged = end.estimate, False
    names = estimate.problem.names
    return {"converged": converged, "cost": estimate.cost, "values": {n: estimate.values[n] for n in names},
            "intervals": {n: list(estimate.uncertainty.interval(n)) for n in names}}


SLOW = {("set_membership", "servo_axis"), ("set_membership", "two_mass")}
ROWS = [(method, machine) for method in METHODS for machine in (*MACHINES, *PUBLISHED)]


def read_table() -> dict[str, dict[str, dict]]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


@pytest.mark.parametrize(("method", "machine"), [pytest.param(*row, marks=[pytest.mark.slow] if row in SLOW else [])
                                                 for row in ROWS])
def test_the_answer_is_the_one_written_down(method, machine):
    stored, found = read_table()[method][machine], answer(method, machine)
    assert found.keys() == stored.keys()
    if "refused" in stored:
        return
    cost_times, times, _reason = LOOSER.get((method, machine), (1, 1, ""))
    assert found["converged"] is stored["converged"]
    assert found["cost"] == pytest.approx(stored["cost"], rel=1e-6 * cost_times, nan_ok=True)
    for name, (low, high) in stored["intervals"].items():
        room = 1e-3 * times * ((high - low) / (2 * 1.96) if math.isfinite(high - low) else abs(stored["values"][name]))
        assert found["values"][name] == pytest.approx(stored["values"][name], abs=room, rel=1e-12, nan_ok=True), name
        assert found["intervals"][name] == pytest.approx([low, high], abs=room, rel=1e-12, nan_ok=True), name


def test_the_table_has_no_row_that_nobody_asks_for():
    assert {(method, machine) for method, rows in read_table().items() for machine in rows} == set(ROWS)


def write(methods: list[str]) -> None:
    table = read_table()
    for method, machine in ROWS:
        if not methods or method in methods:
            table.setdefault(method, {})[machine] = answer(method, machine)
            print(method, machine, flush=True)
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit(__doc__)
    write([word for word in sys.argv[1:] if word != "--write"])
