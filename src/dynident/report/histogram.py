"""How are residuals distributed?"""

from __future__ import annotations

import numpy as np

FARTHEST = 6.0  # standard deviations covered by the histogram; what lies beyond is put into the outermost bins


def histogram(residual: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Centres and densities of residuals in units of `std`, and how many lie beyond the drawn range."""
    scaled = np.asarray(residual, float) / std
    scaled = scaled[np.isfinite(scaled)]
    bins = int(np.clip(np.sqrt(scaled.size), 9, 61)) | 1  # odd: one bin is centred on zero
    reach = min(max(4.0, float(np.max(np.abs(scaled), initial=0.0))), FARTHEST)
    edges = np.linspace(-reach, reach, bins + 1)
    beyond = int(np.sum(np.abs(scaled) > reach))
    counts, _ = np.histogram(np.clip(scaled, -reach, reach), edges)
    width = edges[1] - edges[0]
    return (edges[:-1] + edges[1:]) / 2, counts / max(scaled.size, 1) / width, beyond
