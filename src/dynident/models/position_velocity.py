"""Position and velocity: which states are positions and which their velocities, as symplectic schemes ask?"""

from __future__ import annotations

from collections.abc import Sequence

import casadi

from dynident.errors import NotSupported


def position_velocity(rate: casadi.Function, states: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions and, in the same order, their velocities, as indices into the states; raises NotSupported with the reason."""
    x = casadi.SX.sym("x", len(states))
    rates = rate(*(x if k == 1 else casadi.SX.sym("a", rate.size1_in(k)) for k in range(rate.n_in())))
    index = {x[k].element_hash(): k for k in range(len(states))}
    velocity_of = {k: index[rates[k].element_hash()] for k in range(len(states)) if rates[k].element_hash() in index}
    positions, velocities = tuple(velocity_of), tuple(velocity_of.values())
    for k, state in enumerate(states):
        reason = ""
        if k in velocity_of and k in velocities:
            reason = f"'{state}' is a velocity whose own rate is the state '{states[velocity_of[k]]}'"
        elif velocities.count(k) > 1:
            reason = f"'{state}' is the rate of {velocities.count(k)} states"
        elif k not in velocity_of and k not in velocities:
            reason = f"the rate of '{state}' is not one state alone, and '{state}' is the rate of no other state"
        if reason:
            raise NotSupported(f"is not in the form of positions and velocities: {reason}. Use an integrator that takes any "
                               "model, such as runge_kutta.")
    return positions, velocities
