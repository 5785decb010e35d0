"""Inter-sample verification: are the constraints also kept between the samples?

An independent simulation of the model at ten times finer steps, with the inputs as the controller holds them, looks for
constraint violations that the samples do not show. Where there are some, samples beside them join the optimisation, and
constraints that are asked for there already are tightened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.design.constraints import PathConstraint, model_symbols
from dynident.design.input_parametrization import InputTrajectory
from dynident.design.plan import ConstraintUse
from dynident.estimate.estimate import Trajectory
from dynident.models.equations import EquationModel
from dynident.models.variational import monitored_expressions
from dynident.problem.experiment import Experiment
from dynident.tolerances import PLAN_EQUALITY, PLAN_VIOLATION
from dynident.verbs.simulate import simulate

REFINEMENT = 10  # fine steps per sample
TIGHTENING = 1.2  # times the violation that was found: by how much a constraint moves in

Peak = tuple[float, float]  # where, in samples, a stretch of violation is worst, and by how much


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
        held = coarse[np.minimum((place + 1e-9).astype(int), inputs.samples - 1), i]
        linear = np.interp(place, np.arange(inputs.samples), coarse[:, i])
        fine[:, i] = linear if signal.hold == "linear" else held
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
        tighter.append(constraint.with_margin(TIGHTENING * max(left, default=0.0)))
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
