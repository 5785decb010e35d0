"""Multistep schemes: BDF2 and Adams-Moulton on a grid of uneven steps, written by the ratio of a step to the one before it.

r = h_n / h_{n-1}. At r = 0 the past has no weight: BDF2 is implicit Euler, Adams-Moulton the trapezoidal rule. Both begin so,
and begin anew where the inputs jump, since the past then belongs to another course. One such step has an error of order h^2
(h^3), which leaves the order of the whole as it is.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.integrators.scheme import Multistep, StepFunction
from dynident.tolerances import INPUT_CORNER

LARGEST_RATIO = 1 + np.sqrt(2.0)  # of two steps; below it BDF2 is zero-stable on any grid (Grigorieff 1983)


def bdf2_equation(step: StepFunction, ratio: ca.SX, before: ca.SX, rate_before: ca.SX, end: ca.SX) -> ca.SX:
    past = ratio**2 / (1 + 2 * ratio)
    rate = (1 + ratio) / (1 + 2 * ratio) * step.rate_at(end, 1)
    return end - step.x - past * (step.x - before) - step.h * rate


def adams_moulton_equation(step: StepFunction, ratio: ca.SX, before: ca.SX, rate_before: ca.SX, end: ca.SX) -> ca.SX:
    """The parabola through the rates at three nodes, integrated over the step."""
    rate = ((3 + 2 * ratio) / (1 + ratio) * step.rate_at(end, 1) + (3 + ratio) * step.rate_at(step.x, 0)
            - ratio**2 / (1 + ratio) * rate_before) / 6
    return end - step.x - step.h * rate


BDF2 = Multistep("bdf2", 2, "implicit Euler", False, bdf2_equation,
                 summary="two-step backward differentiation; for stiff models")
ADAMS_MOULTON = Multistep("adams_moulton", 3, "trapezoid", True, adams_moulton_equation,
                          summary="implicit two-step Adams scheme; for smooth motions")


def step_ratios(scheme: Multistep, time: np.ndarray, u_begin: np.ndarray, u_end: np.ndarray) -> np.ndarray:
    """(steps,) of each step to the one before; 0 where the scheme begins anew: first, after a step of no length, where an
    input jumps (or bends, if the scheme needs smooth rates), and where a step is too long beside the one before."""
    h = np.diff(time)
    ratios = np.zeros(h.size)
    if h.size < 2:
        return ratios
    follows = h[:-1] > 0
    np.divide(h[1:], h[:-1], out=ratios[1:], where=follows)
    anew = ~follows | (ratios[1:] > LARGEST_RATIO)
    if u_begin.shape[1]:
        size = np.max(np.abs(np.vstack([u_begin, u_end])), axis=0)
        anew |= np.any(np.abs(u_begin[1:] - u_end[:-1]) > INPUT_CORNER * size, axis=1)
        if scheme.needs_smooth_rates:
            slope = np.divide(u_end - u_begin, h[:, None], out=np.zeros_like(u_begin), where=h[:, None] > 0)
            rounding = size / np.max(h)  # what a slope of this input may be off by, per unit of rounding
            steep = np.maximum(np.max(np.abs(slope), axis=0), rounding)
            anew |= np.any(np.abs(np.diff(slope, axis=0)) > INPUT_CORNER * steep, axis=1)
    ratios[1:][anew] = 0.0
    return ratios
