"""Radau IIA: implicit, three stages, order 5, damps what is infinitely stiff."""

import casadi as ca
import numpy as np

from dynident.integrators.scheme import Implicit, Step

ROOT6 = np.sqrt(6)
NODES = ((4 - ROOT6) / 10, (4 + ROOT6) / 10, 1.0)
WEIGHTS = (
    ((88 - 7 * ROOT6) / 360, (296 - 169 * ROOT6) / 1800, (-2 + 3 * ROOT6) / 225),
    ((296 + 169 * ROOT6) / 1800, (88 + 7 * ROOT6) / 360, (-2 - 3 * ROOT6) / 225),
    ((16 - ROOT6) / 36, (16 + ROOT6) / 36, 1 / 9))


def equations(step: Step, stages: ca.SX) -> ca.SX:
    n = step.x.numel()
    slopes = [step.rate_at(stages[i * n:(i + 1) * n], NODES[i]) for i in range(3)]
    return ca.vertcat(*[stages[i * n:(i + 1) * n] - step.x - step.h * sum(WEIGHTS[i][j] * slopes[j] for j in range(3))
                        for i in range(3)])


def next_state(step: Step, stages: ca.SX) -> ca.SX:
    return stages[2 * step.x.numel():]


RADAU = Implicit("radau", 5, 3, equations, next_state, summary="implicit; for stiff models")
