"""Reference problems with a known answer, which every method meets.

Four machines with a known truth, simulated by scipy's DOP853 at 1e-12 from right-hand sides written here by hand, so
that nothing of dynident stands on both sides of a comparison; and records whose answer is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di
from dynident.models import library

TIGHT = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}  # the accuracy of the independent route
DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared" / "data"

Rate = Callable[[float, np.ndarray, np.ndarray, Mapping[str, float]], list[float]]


# an independent simulation


def independent_states(rate: Rate, time: np.ndarray, inputs: np.ndarray, x0: np.ndarray, p: Mapping[str, float],
                       hold: str = "zero") -> np.ndarray:
    """States at the samples, (samples, states); `inputs` are (samples, inputs), held as said between samples."""
    states = np.empty((time.size, len(x0)))
    states[0] = x = np.asarray(x0, float)
    for k in range(time.size - 1):
        begin, end = inputs[k], inputs[k + 1] if hold == "linear" else inputs[k]
        h = time[k + 1] - time[k]

        def slope(t, x, begin=begin, end=end, since=time[k], h=h):
            return rate(t, x, begin + (end - begin) * (t - since) / h, p)

        x = solve_ivp(slope, (time[k], time[k + 1]), x, **TIGHT).y[:, -1]
        states[k + 1] = x
    return states


# the machines


@dataclass(frozen=True, eq=False)
class Machine:
    """A model, its truth, and an experiment that shows all of it."""

    model: di.EquationModel
    rate: Rate  # the same equations once more, by hand
    seen: tuple[int, ...]  # states that the outputs show, in the order of the outputs
    truth: Mapping[str, float]
    initial: Mapping[str, float]
    time: np.ndarray
    inputs: Mapping[str, np.ndarray]
    std: Mapping[str, float]
    start: Mapping[str, float]  # a fair start for every method
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    hold: str = "zero"

    def states(self, values: Mapping[str, float] | None = None, initial: Mapping[str, float] | None = None
               ) -> np.ndarray:
        """(samples, states) by the independent route."""
        p, x0 = {**self.truth, **(values or {})}, {**self.initial, **(initial or {})}
        u = np.column_stack([*self.inputs.values()]) if self.inputs else np.zeros((self.time.size, 0))
        return independent_states(self.rate, self.time, u, np.array([x0[s] for s in self.model.states]), p, self.hold)

    def outputs(self, values: Mapping[str, float] | None = None, initial: Mapping[str, float] | None = None
                ) -> dict[str, np.ndarray]:
        x = self.states(values, initial)
        return {name: x[:, i] for name, i in zip(self.model.outputs, self.seen, strict=True)}

    def record(self, seed: int | None = 0, std: Mapping[str, float] | None = None, noise_known: bool = True,
               name: str = "", **fields) -> di.Experiment:
        """A measured record; seed=None leaves the noise out."""
        rng = np.random.default_rng(seed)
        sizes = self.std if std is None else std
        measured = {n: y + (0.0 if seed is None else sizes[n] * rng.standard_normal(y.size))
                    for n, y in _clean(self).items()}
        noise = {n: di.Gaussian(s if noise_known else None) for n, s in sizes.items()}
        return di.Experiment(**{"time": self.time, "inputs": self.inputs, "outputs": measured, "noise": noise,
                                "hold": self.hold, "name": name} | fields)

    def parameters(self, **changes: Mapping) -> list[di.Parameter]:
        """One per parameter of the model; `changes` replaces fields, by name."""
        made = []
        for name in self.model.parameters:
            lower, upper = self.bounds.get(name, (-np.inf, np.inf))
            made.append(di.Parameter(**{"name": name, "start": self.start[name], "lower": lower, "upper": upper}
                                     | dict(changes.get(name, {}))))
        return made

    def problem(self, seed: int | None = 0, **record) -> di.Problem:
        return di.Problem(self.model, [self.record(seed, **record)], self.parameters())

    @property
    def all_true(self) -> dict[str, float]:
        """Truth by printed name."""
        return {**self.truth, **{f"{s}(0)": x for s, x in self.initial.items()}}


@cache
def _clean(machine: Machine) -> dict[str, np.ndarray]:
    return machine.outputs()


def staircase(time: np.ndarray, step: float, amplitude: float, seed: int) -> np.ndarray:
    """A random level every `step` seconds: excites all frequencies and is held by construction."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-amplitude, amplitude, int(np.ceil((time[-1] - time[0]) / step)) + 1)
    return levels[((time - time[0]) / step + 1e-9).astype(int)]


def _mass_spring_damper() -> Machine:
    time = np.linspace(0, 10, 151)
    return Machine(
        library.mass_spring_damper(),
        lambda t, x, u, p: [x[1], (u[0] - p["d"] * x[1] - p["k"] * x[0]) / p["m"]], (0,),
        library.TYPICAL["mass_spring_damper"], {"x": 0.3, "v": -0.2}, time, {"F": staircase(time, 0.7, 2.0, 1)},
        {"position": 0.01}, {"m": 2.0, "d": 0.5, "k": 3.0})


def _two_mass() -> Machine:
    time = np.linspace(0, 1.5, 201)
    return Machine(
        library.two_mass(), _two_mass_rate, (0, 1), library.TYPICAL["two_mass"],
        {"x1": 0.01, "x2": 0.0, "v1": 0.0, "v2": 0.1}, time, {"F": staircase(time, 0.06, 100.0, 2)},
        {"x1": 1e-3, "x2": 1e-3}, {"m1": 1.3, "m2": 4.0, "k": 800.0, "b": 14.0}, {"m1": (0.01, 100), "m2": (0.01, 100)})


def _two_mass_rate(t, x, u, p):
    coupling = p["k"] * (x[0] - x[1]) + p["b"] * (x[2] - x[3])
    return [x[2], x[3], (u[0] - coupling) / p["m1"], coupling / p["m2"]]


def _servo_axis() -> Machine:
    time = np.linspace(0, 3, 301)
    return Machine(
        library.servo_axis(gain=35.15, v_smooth=0.02), _servo_rate, (0,), library.TYPICAL["servo_axis"],
        {"q": 0.0, "v": 0.0}, time, {"u": staircase(time, 0.25, 3.0, 3)}, {"position": 1e-4},
        {"M": 80.0, "Fv": 100.0, "Fc": 10.0, "offset": 0.0}, {"M": (1, 1000), "Fc": (0, 1000)})


def _servo_rate(t, x, u, p):
    return [x[1], (35.15 * u[0] - p["Fv"] * x[1] - p["Fc"] * np.tanh(x[1] / 0.02) - p["offset"]) / p["M"]]


def _pendulum() -> Machine:
    return Machine(
        library.pendulum(), lambda t, x, u, p: [x[1], -p["p"] * np.sin(x[0]) - p["d"] * x[1]], (0,),
        library.TYPICAL["pendulum"], {"angle": 1.2, "rate": 0.0}, np.linspace(0, 6, 121), {}, {"angle": 0.01},
        {"p": 9.0, "d": 0.2})


MACHINES: Mapping[str, Machine] = {
    "mass_spring_damper": _mass_spring_damper(), "two_mass": _two_mass(), "servo_axis": _servo_axis(),
    "pendulum": _pendulum()}


def thinned(machine: Machine, every: int) -> Machine:
    """The same machine with every n-th sample only."""
    return replace(machine, time=machine.time[::every], inputs={n: u[::every] for n, u in machine.inputs.items()})


# records with a published answer


def data_file(name: str) -> Path:
    """A file that lies beside the tests or beside the project; the test is skipped where it does not."""
    for folder in (DATA, SHARED):
        if (folder / name).exists():
            return folder / name
    pytest.skip(f"'{name}' is not part of the project (its licence does not allow it) and is not beside it either")


def table(name: str, **options) -> np.ndarray:
    return np.genfromtxt(data_file(name), delimiter=",", names=True, **options)


EMPS_GAIN = 35.15065188248547  # N/V
EMPS_POOR_START = {"M": 100.0, "Fv": 100.0, "Fc": 100.0, "offset": -100.0}


def emps_record(pulses: bool = False) -> di.Experiment:
    """The positioning system of Janot, Gautier and Brunot: the record to estimate from, or the one to validate on."""
    rows = table(f"emps/DATA_EMPS{'_PULSES' if pulses else ''}.csv")
    return di.Experiment(rows["t"], {"u": rows["vir"]}, {"position": rows["qm"]}, name="pulses" if pulses else "slide")


def emps_problem(v_smooth: float) -> di.Problem:
    """From the poor start, initial states free."""
    bounds = {"M": (1, 1000), "Fv": (0, 1000), "Fc": (0, 1000), "offset": (-np.inf, np.inf)}
    return di.Problem(library.servo_axis(gain=EMPS_GAIN, v_smooth=v_smooth), [emps_record()],
                      [di.Parameter(n, s, *bounds[n]) for n, s in EMPS_POOR_START.items()])


def lynx_and_hare(initial_held: bool) -> di.Problem:
    """Pelts of the Hudson's Bay Company, 1900 to 1920, in thousands; time counts from 1900."""
    rows = np.genfromtxt(data_file("classics/hudson-bay-lynx-hare.csv"), delimiter=",", comments="#", skip_header=3)
    model = di.EquationModel(states={"hare": "(al - be*lynx)*hare", "lynx": "(de*hare - ga)*lynx"},
                             parameters=["al", "be", "ga", "de"])
    run = di.Experiment(rows[:, 0] - 1900, outputs={"lynx": rows[:, 1], "hare": rows[:, 2]},
                        noise={"lynx": di.Gaussian(1), "hare": di.Gaussian(1)},
                        initial={"hare": 30, "lynx": 4} if initial_held else {})
    return di.Problem(model, [run], [di.Parameter("al", 0.5), di.Parameter("be", 0.03), di.Parameter("ga", 0.8),
                                     di.Parameter("de", 0.03)])


def bellman() -> di.Problem:
    """Nitric oxide and oxygen: kinetics with rate constants of size 1e-6 and 1e-4."""
    rows = table("classics/bellman_no.csv")
    model = di.EquationModel(states={"x": "k1*(126.2 - x)*(91.9 - x)**2 - k2*x**2"}, outputs={"y": "x"})
    run = di.Experiment(rows["t"], outputs={"y": rows["y"]}, noise={"y": di.Gaussian(1)}, initial={"x": 0})
    return di.Problem(model, [run], [di.Parameter("k1", 1e-6), di.Parameter("k2", 1e-4)])


def lotka_volterra() -> di.Problem:
    """Two species with a standard deviation per reading; initial states free."""
    t, x1, sd1, x2, sd2 = np.loadtxt(data_file("lotka_volterra/lotka_volterra.txt")).T
    model = di.EquationModel(states={"x1": "-x1 + p1*x1*x2", "x2": "x2 - p2*x1*x2"})
    run = di.Experiment(t, outputs={"x1": x1, "x2": x2}, noise={"x1": di.Gaussian(sd1), "x2": di.Gaussian(sd2)})
    return di.Problem(model, [run], [di.Parameter("p1", 0.5), di.Parameter("p2", 0.5)])


def gas_oil() -> di.Problem:
    """COPS 3: catalytic cracking of gas oil, from theta = 0."""
    rows = table("cops/gasoil.csv")
    model = di.EquationModel(states={"y1": "-(th1 + th3)*y1**2", "y2": "th1*y1**2 - th2*y2"},
                             parameters=["th1", "th2", "th3"])
    run = di.Experiment(rows["t"], outputs={n: rows[n] for n in model.outputs},
                        noise={n: di.Gaussian(1) for n in model.outputs}, initial={"y1": 1, "y2": 0})
    return di.Problem(model, [run], [di.Parameter(n, 0.0, lower=0) for n in model.parameters])


def pinene() -> di.Problem:
    """COPS 3: isomerisation of alpha-pinene, from theta = 0; the initial state holds before the first sample."""
    rows = table("cops/pinene.csv")
    model = di.EquationModel(
        states={"y1": "-(th1 + th2)*y1", "y2": "th1*y1", "y3": "th2*y1 - (th3 + th4)*y3 + th5*y5", "y4": "th3*y3",
                "y5": "th4*y3 - th5*y5"}, parameters=[f"th{i}" for i in range(1, 6)])
    run = di.Experiment(rows["t"], outputs={n: rows[n] for n in model.outputs}, start=0,
                        noise={n: di.Gaussian(1) for n in model.outputs},
                        initial={"y1": 100, "y2": 0, "y3": 0, "y4": 0, "y5": 0})
    return di.Problem(model, [run], [di.Parameter(n, 0.0, lower=0) for n in model.parameters])


BOEHM_SCALE = {"pSTAT5A_rel": 3.85261197844677, "pSTAT5B_rel": 6.59147818673419, "rSTAT5A_rel": 3.15271275648527}  # std
BOEHM_OPTIMUM = {"Epo": 0.026982514033029, "k_exp_hetero": 1.00067973851508e-05, "k_exp_homo": 0.006170228086381,
                 "k_imp_hetero": 0.0163679184468, "k_imp_homo": 97749.3794024716, "k_phos": 15766.5070195731}


def boehm(start: Mapping[str, float] = BOEHM_OPTIMUM) -> di.Problem:
    """STAT5 dimers (Boehm et al. 2014, benchmark collection of PEtab), stiff; noise at its published size, bounds as there."""
    rows = [line.split("\t") for line in
            data_file("petab/Boehm_JProteomeRes2014/measurementData_Boehm_JProteomeRes2014.tsv").read_text().splitlines()[1:]]
    time = np.array(sorted({float(row[4]) for row in rows}))
    measured = {out: np.full(time.size, np.nan) for out in BOEHM_SCALE}
    for row in rows:
        measured[row[0]][np.searchsorted(time, float(row[4]))] = float(row[3])
    rate = "1.25e-7*exp(-Epo*t)*k_phos"
    v = {"AA": f"{rate}*A**2", "AB": f"{rate}*A*B", "BB": f"{rate}*B**2", "iAA": "k_imp_homo*pApA", "iAB": "k_imp_hetero*pApB",
         "iBB": "k_imp_homo*pBpB", "eAA": "k_exp_homo*nAA", "eAB": "k_exp_hetero*nAB", "eBB": "k_exp_homo*nBB"}
    back, into = 0.45 / 1.4, 1.4 / 0.45
    states = {"A": f"-2*{v['AA']} - {v['AB']} + {back}*(2*{v['eAA']} + {v['eAB']})",
              "B": f"-2*{v['BB']} - {v['AB']} + {back}*(2*{v['eBB']} + {v['eAB']})",
              "pApB": f"{v['AB']} - {v['iAB']}", "pApA": f"{v['AA']} - {v['iAA']}", "pBpB": f"{v['BB']} - {v['iBB']}",
              "nAA": f"{into}*{v['iAA']} - {v['eAA']}", "nAB": f"{into}*{v['iAB']} - {v['eAB']}",
              "nBB": f"{into}*{v['iBB']} - {v['eBB']}"}
    outputs = {"pSTAT5A_rel": "(100*pApB + 200*pApA*s)/(pApB + A*s + 2*pApA*s)",
               "pSTAT5B_rel": "-(100*pApB - 200*pBpB*(s - 1))/((B*(s - 1) - pApB) + 2*pBpB*(s - 1))",
               "rSTAT5A_rel": "(100*pApB + 100*A*s + 200*pApA*s)/(2*pApB + A*s + 2*pApA*s - B*(s - 1) - 2*pBpB*(s - 1))"}
    model = di.EquationModel(states=states, outputs=outputs, parameters=list(BOEHM_OPTIMUM), constants={"s": 0.107})
    first = {**dict.fromkeys(states, 0.0), "A": 207.6 * 0.693, "B": 207.6 * (1 - 0.693)}
    run = di.Experiment(time, {}, measured, noise={out: di.Gaussian(std) for out, std in BOEHM_SCALE.items()}, initial=first)
    return di.Problem(model, [run], [di.Parameter(p, value, 1e-5, 1e5, log=True) for p, value in start.items()])


def boehm_log_likelihood(cost: float) -> float:
    """Minus the log-likelihood as PEtab counts it, from our sum of squares over variances."""
    return 0.5 * (cost + 16 * sum(float(np.log(2 * np.pi * std**2)) for std in BOEHM_SCALE.values()))
