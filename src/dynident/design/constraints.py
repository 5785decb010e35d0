"""Constraints of a plan: path and terminal constraints on inputs, states and their rates, and their verification.

Text such as "-2 <= u <= 2", "abs(v) <= 0.5", "abs(der_v) <= 10" (the rate of a state), "abs(der_u) <= 50" (the rate of
an input), or any expression of states, inputs, outputs, parameters and time; along the whole record, or at its end.

Inter-sample verification: an independent simulation of the model at ten times finer steps, with the inputs as the controller
holds them, looks for constraint violations that the samples do not show. Where there are some, samples beside them join
the optimisation, and constraints that are asked for there already are tightened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.design.plan import ConstraintUse
from dynident.design.sensitivity_simulation import InputTrajectory
from dynident.errors import ProblemError
from dynident.estimate.estimate import Trajectory
from dynident.models.equations import EquationModel
from dynident.models.parser import names_in
from dynident.models.variational import RATE_OF, monitored_expressions
from dynident.problem.constraint import constraint_from
from dynident.problem.experiment import Experiment
from dynident.tolerances import PLAN_EQUALITY, PLAN_VIOLATION
from dynident.verbs.simulate import simulate

ABSOLUTE = re.compile(r"abs\((.*)\)")
REFINEMENT = 10  # fine steps per sample
CONSTRAINT_TIGHTENING = 1.2  # times the violation that was found: by how much a constraint moves in

Peak = tuple[float, float]  # where, in samples, a stretch of violation is worst, and by how much


@dataclass(frozen=True)
class PathConstraint:
    """lower <= expression <= upper, all along the record or (a terminal constraint) at its end."""

    text: str
    expression: str
    lower: float
    upper: float
    terminal: bool = False
    input_rate: int | None = None  # index of the input whose rate it is
    acts_at_start: bool = True  # whether the input can change it at the first sample
    strict: bool = False  # to be kept away from by more than rounding: behind it a machine behaves otherwise
    typical: float = 1.0  # size of what is constrained, where both ends are zero or infinite

    @property
    def scale(self) -> float:
        """Brings all constraints to the size of one."""
        ends = [abs(e) for e in (self.lower, self.upper) if np.isfinite(e) and e != 0]
        return max(ends, default=self.typical)

    @property
    def equality(self) -> bool:
        return self.lower == self.upper

    def with_margin(self, margin: float) -> PathConstraint:
        """With a distance to both ends; an equality has no room for one."""
        return self if self.equality else replace(self, lower=self.lower + margin, upper=self.upper - margin)

    def violation(self, values: np.ndarray) -> np.ndarray:
        """By how much each value lies outside; negative: how much room is left."""
        return np.maximum(values - self.upper, self.lower - values)


def parse_constraints(model: EquationModel, path: Sequence[str], terminal: Sequence[str] = ()) -> tuple[PathConstraint, ...]:
    """Read all texts; all faults are listed at once."""
    faults: list[str] = []
    read = []
    for texts, at_end in ((path, False), (terminal, True)):
        for text in [texts] if isinstance(texts, str) else texts:
            try:
                read.append(_parse(model, str(text), at_end))
            except ValueError as reason:
                faults.append(f"constraint '{text}': {reason}.")
            except ProblemError as error:
                faults += error.faults
    if faults:
        raise ProblemError(faults)
    return tuple(read)


def _parse(model: EquationModel, text: str, terminal: bool) -> PathConstraint:
    given = constraint_from(text)
    expression, lower, upper = given.middle, given.lower, given.upper
    inside = ABSOLUTE.fullmatch(expression.strip())
    if inside and np.isinf(lower) and _balanced(inside.group(1)):
        expression, lower = inside.group(1), -upper  # smooth, and the same
    rates = {f"{RATE_OF}{name}": i for i, name in enumerate(model.inputs)}
    mentioned = set(names_in(expression, f"constraint '{text}'"))
    if expression.strip() in rates:
        return PathConstraint(text, expression.strip(), lower, upper, terminal, rates[expression.strip()])
    if mentioned & set(rates):
        raise ValueError("the rate of an input can only be constrained by itself, as in \"abs(der_u) <= 50\"")
    monitored_expressions(model, [expression], *model_symbols(model))  # raises where a name is not known
    return PathConstraint(text, expression, lower, upper, terminal)


def _balanced(text: str) -> bool:
    """Whether brackets close inside: abs(a) + abs(b) is not abs of one thing."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def model_symbols(model: EquationModel) -> list[ca.SX]:
    """t, x, u, p of a model."""
    return [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                                     ("p", len(model.parameters)))]


def input_range(constraints: Sequence[PathConstraint], name: str) -> tuple[float, float] | None:
    """Centre and half width of what an input may be, where constraints say so."""
    ends = [(own.lower, own.upper) for own in constraints if own.expression.strip() == name and not own.terminal]
    if not ends:
        return None
    low, high = max(e[0] for e in ends), min(e[1] for e in ends)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return (low + high) / 2, (high - low) / 2


# verification between the samples


@dataclass(frozen=True, eq=False)
class FineSimulation:
    """One planned record, simulated by the model alone."""

    model: EquationModel
    coarse_inputs: np.ndarray  # (samples, inputs)
    step: float  # s, between two samples
    time: np.ndarray  # (fine points,) s
    inputs: np.ndarray  # (fine points, inputs)
    holds: dict[str, str]
    parameters: np.ndarray
    trajectory: Trajectory

    def values(self, constraint: PathConstraint) -> np.ndarray:
        """What is constrained, at all fine points, or at the end."""
        if constraint.input_rate is not None:
            return np.diff(self.coarse_inputs[:, constraint.input_rate]) / self.step
        model, n, symbols = self.model, self.time.size, model_symbols(self.model)
        expressions = monitored_expressions(model, [constraint.expression], *symbols)
        function = ca.Function("constraint", symbols, [ca.densify(e) for e in expressions]).map(n)
        x = np.array([self.trajectory.states[s] for s in model.states])
        found = np.asarray(function(self.time[None], x, self.inputs.T, np.tile(self.parameters[:, None], (1, n)))).ravel()
        return found[-1:] if constraint.terminal else found

    def peaks(self, constraint: PathConstraint) -> list[Peak]:
        """The worst point of each stretch outside of a constraint."""
        violation = constraint.violation(self.values(constraint)) - tolerance_of(constraint)
        if constraint.strict and not constraint.acts_at_start:
            violation[0] = min(violation[0], 0.0)  # to begin on the border is no choice of the input's
        outside = np.concatenate([[0], (violation > 0).astype(int), [0]])
        begins, ends = np.flatnonzero(np.diff(outside) > 0), np.flatnonzero(np.diff(outside) < 0)
        worst = [int(a + np.argmax(violation[a:b])) for a, b in zip(begins, ends, strict=True)]
        return [(k / REFINEMENT, float(violation[k])) for k in worst]

    def at_samples(self) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Time, states and outputs."""
        return (self.time[::REFINEMENT], {n: x[::REFINEMENT] for n, x in self.trajectory.states.items()},
                {n: y[::REFINEMENT] for n, y in self.trajectory.outputs.items()})


def simulate_finely(model: EquationModel, inputs: InputTrajectory, c: np.ndarray, p: np.ndarray, x0: np.ndarray
                    ) -> FineSimulation:
    """For the coefficients of one record, the model's parameters and its initial state."""
    coarse, step = inputs.sample(c).values, inputs.duration(c) / (inputs.samples - 1)
    points = np.arange(REFINEMENT * (inputs.samples - 1) + 1)
    place, time = points / REFINEMENT, points * (step / REFINEMENT)
    fine = np.empty((time.size, coarse.shape[1]))
    for i, signal in enumerate(inputs.signals.values()):
        zero_order = coarse[np.minimum((place + 1e-9).astype(int), inputs.samples - 1), i]
        first_order = np.interp(place, np.arange(inputs.samples), coarse[:, i])
        fine[:, i] = first_order if signal.hold == "linear" else zero_order
    holds = {n: s.hold for n, s in inputs.signals.items()}
    run = Experiment(time, {n: fine[:, i] for i, n in enumerate(model.inputs)},
                     initial=dict(zip(model.states, x0, strict=True)), hold=holds)
    trajectory = simulate(model, dict(zip(model.parameters, p, strict=True)), run)
    return FineSimulation(model, coarse, step, time, fine, holds, p, trajectory)


def tolerance_of(constraint: PathConstraint) -> float:
    """By how much a fine simulation may leave a constraint; negative: how far it has to stay away."""
    relative = PLAN_EQUALITY if constraint.equality else -PLAN_VIOLATION if constraint.strict else PLAN_VIOLATION
    return relative * constraint.scale


def find_violations(constraints: Sequence[PathConstraint], simulations: Sequence[FineSimulation]) -> list[list[Peak]]:
    """Per constraint: its peaks over all records and scenarios."""
    return [[peak for own in simulations for peak in own.peaks(constraint)] for constraint in constraints]


def add_constraint_points(points: Sequence[np.ndarray], constraints: Sequence[PathConstraint],
                          violations: Sequence[Sequence[Peak]]) -> tuple[tuple[np.ndarray, ...], tuple[PathConstraint, ...]]:
    """Samples beside each peak join; where they are asked for already, the constraint itself is tightened.

    `points`: the samples asked for, of each constraint that is not the rate of an input.
    """
    more, tighter, remaining = [], [], iter(points)
    for constraint, peaks in zip(constraints, violations, strict=True):
        if constraint.input_rate is not None:  # known at all samples, and constant in between
            tighter.append(constraint)
            continue
        known = next(remaining)
        beside = [{int(np.floor(at)), int(np.ceil(at))} for at, _ in peaks]
        new = set().union(*beside) if not constraint.terminal else set()
        new -= set(known.tolist()) | (set() if constraint.acts_at_start else {0})
        left = [size for (_, size), samples in zip(peaks, beside, strict=True) if not samples & new]
        tighter.append(constraint.with_margin(CONSTRAINT_TIGHTENING * max(left, default=0.0)))
        more.append(np.union1d(known, sorted(new)).astype(int))
    return tuple(more), tuple(tighter)


def constraint_uses(constraints: Sequence[PathConstraint], simulations: Sequence[FineSimulation]) -> tuple[ConstraintUse, ...]:
    """How much of each constraint is used, over all records and scenarios."""
    uses = []
    for own in constraints:
        values = np.concatenate([each.values(own) for each in simulations])
        uses.append(ConstraintUse(own.text, own.lower, own.upper, float(np.min(values)), float(np.max(values)),
                                  abs(tolerance_of(own))))
    return tuple(uses)
