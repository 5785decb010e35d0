"""Optimality criteria: what makes one experiment better than another?

Alphabetic criteria are functions of the covariance of the parameters of interest: the inverse of the Fisher information,
nuisance parameters eliminated (the inverse of the Schur complement of their block), each parameter in units of its own
magnitude. They are logarithms of standard deviations, so that 0.1 less means 10 % narrower intervals. D-, A- and
E-optimality as in Atkinson, Donev and Tobias, Optimum Experimental Designs (2007), ch. 10. See the manual, methods/design.

Examples
--------
>>> import dynident as di
>>> di.criteria.d_optimal().name
'D'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.linalg.rank import truncated_svd
from dynident.tolerances import PLAN_RIDGE


@dataclass(frozen=True, eq=False)
class InformationState:
    """What a criterion may look at: all planned records at one set of parameter values."""

    time: np.ndarray  # (samples,)
    outputs: Sequence[np.ndarray]  # per record (samples, outputs)
    sensitivities: Sequence[np.ndarray]  # per record (samples, outputs, unknowns)
    inputs: Sequence[np.ndarray]  # per record (samples, inputs)
    weight: np.ndarray  # (outputs,) 1/std of what is measured, 0 of what is not
    sample_weight: float  # how many samples one of these stands for, where the duration is free
    prior_information: np.ndarray  # (unknowns, unknowns) Fisher information of the records at hand and of priors
    null_space: np.ndarray  # (unknowns, directions) in units of scale, which constraints between unknowns leave
    names: tuple[str, ...]
    output_names: tuple[str, ...]
    scale: np.ndarray  # (unknowns,)
    of_interest: np.ndarray  # indices of the parameters of interest; all others are nuisance parameters

    def fisher_information(self) -> np.ndarray:
        total = self.prior_information.copy()
        for S in self.sensitivities:
            rows = (S * self.weight[:, None]).reshape(-1, len(self.names))
            total += self.sample_weight * rows.T @ rows
        return total

    def index(self, name: str) -> int:
        """Of an unknown by its name."""
        if name not in self.names:
            raise ProblemError(f"'{name}' is not an unknown of the design.{did_you_mean(name, self.names)}")
        return self.names.index(name)


@dataclass(frozen=True, eq=False)
class CriterionValue:
    """A cost and its gradient; shapes as in `InformationState`."""

    value: float
    d_sensitivities: Sequence[np.ndarray]
    d_outputs: Sequence[np.ndarray]
    d_inputs: Sequence[np.ndarray]
    d_sample_weight: float = 0.0


@runtime_checkable
class Criterion(Protocol):
    """A cost to be made small."""

    @property
    def name(self) -> str: ...

    def evaluate(self, state: InformationState) -> CriterionValue: ...


@dataclass(frozen=True)
class OptimalityCriterion:
    """A function of the covariance C of the parameters of interest: value and derivative with respect to C."""

    name: str
    of_covariance: Callable[[np.ndarray], tuple[float, np.ndarray]] = field(repr=False)
    of_interest: tuple[str, ...] = ()  # overrules the parameters of the design

    def evaluate(self, state: InformationState) -> CriterionValue:
        scale, k, Z = state.scale, self._of_interest(state), state.null_space
        total = Z.T @ (state.fisher_information() * scale * scale[:, None]) @ Z + PLAN_RIDGE * np.eye(Z.shape[1])
        C = Z @ np.linalg.inv(total) @ Z.T
        C = 0.5 * (C + C.T)
        Q = _independent_directions(Z[k])
        value, derivative = self.of_covariance(Q.T @ C[np.ix_(k, k)] @ Q)
        G = -(C[:, k] @ Q @ derivative @ Q.T @ C[k]) * scale * scale[:, None]  # d value / d Fisher information
        d_sensitivities = [2 * state.sample_weight * (S @ G) * (state.weight**2)[:, None] for S in state.sensitivities]
        rows = [(S * state.weight[:, None]).reshape(-1, scale.size) for S in state.sensitivities]
        return CriterionValue(value, d_sensitivities, [np.zeros_like(y) for y in state.outputs],
                              [np.zeros_like(u) for u in state.inputs], float(sum(np.sum((r @ G) * r) for r in rows)))

    def _of_interest(self, state: InformationState) -> np.ndarray:
        return np.array([state.index(n) for n in self.of_interest]) if self.of_interest else state.of_interest


def _independent_directions(of_interest: np.ndarray) -> np.ndarray:
    """Directions among the parameters of interest that constraints do not tie to others: all of them, where there are none."""
    basis = truncated_svd(of_interest).range_basis
    return np.eye(len(of_interest)) if basis.shape[1] == len(of_interest) else basis


def _log_det(C: np.ndarray) -> tuple[float, np.ndarray]:
    n = len(C)
    return float(np.linalg.slogdet(C)[1]) / (2 * n), np.linalg.inv(C) / (2 * n)


def _log_trace(C: np.ndarray) -> tuple[float, np.ndarray]:
    return 0.5 * float(np.log(np.trace(C) / len(C))), np.eye(len(C)) / (2 * np.trace(C))


def _log_largest(C: np.ndarray) -> tuple[float, np.ndarray]:
    values, vectors = np.linalg.eigh(C)
    return 0.5 * float(np.log(values[-1])), np.outer(vectors[:, -1], vectors[:, -1]) / (2 * values[-1])


def _log_condition(C: np.ndarray) -> tuple[float, np.ndarray]:
    values, vectors = np.linalg.eigh(C)
    long, short = (np.outer(vectors[:, k], vectors[:, k]) / (2 * values[k]) for k in (-1, 0))
    return 0.5 * float(np.log(values[-1] / values[0])), long - short


def d_optimal() -> OptimalityCriterion:
    """D-optimal: the smallest volume of the confidence ellipsoid; does not depend on units."""
    return OptimalityCriterion("D", _log_det)


def a_optimal() -> OptimalityCriterion:
    """A-optimal: the smallest mean variance, each parameter relative to its magnitude."""
    return OptimalityCriterion("A", _log_trace)


def e_optimal() -> OptimalityCriterion:
    """E-optimal: the shortest longest axis of the ellipsoid, each parameter relative to its magnitude."""
    return OptimalityCriterion("E", _log_largest)


def modified_e_optimal() -> OptimalityCriterion:
    """Modified E-optimal: the roundest ellipsoid: its longest axis over its shortest; says nothing about its size."""
    return OptimalityCriterion("modified E", _log_condition)


def smallest_std(parameter: str) -> OptimalityCriterion:
    """c-optimal: the standard deviation of one parameter, the others eliminated."""
    return OptimalityCriterion(f"std of {parameter}", _log_trace, (parameter,))


@dataclass(frozen=True, eq=False)
class Selective:
    """Track a reference, be sensitive to one parameter and insensitive to the others: (19), (20) of the paper.

        integral of (y - reference)^2 + sum_l kappa_l s_l^2 + 1/(kappa_i s_i^2 + epsilon) + kappa_u u^2

    `kappa` by parameter, 0 for those not named. It looks at sensitivities one by one and so does not see that two
    parameters can compensate each other; a criterion of the covariance does.
    """

    parameter: str
    reference: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)  # of time; None: none
    kappa: Mapping[str, float] = field(default_factory=dict)
    epsilon: float = 0.01
    kappa_u: float = 0.0
    output: str = ""  # the first one unless said
    name: str = "selective"

    @classmethod
    def over(cls, parameter: str, ranges: Mapping[str, tuple[float, float]], **others: Any) -> Selective:
        """The weights of (20): kappa_l is the square of the range over which parameter l typically lies."""
        return cls(parameter, kappa={name: (high - low) ** 2 for name, (low, high) in ranges.items()}, **others)

    def evaluate(self, state: InformationState) -> CriterionValue:
        for name in (self.parameter, *self.kappa):
            state.index(name)
        o = state.output_names.index(self.output) if self.output else 0
        steps = np.diff(state.time)
        width = np.concatenate([[steps[0] / 2], (steps[1:] + steps[:-1]) / 2, [steps[-1] / 2]])  # trapezoid
        value, d_s, d_y, d_u = 0.0, [], [], []
        for y, S, u in zip(state.outputs, state.sensitivities, state.inputs, strict=True):
            ds, dy = np.zeros_like(S), np.zeros_like(y)
            integrand = self.kappa_u * np.sum(u**2, axis=1)
            if self.reference is not None:
                miss = y[:, o] - self.reference(state.time)
                integrand = integrand + miss**2
                dy[:, o] = 2 * miss * width
            for name, kappa in self.kappa.items():
                k = state.index(name)
                s = S[:, o, k]
                if name == self.parameter:
                    small = kappa * s**2 + self.epsilon
                    integrand = integrand + 1 / small
                    ds[:, o, k] = -2 * kappa * s / small**2 * width
                else:
                    integrand = integrand + kappa * s**2
                    ds[:, o, k] = 2 * kappa * s * width
            value += float(width @ integrand)
            d_s.append(ds)
            d_y.append(dy)
            d_u.append(2 * self.kappa_u * u * width[:, None])
        return CriterionValue(value, d_s, d_y, d_u)


CRITERIA: dict[str, Callable[..., Criterion]] = {"D": d_optimal, "A": a_optimal, "E": e_optimal,
                                                 "modified_E": modified_e_optimal, "std": smallest_std}
