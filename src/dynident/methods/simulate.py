"""Simulate: what a model does with given values on the inputs of a record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.estimate import Trajectory
from dynident.integrators import integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.march import Diverged, Marched, march_for
from dynident.integrators.scheme import Adaptive
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment

CLOSE = 1e-7  # relative to the signals: the agreement of a simulation with one of half the step
MOST_SUBSTEPS = 1024


def simulate(model: EquationModel, values: Mapping[str, float], experiment: Experiment, integrator: str = "runge_kutta",
             substeps: int | str = "auto") -> Trajectory:
    """States and outputs at the samples of a record; `values` holds parameters, and initial states as 'q(0)' or by
    the record's `initial`. With substeps="auto" steps are halved until nothing changes."""
    p, x0 = _values(model, values, experiment)
    scheme = integrator_named(integrator)
    march = march_for(model, scheme, ())
    grid = grid_of(model, experiment, everywhere=True)
    first = np.array([0, grid.nodes - 1])

    def run(count: int) -> Marched | None:
        try:
            return march.run(grid.with_substeps(count), first, x0[None], p, False)
        except Diverged as bad:
            if count >= MOST_SUBSTEPS or isinstance(scheme, Adaptive) or substeps != "auto":
                raise ProblemError(f"{experiment.label}: {bad}. Change the values, or try integrator=\"cvodes\" if the "
                                   "model is stiff.") from None
            return None

    if substeps != "auto" or isinstance(scheme, Adaptive):
        out = run(1 if substeps == "auto" else int(substeps))
    else:
        count, out = 1, run(1)
        while count < MOST_SUBSTEPS:
            count *= 2
            before, out = out, run(count)
            if before is not None and out is not None and _same(before, out):
                break
    assert out is not None
    states, outputs = out.states[grid.offset:], out.outputs[grid.offset:]
    return Trajectory(experiment.name, np.asarray(experiment.time),
                      {n: states[:, i].copy() for i, n in enumerate(model.states)},
                      {n: outputs[:, j].copy() for j, n in enumerate(model.outputs)})


def _same(a: Marched, b: Marched) -> bool:
    size = np.max(np.abs(b.states), axis=0)
    return bool(np.all(np.max(np.abs(a.states - b.states), axis=0) <= CLOSE * np.where(size > 0, size, 1)))


def _values(model: EquationModel, values: Mapping[str, float], experiment: Experiment) -> tuple[np.ndarray, np.ndarray]:
    faults = [f"simulate needs a value for the parameter '{n}'.{did_you_mean(n, values)}"
              for n in model.parameters if n not in values]
    faults += [f"{experiment.label}: the model's input '{n}' is not in the record." for n in model.inputs
               if n not in experiment.inputs]
    initial = {n: experiment.initial.get(n, values.get(f"{n}(0)", values.get(f"{n}(0)[{experiment.name}]")))
               for n in model.states}
    faults += [f"simulate needs the initial state of '{n}': give '{n}(0)' in the values, or `initial` in the record."
               for n, value in initial.items() if value is None]
    if faults:
        raise ProblemError(faults)
    return (np.array([float(values[n]) for n in model.parameters]),
            np.array([float(initial[n]) for n in model.states]))
