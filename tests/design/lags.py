"""A first-order lag whose two parameters an input has to tell: the smallest machine to plan for."""

import numpy as np

import dynident as di


def lag(samples=41):
    model = di.EquationModel(states={"x": "-a*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 4, samples)
    run = di.Experiment(time, {"u": np.sin(time)}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    return di.Problem(model, [run], [di.Parameter("a", 0.8), di.Parameter("b", 1.2)])
