"""Large models: how long are 100 and 200 states or 200 parameters generated and compiled, and do they fit?

Compiling is measured in a fresh cache that holds what serves every model: all that a first fit makes, CPU time of the compiler
included, beyond what the same fit costs once more.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from unittest import mock

import numpy as np
from growth import chain_problem, one_pass, shooting
from timing import Line, Result, cpu_of_ended, in_fresh_process, main, once, size, spoken

import dynident as di

STATES = size({100: 2.0, 200: 5.0}, {5: 2.0})  # seconds of CPU
PARAMETERS, PARAMETERS_LIMIT = size(200, 4), 3.0
INTEGRATORS = ("runge_kutta", "radau", "radau5")
TRUTH = {"k": 0.8, "loss": 0.05}


def rod(states: int) -> di.Problem:
    """Heat in a rod of so many points, driven at one end, measured at three places; from rest, two unknowns."""
    names = [f"T{i}" for i in range(states)]
    rate = {name: f"k*({'u' if i == 0 else names[i - 1]} - 2*{name} + {names[min(i + 1, states - 1)]}) - loss*{name}"
            for i, name in enumerate(names)}
    measured = {name: name for name in (names[0], names[1], names[states // 20 + 2])}
    model = di.EquationModel(states=rate, outputs=measured, inputs=["u"], parameters=list(TRUTH))
    time, rng = 0.5 * np.arange(101), np.random.default_rng(0)
    rest = dict.fromkeys(names, 0.0)
    quiet = di.Experiment(time, inputs={"u": np.sign(rng.normal(size=time.size))}, initial=rest)
    exact = di.simulate(model, TRUTH, quiet, integrator="radau5").outputs
    run = di.Experiment(time, inputs=quiet.inputs, initial=rest, noise={name: di.Gaussian(1e-3) for name in measured},
                        outputs={name: y + 1e-3 * rng.normal(size=time.size) for name, y in exact.items()})
    return di.Problem(model, [run], [di.Parameter(name, start=1.3 * value, lower=0.0) for name, value in TRUTH.items()])


def made_anew(call: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of a call in a cache that holds what serves every model, beyond those of the same call once more."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"DYNIDENT_CACHE": folder}):
        fit(rod(3), "runge_kutta")
        before = cpu_of_ended()
        first, _ = once(call)
        compiler = cpu_of_ended() - before
    again, _ = once(call)
    return {"made": first + compiler - again, "compiler": compiler, "again": again}


def fit(problem: di.Problem, integrator: str) -> di.Estimate:
    method = di.single_shooting(integrator=integrator)
    return di.identify(problem.replace(experiments=problem.experiments), method, progress=False)


def states(count: int, integrator: int) -> dict[str, float]:
    """A fit raises where it does not converge; how far it ends from the truth, in standard errors."""
    problem, name = rod(count), INTEGRATORS[integrator]
    found = made_anew(lambda: fit(problem, name))  # first: this process remembers what it has loaded
    estimate = fit(problem, name)
    off = max(abs(estimate.values[each] - value) / estimate.uncertainty.std(each) for each, value in TRUTH.items())
    return {**found, "off": off}


def parameters(count: int) -> dict[str, float]:
    problem = chain_problem(count)
    return made_anew(lambda: one_pass(shooting(problem, 1))())


def line(what: str, found: dict[str, float], limit: float, again: str) -> Line:
    return Line(what, f"{spoken(found['made'])} CPU, of which the compiler {spoken(found['compiler'])}; then {again} takes "
                f"{spoken(found['again'])}", f"{limit:g} s", found["made"] <= limit)


def run() -> Result:
    lines = []
    for count, limit in STATES.items():
        for i, name in enumerate(INTEGRATORS):
            found = in_fresh_process(__file__, "--states", count, i)
            lines.append(line(f"heat equation, {count} states, by {name}: generated and compiled", found, limit,
                              f"a fit, which ends {found['off']:.1f} standard errors from the truth,"))
    lines.append(line(f"{PARAMETERS} parameters, by runge_kutta: generated and compiled",
                      in_fresh_process(__file__, "--parameters", PARAMETERS), PARAMETERS_LIMIT, "a pass"))
    return Result("Large models", "Heat in a rod with two unknowns by single shooting, the check by another integrator in it; "
                  "one state with many parameters. What the model itself needs generated and compiled, on one core.", lines)


if __name__ == "__main__":
    main(run, states=states, parameters=parameters)
