"""Which parameters can these data not tell apart, and what helps?

Two carts are bolted together and pushed. Only their sum m1 + m2 moves anything: no fit of the motion can find the two
masses, and a fit that prints two numbers with small errors would be wrong. `check` says so before the fit; the estimate
says so too, and keeps what is determined.
"""

import numpy as np

import dynident as di

carts = di.EquationModel(states={"x": "v", "v": "(F - d*v)/(m1 + m2)"}, outputs={"position": "x"}, inputs=["F"])
time = np.linspace(0, 8, 401)
push = 5 * np.sign(np.sin(2 * np.pi * time / 3))
truth = {"m1": 2.0, "m2": 4.0, "d": 1.5, "x(0)": 0.0, "v(0)": 0.0}
clean = di.simulate(carts, truth, di.Experiment(time, {"F": push})).outputs["position"]
measured = clean + 1e-3 * np.random.default_rng(4).standard_normal(time.size)
run = di.Experiment(time, {"F": push}, {"position": measured}, noise={"position": di.Gaussian(1e-3)})


def problem(**m1: object) -> di.Problem:
    return di.Problem(carts, [run], [di.Parameter("m1", start=1.0, lower=0.1, upper=10, unit="kg", **m1),
                                     di.Parameter("m2", start=2.0, lower=0.1, upper=10, unit="kg"),
                                     di.Parameter("d", start=1.0, lower=0, upper=10, unit="N s/m")])


found = di.check(problem())
print(found)

both_free = di.identify(problem())
print(both_free)

# The way out: put one cart on a scale. It was 2 kg, to within 10 g.
weighed = di.identify(problem(prior=di.Prior(mean=2.0, std=0.01)))
print(weighed)

low, high = weighed.uncertainty.interval("m2")
print(f"\nm1 + m2 = {both_free.values['m1'] + both_free.values['m2']:.3f} kg; the truth is 6. "
      f"With m1 weighed, m2 lies between {low:.2f} and {high:.2f} kg; the truth is 4.")
