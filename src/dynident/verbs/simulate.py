"""Simulate: what a model does with given values on the inputs of a record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Trajectory
from dynident.integrators.grid import grid_of
from dynident.problem.experiment import Experiment
from dynident.problem.formulas import with_formulas
from dynident.problem.model import Model, is_robot
from dynident.problem.problem import first_state_of
from dynident.problem.problem_checks import unit_faults
from dynident.transcription.simulators import MAX_SIMULATOR_SUBSTEPS, RefinedSimulation, refine_steps, simulator_for

if TYPE_CHECKING:
    from dynident.robots.model import RobotModel


def simulate(model: Model, values: Mapping[str, float], experiment: Experiment, integrator: str = "runge_kutta",
             substeps: int | str = "auto") -> Trajectory:
    """States and outputs of a model at the samples of a record.

    See the manual, reference/models.

    Parameters
    ----------
    model : EquationModel or FmuModel
        What is simulated.
    values : mapping of str to float
        Parameters by name in the units of the model, and initial states as "q(0)" unless the record's `initial` holds them.
        What an FMU brings along may be left out. The `values` of an estimate will do.
    experiment : Experiment
        Times and inputs; its outputs are not read.
    integrator : str, default "runge_kutta"
        A name from the table of integrators.
    substeps : int or str, default "auto"
        Steps between two samples; "auto" halves them until nothing changes.

    Returns
    -------
    Trajectory
        States and outputs by name, without noise.

    Raises
    ------
    ProblemError
        For missing values, unknown names, and a simulation that does not stay finite.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> run = di.simulate(decay, {"k": 0.5, "x(0)": 1}, di.Experiment([0, 1, 2]))
    >>> print(run.states["x"].round(3))
    [1.    0.607 0.368]
    """
    if substeps != "auto" and (not isinstance(substeps, (int, np.integer)) or substeps < 1):
        raise ProblemError(f'substeps = {substeps!r}; give a whole number from 1 on, or "auto".')
    if faults := unit_faults([experiment], model):
        raise ProblemError(faults)
    arm = cast("RobotModel", model) if is_robot(model) else None
    model = model if arm is None else arm.equations
    experiment = experiment.without_output_noise()  # whose formulas a simulation does not need
    faults = []
    model, _ = with_formulas(model, [experiment], [str(name).partition("[")[0] for name in values], faults)
    if faults:
        raise ProblemError(faults)
    p, x0, given = _values(model, values, experiment)
    if arm is not None:
        _check_inertia(arm, dict(zip(model.parameters, map(float, p), strict=True)), x0[None, :arm.dof])
    if (first := first_state_of(model, experiment)) is not None:
        try:
            x0 = first.state(p, x0)
        except SimulationDiverged as bad:
            raise ProblemError(f"{experiment.label}: {str(bad).rstrip('.')}. Change the values.") from None
    simulator = simulator_for(model, integrator, given)
    grid = grid_of(model, experiment, everywhere=True)
    try:
        found = refine_steps(simulator, p, x0, grid) if substeps == "auto" else RefinedSimulation(
            *simulator.run(p, x0, grid.with_substeps(int(substeps)), True), grid.with_substeps(int(substeps)), 0.0)
    except SimulationDiverged as bad:
        stiff = f", or try {simulator.stiff_alternative} if the model is stiff" if simulator.stiff_alternative else ""
        raise ProblemError(f"{experiment.label}: {str(bad).rstrip('.')}. Change the values{stiff}.") from None
    if not found.converged:
        warnings.warn(f"{experiment.label}: halving the steps still changes the simulation at "
                      f"{MAX_SIMULATOR_SUBSTEPS:,} sub-steps per "
                      f"sample by {found.change:.1g} of the largest value. Take it as that uncertain"
                      + (f", or try {simulator.stiff_alternative}." if simulator.stiff_alternative else "."), stacklevel=2)
    outputs = grid.through_filters(found.outputs)[grid.offset:]  # as those of the record
    states, modes = found.states[grid.offset:], simulator.modes(p, x0, found.grid)
    return Trajectory(experiment.name, np.asarray(experiment.time),
                      {n: states[:, i].copy() for i, n in enumerate(model.states)},
                      {n: outputs[:, j].copy() for j, n in enumerate(model.outputs)},
                      None if modes is None else modes[grid.offset:])


def _check_inertia(arm: RobotModel, values: Mapping[str, float], positions: np.ndarray) -> None:
    from dynident.robots.singular_inertia import unresisted_joint

    if fault := unresisted_joint(arm, values, positions):
        raise ProblemError(fault)


def _values(model: Model, values: Mapping[str, float], experiment: Experiment
            ) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Parameters, initial state, and the names of those that were given."""
    given = model.nominal_values
    faults = _name_faults(model, values) + [f"simulate: '{n}' is {value!r}; give a finite number."
                                            for n, value in values.items() if not _is_finite(value)]
    faults += [f"simulate needs a value for the parameter '{n}'. Give it in `values`.{did_you_mean(n, values)}"
               for n in model.parameters if _value_in(values, n, experiment) is None and n not in given]
    faults += [f"{experiment.label}: the model's input '{n}' is not in the record." for n in model.inputs
               if n not in experiment.inputs]
    in_values = {n: _value_in(values, f"{n}(0)", experiment) for n in model.states}
    faults += [f"{experiment.label}: the initial state of '{n}' is {in_values[n]} in the values and {known} in the "
               "record's `initial`; keep one of the two." for n, known in experiment.initial.items()
               if in_values.get(n) is not None and in_values[n] != known]
    faults += [f"{experiment.label}: '{n}' in `initial` is not a state of the model. "
               f"{model.why_not_estimable(n) or did_you_mean(n, model.states).strip()}".strip()
               for n in experiment.initial if n not in model.states]
    initial = {n: experiment.initial.get(n, value) for n, value in in_values.items()}
    initial = {n: 0.0 if isinstance(value, str) or (n not in experiment.initial and experiment.steady) else value
               for n, value in initial.items()}  # what follows from the parameters is filled in behind them
    faults += [f"simulate needs the initial state of '{n}': give '{n}(0)' in the values, or `initial` in the record."
               for n, value in initial.items() if value is None and n not in given]
    if faults:
        raise ProblemError(faults)
    parameters = {n: _value_in(values, n, experiment) for n in model.parameters}
    given_names = [n for n, value in [*parameters.items(), *initial.items()] if value is not None]

    def numbers(of: Mapping[str, float | None]) -> np.ndarray:
        return np.array([given[n].start if value is None else float(value) for n, value in of.items()])

    return numbers(parameters), numbers(initial), given_names


def _value_in(values: Mapping[str, float], name: str, experiment: Experiment) -> float | None:
    """The value for this record: its constant, 'M', or 'M[run 2]' where each record, or group of them, has its own."""
    own = values.get(f"{name}[{experiment.name}]", values.get(f"{name}[{experiment.group}]"))
    return experiment.constants.get(name, values.get(name, own))


def _name_faults(model: Model, values: Mapping[str, float]) -> list[str]:
    """Names that mean nothing to the model; those of other records are no fault."""
    known = [*model.parameters, *(f"{n}(0)" for n in model.states)]
    why = {name: "" if name in model.states else model.why_not_estimable(str(name)) for name in values}
    return [f"simulate: {why[name]}" if why[name] else
            f"simulate: the model has no parameter and no initial state '{name}'.{did_you_mean(name, known)}"
            for name in values if name not in known and str(name).partition("[")[0] not in known]


def _is_finite(value: object) -> bool:
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
