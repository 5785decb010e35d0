"""Prediction setup: a problem and its noises as rows of the filter, and the vector of unknowns and logarithms of noises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.kalman.filter_common import STEP_COUNT_ROUNDING
from dynident.kalman.prediction_error.firm_constraints import FirmConstraints
from dynident.kalman.prediction_error.innovations import InnovationModel
from dynident.kalman.setup import signals_of
from dynident.kalman.step_choice import filter_step
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem, given_std

NoiseTerm = tuple[str, str]  # where it acts ("state", "input", "output"), and on what


@dataclass(frozen=True, eq=False)
class PredictionRecord:
    """One experiment as rows of the filter."""

    name: str
    columns: np.ndarray  # (rows, columns of the model)
    sample_rows: np.ndarray  # (samples,) the row that ends at each sample
    there: np.ndarray  # (samples, outputs) what was measured
    counted: np.ndarray  # (samples, outputs) 1; 0 for the first values of open noise, as many as initial states are free
    levels: np.ndarray  # (noises,) logarithms of those that are given; 0 where they are open or in the rows
    open_noise: np.ndarray  # (noises,) place among the open ones, -1 where given


@dataclass(frozen=True, eq=False)
class PredictionSetup:
    """What the criterion is a function of: theta holds the unknowns' coordinates, then logarithms of open noises."""

    problem: Problem
    model: InnovationModel
    substeps: int
    terms: tuple[NoiseTerm, ...]  # all noises, in the order of the filter
    open_terms: tuple[NoiseTerm, ...]
    records: tuple[PredictionRecord, ...]
    held: FirmConstraints | None = None
    tilt: np.ndarray | None = None  # (theta,) slope of a straight line that is added to the criterion
    most_passes: float = np.inf  # with derivatives, of all searches together; then they end where they are
    passes: dict[str, int] = field(default_factory=lambda: {"simulations": 0, "jacobians": 0})  # of the filter, all together

    @property
    def spent(self) -> bool:
        return self.passes["jacobians"] >= self.most_passes

    @property
    def unknowns(self) -> int:
        return len(self.problem.unknowns)

    @property
    def measured(self) -> int:
        return sum(int(np.sum(record.there)) for record in self.records)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        log = np.array([u.log for u in self.problem.unknowns], bool)
        return np.where(log, np.log(np.where(log, np.maximum(values, np.finfo(float).tiny), 1.0)), values)

    def values(self, theta: np.ndarray) -> np.ndarray:
        """Of the unknowns, in the user's units."""
        own = theta[:self.unknowns]
        log = np.array([u.log for u in self.problem.unknowns], bool)
        with np.errstate(over="ignore"):
            return np.where(log, np.exp(np.where(log, own, 0.0)), own)

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """d value / d coordinate of each unknown."""
        return np.where([u.log for u in self.problem.unknowns], self.values(theta), 1.0)

    def noise_of(self, theta: np.ndarray, e: int) -> np.ndarray:
        """Logarithms of all noises in one experiment."""
        record = self.records[e]
        own = np.concatenate([theta[self.unknowns:], [0.0]])
        return np.where(record.open_noise >= 0, own[record.open_noise], record.levels)

    def std_of(self, theta: np.ndarray, where: Sequence[str]) -> dict[str, float]:
        """By name, the open noises of one or more places at theta."""
        return {name: float(np.exp(level)) for (place, name), level in zip(self.open_terms, theta[self.unknowns:], strict=True)
                if place in where}


def build_prediction(problem: Problem, process_noise: Mapping[str, float | None], integrator: str, substeps: int
                     ) -> PredictionSetup:
    """`process_noise` by state or input, None where its size is open; errors of sensors are those of the experiments."""
    its = problem.model
    strange = [name for name in process_noise if name not in (*its.states, *its.inputs)]
    if strange:
        raise ProblemError([f"process_noise names '{name}', which is neither a state nor an input of the model."
                            f"{did_you_mean(name, [*its.states, *its.inputs])}" for name in strange])
    states = tuple(i for i, name in enumerate(its.states) if name in process_noise)
    noisy = [name for name in its.inputs if name in process_noise or name in problem.noisy_inputs]
    inputs = tuple(its.inputs.index(name) for name in noisy)
    linear = any(e.hold[name] == "linear" for e in problem.experiments for name in noisy)
    scheme = filter_step(integrator)
    both_ends = linear or bool(fed_through(its) & {*noisy})
    model = InnovationModel(its.content_hash(), scheme.name, states, inputs, both_ends, its, scheme)
    terms: tuple[NoiseTerm, ...] = (*(("state", its.states[i]) for i in states), *(("input", name) for name in noisy),
                                    *(("output", name) for name in its.outputs))
    sizes = [_given_sizes(problem, e, terms, process_noise) for e in problem.experiments]
    open_terms = tuple(term for k, term in enumerate(terms) if any(own[k] is None for own in sizes))
    gaps = np.concatenate([np.diff(e.time) for e in problem.experiments])
    longest = float(np.median(gaps)) / substeps if gaps.size else 1.0
    free = [int(np.sum(b.initial_unknown >= 0)) for b in problem.bindings]
    records = tuple(_record(model, e, terms, open_terms, own, longest, count)
                    for e, own, count in zip(problem.experiments, sizes, free, strict=True))
    return PredictionSetup(problem, model, substeps, terms, open_terms, records)


def fed_through(model: EquationModel) -> set[str]:
    """The inputs that an output feels at once."""
    t, x, u, p = (ca.SX.sym(n, k) for n, k in zip("txup", (1, len(model.states), len(model.inputs), len(model.parameters)),
                                                  strict=True))
    felt = ca.sparsify(ca.jacobian(ca.vertcat(model.output(t, x, u, p)), u))
    return {name for k, name in enumerate(model.inputs) if felt[:, k].nnz() > 0}


def _given_sizes(problem: Problem, experiment: Experiment, terms: Sequence[NoiseTerm],
                 process_noise: Mapping[str, float | None]) -> list[np.ndarray | None]:
    """Per noise the standard deviation at each sample; None where it is open, 1 of what is not measured here."""
    sizes: list[np.ndarray | None] = []
    for place, name in terms:
        std: np.ndarray | float | None
        if place == "output":
            std = given_std(experiment, name) if name in experiment.outputs else 1.0
        elif place == "input" and name in problem.noisy_inputs:
            own = experiment.input_noise.get(name)
            std = 0.0 if own is None else own.std if own.std is None else np.asarray(own.std, float)
        else:
            std = process_noise[name]
        sizes.append(None if std is None else np.broadcast_to(np.asarray(std, float), (experiment.samples,)))
    return sizes


def _record(model: InnovationModel, experiment: Experiment, terms: Sequence[NoiseTerm], open_terms: Sequence[NoiseTerm],
            sizes: Sequence[np.ndarray | None], longest: float, free_states: int) -> PredictionRecord:
    its, (ns, nw) = model.model, (len(model.states), len(model.inputs))
    time, u, y = signals_of(experiment, its.inputs, its.outputs)
    before = np.concatenate([[float(experiment.start)], time[:-1]])
    gaps = time - before
    counts = np.maximum(1, np.ceil(gaps / longest * (1 - STEP_COUNT_ROUNDING))).astype(int)
    k = np.repeat(np.arange(time.size), counts)
    m = np.arange(k.size) - np.repeat(np.cumsum(counts) - counts, counts)
    h, share = (gaps / counts)[k], 1 / counts[k]
    linear = np.array([experiment.hold[name] == "linear" for name in its.inputs], float)
    u_before = np.vstack([u[:1], u[:-1]])
    slope = (linear * (u - u_before))[k] * share[:, None]
    u0 = u_before[k] + m[:, None] * slope
    foh = linear[list(model.inputs)]
    there = np.isfinite(y)
    last = m == counts[k] - 1
    variance = [np.ones(time.size) if size is None else size**2 for size in sizes]
    of_inputs = np.column_stack([*variance[ns:ns + nw], np.zeros((time.size, 0))])
    fresh = of_inputs if model.both_ends else np.vstack([of_inputs[:1], of_inputs[:-1]])
    parts = {"t": before[k] + m * h, "h": h, "from": np.outer(m * share, foh), "to": np.outer((m + 1) * share, foh),
             "u0": u0, "u1": u0 + slope, "at": time[k], "u": u[k], "y": np.where(there, y, 0.0)[k],
             "r": np.column_stack(variance[ns + nw:])[k], "w": fresh[k], "first": (m == 0).astype(float),
             "mask": (there[k] & last[:, None]).astype(float)}
    levels = np.array([np.log(size[0]) if size is not None and place == "state" else 0.0
                       for (place, _), size in zip(terms, sizes, strict=True)])
    places = [open_terms.index(term) if size is None else -1 for term, size in zip(terms, sizes, strict=True)]
    return PredictionRecord(experiment.name, np.column_stack([parts[name] for name in model.columns]), np.flatnonzero(last),
                            there, _counted(there, np.array(places[ns + nw:]) >= 0, free_states), levels, np.array(places, int))


def _counted(there: np.ndarray, open_noise: np.ndarray, free_states: int) -> np.ndarray:
    """Which values a noise is judged by: not those that the initial state explains, whatever they are.

    An initial state that is free meets the first samples exactly; their log S would reward a noise that vanishes, without end.
    """
    counted = np.ones(there.shape)
    at = np.argwhere(there & open_noise)[:free_states]  # in the order of time
    counted[at[:, 0], at[:, 1]] = 0.0
    return counted
