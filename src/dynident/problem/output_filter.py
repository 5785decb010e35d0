"""Output filters (prefiltering): linear operations on a whole record of an output, through which data and model go alike.

A filter on the data alone biases what is found. Where the model's output goes through the same filter, the residuals are those
of the unfiltered record, filtered, and their mean stays zero. What changes is their correlation: neighbours share their noise,
so that samples are thinned until they do not (`spacing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.errors import ProblemError
from dynident.tolerances import END_EFFECT, SHARED_NOISE, UNEVEN_SAMPLING

KINDS = ("lowpass", "detrend", "differentiate")
LONGEST_RESPONSE = 4001  # samples of the response to an impulse that are looked at


@dataclass(frozen=True)
class OutputFilter:
    """One operation: `lowpass` with cut-off in Hz and order, `detrend` with the degree of its polynomial, `differentiate`."""

    kind: str
    cutoff: float = 0.0  # Hz, or one per unit of time
    order: int = 0  # of the filter in each direction; of detrend the degree

    def faults(self) -> list[str]:
        if self.kind not in KINDS:
            return [f"'{self.kind}' is no filter of an output; use one of {', '.join(KINDS)}."]
        if self.kind == "lowpass" and not (np.isfinite(self.cutoff) and self.cutoff > 0 and 1 <= self.order <= 8):
            return [f"lowpass: the cut-off {self.cutoff!r} must be positive and the order {self.order!r} between 1 and 8."]
        if self.kind == "detrend" and not 0 <= self.order <= 3:
            return [f"detrend: the degree {self.order!r} must be between 0 (a constant) and 3."]
        return []

    def apply(self, values: np.ndarray, sample_time: float) -> np.ndarray:
        """Along the first axis, which is time."""
        if self.kind == "differentiate":
            return np.gradient(values, sample_time, axis=0, edge_order=2 if len(values) > 2 else 1)  # type: ignore[no-any-return]
        if self.kind == "detrend":
            x = np.linspace(-1, 1, len(values))
            base = np.linalg.qr(np.vander(x, min(self.order + 1, len(values))))[0]
            flat = values.reshape(len(values), -1)
            return np.asarray(flat - base @ (base.T @ flat)).reshape(values.shape)
        from scipy.signal import butter, sosfiltfilt  # takes a moment to load

        sections = butter(self.order, 2 * self.cutoff * sample_time, output="sos")
        padding = min(3 * (2 * len(sections) + 1), len(values) - 1)
        return np.asarray(sosfiltfilt(sections, values, axis=0, padlen=padding))


def filtered(chain: Sequence[OutputFilter], values: np.ndarray, sample_time: float) -> np.ndarray:
    """Values, time along the first axis, through one filter after the other."""
    for each in chain:
        values = each.apply(values, sample_time)
    return values


def sample_time_of(time: np.ndarray, what: str) -> float:
    """The distance of samples that are evenly spaced; raises where they are not."""
    steps = np.diff(time)
    if not steps.size:
        raise ProblemError(f"{what} needs more than one sample.")
    typical = float((time[-1] - time[0]) / steps.size)
    far = np.abs(steps - typical) > UNEVEN_SAMPLING * typical
    if far.any():
        k = int(far.argmax())
        raise ProblemError(f"{what} needs samples at even distances, but the one after t = {time[k]:.10g} comes {steps[k]:.6g} "
                           f"later instead of {typical:.6g}. Use resample({typical:.3g}) before it.")
    return typical


def impulse_response(chain: Sequence[OutputFilter], sample_time: float, samples: int) -> np.ndarray:
    """What a filter makes of one sample in the middle of a record."""
    impulse = np.zeros(min(samples, LONGEST_RESPONSE))
    impulse[impulse.size // 2] = 1.0
    return filtered([each for each in chain if each.kind != "detrend"], impulse, sample_time)


def noise_gain(chain: Sequence[OutputFilter], sample_time: float, samples: int) -> float:
    """Standard deviation of filtered noise over that of the noise, which is independent from sample to sample."""
    return float(np.sqrt(np.sum(impulse_response(chain, sample_time, samples) ** 2)))


def reach(chain: Sequence[OutputFilter], sample_time: float, samples: int) -> int:
    """How many samples away one sample is still felt."""
    response = np.abs(impulse_response(chain, sample_time, samples))
    felt = np.flatnonzero(response > END_EFFECT * response.max())
    return int(np.max(np.abs(felt - response.size // 2)))


def spacing(chain: Sequence[OutputFilter], sample_time: float, samples: int) -> int:
    """How many samples apart filtered noise is as good as independent."""
    response = impulse_response(chain, sample_time, samples)
    size = 1 << int(2 * response.size - 1).bit_length()
    covariance = np.fft.irfft(np.abs(np.fft.rfft(response, size)) ** 2)[:response.size]
    shared = np.flatnonzero(np.abs(covariance) > SHARED_NOISE * covariance[0])
    for every in range(1, int(shared[-1]) + 2):
        if not np.any(np.abs(covariance[every::every]) > SHARED_NOISE * covariance[0]):
            return every
    return int(shared[-1]) + 1
