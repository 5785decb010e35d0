"""The verified step: what does a proof cost beside plain float64, and beside a loop over interval objects?

One step of the drive train in forward motion (angle and speed, order 1 and its remainder); and the same with a backward
(HC4) pass, which has no counterpart in the peers.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from timing import Line, Result, best, growth, main

from dynident.kernels.interval import interval_kernel

BOXES = (1_000, 4_000, 16_000)
H = 0.01
AT_MOST_FLOAT = 4.0
FASTER_THAN_LOOP = 100.0


def formula(x1, x2, a, b, t, u):
    rate = a * x2 + b * (u - t)
    rest = H * H / 2 * a * rate
    return x1 + H * x2 + H * H / 2 * rate, x2 + H * rate + rest


def boxes(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    lo = np.array([[0.0], [1.0], [-5.0], [50.0], [0.1], [0.3]]) + rng.random((6, count)) * 0.1
    return lo, lo + np.array([[1e-3], [0.1], [0.2], [5.0], [0.01], [0.0]])


def flint_loop(lo: np.ndarray, hi: np.ndarray, count: int) -> None:
    import flint

    for k in range(count):
        z = [flint.arb(0.5 * (a + b), 0.5 * (b - a)) for a, b in zip(lo[:, k], hi[:, k], strict=True)]
        formula(*z)


def run() -> Result:
    z = ca.SX.sym("z", 6)
    kernel = interval_kernel(ca.Function("f", [z], [ca.vertcat(*formula(*ca.vertsplit(z)))]))
    lo, hi = boxes(BOXES[0])
    want = kernel.evaluate(lo, hi)
    plain = best(lambda: formula(*lo))
    forward = best(lambda: kernel.evaluate(lo, hi))
    both = best(lambda: kernel.contract(lo, hi, *want))
    sample = 200
    loop = best(lambda: flint_loop(lo, hi, sample)) * BOXES[0] / sample
    costs = []
    for count in BOXES:
        many = boxes(count)
        costs.append(best(lambda many=many: kernel.evaluate(*many)))
    slope = growth(BOXES, costs)
    return Result(
        "Verified step", f"{BOXES[0]} boxes, one thread.", [
            Line("forward step / same formula in float64 numpy", f"{forward / plain:.2f}", f"<= {AT_MOST_FLOAT:g}",
                 forward / plain <= AT_MOST_FLOAT),
            Line("forward and backward / forward in numpy", f"{both / plain:.2f}"),
            Line("loop over python-flint boxes / forward step", f"{loop / forward:.0f}", f">= {FASTER_THAN_LOOP:g}",
                 loop / forward >= FASTER_THAN_LOOP),
            Line("growth in boxes (1: linear)", f"{slope:.2f}", "<= 1.15", slope <= 1.15),
            Line("forward step per box", f"{1e9 * forward / BOXES[0]:.0f} ns")])


if __name__ == "__main__":
    main(run)
