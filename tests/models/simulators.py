"""Functions that simulate, at the top of a file so that they can be sent to other processes."""

import os
import time

import numpy as np
from scipy.integrate import solve_ivp


def decay(t, u, p):
    return {"y": p.a * np.exp(-p.k * t) + p["c"]}


def decay_jacobian(t, u, p):
    e = np.exp(-p.k * t)
    return {"y": np.column_stack([e, -p.a * t * e, np.ones_like(t)])}


def decay_jacobian_by_name(t, u, p):
    e = np.exp(-p.k * t)
    return {"y": {"a": e, "k": -p.a * t * e, "c": np.ones_like(t)}}


def wrong_jacobian(t, u, p):
    e = np.exp(-p.k * t)
    return {"y": np.column_stack([e, p.a * t * e, np.ones_like(t)])}


def oscillator(t, u, p):
    """By an adaptive solver of loose tolerance, which is noisy; the input is held from sample to sample."""
    def rate(s, x):
        force = u["f"][min(np.searchsorted(t, s, side="right") - 1, t.size - 1)]
        return [x[1], force - p.k * x[0] - p.d * x[1]]

    return {"q": solve_ivp(rate, (t[0], t[-1]), [p.q0, 0.0], t_eval=t, rtol=1e-6, max_step=0.1).y[0]}


def waves(t, u, p):
    return {"y": np.sin(p.w * t)}


def product(t, u, p):
    return {"y": p.a * p.b * np.exp(-p.k * t)}


def crashes(t, u, p):
    if p.k > 1.5:
        os._exit(3)
    return decay(t, u, p)


def hangs(t, u, p):
    if p.k > 1.5:
        time.sleep(60)
    return decay(t, u, p)


def always_crashes(t, u, p):
    os._exit(3)


def raises(t, u, p):
    if p.k > 1.5:
        raise ValueError("the solver gave up")
    return decay(t, u, p)
