"""The verified step: what does a proof cost beside plain float64, and beside a loop over interval objects?

One step of the drive train in forward motion (angle and speed, order 1 and its remainder); the same with a backward
(HC4) pass, which has no counterpart in the peers; and the whole step of the recursion, whose cost must grow with the number
of boxes and of samples only. Set-up (reading the problem, kernels) is paid once per record, and told apart.
"""

from __future__ import annotations

from pathlib import Path

import casadi as ca
import numpy as np
from interval_peers import H, boxes, formula
from timing import Line, Result, best, growth, main, of_peer, once, size

import dynident as di
from dynident.papers.drive_train import drive_train, drive_train_record, driving_cycles
from dynident.set_membership.flows.boxes import BoundedSample, Boxes, IntervalStep
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.flows.mode_flow import FlowOptions
from dynident.set_membership.intervals import make_interval_kernel

BOXES = size((1_000, 4_000, 16_000), (10, 20))
SECONDS = size((8.0, 16.0, 32.0), (0.1, 0.2, 0.4))  # of driving: whole cycles, so that each has its share of rest and motion
AT_MOST_FLOAT = 4.0
FASTER_THAN_LOOP = 100.0
LINEAR = 1.15


def flint_loop(lo: np.ndarray, hi: np.ndarray, count: int) -> None:
    import flint

    for k in range(count):
        z = [flint.arb(0.5 * (a + b), 0.5 * (b - a)) for a, b in zip(lo[:, k], hi[:, k], strict=True)]
        formula(*z)


def fused_step_seconds(count: int) -> float:
    """CPU seconds of a whole step of the recursion, forward and backward, over sliding boxes."""
    step = HybridStep(IntervalAutomaton(drive_train()), FlowOptions(3))
    lo, hi = (side[:5] for side in boxes(count))
    step_in_time = IntervalStep.from_samples(0.0, H, np.array([0.3]), np.array([0.3]), np.zeros(1, bool), np.zeros(1))
    sample = BoundedSample(step_in_time, np.array([0.0, -np.inf]), np.array([0.2, np.inf]))
    sliding = Boxes(lo, hi, np.ones(count, int))
    return best(lambda: step.advance(sliding, step_in_time, sample, True))


def record_seconds(seconds: float) -> float:
    """CPU seconds of the recursion over a record of driving cycles; of a hundredth, it is the set-up."""
    rig = drive_train_record(*driving_cycles(0.0, seconds))
    bounds = {"alpha": (-4.6, -4.4), "beta": (60.0, 70.0), "T_Fs": (0.0, 0.3)}
    problem = di.Problem(drive_train(), [rig.experiment], [
        di.Parameter(n, 0.5 * (a + b), a, b) for n, (a, b) in bounds.items()])
    method = di.set_membership(algorithm="recursive", max_boxes=200, reset={"T_Fs": "speed"})
    return min(once(lambda: di.identify(problem, method, progress=False))[0] for _ in range(2))


def codac_line(forward: float) -> Line:
    what = "loop over codac boxes / forward step"
    found = of_peer(Path(__file__).with_name("interval_peers.py"), "codac", {"boxes": size(200, 5)})
    if isinstance(found, str):
        return Line(what, f"not run: {found}", f">= {FASTER_THAN_LOOP:g}")
    ratio = found["seconds"] * BOXES[0] / forward
    return Line(what, f"{ratio:.0f}", f">= {FASTER_THAN_LOOP:g}", ratio >= FASTER_THAN_LOOP)


def run() -> Result:
    z = ca.SX.sym("z", 6)
    kernel = make_interval_kernel(ca.Function("f", [z], [ca.vertcat(*formula(*ca.vertsplit(z)))]))
    lo, hi = boxes(BOXES[0])
    want = kernel.evaluate(lo, hi)
    plain = best(lambda: formula(*lo))
    forward = best(lambda: kernel.evaluate(lo, hi))
    both = best(lambda: kernel.contract(lo, hi, *want))
    sample = size(200, 5)
    loop = best(lambda: flint_loop(lo, hi, sample)) * BOXES[0] / sample
    fused = [fused_step_seconds(count) for count in BOXES]
    slope = growth(BOXES, fused)
    set_up = record_seconds(H)
    records = [record_seconds(seconds) for seconds in SECONDS]
    in_time = growth(SECONDS, [spent - set_up for spent in records])
    return Result(
        "Verified step", f"{BOXES[0]} boxes, one thread.", [
            Line("forward step / same formula in float64 numpy", f"{forward / plain:.2f}", f"<= {AT_MOST_FLOAT:g}",
                 forward / plain <= AT_MOST_FLOAT),
            Line("forward and backward / forward in numpy", f"{both / plain:.2f}"),
            Line("loop over python-flint boxes / forward step", f"{loop / forward:.0f}", f">= {FASTER_THAN_LOOP:g}",
                 loop / forward >= FASTER_THAN_LOOP),
            codac_line(forward),
            Line("whole step, growth in boxes (1: linear)", f"{slope:.2f}", f"<= {LINEAR:g}", slope <= LINEAR),
            Line("recursion without its set-up, growth in samples (1: linear)", f"{in_time:.2f}", f"<= {LINEAR:g}",
                 in_time <= LINEAR),
            Line("recursion, CPU time of its set-up / of one cycle", f"{set_up / records[0]:.2f}"),
            Line("recursion, time of a cycle among four / of the first", f"{(records[2] - records[1]) / 2 / records[0]:.2f}"),
            Line("forward step per box", f"{1e9 * forward / BOXES[0]:.0f} ns"),
            Line("whole step of the recursion per box", f"{1e9 * fused[0] / BOXES[0]:.0f} ns")])


if __name__ == "__main__":
    main(run)
