"""Is the friction of a drive right that is fitted to a measured current, in a closed loop?

An axis is held by a position controller. Its motor current is measured by a sensor with noise, and the encoder reads in steps.
Equations and all: the simulator's. Output error takes the measured current as exact, so that biased parameters explain what its
noise did; where the problem says that the current's sensor has noise, prediction error or total least squares is the criterion.

    python examples/22_current_driven_axis.py
"""

from __future__ import annotations

import numpy as np

import dynident as di

RECORDS, SAMPLES, STEP = 4, 2000, 1e-3
TRUTH = {"J": 2e-4, "Fv": 5e-4, "Fc": 0.02}  # kg m^2, N m s, N m
COUNT, CURRENT_STD = 4e-4, 0.3  # rad, A
AXIS = di.EquationModel(states={"q": "w", "w": "(0.05*i - Fv*w - Fc*tanh(w/0.5))/J"}, inputs=["i"], outputs=["q"])


def record(seed: int) -> di.Experiment:
    """Two seconds in the loop: what the controller sees, and what the current's sensor says."""
    rng, x, last, rows = np.random.default_rng(seed), np.zeros(2), 0.0, []
    for k in range(SAMPLES):
        q = COUNT * np.round((x[0] + 1e-4 * rng.normal()) / COUNT)
        target = np.sin(9.4 * STEP * k) + 0.5 * np.sign(np.sin(14.5 * STEP * k))
        i = 4.0 * (target - q) - 0.05 * (q - last) / STEP
        rows.append((STEP * k, i + CURRENT_STD * rng.normal(), q))
        last = q
        for _ in range(10):
            torque = 0.05 * i - TRUTH["Fv"] * x[1] - TRUTH["Fc"] * np.tanh(x[1] / 0.5)
            x = x + STEP / 10 * np.array([x[1] + STEP / 20 * torque / TRUTH["J"], torque / TRUTH["J"]])
    time, current, position = np.array(rows).T
    return di.Experiment(time, {"i": current}, {"q": position}, {"i": di.Gaussian(CURRENT_STD), "q": di.Gaussian()})


def held(estimate: di.Estimate) -> int:
    """How many intervals hold the truth."""
    return sum(low <= TRUTH[n] <= high for n in TRUTH for low, high in [estimate.uncertainty.interval(n)])


fits: dict[str, list[di.Estimate]] = {"output error": [], "as stated": []}
for seed in range(RECORDS):
    problem = di.Problem(AXIS, [record(seed)], [di.Parameter(n, 1.5 * v) for n, v in TRUTH.items()])
    fits["output error"].append(di.identify(problem.with_output_noise_only(), di.multiple_shooting(), progress=False))
    fits["as stated"].append(di.identify(problem, progress=False))
print(fits["as stated"][-1])
for name, found in fits.items():
    print(f"{name}: Fv = {', '.join(format(1e4 * e.values['Fv'], '.1f') for e in found)} e-4 (truth 5.0)")
inside = {name: sum(held(e) for e in found) for name, found in fits.items()}
print(f"intervals hold the truth: output error {inside['output error']} of {len(TRUTH) * RECORDS}, "
      f"as stated {inside['as stated']} of {len(TRUTH) * RECORDS}")
