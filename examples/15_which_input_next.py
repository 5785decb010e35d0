"""Which experiment next? Plan an input, run it, fit, and plan again, until the friction is known well enough.

The machine is simulated here; in its place stands yours. The first record is a timid one: a slow sine that hardly tells
mass from friction. Each plan uses what the records so far say, keeps the constraints of the machine, and predicts
standard deviations before anything is run.
"""

import numpy as np

import dynident as di

axis = di.EquationModel(
    states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.02) - offset) / M"},
    outputs={"position": "q"}, inputs=["u"], constants={"gain": 35.15})
truth = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}
at_rest = {"q": 0.0, "v": 0.0}
noise = {"position": di.Gaussian(1e-3)}  # a cheap sensor: 1 mm
rng = np.random.default_rng(1)


def machine(record: di.Experiment) -> np.ndarray:
    """What the sensor reads when the input of a record is run."""
    clean = di.simulate(axis, truth, record).outputs["position"]
    return clean + 1e-3 * rng.standard_normal(clean.size)


time = np.arange(0, 3, 0.01)
timid = di.Experiment(time, {"u": 1.5 * np.sin(2 * np.pi * 0.5 * time)}, initial=at_rest, hold="linear")
first = di.Experiment(time, timid.inputs, {"position": machine(timid)}, noise, at_rest, hold="linear", name="timid")
problem = di.Problem(axis, [first], [
    di.Parameter("M", start=50, lower=1, upper=500, unit="kg"),
    di.Parameter("Fv", start=100, lower=0, upper=1000, unit="N s/m"),
    di.Parameter("Fc", start=10, lower=0, upper=200, unit="N"),
    di.Parameter("offset", start=0, lower=-50, upper=50, unit="N")])
estimate = di.identify(problem)

WANTED = 0.015  # N; how well the dry friction has to be known
CONSTRAINTS = ["abs(u) <= 4", "abs(v) <= 0.4", "abs(q) <= 0.25", "abs(der_u) <= 200"]
history = [float(estimate.uncertainty.std("Fc"))]
print(f"after the first record: Fc = {estimate.values['Fc']:.3f} +- {history[-1]:.3f} N (std)")
for number in range(1, 5):
    plan = di.design_input(estimate, di.signals.PiecewiseLinear(12), "std:Fc", CONSTRAINTS, starts=2, seed=number)
    print(f"\n{plan}")
    planned = plan.experiment({"position": np.zeros(plan.time.size)})
    record = plan.experiment({"position": machine(planned)})
    estimate = di.identify(problem.replace(experiments=[*estimate.problem.experiments, record]))
    print(plan.compare(estimate))
    history.append(float(estimate.uncertainty.std("Fc")))
    if history[-1] <= WANTED:
        break

print(f"\nAfter {number} planned record(s) Fc = {estimate.values['Fc']:.3f} N with a standard deviation of "
      f"{history[-1]:.3f} N; the truth is 20, and the timid record alone gave {history[0]:.2f} N.")
