"""Is any function that simulates a model, with derivatives by differences or its own, in process or isolated?"""

import pickle
import shutil

import numpy as np
import pytest
import simulators

import dynident as di

T = np.linspace(0, 5, 40)
TRUTH = {"a": 2.0, "k": 0.7, "c": 0.3}
CLEAN = 2.0 * np.exp(-0.7 * T) + 0.3
NAMES = ["a", "k", "c"]
STARTS = [di.Parameter("a", 1, lower=0.01, upper=10), di.Parameter("k", 1.2, lower=0.01, upper=5),
          di.Parameter("c", 0, lower=-3, upper=3)]


def measured(clean=CLEAN, name="y", std=0.01, time=T, **more):
    return di.Experiment(time, outputs={name: clean + std * np.random.default_rng(0).normal(size=len(clean))},
                         noise={name: di.Gaussian(std)}, **more)


def decay_problem(simulate=simulators.decay, jacobian=None, **options):
    return di.Problem(di.SimulatorModel(simulate, NAMES, ["y"], jacobian, **options), [measured()], STARTS)


def holds(estimate, truth):
    for name, value in truth.items():
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low < value < high


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("jacobian", [None, simulators.decay_jacobian, simulators.decay_jacobian_by_name])
def test_a_simulator_gives_the_estimate_of_the_equations(isolated, jacobian):
    estimate = di.identify(decay_problem(jacobian=jacobian, isolated=isolated), "least_squares", progress=False)
    equations = di.EquationModel(states={}, inputs=["time"], outputs={"y": "a*exp(-k*time) + c"})
    same = di.identify(di.Problem(equations, [measured(inputs={"time": T})], STARTS), "single_shooting", progress=False)
    for name in NAMES:
        assert estimate.values[name] == pytest.approx(same.values[name], abs=1e-5)
        assert estimate.uncertainty.std(name) == pytest.approx(same.uncertainty.std(name), rel=1e-3)
    assert any("are the model's own" in note for note in estimate.notes) == (jacobian is not None)


def test_a_wrong_jacobian_is_found_out_and_not_used():
    estimate = di.identify(decay_problem(jacobian=simulators.wrong_jacobian), "least_squares", progress=False)
    holds(estimate, TRUTH)
    assert any("k" in note and "differences" in note for note in estimate.notes)


def test_automatic_believes_it_and_climbs_to_it():
    plain = di.identify(decay_problem(), progress=False)
    assert plain.believed
    holds(plain, TRUTH)
    t = np.linspace(0, 10, 60)
    waves = di.Problem(di.SimulatorModel(simulators.waves, ["w"], ["y"]), [measured(np.sin(3.1 * t), time=t)],
                       [di.Parameter("w", 0.5, lower=0.1, upper=6)])
    estimate = di.identify(waves, progress=False)  # full of local minima
    assert estimate.values["w"] == pytest.approx(3.1, abs=0.01) and estimate.believed
    assert estimate.arrived_by != "plain"


def test_a_noisy_adaptive_solver_with_inputs_is_fitted():
    force, t = np.repeat(np.random.default_rng(1).normal(size=10), 10), np.arange(0, 10, 0.1)
    model = di.SimulatorModel(simulators.oscillator, ["k", "d", "q0"], ["q"], inputs=["f"], starts={"q0": 0.1})
    truth = {"k": 4.0, "d": 0.5, "q0": 0.4}
    clean = di.simulate(model, truth, di.Experiment(t, {"f": force})).outputs["q"]
    e = measured(clean, "q", 0.01, t, inputs={"f": force})
    estimate = di.identify(di.Problem(model, [e], [di.Parameter("k", 3), di.Parameter("d", 0.2), di.Parameter("q0")]),
                           progress=False)
    holds(estimate, truth)


def test_profiles_bootstrap_and_combinations_work_on_it():
    estimate = di.identify(decay_problem(), "least_squares", progress=False)
    profile, refits = di.profile(estimate, "k"), di.bootstrap(estimate, repeats=40)
    assert profile.interval("k") == pytest.approx(estimate.uncertainty.interval("k"), rel=0.02)
    assert refits.std("k") == pytest.approx(estimate.uncertainty.std("k"), rel=0.35)
    twins = di.SimulatorModel(simulators.product, ["a", "b", "k"], ["y"])
    free = di.identify(di.Problem(twins, [measured(2 * np.exp(-0.7 * T))], [
        di.Parameter("a", 1, lower=0.1), di.Parameter("b", 1, lower=0.1), di.Parameter("k", 1)]),
        "least_squares", progress=False)
    assert any("a*b" in words for words in free.uncertainty.combinations)
    assert any("a*b" in str(finding) for finding in di.check(free.problem).findings)


def test_what_a_simulator_raises_rejects_the_values():
    estimate = di.identify(decay_problem(simulators.raises), "least_squares", progress=False)
    holds(estimate, TRUTH)
    beyond = decay_problem(simulators.raises).replace(parameters=[STARTS[0], di.Parameter("k", 2.0), STARTS[2]])
    with pytest.raises(di.ProblemError, match="the simulator raised ValueError: the solver gave up"):
        di.identify(beyond, "least_squares", progress=False)


@pytest.mark.parametrize("simulate, options", [(simulators.crashes, {}), (simulators.hangs, {"time_limit": 2.0})])
def test_a_crash_or_a_hang_in_isolation_rejects_the_values(simulate, options):
    model = di.SimulatorModel(simulate, NAMES, ["y"], isolated=True, **options)
    assert di.simulate(model, TRUTH, di.Experiment(T)).outputs["y"] == pytest.approx(CLEAN)
    with pytest.raises(di.ProblemError, match=r"its process ended \(code 3\)|gave no answer in 2 s"):
        di.simulate(model, TRUTH | {"k": 2.0}, di.Experiment(T))


def test_a_simulator_that_is_lost_again_and_again_is_given_up():
    problem = decay_problem(simulators.always_crashes, isolated=True)
    with pytest.raises(di.DynidentError, match=r"its process ended|given up"):
        di.identify(problem, "least_squares", progress=False)


@pytest.mark.parametrize("returned, words", [
    (lambda t, u, p: t, "returned a ndarray; return a dict"), (lambda t, u, p: {"z": t}, "returned no 'y', but z"),
    (lambda t, u, p: {"y": t[1:]}, r"of shape \(39,\), but \(40,\)"),
    (lambda t, u, p: {"y": p.kk + t}, "Did you mean 'k'"),
    (lambda t, u, p: {"y": t * np.nan}, "output 'y' is not finite")])
def test_a_function_that_returns_something_else_is_told(returned, words):
    with pytest.raises((di.ProblemError, AttributeError), match=words):
        di.simulate(di.SimulatorModel(returned, NAMES, ["y"]), TRUTH, di.Experiment(T))


@pytest.mark.parametrize("given, words", [
    ({"simulate": 3}, "cannot be called"), ({"outputs": []}, "needs an output"),
    ({"inputs": ["k"]}, "as parameter and as input"),
    ({"time_limit": 0}, "positive number of seconds"), ({"starts": {"q": 1}}, "not a parameter"),
    ({"parameters": "k"}, "is a list of names")])
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(di.ProblemError, match=words):
        di.SimulatorModel(**{"simulate": simulators.decay, "parameters": NAMES, "outputs": ["y"], **given})


def test_methods_that_need_equations_say_so():
    with pytest.raises(di.NotSupported, match="an FMU whose state can be set, not SimulatorModel"):
        di.identify(decay_problem(), "multiple_shooting", progress=False)


def test_it_travels_and_is_saved_without_its_code(tmp_path):
    problem = decay_problem(jacobian=simulators.decay_jacobian)
    there = pickle.loads(pickle.dumps(problem.model))
    assert di.simulate(there, TRUTH, di.Experiment(T)).outputs["y"] == pytest.approx(CLEAN)
    estimate = di.identify(problem, "least_squares", progress=False)
    loaded = di.load(estimate.save(tmp_path / "result"))
    assert loaded.values == estimate.values and loaded.notes == estimate.notes
    with pytest.raises(di.NotSupported, match=r"simulators.py:decay is code"):
        di.identify(loaded.problem, "least_squares", progress=False)


def test_a_problem_file_names_its_code(tmp_path):
    shutil.copy(simulators.__file__, tmp_path / "simulators.py")
    np.savetxt(tmp_path / "run.csv", np.column_stack([T, measured().outputs["y"]]), delimiter=",", header="t,y", comments="")
    (tmp_path / "it.toml").write_text(
        '[model]\nsimulator = { simulate = "simulators.py:decay", jacobian = "simulators.py:decay_jacobian" }\n'
        'parameters = ["a", "k", "c"]\noutputs = ["y"]\n[[experiment]]\nfile = "run.csv"\ntime = "t"\noutputs = ["y"]\n'
        "[parameters]\na = { start = 1 }\nk = { start = 1 }\nc = { start = 0 }\n")
    trusted = di.read_problem(tmp_path / "it.toml", allow_code=True).problem
    holds(di.identify(trusted, progress=False), TRUTH)
    with pytest.raises(di.NotSupported, match="allow_code=True"):
        di.identify(di.read_problem(tmp_path / "it.toml").problem, progress=False)


def test_a_simulator_in_jax_brings_its_jacobian():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp = jax.numpy

    def outputs(values, t):
        return values[0] * jnp.exp(-values[1] * t) + values[2]

    def simulate(t, u, p):
        return {"y": outputs(jnp.array(p[:]), t)}

    def jacobian(t, u, p):
        return {"y": jax.jacfwd(outputs)(jnp.array(p[:]), t)}

    estimate = di.identify(decay_problem(simulate, jacobian), "least_squares", progress=False)
    holds(estimate, TRUTH)
