"""Thesis, Chapter 7: a mass on a spring, two masses, a mass with friction, two masses with friction, and its starts.

The rig's records cannot be had: they are simulated with the thesis' estimates as truth, and noise. Where the thesis leaves
something open (the length of the records, the exact inputs, some weights), a choice stands below with the word 'chosen'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dynident as di
from dynident.boundary.smoothing.method import BoundaryValueMethod

SCALED = 100.0  # (7.11): masses, stiffness, damping, friction and input of the rig, times 100
NOISE = {"one mass": 0.01, "rig": 1e-3}  # standard deviations of the measured positions; chosen


@dataclass(frozen=True, eq=False)
class RotorStudy:
    """One of the thesis' systems: a record, the weights, the truth, and starts with the thesis' iterations/Jacobians."""

    name: str
    record: di.Experiment
    model: di.EquationModel
    weights: dict[str, Any]
    truth: dict[str, float]
    starts: dict[str, tuple[float, ...]]  # by number of the experiment: start values
    thesis: dict[str, tuple[int, int]]  # by number of the experiment: iterations and Jacobians of its solver (DAMUSN)

    def problem(self, start: Sequence[float]) -> di.Problem:
        rest = [di.InitialState(state, start=0.0) for state in self.model.states]
        return di.Problem(self.model, [self.record], [*rest, *(
            di.Parameter(name, start=float(value)) for name, value in zip(self.truth, start, strict=True))])

    def fit(self, start: Sequence[float], solver: str = "smoother", **options: Any) -> di.Estimate:
        """The estimate, converged or not."""
        method = BoundaryValueMethod(**self.weights, measurements="continuous", solver=solver, **options)
        try:
            return di.identify(self.problem(start), method, progress=False)
        except di.NotConverged as stopped:
            assert stopped.estimate is not None
            return stopped.estimate


def std_of(weights: Mapping[str, float]) -> dict[str, float]:
    """The thesis' weights as the standard deviations whose inverse squares they are."""
    return {name: weight**-0.5 for name, weight in weights.items()}


def measured(model: di.EquationModel, truth: Mapping[str, float], time: np.ndarray, inputs: Mapping[str, np.ndarray],
             std: float, seed: int = 0) -> di.Experiment:
    """A simulated record of a system that starts at rest, with noise."""
    quiet = di.Experiment(time, inputs, {}, hold="linear", initial=dict.fromkeys(model.states, 0.0))
    rng = np.random.default_rng(seed)
    clean = di.simulate(model, truth, quiet, substeps=8).outputs
    outputs = {name: values + std * rng.standard_normal(time.size) for name, values in clean.items()}
    return di.Experiment(time, inputs, outputs, dict.fromkeys(outputs, di.Gaussian(std)), hold="linear")


def filtered_noise(time: np.ndarray, seed: int = 1) -> np.ndarray:
    """White noise of unit variance behind two first-order filters at 80 rad/s."""
    fine = np.linspace(time[0], time[-1], 4001)  # the same signal whatever the sampling
    signal = np.random.default_rng(seed).standard_normal(fine.size)
    keep = np.exp(-80 * (fine[1] - fine[0]))
    for _ in range(2):
        for k in range(1, fine.size):
            signal[k] = keep * signal[k - 1] + (1 - keep) * signal[k]
    return np.interp(time, fine, signal / np.std(signal))


def one_mass(samples: int = 101, std: float = NOISE["one mass"]) -> RotorStudy:
    """Sec. 7.2, with the starts of (7.6) and that of the text; 10 s chosen."""
    model = di.EquationModel(name="one mass", states={"y": "v", "v": "(u - b*v - k*y)/m"}, outputs={"position": "y"},
                             inputs=["u"], parameters=["m", "k", "b"])
    truth = {"m": 1.0, "k": 1.0, "b": 1.0}
    time = np.linspace(0, 10, samples)
    record = measured(model, truth, time, {"u": np.sin(0.8 * time) + np.sin(1.2 * time)}, std)
    weights = {"process_noise": dict.fromkeys((*model.states, *truth), 1.0), "measurement_noise": 0.1,
               "initial_noise": dict.fromkeys(model.states, 1.0)}
    return RotorStudy("one mass (Table 7.1)", record, model, weights, truth,
                 {"1": (5, 5, 5), "2": (10, 10, 10), "3": (50, 50, 50), "text": (100, 10, 0.1)},
                 {"1": (23, 4), "2": (38, 6), "3": (64, 7), "text": (80, 0)})


RIG_STARTS = ((1, 1, 100, 100), (0.2, 5, 1000, 10), (1, 10, 5000, 1))  # Table 7.8; 7.2 is lost and said to be the same


def two_masses(samples: int = 251, noisy: bool = True) -> RotorStudy:
    """Sec. 7.3: a sine that sweeps from 5 to 14 Hz, or a sine with filtered noise; 1 s chosen."""
    coupling = "b*(v2 - v1) + k*(y2 - y1)"
    model = di.EquationModel(name="two masses", states={
        "y1": "v1", "y2": "v2", "v1": f"(100*u + {coupling})/m1", "v2": f"-({coupling})/m2"},
        outputs={"first": "y1", "second": "y2"}, inputs=["u"], parameters=["m1", "m2", "k", "b"])
    estimates = (0.0049, 0.0671, 24.84, 0.202) if noisy else (0.0015, 0.0594, 15.66, 0.0615)  # Tables 7.5 and 7.3
    truth = {name: SCALED * value for name, value in zip(("m1", "m2", "k", "b"), estimates, strict=True)}
    time = np.linspace(0, 1, samples)
    sweep = np.sin(2 * np.pi * (5 * time + 4.5 * time**2))
    u = np.sin(2 * np.pi * 2 * time) + filtered_noise(time) if noisy else sweep
    weights = {"process_noise": std_of(dict.fromkeys(model.states, 1e5) | {"m1": 1e3, "m2": 1e3, "k": 1e2, "b": 1e2}),
               "measurement_noise": 0.1, "initial_noise": dict.fromkeys(model.states, 1.0)}  # (7.10)
    numbers = "456" if noisy else "123"
    found = ((110, 14), (42, 6), (64, 9)) if noisy else ((63, 11), (52, 7), (76, 13))
    return RotorStudy(f"two masses, {'sine and filtered noise (Table 7.5)' if noisy else 'sweep (Table 7.3)'}",
                 measured(model, truth, time, {"u": u}, NOISE["rig"]), model, weights, truth,
                 dict(zip(numbers, RIG_STARTS, strict=True)), dict(zip(numbers, found, strict=True)))


def mass_with_friction(samples: int = 251, steepness: float = 50.0) -> RotorStudy:
    """Sec. 7.4: friction F* arctan(A v) with F* = 2 Fc/pi; the start is lost, and m = 1, F* = 0 chosen."""
    model = di.EquationModel(name="mass with friction", states={"y": "v", "v": "(100*u - F*atan(A*v))/m"},
                             outputs={"position": "y"}, inputs=["u"], constants={"A": steepness}, parameters=["m", "F"])
    truth = {"m": SCALED * 0.0609, "F": SCALED * 0.1357 * 2 / np.pi}
    time = np.linspace(0, 1, samples)
    u = np.sin(2 * np.pi * 2 * time) + filtered_noise(time)
    weights = {"process_noise": std_of({"y": 1e3, "v": 1e3, "m": 1e3, "F": 1e2}), "measurement_noise": 1.0,
               "initial_noise": {"y": 1.0, "v": 1.0}}  # (7.16), its first entry torn
    return RotorStudy(f"mass with friction, A = {steepness:g} (Table 7.6)",
                      measured(model, truth, time, {"u": u}, NOISE["rig"]), model, weights, truth, {f"A={steepness:g}": (1, 0)},
                      {f"A={steepness:g}": (21, 3) if steepness == 50 else (29, 4)})


def two_masses_with_friction(samples: int = 251) -> RotorStudy:
    """Sec. 7.5, weights of the friction as in (7.16); here the thesis' competitor stopped in experiment 7."""
    coupling = "b*(v2 - v1) + k*(y2 - y1)"
    model = di.EquationModel(name="two masses with friction", states={
        "y1": "v1", "y2": "v2", "v1": f"(100*u + {coupling} - F1*atan(50*v1))/m1",
        "v2": f"(-({coupling}) - F2*atan(50*v2))/m2"}, outputs={"first": "y1", "second": "y2"}, inputs=["u"],
        parameters=["m1", "m2", "k", "b", "F1", "F2"])
    truth = {"m1": 0.46, "m2": 5.58, "k": 2208.0, "b": 14.18, "F1": 7.14 * 2 / np.pi, "F2": 7.08 * 2 / np.pi}
    time = np.linspace(0, 1, samples)
    u = np.sin(2 * np.pi * 2 * time) + filtered_noise(time)
    weights = {"process_noise": std_of(dict.fromkeys(model.states, 1e5) | {"m1": 1e3, "m2": 1e3, "k": 1e2, "b": 1e2,
                                                                            "F1": 1e2, "F2": 1e2}),
               "measurement_noise": 0.1, "initial_noise": dict.fromkeys(model.states, 1.0)}
    starts: dict[str, tuple[float, ...]] = {number: (*start, 0, 0) for number, start in zip("789", RIG_STARTS, strict=True)}
    return RotorStudy("two masses with friction (Table 7.9)", measured(model, truth, time, {"u": u}, NOISE["rig"]), model,
                 weights, truth, starts, {"7": (122, 19), "8": (90, 16), "9": (103, 17)})
