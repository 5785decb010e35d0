"""Objective: what all transcriptions of a problem have in common: data on a grid, weights, loss, unknowns, priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.linalg.finite_problem import (
    Evaluation,
    FiniteProblem,
    LinearizedProblem,
    SegmentChain,
    UnknownMap,
    Variables,
    Workspace,
)
from dynident.problem.losses import loss_and_weights
from dynident.problem.problem import Problem, given_std
from dynident.problem.transforms import Transforms, transforms_of
from dynident.tolerances import RESIDUAL_ROUNDING
from dynident.transcription.initial_guess import start_values, states_from_measurements

LOOKS = 50  # places at which a record is asked how large its states are


class TranscribedProblem(FiniteProblem, Protocol):
    """A finite problem that was made of a problem in time: what a fit asks of it beside what a solver does."""

    problem: Problem
    objective: Objective
    loss: str
    records: Sequence[WeightedData]  # per experiment, with `grid` and `segment_starts`

    def from_states(self, unknowns: np.ndarray, times: list[np.ndarray], states: list[np.ndarray]) -> Variables:
        """A point from trajectories on other grids."""
        ...

    def transfer(self, point: Variables, before: Any) -> Variables:
        """A point of the same problem with other weights or steps."""
        ...

    def to_shooting(self, point: Variables) -> tuple[Any, Variables]:
        """The same point by shooting, for trajectories and derivatives along time."""
        ...


class WeightedData:
    """The measured signals of one experiment at the nodes of a grid, with their weights."""

    def __init__(self, problem: Problem, index: int, grid: Grid, places: np.ndarray, std: Mapping[str, float]):
        model, experiment = problem.model, problem.experiments[index]
        self.measured = np.zeros((grid.nodes, len(model.outputs)))
        self.weight = np.zeros_like(self.measured)  # 1/std where measured, 0 elsewhere
        for j, output in enumerate(model.outputs):
            if output in experiment.outputs:
                y = np.asarray(experiment.outputs[output])
                given = given_std(experiment, output)
                weight = 1 / (given if given is not None else np.full(experiment.samples, std[output]))
                present = np.isfinite(y)
                self.measured[places, j] = np.where(present, y, 0.0)
                self.weight[places, j] = np.where(present, weight, 0.0)
        self.complete = bool(np.all(self.weight > 0))

    def residuals(self, outputs: np.ndarray) -> np.ndarray:
        if self.complete:
            return (outputs - self.measured) * self.weight
        return np.where(self.weight > 0, outputs - self.measured, 0.0) * self.weight


_seen: WeakKeyDictionary[Problem, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()


def _read_off(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Start values and typical sizes of the states; a fit makes many frames of one problem, the records are read once."""
    if problem not in _seen:
        start = start_values(problem)
        scale = _state_scale(problem, start)
        for array in (start, scale):
            array.flags.writeable = False
        _seen[problem] = start, scale
    return _seen[problem]


def _state_scale(problem: Problem, start: np.ndarray) -> np.ndarray:
    """Typical size of each state, from the record where it shows it."""
    sizes = []
    for e, experiment in enumerate(problem.experiments):
        looks = np.linspace(experiment.time[0], experiment.time[-1], LOOKS)
        readings = states_from_measurements(problem.model, experiment, looks)
        x0 = problem.parameters_and_initial_state(start, e)[1]
        sizes.append(np.nanmax(np.vstack([np.abs(readings), np.abs(x0)]), axis=0))
    size = np.max(sizes, axis=0)
    return np.where(size > 0, size, 1.0)


class Objective:
    """Unknowns, priors and loss of a problem, and how residuals become an evaluation."""

    def __init__(self, problem: Problem, loss: str = "squared", start_values: np.ndarray | None = None):
        self.problem, self.loss = problem, loss
        self.free = np.array(sorted({int(i) for b in problem.bindings for i in np.flatnonzero(b.parameter_unknown >= 0)}),
                             dtype=int)
        self.names = problem.names
        first, self.state_scale = _read_off(problem)
        self.coordinates: Transforms = transforms_of(problem, first)
        self.start_values = first if start_values is None else start_values
        self.priors = [(i, u.prior) for i, u in enumerate(problem.unknowns) if u.prior is not None]

    def values(self, point: Variables) -> np.ndarray:
        """The unknowns in the user's units."""
        values = self.coordinates.values(point.unknowns)
        if not np.all(np.isfinite(values)):
            raise SimulationDiverged(np.nan, 0, what="a parameter is too large for the computer")
        return values

    def residual_count(self, signals: Sequence[WeightedData]) -> int:
        return sum(int(np.count_nonzero(s.weight)) for s in signals) + len(self.priors)

    def rounding_cost(self, signals: Sequence[WeightedData]) -> float:
        """A cost below this is rounding."""
        return RESIDUAL_ROUNDING**2 * sum(float(np.sum((s.measured * s.weight) ** 2)) for s in signals)

    def evaluation(self, point: Variables, signals: Sequence[WeightedData], outputs: Sequence[np.ndarray],
                   defects: Sequence[np.ndarray], corrections: Sequence[np.ndarray]) -> tuple[Evaluation, list[np.ndarray]]:
        """Cost and weighted residuals, and the factor that the loss puts on each row."""
        cost, rhs, factors = 0.0, [], []
        for own, y in zip(signals, outputs, strict=True):
            residual = own.residuals(y)
            part, factor = loss_and_weights(residual, self.loss)
            cost += part
            rhs.append(residual if self.loss == "squared" else residual * factor)
            factors.append(factor)
        values = self.coordinates.values(point.unknowns) if self.priors else np.zeros(0)
        prior = np.array([(values[i] - known.mean) / known.std for i, known in self.priors])
        cost += float(prior @ prior)
        if not np.isfinite(cost):
            raise SimulationDiverged(np.nan, 0, what="the sum of squares is too large for the computer")
        sizes = [(d / self.state_scale).ravel() for d in defects if d.size]
        max_defect = max((float(max(each.max(), -each.min())) for each in sizes), default=0.0)
        weighed = () if self.loss == "squared" else tuple(factors)
        return Evaluation(cost, tuple(rhs), prior, tuple(defects), tuple(corrections), max_defect, weighed), factors

    def linear(self, point: Variables, evaluation: Evaluation, chains: Sequence[SegmentChain], workspace: Workspace
               ) -> LinearizedProblem:
        """Chains of the experiments joined at the unknowns."""
        slope = self.coordinates.derivative(point.unknowns)
        spreads = tuple(self.unknown_map(e, slope) for e in range(len(chains)))
        at = np.array([i for i, _ in self.priors], dtype=int)
        priors = UnknownMap(at, slope[at] / np.array([known.std for _, known in self.priors]))
        return LinearizedProblem(evaluation, len(self.names), tuple(chains), spreads, priors, workspace)

    def unknown_map(self, e: int, slope: np.ndarray) -> UnknownMap:
        """How first state and free parameters of one experiment follow the unknowns; `slope` is d value / d unknown."""
        binding = self.problem.bindings[e]
        unknown = np.concatenate([binding.initial_unknown, binding.parameter_unknown[self.free]])
        return UnknownMap(unknown, np.append(slope, 0.0)[unknown])

    def node_step_norm(self, nodes: Sequence[np.ndarray]) -> float:
        """Mean over the nodes of their squared steps, each divided by the typical size of its state."""
        total = 0.0
        for steps in nodes:
            scaled = (steps * np.tile(1 / self.state_scale, steps.shape[1] // max(1, self.state_scale.size))).ravel()
            total += float(scaled @ scaled)
        return total / max(1, sum(len(n) for n in nodes))
