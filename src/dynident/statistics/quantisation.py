"""Quantisation: how are the errors of a sensor correlated that reads in steps?

Where a signal moves slowly, rounding errs alike from sample to sample; where it comes back, it errs as before. With levels
whose place has nothing to do with the plant, the errors of two samples at which the signal differs by d have the covariance

    q^2/2 B2(d/q - floor(d/q)),  B2(t) = t^2 - t + 1/6,  that is  sum over k of (q/(pi k))^2/2 cos(2 pi k d/q),

(Sripad and Snyder 1977), each harmonic less by exp(-(2 pi k s/q)^2) between samples where other noise of standard deviation s
stands before the rounding. Harmonic by harmonic this is a covariance of rank two, so that a long record is no matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.problem.problem import Problem
from dynident.statistics.autocorrelation import ColouredNoise
from dynident.tolerances import QUANTISATION_DOMINATES

QUANTISED_FRACTION = 0.95  # distinct values per sample; values of a continuous signal never repeat
WHOLE_MULTIPLE = 0.02  # of a step; differences this close to whole multiples are
LARGEST_MULTIPLE = 20  # of a step; the rounding of longer differences hides whether they are whole
HARMONICS = 64  # of the covariance; what is above holds 1 % of the variance and is taken as independent


def quantisation_step(y: np.ndarray) -> float | None:
    """The step of which all differences are whole multiples, or None where values do not repeat."""
    distinct = np.unique(y)
    if distinct.size < 3 or distinct.size > QUANTISED_FRACTION * y.size:
        return None
    gaps = np.diff(distinct)
    rounding = 8 * np.finfo(float).eps * np.max(np.abs(y))
    gaps = gaps[gaps > rounding]  # the same level, written by two roundings
    if not gaps.size:
        return None
    step = float(np.median(gaps[gaps < 1.5 * np.min(gaps)]))
    multiples = gaps[gaps < LARGEST_MULTIPLE * step] / step
    near = np.abs(multiples - np.round(multiples)) <= WHOLE_MULTIPLE
    return step if np.mean(near) > 0.95 else None


@dataclass(frozen=True, eq=False)
class Quantiser:
    """A sensor whose errors are those of rounding, but for a small rest."""

    step: float
    course: np.ndarray  # (samples,) what the model says that was rounded
    other_std: float = 0.0  # of the noise before the rounding

    @classmethod
    def of(cls, measured: np.ndarray, residuals: np.ndarray) -> Quantiser | None:
        """Where rounding makes most of what a fit leaves over; else None. Residuals are measured minus model."""
        there = np.isfinite(measured)
        step = quantisation_step(measured[there])
        if step is None:
            return None
        variance, rounding = float(np.mean(residuals[there] ** 2)), step**2 / 12
        if rounding < QUANTISATION_DOMINATES * variance:
            return None
        return cls(step, measured - residuals, float(np.sqrt(max(variance - rounding, 0.0))))

    def correlated(self, signals: np.ndarray) -> np.ndarray:
        """signals @ R @ signals' (k, k) of signals (k, samples), with the correlations R of the errors.

        Signals vanish at samples without a measured value.
        """
        rounding = self.step**2 / 12
        variance = rounding + self.other_std**2
        phase = 2 * np.pi * np.where(np.isfinite(self.course), self.course, 0.0) / self.step
        product, shared = np.zeros((len(signals), len(signals))), 0.0
        for k in range(1, HARMONICS + 1):
            size = (self.step / (np.pi * k)) ** 2 / 2 * np.exp(-((2 * np.pi * k * self.other_std / self.step) ** 2))
            for wave in (np.cos(k * phase), np.sin(k * phase)):
                along = signals @ wave
                product += size * np.outer(along, along)
            shared += size
        return (product + (variance - shared) * signals @ signals.T) / variance


@dataclass(frozen=True, eq=False)
class QuantisedNoise(ColouredNoise):
    """Coloured noise in which the errors of some series are those of rounding."""

    quantisers: Mapping[int, tuple[Quantiser, float]] = field(default_factory=dict)  # by series; and the variance of its errors

    @classmethod
    def of(cls, noise: ColouredNoise, residuals: np.ndarray, rows: ResidualIndex,
           quantisers: Mapping[tuple[int, int], Quantiser], one_minus_leverage: np.ndarray) -> QuantisedNoise:
        """`quantisers` by experiment and output, over all samples; residuals and one minus the leverage, (rows,)."""
        known = {}
        for i, s in enumerate(noise.series):
            if (quantiser := quantisers.get((s.experiment, s.output))) is not None:
                first = int(rows.sample[s.rows[0]])
                variance = float(np.sum(residuals[s.rows] ** 2) / np.sum(one_minus_leverage[s.rows]))
                known[i] = replace(quantiser, course=quantiser.course[first:first + s.span]), variance
        return cls(noise.series, noise.models, noise.drifting, known)

    def covariances_of(self, columns: BlockRows) -> tuple[np.ndarray, ...]:
        plain = ColouredNoise(self.series, self.models)
        parts = []
        for i, series in enumerate(self.series):
            signals = series.signals(columns)[1]
            if i in self.quantisers:
                quantiser, variance = self.quantisers[i]
                parts.append(variance * quantiser.correlated(signals))
            else:
                parts.append(plain.product(i, signals))
        return self.summed(columns, parts)


def quantisers_of(problem: Problem, residuals: Sequence[Mapping[str, np.ndarray]]) -> dict[tuple[int, int], Quantiser]:
    """By experiment and output, the series whose errors are those of rounding; residuals are measured minus model."""
    found = {}
    for e, (experiment, own) in enumerate(zip(problem.experiments, residuals, strict=True)):
        for name, r in own.items():
            quantiser = Quantiser.of(np.asarray(experiment.outputs[name], float), np.asarray(r, float))
            if quantiser is not None:
                found[e, problem.model.outputs.index(name)] = quantiser
    return found
