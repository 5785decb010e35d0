"""Claims about poor starts: an ill-scaled servo with six parameters between 1e-5 and 1, from 15 starts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from fmu_makers import exported, needs_compiler

import dynident as di
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
SERVO = di.EquationModel(
    name="servo", states={"angle": "speed",
                          "speed": "(torque*current - viscous*speed - dry*tanh(speed/0.5))/inertia",
                          "current": "(u - resistance*current - torque*speed)/inductance"},
    outputs={"angle": "angle", "current": "current"}, inputs=["u"],
    parameters=["inertia", "viscous", "dry", "torque", "resistance", "inductance"])
TRUE = {"inertia": 2e-5, "viscous": 1e-5, "dry": 4e-3, "torque": 0.05, "resistance": 1.2, "inductance": 2e-3}
STD = {"angle": 2e-3, "current": 0.02}
STARTS, APART, SUBSTEPS = 15, 5.0, 8  # each parameter up to five times too large or too small
REACHED = 1.0001  # of the lowest cost that anyone found


@pytest.fixture(scope="module")
def servo():
    rng = np.random.default_rng(15)
    t = np.arange(600) * 2e-3
    u = np.repeat(rng.choice([-12.0, -6.0, 0.0, 6.0, 12.0], size=40), 15)
    model = di.FmuModel(exported(SERVO, TRUE), trusted=True)
    clean = di.simulate(model, {}, di.Experiment(t, {"u": u})).outputs
    noisy = {n: y + STD[n] * rng.normal(size=t.size) for n, y in clean.items()}
    record = di.Experiment(t, {"u": u}, noisy, {n: di.Gaussian(s) for n, s in STD.items()})
    starts = np.array(list(TRUE.values())) * APART ** rng.uniform(-1, 1, (STARTS, len(TRUE)))
    return model, record, starts


def fitted(servo, start, method, factor=np.inf):
    model, record, _ = servo
    unknowns = [di.Parameter(n, start=s, lower=0.0 if np.isinf(factor) else v / factor, upper=v * factor)
                for (n, v), s in zip(TRUE.items(), start, strict=True)]
    try:
        return di.identify(di.Problem(model, [record], unknowns), method, progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate


def by_trf(servo, start):
    """The reflective trust region of scipy on the same simulation, scaled by its Jacobian."""
    model, record, _ = servo
    grid, simulator = grid_of(model, record, SUBSTEPS, True), model.simulator(tuple(TRUE))
    measured, std = (np.column_stack([of[n] for n in model.outputs]) for of in (record.outputs, STD))

    def residual(p):
        try:
            return ((simulator.run(p, grid)[0] - measured) / std).ravel()
        except di.DynidentError:
            return np.full(measured.size, 1e6)

    with np.errstate(all="ignore"):
        return 2 * scipy.optimize.least_squares(residual, start, bounds=(0, np.inf), x_scale="jac", max_nfev=300).cost


@pytest.mark.slow
def test_as_many_starts_as_a_reflective_trust_region_reach_the_best_cost(servo):
    """Ours and scipy's trf, which was the best of four solvers on such a problem, with the same sub-steps."""
    ours = np.array([fitted(servo, s, di.least_squares(substeps=SUBSTEPS)).cost for s in servo[2]])
    theirs = np.array([by_trf(servo, s) for s in servo[2]])
    best = min(np.min(ours), np.min(theirs)) * REACHED
    assert np.sum(ours <= best) >= max(13, np.sum(theirs <= best)), (ours, theirs)


@pytest.mark.slow
def test_a_search_takes_the_starts_at_which_descent_fails(servo):
    """A rough search without derivatives between bounds of a factor of ten, then Levenberg-Marquardt."""
    tried = {i: fitted(servo, s, di.least_squares(substeps=SUBSTEPS)).cost for i, s in enumerate(servo[2])}
    best = min(tried.values()) * REACHED
    lost = [i for i, cost in tried.items() if cost > best]
    for i in lost or [0]:
        found = fitted(servo, servo[2][i], di.least_squares(substeps=SUBSTEPS, global_search=3000), factor=10.0)
        assert found.converged and found.cost <= best and any("A search between the bounds" in n for n in found.notes)
