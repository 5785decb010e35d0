"""Which mass and which friction does this axis have? A first fit, from arrays.

A slide is driven by a motor: M q'' = gain u - Fv q' - Fc sign(q') - offset. The drive signal u and the position q are
recorded 200 times a second. The record is simulated here, so that the answer is known.
"""

import numpy as np

import dynident as di

# The model: one equation per state. Names that are declared nowhere (M, Fv, Fc, offset) are the parameters. The sign is
# smoothed over 1 cm/s, so that the friction force has a derivative.
axis = di.EquationModel(
    states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.01) - offset) / M"},
    outputs={"position": "q"}, inputs=["u"], constants={"gain": 35.15})

# The record: a drive signal that moves back and forth, and a position with 0.1 mm of noise.
truth = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}
time = np.arange(0, 5, 0.005)
u = 2 * np.sign(np.sin(2 * np.pi * 0.7 * time)) + np.sin(2 * np.pi * 2.3 * time)
at_rest = {"q": 0.0, "v": 0.0}
clean = di.simulate(axis, truth, di.Experiment(time, {"u": u}, initial=at_rest)).outputs["position"]
position = clean + 1e-4 * np.random.default_rng(1).standard_normal(time.size)
run = di.Experiment(time, inputs={"u": u}, outputs={"position": position}, noise={"position": di.Gaussian(1e-4)},
                    initial=at_rest)

# The problem: what is unknown, where to start, and what is impossible.
problem = di.Problem(axis, [run], [
    di.Parameter("M", start=50, lower=1, upper=500, unit="kg"),
    di.Parameter("Fv", start=100, lower=0, upper=1000, unit="N s/m"),
    di.Parameter("Fc", start=10, lower=0, upper=200, unit="N"),
    di.Parameter("offset", start=0, lower=-50, upper=50, unit="N")])

estimate = di.identify(problem)
print(estimate)

low, high = estimate.uncertainty.interval("M")
print(f"\nM lies between {low:.2f} and {high:.2f} kg; the truth is 95.")
