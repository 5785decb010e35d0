"""Prior information: what do records at hand and priors tell before the planned records, and of which unknowns?

Fisher information is kept as weighted sensitivities (rows whose Gram matrix it is), so that nothing is squared before it
has to be. Nuisance parameters that only the records at hand have are projected out, which is the Schur complement of
their block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.methods.linearize_at import linearize_at
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Bounded, Gaussian, Noise
from dynident.problem.parameter import InitialState, Parameter, transforms_of
from dynident.problem.problem import Problem, Unknown
from dynident.statistics.active_bounds import ActiveConstraints
from dynident.statistics.identifiability import Identifiability, identifiability, typical_values
from dynident.tolerances import SINGULAR_VALUE_PROJECTION
from dynident.transcription.initial_guess import start_values

UNIFORM_RADIUS_PER_STD = np.sqrt(3)  # radius over std of errors that are evenly distributed within bounds


@dataclass(frozen=True, eq=False)
class PriorInformation:
    """The problem with the planned records added, at its nominal values, and what is known of these before."""

    problem: Problem  # records at hand first, planned ones last
    at_hand: int  # how many records are not planned
    values: np.ndarray  # (unknowns,) nominal: those of the estimate, or the start values of the problem
    rows: np.ndarray  # (rows, unknowns) weighted sensitivities of the records at hand and of priors
    std: np.ndarray  # (outputs,) of the sensor; infinite for what is not measured
    active: ActiveConstraints = field(default_factory=ActiveConstraints)  # constraints between unknowns that hold with equality
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.problem.names

    @cached_property
    def scale(self) -> np.ndarray:
        """A magnitude per unknown, 1 where nothing tells one."""
        sizes = typical_values(self.problem, self.values)
        sizes = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.abs(self.values))
        return np.where(sizes > 0, sizes, 1.0)

    @cached_property
    def fisher_information(self) -> np.ndarray:
        """(unknowns, unknowns) of the records at hand and of priors."""
        return self.rows.T @ self.rows

    def identifiability(self, planned: np.ndarray | None = None) -> Identifiability:
        """Standard deviations from the records at hand, and with the rows of planned ones where given."""
        return identifiability(self.names, self.values, self.scale, self.rows_with_constraints(planned))

    def rows_with_constraints(self, planned: np.ndarray | None = None) -> np.ndarray:
        """The rows, and active constraints as measurements that are nearly exact."""
        rows = self.rows if planned is None else np.vstack([self.rows, planned])
        if not self.active.texts:
            return rows
        return np.vstack([rows, self.active.rows * self.active.weights(np.linalg.norm(rows, axis=0))[:, None]])

    @cached_property
    def null_space(self) -> np.ndarray:
        """Of the active constraints: directions (unknowns, directions), in units of `scale`, that they leave free."""
        if not self.active.texts:
            return np.eye(len(self.names))
        rows = self.active.rows * self.scale
        lengths = np.linalg.norm(rows, axis=1)
        unit = rows[lengths > 0] / lengths[lengths > 0, None]
        return truncated_svd(unit, SINGULAR_VALUE_PROJECTION, null_space=True).null_space

    def at(self, values: np.ndarray, record: int) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and initial state of a planned record at values of the unknowns."""
        return self.problem.parameters_and_initial_state(values, self.at_hand + record)

    def nominal(self, record: int) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and initial state of a planned record at the nominal values."""
        return self.at(self.values, record)

    def unknown_columns(self, record: int, initial: Sequence[int], free: Sequence[int]) -> np.ndarray:
        """Which unknowns some initial states and parameters of a planned record are."""
        binding = self.problem.bindings[self.at_hand + record]
        return np.concatenate([binding.initial_unknown[list(initial)], binding.parameter_unknown[list(free)]]).astype(int)


@dataclass(frozen=True)
class RecordLayout:
    """How planned records will be sampled."""

    records: int
    samples: int
    sample_time: float  # s
    holds: Mapping[str, str]
    initial: Mapping[str, float]


def problem_of(known: Problem | Estimate) -> Problem:
    return known if isinstance(known, Problem) else known.problem


def prior_information(known: Problem | Estimate, plan_for: Problem, layout: RecordLayout, use_records: bool
                      ) -> PriorInformation:
    """From a problem (at its start values) or an estimate (at its values).

    `plan_for` is the problem with the equations that planned records obey: of one mode, where the model has several.
    """
    problem, std = problem_of(known), sensor_std(known)
    planned = _planned_records(problem, layout, std)
    at_hand = [_with_gaussian_noise(e) for e in plan_for.experiments] if use_records else []
    parameters, at_hand = _fix_known_initial_states(plan_for.parameters, at_hand, layout.initial)
    joint = plan_for.replace(experiments=[*at_hand, *planned], parameters=parameters)
    nominal = nominal_values_of(known)
    values = np.array([_nominal(u, nominal, problem) for u in joint.unknowns])
    rows = np.zeros((0, len(joint.names)))
    if at_hand:
        nuisance = [not u.initial and u.quantity not in joint.model.parameters for u in problem.unknowns]
        rows = _embed_columns(problem, joint, project_out(_rows(problem, nominal, std), np.array(nuisance, bool)))
    for i, u in enumerate(joint.unknowns):
        if u.prior is not None and (not at_hand or u.experiments[0] >= len(at_hand)):
            rows = np.vstack([rows, np.eye(len(joint.names))[i] / u.prior.std])
    coordinates = transforms_of(joint, values)
    active = ActiveConstraints.at(joint, coordinates, coordinates.coordinates(values))
    active = active if isinstance(known, Estimate) else active.equalities()  # only a fit knows what holds it
    notes = (*_notes_on_bounded_noise(problem), *_notes_on_what_is_ignored(known))
    return PriorInformation(joint, len(at_hand), values, rows, std, active, notes)


def _planned_records(problem: Problem, layout: RecordLayout, std: np.ndarray) -> list[Experiment]:
    """Empty records with the sampling and the noise of the planned ones."""
    nothing = np.zeros(layout.samples)
    measured = {n: float(s) for n, s in zip(problem.model.outputs, std, strict=True) if np.isfinite(s)}
    record = Experiment(np.arange(layout.samples) * layout.sample_time, dict.fromkeys(problem.model.inputs, nothing),
                        dict.fromkeys(measured, nothing), {n: Gaussian(s) for n, s in measured.items()},
                        dict(layout.initial), hold=dict(layout.holds))
    return [record.with_name(_unused_name(problem, k)) for k in range(layout.records)]


def _notes_on_what_is_ignored(known: Problem | Estimate) -> list[str]:
    """What the problem or the estimate reckons with and the plan does not."""
    problem, notes = problem_of(known), []
    bounds = [c.text for c in problem.constraints if c.of_states(problem.model.states)]
    if bounds:
        notes.append(f"'{bounds[0]}' bounds states of the records at hand; the plan keeps to its own constraints only. Give it "
                     "among them, if it is meant for the machine.")
    left_out = _noises_left_out(known)
    if not left_out and isinstance(known, Estimate) and known.smoothed is not None:
        left_out = ["errors of the model"]
    if left_out:
        whose = "estimate allows for" if isinstance(known, Estimate) else "problem states"
        notes.append(f"The {whose} {', '.join(left_out)}, and the plan does not: standard deviations before and after are "
                     "those of a model and inputs that are exact, and too small. Take the input, not the predicted std; how "
                     "sure a fit with such errors will be, a fit to simulated records tells.")
    return notes


def _noises_left_out(known: Problem | Estimate) -> list[str]:
    """All but those of the outputs' sensors, each by where it acts."""
    problem = problem_of(known)
    acting = list(problem.process_noise)
    if isinstance(known, Estimate):
        filtered = {} if known.filtered is None else known.filtered.process_noise
        found = known.process_noise or filtered
        acting = [name for name in {**dict.fromkeys(acting), **found} if found.get(name, 1.0) > 0]
    return [*(f"noise of the sensor of {name}" for name in problem.noisy_inputs),
            *(f"noise {'behind' if name in problem.model.inputs else 'on'} {name}" for name in acting)]


def _fix_known_initial_states(parameters: Sequence[Parameter | InitialState], at_hand: list[Experiment],
                              initial: Mapping[str, float]) -> tuple[list[Parameter | InitialState], list[Experiment]]:
    """An initial state cannot be known in one record and declared for all: what is fixed moves into the records."""
    known = [p for p in parameters if isinstance(p, InitialState) and p.state in initial]
    fixed = {p.state: float(p.start) for p in known if not p.free and p.start is not None}
    return [p for p in parameters if p not in known], [replace(e, initial={**fixed, **e.initial}) for e in at_hand]


def _unused_name(problem: Problem, k: int) -> str:
    taken = {e.name for e in problem.experiments}
    name = "planned" if k == 0 else f"planned {k + 1}"
    while name in taken:
        name += "'"
    return name


def nominal_values_of(known: Problem | Estimate) -> dict[str, float]:
    """By name: of an estimate its values, of a problem its start and fixed values."""
    if isinstance(known, Estimate):
        return {name: float(value) for name, value in known.values.items()}
    start = start_values(known)
    return {**dict(zip(known.names, (float(v) for v in start), strict=True)), **known.fixed_values()}


def sensor_std(known: Problem | Estimate) -> np.ndarray:
    """Per output of the model, as the latest record that holds it says; infinite where none does."""
    problem, found, faults = problem_of(known), [], []
    for name in problem.model.outputs:
        levels = problem.noise_of(name)
        std = _std_of(levels[-1]) if levels else np.inf
        if std is None and isinstance(known, Estimate):
            std = known.noise_std.get(name)
        if std is None:
            faults.append(f"the noise of '{name}' is not known, so what a record would tell cannot be predicted. Give "
                          "Gaussian(std), or design from an estimate, which has it.")
        found.append(np.inf if std is None else float(std))
    if faults:
        raise ProblemError(faults)
    return np.array(found)


def _std_of(noise: Noise) -> float | None:
    if isinstance(noise, Bounded):
        return float(np.mean(np.asarray(noise.radius, float))) / UNIFORM_RADIUS_PER_STD
    return None if noise.std is None else float(np.sqrt(np.mean(np.square(np.asarray(noise.std, float)))))


def _notes_on_bounded_noise(problem: Problem) -> list[str]:
    latest = {name: problem.noise_of(name)[-1:] for name in problem.model.outputs}
    return [f"The errors of '{name}' are bounded by {float(np.mean(np.asarray(noise.radius, float))):.3g}; for the information "
            "they count as evenly distributed within."
            for name, levels in latest.items() for noise in levels if isinstance(noise, Bounded)]


def _with_gaussian_noise(run: Experiment) -> Experiment:
    """Bounded errors count as evenly distributed; said in the notes of the plan."""
    return replace(run, noise={name: Gaussian(np.asarray(n.radius) / UNIFORM_RADIUS_PER_STD) if isinstance(n, Bounded) else n
                               for name, n in run.noise.items() if name in run.outputs})


def _nominal(unknown: Unknown, nominal: Mapping[str, float], problem: Problem) -> float:
    """Of one unknown; a planned record begins like the last one, where nothing else is said."""
    last = problem.experiments[-1].name
    plain = f"{unknown.quantity}(0)" if unknown.initial else unknown.quantity
    for name in (unknown.name, plain, f"{plain}[{last}]"):
        if name in nominal:
            return nominal[name]
    return 0.0 if unknown.start is None else float(unknown.start)


def _rows(problem: Problem, nominal: Mapping[str, float], std: np.ndarray) -> np.ndarray:
    """Weighted sensitivities of the records at hand and of the priors, (rows, unknowns)."""
    values = np.array([nominal[name] for name in problem.names])
    noise_std = {n: float(s) for n, s in zip(problem.model.outputs, std, strict=True) if np.isfinite(s)}
    gaussian = problem.replace(experiments=[_with_gaussian_noise(e) for e in problem.experiments])
    try:
        return linearize_at(gaussian, values, noise_std).jacobian
    except SimulationDiverged as bad:
        raise ProblemError(f"At the nominal values {bad}; nothing can be planned from there.") from None


def project_out(rows: np.ndarray, nuisance: np.ndarray) -> np.ndarray:
    """What the rows tell of the other unknowns while nuisance parameters stay unknown: across what these can explain.

    The Gram matrix of the result is the Schur complement of the nuisance block in the Fisher information.
    """
    theirs = rows[:, nuisance]
    along = truncated_svd(theirs / column_lengths(theirs), SINGULAR_VALUE_PROJECTION).range_basis
    left = rows - along @ (along.T @ rows)
    left[:, nuisance] = 0.0
    return left


def _embed_columns(problem: Problem, joint: Problem, rows: np.ndarray) -> np.ndarray:
    """Columns of the problem's unknowns in the places of the same unknowns among those of the joint problem."""
    places = {(u.quantity, u.initial, u.experiments[0]): i for i, u in enumerate(joint.unknowns)}
    placed = np.zeros((len(rows), len(joint.names)))
    for i, u in enumerate(problem.unknowns):
        place = places.get((u.quantity, u.initial, u.experiments[0]))
        if place is not None:
            placed[:, place] = rows[:, i]
    return placed
