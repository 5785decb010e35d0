"""Linear reference: how much would a linear black box of the same order leave over, fitted to the same record?

Output error by the iterations of Steiglitz and McBride (IEEE Transactions on Automatic Control, 1965): each round filters the
signals by the denominator of the one before. A model with physical parameters that leaves much more than that misses something,
or stands in a wrong minimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dtbsv

WHITENING_ROUNDS = 8
HIGHEST_ORDER = 6
SAMPLES_PER_COEFFICIENT = 6
LARGEST_POLE = 0.99999  # of a stable simulation; an integrator is one nearly
MOST_SAMPLES = 1000  # a longer record is thinned first, since poles of a record that is sampled far too fast all lie near one


def linear_reference_rms(measured: np.ndarray, inputs: Sequence[np.ndarray], order: int, free_response: bool = False) -> float:
    """Root mean square of its simulation error; NaN with gaps or with too few samples, or without inputs that move.

    `free_response`: from its first state alone, where no input moves (as Prony's method).
    """
    y, moving = thinned(np.asarray(measured, float), [np.asarray(u, float) for u in inputs if np.ptp(u) > 0])
    m = int(np.clip(order, 1, HIGHEST_ORDER))
    enough = y.size >= SAMPLES_PER_COEFFICIENT * (m + (m + 1) * len(moving))
    if not (moving or free_response) or not enough or not np.all(np.isfinite(y)):
        return float("nan")
    size = float(np.max(np.abs(y)))
    if size == 0:
        return 0.0
    y, moving = y / size, [u / (np.max(np.abs(u)) or 1.0) for u in moving]  # so that ranks do not depend on units
    moving.append(np.ones(y.size))  # a constant force
    denominator, best = np.append(1.0, np.zeros(m)), np.inf
    for k in range(WHITENING_ROUNDS):
        denominator = _equation_error(y, moving, denominator if k else np.ones(1), m)
        left = _simulation_error(y, moving, denominator, m)
        if not np.isfinite(left):
            break
        best = min(best, left)
    return float(best) * size if np.isfinite(best) else float("nan")


def thinned(measured: np.ndarray, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Every so-many-th sample, with inputs averaged between them."""
    every = max(1, measured.size // MOST_SAMPLES)
    kept = measured.size // every * every
    return measured[:kept:every], [u[:kept].reshape(-1, every).mean(axis=1) for u in inputs]


def _equation_error(y: np.ndarray, inputs: Sequence[np.ndarray], denominator: np.ndarray, m: int) -> np.ndarray:
    """The next denominator, by least squares on signals filtered by this one, with stable roots."""
    own, past = _filtered(denominator, y), [_filtered(denominator, u) for u in inputs]
    columns = [-_shifted(own, k) for k in range(1, m + 1)] + [_shifted(u, k) for u in past for k in range(m + 1)]
    found = np.linalg.lstsq(np.column_stack(columns), own, rcond=1e-10)[0]
    poles = np.roots(np.append(1.0, found[:m]))
    outside = np.abs(poles) > LARGEST_POLE
    return np.real(np.poly(np.where(outside, LARGEST_POLE * poles / np.maximum(np.abs(poles), 1.0), poles)))


def _simulation_error(y: np.ndarray, inputs: Sequence[np.ndarray], denominator: np.ndarray, m: int) -> float:
    """What is left with the best numerators, first state and offset for a denominator."""
    kicks = np.eye(m, y.size)
    runs = [_filtered(denominator, _shifted(u, k)) for u in inputs for k in range(m + 1)]
    runs += [_filtered(denominator, kick) for kick in kicks]
    columns = np.column_stack([*runs, np.ones(y.size)])
    if not np.all(np.isfinite(columns)):
        return np.inf
    weights = np.linalg.lstsq(columns, y, rcond=1e-12)[0]
    return float(np.sqrt(np.mean((y - columns @ weights) ** 2)))


def _filtered(denominator: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """A signal through 1 / denominator, which begins with 1; as scipy.signal.lfilter, which takes half a second to load."""
    band = np.repeat(denominator[:, None], signal.size, axis=1)  # of the triangle that is to be solved
    return dtbsv(denominator.size - 1, band, signal, lower=1, diag=1)


def _shifted(signal: np.ndarray, samples: int) -> np.ndarray:
    return np.concatenate([np.zeros(samples), signal[:signal.size - samples]]) if samples else signal
