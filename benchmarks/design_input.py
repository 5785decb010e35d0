"""The selective design of the paper's Fig. 8: how much do exact derivatives of the sensitivities save?

Both minimise the same cost (19) of the same six Bernstein coefficients with the same method (SLSQP) from the same start;
one gets exact derivatives from one march, the other, as one writes it with scipy, takes differences of simulations by
LSODA of the state and its sensitivities.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import comb
from timing import Line, Result, best, main, once, size, spoken

import dynident as di
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_problem import DesignProblem, build_design_problem
from dynident.design.nlp import DesignNlp
from dynident.design.optimize import draw_start
from dynident.design.sensitivity_simulation import choose_substeps
from dynident.tolerances import SLSQP_TOLERANCE

ALPHA, BETA, FRICTION, END, STEP = -4.5, 65.0, 0.12, 8.0, size(0.01, 0.1)
ITERATIONS = size(200, 2)
KAPPA, EPSILON = {"alpha": 0.01, "beta": 10.0}, 0.01
FASTER = 20.0
SAME_COST = 1e-4  # relative


def reference(t: np.ndarray) -> np.ndarray:
    """From rest to rest over 15 rad, a polynomial of order five as in Fig. 7a."""
    s = t / END
    return 15 * (10 * s**3 - 15 * s**4 + 6 * s**5)


def asked() -> DesignProblem:
    model = di.EquationModel(states={"angle": "speed", "speed": f"alpha*speed + beta*(torque - {FRICTION})"},
                             inputs=["torque"], outputs={"angle": "angle"}, name="sliding")
    time = np.arange(round(END / STEP) + 1) * STEP
    run = di.Experiment(time, {"torque": 0 * time}, {"angle": 0 * time}, {"angle": di.Gaussian(1e-3)},
                        {"angle": 0.0, "speed": 0.0})
    problem = di.Problem(model, [run], [di.Parameter("alpha", ALPHA), di.Parameter("beta", BETA)])
    cost = di.criteria.Selective("alpha", reference, KAPPA, EPSILON)
    options = DesignOptions(use_records=False, amplitude=0.3)
    return build_design_problem(parse_arguments(problem, di.signals.Bernstein(5), cost, (), (), options))


def ours(nlp: DesignNlp, start: np.ndarray) -> tuple[float, np.ndarray]:
    nlp = replace(nlp, cost_scale=1 / nlp.evaluate(start).value)
    outcome = nlp.solve(start, ITERATIONS)
    return outcome.value / nlp.cost_scale, nlp.problem.coefficients(outcome.point)[0]


def by_hand(c: np.ndarray) -> float:
    """The cost (19) as one writes it: state and sensitivities by LSODA, trapezoidal rule."""
    time = np.arange(round(END / STEP) + 1) * STEP
    shares = [comb(5, k) for k in range(6)]

    def torque(t: float) -> float:
        s = t / END
        return sum(c[k] * shares[k] * s**k * (1 - s) ** (5 - k) for k in range(6)) - FRICTION

    def rate(t: float, z: np.ndarray) -> list[float]:
        w = torque(t)
        return [z[1], ALPHA * z[1] + BETA * w, z[3], ALPHA * z[3] + z[1], z[5], ALPHA * z[5] + w]

    z = solve_ivp(rate, (0, END), np.zeros(6), method="LSODA", t_eval=time, rtol=1e-8, atol=1e-10).y
    integrand = ((z[0] - reference(time)) ** 2 + KAPPA["beta"] * z[4] ** 2 + 1 / (KAPPA["alpha"] * z[2] ** 2 + EPSILON))
    return float(np.trapezoid(integrand, time))


def with_differences(start: np.ndarray) -> tuple[float, np.ndarray]:
    factor = 1 / by_hand(start)
    options = {"maxiter": ITERATIONS, "ftol": SLSQP_TOLERANCE}
    found = minimize(lambda c: factor * by_hand(c), start, method="SLSQP", options=options)
    return found.fun / factor, found.x


def run() -> Result:
    problem = asked()
    w = draw_start(problem, problem.simulation, problem.generator())
    c = problem.coefficients(w)[0]
    nlp = DesignNlp(problem, choose_substeps(problem.simulation, c, *problem.prior.nominal(0)), (), ())
    agreement = abs(by_hand(c) / nlp.evaluate(w).value - 1)
    mine = best(lambda: ours(nlp, w), repeats=3)
    cost, _ = ours(nlp, w)
    seconds, (theirs, _) = once(lambda: with_differences(c))
    ratio = seconds / mine
    return Result("Design of Fig. 8", "Drive train in forward sliding, 8 s, 801 samples, Bernstein order 5, kappa_1 = 0.01, "
                  "kappa_2 = 10, epsilon = 0.01; CPU time of the search from one start.",
                  [Line("the same cost at the start, relative difference", f"{agreement:.1e}", f"at most {SAME_COST:g}",
                        agreement <= SAME_COST),
                   Line("dynident, exact derivatives", f"{spoken(mine)} to a cost of {cost:.6g}"),
                   Line("scipy LSODA and differences", f"{spoken(seconds)} to a cost of {theirs:.6g}, {ratio:.3g} times ours",
                        f"at least {FASTER:g} times", ratio >= FASTER and cost <= theirs * (1 + SAME_COST))])


if __name__ == "__main__":
    main(run)
