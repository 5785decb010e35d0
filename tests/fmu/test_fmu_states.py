"""Claims about FMUs whose state can be set: shooting in segments and filters run on them as they do on equations."""

from __future__ import annotations

import numpy as np
import pytest
import reference_fmus as made
from fmu_makers import LAG, LAG_VALUES, bouncing_ball, exported, needs_compiler, tampered
from reference_fmus import reference_fmu
from test_fmu_twins import assert_same_bits, by_both

import dynident as di
from dynident.integrators import integrator_named
from dynident.integrators.grid import grid_of
from dynident.kalman.export_c import export_filter
from dynident.transcription.shooting import Shooting

pytestmark = needs_compiler
T = np.linspace(0, 3, 61)
U = {"u": np.sign(np.sin(3 * T))}
NOISE = 0.01
KINDS = pytest.mark.parametrize("kind", ["model_exchange", "co_simulation"])
UNKNOWNS = [di.Parameter("gain", start=1.5, lower=0.1, upper=10), di.Parameter("tau", start=0.8, lower=0.1, upper=10)]


def record(hold="linear"):
    clean = di.simulate(LAG, {**LAG_VALUES, "x(0)": 0.3}, di.Experiment(T, U, hold=hold)).outputs["y"]
    noisy = clean + NOISE * np.random.default_rng(3).normal(size=T.size)
    return di.Experiment(T, U, {"y": noisy}, {"y": di.Gaussian(NOISE)}, initial={"x": 0.3}, hold=hold)


def problem(model, **changes):
    return di.Problem(model, [record()], UNKNOWNS, **changes)


def lag(kind="model_exchange", **options):
    return di.FmuModel(exported(LAG, {**LAG_VALUES, "x(0)": 0.3}), kind=kind, **options)


@KINDS
@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.multiple_shooting(segments=3)],
                         ids=["single", "multiple", "three"])
def test_shooting_finds_what_least_squares_finds(kind, method):
    whole, cut = (di.identify(problem(lag(kind)), how, progress=False) for how in (di.least_squares(), method))
    assert cut.converged
    for name in ("gain", "tau"):
        error = whole.uncertainty.std(name)
        assert cut.values[name] == pytest.approx(whole.values[name], abs=0.01 * error)
        assert cut.uncertainty.std(name) == pytest.approx(error, rel=1e-3)


def test_segments_have_the_sensitivities_of_the_equations():
    run = record()
    open_start = di.Experiment(T, U, dict(run.outputs), dict(run.noise))
    unknowns = [*UNKNOWNS, di.InitialState("x", start=0.3)]
    of_equations, of_fmu = (Shooting(di.Problem(model, [open_start], unknowns), integrator_named("runge_kutta"), [4], 2, {})
                            for model in (LAG, lag()))
    at = of_equations.start()
    exact, differences = (finite.run(at, True)[0] for finite in (of_equations, of_fmu))
    for field in ("states", "outputs", "end_states", "jacobian", "end_jacobian"):
        np.testing.assert_allclose(getattr(differences, field), getattr(exact, field), rtol=1e-7, atol=1e-8, err_msg=field)


def test_nodes_begin_at_outputs_that_are_states():
    """'y' is another name of the state here, as the value references say."""
    model = di.FmuModel(reference_fmu(made.VAN_DER_POL, 2))
    assert dict(model.shown_states) == {"x0": "x0", "x1": "x1"}
    t = np.linspace(0, 8, 161)
    y = di.simulate(model, {}, di.Experiment(t)).outputs
    run = di.Experiment(t, {}, {n: y[n] for n in ("x0", "x1")}, {n: di.Gaussian(0.01) for n in ("x0", "x1")},
                        initial={"x0": 2.0, "x1": 0.0})
    far = di.Problem(model, [run], [di.Parameter("mu", start=8.0, lower=0)])
    found = di.identify(far, di.multiple_shooting(), progress=False)
    assert found.values["mu"] == pytest.approx(1.0, abs=1e-3)


FILTERS = {"extended": di.kalman(process_noise={"x": 0.01}), "iterated": di.kalman(filter="iterated", process_noise={}),
           "unscented": di.kalman(filter="unscented", process_noise={"x": 0.01}),
           "square_root": di.kalman(covariance_update="square_root", process_noise={}, passes=2),
           "smoother": di.kalman(smoother=True, process_noise={"x": 0.01}),
           "transformed": di.kalman(bound_handling="transform", process_noise={}),
           "horizon": di.moving_horizon(horizon=4, process_noise={"x": 0.01})}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_on_an_fmu_is_the_filter_on_its_equations(name):
    of_equations, of_fmu = (di.identify(problem(model), FILTERS[name], progress=False) for model in (LAG, lag()))
    for unknown in ("gain", "tau"):
        error = of_equations.uncertainty.std(unknown)
        assert of_fmu.values[unknown] == pytest.approx(of_equations.values[unknown], abs=1e-4 * error)
        assert of_fmu.uncertainty.std(unknown) == pytest.approx(error, rel=1e-4)
    np.testing.assert_allclose(of_fmu.trajectories[0].states["x"], of_equations.trajectories[0].states["x"], atol=1e-6)


def test_a_filter_on_co_simulation_errs_by_no_more_than_the_solver_inside_and_says_so():
    of_equations, of_fmu = (di.identify(problem(model), FILTERS["extended"], progress=False)
                            for model in (LAG, lag("co_simulation")))
    for unknown in ("gain", "tau"):
        error = of_equations.uncertainty.std(unknown)
        assert of_fmu.values[unknown] == pytest.approx(of_equations.values[unknown], abs=0.1 * error)
    assert any("solver inside was taken at its word" in note for note in of_fmu.notes)


def test_process_noise_is_estimated_on_an_fmu():
    whole = record()
    short = di.Experiment(T[:25], {"u": U["u"][:25]}, {"y": whole.outputs["y"][:25]}, {"y": di.Gaussian(NOISE)},
                          initial={"x": 0.3})
    few = [di.Problem(model, [short], UNKNOWNS) for model in (LAG, lag())]
    of_equations, of_fmu = (di.identify(each, di.kalman(), progress=False) for each in few)
    assert of_fmu.values["tau"] == pytest.approx(of_equations.values["tau"], abs=0.01 * of_equations.uncertainty.std("tau"))


def test_an_fmu_is_filtered_online():
    asked, method = problem(lag()), FILTERS["extended"]
    batch = di.identify(asked, method, progress=False)
    online = method.start(asked)
    for k, t in enumerate(T):
        last = online.update(t, U["u"][k], {"y": asked.experiments[0].outputs["y"][k]})
    assert last.parameters["tau"] == pytest.approx(batch.values["tau"], rel=1e-12)


def test_a_filter_of_an_fmu_is_not_written_as_c(tmp_path):
    found = di.identify(problem(lag()), FILTERS["extended"], progress=False)
    with pytest.raises(di.NotSupported, match="shows none"):
        export_filter(found, tmp_path)


# states and initialisation


@pytest.mark.parametrize("compiled", [True, False])
def test_states_hold_whatever_initialisation_makes_of_start_values(compiled, monkeypatch):
    """An FMU that finds its own initial state, as from a state of rest, still begins a segment with the state it is given."""
    own = tampered("rest", {"fmi2ExitInitializationMode(Instance c) { (void)c; return OK; }":
                            "fmi2ExitInitializationMode(Instance c) { M->v[0] = 7.0; M->fresh = 0; return OK; }"})
    if not compiled:
        monkeypatch.setenv("DYNIDENT_CC", "none")
    model = di.FmuModel(own, trusted=True)
    grid = grid_of(model, di.Experiment(T, U), 1, True)
    p, x = np.array([2.0, 0.5]), np.array([0.3])
    begins = [make(("gain", "tau", "x"), "runge_kutta").run(p, x, grid, True)[1][0, 0]
              for make in (model.record_simulator, model.segment_simulator)]
    assert begins == [7.0, 0.3]


def test_segments_of_a_bouncing_ball_in_both_loops(monkeypatch):
    """From a state in the middle of the flight, past the next bounce."""
    model = di.FmuModel(reference_fmu(made.BALL, 2), trusted=True)
    grid = grid_of(model, di.Experiment(np.linspace(0.2, 1.0, 17)), 2, True)

    def states():
        return model.segment_simulator((), "runge_kutta").run(np.array([-9.81, 0.7]), np.array([0.5, -1.0]), grid, True)[1]

    found = by_both(monkeypatch, states)
    assert_same_bits(found)
    assert found[0][0].tolist() == [0.5, -1.0] and np.any(found[0][:, 1] > 0)


def test_a_kick_ahead_of_a_segment_comes(monkeypatch):
    """A time event that initialisation announces."""
    model = di.FmuModel(bouncing_ball(), trusted=True)
    grid = grid_of(model, di.Experiment(np.linspace(1.4, 1.6, 9)), 2, True)

    def states():
        return model.segment_simulator((), "runge_kutta").run(np.zeros(3), np.array([5.0, 0.0]), grid, True)[1]

    found = by_both(monkeypatch, states)
    assert_same_bits(found)
    assert found[0][-1, 1] == pytest.approx(-9.81 * 0.2 + 1.0)


# refusals


@pytest.mark.parametrize("method", [di.multiple_shooting(), di.single_shooting(), di.kalman(), di.moving_horizon()],
                         ids=lambda m: m.kind)
def test_an_fmu_that_remembers_more_than_its_states_is_refused(method):
    model = di.FmuModel(reference_fmu(made.WHEEL, 3))
    run = di.Experiment(T, {}, {"angle": np.mod(5 * T, 1.0)}, {"angle": di.Gaussian(0.1)}, initial={"angle": 0.0})
    with pytest.raises(di.NotSupported, match=r"Wheel\.fmu remembers more than its states: 'turns' is discrete"):
        di.identify(di.Problem(model, [run], [di.Parameter("speed", start=4.0)]), method, progress=False)


@pytest.mark.parametrize("method", [di.full_discretization(), di.prediction_error(), di.boundary_value(), di.set_membership()],
                         ids=lambda m: m.kind)
def test_methods_that_read_equations_refuse_every_fmu(method):
    with pytest.raises(di.NotSupported, match="equations"):
        di.identify(problem(lag()), method, progress=False)


def test_a_simulator_of_ones_own_has_no_states_to_set():
    model = di.SimulatorModel(lambda t, u, p: {"y": p.a * t}, parameters=["a"], outputs=["y"])
    run = di.Experiment(T, {}, {"y": 2 * T}, {"y": di.Gaussian(0.1)})
    with pytest.raises(di.NotSupported, match="no states that could be set"):
        di.identify(di.Problem(model, [run], [di.Parameter("a", start=1.0)]), di.kalman(), progress=False)
