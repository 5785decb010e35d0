"""Criteria: what makes one experiment better than another?

Information criteria look at the covariance of the wanted parameters, all other unknowns eliminated, each parameter in
units of its own magnitude. They are logarithms of standard deviations, so that 0.1 less means 10 % narrower intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dynident.errors import ProblemError, did_you_mean

TIED = 1e-8  # of a direction's length: less is left of it by constraints only through rounding
RIDGE = 1e-10  # of a parameter's own magnitude: keeps the covariance finite while nothing is excited yet


@dataclass(frozen=True, eq=False)
class Seen:
    """What a criterion may look at: all planned records at one set of parameter values."""

    time: np.ndarray  # (samples,)
    outputs: Sequence[np.ndarray]  # per record (samples, outputs)
    sensitivities: Sequence[np.ndarray]  # per record (samples, outputs, unknowns)
    inputs: Sequence[np.ndarray]  # per record (samples, inputs)
    weight: np.ndarray  # (outputs,) 1/std of what is measured, 0 of what is not
    density: float  # how many samples one of these stands for, where the duration is free
    before: np.ndarray  # (unknowns, unknowns) information of earlier records and priors
    freedom: np.ndarray  # (unknowns, directions) in units of scale, which constraints between unknowns leave
    names: tuple[str, ...]
    output_names: tuple[str, ...]
    scale: np.ndarray  # (unknowns,)
    wanted: np.ndarray  # indices of the wanted parameters

    def information(self) -> np.ndarray:
        total = self.before.copy()
        for S in self.sensitivities:
            rows = (S * self.weight[:, None]).reshape(-1, len(self.names))
            total += self.density * rows.T @ rows
        return total


@dataclass(frozen=True, eq=False)
class Judged:
    """A cost and its slopes; shapes as in `Seen`."""

    value: float
    to_sensitivities: Sequence[np.ndarray]
    to_outputs: Sequence[np.ndarray]
    to_inputs: Sequence[np.ndarray]
    to_density: float = 0.0


@runtime_checkable
class Criterion(Protocol):
    """A cost to be made small."""

    @property
    def name(self) -> str: ...

    def judge(self, seen: Seen) -> Judged: ...


@dataclass(frozen=True)
class Information:
    """A function of the covariance C of the wanted parameters: value and derivative with respect to C."""

    name: str
    of: Callable[[np.ndarray], tuple[float, np.ndarray]] = field(repr=False)
    wanted: tuple[str, ...] = ()  # overrules the parameters of the design

    def judge(self, seen: Seen) -> Judged:
        scale, wanted = seen.scale, self._wanted(seen)
        Z = seen.freedom
        total = Z.T @ (seen.information() * scale * scale[:, None]) @ Z + RIDGE * np.eye(Z.shape[1])
        C = Z @ np.linalg.inv(total) @ Z.T
        C = 0.5 * (C + C.T)
        Q = _independent(Z[wanted])
        value, slope = self.of(Q.T @ C[np.ix_(wanted, wanted)] @ Q)
        G = -(C[:, wanted] @ Q @ slope @ Q.T @ C[wanted]) * scale * scale[:, None]  # d value / d information
        to_sensitivities = [2 * seen.density * (S @ G) * (seen.weight**2)[:, None] for S in seen.sensitivities]
        rows = [(S * seen.weight[:, None]).reshape(-1, scale.size) for S in seen.sensitivities]
        return Judged(value, to_sensitivities, [np.zeros_like(y) for y in seen.outputs],
                      [np.zeros_like(u) for u in seen.inputs], float(sum(np.sum((r @ G) * r) for r in rows)))

    def _wanted(self, seen: Seen) -> np.ndarray:
        for name in self.wanted:
            if name not in seen.names:
                raise ProblemError(f"'{name}' is not an unknown of the design.{did_you_mean(name, seen.names)}")
        return np.array([seen.names.index(n) for n in self.wanted]) if self.wanted else seen.wanted


def _independent(wanted: np.ndarray) -> np.ndarray:
    """Directions among the wanted parameters that constraints do not tie to others: all of them, where there are none."""
    along, strength, _ = np.linalg.svd(wanted)
    rank = int(np.count_nonzero(strength > TIED))
    return np.eye(len(wanted)) if rank == len(wanted) else along[:, :rank]


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


def d_optimal() -> Information:
    """The smallest volume of the confidence ellipsoid; does not depend on units."""
    return Information("D", _log_det)


def a_optimal() -> Information:
    """The smallest mean variance, each parameter relative to its magnitude."""
    return Information("A", _log_trace)


def e_optimal() -> Information:
    """The shortest longest axis of the ellipsoid, each parameter relative to its magnitude."""
    return Information("E", _log_largest)


def modified_e_optimal() -> Information:
    """The roundest ellipsoid: its longest axis over its shortest; says nothing about its size."""
    return Information("modified E", _log_condition)


def smallest_std(parameter: str) -> Information:
    """The standard deviation of one parameter, the others eliminated."""
    return Information(f"std of {parameter}", _log_trace, (parameter,))


@dataclass(frozen=True, eq=False)
class Selective:
    """Track a reference, be sensitive to one parameter and insensitive to the others: (19), (20) of the paper.

        integral of (y - reference)^2 + sum_l kappa_l s_l^2 + 1/(kappa_i s_i^2 + epsilon) + kappa_u u^2

    `kappa` by parameter, 0 for those not named. It looks at sensitivities one by one and so does not see that two
    parameters can make up for each other; an information criterion does.
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

    def judge(self, seen: Seen) -> Judged:
        for name in (self.parameter, *self.kappa):
            if name not in seen.names:
                raise ProblemError(f"'{name}' is not an unknown of the design.{did_you_mean(name, seen.names)}")
        o = seen.output_names.index(self.output) if self.output else 0
        steps = np.diff(seen.time)
        width = np.concatenate([[steps[0] / 2], (steps[1:] + steps[:-1]) / 2, [steps[-1] / 2]])  # trapezoid
        value, to_s, to_y, to_u = 0.0, [], [], []
        for y, S, u in zip(seen.outputs, seen.sensitivities, seen.inputs, strict=True):
            ds, dy = np.zeros_like(S), np.zeros_like(y)
            integrand = self.kappa_u * np.sum(u**2, axis=1)
            if self.reference is not None:
                miss = y[:, o] - self.reference(seen.time)
                integrand = integrand + miss**2
                dy[:, o] = 2 * miss * width
            for name, kappa in self.kappa.items():
                k = seen.names.index(name)
                s = S[:, o, k]
                if name == self.parameter:
                    small = kappa * s**2 + self.epsilon
                    integrand = integrand + 1 / small
                    ds[:, o, k] = -2 * kappa * s / small**2 * width
                else:
                    integrand = integrand + kappa * s**2
                    ds[:, o, k] = 2 * kappa * s * width
            value += float(width @ integrand)
            to_s.append(ds)
            to_y.append(dy)
            to_u.append(2 * self.kappa_u * u * width[:, None])
        return Judged(value, to_s, to_y, to_u)


CRITERIA: dict[str, Callable[..., Criterion]] = {"D": d_optimal, "A": a_optimal, "E": e_optimal,
                                                 "modified_E": modified_e_optimal, "std": smallest_std}
