"""Residual statistics: goodness of fit; how large, how coloured, and how much better than a naive reference?

All of them are of open-loop residuals, measured minus simulated from the first state, of one output in one experiment, in
sample order, NaN where nothing was measured. Samples are taken as evenly spaced; a gap takes its pairs with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import fdtrc

from dynident.statistics.autocorrelation import highest_order, levinson
from dynident.statistics.distributions import chi_square_quantile, noncentrality_limit
from dynident.statistics.quantisation import quantisation_step
from dynident.tolerances import (
    BY_INPUT_LOG10_P,
    CHI_SQUARE_CONFIDENCE,
    CHI_SQUARE_HIGHEST,
    CHI_SQUARE_LEAST,
    FOLLOWS_SHARE,
    LAG_ONE_WHITE,
    MEMORY_WHITE,
)

HIGHEST_DIFFERENCE = 6  # order; a signal that bends more than a parabola of this degree over seven samples looks white to none
ROBUST_LIMIT = 3.0  # robust standard deviations, beyond which outliers are drawn in before anything is computed
NORMAL_MEDIAN = 0.6745  # the median of |x| for a standard normal x
NAIVE_LAGS = 10  # of the autoregression that a model has to beat
SAMPLES_PER_LAG = 5  # at least
FEW_SAMPLES = 60  # with fewer an autoregression says little, and the correlation of neighbours decides
FEWEST_FOR_WHITENESS = 20  # samples
CORRELATED = 3.0  # standard errors of a correlation that chance does not explain
GROUPS = 10  # of equally many samples, in the order of a signal's values
HIDDEN_PROBABILITY = 0.05  # with which an error may leave as little as was left


@dataclass(frozen=True)
class ResidualStatistics:
    """What the residuals of one output in one experiment are like; sizes in the unit of the output."""

    samples: int  # with a measured value
    rms: float  # root mean square of the residuals
    signal_std: float  # of the measured signal
    white_std: float  # the part of the residuals that neighbours do not share
    memory: float  # share of the variance that past residuals predict, 0 (white) to 1
    lag_one: float  # autocorrelation from one sample to the next
    reduced_chi_square: float | None  # mean square over the given variance; None where none is given
    constant_rms: float  # what the best constant would leave over
    line_rms: float  # what the best straight line over time would
    quantisation: float  # step of the measured values; 0 where they lie on none

    @property
    def innovation(self) -> float:
        """Share of the variance that is new at each sample."""
        return 1.0 - self.memory

    @property
    def effective_samples(self) -> float:
        """Independent samples that would tell the variance as well, for a memory of one sample."""
        return max(1.0, self.samples * independent_share(self.lag_one))

    def systematic_share(self, noise_std: float | None = None) -> float:
        """What is left over beyond noise, relative to the signal; the white part is the noise where no std is given."""
        noise = self.white_std if noise_std is None else noise_std
        return float(np.sqrt(max(self.rms**2 - noise**2, 0.0)) / self.signal_std) if self.signal_std > 0 else np.inf


def residual_statistics(residuals: np.ndarray, measured: np.ndarray, time: np.ndarray,
                        std: np.ndarray | float | None = None, robust: bool = False) -> ResidualStatistics:
    """Of one series; `robust` draws outliers in first, as a robust loss does."""
    r, y = np.asarray(residuals, float), np.asarray(measured, float)
    r = np.where(np.isfinite(y), r, np.nan)
    if robust:
        r = draw_in_outliers(r, std)
    there = np.isfinite(y)
    judged = np.any(np.isfinite(r))
    chi_square = None if std is None or not judged else float(np.nanmean((r / std) ** 2))
    rms = float(np.sqrt(np.nanmean(r**2))) if judged else np.nan
    constant, line = naive_rms(y, np.asarray(time, float))
    return ResidualStatistics(int(np.sum(there)), rms, float(np.std(y[there])) if np.any(there) else 0.0, white_std(r),
                              memory(r), lag_one(r), chi_square, constant, line, quantisation_step(y[np.isfinite(y)]) or 0.0)


def independent_share(lag_one: float) -> float:
    """Of the samples: how many independent ones would tell the variance as well, for a memory of one sample."""
    square = min(lag_one**2, 1.0)
    return (1 - square) / (1 + square)


def pooled_independent_share(series: Sequence[np.ndarray]) -> float:
    """The same of several series of residuals together, each as long as it counts."""
    lengths = [int(np.sum(np.isfinite(own))) for own in series]
    return float(np.average([independent_share(lag_one(own)) for own in series], weights=lengths)) if any(lengths) else 1.0


def is_white(s: ResidualStatistics, unknowns: float) -> bool | None:
    """Whether the past says nothing about the next residual; None where too few samples tell."""
    if s.samples >= FEW_SAMPLES:
        return s.memory <= MEMORY_WHITE + 6 / s.samples and abs(s.lag_one) <= LAG_ONE_WHITE
    if s.lag_one > 2.5 / np.sqrt(s.samples):
        return False
    return True if s.samples >= FEWEST_FOR_WHITENESS and neighbours_unlike(s, unknowns) else None


def neighbours_unlike(s: ResidualStatistics, unknowns: float) -> bool:
    """Whether neighbours correlate by no more than chance, from what a fit takes of their correlation."""
    return s.lag_one <= 2 / np.sqrt(s.samples) - unknowns / s.samples


def chi_square_limit(s: ResidualStatistics, unknowns: float) -> float:
    """The largest mean square over the variance that noise of the given std lets expect."""
    few = s.samples < FEW_SAMPLES
    free = max(1, round(s.samples - unknowns if few else min(s.effective_samples, s.samples - unknowns)))
    limit = chi_square_quantile(CHI_SQUARE_CONFIDENCE, free) / free
    return float(limit if few else np.clip(limit, CHI_SQUARE_LEAST, CHI_SQUARE_HIGHEST))


def hidden_error(chi_square: float, samples: float, free: float) -> float:
    """The largest error of a model, rms over the std of the noise, that would leave no more than this in one of twenty records.

    `chi_square` is the reduced one, of `free` degrees of freedom. What is larger would have shown.
    """
    return float(np.sqrt(noncentrality_limit(chi_square * free, free, HIDDEN_PROBABILITY) / samples))


def bent_by_input(residuals: np.ndarray, inputs: Mapping[str, np.ndarray]) -> tuple[str, float]:
    """The input of which residuals are most clearly a bent function, and the share of their variance that this explains.

    Of its value at the sample, or of that held before it; ("", 0) where no input explains much beyond chance. An input
    that correlates with the residual of its own sample may hold the noise of that sample, as in a closed loop: there only
    what was held counts.
    """
    drawn, best = draw_in_outliers(np.asarray(residuals, float)), ("", 0.0)
    for name, u in inputs.items():
        now, held = np.asarray(u, float), np.append(np.nan, u[:-1])
        for signal in (held,) if correlate(drawn, now) else (now, held):
            share, log10_p = share_by_order(drawn, signal)
            if log10_p < BY_INPUT_LOG10_P and share >= FOLLOWS_SHARE and share > best[1]:
                best = name, share
    return best


def share_by_order(residuals: np.ndarray, signal: np.ndarray) -> tuple[float, float]:
    """What the order of a signal's values explains of residuals: the share of their variance beyond chance, and log10 of p.

    Analysis of variance over groups of neighbours in that order (the classical test for lack of fit): a static nonlinearity
    moves the means of the groups, however white the residuals are in the order of time. A straight line over the signal is
    taken away before. (0, 0) for too few samples or values.
    """
    there = np.isfinite(residuals) & np.isfinite(signal)
    count, order = int(np.sum(there)), np.argsort(signal[there], kind="stable")
    u = np.asarray(signal, float)[there][order]
    if count < FEW_SAMPLES or u[0] == u[-1]:
        return 0.0, 0.0
    left = beside_a_line(np.asarray(residuals, float)[there][order], u)
    begins = np.maximum.accumulate(np.where(np.diff(u, prepend=np.nan) == 0, 0, np.arange(count)))  # equal values stay together
    group = GROUPS * begins // count
    members = np.bincount(group, minlength=GROUPS)
    more, total = int(np.sum(members > 0)) - 2, float(left @ left)  # beyond a line
    if more < 1 or total == 0:
        return 0.0, 0.0
    between = float(np.sum(np.bincount(group, left, GROUPS) ** 2 / np.maximum(members, 1)))
    within, free = max(total - between, np.finfo(float).tiny), count - 2 - more
    p = float(fdtrc(more, free, between / more / (within / free)))
    return between / total - more / (count - 2), float(np.log10(max(p, np.finfo(float).tiny)))


def correlate(residuals: np.ndarray, signal: np.ndarray) -> bool:
    """Whether a straight line over a signal explains residuals beyond chance."""
    there = np.isfinite(residuals) & np.isfinite(signal)
    r, u = residuals[there] - np.mean(residuals[there]), signal[there] - np.mean(signal[there])
    size = float(np.sqrt((r @ r) * (u @ u)))
    return bool(size > 0 and abs(float(r @ u)) > CORRELATED * size / np.sqrt(r.size))


def robust_std(residuals: np.ndarray) -> float:
    """Standard deviation of normal residuals, from the median of their size: outliers do not move it."""
    return float(np.nanmedian(np.abs(residuals)) / NORMAL_MEDIAN)


def draw_in_outliers(residuals: np.ndarray, std: np.ndarray | float | None = None) -> np.ndarray:
    """Residuals beyond three robust standard deviations moved to there (winsorised)."""
    scale = std if std is not None else robust_std(residuals)
    limit = ROBUST_LIMIT * np.asarray(scale, float)
    return np.clip(residuals, -limit, limit) if np.all(limit > 0) else residuals


def white_std(residuals: np.ndarray) -> float:
    """Standard deviation of what neighbours do not share: the smallest that differences of order 1 to 6 say.

    A difference of order d has the variance of white noise times binomial(2 d, d); whatever is smooth over d + 1 samples
    is gone from it. Where no two neighbours are measured, as of a record that was thinned, those are taken for it that follow
    each other; NaN where there is one at the most.
    """
    known = np.isfinite(residuals)
    alone = not np.any(known[1:] & known[:-1])
    found, difference = [], np.asarray(residuals, float)[known if alone else slice(None)]
    for order in range(1, HIGHEST_DIFFERENCE + 1):
        difference = np.diff(difference)
        present = difference[np.isfinite(difference)]
        if present.size:
            found.append(float(np.sqrt(np.mean(present**2) / comb(2 * order, order))))
    return min(found, default=np.nan)


def lag_one(residuals: np.ndarray) -> float:
    """Autocorrelation at lag one about zero, over the pairs that are present; 0 where there are none."""
    return float(sample_autocorrelations(residuals, 1)[1])


def memory(residuals: np.ndarray) -> float:
    """Share of the variance that an autoregression predicts, its order chosen by AIC; 0 for white residuals."""
    return 1.0 - autoregression_by_aic(residuals)[1]


def autoregression_by_aic(residuals: np.ndarray) -> tuple[np.ndarray, float]:
    """Reflection coefficients (order,) of the residuals' autoregression, and the share of the variance that it leaves."""
    count = int(np.sum(np.isfinite(residuals)))
    variance, reflections = levinson(sample_autocorrelations(residuals, highest_order(count)))
    if variance <= 0:
        return np.zeros(0), 1.0
    innovation = np.concatenate([[1.0], np.cumprod(1 - reflections**2)])
    order = int(np.argmin(count * np.log(innovation) + 2 * np.arange(innovation.size)))
    return reflections[:order], float(innovation[order])


def autoregression_std(signal: np.ndarray) -> float:
    """Standard deviation of what an autoregression of a signal leaves over; infinite where samples are missing or few."""
    n = signal.size
    if n < SAMPLES_PER_LAG * NAIVE_LAGS or not np.all(np.isfinite(signal)):
        return float("inf")
    past = np.column_stack([np.ones(n - NAIVE_LAGS), *(signal[NAIVE_LAGS - k:n - k] for k in range(1, NAIVE_LAGS + 1))])
    left = signal[NAIVE_LAGS:] - past @ np.linalg.lstsq(past, signal[NAIVE_LAGS:], rcond=None)[0]
    return float(np.sqrt(np.sum(left**2) / (left.size - past.shape[1])))


def practically_white(residuals: np.ndarray) -> bool:
    """Whether the past says next to nothing about the next one, however many there are."""
    count = max(int(np.sum(np.isfinite(residuals))), 1)
    return memory(residuals) <= MEMORY_WHITE + 6 / count and abs(lag_one(residuals)) <= LAG_ONE_WHITE


def sample_autocorrelations(residuals: np.ndarray, lags: int) -> np.ndarray:
    """(lags + 1,) at lags 0, 1, ...; zeros for what is missing keep them positive definite."""
    r = np.where(np.isfinite(residuals), residuals, 0.0)
    size = float(np.max(np.abs(r), initial=0.0))
    if size == 0:
        return np.zeros(lags + 1)
    r = r / size  # so that no square is too large or too small for the computer
    sums = np.array([r[k:] @ r[:r.size - k] for k in range(lags + 1)], float)
    return sums / sums[0]


def beside_a_line(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What the best straight line over x leaves of y."""
    about, centred = y - np.mean(y), x - np.mean(x)
    slope = float(centred @ about) / max(float(centred @ centred), np.finfo(float).tiny)
    return np.asarray(about - slope * centred)


def naive_rms(measured: np.ndarray, time: np.ndarray) -> tuple[float, float]:
    """What the best constant and the best straight line over time leave over (root mean square)."""
    there = np.isfinite(measured)
    y = measured[there]
    if not y.size:
        return np.nan, np.nan
    constant, line = y - np.mean(y), beside_a_line(y, time[there])
    return float(np.sqrt(np.mean(constant**2))), float(np.sqrt(np.mean(line**2)))
