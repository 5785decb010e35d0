"""Eight axes, two days of records each: how do their parameters differ, and which axis needs a mechanic?

All axes have the same design, so they share one viscous friction Fv; mass and dry friction differ from axis to axis. One
of them has 60 % more dry friction than the rest. The records are files, as a plant writes them; two processes fit them,
and a second run would repeat nothing that is done.
"""

from pathlib import Path

import numpy as np

import dynident as di

axis = di.EquationModel(
    states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.005)) / M"},
    outputs={"position": "q", "velocity": "v"}, inputs=["u"], constants={"gain": 35.15})
std = {"position": 2e-5, "velocity": 2e-3}
time = np.arange(0, 1.5, 0.005)


def write_records(folder: Path) -> None:
    """One CSV per axis and day: fleet/data/axis07_2026-03-02.csv."""
    rng = np.random.default_rng(19)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(8):
        truth = {"M": 95 + rng.standard_normal(), "Fv": 200.0, "Fc": 32.0 if number == 6 else 20 + rng.standard_normal()}
        for day in (1, 2):
            u = np.repeat(rng.uniform(-4, 4, 30), 10)
            clean = di.simulate(axis, truth, di.Experiment(time, {"u": u}, initial={"q": 0.0, "v": 0.0})).outputs
            table = [time, u, *(clean[name] + std[name] * rng.standard_normal(time.size) for name in std)]
            np.savetxt(folder / f"axis{number:02d}_2026-03-{day:02d}.csv", np.column_stack(table), delimiter=",",
                       header="t,u,position,velocity", comments="", fmt="%.8g")


if __name__ == "__main__":  # each worker process reads this file anew
    write_records(Path("fleet/data"))
    fleet = di.Fleet(
        axis, "data/{machine}_{time}.csv", folder="fleet",
        reading={"time": "t", "inputs": ["u"], "outputs": {name: di.Gaussian(size) for name, size in std.items()},
                 "initial": {"q": 0.0, "v": 0.0}},
        parameters=[di.Parameter("M", start=50, lower=1, upper=500, unit="kg"),
                    di.Parameter("Fv", start=100, lower=0, upper=1000, unit="N s/m"),
                    di.Parameter("Fc", start=10, lower=0, upper=200, unit="N")],
        method=di.single_shooting(), shared=["Fv"])
    with di.process_pool(workers=2) as pool:
        result = di.fleet(fleet, "fleet/results", executor=pool)
    print(result)

    odd = result.outliers[0]
    print(f"\n{odd.machine} has a dry friction of {odd.value:.1f} N; the truth is 32.")
