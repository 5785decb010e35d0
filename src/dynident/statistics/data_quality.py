"""Data quality: is there something odd about time, inputs or measured signals?"""

from __future__ import annotations

import numpy as np

from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.statistics.diagnostic import Diagnostic, DiagnosticCode

LARGE_GAP = 10.0  # steps; a longer pause is a gap
UNEVEN = 0.01  # of the median step; clocks are steadier
SHORT_RECORD = 10  # samples; fewer hold no dynamics
SAMPLES_PER_SWING = 10  # fewer per period, and what happens between samples matters
PEAK_SHARE = 0.2  # of the power within two bins of the peak; less is noise and no oscillation
HARDLY_MOVES = 0.01  # of its mean; an input that varies less excites little
QUANTISED_SHARE = 0.95  # distinct values per sample; values of a continuous signal never repeat
WHOLE_MULTIPLE = 0.02  # of a step; differences this close to whole multiples are
LARGEST_MULTIPLE = 20  # of a step; the rounding of longer differences hides whether they are whole
SPIKE = 12.0  # robust standard deviations of the second difference, and both neighbours jump back
MOSTLY_MISSING = 0.5
STANDS = 3  # equal samples in a row; fewer are chance
CLIPPED_OFTEN = 2  # stretches at a limit; a signal may rest at its largest value once without being clipped


def record_findings(experiment: Experiment) -> list[Diagnostic]:
    """Everything odd about one record."""
    found = time_findings(experiment)
    for name, values in experiment.inputs.items():
        found += _input_findings((experiment.label, name), np.asarray(values, float))
    time = np.asarray(experiment.time, float)
    for name, values in experiment.outputs.items():
        found += _output_findings((experiment.label, name), np.asarray(values, float), given_std(experiment, name), time)
    return found


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
    uneven = float(np.mean(np.abs(steps - usual) > UNEVEN * usual))
    if uneven > UNEVEN:
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


def quantisation_step(y: np.ndarray) -> float | None:
    """The step of which all differences are whole multiples, or None where values do not repeat."""
    distinct = np.unique(y)
    if distinct.size < 3 or distinct.size > QUANTISED_SHARE * y.size:
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
    return y.size / peak if peak and share > PEAK_SHARE else None
