"""Structural identifiability: which parameters does the model itself determine, whatever the record?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.indistinguishable import unidentifiable_groups
from dynident.methods.linearize_at import linearize_at, with_secant_columns
from dynident.methods.output_map import OutputMap, Outputs, touched
from dynident.methods.points_around import Region, region_around
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.statistics.identifiability import StructuralIdentifiability, structural_identifiability_from
from dynident.transcription.initial_guess import start_values

CALMER = 0.5  # values and inputs come this much closer after a simulation that blew up
MAX_RANDOM_DRAWS = 8
RANDOM_RECORD_SAMPLES = 300  # of a random record: several times the unknowns of any model here
DURATIONS = (1.0, 0.1, 0.01)  # of a record: of a run that grows only the begin is seen, and fast parts in a short one only
RANDOM_INPUT_STEPS = 24  # steps of a random input
IDENTIFIABILITY_SEED = 1  # of random values, inputs and places beside a start


@single_thread()
def structural_identifiability(model: EquationModel, values: Mapping[str, float], duration: float,
              inputs: Mapping[str, float] | float = 1.0, initial: Mapping[str, float] | None = None,
              outputs: Sequence[str] | None = None, seed: int = IDENTIFIABILITY_SEED) -> StructuralIdentifiability:
    """What the model itself shows of its parameters, whatever the record.

    The generic rank of the sensitivities, at random points with rich random inputs. See the manual, explain/identifiability.

    Parameters
    ----------
    model : EquationModel
        What is looked at.
    values : mapping of str to float
        Parameters around which random points are taken, in the units of the model.
    duration : float
        Length of the simulated records, in the unit of time.
    inputs : mapping of str to float, or float, default 1.0
        Magnitude of the inputs in their units, for all or by name.
    initial : mapping of str to float, optional
        Known initial states, in the units of the model; the others are unknown too.
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
    _check_names(model, values, duration, inputs)
    time = np.linspace(0, duration, RANDOM_RECORD_SAMPLES)
    measured = {name: np.zeros(RANDOM_RECORD_SAMPLES) for name in (model.outputs if outputs is None else outputs)}
    size = {name: (inputs if isinstance(inputs, (int, float)) else inputs.get(name, 1.0)) for name in model.inputs}
    record = Experiment(time, {name: np.full(RANDOM_RECORD_SAMPLES, float(size[name])) for name in model.inputs}, measured,
                        {name: Gaussian(1.0) for name in measured}, dict(initial or {}), name="random")
    free = [InitialState(s, start=float(values.get(f"{s}(0)", 0.0))) for s in model.states if s not in record.initial]
    problem = Problem(model, [record], [*(Parameter(n, float(values[n])) for n in model.parameters), *free])
    return structure_of(problem, None, seed)


def _check_names(model: EquationModel, values: Mapping[str, float], duration: float, inputs: Mapping[str, float] | float
                 ) -> None:
    missing = [name for name in model.parameters if name not in values]
    faults = [f"structural_identifiability needs a value for {', '.join(missing)}. Give a typical one."] if missing else []
    initial = tuple(f"{state}(0)" for state in model.states)
    faults += [f"values: '{name}' is no initial state of the model.{did_you_mean(name, initial)}" for name in values
               if name.endswith("(0)") and name not in initial]
    faults += [f"inputs: '{name}' is not an input of the model.{did_you_mean(name, model.inputs)}"
               for name in (inputs if isinstance(inputs, Mapping) else ()) if name not in model.inputs]
    if not 0 < duration < np.inf:
        faults.append(f"duration = {duration!r}; give a positive number of seconds.")
    if faults:
        raise ProblemError(faults)


def structure_of(problem: Problem, values: np.ndarray | None = None,
                 seed: int = IDENTIFIABILITY_SEED) -> StructuralIdentifiability:
    """The same for a problem: its unknowns, its outputs, as long as its records, as large as its inputs."""
    if not isinstance(problem.model, EquationModel):
        raise NotSupported(f"a structural test needs a model with equations, not {type(problem.model).__name__}.")
    centre = start_values(problem) if values is None else np.asarray(values, float)
    bare = problem.replace(parameters=[replace(it, prior=None) for it in problem.parameters], constraints=())
    region = structural_region(bare, centre, seed)  # neither a prior nor a constraint is a property of the model
    groups = unidentifiable_groups(bare, region, seed)
    jacobians = [np.vstack([o.weight[:, None] * o.jacobian for o in region.outputs(point)]) for point in region.points]
    hidden = tuple(name for name, part in zip(bare.names, touched(region.nulls[0], region.sizes), strict=True) if part)
    jumps = _acting_in_jumps(bare, region.points[0], seed) if hidden else ()
    kept = [group for group in groups if not set(group.names) & set(jumps)]
    found = structural_identifiability_from(bare.names, region.points, jacobians, region.sizes)
    count = sum(name in jumps and name in hidden for name in bare.names)
    return replace(found, rank=found.rank + count, jumps=jumps,
                   unidentifiable=tuple(name for name in hidden if name not in jumps),
                   groups=tuple(group.names for group in kept), combinations=tuple(str(group) for group in kept))


def structural_region(problem: Problem, centre: np.ndarray, seed: int, beside: Sequence[OutputMap] = (),
                      initial: bool = False) -> Region:
    """Points around these values, or calmer ones, with what random records show there beside what some others do.

    Raises NotSupported where simulations do not stay finite, however small the inputs.
    """
    rng = np.random.default_rng(seed)
    share, at = 1.0, centre
    for _ in range(MAX_RANDOM_DRAWS):
        maps = [*beside, *_random_records(problem, at, share, initial, rng)]
        if len(maps) > len(beside):
            try:
                return region_around(problem.unknowns, at, functools.partial(_outputs_of, maps), seed).generic()
            except SimulationDiverged:
                pass
        share *= CALMER
    raise NotSupported("the simulation diverges at random values and inputs, however small, so the structure of the "
                       "model cannot be tested. Give values around which it can be simulated.")


def _outputs_of(maps: Sequence[OutputMap], values: np.ndarray) -> list[Outputs]:
    return [each.at(values) for each in maps]


def _random_records(problem: Problem, values: np.ndarray, share: float, initial: bool, rng: np.random.Generator
                    ) -> list[OutputMap]:
    """Random records of several lengths, as far as the model can be simulated over them."""
    found = []
    for duration in DURATIONS:
        excited = problem.replace(experiments=[_excited(e, share, duration, initial, rng) for e in problem.experiments])
        try:
            found.append(OutputMap(excited, values))
        except (SimulationDiverged, ProblemError):
            continue
    return found


def shown_by_model(problem: Problem, values: np.ndarray, name: str) -> bool:
    """Whether another excitation could determine an unknown."""
    return structure_of(problem, values).shows(name)


def _acting_in_jumps(problem: Problem, values: np.ndarray, seed: int) -> tuple[str, ...]:
    """Names of unknowns that act in jumps only, which no derivative shows."""
    rng = np.random.default_rng(seed)
    excited = problem.replace(experiments=[_excited(e, 1.0, 1.0, False, rng) for e in problem.experiments])
    linearize: Callable[[np.ndarray], ResidualJacobian] = lambda at: linearize_at(excited, at, {}, cut=False)  # noqa: E731
    try:
        _, found = with_secant_columns(problem, linearize(values), linearize)
    except SimulationDiverged:
        return ()
    return tuple(problem.names[i] for i in found)


def _excited(experiment: Experiment, share: float, duration: float, initial: bool, rng: np.random.Generator) -> Experiment:
    """The record with random steps and a random swing in place of its inputs, as large as these; with `initial` from
    elsewhere, too."""
    first, last = float(experiment.time[0]), float(experiment.time[-1])
    time = np.linspace(first, first + duration * ((last - first) or 1.0), RANDOM_RECORD_SAMPLES)
    phase = (time - time[0]) / (time[-1] - time[0])
    inputs = {}
    for name, given in experiment.inputs.items():
        size = share * (float(np.max(np.abs(given))) or 1.0)
        levels = rng.uniform(-1, 1, RANDOM_INPUT_STEPS + 1)[(phase * RANDOM_INPUT_STEPS).astype(int)]
        swing = np.sin(2 * np.pi * (rng.uniform(1, 2) + rng.uniform(3, 9) * phase) * phase + rng.uniform(0, 6))
        inputs[name] = size * (0.6 * levels + 0.4 * swing)
    known = {state: value + share * (abs(value) or 1.0) * rng.uniform(0.1, 0.5) * initial
             for state, value in experiment.initial.items()}
    outputs = {name: np.zeros(time.size) for name in experiment.outputs}
    noise = {name: Gaussian(1.0) for name in outputs}
    start = None if experiment.start is None else min(experiment.start, first)
    return replace(experiment, time=time, inputs=inputs, outputs=outputs, noise=noise, initial=known, start=start, notes=())
