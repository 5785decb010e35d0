"""Discretization: is one step of the scheme stable, and do its errors stay below the noise and out of the answer?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.estimate.filtered import Filtered
from dynident.integrators.runge_kutta import RUNGE_KUTTA
from dynident.methods.kalman import stages
from dynident.methods.kalman.engine import Stopped, engine_for
from dynident.methods.kalman.passes import Pass, run
from dynident.methods.kalman.setup import Setup
from dynident.problem.problem import known_std

LOOKS = 200  # samples at which a step is examined
FINER = 16  # Runge-Kutta steps in place of one: as good as exact beside it
SHIFT = 0.5  # standard deviations: a parameter that moves by more when steps are halved is not given by the data alone
GROWTH = 1e-3  # per step beyond what the model itself grows: a thousand steps make it e-fold


@dataclass(frozen=True)
class StepQuality:
    """One step of the scheme along a record, at the sampling time."""

    growth: float  # largest eigenvalue of a step, as a modulus
    true_growth: float  # of the exact flow at the same place
    output_error: dict[str, float]  # error of one step in each output, root mean square
    state_error: dict[str, float]

    @property
    def unstable(self) -> bool:
        return self.growth > max(1.0, self.true_growth) + GROWTH


def step_quality(setup: Setup, record: int, states: np.ndarray) -> StepQuality:
    """Examine steps that start from filtered states, (samples, size) in the filter's coordinates."""
    its = setup.records[record]
    count = len(its.time)
    if count < 2:
        return StepQuality(0.0, 0.0, {}, {})
    rows = np.unique(np.linspace(0, count - 2, min(LOOKS, count - 1)).astype(int))
    look = _examined(setup)
    h = np.minimum(np.diff(its.time)[rows], setup.longest)
    u0 = its.inputs[rows]
    u1 = u0 + its.linear * (its.inputs[rows + 1] - u0) if u0.shape[1] else u0
    growth, true_growth, moved, seen = [], [], [], []
    for k, row in enumerate(rows):
        F, A, dx, dy = (np.asarray(v) for v in look(its.time[row], h[k], states[row], u0[k], u1[k], setup.held))
        if not (np.all(np.isfinite(F)) and np.all(np.isfinite(A))):
            continue
        growth.append(np.max(np.abs(np.linalg.eigvals(F))))
        true_growth.append(np.exp(h[k] * np.max(np.linalg.eigvals(A).real)))
        moved.append(dx.ravel())
        seen.append(dy.ravel())
    if not growth:
        return StepQuality(np.inf, 1.0, {}, {})
    worst = int(np.argmax(np.array(growth) - np.array(true_growth)))
    model = setup.augmented.model
    return StepQuality(float(growth[worst]), float(true_growth[worst]),
                       dict(zip(model.outputs, np.sqrt(np.mean(np.square(seen), axis=0)), strict=True)),
                       dict(zip(model.states, np.sqrt(np.mean(np.square(moved), axis=0)), strict=True)))


def _examined(setup: Setup) -> ca.Function:
    """(t, h, a, u0, u1, p) -> state Jacobian of a step, of the rates; error of a step in the states, in the outputs."""
    augmented = setup.augmented
    s = stages.symbols(augmented)
    nx = len(augmented.model.states)
    x, p = augmented.split(s["a"], s["p"])
    coarse = stages.next_states(augmented, setup.integrator, s)
    fine = s["a"]
    for k in range(FINER):
        at = lambda m: s["u0"] + m / FINER * (s["u1"] - s["u0"])  # noqa: E731
        part = {**s, "h": s["h"] / FINER, "t": s["t"] + k * s["h"] / FINER, "a": fine, "u0": at(k), "u1": at(k + 1)}
        fine = ca.vertcat(stages.next_states(augmented, RUNGE_KUTTA, part), s["a"][nx:])
    rate = augmented.model.rate(s["t"], x, s["u0"], p)
    ends = [stages.outputs(augmented, {**s, "t": s["t"] + s["h"], "u0": s["u1"], "a": ca.vertcat(end, s["a"][nx:])})
            for end in (coarse, fine[:nx])]
    return ca.Function("examined", [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]],
                       [ca.jacobian(coarse, s["a"])[:, :nx], ca.jacobian(rate, s["a"])[:, :nx], coarse - fine[:nx],
                        ends[0] - ends[1]])


def discretization_remarks(setup: Setup, filtered: Filtered, done: Pass) -> list[str]:
    """A sentence for each experiment whose steps are unstable or less accurate than the noise, and for parameters that
    finer steps would move."""
    remarks, reach = [], 0.0
    nx = len(setup.augmented.model.states)
    per_sample = setup.method.process_noise_unit == "sample"
    for e, record in enumerate(filtered.records):
        coordinates = record.values.copy()
        for place, c in enumerate(setup.augmented.coordinates):
            coordinates[:, nx + place] = [c.coordinate(v) for v in record.values[:, nx + place]]
        quality = step_quality(setup, e, coordinates)
        where = f" in '{record.experiment}'" if len(filtered.records) > 1 else ""
        if quality.unstable:
            remarks.append(f"{setup.integrator.name} is unstable at this sampling time{where}: an error grows by a "
                           f"factor of {quality.growth:.3g} in a step where the model itself gives "
                           f"{quality.true_growth:.3g}. Use more substeps, or a scheme of higher order.")
        worst = _worst_error(setup, e, quality, per_sample)
        if worst[1] > 1:
            remarks.append(f"One step of {setup.integrator.name} errs by {worst[1]:.2g} standard deviations of the "
                           f"{worst[0]}{where}: the discretization, not the data, decides. Use more substeps, or a "
                           "scheme of higher order.")
        # if every step errs the same way and each sample sees the sum of all, in standard deviations of what N tell
        reach = max(reach, worst[1] * (setup.method.substeps * len(record.time)) ** 1.5)
    return remarks + (shift_remarks(setup, done) if reach > SHIFT else [])


def shift_remarks(setup: Setup, done: Pass) -> list[str]:
    """One more pass with steps half as long: a sentence where it moves a parameter by a good part of its deviation."""
    finer = replace(setup, longest=setup.longest / 2)
    engine = engine_for(finer)
    try:
        again = run(finer, engine, done.theta, False)
    except Stopped as stop:
        return [f"With steps half as long the filter stops: the discretization, not the data, decides. {stop}"]
    fields, nx = engine.layout.sample, len(setup.augmented.model.states)
    shifts: dict[str, float] = {}
    for e, binding in enumerate(setup.problem.bindings):  # a shared one keeps what the last record says
        coarse, fine = done.samples[e][-1], again.samples[e][-1]
        std = np.sqrt(np.maximum(coarse[fields["variance"]], 0.0))[nx:]
        moved = np.abs(fine[fields["x"]] - coarse[fields["x"]])[nx:]
        for index, by, scale in zip(setup.augmented.free, moved, std, strict=True):
            shifts[setup.problem.unknowns[binding.parameter_unknown[index]].name] = by / scale if scale > 0 else 0.0
    said = ", ".join(f"{name} by {shift:.2g}" for name, shift in shifts.items() if shift > SHIFT)
    return [f"With steps half as long the answer moves, in standard deviations: {said}. The intervals do not hold this "
            f"error of the discretization. Use substeps={2 * setup.method.substeps} or more, or a scheme of higher "
            "order."] if said else []


def _worst_error(setup: Setup, e: int, quality: StepQuality, per_sample: bool) -> tuple[str, float]:
    """What the error of a step exceeds most: the noise of an output, or the process noise of a state over one step."""
    experiment, ratios = setup.problem.experiments[e], {}
    for name, error in quality.output_error.items():
        if name in experiment.outputs:
            given = known_std(experiment, name)
            size = setup.sizes[name] if given is None else float(np.median(given))
            ratios[f"noise of '{name}'"] = error / size
    for i, (name, error) in enumerate(quality.state_error.items()):
        if setup.q[i] > 0 and name not in setup.open_noise:  # an estimated level has the error in it
            over = setup.q[i] / setup.method.substeps if per_sample else setup.q[i] * setup.longest
            ratios[f"process noise of '{name}'"] = error / np.sqrt(over)
    return max(ratios.items(), key=lambda item: item[1]) if ratios else ("noise", 0.0)
