"""Knowledge: what is known before the planned records, and which unknowns will they bring along?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.methods.active_constraints import ActiveConstraints
from dynident.methods.direct import ShootingMethod
from dynident.methods.substeps import choose_substeps
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Bounded, Gaussian, Noise
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem, Unknown
from dynident.problem.transforms import transforms_of
from dynident.statistics.covariance import magnitudes
from dynident.statistics.identifiability import Identifiability, identifiability
from dynident.tolerances import SINGULAR_VALUE_PROJECTION
from dynident.transcription.initial_guess import start_values
from dynident.transcription.shooting import Shooting

UNIFORM = np.sqrt(3)  # radius over std of errors that are evenly distributed within bounds


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The problem with the planned records added, at the values that are believed now."""

    problem: Problem  # earlier records first, planned ones last
    earlier: int  # how many records are not planned
    values: np.ndarray  # (unknowns,) believed now
    rows: np.ndarray  # (rows, unknowns) weighted sensitivities of earlier records and of priors
    std: np.ndarray  # (outputs,) of the sensor; infinite for what is not measured
    tight: ActiveConstraints = field(default_factory=ActiveConstraints)  # constraints between unknowns that hold with equality
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.problem.names

    @property
    def scale(self) -> np.ndarray:
        """A magnitude per unknown, 1 where nothing tells one."""
        sizes = magnitudes(self.problem, self.values)
        sizes = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.abs(self.values))
        return np.where(sizes > 0, sizes, 1.0)

    @property
    def before(self) -> np.ndarray:
        return self.rows.T @ self.rows

    def judged(self, more: np.ndarray | None = None) -> Identifiability:
        """Standard deviations with the rows of earlier records, and of planned ones where given."""
        return identifiability(self.names, self.values, self.scale, self.tied(more))

    def tied(self, more: np.ndarray | None = None) -> np.ndarray:
        """The same rows with the constraints, as measurements that are nearly exact."""
        rows = self.rows if more is None else np.vstack([self.rows, more])
        if not self.tight.texts:
            return rows
        return np.vstack([rows, self.tight.rows * self.tight.weights(rows)[:, None]])

    @property
    def freedom(self) -> np.ndarray:
        """Directions (unknowns, directions), in units of `scale`, that the constraints leave to the unknowns."""
        if not self.tight.texts:
            return np.eye(len(self.names))
        rows = self.tight.rows * self.scale
        lengths = np.linalg.norm(rows, axis=1)
        unit = rows[lengths > 0] / lengths[lengths > 0, None]
        return truncated_svd(unit, SINGULAR_VALUE_PROJECTION, null_space=True).null_space


def knowledge_of(known: Problem | Estimate, plan_for: Problem, planned: int, samples: int, sample_time: float,
                 holds: Mapping[str, str], initial: Mapping[str, float], use_records: bool) -> Knowledge:
    """From a problem (at its start values) or an estimate (at its values).

    `plan_for` is the problem with the equations that planned records obey: of one mode, where the model has several.
    """
    problem = known if isinstance(known, Problem) else known.problem
    notes: list[str] = []
    std = sensor_std(known, notes)
    time = np.arange(samples) * sample_time
    measured = {n: float(s) for n, s in zip(problem.model.outputs, std, strict=True) if np.isfinite(s)}
    record = Experiment(time, {n: np.zeros(samples) for n in problem.model.inputs},
                        {n: np.zeros(samples) for n in measured}, {n: Gaussian(s) for n, s in measured.items()},
                        dict(initial), hold=dict(holds))
    records = [record.renamed(_fresh(problem, k)) for k in range(planned)]
    earlier = list(plan_for.experiments) if use_records else []
    parameters, earlier = _consistent(plan_for.parameters, earlier, initial)
    joint = plan_for.changed(experiments=[*earlier, *records], parameters=parameters)
    believed = believed_values(known)
    values = np.array([_value(u, believed, problem) for u in joint.unknowns])
    rows = np.zeros((0, len(joint.names)))
    if earlier:
        gone = [not u.initial and u.quantity not in joint.model.parameters for u in problem.unknowns]
        rows = _embedded(problem, joint, without(_rows(problem, believed, std), np.array(gone, bool)))
    for i, u in enumerate(joint.unknowns):
        if u.prior is not None and (not earlier or u.experiments[0] >= len(earlier)):
            rows = np.vstack([rows, np.eye(len(joint.names))[i] / u.prior.std])
    notes += _left_out(known)
    coordinates = transforms_of(joint, values)
    tight = ActiveConstraints.at(joint, coordinates, coordinates.coordinates(values))
    tight = tight if isinstance(known, Estimate) else tight.equalities()  # only a fit knows what holds it
    return Knowledge(joint, len(earlier), values, rows, std, tight, tuple(notes))


def _left_out(known: Problem | Estimate) -> list[str]:
    """What the problem or the estimate reckons with and the plan does not."""
    problem = known if isinstance(known, Problem) else known.problem
    bounds = [c.text for c in problem.constraints if c.of_states(problem.model.states)]
    if bounds:
        return [f"'{bounds[0]}' bounds states of the records at hand; the plan keeps to its own limits only. Give it among "
                "them, if it is meant for the machine."]
    if isinstance(known, Problem):
        return []
    noisy = known.filtered is not None and any(known.filtered.process_noise.values())
    if not noisy and known.smoothed is None:
        return []
    what = "noise that acts on the system" if noisy else "errors of the model"
    return [f"The estimate allows for {what}, and the plan does not: standard deviations before and after are those of a "
            "model that is exact, and too small. Take the input, not the promise; how sure a fit with such errors will be, "
            "a fit to simulated records tells."]


def _consistent(parameters: Sequence[Parameter | InitialState], earlier: list[Experiment], initial: Mapping[str, float]
                ) -> tuple[list[Parameter | InitialState], list[Experiment]]:
    """An initial state cannot be known in one record and declared for all: what is held moves into the records."""
    known = [p for p in parameters if isinstance(p, InitialState) and p.state in initial]
    held = {p.state: float(p.start) for p in known if not p.free and p.start is not None}
    moved = [replace(e, initial={**held, **e.initial}) for e in earlier]
    return [p for p in parameters if p not in known], moved


def _fresh(problem: Problem, k: int) -> str:
    taken = {e.name for e in problem.experiments}
    name = "planned" if k == 0 else f"planned {k + 1}"
    while name in taken:
        name += "'"
    return name


def believed_values(known: Problem | Estimate) -> dict[str, float]:
    if isinstance(known, Estimate):
        return {name: float(value) for name, value in known.values.items()}
    start = start_values(known)
    return {**dict(zip(known.names, (float(v) for v in start), strict=True)), **known.held_values()}


def sensor_std(known: Problem | Estimate, notes: list[str]) -> np.ndarray:
    """Per output of the model, as the latest record that holds it says; infinite where none does."""
    problem = known if isinstance(known, Problem) else known.problem
    found, faults = [], []
    for name in problem.model.outputs:
        levels = problem.noise_of(name)
        std = _size(levels[-1]) if levels else np.inf
        if std is None and isinstance(known, Estimate):
            std = known.noise_std.get(name)
        if std is None:
            faults.append(f"the noise of '{name}' is not known, so what a record would tell cannot be foretold. Give "
                          "Gaussian(std), or design from an estimate, which has it.")
        if levels and isinstance(levels[-1], Bounded):
            radius = float(np.mean(np.asarray(levels[-1].radius, float)))
            notes.append(f"The errors of '{name}' are bounded by {radius:.3g}; for the information they count as evenly "
                         "distributed within.")
        found.append(np.inf if std is None else float(std))
    if faults:
        raise ProblemError(faults)
    return np.array(found)


def _size(noise: Noise) -> float | None:
    if isinstance(noise, Bounded):
        return float(np.mean(np.asarray(noise.radius, float))) / UNIFORM
    return None if noise.std is None else float(np.sqrt(np.mean(np.square(np.asarray(noise.std, float)))))


def _value(unknown: Unknown, believed: Mapping[str, float], problem: Problem) -> float:
    """What is believed of it; a planned record begins like the last one, where nothing else is said."""
    last = problem.experiments[-1].name
    plain = f"{unknown.quantity}(0)" if unknown.initial else unknown.quantity
    for name in (unknown.name, plain, f"{plain}[{last}]"):
        if name in believed:
            return believed[name]
    return 0.0 if unknown.start is None else float(unknown.start)


def _rows(problem: Problem, believed: Mapping[str, float], std: np.ndarray) -> np.ndarray:
    """Weighted sensitivities of the records at hand and of the priors, (rows, unknowns)."""
    scheme = integrator_named("runge_kutta")
    values = np.array([believed[name] for name in problem.names])
    sizes = {n: float(s) for n, s in zip(problem.model.outputs, std, strict=True) if np.isfinite(s)}
    last: SimulationDiverged | None = None
    for method in (ShootingMethod("design", 1), ShootingMethod("design")):
        segments = [method.segments_for(e.samples) for e in problem.experiments]

        def make(substeps: int, segments: list[int] = segments) -> Shooting:
            finite = Shooting(_gaussian(problem, sizes), scheme, segments, substeps, sizes)
            finite.frame.start_values = values
            return finite

        try:
            count, _ = choose_substeps(make)
            finite = make(count)
            return finite.linearization(finite.start()).jacobian
        except SimulationDiverged as bad:
            last = bad
    raise ProblemError(f"At the values believed now {last}; nothing can be planned from there.")


def without(rows: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """What the rows tell of the others where unknowns that are gone stay unknown: across what these can explain."""
    theirs = rows[:, gone]
    along = truncated_svd(theirs / column_lengths(theirs), SINGULAR_VALUE_PROJECTION).range_basis
    left = rows - along @ (along.T @ rows)
    left[:, gone] = 0.0
    return left


def _gaussian(problem: Problem, sizes: Mapping[str, float]) -> Problem:
    """Bounded errors count as evenly distributed; said in the notes of the plan."""
    if not any(isinstance(n, Bounded) for e in problem.experiments for n in e.noise.values()):
        return problem

    def opened(e: Experiment) -> Experiment:
        noise = {name: Gaussian(np.asarray(n.radius) / UNIFORM) if isinstance(n, Bounded) else n
                 for name, n in e.noise.items()}
        return replace(e, noise=noise)

    return problem.changed(experiments=[opened(e) for e in problem.experiments])


def _embedded(problem: Problem, joint: Problem, rows: np.ndarray) -> np.ndarray:
    """Columns of the problem's unknowns in the places of the same unknowns among those of the joint problem."""
    places = {(u.quantity, u.initial, u.experiments[0]): i for i, u in enumerate(joint.unknowns)}
    placed = np.zeros((len(rows), len(joint.names)))
    for i, u in enumerate(problem.unknowns):
        place = places.get((u.quantity, u.initial, u.experiments[0]))
        if place is not None:
            placed[:, place] = rows[:, i]
    return placed
