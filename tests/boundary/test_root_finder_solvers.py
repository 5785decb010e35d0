"""Are roots of the boundary value problem answers: minima, on a fine enough grid, with noise sizes that were estimated?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from boundary.test_boundary_value import SPRING, THESIS, fitted, simulated, spring
from dynident.boundary.smoothing.noise_em import residual_variances
from dynident.boundary.smoothing.optimality_bvp import BoundaryValueProblem
from dynident.boundary.smoothing.setup import setup_of, shares
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem

STIFF = {"m": 1.0, "k": 25.0, "b": 1.0}


def shaken(samples: int, std: float, known: bool, truth: dict[str, float], first: float = 0.0) -> di.Experiment:
    """Few samples per period: one Runge-Kutta step between two of them is too long."""
    time = np.linspace(0, 10, samples)
    force = {"u": np.sin(0.8 * time) + np.sin(1.2 * time)}
    clean = di.simulate(SPRING, {**truth, "y(0)": first, "v(0)": 0.0}, di.Experiment(time, force), substeps=20)
    y = clean.outputs["position"] + std * np.random.default_rng(1).standard_normal(samples)
    return di.Experiment(time, force, {"position": y}, {"position": di.Gaussian(std)} if known else {})


def started(run: di.Experiment, **start: float) -> di.Problem:
    return di.Problem(SPRING, [run], [di.Parameter(name, start=value) for name, value in start.items()])


def test_a_saddle_is_no_answer():
    """From negative parameters the root finder meets a stationary point at which the sum is no smallest one."""
    problem = started(shaken(101, 0.01, True, dict.fromkeys("mkb", 1.0)), m=-3.0, k=-3.0, b=-3.0)
    options = {"process_noise": {"v": 1.0, "y": 1.0, "k": 1.0}, "substeps": 1}
    with pytest.raises(di.NotConverged, match="no minimum: beside it the sum falls") as caught:
        fitted(problem, **options, solver="davidenko")
    lowest = fitted(started(problem.experiments[0], m=1.5, k=1.5, b=1.5), **options)
    assert caught.value.estimate.status.code == "not_a_minimum"
    assert lowest.cost < 0.2 * caught.value.estimate.cost


@pytest.mark.parametrize("solver", ["newton", "davidenko"])
@pytest.mark.parametrize("options", [THESIS, {"process_noise": {"v": 1e-2}}, {"process_noise": {"v": 1e-2, "k": 1.0}}, {}],
                         ids=["thesis", "forces", "drift", "usual"])
def test_a_minimum_is_one(options, solver):
    assert fitted(spring(simulated(), (1.3, 1.3, 1.3)), **options, solver=solver).converged


def test_steps_are_as_many_as_it_takes():
    problem = started(shaken(21, 1e-4, True, STIFF), m=1.1, k=24.0, b=1.1)
    newton, smoother = (fitted(problem, process_noise={"v": 10**-2.5}, solver=s) for s in ("newton", "smoother"))
    assert newton.counts["steps_per_sample"] > 1
    for name in problem.names:
        assert abs(newton.values[name] - smoother.values[name]) < 0.05 * smoother.uncertainty.std(name)


def test_noise_sizes_are_estimated_by_root_finders_too():
    problem = started(shaken(41, 1e-3, False, {"m": 1.0, "k": 25.0, "b": 0.2}, first=0.5), m=1.1, k=25.5, b=0.25)
    newton, smoother = (fitted(problem, process_noise={"v": 10**-2.5}, solver=s) for s in ("newton", "smoother"))
    assert newton.noise_std["position"] == pytest.approx(smoother.noise_std["position"], rel=0.03)  # both settle to 1 %
    assert newton.noise_std["position"] == pytest.approx(1e-3, rel=3 / np.sqrt(2 * 41))


def test_a_size_that_the_data_do_not_tell_is_not_called_estimated():
    """With so weak a model its errors follow every sample, and the likelihood rises until no measurement error is left."""
    problem = started(shaken(101, 0.01, False, dict.fromkeys("mkb", 1.0)), m=1.3, k=1.3, b=1.3)
    with pytest.raises(di.NotConverged, match=r"did not converge.*Give a std, or measurement_noise") as stopped:
        fitted(problem, process_noise=1.0)
    assert stopped.value.estimate.status.code == "noise_not_converged"


def swung(seed: int) -> di.Experiment:
    """Noise of 0.01 on motions of 0.5, of unknown size."""
    time = np.linspace(0, 10, 151)
    force = {"u": 2 * np.sin(2.1 * time) + np.sin(3.7 * time)}
    clean = di.simulate(SPRING, {**dict.fromkeys("mkb", 1.0), "y(0)": 0.0, "v(0)": 0.0}, di.Experiment(time, force))
    y = clean.outputs["position"] + 0.01 * np.random.default_rng(seed).standard_normal(time.size)
    return di.Experiment(time, force, {"position": y}, {"position": di.Gaussian()})


@pytest.mark.parametrize("std, seed", [(100.0, 0), (10.0, 0), (10.0, 3), (10**0.5, 3)])
def test_a_size_on_which_the_likelihood_does_not_depend_does_not_settle(std, seed):
    """A Kalman filter's likelihood is flat from 1e-3 down for each of these: any smaller size is as good."""
    with pytest.raises(di.NotConverged) as stopped:
        fitted(started(swung(seed), m=2.0, k=2.0, b=2.0), process_noise={"v": std}, max_restarts=0)
    assert stopped.value.estimate.status.code == "noise_not_converged"


@pytest.mark.parametrize("seed", range(3))
def test_a_size_on_which_the_likelihood_depends_settles(seed):
    """A tenth of the variance, and the same likelihood has a maximum: 30 to 80 lower at no noise than at 0.007."""
    estimate = fitted(started(swung(seed), m=2.0, k=2.0, b=2.0), process_noise={"v": 1.0}, max_restarts=0)
    assert 0.005 < estimate.noise_std["position"] < 0.0125  # model errors as large as these take a part of it


def test_residuals_have_the_freedom_that_samples_less_unknowns_leave():
    """Where the model cannot err, the sum of 1 - variance is the number of samples less that of the unknowns."""
    problem = started(swung(0), m=1.0, k=1.0, b=1.0)
    setup = setup_of(di.boundary_value(process_noise=0.0), problem)
    finite = WeakConstraintProblem(setup.inner, setup.method.make_integrator(), 1, {"position": 0.01}, setup.weights)
    seen = residual_variances(setup, finite, finite.start(), {"position": 0.01})["position"]
    assert seen.count - seen.variances == pytest.approx(151 - 5, rel=1e-6)  # m, k, b and two initial states


@pytest.mark.parametrize("std", [1e-9, 1e-10, 1e-11, 1e-13, 1e-15])
def test_rounding_is_no_model_error(std):
    problem = spring(simulated(), (2.0, 2.0, 2.0))
    assert fitted(problem, process_noise=std).cost == pytest.approx(fitted(problem, process_noise=0.0).cost, rel=1e-5)


@pytest.mark.parametrize("options", [{"refine": True}, {"solver": "newton"}, {"solver": "davidenko"}])
def test_the_history_ends_at_the_cost_of_the_answer(options):
    estimate = fitted(spring(simulated(), (1.3, 1.3, 1.3)), process_noise={"v": 0.1}, **options)
    assert estimate.history[-1].cost == pytest.approx(estimate.cost, rel=1e-3)
    assert f"after {estimate.counts['iterations']} iterations" in estimate.status


def test_a_start_without_derivatives_is_refused_and_the_others_are_kept():
    """Whether they are finite by a hair is for the last bit to say; their products along the record are not."""
    time = np.linspace(0, 5, 51)
    run = di.Experiment(time, {"u": 0 * time}, {"x": 1 / (10 - time)}, {"x": di.Gaussian(1e-3)})
    problem = di.Problem(di.EquationModel(states={"x": "a*x**2 + u"}, inputs=["u"]), [run], [di.Parameter("a", start=1e6)])
    found = di.compare(problem, [di.boundary_value(), di.boundary_value(solver="newton")], progress=False)
    assert [e.converged for e in found.values()] == [True]
    assert len(found) + len(found.failed) == 2 and all("x(0) = 0.1, guessed" in why for why in found.failed.values())


@pytest.mark.parametrize("options, said", [
    ({"process_noise": np.array([1.0, 2.0])}, "positive"), ({"initial_noise": 0}, "table"),
    ({"refine": True, "solver": "newton"}, "Leave one of the two out")])
def test_options_that_cannot_be_meant_are_refused(options, said):
    with pytest.raises(di.ProblemError, match=said):
        di.boundary_value(**options)


@pytest.mark.parametrize("integrator", ["symplectic_euler", "leapfrog", "leapfrog_printed"])
@pytest.mark.parametrize("asked", [{"solver": "newton"}, {"solver": "davidenko"}, {"solver": "musn"}, {"refine": True}])
def test_schemes_for_positions_and_velocities_integrate_no_costates(integrator, asked):
    with pytest.raises(di.ProblemError, match=f"'{integrator}' takes positions and velocities only.*Use runge_kutta"):
        di.boundary_value(integrator=integrator, **asked)
    assert di.boundary_value(integrator=integrator).integrator == integrator  # the smoother takes it


def test_refining_several_experiments_is_refused_before_the_fit():
    runs = [simulated(seed=s, name=f"run {s}") for s in range(2)]
    problem = di.Problem(SPRING, runs, [di.Parameter(name, start=1.0) for name in "mkb"])
    with pytest.raises(di.NotSupported, match="Leave refine out"):
        fitted(problem, refine=True)


def oscillating(std: float) -> di.Estimate:
    """Van der Pol from a known first state; the less the model may err, the more the costates answer to that state."""
    model = di.EquationModel(states={"x": "v", "v": "mu*(1 - x**2)*v - w*x + u"}, outputs={"p": "x"}, inputs=["u"],
                             parameters=["mu", "w"])
    time = np.linspace(0, 20, 301)
    force = {"u": np.sin(time)}
    clean = di.simulate(model, {"mu": 0.8, "w": 1.5, "x(0)": 1.0, "v(0)": 0.0}, di.Experiment(time, force)).outputs["p"]
    run = di.Experiment(time, force, {"p": clean + 1e-3 * np.random.default_rng(0).standard_normal(301)},
                        {"p": di.Gaussian(1e-3)}, initial={"x": 1.0, "v": 0.0})
    problem = di.Problem(model, [run], [di.Parameter("mu", start=0.81), di.Parameter("w", start=1.51)])
    return fitted(problem, process_noise=std, solver="newton")


def test_a_condition_number_above_that_of_the_thesis_is_said():
    said = [note for note in oscillating(1e-5).notes if "condition number" in note]
    assert len(said) == 1 and "above 1e8" in said[0] and "Table 6.1" in said[0]
    assert not any("condition number" in note for note in oscillating(1e-3).notes)


def test_the_condition_number_depends_on_no_units():
    found = []
    for unit in (1.0, 1e3):
        clean = simulated()
        model = di.EquationModel(states={"y": "v", "v": f"({unit}*u - b*v - k*y)/m"}, outputs={"position": "y"}, inputs=["u"],
                                 parameters=["m", "k", "b"])
        run = di.Experiment(clean.time, clean.inputs, {"position": unit * clean.outputs["position"]},
                            {"position": di.Gaussian(0.01 * unit)}, hold="linear")
        problem = di.Problem(model, [run], [di.Parameter(name, start=1.3) for name in "mkb"])
        setup = setup_of(di.boundary_value(process_noise={"v": 0.1 * unit}), problem)
        finite = WeakConstraintProblem(setup.inner, setup.method.make_integrator(), 1, {}, setup.weights)
        found.append(BoundaryValueProblem(setup, finite, scaled=True).condition(finite.start()))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_a_course_that_leaves_its_bounds_is_said():
    """Bounds of a parameter that may drift hold its first value."""
    start = [di.Parameter("m", start=2.0), di.Parameter("k", start=1.5, lower=1.2, upper=5.0), di.Parameter("b", start=2.0)]
    run = shaken(201, 0.01, True, dict.fromkeys("mkb", 1.0), first=0.3)
    estimate = fitted(di.Problem(SPRING, [run], start), process_noise={"v": 1e-2, "k": 10**-0.5})
    course = estimate.smoothed.records[0].values[:, estimate.smoothed.records[0].names.index("k")]
    assert course.min() < 1.2
    assert any(note.startswith("k leaves its bounds, 1.2 to 5,") and f"{course.min():.4g}" in note for note in estimate.notes)
    wide = [di.Parameter(name, start=1.5, lower=0.01, upper=100.0) for name in "mkb"]
    inside = fitted(di.Problem(SPRING, [run], wide), process_noise={"v": 1e-2, "k": 10**-0.5})
    assert not any("leaves its bounds" in note for note in inside.notes)


def test_an_exact_model_is_not_said_to_err():
    """Without noise and without model errors, nothing is left to explain, and no model error explains it."""
    estimate = fitted(started(shaken(101, 0.0, False, dict.fromkeys("mkb", 1.0)), m=1.3, k=1.3, b=1.3), process_noise=0.0,
                      substeps=20)
    said = [note for note in estimate.notes if "Nothing is left" in note]
    assert said and "model errors" not in said[0]


# continuous measurements: the time that a sample stands for


def test_samples_of_another_signal_take_no_weight_away():
    fast, slow = np.linspace(0, 10, 201), np.linspace(0, 10, 21)
    merged = np.full(201, np.nan)
    merged[::10] = 1.0
    alone = di.Experiment(slow, outputs={"y": np.ones(21)})
    together = di.Experiment(fast, outputs={"y": merged, "z": np.ones(201)})
    np.testing.assert_allclose(shares(together, "y")[::10], shares(alone, "y"), rtol=1e-12)
    assert np.sum(shares(alone, "y")) == pytest.approx(10.0)  # the whole of the time


def test_a_gap_is_no_measured_time():
    y = np.ones(101)
    y[40:60] = np.nan
    run = di.Experiment(np.linspace(0, 10, 101), outputs={"y": y})
    assert np.sum(shares(run, "y")[np.isfinite(y)]) == pytest.approx(3.9 + 4.0)
    assert shares(run, "y")[39] == pytest.approx(0.05)


@pytest.mark.parametrize("solver", ["smoother", "newton"])
def test_one_clock_for_all_signals_changes_nothing_that_matters(solver):
    run = simulated(samples=401)
    merged = np.full(801, np.nan)
    merged[::2] = run.outputs["position"]
    time = np.linspace(0, 10, 801)
    inputs = {"u": np.interp(time, run.time, run.inputs["u"])}
    shared = di.Experiment(time, inputs, {"position": merged}, {"position": di.Gaussian(0.01)}, hold="linear")
    one, other = (fitted(spring(r, (1.3, 1.3, 1.3)), **THESIS, solver=solver) for r in (run, shared))
    for name in "mkb":
        assert one.values[name] == pytest.approx(other.values[name], rel=2e-3)  # model errors act at twice as many nodes
    assert setup_of(di.boundary_value(**THESIS), spring(shared)).inner.measured_values == 401


# starts and units


def test_the_start_does_not_choose_the_steps():
    """x' = a x^2 + u: a start at a = 50 is stiff and begins with many steps per sample; the answer needs one."""
    model = di.EquationModel(states={"x": "a*x**2 + u"}, outputs={"z": "x"}, inputs=["u"], parameters=["a"])
    time = np.linspace(0, 30, 301)
    u = np.sin(time) + np.sign(np.sin(0.7 * time))
    x = np.zeros(time.size)  # x' = u - x/2, which the model does not quite follow
    for k in range(time.size - 1):
        x[k + 1] = np.exp(-0.05) * x[k] + (1 - np.exp(-0.05)) / 0.5 * u[k]
    z = x + 0.02 * np.random.default_rng(0).standard_normal(time.size)
    run = di.Experiment(time, {"u": u}, {"z": z}, {"z": di.Gaussian(0.02)})
    near, far = (di.identify(di.Problem(model, [run], [di.Parameter("a", start=a)]), di.boundary_value(
        process_noise={"x": 10**-0.5}), progress=False) for a in (-0.1, 50.0))
    assert near.counts["steps_per_sample"] == far.counts["steps_per_sample"]
    assert abs(near.values["a"] - far.values["a"]) < 1e-3 * near.uncertainty.std("a")


@pytest.mark.parametrize("solver", ["davidenko", "musn"])
def test_units_of_the_signals_do_not_matter_to_root_finders(solver):
    found = []
    for unit in (1.0, 1e-4):
        own = simulated()
        run = di.Experiment(own.time, {"u": unit * own.inputs["u"]}, {"position": unit * own.outputs["position"]},
                            {"position": di.Gaussian(unit * 0.01)}, hold="linear")
        problem = di.Problem(SPRING, [run], [di.Parameter(n, start=s) for n, s in zip("mkb", (1.5, 1.3, 1.4), strict=True)])
        found.append(fitted(problem, solver=solver, process_noise={"v": 1e-2 * unit}))
    assert [found[1].values[n] for n in "mkb"] == pytest.approx([found[0].values[n] for n in "mkb"], rel=1e-5)
