"""Step checks: is one step of the scheme stable, and do its errors stay below the noise and out of the answer?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.estimate.filter_result import FilterResult
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.kalman.backend import FilterStopped, backend_for
from dynident.kalman.model_functions import measurement_function, next_states, symbols
from dynident.kalman.passes import FilterPass, run_pass
from dynident.kalman.setup import FilterSetup
from dynident.problem.problem import given_std

EXAMINED = 200  # samples at which a step is examined
FINE_STEPS = 16  # Runge-Kutta steps in place of one: as good as exact beside it
MAX_SHIFT = 0.5  # standard deviations: a parameter that moves by more when steps are halved is not given by the data alone
MAX_GROWTH = 1e-3  # per step beyond what the model itself grows: a thousand steps make it e-fold


@dataclass(frozen=True)
class StepQuality:
    """One step of the scheme along a record, at the sampling time."""

    growth: float  # largest eigenvalue of a step, as a modulus
    true_growth: float  # of the exact flow at the same place
    output_error: dict[str, float]  # error of one step in each output, root mean square
    state_error: dict[str, float]

    @property
    def unstable(self) -> bool:
        return self.growth > max(1.0, self.true_growth) + MAX_GROWTH


def step_quality(setup: FilterSetup, record: int, states: np.ndarray) -> StepQuality:
    """Examine steps that start from filtered states, (samples, size) in the filter's coordinates."""
    its = setup.records[record]
    count = len(its.time)
    if count < 2:
        return StepQuality(0.0, 0.0, {}, {})
    rows = np.unique(np.linspace(0, count - 2, min(EXAMINED, count - 1)).astype(int))
    look = _step_error_function(setup)
    h = np.minimum(np.diff(its.time)[rows], setup.max_step)
    u0 = its.inputs[rows]
    u1 = u0 + its.first_order_hold * (its.inputs[rows + 1] - u0) if u0.shape[1] else u0
    growth, true_growth, moved, seen = [], [], [], []
    for k, row in enumerate(rows):
        F, A, dx, dy = (np.asarray(v) for v in look(its.time[row], h[k], states[row], u0[k], u1[k], setup.fixed))
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


def _step_error_function(setup: FilterSetup) -> ca.Function:
    """(t, h, a, u0, u1, p) -> state Jacobian of a step, of the rates; error of a step in the states, in the outputs."""
    augmented = setup.augmented
    s = symbols(augmented)
    nx = len(augmented.model.states)
    x, p = augmented.split(s["a"], s["p"])
    coarse = next_states(augmented, setup.integrator, s)
    fine = s["a"]
    for k in range(FINE_STEPS):
        at = lambda m: s["u0"] + m / FINE_STEPS * (s["u1"] - s["u0"])  # noqa: E731
        part = {**s, "h": s["h"] / FINE_STEPS, "t": s["t"] + k * s["h"] / FINE_STEPS, "a": fine, "u0": at(k), "u1": at(k + 1)}
        fine = ca.vertcat(next_states(augmented, RUNGE_KUTTA, part), s["a"][nx:])
    rate = augmented.model.rate(s["t"], x, s["u0"], p)
    ends = [measurement_function(augmented, {**s, "t": s["t"] + s["h"], "u0": s["u1"], "a": ca.vertcat(end, s["a"][nx:])})
            for end in (coarse, fine[:nx])]
    return ca.Function("step_error", [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]],
                       [ca.jacobian(coarse, s["a"])[:, :nx], ca.jacobian(rate, s["a"])[:, :nx], coarse - fine[:nx],
                        ends[0] - ends[1]])


def step_notes(setup: FilterSetup, filtered: FilterResult, done: FilterPass) -> list[str]:
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
    return remarks + (halved_step_notes(setup, done) if reach > MAX_SHIFT else [])


def halved_step_notes(setup: FilterSetup, done: FilterPass) -> list[str]:
    """One more pass with steps half as long: a sentence where it moves a parameter by a good part of its deviation."""
    finer = replace(setup, max_step=setup.max_step / 2)
    backend = backend_for(finer)
    try:
        again = run_pass(finer, backend, done.theta)
    except FilterStopped as stop:
        return [f"With steps half as long the filter stops: the discretization, not the data, decides. {stop}"]
    fields, nx = backend.layout.sample, len(setup.augmented.model.states)
    shifts: dict[str, float] = {}
    for e, binding in enumerate(setup.problem.bindings):  # a shared one keeps what the last record says
        coarse, fine = done.samples[e][-1], again.samples[e][-1]
        std = np.sqrt(np.maximum(coarse[fields["variance"]], 0.0))[nx:]
        moved = np.abs(fine[fields["x"]] - coarse[fields["x"]])[nx:]
        for index, by, scale in zip(setup.augmented.free, moved, std, strict=True):
            shifts[setup.problem.unknowns[binding.parameter_unknown[index]].name] = by / scale if scale > 0 else 0.0
    said = ", ".join(f"{name} by {shift:.2g}" for name, shift in shifts.items() if shift > MAX_SHIFT)
    return [f"With steps half as long the answer moves, in standard deviations: {said}. The intervals do not hold this "
            f"error of the discretization. Use substeps={2 * setup.method.substeps} or more, or a scheme of higher "
            "order."] if said else []


def _worst_error(setup: FilterSetup, e: int, quality: StepQuality, per_sample: bool) -> tuple[str, float]:
    """What the error of a step exceeds most: the noise of an output, or the process noise of a state over one step."""
    experiment, ratios = setup.problem.experiments[e], {}
    for name, error in quality.output_error.items():
        if name in experiment.outputs:
            given = given_std(experiment, name)
            size = setup.noise_std[name] if given is None else float(np.median(given))
            ratios[f"noise of '{name}'"] = error / size
    for i, (name, error) in enumerate(quality.state_error.items()):
        if setup.q[i] > 0 and name not in setup.open_noise:  # an estimated level has the error in it
            over = setup.q[i] / setup.method.substeps if per_sample else setup.q[i] * setup.max_step
            ratios[f"process noise of '{name}'"] = error / np.sqrt(over)
    return max(ratios.items(), key=lambda item: item[1]) if ratios else ("noise", 0.0)
