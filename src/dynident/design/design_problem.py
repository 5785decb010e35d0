"""Design problem: what is asked of a plan, checked once and frozen.

Model and signals on the grid of samples, parameters of interest, the prior information, the scenarios at which a plan is
judged, and scale and bounds of its coefficients. Everything that follows is a function of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import qmc

from dynident.design.argument_checks import DesignOptions, ParsedDesign, signal_faults
from dynident.design.constraints import FineSimulation, PathConstraint, input_range, simulate_finely
from dynident.design.criteria import Criterion
from dynident.design.guard_constraints import ModeConstraint
from dynident.design.prior_information import PriorInformation, RecordLayout, prior_information
from dynident.design.sensitivity_simulation import InputTrajectory, PlannedSimulation, planned_simulation
from dynident.design.signals import Binary, Signal
from dynident.errors import ProblemError, did_you_mean
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.verbs.structural_identifiability import structure_of

MIN_SAMPLES = 3  # of a record: fewer have no rate to look at


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """Variables are the coefficients of all planned records, each over its scale."""

    mode: ModeConstraint
    model: EquationModel  # of the mode
    criterion: Criterion
    constraints: tuple[PathConstraint, ...]
    layout: RecordLayout
    prior: PriorInformation
    simulation: PlannedSimulation
    of_interest: np.ndarray  # indices of the parameters of interest among the unknowns
    scenarios: tuple[np.ndarray, ...]  # values of the unknowns at which a plan is judged, the nominal ones first
    input_ranges: Mapping[str, tuple[float, float]]  # centre and half width
    coefficient_scale: np.ndarray  # (coefficients,) of one record
    coefficient_bounds: tuple[np.ndarray, np.ndarray]  # over their scale
    durations: tuple[float, float]  # s, shortest and longest
    options: DesignOptions
    random_state: Mapping[str, Any]  # of the generator, for what is still to be drawn
    taken: np.ndarray | None = None  # (records, samples) which are measured; None: all
    first_start: np.ndarray | None = None  # variables to begin with, beside those that are drawn

    @property
    def inputs(self) -> InputTrajectory:
        return self.simulation.inputs

    @property
    def records(self) -> int:
        return self.layout.records

    @property
    def worst_case(self) -> bool:
        return self.options.robust == "worst"

    @cached_property
    def scale(self) -> np.ndarray:
        """Of the coefficients of all records."""
        return np.tile(self.coefficient_scale, self.records)

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """(records, coefficients) of the variables, and of no more than these."""
        return (w[:self.scale.size] * self.scale).reshape(self.records, -1)

    def generator(self) -> np.random.Generator:
        rng = np.random.default_rng()
        rng.bit_generator.state = dict(self.random_state)
        return rng

    def simulate_finely(self, c: np.ndarray, values: np.ndarray, record: int) -> FineSimulation:
        """A planned record at ten times finer steps, at values of the unknowns."""
        return simulate_finely(self.model, self.inputs, c, *self.prior.at(values, record))

    def fine_simulations(self, c: np.ndarray) -> list[FineSimulation]:
        """Of all records, in all scenarios."""
        return [self.simulate_finely(own, values, r) for r, own in enumerate(c) for values in self.scenarios]

    def with_fixed_duration(self, duration: float) -> DesignProblem:
        """On the true grid of samples, once the duration is chosen."""
        samples, model = round(duration / self.layout.sample_time) + 1, self.simulation.model
        layout = replace(self.layout, samples=samples)
        inputs = InputTrajectory(self.inputs.signals, samples, duration, False)
        simulation = planned_simulation(self.model, inputs, model.initial, model.free, model.monitored,
                                        self.simulation.substeps)
        prior = prior_information(self.mode.known, self.mode.problem, layout, self.options.use_records)
        return replace(self, layout=layout, prior=prior, simulation=simulation)


def build_design_problem(parsed: ParsedDesign) -> DesignProblem:
    """From arguments that were checked; raises what only the records can tell."""
    mode, options = parsed.mode, parsed.options
    assert isinstance(mode.problem.model, EquationModel)  # parse_arguments takes no other
    last = mode.problem.experiments[-1]
    durations, step, samples = planned_sampling(mode.problem, options)
    signals = {name: own.sampled(samples) if isinstance(own, Binary) else own for name, own in parsed.signals.items()}
    parsed = replace(parsed, signals=signals)
    ranges = {name: _input_range(parsed, name) for name in signals}
    faults = signal_faults(signals, samples, step)
    if faults:
        raise ProblemError(faults)
    layout = RecordLayout(options.records, samples, step, {n: s.hold for n, s in parsed.signals.items()},
                          dict(last.initial if options.initial is None else options.initial))
    prior = prior_information(mode.known, mode.problem, layout, options.use_records)
    of_interest, rng = _of_interest(prior, options.names), np.random.default_rng(options.seed)
    scenarios = _scenarios(prior, options, of_interest, rng)
    inputs = InputTrajectory(parsed.signals, samples, (samples - 1) * step, durations[0] < durations[1])
    scale, bounds = _coefficient_scale(parsed.signals, ranges, durations)
    return DesignProblem(mode, mode.problem.model, parsed.criterion, parsed.constraints, layout, prior,
                         _simulation(parsed, mode.problem.model, inputs, prior), of_interest, scenarios, ranges, scale, bounds,
                         durations, options, rng.bit_generator.state)


def planned_sampling(problem: Problem, options: DesignOptions) -> tuple[tuple[float, float], float, int]:
    """Shortest and longest duration, the sample time, and how many samples the longest record has."""
    time = np.asarray(problem.experiments[-1].time, float)
    step = float(f"{np.median(np.diff(time)):.9g}") if options.sample_time is None else float(options.sample_time)
    durations = _durations(options, float(time[-1] - time[0]), step)
    return durations, step, round(durations[1] / step) + 1


def _durations(options: DesignOptions, last: float, step: float) -> tuple[float, float]:
    """Shortest and longest; that of the last record unless given."""
    given = options.duration
    durations = given if isinstance(given, tuple) else (last if given is None else given,) * 2
    if durations[1] < (MIN_SAMPLES - 1) * step:
        raise ProblemError(f"a record of {durations[1]:g} s with a sample every {step:g} s has fewer than three samples; "
                           "give a longer duration, or a shorter sample_time.")
    return durations


def _input_range(parsed: ParsedDesign, name: str) -> tuple[float, float]:
    """Centre and half width of an input."""
    amplitude, signal = parsed.options.amplitude, parsed.signals[name]
    given = amplitude.get(name) if isinstance(amplitude, Mapping) else amplitude
    known = input_range(parsed.constraints, name)
    if given is not None:
        return (known[0] if known else 0.0), float(given)
    if known is None and signal.names and not any(own.everywhere for own in signal.constraints()):
        raise ProblemError(f"Nothing limits the input '{name}', and a larger one always tells more. Give a constraint "
                           f"such as \"abs({name}) <= 1\", or amplitude=... where other constraints hold it.")
    return known if known else (0.0, 1.0)


def _of_interest(prior: PriorInformation, names: tuple[str, ...]) -> np.ndarray:
    """All parameters unless some are named; initial states are nuisance parameters."""
    if not names:
        return np.array([i for i, u in enumerate(prior.problem.unknowns) if not u.initial], int)
    missing = [n for n in names if n not in prior.names]
    if missing:
        raise ProblemError(f"'{missing[0]}' is not an unknown of the problem; known: {', '.join(prior.names)}.")
    return np.array([prior.names.index(n) for n in names])


def _simulation(parsed: ParsedDesign, model: EquationModel, inputs: InputTrajectory, prior: PriorInformation
                ) -> PlannedSimulation:
    binding = prior.problem.bindings[prior.at_hand]
    initial = tuple(int(i) for i in np.flatnonzero(binding.initial_unknown >= 0))
    free = tuple(int(i) for i in np.flatnonzero(binding.parameter_unknown >= 0))
    monitored = tuple(own.expression for own in parsed.constraints if own.input_rate is None)
    return planned_simulation(model, inputs, initial, free, monitored)


def _coefficient_scale(signals: Mapping[str, Signal], ranges: Mapping[str, tuple[float, float]], durations: tuple[float, float]
                       ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """A typical size of each coefficient of a record, and bounds in units of it."""
    parts = []
    for name, signal in signals.items():
        centre, half_width = ranges[name]
        low, high = signal.bounds(centre, half_width)
        size = np.where(np.isfinite(high - low), (high - low) / 2, abs(centre) + half_width)
        parts.append((size, low / size, high / size))
    if durations[0] < durations[1]:
        parts.append((np.array([durations[1]]), np.array([durations[0] / durations[1]]), np.ones(1)))
    scale, low, high = (np.concatenate([np.asarray(own, float) for own in each]) for each in zip(*parts, strict=True))
    return scale, (low, high)


# robust designs: values of the unknowns at which a plan is judged, since what it depends on is not yet known


def _scenarios(prior: PriorInformation, options: DesignOptions, of_interest: np.ndarray, rng: np.random.Generator
               ) -> tuple[np.ndarray, ...]:
    """The nominal values; where a robust plan is asked for, further ones around them."""
    box = dict(options.box or {})
    if not options.robust:
        if box:
            raise ProblemError("a box was given, but not what to do with it: say robust=\"average\" or \"worst\".")
        return (prior.values,)
    more = _in_box(prior, box, options.samples, rng) if box else _in_ellipsoid(prior, options.samples, of_interest, rng)
    return (prior.values, *more)


def _in_box(prior: PriorInformation, box: Mapping[str, tuple[float, float]], samples: int, rng: np.random.Generator
            ) -> list[np.ndarray]:
    """A Latin hypercube."""
    faults = [f"box names '{n}', which is not an unknown.{did_you_mean(n, prior.names)}" for n in box if n not in prior.names]
    if faults:
        raise ProblemError(faults)
    found = []
    for row in qmc.LatinHypercube(len(box), rng=rng).random(samples):
        values = prior.values.copy()
        for (name, (low, high)), fraction in zip(box.items(), row, strict=True):
            values[prior.names.index(name)] = low + fraction * (high - low)
        found.append(values)
    return found


def _in_ellipsoid(prior: PriorInformation, samples: int, of_interest: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Draws from the normal distribution that the records so far leave."""
    known = prior.identifiability()
    loose = [prior.names[i] for i in of_interest if not np.isfinite(known.std[i])]
    if loose:
        raise ProblemError(f"The records so far do not determine {', '.join(loose)}, so there is no uncertainty to "
                           "draw from. Give a box, as in box={\"" + loose[0] + "\": (low, high)}.")
    fitted = np.flatnonzero(np.isfinite(known.std))
    scale = prior.scale[fitted]
    _, R = np.linalg.qr(prior.rows_with_constraints()[:, fitted] * scale)
    found = []
    for _ in range(samples):
        values = prior.values.copy()
        values[fitted] += scale * np.linalg.solve(R, rng.standard_normal(fitted.size))
        found.append(np.array([np.clip(v, u.lower, u.upper) for v, u in zip(values, prior.problem.unknowns, strict=True)]))
    return found


def refuse_unidentifiable(problem: DesignProblem) -> None:
    """Structurally unidentifiable parameters stay so, whatever the input: say so before searching.

    Unless a constraint tells them apart, or records have done so in another mode.
    """
    mode, asked = problem.mode, problem.mode.problem
    std = problem.prior.identifiability().std
    known = {name for name, own in zip(problem.prior.names, std, strict=True) if mode.mode and np.isfinite(own)}
    tied = {name for c in asked.constraints if c.lower == c.upper for name in c.names()}
    structure = structure_of(asked)
    hidden = [(group, words) for group, words in zip(structure.groups, structure.combinations, strict=True)
              if any(u.name in group and not u.initial and u.prior is None for u in asked.unknowns)
              and not set(group) <= known and not set(group) & tied]
    where = f" in the mode '{mode.mode}'" if mode.mode else ""
    if hidden:
        raise ProblemError([f"No input{where} can determine {', '.join(group)}: {words}. Hold one of them (free=False), give "
                            "it a prior, or measure something else." for group, words in hidden])
