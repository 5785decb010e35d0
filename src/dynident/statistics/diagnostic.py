"""Diagnostic: one thing that was noticed before a fit, as a code that a program branches on and as words with advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dynident._util.data_classes import short_text

SEVERITIES = ("error", "warning", "info")


class DiagnosticCode(StrEnum):
    """What `check` can find."""

    # identifiability
    UNIDENTIFIABLE = "unidentifiable"  # of several unknowns only a combination shows
    NO_EFFECT = "no_effect"  # nothing measured depends on it
    STRUCTURALLY_UNIDENTIFIABLE = "structurally_unidentifiable"  # no input can tell
    NOT_EXCITED = "not_excited"  # another input could tell: this one lacks persistent excitation
    NOT_EXCITED_BY_START = "not_excited_by_start"  # the same without inputs: another initial state, or longer
    ZERO_SENSITIVITY = "zero_sensitivity"  # at the start alone
    UNIDENTIFIABLE_AT_START = "unidentifiable_at_start"
    START_GROWS = "start_grows"  # the begin of the record is hidden by its end
    START_DIVERGES = "start_diverges"  # nothing can be said of the start
    PIECEWISE_CONSTANT = "piecewise_constant"  # zero derivative, but an effect
    COLLINEAR = "collinear"
    POORLY_DETERMINED = "poorly_determined"
    # the question
    INFEASIBLE_CONSTRAINTS = "infeasible_constraints"
    PERHAPS_INFEASIBLE_CONSTRAINTS = "perhaps_infeasible_constraints"
    START_AT_BOUND = "start_at_bound"
    NO_SCALE = "no_scale"
    SCALE_OFF = "scale_off"
    WIDE_BOUNDS = "wide_bounds"
    FEW_DATA = "few_data"
    FAR_START = "far_start"
    # the records
    SHORT_RECORD = "short_record"
    TIME_GAPS = "time_gaps"
    UNEVEN_SAMPLING = "uneven_sampling"
    SAMPLE_NUMBERS = "sample_numbers"
    MILLISECONDS = "milliseconds"
    COARSE_SAMPLING = "coarse_sampling"
    CONSTANT_INPUT = "constant_input"
    WEAK_INPUT = "weak_input"
    SINGLE_STEP = "single_step"
    NOTHING_MEASURED = "nothing_measured"
    MISSING_SAMPLES = "missing_samples"
    MOSTLY_MISSING = "mostly_missing"
    CONSTANT_OUTPUT = "constant_output"
    NOISE_ABOVE_SIGNAL = "noise_above_signal"
    QUANTISED = "quantised"
    CLIPPED = "clipped"
    SPIKES = "spikes"


# Per code its severity, its sentence and what to do about it; both are filled in with the facts of the case.
TEMPLATES: Mapping[DiagnosticCode, tuple[str, str, str]] = {
    DiagnosticCode.UNIDENTIFIABLE: (
        "error", "{combination}",
        "Fix one of them (free=False), give it a prior, or measure something that tells them apart."),
    DiagnosticCode.NO_EFFECT: (
        "error", "{combination}", "Fix it (free=False), or excite the part of the model in which it acts."),
    DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE: (
        "error", "{combination}", "Structurally unidentifiable: {no}. {advice}"),
    DiagnosticCode.NOT_EXCITED: (
        "error", "{combination}",
        "Not excited by this record: the model would show it with another input, which di.design_input (dynident design) "
        "finds. Until then fix it (free=False)."),
    DiagnosticCode.NOT_EXCITED_BY_START: (
        "error", "{combination}",
        "Not excited by this record: the model would show it from another initial state, over another time, or sampled "
        "faster. Until then fix it (free=False)."),
    DiagnosticCode.ZERO_SENSITIVITY: (
        "warning", "zero sensitivity at {starts}: nothing measured changes with {it} there, though elsewhere it does",
        "Start {movers} somewhere else: this is a place where its derivative vanishes, as that of a**2 at 0."),
    DiagnosticCode.UNIDENTIFIABLE_AT_START: (
        "error", "they cannot be told apart at {starts}, to first order, though elsewhere they can",
        "It is a property of this start: start {movers} somewhere else, each at its own place."),
    DiagnosticCode.START_DIVERGES: (
        "warning", "a simulation of the whole record leaves the finite numbers at these values, so that what the record "
        "determines was not judged", "Start elsewhere, or narrow the bounds; the default method begins from the measurements."),
    DiagnosticCode.START_GROWS: (
        "warning", "a run from these values grows so much over the record that its end hides its begin (the sensitivities span "
        "{decades:.0f} decades)", "Start where the model is stable; the default method cuts the record into segments."),
    DiagnosticCode.PIECEWISE_CONSTANT: (
        "error", "piecewise constant effect (zero derivative): what is measured depends on it in jumps only, and every method "
        "that uses derivatives leaves it where it starts", "{ways_out}."),
    DiagnosticCode.COLLINEAR: (
        "warning", "they are hard to tell apart around the start: their effects nearly cancel (collinearity index {index:.3g})",
        "Expect wide intervals for each and a narrow one for their combination; other excitation helps."),
    DiagnosticCode.POORLY_DETERMINED: (
        "warning", "with these data the standard deviation exceeds the start value or scale around the start ({times})",
        "More data, more excitation or a prior would help."),
    DiagnosticCode.INFEASIBLE_CONSTRAINTS: (
        "error", "infeasible constraints: no values within the bounds meet all of them; at best this one is off by "
        "{violation:.3g}", "Correct a constraint or a bound; a fit would not converge."),
    DiagnosticCode.PERHAPS_INFEASIBLE_CONSTRAINTS: (
        "warning", "perhaps infeasible constraints: no values within the bounds were found that meet all of them; at best this "
        "one is off by {violation:.3g}", "Correct a constraint or a bound; a fit would not converge."),
    DiagnosticCode.START_AT_BOUND: (
        "warning", "it starts on its {side} bound {bound:g}", "Start inside, so that the first step can go both ways."),
    DiagnosticCode.NO_SCALE: ("info", "it starts at 0, so nothing tells its typical size", "Give scale=... or bounds."),
    DiagnosticCode.SCALE_OFF: (
        "warning", "scale = {scale:g} and start = {start:g} are orders of magnitude apart",
        "The scale is the value's typical magnitude; correct one."),
    DiagnosticCode.WIDE_BOUNDS: ("info", "its bounds span {decades:.0f} decades", "log=True searches such a range evenly."),
    DiagnosticCode.FEW_DATA: (
        "warning", "{data} measured values for {unknowns} unknowns",
        "Measure more or fix some unknowns; the intervals will lean on the assumed noise."),
    DiagnosticCode.FAR_START: (
        "info", "at the start the model misses the data by {rms:.2g} noise standard deviations",
        "It may be far from the answer, or the noise std too small; the default method tries several ways from far away."),
    DiagnosticCode.SHORT_RECORD: (
        "warning", "the record has only {samples} samples",
        "Measure longer or sample faster; intervals from so few samples rest on the assumed noise."),
    DiagnosticCode.TIME_GAPS: (
        "warning", "{gaps} gap{s}; the largest lasts {longest:.4g} after t = {time:.6g}, where the usual step is {step:.4g}",
        "Inputs are held across it. Split the record there if they were not constant."),
    DiagnosticCode.UNEVEN_SAMPLING: (
        "info", "{percent:.0f} % of the steps differ from the usual {step:.4g}",
        "This is allowed. Autocorrelation of residuals is counted in samples, not in time."),
    DiagnosticCode.SAMPLE_NUMBERS: (
        "info", "it counts 1, 2, 3, ...: is it a sample number instead of seconds?",
        "Multiply by the sampling time if so; every rate depends on it."),
    DiagnosticCode.MILLISECONDS: (
        "info", "whole numbers in steps of {step:g}: is it in milliseconds?",
        "Divide by 1000 if so; every rate depends on it."),
    DiagnosticCode.COARSE_SAMPLING: (
        "warning", "it swings once in {period:.1f} samples",
        "Sample faster, or make sure that `hold` says how the inputs move between samples."),
    DiagnosticCode.CONSTANT_INPUT: (
        "warning", "the input stays at {value:.4g} throughout",
        "It excites nothing: what the model does at other values of it does not show."),
    DiagnosticCode.WEAK_INPUT: (
        "warning", "the input moves by only {percent:.2g} % of its mean", "Excite more, or subtract what does not matter."),
    DiagnosticCode.SINGLE_STEP: (
        "info", "the input changes once (a single step)",
        "Several steps or a sweep would tell time constants and gains apart better."),
    DiagnosticCode.NOTHING_MEASURED: (
        "warning", "no sample was measured", "Leave the signal out, or check the column."),
    DiagnosticCode.MISSING_SAMPLES: (
        "info", "{missing} of {samples} samples are missing", "They are left out of the fit."),
    DiagnosticCode.MOSTLY_MISSING: (
        "warning", "{missing} of {samples} samples are missing", "They are left out of the fit."),
    DiagnosticCode.CONSTANT_OUTPUT: (
        "warning", "the signal stays at {value:.4g}: a dead channel?",
        "It tells nothing about the dynamics; leave it out if the sensor was off."),
    DiagnosticCode.NOISE_ABOVE_SIGNAL: (
        "warning", "the given noise std {std:.3g} exceeds the signal's own {signal_std:.3g}",
        "Nothing can be seen below the noise; check the unit of the std."),
    DiagnosticCode.QUANTISED: (
        "warning", "the record is quantised at {step:.3g}, so the std of its error is at least {least:.2g}, but {std:.2g} is "
        "given", "Give at least {least:.2g}, or leave the std to be estimated."),
    DiagnosticCode.CLIPPED: (
        "warning", "it looks clipped: {samples} samples in {stretches} stretches stand at its {end} value, {limit:.4g}",
        "Set them to NaN: there the sensor shows its own limit and not the machine."),
    DiagnosticCode.SPIKES: (
        "warning", "{count} lone sample{sticks} out, the first at t = {time:.6g}",
        "Set them to NaN if the sensor failed, or use a robust loss; nothing is dropped by itself."),
}


@dataclass(frozen=True)
class Diagnostic:
    """`error`: a fit would not give what is asked; `warning`: it may mislead; `info`: worth knowing."""

    code: DiagnosticCode
    severity: str
    names: tuple[str, ...]  # the unknowns, or the record and its signal
    sentence: str
    advice: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)  # what the sentence says, as numbers

    @classmethod
    def of(cls, code: DiagnosticCode, names: Sequence[str], **facts: Any) -> Diagnostic:
        """The template of a code, filled in."""
        severity, sentence, advice = TEMPLATES[code]
        numbers = {key: float(value) for key, value in facts.items() if not isinstance(value, str)}
        return cls(code, severity, tuple(names), sentence.format(**facts), advice.format(**facts), numbers)

    @property
    def subject(self) -> str:
        """Of what it speaks."""
        return ", ".join(self.names)

    def __str__(self) -> str:
        dot = "" if self.sentence.endswith("?") else "."
        return f"{self.severity:<8}{self.subject}: {self.sentence}{dot}{f' {self.advice}' if self.advice else ''}"


@dataclass(frozen=True)
class Check:
    """What `check` found before a fit, most severe first.

    See the manual, howto/check.

    Attributes
    ----------
    findings : tuple of Diagnostic
        Each with a `code`, a `severity` ("error", "warning" or "info"), the names that it is about, a sentence and advice.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> found = di.check(di.Problem(decay, [record], [di.Parameter("k", start=1)]))
    >>> found.ok, [str(code) for code in found.codes]
    (True, ['few_data', 'short_record'])
    """

    findings: tuple[Diagnostic, ...]

    def __repr__(self) -> str:
        return short_text(self)

    @property
    def ok(self) -> bool:
        """Whether no finding is of severity "error", so that nothing stands in the way of a fit."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def codes(self) -> tuple[DiagnosticCode, ...]:
        """Of all findings, in their order."""
        return tuple(finding.code for finding in self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return "Nothing stands in the way of a fit: the data determine all unknowns around the start."
        counts = [(sum(f.severity == s for f in self.findings), s) for s in SEVERITIES]
        head = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for n, s in counts if n)
        return "\n".join([f"{head}:", *map(str, self.findings)])
