"""Active constraints: which constraints between parameters hold an estimate, and what do they take from its freedom?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.problem.problem import Problem
from dynident.problem.transforms import Transforms
from dynident.statistics.active_bounds import ActiveInequality
from dynident.transcription.parameter_constraints import parameter_constraints

NO_ERROR = 1e6  # how many times more exactly a constraint says what the data say


@dataclass(frozen=True, eq=False)
class ActiveConstraints:
    """Constraints that hold with equality where the solver ended."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (constraints, unknowns), in the user's units
    texts: tuple[str, ...] = ()
    inward: np.ndarray = field(default_factory=lambda: np.zeros(0))  # 1 at a lower limit, -1 at an upper one, 0: an equality
    room: np.ndarray = field(default_factory=lambda: np.zeros(0))  # between the two limits

    @classmethod
    def at(cls, problem: Problem, coordinates: Transforms, unknowns: np.ndarray) -> ActiveConstraints:
        """Those that are active at solver coordinates; equalities are so anywhere."""
        if not problem.constraints:  # the rule, and nothing is built for it
            return cls()
        between = parameter_constraints(problem, coordinates)
        values, jacobian = between.at(unknowns)
        on = np.flatnonzero(between.active(unknowns) | (between.lower == between.upper))
        lower, upper = between.lower[on], between.upper[on]
        nearer = np.where(values[on] - lower <= upper - values[on], 1.0, -1.0)
        return cls((jacobian / coordinates.derivative(unknowns))[on], tuple(between.texts[i] for i in on),
                   np.where(lower == upper, 0.0, nearer), upper - lower)

    def equalities(self) -> ActiveConstraints:
        """Those alone that hold wherever the estimate ends."""
        kept = np.flatnonzero(self.inward == 0)
        return ActiveConstraints(self.rows[kept], tuple(self.texts[i] for i in kept), self.inward[kept], self.room[kept])

    def weights(self, jacobian: np.ndarray, exact: float = NO_ERROR) -> np.ndarray:
        """What makes each row so many times as exact as measurements with these weighted sensitivities."""
        told = np.linalg.norm(jacobian, axis=0)
        std = np.where(told > 0, 1 / np.where(told > 0, told, 1), 0.0)  # of each unknown alone
        reach = np.abs(self.rows) @ std
        return exact / np.where(reach > 0, reach, 1.0)

    def append_as_measurements(self, at: ResidualJacobian, exact: float = NO_ERROR
                               ) -> tuple[ResidualJacobian, list[ActiveInequality]]:
        """The same as measurements beside the others, so many times as exact, and which rows are inequalities."""
        if not self.texts:
            return at, []
        weights = self.weights(at.jacobian, exact)
        none = np.full(len(self.texts), -1)
        index = (np.concatenate([own, none]) for own in (at.rows.experiment, at.rows.output, at.rows.sample))
        tied = replace(at, residuals=np.append(at.residuals, np.zeros(len(self.texts))), rows=ResidualIndex(*index),
                       jacobian=np.vstack([at.jacobian, self.rows * weights[:, None]]))
        return tied, [ActiveInequality(text, at.residuals.size + i, side * self.rows[i], side * weights[i], float(self.room[i]))
                      for i, (text, side) in enumerate(zip(self.texts, self.inward, strict=True)) if side]


def count_fixed(held: np.ndarray, tight: ActiveConstraints | None) -> int:
    """How many unknowns bounds and constraints fix: they cost the data no degree of freedom."""
    free = np.flatnonzero(held == 0)
    if tight is None or not tight.texts or not free.size:
        return int(held.size - free.size)
    rows = tight.rows[:, free]
    lengths = np.linalg.norm(rows, axis=1)
    rank = np.linalg.matrix_rank(rows[lengths > 0] / lengths[lengths > 0, None]) if np.any(lengths > 0) else 0
    return int(held.size - free.size + rank)
