"""Objective: what all transcriptions of a problem have in common: data on a grid, weights, loss, unknowns, priors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dynident.errors import SimulationDiverged, StartDiverged
from dynident.integrators.grid import Grid
from dynident.linalg.finite_problem import (
    Evaluation,
    LinearizedProblem,
    SegmentChain,
    UnknownMap,
    Variables,
    Workspace,
)
from dynident.problem.noise import (
    LogNormal,
    formula_of,
    is_weighed_by_model,
    logarithmic_mean,
    loss_and_weights,
    sum_of_squares,
)
from dynident.problem.parameter import Transforms, transforms_of
from dynident.problem.problem import Problem, given_std
from dynident.tolerances import RESIDUAL_ROUNDING
from dynident.transcription.initial_guess import start_values, states_from_measurements

ROUGH_STD = 0.01  # of a signal's spread, or of its logarithm: before a formula has been evaluated
ROOT2 = float(np.sqrt(2.0))
NO_PRIORS = np.zeros(0)
SCALE_SAMPLES = 50  # places at which a record is asked how large its states are


class WeightedData:
    """The measured signals of one experiment at the nodes of a grid, with their weights."""

    def __init__(self, problem: Problem, index: int, grid: Grid, places: np.ndarray, std: Mapping[str, float]):
        model, experiment = problem.model, problem.experiments[index]
        self.measured = np.zeros((grid.nodes, len(model.outputs)))
        self.weight = np.zeros_like(self.measured)  # 1/std where measured, 0 elsewhere; a rough one where the model weighs
        seen = np.zeros(self.measured.shape, bool)
        for j, output in enumerate(model.outputs):
            if output in experiment.outputs:
                y = np.asarray(experiment.outputs[output])
                seen[places, j] = np.isfinite(y)
                self.measured[places, j] = np.where(np.isfinite(y), y, 0.0)
        by_model = {name for name, noise in experiment.noise.items() if is_weighed_by_model(noise)}
        self.model_weights = ModelWeights(problem, index, grid, self.measured, seen) if by_model else None
        for j, output in enumerate(model.outputs):
            if output in by_model and self.model_weights is not None:
                weight = self.model_weights.rough_weight(output, np.asarray(experiment.outputs[output]))
            elif output in experiment.outputs:
                given = given_std(experiment, output)
                weight = 1 / (given if given is not None else np.full(experiment.samples, std[output]))
            else:
                continue
            self.weight[places, j] = np.where(seen[places, j], weight, 0.0)
        self.complete = bool(np.all(self.weight > 0))
        self.count = int(np.count_nonzero(self.weight))  # of measured values
        with np.errstate(over="ignore"):  # of errors that were said to be next to none
            self.squares = float(np.sum((self.measured * self.weight) ** 2))  # of these, weighted

    def residuals(self, outputs: np.ndarray) -> np.ndarray:
        if self.complete:
            return (outputs - self.measured) * self.weight
        return np.where(self.weight > 0, outputs - self.measured, 0.0) * self.weight

    def weighed(self, outputs: np.ndarray) -> WeighedResiduals:
        """Rows and weights at the outputs of a simulation, whoever says the weights."""
        if self.model_weights is not None:
            return self.model_weights.weighed(outputs, self.weight)
        residuals = self.residuals(outputs)
        return WeighedResiduals(residuals, self.weight, sum_of_squares(residuals), 0.0)


@dataclass(frozen=True, eq=False)
class _ProblemFacts:
    """What follows from a problem alone, whatever its transcription; arrays of a few numbers per unknown."""

    start: np.ndarray  # (unknowns,)
    state_scale: np.ndarray  # (states,) typical sizes
    free: np.ndarray  # parameters of the model that follow an unknown in any experiment
    coordinates: Transforms
    sources: tuple[np.ndarray, ...]  # per experiment: the unknown that each first state and free parameter follows, or -1
    all_states_measured: bool  # the measurements show every state


_facts: WeakKeyDictionary[Problem, _ProblemFacts] = WeakKeyDictionary()


def _facts_of(problem: Problem) -> _ProblemFacts:
    """A fit makes many objectives of one problem; its records are read once."""
    if problem not in _facts:
        start = start_values(problem)
        scale = _state_scale(problem, start)
        free = np.array(sorted({int(i) for b in problem.bindings for i in np.flatnonzero(b.parameter_unknown >= 0)}), dtype=int)
        sources = tuple(np.concatenate([b.initial_unknown, b.parameter_unknown[free]]) for b in problem.bindings)
        for array in (start, scale, free, *sources):
            array.flags.writeable = False
        measured = all(np.all(np.isfinite(states_from_measurements(problem.model, e, np.asarray(e.time)[:1], 1)))
                       for e in problem.experiments)
        _facts[problem] = _ProblemFacts(start, scale, free, transforms_of(problem, start), sources, measured)
    return _facts[problem]


def _state_scale(problem: Problem, start: np.ndarray) -> np.ndarray:
    """Typical size of each state, from the record where it shows it."""
    scaled = []
    for e, experiment in enumerate(problem.experiments):
        times = np.linspace(experiment.time[0], experiment.time[-1], SCALE_SAMPLES)
        readings = states_from_measurements(problem.model, experiment, times)
        try:
            x0 = problem.parameters_and_initial_state(start, e)[1]
        except SimulationDiverged as bad:  # no state to begin with: known before anything is simulated
            raise StartDiverged(f"At the start values {str(bad.within(experiment.name)).rstrip('.')}. Choose other start "
                                "values, or give the initial states as numbers.") from None
        scaled.append(np.nanmax(np.vstack([np.abs(readings), np.abs(x0)]), axis=0))
    largest = np.max(scaled, axis=0)
    return np.where(largest > 0, largest, 1.0)


class Objective:
    """Unknowns, priors and loss of a problem, and how residuals become an evaluation."""

    def __init__(self, problem: Problem, loss: str = "squared", start_values: np.ndarray | None = None):
        self.problem, self.loss = problem, loss
        self.names = problem.names
        facts = _facts_of(problem)
        self.free, self.state_scale, self._sources = facts.free, facts.state_scale, facts.sources
        self.all_states_measured = facts.all_states_measured
        self.coordinates: Transforms = facts.coordinates
        self.start_values = facts.start if start_values is None else start_values
        self.priors = [(i, u.prior) for i, u in enumerate(problem.unknowns) if u.prior is not None]
        self._prior_unknowns = np.array([i for i, _ in self.priors], dtype=int)
        self._weighs_by_model = problem.weighs_by_model
        self._no_priors = UnknownMap(self._prior_unknowns, NO_PRIORS)

    def values(self, point: Variables) -> np.ndarray:
        """The unknowns in the user's units."""
        values = self.coordinates.values(point.unknowns)
        if not np.isfinite(values).all():
            raise SimulationDiverged(np.nan, 0, what="a parameter is too large for the computer")
        return values

    def residual_count(self, signals: Sequence[WeightedData]) -> int:
        return sum(s.count for s in signals) + len(self.priors)

    def rounding_cost(self, signals: Sequence[WeightedData]) -> float:
        """A cost below this is rounding."""
        return RESIDUAL_ROUNDING**2 * sum(s.squares for s in signals)

    def evaluation(self, point: Variables, signals: Sequence[WeightedData], outputs: Sequence[np.ndarray],
                   defects: Sequence[np.ndarray], corrections: Sequence[np.ndarray]) -> tuple[Evaluation, list[Any]]:
        """Cost and weighted residuals, and the factor that the loss puts on each row: one number where it is that for all."""
        cost, log_std = 0.0, 0.0
        rhs: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        factors: list[Any] = []
        for data, y in zip(signals, outputs, strict=True):
            if data.model_weights is not None:
                own = data.weighed(y)
                cost, log_std = cost + own.squares + own.log_std, log_std + own.log_std
                rhs.append(own.residuals)
                weights.append(own.weight)
                factors.append(1.0)
                continue
            residual = data.residuals(y)
            weights.append(data.weight)
            if self.loss == "squared":
                factor: Any = 1.0
                with np.errstate(over="ignore"):  # judged below
                    cost += sum_of_squares(residual)
            else:
                part, factor = loss_and_weights(residual, self.loss)
                cost, residual = cost + part, residual * factor
            rhs.append(residual)
            factors.append(factor)
        prior = NO_PRIORS
        if self.priors:
            values = self.coordinates.values(point.unknowns)
            prior = np.array([known.residual(values[i]) for i, known in self.priors])
            cost += float(prior @ prior)
        if not math.isfinite(cost):
            raise SimulationDiverged(np.nan, 0, what="the sum of squares is too large for the computer")
        max_defect = max((float(np.abs(d / self._scale_of(d)).max()) for d in defects if d.size), default=0.0)
        weighed = () if self.loss == "squared" else tuple(factors)
        by_model = tuple(weights) if self._weighs_by_model else ()
        return Evaluation(cost, tuple(rhs), prior, tuple(defects), tuple(corrections), max_defect, weighed, by_model,
                          log_std), factors

    def linear(self, point: Variables, evaluation: Evaluation, chains: Sequence[SegmentChain], workspace: Workspace,
               history: int = 0) -> LinearizedProblem:
        """Chains of the experiments joined at the unknowns; `history`: so many states of a node follow those of the one before
        it, and of the first nothing."""
        derivative = self.coordinates.derivative(point.unknowns)
        maps, priors, at = self._unknown_maps(derivative, history), self._no_priors, self._prior_unknowns
        if at.size:
            values = self.coordinates.values(point.unknowns)
            priors = UnknownMap(at, derivative[at] * np.array([known.derivative(values[i]) for i, known in self.priors]))
        return LinearizedProblem(evaluation, len(self.names), tuple(chains), maps, priors, workspace)

    def _unknown_maps(self, derivative: np.ndarray, history: int) -> tuple[UnknownMap, ...]:
        """Of every experiment; the same at every point where no unknown is a logarithm."""
        if not self.coordinates.any_log and not history:
            return self._straight_maps
        return tuple(self.unknown_map(e, derivative, history) for e in range(len(self._sources)))

    @cached_property
    def _straight_maps(self) -> tuple[UnknownMap, ...]:
        return tuple(self.unknown_map(e, np.ones(len(self.names))) for e in range(len(self._sources)))

    def unknown_map(self, e: int, derivative: np.ndarray, history: int = 0) -> UnknownMap:
        """How first state and free parameters of one experiment follow the unknowns; `slope` is d value / d unknown."""
        unknown = np.insert(self._sources[e], [len(self.state_scale)] * history, -1) if history else self._sources[e]
        return UnknownMap(unknown, np.append(derivative, 0.0)[unknown])

    def node_step_norm(self, nodes: Sequence[np.ndarray]) -> float:
        """Mean over the nodes of their squared steps, each divided by the typical size of its state."""
        total = 0.0
        for steps in nodes:
            scaled = (steps / self._scale_of(steps)).ravel()
            total += float(scaled @ scaled)
        return total / max(1, sum(len(n) for n in nodes))

    def _scale_of(self, rows: np.ndarray) -> np.ndarray:
        """Typical sizes of a state, and of the stages or of the state before it beside it."""
        repeats = rows.shape[1] // max(1, self.state_scale.size)
        return self.state_scale if repeats == 1 else np.tile(self.state_scale, repeats)


@dataclass(frozen=True, eq=False)
class WeighedResiduals:
    """Right-hand side and weight of each row, (nodes, outputs), and what the standard deviations add to the cost."""

    residuals: np.ndarray
    weight: np.ndarray
    squares: float  # of the measured values alone
    log_std: float  # sum of 2 log s over formulas


class ModelWeights:
    """Which outputs of one experiment are weighed by the model: by formulas of standard deviations, or as log-normal errors.

    With residuals r = (y - m)/s, or (log y - log m)/s, the cost is the sum of r^2 + 2 log s. A row for each measured value and
    one for each standard deviation make a least squares problem with the same gradient and, as its Hessian, the expected one
    (Fisher scoring): weight 1/s and right-hand side r for y; weight sqrt(2)/s and right-hand side (1 - r^2)/sqrt(2) for s.
    """

    def __init__(self, problem: Problem, index: int, grid: Grid, measured: np.ndarray, present: np.ndarray):
        model, self.experiment = problem.model, problem.experiments[index]
        self.names, self.grid, self.present = model.outputs, grid, present
        self.std_output = {model.outputs.index(name): model.outputs.index(std)
                           for name, std in problem.noise_outputs[index].items()}
        self.log = np.array([isinstance(self.experiment.noise.get(name), LogNormal) for name in model.outputs], bool)
        self.target = measured.copy()  # logarithms where errors are log-normal
        seen = present[:, self.log]
        self.target[:, self.log] = np.where(seen, np.log(np.where(seen, measured[:, self.log], 1.0)), 0.0)

    def rough_weight(self, name: str, values: np.ndarray) -> np.ndarray:
        """A weight to begin with, for how finely a model has to be integrated; nothing is estimated by it."""
        noise, finite = self.experiment.noise[name], values[np.isfinite(values)]
        if isinstance(noise, LogNormal):
            std = ROUGH_STD if formula_of(noise) is not None else np.asarray(noise.std, float)
            return np.broadcast_to(1 / (std * np.where(np.isfinite(values), values, 1.0)), values.shape)
        spread = float(np.std(finite)) or float(np.max(np.abs(finite), initial=0.0)) or 1.0
        return np.full(values.shape, 1 / (ROUGH_STD * spread))

    def weighed(self, outputs: np.ndarray, weight: np.ndarray) -> WeighedResiduals:
        """At the outputs of a simulation; `weight` holds for the outputs whose weight is given.

        Raises SimulationDiverged where a standard deviation, or an output with a logarithm, is not positive.
        """
        seen, weight = self.present, weight.copy()
        value = np.where(seen, outputs, 1.0)
        self._positive(value, self.log, "output '{}' is not positive, and its errors are log-normal")
        inverse = 1 / np.where(self.log, value, 1.0)  # d what is compared / d output
        for j in map(int, np.flatnonzero(self.log)):
            if j not in self.std_output:
                weight[:, j] = np.where(seen[:, j], 1 / self._given(j), 0.0)
        std = self._std(outputs)
        log_std = 0.0
        for j, k in self.std_output.items():
            weight[:, j] = np.where(seen[:, j], 1 / std[:, k], 0.0)
            log_std += 2 * float(np.sum(np.log(std[seen[:, j], k])))
        compared = np.where(self.log, np.log(np.where(self.log, value, 1.0)), value)
        residuals = np.where(seen, compared - self.target, 0.0) * weight
        with np.errstate(over="ignore"):
            squares = float(np.sum(residuals**2))
            rows, weights = residuals.copy(), weight * inverse
            for k in set(self.std_output.values()):
                of = [j for j, own in self.std_output.items() if own == k]
                count = np.sum(seen[:, of], axis=1)  # one output may be the standard deviation of several
                excess = np.sum(np.where(seen[:, of], 1 - residuals[:, of] ** 2, 0.0), axis=1)
                root = np.sqrt(np.maximum(count, 1))
                rows[:, k], weights[:, k] = excess / (ROOT2 * root), np.where(count > 0, ROOT2 * root / std[:, k], 0.0)
        return WeighedResiduals(rows, weights, squares, log_std)

    def std_in_units(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """Per measured output that the model weighs, standard deviations at the samples by which y - m is r times them."""
        found = {}
        std = self._std(outputs)
        for j, name in enumerate(self.names):
            if not self.log[j] and j not in self.std_output:
                continue
            own = std[:, self.std_output[j]] if j in self.std_output else self._given(int(j))
            if self.log[j]:
                y, m = np.where(self.present[:, j], outputs[:, j], 1.0), np.exp(self.target[:, j])
                own = own * logarithmic_mean(y, m)
            found[name] = np.where(self.present[:, j] & (own > 0), own, 1.0)[self.grid.offset:]
        return found

    def _given(self, j: int) -> np.ndarray:
        """Of log-normal errors the given standard deviation at the nodes; 1 at a start of its own."""
        std: Any = self.experiment.noise[self.names[j]]
        return np.concatenate([np.ones(self.grid.offset),
                               np.broadcast_to(np.asarray(std.std, float), (self.experiment.samples,))])

    def _std(self, outputs: np.ndarray) -> np.ndarray:
        columns = sorted(set(self.std_output.values()))
        used = np.zeros(outputs.shape, bool)
        for j, k in self.std_output.items():
            used[:, k] |= self.present[:, j]
        std = np.where(used, outputs, 1.0)
        self._positive(std, np.isin(np.arange(len(self.names)), columns), "the standard deviation '{}' is not positive")
        return std

    def _positive(self, values: np.ndarray, which: np.ndarray, what: str) -> None:
        bad = np.argwhere(~(values[:, which] > 0))
        if bad.size:
            node, j = int(bad[0][0]), int(np.flatnonzero(which)[bad[0][1]])
            raise SimulationDiverged(float(self.grid.time[node]), node, what=what.format(self.names[j]))
