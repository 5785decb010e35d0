"""How well does a physical model follow a real servo axis, without ever being told where the axis is?

The record is the Electro-Mechanical Positioning System of Janot, Gautier and Brunot (nonlinearbenchmark.org, 2019
workshop): 24,841 samples at 1 kHz. Its licence does not allow a copy here. Say where it is:

    python examples/06_real_servo_emps.py path/to/emps

or set DYNIDENT_EMPS, or put the folder at ../shared/data/emps beside the project. It holds DATA_EMPS.csv and
DATA_EMPS_PULSES.csv with the columns t, qm (position, m) and vir (drive signal, V).

Simulated in open loop, the parameters published with the record miss its position by 5.06 mm. The best known fit of the
open-loop output misses it by 2.419 mm, at M = 95.47, Fv = 215.4, Fc = 19.33, offset = -3.285.
"""

import os
import sys
from pathlib import Path

import numpy as np

import dynident as di

beside = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "emps"
folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DYNIDENT_EMPS", beside))
if not (folder / "DATA_EMPS.csv").is_file():
    print("The EMPS record is not here; see the first lines of this file for where to get it.")
    sys.exit()


def read(file: str) -> di.Experiment:
    return di.read_csv(folder / file, time="t", inputs={"u": "vir"}, outputs={"position": "qm"}, name=file)


axis = di.EquationModel(                                 # the sign of the velocity is smoothed as in the publication
    states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(1e4*v/Fc) - offset) / M"},
    outputs={"position": "q"}, inputs=["u"], constants={"gain": 35.15065188248547})
problem = di.Problem(axis, [read("DATA_EMPS.csv")], [    # from a start at which simulations run away
    di.Parameter("M", start=100, lower=1, upper=1000, unit="kg"),
    di.Parameter("Fv", start=100, lower=0, upper=1000, unit="N s/m"),
    di.Parameter("Fc", start=100, lower=1, upper=1000, unit="N"),
    di.Parameter("offset", start=-100, unit="N")])

estimate = di.identify(problem, di.multiple_shooting(segments=100))  # a quarter of a second each
print(estimate)
print(estimate.validate(read("DATA_EMPS_PULSES.csv")))

rmse = float(np.sqrt(np.mean(estimate.residuals[0]["position"] ** 2)))
print(f"\nOpen-loop error: {1e3 * rmse:.3f} mm; the best known is 2.419 mm.")
