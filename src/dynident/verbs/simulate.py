"""Simulate: what a model does with given values on the inputs of a record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Trajectory
from dynident.integrators.grid import grid_of
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model, nominal_values, why_not_estimable
from dynident.problem.unit_checks import unit_faults
from dynident.transcription.simulators import runner_for

CLOSE = 1e-7  # relative to the signals: the agreement of a simulation with one of half the step
MOST_SUBSTEPS = 1024


def simulate(model: Model, values: Mapping[str, float], experiment: Experiment, integrator: str = "runge_kutta",
             substeps: int | str = "auto") -> Trajectory:
    """States and outputs at the samples of a record; `values` holds parameters, and initial states as 'q(0)' or by
    the record's `initial`; what an FMU brings along may be left out. With substeps="auto" steps are halved until
    nothing changes."""
    if substeps != "auto" and (not isinstance(substeps, (int, np.integer)) or substeps < 1):
        raise ProblemError(f'substeps = {substeps!r}; give a whole number from 1 on, or "auto".')
    if faults := unit_faults([experiment], model):
        raise ProblemError(faults)
    p, x0, said = _values(model, values, experiment)
    runner = runner_for(model, integrator, said)
    grid = grid_of(model, experiment, everywhere=True)

    def run(count: int) -> np.ndarray | None:
        """Outputs and states side by side."""
        try:
            return np.hstack(runner.run(p, x0, grid.with_substeps(count), True))
        except SimulationDiverged as bad:
            if count >= MOST_SUBSTEPS or bad.lost or runner.adaptive or substeps != "auto":
                stiff = f", or try {runner.if_stiff} if the model is stiff" if runner.if_stiff else ""
                raise ProblemError(f"{experiment.label}: {str(bad).rstrip('.')}. Change the values{stiff}.") from None
            return None

    count = 1 if substeps == "auto" else int(substeps)
    out = run(count)
    if substeps == "auto" and not runner.adaptive:
        while count < MOST_SUBSTEPS:
            count *= 2
            before, out = out, run(count)
            if before is not None and out is not None and _same(before, out):
                break
        else:
            warnings.warn(f"{experiment.label}: halving the steps still changes the simulation at {count:,} sub-steps per "
                          f"sample by {_change(before, out):.1g} of the largest value. Take it as that uncertain"
                          + (f", or try {runner.if_stiff}." if runner.if_stiff else "."), stacklevel=2)
    assert out is not None
    outputs, states = np.split(out[grid.offset:], [len(model.outputs)], axis=1)
    modes = runner.modes(p, x0, grid.with_substeps(count))
    return Trajectory(experiment.name, np.asarray(experiment.time),
                      {n: states[:, i].copy() for i, n in enumerate(model.states)},
                      {n: outputs[:, j].copy() for j, n in enumerate(model.outputs)},
                      None if modes is None else modes[grid.offset:])


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return _change(a, b) <= CLOSE


def _change(a: np.ndarray | None, b: np.ndarray | None) -> float:
    """Largest change of a signal relative to its size; all of it where one of the two is missing.

    What is no number in both, as at samples where nothing is simulated, does not change.
    """
    if a is None or b is None:
        return 1.0
    moved, size = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b)), np.nan_to_num(np.abs(b))
    largest = np.max(size, axis=0, initial=0.0)
    return float(np.max(np.max(moved, axis=0, initial=0.0) / np.where(largest > 0, largest, 1), initial=0.0))


def _values(model: Model, values: Mapping[str, float], experiment: Experiment
            ) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Parameters, initial state, and the names of those about which something was said."""
    given = nominal_values(model)
    faults = _name_faults(model, values) + [f"simulate: '{n}' is {value!r}; give a finite number."
                                            for n, value in values.items() if not _is_finite(value)]
    faults += [f"simulate needs a value for the parameter '{n}'.{did_you_mean(n, values)}"
               for n in model.parameters if _said(values, n, experiment) is None and n not in given]
    faults += [f"{experiment.label}: the model's input '{n}' is not in the record." for n in model.inputs
               if n not in experiment.inputs]
    in_values = {n: _said(values, f"{n}(0)", experiment) for n in model.states}
    faults += [f"{experiment.label}: the initial state of '{n}' is {in_values[n]} in the values and {known} in the "
               "record's `initial`; keep one of the two." for n, known in experiment.initial.items()
               if in_values.get(n) is not None and in_values[n] != known]
    faults += [f"{experiment.label}: '{n}' in `initial` is not a state of the model. "
               f"{why_not_estimable(model, n) or did_you_mean(n, model.states).strip()}".strip()
               for n in experiment.initial if n not in model.states]
    initial = {n: experiment.initial.get(n, value) for n, value in in_values.items()}
    faults += [f"simulate needs the initial state of '{n}': give '{n}(0)' in the values, or `initial` in the record."
               for n, value in initial.items() if value is None and n not in given]
    if faults:
        raise ProblemError(faults)
    parameters = {n: _said(values, n, experiment) for n in model.parameters}
    said = [n for n, value in [*parameters.items(), *initial.items()] if value is not None]

    def numbers(of: Mapping[str, float | None]) -> np.ndarray:
        return np.array([given[n].start if value is None else float(value) for n, value in of.items()])

    return numbers(parameters), numbers(initial), said


def _said(values: Mapping[str, float], name: str, experiment: Experiment) -> float | None:
    """The value for this record: 'M', or 'M[run 2]' where each record has its own, as in the values of an estimate."""
    return values.get(name, values.get(f"{name}[{experiment.name}]"))


def _name_faults(model: Model, values: Mapping[str, float]) -> list[str]:
    """Names that mean nothing to the model; those of other records are no fault."""
    known = [*model.parameters, *(f"{n}(0)" for n in model.states)]
    why = {name: "" if name in model.states else why_not_estimable(model, str(name)) for name in values}
    return [f"simulate: {why[name]}" if why[name] else
            f"simulate: the model has no parameter and no initial state '{name}'.{did_you_mean(name, known)}"
            for name in values if name not in known and str(name).partition("[")[0] not in known]


def _is_finite(value: object) -> bool:
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
