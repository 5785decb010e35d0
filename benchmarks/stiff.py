"""Stiff fits: how much does a whole fit by radau5 cost beside the same fit by CVODES with forward sensitivities?

Both begin at the same values and find the same ones. Errors are those of the states at the true values, relative to the
largest value of each, against scipy's own Radau with a tolerance of 1e-12. Beside CVODES stand harder peers
(stiff_peers.py), by one pass with sensitivities each; their errors are against scipy's Radau on the variational equation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp
from stiff_problems import PROBLEMS, StiffProblem
from timing import Line, Result, main, of_peer, once, size, spoken

import dynident as di
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for

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
    distance = max(abs(found.values[n] - other.values[n]) / std[n] for n in case.free)
    ratio, arrived = peer / ours, "" if other.converged else ", which does not converge"
    met = found.converged and ratio >= LESS_CPU and error <= peers_error and distance <= AGREE
    return Line(f"{name}: whole fit by radau5",
                f"{spoken(ours)} (states to {error:.0e}); CVODES {spoken(peer)} ({peers_error:.0e}){arrived}, "
                f"{ratio:.0f} times; "
                f"estimates {distance:.0e} standard errors apart",
                f"CVODES at least {LESS_CPU:g} times, not more accurate" if other.converged else "",
                met if other.converged or not found.converged else None)


PEERS = {"diffsol": "BDF of diffsol", "amici": "AMICI", "diffrax": "Kvaerno 5 of diffrax"}
PASSES = size({"Robertson to 1e4": ("diffsol", "amici", "diffrax"), "kinetics, rates 1e-2 to 1e4": ("diffsol",),
               "HIRES": ("diffsol",), "pollution": ("diffsol",)}, {"Robertson to 1e4": ("diffsol",)})
TOLERANCES = size(((1e-6, 1e-10), (1e-8, 1e-12), (1e-10, 1e-14)), ((1e-6, 1e-10),))  # relative, absolute


def variational(case: StiffProblem) -> tuple[np.ndarray, np.ndarray]:
    """(samples, states) and (samples, states, free) by scipy's Radau on states and sensitivities together."""
    model, nx, nf = case.model, len(case.model.states), len(case.free)
    x, S, p = ca.SX.sym("x", nx), ca.SX.sym("S", nx, nf), ca.SX.sym("p", len(model.parameters))
    f = model.rate(0, x, ca.SX(0, 1), p)
    by = p[[model.parameters.index(name) for name in case.free]]
    z, dz = ca.vertcat(x, ca.vec(S)), ca.vertcat(f, ca.vec(ca.jacobian(f, x) @ S + ca.jacobian(f, by)))
    values = [case.values[name] for name in model.parameters]
    rate, J = (ca.Function("f", [z, p], [ca.densify(part)]) for part in (dz, ca.jacobian(dz, z)))
    begin = np.concatenate([[case.initial[name] for name in model.states], np.zeros(nx * nf)])
    scale = np.concatenate([np.ones(nx), np.repeat([1 / abs(case.values[name]) for name in case.free], nx)])
    tolerance = size(1e-10, 1e-6)
    span = case.time[0], case.time[-1]
    found = solve_ivp(lambda _, y: np.asarray(rate(y, values)).ravel(), span, begin, "Radau", case.time, rtol=tolerance,
                      atol=1e-4 * tolerance * scale, jac=lambda _, y: np.asarray(J(y, values))).y.T
    return found[:, :nx], found[:, nx:].reshape(-1, nf, nx).swapaxes(1, 2)


def apart(ours: np.ndarray, exact: np.ndarray) -> float:
    """Largest difference, relative to the largest value of each column."""
    largest = np.max(np.abs(exact), axis=0)
    return float(np.max(np.max(np.abs(ours - exact), axis=0)[largest > 0] / largest[largest > 0]))


def one_pass(case: StiffProblem) -> tuple[float, np.ndarray, np.ndarray]:
    """By radau5: CPU seconds, states, sensitivities."""
    free = tuple(case.model.parameters.index(name) for name in case.free)
    march = propagator_for(case.model, RADAU5, free)
    grid = replace(grid_of(case.model, di.Experiment(case.time), 1, everywhere=True), unknown_first=np.zeros(0, np.int32))
    begin = np.array([[case.initial[name] for name in case.model.states]])
    values, ends = np.array([case.values[name] for name in case.model.parameters]), np.array([0, grid.nodes - 1])
    out = march.run(grid, ends, begin, values, True)
    spent = min(once(lambda: march.run(grid, ends, begin, values, True, out))[0] for _ in range(5))
    return spent, out.states, out.jacobian[:, :, len(case.model.states):]


def beside_peers(name: str) -> list[Line]:
    """One pass by radau5 beside each peer at the loosest tolerance at which it is no less accurate, or at its tightest."""
    case = PROBLEMS[name]()
    exact, (ours, states, sensitivities) = variational(case), one_pass(case)
    errors = apart(states, exact[0]), apart(sensitivities, exact[1])
    return [_beside(name, case, peer, exact, ours, errors) for peer in PASSES[name]]


def _beside(name: str, case: StiffProblem, peer: str, exact: tuple[np.ndarray, np.ndarray], ours: float,
            errors: tuple[float, float]) -> Line:
    said = case.model.definition()
    given: dict[str, Any] = {"states": said["states"], "definitions": said["definitions"], "values": case.values,
                             "initial": {n: float(case.initial[n]) for n in case.model.states}, "time": case.time.tolist(),
                             "free": case.free}
    answers = of_peer(Path(__file__).with_name("stiff_peers.py"), peer, {**given, "tolerances": TOLERANCES})
    if isinstance(answers, str):
        return Line(f"{name}: one pass with sensitivities beside {PEERS[peer]}", answers)
    found = ""
    for at, answer in zip(TOLERANCES, answers, strict=True):
        own = apart(np.array(answer["states"]), exact[0]), apart(np.array(answer["sensitivities"]), exact[1])
        spent = answer["seconds"]
        found = f"{spoken(spent)} ({own[0]:.0e}, {own[1]:.0e}) at {at[0]:.0e}, {spent / ours:.1f} times"
        if own[0] <= errors[0] and own[1] <= errors[1]:
            break
    return Line(f"{name}: one pass with sensitivities beside {PEERS[peer]}",
                f"{spoken(ours)} (states to {errors[0]:.0e}, sensitivities to {errors[1]:.0e}); {PEERS[peer]} {found}")


def run() -> Result:
    names = size(list(PROBLEMS), ["Robertson to 1e4"])
    return Result("Stiff fits", "Whole fits, all states measured; CPU time. From values 10 % off in one piece; van der Pol's "
                  "equation from 0.05 % off in one piece, and from 10 % off in ten.",
                  [*(compared(name) for name in names), *(line for name in PASSES for line in beside_peers(name))],
                  ["CVODES is CasADi's, with forward sensitivities and a tolerance of 1e-9, begun anew at each sample; radau5 "
                   "has a tolerance of 1e-8. Beside the others a pass is measured, at the loosest tolerance at which a peer "
                   "is no less accurate than radau5, or else at its tightest (1e-10); what is compiled once is not counted.",
                   "From 10 % off CVODES does not converge on van der Pol's equation, as its sensitivities miss the flanks; "
                   "nothing is promised there. From 0.05 % off, in one piece, both do."])


if __name__ == "__main__":
    main(run)
