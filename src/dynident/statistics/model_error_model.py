"""Model error model: a test for lack of fit; do the residuals still follow the inputs or the motion?

What a missing effect leaves behind is a function of input and motion; noise is not, however slow it is. So the residuals are
whitened by their own autoregression, and the same filter goes over signals that missing effects are made of: inputs and their
past, the simulated output, its rate, their powers, signs and products (Ljung, Model error modeling and control design, 1999).
An F test says whether these explain anything.

Innovations of a right filter are independent of all that was known before them. A filter makes up for what its model misses, so
that its innovations may well be white; but they follow the state and the input from which each was predicted. Where sensors
of inputs err, both hold these errors, and what follows from that alone is taken off. In a closed loop the input of a sample is
made from what was measured there, and was not known before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtrc

from dynident.statistics.residual_statistics import autoregression_by_aic, draw_in_outliers
from dynident.tolerances import REPLACED_REGRESSOR

MOST_REGRESSORS = 40  # more dilute the test
SAMPLES_PER_REGRESSOR = 8
FEWEST_REGRESSORS = 3
DELAYS = (1, 2, 4, 8, 16, 32, 64)  # samples; a delay that is more than a tenth of the record is left out
SMALLEST_P = 1e-300  # so that its logarithm is finite


@dataclass(frozen=True)
class ModelErrorTest:
    """What regressors explain of the whitened residuals."""

    log10_p: float  # of the F test; NaN where too few samples allow none
    share: float  # of the whitened residuals' square that they explain, beyond chance
    innovation: float  # share of the residuals' variance that their own past does not predict


NO_TEST = ModelErrorTest(np.nan, np.nan, np.nan)
NOT_ASKED = ModelErrorTest(0.0, 0.0, 1.0)  # where another test asks: what is left over counts as following nothing


def model_error_test(residuals: np.ndarray, model: np.ndarray, time: np.ndarray, inputs: Sequence[np.ndarray],
                     unknowns: float = 0.0) -> ModelErrorTest:
    """Of one series: residuals with NaN where nothing was measured, the simulated output, and the inputs (samples,)."""
    there = np.isfinite(residuals)
    count = int(np.sum(there))
    most = min(MOST_REGRESSORS, count // SAMPLES_PER_REGRESSOR)
    if most < FEWEST_REGRESSORS or not np.all(np.isfinite(model)) or not np.any(residuals[there] != 0):
        return NO_TEST
    drawn = draw_in_outliers(residuals)
    filter_taps = whitening_filter(drawn)
    white = filtered(filter_taps, np.where(there, drawn, np.nan))
    regressors = filtered(filter_taps, error_regressors(model, time, inputs)[:, :most])
    rows = np.isfinite(white)
    e = white[rows]
    found = _explained(e, regressors[rows], filter_taps.size - 1 + unknowns)
    if found is NO_TEST:
        return found
    return replace(found, innovation=min(1.0, float(np.mean(e**2) / np.nanmean(drawn[there] ** 2))))


KnownSignals = tuple[np.ndarray, Sequence[np.ndarray]]  # (samples, states) as filtered, and inputs (samples,)


@dataclass(frozen=True, eq=False)
class SharedError:
    """Innovations (samples,) and what was known before, with the inputs moved by errors of their sensors, and the other way."""

    up: np.ndarray
    down: np.ndarray
    known_up: KnownSignals
    known_down: KnownSignals


def innovation_test(innovations: np.ndarray, known: KnownSignals, unknowns: float = 0.0, at_once: Sequence[bool] = (),
                    shared: Sequence[SharedError] = ()) -> ModelErrorTest:
    """Of whitened innovations (samples,) on what was known before each.

    Twice, on these signals and on their signs, squares and cubes as well, since many regressors hide what few show; the clearer
    answer, its probability doubled. `at_once` says of each input whether it counts at its own sample already: where it moves
    linearly, or an output feels it at once.
    """
    there = np.isfinite(innovations)
    there[0] = False  # nothing was known before it
    e = innovations[there] - np.mean(innovations[there]) if np.any(there) else np.zeros(0)
    at_once = at_once or [False] * len(known[1])
    sides = [(_regressors(each.known_up, known, at_once), _regressors(each.known_down, known, at_once)) for each in shared]
    tests = []
    for k, columns in enumerate(_regressors(known, known, at_once)):  # linear, and bent as well
        if not columns or e.size < SAMPLES_PER_REGRESSOR * len(columns):
            continue
        X = np.column_stack([c[there] for c in columns])
        size = np.where(np.std(X, axis=0) > 0, np.std(X, axis=0), 1.0)
        expected = np.zeros(len(columns))
        for each, (up, down) in zip(shared, sides, strict=True):
            apart = np.column_stack([(a - b)[there] for a, b in zip(up[k], down[k], strict=True)])
            expected += (each.up - each.down)[there] @ (apart / size) / (4 * len(shared))
        tests.append(_explained(e, (X - np.mean(X, axis=0)) / size, unknowns + 1, expected))
    best = min((test for test in tests if np.isfinite(test.log10_p)), key=lambda test: test.log10_p, default=NO_TEST)
    return replace(best, log10_p=min(0.0, best.log10_p + float(np.log10(max(len(tests), 1)))))


def _regressors(at: KnownSignals, like: KnownSignals, at_once: Sequence[bool]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What was known before each sample, and with it bent; of the signals that move in `like`, on the scales of those."""
    pairs = [(delayed(x, 1), delayed(base, 1)) for x, base in zip(at[0].T, like[0].T, strict=True) if np.ptp(base) > 0]
    linear = [x for x, _ in pairs]
    for u, base, now in zip(at[1], like[1], at_once, strict=True):
        linear += [*([u] if now else []), delayed(u, 1)] if np.ptp(base) > 0 else []
    scaled = [[(x - np.mean(base)) / np.std(base) for x in (own, base)] for own, base in pairs if np.ptp(base) > 0]
    bent = [[bend(x) for x in pair] for pair in scaled for bend in (np.sign, np.abs, lambda x: x * np.abs(x), lambda x: x**3)]
    return linear, [*linear, *(own for own, base in bent if np.ptp(base) > 0)]


def _explained(e: np.ndarray, regressors: np.ndarray, taken: float, expected: np.ndarray | None = None) -> ModelErrorTest:
    """The F test of white errors on regressors; `taken` degrees of freedom went before, `expected` products are no surprise."""
    seen = _in_their_span(regressors, e, expected)
    rank, free = seen.size, e.size - seen.size - taken
    if rank == 0 or free < SAMPLES_PER_REGRESSOR or not np.any(e != 0):
        return NO_TEST
    explained, total = float(seen @ seen), float(e @ e)
    left = max(total - explained, np.finfo(float).tiny)
    p = float(fdtrc(rank, free, (explained / rank) / (left / free)))
    return ModelErrorTest(float(np.log10(max(p, SMALLEST_P))), explained / total - rank / e.size, 1.0)


def whitening_filter(residuals: np.ndarray) -> np.ndarray:
    """(order + 1,) 1, -a1, -a2, ...: what the autoregression of the residuals, its order chosen by AIC, makes white."""
    a = np.zeros(0)
    for reflection in autoregression_by_aic(residuals)[0]:
        a = np.append(a - reflection * a[::-1], reflection)
    return np.append(1.0, -a)


def filtered(taps: np.ndarray, signals: np.ndarray) -> np.ndarray:
    """Signals (samples,) or (samples, k) through a finite filter; the first samples, which it does not reach, are left out."""
    last = taps.size - 1
    return np.asarray(sum(tap * signals[last - k:signals.shape[0] - k] for k, tap in enumerate(taps)))


def error_regressors(model: np.ndarray, time: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """(samples, k) signals that missing effects are made of, the most telling first; those that stand still are left out."""
    rate = np.gradient(model, time) if np.all(np.diff(time) > 0) else np.gradient(model)
    y, v = standardized(model), standardized(rate)
    u = [standardized(each) for each in inputs if np.ptp(each) > 0]
    delays = [k for k in DELAYS if 10 * k < model.size]
    columns = [y, v, *u, np.sign(rate), y**2, y**3]
    for k in delays:
        columns += [*(delayed(each, k) for each in u), delayed(y, k)]
    columns += [v * np.abs(v), y * v, np.linspace(-1, 1, y.size) * y, np.linspace(-1, 1, y.size) * v]
    columns += [power for each in u for power in (each**2, each * y, each**3, np.sign(each))]
    if not u:
        columns += [y**2 * v, v**2, *(delayed(v, k) for k in delays[::2])]
    return np.column_stack([standardized(c) for c in columns if np.ptp(c) > 0] or [np.zeros(model.size)])


def standardized(signal: np.ndarray) -> np.ndarray:
    """Zero mean and unit standard deviation."""
    centred = np.asarray(signal, float) - np.mean(signal)
    spread = float(np.std(centred))
    return centred / spread if spread > 0 else centred


def delayed(signal: np.ndarray, samples: int) -> np.ndarray:
    """The same some samples later; before it begins, its first value."""
    return np.concatenate([np.full(samples, signal[0]), signal[:signal.size - samples]])


def _in_their_span(columns: np.ndarray, e: np.ndarray, expected: np.ndarray | None = None) -> np.ndarray:
    """(rank,) e along an orthonormal basis of what the columns span: a triangle holds it all, so no long basis is formed.

    `expected`, by column, are the products with e that are taken off.
    """
    lengths = np.linalg.norm(columns, axis=0)
    there = lengths > 0
    scaled = columns[:, there] / lengths[there]
    width = scaled.shape[1]
    triangle = np.asarray(np.linalg.qr(np.column_stack([scaled, e]), mode="r"))[:width]
    left, values, right = np.linalg.svd(triangle[:, :width])
    kept = values > REPLACED_REGRESSOR * values[0] if values.size else np.zeros(0, bool)
    seen = np.asarray(left.T @ triangle[:, width])[kept] if values.size else values
    if expected is None or not seen.size:
        return seen
    return np.asarray(seen - (right @ (expected[there] / lengths[there]))[kept] / values[kept])
