"""Fits under conditions: first states as formulas and at rest, noise formulas, log-normal errors, replicates, priors on scales.

References: closed solutions of the conversion A <-> B, scipy's minimiser on the likelihood written out here, and each method
against the others.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import dynident as di

REACTION = di.EquationModel(states={"A": "-k1*A + k2*B", "B": "k1*A - k2*B"})
T = np.linspace(0, 4, 15)


def course(k1: float, k2: float, a0: float, b0: float, t: np.ndarray = T) -> tuple[np.ndarray, np.ndarray]:
    """A and B in closed form."""
    rest = (a0 + b0) * k2 / (k1 + k2)
    a = rest + (a0 - rest) * np.exp(-(k1 + k2) * t)
    return a, a0 + b0 - a


def two_doses(noise, seed: int = 0, size: float = 0.05) -> di.Problem:
    rng = np.random.default_rng(seed)
    runs = []
    for dose in (1.0, 3.0):
        a, b = course(0.8, 0.5, dose, 0.2)
        runs.append(di.Experiment(
            T, outputs={name: y * np.exp(size * rng.standard_normal(T.size)) for name, y in (("A", a), ("B", b))},
            noise={"A": noise, "B": noise}, constants={"dose": dose}, initial={"A": "dose*f", "B": 0.2}, name=f"dose {dose:g}"))
    return di.Problem(REACTION, runs, [
        di.Parameter("k1", start=0.4, lower=0, upper=10), di.Parameter("k2", start=0.9, lower=0, upper=10),
        di.Parameter("f", start=0.8, lower=0, upper=10),
        *([di.Parameter("s", start=0.2, lower=1e-3, upper=10, log=True)] if isinstance(noise.std, str) else [])])


def negative_log_likelihood(problem: di.Problem, values: np.ndarray) -> float:
    """Of `two_doses` with log-normal errors of std s, written out."""
    k1, k2, f, s = values
    total = 0.0
    for e in problem.experiments:
        for y, name in zip(course(k1, k2, f * e.constants["dose"], 0.2), ("A", "B"), strict=True):
            m = np.asarray(e.outputs[name])
            total += float(np.sum(0.5 * (np.log(y / m) / s) ** 2 + np.log(s * m) + 0.5 * np.log(2 * np.pi)))
    return total


def at(estimate: di.Estimate) -> np.ndarray:
    return np.array([estimate.values[name] for name in estimate.problem.names])


def test_an_unknown_log_normal_std_is_found_where_scipy_finds_it():
    problem = two_doses(di.LogNormal("s"))
    reference = minimize(lambda v: negative_log_likelihood(problem, np.exp(v)), np.log([0.8, 0.5, 1.0, 0.05]), method="BFGS",
                         options={"gtol": 1e-8})
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    assert at(estimate) == pytest.approx(np.exp(reference.x), rel=1e-4)  # 1e-3 of a standard error
    assert estimate.statistics["log_likelihood"] == pytest.approx(-reference.fun, abs=1e-6)


def test_objective_is_the_likelihood_written_out():
    problem = two_doses(di.LogNormal("s"))
    values = {"k1": 0.6, "k2": 0.7, "f": 1.1, "s": 0.09}
    found = di.objective(problem, values)
    assert found.value == pytest.approx(negative_log_likelihood(problem, np.array(list(values.values()))), abs=1e-6)
    a = course(0.6, 0.7, 1.1, 0.2)[0]
    assert found.simulations[0]["A"] == pytest.approx(a, rel=1e-7)
    assert found.residuals[0]["A"] == pytest.approx(np.log(a / problem.experiments[0].outputs["A"]) / 0.09, abs=1e-5)


@pytest.mark.parametrize("noise", [di.Gaussian("s + 0.1*abs(A)"), di.LogNormal("s"), di.Gaussian("s"), di.Gaussian(0.05)])
def test_gradient_is_that_of_the_value(noise):
    problem = two_doses(noise)
    values = dict(zip(problem.names, (0.6, 0.7, 1.1, 0.09), strict=False))
    found = di.objective(problem, values)
    for name, value in values.items():
        h = 1e-5 * value
        beside = [di.objective(problem, {**values, name: value + step}).value for step in (h, -h)]
        assert found.gradient[name] == pytest.approx((beside[0] - beside[1]) / (2 * h), rel=1e-5, abs=1e-4)


def test_gradient_vanishes_at_the_fit():
    problem = two_doses(di.Gaussian("s*A"))
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    found = di.objective(problem, {name: estimate.values[name] for name in problem.names})
    error = {name: estimate.uncertainty.std(name) for name in problem.names}
    assert all(abs(found.gradient[name]) * error[name] < 1e-2 for name in problem.names)  # of a standard error


@pytest.mark.parametrize("noise", [di.LogNormal(0.05), di.Gaussian(0.05)])
def test_methods_agree_on_first_states_that_are_formulas(noise):
    problem = two_doses(noise)
    single, multiple, black = (at(di.identify(problem, method, progress=False)) for method in (
        di.single_shooting(), di.multiple_shooting(segments=3), di.least_squares()))
    assert multiple == pytest.approx(single, rel=1e-6)
    assert black == pytest.approx(single, rel=1e-4)


def test_the_default_takes_noise_formulas_and_says_that_its_restarts_agree():
    estimate = di.identify(two_doses(di.LogNormal("s")), progress=False)
    single = di.identify(two_doses(di.LogNormal("s")), di.single_shooting(), progress=False)
    assert estimate.believed and "independent routes" in estimate.belief_reason
    assert at(estimate) == pytest.approx(at(single), rel=1e-5)


def test_interval_of_an_unknown_std_is_that_of_fisher():
    estimate = di.identify(two_doses(di.LogNormal("s")), di.single_shooting(), progress=False)
    s, count = estimate.values["s"], estimate.problem.measured_values
    assert estimate.uncertainty.std("s") == pytest.approx(s / np.sqrt(2 * count), rel=0.05)


def test_residuals_as_large_as_a_fitted_std_are_not_taken_for_evidence():
    estimate = di.identify(two_doses(di.Gaussian("s")), di.single_shooting(), progress=False)
    assert "given std" not in estimate.verdict.sentence


def test_repeated_times_weigh_as_their_mean_of_smaller_error():
    t, rng = np.array([0.0, 1.0, 2.0, 4.0]), np.random.default_rng(1)
    repeats = course(0.8, 0.5, 1.0, 0.2, np.repeat(t, 3))[0] + 0.02 * rng.standard_normal(12)
    parameters = [di.Parameter("k1", start=0.5, lower=0), di.Parameter("k2", start=0.5, lower=0)]
    first = {"A": 1.0, "B": 0.2}
    all_of_them = di.Experiment(np.repeat(t, 3), outputs={"A": repeats}, initial=first, noise={"A": di.Gaussian(0.02)})
    means = di.Experiment(t, outputs={"A": repeats.reshape(-1, 3).mean(axis=1)}, initial=first,
                          noise={"A": di.Gaussian(0.02 / np.sqrt(3))})
    for method in (di.single_shooting(), di.multiple_shooting(segments=2), di.single_shooting(integrator="radau5"),
                   di.least_squares()):
        found, mean = (di.identify(di.Problem(REACTION, [record], parameters), method, progress=False)
                       for record in (all_of_them, means))
        assert at(found) == pytest.approx(at(mean), rel=1e-5)
        assert found.uncertainty.std("k1") == pytest.approx(mean.uncertainty.std("k1"), rel=0.2)


def test_a_record_may_begin_and_end_with_repeats():
    t = np.array([0.0, 0.0, 1.0, 3.0, 3.0])
    record = di.Experiment(t, outputs={"A": course(0.8, 0.5, 1.0, 0.2, t)[0]}, initial={"A": 1.0, "B": 0.2},
                           noise={"A": di.Gaussian(0.01)})
    problem = di.Problem(REACTION, [record], [di.Parameter("k1", start=0.5, lower=0), di.Parameter("k2", start=0.5, lower=0)])
    assert at(di.identify(problem, progress=False)) == pytest.approx([0.8, 0.5], rel=1e-5)


def at_rest(**fields) -> di.Problem:
    """Rest under k1 = 0.3, then another k1."""
    record = di.Experiment(T, outputs={"A": course(0.8, 0.5, 2 * 0.5 / 0.8, 2 * 0.3 / 0.8)[0]}, constants={"k1": 0.8},
                           noise={"A": di.Gaussian(0.01)}, **fields)
    return di.Problem(REACTION, [record], [di.Parameter("k2", start=0.7, lower=0.01, upper=5),
                                           di.Parameter("total", start=1.5, lower=0)])


def test_a_record_may_begin_at_rest_under_other_constants():
    problem = at_rest(initial=di.SteadyState(initial={"A": "total"}, constants={"k1": 0.3}))
    found = di.identify(problem, di.single_shooting(), progress=False)
    assert at(found) == pytest.approx([0.5, 2.0], rel=1e-5)
    x0 = problem.parameters_and_initial_state(np.array([0.5, 2.0]), 0)[1]
    assert x0 == pytest.approx([2 * 0.5 / 0.8, 2 * 0.3 / 0.8], rel=1e-7)


def test_derivative_of_a_state_of_rest_is_exact():
    problem = at_rest(initial=di.SteadyState(initial={"A": "total"}, constants={"k1": 0.3}))
    values = {"k2": 0.6, "total": 1.7}
    found = di.objective(problem, values)
    for name, value in values.items():
        h = 1e-4 * value
        beside = [di.objective(problem, {**values, name: value + step}).value for step in (h, -h)]
        assert found.gradient[name] == pytest.approx((beside[0] - beside[1]) / (2 * h), rel=1e-4)


def test_some_states_may_begin_at_rest_and_others_not():
    problem = at_rest(initial={"A": 1.0}, steady=di.SteadyState(initial={"B": "total"}, constants={"k1": 0.3}))
    x0 = problem.parameters_and_initial_state(np.array([0.5, 2.0]), 0)[1]
    assert x0 == pytest.approx([1.0, 2 * 0.3 / 0.8], rel=1e-7)


def test_initial_steady_is_rest_with_the_inputs_before_the_record():
    lag = di.EquationModel(states={"x": "(K*u - x)/tau"}, inputs=["u"])
    t = np.linspace(0, 5, 21)
    record = di.Experiment(t, inputs={"u": np.full(21, 3.0)}, outputs={"x": 6 - 4 * np.exp(-t / 0.7)}, before={"u": 1.0},
                           initial="steady", noise={"x": di.Gaussian(0.01)})
    problem = di.Problem(lag, [record], [di.Parameter("K", start=1.0, lower=0), di.Parameter("tau", start=1.5, lower=0.1)])
    for method in (di.single_shooting(), di.multiple_shooting(segments=4)):
        assert at(di.identify(problem, method, progress=False)) == pytest.approx([2.0, 0.7], rel=1e-5)


def test_a_state_that_is_only_rounding_is_at_rest():
    """C follows the flow of A to B, which is zero but for the last bit: relative to itself it never stops moving."""
    model = di.EquationModel(states={"A": "k2*B*B - k1*A", "B": "2*k1*A - 2*k2*B*B", "C": "1e-20*(k1*A - k2*B*B) - 1e3*C"},
                             outputs={"A": "A"})
    first = {"A": 0.7 * 0.61**2 / 0.3, "B": 0.61}
    record = di.Experiment([0.0, 1.0], outputs={"A": [1.0, 1.0]}, initial=di.SteadyState(initial=first))
    problem = di.Problem(model, [record], [di.Parameter("k1", 0.3), di.Parameter("k2", 0.7)])
    assert problem.parameters_and_initial_state(np.array([0.3, 0.7]), 0)[1] == pytest.approx([*first.values(), 0], abs=1e-7)


def test_a_model_that_comes_to_no_rest_is_refused_by_name():
    swing = di.EquationModel(states={"q": "v", "v": "-w**2*q"}, outputs={"q": "q"})
    record = di.Experiment(T, outputs={"q": np.cos(T)}, initial=di.SteadyState(initial={"q": 1.0}))
    problem = di.Problem(swing, [record], [di.Parameter("w", start=1.0, lower=0.5, upper=2)])
    with pytest.raises(di.ProblemError, match="the model comes to no rest before the record"):
        di.identify(problem, di.single_shooting(), progress=False)


def test_a_prior_on_a_logarithm_pulls_as_its_density_says():
    t = np.array([0.0, 1.0])
    record = di.Experiment(t, outputs={"x": [1.0, 0.5]}, initial={"x": 1.0}, noise={"x": di.Gaussian(0.1)})
    prior = di.Prior(0.3, 0.2, on="log10")
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [
        di.Parameter("k", start=1.0, lower=0, prior=prior)])
    reference = minimize(lambda v: 0.5 * ((np.exp(-v[0]) - 0.5) / 0.1) ** 2 + 0.5 * ((np.log10(v[0]) - 0.3) / 0.2) ** 2, [1.0],
                         method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14})
    for method in (di.single_shooting(), di.full_discretization(), di.full_discretization(solver="ipopt"), di.least_squares()):
        assert di.identify(problem, method, progress=False).values["k"] == pytest.approx(reference.x[0], rel=2e-3)
    found = di.objective(problem, {"k": 2.0})
    assert found.prior == pytest.approx(-0.5 * ((np.log10(2) - 0.3) / 0.2) ** 2 - np.log(0.2 * np.sqrt(2 * np.pi)), rel=1e-9)
    assert found.value == pytest.approx(-found.log_likelihood - found.prior)


def test_objective_takes_the_most_likely_std_where_none_is_stated():
    problem = two_doses(di.Gaussian())
    found = di.objective(problem, {"k1": 0.8, "k2": 0.5, "f": 1.0})
    rest = np.concatenate([course(0.8, 0.5, e.constants["dose"], 0.2)[0] - e.outputs["A"] for e in problem.experiments])
    assert found.noise_std["A"] == pytest.approx(np.sqrt(np.mean(rest**2)), rel=1e-6)


@pytest.mark.parametrize(("values", "said"), [
    ({"k1": 1.0, "k2": 1.0}, "there is no value of 'f'"), ({"k1": 1, "k2": 1, "f": 1, "g": 2}, "'g' is not an unknown"),
    ({"k1": 1, "k2": np.nan, "f": 1}, "'k2' is nan; give a finite number")])
def test_values_that_are_missing_or_unknown_are_refused(values, said):
    with pytest.raises(di.ProblemError, match=said):
        di.objective(two_doses(di.Gaussian(0.05)), values)


def test_a_std_that_is_not_positive_is_said_by_name():
    problem = two_doses(di.Gaussian("s - 1"))
    with pytest.raises(di.ProblemError, match="the standard deviation 'std_A' is not positive"):
        di.objective(problem, {"k1": 1, "k2": 1, "f": 1, "s": 0.5})


def test_robust_losses_refuse_noise_that_the_model_weighs():
    with pytest.raises(di.NotSupported, match='use loss="squared"'):
        di.identify(two_doses(di.LogNormal(0.05)), di.single_shooting(loss="huber"), progress=False)


def test_what_draws_errors_refuses_those_that_follow_from_the_model():
    estimate = di.identify(two_doses(di.LogNormal(0.05)), di.single_shooting(), progress=False)
    for verb in (di.bootstrap, di.coverage):
        with pytest.raises(di.NotSupported, match="follow from the model"):
            verb(estimate)


def test_profile_of_an_unknown_std_is_that_of_the_likelihood():
    problem = two_doses(di.LogNormal("s"))
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    low, high = di.profile(estimate, ["s"]).interval("s", 0.95)
    best = negative_log_likelihood(problem, at(estimate))
    for end in (low, high):
        refit = minimize(lambda v, end=end: negative_log_likelihood(problem, np.array([*np.exp(v), end])),
                         np.log(at(estimate)[:3]), method="BFGS")
        assert 2 * (refit.fun - best) == pytest.approx(3.841, rel=0.03)


def test_simulate_takes_constants_formulas_and_rest_from_the_record():
    record = di.Experiment(T, constants={"dose": 3.0, "k1": 0.8}, initial={"A": "dose*f", "B": 0.2})
    run = di.simulate(REACTION, {"k2": 0.5, "f": 1.0}, record)
    assert run.states["A"] == pytest.approx(course(0.8, 0.5, 3.0, 0.2)[0], rel=1e-6)
    rest = di.Experiment(T, constants={"k1": 0.8}, initial=di.SteadyState({"A": "total"}, constants={"k1": 0.3}))
    run = di.simulate(REACTION, {"k2": 0.5, "total": 2.0}, rest)
    assert run.states["A"] == pytest.approx(course(0.8, 0.5, 1.25, 0.75)[0], rel=1e-6)


def test_validation_takes_the_constants_of_the_new_record():
    estimate = di.identify(two_doses(di.LogNormal("s")), di.single_shooting(), progress=False)
    other = di.Experiment(T, outputs={"A": course(0.8, 0.5, 7.0, 0.2)[0]}, constants={"dose": 7.0},
                          initial={"A": "dose*f", "B": 0.2}, noise={"A": di.LogNormal(0.05)})
    assert estimate.validate(other).fit["A"] > 95
