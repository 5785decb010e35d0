"""Does the model also describe a record that it was not fitted to? From two CSV files to a validated result.

The files are those of `dynident demo`: a slide whose encoder and tachometer were recorded twice, once going to and fro
and once following mixed sines. The first is fitted, the second is kept back.
"""

import sys
from dataclasses import replace
from pathlib import Path

import dynident as di
from dynident.demo import copy_to

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "validated_axis")
copy_to(folder / "records")

axis = di.EquationModel(
    states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.005) - offset) / M"},
    outputs={"position": "q", "velocity": "v"}, inputs=["u"], constants={"gain": 35.15})


def read(file: str) -> di.Experiment:
    """Columns by their header; the noise of each signal; the axis starts homed and at rest."""
    return di.read_csv(folder / "records" / file, time="t", inputs=["u"], initial={"q": 0.0, "v": 0.0},
                       outputs={"position": ("q", di.Gaussian(2.02e-5)), "velocity": ("v", di.Gaussian(2e-3))},
                       name=Path(file).stem)


problem = di.Problem(axis, [read("slide.csv")], [
    di.Parameter("M", start=50, lower=1, upper=500, unit="kg"),
    di.Parameter("Fv", start=100, lower=0, upper=1000, unit="N s/m"),
    di.Parameter("Fc", start=10, lower=0, upper=200, unit="N"),
    di.Parameter("offset", start=0, lower=-50, upper=50, unit="N")])

print(di.check(problem))                                 # before any fit: can the data answer?
estimate = di.identify(problem, di.multiple_shooting(segments=20))
validation = estimate.validate(read("slide_validation.csv"))
print(validation)                                        # fit and residual tests on the other record

estimate = replace(estimate, validations=(validation,))
estimate.save(folder / "results")                        # numbers, signals, report.html
again = di.load(folder / "results")                      # nothing is fitted again

print(f"\nThe model predicts {again.validations[0].fit['position']:.2f} % of the other record's position.")
