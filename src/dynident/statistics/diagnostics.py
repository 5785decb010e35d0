"""Diagnostics: what can be said before any fit, about the unknowns, time, inputs and measured signals?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem, Unknown, given_std
from dynident.statistics.diagnostic import SEVERITIES, Check, Diagnostic, DiagnosticCode
from dynident.statistics.identifiability import CollinearGroup, Identifiability, identifiability, typical_values
from dynident.statistics.identifiable_combinations import NOT_SHOWN
from dynident.statistics.quantisation import quantisation_step
from dynident.tolerances import SINGULAR_VALUE

FEW_DATA = 10  # measured values per unknown; with fewer the noise is hardly known
POORLY_KNOWN = 1.0  # relative standard deviation; above it not even the sign is sure
SCALE_OFF = 1e4  # a given scale this far from the start serves no solver
NEAR_ZERO = 1e-6  # of the span between bounds; a start this small tells no size
MANY_TIMES = 100.0  # what a standard deviation is over a start; beyond, the number says nothing more
WIDE_BOUNDS = 1e6  # upper over lower; a search over so many decades goes better in the logarithm
FAR_START = 1e3  # rms residual in units of the noise at the start
LARGE_GAP = 10.0  # steps; a longer pause is a gap
UNEVEN_CLOCK = 0.01  # of the median step; clocks are steadier
SHORT_RECORD = 10  # samples; fewer hold no dynamics
SAMPLES_PER_SWING = 10  # fewer per period, and what happens between samples matters
PEAK_FRACTION = 0.2  # of the power within two bins of the peak; less is noise and no oscillation
HARDLY_MOVES = 0.01  # of its mean; an input that varies less excites little
SPIKE = 12.0  # robust standard deviations of the second difference, and both neighbours jump back
MOSTLY_MISSING = 0.5  # of a signal's samples
STANDS = 3  # equal samples in a row; fewer are chance
ABOUT_TIME = (DiagnosticCode.TIME_GAPS, DiagnosticCode.UNEVEN_SAMPLING, DiagnosticCode.SAMPLE_NUMBERS,
              DiagnosticCode.MILLISECONDS, DiagnosticCode.COARSE_SAMPLING, DiagnosticCode.SINGLE_STEP)  # and rates
CLIPPED_OFTEN = 2  # stretches at a limit; a signal may rest at its largest value once without being clipped


def diagnose(problem: Problem, linearization: ResidualJacobian, smallest: float = SINGULAR_VALUE) -> Check:
    """Everything worth saying about a problem around its start, where `linearization` was made; singular values below
    `smallest` count as zero."""
    std_given = all(given_std(e, name) is not None for e in problem.experiments for name in e.outputs)
    found = []
    if np.all(np.isfinite(linearization.jacobian)):
        known = identifiability(problem.names, linearization.values, typical_values(problem, linearization.values),
                                linearization.jacobian, smallest)
        found = _determined(problem, known, std_given)
    for unknown, value in zip(problem.unknowns, linearization.values, strict=True):
        found += _unknown_findings(unknown, float(value))
    found += _amount(problem)
    found += _start_findings(linearization) if std_given else []
    for experiment in problem.experiments:
        found += record_findings(experiment, dynamic=bool(problem.model.states))
    return Check(tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))))


def _determined(problem: Problem, known: Identifiability, std_given: bool) -> list[Diagnostic]:
    found = [Diagnostic.of(DiagnosticCode.NO_EFFECT if text.startswith(NOT_SHOWN) else DiagnosticCode.UNIDENTIFIABLE,
                           names, combination=text)
             for names, text in zip(known.unidentifiable_groups, known.combinations, strict=True)]
    found += [Diagnostic.of(DiagnosticCode.COLLINEAR, group.names, index=group.index)
              for group in _apart(known.groups) if group.index < 1 / SINGULAR_VALUE]
    if std_given:  # without a noise level a standard deviation at the start has no scale
        found += _poorly_determined(problem, known)
    return found


def _apart(groups: Sequence[CollinearGroup]) -> list[CollinearGroup]:
    """Groups that share no name: those that do are one, as hard to tell apart as the worst of them."""
    found: list[CollinearGroup] = []
    for group in groups:
        sharing = [other for other in found if set(other.names) & set(group.names)]
        names = dict.fromkeys(name for each in (*sharing, group) for name in each.names)
        found = [other for other in found if other not in sharing]
        found.append(CollinearGroup(tuple(names), max(each.index for each in (*sharing, group))))
    return found


def _poorly_determined(problem: Problem, known: Identifiability) -> list[Diagnostic]:
    """One line for all unknowns that have a size to compare with; a value near zero is none."""
    ratios = {}
    for unknown, std in zip(problem.unknowns, known.std, strict=True):
        size = max(unknown.scale or 0.0, abs(unknown.start or 0.0))
        span = unknown.upper - unknown.lower
        near_zero = size <= NEAR_ZERO * (span if np.isfinite(span) else 0.0)
        if size > 0 and not near_zero and POORLY_KNOWN < std / size < np.inf:
            ratios[unknown.name] = float(std / size)
    if not ratios:
        return []
    times = ", ".join(f"{name} {_times(ratio)}" for name, ratio in ratios.items())
    return [Diagnostic.of(DiagnosticCode.POORLY_DETERMINED, list(ratios), times=times, largest=max(ratios.values()))]


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < MANY_TIMES else f"more than {MANY_TIMES:.0f} times"


def _unknown_findings(unknown: Unknown, value: float) -> list[Diagnostic]:
    found, names = [], [unknown.name]
    for side, bound in (("lower", unknown.lower), ("upper", unknown.upper)):
        if value == bound:
            found.append(Diagnostic.of(DiagnosticCode.START_AT_BOUND, names, side=side, bound=bound))
    bounded = np.isfinite(unknown.lower) and np.isfinite(unknown.upper)
    if unknown.start == 0 and unknown.scale is None and not bounded:
        found.append(Diagnostic.of(DiagnosticCode.NO_SCALE, names))
    ratio = abs(unknown.start) / unknown.scale if unknown.start and unknown.scale is not None else 1.0
    if not 1 / SCALE_OFF < ratio < SCALE_OFF:
        found.append(Diagnostic.of(DiagnosticCode.SCALE_OFF, names, scale=unknown.scale, start=unknown.start))
    if not unknown.log and unknown.lower > 0 and unknown.upper / unknown.lower >= WIDE_BOUNDS and bounded:
        found.append(Diagnostic.of(DiagnosticCode.WIDE_BOUNDS, names, decades=np.log10(unknown.upper / unknown.lower)))
    return found


def _amount(problem: Problem) -> list[Diagnostic]:
    data, unknowns = problem.measured_values, len(problem.unknowns)
    if not unknowns or data >= FEW_DATA * unknowns:
        return []
    return [Diagnostic.of(DiagnosticCode.FEW_DATA, ["data"], data=data, unknowns=unknowns)]


def _start_findings(linearization: ResidualJacobian) -> list[Diagnostic]:
    measured = linearization.residuals[linearization.rows.experiment >= 0]
    largest = float(np.max(np.abs(measured), initial=0.0))  # of a course that blows up even a square may be too large
    rms = largest * float(np.sqrt(np.mean((measured / largest) ** 2))) if largest else 0.0
    return [] if rms < FAR_START else [Diagnostic.of(DiagnosticCode.FAR_START, ["start"], rms=rms)]


def record_findings(experiment: Experiment, dynamic: bool = True) -> list[Diagnostic]:
    """Everything odd about one record; of a model without states, for which time is a number like others, less."""
    found = time_findings(experiment)
    for name, values in experiment.inputs.items():
        found += _input_findings((experiment.label, name), np.asarray(values, float))
    time = np.asarray(experiment.time, float)
    for name, values in experiment.outputs.items():
        found += _output_findings((experiment.label, name), np.asarray(values, float), given_std(experiment, name), time)
    return [each for each in found if dynamic or each.code not in ABOUT_TIME]


def time_findings(experiment: Experiment) -> list[Diagnostic]:
    names, time = (experiment.label, "time"), np.asarray(experiment.time, float)
    if time.size < SHORT_RECORD:
        return [Diagnostic.of(DiagnosticCode.SHORT_RECORD, names, samples=time.size)]
    found = []
    steps = np.diff(time)
    usual = float(np.median(steps))
    gaps = int(np.sum(steps > LARGE_GAP * usual))
    if gaps:
        k = int(np.argmax(steps))
        found.append(Diagnostic.of(DiagnosticCode.TIME_GAPS, names, gaps=gaps, s="s" if gaps > 1 else "", longest=steps[k],
                                   time=time[k], step=usual))
    uneven = float(np.mean(np.abs(steps - usual) > UNEVEN_CLOCK * usual))
    if uneven > UNEVEN_CLOCK:
        found.append(Diagnostic.of(DiagnosticCode.UNEVEN_SAMPLING, names, percent=100 * uneven, step=usual))
    if np.all(time == np.round(time)) and "time" not in experiment.units:
        if usual == 1 and not uneven:
            found.append(Diagnostic.of(DiagnosticCode.SAMPLE_NUMBERS, names))
        elif usual >= 2 and time[-1] - time[0] >= 1000:
            found.append(Diagnostic.of(DiagnosticCode.MILLISECONDS, names, step=usual))
    return found


def _input_findings(names: tuple[str, str], values: np.ndarray) -> list[Diagnostic]:
    swing = float(np.ptp(values))
    if swing == 0:
        return [Diagnostic.of(DiagnosticCode.CONSTANT_INPUT, names, value=values[0])]
    mean = abs(float(np.mean(values)))
    if swing < HARDLY_MOVES * mean:
        return [Diagnostic.of(DiagnosticCode.WEAK_INPUT, names, percent=100 * swing / mean)]
    single = int(np.sum(np.diff(values) != 0)) == 1
    return [Diagnostic.of(DiagnosticCode.SINGLE_STEP, names)] if single else []


def _output_findings(names: tuple[str, str], values: np.ndarray, std: np.ndarray | None, time: np.ndarray) -> list[Diagnostic]:
    there = np.isfinite(values)
    missing = int(np.sum(~there))
    found = []
    if missing == values.size:
        return [Diagnostic.of(DiagnosticCode.NOTHING_MEASURED, names)]
    if missing:
        mostly = missing > MOSTLY_MISSING * values.size
        found.append(Diagnostic.of(DiagnosticCode.MOSTLY_MISSING if mostly else DiagnosticCode.MISSING_SAMPLES, names,
                                   missing=missing, samples=values.size))
    y = values[there]
    if np.ptp(y) == 0 and y.size > 1:
        return [*found, Diagnostic.of(DiagnosticCode.CONSTANT_OUTPUT, names, value=y[0])]
    found += _noise_findings(names, y, std[there] if std is not None else None)
    clipped, cut = _clipping_findings(names, y)
    found += clipped + _spike_findings(names, y, time[there], cut)
    period = _main_period(y)
    if period is not None and period < SAMPLES_PER_SWING:
        found.append(Diagnostic.of(DiagnosticCode.COARSE_SAMPLING, names, period=period))
    return found


def _noise_findings(names: tuple[str, str], y: np.ndarray, std: np.ndarray | None) -> list[Diagnostic]:
    if std is None or y.size < SHORT_RECORD:
        return []
    level, swing, step = float(np.median(std)), float(np.std(y)), quantisation_step(y)
    found = []
    if level > swing:
        found.append(Diagnostic.of(DiagnosticCode.NOISE_ABOVE_SIGNAL, names, std=level, signal_std=swing))
    least = step / np.sqrt(12) if step is not None else 0.0  # std of an error that is uniform over one step
    if level < 0.5 * least:
        found.append(Diagnostic.of(DiagnosticCode.QUANTISED, names, step=step, least=least, std=level))
    return found


def _clipping_findings(names: tuple[str, str], y: np.ndarray) -> tuple[list[Diagnostic], np.ndarray]:
    """Limits at which the signal stands again and again, and nowhere else; and which samples stand there."""
    first = np.flatnonzero(np.append(True, np.diff(y) != 0))
    length = np.diff(np.append(first, y.size))
    stand = length >= STANDS
    found, cut = [], np.zeros(y.size, bool)
    rails = {"largest": float(np.max(y)), "smallest": float(np.min(y))}
    between = int(np.sum(stand & ~np.isin(y[first], list(rails.values()))))
    for word, limit in rails.items():
        there = stand & (y[first] == limit)
        times = int(np.sum(there))
        if times < CLIPPED_OFTEN or between >= times or np.unique(y).size <= len(rails):
            continue  # a quantised signal stands everywhere, a switch has two values
        for k in np.flatnonzero(there):
            cut[first[k]:first[k] + length[k]] = True
        found.append(Diagnostic.of(DiagnosticCode.CLIPPED, names, samples=int(np.sum(length[there])), stretches=times, end=word,
                                   limit=limit))
    return found, cut


def _spike_findings(names: tuple[str, str], y: np.ndarray, time: np.ndarray, cut: np.ndarray) -> list[Diagnostic]:
    """Lone samples far off, but for those where a stretch at the sensor's limit begins or ends."""
    if y.size < SHORT_RECORD:
        return []
    bend = y[1:-1] - 0.5 * (y[:-2] + y[2:])
    near = np.convolve(cut, np.ones(5), "same")[1:-1] > 0
    if np.all(near):
        return []
    sigma = max(1.4826 * float(np.median(np.abs(bend[~near]))), quantisation_step(y) or 0.0,
                8 * np.finfo(float).eps * float(np.max(np.abs(y))))
    inner = bend[1:-1]
    back = (bend[:-2] * inner < 0) & (bend[2:] * inner < 0)
    both = np.minimum(np.abs(bend[:-2]), np.abs(bend[2:])) > 0.3 * np.abs(inner)  # a lone spike gives one half each
    at = np.flatnonzero((np.abs(inner) > SPIKE * sigma) & back & both & ~near[1:-1]) + 2
    if not at.size:
        return []
    return [Diagnostic.of(DiagnosticCode.SPIKES, names, count=at.size, sticks="s stick" if at.size > 1 else " sticks",
                          time=time[at[0]])]


def _main_period(y: np.ndarray) -> float | None:
    """Samples per period of the one oscillation that dominates, or None."""
    if y.size < 2 * SAMPLES_PER_SWING:
        return None
    t = np.arange(y.size)
    power = np.abs(np.fft.rfft((y - np.polyval(np.polyfit(t, y, 1), t)) * np.hanning(y.size))) ** 2
    peak = int(np.argmax(power))
    share = float(np.sum(power[max(peak - 2, 0): peak + 3]) / max(np.sum(power), np.finfo(float).tiny))
    return y.size / peak if peak and share > PEAK_FRACTION else None
