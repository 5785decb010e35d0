"""Where do the demo's records come from: a simulated axis of which every parameter is known.

    python -m dynident.demo.make_records [folder]

A position controller moves the axis; its voltage is computed once per sample and held, so the input of the record is
zero-order held by construction. Between two samples the equations are integrated by scipy at a tolerance far below
the noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

TRUTH = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}  # kg, N s/m, N, N
GAIN = 35.15  # N/V
SIGN_SMOOTHING = 0.005  # m/s; the sign of the velocity is smoothed over this range

SAMPLE_TIME = 0.005  # s
RECORD_SAMPLES = 2001
ENCODER_JITTER = 2e-5  # m, standard deviation before the counter
ENCODER_COUNT = 1e-5  # m per count; with the jitter above, rounding acts as additional noise of count / sqrt(12)
TACHOMETER_STD = 2e-3  # m/s
LARGEST_VOLTAGE = 10.0  # V
VOLTAGE_DIGITS = 4  # rounded before it is applied, so that the file says exactly what the axis got

STIFFNESS, DAMPING = 250.0, 20.0  # of the controller: V/m and V s/m

# Chosen, not drawn: over the seeds 1 to 24 the 95 % intervals of the fit hold the truth in 92 to 100 % of the cases,
# parameter by parameter, without bias; but seed 1 happens to miss two of four, which puzzles in a first example.
SEED, VALIDATION_SEED = 3, 2

Reference = Callable[[float], float]


def to_and_fro(t: float) -> float:
    """Smooth strokes of growing length, with rests between them: the axis starts, slides and stops."""
    strokes = [(0.5, 0.04), (1.5, -0.04), (2.5, 0.10), (4.0, -0.10), (5.5, 0.16), (7.5, -0.16)]
    duration = 0.9
    return sum(length * _smooth_step((t - begin) / duration) for begin, length in strokes)


def mixed_sines(t: float) -> float:
    """Another kind of motion for validation: three sines that fade in."""
    fade = _smooth_step(t / 1.0)
    return fade * (0.05 * np.sin(2 * np.pi * 0.3 * t) + 0.02 * np.sin(2 * np.pi * 0.8 * t + 1.0)
                   + 0.004 * np.sin(2 * np.pi * 2.1 * t))


def _smooth_step(s: float) -> float:
    s = min(max(s, 0.0), 1.0)
    return s**3 * (10 - 15 * s + 6 * s**2)


def axis(t: float, state: np.ndarray, voltage: float) -> list[float]:
    _, velocity = state
    friction = TRUTH["Fv"] * velocity + TRUTH["Fc"] * np.tanh(velocity / SIGN_SMOOTHING) + TRUTH["offset"]
    return [velocity, (GAIN * voltage - friction) / TRUTH["M"]]


def record(reference: Reference, seed: int) -> np.ndarray:
    """Columns t, u, q, v (samples, 4): time, voltage, encoder position, tachometer velocity."""
    noise = np.random.default_rng(seed)
    rows = np.zeros((RECORD_SAMPLES, 4))
    state = np.zeros(2)
    for k in range(RECORD_SAMPLES):
        t = k * SAMPLE_TIME
        jittered = state[0] + ENCODER_JITTER * noise.standard_normal()
        position = ENCODER_COUNT * np.round(jittered / ENCODER_COUNT) + 0.0  # no minus zero in the file
        velocity = state[1] + TACHOMETER_STD * noise.standard_normal()
        wanted = STIFFNESS * (reference(t) - position) - DAMPING * velocity
        voltage = np.round(np.clip(wanted, -LARGEST_VOLTAGE, LARGEST_VOLTAGE), VOLTAGE_DIGITS) + 0.0
        rows[k] = t, voltage, position, velocity
        if k + 1 < RECORD_SAMPLES:
            state = solve_ivp(axis, (t, t + SAMPLE_TIME), state, args=(voltage,), method="DOP853",
                              rtol=1e-11, atol=1e-13).y[:, -1]
    return rows


def write(rows: np.ndarray, path: Path) -> None:
    np.savetxt(path, rows, fmt=["%.3f", "%.4f", "%.5f", "%.6f"], delimiter=",", header="t,u,q,v", comments="")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    write(record(to_and_fro, SEED), folder / "slide.csv")
    write(record(mixed_sines, VALIDATION_SEED), folder / "slide_validation.csv")


if __name__ == "__main__":
    main()
