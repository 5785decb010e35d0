"""Input design: known optima, predicted standard deviations that are met, constraints that hold, and exact derivatives."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import eigh

import dynident as di
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_problem import build_design_problem
from dynident.design.nlp import DesignNlp, first_constraint_points
from dynident.design.optimize import draw_start
from problems import MACHINES, _servo_rate

AXIS = MACHINES["servo_axis"]
AT_REST = {"q": 0.0, "v": 0.0}


def axis_estimate() -> di.Estimate:
    return di.identify(AXIS.problem(initial=AT_REST))


@pytest.fixture(scope="module")
def estimate() -> di.Estimate:
    return axis_estimate()


def static_problem(text: str, values: dict, limits: tuple[float, float]) -> di.Problem:
    """A curve y = f(u) as a model: its state stands still, and samples are taken wherever u is."""
    model = di.EquationModel(states={"x": "0*x"}, inputs=["u"], outputs={"y": f"{text} + 0*x"})
    time = np.linspace(0, 1, 41)
    run = di.Experiment(time, {"u": np.linspace(*limits, 41)}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    return di.Problem(model, [run], [di.Parameter(n, v) for n, v in values.items()])


# designs whose optimum is known


def test_one_rate_of_a_first_order_system_wants_the_full_input_all_the_time():
    """x' = -a x + u from rest: dx/da is an integral of u with a kernel of one sign, so u = +-1 throughout is best."""
    model = di.EquationModel(states={"x": "-a*x + u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 4, 41)
    run = di.Experiment(time, {"u": 0 * time}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    plan = di.design_input(di.Problem(model, [run], [di.Parameter("a", 0.8)]), di.signals.PiecewiseConstant(8),
                           constraints=["abs(u) <= 1"], starts=2, progress=(stages := []).append)
    assert {stage.start for stage in stages} == {1, 2}
    assert [stage.evaluations for stage in stages] == list(range(1, len(stages) + 1))
    u = plan.inputs["u"][:-1]  # the last sample drives nothing
    assert plan.converged
    assert np.allclose(np.abs(u), 1.0, atol=1e-3) and abs(np.sum(np.sign(u))) == u.size
    slope = (1 - np.exp(-0.8 * time)) / 0.8**2 - time * np.exp(-0.8 * time) / 0.8  # -dx/da for u = 1, by hand
    assert plan.std_after["a"] == pytest.approx(0.1 / np.linalg.norm(slope), rel=1e-3)


def test_d_optimal_michaelis_menten_has_the_two_points_of_the_literature():
    """V u/(K + u) up to u_max: half of the samples at u_max, half at K u_max/(2 K + u_max) (Bates and Watts 1988)."""
    K, largest = 1.5, 5.0
    plan = di.design_input(static_problem("V*u/(K + u)", {"V": 2.0, "K": K}, (0, largest)),
                           di.signals.PiecewiseConstant(2), "D", [f"0 <= u <= {largest}"], use_records=False,
                           duration=0.975)  # 40 samples, 20 for each piece
    low, high = sorted(set(np.round(plan.inputs["u"], 3)))
    assert high == pytest.approx(largest, abs=2e-3)
    assert low == pytest.approx(K * largest / (2 * K + largest), abs=5e-3)


def test_d_optimal_decay_is_sampled_at_one_time_constant():
    """exp(-k u): one parameter, the best place is u = 1/k (Box and Lucas 1959)."""
    plan = di.design_input(static_problem("exp(-k*u)", {"k": 0.5}, (0.1, 9)), di.signals.PiecewiseConstant(1), "D",
                           ["0 <= u <= 10"], use_records=False)
    assert plan.inputs["u"][0] == pytest.approx(2.0, rel=1e-3)


def test_box_lucas_two_rates_are_found():
    """k1/(k1-k2) (exp(-k2 u) - exp(-k1 u)) with 0.7 and 0.2: best at 1.23 and 6.86 (Box and Lucas 1959)."""
    plan = di.design_input(static_problem("k1/(k1 - k2)*(exp(-k2*u) - exp(-k1*u))", {"k1": 0.7, "k2": 0.2}, (0.1, 15)),
                           di.signals.PiecewiseConstant(2), "D", ["0 <= u <= 20"], use_records=False, duration=0.975)
    low, high = sorted(set(np.round(plan.inputs["u"], 4)))
    assert low == pytest.approx(1.23, abs=0.01)
    assert high == pytest.approx(6.86, abs=0.02)


# predicted standard deviations


def test_predicted_std_is_that_of_200_refits(estimate):
    """The predicted covariance is that of repeated runs: 200 of them know a std to 5 %, eigenvalues to a third."""
    plan = di.design_input(estimate, di.signals.Multisine(4), "D", ["abs(u) <= 3", "abs(v) <= 0.5"], use_records=False,
                           duration=1.5, starts=2)
    run = plan.experiment({"position": plan.record.outputs["position"]})
    wanted = list(plan.std_after)
    problem = di.Problem(AXIS.model, [run], [di.Parameter(n, plan.values[n]) for n in wanted])
    fitted = di.identify(problem, di.single_shooting())
    spread = di.bootstrap(fitted, repeats=200, seed=4)
    for name in wanted:
        assert spread.std(name) == pytest.approx(plan.std_after[name], rel=0.17)  # three standard deviations
    predicted = fitted.uncertainty.matrix
    ratios = eigh(np.cov(spread.samples.T), predicted, eigvals_only=True)
    edge = np.sqrt(len(wanted) / 200)
    assert np.all(ratios > (1 - edge) ** 2 * 0.8) and np.all(ratios < (1 + edge) ** 2 * 1.25)


def test_information_of_earlier_records_adds_up(estimate):
    """What a plan predicts is what the next plan finds before, once the record is in."""
    first = di.design_input(estimate, di.signals.PiecewiseLinear(6), constraints=["abs(u) <= 3"], duration=1.0, starts=1)
    joined = estimate.problem.replace(experiments=[*estimate.problem.experiments,
                                                   first.experiment({"position": first.record.outputs["position"]})])
    at = [di.Parameter(n, v) for n, v in first.values.items()]
    second = di.design_input(joined.replace(parameters=at), di.signals.PiecewiseLinear(6), constraints=["abs(u) <= 3"],
                             duration=1.0, starts=1)
    for name, std in first.std_after.items():
        assert first.std_after[name] < first.std_before[name]
        assert second.std_before[name] == pytest.approx(std, rel=1e-3)


def test_compare_says_so_and_notices_more_noise_than_predicted(estimate):
    plan = di.design_input(estimate, di.signals.PiecewiseLinear(6), constraints=["abs(u) <= 3"], duration=1.0, starts=1)
    rng = np.random.default_rng(2)
    y = plan.record.outputs["position"]

    def fitted(std: float, known: bool) -> di.Estimate:
        run = plan.experiment({"position": y + std * rng.standard_normal(y.size)})
        if not known:
            run = di.Experiment(run.time, run.inputs, run.outputs, initial=run.initial, hold=run.hold, name=run.name)
        records = [*estimate.problem.experiments, run] if known else [run]
        return di.identify(estimate.problem.replace(experiments=records), di.single_shooting())

    assert plan.compare(fitted(1e-4, True)).as_predicted
    worse = plan.compare(fitted(5e-4, False))
    assert not worse.as_predicted and "noise of 'position'" in str(worse)


# constraints


def test_every_constraint_holds_in_an_independent_simulation_at_ten_times_finer_steps(estimate):
    limits = {"u": 2.5, "v": 0.25, "q": 0.08, "rate": 60.0, "acceleration": 1.5}
    plan = di.design_input(estimate, di.signals.PiecewiseLinear(10), "std:M",
                           ["abs(u) <= 2.5", "abs(v) <= 0.25", "abs(q) <= 0.08", "abs(der_u) <= 60", "abs(der_v) <= 1.5"],
                           terminal_constraints=["v == 0"], duration=1.5, starts=2)
    time, u = plan.time, plan.inputs["u"]
    fine = np.linspace(0, time[-1], 10 * (time.size - 1) + 1)
    p = {**AXIS.truth, **plan.values}

    def rate(t: float, x: np.ndarray) -> list[float]:
        return _servo_rate(t, x, np.array([np.interp(t, time, u)]), p)

    x = solve_ivp(rate, (0, time[-1]), [0, 0], t_eval=fine, rtol=1e-10, atol=1e-12, max_step=0.01).y
    acceleration = np.array([rate(t, own)[1] for t, own in zip(fine, x.T, strict=True)])
    for name, values in (("u", u), ("v", x[1]), ("q", x[0]), ("rate", np.diff(u) / np.diff(time)),
                         ("acceleration", acceleration)):
        assert np.max(np.abs(values)) <= limits[name] * (1 + 1e-6)
    assert abs(x[1, -1]) < 1e-4 * np.max(np.abs(x[1]))
    assert all(use.holds for use in plan.constraints)


def test_constraint_that_cannot_be_met_is_named(estimate):
    with pytest.raises(di.NotConverged, match=r"q >= 0\.5"):
        di.design_input(estimate, di.signals.Bernstein(3), constraints=["abs(u) <= 0.5"], duration=0.5, starts=1,
                        terminal_constraints=["q >= 0.5"])


def test_input_without_a_constraint_is_refused(estimate):
    with pytest.raises(di.ProblemError, match="Nothing limits the input 'u'"):
        di.design_input(estimate, di.signals.Bernstein(3))


def test_parameters_that_no_input_can_tell_apart_are_refused():
    model = di.EquationModel(states={"x": "-a*b*x + u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 4, 41)
    run = di.Experiment(time, {"u": 0 * time}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    with pytest.raises(di.ProblemError, match=r"No input can determine a, b: only a\*b is determined"):
        di.design_input(di.Problem(model, [run], [di.Parameter("a", 0.8), di.Parameter("b", 1.0)]),
                        di.signals.PiecewiseConstant(8), constraints=["abs(u) <= 1"])


def test_several_inputs_several_records_and_a_free_duration_run():
    model = di.EquationModel(states={"x": "-a*x + b*u + c*w"}, inputs=["u", "w"], outputs={"y": "x"})
    time = np.linspace(0, 2, 41)
    run = di.Experiment(time, {"u": 0 * time, "w": 0 * time}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 0.0})
    problem = di.Problem(model, [run], [di.Parameter(n, 1.0) for n in "abc"])
    constraints = ["abs(u) <= 1", "abs(w) <= 1"]
    one = di.design_input(problem, {"u": di.signals.PiecewiseConstant(6), "w": di.signals.Multisine(3)},
                          constraints=constraints, use_records=False)
    two = di.design_input(problem, di.signals.PiecewiseConstant(6), constraints=constraints, records=2, use_records=False)
    assert len(two.records) == 2 and two.cost < one.cost
    free = di.design_input(problem, di.signals.PiecewiseConstant(6), constraints=constraints, duration=(1.0, 3.0),
                           use_records=False)
    assert free.record.duration == pytest.approx(3.0, abs=0.06)  # longer always tells more


@pytest.mark.parametrize("robust", ["average", "worst"])
def test_robust_plan_is_better_where_the_belief_is_wrong(robust):
    """Decay at an unknown rate: one sampling place for k from 0.2 to 2; judged by the worst of them."""
    problem = static_problem("exp(-k*u)", {"k": 0.5}, (0.1, 9))

    def worst_std(plan: di.Plan) -> float:
        u = plan.inputs["u"]
        return max(0.1 / np.linalg.norm(u * np.exp(-k * u)) / k for k in (0.2, 0.5, 1.0, 2.0))

    options = {"constraints": ["0.01 <= u <= 10"], "use_records": False}
    local = di.design_input(problem, di.signals.PiecewiseConstant(2), "D", **options)
    wide = di.design_input(problem, di.signals.PiecewiseConstant(2), "D", robust=robust, box={"k": (0.2, 2.0)},
                           samples=6, **options)
    assert worst_std(wide) < worst_std(local)


# derivatives


CRITERIA = {"D": di.criteria.d_optimal(), "A": di.criteria.a_optimal(), "E": di.criteria.e_optimal(),
            "modified E": di.criteria.modified_e_optimal(), "std": di.criteria.smallest_std("Fc"),
            "selective": di.criteria.Selective("Fc", lambda t: 0.1 * t, {"Fc": 0.1, "Fv": 1e-3}, 0.01, 0.1)}
SIGNALS = {"bernstein": (di.signals.Bernstein(5), 1.0), "multisine": (di.signals.Multisine(3), 1.0),
           "constant": (di.signals.PiecewiseConstant(5), 1.0), "linear, free time": (di.signals.PiecewiseLinear(5), (0.5, 1.0)),
           "chirp, free time": (di.signals.Chirp(0.5, 5), (0.5, 1.0)), "binary": (di.signals.Binary(4), 1.0)}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("signal", SIGNALS)
def test_derivatives_are_those_of_central_differences(estimate, criterion, signal):
    if criterion == "selective" and "free" in signal:
        pytest.skip("the selective cost has a fixed time")
    shape, duration = SIGNALS[signal]
    problem = build_design_problem(parse_arguments(
        estimate, shape, CRITERIA[criterion], ["abs(u) <= 3", "abs(v) <= 0.5", "abs(der_u) <= 50", "abs(der_v) <= 5"],
        ["q == 0"], DesignOptions(duration=duration)))
    nlp = DesignNlp(problem, problem.simulation, problem.constraints,
                    first_constraint_points(problem.constraints, problem.inputs.samples))
    w, h = draw_start(problem, problem.simulation, problem.generator()), 1e-6
    exact = nlp.evaluate(w)
    plus, minus = ([nlp.evaluate(w + sign * h * e) for e in np.eye(w.size)] for sign in (1, -1))
    slope = np.array([(a.value - b.value) / (2 * h) for a, b in zip(plus, minus, strict=True)])
    rows = np.array([(a.constraints - b.constraints) / (2 * h) for a, b in zip(plus, minus, strict=True)]).T
    rounding = 1e-3 if criterion == "modified E" else 1e-5  # differences of a condition number of 1e10 keep few digits
    assert np.allclose(exact.gradient, slope, atol=rounding * np.max(np.abs(slope)))
    assert np.allclose(exact.jacobian, rows, atol=1e-6 * np.max(np.abs(rows)))


def test_motion_profile_moves_from_rest_to_rest_within_its_bounds():
    """The input is the velocity of a cart that carries a pendulum of unknown length and damping."""
    model = di.EquationModel(states={"x": "u", "angle": "rate", "rate": "-p*angle - d*rate - k*u"}, inputs=["u"],
                             outputs={"angle": "angle"})
    time = np.linspace(0, 4, 81)
    run = di.Experiment(time, {"u": 0 * time}, {"angle": 0 * time}, {"angle": di.Gaussian(0.01)},
                        {"x": 0.0, "angle": 0.0, "rate": 0.0})
    problem = di.Problem(model, [run], [di.Parameter("p", 9.0), di.Parameter("d", 0.3), di.Parameter("k", 1.0)])
    shape = di.signals.MotionProfile(jerk=5.0, acceleration=1.0, velocity=0.5, pieces=12)
    plan = di.design_input(problem, shape, constraints=["abs(x) <= 0.4"], use_records=False, starts=2)
    u, h = plan.inputs["u"], plan.time[1]
    acceleration = np.diff(u) / h
    assert np.max(np.abs(u)) <= 0.5 * (1 + 1e-6)
    assert np.max(np.abs(acceleration)) <= 1.0 * (1 + 1e-6)
    assert np.max(np.abs(np.diff(acceleration) / h)) <= 5.0 * (1 + 1e-6)
    assert abs(u[0]) < 1e-9 and abs(u[-1]) < 1e-5
    assert np.all(np.isfinite(list(plan.std_after.values())))


def test_selective_weights_of_the_paper_are_squared_ranges():
    cost = di.criteria.Selective.over("Fv", {"Fv": (100.0, 300.0), "M": (80.0, 90.0)}, kappa_u=0.1)
    assert cost.kappa == {"Fv": 4e4, "M": 100.0} and cost.parameter == "Fv" and cost.kappa_u == 0.1
