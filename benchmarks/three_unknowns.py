"""Two masses with three unknowns: how far is what is proved from what fits, and how long does it take?

300 samples of both positions with errors of at most 1 % of what each moves; mass, stiffness and damping known to a factor of
two. The feasible cloud is found from inside, by an optimisation that shares nothing with the sets: the exact solution of the
linear system (matrix exponential, inputs held), and SLSQP that makes each unknown as small and as large as the measurements
allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm
from scipy.optimize import minimize
from timing import Line, Result, main, once, size, spoken

import dynident as di

SAMPLES = size(300, 12)
TRUTH = {"m2": 2.5, "k": 900.0, "b": 12.0}
FIRST_MASS = 1.2
START = {"x1": 0.01, "x2": 0.0, "v1": 0.0, "v2": 0.1}
ERROR = 0.01  # of the range of a position
SEEDS = size((1, 2, 3), (1,))
WITHIN, AT_MOST = 3.0, 60.0  # times the cloud; s of CPU time


@dataclass(frozen=True, eq=False)
class Masses:
    """A record of known truth."""

    time: np.ndarray
    force: np.ndarray
    measured: np.ndarray  # (samples, 2)
    radius: np.ndarray  # (2,)

    def problem(self) -> di.Problem:
        model = di.EquationModel(
            states={"x1": "v1", "x2": "v2", "v1": f"(F - k*(x1 - x2) - b*(v1 - v2))/{FIRST_MASS}",
                    "v2": "(k*(x1 - x2) + b*(v1 - v2))/m2"}, inputs=["F"], outputs={"y1": "x1", "y2": "x2"})
        run = di.Experiment(self.time, {"F": self.force}, {"y1": self.measured[:, 0], "y2": self.measured[:, 1]},
                            {"y1": di.Bounded(float(self.radius[0])), "y2": di.Bounded(float(self.radius[1]))}, START)
        return di.Problem(model, [run], [di.Parameter(n, v, v / 2, 2 * v) for n, v in TRUTH.items()])

    def largest_error(self, point: np.ndarray) -> float:
        """In radii."""
        return float(np.max(np.abs(positions(self.time, self.force, point) - self.measured) / self.radius))


def positions(time: np.ndarray, force: np.ndarray, point: np.ndarray) -> np.ndarray:
    """(samples, 2) of the exact solution."""
    m2, k, b = point
    A = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [-k / FIRST_MASS, k / FIRST_MASS, -b / FIRST_MASS, b / FIRST_MASS],
                  [k / m2, -k / m2, b / m2, -b / m2]])
    B = np.array([0, 0, 1 / FIRST_MASS, 0])
    whole = expm(np.block([[A, B[:, None]], [np.zeros((1, 5))]]) * (time[1] - time[0]))
    x, found = np.array(list(START.values())), []
    for u in force:
        found.append(x[:2])
        x = whole[:4, :4] @ x + whole[:4, 4] * u
    return np.array(found)


def make_record(seed: int) -> Masses:
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1.5, SAMPLES)
    force = np.repeat(rng.uniform(-100, 100, SAMPLES // 12 + 1), 12)[:SAMPLES]
    exact = positions(time, force, np.array(list(TRUTH.values())))
    radius = ERROR * np.ptp(exact, axis=0)
    return Masses(time, force, exact + radius * rng.uniform(-1, 1, exact.shape), radius)


def feasible_cloud(record: Masses) -> np.ndarray:
    """(points, unknowns) that fit, as far out as was found in each unknown."""
    truth = np.array(list(TRUTH.values()))
    spread = record.measured.size

    def room(scaled: np.ndarray) -> np.ndarray:
        error = (positions(record.time, record.force, scaled * truth) - record.measured) / record.radius
        return np.concatenate([1 - error.ravel(), 1 + error.ravel()])

    assert room(np.ones(3)).size == 2 * spread
    points = [truth]
    for i in range(3):
        for sign in (1.0, -1.0):
            solved = minimize(lambda z, i=i, sign=sign: -sign * z[i], np.ones(3), constraints={"type": "ineq", "fun": room},
                              bounds=[(0.5, 2.0)] * 3, method="SLSQP", options={"maxiter": 60, "ftol": 1e-9})
            share = 1.0  # back towards the truth, which fits, until the point does
            while record.largest_error(truth + share * (solved.x * truth - truth)) > 1:
                share *= 0.98
            points.append(truth + share * (solved.x * truth - truth))
    return np.array(points)


def compare(seed: int) -> tuple[float, float, di.Estimate]:
    """The largest ratio of what is proved to the cloud, CPU seconds, and the answer; raises where a point that fits is lost."""
    record = make_record(seed)
    cloud = feasible_cloud(record)
    seconds, estimate = once(lambda: di.identify(record.problem(), di.set_membership(), progress=False))
    found = estimate.uncertainty
    ratios = []
    for name, own in zip(TRUTH, cloud.T, strict=True):
        low, high = found.interval(name)
        if not (low <= own.min() and own.max() <= high):
            raise AssertionError(f"{name}: a point that fits lies outside of the set")
        ratios.append((high - low) / np.ptp(own))
    return max(ratios), seconds, estimate


def run() -> Result:
    lines = []
    for seed in SEEDS:
        ratio, seconds, estimate = compare(seed)
        found = estimate.uncertainty
        inside = ", ".join(f"{n} {b - a:.3g}" for n in TRUTH for a, b in [found.feasible_interval(n)])
        lines += [Line(f"record {seed}: width of the set / of the feasible cloud, the largest of three", f"{ratio:.3g}",
                       f"<= {WITHIN:g}", ratio <= WITHIN),
                  Line(f"record {seed}: proved points inside reach over", inside if found.feasible.size else "none"),
                  Line(f"record {seed}: CPU time", spoken(seconds), f"<= {AT_MOST:g} s", seconds <= AT_MOST)]
    return Result("Two masses, three unknowns", f"{SAMPLES} samples of two positions, errors of at most 1 %, unknowns "
                  "that are known to a factor of two.", lines)


if __name__ == "__main__":
    main(run)
