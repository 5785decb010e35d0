"""Course: the signals of all inputs along a record, sampled, with their exact slopes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.design.signals import Keep, Signal


@dataclass(frozen=True, eq=False)
class Sampled:
    """Inputs at the samples and how they answer to the coefficients."""

    values: np.ndarray  # (samples, inputs)
    slopes: np.ndarray  # (samples, slots): d input / d coefficient, for the pairs of `Course.slots`


class Course:
    """One signal per input; coefficients of all of them in one vector, the duration last where it is free."""

    def __init__(self, signals: Mapping[str, Signal], samples: int, reference: float, free_duration: bool):
        self.signals = dict(signals)
        self.samples, self.reference, self.free_duration = samples, reference, free_duration
        self.names = tuple(f"{name}.{c}" for name, s in self.signals.items() for c in s.names)
        ends = np.cumsum([len(s.names) for s in self.signals.values()])
        self.parts = [slice(int(e) - len(s.names), int(e)) for e, s in zip(ends, self.signals.values(), strict=True)]
        self.count = len(self.names) + int(free_duration)
        self.slots = tuple((i, j) for i, part in enumerate(self.parts)
                           for j in [*range(part.start, part.stop), *[self.count - 1] * free_duration])
        self.share = np.linspace(0, 1, samples)
        self._sampled = [_sampler(s, samples) for s in self.signals.values()]
        self._kept: dict[tuple[int, float], tuple[np.ndarray, ...]] = {}

    def duration(self, c: np.ndarray) -> float:
        return float(c[-1]) if self.free_duration else self.reference

    def sampled(self, c: np.ndarray) -> Sampled:
        duration = self.duration(c)
        values, slopes = np.empty((self.samples, len(self.parts))), []
        for i, part in enumerate(self.parts):
            u, du, stretch = self._one(i, duration, c[part])
            values[:, i] = u
            slopes += [du, stretch[:, None]] if self.free_duration else [du]
        return Sampled(values, np.hstack(slopes) if slopes else np.zeros((self.samples, 0)))

    def _one(self, i: int, duration: float, c: np.ndarray) -> tuple[np.ndarray, ...]:
        sample, linear = self._sampled[i]
        if not linear:
            return sample(self.share, duration, c)
        key = (i, duration)
        if key not in self._kept:
            self._kept = {k: v for k, v in self._kept.items() if k[0] != i}
            self._kept[key] = sample(self.share, duration, np.zeros(c.size))
        zero, basis, _ = self._kept[key]
        stretch = sample(self.share, duration, c)[2] if self.free_duration else zero * 0
        return zero + basis @ c, basis, stretch

    def keeps(self) -> list[tuple[Keep, slice]]:
        return [(keep, part) for s, part in zip(self.signals.values(), self.parts, strict=True) for keep in s.keeps()]

    def resampled(self, samples: int) -> Course:
        return Course(self.signals, samples, self.reference, self.free_duration)


Formula = Callable[[ca.SX, ca.SX, ca.SX], ca.SX]  # (share, duration, coefficients)
Evaluated = tuple[np.ndarray, np.ndarray, np.ndarray]  # value, d/d coefficients, d/d duration, samples first


def _sampler(signal: Signal, samples: int) -> tuple[Callable[[np.ndarray, float, np.ndarray], Evaluated], bool]:
    """The signal at all samples; and whether it is linear in its coefficients."""
    c = ca.SX.sym("c", len(signal.names))
    u = ca.SX(signal.formula(ca.SX.sym("s"), ca.SX.sym("T"), c))
    linear = not len(signal.names) or not any(ca.which_depends(u, c, 2, True))
    return _mapped(signal.formula, len(signal.names), samples), linear


def _mapped(formula: Formula, count: int, samples: int) -> Callable[[np.ndarray, float, np.ndarray], Evaluated]:
    share, duration, c = ca.SX.sym("s"), ca.SX.sym("T"), ca.SX.sym("c", count)
    value = ca.SX(formula(share, duration, c))
    wanted = [ca.densify(x) for x in (value, ca.jacobian(value, c), ca.jacobian(value, duration))]
    mapped = ca.Function("signal", [share, duration, c], wanted).map(samples)

    def evaluate(shares: np.ndarray, length: float, coefficients: np.ndarray) -> Evaluated:
        columns = np.tile(coefficients[:, None], (1, samples)) if count else ca.DM(0, samples)
        u, slope, stretch = mapped(shares[None], np.full((1, samples), length), columns)
        slopes = np.asarray(slope).reshape((count, samples), order="F").T if count else np.zeros((samples, 0))
        return np.asarray(u).ravel(), slopes, np.asarray(stretch).ravel()

    return evaluate


def keep_function(keep: Keep, part: slice, shares: np.ndarray) -> Callable[[float, np.ndarray], Evaluated]:
    """What a signal must keep, at some places of the record."""
    evaluate = _mapped(keep.formula, part.stop - part.start, shares.size)
    return lambda duration, c: evaluate(shares, duration, c)
