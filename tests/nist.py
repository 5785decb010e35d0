"""NIST StRD nonlinear regression: certified answers of 27 data sets, each with two starts, as static models.

The files are in the public domain (National Institute of Standards and Technology, Statistical Reference Datasets).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

import dynident as di
from problems import data_file

MODELS = {  # the right-hand sides as the files print them, in our notation; Nelson is fitted to log(y)
    "Bennett5": "b1*(b2+x)**(-1/b3)", "BoxBOD": "b1*(1-exp(-b2*x))", "Chwirut1": "exp(-b1*x)/(b2+b3*x)",
    "Chwirut2": "exp(-b1*x)/(b2+b3*x)", "DanWood": "b1*x**b2",
    "ENSO": "b1 + b2*cos(2*pi*x/12) + b3*sin(2*pi*x/12) + b5*cos(2*pi*x/b4) + b6*sin(2*pi*x/b4) + b8*cos(2*pi*x/b7)"
            " + b9*sin(2*pi*x/b7)",
    "Eckerle4": "(b1/b2)*exp(-0.5*((x-b3)/b2)**2)",
    **dict.fromkeys(("Gauss1", "Gauss2", "Gauss3"), "b1*exp(-b2*x) + b3*exp(-(x-b4)**2/b5**2) + b6*exp(-(x-b7)**2/b8**2)"),
    "Hahn1": "(b1+b2*x+b3*x**2+b4*x**3)/(1+b5*x+b6*x**2+b7*x**3)", "Kirby2": "(b1+b2*x+b3*x**2)/(1+b4*x+b5*x**2)",
    **dict.fromkeys(("Lanczos1", "Lanczos2", "Lanczos3"), "b1*exp(-b2*x) + b3*exp(-b4*x) + b5*exp(-b6*x)"),
    "MGH09": "b1*(x**2+x*b2)/(x**2+x*b3+b4)", "MGH10": "b1*exp(b2/(x+b3))", "MGH17": "b1 + b2*exp(-x*b4) + b3*exp(-x*b5)",
    "Misra1a": "b1*(1-exp(-b2*x))", "Misra1b": "b1*(1-(1+b2*x/2)**(-2))", "Misra1c": "b1*(1-(1+2*b2*x)**(-0.5))",
    "Misra1d": "b1*b2*x*((1+b2*x)**(-1))", "Nelson": "b1 - b2*x1*exp(-b3*x2)", "Rat42": "b1/(1+exp(b2-b3*x))",
    "Rat43": "b1/((1+exp(b2-b3*x))**(1/b4))", "Roszman1": "b1 - b2*x - atan(b3/(x-b4))/pi",
    "Thurber": "(b1+b2*x+b3*x**2+b4*x**3)/(1+b5*x+b6*x**2+b7*x**3)",
}


@dataclass(frozen=True, eq=False)
class Certified:
    """A data set with its two starts and its certified answer."""

    name: str
    starts: tuple[dict[str, float], dict[str, float]]
    values: dict[str, float]
    std: dict[str, float]
    residual_std: float
    y: np.ndarray
    x: np.ndarray  # (samples, predictors)

    def problem(self, start: int, **parameter) -> di.Problem:
        """From one of the two starts; samples take the place of time."""
        inputs = {f"x{k + 1}" if self.x.shape[1] > 1 else "x": column for k, column in enumerate(self.x.T)}
        model = di.EquationModel(states={}, outputs={"y": MODELS[self.name]}, inputs=list(inputs),
                                 parameters=list(self.values))
        y = np.log(self.y) if self.name == "Nelson" else self.y
        run = di.Experiment(np.arange(y.size, dtype=float), inputs, {"y": y}, name=self.name)
        return di.Problem(model, [run], [di.Parameter(p, value, **parameter) for p, value in self.starts[start].items()])

    def digits(self, estimate: di.Estimate) -> tuple[float, float]:
        """Digits that all parameters have in common with the certified ones, and those of their standard deviations."""
        plain = {p: estimate.uncertainty.std(p, "plain") for p in self.values}
        return (min(_digits(estimate.values[p], v) for p, v in self.values.items()),
                min(_digits(plain[p], v) for p, v in self.std.items()))


def _digits(found: float, right: float) -> float:
    if found == right:
        return 11.0
    return float(min(11.0, -np.log10(max(abs(found - right) / (abs(right) or 1.0), 1e-300))))


def certified(name: str) -> Certified:
    """A data set from its file."""
    text = data_file(f"nist/{name}.dat").read_text()
    rows = re.findall(r"^\s*(b\d+)\s*=\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$", text, re.MULTILINE)
    numbers = {row[0]: [float(cell) for cell in row[1:]] for row in rows}
    residual_std = float(re.search(r"Residual Standard Deviation:\s*(\S+)", text).group(1))
    lines = [line.split() for line in text.split("\nData:")[-1].splitlines()[1:] if line.strip()]
    table = np.array(lines, dtype=float)
    first, second, values, std = ({p: row[k] for p, row in numbers.items()} for k in range(4))
    return Certified(name, (first, second), values, std, residual_std, table[:, 0], table[:, 1:])
