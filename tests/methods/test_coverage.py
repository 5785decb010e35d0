"""Do the intervals of whole fits hold the truth as often as they promise?

Over 300 repeats the share in which a 95 % interval holds the truth scatters by 1.3 % itself. Asked for is 93 to 97 %
over all unknowns together, and 92 to 98 % for each of them alone (2.4 standard deviations of the count).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

import dynident as di
from problems import MACHINES, Machine, staircase

REPEATS = 300
METHOD = di.single_shooting(substeps=2)


def vibrating(samples: int, duration: float) -> Machine:
    time = np.linspace(0, duration, samples)
    machine = MACHINES["mass_spring_damper"]
    return replace(machine, time=time, inputs={"F": staircase(time, 0.7, 2.0, 1)}, start=dict(machine.truth))


def swinging() -> Machine:
    machine = MACHINES["pendulum"]
    return replace(machine, time=np.linspace(0, 6, 61), start=dict(machine.truth))


def alike(rng: np.random.Generator, count: int, phi: float) -> np.ndarray:
    """Errors of variance one with correlation phi from one sample to the next."""
    return lfilter([np.sqrt(1 - phi**2)], [1, -phi], rng.standard_normal(count), zi=[phi * rng.standard_normal()])[0]


def shares(machine: Machine, phi: float = 0.0, noise_known: bool = True) -> dict[str, np.ndarray]:
    """For each kind of interval, the share of repeats in which it holds the truth, unknown by unknown."""
    rng = np.random.default_rng(11)
    clean = machine.outputs()
    (output,) = clean
    std = machine.std[output]
    truth = machine.all_true
    hits = {kind: np.zeros(len(truth)) for kind in ("plain", "corrected", "printed")}
    for _ in range(REPEATS):
        y = clean[output] + std * alike(rng, clean[output].size, phi)
        noise = {output: di.Gaussian(std if noise_known else None)}
        run = di.Experiment(machine.time, machine.inputs, {output: y}, noise)
        found = di.identify(di.Problem(machine.model, [run], machine.parameters()), METHOD, progress=False).uncertainty
        for kind, count in hits.items():
            for i, (name, value) in enumerate(truth.items()):
                low, high = found.interval(name, kind=None if kind == "printed" else kind)
                count[i] += low <= value <= high
    return {kind: count / REPEATS for kind, count in hits.items()}


@pytest.mark.parametrize("machine, noise_known", [(vibrating(100, 10), True), (swinging(), False)],
                         ids=["vibrating, noise known", "swinging, noise estimated"])
def test_interval_holds_the_truth_as_often_as_it_says(machine, noise_known):
    share = shares(machine, noise_known=noise_known)["printed"]
    assert 0.93 <= np.mean(share) <= 0.97
    assert np.all((share >= 0.92) & (share <= 0.98)), share


def test_errors_that_keep_company_spoil_the_plain_interval_and_not_the_corrected_one():
    share = shares(vibrating(500, 20), phi=0.9)
    assert np.all(share["plain"] < 0.6), share["plain"]
    assert np.all(share["corrected"] >= 0.9), share["corrected"]
    assert np.all(share["printed"] >= 0.9), share["printed"]
