"""Claims about FMUs that crash or hang: what was found stays, what can be repeated is repeated, nothing is tried in vain."""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler, tampered

import dynident as di
from dynident.cli import main
from dynident.fmu.process import IsolatedSimulator
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
T = np.linspace(0.0, 5.0, 101)
U = np.sin(3 * T)
RATE = "model_rate(M, M->v[AT_T], M->v, dx);"
CRASH = "*(volatile int *)0 = 1;"
FREE = "EXPORT void fmi2FreeInstance(Instance c) {"
BEGIN = "EXPORT int fmi2EnterInitializationMode(Instance c) {"
DECLARED = "typedef void *Instance;"
UNKNOWNS = [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0)]


def record():
    y = di.simulate(di.FmuModel(exported(), outputs=["y"]), {}, di.Experiment(T, {"u": U})).outputs["y"]
    return di.Experiment(T, {"u": U}, {"y": y + 0.01 * np.random.default_rng(0).normal(size=T.size)})


def fit(path, **options):
    return di.identify(di.Problem(di.FmuModel(path, outputs=["y"], **options), [record()], UNKNOWNS), progress=False)


def simulated(path, gains):
    model = di.FmuModel(path)
    made, grid = model.simulator(("gain",)), grid_of(model, di.Experiment(T, {"u": U}), 1, True)
    return [made.run(np.array([gain]), grid)[0] for gain in gains], made.notes


@pytest.mark.parametrize(("name", "changes"), [
    ("free", {FREE: f"{FREE} {CRASH}"}),
    ("seventh", {DECLARED: f"{DECLARED} static int calls;", BEGIN: f"{BEGIN} if (++calls > 6) {CRASH}"})])
def test_a_crash_of_a_used_process_is_repeated_in_a_fresh_one(name, changes):
    gains = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]
    found, notes = simulated(tampered(name, changes), gains)
    wanted, calm = simulated(exported(), gains)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert any("but not in a fresh one: its process is replaced" in note for note in notes)
    assert not any("process" in note for note in calm)


def test_crashes_in_the_middle_of_a_fit_leave_the_best_point(tmp_path):
    """Between the start and the optimum the FMU crashes, and so it does at the first three steps."""
    wall = tampered("wall", {RATE: f"if (M->v[AT_P + 1] < 0.47) {CRASH} {RATE}"})
    with pytest.raises(di.NotConverged, match=r"wall\.fmu failed at 3 different points") as stopped:
        fit(wall)
    estimate = stopped.value.estimate
    assert not estimate.converged and set(estimate.values) == {"gain", "tau"}
    estimate.save(tmp_path / "best")
    assert di.load(tmp_path / "best", allow_code=True).values == estimate.values


def test_crashes_everywhere_around_the_start_are_said_and_not_dressed_up():
    """The start itself can be simulated, but nothing beside it."""
    island = tampered("island", {RATE: f"if (M->v[AT_P + 1] != 1 || M->v[AT_P] != 1) {CRASH} {RATE}"})
    with pytest.raises(di.DynidentError, match=r"island\.fmu .*crashed") as stopped:
        fit(island)
    assert getattr(stopped.value, "estimate", None) is None


@pytest.mark.parametrize("deed", ["for (;;);", CRASH])
def test_what_hangs_or_crashes_at_the_start_is_tried_once(deed, monkeypatch):
    tried = []
    run = IsolatedSimulator._run
    monkeypatch.setattr(IsolatedSimulator, "_run", lambda it, *told: (tried.append(told), run(it, *told))[1])
    path = tampered("lost", {RATE: f"{deed} {RATE}"})
    problem = di.Problem(di.FmuModel(path, outputs=["y"], time_limit=1.0), [record()], UNKNOWNS)
    for ask in (lambda: di.identify(problem, progress=False), lambda: di.simulate(problem.model, {}, problem.experiments[0])):
        tried.clear()
        with pytest.raises(di.ProblemError, match=r"did not answer within 1 s|crashed \(Segmentation fault\)"):
            ask()
        assert len(tried) == 1


def test_directional_derivatives_that_are_only_claimed_are_done_without():
    claims = tampered("claims", {"EXPORT int fmi2GetDirectionalDerivative": "static int unused"})
    estimate = fit(claims)
    assert estimate.converged
    assert any("lacks the function fmi2GetDirectionalDerivative" in n and "differences are used" in n for n in estimate.notes)


def test_the_shell_writes_the_best_point_of_a_fit_that_crashed(tmp_path):
    wall = tampered("wall", {RATE: f"if (M->v[AT_P + 1] < 0.47) {CRASH} {RATE}"})
    di.write_problem(di.Problem(di.FmuModel(wall, outputs=["y"]), [record()], UNKNOWNS), None, tmp_path / "problem.toml")
    with pytest.raises(SystemExit) as left:
        main(["fit", str(tmp_path / "problem.toml"), "--out", str(tmp_path / "results"), "--allow-code"])
    assert left.value.code == 1
    assert not di.load(tmp_path / "results", allow_code=True).converged
