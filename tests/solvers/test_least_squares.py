"""Do the solvers find the optimum where there is one, and say so only then?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

import dynident as di
from problems import MACHINES, Machine, independent_states

SINGLE = di.single_shooting()
SINGLE_GN = di.single_shooting(solver="gauss_newton")
MULTIPLE = di.multiple_shooting(segments=6)
WAYS = {"Levenberg-Marquardt": SINGLE, "Gauss-Newton": SINGLE_GN, "Gauss-Newton with segments": MULTIPLE}
each_way = pytest.mark.parametrize("method", list(WAYS.values()), ids=list(WAYS))
MSD = MACHINES["mass_spring_damper"]


def found(problem: di.Problem, method) -> di.Estimate:
    return di.identify(problem, method, progress=False)


def stopped(problem: di.Problem, method, progress=False) -> di.Estimate:
    with pytest.raises(di.NotConverged) as end:
        di.identify(problem, method, progress=progress)
    assert str(end.value) == end.value.estimate.status
    assert not end.value.estimate.converged
    return end.value.estimate


# bounds


@each_way
def test_bound_that_the_optimum_lies_beyond_holds_exactly(method):
    """The others are then those of a fit with this parameter held there."""
    bounded = di.Problem(MSD.model, [MSD.record(3)], MSD.parameters(k={"start": 0.7, "upper": 0.9}))
    held = di.Problem(MSD.model, [MSD.record(3)], MSD.parameters(k={"start": 0.9, "free": False}))
    estimate, reference = found(bounded, method), found(held, SINGLE)
    assert estimate.values["k"] == 0.9
    assert estimate.uncertainty.active == {"k": "upper"}
    for name in ("m", "d", "x(0)", "v(0)"):
        assert estimate.values[name] == pytest.approx(reference.values[name], rel=1e-6), name
        assert estimate.uncertainty.std(name) == pytest.approx(reference.uncertainty.std(name), rel=1e-4), name
    low, high = estimate.uncertainty.interval("k")
    assert high == 0.9 and low < 0.9  # one-sided
    assert any("k is at its upper bound (active)" in note for note in estimate.notes)


BOX = {"m": (1.1, np.inf), "d": (-np.inf, 0.8), "k": (-np.inf, np.inf)}
BOXED_START = {"m": 2.0, "d": 0.5, "k": 3.0}


@pytest.fixture(scope="module")
def peer():
    """scipy's reflective trust region over an independent integrator, with differences."""
    measured = MSD.record(3).outputs["position"]

    def residuals(q):
        return (MSD.outputs(dict(zip("mdk", q, strict=True)))["position"] - measured) / 0.01

    return least_squares(residuals, [*BOXED_START.values()], bounds=tuple(zip(*BOX.values(), strict=True)), xtol=1e-12,
                         ftol=1e-12, gtol=1e-12)


@each_way
def test_several_bounds_at_once_against_an_independent_solver(method, peer):
    parameters = MSD.parameters(**{n: {"start": s, "lower": BOX[n][0], "upper": BOX[n][1]}
                                   for n, s in BOXED_START.items()})
    run = MSD.record(3, initial=dict(MSD.initial))
    estimate = found(di.Problem(MSD.model, [run], parameters), replace(method, substeps=8))
    assert estimate.cost == pytest.approx(2 * peer.cost, rel=1e-8)
    assert [estimate.values[n] for n in "mdk"] == pytest.approx(list(peer.x), rel=1e-6)
    assert set(estimate.uncertainty.active) == {"m", "d"}


@each_way
def test_start_on_a_bound_is_left_where_that_helps(method):
    start = MSD.parameters(m={"start": 3.0, "upper": 3.0}, d={"start": 0.1, "lower": 0.1})
    estimate = found(di.Problem(MSD.model, [MSD.record(3)], start), method)
    reference = found(MSD.problem(3), SINGLE)
    assert not estimate.uncertainty.active
    assert estimate.cost == pytest.approx(reference.cost, rel=1e-9)


@each_way
def test_values_stay_inside_their_bounds_on_the_whole_way(method):
    box = {"m": (0.5, 2.5), "d": (0.4, 4.0), "k": (0.2, 3.5)}
    seen: list = []
    problem = di.Problem(MSD.model, [MSD.record(3)], MSD.parameters(**{
        n: {"lower": low, "upper": high} for n, (low, high) in box.items()}))
    di.identify(problem, method, progress=seen.append)
    for page in seen:
        for name, value in zip(problem.names, page.values, strict=True):
            low, high = box.get(name, (-np.inf, np.inf))
            assert low <= value <= high


# walls

WALL = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x + 1e-9*sqrt(1 - a)"})  # not defined for a > 1


def decaying(model: di.EquationModel, rate: float, start: float, samples: int = 40, **parameter) -> di.Problem:
    t = np.linspace(0, 3, samples)
    y = np.exp(-rate * t) + 0.01 * np.random.default_rng(0).standard_normal(samples)
    run = di.Experiment(t, outputs={"y": y}, noise={"y": di.Gaussian(0.01)}, initial={"x": 1.0})
    return di.Problem(model, [run], [di.Parameter("a", start, **parameter)])


@each_way
def test_optimum_behind_a_wall_is_never_called_converged(method):
    estimate = stopped(decaying(WALL, rate=2.0, start=0.3), method)
    assert 0.3 <= estimate.values["a"] <= 1.0
    assert estimate.status.code == "no_progress"
    assert "no longer finite" in estimate.status or "not finite" in estimate.status  # the wall itself has no code


@each_way
def test_optimum_before_a_wall_is_found(method):
    estimate = found(decaying(WALL, rate=0.9, start=0.05), method)
    assert estimate.values["a"] == pytest.approx(0.9, abs=0.03)


@each_way
def test_trial_step_that_blows_up_is_shortened(method):
    """x' = a x^2 from 1 has a pole at t = 1/a; full steps from the start lead far beyond it."""
    model = di.EquationModel(states={"x": "a*x**2"}, outputs={"y": "x"})
    t = np.linspace(0, 1, 40)
    y = 1 / (1 - 0.9 * t)
    run = di.Experiment(t, outputs={"y": y + 0.01 * np.cos(40 * t)}, noise={"y": di.Gaussian(0.01)}, initial={"x": 1.0})
    estimate = found(di.Problem(model, [run], [di.Parameter("a", -3.0)]), method)
    assert estimate.values["a"] == pytest.approx(0.9, abs=0.002)


# stopping


@each_way
def test_limit_of_iterations_is_said_and_the_best_point_kept(method):
    limited = replace(method, max_iterations=2)
    problem = MSD.problem(3)
    estimate = stopped(problem, limited)
    assert estimate.status.code == "iteration_limit" and "at the limit of 2 iterations" in estimate.status
    first = estimate.history[0].cost
    assert estimate.cost < first
    assert estimate.history[-1].values == pytest.approx([estimate.values[n] for n in problem.names])


RIPPLED = di.EquationModel(states={"x": "-a*x + 1e-7*sin(1e7*a)"}, outputs={"y": "x"})  # steps are found by rounding


@pytest.mark.parametrize("method", [di.multiple_shooting(max_iterations=60),
                                    di.full_discretization(solver="ipopt", max_iterations=3)], ids=["a second run", "ipopt"])
def test_the_limit_that_is_said_is_the_one_that_was_given(method):
    """60 iterations are 50 of a first run and ten of a second one."""
    estimate = stopped(decaying(RIPPLED, 1.0, 0.5), method)
    assert estimate.status.code == "iteration_limit"
    assert f"at the limit of {method.max_iterations} iterations" in estimate.status


@each_way
@pytest.mark.parametrize("after", [0, 1, 3])
def test_interrupt_ends_with_the_last_point_marked(method, after):
    told: list = []

    def impatient(iteration):
        told.append(iteration)
        if len(told) == after + 1:
            raise KeyboardInterrupt

    problem = MSD.problem(3)
    estimate = stopped(problem, method, impatient)
    assert estimate.status.code == "interrupted"
    assert estimate.counts["interrupted"] == 1
    assert [estimate.values[n] for n in problem.names] == pytest.approx(told[-1].values)
    assert len(estimate.history) == after + 1


def test_interrupt_between_two_solves_keeps_what_was_reached(monkeypatch):
    from dynident.methods import direct_loop, direct_steps

    def impatient(*arguments, **options):
        raise KeyboardInterrupt

    reference, loop = found(MSD.problem(3), SINGLE), direct_loop.DIRECT_LOOP
    steps = direct_steps.transcribe, direct_steps.solve, impatient
    monkeypatch.setattr(direct_loop, "DIRECT_LOOP", replace(loop, round=steps))
    estimate = stopped(MSD.problem(3), SINGLE)
    assert estimate.status.code == "interrupted" and estimate.counts["interrupted"] == 1
    assert estimate.values["k"] == pytest.approx(reference.values["k"], rel=1e-6)
    monkeypatch.setattr(direct_loop, "DIRECT_LOOP", replace(loop, prepare=(*loop.prepare[:-1], impatient)))
    estimate = stopped(MSD.problem(3), MULTIPLE)
    assert estimate.values["k"] == 3.0  # nothing but the start was there


# robust losses


def with_outliers(seed: int = 4, share: float = 0.08) -> tuple[di.Experiment, np.ndarray]:
    rng = np.random.default_rng(seed)
    run = MSD.record(seed)
    y = run.outputs["position"].copy()
    bad = rng.random(y.size) < share
    y[bad] += rng.uniform(0.3, 0.8, bad.sum())  # 30 to 80 standard deviations, all to one side
    return di.Experiment(run.time, run.inputs, {"position": y}, run.noise), bad


@pytest.mark.parametrize("loss", ["huber", "soft_l1", "cauchy"])
@each_way
def test_robust_loss_resists_outliers(method, loss):
    run, _ = with_outliers()
    spoiled = found(di.Problem(MSD.model, [run], MSD.parameters()), SINGLE)
    robust = found(di.Problem(MSD.model, [run], MSD.parameters()), replace(method, loss=loss))
    clean = found(MSD.problem(4), SINGLE)
    for name in ("m", "d", "k"):
        shift = abs(robust.values[name] - clean.values[name]) / clean.uncertainty.std(name)
        assert shift < 4, name  # 8 % on one side still pull a little
    worst = max(abs(spoiled.values[n] - MSD.truth[n]) / clean.uncertainty.std(n) for n in ("m", "d", "k"))
    assert worst > 10


def test_robust_loss_without_outliers_costs_little():
    plain, robust = found(MSD.problem(4), SINGLE), found(MSD.problem(4), replace(SINGLE, loss="huber"))
    for name in ("m", "d", "k"):
        ratio = robust.uncertainty.std(name) / plain.uncertainty.std(name)
        assert 0.95 < ratio < 1.15  # 95 % efficient at this threshold, within the scatter of 151 samples


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_robust_loss_with_unknown_noise_finds_its_size(loss):
    run, _ = with_outliers()
    blind = di.Experiment(run.time, run.inputs, run.outputs)
    estimate = found(di.Problem(MSD.model, [blind], MSD.parameters()), replace(SINGLE, loss=loss))
    assert estimate.noise_std["position"] == pytest.approx(0.01, rel=0.35)
    for name in ("m", "d", "k"):
        assert estimate.values[name] == pytest.approx(MSD.truth[name], abs=0.05)


def test_outliers_are_counted_and_never_dropped():
    run, bad = with_outliers()
    estimate = found(di.Problem(MSD.model, [run], MSD.parameters()), replace(SINGLE, loss="cauchy"))
    assert np.count_nonzero(np.isfinite(estimate.residuals[0]["position"])) == run.samples
    (note,) = [n for n in estimate.notes if "beyond 4 standard deviations" in n]
    assert f"{bad.sum()} of 151" in note and "the cauchy loss gives them little weight" in note
    assert "need not be normal" in estimate.uncertainty.meaning


def test_unknown_loss_is_named():
    with pytest.raises(di.ProblemError, match=r"no loss 'hubr'.*Did you mean 'huber'"):
        di.single_shooting(loss="hubr")


# units


def in_other_units(machine: Machine, length: float, mass: float) -> tuple[di.Problem, dict[str, float]]:
    """The mass-spring-damper with length in 1/`length` m and mass in 1/`mass` kg; and the factor of each unknown."""
    run = machine.record(3)
    force = mass * length
    scaled = di.Experiment(run.time, {"F": run.inputs["F"] * force}, {"position": run.outputs["position"] * length},
                           {"position": di.Gaussian(0.01 * length)})
    factor = {"m": mass, "d": mass, "k": mass, "x(0)": length, "v(0)": length}
    parameters = machine.parameters(**{n: {"start": machine.start[n] * mass} for n in "mdk"})
    return di.Problem(machine.model, [scaled], parameters), factor


@each_way
@pytest.mark.parametrize("length, mass", [(1e3, 1.0), (1.0, 1e3), (1e-9, 1e9), (1e9, 1e-9), (1e9, 1e9)])
def test_result_does_not_depend_on_units(method, length, mass):
    reference = found(MSD.problem(3), method)
    problem, factor = in_other_units(MSD, length, mass)
    estimate = found(problem, method)
    assert estimate.cost == pytest.approx(reference.cost, rel=1e-9)
    assert abs(estimate.counts["iterations"] - reference.counts["iterations"]) <= 1
    for name, f in factor.items():
        assert estimate.values[name] / f == pytest.approx(reference.values[name], rel=1e-6), name
        assert estimate.uncertainty.std(name) / f == pytest.approx(reference.uncertainty.std(name), rel=1e-6), name


def test_scales_of_eighteen_decades_in_one_problem():
    """One parameter of 1e-9 and one of 1e9 whose product is what damping and stiffness see."""
    model = di.EquationModel(states={"x": "v", "v": "F - 1e9*tiny*v - 1e-9*huge*x"}, outputs={"y": "x"}, inputs=["F"])
    t = MSD.time
    clean = di.simulate(model, {"tiny": 1e-9, "huge": 2e9, "x(0)": 0.0, "v(0)": 0.0}, di.Experiment(t, MSD.inputs))
    y = clean.outputs["y"] + 0.01 * np.random.default_rng(1).standard_normal(t.size)
    run = di.Experiment(t, MSD.inputs, {"y": y}, {"y": di.Gaussian(0.01)})
    problem = di.Problem(model, [run], [di.Parameter("tiny", 3e-9), di.Parameter("huge", 5e8)])
    for method in WAYS.values():
        estimate = found(problem, method)
        for name, truth in {"tiny": 1e-9, "huge": 2e9}.items():
            assert abs(estimate.values[name] - truth) < 4 * estimate.uncertainty.std(name)
            assert estimate.uncertainty.std(name) < 0.1 * truth


# what the data cannot tell


@each_way
def test_sum_that_alone_is_determined_is_found_and_named(method):
    model = di.EquationModel(states={"x": "v", "v": "F/(m1 + m2) - d*v"}, outputs={"position": "x"}, inputs=["F"])
    clean = di.simulate(model, {"m1": 1.0, "m2": 2.0, "d": 0.5, "x(0)": 0.1, "v(0)": 0.0},
                        di.Experiment(MSD.time, MSD.inputs)).outputs["position"]
    y = clean + 0.01 * np.random.default_rng(2).standard_normal(clean.size)
    run = di.Experiment(MSD.time, MSD.inputs, {"position": y}, {"position": di.Gaussian(0.01)})
    damping = di.Parameter("d", 1.0)
    estimate = found(di.Problem(model, [run], [di.Parameter("m1", 2.0), di.Parameter("m2", 0.5), damping]), method)
    assert estimate.values["m1"] + estimate.values["m2"] == pytest.approx(3.0, rel=0.02)
    assert estimate.uncertainty.unidentifiable == ("m1", "m2")
    assert any("only m1 + m2 is determined" in note.lower() for note in estimate.notes)
    assert estimate.uncertainty.std("m1") == np.inf
    held = di.Parameter("m1", 0.0, free=False)
    reference = found(di.Problem(model, [run], [held, di.Parameter("m2", 2.5), damping]), method)
    assert estimate.uncertainty.std("d") == pytest.approx(reference.uncertainty.std("d"), rel=1e-3)
    assert estimate.cost == pytest.approx(reference.cost, rel=1e-8)


@each_way
def test_parameter_that_acts_on_nothing_measured_is_named_and_harms_nobody(method):
    model = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x", "hidden": "b*x"})
    t = np.linspace(0, 3, 40)
    y = np.exp(-0.7 * t) + 0.01 * np.random.default_rng(3).standard_normal(40)
    run = di.Experiment(t, outputs={"y": y}, noise={"y": di.Gaussian(0.01)})
    estimate = found(di.Problem(model, [run], [di.Parameter("a", 1.0), di.Parameter("b", 1.0)]), method)
    assert estimate.uncertainty.unidentifiable == ("b",)
    assert estimate.values["b"] == 1.0  # nothing moves it
    assert abs(estimate.values["a"] - 0.7) < 4 * estimate.uncertainty.std("a")


@each_way
def test_nothing_unknown_is_a_fit_too(method):
    machine = MACHINES["pendulum"]
    problem = di.Problem(machine.model, [machine.record(1, initial=dict(machine.initial))],
                         [di.Parameter(n, v, free=False) for n, v in machine.truth.items()])
    assert problem.names == ()
    estimate = found(problem, method)
    assert estimate.cost == pytest.approx(machine.time.size, rel=0.4)
    assert estimate.values["p"] == 9.81


def test_levenberg_marquardt_refuses_matching_conditions_with_the_way_out():
    with pytest.raises(di.NotSupported, match=r"takes no matching conditions, but the problem has 10\. Use segments=1"):
        di.identify(MSD.problem(), di.multiple_shooting(segments=6, solver="levenberg_marquardt"), progress=False)


# an unstable model

BALANCED = di.EquationModel(states={"a": "w", "w": "p*sin(a) - d*w + u"}, outputs={"angle": "a"}, inputs=["u"],
                            parameters=["p", "d"])


@pytest.fixture(scope="module")
def balanced() -> di.Problem:
    """An inverted pendulum that a controller keeps upright; without it, errors grow by 1e8 along the record."""
    t, u, x = np.linspace(0, 6, 301), np.empty(301), np.empty((301, 2))
    x[0] = 0.1, 0.0
    for k in range(301):
        u[k] = -30 * x[k, 0] - 6 * x[k, 1] + 3 * np.sin(2 * t[k])
        if k < 300:
            step = np.array([0.0, 0.02])
            x[k + 1] = independent_states(lambda t, x, u, p: [x[1], 9.81 * np.sin(x[0]) - 0.1 * x[1] + u[0]], step,
                                          u[[k, k]][:, None], x[k], {})[1]
    y = x[:, 0] + 1e-3 * np.random.default_rng(0).standard_normal(301)
    run = di.Experiment(t, {"u": u}, {"angle": y}, {"angle": di.Gaussian(1e-3)})
    return di.Problem(BALANCED, [run], [di.Parameter("p", 5.0), di.Parameter("d", 1.0)])


@pytest.mark.parametrize("segments", [20, 60])
def test_unstable_model_is_fitted_by_multiple_shooting(balanced, segments):
    estimate = found(balanced, di.multiple_shooting(segments=segments))
    assert estimate.cost == pytest.approx(301 - 4, abs=4 * np.sqrt(2 * 297))
    assert not estimate.uncertainty.unidentifiable
    for name, truth, largest in (("p", 9.81, 0.02), ("d", 0.1, 0.01)):
        assert estimate.uncertainty.std(name) < largest
        assert abs(estimate.values[name] - truth) < 4 * estimate.uncertainty.std(name)
