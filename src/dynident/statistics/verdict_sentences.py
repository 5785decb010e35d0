"""Verdict sentences: how is a grade said, with the numbers that were checked for it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dynident._util.prefixes import quantity
from dynident.statistics.verdict import Cause, Grade, Verdict
from dynident.statistics.verdict_rule import (
    FEWEST_FOR_SLOW_NOISE,
    NoiseOfFit,
    SignalFit,
    expected_size,
    grade_signal,
    grade_validation,
    misses_an_effect,
    rule_numbers,
)
from dynident.tolerances import HIDDEN_ERROR, UNRELATED_LOG10_P

ROBUST = 'Use a robust loss (loss = "huber"), or leave them out'


def judge_signal(fit: SignalFit) -> Verdict:
    """Grade, cause and sentence of one signal that was fitted."""
    grade, cause = grade_signal(fit)
    sentence = FITTED.get((grade, cause)) or FITTED[grade]
    return Verdict(grade, sentence(fit), cause, rule_numbers(fit), fit.subject)


def judge_validation(fit: SignalFit, known: NoiseOfFit) -> Verdict:
    """The same of a record that was not fitted."""
    grade, cause = grade_validation(fit, known)
    sentence = VALIDATED.get((grade, cause)) or VALIDATED[grade]
    times = {"times_error_of_fit": fit.statistics.rms / known.rms} if known.rms > 0 and np.isfinite(fit.statistics.rms) else {}
    return Verdict(grade, sentence(fit, known), cause, {**rule_numbers(fit), **times}, fit.subject)


def percent(share: float) -> str:
    """A share of the signal, as far as anyone reads it."""
    if not np.isfinite(share) or share > 10:
        return "more than 1000 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"


def amount(value: float, unit: str = "", beside: float = 0.0) -> str:
    """With its unit, the same for both where it stands beside what it is compared with."""
    return quantity(value, unit, beside=(beside,))


def times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:.0f}"


def _rms(fit: SignalFit, beside: float | None = None) -> str:
    return f"rms {amount(fit.rms, fit.unit, beside or 0.0)}"


def _of_signal(fit: SignalFit) -> float:
    return fit.rms / fit.statistics.signal_std if fit.statistics.signal_std > 0 else np.inf


def _beside_rms(fit: SignalFit, value: float) -> str:
    """What a rms is compared with, in the same unit."""
    return amount(value, fit.unit, fit.rms)


def _given(fit: SignalFit) -> str:
    return _beside_rms(fit, fit.noise_std or 0.0)


def _count(fit: SignalFit) -> str:
    samples, unknowns = fit.statistics.samples, round(fit.unknowns)
    if not unknowns:
        return f"{samples} samples"
    return f"{samples} samples for {unknowns} unknown{'' if unknowns == 1 else 's'}"


def _to_the_noise(fit: SignalFit) -> str:
    if fit.std is not None:
        drawn = f", with {fit.far_out} samples that stick out drawn in" if fit.robust and fit.far_out else ""
        return (f"Describes the record to the noise: what is left over, {_rms(fit, fit.noise_std)}, is what the given std "
                f"{_given(fit)} lets expect (reduced chi-square {fit.chi_square:.2f}{drawn}).")
    return (f"Describes the record to the noise: what is left over, {_rms(fit)} or {percent(_of_signal(fit))} of the signal, "
            "is white and is taken for the noise.")


def _outliers(fit: SignalFit) -> str:
    size = "" if fit.noise_std is None else f", {times(fit.rms / fit.noise_std)} times the given std"
    return (f"Describes the record, but for samples that stick out: {_rms(fit)}{size}, with an excess kurtosis of "
            f"{fit.kurtosis:.0f} where noise has 0. {ROBUST}.")


def _blamed_rms(fit: SignalFit) -> str:
    """In the unit of what a linear black box leaves, where that is said."""
    return _rms(fit, fit.linear_rms if fit.linear_is_better or misses_an_effect(fit) else None)


def _systematic(fit: SignalFit) -> str:
    """What the numbers say about the remainder, beyond its size."""
    said = []
    if np.isfinite(fit.model_error.log10_p) and fit.model_error.log10_p < -3:
        said.append("it follows the input or the motion")
    if fit.linear_is_better or misses_an_effect(fit):
        less = "less" if fit.linear_is_better else "no more"
        said.append(f"a linear black box of the same order leaves {less}, {_beside_rms(fit, fit.linear_rms)}")
    return f" ({'; '.join(said)})" if said else ""


def _is_systematic(fit: SignalFit) -> str:
    """Short records do not tell slow noise from an error of the model, unless that follows something."""
    if fit.statistics.samples >= FEWEST_FOR_SLOW_NOISE or fit.model_error.log10_p <= UNRELATED_LOG10_P:
        return "is systematic"
    return "looks systematic: so few samples do not tell an error of the model from slow noise or chance"


def _few(fit: SignalFit) -> str:
    if expected_size(fit) and fit.hidden_error > HIDDEN_ERROR:
        return (f"Cannot be told from the noise: what is left over, {_rms(fit, fit.noise_std)}, is what the given std "
                f"{_given(fit)} lets expect (reduced chi-square {fit.chi_square:.2f}), but {_count(fit)} would hide an error "
                f"of up to {times(fit.hidden_error)} times that std. Give more samples.")
    follows = f"; the model follows them within {percent(_of_signal(fit))} of the signal" if np.isfinite(fit.rms) else ""
    out = "Give the noise's std, or more samples." if fit.std is None else "Give more samples."
    return f"Cannot be judged: {_count(fit)} do not tell noise from error{follows}. {out}"


def _slow_remainder(fit: SignalFit) -> str:
    """Where its white part is all of it in size, the slow one is known by its correlation only."""
    share = fit.systematic_share
    size = (f" of {percent(share)} of the signal ({_rms(fit)})" if share > 0
            else f", too small to be sized beside the white part of what is left over ({_rms(fit)}),")
    return (f"Describes the record but for a slow remainder{size} that no test ties to input or motion: slow noise, or a small "
            "error of the model. Intervals allow for slow noise.")


FITTED: Mapping[Grade | tuple[Grade, Cause], Callable[[SignalFit], str]] = {
    Grade.NOISE: _to_the_noise,
    (Grade.NOISE, Cause.EXACT): lambda fit: (
        f"Describes the record exactly: what is left over, {_rms(fit)}, is the error of the simulation; this record holds no "
        "noise."),
    (Grade.NOISE, Cause.RESOLUTION): lambda fit: (
        f"Describes the record to its resolution: what is left over, {_rms(fit, fit.statistics.quantisation)}, is the rounding "
        f"to steps of {_beside_rms(fit, fit.statistics.quantisation)}."),
    (Grade.NOISE, Cause.NOISE_TOO_LARGE): lambda fit: (
        f"Describes the record to the noise, which is {times((fit.noise_std or 0.0) / max(fit.rms, 1e-300))} times smaller "
        f"than given: {_rms(fit, fit.noise_std)}, given {_given(fit)}."),
    (Grade.NOISE, Cause.OUTLIERS): _outliers,
    (Grade.OTHER_NOISE, Cause.OUTLIERS): _outliers,
    Grade.OTHER_NOISE: lambda fit: (
        f"Describes the record to the noise, but the noise is {times(fit.rms / (fit.noise_std or 1.0))} times the given std: "
        f"{_rms(fit, fit.noise_std)}, given {_given(fit)}. What is left over is white; intervals go by it. State that std, or "
        "none."),
    Grade.SLOW_NOISE: lambda fit: (
        f"Describes the record to noise of the given size (reduced chi-square {fit.chi_square:.2f}); the noise is slow, "
        f"neighbours correlate by {fit.statistics.lag_one:.2f}, and intervals allow for it."),
    Grade.SLOW_REMAINDER: _slow_remainder,
    Grade.SMALL_REMAINDER: lambda fit: (
        f"Describes the record but for {percent(fit.systematic_share)} of the signal ({_blamed_rms(fit)}), which "
        f"{_is_systematic(fit)}{_systematic(fit)}. Intervals do not cover that error."),
    Grade.ROUGH: lambda fit: (
        f"Describes the record roughly: {percent(fit.systematic_share)} of the signal ({_blamed_rms(fit)}) is not "
        f"explained{_systematic(fit)}. Take the values as a start; intervals are withheld."),
    Grade.NOT: lambda fit: (
        f"Does NOT describe the record: the error, {_blamed_rms(fit)}, is {percent(_of_signal(fit))} of the signal; a straight "
        f"line errs by {percent(fit.statistics.line_rms / fit.statistics.signal_std)}{_systematic(fit)}."),
    (Grade.NOT, Cause.DIVERGES): lambda fit: (
        "Does NOT describe the record: simulated with these values, the model leaves the finite numbers. Narrow the bounds, or "
        "choose other start values."),
    (Grade.NOT, Cause.STANDS_STILL): lambda fit: (
        f"Does NOT describe the record: the measured signal never moves, and the model is off by {_rms(fit)}."),
    Grade.UNJUDGED: _few,
    (Grade.UNJUDGED, Cause.STRAIGHT_LINE): lambda fit: (
        f"Cannot be judged: what the model leaves over, {_rms(fit, fit.statistics.line_rms)}, is white, and a straight line "
        f"leaves no more, {_beside_rms(fit, fit.statistics.line_rms)}: this record shows no motion but a straight line in "
        "noise. Move the system more, or measure it longer."),
    (Grade.UNJUDGED, Cause.STANDS_STILL): lambda fit: (
        "Cannot be judged: the measured signal never moves. Give a record in which it does."),
    (Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL): lambda fit: (
        f"Cannot be judged: the given noise std {amount(fit.noise_std or 0.0, fit.unit, fit.statistics.signal_std)} exceeds "
        f"the signal's own {amount(fit.statistics.signal_std, fit.unit, fit.noise_std or 0.0)}. Correct the std, or give a "
        "record that moves more."),
}


def _new_rms(fit: SignalFit, beside: float = 0.0) -> str:
    return f"rms error {amount(fit.statistics.rms, fit.unit, beside)}"


def _new_share(fit: SignalFit) -> str:
    return percent(fit.statistics.rms / fit.statistics.signal_std)


def _beside_fit(fit: SignalFit, known: NoiseOfFit) -> str:
    if not known.rms > 0:
        return ""
    ratio = times(fit.statistics.rms / known.rms)
    return ", as large as the error of the fit" if ratio == "1" else f", {ratio} times the error of the fit"


VALIDATED: Mapping[Grade | tuple[Grade, Cause], Callable[[SignalFit, NoiseOfFit], str]] = {
    Grade.NOISE: lambda fit, known: (
        f"Predicts this record to the noise: {_new_rms(fit)}, {_new_share(fit)} of the signal{_beside_fit(fit, known)}."),
    (Grade.NOISE, Cause.EXACT): lambda fit, known: (
        f"Predicts this record exactly: {_new_rms(fit)}, the error of the simulation."),
    (Grade.NOISE, Cause.RESOLUTION): lambda fit, known: (
        f"Predicts this record to its resolution: {_new_rms(fit, fit.statistics.quantisation)}, with steps of "
        f"{amount(fit.statistics.quantisation, fit.unit, fit.statistics.rms)}."),
    Grade.SLOW_REMAINDER: lambda fit, known: (
        f"Predicts this record as well as the fitted one: {_new_rms(fit)}, {_new_share(fit)} of the "
        f"signal{_beside_fit(fit, known)}; slow noise, or a small error of the model."),
    Grade.SMALL_REMAINDER: lambda fit, known: (
        f"Predicts this record within {_new_share(fit)} of the signal: {_new_rms(fit)}{_beside_fit(fit, known)}."),
    Grade.ROUGH: lambda fit, known: (
        f"Predicts this record roughly, within {_new_share(fit)} of the signal: {_new_rms(fit)}{_beside_fit(fit, known)}."),
    Grade.NOT: lambda fit, known: (
        f"Does NOT predict this record: the error is {_new_share(fit)} of the signal (a straight line: "
        f"{percent(fit.statistics.line_rms / fit.statistics.signal_std)}){_beside_fit(fit, known)}."),
    (Grade.ROUGH, Cause.STRUCTURE): lambda fit, known: (
        f"Predicts this record roughly, within {_new_share(fit)} of the signal: {_new_rms(fit, fit.linear_rms)}"
        f"{_beside_fit(fit, known)}. The model, with these values, misses an effect: as in the fit, graded {known.grade}, the "
        f"error follows the input or the motion, and a linear black box of the same order, fitted to this record, leaves "
        f"{'less' if fit.linear_is_better else 'no more'}: {amount(fit.linear_rms, fit.unit, fit.statistics.rms)}."),
    (Grade.NOT, Cause.DIVERGES): lambda fit, known: (
        "Does NOT predict this record: with the fitted values the model leaves the finite numbers. Look at its inputs and "
        "at its initial state, or fit this record as well."),
    Grade.UNJUDGED: lambda fit, known: f"Cannot be judged: {fit.statistics.samples} samples are too few. Give a longer record.",
    (Grade.UNJUDGED, Cause.STANDS_STILL): lambda fit, known: FITTED[Grade.UNJUDGED, Cause.STANDS_STILL](fit),
    (Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL): lambda fit, known: (
        f"Cannot be judged: this record moves by {amount(fit.statistics.signal_std, fit.unit)} only, hardly more than the "
        "noise. Give one that moves more."),
}
