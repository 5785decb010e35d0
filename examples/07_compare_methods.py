"""Which method finds the answer from a poor start?

A pendulum swings for 20 s, and the start value of p = g/l is half the truth. Single shooting compares two oscillations
that drift apart; whichever way it turns the frequency, the comparison first gets worse, and it ends in a local optimum:
converged, and wrong. Multiple shooting and full discretization begin at the measurements and bend the model towards
them. The problem is the same object; only the method changes.
"""

import numpy as np

import dynident as di

pendulum = di.EquationModel(states={"angle": "rate", "rate": "-p*sin(angle)"}, outputs=["angle"])
truth = {"p": 10.0, "angle(0)": 1.0, "rate(0)": 0.0}
time = np.linspace(0, 20, 1001)
clean = di.simulate(pendulum, truth, di.Experiment(time)).outputs["angle"]
angle = clean + 0.01 * np.random.default_rng(7).standard_normal(time.size)
run = di.Experiment(time, outputs={"angle": angle}, noise={"angle": di.Gaussian(0.01)})
problem = di.Problem(pendulum, [run], [di.Parameter("p", start=5.0, lower=0.1, upper=100, unit="1/s^2")])

comparison = di.compare(problem, [di.single_shooting(), di.multiple_shooting(), di.full_discretization()])
print(comparison)

for name, estimate in comparison.items():
    print(f"{name}: p = {estimate.values['p']:.3f}, reduced chi-square {estimate.statistics['reduced_chi2']:.3g}")
print("The truth is p = 10; a model that fits has a reduced chi-square near 1.")
