"""Claims about least squares on simulations: workers change nothing, a search helps, noise is said."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import dynident as di
from dynident.black_box.evaluation_cache import EvaluationCache
from dynident.errors import SimulationDiverged, SimulatorLost
from dynident.integrators.grid import grid_of
from dynident.transcription.simulators import simulator_for

MODEL = di.library.mass_spring_damper()
TRUE = {"m": 2.0, "d": 0.5, "k": 3.0}
T = np.linspace(0.0, 10.0, 301)
U = np.sign(np.sin(T))


def problem(start=1.0, noise=1e-3, **bounds):
    clean = di.simulate(MODEL, {**TRUE, "x(0)": 0, "v(0)": 0}, di.Experiment(T, {"F": U})).outputs["position"]
    y = clean + noise * np.random.default_rng(0).normal(size=T.size)
    record = di.Experiment(T, {"F": U}, {"position": y}, {"position": di.Gaussian(noise)}, {"x": 0, "v": 0})
    return di.Problem(MODEL, [record], [di.Parameter(n, start=start, **(bounds or {"lower": 0.01})) for n in TRUE])


def test_it_agrees_with_exact_derivatives():
    exact = di.identify(problem(), di.single_shooting(), progress=False)
    found = di.identify(problem(), di.least_squares(), progress=False)
    for name in TRUE:
        std = exact.uncertainty.std(name)
        assert abs(found.values[name] - exact.values[name]) < 1e-4 * std  # ten times the solver's own tolerance
        assert found.uncertainty.std(name) == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)],
                         ids=["threads", "processes"])
def test_workers_change_no_number(make):
    alone = di.identify(problem(), di.least_squares(), progress=False)
    with make() as pool:
        together = di.identify(problem(), di.least_squares(), executor=pool, progress=False)
    assert dict(together.values) == dict(alone.values)


def test_a_simulation_that_diverges_in_another_process_is_a_failed_trial():
    """Nothing else: the pool goes on, and the reason is the same as here."""
    asked = problem()
    simulator = simulator_for(MODEL, "runge_kutta", ())
    grids = [grid_of(MODEL, asked.experiments[0])]
    rows = [np.array(list(TRUE.values())), np.array([1e-9, 0.5, 3.0])]
    alone = EvaluationCache(asked, simulator).outputs(rows, grids)
    with ProcessPoolExecutor(1) as pool:
        there = EvaluationCache(asked, simulator, pool).outputs(rows, grids)
    assert np.array_equal(there[0][0], alone[0][0], equal_nan=True)
    assert isinstance(there[1], SimulationDiverged) and str(there[1]) == str(alone[1])


def test_a_search_needs_bounds_and_leads_out_of_a_wrong_valley():
    with pytest.raises(di.ProblemError, match="give lower and upper for m, d, k"):
        di.identify(problem(), di.least_squares(global_search=100), progress=False)
    wide = {"lower": 0.01, "upper": 40.0}
    found = di.identify(problem(start=39.0, **wide), di.least_squares(global_search=1500), progress=False)
    assert found.statistics["reduced_chi2"] < 1.2
    assert any("not proved to be the global one" in note for note in found.notes)


def ends_after(monkeypatch, count, error):
    """A simulator that raises in the place of one simulation; the costs that the search has seen until then."""
    from dynident.black_box.setup import BlackBoxProblem
    from dynident.transcription.simulators import EquationSimulator

    run, evaluate, made, costs = EquationSimulator.run, BlackBoxProblem.evaluate, [], []

    def simulated(self, *asked):
        made.append(asked)
        if len(made) == count:
            raise error
        return run(self, *asked)

    def evaluated(self, point):
        found = evaluate(self, point)
        if len(made) < count:
            costs.append(found.cost)
        return found

    monkeypatch.setattr(EquationSimulator, "run", simulated)
    monkeypatch.setattr(BlackBoxProblem, "evaluate", evaluated)
    return costs


SEARCHED = {"lower": 0.01, "upper": 40.0}


def test_ctrl_c_during_a_search_keeps_its_best_as_a_result(monkeypatch):
    costs = ends_after(monkeypatch, 60, KeyboardInterrupt())
    with pytest.raises(di.NotConverged) as stopped:
        di.identify(problem(start=39.0, **SEARCHED), di.least_squares(global_search=1500), progress=False)
    kept = stopped.value.estimate
    assert kept.status.code == "interrupted" and kept.counts["interrupted"]
    assert kept.cost == pytest.approx(min(costs), rel=1e-9) and kept.cost < 0.9 * costs[0]
    assert all(np.isfinite(kept.uncertainty.std(name)) for name in TRUE)
    assert any("stopped by the user; this is the best of its" in note for note in kept.notes)


def test_a_simulator_that_is_lost_during_a_search_leaves_its_best_values(monkeypatch):
    costs = ends_after(monkeypatch, 60, SimulatorLost("the pump.fmu was given up."))
    with pytest.raises(SimulatorLost, match=r"given up\. The best of \d+ simulations of the search was at m = ") as lost:
        di.identify(problem(start=39.0, **SEARCHED), di.least_squares(global_search=1500), progress=False)
    assert f"(cost {min(costs):.6g})" in str(lost.value)


@pytest.mark.parametrize(("error", "said"), [(KeyboardInterrupt(), "Stopped by the user while the fit was looked at"),
                                             (SimulatorLost("it was given up."), "more exactly: it was given up.")])
def test_what_ends_a_second_fit_does_not_take_the_first_along(monkeypatch, error, said):
    """A tighter solver inside is asked for, and the fit with it does not come to its first point."""
    from dynident.black_box import run as black_box
    from dynident.black_box.solver_error import SolverError

    plain, fit, fits = di.identify(problem(), di.least_squares(), progress=False), black_box.fit, []

    def first_alone(*asked):
        fits.append(asked)
        if len(fits) == 2:
            raise error
        return fit(*asked)

    monkeypatch.setattr(black_box, "fit", first_alone)
    monkeypatch.setattr(black_box, "check_solver", lambda transcription, estimate: SolverError(transcription, ("tightened",)))
    kept = di.identify(problem(), di.least_squares(), progress=False)
    assert len(fits) == 2 and dict(kept.values) == dict(plain.values) and kept.converged
    assert any(said in note for note in kept.notes) and "tightened" not in kept.notes
    assert bool(kept.counts.get("interrupted")) == isinstance(error, KeyboardInterrupt)


def test_a_noisy_simulation_ends_at_its_noise_and_says_so(monkeypatch):
    """A solver with loose tolerances inside: repeatable, but rough in the parameters."""
    from dynident.transcription import simulators

    plain = simulators.EquationSimulator.run

    def rough(self, p, x0, grid, states=False):
        outputs, reached = plain(self, p, x0, grid, states)
        seed = abs(hash(p.tobytes())) % 2**32
        return outputs + 1e-6 * np.random.default_rng(seed).normal(size=outputs.shape), reached

    monkeypatch.setattr(simulators.EquationSimulator, "run", rough)
    found = di.identify(problem(), di.least_squares(substeps=1), progress=False)
    exact = di.identify(problem(), di.single_shooting(), progress=False)
    for name in TRUE:  # the noise of the simulation is a thousandth of that of the data
        assert abs(found.values[name] - exact.values[name]) < 0.1 * exact.uncertainty.std(name)
        assert found.uncertainty.std(name) == pytest.approx(exact.uncertainty.std(name), rel=0.01)
