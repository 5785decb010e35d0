"""Published noise: is the likelihood of `prediction_error()` the one that another code prints, on that code's own record?

    CTSM_RECORD=ornstein.csv python benchmarks/noise_published.py

The other code is ctsmTMB 1.1.1, the successor of CTSM-R (Technical University of Denmark). Its package holds a record,
Ornstein2D, and what it finds in the first 50 rows of it (EstimateReferenceData, made by data-raw/EstimateReferenceData.R): two
states, the second following the first, both disturbed and both measured, at first 3 with the variance 0.1. The record is
not part of this project; in R, `write.csv(ctsmTMB::Ornstein2D[1:50, ], "ornstein.csv", row.names = FALSE)` makes the file.
Without it a record of the same process, simulated here, is compared with an exact Kalman filter (matrix exponentials) only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm
from timing import Line, Result, main

import dynident as di
from dynident.kalman.prediction_error.scoring import evaluate
from dynident.kalman.prediction_error.setup import build_prediction

SUBSTEPS = 256  # between two samples here: the other code's linear filter is exact
STATES = {"x1": "theta*(mu + u - x1)", "x2": "alpha*(x1 - x2)"}
PRIOR_STD = float(np.sqrt(0.1))
UNKNOWNS = ("theta", "mu", "alpha")


@dataclass(frozen=True)
class Published:
    """What its linear filter ("lkf") prints: minus the log-likelihood, estimates and standard errors; logarithms but for mu."""

    nll: float
    theta: float
    mu: float
    alpha: float
    process: tuple[float, float]
    sensors: tuple[float, float]
    std: tuple[float, float, float]  # of theta, mu, alpha


PUBLISHED = {
    "zero": Published(4.80814948092, 1.833955277, 2.906030748, 0.462067214, (0.333674231, -0.933221872),
                      (-12.179874275, -2.027698369), (0.2855721, 0.1024616, 0.3022840)),
    "linear": Published(1.75327931962, 1.906083397, 2.921305787, 0.466180814, (0.291402155, -0.931304991),
                        (-12.811168871, -2.030662398), (0.2403127, 0.09160368, 0.3006662)),
}
OWN = Published(np.nan, np.log(5.0), 3.0, np.log(2.0), (0.0, np.log(0.5)), (np.log(0.1),) * 2, (np.nan,) * 3)


def problem(rows: np.ndarray, hold: str, at: Published, noise_given: bool) -> di.Problem:
    sensors = {f"y{k + 1}": di.Gaussian(float(np.exp(at.sensors[k])) if noise_given else None) for k in range(2)}
    record = di.Experiment(rows[:, 0], {"u": rows[:, 1]}, {"y1": rows[:, 2], "y2": rows[:, 3]}, sensors, hold=hold)
    model = di.EquationModel(states=STATES, outputs={"y1": "x1", "y2": "x2"}, inputs=["u"])
    return di.Problem(model, [record], [
        di.Parameter("theta", float(np.exp(at.theta)) if noise_given else 5.0, lower=1e-5, upper=50, log=True),
        di.Parameter("mu", at.mu if noise_given else 3.0),
        di.Parameter("alpha", float(np.exp(at.alpha)) if noise_given else 2.0, lower=1e-5, upper=50, log=True),
        *(di.InitialState(s, 3.0, prior=di.Prior(3.0, PRIOR_STD)) for s in STATES)],
        process_noise={s: di.Gaussian(float(np.exp(at.process[k])) if noise_given else None) for k, s in enumerate(STATES)})


def likelihood(rows: np.ndarray, hold: str, at: Published) -> float:
    """Minus the logarithm, by the filter of `prediction_error()`; the first state, a Gaussian unknown there, integrated out."""
    setup = build_prediction(problem(rows, hold, at, True), {s: float(np.exp(at.process[k])) for k, s in enumerate(STATES)},
                             "runge_kutta", SUBSTEPS)
    found = evaluate(setup, np.array([at.theta, at.mu, at.alpha, 3.0, 3.0]))
    H, g = found.information[3:, 3:], found.gradient[3:]
    integral = 0.5 * np.linalg.slogdet(H)[1] - 0.5 * g @ np.linalg.solve(H, g) + 2 * np.log(PRIOR_STD)
    return float(found.value + integral + np.isfinite(rows[:, 2:]).sum() * 0.5 * np.log(2 * np.pi))


def exact_likelihood(rows: np.ndarray, hold: str, at: Published) -> float:
    """The same by a Kalman filter of the linear process, stepped by matrix exponentials."""
    theta, alpha = np.exp(at.theta), np.exp(at.alpha)
    A, Q = np.array([[-theta, 0.0], [alpha, -alpha]]), np.diag(np.exp(2 * np.array(at.process)))
    x, P, R, total = np.full(2, 3.0), PRIOR_STD**2 * np.eye(2), np.diag(np.exp(2 * np.array(at.sensors))), 0.0
    for k, (t, _, *y) in enumerate(rows):
        if k:
            h, u = t - rows[k - 1, 0], rows[k - 1, 1]
            slope = (rows[k, 1] - u) / h if hold == "linear" else 0.0
            whole = np.zeros((5, 5))
            whole[:2, :2], whole[0, 2], whole[0, 4], whole[2, 3] = A, theta, theta * at.mu, 1.0
            x = (expm(whole * h) @ np.array([*x, u, slope, 1.0]))[:2]
            M = expm(np.block([[-A, Q], [np.zeros((2, 2)), A.T]]) * h)
            P = M[2:, 2:].T @ P @ M[2:, 2:] + M[2:, 2:].T @ M[:2, 2:]
        S, e = P + R, np.array(y) - x
        total += 0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2 * np.pi * S)[1])
        K = np.linalg.solve(S, P).T
        x, P = x + K @ e, (np.eye(2) - K) @ P @ (np.eye(2) - K).T + K @ R @ K.T
    return float(total)


def own_record() -> np.ndarray:
    rng = np.random.default_rng(13)
    t, fine = 0.1 * np.arange(50), 100
    u, x, rows = np.cumsum(0.5 * rng.normal(size=50)), np.array([3.0, 3.0]), []
    for k in range(50):
        rows.append([t[k], u[k], *(x + 0.1 * rng.normal(size=2))])
        for _ in range(fine):
            rate = np.array([5.0 * (3.0 + u[k] - x[0]), 2.0 * (x[0] - x[1])])
            x = x + rate * 0.1 / fine + np.array([1.0, 0.5]) * np.sqrt(0.1 / fine) * rng.normal(size=2)
    return np.array(rows)


def of_estimates(rows: np.ndarray, hold: str, at: Published) -> list[Line]:
    found = di.identify(problem(rows, hold, at, False), di.prediction_error(), progress=False)
    lines = []
    for name, std in zip(UNKNOWNS, at.std, strict=True):
        value, own = found.values[name], found.uncertainty.std(name)
        ours, width = (value, own) if name == "mu" else (np.log(value), own / value)
        theirs = getattr(at, name)
        lines.append(Line(f"{hold} hold, {name if name == 'mu' else f'log {name}'}", f"{ours:.3f} ± {width:.3f}, printed "
                          f"{theirs:.3f} ± {std:.3f}", "within 0.3 standard errors", abs(ours - theirs) < 0.3 * std))
    return lines


def run() -> Result:
    lines, own = [], own_record()
    for hold in PUBLISHED:
        gap = abs(likelihood(own, hold, OWN) - exact_likelihood(own, hold, OWN))
        lines.append(Line(f"own record, {hold} hold: from the exact filter's log-likelihood", f"{gap:.1e}", "1e-8", gap < 1e-8))
    file = os.environ.get("CTSM_RECORD")
    rows = np.genfromtxt(file, delimiter=",", skip_header=1) if file else None
    for hold, at in PUBLISHED.items() if rows is not None else ():
        ours, exact = likelihood(rows, hold, at), exact_likelihood(rows, hold, at)
        lines.append(Line(f"{hold} hold: minus the log-likelihood at its estimate", f"{ours:.7f}, exact filter {exact:.7f}, "
                          f"printed {at.nll:.7f}", "to 1e-6", abs(ours - at.nll) < 1e-6))
        lines += of_estimates(rows, hold, at)
    return Result("Published noise", "Beside ctsmTMB 1.1.1 on the first 50 rows of its record Ornstein2D; its noises are those "
                  "of the likelihood, ours of the restricted one.", lines,
                  [] if file else ["Without the published record: CTSM_RECORD names it."])


if __name__ == "__main__":
    main(run)
