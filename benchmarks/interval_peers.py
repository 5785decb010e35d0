"""Interval peers: the step of verified_step.py as a loop over codac's intervals.

    python interval_peers.py codac case.json     ->  a line RESULT {"seconds": per box}

Run by a Python that has it. codac changes the rounding of its process for good, so it has one of its own in any case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import answer_as_peer, best

H = 0.01  # s, of the step


def formula(x1: Any, x2: Any, a: Any, b: Any, t: Any, u: Any) -> tuple[Any, Any]:
    """Angle and speed after a step in forward motion, order 1 and its remainder."""
    rate = a * x2 + b * (u - t)
    rest = H * H / 2 * a * rate
    return x1 + H * x2 + H * H / 2 * rate, x2 + H * rate + rest


def boxes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (6, count)."""
    rng = np.random.default_rng(1)
    lo = np.array([[0.0], [1.0], [-5.0], [50.0], [0.1], [0.3]]) + rng.random((6, count)) * 0.1
    return lo, lo + np.array([[1e-3], [0.1], [0.2], [5.0], [0.01], [0.0]])


def by_codac(case: dict[str, Any]) -> dict[str, float]:
    """CPU seconds per box."""
    from codac import Interval

    lo, hi = boxes(case["boxes"])

    def loop() -> None:
        for k in range(case["boxes"]):
            formula(*(Interval(float(a), float(b)) for a, b in zip(lo[:, k], hi[:, k], strict=True)))

    return {"seconds": best(loop) / case["boxes"]}


if __name__ == "__main__":
    peers = {"codac": by_codac}
    answer_as_peer(lambda peer, case: peers[peer](case))
