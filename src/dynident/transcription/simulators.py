"""Simulators: a model of any kind along a record, given all its values; what black-box methods ask of a model."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dynident.errors import NotSupported, SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import mode_names, propagator_for
from dynident.integrators.scheme import Adaptive
from dynident.models.equations import EquationModel
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.tolerances import STEP_HALVING_TOLERANCE

MAX_SIMULATOR_SUBSTEPS = 1024  # per sample
HALVINGS_TO_STALL = 3  # changes by halved steps that are compared
STALLED_HALVING = 0.7  # of the change before: a scheme of first order leaves half of it
NOISE_OF_HALVING = 1e-3  # of the largest value; a larger change is no noise


@dataclass(frozen=True)
class SimulatorIntegrator:
    """What integrates inside of a simulator, by name."""

    name: str
    hidden: bool = False  # it takes steps of its own between those that it is asked for, which halving these does not mend


class Simulator(Protocol):
    """Raises SimulationDiverged where there is no result. Travels to other processes, where it is opened once."""

    @property
    def model(self) -> Model:
        """What it simulates."""
        ...

    @property
    def integrator(self) -> str:
        """What integrates, by name."""
        ...

    @property
    def adaptive(self) -> bool:
        """Whether it chooses its own steps."""
        ...

    @property
    def hidden_solver(self) -> bool:
        """Whether a solver out of sight takes steps of its own between those that it is asked for."""
        ...

    @property
    def static(self) -> bool:
        """Whether outputs follow inputs at once, so that sub-steps change nothing."""
        ...

    @property
    def thread_safe(self) -> bool:
        """Whether it may run in several threads of a process at once."""
        ...

    @property
    def own_process(self) -> bool:
        """Whether each thread that runs it has a process of its own behind it."""
        ...

    @property
    def has_derivatives(self) -> bool:
        """Whether `derivatives` may be asked; what it gives may still be wrong."""
        ...

    @property
    def stiff_alternative(self) -> str:
        """What to write for an integrator that takes stiff models; empty where there is no other."""
        ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Grid, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (nodes, outputs), and states (nodes, states) where they are asked for."""
        ...

    def derivatives(self, p: np.ndarray, x0: np.ndarray, grid: Grid, by_parameters: np.ndarray, by_initials: np.ndarray
                    ) -> np.ndarray:
        """Of the outputs by parameters and initial states at these places, (nodes, outputs, places)."""
        ...

    @property
    def keeps_tolerance(self) -> bool:
        """Whether the tolerance of the solver inside was given, and is not ours to change."""
        ...

    def with_tighter_tolerance(self) -> Simulator | None:
        """The same with a tenth of the tolerance of the solver inside; None where that is not to be had."""
        ...

    def with_visible_solver(self) -> Simulator | None:
        """The same model by an integrator of ours instead of the solver inside; None where that is not to be had."""
        ...

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> np.ndarray | None:
        """The name of the mode that holds from each node on; None for a model without modes."""
        ...


class SegmentSimulator(Simulator, Protocol):
    """A simulator that begins with any state at any time."""

    @property
    def noise(self) -> float:
        """Relative error of a simulation that comes and goes with its values."""
        ...

    def run_rows(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (rows, nodes, outputs) and states (rows, nodes, states), for rows of parameters and of first states."""
        ...


@runtime_checkable
class SimulatedModel(Protocol):
    """A model without equations, which brings a simulator along."""

    @property
    def restart_obstacle(self) -> str:
        """Why a simulation cannot begin with any state at any time, as a clause; empty where it can."""
        ...

    @property
    def shown_states(self) -> Mapping[str, str]:
        """States that an output is another name of, and that output."""
        ...

    def record_simulator(self, declared: Iterable[str], integrator: str) -> Simulator:
        """For records of a problem that declares these parameters and states."""
        ...

    def segment_simulator(self, declared: Iterable[str], integrator: str) -> SegmentSimulator:
        """The same for pieces of records that begin with any state; raises NotSupported where there is an obstacle."""
        ...


def segment_notes(simulator: SegmentSimulator) -> tuple[str, ...]:
    """What a fit in pieces says about its simulator."""
    unseen = (f"The solver inside was taken at its word (a relative error of {simulator.noise:.1g}): what its errors move is "
              "measured by least_squares() only.",) if simulator.hidden_solver else ()
    return (*simulator.notes, *unseen)


class EquationSimulator:
    """Equations, integrated by one of our integrators."""

    hidden_solver = keeps_tolerance = False
    thread_safe = False
    own_process = False
    has_derivatives = False  # as a black box; shooting differentiates equations
    notes: tuple[str, ...] = ()

    def __init__(self, model: EquationModel, integrator: str):
        self.model, self.integrator, self.static = model, integrator, not model.states
        self.adaptive = isinstance(integrator_named(integrator), Adaptive)
        self.propagator = propagator_for(model, integrator_named(integrator), (), derivatives=False)
        self.stiff_alternative = "" if self.static else 'integrator="radau5"'

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Grid, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        out = self.propagator.run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False)
        return out.outputs, out.states

    def derivatives(self, p: np.ndarray, x0: np.ndarray, grid: Grid, by_parameters: np.ndarray, by_initials: np.ndarray
                    ) -> np.ndarray:
        raise NotImplementedError

    def with_tighter_tolerance(self) -> Simulator | None:
        return None

    def with_visible_solver(self) -> Simulator | None:
        return None

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> np.ndarray | None:
        if not self.model.hybrid:
            return None
        return mode_names(self.model, self.propagator.run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False))

    def __reduce__(self) -> tuple:
        return _same_simulator, (_DefinitionKey(self.model.definition()), self.integrator)


class _DefinitionKey:
    """A definition as the key of a cache."""

    def __init__(self, definition: dict[str, Any]):
        self.definition, self.text = definition, repr(definition)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DefinitionKey) and other.text == self.text


@functools.lru_cache(maxsize=8)  # a process compiles the same model once
def _same_simulator(key: _DefinitionKey, integrator: str) -> EquationSimulator:
    return EquationSimulator(EquationModel.from_definition(key.definition), integrator)


def simulator_for(model: Model, integrator: str, declared: Iterable[str]) -> Simulator:
    if isinstance(model, EquationModel):
        return EquationSimulator(model, integrator)
    if isinstance(model, SimulatedModel):
        return model.record_simulator(declared, integrator)
    raise NotSupported(f"A {type(model).__name__} cannot be simulated as a black box.")


def declared_names(problem: Problem) -> tuple[str, ...]:
    """Parameters and states about which the problem says something."""
    names = [p.name if isinstance(p, Parameter) else p.state for p in problem.parameters
             if isinstance(p, (Parameter, InitialState))]
    return tuple(dict.fromkeys([*names, *(state for e in problem.experiments for state in e.initial)]))


@dataclass(frozen=True, eq=False)
class RefinedSimulation:
    """Outputs and states at the nodes, and what halving the steps said about them."""

    outputs: np.ndarray  # (nodes, outputs)
    states: np.ndarray  # (nodes, states)
    grid: Grid  # with the steps that were taken
    change: float  # by the last halving of the steps, relative to the largest value; 0 where none was asked for

    @property
    def converged(self) -> bool:
        return self.change <= STEP_HALVING_TOLERANCE


def refine_steps(simulator: Simulator, p: np.ndarray, x0: np.ndarray, grid: Grid) -> RefinedSimulation:
    """Simulate with steps that are halved until nothing changes; an adaptive integrator is asked once. Raises
    SimulationDiverged where there is no result with the shortest steps, or the simulator was lost. Where it is the error of a
    hidden solver that each halving shows anew, halving ends."""
    count, fine = 1, grid.with_substeps(1)
    signals, change = _signals(simulator, p, x0, fine, simulator.adaptive), 0.0
    changes: list[float] = []
    while count < MAX_SIMULATOR_SUBSTEPS and not simulator.adaptive:
        count *= 2
        fine = grid.with_substeps(count)
        before, signals = signals, _signals(simulator, p, x0, fine, count >= MAX_SIMULATOR_SUBSTEPS)
        change = _relative_change(before, signals)
        changes.append(change)
        if change <= STEP_HALVING_TOLERANCE or (simulator.hidden_solver and signals is not None and halving_stalls(changes)):
            break
    assert signals is not None  # the last one raises
    return RefinedSimulation(*signals, fine, change)


def halving_stalls(changes: Sequence[float]) -> bool:
    """Whether halved steps go on to change a simulation by as much, and little: the error of any scheme would fall, so that
    this is noise of a solver inside."""
    last = changes[-HALVINGS_TO_STALL:]
    falls = any(b < STALLED_HALVING * a for a, b in pairwise(last))
    return len(last) == HALVINGS_TO_STALL and not falls and max(last) <= NOISE_OF_HALVING


def _signals(simulator: Simulator, p: np.ndarray, x0: np.ndarray, grid: Grid, last: bool
             ) -> tuple[np.ndarray, np.ndarray] | None:
    """Outputs and states; None where shorter steps may do better."""
    try:
        outputs, states = simulator.run(p, x0, grid, True)
        return outputs.copy(), states.copy()
    except SimulationDiverged as bad:
        if last or bad.lost:
            raise
        return None


def _relative_change(before: tuple[np.ndarray, np.ndarray] | None, after: tuple[np.ndarray, np.ndarray] | None) -> float:
    """Largest change of a signal relative to its size; all of it where one of the two is missing.

    What is no number in both, as at samples where nothing is simulated, does not change.
    """
    if before is None or after is None:
        return 1.0
    a, b = np.hstack(before), np.hstack(after)
    moved, size = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b)), np.nan_to_num(np.abs(b))
    largest = np.max(size, axis=0, initial=0.0)
    return float(np.max(np.max(moved, axis=0, initial=0.0) / np.where(largest > 0, largest, 1), initial=0.0))
