"""Records: is there something odd about time, inputs or measured signals?"""

from __future__ import annotations

import numpy as np

from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.statistics.diagnostic import Diagnostic

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
        found += _input_findings(f"{experiment.label}, {name}", np.asarray(values, float))
    time = np.asarray(experiment.time, float)
    for name, values in experiment.outputs.items():
        found += _output_findings(f"{experiment.label}, {name}", np.asarray(values, float),
                                  given_std(experiment, name), time)
    return found


def time_findings(experiment: Experiment) -> list[Diagnostic]:
    who, time = f"{experiment.label}, time", np.asarray(experiment.time, float)
    if time.size < SHORT_RECORD:
        return [Diagnostic("warning", who, f"the record has only {time.size} samples",
                        "Measure longer or sample faster; intervals from so few samples rest on the assumed noise.")]
    found = []
    steps = np.diff(time)
    usual = float(np.median(steps))
    gaps = int(np.sum(steps > LARGE_GAP * usual))
    if gaps:
        k = int(np.argmax(steps))
        found.append(Diagnostic("warning", who, f"{gaps} gap{'s' if gaps > 1 else ''}; the largest lasts {steps[k]:.4g} "
                             f"after t = {time[k]:.6g}, where the usual step is {usual:.4g}",
                             "Inputs are held across it. Split the record there if they were not constant."))
    uneven = float(np.mean(np.abs(steps - usual) > UNEVEN * usual))
    if uneven > UNEVEN:
        found.append(Diagnostic("info", who, f"{100 * uneven:.0f} % of the steps differ from the usual {usual:.4g}",
                             "This is allowed. Autocorrelation of residuals is counted in samples, not in time."))
    if np.all(time == np.round(time)) and "time" not in experiment.units:
        if usual == 1 and not uneven:
            found.append(Diagnostic("info", who, "it counts 1, 2, 3, ...: is it a sample number instead of seconds?",
                                 "Multiply by the sampling time if so; every rate depends on it."))
        elif usual >= 2 and time[-1] - time[0] >= 1000:
            found.append(Diagnostic("info", who, f"whole numbers in steps of {usual:g}: is it in milliseconds?",
                                 "Divide by 1000 if so; every rate depends on it."))
    return found


def _input_findings(who: str, values: np.ndarray) -> list[Diagnostic]:
    swing = float(np.ptp(values))
    if swing == 0:
        return [Diagnostic("warning", who, f"the input stays at {values[0]:.4g} throughout",
                        "It excites nothing; what it drives is determined by the initial state alone.")]
    mean = abs(float(np.mean(values)))
    if swing < HARDLY_MOVES * mean:
        return [Diagnostic("warning", who, f"the input moves by only {100 * swing / mean:.2g} % of its mean",
                        "Excite more, or subtract what does not matter.")]
    if int(np.sum(np.diff(values) != 0)) == 1:
        return [Diagnostic("info", who, "the input changes once (a single step)",
                        "Several steps or a sweep would tell time constants and gains apart better.")]
    return []


def _output_findings(who: str, values: np.ndarray, std: np.ndarray | None, time: np.ndarray) -> list[Diagnostic]:
    there = np.isfinite(values)
    missing = int(np.sum(~there))
    found = []
    if missing == values.size:
        return [Diagnostic("warning", who, "no sample was measured", "Leave the signal out, or check the column.")]
    if missing:
        found.append(Diagnostic("warning" if missing > MOSTLY_MISSING * values.size else "info", who,
                             f"{missing} of {values.size} samples are missing", "They are left out of the fit."))
    y = values[there]
    if np.ptp(y) == 0 and y.size > 1:
        return [*found, Diagnostic("warning", who, f"the signal stays at {y[0]:.4g}: a dead channel?",
                                "It tells nothing about the dynamics; leave it out if the sensor was off.")]
    found += _noise_findings(who, y, std[there] if std is not None else None)
    clipped, cut = _clipping_findings(who, y)
    found += clipped + _spike_findings(who, y, time[there], cut)
    period = _main_period(y)
    if period is not None and period < SAMPLES_PER_SWING:
        found.append(Diagnostic("warning", who, f"it swings once in {period:.1f} samples",
                             "Sample faster, or make sure that `hold` says how the inputs move between samples."))
    return found


def _noise_findings(who: str, y: np.ndarray, std: np.ndarray | None) -> list[Diagnostic]:
    if std is None or y.size < SHORT_RECORD:
        return []
    level, swing, step = float(np.median(std)), float(np.std(y)), quantisation_step(y)
    found = []
    if level > swing:
        found.append(Diagnostic("warning", who, f"the given noise std {level:.3g} exceeds the signal's own {swing:.3g}",
                             "Nothing can be seen below the noise; check the unit of the std."))
    least = step / np.sqrt(12) if step is not None else 0.0  # std of an error that is uniform over one step
    if level < 0.5 * least:
        found.append(Diagnostic("warning", who, f"the record is quantised at {step:.3g}, so the std of its error is at "
                             f"least {least:.2g}, but {level:.2g} is given",
                             f"Give at least {least:.2g}, or leave the std to be estimated."))
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


def _clipping_findings(who: str, y: np.ndarray) -> tuple[list[Diagnostic], np.ndarray]:
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
        found.append(Diagnostic("warning", who, f"it looks clipped: {int(np.sum(length[there]))} samples in {times} stretches "
                             f"stand at its {word} value, {limit:.4g}",
                             "Set them to NaN: there the sensor shows its own limit and not the machine."))
    return found, cut


def _spike_findings(who: str, y: np.ndarray, time: np.ndarray, cut: np.ndarray) -> list[Diagnostic]:
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
    many = "lone samples stick" if at.size > 1 else "lone sample sticks"
    return [Diagnostic("warning", who, f"{at.size} {many} out, the first at t = {time[at[0]]:.6g}",
                    "Set them to NaN if the sensor failed, or use a robust loss; nothing is dropped by itself.")]


def _main_period(y: np.ndarray) -> float | None:
    """Samples per period of the one oscillation that dominates, or None."""
    if y.size < 2 * SAMPLES_PER_SWING:
        return None
    t = np.arange(y.size)
    power = np.abs(np.fft.rfft((y - np.polyval(np.polyfit(t, y, 1), t)) * np.hanning(y.size))) ** 2
    peak = int(np.argmax(power))
    share = float(np.sum(power[max(peak - 2, 0): peak + 3]) / max(np.sum(power), np.finfo(float).tiny))
    return y.size / peak if peak and share > PEAK_SHARE else None
