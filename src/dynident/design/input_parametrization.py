"""Input parametrisation: all inputs along a record as functions of one vector of coefficients, with exact derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import casadi as ca
import numpy as np

from dynident.design.signals import Signal, SignalConstraint

Formula = Callable[[ca.SX, ca.SX, ca.SX], ca.SX]  # (tau, duration, coefficients)
Values = tuple[np.ndarray, np.ndarray, np.ndarray]  # value, d/d coefficients, d/d duration; samples first


@dataclass(frozen=True, eq=False)
class SampledInputs:
    """Inputs at the samples, and their derivatives with respect to the coefficients."""

    values: np.ndarray  # (samples, inputs)
    derivatives: np.ndarray  # (samples, pairs): d input / d coefficient, for the pairs of `InputTrajectory.pairs`


@dataclass(frozen=True, eq=False)
class InputTrajectory:
    """One signal per input on a grid of samples; all coefficients in one vector, the duration last where it is free."""

    signals: Mapping[str, Signal]
    samples: int
    reference_duration: float  # s; the duration, or the longest one where it is free
    free_duration: bool
    _evaluators: tuple[Callable[[float, np.ndarray], Values], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        duration = None if self.free_duration else self.reference_duration
        evaluators = tuple(_evaluator(s, self.tau, duration) for s in self.signals.values())
        object.__setattr__(self, "_evaluators", evaluators)

    @cached_property
    def tau(self) -> np.ndarray:
        """Normalised time of the samples."""
        return np.linspace(0, 1, self.samples)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the coefficients."""
        return tuple(f"{name}.{c}" for name, s in self.signals.items() for c in s.names)

    @cached_property
    def count(self) -> int:
        """How many coefficients one record has, a free duration included."""
        return len(self.names) + int(self.free_duration)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Per input: where its coefficients stand."""
        ends = np.cumsum([len(s.names) for s in self.signals.values()])
        return tuple(slice(int(e) - len(s.names), int(e)) for e, s in zip(ends, self.signals.values(), strict=True))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which coefficient moves which input: (input, coefficient)."""
        return tuple((i, j) for i, part in enumerate(self.slices)
                     for j in [*range(part.start, part.stop), *[self.count - 1] * self.free_duration])

    def duration(self, c: np.ndarray) -> float:
        return float(c[-1]) if self.free_duration else self.reference_duration

    def sample(self, c: np.ndarray) -> SampledInputs:
        """All inputs at the samples for the coefficients of one record."""
        values, derivatives = np.empty((self.samples, len(self.slices))), []
        for i, (part, evaluate) in enumerate(zip(self.slices, self._evaluators, strict=True)):
            u, du, stretch = evaluate(self.duration(c), c[part])
            values[:, i] = u
            derivatives += [du, stretch[:, None]] if self.free_duration else [du]
        return SampledInputs(values, np.hstack(derivatives) if derivatives else np.zeros((self.samples, 0)))

    def signal_constraints(self) -> list[tuple[SignalConstraint, slice]]:
        return [(own, part) for s, part in zip(self.signals.values(), self.slices, strict=True) for own in s.constraints()]


def _evaluator(signal: Signal, tau: np.ndarray, duration: float | None) -> Callable[[float, np.ndarray], Values]:
    """The signal at all samples; by its basis functions where it is linear in its coefficients and has a fixed duration."""
    count = len(signal.names)
    evaluate = evaluate_formula(signal.formula, count, tau)
    c = ca.SX.sym("c", count)
    u = ca.SX(signal.formula(ca.SX.sym("s"), ca.SX.sym("T"), c))
    if duration is None or (count and any(ca.which_depends(u, c, 2, True))):
        return evaluate
    zero, basis, _ = evaluate(duration, np.zeros(count))
    return lambda _, own: (zero + basis @ own, basis, zero * 0)


def evaluate_formula(formula: Formula, count: int, tau: np.ndarray) -> Callable[[float, np.ndarray], Values]:
    """A formula of `count` coefficients at some places of the record, as a function of duration and coefficients."""
    place, duration, c = ca.SX.sym("s"), ca.SX.sym("T"), ca.SX.sym("c", count)
    value = ca.SX(formula(place, duration, c))
    results = [ca.densify(x) for x in (value, ca.jacobian(value, c), ca.jacobian(value, duration))]
    samples = tau.size
    mapped = ca.Function("signal", [place, duration, c], results).map(samples)

    def evaluate(length: float, coefficients: np.ndarray) -> Values:
        columns = np.tile(coefficients[:, None], (1, samples)) if count else ca.DM(0, samples)
        u, du, stretch = mapped(tau[None], np.full((1, samples), length), columns)
        derivatives = np.asarray(du).reshape((count, samples), order="F").T if count else np.zeros((samples, 0))
        return np.asarray(u).ravel(), derivatives, np.asarray(stretch).ravel()

    return evaluate
