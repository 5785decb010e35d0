"""Mass form: what do algebraic variables cost, where they are the accelerations of an arm, and do they give the same answer?

Compiling is measured in a fresh cache, CPU time of the compiler included; a pass is one simulation with all sensitivities over
288 segments of ten samples.
"""

from __future__ import annotations

import os
import tempfile
from unittest import mock

import numpy as np
from timing import Line, Result, best, cpu_of_ended, main, once, size, spoken

import dynident as di
from dynident.integrators import integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for

SAMPLES, PARAMETERS, SEGMENT = size(2_876, 31), 75, 10
COMPILED, PASS, AGREE = 2.0, 0.060, 1e-8  # seconds, seconds, relative
KINETICS = {"a": "-k1*a + k3*b*c", "b": "k1*a - k3*b*c - k2*b**2"}
RATES = {"k1": 0.04, "k2": 3e7, "k3": 1e4}
STD = {"a": 1e-3, "b": 1e-7, "c": 1e-3}


def arm_lines() -> list[Line]:
    """A six-axis arm with as many free parameters as the target speaks of."""
    arm = di.RobotModel(di.library.six_axis_urdf(), motor_inertia=True, offset=True, sign_velocity=0.1)
    model = arm.forward(arm.parameters)
    free = tuple(range(min(PARAMETERS, len(model.parameters))))
    integrator = integrator_named("runge_kutta")
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"DYNIDENT_CACHE": folder}):
        before = cpu_of_ended()
        seconds, march = once(lambda: propagator_for(model, integrator, free))
        compiler = cpu_of_ended() - before
    time, rng = 0.01 * np.arange(SAMPLES), np.random.default_rng(0)
    torques = {name: rng.normal(size=SAMPLES) for name in arm.inputs}
    record = di.Experiment(time, inputs=torques, outputs={"q1": np.zeros(SAMPLES)})
    grid = grid_of(model, record)
    first = np.unique([*range(0, SAMPLES - 1, SEGMENT), SAMPLES - 1])
    nodes = 0.1 * rng.normal(size=(len(first) - 1, len(arm.states)))
    p = np.array([it.start for it in arm.nominal_values.values()])
    plain, sensitive = (best(lambda s=s: march.run(grid, first, nodes, p, s)) for s in (False, True))
    made = seconds + compiler
    return [Line(f"six-axis arm, {len(free)} free parameters: generated and compiled",
                 f"{spoken(made)} CPU, of which the compiler {spoken(compiler)}", f"{COMPILED:g} s", made <= COMPILED),
            Line(f"one pass over {SAMPLES:,} samples with sensitivities",
                 f"{spoken(sensitive)}, without {spoken(plain)}", f"{1e3 * PASS:g} ms", sensitive <= PASS)]


def robertson_line() -> Line:
    """Estimates with the balance as an algebraic equation, beside those of three rates."""
    time = np.concatenate([[0], np.logspace(-4, 4, size(60, 12))])
    said = {"outputs": list(STD), "parameters": list(RATES)}
    models = [di.EquationModel(states={**KINETICS, "c": "k2*b**2"}, **said),
              di.EquationModel(states=KINETICS, algebraic={"c": "a + b + c - 1"}, **said)]
    start = {"a": 1.0, "b": 0.0, "c": 0.0}
    exact = di.simulate(models[0], RATES, di.Experiment(time, initial=start), integrator="radau5").outputs
    rng = np.random.default_rng(0)
    measured = {name: y + STD[name] * rng.normal(size=time.size) for name, y in exact.items()}
    found, spent = [], []
    for model in models:
        run = di.Experiment(time, outputs=measured, noise={name: di.Gaussian(std) for name, std in STD.items()},
                            initial={name: start[name] for name in model.states})
        problem = di.Problem(model, [run], [di.Parameter(name, 1.3 * value, 0, 100 * value) for name, value in RATES.items()])
        method = di.single_shooting(integrator="radau5")
        found.append(di.identify(problem, method, progress=False).values)
        spent.append(best(lambda p=problem, m=method: di.identify(p, m, progress=False)))
    apart = max(abs(found[1][name] / found[0][name] - 1) for name in RATES)
    return Line("Robertson with its balance as an algebraic equation",
                f"estimates {apart:.0e} apart; {spent[1] / spent[0]:.2f} times the CPU of three rates",
                f"{AGREE:g}", apart <= AGREE)


def run() -> Result:
    return Result("Algebraic variables", "Accelerations of a six-axis arm as algebraic variables (mass form, L D L'), "
                  "Runge-Kutta, one step a sample; CPU time.", [*arm_lines(), robertson_line()])


if __name__ == "__main__":
    main(run)
