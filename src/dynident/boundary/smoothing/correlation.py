"""Correlation: full weight matrices W, V and R0 of the thesis, (3.6), where errors of the model, of the measurements or of the
first state go together.

A matrix is said by standard deviations and by correlations between pairs of names: W^-1 = D C D. Uncorrelated combinations of
the errors of a sample or an interval have unit matrices in their place (whitening), so that everything behind is as without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.errors import did_you_mean
from dynident.methods.options import is_number
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.problem import Problem, given_std

PSEUDO_OUTPUT = "initial_error_"  # before a number: a combination of the first state that R0 weighs, seen at the first sample


def correlation_table(name: str, value: Any) -> list[str]:
    """Pairs of names, "a, b", and a number between -1 and 1 for each."""
    if not isinstance(value, Mapping):
        return [f'{name} is a table from a pair of names, "a, b", to a number between -1 and 1, not {value!r}.']
    faults = []
    for pair, number in value.items():
        names = pair_of(pair)
        if len(names) != 2 or names[0] == names[1]:
            faults.append(f'{name} names {pair!r}; give two different names, as in "a, b".')
        if not is_number(number) or not -1 < number < 1:
            faults.append(f"{name} of {pair!r} is {number!r}; give a number between -1 and 1.")
    return faults


def pair_of(pair: Any) -> tuple[str, ...]:
    """The two names of "a, b"."""
    return tuple(part.strip() for part in pair.split(",")) if isinstance(pair, str) else tuple(map(str, pair))


def correlated(said: Mapping[str, float]) -> tuple[str, ...]:
    """All names that some pair holds, in order."""
    return tuple(dict.fromkeys(name for pair in said for name in pair_of(pair)))


def correlation_matrix(names: Sequence[str], said: Mapping[str, float]) -> np.ndarray:
    """(names, names); pairs with a name that is not among them are left out."""
    C, place = np.eye(len(names)), {name: i for i, name in enumerate(names)}
    for pair, number in said.items():
        first, second = pair_of(pair)
        if first in place and second in place:
            C[place[first], place[second]] = C[place[second], place[first]] = float(number)
    return C


def correlation_faults(option: str, said: Mapping[str, float], known: Sequence[str], what: str) -> list[str]:
    """Names that have no standard deviation to begin with, and numbers that no errors can have together."""
    names = correlated(said)
    faults = [f"{option} names '{name}', which is no {what}.{did_you_mean(name, known)}" for name in names if name not in known]
    least = float(np.min(np.linalg.eigvalsh(correlation_matrix(names, said)))) if names else 1.0
    if least <= 0:
        faults.append(f"{option}: no errors have these correlations together (the matrix has the eigenvalue {least:.3g}); make "
                      "them smaller.")
    return faults


def measured_together_faults(experiments: Sequence[Experiment], said: Mapping[str, float], sized: bool) -> list[str]:
    """Correlated outputs need samples in common, and a standard deviation each (`sized`: by measurement_noise)."""
    faults = []
    for e in experiments:
        own = [name for name in correlated(said) if name in e.outputs]
        seen = np.array([np.isfinite(e.outputs[name]) for name in own])
        if own and np.any(np.any(seen, axis=0) != np.all(seen, axis=0)):
            faults.append(f"measurement_correlation: in '{e.name}' {', '.join(own)} are not measured at the same samples; "
                          "leave out samples that lack one of them, or the correlation.")
        faults += [f"measurement_correlation: the std of '{name}' in '{e.name}' is not given; give it, or measurement_noise."
                   for name in own if not sized and given_std(e, name) is None]
    return faults


@dataclass(frozen=True, eq=False)
class ErrorCorrelation:
    """Which errors of states, outputs and first values go together, by pair; empty: none."""

    process: Mapping[str, float] = field(default_factory=dict)
    measurement: Mapping[str, float] = field(default_factory=dict)
    initial: Mapping[str, float] = field(default_factory=dict)

    def mixing(self, states: Sequence[str], erring: np.ndarray, std: np.ndarray) -> np.ndarray | None:
        """(states, states) T so that errors of T x are uncorrelated, each with the standard deviation of its state; None
        where they are so already."""
        names = [states[i] for i in erring]
        if not set(correlated(self.process)) & set(names):
            return None
        T = np.eye(len(states))
        root = np.linalg.cholesky(correlation_matrix(names, self.process))
        T[np.ix_(erring, erring)] = std[:, None] * np.linalg.inv(root) / std
        return T

    def whitening(self, outputs: Sequence[str]) -> np.ndarray | None:
        """(outputs, outputs) L so that L times the weighted residuals is uncorrelated; None where they are."""
        if not self.measurement:
            return None
        return np.linalg.inv(np.linalg.cholesky(correlation_matrix(outputs, self.measurement)))

    def inverse(self, outputs: Sequence[str]) -> np.ndarray | None:
        """The inverse of the outputs' correlations."""
        L = self.whitening(outputs)
        return None if L is None else L.T @ L


@dataclass(frozen=True, eq=False)
class InitialWeight:
    """R0 of first values that go together, and what they are drawn to."""

    names: tuple[str, ...]
    weight: np.ndarray  # (names, names) R0
    mean: np.ndarray  # (names,) x0

    @classmethod
    def of(cls, said: Mapping[str, float], std: Mapping[str, float], starts: Mapping[str, float]) -> InitialWeight:
        names = correlated(said)
        sizes = np.array([std[name] for name in names])
        covariance = sizes[:, None] * correlation_matrix(names, said) * sizes
        return cls(names, np.linalg.inv(covariance) if names else np.zeros((0, 0)), np.array([starts[n] for n in names]))

    def measured_at_begin(self, problem: Problem) -> Problem:
        """The problem with R0 as residuals of further outputs at the first sample: R0 = U' U weighs U (x - x0)."""
        if not self.names:
            return problem
        assert isinstance(problem.model, EquationModel)
        U, said = np.linalg.cholesky(self.weight).T, problem.model.definition()
        rows = {f"{PSEUDO_OUTPUT}{i + 1}": " + ".join(f"({float(u)!r})*{name}" for u, name in zip(row, self.names, strict=True))
                for i, row in enumerate(U)}
        said["outputs"] = {**said["outputs"], **rows}
        values = U @ self.mean
        experiments = []
        for e in problem.experiments:
            outputs, noise = dict(e.outputs), dict(e.noise)
            for name, value in zip(rows, values, strict=True):
                outputs[name] = np.where(np.arange(e.samples) == 0, value, np.nan)
                noise[name] = Gaussian(1.0)
            experiments.append(replace(e, outputs=outputs, noise=noise))
        return problem.replace(model=EquationModel.from_definition(said), experiments=experiments)
