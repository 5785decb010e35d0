"""Belief: is the end of a fit the right minimum, by what its open-loop residuals look like?

White residuals, or residuals of the size that was given, are noise: nothing is left to find. A slow remainder is either slow
noise or a small error of the model, or else a wrong minimum that happens to fit well; there the residuals alone cannot tell,
and independent routes have to agree. What is white in the order of time may still be a function of an input, a static
nonlinearity: so it is looked at in the order of each input, too. The thresholds were measured on 2,400 fits with known truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dynident.methods.open_loop import Residuals
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem, given_std
from dynident.statistics.distributions import chi_square_sf, normal_sf
from dynident.statistics.residual_statistics import (
    FEW_SAMPLES,
    ResidualStatistics,
    bent_by_input,
    chi_square_limit,
    is_white,
    residual_statistics,
)
from dynident.statistics.verdict_rule import FEWEST_FREE, FEWEST_SAMPLES
from dynident.tolerances import (
    CHI_SQUARE_TOO_SMALL,
    EACH_UNLIKELY,
    EXACT_REMAINDER,
    LEAST_INNOVATION,
    NAIVE_SHARE,
    QUANTISATION_SHARE,
    SMALL_REMAINDER,
    TOGETHER_UNLIKELY,
)


class BeliefLevel(IntEnum):
    """How far the residuals speak for an end; the lower the better."""

    NOISE = 0  # nothing is left but noise
    SMALL = 1  # a slow remainder that is small against the signal; routes have to agree
    UNJUDGED = 2  # too few samples to tell noise from error; likewise
    NONE = 3  # something large is left over


@dataclass(frozen=True)
class Belief:
    """A level and the sentence that says why."""

    level: BeliefLevel
    reason: str
    contradicted: bool = False  # a std was given, and what is left over is larger
    bent: bool = False  # white in the order of time, but a bent function of an input


def believe(problem: Problem, residuals: Residuals, loss: str = "squared") -> Belief:
    """The belief in all series together: that in the worst of them."""
    worst = Belief(BeliefLevel.NOISE, "nothing was measured that could contradict it.")
    for experiment, output, r, name in _measured_series(problem, residuals):
        statistics = residual_statistics(r, np.asarray(experiment.outputs[output], float), np.asarray(experiment.time),
                                         given_std(experiment, output), loss != "squared")
        unknowns = len(problem.names) * statistics.samples / max(problem.measured_values, 1)
        own = believe_series(name, statistics, unknowns)
        if own.level is BeliefLevel.NOISE and is_white(statistics, unknowns):
            own = _by_input(name, statistics, r, experiment) or own
        if own.level > worst.level or worst.reason.startswith("nothing was"):
            worst = own
    if problem.has_noise_formulas and worst.level < BeliefLevel.UNJUDGED:
        return Belief(BeliefLevel.UNJUDGED, "standard deviations are formulas of unknowns, so that residuals are as large as "
                                            "they say at every minimum.")
    return worst


def _measured_series(problem: Problem, residuals: Residuals) -> Iterator[tuple[Experiment, str, np.ndarray, str]]:
    """Each output in each experiment that has a measured value, with its residuals and a name that a reader knows."""
    several = len(problem.experiments) > 1
    for experiment, own in zip(problem.experiments, residuals, strict=True):
        for output, r in own.items():
            measured = np.isfinite(experiment.outputs[output])
            if np.any(measured):
                name = f"{output} of {experiment.label}" if several else output
                yield experiment, output, np.where(measured, np.asarray(r, float), np.nan), name


def _by_input(name: str, s: ResidualStatistics, residuals: np.ndarray, experiment: Experiment) -> Belief | None:
    """No noise: residuals that are white in time and follow the values of an input, at the sample or held before it."""
    if s.rms <= max(QUANTISATION_SHARE * s.quantisation, EXACT_REMAINDER * s.signal_std):
        return None
    key, share = bent_by_input(residuals, experiment.inputs)
    if not key:
        return None
    of_signal = float(np.sqrt(share)) * s.rms / s.signal_std
    return Belief(BeliefLevel.SMALL if of_signal <= SMALL_REMAINDER else BeliefLevel.NONE,
                  f"{name}: what is left, rms {s.rms:.3g}, is white in the order of time, but {100 * share:.0f} % of its "
                  f"variance is a bent function of {key}.", bent=True)


def believe_series(name: str, s: ResidualStatistics, unknowns: float) -> Belief:
    """Of one series; `unknowns` is its share of them."""
    chi, white = s.reduced_chi_square, is_white(s, unknowns)
    expected = chi is not None and chi <= chi_square_limit(s, unknowns)
    rms, few = f"rms {s.rms:.3g}", s.samples < FEWEST_SAMPLES or s.samples - unknowns < FEWEST_FREE
    if s.rms <= QUANTISATION_SHARE * s.quantisation:
        return Belief(BeliefLevel.NOISE, f"{name}: what is left, {rms}, is below the step of the record, {s.quantisation:.3g}.")
    if expected and not few and chi is not None and unlikely_noise(s, chi, unknowns):
        return Belief(BeliefLevel.SMALL, f"{name}: what is left, {rms}, might be what the given std lets expect (reduced "
                                         f"chi-square {chi:.3g}), but it is large for that, and neighbours are alike "
                                         f"(correlation {s.lag_one:.2f}).")
    if expected and not few and (white is not False or (_given(chi) >= CHI_SQUARE_TOO_SMALL
                                                        and s.innovation >= LEAST_INNOVATION)):
        return Belief(BeliefLevel.NOISE, f"{name}: what is left, {rms}, is what the given std lets expect (reduced chi-square "
                                         f"{chi:.3g}).")
    if few or s.signal_std == 0:
        return Belief(BeliefLevel.UNJUDGED, f"{name}: {s.samples} samples do not tell noise from error.")
    if s.rms <= EXACT_REMAINDER * s.signal_std:
        return Belief(BeliefLevel.NOISE, f"{name}: what is left, {rms}, is {s.rms / s.signal_std:.1e} of the signal.")
    if s.rms > NAIVE_SHARE * s.line_rms:
        return Belief(BeliefLevel.NONE, f"{name}: what is left, {rms}, is as much as a straight line leaves "
                                        f"({s.line_rms:.3g}).")
    if white and chi is not None and not expected and s.samples < FEW_SAMPLES:  # coarse samples of a swing look white, too
        return Belief(BeliefLevel.UNJUDGED, f"{name}: what is left, {rms}, looks white, but is larger than the given std lets "
                                            f"expect (reduced chi-square {chi:.3g}); {s.samples} samples do not tell.", True)
    if white:
        return Belief(BeliefLevel.NOISE, f"{name}: what is left, {rms}, is white: the past predicts "
                                         f"{100 * s.memory:.0f} % of it.")
    share = s.systematic_share()
    left = f"{name}: what is left beyond noise is {100 * share:.2g} % of the signal ({rms}), and is not white"
    if white is None:
        return Belief(BeliefLevel.UNJUDGED, f"{name}: {s.samples} samples do not tell whether what is left, {rms}, is white.")
    return Belief(BeliefLevel.SMALL if share <= SMALL_REMAINDER else BeliefLevel.NONE,
                  f"{left}: the past predicts {100 * s.memory:.0f} % of it.", chi is not None and not expected)


def unlikely_noise(s: ResidualStatistics, chi_square: float, unknowns: float) -> bool:
    """Whether size and correlation of neighbours, each no proof by itself, would together be a rare chance (Fisher 1932).

    Slow noise of the given size is no such case: there only the correlation is out of the ordinary.
    """
    size = chi_square_sf(chi_square * s.samples, max(1.0, s.samples - unknowns))
    alike = normal_sf(s.lag_one * np.sqrt(s.samples))
    return max(size, alike) < EACH_UNLIKELY and size * alike < TOGETHER_UNLIKELY


def _given(chi: float | None) -> float:
    return np.inf if chi is None else chi
