"""Verdict rule: which grade do the residuals of one signal deserve, and why?

On open-loop residuals, or on innovations where the criterion is prediction. Whiteness and size decide what is noise; what is
not noise is graded by its size against the signal; a regression on input and motion tells slow noise from an error of the model
(`model_error_model.py`), a linear black box tells a physical model that misses something (`linear_reference.py`). Every
threshold was measured on fits with known truth: `benchmarks/verdict.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynident.statistics.distributions import skewness_and_excess
from dynident.statistics.linear_reference import linear_reference_rms
from dynident.statistics.model_error_model import ModelErrorTest, delayed, model_error_test
from dynident.statistics.residual_statistics import (
    FEW_SAMPLES,
    ResidualStatistics,
    chi_square_limit,
    is_white,
    lag_one,
    memory,
    residual_statistics,
)
from dynident.statistics.verdict import Cause, Grade
from dynident.tolerances import (
    CHI_SQUARE_CONFIDENCE_FEW,
    CHI_SQUARE_SLOW,
    CHI_SQUARE_SLOW_LEAST,
    CHI_SQUARE_TOO_SMALL,
    EXACT_RECORD,
    EXACT_REMAINDER,
    FEW_SMALL_REMAINDER,
    FOLLOWS_SHARE,
    LEAST_INNOVATION,
    LINEAR_AS_GOOD,
    LINEAR_BETTER,
    NAIVE_SHARE,
    NOISE_FREE,
    OUTLIER_KURTOSIS,
    QUANTISATION_SHARE,
    RESIDUAL_ROUNDING,
    ROUGH_REMAINDER,
    SLOW_REMAINDER,
    SMALL_REMAINDER,
    SMALL_REMAINDER_LINEAR,
    UNEVEN_SAMPLING,
    UNRELATED_LOG10_P,
    VALIDATION_MOVES,
    VALIDATION_SAME,
)

FEWEST_SAMPLES = 8  # with fewer nothing can be said
FEWEST_FREE = 4  # samples beyond the unknowns, likewise
FEWEST_FOR_SIZE = 16  # samples; of fewer, noise of the given size and an error of that size look alike
FEWEST_FOR_OTHER_NOISE = 80  # samples; fewer white ones do not tell noise that was given too small from an error of the model
FEWEST_FOR_SLOW_NOISE = 100  # samples; fewer do not tell slow noise from an error of the model

Judged = tuple[Grade, Cause]


@dataclass(frozen=True, eq=False)
class SignalFit:
    """What the model leaves over of one measured signal, with all that the rule asks about it; NaN where not measured."""

    subject: str  # its name and, of several, its experiment
    time: np.ndarray  # (samples,)
    measured: np.ndarray
    model: np.ndarray  # simulated, or predicted
    inputs: Sequence[np.ndarray] = ()  # each (samples,)
    std: np.ndarray | None = None  # (samples,) as given; None: estimated
    unknowns: float = 0.0  # this signal's share of them
    order: int = 1  # number of states
    unit: str = ""
    robust: bool = False  # outliers carry little weight in the fit, and here
    fitted: bool = True  # False: a record that the parameters were not fitted to
    pooled: bool = False  # several short records, one after the other
    motion: np.ndarray | None = None  # a simulation, where `model` is a prediction, which knows of errors already

    @cached_property
    def residuals(self) -> np.ndarray:
        return np.asarray(np.where(np.isfinite(self.measured), self.measured - self.model, np.nan))

    @cached_property
    def statistics(self) -> ResidualStatistics:
        """Of the residuals; of residuals over their std where that varies, as far as whiteness goes."""
        found = residual_statistics(self.residuals, self.measured, self.time, self.std, self.robust)
        if self.std is None or np.ptp(self.std) <= 1e-12 * np.max(self.std):
            return found
        scaled = self.residuals / self.std
        return replace(found, memory=memory(scaled), lag_one=lag_one(scaled))

    @cached_property
    def kurtosis(self) -> float:
        """Excess of the residuals over a normal distribution's; 0 where they are too few or all equal."""
        there = self.residuals[np.isfinite(self.residuals)]
        scaled = there if self.std is None else (self.residuals / self.std)[np.isfinite(self.residuals)]
        return float(skewness_and_excess(scaled)[1]) if there.size >= FEWEST_SAMPLES and np.ptp(scaled) > 0 else 0.0

    @cached_property
    def model_error(self) -> ModelErrorTest:
        motion = self.model if self.motion is None else self.motion
        return model_error_test(self.residuals, motion, self.time, self.inputs, self.unknowns)

    @cached_property
    def earlier_error(self) -> ModelErrorTest:
        """The same on what was before each sample: in a closed loop the input of a sample holds the noise of that sample."""
        motion = self.model if self.motion is None else self.motion
        before = [delayed(np.asarray(each, float), 1) for each in (motion, *self.inputs)]
        return model_error_test(self.residuals, before[0], self.time, before[1:], self.unknowns)

    @cached_property
    def linear_rms(self) -> float:
        """What a linear black box of the same order leaves; NaN where none can be fitted."""
        return linear_reference_rms(self.measured, self.inputs, self.order) if self.evenly_sampled else float("nan")

    @property
    def evenly_sampled(self) -> bool:
        steps = np.diff(self.time)
        return bool(steps.size > 1 and np.ptp(steps) <= UNEVEN_SAMPLING * np.mean(steps))

    @property
    def noise_std(self) -> float | None:
        """The given standard deviation, its mean where it varies."""
        return None if self.std is None else float(np.sqrt(np.mean(self.std[np.isfinite(self.measured)] ** 2)))

    @property
    def free(self) -> float:
        """Degrees of freedom."""
        return self.statistics.samples - self.unknowns

    @cached_property
    def rms(self) -> float:
        """Of the residuals, per degree of freedom."""
        samples = self.statistics.samples
        return self.statistics.rms * float(np.sqrt(samples / max(self.free, 1.0))) if samples else np.nan

    @property
    def chi_square(self) -> float | None:
        """Reduced; None where no std is given."""
        chi = self.statistics.reduced_chi_square
        return None if chi is None else chi * self.statistics.samples / max(self.free, 1.0)

    @property
    def systematic_share(self) -> float:
        """What is left beyond noise, relative to the signal: beyond the given std, else beyond what neighbours do not share."""
        s, chi = self.statistics, self.chi_square
        if not s.signal_std > 0:
            return np.inf
        noise = self.noise_std if chi is not None and chi > 1 else s.white_std if s.samples >= FEW_SAMPLES else 0.0
        noise = 0.0 if noise is None or not np.isfinite(noise) else noise
        if is_white(s, self.unknowns) and follows_something(self):  # it is part of what neighbours do not share
            noise = min(noise, self.rms * float(np.sqrt(max(1 - self.earlier_error.share, 0.0))))
        return float(np.sqrt(max(self.rms**2 - noise**2, 0.0)) / s.signal_std)

    @property
    def linear_is_better(self) -> bool:
        return bool(np.isfinite(self.linear_rms) and self.linear_rms < LINEAR_BETTER * self.rms)


def follows_nothing(fit: SignalFit) -> bool:
    """Whether what is left may be slow noise: much of it is new at each sample, and nothing of it follows input or motion."""
    return fit.statistics.innovation >= LEAST_INNOVATION and fit.model_error.log10_p > UNRELATED_LOG10_P


def follows_something(fit: SignalFit) -> bool:
    """Whether much of white residuals follows input or motion, as of coarse samples; what is far below the noise is none."""
    return fit.earlier_error.log10_p <= UNRELATED_LOG10_P and fit.earlier_error.share >= FOLLOWS_SHARE


def misses_an_effect(fit: SignalFit) -> bool:
    """Whether input and motion explain much of a remainder that a linear black box of the same order leaves as well."""
    as_good = np.isfinite(fit.linear_rms) and fit.linear_rms <= LINEAR_AS_GOOD * fit.rms
    return bool(as_good and fit.model_error.log10_p <= UNRELATED_LOG10_P and fit.model_error.share >= FOLLOWS_SHARE)


def without_noise(fit: SignalFit) -> bool:
    """Whether what is left over is the error of the simulation: as small as that, and neither white nor of the given size."""
    s = fit.statistics
    if not s.rms <= EXACT_RECORD * s.signal_std or (fit.noise_std is not None and s.rms > NOISE_FREE * fit.noise_std):
        return False
    return s.rms <= RESIDUAL_ROUNDING * s.signal_std or not is_white(s, fit.unknowns)


def grade_signal(fit: SignalFit) -> Judged:
    """Of a signal that was fitted."""
    if (early := _unjudged(fit)) is not None:
        return early
    s = fit.statistics
    if without_noise(fit):
        return Grade.NOISE, Cause.EXACT
    if s.rms <= QUANTISATION_SHARE * s.quantisation and s.samples >= FEWEST_FOR_SIZE:
        return Grade.NOISE, Cause.RESOLUTION
    if s.rms <= EXACT_REMAINDER * s.signal_std and is_white(fit.statistics, fit.unknowns) is not False:
        return Grade.NOISE, Cause.NONE
    better_than_line = s.rms < NAIVE_SHARE * s.line_rms
    judged = _with_given_noise(fit, better_than_line) if fit.std is not None else _without_noise(fit, better_than_line)
    return _by_size(fit) if judged is None else judged


def _unjudged(fit: SignalFit) -> Judged | None:
    s = fit.statistics
    if not np.all(np.isfinite(fit.model[np.isfinite(fit.measured)])):
        return Grade.NOT, Cause.DIVERGES
    if s.samples < FEWEST_SAMPLES or fit.free < FEWEST_FREE:
        return Grade.UNJUDGED, Cause.FEW_DATA
    if not s.signal_std > 0:
        return Grade.UNJUDGED, Cause.STANDS_STILL
    if fit.noise_std is not None and fit.noise_std > s.signal_std:
        return Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL
    return None


def _with_given_noise(fit: SignalFit, better_than_line: bool) -> Judged | None:
    """Where size and whiteness say noise; None where they do not."""
    s, chi, white = fit.statistics, fit.chi_square, is_white(fit.statistics, fit.unknowns)
    assert chi is not None
    expected, few = chi <= chi_square_limit(fit.statistics, fit.unknowns), s.samples < FEW_SAMPLES
    too_large = chi < CHI_SQUARE_TOO_SMALL
    if expected and white and not few and not follows_something(fit):
        return Grade.NOISE, Cause.NOISE_TOO_LARGE if too_large else Cause.NONE
    if expected and few and not too_large:
        surely = chi <= chi_square_limit(fit.statistics, fit.unknowns, CHI_SQUARE_CONFIDENCE_FEW)
        tells = white is not False and surely and s.samples >= FEWEST_FOR_SIZE and not follows_something(fit)
        return (Grade.NOISE, Cause.NONE) if tells else (Grade.UNJUDGED, Cause.FEW_DATA)
    if expected and s.samples >= FEWEST_FOR_SLOW_NOISE and chi >= CHI_SQUARE_SLOW_LEAST and follows_nothing(fit):
        return (Grade.SLOW_NOISE if chi <= CHI_SQUARE_SLOW else Grade.SLOW_REMAINDER), Cause.SLOW_NOISE
    enough = s.samples >= FEWEST_FOR_OTHER_NOISE
    if not expected and white and enough and better_than_line and not follows_something(fit):
        return Grade.OTHER_NOISE, Cause.OUTLIERS if fit.kurtosis > OUTLIER_KURTOSIS else Cause.NOISE_TOO_SMALL
    if not enough and white is not False and fit.systematic_share <= ROUGH_REMAINDER:
        return Grade.UNJUDGED, Cause.FEW_DATA  # white enough, but not of the given size
    return None


def _without_noise(fit: SignalFit, better_than_line: bool) -> Judged | None:
    white = is_white(fit.statistics, fit.unknowns)
    few = fit.statistics.samples < (FEWEST_FOR_OTHER_NOISE if fit.pooled else FEW_SAMPLES)
    if white and not few and better_than_line and not follows_something(fit):
        return Grade.NOISE, Cause.OUTLIERS if fit.kurtosis > OUTLIER_KURTOSIS else Cause.NONE
    if few and white is not False and fit.systematic_share <= ROUGH_REMAINDER:
        return Grade.UNJUDGED, Cause.FEW_DATA
    return None


def _by_size(fit: SignalFit) -> Judged:
    """What is no noise, by its size against the signal."""
    s, share = fit.statistics, fit.systematic_share
    why = Cause.STRUCTURE if fit.linear_is_better else Cause.STRUCTURE_OR_MINIMUM
    if share > ROUGH_REMAINDER or s.rms > NAIVE_SHARE * s.line_rms:
        return Grade.NOT, why
    chi = fit.chi_square
    slow = s.samples >= FEWEST_FOR_SLOW_NOISE and (chi is None or chi < 1) and share <= SLOW_REMAINDER
    if slow and follows_nothing(fit) and not fit.linear_is_better:
        return Grade.SLOW_REMAINDER, Cause.SLOW_NOISE
    if share > SMALL_REMAINDER_LINEAR and misses_an_effect(fit):
        return Grade.ROUGH, Cause.STRUCTURE
    small = SMALL_REMAINDER if s.samples >= FEW_SAMPLES else FEW_SMALL_REMAINDER
    return (Grade.ROUGH if share > small else Grade.SMALL_REMAINDER), why


@dataclass(frozen=True)
class NoiseOfFit:
    """What a fit says about the noise of a signal, for a record that was not fitted."""

    std: float | None  # of the noise, as far as it is known
    rms: float  # what the fit left over
    grade: Grade


def grade_validation(fit: SignalFit, known: NoiseOfFit) -> Judged:
    """Of a record that was not fitted, beside what the fit left over."""
    s = fit.statistics
    if not np.all(np.isfinite(fit.model[np.isfinite(fit.measured)])):
        return Grade.NOT, Cause.DIVERGES
    if s.samples < FEWEST_SAMPLES:
        return Grade.UNJUDGED, Cause.FEW_DATA
    if not s.signal_std > 0:
        return Grade.UNJUDGED, Cause.STANDS_STILL
    given, noise = fit.noise_std, known.std
    if given is not None:
        noise = given if noise is None or known.grade not in NOISE_GRADES else max(given, noise)
    if noise is None:
        noise = 0.0
    if without_noise(fit):
        return Grade.NOISE, Cause.EXACT
    if s.signal_std < VALIDATION_MOVES * noise:
        return Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL
    if s.rms <= QUANTISATION_SHARE * s.quantisation:
        return Grade.NOISE, Cause.RESOLUTION
    if s.rms <= VALIDATION_SAME * noise:
        return (Grade.SLOW_REMAINDER, Cause.SLOW_NOISE) if known.grade is Grade.SLOW_REMAINDER else (Grade.NOISE, Cause.NONE)
    share = validation_share(fit, noise)
    worse = Cause.NOT_CARRIED_OVER if known.grade in NOISE_GRADES or s.rms > 3 * known.rms else Cause.STRUCTURE_OR_MINIMUM
    if share > ROUGH_REMAINDER or s.rms > NAIVE_SHARE * s.line_rms:
        return Grade.NOT, worse
    return (Grade.ROUGH if share > SMALL_REMAINDER else Grade.SMALL_REMAINDER), worse


NOISE_GRADES = (Grade.NOISE, Grade.SLOW_NOISE, Grade.OTHER_NOISE)


def validation_share(fit: SignalFit, noise: float) -> float:
    """What is left beyond the noise, relative to the signal."""
    s = fit.statistics
    return float(np.sqrt(max(s.rms**2 - noise**2, 0.0)) / s.signal_std)


def rule_numbers(fit: SignalFit) -> Mapping[str, float]:
    """What the grade rests on, as far as it was computed."""
    s, computed = fit.statistics, vars(fit)
    found: dict[str, float] = {
        "samples": float(s.samples), "unknowns": fit.unknowns, "rms": fit.rms, "signal_std": s.signal_std,
        "white_std": s.white_std, "memory": s.memory, "lag_one": s.lag_one, "line_rms": s.line_rms,
        "systematic_share": fit.systematic_share, "quantisation": s.quantisation}
    if fit.std is not None:
        found |= {"noise_std": float(fit.noise_std or 0.0), "reduced_chi_square": float(fit.chi_square or 0.0)}
    if "kurtosis" in computed:
        found["kurtosis"] = fit.kurtosis
    if "model_error" in computed:
        found |= {"model_error_log10_p": fit.model_error.log10_p, "model_error_share": fit.model_error.share}
    if "earlier_error" in computed:
        found |= {"earlier_error_log10_p": fit.earlier_error.log10_p, "earlier_error_share": fit.earlier_error.share}
    if "linear_rms" in computed:
        found["linear_rms"] = fit.linear_rms
    return {name: float(number) for name, number in found.items() if np.isfinite(number)}
