"""Stiff fits: how much does a whole fit by radau5 cost beside the same fit by CVODES with forward sensitivities?

Both begin at the same values and find the same ones. Errors are those of the states at the true values, relative to the
largest value of each, against scipy's own Radau with a tolerance of 1e-12.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp
from stiff_problems import PROBLEMS, StiffProblem
from timing import Line, Result, main, once, size, spoken

import dynident as di

LESS_CPU = 20.0
NOISE = 1e-3  # of the largest value of each state
AGREE = 0.1  # standard errors between the two estimates


def reference(case: StiffProblem) -> np.ndarray:
    """(samples, states)"""
    model, p = case.model, [case.values[name] for name in case.model.parameters]
    x = ca.SX.sym("x", len(model.states))
    rate = model.rate(0, x, ca.SX(0, 1), p)
    f, J = ca.Function("f", [x], [rate]), ca.Function("J", [x], [ca.densify(ca.jacobian(rate, x))])
    tolerance = size(1e-12, 1e-8)
    run = solve_ivp(lambda _, y: np.asarray(f(y)).ravel(), (case.time[0], case.time[-1]),
                    [case.initial[name] for name in model.states], method="Radau", t_eval=case.time, rtol=tolerance,
                    atol=1e-3 * tolerance, jac=lambda _, y: np.asarray(J(y)))
    return run.y.T


def problem_of(case: StiffProblem, states: np.ndarray) -> di.Problem:
    rng = np.random.default_rng(3)
    std = dict(zip(case.model.states, NOISE * np.max(np.abs(states), axis=0), strict=True))
    outputs = {name: states[:, k] + std[name] * rng.normal(size=case.time.size) for k, name in enumerate(case.model.states)}
    run = di.Experiment(case.time, outputs=outputs, initial=case.initial, noise={n: di.Gaussian(s) for n, s in std.items()})
    known = [di.Parameter(name, start=value, free=False) for name, value in case.values.items() if name not in case.free]
    free = [di.Parameter(name, start=case.away * case.values[name]) for name in case.free]
    return di.Problem(case.model, [run], [*free, *known])


def fitted(problem: di.Problem, method: object) -> di.Estimate:
    """The estimate; where a fit does not converge, the best point that it had found."""
    try:
        return di.identify(problem, method, progress=False)
    except di.NotConverged as end:
        return end.estimate


def measured(case: StiffProblem, states: np.ndarray, integrator: str) -> tuple[float, di.Estimate, float]:
    """CPU seconds of a whole fit, its estimate, and the error of the states at the true values."""
    problem = problem_of(case, states)
    method = di.multiple_shooting(segments=case.segments, integrator=integrator)
    if integrator == "radau5":
        di.identify(problem, method)  # compiles
    seconds, found = once(lambda: fitted(problem, method))
    run = di.simulate(case.model, case.values, di.Experiment(case.time, initial=case.initial), integrator=integrator)
    wrong = [np.max(np.abs(run.states[name] - states[:, k])) / np.max(np.abs(states[:, k]))
             for k, name in enumerate(case.model.states)]
    return seconds, found, float(np.max(wrong))


def compared(name: str) -> Line:
    case = PROBLEMS[name]()
    states = reference(case)
    (ours, found, error), (peer, other, peers_error) = (measured(case, states, i) for i in ("radau5", "cvodes"))
    std = dict(zip(found.uncertainty.names, np.sqrt(np.diag(found.uncertainty.matrix)), strict=True))
    apart = max(abs(found.values[n] - other.values[n]) / std[n] for n in case.free)
    ratio, arrived = peer / ours, "" if other.converged else ", which does not converge"
    met = found.converged and ratio >= LESS_CPU and error <= peers_error and (apart <= AGREE or not other.converged)
    return Line(f"{name}: whole fit by radau5",
                f"{spoken(ours)} (states to {error:.0e}); CVODES {spoken(peer)} ({peers_error:.0e}){arrived}, "
                f"{ratio:.0f} times; "
                f"estimates {apart:.0e} standard errors apart",
                f"CVODES at least {LESS_CPU:g} times, not more accurate", met)


def run() -> Result:
    names = size(list(PROBLEMS), ["Robertson to 1e4"])
    return Result("Stiff fits", "Whole fits from values 10 % off, all states measured; CPU time. In one piece, van der Pol's "
                  "equation in ten.",
                  [compared(name) for name in names],
                  ["CVODES is CasADi's, with forward sensitivities and a tolerance of 1e-9, begun anew at each sample; radau5 "
                   "has a tolerance of 1e-8."])


if __name__ == "__main__":
    main(run)
