"""Structure: which parameters does the model itself determine, whatever the record?"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.linearize_at import linearize_at, with_secant_columns
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem, Unknown
from dynident.statistics.covariance import typical_values
from dynident.statistics.identifiability import (
    Identifiability,
    StructuralIdentifiability,
    identifiability,
    structural_identifiability_from,
)
from dynident.transcription.initial_guess import start_values

POINTS = 4  # random values at which the rank is taken
SPREAD = 0.5  # of a value, to either side, in the logarithm
CALMER = 0.5  # values and inputs come this much closer after a simulation that blew up
TRIES = 8
SAMPLES = 300  # of a random record: several times the unknowns of any model here
LEVELS = 24  # steps of a random input
SEED = 1  # of random values, inputs and places beside a start


def structural_identifiability(model: EquationModel, values: Mapping[str, float], duration: float,
              inputs: Mapping[str, float] | float = 1.0, initial: Mapping[str, float] | None = None,
              outputs: Sequence[str] | None = None, seed: int = SEED) -> StructuralIdentifiability:
    """What the model itself shows of its parameters, whatever the record.

    The generic rank of the sensitivities, at random points with rich random inputs. See the manual, explain/identifiability.

    Parameters
    ----------
    model : EquationModel
        What is looked at.
    values : mapping of str to float
        Parameters around which random points are taken.
    duration : float
        Length of the simulated records, in the unit of time.
    inputs : mapping of str to float, or float, default 1.0
        Magnitude of the inputs, for all or by name.
    initial : mapping of str to float, optional
        Known initial states; the others are unknown too.
    outputs : sequence of str, optional
        What is measured; all, if left out.
    seed : int, default 1
        Of the random points and inputs.

    Returns
    -------
    StructuralIdentifiability
        Rank, and which combinations are determined where single parameters are not.

    Raises
    ------
    ProblemError
        For missing values and names that are none.
    NotSupported
        Where simulations do not stay finite, however small the inputs.

    Examples
    --------
    >>> import dynident as di
    >>> model = di.EquationModel(states={"x": "-a*b*x"})
    >>> di.structural_identifiability(model, {"a": 1, "b": 2}, duration=2).unidentifiable
    ('a', 'b')
    """
    time = np.linspace(0, duration, SAMPLES)
    measured = {name: np.zeros(SAMPLES) for name in (model.outputs if outputs is None else outputs)}
    size = {name: (inputs if isinstance(inputs, (int, float)) else inputs.get(name, 1.0)) for name in model.inputs}
    record = Experiment(time, {name: np.full(SAMPLES, float(size[name])) for name in model.inputs}, measured,
                        {name: Gaussian(1.0) for name in measured}, dict(initial or {}), name="random")
    _check_names(model, values, duration, inputs)
    free = [InitialState(s, start=float(values.get(f"{s}(0)", 0.0))) for s in model.states if s not in record.initial]
    problem = Problem(model, [record], [*(Parameter(n, float(values[n])) for n in model.parameters), *free])
    return structure_of(problem, None, seed)


def _check_names(model: EquationModel, values: Mapping[str, float], duration: float, inputs: Mapping[str, float] | float
                 ) -> None:
    missing = [name for name in model.parameters if name not in values]
    faults = [f"structure needs a value for {', '.join(missing)} to look around."] if missing else []
    initial = tuple(f"{state}(0)" for state in model.states)
    faults += [f"values: '{name}' is no initial state of the model.{did_you_mean(name, initial)}" for name in values
               if name.endswith("(0)") and name not in initial]
    faults += [f"inputs: '{name}' is not an input of the model.{did_you_mean(name, model.inputs)}"
               for name in (inputs if isinstance(inputs, Mapping) else ()) if name not in model.inputs]
    if not 0 < duration < np.inf:
        faults.append(f"duration = {duration!r}; give a positive number of seconds.")
    if faults:
        raise ProblemError(faults)


def structure_of(problem: Problem, values: np.ndarray | None = None, seed: int = SEED) -> StructuralIdentifiability:
    """The same for a problem: its unknowns, its outputs, as long as its records, as large as its inputs."""
    if not isinstance(problem.model, EquationModel):
        raise NotSupported(f"a structural test needs a model with equations, not a {type(problem.model).__name__}.")
    centre = start_values(problem) if values is None else np.asarray(values, float)
    rng = np.random.default_rng(seed)
    jumps: set[str] = set()
    found = structural_identifiability_from([_at_random(problem, centre, rng, jumps) for _ in range(POINTS)])
    return replace(found, jumps=tuple(name for name in problem.names if name in jumps))


def shown_by_model(problem: Problem, values: np.ndarray, name: str) -> bool:
    """Whether another excitation could determine an unknown."""
    return structure_of(problem, values).shows(name)


def _at_random(problem: Problem, centre: np.ndarray, rng: np.random.Generator, jumps: set[str]
               ) -> tuple[Identifiability, np.ndarray]:
    """What a random record shows at random values; unknowns that act in jumps only are added to `jumps`."""
    share = 1.0
    for _ in range(TRIES):
        moved = np.array([_sample_value(u, v, share, rng) for u, v in zip(problem.unknowns, centre, strict=True)])
        excited = problem.replace(experiments=[_excited(e, share, rng) for e in problem.experiments])
        try:
            at = _linearization(excited, moved)
        except SimulationDiverged:
            share *= CALMER
            continue
        jacobian, found = with_secant_columns(problem, at, functools.partial(_linearization, excited))
        jumps.update(problem.names[i] for i in found)
        measured = at.rows.experiment >= 0  # a prior is no property of the model
        J = jacobian[measured]
        return identifiability(problem.names, moved, typical_values(problem, moved), J), J
    raise NotSupported("the simulation diverges at random values and inputs, however small, so the structure of the "
                       "model cannot be tested. Give values around which it can be simulated.")


def _linearization(problem: Problem, values: np.ndarray) -> ResidualJacobian:
    return linearize_at(problem, values, {}, cut=False)


def _sample_value(unknown: Unknown, value: float, share: float, rng: np.random.Generator) -> float:
    """A value nearby, inside of the bounds; zero tells no size, so the scale or one is taken."""
    spread = share * rng.uniform(-SPREAD, SPREAD)
    if value:
        return float(np.clip(value * np.exp(spread), unknown.lower, unknown.upper))
    span = unknown.upper - unknown.lower
    size = unknown.scale if unknown.scale is not None else span / 10 if np.isfinite(span) else 1.0
    return float(np.clip(size * spread, unknown.lower, unknown.upper))


def _excited(experiment: Experiment, share: float, rng: np.random.Generator) -> Experiment:
    """The record with random steps and a random swing in place of its inputs, as large as these."""
    time = np.asarray(experiment.time)
    phase = (time - time[0]) / max(time[-1] - time[0], np.finfo(float).tiny)
    inputs = {}
    for name, given in experiment.inputs.items():
        size = share * (float(np.max(np.abs(given))) or 1.0)
        levels = rng.uniform(-1, 1, LEVELS + 1)[(phase * LEVELS).astype(int)]
        swing = np.sin(2 * np.pi * (rng.uniform(1, 2) + rng.uniform(3, 9) * phase) * phase + rng.uniform(0, 6))
        inputs[name] = size * (0.6 * levels + 0.4 * swing)
    outputs = {name: np.zeros(time.size) for name in experiment.outputs}
    noise = {name: Gaussian(1.0) for name in outputs}
    return replace(experiment, inputs=inputs, outputs=outputs, noise=noise, notes=())
