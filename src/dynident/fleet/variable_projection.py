"""Variable projection: what does one record say about the shared parameters, once its own unknowns are taken out?

At the record's optimum the residuals are linearised in all unknowns, r + J_own own + J shared, and projected onto what no
own unknown can change. What remains, a triangle of the size of the shared parameters, is all that the fleet needs to
know of the record (variable projection in Kaufman's form; `linalg/arrowhead.py` does the same within one process).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynident.black_box.method import linearize_by_differences
from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.fleet.fleet import TaskSpec
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.methods.noise_estimation import with_noise_std
from dynident.methods.refit import Refit
from dynident.models.equations import EquationModel
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.tolerances import SINGULAR_VALUE_PROJECTION


@dataclass(frozen=True, eq=False)
class ReducedRecord:
    """A record as the fleet sees it, its own unknowns eliminated, in the user's units."""

    at: np.ndarray  # (shared,) where it was linearised
    rows: np.ndarray  # (shared, shared + 1): triangle and residual
    follow: np.ndarray  # (own, shared): how its own unknowns follow the shared ones; 0 for those on a bound
    cost: float
    freedom: int  # measured values minus own unknowns

    def arrays(self) -> dict[str, np.ndarray]:
        return {"at": self.at, "rows": self.rows, "follow": self.follow, "size": np.array([self.cost, self.freedom])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ReducedRecord:
        cost, freedom = arrays["size"]
        return cls(arrays["at"], arrays["rows"], arrays["follow"], float(cost), int(freedom))


def reduce_record(spec: TaskSpec, problem: Problem, estimate: Estimate) -> ReducedRecord:
    """`problem` has the shared parameters free; the estimate may have fixed them."""
    linearized = estimate.uncertainty.linearized
    if linearized is None:
        raise NotSupported("Parameters that a fleet shares need a method that solves a least squares problem, such as "
                           "single_shooting() or multiple_shooting().")
    asked = without_shared_priors(with_noise(problem, estimate.noise_std), spec.shared)
    at = _residual_jacobian(replace(estimate, problem=asked))
    names = list(asked.names)
    shared = [names.index(name) for name in spec.shared]
    own = [i for i, name in enumerate(names) if i not in shared]
    moving = [i for i in own if names[i] not in linearized.active]
    basis, inverse = _range_basis(at.jacobian[:, moving])
    J = at.jacobian[:, shared]
    left = np.column_stack([J, at.residuals])
    left = left - basis @ (basis.T @ left)
    rows = np.zeros((len(shared), len(shared) + 1))
    triangle = np.linalg.qr(left, mode="r")[:len(shared)]
    rows[:len(triangle)] = triangle
    follow = np.zeros((len(own), len(shared)))
    follow[[own.index(i) for i in moving]] = -inverse @ J
    measured = int(np.count_nonzero(at.rows.output >= 0))
    return ReducedRecord(at.values[shared], rows, follow, float(at.residuals @ at.residuals), measured - len(moving))


def _residual_jacobian(estimate: Estimate) -> ResidualJacobian:
    problem = estimate.problem
    if isinstance(problem.model, EquationModel) and not problem.filtered_outputs:
        refit = Refit(estimate, "a fleet with shared parameters")
        return refit.finite.linearization(refit.point)
    return linearize_by_differences(with_starts(problem, {n: float(estimate.values[n]) for n in problem.names}))[1]


def _range_basis(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of the columns, and the pseudo-inverse; columns are compared in their own lengths."""
    lengths = column_lengths(J)
    svd = truncated_svd(J / lengths, SINGULAR_VALUE_PROJECTION)
    return svd.range_basis, svd.pseudo_inverse() / lengths[:, None]


def with_starts(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem of one record with other start values, initial states included."""
    def moved(p: Parameter | InitialState) -> Parameter | InitialState:
        name = p.name if isinstance(p, Parameter) else f"{p.state}(0)"
        return replace(p, start=float(np.clip(values[name], p.lower, p.upper))) if p.free and name in values else p

    said = {p.state for p in problem.parameters if isinstance(p, InitialState)}
    silent = [InitialState(u.quantity, start=values[u.name]) for u in problem.unknowns
              if u.initial and u.quantity not in said and u.name in values]
    return problem.replace(parameters=(*(moved(p) for p in problem.parameters), *silent))


def with_fixed(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem with some parameters fixed."""
    return problem.replace(parameters=tuple(
        replace(p, start=values[p.name], free=False, prior=None) if isinstance(p, Parameter) and p.name in values else p
        for p in problem.parameters))


def without_shared_priors(problem: Problem, shared: tuple[str, ...]) -> Problem:
    """What is known of a shared parameter beforehand counts once, not once per record."""
    return problem.replace(parameters=tuple(
        replace(p, prior=None) if isinstance(p, Parameter) and p.name in shared else p for p in problem.parameters))


def with_noise(problem: Problem, sizes: Mapping[str, float]) -> Problem:
    """The problem with noise of estimated size taken as known: weights must not move while costs are compared."""
    return problem.replace(experiments=tuple(with_noise_std(e, sizes) for e in problem.experiments))
