"""Runners: simulate a model of any kind along a record, given all its values; what black-box methods ask of a model."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.fmu.choices import USUAL_SCHEME
from dynident.fmu.equal_steps import equal_steps
from dynident.fmu.library import SimulationFailed
from dynident.fmu.model import FmuModel, same_model
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import mode_names, propagator_for
from dynident.integrators.scheme import Adaptive
from dynident.models.equations import EquationModel
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem


class Failed(SimulationDiverged):
    """A simulation that came to no good end, in the words of who ran it."""

    def __init__(self, sentence: str, time: float, lost: bool = False):
        super().__init__(time, 0)
        self.args, self.lost = (sentence.rstrip("."),), lost  # who tells it goes on with words of their own


class Runner(Protocol):
    """Raises Diverged where there is no result. Travels to other processes, where it is opened once."""

    scheme: str
    adaptive: bool  # chooses its own steps
    static: bool  # outputs follow inputs at once; sub-steps change nothing
    side_by_side: bool  # may run in several threads of a process at once
    separate: bool  # each thread that runs it has a process of its own behind it

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def differentiates(self) -> bool:
        """Whether `slopes` may be asked; what it gives may still be wrong."""
        ...

    @property
    def if_stiff(self) -> str:
        """What to write for an integrator that takes stiff models; empty where there is no other."""
        ...

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Grid, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (nodes, outputs), and states (nodes, states) where they are asked for."""
        ...

    def slopes(self, p: np.ndarray, x0: np.ndarray, grid: Grid, by_parameters: np.ndarray, by_initials: np.ndarray
               ) -> np.ndarray:
        """Derivatives of the outputs by parameters and initial states at these places, (nodes, outputs, places)."""
        ...

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> np.ndarray | None:
        """The name of the mode that holds from each node on; None for a model without modes."""
        ...


class EquationRunner:
    """Equations, integrated by one of our schemes."""

    side_by_side = False
    separate = False
    differentiates = False  # as a black box; shooting differentiates equations
    notes: tuple[str, ...] = ()

    def __init__(self, model: EquationModel, scheme: str):
        self.model, self.scheme, self.static = model, scheme, not model.states
        self.adaptive = isinstance(integrator_named(scheme), Adaptive)
        self.march = propagator_for(model, integrator_named(scheme), ())
        self.if_stiff = "" if model.hybrid else 'integrator="cvodes"'

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Grid, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        out = self.march.run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False)
        return out.outputs, out.states

    def slopes(self, p: np.ndarray, x0: np.ndarray, grid: Grid, by_parameters: np.ndarray, by_initials: np.ndarray
               ) -> np.ndarray:
        raise NotImplementedError

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> np.ndarray | None:
        if not self.model.hybrid:
            return None
        return mode_names(self.model, self.march.run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False))

    def __reduce__(self) -> tuple:
        return _equation_runner, (_Key(self.model.definition()), self.scheme)


class FmuRunner:
    """An FMU; only what the problem declares is set, the rest keeps the FMU's own values."""

    adaptive = False
    side_by_side = True  # each thread has an instance of its own

    def __init__(self, model: FmuModel, declared: Iterable[str]):
        self.separate = not model.options["trusted"]
        explicit = model.kind == "model_exchange" and model.options["integrator"] == "runge_kutta"
        self.if_stiff = f'FmuModel("{model.path.name}", integrator="radau")' if explicit and model.description.states else ""
        self.model, self.declared, self.static = model, tuple(declared), model.static
        self.scheme = model.options["integrator"] if model.kind == "model_exchange" else "the FMU's own solver"
        self.even = model.kind == "co_simulation" and not model.description.interfaces[model.kind].variable_steps
        wanted = set(self.declared)
        self.parameters = np.array([i for i, n in enumerate(model.parameters) if n in wanted], dtype=int)
        self.initials = np.array([i for i, n in enumerate(model.states) if n in wanted], dtype=int)
        self.simulator = model.simulator([*(model.parameters[i] for i in self.parameters),
                                          *(model.states[i] for i in self.initials)])

    @property
    def notes(self) -> tuple[str, ...]:
        return self.simulator.notes

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Grid, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if self.even and equal_steps(grid.time) is None:
            raise ProblemError(self._uneven(grid.time))
        try:
            return self.simulator.run(self._written(p, x0), grid, states)  # type: ignore[arg-type]
        except SimulationFailed as error:
            raise Failed(str(error), error.time, error.crash) from None

    def _uneven(self, time: np.ndarray) -> str:
        gaps, others = np.diff(time), [k.replace("_", " ") for k in self.model.description.interfaces if k != self.model.kind]
        way = f"use its {' or '.join(others)}" if others else "export it so that it takes steps of any length"
        return (f"{self.model.path.name} takes steps of one length only, and there is none that meets all samples, whose "
                f"distances are {np.min(gaps):g} to {np.max(gaps):g}. Bring the record to equal distances, or {way}.")

    @property
    def differentiates(self) -> bool:
        return self.simulator.differentiates

    def slopes(self, p: np.ndarray, x0: np.ndarray, grid: Grid, by_parameters: np.ndarray, by_initials: np.ndarray
               ) -> np.ndarray:
        places = [*np.searchsorted(self.parameters, by_parameters),
                  *(self.parameters.size + np.searchsorted(self.initials, by_initials))]
        if not places:
            return np.zeros((grid.nodes, len(self.model.outputs), 0))
        try:
            return self.simulator.slopes(self._written(p, x0), grid, [int(i) for i in places])  # type: ignore[arg-type]
        except SimulationFailed as error:
            raise Failed(str(error), error.time, error.crash) from None

    def _written(self, p: np.ndarray, x0: np.ndarray) -> np.ndarray:
        return np.concatenate([p[self.parameters], x0[self.initials]])

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Grid) -> np.ndarray | None:
        return None

    def __reduce__(self) -> tuple:
        return _fmu_runner, (_Key({"identity": self.model.identity()}), self.declared)


class _Key:
    """A definition as the key of a cache."""

    def __init__(self, definition: dict[str, Any]):
        self.definition, self.text = definition, repr(definition)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.text == self.text


@functools.lru_cache(maxsize=8)
def _equation_runner(key: _Key, scheme: str) -> EquationRunner:
    return EquationRunner(EquationModel.from_definition(key.definition), scheme)


@functools.lru_cache(maxsize=8)
def _fmu_runner(key: _Key, declared: tuple[str, ...]) -> FmuRunner:
    return FmuRunner(same_model(*key.definition["identity"]), declared)


def runner_for(model: Model, scheme: str, declared: Iterable[str]) -> Runner:
    if isinstance(model, EquationModel):
        return EquationRunner(model, scheme)
    if isinstance(model, FmuModel):
        if scheme not in (USUAL_SCHEME, model.options["integrator"]):
            raise ProblemError(f"integrator = {scheme!r} is for models with equations; {model.path.name} is integrated as "
                               "FmuModel(..., integrator=...) says.")
        return FmuRunner(model, declared)
    raise NotSupported(f"A {type(model).__name__} cannot be simulated as a black box.")


def declared_in(problem: Problem) -> tuple[str, ...]:
    """Parameters and states about which the problem says something."""
    names = [p.name if isinstance(p, Parameter) else p.state for p in problem.parameters
             if isinstance(p, (Parameter, InitialState))]
    return tuple(dict.fromkeys([*names, *(state for e in problem.experiments for state in e.initial)]))
