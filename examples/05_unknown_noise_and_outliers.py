"""The noise of my sensor is not known, and some samples are wild. What can still be trusted?

Two things. Without a standard deviation, it is estimated from what the fit leaves over. And wild samples pull a least
squares fit; a robust loss bounds their pull. Nothing is dropped.
"""

import numpy as np

import dynident as di

pendulum = di.library.pendulum()                         # angle'' = -p sin(angle) - d angle'
truth = {"p": 9.81, "d": 0.1, "angle(0)": 1.2, "rate(0)": 0.0}
time = np.linspace(0, 6, 301)
clean = di.simulate(pendulum, truth, di.Experiment(time)).outputs["angle"]
rng = np.random.default_rng(5)
angle = clean + 0.01 * rng.standard_normal(time.size)
wild = rng.choice(time.size, 15, replace=False)          # one sample in twenty
angle[wild] += rng.uniform(0.3, 1.0, wild.size)

run = di.Experiment(time, outputs={"angle": angle}, noise={"angle": di.Gaussian()})  # no std: it is estimated
problem = di.Problem(pendulum, [run], [di.Parameter("p", start=8.0, unit="1/s^2"),
                                       di.Parameter("d", start=0.2, lower=0, unit="1/s")])

print(di.check(problem))
squares = di.identify(problem, di.multiple_shooting())
robust = di.identify(problem, di.multiple_shooting(loss="huber"))
print(squares)
print(robust)

error = {name: abs(estimate.values["d"] - truth["d"]) for name, estimate in
         (("least squares", squares), ("the robust loss", robust))}
print(f"\nNoise: {robust.noise_std['angle']:.4f} rad; the truth is 0.01. Error of the damping: "
      + ", ".join(f"{size:.4f} with {name}" for name, size in error.items()) + ".")
