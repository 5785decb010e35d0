"""One machine, two records: which parameters do they share, and what changed between them?

A mass on a spring is struck twice. Between the two records the damper was warm, so the damping has a value of its own
in each; mass and stiffness are the same. Both records are fitted together.
"""

import numpy as np

import dynident as di

machine = di.library.mass_spring_damper()                # m x'' + d x' + k x = F, the position is measured
time = np.linspace(0, 12, 601)
push = np.where((time % 4 > 0.5) & (time % 4 < 1.0), 3.0, 0.0)
rng = np.random.default_rng(3)


def record(name: str, damping: float, x0: float) -> di.Experiment:
    """A simulated record with 2 mm of noise."""
    truth = {"m": 1.5, "d": damping, "k": 20.0, "x(0)": x0, "v(0)": 0.0}
    clean = di.simulate(machine, truth, di.Experiment(time, {"F": push})).outputs["position"]
    return di.Experiment(time, {"F": push}, {"position": clean + 2e-3 * rng.standard_normal(time.size)},
                         noise={"position": di.Gaussian(2e-3)}, name=name)


problem = di.Problem(machine, [record("cold", 1.0, 0.10), record("warm", 0.6, 0.05)], [
    di.Parameter("m", start=1, lower=0.1, upper=10, unit="kg"),
    di.Parameter("k", start=10, lower=1, upper=100, unit="N/m"),
    di.Parameter("d", start=1, lower=0, upper=10, unit="N s/m", shared=False)])  # one value per experiment

estimate = di.identify(problem)
print(estimate)

loss = estimate.values["d[cold]"] - estimate.values["d[warm]"]
print(f"\nThe warm damper lost {loss:.3f} N s/m; the truth is 0.4.")
