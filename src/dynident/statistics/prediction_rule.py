"""Prediction rule: which grade do the innovations of a record deserve that was not fitted, and why?

Asked at the values and the noises of the fit. A right filter's innovations are white, as large as foreseen and independent of
all that was known before them, whatever a simulation of the whole record does. Where they are not, what counts is how much
worse the record is predicted some samples ahead than the noises alone explain. Errors of the fitted values make a part of the
innovations: so much as their covariance foresees is no fault of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.statistics.model_error_model import ModelErrorTest
from dynident.statistics.residual_statistics import CORRELATED
from dynident.statistics.verdict import Cause, Grade, Verdict
from dynident.statistics.verdict_rule import FEWEST_SAMPLES, NOISE_GRADES, SignalFit, rule_numbers
from dynident.statistics.verdict_sentences import amount, percent, times
from dynident.tolerances import (
    AHEAD_WORSE,
    AS_IN_THE_FIT_LOG10_P,
    FOLLOWS_SHARE,
    LAG_ONE_WHITE,
    MEMORY_WHITE,
    ROUGH_REMAINDER,
    SMALL_REMAINDER,
    VALIDATION_SAME,
)

LIKE_FORESEEN = 1.25  # times: a size is called as foreseen up to here, and its ratio is said beyond


@dataclass(frozen=True)
class Ahead:
    """What is predicted some samples ahead of one signal, all relative to the signal; NaN where nothing is known."""

    samples: int
    error: float
    of_noise: float  # what the error on the fitted record, if that was described to the noise, lets expect of the noises alone
    held: float  # the error of the last value held

    @property
    def excess(self) -> float:
        """What the noises do not explain."""
        of_noise = self.of_noise if np.isfinite(self.of_noise) else 0.0
        return float(np.sqrt(max(self.error**2 - of_noise**2, 0.0)))


@dataclass(frozen=True, eq=False)
class PredictedSignal:
    """Innovations of one signal of a record that was not fitted, and all that the rule asks about it."""

    fit: SignalFit  # its `std` is what the filter foresaw
    tests: Sequence[tuple[ModelErrorTest, float]]  # whether they follow what was known before, each with the limit of log10 p
    unsure: float  # mean square that errors of the fitted values may add, over the foreseen
    ahead: Ahead
    simulated: float  # the error of a simulation of the whole record, relative to the signal
    grade_of_fit: Grade
    suspected: bool  # the fit showed that the model misses an effect
    guessed: Sequence[str] = ()  # noises that nobody stated

    def white(self, unsure: float = 0.0) -> bool:
        s = self.fit.statistics
        chance = max(LAG_ONE_WHITE, CORRELATED / np.sqrt(s.samples))  # short records have neighbours alike by chance
        return bool(s.memory <= MEMORY_WHITE + 6 / s.samples + unsure and abs(s.lag_one) <= chance + unsure)

    def follows(self, unsure: float = 0.0) -> float:
        """log10 p of the clearest test that says that they follow input or motion; 0 where none does."""
        clear = [test.log10_p for test, limit in self.tests if test.share > unsure and test.log10_p <= limit]
        clear += [test.log10_p for test, _ in self.tests if self.suspected and test.log10_p <= AS_IN_THE_FIT_LOG10_P]
        return min(clear, default=0.0)

    @property
    def times_foreseen(self) -> float:
        return float(np.sqrt(self.fit.chi_square or 0.0))

    def as_large(self, unsure: float = 0.0) -> bool:
        return (self.fit.chi_square or 0.0) <= VALIDATION_SAME**2 + unsure

    def nothing_found(self, unsure: float = 0.0) -> bool:
        """Whether they are all that a right filter's are, but for what errors of the fitted values may add."""
        return self.white(unsure) and not self.follows(unsure) and self.as_large(unsure)

    @property
    def words(self) -> str:
        """What is predicted farther ahead; how far a simulation of the whole record is off is said, and decides nothing."""
        ahead, simulated = self.ahead, "has no finite error" if not np.isfinite(self.simulated) else (
            f"errs by {percent(self.simulated)}")
        farther = "" if not np.isfinite(ahead.held) else (
            f"{ahead.samples} samples ahead it errs by {percent(ahead.error)} of the signal, the last value held by "
            f"{percent(ahead.held)}. ")
        return f"{farther}(Simulated over the whole record it {simulated}, which does not count.)"


def judge_prediction(signal: PredictedSignal) -> Verdict:
    """Grade, cause and sentence of one signal."""
    grade, cause = grade_prediction(signal)
    ahead = {"ahead_samples": signal.ahead.samples, "ahead_share": signal.ahead.error, "ahead_of_noise": signal.ahead.of_noise,
             "held_share": signal.ahead.held}
    numbers = {**rule_numbers(signal.fit), "unsure": signal.unsure, "simulated_share": signal.simulated,
               "innovation_log10_p": signal.follows(), **ahead}
    return Verdict(grade, _sentence(signal, grade, cause), cause,
                   {name: float(number) for name, number in numbers.items() if np.isfinite(number)}, signal.fit.subject)


def grade_prediction(signal: PredictedSignal) -> tuple[Grade, Cause]:
    s = signal.fit.statistics
    if not np.all(np.isfinite(signal.fit.model[np.isfinite(signal.fit.measured)])):
        return Grade.NOT, Cause.DIVERGES
    if s.samples < FEWEST_SAMPLES:
        return Grade.UNJUDGED, Cause.FEW_DATA
    if not s.signal_std > 0:
        return Grade.UNJUDGED, Cause.STANDS_STILL
    if not signal.ahead.error <= AHEAD_WORSE * signal.ahead.held and np.isfinite(signal.ahead.held):
        return (Grade.NOT if signal.ahead.excess > ROUGH_REMAINDER else Grade.ROUGH), Cause.NO_PREDICTION
    if signal.nothing_found(min(signal.unsure, FOLLOWS_SHARE)):
        confirmed = signal.simulated * s.signal_std <= VALIDATION_SAME * s.rms  # by a simulation, which needs no such noise
        return (Grade.SLOW_REMAINDER, Cause.NOISE_GUESSED) if signal.guessed and not confirmed else (Grade.NOISE, Cause.NONE)
    if signal.nothing_found(signal.unsure):
        return Grade.SLOW_REMAINDER, Cause.VALUES_UNSURE
    if signal.white() and not signal.follows() and signal.ahead.excess <= ROUGH_REMAINDER:
        return Grade.OTHER_NOISE, Cause.NOISE_TOO_SMALL
    why = Cause.NOT_CARRIED_OVER if signal.grade_of_fit in NOISE_GRADES else Cause.STRUCTURE
    if signal.ahead.excess > ROUGH_REMAINDER:
        return Grade.NOT, why
    return (Grade.ROUGH if signal.ahead.excess > SMALL_REMAINDER else Grade.SMALL_REMAINDER), why


def _sentence(signal: PredictedSignal, grade: Grade, cause: Cause) -> str:
    fit = signal.fit
    errors = f"errors one sample ahead, rms {amount(fit.statistics.rms, fit.unit)}"
    if cause is Cause.DIVERGES:
        return "Does NOT predict this record: with the fitted values the filter leaves the finite numbers."
    if cause is Cause.FEW_DATA:
        return f"Cannot be judged: {fit.statistics.samples} samples are too few. Give a longer record."
    if cause is Cause.STANDS_STILL:
        return "Cannot be judged: the measured signal never moves. Give a record in which it does."
    beside = f" {signal.words}"
    if cause is Cause.VALUES_UNSURE:
        return (f"Predicts this record as well as the fit knows its values: {errors}, {_found(signal)}, and errors of the "
                f"values within their intervals may be the reason. Fit a longer record, or this one as well.{beside}")
    if grade in (Grade.NOISE, Grade.SLOW_REMAINDER):
        guessed = (f" These rest on noise in {' and '.join(signal.guessed)}, which nobody stated: an error of the model may "
                   "hide in it.") if cause is Cause.NOISE_GUESSED else ""
        alike = 1 / LIKE_FORESEEN <= signal.times_foreseen <= LIKE_FORESEEN
        size = "as large" if alike else f"{times(signal.times_foreseen)} times as large"
        return (f"Predicts this record to the noise: {errors}, are white and {size} as the noises of the fit "
                f"foresee.{guessed}{beside}")
    if grade is Grade.OTHER_NOISE:
        return (f"Predicts this record, but for larger noise: {errors}, are white and {times(signal.times_foreseen)} times as "
                f"large as the noises of the fit foresee.{beside}")
    if cause is Cause.NO_PREDICTION:
        return f"Predicts this record from one sample to the next only: {errors}.{beside}"
    begin = {Grade.SMALL_REMAINDER: "Predicts this record, but not to the noise of the fit",
             Grade.ROUGH: "Predicts this record roughly", Grade.NOT: "Does NOT predict this record"}[grade]
    why = ("The model or its values do not hold here" if signal.follows() else
           "The noises are others here, or the model or its values do not hold")
    return f"{begin}: {errors}, {_found(signal)}. {why}.{beside}"


def _found(signal: PredictedSignal) -> str:
    """What speaks against the model or its values."""
    found = [] if signal.white() else ["are not white"]
    found += [f"follow the input or the motion (F test, p = 1e{signal.follows():.0f})"] if signal.follows() else []
    size = f"are {times(signal.times_foreseen)} times as large as the noises of the fit foresee"
    found += [] if signal.as_large() else [size]
    return " and ".join(found)
