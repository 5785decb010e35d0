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
from dynident.statistics.model_error_model import NOT_ASKED, ModelErrorTest, delayed, model_error_test
from dynident.statistics.residual_statistics import (
    FEW_SAMPLES,
    ResidualStatistics,
    bent_by_input,
    chi_square_limit,
    draw_in_outliers,
    hidden_error,
    is_white,
    lag_one,
    memory,
    neighbours_unlike,
    residual_statistics,
)
from dynident.statistics.verdict import Cause, Grade
from dynident.tolerances import (
    CHI_SQUARE_SLOW,
    CHI_SQUARE_SLOW_LEAST,
    CHI_SQUARE_TOO_SMALL,
    CONSTANT_NOISE,
    EXACT_RECORD,
    EXACT_REMAINDER,
    FEW_SMALL_REMAINDER,
    FOLLOWS_SHARE,
    HIDDEN_ERROR,
    LEAST_INNOVATION,
    LINEAR_AS_GOOD,
    LINEAR_BETTER,
    MEMORY_WHITE,
    NAIVE_SHARE,
    NOISE_FREE,
    OUTLIER_KURTOSIS,
    QUANTISATION_SHARE,
    RESIDUAL_ROUNDING,
    ROUGH_REMAINDER,
    SLOW_REMAINDER,
    SMALL_REMAINDER,
    SMALL_REMAINDER_LINEAR,
    TREND_SHARE,
    UNEVEN_SAMPLING,
    UNRELATED_LOG10_P,
    VALIDATION_MOVES,
    VALIDATION_SAME,
)

FEWEST_SAMPLES = 8  # with fewer nothing can be said
FEWEST_FREE = 4  # samples beyond the unknowns, likewise
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
    order: int = 1  # number of states; 0: a model without them
    unit: str = ""
    robust: bool = False  # outliers carry little weight in the fit, and here
    fitted: bool = True  # False: a record that the parameters were not fitted to
    pooled: bool = False  # several short records, one after the other
    foreseen: np.ndarray | None = None  # (samples,) std of a prediction, wide behind a gap; its course counts
    motion: np.ndarray | None = None  # a simulation, where `model` is a prediction, which knows of errors already
    shared: bool = False  # by residuals and inputs: errors of the inputs' sensors, so that one follows the other

    @cached_property
    def residuals(self) -> np.ndarray:
        return np.asarray(np.where(np.isfinite(self.measured), self.measured - self.model, np.nan))

    @cached_property
    def statistics(self) -> ResidualStatistics:
        """Of the residuals; of residuals over their std where that varies, as far as whiteness goes."""
        found, course = residual_statistics(self.residuals, self.measured, self.time, self.std, self.robust), self.course
        if course is None or np.ptp(course) <= CONSTANT_NOISE * np.max(course):
            return found
        scaled = self.residuals / course
        return replace(found, memory=memory(scaled), lag_one=lag_one(scaled))

    @property
    def course(self) -> np.ndarray | None:
        """(samples,) by which residuals are alike; None where all are."""
        return self.foreseen if self.std is None else self.std

    @cached_property
    def white(self) -> bool | None:
        """Whether the past says nothing about the next residual; None where too few samples tell, or pieces of a few."""
        found = is_white(self.statistics, self.unknowns)
        return None if found and self.pooled and not neighbours_unlike(self.statistics, self.unknowns) else found

    @cached_property
    def kurtosis(self) -> float:
        """Excess of the residuals over a normal distribution's; 0 where they are too few or all equal."""
        there = self.residuals[np.isfinite(self.residuals)]
        scaled = there if self.course is None else (self.residuals / self.course)[np.isfinite(self.residuals)]
        return float(skewness_and_excess(scaled)[1]) if there.size >= FEWEST_SAMPLES and np.ptp(scaled) > 0 else 0.0

    @cached_property
    def model_error(self) -> ModelErrorTest:
        if self.shared:
            return NOT_ASKED
        motion = self.model if self.motion is None else self.motion
        return model_error_test(self.residuals, motion, self.time, self.inputs, self.unknowns)

    @cached_property
    def earlier_error(self) -> ModelErrorTest:
        """The same on what was before each sample: in a closed loop the input of a sample holds the noise of that sample."""
        if self.shared:
            return NOT_ASKED
        motion = self.model if self.motion is None else self.motion
        before = [delayed(np.asarray(each, float), 1) for each in (motion, *self.inputs)]
        return model_error_test(self.residuals, before[0], self.time, before[1:], self.unknowns)

    @cached_property
    def bent_share(self) -> float:
        """Of the residuals' variance: what a bent function of an input explains, which the order of time may hide."""
        return bent_by_input(self.residuals, {str(k): np.asarray(u, float) for k, u in enumerate(self.inputs)})[1]

    @cached_property
    def linear_rms(self) -> float:
        """What a linear black box of the same order leaves; NaN where none can be fitted, as to a model without states."""
        dynamic = self.order > 0 and self.evenly_sampled
        return linear_reference_rms(self.measured, self.inputs, self.order) if dynamic else float("nan")

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
    def hidden_error(self) -> float:
        """The largest error of the model, relative to the given noise, that this record may hide."""
        return hidden_error(self.chi_square or 0.0, self.statistics.samples, max(self.free, 1.0))

    @property
    def hidden_by_rounding(self) -> float:
        """The same, relative to what rounding of the measured values leaves."""
        s = self.statistics
        rounding = s.quantisation / np.sqrt(12)
        return hidden_error((self.rms / rounding) ** 2, s.samples, max(self.free, 1.0)) if rounding > 0 else np.inf

    @property
    def systematic_share(self) -> float:
        """What is left beyond noise, relative to the signal: beyond the given std, else beyond what neighbours do not share."""
        s, chi = self.statistics, self.chi_square
        if not s.signal_std > 0 or not np.any(np.isfinite(self.residuals)):
            return np.inf
        noise = self.noise_std if chi is not None and chi > 1 else s.white_std if s.samples >= FEW_SAMPLES else 0.0
        noise = 0.0 if noise is None or not np.isfinite(noise) else noise
        if is_white(s, self.unknowns) and follows_something(self):  # it is part of what neighbours do not share
            explained = max(self.earlier_error.share if follows_earlier(self) else 0.0, self.bent_share)
            noise = min(noise, self.rms * float(np.sqrt(max(1 - explained, 0.0))))
        return float(np.sqrt(max(self.rms**2 - noise**2, 0.0)) / s.signal_std)

    @property
    def far_out(self) -> int:
        """Samples that a robust judgement draws in: they count as no farther than its limit."""
        return int(np.sum(np.abs(self.residuals - draw_in_outliers(self.residuals, self.std)) > 0))

    @property
    def linear_is_better(self) -> bool:
        return bool(np.isfinite(self.linear_rms) and self.linear_rms < LINEAR_BETTER * self.rms)


def follows_nothing(fit: SignalFit) -> bool:
    """Whether what is left may be slow noise: much of it is new at each sample, and nothing of it follows input or motion."""
    return fit.statistics.innovation >= LEAST_INNOVATION and fit.model_error.log10_p > UNRELATED_LOG10_P


def follows_something(fit: SignalFit) -> bool:
    """Whether much of white residuals follows input or motion, as of coarse samples; what is far below the noise is none."""
    return follows_earlier(fit) or fit.bent_share > 0


def follows_earlier(fit: SignalFit) -> bool:
    """The same of what was before each sample."""
    return fit.earlier_error.log10_p <= UNRELATED_LOG10_P and fit.earlier_error.share >= FOLLOWS_SHARE


def misses_a_constant(fit: SignalFit) -> bool:
    """Whether a signal that never moves is missed by more than its noise, or by much of its size where no noise is given."""
    if fit.chi_square is not None:
        return fit.chi_square > chi_square_limit(fit.statistics, fit.unknowns)
    return fit.statistics.rms > SMALL_REMAINDER * float(np.nanmax(np.abs(fit.measured)))


def shows_a_line_alone(fit: SignalFit) -> bool:
    """Whether what is left over, no less than beside a straight line, is white and follows nothing: no model leaves less."""
    s = fit.statistics
    white = is_white(s, fit.unknowns) and s.memory <= MEMORY_WHITE + 6 / s.samples  # coarse samples of a swing have a memory
    return bool(white) and not fit.model_error.log10_p <= UNRELATED_LOG10_P and not follows_something(fit)


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


def expected_size(fit: SignalFit) -> bool:
    """Whether what is left over is no larger than the given noise lets expect, and not so small that the std proves nothing."""
    chi = fit.chi_square
    return chi is not None and CHI_SQUARE_TOO_SMALL <= chi <= chi_square_limit(fit.statistics, fit.unknowns)


def grade_signal(fit: SignalFit) -> Judged:
    """Of a signal that was fitted."""
    if (early := _unjudged(fit)) is not None:
        return early
    s = fit.statistics
    if without_noise(fit):
        return Grade.NOISE, Cause.EXACT
    enough = s.samples >= FEW_SAMPLES or fit.hidden_by_rounding <= HIDDEN_ERROR
    if s.rms <= QUANTISATION_SHARE * s.quantisation and enough:
        return Grade.NOISE, Cause.RESOLUTION
    if s.rms <= EXACT_REMAINDER * s.signal_std and is_white(fit.statistics, fit.unknowns) is not False:
        return Grade.NOISE, Cause.NONE
    better_than_line = s.rms < NAIVE_SHARE * s.line_rms or s.rms < TREND_SHARE * s.signal_std
    judged = _with_given_noise(fit, better_than_line) if fit.std is not None else _without_noise(fit, better_than_line)
    return _by_size(fit) if judged is None else judged


def _unjudged(fit: SignalFit) -> Judged | None:
    s = fit.statistics
    if not np.all(np.isfinite(fit.model[np.isfinite(fit.measured)])):
        return Grade.NOT, Cause.DIVERGES
    if s.samples < FEWEST_SAMPLES or fit.free < FEWEST_FREE:
        return Grade.UNJUDGED, Cause.FEW_DATA
    if not s.signal_std > 0:
        return (Grade.NOT if misses_a_constant(fit) else Grade.UNJUDGED), Cause.STANDS_STILL
    if fit.noise_std is not None and fit.noise_std > s.signal_std:
        return Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL
    return None


def _with_given_noise(fit: SignalFit, better_than_line: bool) -> Judged | None:
    """Where size and whiteness say noise; None where they do not."""
    s, chi, white = fit.statistics, fit.chi_square, fit.white
    assert chi is not None
    expected, few = chi <= chi_square_limit(fit.statistics, fit.unknowns), s.samples < FEW_SAMPLES
    if expected and white and not few and not follows_something(fit):
        return Grade.NOISE, Cause.NOISE_TOO_LARGE if chi < CHI_SQUARE_TOO_SMALL else Cause.NONE
    if few and expected_size(fit):
        tells = bool(white) and fit.hidden_error <= HIDDEN_ERROR and not follows_something(fit)
        return (Grade.NOISE, Cause.NONE) if tells else (Grade.UNJUDGED, Cause.FEW_DATA)
    if expected and s.samples >= FEWEST_FOR_SLOW_NOISE and chi >= CHI_SQUARE_SLOW_LEAST and follows_nothing(fit):
        return (Grade.SLOW_NOISE if chi <= CHI_SQUARE_SLOW else Grade.SLOW_REMAINDER), Cause.SLOW_NOISE
    enough = s.samples >= FEWEST_FOR_OTHER_NOISE
    if not expected and white and enough and better_than_line and not follows_something(fit):
        return Grade.OTHER_NOISE, Cause.OUTLIERS if fit.kurtosis > OUTLIER_KURTOSIS else Cause.NOISE_TOO_SMALL
    if (fit.pooled or not enough) and white is not False and fit.systematic_share <= ROUGH_REMAINDER:
        return Grade.UNJUDGED, Cause.FEW_DATA  # white enough, but not of the given size
    return None


def _without_noise(fit: SignalFit, better_than_line: bool) -> Judged | None:
    white, few = fit.white, fit.statistics.samples < (FEWEST_FOR_OTHER_NOISE if fit.pooled else FEW_SAMPLES)
    if white and not few and better_than_line and not follows_something(fit):
        return Grade.NOISE, Cause.OUTLIERS if fit.kurtosis > OUTLIER_KURTOSIS else Cause.NONE
    if (few or fit.pooled) and white is not False and fit.systematic_share <= ROUGH_REMAINDER:
        return Grade.UNJUDGED, Cause.FEW_DATA
    return None


def _by_size(fit: SignalFit) -> Judged:
    """What is no noise, by its size against the signal."""
    s, share = fit.statistics, fit.systematic_share
    why = Cause.STRUCTURE if fit.linear_is_better else Cause.STRUCTURE_OR_MINIMUM
    like_a_line = s.rms > NAIVE_SHARE * s.line_rms
    if like_a_line and shows_a_line_alone(fit):
        return Grade.UNJUDGED, Cause.STRAIGHT_LINE
    if share > ROUGH_REMAINDER or (like_a_line and not fit.model_error.log10_p > UNRELATED_LOG10_P):
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
    cause: Cause = Cause.NONE


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
        slow = known.grade is Grade.SLOW_REMAINDER and known.cause is not Cause.NOISE_GUESSED  # a new record confirms a guess
        return (Grade.SLOW_REMAINDER, Cause.SLOW_NOISE) if slow else (Grade.NOISE, Cause.NONE)
    share = validation_share(fit, noise)
    worse = Cause.NOT_CARRIED_OVER if known.grade in NOISE_GRADES or s.rms > 3 * known.rms else Cause.STRUCTURE_OR_MINIMUM
    if share > ROUGH_REMAINDER or s.rms > NAIVE_SHARE * s.line_rms:
        return Grade.NOT, worse
    missed = known.grade in (Grade.ROUGH, Grade.NOT) and known.cause is Cause.STRUCTURE
    if missed and share > SMALL_REMAINDER_LINEAR and misses_an_effect(fit):  # as on the fitted record
        return Grade.ROUGH, Cause.STRUCTURE
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
    if "model_error" in computed and not fit.shared:
        found |= {"model_error_log10_p": fit.model_error.log10_p, "model_error_share": fit.model_error.share}
    if "earlier_error" in computed and not fit.shared:
        found |= {"earlier_error_log10_p": fit.earlier_error.log10_p, "earlier_error_share": fit.earlier_error.share}
    if "linear_rms" in computed:
        found["linear_rms"] = fit.linear_rms
    return {name: float(number) for name, number in found.items() if np.isfinite(number)}
